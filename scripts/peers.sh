#!/bin/sh
# Sets up the systems that `ronde bench step --peers` measures Ronde beside, each in a virtual environment from PyPI, and
# links their scripts: DIR/pytorch, DIR/tensorflow, DIR/mxnet, DIR/scripts. About 8 GB, since PyPI's PyTorch carries CUDA.
# Usage: peers.sh DIR [NAME...]   (default: all three; one that is there already is left alone)
# PYTHON: 3.9 to 3.11, for which there are wheels of all three (MXNet's last release needs numpy < 1.24).
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
folder=$1
shift
[ $# -gt 0 ] || set -- pytorch tensorflow mxnet
mkdir -p "$folder"
ln -sfn "$root/bench/peers" "$folder/scripts"

for peer in "$@"; do
  case $peer in
    pytorch) packages="torch>=2.15 torchvision transformers numpy" module=torch ;;
    tensorflow) packages="tensorflow-cpu==2.21.* numpy" module=tensorflow ;;
    mxnet) packages="mxnet==1.9.1 numpy<1.24" module=mxnet ;;
    *) echo "peers.sh: no peer is named $peer: pytorch, tensorflow or mxnet" >&2; exit 2 ;;
  esac
  [ -e "$folder/$peer/ready" ] && continue
  rm -rf "${folder:?}/$peer"
  "${PYTHON:-python3}" -m venv "$folder/$peer"
  # shellcheck disable=SC2086
  if ! "$folder/$peer/bin/pip" install --quiet --disable-pip-version-check $packages 2>"$folder/$peer/pip.log"; then
    version=$("$folder/$peer/bin/python" -c 'import platform; print(platform.python_version())')
    reason=$(grep -m 1 '^ERROR: ' "$folder/$peer/pip.log" | cut -c 8-300)
    echo "not to be had for Python $version: ${reason:-pip could not install it}" >"$folder/$peer/missing"
    echo "peers.sh: $peer: $(cat "$folder/$peer/missing")" >&2
    continue
  fi
  TF_CPP_MIN_LOG_LEVEL=3 "$folder/$peer/bin/python" -W ignore -c "import $module; print('$peer', $module.__version__)"
  touch "$folder/$peer/ready"
done
find /lib /usr/lib /usr/local/lib -name 'libtcmalloc_minimal.so*' 2>/dev/null | grep -q . ||
  echo "peers.sh: tcmalloc is not installed, with which PyTorch is faster: apt-get install libtcmalloc-minimal4" >&2

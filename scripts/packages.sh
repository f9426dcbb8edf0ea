# Sourced by demo.sh and check.sh: makes sure that the Debian packages named in $1... are there.

# Which of the named packages are not installed.
missing_packages() {
  for package in "$@"; do
    state=$(dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null) || state=absent
    [ "$state" = installed ] || printf '%s ' "$package"
  done
}

need_packages() {
  if ! command -v dpkg-query >/dev/null 2>&1; then
    for program in cc make cmake pkg-config; do
      command -v $program >/dev/null 2>&1 || {
        echo "ronde: error: no $program, and this is no Debian system: install by hand what these packages hold: $*" >&2
        exit 6
      }
    done
    return 0
  fi
  missing=$(missing_packages "$@")
  [ -n "$missing" ] || return 0
  if [ "$(id -u)" = 0 ]; then
    as_root=
  elif command -v sudo >/dev/null 2>&1 && sudo -n true 2>/dev/null; then
    as_root='sudo -n'
  else
    echo "ronde: error: missing packages, and no right to install them; as root: apt-get install ${missing% }" >&2
    exit 6
  fi
  echo "== installing: ${missing% }" >&2
  apt="$as_root env DEBIAN_FRONTEND=noninteractive apt-get -q -o DPkg::Lock::Timeout=300"
  if ! { $apt update && $apt install -y --no-install-recommends $missing; } >&2; then
    echo "ronde: error: apt-get could not install: ${missing% }" >&2
    exit 6
  fi
}

# What building takes, and what running the tests and the demo takes beside it.
BUILD_PACKAGES="gcc libc6-dev make cmake pkg-config libjansson-dev zlib1g-dev libssl-dev libxxhash-dev libpng-dev libjpeg-dev libsndfile1-dev libsamplerate0-dev libkissfft-dev libcurl4-openssl-dev libopenmpi-dev libprotobuf-c-dev protobuf-c-compiler"
case $(uname -m) in
  x86_64) BUILD_PACKAGES="$BUILD_PACKAGES libxsmm-dev" ;; # has code for no other processor
esac
DATA_PACKAGES="dataset-fashion-mnist"
TEST_PACKAGES="libcmocka-dev openmpi-bin libmp3lame-dev" # the last: what linking libsndfile statically takes

cores() { getconf _NPROCESSORS_ONLN 2>/dev/null || echo 2; }

# What building for aarch64 and running it takes, and the suites whose matter depends on the processor.
CROSS_PACKAGES="gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user"
CROSS_SUITES="kernel_act_test kernel_grouped_test kernel_softmax_test kernel_dispatch_test kernel_dot_test kernel_gemm_test kernel_move_test
kernel_step_test kernel_sum_test kernel_toeplitz_test kernel_window_test kernel_winograd_test kernel_wire_test
conv_forms_test ops_test ops_norm_test ops_special_test dead_taps_test"
CROSS_AREAS="base prof tensor kernel ops graph models" # what these suites link

# Configures folder $1 with the options that follow, quietly unless it fails, and builds it, or only the targets in $targets.
build_into() {
  folder=$1
  shift
  mkdir -p "$folder"
  if ! cmake -S . -B "$folder" -G 'Unix Makefiles' "$@" >"$folder/configure.log" 2>&1; then
    cat "$folder/configure.log" >&2
    echo "ronde: error: cmake failed in $folder" >&2
    return 1
  fi
  if ! make -C "$folder" -j"$(cores)" ${targets:-} >"$folder/build.log" 2>&1; then
    grep -E -A5 'error|Error|undefined' "$folder/build.log" | head -60 >&2
    echo "ronde: error: the build failed; all of it in $folder/build.log" >&2
    return 1
  fi
  grep 'warning:' "$folder/build.log" >&2 || true
}

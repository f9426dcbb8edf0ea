#!/bin/sh
# Builds Ronde and trains LeNet-5 on Fashion-MNIST with two workers. A fresh Debian is all it needs.
# Further options go to `ronde train` and win over the ones here: ./demo.sh --epochs 1 --workers 4
# After Ctrl-C, the same again goes on where it was. It starts afresh where it was at its end, and with further options, as they
# may not fit what is there.
set -eu
cd "$(dirname "$0")"
. scripts/packages.sh
need_packages $BUILD_PACKAGES $DATA_PACKAGES

echo '== building into build/' >&2
build_into build -DCMAKE_BUILD_TYPE=RelWithDebInfo || exit 1

folder=runs/demo
again='--resume auto'
if [ $# -gt 0 ]; then
  folder=runs/demo-own
  again=--overwrite
elif grep -qs '"status": "completed"' "$folder/run.json"; then
  again=--overwrite
fi
set -- --model lenet5 --data fashion-mnist --workers 2 --epochs 5 --batch 64 --optimizer adam --lr 0.002 --lr-schedule cosine "$@"
set -- train --out "$folder" $again "$@"
echo "== build/ronde $*" >&2
exec build/ronde "$@"

#!/bin/sh
# Builds Ronde and trains LeNet-5 on Fashion-MNIST with two workers. A fresh Debian is all it needs.
# Further options go to `ronde train` and win over the ones here: ./demo.sh --epochs 1 --workers 4
set -eu
cd "$(dirname "$0")"
. scripts/packages.sh
need_packages $BUILD_PACKAGES $DATA_PACKAGES

echo '== building into build/' >&2
build_into build -DCMAKE_BUILD_TYPE=RelWithDebInfo || exit 1

set -- --model lenet5 --data fashion-mnist --workers 2 --epochs 5 --batch 64 --optimizer adam --lr 0.002 --lr-schedule cosine "$@"
set -- train --out runs/demo "$@"
echo "== build/ronde $*" >&2
exec build/ronde "$@"

#!/bin/sh
# Measures what docs/studies.md says of each finding of the studies: about 20 minutes on two idle cores, with all peers. Each comparison
# goes on where it was broken off. Prints the answers, and leaves OUT/report.html.
# Usage: findings.sh OUT   (RONDE: the program, build/ronde; PEERS: the folder of `make peers`, peers; DRY=1: only what would be run)
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
[ $# -eq 1 ] || { sed -n '2,5s/^# *//p' "$0" >&2; exit 2; }
out=$1 ronde=${RONDE:-$root/build/ronde} peers=${PEERS:-$root/peers}
mkdir -p "$out"

# NAME WORDS of compare; exit code 7, not the same work, is an answer too
compare() {
  name=$1
  shift
  if [ -n "${DRY:-}" ]; then
    echo "== $name"
    "$ronde" compare "$@" --dry-run --quiet
    return
  fi
  code=0
  "$ronde" compare "$@" --out "$out/$name" --continue >"$out/$name.txt" 2>"$out/$name.log" || code=$?
  echo "== $name (exit code $code)"
  sed -n '/^speed\|^strong scaling\|^advice/,$p' "$out/$name.txt"
  grep -E 'warning|error' "$out/$name.log" || true
}

cluster="--data fashion-mnist --resize 32x32 --workers 2 --local-batch 42 --threads 1 --momentum 0.9"
peer="--shuffle off --normalize off --peers pytorch,tensorflow,mxnet --peers-dir $peers"
# shellcheck disable=SC2086
{
  # A: systems, all-reduce and parameter servers, on one host; the peers' scripts have no dropout
  compare a-systems-lenet5 --model lenet5 $cluster $peer --strategies allreduce,ps-sync,ps-async --steps 600 --rounds 5
  compare a-systems-alexnet --model alexnet --dropout 0 --data fashion-mnist --resize 64x64 --workers 2 --local-batch 42 --threads 1 \
    --momentum 0.9 $peer --strategies allreduce,ps-sync,ps-async --steps 15 --rounds 3
  compare a-systems-resnet18 --model resnet18 $cluster $peer --strategies allreduce --steps 20 --rounds 3
  # A: parameter servers beside all-reduce, the cache, and who reads the whole set
  compare a-cache --model lenet5 $cluster --strategies allreduce,ps-sync,ps-async --cache on,off --steps 2000 --rounds 5
  compare a-resnet18 --model resnet18 $cluster --strategies allreduce,ps-sync --steps 30 --rounds 5
  compare a-whole --model lenet5 $cluster --cache off --shard static,whole --steps 2000 --rounds 5
  # B: batch, workers, size of the data, first and second epoch
  compare b-batch --model mnist-small --data fashion-mnist --optimizer adam --lr 0.001 --threads 1 --workers 1,2 \
    --local-batch 128,256,512 --strategies single,allreduce,dataparallel --epochs 2 --rounds 5
  compare b-repeat --model mnist-small --data fashion-mnist --optimizer adam --lr 0.001 --threads 1 --batch 128 --repeat 1,4 \
    --steps 468 --rounds 5
  compare b-padding --model mnist-large --data fashion-mnist --padding same,valid --batch 128 --steps 5 --rounds 1
  # C: t1 / (n tn)
  for model in lenet5 mnist-small; do
    compare c-scaling-$model --model $model --data fashion-mnist --batch 128 --optimizer adam --lr 0.001 --scaling 1,2 \
      --strategies allreduce,ps-sync --epochs 1 --rounds 3
  done
  # D: planned and eager
  for model in lenet5 mnist-small resnet18; do
    compare d-execution-$model --model $model --data fashion-mnist --batch 42 --momentum 0.9 --threads 1 --exec graph,eager \
      --steps 20 --rounds 5
  done
}
[ -z "${DRY:-}" ] || exit 0
for model in lenet5 mnist-small; do
  echo "== step-$model"
  "$ronde" bench step --model $model --batch 42 --momentum 0.9 --threads 1 --rounds 5 --peers-dir "$peers" \
    --peers pytorch,pytorch-compiled,tensorflow,tensorflow-eager,mxnet --out "$out/step-$model" 2>"$out/step-$model.log" ||
    cat "$out/step-$model.log"
done
set --
for one in "$out"/*/bench.json; do set -- "$@" "${one%/bench.json}"; done
"$ronde" report "$@" -o "$out/report.html"

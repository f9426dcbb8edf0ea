#!/bin/sh
# Prints the weights_sha256 of short runs over all networks, strategies, transports and ways to execute: two builds of Ronde
# compute the same where this prints the same. For changes that must not change a bit:
#     scripts/bits.sh OLD/ronde >before; scripts/bits.sh NEW/ronde | diff before -
# Half a minute on two cores. The hashes depend on the processor's instruction set; RONDE_ISA chooses another.
set -eu
program=$1
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
images='--data synthetic:3x32x32:10:96'
digits='--data synthetic:1x28x28:10:96'
n=0

# Runs `train` with the options that follow the name, in a folder of its own, and prints name and hash.
bits() {
  name=$1
  shift
  n=$((n + 1))
  timeout 300 "$program" train --json --quiet --seed 7 --eval-every 0 --out "$folder/$n" "$@" >"$folder/run.json" 2>"$folder/log" ||
    { echo "$name: failed: $(tail -n 1 "$folder/log")"; return; }
  echo "$name $(sed -n 's/.*"weights_sha256": "\([0-9a-f]*\)".*/\1/p' "$folder/run.json")"
}

momentum='--optimizer sgd --lr 0.02 --momentum 0.9 --weight-decay 0.0005'
small="$digits --model mnist-small --batch 24 --steps 6"
lenet="$images --model lenet5 --batch 24 --steps 6"
residual="$images --model resnet18 --batch 12 --steps 3 $momentum"

for model in lenet5 resnet18 resnet50 resnet18-cifar; do
  bits "$model" $images --model $model --batch 12 --steps 3 $momentum
  bits "$model, eager" $images --model $model --batch 12 --steps 2 $momentum --exec eager
done
bits 'alexnet' --data synthetic:3x64x64:10:24 --model alexnet --batch 8 --steps 2 $momentum
for padding in same valid; do
  bits "mnist-small, $padding" $digits --model mnist-small --padding $padding --batch 24 --steps 5 --optimizer adam --lr 0.001
  bits "mnist-large, $padding" $digits --model mnist-large --padding $padding --batch 8 --steps 2 --optimizer adam --lr 0.001
done
for optimizer in sgd adam adamw adagrad; do bits "$optimizer" $small --optimizer $optimizer; done
bits 'nesterov' $small $momentum --nesterov
bits 'accumulation' $small --accumulate 2
bits 'clipping' $small --clip 0.5
bits 'accumulation and clipping, 2 workers' $small --accumulate 2 --clip 0.5 --workers 2 --collective ring
bits 'label smoothing, cosine, warm-up' $small --label-smoothing 0.1 --lr-schedule cosine --warmup 2
bits 'crop and flip' $images --model lenet5 --batch 24 --steps 6 --augment crop,flip
bits '2 threads' $residual --threads 2
for transport in threads mpi; do
  for workers in 2 3; do
    several="--transport $transport --workers $workers --threads 1"
    bits "allreduce, $workers $transport" $lenet $momentum $several --collective ring
    bits "ps-sync, $workers $transport" $lenet $momentum $several --strategy ps-sync --servers 2
  done
  bits "dedicated servers, 2 $transport" $lenet --transport $transport --workers 2 --threads 1 --strategy ps-sync --placement dedicated
  bits "ps-async, 1 $transport" $lenet --transport $transport --workers 1 --threads 1 --strategy ps-async
  bits "downpour, 1 $transport" $lenet --transport $transport --workers 1 --threads 1 --strategy downpour --n-push 2 --n-fetch 3
  for workers in 1 3; do
    bits "sandblaster, $workers $transport" $lenet --transport $transport --workers $workers --threads 1 --strategy sandblaster --portion 5 \
      --servers $workers --lbfgs-iterations 3
  done
  bits "resnet18, 2 $transport" $residual --transport $transport --workers 2 --threads 1 --collective ring
  bits "resnet18, sync-bn, 2 $transport" $residual --transport $transport --workers 2 --threads 1 --collective ring --sync-bn
  bits "bf16 on the wire, 2 $transport" $residual --transport $transport --workers 2 --threads 1 --wire bf16
  bits "eager, 2 $transport" $lenet --transport $transport --workers 2 --threads 1 --collective ring --exec eager
done
for collective in halving-doubling tree hierarchical; do
  bits "$collective, 3 threads" $lenet --workers 3 --threads 1 --collective $collective
done
bits 'small buckets, no overlap' $lenet --workers 2 --threads 1 --collective ring --bucket-mb 0.01 --overlap off
bits 'small buckets, overlap' $lenet --workers 2 --threads 1 --collective ring --bucket-mb 0.01 --overlap on
bits 'short last batch' $digits --model mnist-small --batch 36 --epochs 2 --workers 3 --threads 1 --collective ring
bits 'first half of a run' $small $momentum --checkpoint-every 3 --steps 3
first=$folder/$n
bits 'second half' --resume "$first" --steps 6 --save "$folder/resumed"
bits 'whole of it' $small $momentum

#!/bin/sh
# localsgd on two hosts in namespaces at 1 Gbit/s: its rate with an exchange every 16 steps, during the next steps and not, as f32 and as
# bfloat16, beside that of the same workers without any exchange, and allreduce's. Alternated; medians. Needs root, Open MPI, python3 and two idle cores.
# STEPS is one less than a multiple of 16: the exchange at the end of a run, which nothing hides and all three have, is then not one of
# those every 16 steps.
#   scripts/localsgd_hosts.sh [BUILD] [MODEL SHAPE BATCH STEPS ROUNDS]
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
ronde=${1:-$root/build}/ronde
model=${2:-alexnet} shape=${3:-3x64x64} batch=${4:-42} steps=${5:-79} rounds=${6:-3}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export OMPI_MCA_plm_rsh_agent="$root/tests/hosts.sh agent" OMPI_MCA_plm_rsh_no_tree_spawn=1 OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1

rate() { # NAME OPTIONS...
  name=$1
  shift
  sh "$root/tests/hosts.sh" with 2 1gbit -- "$ronde train --model $model --data synthetic:$shape:10:8192 --local-batch $batch --threads 1 \
    --steps $steps --eval-every 0 --no-save-last --no-save-best --seed 1 --hosts ronde1,ronde2 --iface 10.91.7.0/24 --quiet --json $*" 2>"$work/log" |
    python3 -c 'import json, sys; print(sys.argv[1], json.load(sys.stdin)["totals"]["examples_per_s"])' "$name" | tee -a "$work/rates"
}

for round in $(seq "$rounds"); do
  rate none --strategy localsgd --sync-every 1000000
  rate overlapped --strategy localsgd --sync-every 16 --sync-overlap
  rate overlapped-bf16 --strategy localsgd --sync-every 16 --sync-overlap --wire bf16
  rate waiting --strategy localsgd --sync-every 16
  rate waiting-bf16 --strategy localsgd --sync-every 16 --wire bf16
  rate allreduce --strategy allreduce
done
python3 - "$work/rates" <<'PY'
import statistics, sys
rates = {}
for line in open(sys.argv[1]):
    name, rate = line.split()
    rates.setdefault(name, []).append(float(rate))
median = {name: statistics.median(of) for name, of in rates.items()}
for name in ("overlapped", "overlapped-bf16", "waiting", "waiting-bf16", "allreduce"):
    print("%s: %.3f of the rate without an exchange" % (name, median[name] / median["none"]))
PY

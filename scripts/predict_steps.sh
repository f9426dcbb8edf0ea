#!/bin/sh
# Predicted steps beside measured ones: spans of one worker alone, then the same training simulated and on hosts that are
# network namespaces at 1 Gbit/s. One line a case, the median of the ratios at the end. Needs root, Open MPI, python3 and an
# idle machine with a core for each host.
#   scripts/predict_steps.sh [BUILD]     PREDICT_MODELS, PREDICT_STRATEGIES, PREDICT_HOSTS (counts), PREDICT_STEPS,
#                                        PREDICT_LATENCY and PREDICT_RATE (of a link, as in --sim-net) change what is compared
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
ronde=${1:-$root/build}/ronde
models=${PREDICT_MODELS:-lenet5 resnet18 alexnet}
strategies=${PREDICT_STRATEGIES:-allreduce ps-sync sharded}
hosts=${PREDICT_HOSTS:-2 3}
steps=${PREDICT_STEPS:-20}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# A shaped link carries 957 of 1000 Mbit/s of payload.
echo "between latency ${PREDICT_LATENCY:-60us} rate ${PREDICT_RATE:-957Mbit/s}" >"$work/lan"

# The median step of a run, without the first two.
median() {
  python3 -c 'import json, statistics, sys
rows = [json.loads(line)["wall_s"] for line in open(sys.argv[1])]
print(statistics.median(rows[2:]))' "$1/steps.jsonl"
}

shape() { case $1 in alexnet) echo 3x64x64 ;; *) echo 3x32x32 ;; esac }

printf '%-10s %-10s %5s %12s %12s %7s\n' model strategy hosts predicted_s measured_s ratio
for model in $models; do
  data=synthetic:$(shape "$model"):10:4096
  common="--model $model --data $data --local-batch 32 --threads 1 --steps $steps --quiet --eval-every 0 --seed 1"
  "$ronde" train $common --record-spans "$work/$model.json" >/dev/null
  for n in $hosts; do
    for strategy in $strategies; do
      name=$model-$strategy-$n
      run="--workers $n --strategy $strategy --no-save-last --no-save-best"
      "$ronde" train --model "$model" --data "$data" --local-batch 32 --steps "$steps" --quiet --workers "$n" \
        --strategy "$strategy" --transport sim --sim-net "$work/lan" --sim-spans "$work/$model.json" \
        --out "$work/$name-sim" >/dev/null
      list=$(seq -s, -f 'ronde%g' 1 "$n")
      OMPI_MCA_plm_rsh_agent="$root/tests/hosts.sh agent" OMPI_MCA_plm_rsh_no_tree_spawn=1 \
        OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 sh "$root/tests/hosts.sh" with "$n" 1gbit -- \
        "$ronde train $common $run --hosts $list --iface 10.91.7.0/24 --out $work/$name-real >/dev/null"
      predicted=$(median "$work/$name-sim") measured=$(median "$work/$name-real")
      printf '%-10s %-10s %5s %12.6f %12.6f %7.3f\n' "$model" "$strategy" "$n" "$predicted" "$measured" \
        "$(python3 -c "print($predicted / $measured)")" | tee -a "$work/table"
    done
  done
done
python3 -c 'import statistics, sys
ratios = [float(line.split()[-1]) for line in open(sys.argv[1])]
print("median |ratio - 1|: %.3f over %d cases" % (statistics.median(abs(r - 1) for r in ratios), len(ratios)))' "$work/table"

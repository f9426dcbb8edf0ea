#!/bin/sh
# Whether --strategy measured takes the fastest strategy: each case is trained with it, and then all that it measured are compared whole.
# Right is a choice whose examples a second are at least 0.95 of the best's. One line a case; the count of right ones at the end.
# Needs root, Open MPI, python3 and an idle machine.
#   scripts/measured_choice.sh [BUILD] [CASE...]   CASE: model:shape:batch a worker:steps:link, where link is none (two workers on
#                                                  one host) or the rate of the links of two hosts, such as 1gbit, or full
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
ronde=${1:-$root/build}/ronde
[ $# -eq 0 ] || shift
[ $# -gt 0 ] || set -- lenet5:1x28x28:42:300:none mnist-small:1x28x28:42:200:none resnet18:3x32x32:32:20:none \
  alexnet:3x64x64:42:8:none mnist-large:1x28x28:42:40:none lenet5:1x28x28:42:300:1gbit mnist-small:1x28x28:42:100:1gbit \
  resnet18:3x32x32:32:15:1gbit resnet18:3x32x32:32:20:full mlp:512,512:1x28x28:128:100:1gbit
work=$(mktemp -d)
trap 'rm -rf "$work" "$work.table"' EXIT

printf '%-44s %-13s %-13s %7s\n' case measured best ratio
fail() {
  cat "$work/log" >&2
  exit 1
}

for case in "$@"; do
  link=${case##*:} rest=${case%:*}
  steps=${rest##*:} rest=${rest%:*}
  batch=${rest##*:} rest=${rest%:*}
  shape=${rest##*:} model=${rest%:*}
  common="--model $model --data synthetic:$shape:10:4096 --local-batch $batch --threads 1 --steps $steps --eval-every 0 --seed 1"
  on_hosts() {
    case $link in
      none) "$ronde" "$@" --workers 2 ;;
      *) OMPI_MCA_plm_rsh_agent="$root/tests/hosts.sh agent" OMPI_MCA_plm_rsh_no_tree_spawn=1 OMPI_ALLOW_RUN_AS_ROOT=1 \
           OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 sh "$root/tests/hosts.sh" with 2 $(echo "$link" | sed s/full//) -- \
           "$ronde $* --hosts ronde1,ronde2 --iface 10.91.7.0/24" ;;
    esac
  }
  rm -rf "$work"/*
  on_hosts train $common --strategy measured --out "$work/run" --quiet --no-save-last --no-save-best >"$work/log" 2>&1 || fail
  set_of=$(python3 - "$work/run/run.json" <<'PY'
import json, sys
def find(node):
    if isinstance(node, dict):
        if "candidates" in node: return node
        node = list(node.values())
    for child in node if isinstance(node, list) else []:
        found = find(child)
        if found: return found
run = json.load(open(sys.argv[1]))
print(run["config"]["strategy"], ",".join(c["strategy"] for c in find(run)["candidates"] if "step_s" in c))
PY
  )
  on_hosts compare $common --strategies "${set_of#* }" --rounds 3 --out "$work/all" >"$work/log" 2>&1 || fail
  python3 - "$work/all/bench.json" "${set_of% *}" "$case" <<'PY' | tee -a "$work.table"
import json, sys
document, chosen, name = json.load(open(sys.argv[1])), sys.argv[2], sys.argv[3]
rate = {c["values"]["strategy"]: c["examples_per_s"]["median"] for c in document["cases"]}
best = max(rate, key=rate.get)
print("%-44s %-13s %-13s %7.3f" % (name, chosen, best, rate[chosen] / rate[best]))
PY
done
python3 -c 'import sys
ratios = [float(line.split()[-1]) for line in open(sys.argv[1])]
print("%d of %d" % (sum(r >= 0.95 for r in ratios), len(ratios)))' "$work.table"

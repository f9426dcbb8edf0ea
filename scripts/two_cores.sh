#!/bin/sh
# What two workers reach on two idle cores: examples a second of one worker alone, of two programs that know nothing of each other, and
# of two workers by each strategy, alternated; and each as a share of twice the one. A line a round, medians at the end.
#   scripts/two_cores.sh [-r ROUNDS] [-s STRATEGIES] [BUILD] [CASE...]    CASE: model:shape:batch a worker:steps
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
rounds=5 strategies=allreduce,sharded
while getopts r:s: option; do
  case $option in
    r) rounds=$OPTARG ;;
    s) strategies=$OPTARG ;;
    *) sed -n '2,4s/^# *//p' "$0" >&2; exit 2 ;;
  esac
done
shift $((OPTIND - 1))
ronde=${1:-$root/build}/ronde
[ $# -eq 0 ] || shift
[ $# -gt 0 ] || set -- resnet18:3x32x32:42:30 resnet50:3x32x32:42:12 alexnet:3x64x64:42:12
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

rate() { # OPTIONS...: examples a second
  "$ronde" train $common "$@" --quiet --json 2>/dev/null |
    python3 -c 'import json, sys; print("%.1f" % json.load(sys.stdin)["totals"]["examples_per_s"])'
}

for case in "$@"; do
  IFS=: read -r model shape batch steps <<END
$case
END
  common="--model $model --data synthetic:$shape:10:4096 --local-batch $batch --threads 1 --steps $steps --eval-every 0 --no-save-last --seed 1"
  for round in $(seq "$rounds"); do
    line="one=$(rate)"
    rate >"$work/first" &
    second=$(rate)
    wait
    line="$line programs=$(python3 -c "print(round($(cat "$work/first") + $second, 1))")"
    for strategy in $(echo "$strategies" | tr , ' '); do
      line="$line $strategy=$(rate --workers 2 --strategy "$strategy")"
    done
    echo "$model $batch, round $round: $line" | tee -a "$work/lines"
  done
done
python3 - "$work/lines" <<'PY'
import statistics, sys
cases = {}
for line in open(sys.argv[1]):
    name, rest = line.split(", round ")
    for word in rest.split(": ")[1].split():
        what, rate = word.split("=")
        cases.setdefault(name, {}).setdefault(what, []).append(float(rate))
for name, rates in cases.items():
    shares = {w: statistics.median(r / (2 * o) for r, o in zip(rs, rates["one"])) for w, rs in rates.items() if w != "one"}
    print(name + ", of twice one worker: " + ", ".join("%s %.2f" % pair for pair in shares.items()))
PY

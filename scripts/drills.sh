#!/bin/sh
# Rehearses the faults of docs/drills.md and prints its table: what noticed each of them, after how long, what was kept, and
# whether the run goes on from there to the bits of an undisturbed one.
# Usage: scripts/drills.sh [BUILD_DIR [OPTIONS OF ronde train]]     such as: scripts/drills.sh build --strategy sharded
# RUNS=3: times of each; the table has the median and the worst. TRANSPORTS="threads mpi". Exit code 7 where a run did not go
# on to the same bits; strategies that are asynchronous have no bits to compare: BITS=off.
set -eu
build=${1:-build}
[ $# -eq 0 ] || shift
ronde=$(cd "$build" && pwd)/ronde
runs=${RUNS:-3}
transports=${TRANSPORTS:-threads mpi}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
status=0
options="--model lenet5 --data synthetic:1x28x28:10:1200 --batch 50 --epochs 4 --threads 1 --workers 3"

# Trains in folder run; each line that it says gets its time in front, its exit code is the last line.
train() {
  rm -rf run
  {
    set +e
    # shellcheck disable=SC2086
    timeout 100 "$ronde" train $options "$@" --checkpoint-every 10 --out run 2>&1 >/dev/null
    echo "exit $?"
  } | while IFS= read -r line; do printf '%s %s\n' "$(date +%s.%N)" "$line"; done >log
}

weights() { sed -n 's/.*"weights_sha256": "\([0-9a-f]*\)".*/\1/p' run/run.json; }

# Seconds from the fault to the first error, or with "exit" to the end; nothing where there was none.
seconds_to() {
  awk -v what="$1" '/\(--drill\)/ && !at { at = $1 } at && $0 ~ what && !said { said = 1; printf "%.2f\n", $1 - at }' log
}

# The first error, without what differs between two runs.
said() { sed -n 's/^[0-9.]* ronde: error: //p' log | head -1 | sed "s/$(hostname)/HOST/; s/|/ /g"; }

newest() { ls run/checkpoints 2>/dev/null | sed 's/.*step-\([0-9]*\).*/\1/' | sort -n | tail -1; }

# How the run ends, if need be after it was resumed: with the bits of the undisturbed one, unless a step was left out.
ends() {
  how=complete
  if [ "$1" != 0 ]; then
    how=resumed
    "$ronde" train --quiet --resume run >/dev/null 2>resumed || { tail -1 resumed; return; }
  fi
  skipped=$(sed -n 's/.*"skipped_steps": \([0-9]*\).*/\1/p' run/run.json)
  if [ "$skipped" != 0 ]; then echo "$how, $skipped step left out"
  elif [ "${BITS:-on}" = off ]; then echo "$how"
  elif [ "$(weights)" = "$undisturbed" ]; then echo "$how, same bits"
  else echo "$how, OTHER BITS"; fi
}

spread() { sort -n | awk '{ v[NR] = $1 } END { if (NR) printf "%s, %s", v[int((NR + 1) / 2)], v[NR]; else printf "-" }'; }

# Faults of one kind by one transport: transport, plan, further options of the rehearsal alone.
row() {
  transport=$1 plan=$2 more=$3
  shift 3
  : >noticed
  : >ended
  i=0
  while [ $i -lt "$runs" ]; do
    # shellcheck disable=SC2086
    train --transport "$transport" --drill "slow:0:20,$plan" $more "$@"
    seconds_to ' ronde: error: ' >>noticed
    seconds_to ' exit [0-9]*$' >>ended
    i=$((i + 1))
  done
  code=$(sed -n 's/.* exit \([0-9]*\)$/\1/p' log | tail -1)
  error=$(said) step=$(newest) end=$(ends "$code")
  case $end in complete | resumed | *"same bits" | *"left out") ;; *) status=7 ;; esac
  echo "| \`$plan\`${more:+ \`$more\`} | $transport | $(spread <noticed) | $(spread <ended) | $code | ${error:--} | ${step:--} | $end |"
}

echo '| fault | ranks | noticed after s: median, worst | ended after s | exit code | first error | newest checkpoint | the run |'
echo '|---|---|---|---|---|---|---|---|'
for transport in $transports; do
  train --transport "$transport" "$@"
  undisturbed=$(weights)
  row "$transport" kill:1@45 "" "$@"
  row "$transport" stop:1@45:0.5 "" "$@"
  [ "$transport" = threads ] || row "$transport" stop:1@45 "--timeout 2" "$@"
  row "$transport" corrupt:2@45 "" "$@"
  row "$transport" corrupt:2@45 "--skip-bad-steps 1" "$@"
  row "$transport" oom:2@45 "" "$@"
  row "$transport" disk-full@45 "" "$@"
  row "$transport" slow-disk:20 "" "$@"
done
exit $status

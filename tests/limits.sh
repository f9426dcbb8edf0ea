#!/bin/sh
# Holds the table of limits in docs/clusters.md: each constant of the sources that is a time (its name ends in _NS, _MS or _S) or
# stands in one of the two headers of limits is named there, or is one of those below that bound no wait.
# Usage: limits.sh SOURCE_DIR. Ends by planting a limit in a copy, which must be found.
set -eu
root=$1

# How often something is looked at or redrawn, or how long something else is measured. What no longer exists must go.
no_limits='
RONDE_LIMITS_H TOOL_LIMITS_H RONDE__VIRTUAL_BEGIN_NS
SPIN_NS SLEEP_NS BULK_SLEEP_NS LONG_SLEEP_NS LONG_AFTER_NS BELL_SLEEP_NS BEAT_NS MIN_TICK_NS SPIN_MAX_NS SPIN_MIN_NS MAX_NAP_NS
LOOK_MS WATCH_MS ASK_S CLOSING_MS REDRAW_S FLUSH_NS WORK_NS DRAFT_S
RUN_S ROUND_S ROUND_NS STEP_S START_S MEASURED_RUN_S LEAST_LOOK_S LONG_NS MOST_NS
FAR_CLOCK_S FLOPS_PER_S BYTES_PER_S UNHIDDEN_BYTES_PER_S WIRE_BYTES_PER_S
'

constants() (
  cd "$1"
  {
    find src tools \( -name '*.[ch]' -o -name '*.inc' \) ! -name '*_test.c' ! -name '*testing.h' -exec \
      grep -ohE '(^#define [A-Z_0-9]+_(NS|MS|S) )|([A-Z_0-9]+_(NS|MS|S) = [0-9])' {} +
    grep -ohE '^#define [A-Z_0-9]+|^ *[A-Z_0-9]+ = [0-9]' src/base/limits.h tools/limits.h
  } | sed 's/^#define //; s/^ *//; s/ .*//' | sort -u
)

missing() {
  for name in $(constants "$1"); do
    case " $(echo $no_limits) " in *" $name "*) continue ;; esac
    grep -q "\`$name\`" "$1/docs/clusters.md" || echo "$name: not in the table of docs/clusters.md"
  done
  for name in $no_limits; do
    constants "$1" | grep -qx "$name" || echo "$name: tests/limits.sh has it, and the sources do not"
  done
}

found=$(missing "$root")
if [ -n "$found" ]; then
  echo "$found"
  exit 1
fi
copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT
cp -r "$root/src" "$root/tools" "$root/docs" "$copy"
echo '#define PLANTED_WAIT_NS 5' >>"$copy/src/comm/life.c"
missing "$copy" | grep -q '^PLANTED_WAIT_NS: not in the table' || { echo "a planted limit was not found"; exit 1; }

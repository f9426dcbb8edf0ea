#!/bin/sh
# Prints the table of docs/strategies.md (ps-ssp) of what bursts of lateness cost: steps a second in virtual time.
# Usage: scripts/bursts.sh [BUILD_DIR]
set -eu
echo '| options | one is late: the others | one is late: all | each in its turn: all | mean staleness then |'
echo '|---|---|---|---|---|'
"${1:-build}/ps_bursts_test" | grep '^|'

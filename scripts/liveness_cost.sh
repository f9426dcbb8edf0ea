#!/bin/sh
# What signs of life cost while nothing happens: `compare` alternates runs with them (by default) and without (0) and prints how
# many times as fast the first case is, with its interval: two processes of this host and, as root, one worker on each of two
# hosts (network namespaces, 1 Gbit/s). Then the system counts the datagrams of a run between two, and between three hosts.
# On a quiet machine, ten minutes or so:
#     scripts/liveness_cost.sh [BUILD_DIR [ROUNDS [OPTIONS OF ronde compare]]]
# Goals: at most 1 % of a step, at most 0.1 % of the link.
set -eu
here=$(cd "$(dirname "$0")/.." && pwd)
ronde=$(cd "${1:-build}" && pwd)/ronde
rounds=${2:-15}
if [ $# -gt 2 ]; then shift 2; else set --; fi
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
export ronde here
export training="--model lenet5 --data synthetic:1x28x28:10:60000 --batch 64 --threads 1 --eval-every 0"
export OMPI_MCA_plm_rsh_agent="$here/tests/hosts.sh agent"
export network="--iface 10.91.7.0/24"

compare() { # shellcheck disable=SC2086
  "$ronde" compare $training --steps 400 --lost-after 0,1.5 --rounds "$rounds" "$@"
}

# Sent in $1 hosts' network while a run lasts, by the first of them: signs of life are all UDP that there is. Two headers, and the
# frame's, make 42 bytes of each; 56 are its own, as each host has one rank.
cat >count.sh <<'END'
set -eu
sent() { ip netns exec ronde1 awk '$1 == "Udp:" && $2 ~ /^[0-9]/ { print $5 }' /proc/net/snmp; }
hosts=$(seq -s, -f ronde%g "$1")
before=$(sent) begin=$(date +%s.%N)
"$ronde" train $training --steps 4000 --hosts "$hosts" $network --quiet
after=$(sent) end=$(date +%s.%N)
echo "$1 $before $after $begin $end" | awk '{
  s = $5 - $4; n = $3 - $2
  printf "%d hosts: %d datagrams in %.1f s by one host: %.0f bytes/s, %.5f %% of 1 Gbit/s\n", $1, n, s, n * 98 / s, n * 98 / s / 1.25e6 }'
END

echo "== two processes of this host"
compare --transport mpi --workers 2 "$@"
[ "$(id -u)" = 0 ] || { echo "SKIP: hosts need root"; exit 0; }
echo "== two hosts"
# shellcheck disable=SC2016
words=$(printf " '%s'" "$@")
[ $# -gt 0 ] || words=
export rounds words
"$here/tests/hosts.sh" with 2 1gbit -- 'eval "\"$ronde\" compare $training --steps 400 --lost-after 0,1.5 --rounds $rounds --hosts ronde1,ronde2 $network $words"'
echo "== the link"
for n in 2 3; do "$here/tests/hosts.sh" with "$n" 1gbit -- "sh $folder/count.sh $n"; done

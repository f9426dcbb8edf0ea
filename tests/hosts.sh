#!/bin/sh
# Network namespaces as hosts, for tests of several hosts on one machine. Needs root.
#   hosts.sh up N [RATE]   hosts ronde1..rondeN on one bridge, shaped to RATE (1gbit) each way where given
#   hosts.sh agent HOST COMMAND...   what mpirun calls instead of ssh; a name (with a domain, too) or an address; with RONDE_DISKS=DIR, DIR/HOST is
#                          seen there as DIR/disk
#   hosts.sh down
#   hosts.sh with N [RATE] -- COMMAND   all of this around COMMAND (of a shell), which alone sees the hosts: other sets, with the same
#                          names and addresses, may be there at once, and a set ends with its last process, however that ends
# Addresses are 10.91.7.1..N; the launching side is 10.91.7.254.
set -eu
net=10.91.7 prefix=ronde
usage() { sed -n '2,9s/^# *//p' "$0" >&2; exit 2; }
case ${1:-} in
  up)
    trap '[ $? = 0 ] || "$0" down' EXIT
    ip link add ${prefix}br type bridge
    ip addr add $net.254/24 dev ${prefix}br
    ip link set ${prefix}br up
    for i in $(seq 1 "$2"); do
      host=$prefix$i
      ip netns add $host
      ip link add ${host}v type veth peer name eth0 netns $host
      ip link set ${host}v master ${prefix}br up
      ip -n $host link set lo up
      ip -n $host addr add $net.$i/24 dev eth0
      ip -n $host link set eth0 up
      [ -n "${3:-}" ] || continue
      ip netns exec $host tc qdisc add dev eth0 root tbf rate "$3" burst 256kb limit 2mb
      tc qdisc add dev ${host}v root tbf rate "$3" burst 256kb limit 2mb
    done
    ;;
  agent)
    host=$2
    case $host in $net.*) host=$prefix${host##*.} ;; *) host=${host%%.*} ;; esac
    shift 2
    disk=${RONDE_DISKS:+mount --bind "$RONDE_DISKS/$host" "$RONDE_DISKS/disk";}
    exec ip netns exec "$host" unshare --uts --ipc --mount sh -ec "hostname $host; $disk exec sh -c \"\$0\"" "$*"
    ;;
  with)
    [ $# -ge 4 ] || usage
    exec unshare --net --mount sh "$0" within "$@"
    ;;
  within) # the network and the names of `with`
    n=$3 rate=
    shift 3
    [ "$1" = -- ] || { rate=$1; shift; }
    mkdir -p /var/run/netns
    mount -t tmpfs none /var/run/netns
    ip link set lo up
    "$0" up "$n" "$rate"
    code=0
    sh -c "$2" || code=$?
    "$0" down
    exit $code
    ;;
  down)
    for host in $(ip netns list | sed -n "s/^\($prefix[0-9]*\).*/\1/p"); do
      for process in $(ip netns pids "$host"); do kill -9 "$process" 2>/dev/null || true; done
      ip netns del "$host"
    done
    # Of hosts in which a process was left.
    for link in $(ip -o link | sed -n "s/^[0-9]*: \($prefix[0-9]*v\)@.*/\1/p"); do
      ip link del "$link" 2>/dev/null || true
    done
    ip link del ${prefix}br 2>/dev/null || true
    ;;
  *) usage ;;
esac

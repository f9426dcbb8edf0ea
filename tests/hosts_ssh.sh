#!/bin/sh
# The hosts of hosts.sh with OpenSSH's server on each, reached by the ssh and the names that a cluster has. Needs root and openssh-server.
#   hosts_ssh.sh N [RATE] -- COMMAND   COMMAND (of a shell) sees ronde1..rondeN; keys, names and servers are gone when it ends
# For example: tests/hosts_ssh.sh 2 1gbit -- 'build/ronde doctor --hosts ronde1,ronde2 --iface 10.91.7.0/24'
set -eu
here=$(cd "$(dirname "$0")" && pwd)
server=$(command -v sshd || echo /usr/sbin/sshd)
[ $# -ge 3 ] || { sed -n '2,4s/^# *//p' "$0" >&2; exit 2; }
[ -x "$server" ] || { echo 'hosts_ssh.sh: there is no sshd: apt-get install openssh-server' >&2; exit 6; }

if [ "$1" != inside ]; then
  n=$1 rate=
  shift
  [ "$1" = -- ] || { rate=$1; shift; }
  export RONDE_HOSTS_COMMAND="$2"
  exec sh "$here/hosts.sh" with "$n" $rate -- "sh '$here/hosts_ssh.sh' inside $n --"
fi

# The mounts are this shell's own, as hosts.sh made them, and end with it.
n=$2
keys=$HOME/.ssh
mkdir -p /run/sshd "$keys"
mount -t tmpfs -o mode=0755 none /run/sshd
mount -t tmpfs none "$keys"
chmod 700 "$keys"
ssh-keygen -q -t ed25519 -N '' -f $keys/id_ed25519
ssh-keygen -q -t ed25519 -N '' -f $keys/host_key
cp $keys/id_ed25519.pub $keys/authorized_keys
cp /etc/hosts $keys/hosts
cat >$keys/sshd_config <<END
HostKey $keys/host_key
AuthorizedKeysFile $keys/authorized_keys
PermitRootLogin prohibit-password
PasswordAuthentication no
UsePAM no
UseDNS no
PidFile none
END
for i in $(seq 1 "$n"); do
  echo "10.91.7.$i ronde$i" >>$keys/hosts
  echo "ronde$i,10.91.7.$i $(cat $keys/host_key.pub)" >>$keys/known_hosts
done
mount --bind $keys/hosts /etc/hosts
for i in $(seq 1 "$n"); do
  ip netns exec "ronde$i" unshare --uts --ipc --mount sh -c "hostname ronde$i; exec '$server' -D -e -f $keys/sshd_config" \
    2>$keys/ronde$i.log &
done
for i in $(seq 1 "$n"); do
  tries=0
  until ssh -o BatchMode=yes -o ConnectTimeout=2 "ronde$i" true 2>$keys/tried; do
    tries=$((tries + 1))
    [ $tries -lt 50 ] || { cat $keys/tried $keys/ronde$i.log >&2; exit 6; }
    sleep 0.1
  done
done
exec sh -c "$RONDE_HOSTS_COMMAND"

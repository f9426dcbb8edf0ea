#!/bin/sh
# A Slurm cluster on the hosts that `hosts.sh up N` made, to try `srun ronde train` by hand. Needs root, slurm-wlm and munge.
#   slurm.sh up N FOLDER   its files go into FOLDER, which must not be there; then: export SLURM_CONF=FOLDER/slurm.conf
#   slurm.sh down FOLDER
set -eu
net=10.91.7 prefix=ronde
case ${1:-} in
  up)
    n=$2
    mkdir "$3"
    folder=$(cd "$3" && pwd)
    export SLURM_CONF="$folder/slurm.conf"
    mkdir "$folder/state"
    cat >"$SLURM_CONF" <<END
ClusterName=ronde
SlurmctldHost=$(hostname)($net.254)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
CredType=cred/munge
MpiDefault=pmix
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
ReturnToService=2
SlurmctldPidFile=$folder/slurmctld.pid
SlurmdPidFile=$folder/slurmd.%n.pid
SlurmctldLogFile=$folder/slurmctld.log
SlurmdLogFile=$folder/slurmd.%n.log
StateSaveLocation=$folder/state
SlurmdSpoolDir=$folder/spool.%n
TmpFS=/mnt
AccountingStorageType=accounting_storage/none
JobAcctGatherType=jobacct_gather/none
NodeName=$prefix[1-$n] NodeAddr=$net.[1-$n] CPUs=$(nproc) State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES State=UP OverSubscribe=FORCE:8
END
    echo 'CgroupAutomount=no' >"$folder/cgroup.conf"
    mkdir -p /run/munge
    chown munge: /run/munge
    pgrep -x munged >/dev/null || setpriv --reuid munge --regid munge --clear-groups munged
    slurmctld
    for i in $(seq 1 "$n"); do
      # Not `ip netns exec`, which hides the cgroups from slurmd; and a temporary folder each, where PMIx has its sockets.
      mkdir "$folder/tmp.$i"
      nsenter --net="/run/netns/$prefix$i" unshare --uts --mount \
        sh -c "mount --bind $folder/tmp.$i /mnt; hostname $prefix$i; exec slurmd -N $prefix$i"
    done
    for i in $(seq 1 60); do
      [ "$(sinfo -h -t idle -o %D)" = "$n" ] && exit 0
      sleep 0.5
    done
    sinfo
    exit 1
    ;;
  down)
    for file in "$2"/slurmd.*.pid "$2"/slurmctld.pid; do
      [ ! -f "$file" ] || kill "$(cat "$file")"
    done
    ;;
  *)
    sed -n '2,4s/^# *//p' "$0"
    exit 2
    ;;
esac

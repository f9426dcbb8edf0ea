#!/bin/sh
# The proof that a network trains which fits no single worker: 3 GB of weights, gradients and Adam's state in 4 stages, each
# a process under a limit of 1 GB (RLIMIT_DATA: what it maps for itself; where control groups may be made, the same limit
# on what lies in memory, for each process). One worker is refused beforehand. By hand, some minutes; 4 GB of memory.
#     sh scripts/large_network.sh build/ronde
set -eu
ronde=${1:-build/ronde}
limit_kib=1048576
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
set -- train --model mlp:6850,6850,6850,6850,6850 --data synthetic:1x16x16:10:1024 --batch 64 --steps 8 \
  --optimizer adam --lr 0.00003 --threads 1 --quiet

echo "== one worker, limited to $limit_kib KiB: to be refused, with the bytes that are missing and a plan"
status=0
(ulimit -d $limit_kib && exec "$ronde" "$@") 2>"$folder/said" || status=$?
cat "$folder/said"
[ $status -eq 6 ] || { echo "not refused: exit code $status"; exit 7; }
stages=$(sed -n 's/.*--strategy pipeline --stages \([0-9]*\) .*/\1/p' "$folder/said")
micro=$(sed -n 's/.*--micro-batches \([0-9]*\) fits.*/\1/p' "$folder/said")
[ -n "$stages" ] || { echo 'no plan was proposed'; exit 7; }

echo "== the plan that was proposed: $stages stages, $micro micro-batches"
(ulimit -d $limit_kib && exec "$ronde" "$@" --transport mpi --strategy pipeline --stages "$stages" --workers "$stages" \
  --micro-batches "$micro" --out "$folder/run")
# Of each rank what was foreseen, what it took, and the loss of each step: it has to fall.
python3 - "$folder/run" <<'END'
import json, sys
run = json.load(open(sys.argv[1] + '/run.json'))
limit = 1 << 30
for w in run['workers']:
    needed, peak = w['needed_bytes'], w['peak_rss_bytes']
    print(f"rank {w['rank']}: foreseen {needed}, taken {peak}, ratio {needed / peak:.3f}")
    assert peak < limit and abs(needed / peak - 1) < 0.1
losses = [json.loads(line)['loss'] for line in open(sys.argv[1] + '/steps.jsonl')]
print('losses', ' '.join(f'{x:.4f}' for x in losses))
assert losses[-1] < losses[0]
END

# With a group of its own for each rank, what lies in memory is limited too, files and MPI's buffers included.
if mkdir /sys/fs/cgroup/memory/ronde-large 2>/dev/null; then
  echo '== the same, each process in a control group of its own'
  trap 'rmdir /sys/fs/cgroup/memory/ronde-large/* /sys/fs/cgroup/memory/ronde-large 2>/dev/null; rm -rf "$folder"' EXIT
  cat >"$folder/rank" <<END
#!/bin/sh
group=/sys/fs/cgroup/memory/ronde-large/\$OMPI_COMM_WORLD_RANK
mkdir -p "\$group" && echo $((limit_kib * 1024)) >"\$group/memory.limit_in_bytes" && echo \$\$ >"\$group/tasks" &&
  exec "\$@"
END
  chmod +x "$folder/rank"
  OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 mpirun --oversubscribe -np "$stages" "$folder/rank" "$ronde" \
    "$@" --strategy pipeline --stages "$stages" --micro-batches "$micro"
  for rank in /sys/fs/cgroup/memory/ronde-large/[0-9]*; do
    echo "$rank: at most $(cat "$rank/memory.max_usage_in_bytes") bytes"
  done
fi
echo 'passed'

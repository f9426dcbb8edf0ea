"""Checkpoints against the disk: how long one takes beside `dd conv=fsync` of as many bytes, and what a training's steps
take while checkpoints are written all the time. Alternated; medians of the rounds.

  bench/checkpoint.py --ronde build/ronde --folder DIR [--model resnet50] [--rounds 7] [--steps 40] [--batch 16]
"""
import argparse
import json
import os
import shutil
import statistics
import subprocess
import time

p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
p.add_argument("--ronde", required=True)
p.add_argument("--folder", required=True, help="on the disk that is measured; DIR/bench is removed")
p.add_argument("--model", default="resnet50")
p.add_argument("--data", default="synthetic:3x32x32:10:256")
p.add_argument("--batch", type=int, default=16)
p.add_argument("--rounds", type=int, default=7)
p.add_argument("--steps", type=int, default=40, help="0: only the disk")
a = p.parse_args()
out = os.path.join(a.folder, "bench")


def train(*options):
    """The run's record, and milliseconds of its steps but the first."""
    shutil.rmtree(out, ignore_errors=True)
    os.sync()
    subprocess.run([a.ronde, "train", "--model", a.model, "--data", a.data, "--batch", str(a.batch), "--momentum", "0.9",
                    "--threads", "1", "--eval-every", "0", "--save-best", "off", "--quiet", "--out", out, *options],
                   check=True, stdout=subprocess.DEVNULL)
    with open(f"{out}/run.json") as file:
        run = json.load(file)
    with open(f"{out}/steps.jsonl") as file:
        steps = [json.loads(line)["wall_s"] * 1e3 for line in file]
    return run, steps[1:]


def dd(n_bytes):
    path = f"{out}.dd"
    if os.path.exists(path):
        os.remove(path)
    os.sync()
    begin = time.monotonic()
    subprocess.run(["dd", "if=/dev/zero", f"of={path}", "bs=1M", f"count={n_bytes}", "iflag=count_bytes", "conv=fsync"],
                   check=True, stderr=subprocess.DEVNULL)
    return time.monotonic() - begin


disk, own, quiet, busy, copies, n_written = [], [], [], [], [], 0
for _ in range(a.rounds):
    written = train("--steps", "1", "--checkpoint-every", "9")[0]["checkpoints"]
    assert written["written"] == 1
    own.append(written["write_s"])
    disk.append(dd(written["state_bytes"]))
    if a.steps:
        quiet.append(statistics.median(train("--steps", str(a.steps))[1]))
        run, steps = train("--steps", str(a.steps), "--checkpoint-every", "1", "--keep", "1")
        busy.append(statistics.median(steps))
        n_written += run["checkpoints"]["written"]
        copies.append(1e3 * run["checkpoints"]["copy_s"] / run["checkpoints"]["written"])
print(f"{written['state_bytes'] / 1e6:.0f} MB: {statistics.median(own):.3f} s, dd {statistics.median(disk):.3f} s; "
      f"ratio of the medians {statistics.median(own) / statistics.median(disk):.2f}, "
      f"of the rounds {' '.join(f'{o / d:.2f}' for o, d in zip(own, disk))}")
if a.steps:
    ratio = statistics.median(b / q for b, q in zip(busy, quiet))
    print(f"step: {statistics.median(quiet):.2f} ms, while checkpoints are written ({n_written} in all) "
          f"{statistics.median(busy):.2f} ms; ratio {ratio:.4f}, of the rounds "
          f"{' '.join(f'{b / q:.4f}' for b, q in zip(busy, quiet))}; a copy takes {statistics.median(copies):.1f} ms")

"""Checkpoints against the disk: how long one takes beside `dd conv=fsync` of as many bytes, alternated; and a training's
steps while one is written in the background beside as many steps right afterwards, in one run.

  bench/checkpoint.py --ronde build/ronde --folder DIR [--model resnet50] [--rounds 7] [--checkpoints 40] [--batch 16]
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
p.add_argument("--checkpoints", type=int, default=40, help="in the background; 0: only the disk")
a = p.parse_args()
out = os.path.join(a.folder, "bench")


def train(*options):
    """The run's record, and milliseconds of its steps."""
    shutil.rmtree(out, ignore_errors=True)
    os.sync()
    subprocess.run([a.ronde, "train", "--model", a.model, "--data", a.data, "--batch", str(a.batch), "--momentum", "0.9",
                    "--threads", "1", "--eval-every", "0", "--save-best", "off", "--save-last", "off",
                    "--quiet", "--epochs", "1000000", "--out", out, *options],
                   check=True, stdout=subprocess.DEVNULL)
    with open(f"{out}/run.json") as file:
        run = json.load(file)
    with open(f"{out}/steps.jsonl") as file:
        steps = [json.loads(line)["wall_s"] * 1e3 for line in file]
    return run, steps


def dd(n_bytes):
    path = f"{out}.dd"
    if os.path.exists(path):
        os.remove(path)
    os.sync()
    begin = time.monotonic()
    subprocess.run(["dd", "if=/dev/zero", f"of={path}", "bs=1M", f"count={n_bytes}", "iflag=count_bytes", "conv=fsync"],
                   check=True, stderr=subprocess.DEVNULL)
    return time.monotonic() - begin


def pairs(steps, period, n_during):
    """Of each checkpoint but the last: the mean step while it was written, over that of as many steps afterwards."""
    for begin in range(period, len(steps) - period + 1, period):
        during, after = steps[begin : begin + n_during], steps[begin + n_during + 1 : begin + 2 * n_during + 1]
        yield statistics.mean(during) / statistics.mean(after)


disk, own, ratios, copies = [], [], [], []
for _ in range(a.rounds):
    written = train("--steps", "1", "--checkpoint-every", "9")[0]["checkpoints"]
    assert written["written"] == 1
    own.append(written["write_s"])
    disk.append(dd(written["state_bytes"]))
print(f"{written['state_bytes'] / 1e6:.0f} MB: {statistics.median(own):.3f} s, dd {statistics.median(disk):.3f} s; "
      f"ratio of the medians {statistics.median(own) / statistics.median(disk):.2f}, "
      f"of the rounds {' '.join(f'{o / d:.2f}' for o, d in zip(own, disk))}", flush=True)
if a.checkpoints:
    run, steps = train("--steps", "61", "--checkpoint-every", "30")  # two in the background, and one at the end
    in_background = (run["checkpoints"]["write_s"] - statistics.median(own)) / 2
    n_during = int(1e3 * in_background / statistics.median(steps))
    assert n_during > 0, "a checkpoint is written within a step"
    period = 2 * n_during + 2
    run, steps = train("--steps", str(period * (a.checkpoints + 1)), "--checkpoint-every", str(period), "--keep", "1")
    ratios, written = list(pairs(steps, period, n_during)), run["checkpoints"]
    error = statistics.stdev(ratios) / len(ratios) ** 0.5
    print(f"step: {statistics.median(steps):.2f} ms; the {n_during} while a checkpoint is written over the {n_during} "
          f"afterwards: median {statistics.median(ratios):.4f}, mean {statistics.mean(ratios):.4f}, standard error "
          f"{error:.4f}, of {len(ratios)} checkpoints; one takes {written['write_s'] / written['written']:.2f} s in the "
          f"background, its copy {1e3 * written['copy_s'] / written['written']:.1f} ms")

#!/usr/bin/env python3
"""Test accuracies of strategies over seeds: one training of each case and seed, and a table with the differences from the
first case, seed by seed. Times do not matter, so the host may be busy.

    python3 bench/accuracy.py --ronde build/ronde
    python3 bench/accuracy.py --ronde build/ronde --seeds 3 --epochs 2 "--strategy allreduce" "--strategy ps-async"
"""

import argparse
import json
import pathlib
import shlex
import statistics
import subprocess
import tempfile

p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
p.add_argument("--ronde", required=True)
p.add_argument("--data", default="fashion-mnist")
p.add_argument("--epochs", type=int, default=5)
p.add_argument("--seeds", type=int, default=5, help="1 to this")
p.add_argument("--options", default="--model lenet5 --lr 0.02 --momentum 0.9 --batch 128 --workers 3",
               help="of every case")
p.add_argument("cases", nargs="*", default=["--strategy allreduce", "--strategy localsgd --sync-every 1",
                                            "--strategy localsgd --sync-every 4", "--strategy localsgd --sync-every 16"])
a = p.parse_args()


def accuracy(case, seed):
    with tempfile.TemporaryDirectory() as folder:
        command = [a.ronde, "train", "--data", a.data, "--epochs", str(a.epochs), "--seed", str(seed), "--threads", "1",
                   "--save-best", "off", "--save-last", "off", "--quiet", "--out", folder]
        subprocess.run(command + shlex.split(a.options) + shlex.split(case), check=True, stdout=subprocess.DEVNULL)
        return json.loads(pathlib.Path(folder, "run.json").read_text())["result"]["test_accuracy"]


def spread(values):
    return statistics.stdev(values) if len(values) > 1 else 0


print(f"{a.options}, {a.data}, {a.epochs} epochs, seeds 1 to {a.seeds}\n")
print("| | test accuracy by seed | mean | difference in pairs of seeds | its standard error |\n|---|---|---|---|---|")
first = None
for case in a.cases:
    found = [accuracy(case, seed) for seed in range(1, a.seeds + 1)]
    first = first or found
    differences = [own - other for own, other in zip(found, first)]
    compared = ("- | -" if found is first else
                f"{statistics.mean(differences):+.4f} | {spread(differences) / len(differences) ** .5:.4f}")
    print(f"| `{case}` | {', '.join(f'{x:.4f}' for x in found)} | {statistics.mean(found):.4f} ± {spread(found):.4f} | "
          f"{compared} |", flush=True)

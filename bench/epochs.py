#!/usr/bin/env python3
"""Whole epochs of mnist-small on Fashion-MNIST (Adam, batch 128): reading, shuffling, training and a test, in Ronde, in a
hand-written TensorFlow loop and in Keras `fit`; alternated, medians over all epochs but each run's first.

    python3 bench/epochs.py --ronde build/ronde --python peers/tensorflow/bin/python
"""

import argparse
import json
import pathlib
import statistics
import subprocess
import tempfile

PEER = pathlib.Path(__file__).resolve().parent / "peers" / "tensorflow_epochs.py"
p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
p.add_argument("--ronde", required=True)
p.add_argument("--python", required=True, help="one that has TensorFlow")
p.add_argument("--rounds", type=int, default=3)
p.add_argument("--epochs", type=int, default=3, help="of a run")
p.add_argument("--threads", type=int, default=1)
a = p.parse_args()


def ronde():
    """Seconds and test accuracies of the epochs."""
    with tempfile.TemporaryDirectory() as folder:
        command = [a.ronde, "train", "--model", "mnist-small", "--data", "fashion-mnist", "--optimizer", "adam", "--lr",
                   "0.001", "--batch", "128", "--epochs", str(a.epochs), "--threads", str(a.threads), "--save-best",
                   "off", "--save-last", "off", "--quiet", "--out", folder]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        epochs = json.loads(pathlib.Path(folder, "run.json").read_text())["epochs"]
    return [(e["wall_s"] + e["eval_s"], e["test_accuracy"]) for e in epochs]


def tensorflow(kind):
    command = [a.python, str(PEER), kind, "--epochs", str(a.epochs), "--threads", str(a.threads)]
    lines = subprocess.run(command, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True).stdout
    return [(e["wall_s"], e["test_accuracy"]) for e in map(json.loads, lines.splitlines())]


systems = {"ronde": ronde, "tensorflow loop": lambda: tensorflow("--loop"), "keras fit": lambda: tensorflow("--keras")}
medians, accuracies = ({name: [] for name in systems} for _ in range(2))
for _ in range(a.rounds):
    for name, run in systems.items():
        epochs = run()
        medians[name].append(statistics.median(seconds for seconds, _ in epochs[1:]))
        accuracies[name].append(epochs[-1][1])
print(f"mnist-small, {a.threads} thread(s), {a.rounds} rounds of {a.epochs} epochs")
for name in systems:
    ratios = [theirs / own for theirs, own in zip(medians[name], medians["ronde"])]
    print(f"{name:16s} {statistics.median(medians[name]):8.3f} s an epoch   {statistics.median(ratios):5.2f} times Ronde's "
          f"({min(ratios):.2f} to {max(ratios):.2f})   test accuracy {statistics.mean(accuracies[name]):.4f}")

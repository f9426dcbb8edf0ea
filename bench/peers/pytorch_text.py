#!/usr/bin/env python3
"""Trains gpt-tiny on a text in PyTorch as `ronde train --data text:FILE --optimizer adam` does: the same first weights, the same
batches in the same order, the same learning rates, no dropout.

    python3 bench/peers/pytorch_text.py --ronde build/ronde --text book.txt --window 256 --batch 8 --lr 0.002 --warmup 100 \\
        --lr-schedule cosine --steps 1000 --seed 1 --beside runs/book

Prints a JSON line a step: {"step", "loss", "lr", "wall_s"}; after the last one also the loss of the test windows. --stop ends it
earlier, on the way of the whole training, which the learning rate follows. --beside compares with steps.jsonl of a run: a table
of mean losses. Requirements: torch >= 2, numpy.
"""

import argparse
import itertools
import json
import pathlib
import sys
import tempfile
import time

import numpy as np
import torch

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tests" / "golden"))
import draws  # noqa: E402
import files  # noqa: E402
import models  # noqa: E402
import system  # noqa: E402
from pytorch_train import learning_rate  # noqa: E402

TOKENS = 256


def load(args, folder):
    """The network as Ronde begins it, and tokens and labels of both splits."""
    files.ronde(args.ronde, "data", "convert", f"text:{args.text}", "--window", args.window, "-o", folder, "--quiet")
    files.ronde(args.ronde, "init", "--model", "gpt-tiny", "--shape", args.window, "--classes", TOKENS, "--seed", args.seed,
                "-o", f"{folder}/weights.safetensors", "--quiet")
    arrays = [torch.from_numpy(np.load(f"{folder}/{split}_{part}.npy").astype(np.int64))
              for split in ("train", "test") for part in "xy"]
    file, net = system.File(f"{folder}/weights.safetensors"), models.TinyGpt(TOKENS, args.window, TOKENS)
    with torch.no_grad():
        for name, parameter in net.named_parameters():
            parameter.copy_(torch.from_numpy(file[name]))
    return net, arrays


def evaluate(net, x, y):
    with torch.no_grad():
        parts = [(models.cross_entropy(net(bx), by).item(), (by != models.IGNORED).sum().item())
                 for bx, by in zip(x.split(32), y.split(32))]
    return sum(loss * n for loss, n in parts) / sum(n for _, n in parts)


def batches(args, n):
    """Step, and which examples, on and on."""
    orders = (torch.from_numpy(draws.order(args.seed, epoch, n)) for epoch in itertools.count(1))
    return enumerate(itertools.chain.from_iterable(ids.split(args.batch) for ids in orders), 1)


def train(args, net, x, y):
    """Losses by step."""
    optimizer = torch.optim.Adam(net.parameters(), lr=args.lr, fused=True)
    losses, begin = [], time.perf_counter()
    steps = args.steps or args.epochs * -(-len(x) // args.batch)
    for step, ids in itertools.islice(batches(args, len(x)), args.stop or steps):
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(args, step, steps)
        optimizer.zero_grad()
        loss = models.cross_entropy(net(x[ids]), y[ids])
        loss.backward()
        if args.clip:
            torch.nn.utils.clip_grad_norm_(net.parameters(), args.clip)
        optimizer.step()
        losses.append(loss.item())
        line = {"step": step, "loss": losses[-1], "lr": optimizer.param_groups[0]["lr"], "wall_s": time.perf_counter() - begin}
        print(json.dumps(line), flush=True)
    return losses


def compare(losses, run, every):
    """Mean losses of so many steps each, and how far losses of the same step lie apart."""
    with open(pathlib.Path(run, "steps.jsonl")) as file:
        theirs = np.array([json.loads(line)["loss"] for line in file])
    losses = np.array(losses)
    n = min(len(losses), len(theirs))
    print("| steps | ronde | PyTorch | largest difference of a step |\n|---|---|---|---|")
    for begin in range(0, n, every):
        at = slice(begin, min(begin + every, n))
        print(f"| {begin + 1} to {at.stop} | {theirs[at].mean():.4f} | {losses[at].mean():.4f} | "
              f"{abs(theirs[at] - losses[at]).max():.2g} |")


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--ronde", required=True)
    p.add_argument("--text", required=True)
    p.add_argument("--window", type=int, default=128)
    p.add_argument("--batch", type=int, default=128)
    p.add_argument("--lr", type=float, default=0.01)
    p.add_argument("--lr-schedule", default="constant", choices=["constant", "cosine"])
    p.add_argument("--warmup", type=int, default=0, help="steps")
    p.add_argument("--clip", type=float, default=0.0)
    p.add_argument("--epochs", type=int, default=1)
    p.add_argument("--steps", type=int, default=0, help="so many, whatever --epochs says (0: off)")
    p.add_argument("--stop", type=int, default=0, help="after so many steps of them (0: after all)")
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--threads", type=int, default=1)
    p.add_argument("--beside", help="folder of a run of `ronde train`")
    p.add_argument("--every", type=int, default=500, help="steps of a row of the table")
    args = p.parse_args()
    torch.set_num_threads(args.threads)
    with tempfile.TemporaryDirectory() as folder:
        net, (x, y, test_x, test_y) = load(args, folder)
    losses = train(args, net, x, y)
    if not args.stop:
        print(json.dumps({"test_loss": evaluate(net, test_x, test_y)}), flush=True)
    if args.beside:
        compare(losses, args.beside, args.every)


main()

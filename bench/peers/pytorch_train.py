#!/usr/bin/env python3
"""Trains on Fashion-MNIST in PyTorch as `ronde train` does: same network, initialisation, optimizer, normalisation.

    python3 bench/peers/pytorch_train.py --model mnist-small --optimizer adam --lr 0.001 --batch 128 --epochs 5 --seed 1

Prints a JSON line an epoch: {"seed", "epoch", "train_loss", "test_loss", "test_accuracy", "wall_s"}. The data lie in
memory, the order is drawn anew each epoch, the short last batch is kept. Requirements: torch >= 2, numpy.
"""

import argparse
import gzip
import json
import pathlib
import sys
import time

import numpy as np
import torch

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tests" / "golden"))
import models  # noqa: E402

MEAN, DEVIATION = 0.2860, 0.3530


def read_idx(path):
    with gzip.open(path) as file:
        data = file.read()
    dims = [int.from_bytes(data[4 + 4 * i : 8 + 4 * i], "big") for i in range(data[3])]
    return np.frombuffer(data, np.uint8, offset=4 + 4 * len(dims)).reshape(dims)


def load(folder, split):
    x = torch.from_numpy(read_idx(folder / f"{split}-images-idx3-ubyte.gz").astype(np.float32))
    y = torch.from_numpy(read_idx(folder / f"{split}-labels-idx1-ubyte.gz").astype(np.int64))
    return ((x / 255 - MEAN) / DEVIATION).unsqueeze(1), y


def evaluate(net, x, y):
    net.eval()
    loss, correct = 0.0, 0
    with torch.no_grad():
        for bx, by in zip(x.split(1000), y.split(1000)):
            logits = net(bx)
            loss += torch.nn.functional.cross_entropy(logits, by, reduction="sum").item()
            correct += (logits.argmax(1) == by).sum().item()
    net.train()
    return loss / len(x), correct / len(x)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="mnist-small", choices=["lenet5", "mnist-small", "mnist-large"])
    parser.add_argument("--padding", default="same", choices=["same", "valid"])
    parser.add_argument("--data", type=pathlib.Path, default=pathlib.Path("/usr/share/datasets/fashion-mnist"))
    parser.add_argument("--optimizer", default="adam", choices=["sgd", "adam"])
    parser.add_argument("--lr", type=float, default=0.001)
    parser.add_argument("--momentum", type=float, default=0.0)
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--threads", type=int, default=1)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    torch.manual_seed(args.seed)

    (x, y), (test_x, test_y) = load(args.data, "train"), load(args.data, "t10k")
    net = models.build(args.model, 1, 28, 10, args.padding)
    if args.optimizer == "adam":
        optimizer = torch.optim.Adam(net.parameters(), lr=args.lr, fused=True)
    else:
        optimizer = torch.optim.SGD(net.parameters(), lr=args.lr, momentum=args.momentum, fused=True)
    for epoch in range(1, args.epochs + 1):
        begin, loss_sum = time.perf_counter(), 0.0
        for ids in torch.randperm(len(x)).split(args.batch):
            optimizer.zero_grad()
            loss = torch.nn.functional.cross_entropy(net(x[ids]), y[ids])
            loss.backward()
            optimizer.step()
            loss_sum += loss.item() * len(ids)
        wall_s = time.perf_counter() - begin
        test_loss, test_accuracy = evaluate(net, test_x, test_y)
        print(
            json.dumps(
                {
                    "seed": args.seed,
                    "epoch": epoch,
                    "train_loss": round(loss_sum / len(x), 5),
                    "test_loss": round(test_loss, 5),
                    "test_accuracy": test_accuracy,
                    "wall_s": round(wall_s, 2),
                }
            ),
            flush=True,
        )


main()

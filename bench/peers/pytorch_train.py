#!/usr/bin/env python3
"""Trains on Fashion-MNIST in PyTorch as `ronde train` does: same network, initialisation, optimizer, normalisation.

    python3 bench/peers/pytorch_train.py --model mnist-small --optimizer adam --lr 0.001 --batch 128 --epochs 5 --seed 1

    python3 bench/peers/pytorch_train.py --model resnet18-cifar --optimizer sgd --lr 0.03 --warmup 200 \\
        --momentum 0.9 --weight-decay 5e-4 --lr-schedule cosine --augment --workers 2 --batch 64 --epochs 5

Prints a JSON line an epoch: {"seed", "epoch", "train_loss", "test_loss", "test_accuracy", "wall_s"}. The data lie in
memory, the order is drawn anew each epoch, the short last batch is kept. With workers: DistributedDataParallel over
gloo, each batch cut into contiguous parts, the statistics of batch norm local, the training loss rank 0's.
Requirements: torch >= 2, numpy.
"""

import argparse
import json
import math
import os
import pathlib
import sys
import time

import numpy as np
import torch

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tests" / "golden"))
import models  # noqa: E402
from fashion_mnist import DEVIATION, MEAN, read_idx  # noqa: E402


def load(folder, split):
    """Images as stored, [n][1][h][w] of 0 to 255, and labels."""
    x = torch.from_numpy(read_idx(folder / f"{split}-images-idx3-ubyte.gz").astype(np.float32))
    y = torch.from_numpy(read_idx(folder / f"{split}-labels-idx1-ubyte.gz").astype(np.int64))
    return x.unsqueeze(1), y


def normalize(x):
    return (x / 255 - MEAN) / DEVIATION


def augment(x):
    """Each image cropped at random out of 4 pixels of zeros around it, and mirrored with probability 1/2."""
    n, _, h, w = x.shape
    padded = torch.nn.functional.pad(x, (4, 4, 4, 4))
    out = torch.empty_like(x)
    downs, rights, flips = torch.randint(9, (n,)), torch.randint(9, (n,)), torch.randint(2, (n,))
    for i, (down, right, flip) in enumerate(zip(downs.tolist(), rights.tolist(), flips.tolist())):
        image = padded[i, :, down : down + h, right : right + w]
        out[i] = image.flip(-1) if flip else image
    return out


def init_resnet(net):
    """torchvision's: convolutions by He's normal distribution over their outputs."""
    for module in net.modules():
        if isinstance(module, torch.nn.Conv2d):
            torch.nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")


def evaluate(net, x, y):
    net.eval()
    loss, correct = 0.0, 0
    with torch.no_grad():
        for bx, by in zip(x.split(1000), y.split(1000)):
            logits = net(normalize(bx))
            loss += torch.nn.functional.cross_entropy(logits, by, reduction="sum").item()
            correct += (logits.argmax(1) == by).sum().item()
    net.train()
    return loss / len(x), correct / len(x)


def learning_rate(args, step, steps):
    """Of update `step`, from 1, as `ronde train --lr-schedule --warmup` has it."""
    lr = args.lr * min(1, step / args.warmup) if args.warmup else args.lr
    done = max(0, step - args.warmup - 1) / max(1, steps - args.warmup)
    return lr * (1 + math.cos(math.pi * done)) / 2 if args.lr_schedule == "cosine" else lr


def train(rank, args):
    torch.set_num_threads(args.threads)
    torch.manual_seed(args.seed)
    (x, y), (test_x, test_y) = load(args.data, "train"), load(args.data, "t10k")
    net = models.build(args.model, 1, 28, 10, args.padding)
    if args.model.startswith("resnet"):
        init_resnet(net)
    model = net
    if args.workers > 1:
        torch.distributed.init_process_group("gloo", rank=rank, world_size=args.workers)
        model = torch.nn.parallel.DistributedDataParallel(net)
    if args.optimizer == "adam":
        optimizer = torch.optim.Adam(net.parameters(), lr=args.lr, fused=True)
    else:
        optimizer = torch.optim.SGD(
            net.parameters(), lr=args.lr, momentum=args.momentum, weight_decay=args.weight_decay, fused=True
        )
    step, steps = 0, args.epochs * math.ceil(len(x) / args.batch)
    state, done = args.state and pathlib.Path(f"{args.state}.{rank}"), 0
    if state and state.exists():
        kept = torch.load(state)
        net.load_state_dict(kept["net"])
        optimizer.load_state_dict(kept["optimizer"])
        torch.set_rng_state(kept["rng"])
        step, done = kept["step"], kept["epoch"]
    for epoch in range(done + 1, args.epochs + 1):
        begin, loss_sum = time.perf_counter(), 0.0
        for ids in torch.randperm(len(x)).split(args.batch):
            step += 1
            for group in optimizer.param_groups:
                group["lr"] = learning_rate(args, step, steps)
            bx = augment(x[ids]) if args.augment else x[ids]
            own = slice(len(ids) * rank // args.workers, len(ids) * (rank + 1) // args.workers)
            optimizer.zero_grad()
            loss = torch.nn.functional.cross_entropy(model(normalize(bx[own])), y[ids[own]])
            loss.backward()
            optimizer.step()
            loss_sum += loss.item() * len(ids)
        wall_s = time.perf_counter() - begin
        if state:
            kept = {"net": net.state_dict(), "optimizer": optimizer.state_dict(), "rng": torch.get_rng_state()}
            torch.save(kept | {"step": step, "epoch": epoch}, state)
        if rank > 0:
            continue
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


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--model", default="mnist-small", choices=["lenet5", "mnist-small", "mnist-large", "resnet18-cifar"]
    )
    parser.add_argument("--padding", default="same", choices=["same", "valid"])
    parser.add_argument("--data", type=pathlib.Path, default=pathlib.Path("/usr/share/datasets/fashion-mnist"))
    parser.add_argument("--augment", action="store_true")
    parser.add_argument("--optimizer", default="adam", choices=["sgd", "adam"])
    parser.add_argument("--lr", type=float, default=0.001)
    parser.add_argument("--lr-schedule", default="constant", choices=["constant", "cosine"])
    parser.add_argument("--warmup", type=int, default=0, help="steps")
    parser.add_argument("--momentum", type=float, default=0.0)
    parser.add_argument("--weight-decay", type=float, default=0.0)
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--state", help="kept in FILE.RANK after each epoch; a run that was broken off goes on from there")
    args = parser.parse_args()
    if args.workers == 1:
        return train(0, args)
    os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
    os.environ.setdefault("MASTER_PORT", "29511")
    torch.multiprocessing.spawn(train, (args,), nprocs=args.workers)


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Training steps in eager PyTorch, timed on command, so that a driver can alternate systems in one run.

    OMP_NUM_THREADS=1 LD_PRELOAD=libtcmalloc_minimal.so.4 taskset -c 0 python3 bench/peers/pytorch_step.py \\
        --model mnist-small --batch 128 --optimizer adam [--channels-last] [--threads 1]

Reads lines from stdin: "go N" makes N steps and prints {"median_ms", "min_ms", "steps", "loss", "peak_rss_bytes"} as a
JSON line; "quit" or the end of input ends it. A step is forward, backward and update (fused optimizer) on a batch that
is in memory. The preload (Debian package libtcmalloc-minimal4) spares PyTorch the cost of fresh pages at every step;
leave it out to see it. The first line tells what importing PyTorch alone took ("import_rss_bytes"): its builds differ
much in that.
Requirements: torch >= 2, numpy.
"""

import argparse
import json
import pathlib
import resource
import statistics
import sys
import time

import torch

IMPORT_RSS_BYTES = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tests" / "golden"))
import models  # noqa: E402


SHAPES = {"lenet5": "3x32x32", "mnist-small": "1x28x28", "mnist-large": "1x28x28", "alexnet": "3x64x64",
          "resnet18": "3x32x32", "resnet50": "3x32x32", "resnet18-cifar": "3x32x32"}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True, choices=list(SHAPES))
    parser.add_argument("--padding", default="same", choices=["same", "valid"])
    parser.add_argument("--shape", help="CxHxW (default: the model's)")
    parser.add_argument("--classes", type=int, default=10)
    parser.add_argument("--batch", type=int, required=True)
    parser.add_argument("--optimizer", default="sgd", choices=["sgd", "momentum", "adam"])
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--channels-last", action="store_true")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    torch.manual_seed(1)

    channels, size, _ = (
        int(d) for d in (args.shape or SHAPES[args.model]).split("x")
    )
    net = models.build(args.model, channels, size, args.classes, args.padding)
    x = torch.randn(args.batch, channels, size, size)
    y = torch.randint(0, args.classes, (args.batch,))
    if args.channels_last:
        net, x = net.to(memory_format=torch.channels_last), x.contiguous(memory_format=torch.channels_last)
    if args.optimizer == "adam":
        optimizer = torch.optim.Adam(net.parameters(), lr=0.001, fused=True)
    else:
        optimizer = torch.optim.SGD(
            net.parameters(), lr=0.01, momentum=0.9 if args.optimizer == "momentum" else 0, fused=True
        )

    def step():
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(net(x), y)
        loss.backward()
        optimizer.step()
        return loss

    for _ in range(5):
        step()
    print(
        json.dumps(
            {
                "ready": True,
                "parameters": sum(p.numel() for p in net.parameters()),
                "torch": torch.__version__,
                "import_rss_bytes": IMPORT_RSS_BYTES,
            }
        ),
        flush=True,
    )
    for line in sys.stdin:
        words = line.split()
        if not words or words[0] == "quit":
            break
        times = []
        for _ in range(int(words[1])):
            begin = time.perf_counter()
            loss = step()
            times.append(1e3 * (time.perf_counter() - begin))
        print(
            json.dumps(
                {
                    "median_ms": round(statistics.median(times), 4),
                    "min_ms": round(min(times), 4),
                    "steps": len(times),
                    "loss": round(loss.item(), 6),
                    "peak_rss_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
                }
            ),
            flush=True,
        )


main()

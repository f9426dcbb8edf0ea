#!/usr/bin/env python3
"""One rank of PyTorch over gloo: steps of DistributedDataParallel on a batch in memory, or all-reduces. bench/hosts.py
starts one on each host.

    pytorch_ddp.py --rank R --world N --address IP:PORT --interface eth0 --steps 30 --model resnet18 --shape 3x64x64
    pytorch_ddp.py --rank R --world N --address IP:PORT --interface eth0 --steps 8 --bytes 4194304

Rank 0 prints a JSON line: {"seconds": [...]}. Batch: a rank's own. The first three are warm-up, and left out.
Requirements: torch >= 2.
"""

import argparse
import json
import os
import pathlib
import sys
import time

parser = argparse.ArgumentParser()
parser.add_argument("--rank", type=int, required=True)
parser.add_argument("--world", type=int, required=True)
parser.add_argument("--address", required=True)
parser.add_argument("--interface", required=True)
parser.add_argument("--model")
parser.add_argument("--shape", default="1x28x28")
parser.add_argument("--batch", type=int, default=42)
parser.add_argument("--momentum", type=float, default=0.0)
parser.add_argument("--bytes", type=int)
parser.add_argument("--steps", type=int, default=30)
args = parser.parse_args()
os.environ.update(OMP_NUM_THREADS="1", GLOO_SOCKET_IFNAME=args.interface)

import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tests" / "golden"))
import models  # noqa: E402

WARM_UP = 3


def allreduce():
    x = torch.ones(args.bytes // 4)
    return lambda: (dist.barrier(), time.perf_counter(), dist.all_reduce(x))[1]


def training():
    shape = [int(side) for side in args.shape.split("x")]
    net = models.build(args.model, shape[0], tuple(shape[1:]), 10, "same")
    net = torch.nn.parallel.DistributedDataParallel(net)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01, momentum=args.momentum, fused=True)
    x, y = torch.randn(args.batch, *shape), torch.randint(10, (args.batch,))

    def step():
        begin = time.perf_counter()
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(net(x), y).backward()
        optimizer.step()
        return begin

    return step


torch.set_num_threads(1)
dist.init_process_group("gloo", init_method=f"tcp://{args.address}", rank=args.rank, world_size=args.world)
measured, seconds = training() if args.model else allreduce(), []
for _ in range(args.steps + WARM_UP):
    begin = measured()
    seconds.append(time.perf_counter() - begin)
if args.rank == 0:
    print(json.dumps({"seconds": seconds[WARM_UP:]}))
dist.destroy_process_group()

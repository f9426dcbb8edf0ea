#!/usr/bin/env python3
"""A worker of PyTorch's DistributedDataParallel over gloo: see cluster.py. Forward, backward and update by torch.profiler, whose
events of operators are summed on the thread that runs them; gradients are all-reduced in buckets while backward goes on.
Requirements: torch >= 2, numpy.
"""

import pathlib
import sys
import time

from worker import PROFILED, Worker, rows

worker = Worker()
spec = worker.spec

import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
from torch.profiler import ProfilerActivity, profile  # noqa: E402

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tests" / "golden"))
import models  # noqa: E402
from pytorch_count import count_flops  # noqa: E402


def phase_of(name):
    if name.startswith(("Optimizer", "aten::_fused", "aten::_foreach")):
        return "update"
    if "Backward" in name or "_backward" in name or name.startswith("autograd::"):
        return "backward"
    return "exchange" if name.startswith(("c10d::", "gloo:", "record_param")) else "forward"


def main():
    torch.set_num_threads(spec["threads"])
    dist.init_process_group("gloo", init_method=f"tcp://{spec['address']}", rank=spec["rank"], world_size=spec["workers"])
    net = models.build(spec["model"], spec["shape"][0], tuple(spec["shape"][1:]), spec["classes"], spec["padding"])
    with torch.no_grad():
        for name, parameter in net.named_parameters():
            parameter.copy_(torch.from_numpy(worker.file[name]))
    parameters = sum(p.numel() for p in net.parameters())
    flops = count_flops(torch, net, torch.zeros(1, *spec["shape"]))
    replica = torch.nn.parallel.DistributedDataParallel(net)
    if spec["optimizer"] == "adam":
        optimizer = torch.optim.Adam(net.parameters(), lr=spec["lr"], betas=tuple(spec["betas"]), eps=spec["eps"] or 1e-8, fused=True)
    else:
        optimizer = torch.optim.SGD(net.parameters(), lr=spec["lr"], momentum=spec["momentum"], fused=True)
    spent = {"forward_s": 0.0, "backward_s": 0.0, "update_s": 0.0}

    def step(x, y):
        x, y = torch.from_numpy(x), torch.from_numpy(y)
        begin = time.perf_counter()
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(replica(x), y)
        ended = time.perf_counter()
        loss.backward()
        updated = time.perf_counter()
        optimizer.step()
        spent["forward_s"] += ended - begin
        spent["backward_s"] += updated - ended
        spent["update_s"] += time.perf_counter() - updated
        return loss.item()

    setup_s = time.perf_counter() - worker.begin
    worker.measure(spec["rank"], step)
    counted = {name: seconds / spec["steps"] for name, seconds in spent.items()}
    with profile(activities=[ProfilerActivity.CPU]) as profiler:
        for i in range(PROFILED):
            step(*worker.part(spec["rank"], i))
    ops = {}
    for event in profiler.key_averages():
        if event.key.startswith("aten::") or event.key.startswith("Optimizer"):
            ops[event.key, phase_of(event.key)] = event.count, event.self_cpu_time_total * 1e-6
    computed = sum(seconds for (_, phase), (_, seconds) in ops.items() if phase != "update" and phase != "exchange") / PROFILED
    # What of backward is no operator is the wait for the buckets that are still on their way.
    counted["backward_s"] = min(counted["backward_s"], max(0.0, computed - counted["forward_s"]))
    worker.report(spec["rank"], counted, ops=rows(ops, spec["steps"]), parameters=parameters, forward_flops_per_example=flops,
                  version=torch.__version__, threads=torch.get_num_threads(), transport="gloo", setup_s=setup_s,
                  split_by="forward and update by the clock around them; backward by torch.profiler's operators; exchange and "
                           "waiting are the rest of a step")
    dist.barrier()


main()

#!/usr/bin/env python3
"""A process of MXNet over the key-value store dist_sync or dist_async: see cluster.py. The scheduler, the server and the workers are
told by DMLC_ROLE and its like what they are. Forward, backward and update by MXNet's profiler (its aggregate statistics).
Requirements: mxnet 1.9.1, numpy < 1.24.
"""

import json
import time
import warnings

from worker import PROFILED, Worker, rows

warnings.simplefilter("ignore")
worker = Worker()
spec = worker.spec

import mxnet as mx  # noqa: E402  a server or scheduler stays in there until the workers are done

from mxnet_count import count_flops  # noqa: E402
from mxnet_ops import loss_block  # noqa: E402


def phase_of(name):
    if name.startswith("_backward") or "backward" in name:
        return "backward"
    return "update" if name.endswith("_update") else "forward"


def statistics():
    """{(op, phase): (calls, seconds)} of what the profiler has seen of operators."""
    found = {}
    for name, row in json.loads(mx.profiler.dumps(format="json"))["Time"].get("operator", {}).items():
        if not name.startswith(("KVStore", "WaitForVar", "DeleteVariable", "CopyCPU", "SetValueOp")):
            found[name, phase_of(name)] = int(row["Count"]), float(row["Total"]) * 1e-3
    return found


def main():
    store = mx.kv.create("dist_sync" if spec["system"] == "mxnet-sync" else "dist_async")
    block, logits, n_parameters = loss_block(worker.file, spec["model"], spec["padding"], tuple(spec["shape"][1:]))
    options = {"learning_rate": spec["lr"]}
    if spec["optimizer"] == "sgd":
        options["momentum"] = spec["momentum"]
    else:
        options.update(beta1=spec["betas"][0], beta2=spec["betas"][1], epsilon=spec["eps"] or 1e-8)
    trainer = mx.gluon.Trainer(block.collect_params(), spec["optimizer"], options, kvstore=store, update_on_kvstore=True)
    # The server sums the workers' gradients of a synchronous step; each is of its own part's mean.
    parts = spec["workers"] if spec["system"] == "mxnet-sync" else 1
    flops = count_flops(logits, (1, *spec["shape"]))

    def step(x, y):
        x, y = mx.nd.array(x), mx.nd.array(y)
        with mx.autograd.record():
            loss = block(x, y)
        loss.backward()
        trainer.step(parts)
        mx.nd.waitall()
        return loss.asscalar()

    setup_s = time.perf_counter() - worker.begin
    worker.measure(store.rank, step)
    mx.profiler.set_config(profile_imperative=True, profile_symbolic=True, aggregate_stats=True, filename="/dev/null")
    mx.profiler.set_state("run")
    for i in range(PROFILED):
        step(*worker.part(store.rank, i))
    mx.profiler.set_state("stop")
    ops = statistics()
    seconds = {f"{phase}_s": sum(s for (_, p), (_, s) in ops.items() if p == phase) / PROFILED
               for phase in ("forward", "backward", "update")}
    # Its running variance is that of the batch, not corrected for the batch's size.
    batch_norm = "statistics of a worker's part, biased running variance" if any("BatchNorm" in op for op, _ in ops) else ""
    worker.report(store.rank, seconds, batch_norm=batch_norm, ops=rows(ops, spec["steps"]), parameters=n_parameters, forward_flops_per_example=flops,
                  version=mx.__version__, threads=spec["threads"], transport="ps-lite", setup_s=setup_s,
                  split_by="forward, backward and update by MXNet's profiler; exchange and waiting, and the server's update, are "
                           "the rest of a step")


main()

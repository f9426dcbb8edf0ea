#!/usr/bin/env python3
"""One process of MXNet on several: steps of a trainer over the dist_async key-value store. bench/workers.py starts the
scheduler, the server and the workers, each told by DMLC_ROLE and its like what it is.

The worker of rank 0 prints a JSON line: {"steps_per_s"}.
Requirements: mxnet 1.9.1, numpy < 1.24.
"""

import json
import os
import time
import warnings

import system

args = system.worker_parser().parse_args()
os.environ["OMP_NUM_THREADS"] = "1"
warnings.simplefilter("ignore")

import mxnet as mx  # noqa: E402  a server or scheduler stays in there until the workers are done

from mxnet_ops import loss_block  # noqa: E402

WARM_UP = 5
shape = tuple(map(int, args.shape.split("x")))
store = mx.kv.create("dist_async")
block, _, _ = loss_block(system.File(args.file), args.model, "same", shape[1:])
options = {"learning_rate": 0.01, "momentum": args.momentum}
trainer = mx.gluon.Trainer(block.collect_params(), "sgd", options, kvstore=store, update_on_kvstore=True)
x, y = mx.nd.random.normal(shape=(args.batch, *shape)), mx.nd.floor(mx.nd.random.uniform(0, 10, (args.batch,)))


def run(steps):
    for _ in range(steps):
        with mx.autograd.record():
            loss = block(x, y)
        loss.backward()
        trainer.step(1)
        mx.nd.waitall()


run(WARM_UP)
begin = time.perf_counter()
run(args.steps)
if store.rank == 0:
    print(json.dumps({"steps_per_s": args.steps / (time.perf_counter() - begin)}), flush=True)

#!/usr/bin/env python3
"""Training steps in MXNet, on command: see system.py, and `ronde bench step --peers mxnet`.

A hybridized block with static memory and shapes, the loss within; the trainer's fused optimizer.
Requirements: mxnet 1.9.1, numpy < 1.24.
"""

import warnings

import system

args = system.arguments()
system.prepare(args.threads)
warnings.simplefilter("ignore")

import mxnet as mx  # noqa: E402

import networks  # noqa: E402
from mxnet_count import count_flops  # noqa: E402
from mxnet_ops import loss_block  # noqa: E402


def main():
    file = system.File(args.file)
    if args.model not in networks.NETWORKS:
        system.absent(f"{args.model} is not written in MXNet")
        return
    x, y = mx.nd.array(file.x), mx.nd.array(file.labels)
    block, logits, n_parameters = loss_block(file, args.model, args.padding, x.shape[2:])
    options = {"learning_rate": args.lr}
    if args.optimizer == "sgd":
        options["momentum"] = args.momentum
    trainer = mx.gluon.Trainer(block.collect_params(), args.optimizer, options, kvstore=None)

    def step():
        with mx.autograd.record():
            result = block(x, y)
        result.backward()
        trainer.step(1)
        mx.nd.waitall()
        return result.asscalar()

    system.serve(args, step, n_parameters, count_flops(logits, x.shape), version=mx.__version__)


main()

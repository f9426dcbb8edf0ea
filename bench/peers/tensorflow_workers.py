#!/usr/bin/env python3
"""One process of TensorFlow on several: steps of MultiWorkerMirroredStrategy (ring), or of ParameterServerStrategy,
which is asynchronous. bench/workers.py starts all of them.

    tensorflow_workers.py --cluster '{"worker": ["127.0.0.1:5001", "127.0.0.1:5002"]}' --task worker:0 ...
    tensorflow_workers.py --cluster '{"chief": [...], "worker": [...], "ps": [...]}' --task chief:0 ...

Worker 0, or the chief, prints a JSON line: {"steps_per_s"} of each worker's batch. Networks without batch normalisation.
Requirements: tensorflow-cpu >= 2.16, numpy.
"""

import json
import os
import time

import system

parser = system.worker_parser()
parser.add_argument("--cluster", type=json.loads, required=True)
parser.add_argument("--task", required=True)
args = parser.parse_args()
kind, index = args.task.split(":")
os.environ["TF_CONFIG"] = json.dumps({"cluster": args.cluster, "task": {"type": kind, "index": int(index)}})

import networks  # noqa: E402
from tensorflow_ops import Ops, tf  # noqa: E402

WARM_UP = 5
channels, *size = map(int, args.shape.split("x"))
tf.config.threading.set_intra_op_parallelism_threads(1)
tf.config.threading.set_inter_op_parallelism_threads(2)


def make_step(strategy):
    """A tf.function that makes each worker's step, or one worker's."""
    with strategy.scope():
        ops = Ops(system.File(args.file))
        x = tf.random.normal([args.batch, *size, channels])
        y = tf.random.uniform([args.batch], maxval=10, dtype=tf.int64)
        networks.build(args.model, ops, x[:1], "same", tuple(size))  # makes the variables
        optimizer = tf.compat.v1.train.MomentumOptimizer(0.01, args.momentum)

    def replica():
        with tf.GradientTape() as tape:
            logits = networks.build(args.model, ops, x, "same", tuple(size))
            loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=logits))
        variables = list(ops.variables.values())
        optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables))
        return loss

    return tf.function(lambda: strategy.run(replica))


def measure(run, steps):
    run(WARM_UP)
    begin = time.perf_counter()
    run(steps)
    print(json.dumps({"steps_per_s": steps / (time.perf_counter() - begin)}), flush=True)


def mirrored():
    ring = tf.distribute.experimental.CommunicationImplementation.RING
    options = tf.distribute.experimental.CommunicationOptions(implementation=ring)
    step = make_step(tf.distribute.MultiWorkerMirroredStrategy(communication_options=options))
    measure(lambda n: [step() for _ in range(n)], args.steps)


def parameter_servers():
    resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
    if kind != "chief":
        server = tf.distribute.Server(resolver.cluster_spec(), job_name=kind, task_index=int(index), protocol="grpc")
        server.join()
    strategy = tf.distribute.ParameterServerStrategy(resolver)
    coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
    step, workers = make_step(strategy), len(args.cluster["worker"])

    def run(n):
        for _ in range(n * workers):
            coordinator.schedule(step)
        coordinator.join()

    measure(run, args.steps)


parameter_servers() if "ps" in args.cluster else mirrored()

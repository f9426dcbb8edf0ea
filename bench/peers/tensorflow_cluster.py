#!/usr/bin/env python3
"""A process of TensorFlow's MultiWorkerMirroredStrategy (ring), the one of MirroredStrategy (as many devices of the processor, each
its threads' share, whose phases are sums over the devices divided by their number), or one of ParameterServerStrategy (asynchronous: a step is each
worker's, and the chief's clock runs until all of a step's are done): see cluster.py. Forward, backward and update by
TensorFlow's profiler, whose events of operators are read from its trace (xplane.pb).
Networks without batch normalisation. Requirements: tensorflow-cpu >= 2.16, numpy.
"""

import collections
import pathlib
import tempfile
import time

from worker import PROFILED, Worker, rows

worker = Worker()
spec = worker.spec

import networks  # noqa: E402
from tensorflow_ops import Ops, tf  # noqa: E402

tf.config.threading.set_intra_op_parallelism_threads(spec["threads"])
tf.config.threading.set_inter_op_parallelism_threads(2)
size, is_mirrored = tuple(spec["shape"][1:]), spec["system"] != "tensorflow-ps"


def make_replica(strategy):
    """(function of a replica's step, variables, FLOPs). Losses are of the replica's own part."""
    with strategy.scope():
        ops = Ops(worker.file)
        networks.build(spec["model"], ops, tf.zeros([1, *size, spec["shape"][0]]), spec["padding"], size)  # makes the variables
        flops = ops.flops
        if spec["optimizer"] == "adam":
            optimizer = tf.compat.v1.train.AdamOptimizer(spec["lr"], *spec["betas"], epsilon=spec["eps"] or 1e-8)
        else:
            optimizer = tf.compat.v1.train.MomentumOptimizer(spec["lr"], spec["momentum"])
    variables = list(ops.variables.values())

    def replica(x, y):
        with tf.GradientTape() as tape:
            logits = networks.build(spec["model"], ops, x, spec["padding"], size)
            loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=logits))
        gradients = tape.gradient(loss, variables)
        if is_mirrored:  # its optimizer sums what the replicas have
            gradients = [g / spec["workers"] for g in gradients]
        optimizer.apply_gradients(zip(gradients, variables))
        return loss

    return replica, variables, flops


def phase_of(name, kind):
    if "Apply" in kind:
        return "update"
    if kind.startswith(("Collective", "_Send", "_Recv", "ExecuteAsync")):
        return "exchange"
    return "backward" if "gradient_tape" in name or "Grad" in kind or "Backprop" in kind else "forward"


def profile(steps):
    """{(op, phase): (calls, seconds)} of the PROFILED steps that it makes."""
    from tensorflow.tsl.profiler.protobuf import xplane_pb2

    found = collections.defaultdict(lambda: (0, 0.0))
    with tempfile.TemporaryDirectory() as folder:
        tf.profiler.experimental.start(folder)
        steps()
        tf.profiler.experimental.stop()
        for path in pathlib.Path(folder).rglob("*.xplane.pb"):
            space = xplane_pb2.XSpace()
            space.ParseFromString(path.read_bytes())
            for plane in space.planes:
                for line in plane.lines:
                    for event in line.events:
                        name, _, kind = plane.event_metadata[event.metadata_id].name.rpartition(":")
                        if not name or name.endswith(":") or not kind.isidentifier() or " " in name:  # no operator
                            continue
                        calls, seconds = found[kind, phase_of(name, kind)]
                        found[kind, phase_of(name, kind)] = calls + 1, seconds + event.duration_ps * 1e-12
    return {key: value for key, value in found.items() if key[1] != "exchange"}


def report(rank, ops, variables, flops, transport, setup_s, devices=1):
    seconds = {f"{phase}_s": sum(s for (_, p), (_, s) in ops.items() if p == phase) / PROFILED / devices
               for phase in ("forward", "backward", "update")}
    worker.report(rank, seconds, ops=rows(ops, spec["steps"]), parameters=sum(int(tf.size(v)) for v in variables),
                  forward_flops_per_example=flops, version=tf.__version__, threads=spec["threads"], transport=transport,
                  setup_s=setup_s, split_by="forward, backward and update by TensorFlow's profiler (of this process); exchange "
                                            "and waiting are the rest of a step")


def mirrored():
    ring = tf.distribute.experimental.CommunicationImplementation.RING
    options = tf.distribute.experimental.CommunicationOptions(implementation=ring)
    strategy = tf.distribute.MultiWorkerMirroredStrategy(communication_options=options)
    replica, variables, flops = make_replica(strategy)
    run = tf.function(lambda x, y: strategy.run(replica, (x, y)))
    rank = spec["task"]["index"]

    def step(x, y):
        return run(tf.constant(x.transpose(0, 2, 3, 1)), tf.constant(y)).numpy()

    setup_s = time.perf_counter() - worker.begin
    worker.measure(rank, step)
    ops = profile(lambda: [step(*worker.part(rank, i)) for i in range(PROFILED)])
    report(rank, ops, variables, flops, "grpc, ring", setup_s)


def replicas():
    """Threads of the one process: those of all devices."""
    n = spec["workers"]
    cpu = tf.config.list_physical_devices("CPU")[0]
    tf.config.threading.set_intra_op_parallelism_threads(n * spec["threads"])
    tf.config.threading.set_inter_op_parallelism_threads(n)
    tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * n)
    strategy = tf.distribute.MirroredStrategy([f"CPU:{i}" for i in range(n)])
    replica, variables, flops = make_replica(strategy)
    variables = [strategy.experimental_local_results(v)[0] for v in variables]
    run = tf.function(lambda x, y: strategy.reduce(tf.distribute.ReduceOp.MEAN, strategy.run(replica, (x, y)), axis=None))
    whole = worker.part
    worker.part = lambda rank, i: [whole(r, i) for r in range(n)]

    def step(parts):
        values = strategy.experimental_distribute_values_from_function
        x = values(lambda context: tf.constant(parts[context.replica_id_in_sync_group][0].transpose(0, 2, 3, 1)))
        y = values(lambda context: tf.constant(parts[context.replica_id_in_sync_group][1]))
        return run(x, y).numpy()

    setup_s = time.perf_counter() - worker.begin
    worker.measure(0, lambda *parts: step(parts))
    ops = profile(lambda: [step(worker.part(0, i)) for i in range(PROFILED)])
    report(0, ops, variables, flops, "one process", setup_s, n)


def parameter_servers():
    resolver, task = tf.distribute.cluster_resolver.TFConfigClusterResolver(), spec["task"]
    if task["type"] != "chief":
        tf.distribute.Server(resolver.cluster_spec(), job_name=task["type"], task_index=task["index"], protocol="grpc").join()
    strategy = tf.distribute.ParameterServerStrategy(resolver)
    coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
    replica, variables, flops = make_replica(strategy)
    run = tf.function(lambda x, y: strategy.run(replica, (x, y)))

    def make(i):
        """A step of every worker, with its part of the batch, which the chief hands it."""
        results = []
        for rank in range(spec["workers"]):
            begin = time.perf_counter()
            x, y = worker.part(rank, i)
            worker.loading += time.perf_counter() - begin
            results.append(coordinator.schedule(run, args=(tf.constant(x.transpose(0, 2, 3, 1)), tf.constant(y))))
        coordinator.join()
        return sum(float(one.fetch()) for one in results) / spec["workers"]

    setup_s, cpu = time.perf_counter() - worker.begin, time.process_time()
    for i in range(spec["steps"]):
        begin = time.perf_counter()
        worker.losses.append(make(i))
        worker.seconds.append(time.perf_counter() - begin)
    worker.cpu_s = time.process_time() - cpu
    worker.report(0, {}, ops=[], parameters=sum(int(tf.size(v)) for v in variables), forward_flops_per_example=flops,
                  version=tf.__version__, threads=spec["threads"], transport="grpc", setup_s=setup_s,
                  split_by="loading by the chief's clock, which hands out the parts; the rest is not told apart, because the "
                           "chief's profiler does not see the workers' operators")


{"tensorflow-mirrored": mirrored, "tensorflow-replicas": replicas, "tensorflow-ps": parameter_servers}[spec["system"]]()

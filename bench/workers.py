#!/usr/bin/env python3
"""Workers of one thread on the cores of this machine, each with a batch of its own in memory: Ronde alone, over threads,
over MPI and over asynchronous parameter servers; PyTorch's DistributedDataParallel (gloo), TensorFlow's
MultiWorkerMirroredStrategy (ring) and ParameterServerStrategy, MXNet's dist_async. Alternated rounds; medians of
examples a second of all workers.

    python3 bench/workers.py --ronde build/ronde --peers-dir peers --model resnet18
    python3 bench/workers.py --ronde build/ronde --model resnet50            Ronde's own efficiency

TensorFlow is left out for networks with batch normalisation.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import tempfile

SCRIPTS = pathlib.Path(__file__).resolve().parent / "peers"
SHAPES = {"lenet5": "1x28x28", "mnist-small": "1x28x28", "mnist-large": "1x28x28", "alexnet": "3x64x64"}

p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
p.add_argument("--ronde", required=True)
p.add_argument("--peers-dir", type=pathlib.Path, help="what `make peers` made; without: no peers")
p.add_argument("--model", required=True)
p.add_argument("--batch", type=int, default=42, help="of each worker")
p.add_argument("--momentum", default="0.9")
p.add_argument("--workers", type=int, default=2)
p.add_argument("--rounds", type=int, default=3)
p.add_argument("--steps", type=int, default=30)
a = p.parse_args()
shape = SHAPES.get(a.model, "3x32x32")
port = 29600


def ronde(workers, *options):
    examples = a.batch * workers
    with tempfile.TemporaryDirectory() as folder:
        command = [a.ronde, "train", "--model", a.model, "--data", f"synthetic:{shape}:10:{examples * 4}", "--batch",
                   str(examples), "--momentum", a.momentum, "--threads", "1", "--workers", str(workers), "--eval-every",
                   "0", "--save-best", "off", "--save-last", "off", "--epochs", "100000", "--steps",
                   str(a.steps + 5), "--quiet", "--out", folder, *options]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, timeout=600)
        lines = pathlib.Path(folder, "steps.jsonl").read_text().splitlines()
    return examples / statistics.median([json.loads(line)["wall_s"] for line in lines][5:])


def processes(commands):
    """Each (command, environment); what the one that prints has printed, the others of its kind having ended silently where
    they come before it. Then all are ended: servers, which come last, would not end by themselves."""
    ranks = [subprocess.Popen(list(map(str, command)), env=dict(os.environ, **env), stdout=subprocess.PIPE,
                              stderr=subprocess.DEVNULL, text=True) for command, env in commands]
    said = json.loads(next(filter(None, (rank.stdout.readline() for rank in ranks))))
    for rank in ranks:
        rank.terminate()
    for rank in ranks:
        rank.wait()
    return said


def ports(n):
    global port
    port += n
    return [port - i for i in range(n)]


def options_of(python, script):
    return [a.peers_dir / python / "bin" / "python", SCRIPTS / script, "--model", a.model, "--shape", shape, "--batch",
            a.batch, "--momentum", a.momentum, "--steps", a.steps]


def pytorch():
    group = ["--world", a.workers, "--address", f"127.0.0.1:{ports(1)[0]}", "--interface", "lo"]
    command = options_of("pytorch", "pytorch_ddp.py")
    said = processes([([*command, *group, "--rank", rank], {}) for rank in range(a.workers)])
    return a.workers * a.batch / statistics.median(said["seconds"])


def tensorflow(*roles):
    """(kind, number) of the processes; the first tells."""
    cluster = {kind: [f"127.0.0.1:{at}" for at in ports(n)] for kind, n in roles}
    command = [*options_of("tensorflow", "tensorflow_workers.py"), "--file", weights, "--cluster", json.dumps(cluster)]
    tasks = [f"{kind}:{i}" for kind, n in roles for i in range(n)]
    said = processes([([*command, "--task", task], {"OMP_NUM_THREADS": "1"}) for task in tasks])
    return a.workers * a.batch * said["steps_per_s"]


def mxnet():
    root = {"DMLC_PS_ROOT_URI": "127.0.0.1", "DMLC_PS_ROOT_PORT": str(ports(1)[0]), "DMLC_NUM_SERVER": "1",
            "DMLC_NUM_WORKER": str(a.workers), "DMLC_INTERFACE": "lo"}
    command = [*options_of("mxnet", "mxnet_workers.py"), "--file", weights]
    roles = ["worker"] * a.workers + ["server", "scheduler"]
    said = processes([(command, dict(root, DMLC_ROLE=role)) for role in roles])  # any worker may have rank 0
    return a.workers * a.batch * said["steps_per_s"]


alone, threads, mpi, asynchronous = "ronde, 1 worker", "ronde, threads", "ronde, mpi", "ronde, ps-async"
systems = {
    alone: lambda: ronde(1),
    threads: lambda: ronde(a.workers),
    mpi: lambda: ronde(a.workers, "--transport", "mpi"),
    asynchronous: lambda: ronde(a.workers, "--strategy", "ps-async"),
}
weights = pathlib.Path(tempfile.mkdtemp(), "weights.safetensors")
if a.peers_dir:
    init = [a.ronde, "init", "--model", a.model, "--classes", "10", "--shape", shape, "--output", weights]
    subprocess.run(init, check=True, stdout=subprocess.DEVNULL)
    systems["pytorch ddp"] = pytorch
    systems["mxnet dist_async"] = mxnet
    if not a.model.startswith("resnet"):
        systems["tensorflow mirrored"] = lambda: tensorflow(("worker", a.workers))
        systems["tensorflow ps"] = lambda: tensorflow(("chief", 1), ("worker", a.workers), ("ps", 1))
rates = {name: [] for name in systems}
for _ in range(a.rounds):
    for name, run in systems.items():
        rates[name].append(run())
print(f"{a.model} ({shape}), {a.workers} workers of one thread, {a.batch} examples each")
for name in systems:
    other = asynchronous if name in ("mxnet dist_async", "tensorflow ps") else threads
    efficiency = statistics.median(own / (a.workers * one) for own, one in zip(rates[name], rates[alone]))
    ratio = statistics.median(own / theirs for own, theirs in zip(rates[other], rates[name]))
    note = f"efficiency {efficiency:.2f}" if name.startswith("ronde") and name != alone else ""
    note = f"{other} is {ratio:.2f} times as fast" if not name.startswith("ronde") else note
    print(f"{name:20s} {statistics.median(rates[name]):10.0f} examples/s   {note}", flush=True)
weights.unlink(missing_ok=True)
weights.parent.rmdir()

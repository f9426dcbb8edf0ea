"""What the peers' scripts share: a system is a process that makes training steps on command (`ronde bench step`).

It starts from the weights and the batch in a safetensors file, prints one JSON line about the work it does, then reads
lines: "go N" makes N steps and prints {"seconds", "loss", "peak_rss_bytes"}, where the loss is that before the last
update; the end of input ends it. A script that cannot run on this machine prints {"absent": reason} instead.
Requirements: numpy.
"""

import argparse
import ctypes.util
import json
import os
import resource
import sys
import time


def arguments(*flags):
    """The options that all systems take, and flags of this one."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--file", required=True, help="weights and batch, written by Ronde")
    parser.add_argument("--model", required=True)
    parser.add_argument("--padding", default="same", choices=["same", "valid"])
    parser.add_argument("--batch", type=int, required=True)
    parser.add_argument("--optimizer", default="sgd", choices=["sgd", "adam"])
    parser.add_argument("--momentum", type=float, default=0.0)
    parser.add_argument("--lr", type=float, required=True)
    parser.add_argument("--threads", type=int, default=1)
    for flag in flags:
        parser.add_argument(flag, action="store_true")
    return parser.parse_args()


def worker_parser():
    """What each process of several is told (bench/workers.py)."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--file", required=True, help="weights, written by ronde init")
    parser.add_argument("--model", required=True)
    parser.add_argument("--shape", required=True)
    parser.add_argument("--batch", type=int, default=42, help="of a worker")
    parser.add_argument("--momentum", type=float, default=0.9)
    parser.add_argument("--steps", type=int, default=30)
    return parser


def absent(reason):
    print(json.dumps({"absent": reason}), flush=True)


def prepare(threads, tcmalloc=False, needs_it=False):
    """To be called before the framework is imported: starts this script anew with its number of threads, and with
    tcmalloc (Debian: libtcmalloc-minimal4), which spares fresh pages at every step. Where it is not installed, the
    script goes on without, or is absent where it is about nothing else."""
    if os.environ.get("OMP_NUM_THREADS") == str(threads) and os.environ.get("RONDE_BENCH_PEER"):
        return
    os.environ.update(OMP_NUM_THREADS=str(threads), RONDE_BENCH_PEER="1")
    library = ctypes.util.find_library("tcmalloc_minimal") if tcmalloc else None
    if tcmalloc and needs_it and not library:
        absent("tcmalloc is not installed (libtcmalloc-minimal4)")
        sys.exit(0)
    if library:
        os.environ["LD_PRELOAD"] = library
    os.execv(sys.executable, [sys.executable] + sys.argv)


class File:
    """Tensors of a safetensors file, read one at a time, so that the file's size is not part of the peak memory."""

    def __init__(self, path):
        self.path = path
        with open(path, "rb") as file:
            length = int.from_bytes(file.read(8), "little")
            self.header = json.loads(file.read(length))
        self.begin = 8 + length

    def names(self):
        """Of the parameters."""
        return [name for name in self.header if not name.startswith(("ronde.", "__"))]

    def __getitem__(self, name):
        import numpy

        entry = self.header[name]
        first, end = entry["data_offsets"]
        dtype = {"F32": numpy.float32, "I64": numpy.int64}[entry["dtype"]]
        count = (end - first) // numpy.dtype(dtype).itemsize
        return numpy.fromfile(self.path, dtype, count, offset=self.begin + first).reshape(entry["shape"])

    def shape(self, name):
        return self.header[name]["shape"]

    @property
    def classes(self):
        """Outputs of the last linear layer by name: fc, fc3, classifier.6."""
        matrices = [name for name in self.names() if len(self.header[name]["shape"]) == 2]
        return self.header[max(matrices)]["shape"][0]

    @property
    def x(self):
        return self["ronde.x"]

    @property
    def labels(self):
        return self["ronde.labels"]


def serve(args, step, parameters, flops, **facts):
    """step() returns the loss, an object that float() waits for. parameters and flops (of a forward pass of an example)
    are counted by the framework that runs them."""
    about = {
        "model": args.model,
        "parameters": parameters,
        "forward_flops_per_example": flops,
        "padding": args.padding,
        "batch": args.batch,
        "dtype": "bf16" if getattr(args, "bf16", False) else "f32",
        "optimizer": args.optimizer,
        "momentum": args.momentum,
        "lr": args.lr,
        "threads": args.threads,
        "preload": os.environ.get("LD_PRELOAD", ""),
        "import_rss_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
    }
    print(json.dumps(dict(about, **facts)), flush=True)
    for line in sys.stdin:
        seconds, loss = [], None
        for _ in range(int(line.split()[1])):
            begin = time.perf_counter()
            loss = step()
            seconds.append(time.perf_counter() - begin)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        print(json.dumps({"seconds": seconds, "loss": float(loss), "peak_rss_bytes": peak}), flush=True)

"""What the workers of a cluster (cluster.py) share: their part of each batch, and their report. Requirements: numpy."""

import json
import pathlib
import resource
import sys
import time

import numpy

import system

PROFILED = 3  # steps under the system's profiler, behind the measured ones


class Worker:
    def __init__(self):
        self.begin = time.perf_counter()
        self.spec = json.loads(pathlib.Path(sys.argv[1]).read_text())
        self.file = system.File(self.spec["weights"])
        self.images = numpy.load(pathlib.Path(self.spec["data"], "train_x.npy"), mmap_mode="r")
        self.labels = numpy.load(pathlib.Path(self.spec["data"], "train_y.npy"))
        self.local = self.spec["batch"] // self.spec["workers"]
        self.seconds, self.losses, self.loading = [], [], 0.0

    def part(self, rank, step):
        """Images [n, C, H, W] f32 between 0 and 1, and labels, of a worker in a step; in the order of the data."""
        n_steps = len(self.labels) // self.spec["batch"]
        first = step % n_steps * self.spec["batch"] + rank * self.local
        x = numpy.asarray(self.images[first : first + self.local])
        x = x.astype(numpy.float32) / 255 if x.dtype == numpy.uint8 else x.astype(numpy.float32)
        for axis, side in ((2, self.spec["shape"][1]), (3, self.spec["shape"][2])):
            x = resized(x, axis, side)
        return x, self.labels[first : first + self.local].astype(numpy.int64)

    def measure(self, rank, step):
        """step(x, y) returns the loss as a number, when all of it is done."""
        cpu = time.process_time()
        for i in range(self.spec["steps"]):
            begin = time.perf_counter()
            part = self.part(rank, i)
            self.loading += time.perf_counter() - begin
            self.losses.append(float(step(*part)))
            self.seconds.append(time.perf_counter() - begin)
        self.cpu_s = time.process_time() - cpu

    def report(self, rank, profiled, **facts):
        """profiled: {forward_s, backward_s, update_s} of a step. The rest of a step is exchange and waiting."""
        n, wall = len(self.seconds), sum(self.seconds)
        phases = {name: min(profiled.get(name, 0.0) * n, wall) for name in ("forward_s", "backward_s", "update_s")}
        phases.update(load_s=self.loading, wait_s=0.0, other_s=0.0)
        phases["exchange_s"] = max(0.0, wall - sum(phases.values()))
        about = {"rank": rank, "seconds": self.seconds, "losses": self.losses, "phases": phases, "cpu_s": self.cpu_s,
                 "peak_rss_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024}
        print(json.dumps(dict(about, **facts)), flush=True)


def resized(x, axis, to):
    """Bilinear, by the centres of pixels, as Ronde does it (src/data/transform.c)."""
    size = x.shape[axis]
    if size == to:
        return x
    at = numpy.clip((numpy.arange(to) + 0.5) * size / to - 0.5, 0, size - 1).astype(numpy.float32)
    first = at.astype(int)
    share = (at - first).astype(numpy.float32).reshape([-1 if i == axis else 1 for i in range(4)])
    return x.take(first, axis) * (1 - share) + x.take(numpy.minimum(first + 1, size - 1), axis) * share


def rows(seconds_by_op, steps):
    """[{op, phase, calls, seconds}] of {(op, phase): (calls, seconds)} of PROFILED steps, brought to all steps."""
    return [{"op": op, "phase": phase, "calls": calls * steps // PROFILED, "seconds": seconds * steps / PROFILED}
            for (op, phase), (calls, seconds) in seconds_by_op.items()]

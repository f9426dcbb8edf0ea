"""Weights and data of a cluster's workers (cluster.py, host_side.py), as all systems read them. Requirements: numpy."""

import subprocess
import sys


def ronde(program, *words):
    done = subprocess.run([program, *map(str, words)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if done.returncode:
        sys.stderr.write(done.stderr)
        sys.exit(done.returncode)
    return done.stdout


def prepare(program, plan, folder):
    """(images, weights, shape) in a folder. Both are functions of the plan: every host makes the same."""
    config = plan["config"]
    images = folder / "data"
    stored = ["--resize", config["resize"]] if config["resize"] and config["data"].startswith("folder:") else []
    ronde(program, "data", "convert", config["data"], "-o", images, *stored, "--quiet")
    import numpy

    shape = numpy.load(images / "train_x.npy", mmap_mode="r").shape[1:]
    if config["resize"] and not stored:
        shape = (shape[0], *map(int, config["resize"].split("x")))
    weights = folder / "weights.safetensors"
    ronde(program, "init", "--model", config["model"], "--classes", config["classes"], "--shape", "x".join(map(str, shape)),
          *(["--padding", config["padding"]] if plan["padding"] else []), "--seed", config["seed"], "-o", weights,
          "--quiet")
    return images, weights, shape

#!/usr/bin/env python3
"""Writes the golden files of tests/golden_lbfgs_test.c and src/optim/lbfgs_test.c into this folder.

    python3 tests/golden/make_golden_lbfgs.py [CASE...]

Everything follows torch.optim.LBFGS(line_search_fn="strong_wolfe"). lbfgs-rosenbrock.json holds, in f64, the losses of
all evaluations of the Rosenbrock function in each step, and the point where the step ends. The files of networks hold, in f64 and f32, started
from the same f32 weights: the losses of all evaluations of each step, the step length that each step ended with, and the
weights at the end, as make_golden.py does. A case is only written where f64 and f32 make the same decisions. See models.py for
requirements.
"""

import json
import pathlib
import sys

import numpy as np
import torch

import models

# name: model, channels, size, classes, examples, batch, steps, options
CASES = {
    "lbfgs-lenet5": ("lenet5", 3, 32, 10, 124, 124, 3, {"lr": 1, "max_iter": 4, "history_size": 3}),
    "lbfgs-lenet5-batches": ("lenet5", 1, 28, 10, 124, 42, 5, {"lr": 1, "max_iter": 2, "history_size": 3}),
    "lbfgs-mnist-small": ("mnist-small", 1, 28, 10, 124, 124, 3, {"lr": 5, "max_iter": 3, "history_size": 3}),
    "lbfgs-mnist-small-batches": ("mnist-small", 1, 28, 10, 124, 42, 5, {"lr": 1, "max_iter": 3, "history_size": 3}),
}
ROSENBROCK = [
    {"lr": 1, "max_iter": 1, "max_eval": 5, "history_size": 10},
    {"lr": 1, "max_iter": 20, "history_size": 2},
    {"lr": 0.1, "max_iter": 7, "history_size": 100},
    {"lr": 20, "max_iter": 5, "max_eval": 9, "history_size": 3},
    {"lr": 1, "max_iter": 4, "max_eval": 100, "history_size": 3},
]


def optimizer_of(parameters, options):
    return torch.optim.LBFGS(parameters, line_search_fn="strong_wolfe", **options)


def rosenbrock(x):
    return (100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2).sum()


def follow_rosenbrock(options, n, steps):
    x = torch.tensor([-1.2, 1.0] * (n // 2), dtype=torch.float64, requires_grad=True)
    optimizer = optimizer_of([x], options)
    out = []
    for _ in range(steps):
        losses = []

        def closure():
            optimizer.zero_grad()
            loss = rosenbrock(x)
            loss.backward()
            losses.append(loss.item())
            return loss

        optimizer.step(closure)
        out.append({"losses": losses, "x": x.tolist()})
    return {"options": options, "n": n, "steps": out}


def follow(net, x, y, batch, steps, options):
    """The losses of all evaluations and the last step length, step by step."""
    optimizer = optimizer_of(net.parameters(), options)
    losses, lengths, begin = [], [], 0
    for _ in range(steps):
        end = min(begin + batch, len(y))
        losses.append([])

        def closure():
            optimizer.zero_grad()
            loss = torch.nn.functional.cross_entropy(net(x[begin:end]), y[begin:end])
            loss.backward()
            losses[-1].append(loss.item())
            return loss

        optimizer.step(closure)
        lengths.append(float(optimizer.state[optimizer._params[0]]["t"]))
        begin = end if end < len(y) else 0
    return losses, lengths


def tensors(pairs64, pairs32):
    out = {}
    for (name, a), (_, b) in zip(pairs64, pairs32):
        a, b = a.detach().numpy().astype(np.float64), b.detach().numpy().astype(np.float64)
        out[name] = {
            "sketch": [float(v) for v in models.sketch(a)],
            "norm": float(np.linalg.norm(a)),
            "error": float(np.linalg.norm(a - b)),
        }
    return out


def make(model, channels, size, classes, n, batch, steps, options):
    x = models.values(models.INPUT_STREAM, n * channels * size * size, 1.0).reshape(n, channels, size, size)
    y = torch.from_numpy(models.labels(n, classes))
    nets, followed = {}, {}
    for dtype in (torch.float64, torch.float32):
        net = models.build(model, channels, size, classes, "same")
        scales = models.set_weights(net)
        nets[dtype] = net.to(dtype)
        followed[dtype] = follow(nets[dtype], torch.from_numpy(x).to(dtype), y, batch, steps, options)
    (losses64, lengths64), (losses32, lengths32) = followed.values()
    if [len(step) for step in losses64] != [len(step) for step in losses32]:
        raise SystemExit(f"f64 and f32 do not evaluate alike: {losses64} {losses32}")
    return {
        "schema": "ronde.golden.v1",
        "model": model,
        "padding": "same",
        "shape": [channels, size, size],
        "classes": classes,
        "batch": batch,
        "examples": n,
        "params": [
            {"name": name, "elems": p.numel(), "scale": scales[name]} for name, p in nets[dtype].named_parameters()
        ],
        "torch": torch.__version__,
        "options": options,
        "losses_f64": losses64,
        "losses_f32": losses32,
        "lengths_f64": lengths64,
        "lengths_f32": lengths32,
        "tensors": tensors(nets[torch.float64].named_parameters(), nets[torch.float32].named_parameters()),
    }


def write(folder, name, case):
    (folder / f"{name}.json").write_text(json.dumps(case, indent=0).replace(",\n", ", ") + "\n")


def main():
    torch.set_num_threads(1)
    folder = pathlib.Path(__file__).resolve().parent
    for name in sys.argv[1:] or ["lbfgs-rosenbrock", *CASES]:
        if name == "lbfgs-rosenbrock":
            cases = [
                follow_rosenbrock(options, n, min(6, 40 // options["max_iter"]))
                for options in ROSENBROCK
                for n in (2, 10)
            ]
            write(folder, name, {"torch": torch.__version__, "cases": cases})
            for case in cases:
                print(name, case["options"], [len(step["losses"]) for step in case["steps"]], case["steps"][-1]["x"])
            continue
        case = make(*CASES[name])
        write(folder, name, case)
        print(name, "evaluations", [len(step) for step in case["losses_f64"]], "lengths", case["lengths_f64"])
        for step64, step32 in zip(case["losses_f64"], case["losses_f32"]):
            print("  ", " ".join(f"{a:.5f}({b - a:.0e})" for a, b in zip(step64, step32)))
        print("  ", {k: (round(v["norm"], 3), float(f"{v['error']:.2g}")) for k, v in case["tensors"].items()})


main()

#!/usr/bin/env python3
"""Writes bf16.json, the golden file of tests/golden_bf16_test.c, into this folder.

    python3 tests/golden/make_golden_bf16.py

For one case of each network among those of make_golden.py and make_golden_deep.py it holds the error of PyTorch's
automatic mixed precision in bfloat16 against f64: of the loss and of each gradient of the first batch (the norm over all
elements), and where f32 can follow f64, the largest among the losses of ten steps of SGD with momentum. The exact values
are in the files of the cases. See models.py for requirements; a CPU with bfloat16, else the run takes hours.
"""

import json
import pathlib

import numpy as np
import torch

import models

GRADIENTS = [
    "lenet5-3x32x32-b42",
    "mnist-small-same-b7",
    "mnist-large-same-b7",
    "alexnet-3x64x64-b42",
    "resnet18-3x32x32-b42",
    "resnet18-cifar-3x32x32-b42",
    "resnet50-3x32x32-b42",
]
# name: the scale of residual branches, None where there are none, and the shift of biases, None where none is deep
DEEP = {
    "alexnet-3x64x64-b42": (1.0, 3.0),
    "resnet18-3x32x32-b42": (1.0, 2.0),
    "resnet18-cifar-3x32x32-b42": (1.0, 2.0),
    "resnet50-3x32x32-b42": (1.0, 2.0),
}
STEPS = 10


def batch_of(case, dtype):
    channels, height, width = case["shape"]
    n = case["examples"]
    stream = case.get("input_stream", models.INPUT_STREAM)
    x = models.values(stream, n * channels * height * width, 1.0).reshape(n, channels, height, width)
    return torch.from_numpy(x).to(dtype), torch.from_numpy(models.labels(n, case["classes"]))


def network(name, case, dtype, mixed):
    net = models.build(case["model"], case["shape"][0], case["shape"][1], case["classes"], case["padding"])
    if name in DEEP:
        models.set_deep_weights(net, *DEEP[name])
    else:
        models.set_weights(net)
    net.to(dtype)
    if mixed:
        forward = net.forward

        def in_bf16(x):
            with torch.autocast("cpu", torch.bfloat16):
                return forward(x).float()

        net.forward = in_bf16
    return net


def gradients(name, case, dtype, mixed):
    net, (x, y) = network(name, case, dtype, mixed), batch_of(case, dtype)
    loss = torch.nn.functional.cross_entropy(net(x[: case["batch"]]), y[: case["batch"]])
    loss.backward()
    return loss.item(), {n: p.grad.detach().numpy().astype(np.float64) for n, p in net.named_parameters()}


def losses(name, case, dtype, mixed):
    net, (x, y) = network(name, case, dtype, mixed), batch_of(case, dtype)
    return models.train(net, models.OPTIMIZERS["sgd"], x, y, case["batch"], STEPS)


def make(name, folder):
    case = json.loads((folder / f"{name}.json").read_text())
    (loss, exact), (other_loss, other) = gradients(name, case, torch.float64, False), gradients(name, case, torch.float32, True)
    out = {
        "loss_error": abs(other_loss - loss),
        "tensors": {n: float(f"{np.linalg.norm(exact[n] - other[n]):.6g}") for n in exact},
    }
    if name not in DEEP:
        pairs = zip(losses(name, case, torch.float64, False), losses(name, case, torch.float32, True))
        out["losses_error"] = max(abs(a - b) for a, b in pairs)
    return out


def main():
    folder = pathlib.Path(__file__).resolve().parent
    out = {"schema": "ronde.golden-bf16.v1", "torch": torch.__version__, "cases": {}}
    for name in GRADIENTS:
        out["cases"][name] = make(name, folder)
        print(name, "loss error", out["cases"][name]["loss_error"], flush=True)
    (folder / "bf16.json").write_text(json.dumps(out, indent=0).replace(",\n", ", ") + "\n")


main()

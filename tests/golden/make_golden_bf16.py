#!/usr/bin/env python3
"""Writes bf16.json, the golden file of tests/golden_bf16_test.c, into this folder.

    python3 tests/golden/make_golden_bf16.py

For cases of each network among those of make_golden.py and make_golden_deep.py it holds the error of PyTorch's
automatic mixed precision in bfloat16 against f64: of the loss and of each gradient of the first batch (the norm over all
elements), and where f32 can follow f64, the largest among the losses of ten steps of SGD with momentum. The exact values
are in the files of the cases. Where few values go through ReLUs behind batch normalisation (ROUNDED), one of which on the
other side changes gradients by far more than rounding does, a run may be lucky: there it is the larger one of that error
and of that of f32 whose convolutions and linear layers read operands rounded to bfloat16, forward and backward. In a
transformer (ROUNDED_RESULTS) linear layers round what they give, too, as mixed precision does, and one value of 11,264 then
gets to the other side of a ReLU. See models.py for requirements; a CPU with bfloat16, else the run takes hours.

    python3 tests/golden/make_golden_bf16.py CASE...     # these alone anew
"""

import json
import pathlib
import sys

import numpy as np
import torch

import make_golden
import models

GRADIENTS = [
    "lenet5-3x32x32-b42",
    "mnist-small-same-b7",
    "mnist-large-same-b7",
    "alexnet-3x64x64-b42",
    "resnet18-3x32x32-b42",
    "resnet18-cifar-3x32x32-b42",
    "resnet50-3x32x32-b42",
    "gpt-tiny-t24-b3",
    "bert-tiny-t24-b5",
    "transformer-tiny-t11-b4",
    "gnmt-tiny-t11-b4",
    "deepspeech2-tiny-t20-b4",
    "tacotron2-tiny-t20-b6",
]
# name: the scale of residual branches, None where there are none, and the shift of biases, None where none is deep
DEEP = {
    "alexnet-3x64x64-b42": (1.0, 3.0),
    "resnet18-3x32x32-b42": (1.0, 2.0),
    "resnet18-cifar-3x32x32-b42": (1.0, 2.0),
    "resnet50-3x32x32-b42": (1.0, 2.0),
}
ROUNDED = ["resnet18-3x32x32-b42", "deepspeech2-tiny-t20-b4", "tacotron2-tiny-t20-b6"]
ROUNDED_RESULTS = ["transformer-tiny-t11-b4"]
STEPS = 10


class Rounded(torch.autograd.Function):
    """The nearest numbers of bfloat16; gradients go through as they are."""

    @staticmethod
    def forward(ctx, x):
        return x.bfloat16().to(x.dtype)

    @staticmethod
    def backward(ctx, gradient):
        return gradient


class RoundedGradient(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, gradient):
        return gradient.bfloat16().to(gradient.dtype)


def round_operands(net, results):
    """Of layers that multiply with a weight, but recurrent ones and a first convolution; and the results of linear layers."""
    for module in net.modules():
        is_convolution = isinstance(module, (torch.nn.Conv1d, torch.nn.Conv2d)) and module.in_channels > 3
        if not is_convolution and not isinstance(module, torch.nn.Linear):
            continue

        def forward(x, module=module):
            weight, bias = Rounded.apply(module.weight), module.bias
            if isinstance(module, torch.nn.Linear):
                y = torch.nn.functional.linear(Rounded.apply(x), weight)
                y = RoundedGradient.apply(y) + (0 if bias is None else bias)
                return Rounded.apply(y) if results else y
            y = RoundedGradient.apply(module._conv_forward(Rounded.apply(x), weight, None))
            return y if bias is None else y + bias.reshape(-1, *[1] * len(module.kernel_size))

        module.forward = forward


def deep_parts(name, case):
    """As make_golden.parts has them, of a network that it has not."""
    channels, height, width = case["shape"]
    n = case["examples"]
    x = models.values(case.get("input_stream", models.INPUT_STREAM), n * channels * height * width, 1.0)
    x = torch.from_numpy(x.reshape(n, channels, height, width))
    inputs = {dtype: x.to(dtype) for dtype in (torch.float64, torch.float32)}
    build = lambda: models.build(case["model"], channels, height, case["classes"], case["padding"])
    y = torch.from_numpy(models.labels(n, case["classes"]))
    return build, {}, inputs, y, case["batch"], 0, models.cross_entropy, 1


def widened(told):
    return tuple(map(widened, told)) if isinstance(told, tuple) else told.float() if told.is_floating_point() else told


def network(name, build, dtype, mode):
    net = build()
    if name in DEEP:
        models.set_deep_weights(net, *DEEP[name])
    else:
        models.set_weights(net)
    net.to(dtype)
    if mode == "rounded":
        round_operands(net, name in ROUNDED_RESULTS)
    if mode == "mixed":
        forward = net.forward

        def in_bf16(x):
            with torch.autocast("cpu", torch.bfloat16):
                return widened(forward(x))

        net.forward = in_bf16
    return net


def gradients(name, parts, dtype, mode):
    """Loss and gradients of the first batch; mode: "mixed", "rounded" or None."""
    build, _, inputs, y, batch, _, loss_of, _ = parts
    net = network(name, build, dtype, mode)
    loss = loss_of(net(inputs[dtype][:batch]), y[:batch])
    loss.backward()
    return loss.item(), {n: p.grad.detach().numpy().astype(np.float64) for n, p in net.named_parameters()}


def losses(name, parts, dtype, mode):
    build, _, inputs, y, batch, _, loss_of, _ = parts
    return models.train(network(name, build, dtype, mode), models.OPTIMIZERS["sgd"], inputs[dtype], y, batch, STEPS, loss_of)


def make(name, folder):
    case = json.loads((folder / f"{name}.json").read_text())
    parts = deep_parts(name, case) if name in DEEP else make_golden.parts(name)
    loss, exact = gradients(name, parts, torch.float64, None)
    runs = [gradients(name, parts, torch.float32, mode) for mode in ("mixed", *(["rounded"] if name in ROUNDED + ROUNDED_RESULTS else []))]
    error_of = lambda n: max(np.linalg.norm(exact[n] - run[n]) for _, run in runs)
    out = {
        "loss_error": max(abs(other - loss) for other, _ in runs),
        "tensors": {n: float(f"{error_of(n):.6g}") for n in exact},
    }
    if name not in DEEP:
        pairs = zip(losses(name, parts, torch.float64, None), losses(name, parts, torch.float32, "mixed"))
        out["losses_error"] = max(abs(a - b) for a, b in pairs)
    return out


def main():
    folder = pathlib.Path(__file__).resolve().parent
    out = {"schema": "ronde.golden-bf16.v1", "torch": torch.__version__, "cases": {}}
    if sys.argv[1:]:
        out = json.loads((folder / "bf16.json").read_text())
    for name in sys.argv[1:] or GRADIENTS:
        out["cases"][name] = make(name, folder)
        print(name, "loss error", out["cases"][name]["loss_error"], flush=True)
    (folder / "bf16.json").write_text(json.dumps(out, indent=0).replace(",\n", ", ") + "\n")


main()

#!/usr/bin/env python3
"""Writes pointwise.golden beside this script: activations and their slopes by PyTorch in f64, kinks among the inputs.

One line an input: function, x, value, slope. All inputs are exact in f32. Needs torch (2.x); run by hand, the tests read
the file only.
"""
import pathlib

import torch
from torch.nn import functional as F

# Names and constants: the same as in src/kernel/kernel_pointwise_test.c.
CASES = {
    "gelu": F.gelu,
    "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"),
    "silu": F.silu,
    "hard_swish": F.hardswish,
    "hard_sigmoid": F.hardsigmoid,
    "leaky_relu": lambda x: F.leaky_relu(x, 0.125),
    "elu": lambda x: F.elu(x, 1.5),
    "clip": F.relu6,
}


def main():
    inputs = sorted({i / 8 for i in range(-72, 73, 3)} | {0.0, 6.0, -3.0, 3.0, 1.0, -1.0, -12.5, 20.0})
    path = pathlib.Path(__file__).with_name("pointwise.golden")
    with path.open("w") as out:
        out.write(f"# torch {torch.__version__.split('+')[0]}\n")
        for name, function in CASES.items():
            x = torch.tensor(inputs, dtype=torch.float64, requires_grad=True)
            y = function(x)
            y.sum().backward()
            for row in zip(x.tolist(), y.tolist(), x.grad.tolist()):
                out.write(" ".join([name] + [f"{value:.17g}" for value in row]) + "\n")


if __name__ == "__main__":
    main()

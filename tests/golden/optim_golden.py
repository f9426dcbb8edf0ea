#!/usr/bin/env python3
"""Writes optim.golden beside this script: 30 updates of each optimizer by PyTorch, in f64 and in f32.

Weights and gradients are made of small integers, exact in both dtypes, so that the C test makes the same ones. One
line an array: case, array, dtype, values. Needs torch (2.x); run by hand, the tests read the file only.
"""
import pathlib

import torch

N, STEPS = 19, 30

# Name, constructor, options: the same as in src/optim/optim_test.c.
CASES = [
    ("sgd", torch.optim.SGD, dict(lr=0.05)),
    ("sgd-decay", torch.optim.SGD, dict(lr=0.05, weight_decay=0.01)),
    ("momentum", torch.optim.SGD, dict(lr=0.05, momentum=0.9)),
    ("momentum-decay", torch.optim.SGD, dict(lr=0.05, momentum=0.9, weight_decay=0.01)),
    ("nesterov", torch.optim.SGD, dict(lr=0.05, momentum=0.9, weight_decay=0.01, nesterov=True)),
    ("adam", torch.optim.Adam, dict(lr=0.01)),
    ("adam-decay", torch.optim.Adam, dict(lr=0.01, betas=(0.8, 0.95), eps=1e-6, weight_decay=0.01)),
    ("adamw", torch.optim.AdamW, dict(lr=0.01, weight_decay=0.1)),
    ("adagrad", torch.optim.Adagrad, dict(lr=0.05)),
    ("adagrad-decay", torch.optim.Adagrad, dict(lr=0.05, weight_decay=0.01)),
    ("rmsprop", torch.optim.RMSprop, dict(lr=0.01)),
    ("rmsprop-momentum", torch.optim.RMSprop, dict(lr=0.01, alpha=0.9, eps=1e-6, momentum=0.8, weight_decay=0.01)),
]


def small(i, step):
    """An integer in [-512, 512), scattered; 0 for the element that stands for padding."""
    if i == 7:
        return 0
    return ((i * 2654435761 + step * 40503 * 65537 + 12345) % 2**32 >> 12) % 1024 - 512


def arrays(optimizer, weight):
    yield "weight", weight.detach()
    state = optimizer.state[weight]
    for name in ("momentum_buffer", "exp_avg", "exp_avg_sq", "sum", "square_avg"):
        if state.get(name) is not None:
            yield name, state[name]


def run(make, options, dtype):
    weight = torch.tensor([small(i, 0) / 1024 for i in range(N)], dtype=dtype, requires_grad=True)
    optimizer = make([weight], **options)
    for step in range(1, STEPS + 1):
        # Gradients of very different sizes, a rate that changes every step.
        scale = 2.0 ** (step % 7 - 3) / 1024
        weight.grad = torch.tensor([small(i, step) * scale for i in range(N)], dtype=dtype)
        optimizer.param_groups[0]["lr"] = options["lr"] * (1 + (step % 5) / 4)
        optimizer.step()
    return arrays(optimizer, weight)


def main():
    path = pathlib.Path(__file__).with_name("optim.golden")
    with path.open("w") as out:
        out.write(f"# torch {torch.__version__.split('+')[0]}, {N} elements, {STEPS} updates\n")
        for name, make, options in CASES:
            for dtype, text, digits in ((torch.float64, "f64", 17), (torch.float32, "f32", 9)):
                for array, values in run(make, options, dtype):
                    out.write(f"{name} {array} {text} " + " ".join(f"{v:.{digits}g}" for v in values.tolist()) + "\n")


if __name__ == "__main__":
    main()

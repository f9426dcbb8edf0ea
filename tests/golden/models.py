"""The networks in PyTorch, and the numbers that C and Python make alike without a file.

Requirements: torch >= 2, numpy. They are needed to make or follow golden data, never to build or test.
"""

import collections

import numpy as np
import torch
from torch import nn


def lenet5(channels, size, classes, padding):
    layers = [nn.ZeroPad2d(2)] if size == 28 else []
    named = [(f"pad{i}", layer) for i, layer in enumerate(layers)] + [
        ("conv1", nn.Conv2d(channels, 6, 5)),
        ("tanh1", nn.Tanh()),
        ("pool1", nn.AvgPool2d(2)),
        ("conv2", nn.Conv2d(6, 16, 5)),
        ("tanh2", nn.Tanh()),
        ("pool2", nn.AvgPool2d(2)),
        ("flatten", nn.Flatten()),
        ("fc1", nn.Linear(400, 120)),
        ("tanh3", nn.Tanh()),
        ("fc2", nn.Linear(120, 84)),
        ("tanh4", nn.Tanh()),
        ("fc3", nn.Linear(84, classes)),
    ]
    return nn.Sequential(collections.OrderedDict(named))


def mnist(widths, hidden, channels, size, classes, padding):
    """Convolutions of `widths`, each with ReLU and a 2x2 max-pool, then linear layers of `hidden` and the classes."""
    named = []
    for i, width in enumerate(widths, 1):
        named += [
            (f"conv{i}", nn.Conv2d(channels, width, 3, padding=1 if padding == "same" else 0)),
            (f"relu{i}", nn.ReLU()),
            (f"pool{i}", nn.MaxPool2d(2)),
        ]
        channels = width
        size = (size if padding == "same" else size - 2) // 2
    named.append(("flatten", nn.Flatten()))
    features = channels * size * size
    for i, width in enumerate(hidden, 1):
        named += [(f"fc{i}", nn.Linear(features, width)), (f"relu_fc{i}", nn.ReLU())]
        features = width
    named.append((f"fc{len(hidden) + 1}", nn.Linear(features, classes)))
    return nn.Sequential(collections.OrderedDict(named))


def build(model, channels, size, classes, padding="same"):
    if model == "lenet5":
        return lenet5(channels, size, classes, padding)
    if model == "mnist-small":
        return mnist([32], [64], channels, size, classes, padding)
    if model == "mnist-large":
        return mnist([128, 256, 512], [512, 512], channels, size, classes, padding)
    raise ValueError(f"no model {model}")


# ---- numbers by hash: tests/golden_test.c has the same functions -----------------------------------------------------

INPUT_STREAM, LABEL_STREAM, SKETCH_STREAM = 1000, 1001, 2000


def hash32(stream, n):
    """A 32-bit hash of (stream, i) for i = 0..n-1, as uint32 (murmur3's finaliser)."""
    with np.errstate(over="ignore"):
        h = np.arange(n, dtype=np.uint32) * np.uint32(2654435761)
        h += np.uint32((stream * 2246822519 + 374761393) & 0xFFFFFFFF)
        h ^= h >> np.uint32(16)
        h *= np.uint32(0x85EBCA6B)
        h ^= h >> np.uint32(13)
        h *= np.uint32(0xC2B2AE35)
        h ^= h >> np.uint32(16)
    return h


def values(stream, n, scale):
    """n f32 values in [-scale, scale), exact: 24-bit fractions times a power of two."""
    fractions = (hash32(stream, n) >> np.uint32(8)).astype(np.int64) - (1 << 23)
    return fractions.astype(np.float32) * np.float32(scale / (1 << 23))


def labels(n, classes):
    return (hash32(LABEL_STREAM, n) % np.uint32(classes)).astype(np.int64)


SKETCH = 64


def sketch(x):
    """What a golden file holds of a tensor: all of it up to 64 elements; else 64 sums, where element i is added to sum
    h % 64 with the sign of bit 31 of h = hash(SKETCH_STREAM, i). Every element counts, and the norm of a difference of
    sketches is an unbiased measure of the norm of the difference (Charikar, Chen, Farach-Colton, "Finding frequent
    items in data streams", 2002)."""
    x = np.asarray(x, dtype=np.float64).ravel()
    if x.size <= SKETCH:
        return x
    h = hash32(SKETCH_STREAM, x.size)
    return np.bincount(h % SKETCH, weights=np.where(h >> 31, -x, x), minlength=SKETCH)


def set_weights(net):
    """Weights by hash, of about PyTorch's usual size; returns the scale of each parameter."""
    scales = {}
    with torch.no_grad():
        for stream, (name, parameter) in enumerate(net.state_dict().items()):
            weight = net.state_dict()[name.rsplit(".", 1)[0] + ".weight"]
            fan_in = weight[0].numel()
            scales[name] = 2.0 ** round(np.log2(1 / np.sqrt(fan_in)))
            parameter.copy_(
                torch.from_numpy(values(stream, parameter.numel(), scales[name]).reshape(parameter.shape))
            )
    return scales


OPTIMIZERS = {
    "sgd": lambda p: torch.optim.SGD(p, lr=0.05, momentum=0.9),
    "adam": lambda p: torch.optim.Adam(p, lr=0.001),
}


def batches(x, y, batch):
    """Consecutive batches in order, the last one of an epoch short, without end."""
    while True:
        for begin in range(0, len(x), batch):
            yield x[begin : begin + batch], y[begin : begin + batch]


def train(net, make_optimizer, x, y, batch, steps):
    """Losses before each update."""
    optimizer, losses = make_optimizer(net.parameters()), []
    for (bx, by), _ in zip(batches(x, y, batch), range(steps)):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(net(bx), by)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses

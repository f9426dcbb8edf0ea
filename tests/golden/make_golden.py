#!/usr/bin/env python3
"""Writes the golden files of tests/golden_test.c, one JSON file a case, into this folder.

    python3 tests/golden/make_golden.py [CASE...]

Each file holds, from PyTorch in f64 and in f32 on one thread, started from the same f32 weights and inputs: loss and
gradients of the first batch, and the losses of ten steps and the weights after them with SGD with momentum and with
Adam. Of each tensor it holds a sketch (models.py) of the f64 values, and `error`, the norm of f32 - f64 over all
elements. Where one f32 run may be lucky (SPEECHES), there are ORDERS of them, which differ in the order of the hidden features and
so in rounding alone (docs/notebook/rounding.md): it is then the root of their mean square, and the largest of them for weights that
Adam has changed. See models.py for requirements.
"""

import json
import pathlib
import sys

import numpy as np
import torch

import models

STEPS = 10
ORDERS = 16
# name: model, padding, channels, size, classes, batch
CASES = {
    "lenet5-3x32x32-b7": ("lenet5", "same", 3, 32, 10, 7),
    "lenet5-3x32x32-b42": ("lenet5", "same", 3, 32, 10, 42),
    "lenet5-1x28x28-b7": ("lenet5", "same", 1, 28, 10, 7),
    "mnist-small-same-b7": ("mnist-small", "same", 1, 28, 10, 7),
    "mnist-small-valid-b7": ("mnist-small", "valid", 1, 28, 10, 7),
    "mnist-large-same-b7": ("mnist-large", "same", 1, 28, 10, 7),
    "mnist-large-valid-b7": ("mnist-large", "valid", 1, 28, 10, 7),
}
# name: model, steps, vocabulary and classes, batch, what the tokens are like
SEQUENCES = {
    "gpt-tiny-t24-b3": ("gpt-tiny", 24, 256, 3, "tokens"),
    "recurrent-t9-b5": ("recurrent", 9, 11, 5, "padded_tokens"),
    "bert-tiny-t24-b5": ("bert-tiny", 24, 61, 5, "padded_tokens"),
    "transformer-tiny-t11-b4": ("transformer-tiny", 11, 60, 4, "translations"),
    "gnmt-tiny-t11-b4": ("gnmt-tiny", 11, 60, 4, "translations"),
}
# name: model, bands, frames, labels at most, classes, batch
RECORDINGS = {"deepspeech2-tiny-t20-b4": ("deepspeech2-tiny", 24, 20, 4, 9, 4)}
# name: model, bands, frames, characters at most, classes, batch
SPEECHES = {
    "tacotron2-tiny-t20-b6": ("tacotron2-tiny", 12, 20, 6, 11, 6),
    "tacotron2-tiny-t20-b4": ("tacotron2-tiny", 12, 20, 6, 11, 4),
    "tacotron2-tiny-t14-b6": ("tacotron2-tiny", 12, 14, 6, 11, 6),
}
NETWORKS = {
    "gpt-tiny": models.TinyGpt,
    "recurrent": models.Recurrent,
    "bert-tiny": models.TinyBert,
    "transformer-tiny": models.Transformer,
    "gnmt-tiny": models.TRANSLATORS["gnmt-tiny"],
}
SEQUENCE_SUMS = 16


def root_mean_square(errors):
    return float(np.sqrt(np.mean(np.square(errors))))


def tensors(exact, rounded, sums, error_of=root_mean_square):
    """Of the f64 tensors by name and those of each f32 run."""
    return {
        name: {
            "sketch": [float(v) for v in models.sketch(a, sums)],
            "norm": float(np.linalg.norm(a)),
            "error": error_of([float(np.linalg.norm(a - run[name])) for run in rounded]),
        }
        for name, a in exact.items()
    }


def scalar(exact, rounded):
    """A number that is as far from the exact one as those of the f32 runs are; of one run, that one."""
    return rounded[0] if len(rounded) == 1 else exact + root_mean_square(np.subtract(rounded, exact))


def logical(pairs, at):
    """Tensors in f64 by name, elements where they were before models.reorder."""
    out = {}
    for name, x in pairs:
        x = x.detach().numpy().astype(np.float64)
        out[name] = np.empty_like(x)
        out[name][at.get(name, ...)] = x
    return out


# What a case is: how to build its network, facts, inputs by dtype, labels, batch, sums of a sketch, its loss, and runs in f32.


def images(model, padding, channels, size, classes, batch):
    n = 3 * batch - 2
    x = models.values(models.INPUT_STREAM, n * channels * size * size, 1.0).reshape(n, channels, size, size)
    y = torch.from_numpy(models.labels(n, classes))
    inputs = {dtype: torch.from_numpy(x).to(dtype) for dtype in (torch.float64, torch.float32)}

    facts = {"model": model, "padding": padding, "shape": [channels, size, size], "classes": classes}
    build = lambda: models.build(model, channels, size, classes, padding)
    return build, facts, inputs, y, batch, models.SKETCH, models.cross_entropy, 1


def sequences(model, steps, vocabulary, batch, kind):
    n = 3 * batch - 2
    x = torch.from_numpy(getattr(models, kind)(n, steps, vocabulary))
    y = torch.from_numpy(models.sequence_labels(n, steps, vocabulary))
    facts = {"model": model, "padding": "same", "shape": [steps], "classes": vocabulary, "vocabulary": vocabulary}
    facts.update({"padded": True} if kind == "padded_tokens" else {"decoder": True} if kind == "translations" else {})
    inputs = {torch.float64: x, torch.float32: x}
    build = lambda: NETWORKS[model](vocabulary, steps, vocabulary)
    return build, facts, inputs, y, batch, SEQUENCE_SUMS, models.cross_entropy, 1


def recordings(model, bands, frames, labels, classes, batch):
    x, y = models.recordings(3 * batch - 2, bands, frames, labels, classes)
    inputs = {dtype: torch.from_numpy(x).to(dtype) for dtype in (torch.float64, torch.float32)}
    facts = {"model": model, "padding": "same", "shape": [1, bands, frames], "classes": classes, "labels": labels}
    facts["lengths"] = True
    build = lambda: models.DeepSpeech2(bands, frames, classes)
    return build, facts, inputs, torch.from_numpy(y), batch, SEQUENCE_SUMS, models.ctc, 1


def speeches(model, bands, frames, characters, classes, batch):
    x = models.speeches(3 * batch - 2, bands, frames, characters, classes)
    inputs = {dtype: torch.from_numpy(x).to(dtype) for dtype in (torch.float64, torch.float32)}
    facts = {"model": model, "padding": "same", "shape": [1, bands, frames], "classes": classes}
    facts.update({"labels": characters, "lengths": True, "text": True})
    build = lambda: models.Tacotron2(classes, bands, frames)
    return build, facts, inputs, torch.zeros(len(x)), batch, SEQUENCE_SUMS, models.speech_loss, ORDERS


def parts(name):
    for cases, of in ((CASES, images), (SEQUENCES, sequences), (RECORDINGS, recordings), (SPEECHES, speeches)):
        if name in cases:
            return of(*cases[name])
    raise SystemExit(f"{name} is no case")


def make(build, facts, inputs, y, batch, sums, loss_of, orders):
    n = len(y)
    runs = [(torch.float64, 0), *((torch.float32, order) for order in range(orders))]

    def fresh(dtype, order=0):
        net = build()
        scales = models.set_weights(net)
        at = models.reorder(net, order) if order else {}
        return net.to(dtype), at, scales

    net, _, scales = fresh(torch.float32)
    case = {
        "schema": "ronde.golden.v1",
        **facts,
        "batch": batch,
        "examples": n,
        "parameters": sum(p.numel() for p in net.parameters()),
        "params": [{"name": name, "elems": p.numel(), "scale": scales[name]} for name, p in net.named_parameters()],
        "torch": torch.__version__,
    }
    losses, grads = [], []
    for dtype, order in runs:
        net, at, _ = fresh(dtype, order)
        loss = loss_of(net(inputs[dtype][:batch]), y[:batch])
        loss.backward()
        losses.append(loss.item())
        grads.append(logical([(name, p.grad) for name, p in net.named_parameters()], at))
    case["gradient"] = {
        "loss_f64": losses[0],
        "loss_f32": scalar(losses[0], losses[1:]),
        "tensors": tensors(grads[0], grads[1:], sums),
    }
    for optimizer, factory in models.OPTIMIZERS.items():
        losses, after = [], []
        for dtype, order in runs:
            net, at, _ = fresh(dtype, order)
            losses.append(models.train(net, factory, inputs[dtype], y, batch, STEPS, loss_of))
            after.append(logical(net.named_parameters(), at))
        case[optimizer] = {
            "losses_f64": losses[0],
            "losses_f32": [scalar(step[0], step[1:]) for step in zip(*losses)],
            "tensors": tensors(after[0], after[1:], sums, max if optimizer == "adam" else root_mean_square),
        }
    return case


def main():
    torch.set_num_threads(1)
    folder = pathlib.Path(__file__).resolve().parent
    for name in sys.argv[1:] or [*CASES, *SEQUENCES, *RECORDINGS, *SPEECHES]:
        case = make(*parts(name))
        (folder / f"{name}.json").write_text(json.dumps(case, indent=0).replace(",\n", ", ") + "\n")
        sgd, adam = case["sgd"], case["adam"]
        print(
            f"{name}: {case['parameters']} parameters, sgd {sgd['losses_f64'][0]:.4f} -> {sgd['losses_f64'][-1]:.4f}, "
            f"adam -> {adam['losses_f64'][-1]:.4f}"
        )


if __name__ == "__main__":
    main()

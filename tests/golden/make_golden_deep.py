#!/usr/bin/env python3
"""Writes the golden files of tests/golden_deep_test.c, one JSON file a case, into this folder.

    python3 tests/golden/make_golden_deep.py [CASE...]

Each file holds, from PyTorch in f64 on one thread: loss and gradients of the first batch, the running statistics after
it, and, after an update by SGD, loss and output of the second batch in evaluation mode. Where residual branches are
scaled down, so that f32 stays with f64 over steps (at plain weights it does not), also the losses of ten steps and
weights and running statistics after them. `error` is PyTorch's own in f32: the largest norm of f32 - f64 among three of
its implementations. See models.py for requirements.

A ReLU whose input lies within rounding of 0 may fall on either side, which changes gradients by far more than rounding
does; so does a maximum that another value is close to. So inputs are drawn from that one of a few streams where both
stay farthest from it in f64, over all steps and in units of the errors of PyTorch's f32; and where there are very many
ReLUs, biases of batch normalisation keep most inputs away from 0.
"""

import json
import pathlib
import sys

import numpy as np
import torch

import models

STEPS, SUMS, STREAMS, LR, MOMENTUM = 10, 16, 16, 0.01, 0.9
# name: model, channels, size, classes, batch, weights at the end of residual branches, biases in front of ReLUs
CASES = {
    "alexnet-3x64x64-b4": ("alexnet", 3, 64, 10, 4, None, 0.0),
    "alexnet-3x64x64-b42": ("alexnet", 3, 64, 10, 42, 1.0, 3.0),
    "resnet18-3x32x32-b4": ("resnet18", 3, 32, 10, 4, 1.0, 0.0),
    "resnet18-3x32x32-b42": ("resnet18", 3, 32, 10, 42, 1.0, 2.0),
    "resnet18-3x48x48-c100-b4": ("resnet18", 3, 48, 100, 4, 1.0, 0.0),
    "resnet18-1x28x28-b12": ("resnet18", 1, 28, 10, 12, 1.0, 2.0),
    "resnet18-scaled-3x64x64-b4": ("resnet18", 3, 64, 10, 4, 0.125, 2.0),
    "resnet18-cifar-3x32x32-b4": ("resnet18-cifar", 3, 32, 10, 4, 1.0, 2.0),
    "resnet18-cifar-3x32x32-b42": ("resnet18-cifar", 3, 32, 10, 42, 1.0, 2.0),
    "resnet18-cifar-1x28x28-c100-b4": ("resnet18-cifar", 1, 28, 100, 4, 1.0, 2.0),
    "resnet18-cifar-scaled-3x32x32-b4": ("resnet18-cifar", 3, 32, 10, 4, 0.125, 2.0),
    "vgg16-tiny-3x32x32-b4": ("vgg16-tiny", 3, 32, 10, 4, None, 0.0),
    "inception-v3-tiny-3x107x107-b4": ("inception-v3-tiny", 3, 107, 10, 4, 1.0, 2.0),
    "blocks-3x16x16-b5": ("blocks", 3, 16, 10, 5, 0.125, 0.0),
    "resnet50-3x64x64-b4": ("resnet50", 3, 64, 10, 4, 1.0, 0.0),
    "resnet50-3x32x32-b42": ("resnet50", 3, 32, 10, 42, 1.0, 2.0),
    "resnet50-3x48x48-b4": ("resnet50", 3, 48, 10, 4, 1.0, 2.0),
    "resnet50-scaled-3x64x64-b4": ("resnet50", 3, 64, 10, 4, 0.125, 4.0),
}
# In f32: oneDNN's blocked kernels, the same on channels-last tensors, PyTorch's own.
IMPLEMENTATIONS = ["onednn", "channels_last", "native"]


def n_batches(case):
    """Several steps where f32 can follow f64 (branches that are scaled down, or none), else one and an evaluation."""
    return 2 if case[5] == 1.0 else STEPS


def n_streams(case):
    """Fewer where runs are long, or where biases keep ReLUs far from 0 anyway."""
    batch, shift = case[4], case[6]
    return 4 if batch == 42 else 2 if shift >= 3.0 else STREAMS


class Run:
    """A fresh network in `dtype`, and its batches."""

    def __init__(self, case, stream, dtype, implementation="native"):
        model, channels, size, classes, self.batch, branch, shift = case
        self.net = models.build(model, channels, size, classes)
        self.how = models.set_deep_weights(self.net, branch or 1.0, shift)
        n = n_batches(case) * self.batch
        self.n_steps = STEPS if n_batches(case) == STEPS else 1
        x = models.values(stream, n * channels * size * size, 1.0).reshape(n, channels, size, size)
        self.x, self.y = torch.from_numpy(x).to(dtype), torch.from_numpy(models.labels(n, classes))
        self.net.to(dtype)
        if implementation == "channels_last":
            self.net.to(memory_format=torch.channels_last)
            self.x = self.x.contiguous(memory_format=torch.channels_last)
        self.flags = torch.backends.mkldnn.flags(enabled=implementation != "native")
        self.optimizer = torch.optim.SGD(self.net.parameters(), lr=LR, momentum=MOMENTUM)

    def examples(self, k):
        part = slice(k * self.batch, (k + 1) * self.batch)
        return self.x[part], self.y[part]

    def gradients(self, k):
        """Loss and output of batch k; gradients are left behind."""
        x, y = self.examples(k)
        self.optimizer.zero_grad()
        output = self.net(x)
        loss = torch.nn.functional.cross_entropy(output, y)
        loss.backward()
        return loss.item(), output.detach()

    def copies(self, pairs):
        return {name: value.detach().numpy().astype(np.float64) for name, value in pairs}

    def buffers(self):
        return self.copies((n, b) for n, b in self.net.named_buffers() if not n.endswith("num_batches_tracked"))

    def stages(self):
        with self.flags:
            loss, output = self.gradients(0)
            out = {"loss": loss, "output": self.copies([("output", output)])}
            out["gradients"] = self.copies((name, p.grad) for name, p in self.net.named_parameters())
            out["buffers"] = self.buffers()
            self.optimizer.step()
            self.net.eval()
            x, y = self.examples(1)
            output = self.net(x)
            out["evaluation_loss"] = torch.nn.functional.cross_entropy(output, y).item()
            out["evaluation_output"] = self.copies([("output", output)])
            self.net.train()
            return out

    def steps(self):
        """All steps from the beginning: call it on a fresh run."""
        losses = []
        with self.flags:
            for k in range(self.n_steps):
                losses.append(self.gradients(k)[0])
                self.optimizer.step()
        return {"losses": losses, "weights": self.copies(self.net.named_parameters()), "step_buffers": self.buffers()}

    def kinks(self):
        """What decides of a gradient's way in all steps: inputs of ReLUs, and by how much a maximum is the largest."""
        seen = []

        def relu(_module, inputs, _out):
            seen.append(inputs[0].detach().double())

        def pool(module, inputs, _out):
            k, s, p = module.kernel_size, module.stride, module.padding
            x = torch.nn.functional.pad(inputs[0].detach().double(), (p, p, p, p), value=-np.inf)
            largest = x.unfold(2, k, s).unfold(3, k, s).flatten(-2).topk(2).values
            gap = largest[..., 0] - largest[..., 1]
            seen.append(torch.where(largest[..., 0] > 0, gap, torch.nan))  # behind a ReLU no gradient passes at 0

        for module in self.net.modules():
            if isinstance(module, torch.nn.ReLU):
                module.register_forward_hook(relu)
            if isinstance(module, torch.nn.MaxPool2d):
                module.register_forward_hook(pool)
        with self.flags:
            for k in range(self.n_steps):
                self.gradients(k)
                self.optimizer.step()
        return seen


def margin(case, stream):
    exact = Run(case, stream, torch.float64).kinks()
    smallest = np.inf
    for implementation in IMPLEMENTATIONS:
        for z, rounded in zip(exact, Run(case, stream, torch.float32, implementation).kinks()):
            nearest = z.abs().nan_to_num(np.inf).min()
            smallest = min(smallest, float(nearest / (z - rounded).abs().nan_to_num(0).max()))
    return smallest


def rounded(x):
    return float(f"{x:.10g}")


def tensors(exact, others):
    return {
        name: {
            "sketch": [rounded(v) for v in models.sketch(a, SUMS)],
            "norm": rounded(np.linalg.norm(a)),
            "error": rounded(max(np.linalg.norm(other[name] - a) for other in others)),
        }
        for name, a in exact.items()
    }


def loss_error(exact, others, output_exact, outputs):
    """A scalar's rounding is a matter of luck: at least what the outputs' errors come to on average, each with the
    weight 1 / batch of the mean loss."""
    luck = max(abs(other - exact) for other in others)
    return rounded(max(luck, max(np.linalg.norm(o - output_exact) for o in outputs) / len(output_exact)))


def with_loss(loss, output, exact, others):
    outputs = [other[output]["output"] for other in others]
    return {
        "loss": exact[loss],
        "loss_error": loss_error(exact[loss], [o[loss] for o in others], exact[output]["output"], outputs),
    }


def make(case):
    model, channels, size, classes, batch, branch, _ = case
    margins = {s: margin(case, s) for s in range(models.INPUT_STREAM, models.INPUT_STREAM + n_streams(case))}
    stream = max(margins, key=margins.get)
    first = Run(case, stream, torch.float32)
    parameters = dict(first.net.named_parameters())
    out = {
        "schema": "ronde.golden.v1",
        "model": model,
        "padding": "same",
        "shape": [channels, size, size],
        "classes": classes,
        "batch": batch,
        "examples": n_batches(case) * batch,
        "input_stream": stream,
        "margin": margins[stream],
        "sums": SUMS,
        "parameters": sum(p.numel() for p in parameters.values()),
        "params": [
            {"name": n, "elems": p.numel(), "offset": first.how[n][0], "scale": first.how[n][1]}
            for n, p in parameters.items()
        ],
        "torch": torch.__version__,
    }
    exact = Run(case, stream, torch.float64).stages()
    others = [Run(case, stream, torch.float32, i).stages() for i in IMPLEMENTATIONS]
    out["gradient"] = with_loss("loss", "output", exact, others)
    out["gradient"]["tensors"] = tensors(exact["gradients"], [o["gradients"] for o in others])
    out["buffers"] = {"tensors": tensors(exact["buffers"], [o["buffers"] for o in others])}
    out["evaluation"] = with_loss("evaluation_loss", "evaluation_output", exact, others)
    out["evaluation"]["tensors"] = tensors(exact["evaluation_output"], [o["evaluation_output"] for o in others])
    if n_batches(case) == STEPS:
        exact = Run(case, stream, torch.float64).steps()
        others = [Run(case, stream, torch.float32, i).steps() for i in IMPLEMENTATIONS]
        error = max(abs(a - b) for o in others for a, b in zip(o["losses"], exact["losses"]))
        out["sgd"] = {"losses": exact["losses"], "loss_error": rounded(error)}
        out["sgd"]["tensors"] = tensors(exact["weights"], [o["weights"] for o in others])
        out["sgd_buffers"] = {"tensors": tensors(exact["step_buffers"], [o["step_buffers"] for o in others])}
    return out


def main():
    torch.set_num_threads(1)
    folder = pathlib.Path(__file__).resolve().parent
    for name in sys.argv[1:] or CASES:
        case = make(CASES[name])
        (folder / f"{name}.json").write_text(json.dumps(case, indent=0).replace(",\n", ", ") + "\n")
        errors = [t["error"] / t["norm"] for t in case["gradient"]["tensors"].values()]
        print(
            f"{name}: {case['parameters']} parameters, loss {case['gradient']['loss']:.4f}, "
            f"stream {case['input_stream']}, margin {case['margin']:.2f}, "
            f"errors of gradients: median {np.median(errors):.1e}, most {max(errors):.1e}",
            flush=True,
        )


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Training steps in eager PyTorch, on command: see system.py, and `ronde bench step --peers pytorch`.

Fused optimizer, tcmalloc preloaded where it is installed, plain or --channels-last, in f32 or, with --bf16, its
automatic mixed precision. --compile: forward and backward by its compiler (torch.compile), which was never faster here in f32.
A file NAME.onnx is torchvision's model of that name (torchvision_model.py); so are vgg16 and inception-v3.
Requirements: torch >= 2, numpy; for torchvision's models torchvision, for bert transformers.
"""

import pathlib
import sys

import system

args = system.arguments("--channels-last", "--bf16", "--compile")
system.prepare(args.threads, tcmalloc=True)

import torch  # noqa: E402

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tests" / "golden"))
import models  # noqa: E402
import sequences  # noqa: E402
from pytorch_count import count_flops  # noqa: E402


TORCHVISION = {"vgg16": "vgg16", "inception-v3": "inception_v3"}


def build(file, x):
    """The network, its loss, and multiply-adds x 2 of one example."""
    if args.model.endswith(".onnx") or args.model in TORCHVISION:
        import torchvision_model

        name = TORCHVISION.get(args.model, pathlib.Path(args.model).stem)
        net = torchvision_model.build(name, torchvision_model.classes_of(name, file), x.shape[2])
        return net, models.cross_entropy, torchvision_model.count_flops(net, x)
    if sequences.knows(args.model):
        net, loss_of = sequences.build(args.model, file, x)
    else:
        net = models.build(args.model, x.shape[1], (x.shape[2], x.shape[3]), file.classes, args.padding)
        loss_of = models.cross_entropy
    return net, loss_of, count_flops(torch, net, x)


def main():
    torch.set_num_threads(args.threads)
    file = system.File(args.file)
    x, y = torch.from_numpy(file.x), torch.from_numpy(file.labels)
    if args.channels_last and x.dim() != 4:
        system.absent("channels-last is for images")
        return
    net, loss_of, flops = build(file, x)
    with torch.no_grad():
        for name, parameter in net.named_parameters():
            parameter.copy_(torch.from_numpy(file[name]))
    if args.channels_last:
        net, x = net.to(memory_format=torch.channels_last), x.contiguous(memory_format=torch.channels_last)
    if args.compile:
        net = torch.compile(net)
    if args.optimizer == "adam":
        optimizer = torch.optim.Adam(net.parameters(), lr=args.lr, fused=True)
    else:
        optimizer = torch.optim.SGD(net.parameters(), lr=args.lr, momentum=args.momentum, fused=True)

    def step():
        optimizer.zero_grad()
        with torch.autocast("cpu", torch.bfloat16, enabled=args.bf16):
            logits = net(x)
        loss = loss_of(logits.float(), y)
        loss.backward()
        optimizer.step()
        return loss.detach()

    system.serve(args, step, sum(p.numel() for p in net.parameters()), flops, version=torch.__version__)


main()

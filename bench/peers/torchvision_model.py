#!/usr/bin/env python3
"""torchvision's classification models, for `ronde bench step --model NAME.onnx`, where NAME is what torchvision calls it.

    python torchvision_model.py NAME FOLDER [--size 224] [--classes 1000]

writes FOLDER/NAME.onnx, which the peers' scripts know again by its name. Dropout and stochastic depth are 0, so that all
systems do the same work. Requirements: torch >= 2, torchvision, onnx, onnxscript.
"""

import argparse
import pathlib

import torch
import torchvision


def build(name, classes, size):
    options = {"num_classes": classes, "weights": None}
    if name in ("googlenet", "inception_v3"):
        options.update(aux_logits=False, init_weights=True)
    if name.startswith("vit"):
        options["image_size"] = size
    model = torchvision.models.get_model(name, **options)
    for part in model.modules():
        if isinstance(part, torch.nn.Dropout) or type(part).__name__ == "StochasticDepth":
            part.p = 0.0
        elif isinstance(part, torch.nn.MultiheadAttention):
            part.dropout = 0.0
    return model.train()


def classes_of(name, file):
    """The outputs of the last layer, as a file of weights has them."""
    with torch.device("meta"):
        net = build(name, 1000, 224)
    last = [name for name, p in net.named_parameters() if p.dim() > 1 and len(p) == 1000][-1]
    return file.shape(last)[0]


def count_flops(net, x):
    """Multiply-adds x 2 of one example's convolutions and products of matrices."""
    from torch.utils.flop_counter import FlopCounterMode

    torch.backends.mha.set_fastpath_enabled(False)  # one operator for a whole attention, which the counter does not know
    net.eval()
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        net(x[:1])
    net.train()
    return counter.get_total_flops()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("name")
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--size", type=int, default=224)
    parser.add_argument("--classes", type=int, default=1000)
    args = parser.parse_args()
    torch.manual_seed(1)
    torch.onnx.export(build(args.name, args.classes, args.size), (torch.randn(2, 3, args.size, args.size),),
                      args.folder / f"{args.name}.onnx", training=torch.onnx.TrainingMode.TRAINING,
                      do_constant_folding=False, dynamo=False, input_names=["input"],
                      dynamic_axes={"input": {0: "batch"}})


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Follows PyTorch exactly: the same data, weights, batches and optimizer in PyTorch (f64 and f32) and in Ronde.

    python3 tests/golden/follow.py --model mnist-small --shape 3x20x20 --classes 7 --batch 9 --steps 25 \\
        --optimizer adamw --lr 0.003 --seed 5 --ronde build/ronde [--workers 3] [-- further options of ronde train]

Compares the loss of every step and the weights at the end: Ronde's error against f64 may be at most 4 times PyTorch's
own in f32, with a floor of some ulps. A ReLU whose input lies within rounding of 0 may fall on either side, which breaks
the bound with no one at fault: --shift 3 keeps those of deep networks away from there. Exit code 0 where it holds, 7
where it does not. Without --ronde it writes data and weights (--keep DIR) and shows PyTorch's own error in both columns.
See models.py for requirements.
"""

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
import torch

import models

BOUND, FLOOR = 4.0, 4.0 / (1 << 24)
DEFAULT_SHAPES = {
    "lenet5": "3x32x32",
    "mnist-small": "1x28x28",
    "mnist-large": "1x28x28",
    "alexnet": "3x64x64",
    "resnet18": "3x32x32",
    "resnet18-cifar": "3x32x32",
    "resnet50": "3x32x32",
}


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="lenet5", choices=DEFAULT_SHAPES)
    parser.add_argument("--padding", default="same", choices=["same", "valid"])
    parser.add_argument("--shape", help="CxHxW (default: the model's)")
    parser.add_argument("--classes", type=int, default=10)
    parser.add_argument("--examples", type=int, help="default: two and a half batches")
    parser.add_argument("--batch", type=int, default=7)
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--optimizer", default="sgd", choices=["sgd", "adam", "adamw", "adagrad", "lbfgs"])
    parser.add_argument("--lr", type=float, default=0.01)
    parser.add_argument("--momentum", type=float, default=0.0)
    parser.add_argument("--nesterov", action="store_true")
    parser.add_argument("--weight-decay", type=float)
    parser.add_argument("--eps", type=float)
    parser.add_argument("--lbfgs-history", type=int, default=10)
    parser.add_argument("--lbfgs-iterations", type=int, default=20)
    parser.add_argument("--clip", type=float, default=0.0)
    parser.add_argument("--shift", type=float, default=0.0, help="added to the biases in front of ReLUs")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--ronde", help="the binary to compare")
    parser.add_argument("--keep", type=pathlib.Path, help="keep data, weights and the run in this folder")
    parser.add_argument("more", nargs="*", help="further options of ronde train, after --")
    args = parser.parse_args()
    args.shape = [int(d) for d in (args.shape or DEFAULT_SHAPES[args.model]).split("x")]
    args.examples = args.examples or args.batch * 5 // 2
    return args


def make_optimizer(args, parameters):
    more = {k: v for k, v in (("weight_decay", args.weight_decay), ("eps", args.eps)) if v is not None}
    if args.optimizer == "sgd":
        return torch.optim.SGD(parameters, lr=args.lr, momentum=args.momentum, nesterov=args.nesterov, **more)
    if args.optimizer == "lbfgs":
        return torch.optim.LBFGS(
            parameters,
            lr=args.lr,
            max_iter=args.lbfgs_iterations,
            history_size=args.lbfgs_history,
            line_search_fn="strong_wolfe",
        )
    others = {"adam": torch.optim.Adam, "adamw": torch.optim.AdamW, "adagrad": torch.optim.Adagrad}
    return others[args.optimizer](parameters, lr=args.lr, **more)


def build(args):
    channels, height, width = args.shape
    return models.build(args.model, channels, (height, width), args.classes, args.padding)


def initial_state(args):
    torch.manual_seed(args.seed)
    net = build(args)
    normalised = any(isinstance(module, torch.nn.BatchNorm2d) for module in net.modules())
    with torch.no_grad():
        for module in net.modules():
            if isinstance(module, torch.nn.BatchNorm2d if normalised else (torch.nn.Conv2d, torch.nn.Linear)):
                module.bias += args.shift
    return net.state_dict()


def run_pytorch(args, x, y, state, dtype):
    """Losses, and the weights and running statistics by name as f64."""
    net = build(args)
    net.load_state_dict(state)
    net.to(dtype)
    optimizer, losses = make_optimizer(args, list(net.parameters())), []
    batches = models.batches(torch.from_numpy(x).to(dtype), torch.from_numpy(y), args.batch)
    for (bx, by), _ in zip(batches, range(args.steps)):

        def evaluate():
            optimizer.zero_grad()
            loss = torch.nn.functional.cross_entropy(net(bx), by)
            loss.backward()
            if args.clip:
                torch.nn.utils.clip_grad_norm_(net.parameters(), args.clip)
            return loss

        losses.append(optimizer.step(evaluate).item())
    return np.array(losses), {name: t.numpy().astype(np.float64) for name, t in net.state_dict().items()}


def write_safetensors(path, tensors):
    header, offset = {}, 0
    for name, value in tensors.items():
        dtype = {"float32": "F32", "int64": "I64"}[value.dtype.name]
        header[name] = {"dtype": dtype, "shape": list(value.shape), "data_offsets": [offset, offset + value.nbytes]}
        offset += value.nbytes
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(len(text).to_bytes(8, "little") + text + b"".join(v.tobytes() for v in tensors.values()))


NUMPY = {"F32": "<f4", "I64": "<i8"}


def read_safetensors(path):
    data = path.read_bytes()
    begin = 8 + int.from_bytes(data[:8], "little")
    header = json.loads(data[8:begin])
    header.pop("__metadata__", None)
    tensors = {}
    for name, t in header.items():
        first, last = t["data_offsets"]
        values = np.frombuffer(data[begin + first : begin + last], dtype=NUMPY[t["dtype"]])
        tensors[name] = values.reshape(t["shape"]).astype(np.float64)
    return tensors


def run_ronde(args, folder):
    command = f"{args.ronde} train --model {args.model} --data npy:{folder} --classes {args.classes}".split()
    command += f"--init {folder}/init.safetensors --save {folder}/out.safetensors --out {folder}/run --overwrite".split()
    command += "--shuffle off --augment off --normalize off --dropout 0".split()
    command += f"--batch {args.batch} --steps {args.steps} --workers {args.workers}".split()
    command += f"--optimizer {args.optimizer} --lr {args.lr}".split()
    if args.model.startswith("mnist"):
        command += ["--padding", args.padding]
    for option in ("momentum", "weight_decay", "eps", "clip"):
        if getattr(args, option):
            command += ["--" + option.replace("_", "-"), getattr(args, option)]
    if args.optimizer == "lbfgs":
        command += ["--lbfgs-history", args.lbfgs_history, "--lbfgs-iterations", args.lbfgs_iterations]
    command += ["--nesterov"] if args.nesterov else []
    command = [str(word) for word in command + args.more]
    print(" ".join(command))
    subprocess.run(command, check=True)
    lines = [json.loads(line) for line in (folder / "run" / "steps.jsonl").read_text().splitlines()]
    if [line["step"] for line in lines] != list(range(1, args.steps + 1)):
        sys.exit(f"steps.jsonl does not hold the steps 1 to {args.steps}")
    return np.array([line["loss"] for line in lines]), read_safetensors(folder / "out.safetensors")


def compare(args, f64, f32, ours):
    failures = 0

    def row(what, error, peer_error, norm):
        nonlocal failures
        good = error <= BOUND * peer_error + FLOOR * norm
        failures += not good
        print(f"{what:20} {error:12.3e} {peer_error:12.3e} {norm:12.3e} {'' if good else '  <-- misses the bound'}")

    print(f"{'':20} {'ronde':>12} {'pytorch f32':>12} {'norm':>12}   errors against PyTorch's f64")
    row("loss, first step", abs(ours[0][0] - f64[0][0]), abs(f32[0][0] - f64[0][0]), abs(f64[0][0]))
    # steps.jsonl has 9 digits: no loss of accuracy in f32.
    row("losses", np.linalg.norm(ours[0] - f64[0]), np.linalg.norm(f32[0] - f64[0]), np.linalg.norm(f64[0]))
    if set(ours[1]) != set(f64[1]):
        sys.exit(f"other tensors: {sorted(set(ours[1]) ^ set(f64[1]))}")
    for name, wanted in f64[1].items():
        row(
            name,
            np.linalg.norm(ours[1][name] - wanted),
            np.linalg.norm(f32[1][name] - wanted),
            np.linalg.norm(wanted),
        )
    return failures


def follow(args, folder):
    rng = np.random.default_rng(args.seed)
    x = rng.standard_normal((args.examples, *args.shape)).astype(np.float32)
    y = rng.integers(0, args.classes, args.examples)
    state = initial_state(args)
    np.save(folder / "train_x.npy", x)
    np.save(folder / "train_y.npy", y)
    write_safetensors(folder / "init.safetensors", {name: value.numpy() for name, value in state.items()})
    f64, f32 = (run_pytorch(args, x, y, state, dtype) for dtype in (torch.float64, torch.float32))
    failures = compare(args, f64, f32, run_ronde(args, folder) if args.ronde else f32)
    if failures:
        print(f"{failures} miss the bound", file=sys.stderr)
        sys.exit(7)


def main():
    args = arguments()
    torch.set_num_threads(1)
    if args.keep:
        args.keep.mkdir(parents=True, exist_ok=True)
        follow(args, args.keep)
    else:
        with tempfile.TemporaryDirectory() as folder:
            follow(args, pathlib.Path(folder))


main()

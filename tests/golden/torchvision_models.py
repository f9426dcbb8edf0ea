"""torchvision's classification models, exported by torch.onnx for training: one step of each with Ronde against PyTorch, loss
and every gradient. Needs PyPI's torch (2.15), torchvision (0.29), onnx and onnxscript, by hand:

    venv/bin/python tests/golden/torchvision_models.py build/ronde [--batch N] [--size N] [--smooth] [MODEL...]

prints the lines of tests/golden/torchvision.txt.

A step of plain SGD at a learning rate of 4096 leaves the gradient in the difference of the weights to full precision. Errors
are root mean squares over a tensor against PyTorch in f64. The ratio is Ronde's error over PyTorch's in f32, of the tensor
where it is largest, but no error counts as smaller than 2^-22 of the tensor's gradients or 2^-26 of the network's: a bias in
front of a batch normalisation has a gradient of nothing but rounding. Where an activation lies within rounding of a kink of
ReLU or of two equal maxima, f32 may fall on its other side, and a whole term of a gradient with it: so a model that differs
is tried with up to SEEDS seeds, and the line says which one it was; what is wrong differs with all of them. --smooth asks the
same of a model without kinks: SiLU is in the place of ReLU, and average pooling in that of the maximum. Dropout and
stochastic depth are set to 0, and classifiers to 10 outputs, and ViTs are made for images of 64 pixels; GoogLeNet and
Inception go without their second classifiers. Nothing else is changed. Gradients in f64 are compared one by one as they come,
so that a model takes three times its weights in f64.
"""

import argparse
import contextlib
import copy
import io
import json
import pathlib
import re
import struct
import subprocess
import sys
import tempfile

import numpy as np
import torch
import torchvision

RATE, CLASSES, BATCH = 4096.0, 10, 8
SEEDS = 6
# By the beginning of the name; else 64. ONNX has adaptive pooling only where sizes divide.
SIZES = {"alexnet": 224, "vgg": 224, "inception_v3": 96, "vit": 64, "maxvit": 224}


def make(name, seed):
    options = {"num_classes": CLASSES, "weights": None}
    if name in ("googlenet", "inception_v3"):
        options.update(aux_logits=False, init_weights=True)
    if name.startswith("vit"):
        options["image_size"] = SIZES["vit"]
    torch.manual_seed(seed)
    model = torchvision.models.get_model(name, **options)
    for part in model.modules():
        if isinstance(part, torch.nn.Dropout):
            part.p = 0.0
        elif type(part).__name__ == "StochasticDepth":
            part.p = 0.0
        elif isinstance(part, torch.nn.MultiheadAttention):
            part.dropout = 0.0
    return model.train()


def smooth():
    """No kinks from here on."""
    functional = torch.nn.functional
    functional.relu = functional.relu6 = lambda input, inplace=False: functional.silu(input)

    def pool(input, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False, return_indices=False):
        return functional.avg_pool2d(input, kernel_size, stride, padding, ceil_mode, False)

    functional.max_pool2d = pool


def pass_over(model, x, labels, told):
    """The loss; told(name, gradient) of each parameter as soon as it has its gradient, which is then gone."""
    def tell(name):
        def hook(parameter):
            told(name, parameter.grad)
            parameter.grad = None
        return hook

    handles = [p.register_post_accumulate_grad_hook(tell(k)) for k, p in model.named_parameters()]
    loss = torch.nn.functional.cross_entropy(model(x), labels)
    loss.backward()
    for handle in handles:
        handle.remove()
    return float(loss.detach())


def read(path):
    """A safetensors file, which stays where it is."""
    data = np.memmap(path, np.uint8, "r")
    n = struct.unpack("<Q", data[:8].tobytes())[0]
    result = {}
    for name, entry in json.loads(data[8:8 + n].tobytes()).items():
        if name != "__metadata__" and entry["dtype"] == "F32":
            begin, end = entry["data_offsets"]
            result[name] = data[8 + n + begin:8 + n + end].view("<f4").reshape(entry["shape"])
    return result


def ronde(*words):
    return subprocess.run([RONDE, *map(str, words)], capture_output=True, text=True, timeout=1800)


def rms(x):
    return float(np.sqrt(np.mean(np.square(x)))) if x.size else 0.0


def step(file, folder, x, labels):
    """What Ronde makes of the file: the loss and the weights afterwards, or the line that refuses it."""
    data = folder / "data"
    data.mkdir()
    np.save(data / "train_x.npy", x.numpy())
    np.save(data / "train_y.npy", labels.numpy())
    run = ronde("train", "--model", file, "--data", f"npy:{data}", "--normalize", "off", "--no-shuffle", "--batch", len(x),
                "--steps", 1, "--lr", RATE, "--classes", CLASSES, "--out", folder / "run", "--json", "--no-cache")
    if not (folder / "run" / "last.safetensors").exists():
        lines = run.stderr.strip().splitlines() or [f"exit code {run.returncode}"]
        return None, next((line for line in lines if line.startswith("ronde")), lines[-1])
    first = json.loads((folder / "run" / "steps.jsonl").read_text().splitlines()[0])
    return first["loss"], read(folder / "run" / "last.safetensors")


def judge(model, x, labels, loss, after):
    """Whether one step's loss and gradients are PyTorch's, and in words."""
    single, errors, missing = {}, {}, []
    loss32 = pass_over(model, x, labels, single.__setitem__)
    before = dict(model.double().named_parameters())

    def measure(name, gradient):
        double, single_one = gradient.numpy(), single.pop(name).numpy()
        if name not in after:
            missing.append(name)
            return
        own = (before[name].detach().numpy() - after[name].reshape(double.shape)) / RATE
        errors[name] = rms(own - double), rms(single_one - double), rms(double)

    loss64 = pass_over(model, x.double(), labels, measure)
    whole = np.sqrt(np.mean([size ** 2 for _, _, size in errors.values()]))
    worst, where = 0.0, ""
    for k, (own, theirs, size) in errors.items():
        ratio = own / max(theirs, 2.0 ** -22 * size, 2.0 ** -26 * whole)
        if ratio >= worst:
            worst, where = ratio, k
    error, theirs = abs(loss - loss64), max(abs(loss32 - loss64), 2.0 ** -22 * abs(loss64))
    agrees = not missing and worst <= 4 and error <= 4 * theirs
    return agrees, (f"{'trains' if agrees else 'DIFFERS'}: {len(errors) + len(missing)} gradients, largest ratio {worst:.2f} "
                    f"({where}), loss {loss:.7g}, ratio {error / theirs:.2f}"
                    + (f", missing {missing[:3]}" if missing else ""))


def compare(name, seed, batch, size):
    model, x, labels = make(name, seed), torch.randn(batch, 3, size, size), torch.arange(batch) % CLASSES
    with tempfile.TemporaryDirectory() as where:
        folder = pathlib.Path(where)
        file = folder / "net.onnx"
        try:
            with contextlib.redirect_stdout(io.StringIO()):  # the exporter prints whole graphs
                torch.onnx.export(copy.deepcopy(model), (x,), file, training=torch.onnx.TrainingMode.TRAINING,
                                  do_constant_folding=False, dynamo=False, input_names=["input"],
                                  dynamic_axes={"input": {0: "batch"}})
        except Exception as error:  # the exporter's own limits
            return True, f"torch.onnx cannot export it: {str(error).splitlines()[0]}"
        loss, after = step(file, folder, x, labels)
        if loss is None:
            return True, f"refused: {re.sub(r'^(ronde: error: )?(.*net.onnx: )?', '', after)}"
        return judge(model, x, labels, loss, after)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("ronde")
    parser.add_argument("models", nargs="*")
    parser.add_argument("--batch", type=int, default=BATCH)
    parser.add_argument("--size", type=int, help="of images; else by the model's name")
    parser.add_argument("--seeds", type=int, default=SEEDS)
    parser.add_argument("--smooth", action="store_true")
    options = parser.parse_intermixed_args()
    global RONDE
    RONDE = options.ronde
    torch.set_num_threads(1)
    if options.smooth:
        smooth()
    for name in options.models or torchvision.models.list_models(module=torchvision.models):
        size = options.size or next((s for prefix, s in SIZES.items() if name.startswith(prefix)), 64)
        for seed in range(1, options.seeds + 1):
            done, text = compare(name, seed, options.batch, size)
            if done:
                break
        notes = [f"seed {seed}"] * (seed > 1) + [f"batch {options.batch}"] * (options.batch != BATCH)
        notes += [f"{size} pixels"] * (options.size is not None) + ["without kinks"] * options.smooth
        print(", ".join([f"{name}: {text}", *notes]), flush=True)


main()

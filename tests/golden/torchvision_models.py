"""torchvision's classification models, exported by torch.onnx for training: one step of each with Ronde against PyTorch, loss
and every gradient. Needs PyPI's torch (2.15), torchvision (0.29), onnx and onnxscript, by hand:

    venv/bin/python tests/golden/torchvision_models.py build/ronde [MODEL...] >tests/golden/torchvision.txt

A step of plain SGD at a learning rate of 4096 leaves the gradient in the difference of the weights to full precision. Errors
are root mean squares over a tensor against PyTorch in f64. The ratio is Ronde's error over PyTorch's in f32, of the tensor
where it is largest, but no error counts as smaller than 2^-22 of the tensor's gradients or 2^-26 of the network's: a bias in
front of a batch normalisation has a gradient of nothing but rounding. Where an activation lies within rounding of a kink of
ReLU or of two equal maxima, f32 may fall on its other side, and a whole term of a gradient with it: so a model that differs
is tried with up to SEEDS seeds, and the line says which one it was; what is wrong differs with all of them. Dropout and stochastic depth are set to 0, and
classifiers to 10 outputs, and ViTs are made for images of 64 pixels; GoogLeNet and Inception go without their second classifiers. Nothing else is changed.
"""

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


def gradients(model, x, labels):
    model = copy.deepcopy(model)
    loss = torch.nn.functional.cross_entropy(model(x), labels)
    loss.backward()
    return float(loss.detach()), {k: p.grad.double().numpy() for k, p in model.named_parameters() if p.grad is not None}


def read(path):
    """A safetensors file."""
    data = path.read_bytes()
    n = struct.unpack("<Q", data[:8])[0]
    result = {}
    for name, entry in json.loads(data[8:8 + n]).items():
        if name != "__metadata__" and entry["dtype"] == "F32":
            begin, end = entry["data_offsets"]
            result[name] = np.frombuffer(data[8 + n + begin:8 + n + end], "<f4").reshape(entry["shape"])
    return result


def ronde(*words):
    return subprocess.run([RONDE, *map(str, words)], capture_output=True, text=True, timeout=1800)


def rms(x):
    return float(np.sqrt(np.mean(np.square(x)))) if x.size else 0.0


def step(file, folder, model, x, labels):
    """What Ronde makes of the file: the loss and gradients, or the line that refuses it."""
    data = folder / "data"
    data.mkdir()
    np.save(data / "train_x.npy", x.numpy())
    np.save(data / "train_y.npy", labels.numpy())
    run = ronde("train", "--model", file, "--data", f"npy:{data}", "--normalize", "off", "--no-shuffle", "--batch", BATCH,
                "--steps", 1, "--lr", RATE, "--classes", CLASSES, "--out", folder / "run", "--json", "--no-cache")
    if not (folder / "run" / "last.safetensors").exists():
        lines = run.stderr.strip().splitlines() or [f"exit code {run.returncode}"]
        return None, next((line for line in lines if line.startswith("ronde")), lines[-1])
    first = json.loads((folder / "run" / "steps.jsonl").read_text().splitlines()[0])
    after = read(folder / "run" / "last.safetensors")
    before = {k: p.detach().numpy() for k, p in model.named_parameters()}
    return first["loss"], {k: (before[k].astype(np.float64) - after[k].reshape(before[k].shape)) / RATE
                           for k in before if k in after}


def compare(name, seed):
    size = next((s for prefix, s in SIZES.items() if name.startswith(prefix)), 64)
    model, x, labels = make(name, seed), torch.randn(BATCH, 3, size, size), torch.arange(BATCH) % CLASSES
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
        loss, own = step(file, folder, model, x, labels)
    if loss is None:
        return True, f"refused: {re.sub(r'^(ronde: error: )?(.*net.onnx: )?', '', own)}"
    loss32, single = gradients(model, x, labels)
    loss64, double = gradients(model.double(), x.double(), labels)
    whole = np.sqrt(np.mean([np.mean(np.square(g)) for g in double.values()]))
    missing = sorted(set(double) - set(own))
    worst, where = 0.0, ""
    for k in set(double) & set(own):
        floor = max(2.0 ** -22 * rms(double[k]), 2.0 ** -26 * whole)
        ratio = rms(own[k] - double[k]) / max(rms(single[k] - double[k]), floor)
        if ratio >= worst:
            worst, where = ratio, k
    error, theirs = abs(loss - loss64), max(abs(loss32 - loss64), 2.0 ** -22 * abs(loss64))
    agrees = not missing and worst <= 4 and error <= 4 * theirs
    return agrees, (f"{'trains' if agrees else 'DIFFERS'}: {len(double)} gradients, largest ratio {worst:.2f} ({where}), loss "
                    f"{loss:.7g}, ratio {error / theirs:.2f}" + (f", missing {missing[:3]}" if missing else ""))


RONDE = sys.argv[1]
torch.set_num_threads(1)
for name in sys.argv[2:] or torchvision.models.list_models(module=torchvision.models):
    for seed in range(1, SEEDS + 1):
        done, text = compare(name, seed)
        if done:
            break
    print(f"{name}: {text}" + (f", seed {seed}" if seed > 1 else ""), flush=True)

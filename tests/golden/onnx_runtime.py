"""What ONNX Runtime makes of the networks that `ronde export --format onnx` writes, against `ronde predict`: the largest
difference of a probability over random images. Needs PyPI's onnx and onnxruntime (make_onnx.py says how), by hand:

    venv/bin/python tests/golden/onnx_runtime.py build/ronde

The results are in docs/onnx.md.
"""

import json
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
import onnx
import onnxruntime

RONDE = sys.argv[1]
NETWORKS = ["lenet5", "alexnet", "resnet18", "resnet50", "resnet18-cifar", "mnist-small", "mnist-large", "mlp:256,64"]


def ronde(*words):
    return subprocess.run([RONDE, *map(str, words)], check=True, capture_output=True, text=True).stdout


def softmax(y):
    y = np.exp(y.astype(np.float64) - y.max(axis=1, keepdims=True))
    return y / y.sum(axis=1, keepdims=True)


def compare(network, folder):
    weights, file, images = folder / "w.safetensors", folder / "net.onnx", folder / "x.npy"
    ronde("init", "--model", network, "--seed", 1, "-o", weights)
    ronde("export", weights, "--format", "onnx", "-o", file)
    onnx.checker.check_model(onnx.load(file), full_check=True)
    session = onnxruntime.InferenceSession(file, providers=["CPUExecutionProvider"])
    source = session.get_inputs()[0]
    x = np.random.default_rng(1).standard_normal([16, *source.shape[1:]]).astype(np.float32)
    np.save(images, x)
    told = json.loads(ronde("predict", weights, images, "--normalize", "off", "--top", 1000, "--format", "json"))
    own = np.zeros([16, 10])
    for i, example in enumerate(told["examples"]):
        for row in example["classes"]:
            own[i, row["class"]] = row["probability"]
    theirs = softmax(session.run(None, {source.name: x})[0])
    print(f"| {network} | {np.abs(own - theirs).max():.1e} |")


for name in NETWORKS:
    with tempfile.TemporaryDirectory() as folder:
        compare(name, pathlib.Path(folder))

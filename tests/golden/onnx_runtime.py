"""What ONNX Runtime makes of the networks that `ronde export --format onnx` writes, against `ronde predict`: the largest
difference of a probability over random images; and of networks of sequences, against the library's predictor: over random
sequences, of which one is empty and one is whole. Needs PyPI's onnx and onnxruntime (make_onnx.py says how), by hand:

    venv/bin/python tests/golden/onnx_runtime.py build/ronde

The results are in docs/onnx.md.
"""

import ctypes
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
SEQUENCES = ["gpt-tiny", "bert-tiny", "transformer-tiny", "gnmt-tiny", "deepspeech2-tiny"]
EXAMPLES = 16


def ronde(*words):
    return subprocess.run([RONDE, *map(str, words)], check=True, capture_output=True, text=True).stdout


def softmax(y):
    y = np.exp(y.astype(np.float64) - y.max(axis=-1, keepdims=True))
    return y / y.sum(axis=-1, keepdims=True)


def export(network, folder):
    """The weights, and a session on the exported file."""
    weights, file = folder / "w.safetensors", folder / "net.onnx"
    ronde("init", "--model", network, "--seed", 1, "-o", weights)
    ronde("export", weights, "--format", "onnx", "-o", file)
    onnx.checker.check_model(onnx.load(file), full_check=True)
    return weights, onnxruntime.InferenceSession(file, providers=["CPUExecutionProvider"])


class Predictor:
    """Of the library beside the program."""

    def __init__(self, weights):
        self.library = ctypes.CDLL(pathlib.Path(RONDE).resolve().parent / "libronde.so")
        self.library.ronde_predictor_outputs.restype = ctypes.c_int64
        config, self.handle = ctypes.c_void_p(), ctypes.c_void_p()
        self.call("config_create", b"predict", ctypes.byref(config))
        self.call("config_set", config, b"init", str(weights).encode())
        self.call("predictor_create", config, None, ctypes.byref(self.handle))

    def call(self, name, *arguments):
        status = getattr(self.library, f"ronde_{name}")(*arguments)
        assert status == 0, f"{name}: status {status}"

    def run(self, rows):
        y = np.zeros([len(rows), self.library.ronde_predictor_outputs(self.handle)], np.float32)
        rows = np.ascontiguousarray(rows, np.float32)
        self.call("predictor_run", self.handle, ctypes.c_int64(len(rows)), rows.ctypes.data_as(ctypes.c_void_p),
                  y.ctypes.data_as(ctypes.c_void_p))
        return y


def random_input(source, rng):
    """Tokens, with padding behind them; values; or lengths."""
    shape, lengths = [EXAMPLES, *source.shape[1:]], rng.integers(0, source.shape[-1] + 1, EXAMPLES)
    lengths[:2] = 0, source.shape[-1]
    if source.type == "tensor(int32)":
        tokens = rng.integers(1, 256, shape)
        return np.where(np.arange(shape[-1]) < lengths[:, None], tokens, 0).astype(np.int32)
    if source.shape[1:] == [1]:
        return np.array([0, 200, *rng.integers(0, 201, EXAMPLES - 2)], np.float32)[:, None]
    return rng.standard_normal(shape).astype(np.float32)


def compare_sequences(network, folder):
    weights, session = export(network, folder)
    rng = np.random.default_rng(1)
    feed = {source.name: random_input(source, rng) for source in session.get_inputs()}
    theirs = session.run(None, feed)[0]
    own = Predictor(weights).run(np.concatenate([x.reshape(EXAMPLES, -1) for x in feed.values()], axis=1))
    own = own.reshape(theirs.shape)
    print(f"| {network} | {np.abs(softmax(own) - softmax(theirs)).max():.1e} |")


def compare(network, folder):
    images = folder / "x.npy"
    weights, session = export(network, folder)
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


for names, function in ((NETWORKS, compare), (SEQUENCES, compare_sequences)):
    for name in names:
        with tempfile.TemporaryDirectory() as folder:
            function(name, pathlib.Path(folder))

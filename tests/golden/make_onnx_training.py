"""The node cases of training that PyPI's onnx has, for tests/onnx_training_test.c: optimizers, and batch normalisation. By hand:

    venv/bin/python tests/golden/make_onnx_training.py tests/golden      (onnx 1.23.2)

It writes onnx/training.json. A case of several tensors becomes as many.
"""

import json
import pathlib
import sys

import numpy as np
from onnx import helper
from onnx.backend.test.loader import load_node_model_tests

STATES = {"Adagrad": 1, "Momentum": 1, "Adam": 2}


def values(x):
    return [float(v) for v in np.asarray(x, np.float32).ravel()]


def optimizer(case, node, inputs, outputs):
    kind = node.op_type
    states = STATES[kind]
    n = (len(inputs) - 2) // (2 + states)
    attributes = {a.name: helper.get_attribute_value(a) for a in node.attribute}
    mode = attributes.pop("mode", b"standard").decode()
    for i in range(n):
        parts = [values(inputs[2 + k * n + i]) for k in range(2 + states)]
        yield {"name": f"{case.name}/{i}", "kind": kind, "lr": float(inputs[0]), "t": int(inputs[1]), "mode": mode,
               **{k: float(v) for k, v in attributes.items()}, "x": parts[0], "g": parts[1], "state": parts[2:],
               "x_new": values(outputs[i]), "state_new": [values(outputs[(1 + k) * n + i]) for k in range(states)]}


def norm(case, node, inputs, outputs):
    attributes = {a.name: helper.get_attribute_value(a) for a in node.attribute}
    yield {"name": case.name, "kind": "BatchNormalization", "dims": list(inputs[0].shape),
           "epsilon": float(attributes.get("epsilon", 1e-5)), "momentum": float(attributes.get("momentum", 0.9)),
           "x": values(inputs[0]), "weight": values(inputs[1]), "bias": values(inputs[2]), "mean": values(inputs[3]),
           "var": values(inputs[4]), "y": values(outputs[0]), "mean_new": values(outputs[1]), "var_new": values(outputs[2])}


def main():
    result = []
    for case in load_node_model_tests():
        model = case.model
        if model is None or len(model.graph.node) != 1:
            continue
        node = model.graph.node[0]
        training = any(a.name == "training_mode" and a.i for a in node.attribute)
        if node.op_type in STATES:
            result += optimizer(case, node, *case.data_sets[0])
        elif node.op_type == "BatchNormalization" and training:
            result += norm(case, node, *case.data_sets[0])
    path = pathlib.Path(sys.argv[1]) / "onnx" / "training.json"
    path.write_text("[\n" + ",\n".join(json.dumps(r) for r in result) + "\n]\n")
    print(len(result), "cases")


main()

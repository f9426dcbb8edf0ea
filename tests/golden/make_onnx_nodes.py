"""Runs the node cases of PyPI's onnx through Ronde. By hand:

    python -m venv venv && venv/bin/pip install onnx==1.23.2
    venv/bin/python tests/golden/make_onnx_nodes.py build tests/golden

It writes onnx-nodes.txt, the result of every case (passed, refused with the reason, failed), and onnx/nodes.cases, the small
ones of those that passed, which tests/onnx_nodes_test.c runs without Python.

A case is run in up to five forms. In one it has no batch: its tensors are those of one example (ronde__onnx_parse_case). In
three others the first dimension of its input is the batch, as in files of networks; images are given to the operator in the
layouts ROWS, LANES and BLOCKS. Recurrent operators have the batch in the second dimension: in the form `time` their input is
turned in front of them, and their output behind them, as PyTorch exports batch_first. Its inputs of f32 are the network's, or, as the weights of a convolution must be,
initializers: all ways to divide them that are listed below are tried. A case has passed if one of them was accepted and
gave the right output, and none gave a wrong one. Inputs of other types are initializers. Of several outputs each is a case
by itself.
"""

import collections
import copy
import os
import pathlib
import struct
import subprocess
import sys

import numpy as np
import onnx
from onnx import TensorProto, numpy_helper
from onnx.backend.test.loader import load_node_model_tests

BUILD, GOLDEN = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
TYPES = {TensorProto.FLOAT, TensorProto.INT32, TensorProto.INT64, TensorProto.BOOL}
SMALL = 4096  # bytes of a case that is kept
MANY = 9      # of one operator


def read(path):
    tensor = onnx.TensorProto()
    tensor.ParseFromString(path.read_bytes())
    return tensor


def data_of(case, model):
    """Of the first data set: inputs and outputs as TensorProtos; None: it has something else."""
    folder = pathlib.Path(case.model_dir) / "test_data_set_0" if case.model_dir else None
    inputs, outputs = [], []
    if folder is None:
        for values, infos, to in ((case.data_sets[0][0], model.graph.input, inputs),
                                  (case.data_sets[0][1], model.graph.output, outputs)):
            for value, info in zip(values, infos):
                if not isinstance(value, (np.ndarray, np.generic)):
                    return None
                to.append(numpy_helper.from_array(np.asarray(value), info.name))
        return inputs, outputs
    for kind, infos, to in (("input", model.graph.input, inputs), ("output", model.graph.output, outputs)):
        for i, info in enumerate(infos):
            if not info.type.HasField("tensor_type"):
                return None
            tensor = read(folder / f"{kind}_{i}.pb")
            tensor.name = info.name
            to.append(tensor)
    return inputs, outputs


def variants(inputs):
    """Sets of the inputs that are the network's."""
    floats = [i for i, t in enumerate(inputs) if t.data_type == TensorProto.FLOAT and np.prod(t.dims) > 0]
    seen = []
    for chosen in (floats[:1], floats, floats[:2], floats[1:2], []):
        if chosen not in seen and (chosen or not floats):
            seen.append(chosen)
    return seen


RECURRENT = {"LSTM", "GRU", "RNN"}


def forms(model, inputs, chosen):
    result = ["example"]
    if model.graph.node[0].op_type in RECURRENT and chosen == [0]:
        return ["time", "rows"]
    dims = list(inputs[chosen[0]].dims) if len(chosen) == 1 else []
    if 2 <= len(dims) <= 5:
        result.append("rows")
    if len(dims) == 4 and np.isfinite(numpy_helper.to_array(inputs[chosen[0]])).all():
        result += [form for form, most in (("lanes", 16), ("blocks", 64)) if dims[1] <= most]
    return result


def turn(model, rank):
    """The model with its batch in front, which the operator has in the second dimension, or in an output behind the directions."""
    graph = model.graph
    x, y = graph.input[0], graph.output[0]
    perm = {4: [2, 0, 1, 3], 3: [1, 0, 2]}[rank]
    inner, outer = x.name + ".turned", y.name + ".turned"
    node = graph.node[0]
    node.input[0], x_name = inner, x.name
    node.output[list(node.output).index(y.name)] = outer
    graph.node.insert(0, onnx.helper.make_node("Transpose", [x_name], [inner], perm=[1, 0, 2]))
    graph.node.append(onnx.helper.make_node("Transpose", [outer], [y.name], perm=perm))
    shape = x.type.tensor_type.shape.dim
    shape[0].dim_value, shape[1].dim_value = shape[1].dim_value, shape[0].dim_value
    return model, perm


def model_of(model, inputs, chosen, output):
    model = copy.deepcopy(model)
    graph = model.graph
    for i, tensor in enumerate(inputs):
        if i in chosen:
            shape = graph.input[i].type.tensor_type.shape
            del shape.dim[:]
            for d in tensor.dims:
                shape.dim.add(dim_value=d)
        else:
            graph.initializer.append(tensor)
    for i in reversed(range(len(graph.input))):
        if i not in chosen:
            del graph.input[i]
    kept = copy.deepcopy(graph.output[output])
    del graph.output[:]
    graph.output.append(kept)
    model.doc_string = graph.doc_string = ""
    return model


def part(data):
    return struct.pack("<I", len(data)) + data


def record(name, model, inputs, chosen, wanted):
    values, y = [numpy_helper.to_array(inputs[i]).astype(np.float32) for i in chosen], numpy_helper.to_array(wanted)
    if name.endswith("/time"):
        model, perm = turn(model, y.ndim)
        values, y = [values[0].transpose(1, 0, 2)], y.transpose(perm)
    x = np.concatenate([v.ravel() for v in values]) if values else np.zeros(0, np.float32)
    return b"".join(map(part, (name.encode(), model.SerializeToString(), x.astype("<f4").tobytes(),
                               y.astype("<f4").tobytes())))


def main():
    records, skipped, operators = {}, {}, {}
    for case in load_node_model_tests():
        model = case.model or onnx.load(pathlib.Path(case.model_dir) / "model.onnx")
        operators[case.name] = "+".join(sorted({n.op_type for n in model.graph.node}))
        data = data_of(case, model)
        types = {t.data_type for t in data[0] + data[1]} if data else set()
        if data is None or not types <= TYPES:
            skipped[case.name] = "another type than f32, int or bool"
            continue
        if case.name.startswith("test_training_dropout"):
            skipped[case.name] = "random numbers of another generator"
            continue
        trains = case.name.startswith("test_batchnorm") and case.name.endswith("training_mode")
        if trains or operators[case.name] in ("Adagrad", "Adam", "Momentum"):
            skipped[case.name] = "training: passed in tests/onnx_training_test.c (make_onnx_training.py)"
            continue
        if case.name == "test_averagepool_2d_ceil_last_window_starts_on_pad":
            skipped[case.name] = "its expected values have four digits"
            continue
        for chosen in variants(data[0]):
            for k, wanted in enumerate(data[1]):
                for form in forms(model, data[0], chosen):
                    name = f"{case.name}/{','.join(map(str, chosen))}/{k}/{form}"
                    records[name] = record(name, model_of(model, data[0], chosen, k), data[0], chosen, wanted)
    path = BUILD / "nodes.cases"
    path.write_bytes(b"".join(records.values()))
    done = subprocess.run([BUILD / "onnx_nodes_test"], env={**os.environ, "RONDE_NODE_CASES": str(path)},
                          capture_output=True, text=True, timeout=1200)
    results = collections.defaultdict(lambda: collections.defaultdict(list))
    for line in done.stdout.splitlines():
        if line.count("\t") == 2:
            name, verdict, why = line.split("\t")
            case, chosen, _, form = name.rsplit("/", 3)
            results[case][chosen + form].append((verdict, why, name))
    n_told = sum(len(v) for r in results.values() for v in r.values())
    if n_told != len(records):
        sys.exit(f"it ended after {n_told} of {len(records)} runs: {list(records)[n_told]} ({done.returncode})")
    counts, kept, per_operator, text = collections.Counter(), [], collections.Counter(), []
    for case in sorted(operators):
        if case in skipped:
            verdict, why = "skipped", skipped[case]
        else:
            runs = results[case].values()
            failed = [r for run in runs for r in run if r[0] == "failed"]
            good = [run for run in runs if all(r[0] == "passed" for r in run)]
            if failed:
                verdict, why = "failed", failed[0][1]
            elif good:
                verdict, why = "passed", ""
                for _, _, name in (r for run in good for r in run):
                    if len(records[name]) <= SMALL and per_operator[operators[case]] < MANY:
                        kept.append(records[name])
                        per_operator[operators[case]] += 1
            else:
                verdict = "refused"
                why = next(r[1] for run in runs for r in run if r[0] != "passed").split(": ", 1)[-1]
        counts[verdict] += 1
        text.append("\t".join((case, operators[case], verdict, why)).rstrip())
    head = f"# onnx {onnx.__version__}: " + ", ".join(f"{n} {v}" for v, n in sorted(counts.items()))
    (GOLDEN / "onnx-nodes.txt").write_text("\n".join([head, *text]) + "\n")
    (GOLDEN / "onnx" / "nodes.cases").write_bytes(b"".join(kept))
    print(head, "kept", len(kept), "of", sum(map(len, kept)), "bytes")


main()

"""Small ONNX files, and what networks of them give: tests/golden/onnx/NAME.onnx with NAME.json, and bad files with what
must be said of each (bad.json). Needs PyPI's onnx (1.23.2) and onnxruntime (1.32.0), by hand:

    python -m venv venv && venv/bin/pip install onnx==1.23.2 onnxruntime==1.32.0
    venv/bin/python tests/golden/make_onnx.py tests/golden/onnx

Outputs are ONNX Runtime's in f32. Losses and gradients are of the reference evaluator of the onnx package in f64, by
central differences; gradients are in the order of elements that Ronde's parameters have.
"""

import copy
import json
import pathlib
import sys

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

FOLDER = pathlib.Path(sys.argv[1])
BATCH, CLASSES = 3, 4


class Net:
    """A file in the making: nodes in order, weights by a seed."""

    def __init__(self, name, dims, opset=17, seed=1):
        self.name, self.dims, self.opset = name, dims, opset
        self.rng = np.random.default_rng(seed)
        self.nodes, self.weights, self.constants = [], {}, {}
        self.change = {}  # weight: how Ronde's order differs

    def weight(self, name, *dims, scale=0.5, low=None):
        values = self.rng.uniform(-scale, scale, dims) if low is None else self.rng.uniform(low, low + scale, dims)
        self.weights[name] = values.astype(np.float32)
        return name

    def constant(self, name, values, dtype=np.int64):
        self.constants[name] = np.array(values, dtype)
        return name

    def add(self, op, inputs, outputs, **attributes):
        self.nodes.append(helper.make_node(op, inputs, [outputs] if isinstance(outputs, str) else outputs,
                                           name=f"/{op}_{len(self.nodes)}", **attributes))
        return outputs

    def model(self, batch="batch", outputs=(CLASSES,)):
        held = {**self.weights, **self.constants}
        graph = helper.make_graph(
            self.nodes, self.name,
            [helper.make_tensor_value_info("input", TensorProto.FLOAT, [batch, *self.dims])],
            [helper.make_tensor_value_info("output", TensorProto.FLOAT, [batch, *outputs])],
            [numpy_helper.from_array(v, k) for k, v in held.items()])
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", self.opset)], ir_version=11 if self.opset > 22 else 9,
                                 producer_name="make_onnx")


def in_mode(model, training):
    """With batch normalisations of training, or of inference."""
    model = copy.deepcopy(model)
    for node in model.graph.node:
        if node.op_type == "BatchNormalization":
            for a in list(node.attribute):
                if a.name == "training_mode":
                    node.attribute.remove(a)
            if training:
                node.attribute.append(helper.make_attribute("training_mode", 1))
                while len(node.output) < 3:
                    node.output.append(f"{node.name}.unused{len(node.output)}")
            else:
                del node.output[1:]
    return model


def without_end(model):
    """The softmax that makes the output is the loss's."""
    last = model.graph.node[-1]
    if last.op_type in ("Softmax", "LogSoftmax"):
        before = last.input[0]
        del model.graph.node[-1]
        for node in model.graph.node:
            for i, name in enumerate(node.output):
                if name == before:
                    node.output[i] = "output"
            for i, name in enumerate(node.input):
                if name == before:
                    node.input[i] = "output"
    return model


def loss_of(evaluator, feed, labels):
    y = evaluator.run(None, feed)[0].astype(np.float64)
    y = y - y.max(axis=1, keepdims=True)
    return float(np.mean(np.log(np.exp(y).sum(axis=1)) - y[np.arange(len(y)), labels]))


def gradients(model, net, x, labels, step):
    """Of the weights, as inputs of the reference evaluator."""
    model = without_end(in_mode(model, True))
    for tensor in list(model.graph.initializer):
        if tensor.name in net.weights:
            model.graph.initializer.remove(tensor)
            model.graph.input.append(helper.make_tensor_value_info(tensor.name, TensorProto.DOUBLE, tensor.dims))
        elif tensor.data_type == TensorProto.FLOAT and not tensor.name.startswith("scales"):
            tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor).astype(np.float64), tensor.name))
    evaluator = ReferenceEvaluator(model)
    feed = {"input": x.astype(np.float64), **{k: v.astype(np.float64) for k, v in net.weights.items()}}
    result = {}
    for name in net.weights:
        values, gradient = feed[name], np.zeros_like(feed[name])
        if net.change.get(name) == "buffer":
            continue
        for i in np.ndindex(values.shape):
            kept = values[i]
            values[i] = kept + step
            above = loss_of(evaluator, feed, labels)
            values[i] = kept - step
            below = loss_of(evaluator, feed, labels)
            values[i] = kept
            gradient[i] = (above - below) / (2 * step)
        result[name] = gradient
    return loss_of(evaluator, feed, labels), result


def gates(values):
    """Rows i, o, f, g of ONNX as i, f, g, o of PyTorch."""
    i, o, f, g = np.split(values, 4)
    return np.concatenate([i, f, g, o])


def gru_gates(values):
    """Rows z, r, h of ONNX as r, z, n of PyTorch."""
    z, r, h = np.split(values, 3)
    return np.concatenate([r, z, h])


def in_own_order(net, name, values):
    """Names and elements of Ronde's parameters."""
    change = net.change.get(name)
    if change == "GRU weights":
        return {name: gru_gates(values[0]), name + "_reverse": gru_gates(values[1])}
    if change == "GRU biases":
        halves = [gru_gates(half) for direction in values for half in np.split(direction, 2)]
        endings = ["_ih_l0", "_hh_l0", "_reverse_ih_l0", "_reverse_hh_l0"]
        return {name + ending: half for ending, half in zip(endings, halves)}
    if change == "both biases":
        ih, hh = np.split(values[0], 2)
        return {name: gates(ih), name.replace("_ih_", "_hh_"): gates(hh)}
    if change == "RNN biases":
        ih, hh = np.split(values[0], 2)
        return {name + "_ih_l0": ih, name + "_hh_l0": hh}
    if change == "peepholes":
        i, o, f = np.split(values[0], 3)
        return {name: np.concatenate([i, f, o])}
    if change == "one":
        return {name: values[0]}
    if change == "gates":
        return {name: gates(values[0])}
    if change == "biases":
        ih, hh = np.split(values[0], 2)
        return {name + "_ih_l0": gates(ih), name + "_hh_l0": gates(hh)}
    return {name: values}


def numbers(values):
    return [float(f"{v:.9g}") for v in np.asarray(values).ravel()]


def save(net, external=False, step=1e-5):
    model = net.model()
    onnx.checker.check_model(model, full_check=True)
    path = FOLDER / f"{net.name}.onnx"
    rng = np.random.default_rng(7)
    x = rng.standard_normal([BATCH, *net.dims]).astype(np.float32)
    labels = rng.integers(0, CLASSES, BATCH)
    plain = without_end(in_mode(model, False))
    session = onnxruntime.InferenceSession(plain.SerializeToString(), providers=["CPUExecutionProvider"])
    outputs = session.run(None, {"input": x})[0]
    loss, found = gradients(model, net, x, labels, step)
    own = {}
    for name, values in found.items():
        own.update({k: numbers(v) for k, v in in_own_order(net, name, values).items()})
    if external:
        (FOLDER / f"{net.name}.data").unlink(missing_ok=True)
        onnx.save_model(model, path, save_as_external_data=True, location=f"{net.name}.data", size_threshold=80)
    else:
        path.write_bytes(model.SerializeToString())
    expected = {"batch": BATCH, "x": numbers(x), "labels": labels.tolist(), "outputs": numbers(outputs), "loss": loss,
                "gradients": own}
    (FOLDER / f"{net.name}.json").write_text(json.dumps(expected, indent=0) + "\n")
    print(net.name, len(path.read_bytes()), "bytes, loss", loss)


# ---- good files ----


def small():
    """As PyTorch writes convolutions and linear layers; a softmax at the end."""
    n = Net("small", [2, 9, 9])
    n.add("Conv", ["input", n.weight("conv1.weight", 4, 2, 3, 3), n.weight("conv1.bias", 4)], "a", kernel_shape=[3, 3],
          pads=[1, 1, 1, 1], strides=[2, 2], dilations=[1, 1], group=1)
    n.add("Tanh", ["a"], "b")
    n.add("AveragePool", ["b"], "c", kernel_shape=[2, 2], strides=[1, 1], pads=[1, 0, 1, 0], count_include_pad=1)
    n.add("Conv", ["c", n.weight("conv2.weight", 6, 2, 2, 2), n.weight("conv2.bias", 6)], "d", kernel_shape=[2, 2],
          group=2)
    n.add("Relu", ["d"], "e")
    n.add("MaxPool", ["e"], "f", kernel_shape=[3, 2], strides=[2, 1], pads=[1, 0, 1, 0])
    n.add("Flatten", ["f"], "g", axis=1)
    n.add("Gemm", ["g", n.weight("fc1.weight", 5, 36), n.weight("fc1.bias", 5)], "h", transB=1)
    n.add("Sigmoid", ["h"], "i")
    n.add("MatMul", ["i", n.weight("W2", 5, CLASSES)], "j")
    n.add("Add", ["j", n.weight("B2", CLASSES)], "k")
    n.add("Softmax", ["k"], "output", axis=-1)
    save(n)


def residual():
    """As an export for training writes batch normalisations and dropout."""
    n = Net("residual", [3, 6, 6])

    def norm(x, name, channels, y):
        n.add("BatchNormalization",
              [x, n.weight(f"{name}.weight", channels, low=0.5), n.weight(f"{name}.bias", channels),
               n.weight(f"{name}.running_mean", channels), n.weight(f"{name}.running_var", channels, low=0.5)],
              [y, f"{y}.mean", f"{y}.var"], epsilon=1e-5, momentum=0.9, training_mode=1)
        n.change.update({f"{name}.running_mean": "buffer", f"{name}.running_var": "buffer"})
        return y

    n.add("Conv", ["input", n.weight("conv1.weight", 4, 3, 3, 3)], "a", kernel_shape=[3, 3], auto_pad="SAME_UPPER")
    n.add("Relu", [norm("a", "bn1", 4, "b")], "c")
    n.add("Conv", ["c", n.weight("block.conv1.weight", 4, 4, 3, 3)], "d", kernel_shape=[3, 3], pads=[1, 1, 1, 1])
    n.add("Relu", [norm("d", "block.bn1", 4, "e")], "f")
    n.add("Conv", ["f", n.weight("block.conv2.weight", 4, 1, 3, 3)], "g", kernel_shape=[3, 3], pads=[1, 1, 1, 1],
          group=4)
    n.add("Add", [norm("g", "block.bn2", 4, "h"), "c"], "i")
    n.add("Relu", ["i"], "j")
    n.add("GlobalAveragePool", ["j"], "k")
    n.add("Flatten", ["k"], "l")
    n.add("Dropout", ["l", n.constant("ratio", 0.0, np.float32), n.constant("on", True, np.bool_)], ["m", "mask"])
    n.add("Gemm", ["m", n.weight("fc.weight", CLASSES, 4), n.weight("fc.bias", CLASSES)], "output", transB=1)
    save(n)


def branches():
    """Splitting, joining and the activations."""
    n = Net("branches", [5, 4, 4], opset=20)
    n.add("Split", ["input", n.constant("sizes", [1, 1, 1, 1, 1])], ["s0", "s1", "s2", "s3", "s4"], axis=1)
    n.add("HardSwish", ["s0"], "a0")
    n.add("LeakyRelu", ["s1"], "a1", alpha=0.2)
    n.add("Elu", ["s2"], "a2", alpha=0.7)
    n.add("HardSigmoid", ["s3"], "a3")
    n.add("Clip", ["s4", n.constant("low", -0.5, np.float32), n.constant("high", 0.8, np.float32)], "a4")
    n.add("Concat", ["a0", "a1", "a2", "a3", "a4"], "b", axis=1)
    n.add("Conv", ["b", n.weight("conv.weight", 4, 5, 1, 1), n.weight("conv.bias", 4)], "c", kernel_shape=[1, 1])
    n.add("Sigmoid", ["c"], "d")
    n.add("Mul", ["c", "d"], "e")
    n.add("Gelu", ["c"], "f")
    n.add("Gelu", ["c"], "g", approximate="tanh")
    n.add("Sub", ["f", "e"], "h")
    n.add("Mul", ["h", "g"], "i")
    n.add("Sum", ["i", "c", "e"], "j")
    n.add("MaxPool", ["j"], "k", kernel_shape=[2, 2], strides=[2, 2], ceil_mode=1)
    n.add("Resize", ["k", "", n.constant("scales", [1, 1, 2, 3], np.float32)], "l", mode="nearest",
          coordinate_transformation_mode="half_pixel", nearest_mode="round_prefer_floor")
    n.add("Conv", ["l", n.weight("conv2.weight", 3, 4, 2, 3)], "m", kernel_shape=[2, 3], strides=[1, 3])
    n.add("LayerNormalization", ["m", n.weight("norm.weight", 3, 3, 2, low=0.5), n.weight("norm.bias", 3, 3, 2)], "p", axis=1)
    n.add("Shape", ["p"], "q")
    n.add("Gather", ["q", n.constant("zero", 0)], "r", axis=0)
    n.add("Unsqueeze", ["r", n.constant("axes", [0])], "t")
    n.add("Concat", ["t", n.constant("rest", [-1])], "u", axis=0)
    n.add("Reshape", ["p", "u"], "v")
    n.add("Gemm", ["v", n.weight("fc.weight", 18, CLASSES), n.weight("fc.bias", 1, CLASSES)], "w")
    n.add("LogSoftmax", ["w"], "output", axis=1)
    save(n, step=1e-4)  # the evaluator's GELU has constants in f32


def windows():
    """Dilation, padding of one side, sizes that are rounded up."""
    n = Net("windows", [3, 11, 10])
    n.add("Conv", ["input", n.weight("conv1.weight", 4, 3, 3, 3), n.weight("conv1.bias", 4)], "a", kernel_shape=[3, 3],
          strides=[2, 2], auto_pad="SAME_UPPER")
    n.add("Tanh", ["a"], "b")
    n.add("Conv", ["b", n.weight("conv2.weight", 4, 2, 2, 3), n.weight("conv2.bias", 4)], "c", kernel_shape=[2, 3],
          dilations=[3, 2], pads=[2, 0, 1, 3], group=2)
    n.add("MaxPool", ["c"], "d", kernel_shape=[2, 2], strides=[1, 1], dilations=[2, 1], pads=[1, 1, 1, 0])
    n.add("AveragePool", ["d"], "e", kernel_shape=[3, 3], strides=[2, 2], ceil_mode=1, pads=[0, 0, 0, 1],
          count_include_pad=1)
    n.add("AveragePool", ["e"], "f", kernel_shape=[2, 2], strides=[2, 2], ceil_mode=1)
    n.add("Conv", ["f", n.weight("conv3.weight", 8, 1, 2, 2)], "g", kernel_shape=[2, 2], auto_pad="SAME_LOWER", group=4)
    n.add("Flatten", ["g"], "h")
    n.add("Gemm", ["h", n.weight("fc.weight", CLASSES, 16), n.weight("fc.bias", CLASSES)], "output", transB=1)
    save(n)


def shuffled():
    """Shuffles of channels in several forms, and what only looks like one."""
    n = Net("shuffled", [2, 3, 4])

    def move(x, y, to, perm, back):
        """to, back: a list, or the name of one."""
        for name, sizes in ((f"{y}.to", to), (f"{y}.back", back)):
            if not isinstance(sizes, str):
                n.constant(name, sizes)
        n.add("Reshape", [x, to if isinstance(to, str) else f"{y}.to"], f"{y}.cut")
        n.add("Transpose", [f"{y}.cut"], f"{y}.turned", perm=perm)
        return n.add("Reshape", [f"{y}.turned", back if isinstance(back, str) else f"{y}.back"], y)

    def mix(x, name, y, groups=1):
        n.add("Conv", [x, n.weight(f"{name}.weight", 6, 6 // groups, 1, 1)], f"{y}.sum", kernel_shape=[1, 1], group=groups)
        return n.add("Tanh", [f"{y}.sum"], y)

    n.add("Conv", ["input", n.weight("conv1.weight", 6, 2, 2, 1)], "a", kernel_shape=[2, 1])
    n.add("Shape", ["a"], "a.shape")
    n.add("Gather", ["a.shape", n.constant("zero", 0)], "a.batch", axis=0)
    n.add("Unsqueeze", ["a.batch", n.constant("axes", [0])], "a.first")
    n.add("Concat", ["a.first", n.constant("groups", [2, 3, 2, 4])], "b.to", axis=0)
    # as torchvision's, whose second sizes nodes compute behind the transposition
    n.add("Reshape", ["a", "b.to"], "b.cut")
    n.add("Transpose", ["b.cut"], "b.turned", perm=[0, 2, 1, 3, 4])
    n.add("Concat", ["a.first", n.constant("image", [6, 2, 4])], "b.back", axis=0)
    n.add("Reshape", ["b.turned", "b.back"], "b")
    c = move(mix("b", "conv2", "b.mixed", 2), "c", [0, 3, 2, -1], [0, 2, 1, 3], [0, 6, 2, 4])
    # two of them, between which the channels are no dimension
    move(mix(c, "conv3", "c.mixed"), "d", [0, 3, 2, 8], [0, 2, 1, 3], [-1, 2, 3, 2, 4])
    n.add("Transpose", ["d"], "d.again", perm=[0, 2, 1, 3, 4])
    n.add("Reshape", ["d.again", n.constant("d.whole", [-1, 6, 2, 4])], "e")
    # sizes that are those of what was transposed
    f = move(mix("e", "conv4", "e.mixed"), "f", [0, 2, 3, 8], [0, 2, 1, 3], [0, 0, 2, 8])
    n.add("Reshape", [f, n.constant("f.whole", [0, 6, 2, 4])], "f.image")
    # read between; other dimensions; a dimension that is not the first
    n.add("Reshape", [mix("f.image", "conv5", "f.mixed"), "f.to"], "g.cut")
    n.add("Transpose", ["g.cut"], "g.turned", perm=[0, 2, 1, 3])
    n.add("ReduceMax", ["g.turned"], "g.most", axes=[1], keepdims=1)
    n.add("Concat", ["g.most", "g.most", "g.most"], "g.all", axis=1)
    n.add("Reshape", ["g.turned", "f.whole"], "g")
    n.add("Reshape", ["g.all", "f.whole"], "g.large")
    n.add("Add", ["g", "g.large"], "h")
    h = move(mix("h", "conv6", "h.mixed"), "i", [0, 2, 3, 2, 4], [0, 3, 2, 1, 4], [0, 6, 2, 4])
    j = move(mix(h, "conv7", "i.mixed"), "j", [0, 6, 2, 2, 2], [0, 1, 3, 2, 4], [0, 6, 2, 4])
    n.add("Flatten", [mix(j, "conv8", "j.mixed")], "k")
    n.add("Gemm", ["k", n.weight("fc.weight", CLASSES, 48), n.weight("fc.bias", CLASSES)], "output", transB=1)
    save(n)


def pooled():
    """Means and maxima over all pixels; a constant that is a node; a weight beside the file."""
    n = Net("pooled", [2, 5, 4], opset=18)
    n.add("Conv", ["input", n.weight("first.weight", 6, 2, 2, 2), n.weight("first.bias", 6)], "a", kernel_shape=[2, 2])
    n.add("ReduceMean", ["a", n.constant("axes", [2, 3])], "b", keepdims=0)
    n.add("GlobalMaxPool", ["a"], "c")
    n.add("Squeeze", ["c", n.constant("squeezed", [2, 3])], "d")
    n.add("Mul", ["b", "d"], "e")
    n.add("Gemm", ["e", n.weight("tied.weight", 6, 6), n.weight("tied.bias", 6)], "f", transB=1)
    n.add("Tanh", ["f"], "g")
    n.add("Gemm", ["g", "tied.weight", "tied.bias"], "h", transB=1)
    n.add("Identity", ["h"], "i")
    n.add("Gemm", ["i", n.weight("last.weight", CLASSES, 6)], "output", transB=1)
    save(n, external=True)


def sequence():
    """An LSTM over [batch, time, features], as PyTorch writes batch_first."""
    n = Net("sequence", [4, 3])
    n.add("Transpose", ["input"], "a", perm=[1, 0, 2])
    n.add("LSTM", ["a", n.weight("lstm.weight_ih_l0", 1, 20, 3), n.weight("lstm.weight_hh_l0", 1, 20, 5),
                   n.weight("lstm.bias", 1, 40)], ["b", "c", ""], hidden_size=5)
    n.add("Squeeze", ["b", n.constant("one", [1])], "d")
    n.add("Transpose", ["d"], "e", perm=[1, 0, 2])
    n.add("Flatten", ["e"], "f")
    n.add("Squeeze", ["c", n.constant("zero", [0])], "g")
    n.add("Concat", ["f", "g"], "h", axis=1)
    n.add("Gemm", ["h", n.weight("fc.weight", CLASSES, 25), n.weight("fc.bias", CLASSES)], "output", transB=1)
    n.change = {"lstm.weight_ih_l0": "gates", "lstm.weight_hh_l0": "gates", "lstm.bias": "biases"}
    save(n)


def recurrent():
    """A GRU in both directions, as PyTorch writes batch_first; what it gives is normalised, and its steps attend to those
    before them; and its last states."""
    n = Net("recurrent", [4, 3], opset=23)
    n.add("Transpose", ["input"], "a", perm=[1, 0, 2])
    n.add("GRU", ["a", n.weight("gru.weight_ih_l0", 2, 12, 3), n.weight("gru.weight_hh_l0", 2, 12, 4),
                  n.weight("gru.bias", 2, 24)], ["b", "c"], hidden_size=4, direction="bidirectional", linear_before_reset=1)
    n.add("Transpose", ["b"], "d", perm=[0, 2, 1, 3])
    n.add("Reshape", ["d", n.constant("sizes", [0, 0, -1])], "e")
    n.add("Transpose", ["e"], "f", perm=[1, 0, 2])
    n.add("RMSNormalization", ["f", n.weight("norm.weight", 8, low=0.5)], "g", axis=-1, epsilon=1e-4)
    n.add("Attention", ["g", "f", "g"], "h", q_num_heads=2, kv_num_heads=2, is_causal=1)
    n.add("Flatten", ["h"], "i")
    n.add("Transpose", ["c"], "j", perm=[1, 0, 2])
    n.add("Flatten", ["j"], "k")
    n.add("Concat", ["i", "k"], "l", axis=1)
    n.add("Gemm", ["l", n.weight("fc.weight", CLASSES, 40), n.weight("fc.bias", CLASSES)], "output", transB=1)
    n.change = {"gru.weight_ih_l0": "GRU weights", "gru.weight_hh_l0": "GRU weights", "gru.bias": "GRU biases"}
    save(n)


def cells():
    """The other cells: an LSTM with peepholes, a GRU that resets first, in both directions, and an RNN."""
    n = Net("cells", [4, 3])
    n.add("Transpose", ["input"], "a", perm=[1, 0, 2])
    n.add("LSTM", ["a", n.weight("lstm.weight_ih_l0", 1, 16, 3), n.weight("lstm.weight_hh_l0", 1, 16, 4), n.weight("lstm.bias_ih_l0", 1, 32),
                   "", "", "", n.weight("lstm.weight_peephole_l0", 1, 12)], "b", hidden_size=4)
    n.add("Squeeze", ["b", n.constant("axis", [1])], "c")
    n.add("GRU", ["c", n.weight("gru.weight_ih_l0", 2, 9, 4), n.weight("gru.weight_hh_l0", 2, 9, 3), n.weight("gru.bias", 2, 18)], "d",
          hidden_size=3, direction="bidirectional", linear_before_reset=0)
    n.add("Transpose", ["d"], "e", perm=[0, 2, 1, 3])
    n.add("Reshape", ["e", n.constant("sizes", [0, 0, -1])], "f")
    n.add("RNN", ["f", n.weight("W", 1, 5, 6), n.weight("R", 1, 5, 5), n.weight("B", 1, 10)], ["g", "h"], hidden_size=5,
          direction="reverse")
    n.add("Transpose", ["h"], "i", perm=[1, 0, 2])
    n.add("Flatten", ["i"], "j")
    n.add("Gemm", ["j", n.weight("fc.weight", CLASSES, 5), n.weight("fc.bias", CLASSES)], "output", transB=1)
    n.change = {"lstm.weight_ih_l0": "gates", "lstm.weight_hh_l0": "gates", "lstm.bias_ih_l0": "both biases",
                "lstm.weight_peephole_l0": "peepholes", "gru.weight_ih_l0": "GRU weights", "gru.weight_hh_l0": "GRU weights",
                "gru.bias": "GRU biases", "W": "one", "R": "one", "B": "RNN biases"}
    save(n)


def triangles():
    """Triangles of activations and of weights, which are multiplied with rows among which the batch stands."""
    n = Net("triangles", [4, 5])
    n.add("Trilu", ["input", n.constant("one", 1)], "a", upper=0)
    n.add("Transpose", ["a"], "b", perm=[1, 0, 2])
    n.add("MatMul", ["b", n.add("Trilu", [n.weight("W", 5, 5)], "w")], "c")
    n.add("Flatten", [n.add("Transpose", ["c"], "d", perm=[1, 0, 2])], "e")
    n.add("MatMul", ["e", n.add("Trilu", [n.weight("V", 20, CLASSES), n.constant("below", -2)], "v")], "output")
    save(n)


# ---- bad files ----


def alike():
    """CastLike: of numbers and arrays of the file like activations, of activations like a weight."""
    n = Net("alike", [5], opset=18)
    n.add("Gemm", ["input", n.weight("fc1.weight", 6, 5), n.weight("fc1.bias", 6)], "a", transB=1)
    n.add("CastLike", [n.constant("steps", [3, 1, 2, 5, 4, 2]), "a"], "b")
    n.add("CastLike", [n.constant("four", 4), "a"], "c")
    n.add("Div", ["b", "c"], "d")
    n.add("Mul", ["a", "d"], "e")
    n.add("CastLike", ["e", "fc1.bias"], "f")
    n.add("Gemm", ["f", n.weight("fc2.weight", CLASSES, 6), n.weight("fc2.bias", CLASSES)], "output", transB=1)
    save(n)


def bad():
    """Each file, and a part of the one line that refuses it."""
    said = {}

    def put(name, model, says):
        (FOLDER / f"bad-{name}.onnx").write_bytes(model if isinstance(model, bytes) else model.SerializeToString())
        said[f"bad-{name}.onnx"] = says

    def linear(x="input", dims=(4,), **options):
        n = Net("bad", list(dims), **options)
        n.add("Gemm", [x, n.weight("fc.weight", CLASSES, 4), n.weight("fc.bias", CLASSES)], "output", transB=1)
        return n

    def image(op, **attributes):
        n = Net("bad", [2, 5, 5])
        inputs = ["input", n.weight("conv.weight", 2, 2, 3, 3)] if op == "Conv" else ["input"]
        n.add(op, inputs, "a", kernel_shape=[3, 3], **attributes)
        n.add("GlobalAveragePool", ["a"], "b")
        n.add("Flatten", ["b"], "c")
        n.add("Gemm", ["c", n.weight("fc.weight", CLASSES, 2)], "output", transB=1)
        return n

    n = linear("b")
    n.nodes[:0] = [helper.make_node("NonZero", ["input"], ["a"], name="e1"),
                   helper.make_node("NonZero", ["a"], ["a2"], name="e2"),
                   helper.make_node("FancyOp", ["a2"], ["b"], name="f1", domain="com.example")]
    put("operators", n.model(), "not supported: NonZero (node e1), com.example.FancyOp (node f1)")

    n = linear("a")
    branch = helper.make_graph([helper.make_node("Identity", ["input"], ["t"])], "branch", [],
                               [helper.make_tensor_value_info("t", TensorProto.FLOAT, None)])
    n.nodes[:0] = [helper.make_node("If", [n.constant("yes", True, np.bool_)], ["a"], name="choice", then_branch=branch,
                                    else_branch=branch)]
    put("if", n.model(), "not supported: If (node choice)")

    n = linear("a")
    n.nodes[:0] = [helper.make_node("Identity", ["input"], ["a"], name="later")]
    n.nodes.reverse()
    put("order", n.model(), "reads a, which nothing in front of it computes")

    put("dilation", image("Conv", dilations=[3, 3]).model(), "the 3x3 kernel is larger than its input")
    put("padding", image("MaxPool", pads=[0, 0, 3, 3], strides=[1, 1]).model(), "meets nothing but padding")
    put("negative", image("Conv", pads=[0, 0, -1, 0]).model(), "Conv /Conv_0: its pads are negative or too large")
    put("kernel", image("Conv", dilations=[1 << 28, 1]).model(), "Conv /Conv_0: its kernel has an impossible size")
    n = image("Conv", group=3)
    put("group", n.model(), "3 groups do not divide")

    model = linear(dims=(4,)).model()
    for dim in model.graph.input[0].type.tensor_type.shape.dim:
        dim.dim_param = "width"
    put("dynamic", model, "dimension 1 of its input input, width, is the batch a second time")

    n = linear("a")
    n.nodes[:0] = [helper.make_node("Mul", ["input", n.constant("factor", [[2.0] * 4] * 3, np.float32)], ["a"],
                                    name="scale")]
    put("constant", n.model(), "Mul scale: input 1 (factor) has other dimensions than the rest")

    model = linear().model()
    model.graph.initializer[0].data_type = TensorProto.FLOAT16
    put("half", model, "tensor fc.weight is of type 10, but only f32 (type 1) can be trained")
    model = linear().model()
    model.graph.initializer[0].raw_data = model.graph.initializer[0].raw_data[:-4]
    put("short", model, "tensor fc.weight has 15 values, but its shape has 16")
    model = linear().model()
    model.graph.initializer[0].dims[1] = 1 << 60
    put("claim", model, "tensor fc.weight")
    put("width", linear(dims=(5,)).model(), "tensor fc.weight is 4x4 for the layer, which wants 4x5")

    def recurrent(op, gates, **attributes):
        n = Net("bad", [4, 3], opset=23)
        n.add("Transpose", ["input"], "a", perm=[1, 0, 2])
        n.add(op, ["a", n.weight("W", 1, 2 * gates, 3), n.weight("R", 1, 2 * gates, 2)], ["", "b"], hidden_size=2,
              **attributes)
        n.add("Flatten", [n.add("Transpose", ["b"], "c", perm=[1, 0, 2])], "d")
        n.add("Gemm", ["d", n.weight("fc.weight", CLASSES, 2)], "output", transB=1)
        return n

    put("directions", recurrent("LSTM", 4, direction="bidirectional").model(), "are not initializers [2, 4 hidden, features]")
    n = recurrent("LSTM", 4)
    n.nodes[1].input[2] = "W"
    n.weights["W"] = n.weights["W"][:, :, :2]
    n.dims = [4, 2]
    put("same", n.model(), "LSTM /LSTM_1: it reads W twice")

    def attention(name, says, *inputs, **attributes):
        n = Net("bad", [4, 6], opset=24)
        for key, values in inputs:
            n.constant(key, values, np.asarray(values).dtype)
        n.add("Attention", ["input", "input", "input", *[key for key, _ in inputs]], "a",
              **{"q_num_heads": 2, "kv_num_heads": 2, **attributes})
        n.add("Flatten", ["a"], "b")
        n.add("Gemm", ["b", n.weight("fc.weight", CLASSES, 24)], "output", transB=1)
        put(name, n.model(), says)

    attention("heads", "its heads of keys do not divide those of queries", q_num_heads=3)
    attention("split", "the sizes of queries, keys and values do not go together", q_num_heads=4, kv_num_heads=4)
    attention("mask", "its mask does not fit 4 queries and 4 keys", ("mask", np.ones((4, 5), bool)))
    n = Net("bad", [4, 6], opset=24)
    for x, y, window in (("input", "a", 1), ("a", "b", 2)):
        n.nodes.append(helper.make_node("Attention", [x, x, x], [y], name="twin", q_num_heads=2, kv_num_heads=2,
                                        left_window_size=window))
    n.add("Flatten", ["b"], "c")
    n.add("Gemm", ["c", n.weight("fc.weight", CLASSES, 24)], "output", transB=1)
    put("twins", n.model(), "two nodes would have the constant twin.mask")

    def looked_up(inputs=(), rows=5, axis=0, kind=TensorProto.INT64, dims=(4,), table=None, read="input", opset=17):
        """Of tokens, which are the first input; others are (name, type, dims)."""
        n = Net("bad", list(dims), opset=opset)
        n.add("Gather", [table or n.weight("embed.weight", rows, 6), read], "a", axis=axis)
        n.add("Flatten", ["a"], "b")
        n.add("Gemm", ["b", n.weight("fc.weight", CLASSES, 24)], "output", transB=1)
        n.kinds = [("input", kind, dims), *inputs]
        return n

    def of_kinds(n, *front):
        """With inputs of other types, and nodes in front."""
        n.nodes[:0] = front
        model = n.model()
        del model.graph.input[:]
        model.graph.input.extend([helper.make_tensor_value_info(name, kind, ["batch", *dims]) for name, kind, dims in n.kinds])
        return model

    node = helper.make_node
    put("token-type", of_kinds(looked_up(kind=TensorProto.INT16)), "is not a tensor of f32, int32 or int64")
    put("token-floats", of_kinds(looked_up(kind=TensorProto.FLOAT)), "Gather /Gather_0: its indices are not up to")
    put("token-rank", of_kinds(looked_up(dims=(1, 2, 2, 1, 1))), "is not a tensor of f32, int32 or int64")
    put("token-axis", of_kinds(looked_up(axis=1)), "tokens look up axis 0 of an initializer [tokens, features]")
    n = looked_up(table="table")
    n.weight("table", 5, 2, 3)
    put("token-table", of_kinds(n), "holds integers by which no Gather looks up an initializer")
    n = looked_up()
    n.nodes[1:1] = [node("Gather", [n.weight("second.weight", 7, 6), "input"], ["second"], name="other"),
                    node("Add", ["a", "second"], ["sum"], name="sum")]
    n.nodes[3].input[0] = "sum"
    put("token-tables", of_kinds(n), "Gather other: its table has 7 rows, but there are 5 tokens")
    n = looked_up()
    n.nodes[1:1] = [node("Add", ["input", "input"], ["twice"], name="twice"),
                    node("Gather", ["embed.weight", "twice"], ["second"], name="other"),
                    node("Add", ["a", "second"], ["sum"], name="sum")]
    n.nodes[4].input[0] = "sum"
    put("token-sum", of_kinds(n), "Add twice: its input input is tokens, on which this is not supported")
    model = of_kinds(looked_up())
    model.graph.initializer[0].dims[0] = 1 << 40
    put("token-rows", model, "its input input has a table of 1099511627776 rows, which is too many")
    put("token-unknown", of_kinds(looked_up([("more", TensorProto.INT64, (3,))])),
        "its input more holds integers by which no Gather looks up an initializer")
    put("token-comma", of_kinds(looked_up([("more,", TensorProto.INT64, ())])),
        "an input beside the first one cannot be called more,")
    put("token-twice", of_kinds(looked_up([("more", TensorProto.INT64, ())] * 2)), "it has two inputs more")
    put("token-inputs", of_kinds(looked_up([(f"more{i}", TensorProto.FLOAT, (1,)) for i in range(4)])),
        "it has more than 4 inputs (more3)")
    put("token-scalar", of_kinds(looked_up([("more", TensorProto.FLOAT, ())])),
        "its input more is not a tensor of f32, int32 or int64")

    def with_lengths(name, dims, says, *front, lengths="lengths", kind=TensorProto.INT32):
        n = Net("bad", [4])
        n.add("Gather", [n.weight("embed.weight", 5, 3), "input"], "a")
        n.add("Transpose", ["a"], "b", perm=[1, 0, 2])
        n.add("GRU", ["b", n.weight("W", 1, 6, 3), n.weight("R", 1, 6, 2), "", lengths], ["", "c"], hidden_size=2)
        n.add("Flatten", [n.add("Transpose", ["c"], "d", perm=[1, 0, 2])], "e")
        n.add("Gemm", ["e", n.weight("fc.weight", CLASSES, 2)], "output", transB=1)
        n.kinds = [("input", TensorProto.INT64, (4,)), ("lengths", kind, dims)]
        put(name, of_kinds(n, *front), says)

    with_lengths("lengths-rank", (1,), "its lengths of sequences are neither all 4 steps nor from 0 to 4 of each example")
    with_lengths("lengths-two", (2,), "which are not one length an example")
    with_lengths("lengths-floats", (1,), "its lengths of sequences are neither", kind=TensorProto.FLOAT)
    with_lengths("lengths-tokens", (), "its lengths of sequences are neither", lengths="input")
    with_lengths("lengths-sum", (), "Add twice: its input lengths is lengths, on which this is not supported",
                 node("Add", ["lengths", "lengths"], ["twice"], name="twice"), lengths="twice")

    def turned(name, says, order, sources=("W",) * 3, axis=0):
        n = Net("bad", [4, 3])
        for source in {*sources}:
            n.weight(source, 6, 3)
        parts = [n.add("Slice", [source, n.constant(f"first{i}", [2 * i]), n.constant(f"end{i}", [2 * i + 2]),
                                 n.constant("axes", [axis])], f"part{i}") for i, source in enumerate(sources)]
        n.add("Unsqueeze", [n.add("Concat", [parts[i] for i in order], "gates", axis=0), n.constant("front", [0])], "all")
        n.add("Transpose", ["input"], "b", perm=[1, 0, 2])
        n.add("GRU", ["b", "all", n.weight("R", 1, 6, 2)], ["", "c"], hidden_size=2)
        n.add("Flatten", [n.add("Transpose", ["c"], "d", perm=[1, 0, 2])], "e")
        n.add("Gemm", ["e", n.weight("fc.weight", CLASSES, 2)], "output", transB=1)
        put(name, n.model(), says)

    turned("gates-order", "the gates of input 1 are not those of one initializer in ONNX's order", [0, 1, 2])
    turned("gates-mixed", "the gates of input 1 are not those of one initializer in ONNX's order", [1, 0, 2], ("W", "W", "V"))
    turned("gates-columns", "only rows that follow each other can be cut", [1, 0, 2], axis=1)
    turned("gates-few", "its weights are not initializers [1, 3 hidden, features]", [1, 0])

    def drawn(name, says, sizes, more=(), **options):
        n = Net("bad", [4, 3])
        size = n.add("Concat", [n.add("Shape", ["input"], "first", end=1), n.constant("rest", sizes)], "sizes", axis=0)
        n.add("RandomUniformLike", [n.add("ConstantOfShape", [size], "zeros")], "uniform", **options)
        for i, op in enumerate(more):
            n.add(op, ["uniform", n.constant("p", 0.5, np.float32)][:2 - (op == "Floor")], "uniform" if i else "drawn")
        last = "drawn" if more else "uniform"
        n.add("Flatten", [n.add("Mul", ["input", last], "a")], "b")
        n.add("Gemm", ["b", n.weight("fc.weight", CLASSES, 12)], "output", transB=1)
        put(name, n.model(), says)

    of_random = "of random numbers only dropout is supported"
    drawn("draws-uniform", of_random, [1, 1])
    drawn("draws-range", "only numbers from 0 to 1 are supported", [1, 1], low=-1.0)
    drawn("draws-floor", of_random, [1, 1], ["Floor"])
    drawn("draws-sum", of_random, [1, 1], ["Add"])
    drawn("draws-columns", "its random numbers are not drawn for each example", [1, 3], ["Less"])

    def causal(name, says, size, k):
        n = Net("bad", [4, 4])
        n.constant("shape", size)
        n.nodes.append(node("ConstantOfShape", ["shape"], ["ones"], name="ones",
                            value=numpy_helper.from_array(np.array([1], np.float32))))
        n.add("Trilu", ["ones", n.constant("k", k, np.asarray(k).dtype)], "mask")
        n.add("Flatten", [n.add("Mul", ["input", "mask"], "a")], "b")
        n.add("Gemm", ["b", n.weight("fc.weight", CLASSES, 16)], "output", transB=1)
        put(name, n.model(), says)

    causal("trilu-list", "Trilu /Trilu_1: its input is no matrix", [4], 0)
    causal("trilu-large", "Trilu /Trilu_1: input 0 (ones) is a constant, where only an activation is supported",
           [1 << 20, 1 << 20], 0)
    causal("trilu-diagonal", "Trilu /Trilu_1: its diagonal is not one integer of the file", [4, 4], [0, 1])

    def outside(name, location, says, **more):
        model = linear().model()
        tensor = model.graph.initializer[0]
        tensor.ClearField("raw_data")
        tensor.data_location = TensorProto.EXTERNAL
        for key, value in {"location": location, **more}.items():
            tensor.external_data.add(key=key, value=value)
        put(name, model, says)

    outside("outside", "../make_onnx.py", "is outside the file's folder")
    outside("absolute", "/etc/passwd", "is outside the file's folder")
    outside("missing", "nowhere.data", "cannot read nowhere.data beside it")
    outside("end", "pooled.data", "has no 64 bytes at offset 1000000", offset="1000000")
    outside("length", "pooled.data", "not 64 bytes in a known place", length="60")

    n = linear("b")
    n.nodes[:0] = [helper.make_node("CastLike", ["input", n.constant("truth", True, np.bool_)], ["b"], name="cast")]
    put("cast-like", n.model(), "CastLike cast: to type 9 it is not supported")

    n = linear("b")
    n.nodes[:0] = [helper.make_node("SplitToSequence", ["input", n.constant("three", 3)], ["parts"], name="cut", axis=1),
                   helper.make_node("SequenceAt", ["parts", n.constant("two", 2)], ["b"], name="take")]
    put("sequence-at", n.model(), "SequenceAt take: there is no such piece of 2")

    n = linear("b")
    n.nodes[:0] = [helper.make_node("Concat", [n.constant("sizes", [-1, 5]), ""], ["all"], name="join", axis=0),
                   helper.make_node("Reshape", ["input", "all"], ["b"], name="shape")]
    put("left-out", n.model(), "Concat join: input 1 is not a list of up to 8 integers that follows from the file alone")

    n = linear("b")
    n.nodes[:0] = [helper.make_node("GatherND", ["input", n.constant("at", [[0]])], ["b"], name="pick")]
    put("gather-nd", n.model(), "GatherND pick: its indices are not into dimensions in front of the batch")

    n = linear("b")
    n.nodes[:0] = [helper.make_node("Shape", ["input"], ["batch"], end=1), helper.make_node("Squeeze", ["batch"], ["n"]),
                   helper.make_node("Range", [n.constant("zero", 0), "n", n.constant("one", 1)], ["places"]),
                   helper.make_node("Unsqueeze", ["places", n.constant("last", [1])], ["column"]),
                   helper.make_node("Cast", ["column"], ["floats"], to=TensorProto.FLOAT),
                   helper.make_node("Add", ["input", "floats"], ["b"], name="count")]
    put("places", n.model(), "Add count: input 1 depends on an example's place in the batch")

    model = linear().model()
    model.opset_import[0].version = 99
    put("opset", model, "its opset is 99")
    model = linear().model()
    model.graph.output.append(helper.make_tensor_value_info("fc.bias", TensorProto.FLOAT, [CLASSES]))
    put("outputs", model, "it has 2 outputs")
    model = linear().model()
    model.graph.initializer.append(model.graph.initializer[0])
    put("twice", model, "fc.weight is there twice")
    model = linear().model()
    for tensor in model.graph.initializer:
        tensor.name = "ronde." + tensor.name
    for i in (1, 2):
        model.graph.node[0].input[i] = "ronde." + model.graph.node[0].input[i]
    put("reserved", model, "cannot be that of a weight")

    n = linear("b")
    n.nodes[:0] = [helper.make_node("Gemm", ["input", n.weight("square", 4, 4)], ["a"], name="one", transB=1),
                   helper.make_node("Gemm", ["a", "square"], ["b"], name="two")]
    put("turned", n.model(), "Gemm two: another layer uses tensor square in another way")

    deep = b""
    for _ in range(200):  # GraphProto.node.attribute.g, again and again
        for tag in (0x32, 0x2a, 0x0a):
            length, size = len(deep), b""
            while length > 127:
                size, length = size + bytes([length & 127 | 128]), length >> 7
            deep = bytes([tag]) + size + bytes([length]) + deep
    length, size = len(deep), b""
    while length > 127:
        size, length = size + bytes([length & 127 | 128]), length >> 7
    put("deep", b"\x08\x08\x3a" + size + bytes([length]) + deep, "nested too deeply")
    put("cut", linear().model().SerializeToString()[:-9], "it is cut short")

    n = Net("folded", [2, 5, 5])
    n.add("Conv", ["input", n.weight("onnx::Conv_7", 2, 2, 3, 3), n.weight("onnx::Conv_8", 2)], "a", kernel_shape=[3, 3])
    n.add("GlobalAveragePool", ["a"], "b")
    n.add("Flatten", ["b"], "c")
    n.add("Gemm", ["c", n.weight("fc.weight", CLASSES, 2)], "output", transB=1)
    (FOLDER / "folded.onnx").write_bytes(n.model().SerializeToString())
    model = n.model()  # as PyTorch's newer exporter writes it
    for name, other in (("onnx::Conv_7", "conv.weight"), ("onnx::Conv_8", "conv.bias")):
        for tensor in model.graph.initializer:
            tensor.name = other if tensor.name == name else tensor.name
        model.graph.node[0].input[:] = [other if v == name else v for v in model.graph.node[0].input]
    model.graph.node[0].metadata_props.add(key="pkg.onnxscript.rewriter.rule_name", value="FuseBatchNormIntoConv")
    (FOLDER / "folded-newer.onnx").write_bytes(model.SerializeToString())
    (FOLDER / "bad.json").write_text(json.dumps(said, indent=0) + "\n")


for make in (small, residual, branches, windows, shuffled, pooled, sequence, recurrent, cells, triangles, alike, bad):
    make()

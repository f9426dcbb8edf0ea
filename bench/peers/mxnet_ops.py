"""The layers of networks.py as MXNet symbols, and blocks of them. Weights come from a file of Ronde's (system.File).
Requirements: mxnet 1.9.1, numpy < 1.24.
"""

import mxnet as mx

import networks


class Ops:
    def __init__(self, file):
        self.file, self.values = file, {}

    def variable(self, name, value=None):
        self.values[name] = self.file[name] if value is None else value
        return mx.sym.var(name)

    def parameters(self, name):
        both = {"weight": self.variable(f"{name}.weight")}
        if f"{name}.bias" in self.file.header:
            both["bias"] = self.variable(f"{name}.bias")
        return dict(both, no_bias="bias" not in both)

    def conv(self, x, name, stride, padding):
        out, _, height, width = self.file.header[f"{name}.weight"]["shape"]
        return mx.sym.Convolution(
            x, **self.parameters(name), num_filter=out, kernel=(height, width), stride=(stride, stride),
            pad=padding if isinstance(padding, tuple) else (padding, padding), name=name + ".conv",
        )

    def linear(self, x, name):
        out = self.file.header[f"{name}.weight"]["shape"][0]
        return mx.sym.FullyConnected(x, **self.parameters(name), num_hidden=out, flatten=False, name=name + ".linear")

    def batch_norm(self, x, name, eps=1e-5):
        scale = self.file[f"{name}.weight"]
        return mx.sym.BatchNorm(
            x, gamma=self.variable(f"{name}.weight"), beta=self.variable(f"{name}.bias"),
            moving_mean=self.variable(f"{name}.running_mean", 0 * scale),
            moving_var=self.variable(f"{name}.running_var", 0 * scale + 1), eps=eps, momentum=0.9, fix_gamma=False,
            name=name,
        )

    def max_pool(self, x, kernel, stride, padding):
        return mx.sym.Pooling(
            x, kernel=(kernel, kernel), stride=(stride, stride), pad=(padding, padding), pool_type="max"
        )

    def avg_pool(self, x, kernel):
        return mx.sym.Pooling(x, kernel=(kernel, kernel), stride=(kernel, kernel), pool_type="avg")

    def average_around(self, x):
        return mx.sym.Pooling(x, kernel=(3, 3), stride=(1, 1), pad=(1, 1), pool_type="avg")

    def adaptive_pool(self, x, size):
        if size == 1:
            return mx.sym.Pooling(x, global_pool=True, kernel=(1, 1), pool_type="avg")
        return mx.sym.contrib.AdaptiveAvgPooling2D(x, output_size=size)

    def flatten(self, x):
        return mx.sym.Flatten(x)

    def relu(self, x):
        return mx.sym.Activation(x, act_type="relu")

    def tanh(self, x):
        return mx.sym.Activation(x, act_type="tanh")

    def add(self, a, b):
        return a + b

    def concat(self, maps):
        return mx.sym.Concat(*maps, dim=1)


def loss_block(file, model, padding, size):
    """A hybridized block from (images, labels) to the mean loss, its weights set; and its logits, and how many elements
    train."""
    ops, data, label = Ops(file), mx.sym.var("data"), mx.sym.var("label")
    logits = networks.build(model, ops, data, padding, size)
    block = mx.gluon.SymbolBlock(-mx.sym.mean(mx.sym.pick(mx.sym.log_softmax(logits), label)), [data, label])
    n_parameters = 0
    for name, parameter in block.collect_params().items():
        value = ops.values.pop(name)
        parameter.shape = value.shape
        parameter.initialize(init=mx.init.Zero(), force_reinit=True)
        parameter.set_data(mx.nd.array(value))
        n_parameters += value.size if parameter.grad_req != "null" else 0
    block.hybridize(static_alloc=True, static_shape=True)
    return block, logits, n_parameters

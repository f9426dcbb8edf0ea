"""The layers of networks.py in TensorFlow, channels last, and TensorFlow itself, imported without its notes on standard
error. Weights come from a file of Ronde's (system.File).
Requirements: tensorflow-cpu >= 2.16, numpy.
"""

import contextlib
import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "1")


@contextlib.contextmanager
def without_stderr():
    """For what is said there before TensorFlow heeds its log level. An exception's text comes later."""
    kept, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)


with without_stderr():
    import tensorflow as tf


class Ops:
    def __init__(self, file, bf16=False):
        self.file, self.variables, self.running, self.flops = file, {}, {}, 0
        self.bf16 = bf16
        self.flattened = None

    def variable(self, name, change):
        if name not in self.variables:
            self.variables[name] = tf.Variable(change(self.file[name]), name=name.replace(".", "_"))
        return self.variables[name]

    def cast(self, x):
        return tf.cast(x, tf.bfloat16) if self.bf16 else x

    def bias(self, x, name):
        if f"{name}.bias" not in self.file.header:
            return x
        return tf.nn.bias_add(x, self.cast(self.variable(f"{name}.bias", lambda b: b)))

    def conv(self, x, name, stride, padding):
        weight = self.variable(f"{name}.weight", lambda w: w.transpose(2, 3, 1, 0))
        rows, columns = padding if isinstance(padding, tuple) else (padding, padding)
        same = stride == 1 and rows + columns > 0 and (2 * rows + 1, 2 * columns + 1) == tuple(weight.shape[:2])
        if rows + columns and not same:
            x = tf.pad(x, [[0, 0], [rows, rows], [columns, columns], [0, 0]])
        y = tf.nn.conv2d(x, self.cast(weight), stride, "SAME" if same else "VALID")
        self.flops += 2 * weight.shape.num_elements() * int(y.shape[1] * y.shape[2])
        return self.bias(y, name)

    def linear(self, x, name):
        shape = self.flattened

        def change(weight):
            """Behind a flattened map, whose channels come last here."""
            if not shape:
                return weight.T
            height, width, channels = shape
            return weight.reshape(-1, channels, height, width).transpose(2, 3, 1, 0).reshape(-1, len(weight))

        weight = self.variable(f"{name}.weight", change)
        self.flattened = None
        self.flops += 2 * weight.shape.num_elements()
        return self.bias(tf.matmul(x, self.cast(weight)), name)

    def batch_norm(self, x, name, eps=1e-5):
        scale, shift = self.variable(f"{name}.weight", lambda w: w), self.variable(f"{name}.bias", lambda b: b)
        if name not in self.running:
            self.running[name] = tf.Variable(tf.zeros_like(shift)), tf.Variable(tf.ones_like(scale))
        mean, variance = self.running[name]
        y, new_mean, new_variance, *_ = tf.raw_ops.FusedBatchNormV3(
            x=x, scale=scale, offset=shift, mean=mean, variance=variance, epsilon=eps, exponential_avg_factor=0.1
        )
        mean.assign(new_mean)
        variance.assign(new_variance)
        return y

    def max_pool(self, x, kernel, stride, padding):
        if padding:  # behind a ReLU, where no value is below zero
            x = tf.pad(x, [[0, 0], [padding, padding], [padding, padding], [0, 0]])
        return tf.nn.max_pool2d(x, kernel, stride, "VALID")

    def avg_pool(self, x, kernel):
        return tf.nn.avg_pool2d(x, kernel, kernel, "VALID")

    def average_around(self, x):
        return tf.nn.avg_pool2d(tf.pad(x, [[0, 0], [1, 1], [1, 1], [0, 0]]), 3, 1, "VALID")

    def adaptive_pool(self, x, size):
        if size == 1:
            return tf.reduce_mean(x, [1, 2], keepdims=True)
        if x.shape[1:3] == (size, size):
            return x
        if x.shape[1:3] != (1, 1):
            raise ValueError(f"a pooling of {x.shape[1:3]} to {size} is not written here")
        return tf.tile(x, [1, size, size, 1])

    def flatten(self, x):
        self.flattened = tuple(x.shape[1:])
        return tf.reshape(x, [x.shape[0], -1])

    def concat(self, maps):
        return tf.concat(maps, 3)

    relu, tanh, add = staticmethod(tf.nn.relu), staticmethod(tf.nn.tanh), staticmethod(tf.add)

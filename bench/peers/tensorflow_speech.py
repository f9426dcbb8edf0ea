"""Deep Speech 2 in TensorFlow, for tensorflow_step.py, with PyTorch's names of weights. A gated recurrent unit is a while loop over
steps, as Keras has it on CPUs: TensorFlow has no fused operator that resets the product instead of the state. Recordings of a
benchmark's batch are as long as they can be, so nothing is masked.
Requirements: tensorflow-cpu >= 2.16, numpy.
"""

from tensorflow_ops import tf

BANDS, IGNORED = 80, -1


def knows(model):
    return model in ("deepspeech2", "deepspeech2-tiny")


class DeepSpeech2:
    def __init__(self, ops):
        self.ops = ops

    def convolve(self, x, number, strides, padding):
        y = self.ops.conv(x, f"conv.seq_module.{number}", [1, *strides, 1], padding)
        return tf.clip_by_value(self.ops.batch_norm(y, f"conv.seq_module.{number + 1}"), 0, 20)

    def normalize(self, x, name):
        """Over all steps [T][N][F]."""
        flat = self.ops.batch_norm(tf.reshape(x, [-1, 1, 1, x.shape[2]]), name)
        return tf.reshape(flat, x.shape)

    def linear(self, x, weight):
        self.ops.flops += 2 * weight.shape.num_elements() * x.shape[0]
        y = tf.matmul(tf.reshape(x, [-1, x.shape[2]]), self.ops.cast(weight))
        return tf.reshape(y, [x.shape[0], x.shape[1], y.shape[1]])

    def recur(self, x, name, end):
        """One direction [T][N][F] -> [T][N][H]. The products of x are made for all steps at once; gates are r, z, n."""
        w_x, w_h = (self.ops.variable(f"{name}.weight_{part}_l0{end}", lambda w: w.T) for part in ("ih", "hh"))
        b_x, b_h = (self.ops.cast(self.ops.variable(f"{name}.bias_{part}_l0{end}", lambda b: b)) for part in ("ih", "hh"))
        sums, w = self.linear(x, w_x) + b_x, self.ops.cast(w_h)
        self.ops.flops += 2 * w_h.shape.num_elements() * x.shape[0]

        def step(h, of_x):
            x_r, x_z, x_n = tf.split(of_x, 3, 1)
            h_r, h_z, h_n = tf.split(tf.matmul(h, w) + b_h, 3, 1)
            z = tf.sigmoid(x_z + h_z)
            return z * h + (1 - z) * tf.tanh(x_n + tf.sigmoid(x_r + h_r) * h_n)

        first = tf.zeros([x.shape[1], w_h.shape[0]], x.dtype)
        y = tf.scan(step, tf.reverse(sums, [0]) if end else sums, first)
        y = tf.ensure_shape(y, [x.shape[0], *first.shape])
        return tf.reverse(y, [0]) if end else y

    def __call__(self, rows):
        frames = (rows.shape[1] - 1) // BANDS
        x = self.ops.cast(tf.reshape(rows[:, :-1], [-1, BANDS, frames, 1]))
        x = self.convolve(self.convolve(x, 0, (2, 2), (20, 5)), 3, (2, 1), (10, 5))
        x = tf.transpose(x, [2, 0, 3, 1])  # [T][N][C][bands]
        x = tf.reshape(x, [x.shape[0], x.shape[1], -1])
        layer = 0
        while f"rnns.{layer}.rnn.weight_ih_l0" in self.ops.file.header:
            x = self.normalize(x, f"rnns.{layer}.batch_norm.module") if layer else x
            x = sum(self.recur(x, f"rnns.{layer}.rnn", end) for end in ("", "_reverse"))
            layer += 1
        x = self.normalize(x, "fc.0.module.0")
        return self.linear(x, self.ops.variable("fc.0.module.1.weight", lambda w: w.T))


def loss(logits, labels):
    """CTC of logits [T][N][K]: the mean over the examples of each one's mean over its labels [N][L]."""
    counts = tf.math.count_nonzero(labels != IGNORED, 1, dtype=tf.int32)
    steps = tf.fill([logits.shape[1]], logits.shape[0])
    each = tf.nn.ctc_loss(tf.maximum(labels, 0), logits, counts, steps, blank_index=0)
    return tf.reduce_mean(each / tf.cast(counts, tf.float32))

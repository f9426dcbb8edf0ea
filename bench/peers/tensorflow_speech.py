"""Networks of speech in TensorFlow, for tensorflow_step.py, with PyTorch's names of weights: Deep Speech 2 and Tacotron 2. A gated
recurrent unit is a while loop over steps, as Keras has it on CPUs: TensorFlow has no fused operator that resets the product
instead of the state. So is Tacotron 2's decoder. Recordings and texts of a benchmark's batch are as long as they can be, so
nothing is masked.
Requirements: tensorflow-cpu >= 2.16, numpy.
"""

import numpy
from tensorflow_ops import tf
from tensorflow_sequences import layers_of, lstm_both

BANDS, IGNORED = 80, -1


def knows(model):
    return model.removesuffix("-tiny") in ("deepspeech2", "tacotron2")


def normalize(ops, x, name):
    """Over all but the last dimension."""
    return tf.reshape(ops.batch_norm(tf.reshape(x, [-1, 1, 1, x.shape[-1]]), name), x.shape)


class DeepSpeech2:
    def __init__(self, ops):
        self.ops = ops

    def convolve(self, x, number, strides, padding):
        y = self.ops.conv(x, f"conv.seq_module.{number}", [1, *strides, 1], padding)
        return tf.clip_by_value(self.ops.batch_norm(y, f"conv.seq_module.{number + 1}"), 0, 20)

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
        for i in range(layers_of(self.ops, "rnns.")):
            x = normalize(self.ops, x, f"rnns.{i}.batch_norm.module") if i else x
            x = sum(self.recur(x, f"rnns.{i}.rnn", end) for end in ("", "_reverse"))
        x = normalize(self.ops, x, "fc.0.module.0")
        return self.linear(x, self.ops.variable("fc.0.module.1.weight", lambda w: w.T))


def ctc(logits, labels):
    """Of logits [T][N][K]: the mean over the examples of each one's mean over its labels [N][L]."""
    counts = tf.math.count_nonzero(labels != IGNORED, 1, dtype=tf.int32)
    steps = tf.fill([logits.shape[1]], logits.shape[0])
    each = tf.nn.ctc_loss(tf.maximum(labels, 0), logits, counts, steps, blank_index=0)
    return tf.reduce_mean(each / tf.cast(counts, tf.float32))


class Tacotron2:
    """NVIDIA's network without dropout. It tells its own loss. Its multiply-adds are counted where it runs op by op, step by step."""

    def __init__(self, ops):
        self.ops = ops

    def linear(self, x, name, times=1):
        """Of the last dimension, of which an example has so many."""
        weight = self.ops.variable(f"{name}.linear_layer.weight", lambda w: w.T)
        self.ops.flops += 2 * weight.shape.num_elements() * times
        y = tf.matmul(tf.reshape(x, [-1, x.shape[-1]]), self.ops.cast(weight))
        return tf.reshape(self.ops.bias(y, f"{name}.linear_layer"), [*x.shape[:-1], y.shape[1]])

    def conv(self, x, name):
        """[N][T][C], of an odd width."""
        weight = self.ops.variable(f"{name}.conv.weight", lambda w: w.transpose(2, 1, 0))
        self.ops.flops += 2 * weight.shape.num_elements() * x.shape[1]
        return self.ops.bias(tf.nn.conv1d(x, self.ops.cast(weight), 1, "SAME"), f"{name}.conv")

    def convolve(self, x, part, i):
        name = f"{part}.convolutions.{i}"
        return normalize(self.ops, self.conv(x, f"{name}.0"), f"{name}.1")

    def encode(self, characters):
        table = self.ops.variable("embedding.weight", lambda w: w)
        x = tf.gather(self.ops.cast(table), characters)
        for i in range(3):
            x = tf.nn.relu(self.convolve(x, "encoder", i))
        x = tf.transpose(x, [1, 0, 2])
        return tf.transpose(lstm_both(self.ops, x, "encoder.lstm"), [1, 0, 2])

    def cell(self, x, state, name):
        """One step of an LSTM, gates i, f, g, o."""
        h, c = state
        sums = tf.zeros([], x.dtype)
        for part, value in (("ih", x), ("hh", h)):
            w = self.ops.variable(f"{name}.weight_{part}", lambda w: w.T)
            b = self.ops.variable(f"{name}.bias_{part}", lambda b: b)
            self.ops.flops += 2 * w.shape.num_elements()
            sums += tf.matmul(value, self.ops.cast(w)) + self.ops.cast(b)
        i, f, g, o = tf.split(sums, 4, 1)
        c = tf.sigmoid(f) * c + tf.sigmoid(i) * tf.tanh(g)
        return tf.sigmoid(o) * tf.tanh(c), c

    def attend(self, h, memory, keys, before):
        name, length = "decoder.attention_layer", memory.shape[1]
        places = self.conv(before, f"{name}.location_layer.location_conv")
        places = self.linear(places, f"{name}.location_layer.location_dense", length)
        x = tf.tanh(self.linear(h, f"{name}.query_layer")[:, None] + places + keys)
        weights = tf.nn.softmax(self.linear(x, f"{name}.v", length)[:, :, 0])
        self.ops.flops += 2 * length * memory.shape[2]
        return tf.linalg.matvec(memory, weights, transpose_a=True), weights

    def decode(self, frames, memory):
        """Frames [N][T][bands], each told from those before it: h and context of each step [N][T]."""
        x = tf.pad(frames[:, :-1], [[0, 0], [1, 0], [0, 0]])
        steps = x.shape[1]
        for i in range(2):
            x = tf.nn.relu(self.linear(x, f"decoder.prenet.layers.{i}", steps))
        keys = self.linear(memory, "decoder.attention_layer.memory_layer", memory.shape[1])
        n, hidden = x.shape[0], self.ops.file.shape("decoder.decoder_rnn.weight_hh")[1]

        def step(state, now):
            h, c, h2, c2, context, weights, total = state
            h, c = self.cell(tf.concat([now, context], 1), (h, c), "decoder.attention_rnn")
            context, weights = self.attend(h, memory, keys, tf.stack([weights, total], 2))
            h2, c2 = self.cell(tf.concat([h, context], 1), (h2, c2), "decoder.decoder_rnn")
            return h, c, h2, c2, context, weights, total + weights

        widths = [hidden] * 4 + [memory.shape[2]] + [memory.shape[1]] * 2
        first = tuple(tf.zeros([n, width], x.dtype) for width in widths)
        states = tf.scan(step, tf.transpose(x, [1, 0, 2]), first)
        told = tf.concat([states[2], states[4]], 2)
        return tf.transpose(tf.ensure_shape(told, [steps, n, hidden + memory.shape[2]]), [1, 0, 2])

    def __call__(self, rows):
        bands = self.ops.file.shape("decoder.linear_projection.linear_layer.weight")[0]
        steps = self.ops.file.shape("places")[0]
        frames = tf.transpose(tf.reshape(rows[:, : bands * steps], [-1, bands, steps]), [0, 2, 1])
        memory = self.encode(tf.bitcast(rows[:, bands * steps + 1 :], tf.int32))
        told = self.decode(self.ops.cast(frames), memory)
        raw = self.linear(told, "decoder.linear_projection", steps)
        ends = tf.cast(self.linear(told, "decoder.gate_layer", steps)[:, :, 0], tf.float32)
        y = raw
        for i in range(5):
            y = self.convolve(y, "postnet", i)
            y = tf.tanh(y) if i < 4 else y
        raw, fine = tf.cast(raw, tf.float32), tf.cast(raw + y, tf.float32)
        errors = tf.reduce_mean((raw - frames) ** 2 + (fine - frames) ** 2, 2)
        is_end = tf.broadcast_to(tf.constant(numpy.arange(steps) == steps - 1, tf.float32), ends.shape)
        return tf.reduce_mean(errors + tf.nn.sigmoid_cross_entropy_with_logits(labels=is_end, logits=ends))


def network(model, ops):
    """A function of rows, and the loss of what it tells."""
    if model.startswith("tacotron2"):
        return Tacotron2(ops), lambda told, _: told
    return DeepSpeech2(ops), ctc

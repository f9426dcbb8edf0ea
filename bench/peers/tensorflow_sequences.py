"""Networks of tokens in TensorFlow, for tensorflow_step.py: bert, transformer and gnmt with PyTorch's names of weights. Attention is
composed of two products and a softmax, layer normalisation of its moments, as Keras has them; an LSTM is BlockLSTM, one fused
operator for all steps, which has no bfloat16 (the gradients of BlockLSTMV2 are wrong in 2.21). No sequence of a benchmark's batch
has padding, so none is masked.
Requirements: tensorflow-cpu >= 2.16, numpy.
"""

import numpy
from tensorflow_ops import tf

HEADS = {"bert": 12, "bert-tiny": 2, "transformer": 8, "transformer-tiny": 4, "gnmt": 0, "gnmt-tiny": 0}


def knows(model):
    return model in HEADS


def layers_of(ops, prefix):
    """How many layers there are below a name."""
    rest = [name[len(prefix):] for name in ops.file.names() if name.startswith(prefix)]
    return 1 + max(int(name.split(".")[0]) for name in rest)


def reordered(gates):
    """Rows of gates from i, f, g, o to i, g, f, o."""
    i, f, g, o = numpy.split(gates, 4)
    return numpy.concatenate([i, g, f, o])


def weights_of(ops, name, end):
    """Of x and of h one below the other, as the fused operator takes them, its gates in its order."""
    key = f"{name}.weight{end}"
    if key not in ops.variables:
        both = [ops.file[f"{name}.weight_{part}_l0{end}"] for part in ("ih", "hh")]
        ops.variables[key] = tf.Variable(numpy.concatenate([reordered(w).T for w in both]))
    return ops.variables[key]


def lstm(ops, x, name, end=""):
    """All steps of one direction [T][N][F] -> [T][N][H], from the first on."""
    w = weights_of(ops, name, end)
    biases = [ops.variable(f"{name}.bias_{part}_l0{end}", reordered) for part in ("ih", "hh")]
    steps, n, width = x.shape[0], x.shape[1], biases[0].shape[0] // 4
    ops.flops += 2 * w.shape.num_elements() * steps
    zeros, none = tf.zeros([n, width]), tf.zeros([width])
    y = tf.raw_ops.BlockLSTM(
        seq_len_max=tf.constant(steps, tf.int64), x=tf.cast(x, tf.float32), cs_prev=zeros, h_prev=zeros, w=w, wci=none, wcf=none, wco=none,
        b=biases[0] + biases[1], forget_bias=0.0, cell_clip=0.0,
        use_peephole=False).h
    return tf.cast(y, x.dtype)


def lstm_both(ops, x, name):
    """Both directions, side by side."""
    back = tf.reverse(lstm(ops, tf.reverse(x, [0]), name, "_reverse"), [0])
    return tf.concat([lstm(ops, x, name), back], 2)


class Network:
    def __init__(self, model, ops):
        self.model, self.ops, self.heads = model, ops, HEADS[model]

    def table(self, name):
        return self.ops.variable(name, lambda w: w)

    def embed(self, tokens, name):
        return tf.gather(self.ops.cast(self.table(name)), tokens)

    def linear(self, x, name):
        """Of features of each place, [N][T][F]; the multiply-adds of an example are those of all its places."""
        before = self.ops.flops
        y = self.ops.linear(tf.reshape(x, [-1, x.shape[2]]), name)
        self.ops.flops = before + (self.ops.flops - before) * x.shape[1]
        return tf.reshape(y, [x.shape[0], x.shape[1], y.shape[1]])

    def tied(self, x, name):
        """A linear layer whose weight is a table of embeddings."""
        table = self.table(name)
        self.ops.flops += 2 * table.shape.num_elements() * x.shape[1]
        y = tf.matmul(tf.reshape(x, [-1, x.shape[2]]), self.ops.cast(table), transpose_b=True)
        return tf.reshape(y, [x.shape[0], x.shape[1], y.shape[1]])

    def norm(self, x, name, eps=1e-5):
        wide = tf.cast(x, tf.float32)
        mean, variance = tf.nn.moments(wide, [-1], keepdims=True)
        weight, bias = (self.table(f"{name}.{part}") for part in ("weight", "bias"))
        return tf.cast(tf.nn.batch_normalization(wide, mean, variance, bias, weight, eps), x.dtype)

    def attend(self, q, k, v, causal=False):
        n, t, width = q.shape

        def split(x):
            return tf.transpose(tf.reshape(x, [n, x.shape[1], self.heads, width // self.heads]), [0, 2, 1, 3])

        q, k, v = split(q), split(k), split(v)
        scores = tf.matmul(q * tf.cast((width // self.heads) ** -0.5, q.dtype), k, transpose_b=True)
        if causal:
            seen = numpy.tril(numpy.ones((t, t), bool))
            scores += tf.constant(numpy.where(seen, 0, -1e9).astype("float32"), q.dtype)
        self.ops.flops += 4 * t * k.shape[2] * width
        y = tf.matmul(tf.nn.softmax(scores), v)
        return tf.reshape(tf.transpose(y, [0, 2, 1, 3]), [n, t, width])


class Bert(Network):
    """Hugging Face's BertForMaskedLM."""

    WORDS = "bert.embeddings.word_embeddings.weight"

    def layer(self, x, name):
        q, k, v = (self.linear(x, f"{name}.attention.self.{part}") for part in ("query", "key", "value"))
        y = self.linear(self.attend(q, k, v), f"{name}.attention.output.dense")
        x = self.norm(x + y, f"{name}.attention.output.LayerNorm", 1e-12)
        y = self.linear(tf.nn.gelu(self.linear(x, f"{name}.intermediate.dense")), f"{name}.output.dense")
        return self.norm(x + y, f"{name}.output.LayerNorm", 1e-12)

    def __call__(self, tokens):
        cast, embeddings = self.ops.cast, "bert.embeddings"
        x = self.embed(tokens, self.WORDS) + cast(self.table(f"{embeddings}.token_type_embeddings.weight"))[:1]
        x += cast(self.table(f"{embeddings}.position_embeddings.weight"))[: tokens.shape[1]]
        x = self.norm(x, f"{embeddings}.LayerNorm", 1e-12)
        for i in range(layers_of(self.ops, "bert.encoder.layer.")):
            x = self.layer(x, f"bert.encoder.layer.{i}")
        x = tf.nn.gelu(self.linear(x, "cls.predictions.transform.dense"))
        x = self.norm(x, "cls.predictions.transform.LayerNorm", 1e-12)
        return self.tied(x, self.WORDS) + cast(self.table("cls.predictions.bias"))


class Transformer(Network):
    def perceptron(self, x, name, norm):
        y = self.linear(tf.nn.relu(self.linear(x, f"{name}.linear1")), f"{name}.linear2")
        return self.norm(x + y, f"{name}.{norm}")

    def attend_self(self, x, name, causal):
        q, k, v = tf.split(self.linear(x, f"{name}.self_attn.in_proj"), 3, 2)
        y = self.linear(self.attend(q, k, v, causal), f"{name}.self_attn.out_proj")
        return self.norm(x + y, f"{name}.norm1")

    def attend_memory(self, x, memory, name):
        q = self.linear(x, f"{name}.multihead_attn.q_proj")
        k, v = (self.linear(memory, f"{name}.multihead_attn.{part}_proj") for part in "kv")
        y = self.linear(self.attend(q, k, v), f"{name}.multihead_attn.out_proj")
        return self.norm(x + y, f"{name}.norm2")

    def positions(self, steps, width):
        rates = 10000.0 ** (-numpy.arange(0, width, 2) / width)
        angles = numpy.arange(steps)[:, None] * rates
        waves = numpy.stack([numpy.sin(angles), numpy.cos(angles)], 2).reshape(steps, width)
        return tf.constant(waves.astype("float32"))

    def __call__(self, tokens):
        steps = tokens.shape[1] // 2
        is_tied = "embedding.weight" in self.ops.file.header
        source, target = ("embedding", "embedding") if is_tied else ("src_embedding", "tgt_embedding")

        def embed(part, table):
            x = self.embed(part, f"{table}.weight")
            width = x.shape[2]
            return x * tf.cast(width**0.5, x.dtype) + tf.cast(self.positions(steps, width), x.dtype)

        m = embed(tokens[:, :steps], source)
        for i in range(layers_of(self.ops, "encoder.layers.")):
            name = f"encoder.layers.{i}"
            m = self.perceptron(self.attend_self(m, name, False), name, "norm2")
        y = embed(tokens[:, steps:], target)
        for i in range(layers_of(self.ops, "decoder.layers.")):
            name = f"decoder.layers.{i}"
            y = self.attend_memory(self.attend_self(y, name, True), m, name)
            y = self.perceptron(y, name, "norm3")
        return self.linear(y, "generator")


class Gnmt(Network):
    """GNMT v2, as NVIDIA's implementation. Sequences are [T][N][F] here, as the fused LSTM takes them."""

    def attend_additive(self, y, memory):
        name = "decoder.att_rnn.attn"
        y, memory = tf.transpose(y, [1, 0, 2]), tf.transpose(memory, [1, 0, 2])
        q, k = self.linear(y, f"{name}.linear_q"), self.linear(memory, f"{name}.linear_k")
        direction = self.table(f"{name}.linear_att")
        direction = direction * (self.table(f"{name}.normalize_scalar") / tf.norm(direction))
        x = tf.tanh(q[:, :, None] + k[:, None] + self.ops.cast(self.table(f"{name}.normalize_bias")))
        scores = tf.linalg.matvec(x, self.ops.cast(direction))
        self.ops.flops += 2 * y.shape[1] * memory.shape[1] * (direction.shape[0] + memory.shape[2])
        return tf.transpose(tf.matmul(tf.nn.softmax(scores), memory), [1, 0, 2])

    def encode(self, x):
        name = "encoder.rnn_layers"
        x = lstm(self.ops, lstm_both(self.ops, x, f"{name}.0"), f"{name}.1")
        for i in range(2, layers_of(self.ops, f"{name}.")):
            x = lstm(self.ops, x, f"{name}.{i}") + x
        return x

    def __call__(self, tokens):
        steps = tokens.shape[1] // 2
        both = tf.transpose(self.embed(tokens, "encoder.embedder.weight"), [1, 0, 2])
        memory = self.encode(both[:steps])
        y = lstm(self.ops, both[steps:], "decoder.att_rnn.rnn")
        told = self.attend_additive(y, memory)
        for i in range(layers_of(self.ops, "decoder.rnn_layers.")):
            z = lstm(self.ops, tf.concat([y, told], 2), f"decoder.rnn_layers.{i}")
            y = z + y if i > 0 else z
        return self.linear(tf.transpose(y, [1, 0, 2]), "decoder.classifier.classifier")


def network(model, ops):
    """A function of tokens [N][T]."""
    kinds = {"bert": Bert, "transformer": Transformer, "gnmt": Gnmt}
    return kinds[model.removesuffix("-tiny")](model, ops)

"""The networks in PyTorch, and the numbers that C and Python make alike without a file.

Requirements: torch >= 2, numpy; torchvision for VGG and Inception, transformers for BERT. They are needed to make or follow
golden data, never to build or test.
"""

import collections
import functools

import numpy as np
import torch
from torch import nn


def lenet5(channels, sides, classes):
    layers = [nn.ZeroPad2d(2)] if sides == (28, 28) else []
    named = [(f"pad{i}", layer) for i, layer in enumerate(layers)] + [
        ("conv1", nn.Conv2d(channels, 6, 5)),
        ("tanh1", nn.Tanh()),
        ("pool1", nn.AvgPool2d(2)),
        ("conv2", nn.Conv2d(6, 16, 5)),
        ("tanh2", nn.Tanh()),
        ("pool2", nn.AvgPool2d(2)),
        ("flatten", nn.Flatten()),
        ("fc1", nn.Linear(400, 120)),
        ("tanh3", nn.Tanh()),
        ("fc2", nn.Linear(120, 84)),
        ("tanh4", nn.Tanh()),
        ("fc3", nn.Linear(84, classes)),
    ]
    return nn.Sequential(collections.OrderedDict(named))


def mnist(widths, hidden, channels, sides, classes, padding):
    """Convolutions of `widths`, each with ReLU and a 2x2 max-pool, then linear layers of `hidden` and the classes."""
    named = []
    for i, width in enumerate(widths, 1):
        named += [
            (f"conv{i}", nn.Conv2d(channels, width, 3, padding=1 if padding == "same" else 0)),
            (f"relu{i}", nn.ReLU()),
            (f"pool{i}", nn.MaxPool2d(2)),
        ]
        channels = width
        sides = [(side if padding == "same" else side - 2) // 2 for side in sides]
    named.append(("flatten", nn.Flatten()))
    features = channels * sides[0] * sides[1]
    for i, width in enumerate(hidden, 1):
        named += [(f"fc{i}", nn.Linear(features, width)), (f"relu_fc{i}", nn.ReLU())]
        features = width
    named.append((f"fc{len(hidden) + 1}", nn.Linear(features, classes)))
    return nn.Sequential(collections.OrderedDict(named))


def alexnet(channels, classes):
    """torchvision's, whose state_dict names are the indices of its Sequentials. Dropout is 0: PyTorch's random numbers
    are its own."""
    features = []
    for i, (width, kernel, stride, padding) in enumerate(
        [(64, 11, 4, 2), (192, 5, 1, 2), (384, 3, 1, 1), (256, 3, 1, 1), (256, 3, 1, 1)]
    ):
        features += [nn.Conv2d(channels, width, kernel, stride, padding), nn.ReLU()]
        features += [nn.MaxPool2d(3, 2)] if i in (0, 1, 4) else []
        channels = width
    classifier = [nn.Dropout(0), nn.Linear(256 * 6 * 6, 4096), nn.ReLU(), nn.Dropout(0), nn.Linear(4096, 4096)]
    classifier += [nn.ReLU(), nn.Linear(4096, classes)]
    named = [
        ("features", nn.Sequential(*features)),
        ("avgpool", nn.AdaptiveAvgPool2d(6)),
        ("flatten", nn.Flatten()),
        ("classifier", nn.Sequential(*classifier)),
    ]
    return nn.Sequential(collections.OrderedDict(named))


class Block(nn.Module):
    """Two 3x3 convolutions, or 1x1, 3x3 and 1x1 (bottleneck), beside a shortcut."""

    def __init__(self, channels, width, stride, bottleneck):
        super().__init__()
        out = 4 * width if bottleneck else width
        kernels = [1, 3, 1] if bottleneck else [3, 3]
        widths = [width, width, out] if bottleneck else [width, out]
        strides = [1, stride, 1] if bottleneck else [stride, 1]
        self.n_convs, self.relu = len(kernels), nn.ReLU()
        inside = channels
        for i, (kernel, wide, step) in enumerate(zip(kernels, widths, strides), 1):
            setattr(self, f"conv{i}", nn.Conv2d(inside, wide, kernel, step, kernel // 2, bias=False))
            setattr(self, f"bn{i}", nn.BatchNorm2d(wide))
            inside = wide
        self.downsample = None
        if stride != 1 or channels != out:
            self.downsample = nn.Sequential(nn.Conv2d(channels, out, 1, stride, bias=False), nn.BatchNorm2d(out))

    def forward(self, x):
        y = x
        for i in range(1, self.n_convs + 1):
            y = getattr(self, f"bn{i}")(getattr(self, f"conv{i}")(y))
            y = self.relu(y) if i < self.n_convs else y
        return self.relu(y + (self.downsample(x) if self.downsample else x))


def resnet(blocks, bottleneck, small_stem, channels, classes):
    """torchvision's; with a small stem the form for small images: 3x3 without pooling at the beginning."""
    stem = nn.Conv2d(channels, 64, 3, 1, 1, bias=False) if small_stem else nn.Conv2d(channels, 64, 7, 2, 3, bias=False)
    named = [("conv1", stem), ("bn1", nn.BatchNorm2d(64)), ("relu", nn.ReLU())]
    named += [] if small_stem else [("maxpool", nn.MaxPool2d(3, 2, 1))]
    channels = 64
    for stage, n_blocks in enumerate(blocks):
        layer = []
        for i in range(n_blocks):
            layer.append(Block(channels, 64 << stage, 2 if stage > 0 and i == 0 else 1, bottleneck))
            channels = (256 if bottleneck else 64) << stage
        named.append((f"layer{stage + 1}", nn.Sequential(*layer)))
    named += [("avgpool", nn.AdaptiveAvgPool2d(1)), ("flatten", nn.Flatten()), ("fc", nn.Linear(channels, classes))]
    return nn.Sequential(collections.OrderedDict(named))


def vgg16_tiny(channels, classes):
    """torchvision's VGG-16 with an eighth of the channels. Dropout is 0, and ReLUs leave their inputs as they are."""
    from torchvision.models import vgg

    widths = [8, 8, "M", 16, 16, "M", 32, 32, 32, "M", 64, 64, 64, "M", 64, 64, 64, "M"]
    net = vgg.VGG(vgg.make_layers(widths), num_classes=classes, init_weights=False, dropout=0)
    net.features[0] = nn.Conv2d(channels, 8, 3, padding=1)
    net.classifier[0], net.classifier[3] = nn.Linear(64 * 7 * 7, 64), nn.Linear(64, 64)
    net.classifier[6] = nn.Linear(64, classes)
    for module in net.modules():
        if isinstance(module, nn.ReLU):
            module.inplace = False
    return net


def inception_v3_tiny(channels, classes):
    """torchvision's Inception-v3 with an eighth of the channels and one block of each kind. Dropout is 0, and ReLUs are
    modules."""
    from torchvision.models import inception as tv

    class Conv(tv.BasicConv2d):
        def __init__(self, inside, out, **options):
            super().__init__(inside if inside == channels else inside // 8, out // 8, **options)
            self.relu = nn.ReLU()

        def forward(self, x):
            return self.relu(self.bn(self.conv(x)))

    a, b, c, d, e = (
        functools.partial(kind, conv_block=Conv)
        for kind in (tv.InceptionA, tv.InceptionB, tv.InceptionC, tv.InceptionD, tv.InceptionE)
    )
    blocks = [Conv, a, b, c, d, e, None]
    net = tv.Inception3(classes, aux_logits=False, inception_blocks=blocks, init_weights=False, dropout=0)
    net.Conv2d_1a_3x3 = Conv(channels, 32, kernel_size=3, stride=2)
    net.Mixed_5c = net.Mixed_5d = net.Mixed_6c = net.Mixed_6d = net.Mixed_6e = net.Mixed_7c = nn.Identity()
    net.Mixed_6a, net.Mixed_6b, net.fc = b(256), c(736, channels_7x7=128), nn.Linear(2048 // 8, classes)
    return net


class Blocks(nn.Module):
    """No network of the product, but its ops: an inception block, a depthwise separable convolution, one in groups."""

    def __init__(self, channels, classes):
        super().__init__()
        self.conv1 = nn.Conv2d(channels, 16, 3, padding=1)
        self.branch1, self.branch2 = nn.Conv2d(16, 24, 1, bias=False), nn.Conv2d(16, 40, 3, padding=1, bias=False)
        self.branch3, self.bn1 = nn.Conv2d(16, 12, 1, bias=False), nn.BatchNorm2d(92)
        self.depthwise = nn.Conv2d(92, 92, 3, 2, 1, groups=92, bias=False)
        self.bn2, self.pointwise = nn.BatchNorm2d(92), nn.Conv2d(92, 64, 1)
        self.grouped, self.fc = nn.Conv2d(64, 48, 3, padding=1, groups=4), nn.Linear(48, classes)
        self.relu, self.tanh = nn.ReLU(), nn.Tanh()

    def forward(self, x):
        x = self.tanh(self.conv1(x))
        pooled = nn.functional.avg_pool2d(x, 3, 1, 1)
        x = torch.cat([self.branch1(x), self.branch2(x), x, self.branch3(pooled)], 1)
        x = self.pointwise(self.relu(self.bn2(self.depthwise(self.relu(self.bn1(x))))))
        x = self.relu(self.grouped(x))
        return self.fc(nn.functional.adaptive_avg_pool2d(x, 1).flatten(1))


class TinyGpt(nn.Module):
    """nanoGPT's GPT-2 with an output layer of its own; positions begin with zeros."""

    class Layer(nn.Module):
        def __init__(self, width, heads):
            super().__init__()
            self.heads, self.ln_1, self.ln_2 = heads, nn.LayerNorm(width), nn.LayerNorm(width)
            self.attn = nn.ModuleDict({"c_attn": nn.Linear(width, 3 * width), "c_proj": nn.Linear(width, width)})
            self.mlp = nn.ModuleDict({"c_fc": nn.Linear(width, 4 * width), "c_proj": nn.Linear(4 * width, width)})

        def forward(self, x):
            n, t, width = x.shape
            parts = self.attn["c_attn"](self.ln_1(x)).split(width, dim=2)
            q, k, v = (part.view(n, t, self.heads, width // self.heads).transpose(1, 2) for part in parts)
            y = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + self.attn["c_proj"](y.transpose(1, 2).reshape(n, t, width))
            return x + self.mlp["c_proj"](nn.functional.gelu(self.mlp["c_fc"](self.ln_2(x))))

        @staticmethod
        def multiply_adds(x):
            """Of an example's scores and sums, the layers around them apart."""
            return 2 * x.shape[1] * x.shape[1] * x.shape[2]

    def __init__(self, vocabulary, steps, classes, layers=4, heads=4, width=128):
        super().__init__()
        position = nn.Embedding(steps, width)
        blocks = nn.ModuleList(self.Layer(width, heads) for _ in range(layers))
        self.transformer = nn.ModuleDict(
            {"wte": nn.Embedding(vocabulary, width), "wpe": position, "h": blocks, "ln_f": nn.LayerNorm(width)}
        )
        self.lm_head = nn.Linear(width, classes, bias=False)

    def forward(self, x):
        y = self.transformer["wte"](x) + self.transformer["wpe"].weight
        for block in self.transformer["h"]:
            y = block(y)
        return self.lm_head(self.transformer["ln_f"](y))


class Transformer(nn.Module):
    """The original encoder and decoder, out of torch.nn.Transformer's modules, whose projections are called in_proj and
    q_proj, k_proj, v_proj here. An example is its source, which ends in token 0, and behind that its target. tied: one
    table of both languages."""

    def __init__(self, vocabulary, steps, classes, layers=2, heads=4, width=64, tied=False):
        super().__init__()
        self.steps, self.heads, self.width = steps, heads, width
        self.tables = ("embedding",) if tied else ("src_embedding", "tgt_embedding")
        for table in self.tables:
            setattr(self, table, nn.Embedding(vocabulary, width))

        def stack(layer):
            named = []
            for i in range(layers):
                parts = layer(width, heads, 4 * width, dropout=0.0, batch_first=True)
                for attention in ("self_attn", "multihead_attn"):
                    if hasattr(parts, attention):
                        setattr(parts, attention, Attention(width, heads, attention == "self_attn"))
                named.append(parts)
            return nn.ModuleDict({"layers": nn.ModuleList(named)})

        self.encoder, self.decoder = stack(nn.TransformerEncoderLayer), stack(nn.TransformerDecoderLayer)
        self.generator = nn.Linear(width, classes)
        rates = 10000.0 ** (-np.arange(0, width, 2) / width)
        angles = np.arange(steps)[:, None] * rates
        positions = np.stack([np.sin(angles), np.cos(angles)], axis=2).reshape(steps, width).astype(np.float32)
        self.register_buffer("positions", torch.from_numpy(positions), persistent=False)

    def forward(self, x):
        source, target = x[:, : self.steps], x[:, self.steps :]
        scale = self.width**0.5
        there = (source != 0)[:, None, None, :]
        causal = torch.ones(target.shape[1], target.shape[1], dtype=torch.bool).tril()
        m = getattr(self, self.tables[0])(source) * scale + self.positions
        for layer in self.encoder["layers"]:
            m = layer.norm1(m + layer.self_attn(m, m, there))
            m = layer.norm2(m + layer.linear2(torch.relu(layer.linear1(m))))
        y = getattr(self, self.tables[-1])(target) * scale + self.positions
        for layer in self.decoder["layers"]:
            y = layer.norm1(y + layer.self_attn(y, y, causal))
            y = layer.norm2(y + layer.multihead_attn(y, m, there))
            y = layer.norm3(y + layer.linear2(torch.relu(layer.linear1(y))))
        return self.generator(y)


class Attention(nn.Module):
    """torch.nn.MultiheadAttention with other names of its projections."""

    def __init__(self, width, heads, is_packed):
        super().__init__()
        self.heads, self.is_packed = heads, is_packed
        if is_packed:
            self.in_proj = nn.Linear(width, 3 * width)
        else:
            self.q_proj, self.k_proj, self.v_proj = (nn.Linear(width, width) for _ in range(3))
        self.out_proj = nn.Linear(width, width)

    def forward(self, x, memory, mask):
        n, t, width = x.shape
        parts = self.in_proj(x).split(width, dim=2) if self.is_packed else None
        q, k, v = parts or (self.q_proj(x), self.k_proj(memory), self.v_proj(memory))
        q, k, v = (part.view(n, -1, self.heads, width // self.heads).transpose(1, 2) for part in (q, k, v))
        y = nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        return self.out_proj(y.transpose(1, 2).reshape(n, t, width))

    @staticmethod
    def multiply_adds(x, memory, mask):
        """Of an example's scores and sums, the layers around them apart."""
        return 2 * x.shape[1] * memory.shape[1] * x.shape[2]


class Gnmt(nn.Module):
    """GNMT v2 without dropout, as NVIDIA's implementation, whose parameters have these names. An example is its source, which
    ends in zeros, and behind that its target."""

    ENDS = ("encoder.embedder", "decoder.classifier.classifier")

    class Attention(nn.Module):
        def __init__(self, width):
            super().__init__()
            self.linear_q, self.linear_k = (nn.Linear(width, width, bias=False) for _ in range(2))
            self.linear_att = nn.Parameter(torch.zeros(width))
            self.normalize_scalar = nn.Parameter(torch.zeros(1))
            self.normalize_bias = nn.Parameter(torch.zeros(width))

        def forward(self, y, memory, lengths):
            x = self.linear_q(y)[:, :, None] + self.linear_k(memory)[:, None] + self.normalize_bias
            scores = torch.tanh(x) @ (self.normalize_scalar * self.linear_att / self.linear_att.norm())
            there = torch.arange(memory.shape[1]) < lengths[:, None]
            return scores.masked_fill(~there[:, None], -torch.inf).softmax(2) @ memory

        def multiply_adds(self, y, memory, lengths):
            """Of an example's scores and sums, the layers in front of them apart."""
            return y.shape[1] * memory.shape[1] * (len(self.linear_att) + memory.shape[2])

    def __init__(self, vocabulary, steps, classes, layers=3, width=48):
        super().__init__()
        self.steps = steps

        def lstm(inputs, **options):
            return nn.LSTM(inputs, width, batch_first=True, **options)

        embedder = nn.Embedding(vocabulary, width)
        encoder = [lstm(width, bidirectional=True), lstm(2 * width), *(lstm(width) for _ in range(layers - 2))]
        self.encoder = nn.ModuleDict({"embedder": embedder, "rnn_layers": nn.ModuleList(encoder)})
        self.decoder = nn.ModuleDict(
            {
                "embedder": embedder,
                "att_rnn": nn.ModuleDict({"rnn": lstm(width), "attn": self.Attention(width)}),
                "rnn_layers": nn.ModuleList(lstm(2 * width) for _ in range(layers - 1)),
                "classifier": nn.ModuleDict({"classifier": nn.Linear(width, classes)}),
            }
        )

    def encode(self, source, lengths):
        first, second, *others = self.encoder["rnn_layers"]
        x = self.encoder["embedder"](source)
        packed = nn.utils.rnn.pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
        x, _ = nn.utils.rnn.pad_packed_sequence(first(packed)[0], batch_first=True, total_length=self.steps)
        x, _ = second(x)
        for layer in others:
            x = layer(x)[0] + x
        return x

    def forward(self, x):
        source, target = x[:, : self.steps], x[:, self.steps :]
        lengths, attention = (source != 0).sum(1), self.decoder["att_rnn"]
        memory = self.encode(source, lengths)
        y, _ = attention["rnn"](self.decoder["embedder"](target))
        told = attention["attn"](y, memory, lengths)
        for i, layer in enumerate(self.decoder["rnn_layers"]):
            z, _ = layer(torch.cat((y, told), 2))
            y = z + y if i > 0 else z
        return self.decoder["classifier"]["classifier"](y)


TRANSLATORS = {"gnmt": functools.partial(Gnmt, layers=4, width=1024), "gnmt-tiny": Gnmt}


class TinyBert(nn.Module):
    """Hugging Face's BertForMaskedLM. Zeros at the end of a sequence are padding."""

    def __init__(self, vocabulary, steps, classes):
        super().__init__()
        import transformers

        config = transformers.BertConfig(
            vocab_size=vocabulary,
            hidden_size=128,
            num_hidden_layers=2,
            num_attention_heads=2,
            intermediate_size=512,
            hidden_dropout_prob=0.0,
            attention_probs_dropout_prob=0.0,
            attn_implementation="eager",
        )
        self.net = transformers.BertForMaskedLM(config)

    def named_parameters(self, *args, **options):
        return self.net.named_parameters(*args, **options)

    def forward(self, x):
        places = torch.arange(1, x.shape[1] + 1)
        lengths = ((x != 0) * places).amax(1, keepdim=True)
        return self.net(input_ids=x, attention_mask=(places <= lengths).long()).logits


class DeepSpeech2(nn.Module):
    """deepspeech.pytorch's network with GRUs. A row is an example's bands and frames, and behind them its number of frames."""

    class SequenceWise(nn.Module):
        def __init__(self, module):
            super().__init__()
            self.module = module

        def forward(self, x):
            return self.module(x.reshape(-1, x.shape[-1])).reshape(*x.shape[:2], -1)

    class BatchRnn(nn.Module):
        def __init__(self, inputs, hidden, norm):
            super().__init__()
            self.batch_norm = DeepSpeech2.SequenceWise(nn.BatchNorm1d(inputs)) if norm else None
            self.rnn = nn.GRU(inputs, hidden, batch_first=True, bidirectional=True)

        def forward(self, x, steps):
            x = self.batch_norm(x) if self.batch_norm else x
            x = nn.utils.rnn.pack_padded_sequence(x, steps, batch_first=True, enforce_sorted=False)
            x, _ = self.rnn(x)
            return nn.utils.rnn.pad_packed_sequence(x, batch_first=True)[0]

    def __init__(self, bands, frames, classes, channels=8, layers=2, hidden=64):
        super().__init__()
        self.bands, self.frames = bands, frames
        self.conv = nn.ModuleDict({"seq_module": nn.Sequential(
            nn.Conv2d(1, channels, (41, 11), (2, 2), (20, 5)), nn.BatchNorm2d(channels), nn.Hardtanh(0, 20),
            nn.Conv2d(channels, channels, (21, 11), (2, 1), (10, 5)), nn.BatchNorm2d(channels), nn.Hardtanh(0, 20),
        )})
        features = channels * (((bands - 1) // 2 + 1 - 1) // 2 + 1)
        self.rnns = nn.ModuleList(
            self.BatchRnn(features if i == 0 else hidden, hidden, i > 0) for i in range(layers)
        )
        self.fc = nn.Sequential(
            self.SequenceWise(nn.Sequential(nn.BatchNorm1d(hidden), nn.Linear(hidden, classes, bias=False)))
        )

    def forward(self, x):
        steps = (x[:, -1].long() + 1) // 2
        x = x[:, :-1].reshape(-1, 1, self.bands, self.frames)
        for module in self.conv["seq_module"]:
            x = module(x)
            x = x * (torch.arange(x.shape[3]) < steps[:, None])[:, None, None, :]
        total = x.shape[3]
        x = x.flatten(1, 2).transpose(1, 2)
        for rnn in self.rnns:
            x = rnn(x, steps)
            x = nn.functional.pad(x, (0, 0, 0, total - x.shape[1]))
            x = x.reshape(*x.shape[:2], 2, -1).sum(2)
        return self.fc(x)


class Tacotron2(nn.Module):
    """NVIDIA's network without dropout, whose parameters have these names. A row is an example's bands and frames, behind
    them its number of frames, and behind that its characters, which end in zeros."""

    class Linear(nn.Module):
        def __init__(self, inputs, outputs, bias=False):
            super().__init__()
            self.linear_layer = nn.Linear(inputs, outputs, bias=bias)

        def forward(self, x):
            return self.linear_layer(x)

    class Conv(nn.Module):
        def __init__(self, inputs, outputs, kernel, bias=True):
            super().__init__()
            self.conv = nn.Conv1d(inputs, outputs, kernel, padding=kernel // 2, bias=bias)

        def forward(self, x):
            return self.conv(x)

    class Attention(nn.Module):
        def __init__(self, hidden, encoder, width, filters):
            super().__init__()
            linear, conv = Tacotron2.Linear, Tacotron2.Conv(2, filters, 31, bias=False)
            self.query_layer, self.memory_layer = linear(hidden, width), linear(encoder, width)
            self.v = linear(width, 1)
            dense = linear(filters, width)
            self.location_layer = nn.ModuleDict({"location_conv": conv, "location_dense": dense})

        def forward(self, h, keys, before, there):
            places = self.location_layer["location_conv"](before).transpose(1, 2)
            x = self.query_layer(h)[:, None] + self.location_layer["location_dense"](places) + keys
            return self.v(torch.tanh(x))[:, :, 0].masked_fill(~there, -torch.inf).softmax(1)

    def __init__(self, classes, bands, frames, encoder=32, prenet=16, hidden=48, postnet=24, width=16, filters=8):
        super().__init__()
        self.bands, self.frames = bands, frames

        def convolutions(channels):
            pairs = zip(channels, channels[1:])
            return nn.ModuleList(nn.Sequential(self.Conv(a, b, 5), nn.BatchNorm1d(b)) for a, b in pairs)

        self.embedding = nn.Embedding(classes, encoder)
        lstm = nn.LSTM(encoder, encoder // 2, batch_first=True, bidirectional=True)
        self.encoder = nn.ModuleDict({"convolutions": convolutions(4 * [encoder]), "lstm": lstm})
        layers = nn.ModuleList([self.Linear(bands, prenet), self.Linear(prenet, prenet)])
        self.decoder = nn.ModuleDict(
            {
                "prenet": nn.ModuleDict({"layers": layers}),
                "attention_rnn": nn.LSTMCell(prenet + encoder, hidden),
                "attention_layer": self.Attention(hidden, encoder, width, filters),
                "decoder_rnn": nn.LSTMCell(hidden + encoder, hidden),
                "linear_projection": self.Linear(hidden + encoder, bands, bias=True),
                "gate_layer": self.Linear(hidden + encoder, 1, bias=True),
            }
        )
        self.postnet = nn.ModuleDict({"convolutions": convolutions([bands, *4 * [postnet], bands])})

    def encode(self, text, lengths):
        x = self.embedding(text).transpose(1, 2)
        for layer in self.encoder["convolutions"]:
            x = layer(x).relu()
        x = x.transpose(1, 2)
        packed = nn.utils.rnn.pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
        y, _ = self.encoder["lstm"](packed)
        return nn.utils.rnn.pad_packed_sequence(y, batch_first=True, total_length=text.shape[1])[0]

    def decode(self, frames, memory, there):
        d = self.decoder
        n, hidden = len(frames), d["decoder_rnn"].hidden_size
        x = nn.functional.pad(frames[:, :-1], (0, 0, 1, 0))
        for layer in d["prenet"]["layers"]:
            x = layer(x).relu()
        keys = d["attention_layer"].memory_layer(memory)
        h, c, h2, c2 = (x.new_zeros(n, hidden) for _ in range(4))
        context = x.new_zeros(n, memory.shape[2])
        weights, total = (x.new_zeros(n, memory.shape[1]) for _ in range(2))
        told = []
        for t in range(x.shape[1]):
            h, c = d["attention_rnn"](torch.cat((x[:, t], context), 1), (h, c))
            weights = d["attention_layer"](h, keys, torch.stack((weights, total), 1), there)
            total = total + weights
            context = (weights[:, None] @ memory)[:, 0]
            h2, c2 = d["decoder_rnn"](torch.cat((h, context), 1), (h2, c2))
            told.append(torch.cat((h2, context), 1))
        told = torch.stack(told, 1)
        return d["linear_projection"](told), d["gate_layer"](told)[:, :, 0]

    def forward(self, x):
        elems = self.bands * self.frames
        frames = x[:, :elems].reshape(-1, self.bands, self.frames).transpose(1, 2)
        steps, text = x[:, elems].long(), x[:, elems + 1 :].long()
        lengths = (text != 0).sum(1)
        there = torch.arange(text.shape[1]) < lengths[:, None]
        raw, ends = self.decode(frames, self.encode(text, lengths), there)
        y, (*layers, last) = raw.transpose(1, 2), self.postnet["convolutions"]
        for layer in layers:
            y = layer(y).tanh()
        return raw, raw + last(y).transpose(1, 2), ends, frames, steps


def speech_loss(told, _):
    """Of what Tacotron2 gives; frames behind an example's end count as zeros."""
    raw, fine, ends, frames, steps = told
    places = torch.arange(frames.shape[1])
    there = (places < steps[:, None]).to(frames.dtype)
    errors = ((raw - frames) ** 2 + (fine - frames) ** 2).mean(2)
    is_end = (places >= steps[:, None] - 1).to(frames.dtype)
    ends = nn.functional.binary_cross_entropy_with_logits(ends, is_end, reduction="none")
    return ((errors + ends) * there).mean()


class Recurrent(nn.Module):
    """No network of the product, but its ops: two layers of LSTM and of GRU in both directions over packed sequences,
    which begin with states that are learnt."""

    def __init__(self, vocabulary, steps, classes):
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, 12)
        self.lstm = nn.LSTM(12, 10, 2, batch_first=True, bidirectional=True)
        self.gru = nn.GRU(20, 7, 2, batch_first=True, bidirectional=True)
        self.hidden_0, self.cell_0 = nn.Parameter(torch.zeros(4, 10)), nn.Parameter(torch.zeros(4, 10))
        self.gru_0 = nn.Parameter(torch.zeros(4, 7))
        self.fc, self.of_cells = nn.Linear(14, classes), nn.Linear(40, classes)
        self.of_states = nn.Linear(28, classes)

    @staticmethod
    def run(rnn, x, lengths, states):
        def first(state):
            return state[:, None].expand(-1, len(x), -1).contiguous()

        packed = nn.utils.rnn.pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
        states = tuple(first(s) for s in states) if len(states) > 1 else first(states[0])
        y, states = rnn(packed, states)
        return nn.utils.rnn.pad_packed_sequence(y, batch_first=True, total_length=x.shape[1])[0], states

    def forward(self, x):
        lengths = (x != 0).sum(1)  # no token in front of the padding is 0
        y, (_, c) = self.run(self.lstm, self.embedding(x), lengths, (self.hidden_0, self.cell_0))
        y, h = self.run(self.gru, y, lengths, (self.gru_0,))
        ends = self.of_cells(c.transpose(0, 1).flatten(1)) + self.of_states(h.transpose(0, 1).flatten(1))
        return self.fc(y) + ends[:, None]


def build(model, channels, size, classes, padding="same"):
    """size: of the images, both sides or (height, width)."""
    sides = size if isinstance(size, tuple) else (size, size)
    if model == "blocks":
        return Blocks(channels, classes)
    if model == "lenet5":
        return lenet5(channels, sides, classes)
    if model == "mnist-small":
        return mnist([32], [64], channels, sides, classes, padding)
    if model == "mnist-large":
        return mnist([128, 256, 512], [512, 512], channels, sides, classes, padding)
    if model == "alexnet":
        return alexnet(channels, classes)
    if model == "resnet18":
        return resnet([2, 2, 2, 2], False, False, channels, classes)
    if model == "resnet18-cifar":
        return resnet([2, 2, 2, 2], False, True, channels, classes)
    if model == "resnet50":
        return resnet([3, 4, 6, 3], True, False, channels, classes)
    if model == "vgg16-tiny":
        return vgg16_tiny(channels, classes)
    if model == "inception-v3-tiny":
        return inception_v3_tiny(channels, classes)
    raise ValueError(f"no model {model}")


# ---- numbers by hash: tests/golden_test.c has the same functions -----------------------------------------------------

INPUT_STREAM, LABEL_STREAM, LENGTH_STREAM, SOURCE_STREAM, SKETCH_STREAM = 1000, 1001, 1002, 1003, 2000


def hash32(stream, n):
    """A 32-bit hash of (stream, i) for i = 0..n-1, as uint32 (murmur3's finaliser)."""
    with np.errstate(over="ignore"):
        h = np.arange(n, dtype=np.uint32) * np.uint32(2654435761)
        h += np.uint32((stream * 2246822519 + 374761393) & 0xFFFFFFFF)
        h ^= h >> np.uint32(16)
        h *= np.uint32(0x85EBCA6B)
        h ^= h >> np.uint32(13)
        h *= np.uint32(0xC2B2AE35)
        h ^= h >> np.uint32(16)
    return h


def values(stream, n, scale):
    """n f32 values in [-scale, scale), exact: 24-bit fractions times a power of two."""
    fractions = (hash32(stream, n) >> np.uint32(8)).astype(np.int64) - (1 << 23)
    return fractions.astype(np.float32) * np.float32(scale / (1 << 23))


def labels(n, classes):
    return (hash32(LABEL_STREAM, n) % np.uint32(classes)).astype(np.int64)


def tokens(n, steps, vocabulary):
    return (hash32(INPUT_STREAM, n * steps) % np.uint32(vocabulary)).astype(np.int64).reshape(n, steps)


def padded_tokens(n, steps, vocabulary):
    """The same, but 0 behind the ends of sequences, and there alone."""
    inside = sequence_labels(n, steps, vocabulary) != IGNORED
    return np.where(inside, 1 + tokens(n, steps, vocabulary - 1), 0)


def translations(n, steps, vocabulary):
    """Sources of different lengths, the third of them 1, with 0 behind their ends, and targets."""
    lengths = 1 + (hash32(SOURCE_STREAM, n) % np.uint32(steps)).astype(np.int64)
    lengths[2] = 1
    x = 1 + tokens(n, 2 * steps, vocabulary - 1)
    x[:, :steps][np.arange(steps) >= lengths[:, None]] = 0
    return x


def recordings(n, bands, frames, labels_most, classes):
    """Rows of features up to a length of each example, zeros behind it, and the length; the third is too short for its
    labels. Labels, of which each example has its own number, and behind them the steps."""
    elems = bands * frames
    x = values(INPUT_STREAM, n * (elems + 1), 1.0).reshape(n, elems + 1).copy()
    lengths = frames - (hash32(SOURCE_STREAM, n) % np.uint32(frames // 2)).astype(np.int64)
    counts = (hash32(LENGTH_STREAM, n) % np.uint32(labels_most + 1)).astype(np.int64)
    lengths[2], counts[2] = 1, labels_most
    inside = np.arange(frames) < lengths[:, None]
    x[:, :elems] = (x[:, :elems].reshape(n, bands, frames) * inside[:, None, :]).reshape(n, elems)
    x[:, elems] = lengths
    y = 1 + (hash32(LABEL_STREAM, n * labels_most) % np.uint32(classes - 1)).astype(np.int64).reshape(n, labels_most)
    y = np.where(np.arange(labels_most) < counts[:, None], y, IGNORED)
    return x, np.concatenate([y, (lengths[:, None] + 1) // 2], 1)


def speeches(n, bands, frames, characters, classes):
    """Rows of features up to a length of each example, which of the third is 1, zeros behind it, and the length; behind that
    characters, of the second example one, with 0 behind their ends."""
    elems = bands * frames
    x = values(INPUT_STREAM, n * (elems + 1 + characters), 1.0).reshape(n, elems + 1 + characters).copy()
    lengths = frames - (hash32(SOURCE_STREAM, n) % np.uint32(frames // 2)).astype(np.int64)
    counts = 1 + (hash32(LENGTH_STREAM, n) % np.uint32(characters)).astype(np.int64)
    lengths[2], counts[1] = 1, 1
    inside = np.arange(frames) < lengths[:, None]
    x[:, :elems] = (x[:, :elems].reshape(n, bands, frames) * inside[:, None, :]).reshape(n, elems)
    x[:, elems] = lengths
    text = 1 + (hash32(LABEL_STREAM, n * characters) % np.uint32(classes - 1)).reshape(n, characters)
    x[:, elems + 1 :] = np.where(np.arange(characters) < counts[:, None], text, 0)
    return x


IGNORED = -1


def sequence_labels(n, steps, classes):
    """Labels of sequences of different lengths, one of them 1, and nothing behind their ends."""
    lengths = 1 + (hash32(LENGTH_STREAM, n) % np.uint32(steps)).astype(np.int64)
    lengths[1] = 1
    return np.where(np.arange(steps) < lengths[:, None], labels(n * steps, classes).reshape(n, steps), IGNORED)


def cross_entropy(logits, y):
    """Of sequences [N, T, K] the mean over all labels that are not ignored."""
    return nn.functional.cross_entropy(logits.reshape(-1, logits.shape[-1]), y.reshape(-1), ignore_index=IGNORED)


def ctc(logits, y):
    """Of logits [N, T, K] and what `recordings` gives: the mean over the examples of each one's mean over its labels."""
    y, steps = y[:, :-1], y[:, -1]
    logs = logits.log_softmax(2).transpose(0, 1)
    counts = (y != IGNORED).sum(1)
    return nn.functional.ctc_loss(logs, y.clamp(min=0), steps, counts, blank=0, zero_infinity=True)


SKETCH = 64


def sketch(x, sums=SKETCH):
    """What a golden file holds of a tensor: all of it up to 64 elements; else 64 sums, where element i is added to sum
    h % 64 with the sign of bit 31 of h = hash(SKETCH_STREAM, i). Every element counts, and the norm of a difference of
    sketches is an unbiased measure of the norm of the difference (Charikar, Chen, Farach-Colton, "Finding frequent
    items in data streams", 2002). Deep networks have many tensors, and fewer `sums` of each."""
    x = np.asarray(x, dtype=np.float64).ravel()
    if x.size <= sums:
        return x
    h = hash32(SKETCH_STREAM, x.size)
    return np.bincount(h % sums, weights=np.where(h >> 31, -x, x), minlength=sums)


def set_weights(net):
    """Weights by hash, of about PyTorch's usual size; returns the scale of each parameter."""
    scales, parameters = {}, dict(net.named_parameters())
    with torch.no_grad():
        for stream, (name, parameter) in enumerate(parameters.items()):
            weight = parameters.get(name.replace("bias", "weight"), parameter)
            fan_in = weight[0].numel()
            scales[name] = 2.0 ** round(np.log2(1 / np.sqrt(fan_in)))
            parameter.copy_(
                torch.from_numpy(values(stream, parameter.numel(), scales[name]).reshape(parameter.shape))
            )
    return scales


def set_deep_weights(net, branch=1.0, shift=0.0):
    """Weights by hash of the size that keeps the signal's through ReLUs, those of batch normalisation around 1; around
    `branch` at the end of each residual branch. Its biases (those of all layers where there is no normalisation) are
    around `shift`, which moves the inputs of ReLUs away from 0, and which the layers behind make up for. Returns the
    [offset, scale] of each parameter."""
    how = {}
    parameters = dict(net.named_parameters())
    normalised = any(p.dim() == 1 and name.endswith(".weight") for name, p in parameters.items())
    with torch.no_grad():
        for stream, (name, parameter) in enumerate(parameters.items()):
            kind, weight = name.rsplit(".", 1)[1], parameters[name.rsplit(".", 1)[0] + ".weight"]
            last = "bn3" if name.rsplit(".", 2)[0] + ".bn3.weight" in parameters else "bn2"
            if weight.dim() == 1:
                size = branch if name.endswith(f".{last}.weight") else 1.0
                offset, scale = (size, size / 4) if kind == "weight" else (shift, 0.25)
            else:
                variance = (6 if kind == "weight" else 1) / weight[0].numel()
                if parameter.dim() == 2 or (parameter.dim() == 4 and stream > 0 and not normalised):
                    variance /= 1 + shift**2
                offset = shift if kind == "bias" and not normalised else 0.0
                scale = 2.0 ** round(np.log2(variance) / 2)
            how[name] = [offset, scale]
            x = np.float32(offset) + values(stream, parameter.numel(), scale)
            parameter.copy_(torch.from_numpy(x.reshape(parameter.shape)))
    return how


OPTIMIZERS = {
    "sgd": lambda p: torch.optim.SGD(p, lr=0.05, momentum=0.9),
    "adam": lambda p: torch.optim.Adam(p, lr=0.001),
}


def batches(x, y, batch):
    """Consecutive batches in order, the last one of an epoch short, without end."""
    while True:
        for begin in range(0, len(x), batch):
            yield x[begin : begin + batch], y[begin : begin + batch]


def train(net, make_optimizer, x, y, batch, steps, loss_of=cross_entropy):
    """Losses before each update."""
    optimizer, losses = make_optimizer(net.parameters()), []
    for (bx, by), _ in zip(batches(x, y, batch), range(steps)):
        optimizer.zero_grad()
        loss = loss_of(net(bx), by)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses

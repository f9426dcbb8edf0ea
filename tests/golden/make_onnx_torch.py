"""Small networks as PyTorch's exporter writes them for training, with outputs, loss and gradients of PyTorch in f64:
tests/golden/onnx/torch-*.onnx and .json: a residual one; one with a gate of channels, a transformer's block, and
arithmetic; one with attention in shifted windows; and by the newer exporter, which notes what is a buffer, one with buffers
that are added and multiplied with; one whose channels are shuffled; and of tokens an encoder whose padding nobody sees, an
encoder that sees nothing behind its place, a transformer from one sequence to another, and recurrent layers; and some whose
second dimension is open (torch-open-*). Needs PyTorch
(2.15; the second was made by 2.9), torchvision and onnx, by hand:

    python tests/golden/make_onnx_torch.py tests/golden/onnx [NAME...]
"""

import json
import pathlib
import sys

import onnx
import torch
from torch import nn
from torchvision.models import shufflenetv2, swin_transformer
from torchvision.ops import StochasticDepth

FOLDER = pathlib.Path(sys.argv[1])
BATCH, CLASSES = 3, 10


class Block(nn.Module):
    def __init__(self, channels, out, stride):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(channels, out, 3, stride, 1, bias=False), nn.BatchNorm2d(out)
        self.conv2, self.bn2 = nn.Conv2d(out, out, 3, 1, 1, bias=False), nn.BatchNorm2d(out)
        self.relu = nn.ReLU(inplace=True)
        shortcut = nn.Sequential(nn.Conv2d(channels, out, 1, stride, bias=False), nn.BatchNorm2d(out))
        self.downsample = shortcut if channels != out else None

    def forward(self, x):
        shortcut = self.downsample(x) if self.downsample else x
        return self.relu(self.bn2(self.conv2(self.relu(self.bn1(self.conv1(x))))) + shortcut)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(3, 8, 7, 2, 3, bias=False), nn.BatchNorm2d(8)
        self.maxpool, self.avgpool = nn.MaxPool2d(3, 2, 1), nn.AdaptiveAvgPool2d((1, 1))
        self.layer1 = nn.Sequential(Block(8, 8, 1), Block(8, 16, 2))
        self.relu, self.act, self.drop, self.fc = nn.ReLU(), nn.SiLU(), nn.Dropout(0.0), nn.Linear(16, CLASSES)

    def forward(self, x):
        x = self.avgpool(self.layer1(self.maxpool(self.relu(self.bn1(self.conv1(x))))))
        return self.fc(self.drop(self.act(torch.flatten(x, 1))))


class Attention(nn.Module):
    """Patches of an image with a class token and positions, one block of a transformer, and moves of all kinds."""

    def __init__(self, width=12, heads=3):
        super().__init__()
        self.conv, self.heads, self.width = nn.Conv2d(3, width, 4, 4), heads, width
        self.squeeze, self.excite = nn.Conv2d(width, 4, 1), nn.Conv2d(4, width, 1)
        self.token, self.position = nn.Parameter(torch.zeros(1, 1, width)), nn.Parameter(torch.randn(1, 17, width) / 4)
        self.scale = nn.Parameter(torch.rand(width))
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 20), nn.Linear(20, width)
        self.fc = nn.Linear(2 * width, CLASSES)

    def attend(self, x):
        q, k, v = [
            y.reshape(-1, 17, self.heads, self.width // self.heads).permute(0, 2, 1, 3)
            for y in self.qkv(x).chunk(3, dim=-1)]
        weights = torch.softmax(q @ k.transpose(-2, -1) / (self.width // self.heads) ** 0.5, dim=-1)
        return self.out((weights @ v).permute(0, 2, 1, 3).reshape(-1, 17, self.width))

    def forward(self, x):
        x = self.conv(x)
        gate = torch.sigmoid(self.excite(nn.functional.relu(self.squeeze(x.mean((2, 3), keepdim=True)))))
        x = (x * gate).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(x.shape[0], -1, -1), x], dim=1) + self.position
        x = x + self.attend(self.norm1(x)) * self.scale
        x = x + self.down(nn.functional.gelu(self.up(self.norm2(x))))
        y = x[:, 1:].transpose(1, 2).reshape(-1, self.width, 4, 4)
        y = (y[:, :, ::2, 1:] ** 2).sum((2, 3)) / (1 + y.abs().amax((2, 3)))
        return self.fc(torch.cat([x[:, 0], torch.log(1.5 - torch.exp(-y))], dim=1))


class Windows(nn.Module):
    """Attention in shifted windows of both Swin transformers, PyTorch's own attention, which puts the batch in the second
    place, and products by einsum: tensors whose batch is joined with windows, or with time, and masks made by nodes."""

    def __init__(self, width=8):
        super().__init__()
        self.conv, self.norm1, self.norm2 = nn.Conv2d(3, width, 2, 2), nn.LayerNorm(width), nn.LayerNorm(width)
        self.windows = swin_transformer.ShiftedWindowAttention(width, [3, 3], [1, 1], 2)
        self.windows2 = swin_transformer.ShiftedWindowAttentionV2(width, [3, 3], [1, 1], 2)
        self.attention, self.fc = nn.MultiheadAttention(width, 2, batch_first=True), nn.Linear(width, CLASSES)

    def forward(self, x):
        x = self.conv(x).permute(0, 2, 3, 1)
        x = x + self.windows(self.norm1(x))
        x = (x + self.windows2(x)).flatten(1, 2)
        y = self.norm2(x)
        x = x + self.attention(y, y, y, need_weights=False)[0]
        weights = torch.softmax(torch.einsum("bid,bjd->bij", x, x) / 4, dim=-1)
        return self.fc(torch.einsum("bij,bjd->bid", weights, x).mean(1))


class Strided(nn.Module):
    """What the newer exporter asks of one dimension of all elements of the batch: ConvNeXt's pooling in front of a norm of
    channels, and places that overlap."""

    def __init__(self, width=6):
        super().__init__()
        self.conv, self.norm, self.fc = nn.Conv2d(3, width, 4, 4), nn.LayerNorm(width), nn.Linear(12, CLASSES)

    def forward(self, x):
        x = nn.functional.adaptive_avg_pool2d(self.conv(x), 1).permute(0, 2, 3, 1)
        x = self.norm(x).flatten(1)
        return self.fc((x * 2).as_strided((x.shape[0], 4, 3), (6, 1, 1)).flatten(1))


class Drops(nn.Module):
    """Dropout that exporters make of random numbers: of channels and in place, which only the newer one writes, of whole
    examples as torchvision has it, and as Hugging Face does."""

    draws_numbers = True

    def __init__(self, all_kinds, width=4):
        super().__init__()
        self.conv1, self.conv2, self.fc = nn.Conv2d(3, width, 4, 4), nn.Conv2d(width, width, 1), nn.Linear(width, CLASSES)
        self.drops = nn.Sequential(nn.Dropout2d(0.3), nn.Dropout(0.4, inplace=True)) if all_kinds else nn.Identity()
        self.depth = StochasticDepth(0.2, "row")

    def path(self, x, keep=0.9):
        if not self.training:
            return x
        return x.div(keep) * (keep + torch.rand((x.shape[0], 1, 1, 1), dtype=x.dtype, device=x.device)).floor_()

    def forward(self, x):
        x = self.drops(self.conv1(x))
        x = x + self.depth(self.conv2(x))
        return self.fc((x + self.path(torch.tanh(x))).mean((2, 3)))


class Series1d(nn.Module):
    """Along one dimension: convolutions, a residual block, pooling, and batch normalisation, which here also has no dimension
    beside the channels."""

    def __init__(self, all_norms, width=6):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv1d(2, width, 5, 2, 2, bias=False), nn.BatchNorm1d(width)
        self.conv2, self.bn2 = nn.Conv1d(width, width, 3, padding=2, dilation=2, groups=2, bias=False), nn.BatchNorm1d(width)
        self.up, self.fc1 = nn.ConvTranspose1d(width, 4, 3, 2, 1, output_padding=1), nn.Linear(16, 7, bias=not all_norms)
        self.bn3, self.fc2 = nn.BatchNorm1d(7) if all_norms else nn.Identity(), nn.Linear(7, CLASSES)
        self.pool, self.smooth = nn.MaxPool1d(3, 2, 1), nn.AvgPool1d(2, 2)

    def draw(self):
        return [torch.randn(BATCH, 2, 17)], torch.arange(BATCH)

    def forward(self, x):
        x = self.pool(torch.relu(self.bn1(self.conv1(x))))
        x = torch.relu(x + self.bn2(self.conv2(x)))
        x = self.smooth(torch.tanh(self.up(x)))[:, :, :3]
        x = torch.cat([x.flatten(1), nn.functional.adaptive_avg_pool1d(x, 1).flatten(1)], 1)
        return self.fc2(nn.functional.gelu(self.bn3(self.fc1(x))))


class Shuffle(nn.Module):
    """ShuffleNetV2's blocks, which end in a shuffle of channels."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 4, 4)
        self.down, self.block = shufflenetv2.InvertedResidual(8, 12, 2), shufflenetv2.InvertedResidual(12, 12, 1)
        self.fc = nn.Linear(12, CLASSES)

    def forward(self, x):
        return self.fc(self.block(self.down(self.conv(x))).mean([2, 3]))


class Buffers(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.mlp = nn.Conv2d(3, 4, 4, 4), nn.Linear(2, 4)
        self.register_buffer("table", torch.randn(16, 2))
        self.register_buffer("mix", torch.randn(4, 4) / 2)
        self.position, self.fc = nn.Parameter(torch.randn(16, 4) / 4), nn.Linear(4, CLASSES)

    def forward(self, x):
        x = self.conv(x).flatten(2).permute(0, 2, 1) + self.mlp(self.table) + self.position
        return self.fc(torch.tanh(x @ self.mix).mean(1))


VOCABULARY, STEPS = 12, 6


def tokens(steps=STEPS):
    """With padding behind them, but in the first example."""
    x = torch.randint(1, VOCABULARY, (BATCH, steps))
    x[torch.arange(steps) >= torch.tensor([steps, 2, steps - 1])[:, None]] = 0
    return x


class Encoder(nn.Module):
    """PyTorch's own layers over tokens and learnt positions; the output has a row of logits for each token."""

    def __init__(self, width=8, most=STEPS):
        super().__init__()
        self.embed, self.position = nn.Embedding(VOCABULARY, width), nn.Embedding(most, width)
        layer = nn.TransformerEncoderLayer(width, 2, 12, dropout=0.0, batch_first=True)
        self.encoder, self.fc = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False), nn.Linear(width, VOCABULARY)

    def draw(self):
        return [tokens()], torch.randint(0, VOCABULARY, (BATCH, STEPS))

    def forward(self, x):
        y = self.embed(x) + self.position(torch.arange(x.shape[1]))
        return self.fc(self.encoder(y, src_key_padding_mask=x == 0))


class Decoder(nn.Module):
    """As GPTs are written: as much of the positions and of a mask of truths as there are places."""

    def __init__(self, width=8, heads=2, most=16):
        super().__init__()
        self.embed, self.width, self.heads = nn.Embedding(VOCABULARY, width), width, heads
        self.position = nn.Parameter(torch.randn(1, most, width) / 4)
        self.register_buffer("table", torch.tril(torch.ones(most, most, dtype=torch.bool))[None, None])
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down, self.fc = nn.Linear(width, 20), nn.Linear(20, width), nn.Linear(width, VOCABULARY)

    def draw(self):
        return [tokens()], torch.randint(0, VOCABULARY, (BATCH, STEPS))

    def attend(self, x):
        n, places, _ = x.shape
        q, k, v = [y.view(n, places, self.heads, self.width // self.heads).transpose(1, 2)
                   for y in self.qkv(x).split(self.width, dim=2)]
        weights = (q @ k.transpose(-2, -1) / k.shape[-1] ** 0.5).masked_fill(~self.table[:, :, :places, :places], -torch.inf)
        return self.out((torch.softmax(weights, dim=-1) @ v).transpose(1, 2).contiguous().view(n, places, self.width))

    def forward(self, x):
        y = self.embed(x) + self.position[:, :x.shape[1]]
        y = y + self.attend(self.norm1(y))
        return self.fc(y + self.down(nn.functional.gelu(self.up(self.norm2(y)))))


class Series(nn.Module):
    """Of values, with positions that are computed, and PyTorch's attention; one output for the whole."""

    def __init__(self, width=8):
        super().__init__()
        self.enter, self.attention, self.fc = nn.Linear(3, width), nn.MultiheadAttention(width, 2, batch_first=True), nn.Linear(
            width, CLASSES)

    def draw(self):
        return [torch.randn(BATCH, STEPS, 3)], torch.randint(0, CLASSES, (BATCH,))

    def forward(self, x):
        x = self.enter(x)
        turns = torch.arange(x.shape[1])[:, None] * torch.exp(torch.arange(0, 8, 2) * -0.5)
        x = x + torch.stack([torch.sin(turns), torch.cos(turns)], dim=-1).flatten(1)
        heads = x.view(x.shape[0], x.shape[1], 2, 4).transpose(1, 2)
        y = nn.functional.scaled_dot_product_attention(heads, heads, heads, is_causal=True)
        x = x + y.transpose(1, 2).reshape(x.shape)
        return self.fc((x + self.attention(x, x, x, need_weights=False)[0]).mean(1))


class Causal(nn.Module):
    """An encoder whose places see what is in front of them: PyTorch makes the mask itself, of truths."""

    def __init__(self, width=8):
        super().__init__()
        self.embed, self.fc = nn.Embedding(VOCABULARY, width), nn.Linear(width, VOCABULARY)
        layer = nn.TransformerEncoderLayer(width, 2, 12, dropout=0.0, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 1, enable_nested_tensor=False)

    def draw(self):
        return [tokens()], torch.randint(0, VOCABULARY, (BATCH, STEPS))

    def forward(self, x):
        y = self.embed(x)
        mask = nn.Transformer.generate_square_subsequent_mask(x.shape[1], dtype=y.dtype)
        return self.fc(self.encoder(y, mask=mask, is_causal=True))


class Masks(nn.Module):
    """Attention whose causal mask is a buffer of floats: what is filled, what is added, and what is chosen by truths."""

    def __init__(self, width=8):
        super().__init__()
        self.embed, self.fc = nn.Embedding(VOCABULARY, width), nn.Linear(width, VOCABULARY)
        self.layers = nn.ModuleList(nn.Linear(width, 3 * width) for _ in range(3))
        self.register_buffer("mask", torch.tril(torch.ones(2 * STEPS, 2 * STEPS))[None])

    def draw(self):
        return [tokens()], torch.randint(0, VOCABULARY, (BATCH, STEPS))

    def forward(self, x):
        x = self.embed(x)
        mask = self.mask[:, :x.shape[1], :x.shape[1]]
        for i, layer in enumerate(self.layers):
            query, key, value = layer(x).chunk(3, dim=2)
            scores = query @ key.transpose(1, 2)
            if i == 0:
                scores = scores.masked_fill(mask == 0, float("-inf"))
            elif i == 1:
                scores = scores + (1 - mask) * -1e9
            else:
                scores = torch.where(mask.bool(), scores, -1e9)
            x = x + scores.softmax(2) @ value
        return self.fc(x)


class HuggingFace(nn.Module):
    """One of Hugging Face's, small, without dropout: the masks and places that it computes by nodes, for a batch of one kind."""

    def __init__(self, kind, config, **sizes):
        super().__init__()
        import transformers  # only these need it
        config = getattr(transformers, config)(**sizes)
        self.net, self.causal = getattr(transformers, kind)(config), "Causal" in kind or "LMHead" in kind
        self.reads_images, self.classifies = "Image" in kind, "Classification" in kind
        for part in self.net.modules():
            if isinstance(part, nn.Embedding):
                part.padding_idx = None  # which a file does not say

    def draw(self):
        labels = torch.arange(BATCH) if self.classifies else torch.randint(0, VOCABULARY, (BATCH, STEPS))
        return [torch.randn(BATCH, 3, 16, 16) if self.reads_images else tokens()], labels

    def forward(self, x):
        return self.net(x, return_dict=False, **({"use_cache": False} if self.causal else {}))[0]


def gpt2():
    return HuggingFace("GPT2LMHeadModel", "GPT2Config", vocab_size=VOCABULARY, n_positions=STEPS, n_embd=8, n_layer=2, n_head=2, attn_pdrop=0, resid_pdrop=0,
                       embd_pdrop=0, tie_word_embeddings=False)


def llama():
    return HuggingFace("LlamaForCausalLM", "LlamaConfig", vocab_size=VOCABULARY, hidden_size=8, num_hidden_layers=2, num_attention_heads=4,
                       num_key_value_heads=2, intermediate_size=12, max_position_embeddings=STEPS)


def vit():
    return HuggingFace("ViTForImageClassification", "ViTConfig", hidden_size=8, num_hidden_layers=2, num_attention_heads=2,
                       intermediate_size=12, image_size=16, patch_size=4, num_labels=CLASSES, hidden_dropout_prob=0,
                       attention_probs_dropout_prob=0)


def distilbert():
    return HuggingFace("DistilBertForSequenceClassification", "DistilBertConfig", vocab_size=VOCABULARY, dim=8, n_layers=2, n_heads=2,
                       hidden_dim=12, max_position_embeddings=STEPS, num_labels=CLASSES, dropout=0, attention_dropout=0,
                       seq_classif_dropout=0)


def bert():
    return HuggingFace("BertForMaskedLM", "BertConfig", vocab_size=VOCABULARY, hidden_size=8, num_hidden_layers=2, num_attention_heads=2, intermediate_size=12,
                       max_position_embeddings=STEPS, hidden_dropout_prob=0, attention_probs_dropout_prob=0, tie_word_embeddings=False)


class Translator(nn.Module):
    """PyTorch's whole transformer, of two sequences: padding of the first one, and a causal mask of the second one."""

    def __init__(self, width=8):
        super().__init__()
        self.source, self.target = nn.Embedding(VOCABULARY, width), nn.Embedding(VOCABULARY, width)
        self.transformer = nn.Transformer(width, 2, 1, 2, 12, dropout=0.0, batch_first=True)
        self.fc = nn.Linear(width, VOCABULARY)

    def draw(self):
        return [tokens(), tokens(STEPS - 1)], torch.randint(0, VOCABULARY, (BATCH, STEPS - 1))

    def forward(self, x, second):
        x, y, padding = self.source(x), self.target(second), x == 0
        mask = nn.Transformer.generate_square_subsequent_mask(second.shape[1], dtype=y.dtype)
        return self.fc(self.transformer(x, y, tgt_mask=mask, src_key_padding_mask=padding, memory_key_padding_mask=padding))


class Recurrent(nn.Module):
    """Of each token a row of logits. PyTorch turns gates by nodes, unless its older exporter folds constants."""

    folds = True

    def __init__(self, kind, width=6, hidden=5, **options):
        super().__init__()
        self.embed, self.rnn = nn.Embedding(VOCABULARY, width), kind(width, hidden, batch_first=True, **options)
        self.fc = nn.Linear(2 * hidden if self.rnn.bidirectional else hidden, VOCABULARY)

    def draw(self):
        return [tokens()], torch.randint(0, VOCABULARY, (BATCH, STEPS))

    def forward(self, x):
        return self.fc(self.rnn(self.embed(x))[0])


class LaterRecurrent(Recurrent):
    """The same of tokens [places, batch], the order that PyTorch's recurrent layers have by default."""

    batch_second = True

    def __init__(self, kind, **options):
        super().__init__(kind, **options)
        self.rnn.batch_first = False


class LaterEncoder(nn.Module):
    """Of values [places, batch, features]."""

    batch_second = True

    def __init__(self, width=8):
        super().__init__()
        layer = nn.TransformerEncoderLayer(width, 2, 2 * width, dropout=0)
        self.encoder, self.fc = nn.TransformerEncoder(layer, 1, enable_nested_tensor=False), nn.Linear(width, 3)

    def draw(self):
        return [torch.randn(BATCH, STEPS, 8)], torch.randint(0, 3, (BATCH, STEPS))

    def forward(self, x):
        return self.fc(self.encoder(x))


def folded_names(path, net):
    """What the exporter calls parameters that it has computed: those of recurrent layers, one behind the other, and the last
    matrix."""
    nodes = onnx.load(path).graph.node
    names = {name: name for name, _ in net.named_parameters()}
    recurrent = [node for node in nodes if node.op_type in ("LSTM", "GRU")]
    ways = ["", "_reverse"] if net.rnn.bidirectional else [""]
    for layer, node in enumerate(recurrent):
        for way in ways:
            for part in ("ih", "hh"):
                names[f"rnn.weight_{part}_l{layer}{way}"] = node.input[1 if part == "ih" else 2] + way
                names[f"rnn.bias_{part}_l{layer}{way}"] = f"{node.input[3]}{way}_{part}_l0"
    names["fc.weight"] = [node for node in nodes if node.op_type == "MatMul"][-1].input[1]
    return names


def numbers(values):
    return [float(f"{v:.9g}") for v in values.detach().double().numpy().ravel()]


def forget_sources(path):
    """Of where nodes come from, and where the exporter's machine has PyTorch and this script, which the newer one writes
    beside each node."""
    model = onnx.load(path)
    for node in model.graph.node:
        del node.metadata_props[:]
    for at in [*model.graph.input, *model.graph.output, *model.graph.value_info]:
        kept = [p for p in at.metadata_props if "stack_trace" not in p.key]
        del at.metadata_props[:]
        at.metadata_props.extend(kept)
    onnx.save(model, path)


def save(name, net, newer, open_dims):
    """newer: the opset, by the newer exporter. open_dims: the file has a name for the second dimension of each input, and is made of twice as many places as it is asked
    about; but the older exporter puts the number of places into nn.MultiheadAttention."""
    x, labels = net.draw() if hasattr(net, "draw") else ([torch.randn(BATCH, 3, 16, 16)], torch.arange(BATCH))
    names = ["input", "second"][:len(x)]
    for part in net.modules():
        if isinstance(part, nn.modules.batchnorm._BatchNorm):
            part.running_mean.uniform_(-0.3, 0.3)
            part.running_var.uniform_(0.5, 1.5)
            nn.init.uniform_(part.weight, 0.5, 1.5)
            nn.init.uniform_(part.bias, -0.3, 0.3)
    export_x, axes = tuple(x), [{0: "batch"} for _ in names]
    at, run = 0, net
    if hasattr(net, "batch_second"):
        at, run = 1, lambda *x: net(*[one.transpose(0, 1) for one in x]).transpose(0, 1)
        export_x, axes = tuple(one.transpose(0, 1).contiguous() for one in x), [{1: "batch"}]
    if open_dims:
        fixed = any(isinstance(part, nn.MultiheadAttention) for part in net.modules())
        export_x = tuple(one if fixed else torch.cat([one, one], dim=1) for one in x)
        axes = [{0: "batch", 1: f"places{i}"} for i in range(len(x))]
    if newer:
        shapes = {1: torch.export.Dim("places", max=2 * STEPS)} if open_dims else {}
        torch.onnx.export(net.train(), export_x, FOLDER / f"{name}.onnx", dynamo=True, external_data=False, optimize=False,
                          opset_version=newer, input_names=["input"],
                          dynamic_shapes={"x": {at: torch.export.Dim("batch"), **shapes}})
        forget_sources(FOLDER / f"{name}.onnx")
    else:
        torch.onnx.export(net.train(), export_x, FOLDER / f"{name}.onnx", training=torch.onnx.TrainingMode.TRAINING,
                          opset_version=17, do_constant_folding=hasattr(net, "folds"), dynamo=False, input_names=names,
                          dynamic_axes=dict(zip(names, axes)))
    called = folded_names(FOLDER / f"{name}.onnx", net) if hasattr(net, "folds") and not newer else {}
    net.double()
    x = [one.double() if one.is_floating_point() else one for one in x]
    net.eval()
    outputs = run(*x)
    if hasattr(net, "draws_numbers"):  # which are others in Ronde, so that there is no loss to compare
        expected = {"batch": BATCH, "x": numbers(x[0]), "labels": labels.tolist(), "outputs": numbers(outputs)}
        (FOLDER / f"{name}.json").write_text(json.dumps(expected, indent=0) + "\n")
        return
    net.train()
    loss = nn.functional.cross_entropy(run(*x).flatten(0, -2), labels.flatten())
    loss.backward()
    places = {"places": [one.shape[1] for one in x]} if open_dims else {}
    x = torch.cat([one.flatten(1) for one in x], dim=1)
    expected = {"batch": BATCH, **places, "x": numbers(x), "labels": labels.flatten().tolist(), "outputs": numbers(outputs),
                "buffers": [name for name, b in net.named_buffers() if name.endswith("table") and not newer],
                "loss": loss.item(), "gradients": {called.get(name, name): numbers(p.grad.T if name == "fc.weight" and called else p.grad)
                                                    for name, p in net.named_parameters() if p.grad is not None}}
    (FOLDER / f"{name}.json").write_text(json.dumps(expected, indent=0) + "\n")


KINDS = {"torch-resnet": Net, "torch-attention": Attention, "torch-windows": Windows,
         "torch-shuffle": Shuffle, "torch-encoder": Encoder, "torch-causal": Causal, "torch-translator": Translator,
         "torch-lstm": lambda: Recurrent(nn.LSTM), "torch-lstms": lambda: Recurrent(nn.LSTM, num_layers=2, bidirectional=True),
         "torch-later-grus": lambda: LaterRecurrent(nn.GRU, bidirectional=True), "torch-later-encoder": LaterEncoder,
         "torch-series1d": lambda: Series1d(True), "torch-drops": lambda: Drops(False), "torch-bert": bert, "torch-grus": lambda: Recurrent(nn.GRU, num_layers=2, bidirectional=True)}
OPEN = {"torch-open-encoder": lambda: Encoder(most=16), "torch-open-causal": Causal, "torch-open-translator": Translator, "torch-open-gpt": Decoder,
        "torch-open-lstms": KINDS["torch-lstms"], "torch-open-series": Series, "torch-open-masks": Masks}
NEWER = {"torch-buffers": (Buffers, 20), "torch-newer-resnet": (Net, 20), "torch-newer-gpt": (Decoder, 20), "torch-newer-causal": (Causal, 20),
         "torch-newer-encoder": (Encoder, 20), "torch-newer-series": (Series, 20), "torch-newer-heads": (Series, 23),
         "torch-newer-masked": (Causal, 23), "torch-newer-open-gpt": (Decoder, 20), "torch-newer-open-heads": (Series, 23),
         "torch-newer-open-masks": (Masks, 20), "torch-newer-windows": (Windows, 20), "torch-newer-strided": (Strided, 20),
         "torch-newer-series1d": (lambda: Series1d(False), 20), "torch-newer-drops": (lambda: Drops(True), 20),
         "torch-newer-lstms": (KINDS["torch-lstms"], 20), "torch-newer-grus": (KINDS["torch-grus"], 20),
         "torch-newer-later-lstms": (lambda: LaterRecurrent(nn.LSTM, num_layers=2, bidirectional=True), 20),
         "torch-newer-later-encoder": (LaterEncoder, 20),
         "torch-newer-open-lstm": (lambda: Recurrent(nn.LSTM, bias=False), 20),
         "torch-newer-gpt2": (gpt2, 23), "torch-newer-llama": (llama, 23), "torch-newer-bert": (bert, 23),
         "torch-newer-vit": (vit, 23), "torch-newer-distilbert": (distilbert, 23)}
for name, kind in {**KINDS, **OPEN, **{name: kind for name, (kind, _) in NEWER.items()}}.items():
    if name in (sys.argv[2:] or [name]):
        torch.manual_seed(1)
        save(name, kind(), NEWER.get(name, (kind, None))[1], "-open-" in name)

"""Networks of tokens and of recordings in PyTorch, for pytorch_step.py: those that the golden files are made with, in the
sizes of the built-in networks. Requirements: torch; for bert Hugging Face's transformers.
"""

import functools
import pathlib
import sys

import torch

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tests" / "golden"))
import models  # noqa: E402


class Bert(torch.nn.Module):
    """Hugging Face's BertForMaskedLM. No sequence of a benchmark's batch has padding, so none is looked for."""

    def __init__(self, vocabulary, steps, classes, layers, heads, width):
        super().__init__()
        import transformers

        config = transformers.BertConfig(
            vocab_size=vocabulary, hidden_size=width, num_hidden_layers=layers, num_attention_heads=heads,
            intermediate_size=4 * width, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0,
            attn_implementation="sdpa")
        self.net = transformers.BertForMaskedLM(config)
        for module in self.net.modules():
            if type(module).__name__ == "BertSelfAttention":
                module.multiply_adds = lambda x, *others: 2 * x.shape[1] * x.shape[1] * x.shape[2]

    def named_parameters(self, *args, **options):
        return self.net.named_parameters(*args, **options)

    def forward(self, x):
        return self.net(input_ids=x).logits


# name: the network of (vocabulary, steps, classes), and the names of the weights whose rows are the vocabulary and the classes
TOKENS = {
    "gpt-tiny": (models.TinyGpt, "transformer.wte", "lm_head"),
    "transformer": (functools.partial(models.Transformer, layers=6, heads=8, width=512, tied=True), "embedding", "generator"),
    "transformer-tiny": (models.Transformer, "src_embedding", "generator"),
    "gnmt": (models.TRANSLATORS["gnmt"], *models.Gnmt.ENDS),
    "gnmt-tiny": (models.TRANSLATORS["gnmt-tiny"], *models.Gnmt.ENDS),
    "bert": (functools.partial(Bert, layers=12, heads=12, width=768), *2 * ("bert.embeddings.word_embeddings",)),
    "bert-tiny": (functools.partial(Bert, layers=2, heads=2, width=128), *2 * ("bert.embeddings.word_embeddings",)),
}
RECORDINGS = {
    "deepspeech2": dict(channels=32, layers=5, hidden=800),
    "deepspeech2-tiny": dict(channels=8, layers=2, hidden=64),
}
TRANSLATES = ("transformer", "transformer-tiny", "gnmt", "gnmt-tiny")
BANDS = 80


def knows(model):
    return model in TOKENS or model in RECORDINGS


def build(model, file, x):
    """The network for a batch x, a row for each example, and its loss of (logits, labels)."""
    if model in RECORDINGS:
        frames = (x.shape[1] - 1) // BANDS
        steps = (x[:, -1].long() + 1) // 2
        net = models.DeepSpeech2(BANDS, frames, file.shape("fc.0.module.1.weight")[0], **RECORDINGS[model])
        return net, lambda logits, y: models.ctc(logits, torch.cat((y, steps[:, None]), 1))
    network, first, last = TOKENS[model]
    steps = x.shape[1] // 2 if model in TRANSLATES else x.shape[1]
    return network(file.shape(f"{first}.weight")[0], steps, file.shape(f"{last}.weight")[0]), models.cross_entropy

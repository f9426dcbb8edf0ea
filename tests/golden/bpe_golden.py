#!/usr/bin/env python3
"""Writes bpe.json beside this script: byte-pair vocabularies that tokenizers learns, and what it makes of texts.

Words are cut as src/data/bpe.h says, and bytes become characters as in GPT-2. Tokens are numbered as GPT-2 numbers them.
Needs tokenizers (0.2x); run by hand, the tests read the file only.
"""
import json
import pathlib
import random

import tokenizers
from tokenizers import Regex, Tokenizer, models, pre_tokenizers, trainers

BLANKS = " \\t\\n\\v\\f\\r"
LETTERS = "a-zA-Z\\x{80}-\\x{10FFFF}"
WORD = (f" ?[{LETTERS}]+| ?[0-9]+| ?[^{BLANKS}0-9{LETTERS}]+|[{BLANKS}]+(?![^{BLANKS}])|[{BLANKS}]+")

SYLLABLES = "ka to mi ra shu en over in ung sch tion é ü ß да мир 東 京 12 3 007 'll - ... ( ) \" # @ _".split()


def make_text(seed, n):
    rng = random.Random(seed)
    parts = []
    for _ in range(n):
        word = "".join(rng.choice(SYLLABLES[: rng.choice([8, 16, len(SYLLABLES)])]) for _ in range(rng.randrange(1, 4)))
        parts.append(word + rng.choice([" ", " ", " ", " ", ", ", ". ", "\n", "  ", "\n\n  ", "\t"]))
    return "".join(parts)


def learn(text, size):
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Split(Regex(WORD), "isolated"), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    trainer = trainers.BpeTrainer(vocab_size=size, min_frequency=2, show_progress=False, special_tokens=[],
                                  initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
    tokenizer.train_from_iterator([text], trainer)
    return tokenizer


def merges_of(tokenizer):
    merges = json.loads(tokenizer.to_str())["model"]["merges"]
    return [m if isinstance(m, str) else " ".join(m) for m in merges]


def main():
    cases = []
    for seed, n, size in ((1, 300, 400), (2, 2000, 700), (3, 40, 100000)):
        text = make_text(seed, n)
        tokenizer = learn(text, size)
        others = [make_text(seed + 10, 60), "", " ", "  a", "a \n b", "\n\n", " 1a!", "x" * 40, "ka" * 30, "don't  stop\t\t7"]
        cases.append({"text": text, "size": size, "vocabulary": tokenizer.get_vocab_size(), "merges": merges_of(tokenizer),
                      "encoded": [{"text": t, "tokens": tokenizer.encode(t).ids} for t in [text, *others]]})
    out = {"tokenizers": tokenizers.__version__, "cases": cases}
    pathlib.Path(__file__).with_name("bpe.json").write_text(json.dumps(out, ensure_ascii=False, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""What a bigram model tells of the tokens that `ronde eval` hides from bert: the same tokens of the same text, in bits.

    python3 bench/bigrams.py --ronde build/ronde --text book.txt --tokenizer book.bpe --window 64 --weights runs/bert/last.safetensors

The counts are those of the first nine tenths, which the network is trained on. `bigram` knows the token in front of a hidden
one, `both sides` also the one behind it: P(token | before) P(after | token), brought to the sum 1. Both know the true tokens, even
those that are hidden from the network or lie outside its window. Probabilities are interpolated by absolute discounting.

With --weights it also makes a copy of these weights that tells every token by its frequency, and lets `ronde eval` judge it: if
that is not what `unigram` tells here, the hidden tokens are not the same, and the exit code is 7. Requirements: numpy.
"""

import argparse
import json
import math
import pathlib
import shutil
import sys
import tempfile

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "peers"))
import draws  # noqa: E402
import files  # noqa: E402
import system  # noqa: E402

DISCOUNT = 0.75
AT_ONCE = 512


def load(a, folder):
    """Tokens and labels of both splits, [n][window] each."""
    named = ["--tokenizer", a.tokenizer] if a.tokenizer else []
    files.ronde(a.ronde, "data", "convert", f"text:{a.text}", *named, "--window", a.window, "-o", folder, "--quiet")
    return [np.load(f"{folder}/{split}_{part}.npy").astype(np.int64) for split in ("train", "test") for part in "xy"]


def stream(x, labels):
    """The tokens of a split, of which the last is told but tells nothing."""
    told = (labels >= 0).ravel()
    return np.append(x.ravel()[told], labels.ravel()[told][-1])


def count(tokens, vocabulary):
    """P(token), and P(token | the one before) as [before][token]."""
    single = np.bincount(tokens, minlength=vocabulary) + 1.0
    single /= single.sum()
    pairs = np.bincount(tokens[:-1] * vocabulary + tokens[1:], minlength=vocabulary**2)
    pairs = pairs.reshape(vocabulary, vocabulary).astype(np.float64)
    all_of, kinds = pairs.sum(1, keepdims=True), (pairs > 0).sum(1, keepdims=True)
    known = (np.maximum(pairs - DISCOUNT, 0) + DISCOUNT * kinds * single) / np.maximum(all_of, 1)
    return single, np.where(all_of > 0, known, single)


def from_both_sides(pair, before, token, after):
    told = np.empty(len(token))
    for i in range(0, len(token), AT_ONCE):
        at = slice(i, i + AT_ONCE)
        all_of = pair[before[at]] * pair[:, after[at]].T
        told[at] = all_of[np.arange(len(all_of)), token[at]] / all_of.sum(1)
    return told


def tell(name, probabilities):
    nats = -np.log(probabilities).mean()
    print(f"{name:12s} {nats / math.log(2):.4f} bits a token, perplexity {np.exp(nats):.2f}", flush=True)
    return nats


def judge(a, single, folder):
    """The loss by `ronde eval` of a copy of the weights whose outputs are log P(token), whatever is seen."""
    copy = pathlib.Path(folder, "unigram.safetensors")
    shutil.copyfile(a.weights, copy)
    file, told = system.File(copy), np.full(system.File(copy).shape("cls.predictions.bias"), -30, np.float32)
    told[: len(single)] = np.log(single)
    table = np.zeros(file.shape("bert.embeddings.word_embeddings.weight"), np.float32)
    with open(copy, "r+b") as out:
        for name, values in (("cls.predictions.bias", told), ("bert.embeddings.word_embeddings.weight", table)):
            out.seek(file.begin + file.header[name]["data_offsets"][0])
            out.write(values.tobytes())
    return json.loads(files.ronde(a.ronde, "eval", copy, "--data", f"text:{a.text}", "--threads", 1, "--json", "--quiet"))["loss"]


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--ronde", required=True)
    p.add_argument("--text", required=True)
    p.add_argument("--tokenizer", help="without it tokens are bytes")
    p.add_argument("--window", type=int, default=128)
    p.add_argument("--mask", type=float, default=0.15)
    p.add_argument("--weights", help="of bert, for the check")
    a = p.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        train_x, train_y, x, y = load(a, folder)
        tokens = stream(x, y)
        single, pair = count(stream(train_x, train_y), 1 + max(int(train_x.max()), int(tokens.max())))
        hidden = np.flatnonzero(draws.hidden(y, a.mask).ravel())
        print(f"{len(hidden)} of {len(tokens) - 1} tokens are hidden")
        alone = tell("unigram", single[tokens[hidden]])
        hidden = hidden[hidden > 0]  # the first token has none before it
        before, token, after = tokens[hidden - 1], tokens[hidden], tokens[hidden + 1]
        tell("bigram", pair[before, token])
        tell("both sides", from_both_sides(pair, before, token, after))
        if a.weights:
            judged = judge(a, single, folder)
            print(f"`ronde eval` of the unigram: {judged / math.log(2):.4f}")
            sys.exit(7 if abs(judged - alone) > 1e-4 else 0)


main()

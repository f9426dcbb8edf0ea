#!/usr/bin/env python3
"""What translations are worth that nobody has learnt, of the pairs that `ronde eval` tests: exact ones, and BLEU of characters.

    python3 bench/translation_baselines.py words.tsv

`copy` takes the source for its translation, `most frequent` the target that occurs most often in training, and `neighbour` that of
the source of training which has the longest end in common with the one to be translated. Requirements: sacrebleu.
"""

import bisect
import collections
import sys

import sacrebleu

TEST_EVERY = 10  # src/data/pairs_set.c


def common_end(a, b):
    """Of texts that are turned around."""
    n = 0
    while n < min(len(a), len(b)) and a[n] == b[n]:
        n += 1
    return n


def neighbours(trained, sources):
    """Among texts that are sorted from their ends, the one with the longest common end stands beside the place of a text."""
    turned = sorted((source[::-1], target) for source, target in trained)
    for source in sources:
        at = bisect.bisect(turned, (source[::-1],))
        yield max(turned[max(0, at - 1): at + 1], key=lambda pair: common_end(pair[0], source[::-1]))[1]


def tell(name, told, wanted):
    exact = sum(a == b for a, b in zip(told, wanted)) / len(wanted)
    bleu = sacrebleu.metrics.BLEU(tokenize="char", smooth_method="none").corpus_score(told, [wanted]).score
    print(f"{name:14s} exact {exact:.4f}, BLEU {bleu:.2f}", flush=True)


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        pairs = [tuple(line.rstrip("\n").split("\t")) for line in file if line.strip()]
    tested = [pair for i, pair in enumerate(pairs) if i % TEST_EVERY == TEST_EVERY - 1]
    trained = [pair for i, pair in enumerate(pairs) if i % TEST_EVERY != TEST_EVERY - 1]
    sources, wanted = [source for source, _ in tested], [target for _, target in tested]
    likeliest = collections.Counter(target for _, target in trained).most_common(1)[0][0]
    known = {source for source, _ in trained}
    print(f"{len(trained)} pairs for training, {len(tested)} for testing; {sum(s in known for s in sources)} sources are in both")
    tell("copy", sources, wanted)
    tell("most frequent", [likeliest] * len(tested), wanted)
    tell("neighbour", list(neighbours(trained, sources)), wanted)


main()

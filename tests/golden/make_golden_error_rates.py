#!/usr/bin/env python3
"""Writes error-rates.json beside this script: jiwer's word and character error rates of pairs of texts. Needs jiwer.

    python3 tests/golden/make_golden_error_rates.py
"""

import json
import pathlib
from importlib.metadata import version

import jiwer

PAIRS = [
    ("one two three", "one two three"),
    ("one two three", "one three"),
    ("one two three", "one two two three"),
    ("one two three", "one too three"),
    ("one two three", ""),
    ("one", "two three four"),
    ("a b c d e f", "b c d e f a"),
    ("kitten sitting", "sitting kitten"),
    ("the quick brown fox jumps over the lazy dog", "the quack brown socks jump over a lazy dog dog"),
    ("zéro über naïve", "zero uber naïve"),
    ("seven  eight", "seven eight"),
    ("nine", " nine "),
]


def main():
    cases = [{"reference": r, "told": t, "wer": jiwer.wer(r, t), "cer": jiwer.cer(r, t)} for r, t in PAIRS]
    references, told = [r for r, _ in PAIRS], [t for _, t in PAIRS]
    of_all = {"wer": jiwer.wer(references, told), "cer": jiwer.cer(references, told)}
    text = json.dumps({"jiwer": version("jiwer"), "cases": cases, "all": of_all}, indent=1, ensure_ascii=False)
    pathlib.Path(__file__).with_name("error-rates.json").write_text(text + "\n")
    print(of_all)


main()

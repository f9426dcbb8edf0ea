#!/usr/bin/env python3
"""Writes bleu.golden beside this script: BLEU of small corpora by sacrebleu, without smoothing.

A line is `pair`, a translation and its reference, in which blanks, percent signs and all but printable ASCII are %XX and
nothing is "-"; or `corpus`, of the pairs in front of it: the tokenizer, the score, four precisions, the brevity penalty, and the tokens
of translations and of references. Bytes that are no UTF-8 are lone characters to sacrebleu. Needs sacrebleu (2.x); run by hand,
the tests read the file only.
"""
import pathlib
import random

import sacrebleu

WORDS = ("the a cat dog sat lay on under mat rug. house, tree; 3.14 1,000 7- 5-6 well-known don't \"so\" (yes) [no] e.g. "
         "U.S. $5 50% a/b x=y über naïve 東京 ни да. мир, 2.5, .5 5. ,, ... -- &amp; &quot;ok&quot; &lt;b&gt; #1 c++ _it_ "
         "`q` {z} ~9 ^2 | \\ @me ! ?").split()


def escape(text):
    raw = text.encode("utf-8", "surrogateescape")
    return "".join(chr(b) if 33 <= b < 127 and b != 37 else f"%{b:02X}" for b in raw) or "-"


def spoil(rng, words):
    words = list(words)
    for _ in range(rng.randrange(4)):
        at = rng.randrange(len(words))
        change = rng.randrange(4)
        if change == 0:
            words[at] = rng.choice(WORDS)
        elif change == 1 and len(words) > 1:
            del words[at]
        elif change == 2:
            words.insert(at, words[at])
        else:
            words[at], words[0] = words[0], words[at]
    return words


def corpora():
    rng = random.Random(7)
    yield [("the the the the the the the", "the cat is on the mat"), ("the cat is on a mat", "the cat is on the mat")]
    yield [("short", "short, but not as short as that"), ("one two three four five", "one two three four five six")]
    yield [("no match at all", "entirely different words here")]
    yield [("three words only", "three words only")]
    yield [("", "nothing was said"), ("one two three four", "one two three four")]
    yield [("", "")]
    yield [("a\u00a0b\u2003c\u3000d e\x1cf\x85g", "a b c d e f g"), ("<skipped>a-b<skipped>", "a-b"), ("&amp;lt;", "<")]
    yield [("1.2.3, 4,5.6. 7-8 -9 a.b ...", "1.2.3, 4,5.6 . 7 - 8 -9 a.b..."), ("é. ü, .é ,ü 1é.2", "é . ü , . é , ü 1é. 2")]
    yield [(b"\xff\xe2\x82 \xc3a \xed\xa0\x80 \xf4\x90\x80\x80".decode("utf-8", "surrogateescape"),
            b"\xff\xe2\x82 \xc3a \xed\xa0 \xf4\x90\x80\x80".decode("utf-8", "surrogateescape"))]
    for size in (1, 5, 20, 20, 20):
        pairs = []
        for _ in range(size):
            reference = [rng.choice(WORDS) for _ in range(rng.randrange(1, 18))]
            pairs.append((rng.choice([" ", "  "]).join(spoil(rng, reference)), " ".join(reference)))
        yield pairs


def main():
    lines = [f"# sacrebleu {sacrebleu.__version__}"]
    for pairs in corpora():
        lines += [f"pair {escape(told)} {escape(wanted)}" for told, wanted in pairs]
        for tokens in ("13a", "char"):
            bleu = sacrebleu.BLEU(tokenize=tokens, smooth_method="none", force=True).corpus_score(
                [told for told, _ in pairs], [[wanted for _, wanted in pairs]])
            numbers = [bleu.score, *bleu.precisions, bleu.bp]
            lines.append(" ".join(["corpus", tokens] + [f"{x:.12g}" for x in numbers] + [str(bleu.sys_len), str(bleu.ref_len)]))
    pathlib.Path(__file__).with_name("bleu.golden").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Writes ctc.json beside this script: PyTorch's CTC loss in f64, example by example, and the gradients of its logits.

    python3 tests/golden/make_golden_ctc.py

Lengths of inputs and of labels differ; there are none, one, equal neighbours, and labels that no alignment fits. See models.py
for requirements and for the numbers.
"""

import json
import pathlib

import numpy as np
import torch

import models

# steps, classes, blank, labels, of examples the lengths of the input and the labels
CASES = [
    (12, 5, 0, 5, [(12, [1, 2, 2, 3]), (7, [4, 4, 4]), (1, [2]), (9, []), (12, [1, 1, 1, 1, 1])]),
    (30, 11, 10, 14, [(30, [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 0, 1, 2, 3]), (17, [9, 9, 8]), (30, [5])]),
    (6, 4, 2, 4, [(3, [0, 1, 3, 0]), (6, [1, 1, 1, 1]), (2, [0, 1])]),
]


def example(stream, case, length, labels):
    steps, classes, blank, _, _ = case
    values = models.values(stream, steps * classes, 4.0).reshape(steps, 1, classes)
    logits = torch.from_numpy(values).to(torch.float64).requires_grad_()
    target = torch.tensor([labels], dtype=torch.int64).reshape(1, len(labels))
    loss = torch.nn.functional.ctc_loss(
        logits.log_softmax(2), target, [length], [len(labels)], blank=blank, reduction="mean", zero_infinity=True
    )
    loss.backward()
    return {
        "stream": stream,
        "length": length,
        "labels": labels,
        "loss": loss.item(),
        "gradient": [float(f"{v:.12g}") for v in logits.grad.numpy().ravel()],
    }


def main():
    cases, stream = [], 0
    for case in CASES:
        steps, classes, blank, labels, examples = case
        of_case = {"steps": steps, "classes": classes, "blank": blank, "labels": labels, "examples": []}
        for length, given in examples:
            of_case["examples"].append(example(stream, case, length, given))
            stream += 1
        cases.append(of_case)
    path = pathlib.Path(__file__).with_name("ctc.json")
    text = json.dumps({"torch": torch.__version__, "cases": cases}, indent=0).replace(",\n", ", ")
    path.write_text(text + "\n")
    print(np.array([e["loss"] for c in cases for e in c["examples"]]))


main()

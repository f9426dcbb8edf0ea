#!/usr/bin/env python3
"""Writes tests/golden/networks.txt: the parameters and buffers of torchvision's vgg16 and inception_v3 (aux_logits=False), of
Hugging Face's BertForMaskedLM (bert-base-uncased's sizes, which are its defaults), of models.DeepSpeech2 in the size of
deepspeech.pytorch, of models.Tacotron2 in NVIDIA's and of GNMT (models.py; 4 layers of 1024, MLPerf's vocabulary), a line
each: network, name, shape. A parameter that has several names has its first one. Needs torch, torchvision and transformers; no weights are made.

    python3 tests/golden/make_networks.py
"""

import pathlib

import torch
import torchvision
import transformers

import models


def main():
    with torch.device("meta"):
        networks = {
            "vgg16": torchvision.models.vgg16(weights=None, init_weights=False),
            "inception-v3": torchvision.models.inception_v3(weights=None, aux_logits=False, init_weights=False),
            "deepspeech2": models.DeepSpeech2(80, 400, 29, channels=32, layers=5, hidden=800),
            "tacotron2": models.Tacotron2(148, 80, 400, 512, 256, 1024, 512, 128, 32),
            "gnmt": models.TRANSLATORS["gnmt"](32320, 50, 32320),
            "bert": transformers.BertForMaskedLM(transformers.BertConfig()),
        }
    lines = []
    for network, net in networks.items():
        kept = net.state_dict().keys()
        tensors = [*net.named_parameters(), *((n, b) for n, b in net.named_buffers() if n in kept)]
        lines += [f"{network} {name} {'x'.join(map(str, t.shape)) or '1'}\n" for name, t in tensors]
        print(network, sum(p.numel() for p in net.parameters()))
    (pathlib.Path(__file__).resolve().parent / "networks.txt").write_text("".join(lines))


main()

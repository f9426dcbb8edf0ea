#!/usr/bin/env python3
"""Writes log-mel.json beside this script: librosa's log-mel features of signals that src/data/log_mel_test.c makes again. Needs
librosa.

    python3 tests/golden/make_golden_log_mel.py
"""

import json
import pathlib

import librosa
import numpy as np

import models

# name: samples
SIGNALS = {"noise": 1200, "sweep": 900, "click": 1}


def signal(name, n):
    i = np.arange(n)
    if name == "noise":
        return models.values(3000, n, 1.0) * np.float32(0.5) ** (i // 100).astype(np.float32)
    if name == "sweep":
        return (0.5 * np.sin(0.1 * i + 0.001 * i * i)).astype(np.float32)
    return np.full(n, 0.25, np.float32)


def main():
    cases = []
    for name, n in SIGNALS.items():
        x = signal(name, n).astype(np.float64)
        power = librosa.feature.melspectrogram(
            y=x, sr=16000, n_fft=512, win_length=400, hop_length=160, window="hann", center=True, pad_mode="constant",
            power=2.0, n_mels=80, fmin=0.0, fmax=8000.0, htk=False, norm="slaney", dtype=np.float64,
        )
        features = np.log(power + 1e-6)
        cases.append({"name": name, "samples": n, "frames": features.shape[1],
                      "features": [float(f"{v:.9g}") for v in features.ravel()]})
        print(name, features.shape, features.min(), features.max())
    text = json.dumps({"librosa": librosa.__version__, "cases": cases}, indent=0).replace(",\n", ", ")
    pathlib.Path(__file__).with_name("log-mel.json").write_text(text + "\n")


main()

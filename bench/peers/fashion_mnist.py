"""Fashion-MNIST for the peers' scripts. Requirements: numpy."""

import gzip

import numpy as np

MEAN, DEVIATION = 0.2860, 0.3530


def read_idx(path):
    with gzip.open(path) as file:
        data = file.read()
    dims = [int.from_bytes(data[4 + 4 * i : 8 + 4 * i], "big") for i in range(data[3])]
    return np.frombuffer(data, np.uint8, offset=4 + 4 * len(dims)).reshape(dims)

"""What Ronde draws, in Python: the order of examples (src/data/sampler.c) and which tokens are hidden (src/data/masking.c), by
the generator of src/base/rng.c. Requirements: numpy.
"""

import itertools

import numpy as np

SHUFFLE, MASKS = 2 << 32, 11 << 32  # streams
WORD = (1 << 32) - 1
AT_ONCE = 4096


def philox(seed, stream, index):
    """Philox4x32-10 of an array of indices: four arrays of 32 bits."""
    index = np.asarray(index, np.uint64)
    c0, c1 = index & WORD, index >> 32
    c2, c3 = np.full_like(index, stream & WORD), np.full_like(index, stream >> 32)
    k0, k1 = seed & WORD, seed >> 32
    for _ in range(10):
        p0, p1 = c0 * 0xD2511F53, c2 * 0xCD9E8D57
        c0, c1, c2, c3 = (p1 >> 32) ^ c1 ^ k0, p1 & WORD, (p0 >> 32) ^ c3 ^ k1, p0 & WORD
        k0, k1 = (k0 + 0x9E3779B9) & WORD, (k1 + 0xBB67AE85) & WORD
    return c0, c1, c2, c3


def words(seed, stream):
    for begin in itertools.count(0, AT_ONCE):
        yield from np.stack(philox(seed, stream, np.arange(begin, begin + AT_ONCE)), 1).ravel().tolist()


def order(seed, epoch, n):
    """Of n examples in an epoch, which count from 1."""
    ids, drawn = np.arange(n), words(seed, SHUFFLE | epoch)
    for i in range(n - 1, 0, -1):
        bound = i + 1
        product = next(drawn) * bound
        while product & WORD < (1 << 32) % bound:
            product = next(drawn) * bound
        j = product >> 32
        ids[i], ids[j] = ids[j], ids[i]
    return ids


def hidden(labels, share, seed=0, epoch=0):
    """Which tokens of examples [n][T] a network is to tell; labels are negative where nothing counts. Epoch 0 is a test, which
    hides the same ones whatever the seed."""
    n, t = labels.shape
    left = (labels >= 0).sum(1)
    wanted = np.minimum(left, np.maximum(1, np.floor(share * left + 0.5))).astype(np.int64)
    all_drawn = np.zeros((n, t), bool)
    for i in range(t):
        place = philox(seed if epoch else 0, MASKS | epoch, np.arange(n) * t + i)[0]
        counts = labels[:, i] >= 0
        all_drawn[:, i] = counts & ((place * left.astype(np.uint64) >> 32).astype(np.int64) < wanted)
        left -= counts
        wanted -= all_drawn[:, i]
    return all_drawn

"""A generator whose random words a test gives."""

import numpy as np


class GivenWords:
    """Stands in for a generator: returns these words of 64 bits in order, and fails when there are no more."""

    bit_generator = None

    def __init__(self, *words):
        self.left = list(words)

    def integers(self, low, high, size, dtype):
        assert (low, high, dtype) == (0, 2**64, np.uint64)
        found, self.left = self.left[:size], self.left[size:]
        assert len(found) == size, "more words were asked for than given"
        return np.array(found, dtype=np.uint64)

    def permutation(self, items):
        return items

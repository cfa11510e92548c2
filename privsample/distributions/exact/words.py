"""Random words: the fair independent bits from which exact draws are made."""

import numpy as np
from numpy.typing import NDArray

from privsample._entropy import SystemBits

Words = NDArray[np.uint64]
_BLOCK = 256


def random_words(rng: np.random.Generator, count: int) -> Words:
    """Words of 64 fair bits, shape (count,); from the operating system if the generator reads its entropy.

    Raises OSError if the operating system provides no entropy.
    """
    if isinstance(rng.bit_generator, SystemBits):
        return rng.bit_generator.block(count)
    return rng.integers(0, 2**64, size=count, dtype=np.uint64)


class WordStream:
    """Random words one at a time, fetched in blocks.

    Parameters
    ----------
    rng : numpy.random.Generator
        The generator that provides the words.
    """

    def __init__(self, rng: np.random.Generator) -> None:
        self._rng = rng
        self._left: list[int] = []

    def word(self) -> int:
        """The next word, an integer in [0, 2^64)."""
        if not self._left:
            self._left = random_words(self._rng, _BLOCK).tolist()
        return self._left.pop()

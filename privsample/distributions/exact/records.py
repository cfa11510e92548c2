"""Exact sums of records: rounded to a public grid inside their bounds, and added as integers."""

import math
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privsample.distributions.domains import Domain
from privsample.distributions.exact.grid import Grid

_SAFE = 2**62  # sums of smaller absolute values fit in 64 bits


def exact_sum(domain: Domain, chunk: NDArray[Any]) -> Fraction:
    """The sum of a chunk of records after the public rule of `domain`, each rounded to the public grid of the domain.

    The sum is exact, so it does not depend on the order of the records. A rounded record stays inside the bounds, so
    that no record changes the sum by more than their distance.
    """
    cleaned = np.asarray(domain.clean(chunk), dtype=np.float64)
    if domain.integer_valued:
        return Fraction(_integer_sum(cleaned))
    grid = Grid.of_scale(domain.high - domain.low)
    pitch = Fraction(grid.pitch)
    first, last = math.ceil(Fraction(domain.low) / pitch), math.floor(Fraction(domain.high) / pitch)
    indices = np.clip(np.rint(cleaned / grid.pitch), float(first), float(last))
    return _integer_sum(indices) * pitch


def _integer_sum(numbers: NDArray[np.float64]) -> int:
    """The exact sum of whole numbers."""
    if len(numbers) * float(np.abs(numbers).max(initial=0.0)) < _SAFE:
        return int(numbers.astype(np.int64).sum())
    return sum(int(number) for number in numbers.tolist())

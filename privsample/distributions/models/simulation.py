"""Simulation of sums of many records, for models whose first two moments are known."""

from typing import Any

import numpy as np

from privsample._checks import FloatArray

ONE_BY_ONE = 20_000  # largest number of records that are simulated one by one


def normal_sum(mean: Any, variance: Any, n: int, bounds: tuple[float, float], rng: np.random.Generator) -> FloatArray:
    """The sum of n records in `bounds` with this mean and variance, by the central limit theorem."""
    total = rng.normal(n * float(mean), (n * max(float(variance), 0.0)) ** 0.5)
    return np.clip(np.asarray(total), n * bounds[0], n * bounds[1])

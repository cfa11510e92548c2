"""Mean and variance of one clipped record, for the central limit of a sum: on arrays of NumPy or tensors of PyTensor.

`ops` holds the functions: `NUMPY`, or PyTensor's module `tensor`, which has them under the same names.
docs/notes/clipping.md, step 7.
"""

from types import SimpleNamespace
from typing import Any

import numpy as np
from scipy import special

NUMPY = SimpleNamespace(
    exp=np.exp,
    expm1=np.expm1,
    log=np.log,
    minimum=np.minimum,
    maximum=np.maximum,
    switch=np.where,
    erfc=special.erfc,
    gammaln=special.gammaln,
)


def exponential_moments(ops: Any, rate: Any, upper: Any) -> tuple[Any, Any]:
    """Mean and variance of an exponential time clipped to [0, upper].

    For rate * upper < 0.01 the variance is a power series, since the closed form cancels.
    """
    reach = rate * upper
    near, wide = ops.minimum(reach, 0.01), ops.maximum(reach, 0.01)
    by_series = near**3 * (1 / 3 - near / 3 + near**2 * 11 / 60 - near**3 * 13 / 180)
    spread = ops.switch(reach < 0.01, by_series, 1 - ops.exp(-2 * wide) - 2 * wide * ops.exp(-wide))
    return -ops.expm1(-reach) / rate, spread / rate**2


def normal_moments(ops: Any, mean: Any, deviation: Any, low: Any, high: Any) -> tuple[Any, Any]:
    """Mean and variance of a normal number clipped to [low, high].

    The variance is at least 1e-12 of the unclipped variance: far outside the bounds the closed form cancels completely.
    """
    left, right = (low - mean) / deviation, (high - mean) / deviation
    below, above = ops.erfc(-left / 2**0.5) / 2, ops.erfc(right / 2**0.5) / 2
    at_left, at_right = (ops.exp(-(z**2) / 2) / (2 * np.pi) ** 0.5 for z in (left, right))
    first = left * below + right * above + at_left - at_right
    second = left**2 * below + right**2 * above + 1 - below - above + left * at_left - right * at_right
    spread = ops.maximum(second - first**2, 1e-12)  # far outside the bounds the difference cancels completely
    return mean + deviation * first, deviation**2 * spread


def poisson_moments(ops: Any, mean: Any, upper: Any, counts: Any) -> tuple[Any, Any]:
    """Mean and variance of a Poisson count clipped to {0, ..., upper}; `counts` are 0, ..., upper - 1."""
    masses = ops.exp(counts * ops.log(mean) - mean - ops.gammaln(counts + 1))
    clipped = upper - counts
    below = (clipped * masses).sum()  # upper - E[record]
    return upper - below, (clipped**2 * masses).sum() - below**2

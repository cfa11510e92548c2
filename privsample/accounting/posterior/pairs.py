"""What loss pairs of conjugate posteriors share: parameters rounded to the safe side, evaluation by rows, deep tails.

Also moment generating functions.

Source: docs/notes/posterior.md.
"""

import math
from collections.abc import Callable
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from privsample._checks import FloatArray, Real
from privsample._logspace import complex_log_gamma_growth
from privsample.accounting.loss.pair import ComplexArray

_EPS = float(np.finfo(float).eps)
_LEAST, _DEEP = -1e300, -1e5
_BLOCK = 2048


def lower_product(x: float, y: float) -> float:
    """x * y for x >= 0 and y > 0, rounded down; exact where either is one, +inf where the product overflows."""
    product = x * y
    return product if 1.0 in (x, y) or product == math.inf else math.nextafter(product, 0.0)


def upper_product(x: float, y: float) -> float:
    """x * y for x, y > 0, rounded up; exact where either is one."""
    return x * y if 1.0 in (x, y) else math.nextafter(x * y, math.inf)


def lower_sum(x: float, y: float) -> float:
    """x + y for x, y >= 0, rounded down."""
    total, lost = _exact_sum(x, y)
    return math.nextafter(total, 0.0) if lost < 0.0 else total


def upper_sum(x: float, y: float) -> float:
    """x + y for x, y >= 0, rounded up."""
    total, lost = _exact_sum(x, y)
    return math.nextafter(total, math.inf) if lost > 0.0 else total


def _exact_sum(x: float, y: float) -> tuple[float, float]:
    """The rounded sum and what it lacks (Knuth); NaN where it overflows."""
    total = x + y
    second = total - x
    return total, (x - (total - second)) + (y - second)


def by_rows(function: Callable[..., FloatArray], *arrays: Real) -> FloatArray:
    """function(columns) for the arrays broadcast to columns (rows, 1), a block at a time; in their common shape."""
    full = np.broadcast_arrays(*[np.asarray(array, dtype=np.float64) for array in arrays])
    columns = [array.reshape(-1, 1) for array in full]
    starts = range(0, len(columns[0]), _BLOCK)
    found = [function(*[column[start : start + _BLOCK] for column in columns]) for start in starts]
    return np.concatenate([np.empty(0), *found]).reshape(full[0].shape)


def deep_tail(log_density: FloatArray, slope: FloatArray) -> tuple[NDArray[np.bool_], FloatArray]:
    """Rows whose threshold lies so deep in P's tail that nothing smaller matters, and density/slope, which bounds them.

    log_density and slope (how fast it falls) are taken at the threshold, as columns; the bound is that of a log-concave
    tail. What underflows even as a logarithm is not zero: it becomes the least logarithm that is told apart from it.
    What is no number becomes one, the largest bound.
    """
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        bound = (log_density * (1 - 1e-13) - np.log(slope))[:, 0]
    bound = np.where(np.isnan(bound), 0.0, np.clip(bound, _LEAST, 0.0))
    return (~(log_density >= _DEEP) & ~(slope <= 0))[:, 0], bound


def rounded(integral: FloatArray, threshold: FloatArray, size: Real) -> FloatArray:
    """The integral with what log density and threshold lost to rounding; `size`, a column: the density's curvature."""
    lost = 16 * _EPS * (1 + np.sqrt(size) + np.abs(threshold) * size)
    return np.minimum(integral + lost[:, 0], 0.0)


def rising_mgf(base: float, step: float, t: ComplexArray) -> ComplexArray:
    """What a Gamma coordinate adds to log M(t) that is base + step under P and base under Q."""
    return complex_log_gamma_growth(base, (t + 1) * step) - (t + 1) * _whole_step(base, step)


def falling_mgf(base: float, step: float, t: ComplexArray) -> ComplexArray:
    """What a Gamma coordinate adds to log M(t) that is base under P and base + step under Q."""
    return complex_log_gamma_growth(base, -t * step) + t * _whole_step(base, step)


@lru_cache(maxsize=1024)
def _whole_step(base: float, step: float) -> complex:
    return complex(complex_log_gamma_growth(base, np.array(step + 0j)))

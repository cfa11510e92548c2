"""Common functions of the pairs of conjugate posteriors: directed rounding, evaluation by rows, tails, log M(t).

Proofs: posterior.md, sections 1 ("Rounding") and 2.
"""

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from privsample._checks import FloatArray, Real
from privsample._logspace import complex_log_gamma_growth, log_gamma_growth
from privsample.accounting.loss.pair import ComplexArray

_EPS = float(np.finfo(float).eps)
_LEAST, _DEEP = -1e300, -1e5  # smallest logarithm that is reported; log density below which a tail bound suffices
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
    total, lost = _two_sum(x, y)
    return math.nextafter(total, 0.0) if lost < 0.0 else total


def upper_sum(x: float, y: float) -> float:
    """x + y for x, y >= 0, rounded up."""
    total, lost = _two_sum(x, y)
    return math.nextafter(total, math.inf) if lost > 0.0 else total


def _two_sum(x: float, y: float) -> tuple[float, float]:
    """The rounded sum and its exact rounding error (Knuth's TwoSum); the error is NaN if the sum overflows."""
    total = x + y
    second = total - x
    return total, (x - (total - second)) + (y - second)


def by_rows(function: Callable[..., FloatArray], *arrays: Real) -> FloatArray:
    """Evaluate function(*columns) with the arrays broadcast and flattened to columns (rows, 1), in blocks of rows.

    The result has the common shape of the arrays.
    """
    full = np.broadcast_arrays(*[np.asarray(array, dtype=np.float64) for array in arrays])
    columns = [array.reshape(-1, 1) for array in full]
    starts = range(0, len(columns[0]), _BLOCK)
    found = [function(*[column[start : start + _BLOCK] for column in columns]) for start in starts]
    return np.concatenate([np.empty(0), *found]).reshape(full[0].shape)


def tail_bound(log_density: FloatArray, slope: FloatArray) -> tuple[NDArray[np.bool_], FloatArray]:
    """Rows whose threshold lies so far in P's tail that a bound suffices, and log(density / slope), which is the bound.

    `log_density` and `slope` (minus the derivative of the log density) are columns, taken at the threshold; the bound
    is that of a log-concave tail. A bound whose logarithm underflows is raised to the smallest reported logarithm, and
    NaN becomes log 1, the trivial bound.
    """
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        bound = (log_density * (1 - 1e-13) - np.log(slope))[:, 0]
    bound = np.where(np.isnan(bound), 0.0, np.clip(bound, _LEAST, 0.0))
    return (~(log_density >= _DEEP) & ~(slope <= 0))[:, 0], bound


def add_rounding_error(integral: FloatArray, threshold: FloatArray, size: FloatArray) -> FloatArray:
    """Add the rounding errors of log density and threshold to a log integral.

    `size`, a column, is the curvature of the log density at its mode: an error of the threshold moves the log density
    by at most about its product with the threshold.
    """
    return np.minimum(integral + 16 * rounding_noise(threshold, size), 0.0)


def rounding_noise(threshold: FloatArray, size: FloatArray) -> FloatArray:
    """About the rounding error of the log density around a threshold, shape (rows,), for columns; see above."""
    lost: FloatArray = _EPS * (1 + np.sqrt(size) + np.abs(threshold) * size)[:, 0]
    return lost


def rising_mgf(base: float, step: float, t: ComplexArray) -> tuple[ComplexArray, FloatArray]:
    """Contribution to log M(t) of a Gamma shape that is base + step under P and base under Q, and its error bound."""
    up = t + 1
    growth, error = complex_log_gamma_growth(base, up * step)
    return with_whole_steps(growth, error, -up, log_gamma_growth(base, step), step)


def falling_mgf(base: float, step: float, t: ComplexArray) -> tuple[ComplexArray, FloatArray]:
    """Contribution to log M(t) of a Gamma shape that is base under P and base + step under Q, and its error bound."""
    growth, error = complex_log_gamma_growth(base, -t * step)
    return with_whole_steps(growth, error, t, log_gamma_growth(base, step), step)


def with_whole_steps(
    growth: ComplexArray, error: FloatArray, times: ComplexArray, whole: FloatArray, step: float
) -> tuple[ComplexArray, FloatArray]:
    """The growth plus `times` the growth `whole` of one step, whose error is a few ulp of the step; and the error."""
    moved = times * whole
    return growth + moved, error + 4 * _EPS * np.abs(moved) + 16 * _EPS * step * np.abs(times)

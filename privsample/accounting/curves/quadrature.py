"""Integrals of many log-concave functions at once, in log space, with an error bound (posterior.md, section 2)."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from privsample._checks import FloatArray
from privsample.errors import NumericalFailure

Rows = NDArray[np.intp]
LogFunctions = Callable[[Rows, FloatArray], FloatArray]

DROP = 60.0  # the support ends where the integrand is e^-60 of its peak; the tail beyond is bounded and added
_FINE, _COARSE = np.polynomial.legendre.leggauss(20), np.polynomial.legendre.leggauss(14)
_NODES = np.concatenate([_FINE[0], _COARSE[0]]) + 1.0
_SETTLED, _RELATIVE_ERROR = 1e-12, 1e-11  # agreement of the two rules; rounding error of the sums, added at the end
_MOST_PANELS = 500_000
_HALVINGS = np.ldexp(1.0, -np.arange(56))


def log_integral(
    log_f: LogFunctions, rows: int, ends: FloatArray | None = None, *, noise: FloatArray | float = 0.0
) -> FloatArray:
    """Logarithms of the integrals over (0, inf) of log-concave functions f_0 ... f_(rows-1) that decrease to zero.

    `log_f(at, u)` returns log f_at[i](u[i]) for row numbers `at`, shape (k,), and positive `u`, shape (k, points); f
    may be 0 at 0. With `ends`, positive and of shape (rows,), each integral is over (0, end). Panels are halved until
    two Gauss-Legendre rules agree to a relative 1e-12, or to `noise`, the relative rounding error of f, shape (rows,),
    if that is larger. The result is rounded up: it adds the difference of the two rules, a bound on the tails beyond
    the support (by log-concavity) and a relative 1e-11, but not the rounding error of f itself.

    Raises NumericalFailure if a support is not found or ends beyond 2^992, or if the two rules do not agree.
    """
    low, mode, high, peak = _support(log_f, _search_points(rows) if ends is None else _search_points_up_to(ends))
    empty = np.isneginf(peak)
    if ends is None and not (empty | (log_f(np.arange(rows), high[:, None])[:, 0] < peak - DROP)).all():
        raise NumericalFailure(
            "a privacy curve's integrand does not decrease by e^-60 before 2^992, so no guarantee is stated"
        )
    shift = np.where(empty, 0.0, peak)
    at, left, right = _panels(log_f, low, mode, high, shift)
    total = np.zeros(rows)
    # Rules that differ by the rounding of log f alone would never agree better: their gaps are added as they are.
    agreement = np.broadcast_to(np.maximum(_SETTLED, noise), rows)
    # A log-concave function that has decreased by e^-DROP over a width has at most e^-DROP times that width beyond it.
    error = 2 * np.exp(-DROP) * (high - low)
    halvings = 0
    while at.size:
        halvings += 1
        if halvings > 60 or at.size > _MOST_PANELS:
            raise NumericalFailure("quadrature of a privacy curve did not converge, so no guarantee is stated")
        fine, gap = _two_rules(log_f, at, left, right, shift)
        known = total + np.bincount(at, fine, rows)
        settled = gap <= agreement[at] * known[at]
        total += np.bincount(at[settled], fine[settled], rows)
        error += np.bincount(at[settled], gap[settled], rows)
        at, left, right = at[~settled], left[~settled], right[~settled]
        middle = left / 2 + right / 2
        at, left, right = np.tile(at, 2), np.concatenate([left, middle]), np.concatenate([middle, right])
    return np.where(empty, -np.inf, shift + np.log(np.where(empty, 1.0, total + error)) + _RELATIVE_ERROR)


def _two_rules(
    log_f: LogFunctions, at: Rows, left: FloatArray, right: FloatArray, shift: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """The integral of e^(log f - shift) over each panel by the finer rule, and its distance to the coarser rule's."""
    half = (right - left)[:, None] / 2
    with np.errstate(over="ignore"):
        values = np.exp(log_f(at, left[:, None] + half * _NODES) - shift[at][:, None])
    if not np.isfinite(values).all():  # far above the peak that the search found, or unknown
        raise NumericalFailure("the peak of a privacy curve's integrand was not found, so no guarantee is stated")
    split = len(_FINE[0])
    fine, coarse = values[:, :split] @ _FINE[1], values[:, split:] @ _COARSE[1]
    return fine * half[:, 0], np.abs(fine - coarse) * half[:, 0]


def _search_points(rows: int) -> FloatArray:
    """Points of (0, inf) at which the search for the support starts."""
    return np.broadcast_to(np.ldexp(1.0, np.arange(-1000, 1000, 8)), (rows, 250))


def _search_points_up_to(ends: FloatArray) -> FloatArray:
    """Points of (0, end] at which the search for the support starts, including the end."""
    return ends[:, None] * np.append(np.ldexp(1.0, np.arange(-1000, -8, 8)), np.linspace(0.0, 1.0, 126)[1:])


def _support(log_f: LogFunctions, grid: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """Bounds (low, mode, high, peak), each (rows,), of the region where f is at least e^-DROP of its peak.

    `low` and `high` lie just outside that region or next to an end of the domain. `grid`, shape (rows, points), holds
    the starting points of the search.
    """
    at = np.arange(len(grid))
    for _ in range(200):
        values = log_f(at, grid)
        if np.isnan(values).any():
            raise NumericalFailure("a log density is NaN, so no guarantee is stated")
        top, peak = values.argmax(axis=1), values.max(axis=1)
        above = values >= peak[:, None] - DROP
        first = np.maximum(above.argmax(axis=1) - 1, 0)
        last = np.minimum(above.shape[1] - above[:, ::-1].argmax(axis=1), above.shape[1] - 1)
        low, high = grid[at, first], grid[at, last]
        if (above.sum(axis=1) >= 24).all():
            return low, grid[at, top], high, peak
        even = np.linspace(low, high, 65, axis=1)
        grid = np.where((high > 16 * low)[:, None], np.geomspace(low, high, 65, axis=1), even)
    raise NumericalFailure("the support of a privacy curve's integrand was not found, so no guarantee is stated")


def _panels(
    log_f: LogFunctions, low: FloatArray, mode: FloatArray, high: FloatArray, peak: FloatArray
) -> tuple[Rows, FloatArray, FloatArray]:
    """Rows and ends of panels that double in width away from the mode.

    The first panels are as wide as the distance over which f decreases by a factor e.
    """
    at, falls = np.arange(len(low)), []
    for width, sign in ((mode - low, -1.0), (high - mode, 1.0)):
        points = mode[:, None] + sign * width[:, None] * _HALVINGS
        fallen = (log_f(at, np.maximum(points, np.finfo(float).tiny)) < peak[:, None] - 1.0).sum(axis=1)
        falls.append(np.where(width > 0, width * _HALVINGS[np.maximum(fallen - 1, 0)], np.inf))
    step = np.minimum(*falls)
    step = np.where(np.isfinite(step) & (step > 0), step, 1.0)[:, None] / 2
    before, after = (_doubling(step, width[:, None]) for width in (mode - low, high - mode))
    edges = np.concatenate([mode[:, None] - before[:, :0:-1], mode[:, None] + after], axis=1)
    used = np.diff(edges, axis=1) > 0
    return np.nonzero(used)[0], edges[:, :-1][used], edges[:, 1:][used]


def _doubling(step: FloatArray, length: FloatArray) -> FloatArray:
    """0, step, 3 step, 7 step, ..., up to `length`, which is the last entry."""
    count = int(np.ceil(np.log2(np.max(length / step) + 1.0))) + 1
    return np.minimum(step * (np.exp2(np.arange(count + 1)) - 1.0), length)

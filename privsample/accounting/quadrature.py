"""Integrals of many log-concave functions at once, in log space, with the error that was left."""

from collections.abc import Callable

import numpy as np

from privsample._checks import FloatArray
from privsample.errors import NumericalFailure

DROP = 60.0  # beyond where the integrand has fallen by e^-60 only a bounded tail is left
_FINE, _COARSE = np.polynomial.legendre.leggauss(20), np.polynomial.legendre.leggauss(14)
_NODES = np.concatenate([_FINE[0], _COARSE[0]]) + 1.0
_RELATIVE_ERROR = 1e-11
_HALVINGS = np.ldexp(1.0, -np.arange(56))

LogFunctions = Callable[[FloatArray], FloatArray]


def log_integral(log_f: LogFunctions, rows: int) -> FloatArray:
    """log of the integrals of f_1 ... f_rows over (0, inf), rounded up; each log-concave, analytic and falling to zero.

    `log_f` maps positive numbers, shape (rows, points), to log f of each row; f may vanish at 0. Each result adds the
    difference of two Gauss-Legendre rules, a bound on the dropped tails (log-concavity) and a relative 1e-11.
    Raises: NumericalFailure, where a support is not found or the two rules disagree.
    """
    low, mode, high, peak = _support(log_f, rows)
    edges = _panels(log_f, low, mode, high, peak)
    half = np.diff(edges, axis=1)[:, :, None] / 2
    points = (edges[:, :-1, None] + half * _NODES).reshape(rows, -1)
    with np.errstate(invalid="ignore"):
        values = np.exp(log_f(points) - peak[:, None]).reshape(*half.shape[:2], -1) * half
    split = len(_FINE[0])
    fine = (values[:, :, :split] @ _FINE[1]).sum(axis=1)
    coarse = (values[:, :, split:] @ _COARSE[1]).sum(axis=1)
    # a log-concave tail is below its height times the width of its fall
    error = np.abs(fine - coarse) + 2 * np.exp(-DROP) * (high - low)
    nowhere = np.isneginf(peak)
    if not np.all(nowhere | (error <= 1e-3 * fine)):
        raise NumericalFailure("quadrature of a privacy curve did not converge; no guarantee is claimed")
    safe = np.where(nowhere, 1.0, fine + error)
    return np.where(nowhere, -np.inf, peak + np.log(safe) + _RELATIVE_ERROR)


def _support(log_f: LogFunctions, rows: int) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """(low, mode, high, peak), each (rows,): f has fallen by e^-DROP at low and at high, or low is next to nothing."""
    grid = np.broadcast_to(np.ldexp(1.0, np.arange(-1000, 1000, 8)), (rows, 250))
    at = np.arange(rows)
    for _ in range(200):
        values = log_f(grid)
        if np.isnan(values).any():
            raise NumericalFailure("a log density came out as NaN; no guarantee is claimed")
        top, peak = values.argmax(axis=1), values.max(axis=1)
        above = values >= peak[:, None] - DROP
        first = np.maximum(above.argmax(axis=1) - 1, 0)
        last = np.minimum(above.shape[1] - above[:, ::-1].argmax(axis=1), above.shape[1] - 1)
        low, high = grid[at, first], grid[at, last]
        if (above.sum(axis=1) >= 24).all():
            return low, grid[at, top], high, peak
        even = np.linspace(low, high, 65, axis=1)
        grid = np.where((high > 16 * low)[:, None], np.geomspace(low, high, 65, axis=1), even)
    raise NumericalFailure("the support of a privacy curve's integrand was not found; no guarantee is claimed")


def _panels(log_f: LogFunctions, low: FloatArray, mode: FloatArray, high: FloatArray, peak: FloatArray) -> FloatArray:
    """Edges (rows, panels + 1) that double in width away from the mode, from a quarter of where f first falls by e."""
    falls = []
    for width, sign in ((mode - low, -1.0), (high - mode, 1.0)):
        points = mode[:, None] + sign * width[:, None] * _HALVINGS
        fallen = (log_f(np.maximum(points, np.finfo(float).tiny)) < peak[:, None] - 1.0).sum(axis=1)
        falls.append(np.where(width > 0, width * _HALVINGS[np.maximum(fallen - 1, 0)], np.inf))
    step = np.minimum(*falls)
    step = np.where(np.isfinite(step) & (step > 0), step, 1.0)[:, None] / 4
    left, right = (_doubling(step, width[:, None]) for width in (mode - low, high - mode))
    return np.concatenate([mode[:, None] - left[:, :0:-1], mode[:, None] + right], axis=1)


def _doubling(step: FloatArray, length: FloatArray) -> FloatArray:
    """0, step, 3 step, 7 step ..., each at most the length, which comes last."""
    count = int(np.ceil(np.log2(np.max(length / step) + 1.0))) + 1
    return np.minimum(step * (np.exp2(np.arange(count + 1)) - 1.0), length)

"""Integrals of log-concave functions in log space, with the error that was left."""

from collections.abc import Callable

import numpy as np

from privsample._checks import FloatArray
from privsample.errors import NumericalFailure

DROP = 60.0  # beyond where the integrand has fallen by e^-60 only a bounded tail is left
_FINE, _COARSE = np.polynomial.legendre.leggauss(20), np.polynomial.legendre.leggauss(14)
_RELATIVE_ERROR = 1e-11


def log_integral(log_f: Callable[[FloatArray], FloatArray]) -> float:
    """log of the integral of f over (0, inf), rounded up, for log-concave and analytic f that falls to zero.

    `log_f` maps an array of positive numbers to log f; f may vanish at 0. The result adds the difference of two
    Gauss-Legendre rules, a bound on the dropped tails (log-concavity) and a relative 1e-11.
    Raises: NumericalFailure, where the function's support is not found or the two rules disagree.
    """
    low, mode, high, peak = _support(log_f)
    if np.isneginf(peak):
        return -np.inf
    edges = _panels(log_f, low, mode, high, peak)
    fine, coarse = (_composite(log_f, edges, rule, peak) for rule in (_FINE, _COARSE))
    tails = 2 * np.exp(-DROP) * (high - low)  # a log-concave tail is below its height times the width of its fall
    error = abs(fine - coarse) + tails
    if not error <= 1e-3 * fine:
        raise NumericalFailure("quadrature of a privacy curve did not converge; no guarantee is claimed")
    return float(peak + np.log(fine + error) + _RELATIVE_ERROR)


def _support(log_f: Callable[[FloatArray], FloatArray]) -> tuple[float, float, float, float]:
    """(low, mode, high, peak): f has fallen by e^-DROP at low (or low is about 0) and at high."""
    grid = np.ldexp(1.0, np.arange(-1000, 1000, 8))
    for _ in range(200):
        values = log_f(grid)
        if np.isnan(values).any():
            raise NumericalFailure("a log density came out as NaN; no guarantee is claimed")
        top = int(values.argmax())
        peak = float(values[top])
        if np.isneginf(peak):
            return 0.0, 0.0, 0.0, peak
        above = np.flatnonzero(values >= peak - DROP)
        first, last = max(above[0] - 1, 0), min(above[-1] + 1, len(grid) - 1)
        low, high = float(grid[first]), float(grid[last])
        if len(above) >= 24:
            return (0.0 if first == 0 and values[0] > peak - DROP else low), float(grid[top]), high, peak
        geometric = high > 16 * low
        grid = np.geomspace(low, high, 65) if geometric else np.linspace(low, high, 65)
    raise NumericalFailure("the support of a privacy curve's integrand was not found; no guarantee is claimed")


def _panels(
    log_f: Callable[[FloatArray], FloatArray], low: float, mode: float, high: float, peak: float
) -> FloatArray:
    """Edges that double in width away from the mode, starting below the distance where f first falls by e."""
    shares = np.ldexp(1.0, -np.arange(70.0).astype(int))
    scales = [width for width in (mode - low, high - mode) if width > 0]
    steps = []
    for width, sign in ((mode - low, -1.0), (high - mode, 1.0)):
        if width > 0:
            points = mode + sign * width * shares
            fallen = log_f(np.maximum(points, np.finfo(float).tiny)) < peak - 1.0
            steps.append(width * shares[max(int(fallen.sum()) - 1, 0)])
    step = min(steps, default=max(scales, default=1.0)) / 4
    left = mode - _doubling(step, mode - low)
    right = mode + _doubling(step, high - mode)
    return np.concatenate([left[::-1], [mode], right])


def _doubling(step: float, length: float) -> FloatArray:
    """step, 3 step, 7 step ... and at last the length itself."""
    if not length > 0:
        return np.empty(0)
    count = int(np.ceil(np.log2(length / step + 1)))
    return np.append(step * (2.0 ** np.arange(1, max(count, 1)) - 1), length)


def _composite(
    log_f: Callable[[FloatArray], FloatArray], edges: FloatArray, rule: tuple[FloatArray, FloatArray], peak: float
) -> float:
    nodes, weights = rule
    half = np.diff(edges)[:, None] / 2
    points = edges[:-1, None] + half * (nodes + 1)
    return float((half * weights * np.exp(log_f(points) - peak)).sum())

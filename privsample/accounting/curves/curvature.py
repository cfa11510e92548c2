"""Rényi divergences in exponential families, as integrals of the log normalizer's second derivative.

Let G(t) be the log normalizer on the line of natural parameters from Q (t = 0) to P (t = 1). The divergence of order a
is the integral of t G''(t) over [0, 1] plus the integral of (a - t)/(a - 1) G''(t) over [1, a]: positive terms, so that
nothing cancels (posterior.md, section 1).

Results are rounded up for the given `base` and `step`. A caller that rounds these parameters must round them in the
direction that increases the divergence.
"""

from collections.abc import Callable

import numpy as np

from privsample._checks import FloatArray
from privsample._logspace import exact_product
from privsample.errors import NumericalFailure

Curvature = Callable[[FloatArray], FloatArray]
_BERNOULLI = (43867 / 798, -3617 / 510, 7 / 6, -691 / 2730, 5 / 66, -1 / 30, 1 / 42, -1 / 30, 1 / 6)  # B_18 ... B_2
_SERIES_FROM, _BLOCK = 10.0, 16384  # first argument of the asymptotic series; block size that fits the cache
_LONGEST = 1e300  # largest length of a first panel
_ULP = float(np.finfo(np.float64).eps)
# The rounding error of nodes, curvatures and sums is at most 6 units of 2^-53 (the largest in 30,000 random settings
# against 130 digits); the remaining units cover sums over many releases (posterior.md, section 1, "All else").
_UP = 1.0 + 64 * 2.0**-53
_WHOLE, _UNDERFLOW = 2.0**53, 1e-322  # orders above 2^53 are integers, so that order - 1 is rounded
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(16)


def trigamma(u: FloatArray) -> FloatArray:
    """Second derivative of log Gamma at u > 0, to 1e-15: asymptotic series from 10 on, recurrence below 10."""
    flat = np.ravel(u)
    result = np.empty_like(flat)
    for start in range(0, len(flat), _BLOCK):
        result[start : start + _BLOCK] = _trigamma(flat[start : start + _BLOCK])
    return result.reshape(np.shape(u))


def _trigamma(u: FloatArray) -> FloatArray:
    """Compute with in-place operations, because Rényi curves of posteriors spend most of their time here."""
    small = u < _SERIES_FROM
    inverse = 1.0 / np.where(small, u + _SERIES_FROM, u)
    square, series = inverse * inverse, np.full_like(u, _BERNOULLI[0])
    for bernoulli in _BERNOULLI[1:]:
        series *= square
        series += bernoulli
    series *= square
    series += inverse / 2
    series += 1.0
    series *= inverse
    below, rest = u[small], series[small]
    with np.errstate(over="ignore", divide="ignore"):
        for k in range(int(_SERIES_FROM) - 1, -1, -1):  # smallest terms first, which keeps the rounding error small
            term = below + k
            term *= term
            rest += np.divide(1.0, term, out=term)
    series[small] = rest
    return series


def _weighted_integral(
    base: FloatArray,
    step: FloatArray,
    length: FloatArray,
    weight: Callable[[FloatArray], FloatArray],
    curvature: Curvature,
) -> FloatArray:
    """Integral over s in [0, length] of weight(s) step^2 curvature(base + step s), shape (rows,).

    Panels double in width from base/step on, so that the pole of the curvature is one panel length away from each.
    `base`, `step` and `length` have shape (rows, 1); `weight` and `curvature` map (rows, points) to the same shape.
    """
    with np.errstate(over="ignore", divide="ignore"):
        unit = np.minimum(base / step, _LONGEST)
        most = float(np.max(length / unit))
    if not most <= _LONGEST:
        raise NumericalFailure(
            "the ratio of a record's contribution to the prior exceeds 1e300, so that no Rényi curve can be computed; "
            "use a larger prior"
        )
    count = int(np.ceil(np.log2(most + 1.0))) + 1
    edges = np.minimum(unit * (np.exp2(np.arange(count + 1)) - 1.0), length)
    half = np.diff(edges, axis=1)[:, :, None] / 2
    s = (edges[:, :-1, None] + half * (_NODES + 1)).reshape(len(base), -1)
    values = weight(s) * curvature(base + step * s)
    total = (values * (half * _WEIGHTS).reshape(len(base), -1)).sum(axis=1)
    width = step[:, 0]
    result: FloatArray = width * (width * total)  # in this order, because width * width alone could underflow
    return result


def rising(s: FloatArray, base: FloatArray, step: FloatArray, curvature: Curvature) -> FloatArray:
    """Rényi divergence of order 1 + s from a coordinate that is base + step under P and base under Q, rounded up.

    All arguments have shape (rows, 1); the result has shape (rows,).
    """
    near = _weighted_integral(base, step, np.ones_like(s), lambda t: t, curvature)
    return (near + _weighted_integral(base + step, step, s, lambda t: (s - t) / s, curvature)) * _UP


def _mixture_rounded_down(base: FloatArray, s: FloatArray, step: FloatArray) -> FloatArray:
    """base - s * step, rounded down (posterior.md, section 1, "The blend").

    The difference cancels near the order limit. The product is therefore formed exactly, with its rounding error, and
    the result is rounded down, because the divergence decreases in it.
    """
    product, lost = exact_product(s, step)
    lost = lost + (s > _WHOLE) * product * _ULP  # rounding error of order - 1 for orders above 2^53
    return ((base - product) - lost) * (1.0 - 2 * _ULP) - _UNDERFLOW


def falling(s: FloatArray, base: FloatArray, step: FloatArray, curvature: Curvature) -> FloatArray:
    """Rényi divergence of order 1 + s from a coordinate that is base under P and base + step under Q, rounded up.

    The result is +inf if base - s * step, the coordinate of the mixture p^a q^(1-a), is not known to be positive.
    """
    blend = _mixture_rounded_down(base, s, step)
    valid = blend > 0
    near = _weighted_integral(base, step, np.ones_like(s), lambda t: 1.0 - t, curvature)
    safe, length = np.where(valid, blend, base), np.where(valid, s, 1.0)
    far = _weighted_integral(safe, step, length, lambda t: t / length, curvature)
    return np.where(valid[:, 0], (near + far) * _UP, np.inf)

"""Renyi divergences as integrals of the log normalizer's curvature along one coordinate, without cancellation.

With G(t) the log normalizer on the line from Q (t = 0) to P (t = 1), the divergence of order a is the integral of
t G''(t) over [0, 1] plus that of (a - t)/(a - 1) G''(t) over [1, a]. Proof: docs/notes/posterior.md, section 1.

Results are rounded up for `base` and `step` as they are: whoever rounds those must round them to the safe side.
"""

from collections.abc import Callable

import numpy as np

from privsample._checks import FloatArray
from privsample._logspace import exact_product
from privsample.errors import NumericalFailure

Curvature = Callable[[FloatArray], FloatArray]
_BERNOULLI = (43867 / 798, -3617 / 510, 7 / 6, -691 / 2730, 5 / 66, -1 / 30, 1 / 42, -1 / 30, 1 / 6)  # B_18 ... B_2
_SERIES_FROM, _BLOCK = 10.0, 16384  # a block stays in the processor's cache
_LONGEST = 1e300  # a first panel
_ULP = float(np.finfo(np.float64).eps)
# In units of 2^-53: nodes, curvatures and sums lose 6 (the most in 30,000 random settings against 130 digits), the rest
# is for sums of many releases.
_UP = 1.0 + 64 * 2.0**-53
_WHOLE, _UNDERFLOW = 2.0**53, 1e-322
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(16)


def trigamma(u: FloatArray) -> FloatArray:
    """Curvature of log Gamma, u > 0, to 1e-15: its asymptotic series from 10 on, ten steps of its recurrence below."""
    flat = np.ravel(u)
    result = np.empty_like(flat)
    for start in range(0, len(flat), _BLOCK):
        result[start : start + _BLOCK] = _trigamma(flat[start : start + _BLOCK])
    return result.reshape(np.shape(u))


def _trigamma(u: FloatArray) -> FloatArray:
    """In place as far as it goes: this is where the Renyi curves of posteriors spend their time."""
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
        for k in range(int(_SERIES_FROM) - 1, -1, -1):  # the least terms first
            term = below + k
            term *= term
            rest += np.divide(1.0, term, out=term)
    series[small] = rest
    return series


def _along(
    base: FloatArray,
    step: FloatArray,
    length: FloatArray,
    weight: Callable[[FloatArray], FloatArray],
    curvature: Curvature,
) -> FloatArray:
    """Integral over s in [0, length] of weight(s) step^2 curvature(base + step s), panels doubling from base/step.

    base, step, length: (rows, 1); weight and curvature map (rows, points) to the same shape. Returns (rows,).
    """
    with np.errstate(over="ignore", divide="ignore"):
        unit = np.minimum(base / step, _LONGEST)
        most = float(np.max(length / unit))
    if not most <= _LONGEST:
        raise NumericalFailure("a prior is so small beside a record's step that no Renyi curve is known")
    count = int(np.ceil(np.log2(most + 1.0))) + 1
    edges = np.minimum(unit * (np.exp2(np.arange(count + 1)) - 1.0), length)
    half = np.diff(edges, axis=1)[:, :, None] / 2
    s = (edges[:, :-1, None] + half * (_NODES + 1)).reshape(len(base), -1)
    values = weight(s) * curvature(base + step * s)
    total = (values * (half * _WEIGHTS).reshape(len(base), -1)).sum(axis=1)
    width = step[:, 0]
    result: FloatArray = width * (width * total)  # the square alone could underflow
    return result


def rising(s: FloatArray, base: FloatArray, step: FloatArray, curvature: Curvature) -> FloatArray:
    """What a coordinate adds that is base + step under P and base under Q, at orders 1 + s; all of shape (rows, 1).

    Rounded up.
    """
    near = _along(base, step, np.ones_like(s), lambda t: t, curvature)
    return (near + _along(base + step, step, s, lambda t: (s - t) / s, curvature)) * _UP


def _least_blend(base: FloatArray, s: FloatArray, step: FloatArray) -> FloatArray:
    """base - s * step, rounded down; it all but cancels near the order limit, so the product is formed exactly."""
    product, lost = exact_product(s, step)
    lost = lost + (s > _WHOLE) * product * _ULP  # an order beyond, less one, is rounded itself
    return ((base - product) - lost) * (1.0 - 2 * _ULP) - _UNDERFLOW


def falling(s: FloatArray, base: FloatArray, step: FloatArray, curvature: Curvature) -> FloatArray:
    """What a coordinate adds that is base under P and base + step under Q, rounded up.

    +inf where the blend of the two, base - s * step, is not positive or cannot be told from zero.
    """
    blend = _least_blend(base, s, step)
    valid = blend > 0
    near = _along(base, step, np.ones_like(s), lambda t: 1.0 - t, curvature)
    safe, length = np.where(valid, blend, base), np.where(valid, s, 1.0)
    far = _along(safe, step, length, lambda t: t / length, curvature)
    return np.where(valid[:, 0], (near + far) * _UP, np.inf)

"""Renyi divergences as integrals of the log normalizer's curvature along one coordinate, without cancellation.

With G(t) the log normalizer on the line from Q (t = 0) to P (t = 1), the divergence of order a is the integral of
t G''(t) over [0, 1] plus that of (a - t)/(a - 1) G''(t) over [1, a]. Proof: docs/notes/posterior.md, section 1.

Results are rounded up (section 1, "Rounding"): they are never below the divergence of the parameters that are meant,
where `base` and `step` are each within a relative 2^-52 of those, as products and sums of stored doubles are.
"""

from collections.abc import Callable

import numpy as np
from scipy import special

from privsample._checks import FloatArray
from privsample._logspace import exact_product
from privsample.errors import NumericalFailure

Curvature = Callable[[FloatArray], FloatArray]
_BERNOULLI = (43867 / 798, -3617 / 510, 7 / 6, -691 / 2730, 5 / 66, -1 / 30, 1 / 42, -1 / 30, 1 / 6)  # B_18 ... B_2
_LONGEST = 1e300  # a first panel
_ULP = float(np.finfo(np.float64).eps)
# Relative rounding, in units of 2^-53: parameters take away at most 10, nodes, curvatures and sums 6 (the most in
# 30,000 random settings against 130 digits); the rest of these 128 is for sums of many releases.
_UP = 1.0 + 128 * 2.0**-53
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(16)


def trigamma(u: FloatArray) -> FloatArray:
    """Curvature of log Gamma, u > 0: its asymptotic series from 10 on, to 1e-15."""
    inverse = 1.0 / np.maximum(u, 10.0)
    square, series = inverse * inverse, np.zeros_like(u)
    for bernoulli in _BERNOULLI:
        series = series * square + bernoulli
    result: FloatArray = inverse * (1.0 + inverse / 2 + series * square)
    small = u < 10.0
    result[small] = special.zeta(2.0, u[small])
    return result


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
    result: FloatArray = step[:, 0] * (step[:, 0] * total)  # the square alone could underflow
    return result


def rising(s: FloatArray, base: FloatArray, step: FloatArray, curvature: Curvature) -> FloatArray:
    """What a coordinate adds that is base + step under P and base under Q, at orders 1 + s; all of shape (rows, 1).

    Rounded up.
    """
    base, step = _outward(base, step)
    near = _along(base, step, np.ones_like(s), lambda t: t, curvature)
    return (near + _along(base + step, step, s, lambda t: (s - t) / s, curvature)) * _UP


def _outward(base: FloatArray, step: FloatArray) -> tuple[FloatArray, FloatArray]:
    """A smaller base and a larger step give more; by one unit in the last place, all that is left below 1e-308."""
    return np.nextafter(base, 0.0), np.nextafter(step, np.inf)


def _least_blend(base: FloatArray, s: FloatArray, step: FloatArray) -> FloatArray:
    """base - s * step, of parameters already moved outward, lowered by what rounding can still have added to it.

    It all but cancels near the order limit, so the difference itself is formed with one rounding. There, base and step
    may each be off by 2 units of 2^-53, s (an order above 2^53, less one) by one and the difference by one more:
    one unit is off already, and two more are taken from either term.
    """
    product, lost = exact_product(s, step)
    return ((base - product) - lost) - _ULP * (base + product)


def falling(s: FloatArray, base: FloatArray, step: FloatArray, curvature: Curvature) -> FloatArray:
    """What a coordinate adds that is base under P and base + step under Q, rounded up.

    +inf where the blend of the two, base - s * step, is not positive or cannot be told from zero.
    """
    base, step = _outward(base, step)
    blend = _least_blend(base, s, step)
    valid = blend > 0
    near = _along(base, step, np.ones_like(s), lambda t: 1.0 - t, curvature)
    safe, length = np.where(valid, blend, base), np.where(valid, s, 1.0)
    far = _along(safe, step, length, lambda t: t / length, curvature)
    return np.where(valid[:, 0], (near + far) * _UP, np.inf)

"""Rényi divergences from privacy curves that are known as chords. Proof: docs/notes/composition.md, "Tables".

Between two nodes the curve is linear in e^epsilon, so that the integral of Balle, Barthe and Gaboardi 2018, Theorem 6,
over a panel has a closed form.
"""

import numpy as np

from privsample._checks import FloatArray
from privsample._logspace import log1mexp
from privsample.accounting.curves.chords import CurveChords
from privsample.accounting.curves.conversion import Curve

_ULP = float(np.finfo(np.float64).eps)
_RULE = np.polynomial.legendre.leggauss(12)
_POINTS, _WEIGHTS = (_RULE[0] + 1.0) / 2, _RULE[1] / 2
_NARROW = 0.5  # largest order times width of panels integrated by Gauss-Legendre quadrature, where closed forms cancel
_PADDING, _ROUNDING = 1e-11, 2e-14
_STEPS = np.array([1.0, 1 / 8, 8.0])


def renyi_from_chords(
    ahead: CurveChords, back: CurveChords, ceiling: Curve, max_divergence: float, order_limit: float, orders: FloatArray
) -> FloatArray:
    """Upper bound on R_a(P || Q) at `orders`, any shape, > 1, in nats; +inf at and above `order_limit`.

    `ahead` are chords of the privacy curve of (P, Q), `back` those of (Q, P). `ceiling` is a Rényi curve that (P, Q)
    never exceeds, for the tail of the integral. `max_divergence` is that of (P, Q).
    """
    a = np.asarray(orders, dtype=np.float64)
    result, inside = np.full(a.shape, np.inf), a < order_limit
    if max_divergence <= 0.0 or not inside.any():
        return np.where(inside, 0.0, result)
    s = a[inside][:, None] - 1.0
    with np.errstate(divide="ignore", invalid="ignore", over="ignore", under="ignore"):
        growing = _until_each_node(ahead, s, growing=True)
        beyond = _tail(ahead, s, ceiling, max_divergence, order_limit)
        falling = _until_each_node(back, s + 1.0, growing=False)[:, -1]
        last = back.log_delta[-1] - (s[:, 0] + 1.0) * back.nodes[-1] - np.log1p(s[:, 0])
        total = np.logaddexp(np.logaddexp(growing, beyond).min(axis=1), np.logaddexp(falling, last)) + _PADDING
        grown = np.logaddexp(0.0, np.log(s[:, 0]) + np.log1p(s[:, 0]) + total)
        result[inside] = np.fmin(grown / s[:, 0] * (1.0 + _ROUNDING), ceiling(a[inside]))
    return result


def _until_each_node(chords: CurveChords, rate: FloatArray, *, growing: bool) -> FloatArray:
    """log of the integral of delta(e) e^(rate e), or of delta(e) e^(-rate e), from 0 to each node; (rows, nodes)."""
    low, high = chords.nodes[:-1], chords.nodes[1:]
    width = high - low
    upper, lower = chords.log_delta[:-1], chords.log_delta[1:]
    # on a panel delta is the lower value plus the difference times a weight that falls from one to zero
    difference = upper + log1mexp(np.minimum(lower - upper, 0.0))
    level, slope = _panel(rate, width, growing=growing)
    ends = rate * high if growing else -rate * low
    finite = np.where(np.isneginf(upper), -np.inf, np.logaddexp(lower + np.log(level), difference + np.log(slope)))
    pieces = np.where(np.isneginf(finite), -np.inf, finite + ends)
    return np.logaddexp.accumulate(np.hstack([np.full((len(rate), 1), -np.inf), pieces]), axis=1)


def _panel(rate: FloatArray, width: FloatArray, *, growing: bool) -> tuple[FloatArray, FloatArray]:
    """Integrals of e^(-rate v) over [0, width] and of it times the weight, v measured from the larger end.

    The weight is (1 - e^-v)/(1 - e^-width) where the exponential grows with epsilon, since v = 0 is then the upper
    node, and (1 - e^-(width - v))/(1 - e^-width) where it falls.
    """
    whole = -np.expm1(-width)
    level = -np.expm1(-rate * width) / rate
    if growing:
        other = -np.expm1(-(rate + 1.0) * width) / (rate + 1.0)
    else:
        other = np.exp(-width) * np.where(rate > 1.0, -np.expm1(-(rate - 1.0) * width) / (rate - 1.0), width)
    slope = (level - other + 4 * _ULP * level) / whole  # the difference of two roundings is rounded up
    v = width[:, None] * _POINTS
    weight = np.expm1(-v if growing else v - width[:, None]) / np.expm1(-width)[:, None] * _WEIGHTS * width[:, None]
    for row, own in enumerate(rate[:, 0]):
        narrow = (own + 1.0) * width <= _NARROW
        slope[row, narrow] = (np.exp(-own * v[narrow]) * weight[narrow]).sum(axis=1)
    return level, slope


def _tail(chords: CurveChords, s: FloatArray, ceiling: Curve, max_divergence: float, order_limit: float) -> FloatArray:
    """log of the integral beyond each node: delta(e) <= e^(t (R_(t+1) - e)) for any t in (s, order_limit - 1)."""
    ended = np.isneginf(chords.log_delta) | (chords.nodes >= max_divergence)
    if np.isfinite(max_divergence):  # the last node is the end
        return np.broadcast_to(np.where(ended, -np.inf, np.inf), (len(s), len(ended)))
    steps = np.minimum(np.maximum(s, 1.0) * _STEPS, (order_limit - 1.0 - s) / 2)
    t = s + steps
    level = t * ceiling(t + 1.0) - np.log(steps)
    beyond = np.min(level[..., None] - steps[..., None] * chords.nodes, axis=1)
    return np.where(ended, -np.inf, beyond)

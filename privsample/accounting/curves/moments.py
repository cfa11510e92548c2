"""Renyi divergence of a pair that is known by its two privacy curves. Kind: exact up to rounding upwards.

Source: Balle, Barthe and Gaboardi 2018, Theorem 6: with s = a - 1, e^(s R_a(P || Q)) is
1 + s (s+1) int_0^inf [e^(s e) D_(e^e)(P || Q) + e^(-(s+1) e) D_(e^e)(Q || P)] de.
"""

import numpy as np
from numpy.typing import NDArray

from privsample._checks import FloatArray
from privsample.accounting.curves.conversion import Curve

_FINE, _COARSE = np.polynomial.legendre.leggauss(16), np.polynomial.legendre.leggauss(10)
_NODES = np.concatenate([[-1.0], _FINE[0], [1.0], _COARSE[0]])
_INNER, _ENDS = slice(1, 17), [0, 17]
_POWERS = (np.polynomial.legendre.legvander(x, 15).T for x in (_FINE[0], np.array([-1.0, 1.0])))
_TO_ENDS = np.linalg.solve(*_POWERS)  # of values at the fine nodes: those of the polynomial through them at both ends
_UNSEEN = float(1.0 - _FINE[0].max())  # from the last fine node to the end
_OCTAVES_BELOW, _OCTAVES_ABOVE = 160, 40
_NOTHING, _SETTLED, _PADDING, _ROUNDING = 34.0, np.log(1e-12), 1e-11, 2e-14
_ROUNDS, _MOST_PANELS = 50, 200_000
_STEPS = np.array([1.0, 1 / 8, 8.0])


def renyi_from_curves(
    curves: tuple[Curve, Curve], ceiling: Curve, max_loss: float, order_limit: float, orders: FloatArray
) -> FloatArray:
    """R_a(P || Q) at `orders`, any shape, > 1: never below the truth, +inf at and above `order_limit`.

    Parameters: curves, log delta of (P, Q) and of (Q, P), rounded up, at any epsilon >= 0; ceiling, a Renyi curve that
    (P, Q) never exceeds, for the tail of the integral; max_loss, of (P, Q).
    """
    a = np.asarray(orders, dtype=np.float64)
    result = np.full(a.shape, np.inf)
    inside = a < order_limit
    if max_loss <= 0.0 or not inside.any():
        return np.where(inside, 0.0, result)
    s = a[inside] - 1.0
    log_integral = _Integral(curves, ceiling, max_loss, order_limit, s).log_value()
    grown = np.logaddexp(0.0, np.log(s) + np.log1p(s) + log_integral)
    result[inside] = np.minimum(grown / s * (1 + _ROUNDING), ceiling(a[inside]))
    return result


class _Integral:
    """The integral of Theorem 6 at several s, shape (rows,): panels halved until two Gauss-Legendre rules agree.

    Both curves fall in epsilon, so each panel has an upper bound from its ends: it stands in for the panels that are
    next to nothing and for what is left when the halving ends.
    """

    def __init__(
        self, curves: tuple[Curve, Curve], ceiling: Curve, max_loss: float, limit: float, s: FloatArray
    ) -> None:
        self.curve, self.reverse = curves
        self.s = s
        edges = np.exp2(np.arange(-_OCTAVES_BELOW, _OCTAVES_ABOVE + 1.0))
        if np.isfinite(max_loss):
            below = max_loss * np.exp2(np.arange(-_OCTAVES_BELOW, 1.0))
            edges = np.append(below, edges[edges > max_loss])
        self.edges = np.append(0.0, edges)
        self.tail = self._tails(ceiling, max_loss, limit)

    def log_value(self) -> FloatArray:
        """log of the integrals, (rows,)."""
        every = np.arange(len(self.s))
        edges = np.broadcast_to(self.edges, (len(self.s), len(self.edges)))
        ends = self._log_terms(edges, every)
        upper, self.known = _upper(self.s[:, None], self.edges, ends), np.full(len(self.s), -np.inf)
        self._learn(every, edges, ends)
        small = self.tail <= self.known[:, None] - _NOTHING
        cut = np.where(small.any(1), small.argmax(1), len(self.edges) - 1)
        self.total = self.tail[every, cut]
        open_ = (np.arange(len(self.edges) - 1) < cut[:, None]) & np.isfinite(upper)
        near = open_ & (upper > self.known[:, None] - _NOTHING)
        rows, at = np.nonzero(open_ & ~near)
        self._add(rows, upper[rows, at])
        rows, at = np.nonzero(near)
        self._integrate(rows, self.edges[at], self.edges[at + 1])
        return self.total + _PADDING

    def _integrate(self, rows: NDArray[np.intp], left: FloatArray, right: FloatArray) -> None:
        for _ in range(_ROUNDS):
            if not 0 < rows.size <= _MOST_PANELS:
                break
            half = (right - left)[:, None] / 2
            x = left[:, None] + half * (_NODES + 1.0)
            x[:, 17] = right
            terms = self._log_terms(x, rows)
            self._learn(rows, x[:, :18], (terms[0][:, :18], terms[1][:, :18]))
            upper = _upper(self.s[rows][:, None], x[:, [0, 17]], (terms[0][:, [0, 17]], terms[1][:, [0, 17]]))[:, 0]
            log_f = np.logaddexp(*terms)
            fine, gap = _two_rules(log_f, half[:, 0])
            nothing = upper <= self.known[rows] - _NOTHING
            rounding = fine + np.log(16 * np.finfo(np.float64).eps * (1.0 + self.s[rows] * right))
            agreed = gap <= np.maximum(self.known[rows] + _SETTLED, rounding)
            settled = agreed & _seen(log_f[:, _INNER]) & ~nothing
            self._add(rows[nothing], upper[nothing])
            self._add(rows[settled], np.logaddexp(fine, gap)[settled])
            again = ~(nothing | settled)
            rows, left, right = rows[again], left[again], right[again]
            middle = left / 2 + right / 2
            rows, left, right = np.tile(rows, 2), np.concatenate([left, middle]), np.concatenate([middle, right])
        if rows.size:
            x = np.stack([left, right], axis=1)
            self._add(rows, _upper(self.s[rows][:, None], x, self._log_terms(x, rows))[:, 0])

    def _log_terms(self, x: FloatArray, rows: NDArray[np.intp]) -> tuple[FloatArray, FloatArray]:
        """log of the two terms of the integrand."""
        s = self.s[rows][:, None]
        return s * x + self.curve(x), self.reverse(x) - (s + 1.0) * x

    def _learn(self, rows: NDArray[np.intp], x: FloatArray, terms: tuple[FloatArray, FloatArray]) -> None:
        """Raise the lower bounds of the integrals by the largest pieces between neighbouring points."""
        s, (first, second) = self.s[rows][:, None], terms
        width = np.diff(x, axis=1)
        low = np.logaddexp(first[:, 1:] - s * width, second[:, 1:])
        with np.errstate(divide="ignore"):
            np.maximum.at(self.known, rows, (low + np.log(width)).max(axis=1))

    def _add(self, rows: NDArray[np.intp], log_piece: FloatArray) -> None:
        np.logaddexp.at(self.total, rows, log_piece)

    def _tails(self, ceiling: Curve, max_loss: float, limit: float) -> FloatArray:
        """log of the integral beyond each edge: D_(e^e) <= e^(t (R_(t+1) - e)) for any t in (s, limit - 1)."""
        s = self.s[:, None]
        first = np.broadcast_to(np.where(self.edges < max_loss, np.inf, -np.inf), (len(s), len(self.edges)))
        if np.isinf(max_loss):
            steps = np.minimum(np.maximum(s, 1.0) * _STEPS, (limit - 1.0 - s) / 2)
            t = s + steps
            level = t * ceiling(t + 1.0) - np.log(steps)
            first = np.min(level[..., None] - steps[..., None] * self.edges, axis=1)
        return np.logaddexp(first, self.reverse(self.edges) - (s + 1.0) * self.edges - np.log(s + 1.0))


def _upper(s: FloatArray, edges: FloatArray, terms: tuple[FloatArray, FloatArray]) -> FloatArray:
    """log of an upper bound on the integral between neighbouring edges."""
    width = np.diff(edges, axis=-1)
    first, second = terms[0][:, :-1] + s * width, terms[1][:, :-1]
    return np.logaddexp(first, second) + np.log(width)


def _two_rules(log_f: FloatArray, half: FloatArray) -> tuple[FloatArray, FloatArray]:
    """log of the finer rule's integral, and of how far it may be off; (panels,) each.

    That is how far the coarser rule lies from it, and what a bend of the curve between the last node and an end adds:
    neither rule sees it, but the value at the end does.
    """
    peak = log_f.max(axis=1)
    shift = np.where(np.isfinite(peak), peak, 0.0)
    values = np.exp(log_f - shift[:, None])
    fine, coarse = values[:, _INNER] @ _FINE[1], values[:, 18:] @ _COARSE[1]
    unseen = np.abs(values[:, _INNER] @ _TO_ENDS - values[:, _ENDS]).sum(axis=1) * _UNSEEN
    with np.errstate(divide="ignore"):
        scale = shift + np.log(half)
        return scale + np.log(fine), scale + np.log(np.abs(fine - coarse) + unseen)


def _seen(log_f: FloatArray) -> NDArray[np.bool_]:
    """Whether the points are so close that no peak hides between them."""
    finite = np.where(np.isneginf(log_f), -1e300, log_f)
    steps = np.abs(np.diff(finite, axis=1))
    at = finite.argmax(axis=1)
    rows = np.arange(len(at))
    before, after = steps[rows, np.maximum(at - 1, 0)], steps[rows, np.minimum(at, steps.shape[1] - 1)]
    return np.maximum(before, after) < 3.0

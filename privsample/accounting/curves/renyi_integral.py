"""Rényi divergence of a pair from its two privacy curves, as an integral with a certified quadrature error.

Balle, Barthe and Gaboardi 2018, Theorem 6: with s = a - 1, e^(s R_a(P || Q)) equals
1 + s (s+1) int_0^inf [e^(s e) D_(e^e)(P || Q) + e^(-(s+1) e) D_(e^e)(Q || P)] de.
The error bounds are proved in subsampling.md, "Rényi curve". Kind: exact, rounded up.
"""

import numpy as np
from numpy.typing import NDArray

from privsample._checks import FloatArray
from privsample.accounting.curves.conversion import Curve

_FINE, _COARSE = np.polynomial.legendre.leggauss(16), np.polynomial.legendre.leggauss(10)
_NODES = np.concatenate([[-1.0], _FINE[0], [1.0], _COARSE[0]])
_INNER, _ENDS = slice(1, 17), [0, 17]
_POWERS = (np.polynomial.legendre.legvander(x, 15).T for x in (_FINE[0], np.array([-1.0, 1.0])))
# Maps values at the fine nodes to the values of their interpolating polynomial at both ends of the panel.
_EXTRAPOLATE = np.linalg.solve(*_POWERS)
_END_GAP = float(1.0 - _FINE[0].max())  # distance from the last fine node to the end of the panel [-1, 1]
_OCTAVES_BELOW, _OCTAVES_ABOVE = 160, 40  # panels of doubling width below and above epsilon = 1
_NEGLIGIBLE = 34.0  # a panel whose bound is e^-34 of the integral counts by its bound
_SETTLED, _PADDING, _ROUNDING = np.log(1e-12), 1e-11, 2e-14  # relative: agreement of the rules; rounding of sums, logs
_ROUNDS, _MOST_PANELS = 50, 200_000  # iteration limits
_STEPS = np.array([1.0, 1 / 8, 8.0])  # order increments tried in the bound on the tail


def renyi_from_curves(
    curves: tuple[Curve, Curve], ceiling: Curve, max_divergence: float, order_limit: float, orders: FloatArray
) -> FloatArray:
    """Rényi divergence R_a(P || Q) in nats at `orders` > 1 (any shape), rounded up; +inf from `order_limit` on.

    `curves` are log delta of (P, Q) and of (Q, P), rounded up, at any epsilon >= 0. `ceiling` is an upper bound on the
    Rényi curve of (P, Q); it bounds the tail of the integral. `max_divergence` is that of (P, Q).
    """
    a = np.asarray(orders, dtype=np.float64)
    result = np.full(a.shape, np.inf)
    inside = a < order_limit
    if max_divergence <= 0.0 or not inside.any():
        return np.where(inside, 0.0, result)
    s = a[inside] - 1.0
    log_integral = _Integral(curves, ceiling, max_divergence, order_limit, s).log_value()
    grown = np.logaddexp(0.0, np.log(s) + np.log1p(s) + log_integral)
    result[inside] = np.minimum(grown / s * (1 + _ROUNDING), ceiling(a[inside]))
    return result


class _Integral:
    """The integral of Theorem 6 at several s, shape (rows,): panels are halved until two Gauss-Legendre rules agree.

    Both curves decrease in epsilon, so the values at the ends of a panel bound its integral from above and from below.
    The upper bound is used for negligible panels and for panels still unconverged at the iteration limit.
    """

    def __init__(
        self, curves: tuple[Curve, Curve], ceiling: Curve, max_divergence: float, limit: float, s: FloatArray
    ) -> None:
        self.curve, self.reverse = curves
        self.s = s
        edges = np.exp2(np.arange(-_OCTAVES_BELOW, _OCTAVES_ABOVE + 1.0))
        if np.isfinite(max_divergence):
            below = max_divergence * np.exp2(np.arange(-_OCTAVES_BELOW, 1.0))
            edges = np.append(below, edges[edges > max_divergence])
        self.edges = np.append(0.0, edges)
        self.tail = self._tails(ceiling, max_divergence, limit)

    def log_value(self) -> FloatArray:
        """Logarithms of the integrals, (rows,), rounded up."""
        every = np.arange(len(self.s))
        edges = np.broadcast_to(self.edges, (len(self.s), len(self.edges)))
        ends = self._log_terms(edges, every)
        upper, self.log_lower = _log_panel_bound(self.s[:, None], self.edges, ends), np.full(len(self.s), -np.inf)
        self._raise_lower_bounds(every, edges, ends)
        small = self.tail <= self.log_lower[:, None] - _NEGLIGIBLE
        cut = np.where(small.any(1), small.argmax(1), len(self.edges) - 1)
        self.total = self.tail[every, cut]
        open_ = (np.arange(len(self.edges) - 1) < cut[:, None]) & np.isfinite(upper)
        near = open_ & (upper > self.log_lower[:, None] - _NEGLIGIBLE)
        rows, at = np.nonzero(open_ & ~near)
        self._add(rows, upper[rows, at])
        rows, at = np.nonzero(near)
        self._integrate(rows, self.edges[at], self.edges[at + 1])
        return self.total + _PADDING

    def _integrate(self, rows: NDArray[np.intp], left: FloatArray, right: FloatArray) -> None:
        """Add the integrals over panels [left, right] of the given rows to `total`."""
        for _ in range(_ROUNDS):
            if not 0 < rows.size <= _MOST_PANELS:
                break
            half = (right - left)[:, None] / 2
            x = left[:, None] + half * (_NODES + 1.0)
            x[:, 17] = right  # exactly, so that neighbouring panels share the value
            terms = self._log_terms(x, rows)
            self._raise_lower_bounds(rows, x[:, :18], (terms[0][:, :18], terms[1][:, :18]))
            upper = _log_panel_bound(
                self.s[rows][:, None], x[:, [0, 17]], (terms[0][:, [0, 17]], terms[1][:, [0, 17]])
            )[:, 0]
            log_f = np.logaddexp(*terms)
            fine, gap = _two_rules(log_f, half[:, 0])
            negligible = upper <= self.log_lower[rows] - _NEGLIGIBLE
            # Rounding of the exponent s * epsilon: two rules cannot agree more closely than this.
            rounding = fine + np.log(16 * np.finfo(np.float64).eps * (1.0 + self.s[rows] * right))
            agreed = gap <= np.maximum(self.log_lower[rows] + _SETTLED, rounding)
            settled = agreed & _peak_is_resolved(log_f[:, _INNER]) & ~negligible
            self._add(rows[negligible], upper[negligible])
            self._add(rows[settled], np.logaddexp(fine, gap)[settled])
            again = ~(negligible | settled)
            rows, left, right = rows[again], left[again], right[again]
            middle = left / 2 + right / 2
            rows, left, right = np.tile(rows, 2), np.concatenate([left, middle]), np.concatenate([middle, right])
        if rows.size:
            x = np.stack([left, right], axis=1)
            self._add(rows, _log_panel_bound(self.s[rows][:, None], x, self._log_terms(x, rows))[:, 0])

    def _log_terms(self, x: FloatArray, rows: NDArray[np.intp]) -> tuple[FloatArray, FloatArray]:
        """Logarithms of the two terms of the integrand."""
        s = self.s[rows][:, None]
        return s * x + self.curve(x), self.reverse(x) - (s + 1.0) * x

    def _raise_lower_bounds(self, rows: NDArray[np.intp], x: FloatArray, terms: tuple[FloatArray, FloatArray]) -> None:
        """Raise the lower bounds on the integrals to the largest contribution between two neighbouring points."""
        s, (first, second) = self.s[rows][:, None], terms
        width = np.diff(x, axis=1)
        low = np.logaddexp(first[:, 1:] - s * width, second[:, 1:])
        with np.errstate(divide="ignore"):
            np.maximum.at(self.log_lower, rows, (low + np.log(width)).max(axis=1))

    def _add(self, rows: NDArray[np.intp], log_piece: FloatArray) -> None:
        """Add contributions, given by their logarithms, to the totals of their rows."""
        np.logaddexp.at(self.total, rows, log_piece)

    def _tails(self, ceiling: Curve, max_divergence: float, limit: float) -> FloatArray:
        """Logarithm of a bound on the integral beyond each edge.

        Markov's inequality gives D_(e^e) <= e^(t (R_(t+1) - e)) for every t in (s, limit - 1).
        """
        s = self.s[:, None]
        first = np.broadcast_to(np.where(self.edges < max_divergence, np.inf, -np.inf), (len(s), len(self.edges)))
        if np.isinf(max_divergence):
            steps = np.minimum(np.maximum(s, 1.0) * _STEPS, (limit - 1.0 - s) / 2)
            t = s + steps
            level = t * ceiling(t + 1.0) - np.log(steps)
            first = np.min(level[..., None] - steps[..., None] * self.edges, axis=1)
        return np.logaddexp(first, self.reverse(self.edges) - (s + 1.0) * self.edges - np.log(s + 1.0))


def _log_panel_bound(s: FloatArray, edges: FloatArray, terms: tuple[FloatArray, FloatArray]) -> FloatArray:
    """Logarithm of an upper bound on the integral between neighbouring edges: both curves decrease."""
    width = np.diff(edges, axis=-1)
    first, second = terms[0][:, :-1] + s * width, terms[1][:, :-1]
    return np.logaddexp(first, second) + np.log(width)


def _two_rules(log_f: FloatArray, half: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Logarithms of the finer rule's integral and of its estimated error, (panels,) each.

    The error is the difference of the two rules plus the effect of a kink between the last node and an end of the
    panel. Neither rule evaluates the curve there; the effect is measured by extrapolating to the end.
    """
    peak = log_f.max(axis=1)
    shift = np.where(np.isfinite(peak), peak, 0.0)
    values = np.exp(log_f - shift[:, None])
    fine, coarse = values[:, _INNER] @ _FINE[1], values[:, 18:] @ _COARSE[1]
    at_ends = np.abs(values[:, _INNER] @ _EXTRAPOLATE - values[:, _ENDS]).sum(axis=1) * _END_GAP
    with np.errstate(divide="ignore"):
        scale = shift + np.log(half)
        return scale + np.log(fine), scale + np.log(np.abs(fine - coarse) + at_ends)


def _peak_is_resolved(log_f: FloatArray) -> NDArray[np.bool_]:
    """True where the log integrand changes by less than 3 around its maximum, so that no peak lies between points."""
    finite = np.where(np.isneginf(log_f), -1e300, log_f)
    steps = np.abs(np.diff(finite, axis=1))
    at = finite.argmax(axis=1)
    rows = np.arange(len(at))
    before, after = steps[rows, np.maximum(at - 1, 0)], steps[rows, np.minimum(at, steps.shape[1] - 1)]
    return np.maximum(before, after) < 3.0

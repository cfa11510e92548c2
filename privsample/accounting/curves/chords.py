"""Upper bounds on privacy curves and Rényi curves by chords between a few values (composition.md, section 5).

The hockey-stick divergence is convex in e^epsilon, and (a - 1) R_a is convex in the order a. Between two nodes each
curve lies below its chord, for every choice of nodes: the nodes affect how tight a table is, never its validity.
"""

import math
from dataclasses import dataclass

import numpy as np

from privsample._checks import FloatArray
from privsample.accounting.curves.conversion import Curve

_ULP = float(np.finfo(np.float64).eps)
_UP = 1.0 + 16 * _ULP  # bounds the relative rounding error of one chord
_MANY = 100  # nodes from which a table spans the wider range of orders
_ORDERS, _FEWER_ORDERS = (1e-6, 1e8), (1e-3, 1e4)  # range of order - 1 in tables of many and of few nodes
_NEXT_TO_LIMIT = 1e-9  # smallest relative distance of a node from the order limit
_LOSSES = np.geomspace(1e-9, 1e4, 14)  # the first nodes of a privacy curve, which locate its decrease
# ranges of log delta with the relative density of nodes in each
_DENSITIES = ((0.0, -12.0, 6.0), (-12.0, -60.0, 1.0), (-60.0, -800.0, 0.15), (-800.0, -2e4, 0.003))


@dataclass(frozen=True, slots=True, eq=False)
class RenyiChords:
    """Upper bound on a Rényi curve by chords of (a - 1) R_a.

    `excess` holds a - 1 at the nodes, increasing, and `divergence` an upper bound on R_a in nats, both (nodes,).
    """

    excess: FloatArray
    divergence: FloatArray

    @staticmethod
    def of(curve: Curve, order_limit: float, count: int) -> "RenyiChords":
        """Tabulate a curve at about `count` orders below the order limit."""
        if not order_limit > 1.0:
            return RenyiChords(np.array([1.0]), np.array([np.inf]))
        if np.isinf(order_limit):
            excess = np.geomspace(*(_ORDERS if count >= _MANY else _FEWER_ORDERS), count)
        else:
            half, top = count // 2 + 1, order_limit - 1.0
            distances = top * np.geomspace(_NEXT_TO_LIMIT if count >= _MANY else 1e-3, 0.5, half)
            least = min((_ORDERS if count >= _MANY else _FEWER_ORDERS)[0], top * 1e-3)
            excess = np.unique(np.append(np.geomspace(least, top / 2, half), top - distances))
        excess = excess[(excess > 0.0) & (1.0 + excess < order_limit) & (1.0 + excess > 1.0)]
        if not excess.size:
            return RenyiChords(np.array([1.0]), np.array([np.inf]))
        excess = (1.0 + excess) - 1.0  # exact for the order as it is stored: no rounding error between node and value
        return RenyiChords(excess, np.asarray(curve(1.0 + excess), dtype=np.float64))

    @property
    def convex(self) -> "RenyiChords":
        """The lower convex hull of the nodes and (order 1, 0), which is still an upper bound.

        The true (a - 1) R_a is convex and at most the nodes, hence at most their hull. A conversion of the hull has one
        minimum over the orders, even if the bounds at the nodes are unevenly loose.
        """
        kept: list[int] = []
        x, y = np.append(0.0, self.excess), np.append(0.0, self.excess * self.divergence)
        for at in range(len(x)):
            while len(kept) > 1 and (y[kept[-1]] - y[kept[-2]]) * (x[at] - x[kept[-1]]) >= (y[at] - y[kept[-1]]) * (
                x[kept[-1]] - x[kept[-2]]
            ):
                kept.pop()
            kept.append(at)
        rows = np.array(kept[1:]) - 1
        return RenyiChords(self.excess[rows], self.divergence[rows])

    def __call__(self, orders: FloatArray) -> FloatArray:
        """The chord at each order, rounded up; the first value below the first node, +inf above the last."""
        s = np.asarray(orders, dtype=np.float64) - 1.0
        result = np.where(s <= self.excess[0], self.divergence[0], np.inf)
        if len(self.excess) == 1:
            return result
        # Searches over orders ask for one order at a time, and spend most of their time here.
        at = np.minimum(np.maximum(np.searchsorted(self.excess, s), 1), len(self.excess) - 1)
        low, high = self.excess[at - 1], self.excess[at]
        inside = (s > self.excess[0]) & (s <= self.excess[-1])
        with np.errstate(invalid="ignore", over="ignore"):
            below, above = low * self.divergence[at - 1], high * self.divergence[at]
            share = np.minimum(np.maximum((s - low) / (high - low), 0.0), 1.0)
            height = np.where(share > 0.0, share * above, 0.0) + np.where(share < 1.0, (1 - share) * below, 0.0)
            chord = (height + 8 * _ULP * above) / s * _UP  # rounding error of the two weights and their sum
        return np.where(inside, chord, result)


@dataclass(frozen=True, slots=True, eq=False)
class CurveChords:
    """Upper bound on a privacy curve at epsilon >= 0 by chords in e^epsilon.

    `nodes` holds increasing epsilons, the first 0, and `log_delta` upper bounds on log delta there, both (nodes,).
    """

    nodes: FloatArray
    log_delta: FloatArray

    @staticmethod
    def of(curve: Curve, max_divergence: float, count: int) -> "CurveChords":
        """Tabulate a curve at about `count` epsilons: a coarse scan, then dense nodes where the curve decreases."""
        if max_divergence == 0.0:
            return CurveChords(np.zeros(1), np.full(1, -np.inf))
        coarse = np.append(0.0, _LOSSES[max_divergence > _LOSSES])
        if np.isfinite(max_divergence):
            coarse = np.append(coarse, max_divergence)
        known = np.asarray(curve(coarse), dtype=np.float64)
        left = max(count - len(coarse), 9)
        for part in (left // 3, left // 3, left - 2 * (left // 3)):  # each round locates the decrease better
            fine = _between(coarse, known, part)
            nodes = np.append(coarse, fine)
            values = np.append(known, np.asarray(curve(fine), dtype=np.float64))
            order = np.argsort(nodes)
            coarse, known = nodes[order], np.minimum.accumulate(np.minimum(values[order], 0.0))
        return CurveChords(coarse, known)

    @property
    def convex(self) -> "CurveChords":
        """The lower convex hull of the nodes in e^epsilon, which is still an upper bound, because the curve is convex.

        The minimum of several bounds is not convex. A discretization would round up the negative masses at its kinks.
        Every subset of the nodes is valid, so that rounding here only affects how tight the result is.
        """
        kept: list[int] = []
        nodes, values = self.nodes.tolist(), self.log_delta.tolist()
        for at in range(len(nodes)):
            while len(kept) > 1 and _log_steepness(nodes, values, kept[-2], kept[-1]) <= _log_steepness(
                nodes, values, kept[-1], at
            ):
                kept.pop()
            kept.append(at)
        return CurveChords(self.nodes[kept], self.log_delta[kept])

    def __call__(self, epsilon: FloatArray) -> FloatArray:
        """The chord at each epsilon >= 0, rounded up; the last value beyond the last node."""
        e = np.asarray(epsilon, dtype=np.float64)
        if len(self.nodes) == 1:
            return np.full(e.shape, self.log_delta[0])
        at = np.clip(np.searchsorted(self.nodes, e), 1, len(self.nodes) - 1)
        low, high = self.nodes[at - 1], self.nodes[at]
        before, after = self.log_delta[at - 1], self.log_delta[at]
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            gap, to_high = np.minimum(high - low, 700.0), np.clip(high - e, 0.0, None)
            to_low = np.clip(e - low, 0.0, high - low)
            # Weights of the two ends for e^epsilon between e^low and e^high. They are formed from differences of the
            # epsilons by expm1, so that nothing cancels where nodes are close.
            of_low = np.expm1(-to_high) / np.expm1(-gap)
            of_high = np.exp(-to_high) * np.expm1(-to_low) / np.expm1(-gap)
            chord = np.logaddexp(before + np.log(np.minimum(of_low, 1.0)), after + np.log(np.minimum(of_high, 1.0)))
        chord = np.where(np.isnan(chord), before, chord)  # the curve is non-increasing: the lower node is a bound
        found = np.where(e >= self.nodes[-1], self.log_delta[-1], np.minimum(chord, before))
        size = np.abs(np.maximum(found, -1e300))
        return np.minimum(found + 16 * _ULP * (1.0 + size), 0.0)  # rounding error of the logarithms


def _log_steepness(nodes: list[float], log_delta: list[float], low: int, high: int) -> float:
    """Log of minus the slope of the chord between two nodes in e^epsilon; -inf if it is level."""
    if not log_delta[high] < log_delta[low]:
        return -math.inf
    fall = log_delta[low] + math.log(-math.expm1(log_delta[high] - log_delta[low]))
    gap = nodes[high] - nodes[low]
    return fall - nodes[high] - math.log(-math.expm1(-gap))


def _between(nodes: FloatArray, log_delta: FloatArray, count: int) -> FloatArray:
    """About `count` further nodes: the number in each panel is proportional to the decrease of log delta over it.

    The error of a chord in log delta is at most the decrease over its panel, and about its square where the curve is
    smooth.
    """
    decrease = -np.sum([density * np.diff(np.clip(log_delta, low, high)) for high, low, density in _DENSITIES], axis=0)
    if not decrease.sum() > 0.0:
        return np.empty(0)
    ends = np.round(count * np.append(0.0, np.cumsum(decrease / decrease.sum()))).astype(int)
    panels = zip(nodes[:-1], nodes[1:], np.diff(ends), strict=True)
    fine = np.concatenate([np.linspace(low, high, many + 2)[1:-1] for low, high, many in panels])
    return np.setdiff1d(fine, nodes)

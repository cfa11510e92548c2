"""Certified search for the largest Rényi divergence after Bernoulli draws, over distributions on the farthest corners.

Source: Imola and Chaudhuri 2021, Algorithm 2, with corrected probabilities of the corners; docs/notes/bernoulli.md,
section 3.
"""

import numpy as np
from numpy.typing import NDArray
from scipy import special

from privsample._checks import FloatArray
from privsample._value import frozen_value
from privsample.accounting.postprocessing.bernoulli_bounds import (
    binomial_masses,
    contracted_renyi,
    farthest_renyi,
    finite_renyi,
)

_NODES, _SPLIT, _ROUNDS, _MOST = 97, 8, 16, 65536
_HALVINGS = 64  # bisections of an interval below 1e6, down to the rounding error
_SLACK, _PADDING = (
    3e-9,
    1e-9,
)  # relative: tolerance of the search; bound of the rounding error (bernoulli.md, section 3)
_LOST = 4e-15  # absolute error of a loss: a difference of logarithms, which cancel for nearly equal probabilities

_RANGE = (1e-8, 500.0)  # of epsilon in which the search is made

Masses = tuple[FloatArray, FloatArray]


@frozen_value
class SupremumBounds:
    """Lower and upper bound of a supremum."""

    low: float
    high: float


def renyi_bound(epsilon: float, order: float, trials: int, margin: float) -> float:
    """Upper bound on the divergence after N draws, for any P and Q with both divergences at most epsilon.

    It is the least of epsilon, the divergence of the farthest corners, the contraction, and for one draw the search.
    """
    found = min(
        epsilon,
        float(farthest_renyi(np.array(order), trials, margin)),
        contracted_renyi(epsilon, order, trials, margin),
    )
    if trials == 1 and margin > 0.0 and _RANGE[0] < epsilon < _RANGE[1]:
        found = min(found, corner_renyi(epsilon, order, 1, margin).high)
    return found


def corner_renyi(epsilon: float, order: float, trials: int, margin: float) -> SupremumBounds:
    """Supremum of the divergence after N draws over P, Q on two corners with both divergences at most epsilon.

    For one draw this is the supremum over all distributions on [c, 1-c] (Theorem 1); for more draws it is a lower bound
    of it.

    The probabilities p and q of the first corner form a convex set. The exponential of the divergence is a convex
    function on it and increases as p > q move apart, so it is largest on the upper edge of the set. Over a cell of q it
    is at most the larger of its values at the ends of any tangent of that edge (bernoulli.md, section 3).
    """
    if epsilon == 0.0:
        return SupremumBounds(low=0.0, high=0.0)
    search = _Search(s=order - 1.0, epsilon=epsilon, masses=binomial_masses(trials, margin))
    end = epsilon + 40.0
    nodes = np.linspace(-end, end, _NODES)[None]
    low = high = 0.0
    bounds = np.array([epsilon])  # bound outside all cells
    for split in range(_ROUNDS):
        edge, beyond = search.edge(nodes)  # the most expensive part: once for each node
        low = max(low, float(search.divergence_after(_masses(edge), _masses(nodes)).max()))
        if low * (1 + _SLACK) >= epsilon:
            return SupremumBounds(low=min(low, epsilon), high=epsilon)
        if split == 0:
            high = search.outside(beyond[0, :1], nodes[0, -1:])
        left, right = nodes[:, :-1], nodes[:, 1:]
        bounds = np.minimum(
            search.bounds(left, beyond[:, :-1], left, right), search.bounds(right, beyond[:, 1:], left, right)
        )
        still = bounds > low * (1 + _SLACK)
        high = max(high, float(bounds[~still].max(initial=0.0)))
        left, right, bounds = left[still], right[still], bounds[still]
        if not len(left) or len(left) > _MOST:
            break
        nodes = left[:, None] + (right - left)[:, None] * (np.arange(_SPLIT + 1) / _SPLIT)
        nodes[:, -1] = right  # cells must adjoin exactly
    high = max(high, low, float(bounds.max(initial=0.0)))
    root = np.sqrt(high) + np.sqrt(order / 2) * _LOST  # of order/2 times the le_cam_contraction loss
    return SupremumBounds(low=min(low, epsilon), high=min(float(root * root) * (1 + _PADDING), epsilon))


@frozen_value
class _Search:
    """Distributions by the log odds v of q and t of p, t >= v; `masses` are those of `binomial_masses`."""

    s: float
    epsilon: float
    masses: Masses

    def edge(self, v: FloatArray) -> tuple[FloatArray, FloatArray]:
        """The largest log odds of p for each v, rounded down and rounded up."""
        order = 1.0 + self.s
        low, high = v, self.epsilon + order / self.s * np.logaddexp(0.0, v) + 1.0
        none, one = -np.logaddexp(0.0, v), -np.logaddexp(0.0, -v)  # log(1 - q) and log q
        with np.errstate(over="ignore"):
            for _ in range(_HALVINGS):
                middle = (low + high) / 2
                rest, p = -np.logaddexp(0.0, middle), -np.logaddexp(0.0, -middle)
                to_none, to_one = rest - none, p - one
                inside = self._allowed(rest, p, to_none, to_one) & self._allowed(none, one, -to_none, -to_one)
                low, high = np.where(inside, middle, low), np.where(inside, high, middle)
        return low, high

    def _allowed(self, none: FloatArray, one: FloatArray, lost: FloatArray, gained: FloatArray) -> NDArray[np.bool_]:
        """Return whether the divergence of log masses 1 - p and p with these losses is at most epsilon.

        The comparison has a relative error of 1e-16/sqrt(epsilon).
        """
        most = self.s * self.epsilon
        if most > 30.0:
            return np.asarray(np.logaddexp(none + self.s * lost, one + self.s * gained) <= most)
        first = np.exp(none) * np.expm1(np.minimum(self.s * lost, 700.0))
        second = np.exp(one) * np.expm1(np.minimum(self.s * gained, 700.0))
        return np.asarray(first + second <= np.expm1(most))

    def divergences(self, t: FloatArray, v: FloatArray) -> tuple[FloatArray, FloatArray]:
        """The divergence of P from Q and of Q from P."""
        log_p, log_q = _masses(t), _masses(v)
        return finite_renyi(log_p, log_p - log_q, self.s), finite_renyi(log_q, log_q - log_p, self.s)

    def divergence_after(self, log_p: FloatArray, log_q: FloatArray) -> FloatArray:
        """The divergence after the draws, of distributions given by log(1-p, p) and log(1-q, q) on the last axis."""
        low, loss = self.masses
        after = [np.logaddexp(m[..., 1:] + low, m[..., :1] + low - loss) for m in (log_p, log_q)]
        return finite_renyi(after[0], after[0] - after[1], self.s)

    def outside(self, first: FloatArray, last: FloatArray) -> float:
        """Upper bound for q outside the nodes; `first` is the edge over the lowest node."""
        none, all_ones = _masses(np.array([-np.inf])), _masses(np.array([np.inf]))
        return float(
            np.max([self.divergence_after(_masses(first), none), self.divergence_after(all_ones, _masses(last))])
        )

    def bounds(self, v: FloatArray, t: FloatArray, left: FloatArray, right: FloatArray) -> FloatArray:
        """Upper bound for q in each cell, by the tangent at the edge's point t over v."""
        there, back = self.divergences(t, v)
        log_p, log_q = _masses(t), _masses(v)
        with np.errstate(over="ignore", invalid="ignore"):
            slope = np.where(there >= back, _slope(log_p, log_q, self.s), 1.0 / _slope(log_q, log_p, self.s))
        all_ones, found = np.array([-np.inf, 0.0]), []
        for at in (left, right):
            p = special.expit(t) + slope * (special.expit(at) - special.expit(v))
            rest = special.expit(-t) + slope * (special.expit(-at) - special.expit(-v))
            with np.errstate(divide="ignore", invalid="ignore"):
                kept = self.divergence_after(np.log(np.stack([np.maximum(rest, 0.0), p], axis=-1)), _masses(at))
                found.append(
                    np.where(rest > 0.0, kept, self.divergence_after(all_ones, _masses(left)))
                )  # the tangent is cut at p = 1
        worst = np.max(found, axis=0)
        return np.where(np.isnan(worst), np.inf, worst)


def _slope(log_p: FloatArray, log_q: FloatArray, s: float) -> FloatArray:
    """dp/dq along which p^(1+s) q^-s + (1-p)^(1+s) (1-q)^-s is constant, given log(1-p, p) and log(1-q, q).

    It equals s/(1+s) (x^(1+s) - y^(1+s))/(x^s - y^s), x = p/q, y = (1-p)/(1-q).
    """
    log_x, log_y = log_p[..., 1] - log_q[..., 1], log_p[..., 0] - log_q[..., 0]
    gap = -np.abs(log_x - log_y)
    return np.asarray(s / (1 + s) * np.exp(np.maximum(log_x, log_y)) * np.expm1((1 + s) * gap) / np.expm1(s * gap))


def _masses(v: FloatArray) -> FloatArray:
    """log of (1-p, p) from log odds, on a new last axis."""
    return np.stack([-np.logaddexp(0.0, v), -np.logaddexp(0.0, -v)], axis=-1)

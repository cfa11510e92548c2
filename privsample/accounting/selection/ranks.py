"""Rank of the best of K runs under one dataset and under its neighbour, on cells of ranks, rounded up.

Let an output have rank u under P (uniform for every order of the scores) and rank v under Q. The best run has density
phi(u) p against phi(v) q, where phi is the derivative of the probability generating function of K. {rank <= u} is a
test, so v is at least the value that the trade-off function of (P, Q) allows. The cells hold upper bounds of phi(u) and
lower bounds of phi(v). Proof: docs/notes/selection.md, section 2.
"""

import numpy as np
from numpy.typing import NDArray

from privsample._checks import FloatArray
from privsample._logspace import log1mexp
from privsample._value import cached, frozen_value
from privsample.accounting.curves.conversion import crossing
from privsample.accounting.curves.discretize import joined
from privsample.accounting.engine import views
from privsample.accounting.engine.bounds import PrivacyBounds
from privsample.accounting.engine.envelope import BoundsEnvelope
from privsample.accounting.loss.pair import DiscretePair, LossPair, binary_pair, delta_below_zero
from privsample.distributions.runs import RepetitionDistribution

_NODES, _FEW = 2001, 201  # losses for a pair, and for a pair whose curve is expensive
_LEAST_LOSS = 1e-12
_ORDERS, _CUTS = 600, 800  # orders of the conversion; steps of log phi
IndexArray = NDArray[np.intp]


@frozen_value
class RenyiPair(LossPair):
    """Dominating pair of an account of which only the Rényi curve is known. It is its own reverse.

    The privacy curve is the best conversion over a fixed grid of orders; each order gives a valid bound. With `failing`
    false, the pair describes the outcomes of finite privacy loss only.
    Source: Canonne, Kamath and Steinke 2020, Proposition 12.
    """

    bounds: PrivacyBounds
    failing: bool = True

    @property
    def _fails(self) -> bool:
        return self.failing and self.bounds.infinity_mass > 0.0

    @property
    def max_divergence(self) -> float:
        """The pure epsilon of the account; +inf if it has an infinity mass."""
        return np.inf if self._fails else self.bounds.pure_epsilon

    @property
    def order_limit(self) -> float:
        """The order limit of the account."""
        return 1.0 if self._fails else self.bounds.order_limit

    def renyi(self, orders: FloatArray) -> FloatArray:
        """The Rényi curve of the account."""
        a = np.asarray(orders, dtype=np.float64)
        return np.full(a.shape, np.inf) if self._fails else self.bounds.renyi(a)

    @cached
    def _tried(self) -> tuple[FloatArray, FloatArray]:
        """The orders of the grid minus 1, and the Rényi curve there; computed once for all epsilons."""
        limit = self.bounds.order_limit
        top = 25.0 if np.isinf(limit) else np.log(limit - 1.0)
        s = np.exp(np.linspace(min(-12.0, top - 30.0), top, _ORDERS, endpoint=False))
        return s, self.bounds.renyi(1.0 + s)

    @property
    def curve_cost(self) -> float:
        """Cost of one value: all orders of the grid."""
        return _ORDERS / 50

    @property
    def renyi_cost(self) -> float:
        """Cost of one value of the account's Rényi curve."""
        return self.bounds.renyi_cost

    def log_delta(self, epsilon: FloatArray) -> FloatArray:
        """The least conversion over all orders of the grid; zero from the account's pure epsilon on."""
        e = np.asarray(epsilon, dtype=np.float64)
        above = np.minimum(np.abs(e), 1e200)[..., None]
        s, divergence = self._tried
        orders = 1.0 + s
        by_order = s * (divergence - above) - np.log(orders) - s * np.log1p(1.0 / s)
        by_order = by_order + 4e-15 * (s * (divergence + above) + np.log(orders) + 1.0)
        best, size = np.minimum(by_order.min(axis=-1), 0.0), above[..., 0]
        if self._fails:
            best = views.beside_failure(self.bounds, best, size)
        else:
            best = np.where(size >= self.bounds.pure_epsilon, -np.inf, best)
        return np.where(e >= 0, best, delta_below_zero(e, best))

    def reverse(self) -> "RenyiPair":
        """The pair itself."""
        return self


def ordered_pairs(bounds: PrivacyBounds) -> tuple[LossPair, ...]:
    """Pairs each of which dominates one direction of every two neighbours at every epsilon simultaneously."""
    if bounds.single_pairs is None:
        return (BoundsEnvelope(bounds=bounds) if bounds.has_curve else RenyiPair(bounds=bounds),)
    return tuple(one for pair in bounds.single_pairs for one in ((pair,) if pair.is_expensive else pair.alternatives))


def pairs_given_finite_loss(bounds: PrivacyBounds) -> tuple[LossPair, ...]:
    """Dominating pairs conditional on a finite privacy loss, for an account that has an infinity mass."""
    pure = bounds.pure_epsilon
    return (RenyiPair(bounds=bounds, failing=False) if np.isinf(pure) else binary_pair(pure),)


@frozen_value
class ResolvedPair:
    """An ordered pair (P, Q) on a grid of increasing losses: log privacy curves in both directions, and log P masses.

    `forward` is log D_{e^loss}(P || Q) and `reverse` is log D_{e^-loss}(Q || P); shapes (losses,). `log_mass` and
    `log_infinite` describe a discrete dominating pair on the grid. `complete` is True if only outcomes of infinite loss
    lie
    beyond the last node.
    """

    pair: LossPair
    losses: FloatArray
    forward: FloatArray
    reverse: FloatArray
    log_mass: FloatArray
    log_infinite: float
    complete: bool

    @staticmethod
    def of(pair: LossPair, log_share: float) -> "ResolvedPair":
        """Resolve the pair up to losses beyond which at most a fraction e^log_share of the outcomes of P or of Q lies.

        Outcomes of infinite loss do not count towards this fraction.
        """
        back = pair.reverse()
        sure = _sure(pair)
        ends = [_end(side, log_share) for side in ((pair,) if pair == back else (pair, back))]
        count = _FEW if pair.is_expensive else _NODES
        if pair == back:
            half = np.linspace(0.0, ends[0], count // 2)
            above = np.asarray(pair.log_delta(half))
            losses = np.concatenate([-half[:0:-1], half])
            forward = np.concatenate([delta_below_zero(-half, above)[:0:-1], above])
            reverse = forward[::-1]
        else:
            losses = np.linspace(-ends[1], ends[0], count)
            if isinstance(pair, DiscretePair):
                own = pair.loss[np.isfinite(pair.loss)]
                losses = np.unique(np.concatenate([losses, own[(own > losses[0]) & (own < losses[-1])]]))
            forward, reverse = np.asarray(pair.log_delta(losses)), np.asarray(back.log_delta(-losses))

        def ahead(e: FloatArray) -> FloatArray:
            return forward[np.searchsorted(losses, e)]

        def behind(e: FloatArray) -> FloatArray:
            return reverse[np.searchsorted(losses, -e)]

        log_mass, log_infinite = joined(ahead, behind, losses)
        return ResolvedPair(
            pair=pair,
            losses=losses,
            forward=forward,
            reverse=reverse,
            log_mass=log_mass,
            log_infinite=log_infinite,
            complete=bool(log_infinite <= sure + 1e-2),
        )


def _sure(pair: LossPair) -> float:
    """log of the probability of infinite privacy loss."""
    return float(pair.log_delta(np.array(1e6))) if np.isinf(pair.max_divergence) else -np.inf


def _end(pair: LossPair, log_share: float) -> float:
    """A loss at which the privacy curve is below e^log_share, or at its limit."""
    if np.isfinite(pair.max_divergence):
        return max(pair.max_divergence, _LEAST_LOSS)
    goal = max(log_share, _sure(pair) + 1e-3)
    return max(crossing(lambda e: float(pair.log_delta(np.array(e))) - goal, start=1.0), _LEAST_LOSS)


@frozen_value
class RankCells:
    """Cells of ranks: their probabilities under P, and bounds on log phi(u) and log phi(v) at their edges.

    `best` bounds log phi(u) from above and `other` bounds log phi(v) from below. Within a cell, the straight lines
    between
    the values at its edges are bounds as well. A convex function of both that increases in the first argument and
    decreases in the second is therefore largest at an edge (selection.md, section 2, (ii)). Shapes: `share` (cells,),
    `best` and `other` (cells + 1,).
    """

    share: FloatArray
    best: FloatArray
    other: FloatArray

    @property
    def log_ratio(self) -> float:
        """The largest value of log(phi(u)/phi(v))."""
        return max(float((self.best - self.other).max()), 0.0)


def rank_cells(resolved: ResolvedPair, runs: RepetitionDistribution) -> RankCells:
    """Cells from the trade-off function of (P, Q): 1 - v <= e^a (1 - u) + D_{e^a}(Q || P) at every loss -a."""
    slope, offset = -resolved.losses[::-1], resolved.reverse[::-1]
    edges, line = _envelope(slope, offset)
    edges, line = _refined(edges, line, slope, offset, runs)
    slope, offset, width = slope[line], offset[line], np.diff(edges)
    near, near_turn = _tangent(runs, slope, offset, edges[:-1] + width / 2, width / 2)
    far, far_turn = _tangent(runs, slope, offset, edges[1:], width)
    middle = near_turn < 0.5
    with np.errstate(divide="ignore"):
        left = np.where(middle, near + np.log1p(near_turn), far + np.log1p(far_turn))
        right = np.where(middle, near + np.log1p(-np.minimum(near_turn, 0.5)), far)
    other = np.minimum(np.append(left, np.inf), np.append(np.inf, right))
    best = runs.log_pgf_derivative(edges)
    most = np.log(runs.mean)
    lost = 2e-15 * (4.0 + abs(most)) + runs.rounding
    best = best + lost + 2e-15 * np.abs(best - most)
    return RankCells(share=width, best=best, other=other - lost - 2e-15 * np.abs(other - most))


def _tangent(
    runs: RepetitionDistribution, slope: FloatArray, offset: FloatArray, w: FloatArray, reach: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """log phi(v) at 1 - u = w on a line of the envelope, and the relative rise of its tangent over `reach` below w."""
    with np.errstate(divide="ignore", over="ignore"):
        v = np.exp(np.minimum(np.logaddexp(slope + np.log(w), offset) + 1e-14, 0.0))
        return runs.log_pgf_derivative(v), np.where(v < 1.0, runs.pgf_curvature(v) * np.exp(slope) * reach, 0.0)


def _envelope(slope: FloatArray, offset: FloatArray) -> tuple[FloatArray, IndexArray]:
    """Edges 0 = w_0 < ... <= 1, and for each cell the index of a line e^slope w + e^offset that is low there.

    Every line is valid everywhere, so a suboptimal index only loosens the bound.
    """
    before = np.where(np.isfinite(offset[:-1]), offset[:-1], 0.0)
    gain = np.where(np.isfinite(offset[:-1]), before + log1mexp(np.minimum(offset[1:] - before, 0.0)), -np.inf)
    meet = np.minimum(np.exp(gain - slope[:-1] - np.log(np.expm1(np.diff(slope)))), 1.0)
    edges = np.concatenate([[0.0], np.maximum.accumulate(meet[::-1]), [1.0]])
    real = np.diff(edges) > 0.0
    return np.append(0.0, edges[1:][real]), np.arange(len(slope))[::-1][real]


def _refined(
    edges: FloatArray, line: IndexArray, slope: FloatArray, offset: FloatArray, runs: RepetitionDistribution
) -> tuple[FloatArray, IndexArray]:
    """The same cells, divided into even steps of log phi in u and in v."""
    with np.errstate(divide="ignore"):
        beyond = np.minimum(np.exp(np.logaddexp(slope[line] + np.log(edges[1:]), offset[line])), 1.0)
    beyond = np.maximum.accumulate(beyond)
    fine = np.concatenate([[0.0], np.geomspace(1e-12, 1e-3, 400), np.linspace(1e-3, 1.0, 1600)[1:]])
    fall = -runs.log_pgf_derivative(fine)
    at = np.interp(np.linspace(fall[0], fall[-1], _CUTS), fall, fine)
    back = np.interp(at, beyond, edges[1:])
    cut = np.unique(np.concatenate([edges, at, back]))
    cut = cut[(cut >= 0.0) & (cut <= 1.0)]
    return cut, line[np.searchsorted(edges, cut[:-1], side="right") - 1]

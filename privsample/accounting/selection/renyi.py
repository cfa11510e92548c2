"""Rényi curves of the best of K runs: several upper bounds, each at one order.

Each function returns a bound B with e^{(a-1) R_a} <= P(K = 0) + e^{(a-1) B}. If K can be 0, the fixed output of that
event has probability P(K = 0) under both datasets; the published bounds lack this term (docs/notes/selection.md,
section 4).
"""

from collections.abc import Callable
from functools import partial

import numpy as np

from privsample._checks import FloatArray
from privsample.accounting.curves.conversion import Curve, minimize_over_orders
from privsample.accounting.selection.curve import SelectedPair
from privsample.accounting.selection.ranks import RankCells
from privsample.distributions.finite_repetitions import TruncatedRepetitions
from privsample.distributions.repetitions import Poisson, RepetitionDistribution, TruncatedNegativeBinomial

_FURTHER = np.ldexp(1.0, np.arange(-5, 7))  # further orders at which Chernoff's inequality is evaluated


def include_zero_repetitions(runs: RepetitionDistribution, orders: FloatArray, bound: FloatArray) -> FloatArray:
    """1/(a - 1) log(P(K = 0) + e^{(a - 1) B}): the Rényi bound that includes the event of no run."""
    s = orders - 1.0
    return np.logaddexp(runs.log_zero_probability, s * bound) / s


def all_runs(base: Curve, runs: RepetitionDistribution, orders: FloatArray) -> FloatArray:
    """log f(e^{(a - 1) eps(a)})/(a - 1), f the generating function of K: K and the outputs of all runs are released.

    Conditional on K = k the runs compose, and a mixture with equal weights has at most the mean of e^{(a - 1) R_a}. The
    event K = 0 is included. Source: Mironov 2017, Proposition 1, and joint convexity (Van Erven and Harremos 2014);
    docs/notes/selection.md, section 3.
    """
    s = orders - 1.0
    # rounded up before and after the generating function, which increases
    divergence = s * base(orders) * (1.0 + 4e-15) + 4e-16
    finite = np.isfinite(divergence)
    raised = runs.log_pgf(np.where(finite, divergence, 0.0)) + 4e-15 + runs.rounding
    return np.where(finite, raised / s, np.inf)


def second_order(base: Curve, order_limit: float, distribution: TruncatedNegativeBinomial) -> float:
    """The minimum over h >= 1 of (1 + eta)/h log(1 + (1/gamma - 1) e^{(h - 1) eps(h)}).

    Source: Papernot and Steinke 2022, Theorem 2, penultimate line of its proof.
    """
    odds = np.log(np.expm1(-np.log(distribution.gamma)))

    def objective(orders: FloatArray) -> FloatArray:
        return np.logaddexp(0.0, odds + (orders - 1.0) * base(orders)) / orders * (1.0 + 1e-14)

    at_one = np.logaddexp(0.0, odds)
    return float((1.0 + distribution.eta) * min(minimize_over_orders(objective, order_limit), at_one))


def published_bounds(
    base: Curve,
    log_delta: Curve,
    distribution: RepetitionDistribution,
    constant: Callable[[TruncatedNegativeBinomial], float],
) -> dict[str, Curve]:
    """Bounds of Papernot and Steinke for this distribution, by name: Theorem 2 or 6, after truncation with Lemma 22.

    `constant` computes `second_order`.
    """
    _, high = distribution.curvature_bounds
    by_curvature: dict[str, Curve] = {}
    if np.isfinite(high) and not isinstance(distribution, Poisson):
        by_curvature = {
            "curvature of the generating function": lambda a: include_zero_repetitions(
                distribution, a, theorem_6(base, log_delta, distribution, a)
            )
        }
    inner = distribution.distribution if isinstance(distribution, TruncatedRepetitions) else distribution
    match inner:
        case TruncatedNegativeBinomial():
            name, bound = "Theorem 2", partial(theorem_2, base, constant(inner), inner)
        case Poisson():
            name, bound = "Theorem 6", partial(theorem_6, base, log_delta, inner)
        case _:
            return by_curvature
    if isinstance(distribution, TruncatedRepetitions):
        return by_curvature | {
            f"{name} and Lemma 22": lambda a: include_zero_repetitions(
                distribution, a, bound(a) + lemma_22(distribution, a)
            )
        }
    return by_curvature | {name: lambda a: include_zero_repetitions(distribution, a, bound(a))}


def theorem_2(base: Curve, constant: float, distribution: TruncatedNegativeBinomial, orders: FloatArray) -> FloatArray:
    """eps(a) + second_order + log E K/(a - 1).

    Source: Papernot and Steinke 2022, Theorem 2, with the term of its proof in place of the looser one it states.
    """
    return base(orders) + constant + np.log(distribution.mean) / (orders - 1.0)


def theorem_6(base: Curve, log_delta: Curve, distribution: RepetitionDistribution, orders: FloatArray) -> FloatArray:
    """eps(a) + C delta(log(1 + c/(C (a - 1)))) + log E K/(a - 1), where f''/f' lies between c and C.

    delta is the base's privacy curve in both directions. For a Poisson distribution c = C = E K. Source: Papernot and
    Steinke 2022, Theorem 6, at the best point of the privacy curve; docs/notes/selection.md, section 4.
    """
    low, high = distribution.curvature_bounds
    share = low / high if high else 1.0
    delta = np.exp(log_delta(np.log1p(share / (orders - 1.0))))
    return base(orders) + high * delta * (1.0 + 1e-14) + np.log(distribution.mean) / (orders - 1.0)


def lemma_22(distribution: TruncatedRepetitions, orders: FloatArray) -> FloatArray:
    """Increase of the Rényi bound by truncation: log(1/P(K <= m))/(a - 1) + log(E K/E[K; K <= m]).

    Source: Papernot and Steinke 2022, Lemma 22.
    """
    within = np.log(distribution.mean) + distribution.log_kept
    return -distribution.log_kept / (orders - 1.0) + max(float(np.log(distribution.distribution.mean) - within), 0.0)


def lemma_7(cells: RankCells, orders: FloatArray) -> FloatArray:
    """Largest increase by the selection: 1/(a - 1) times the maximum of a log phi(u) + (1 - a) log phi(v(u)).

    Source: Papernot and Steinke 2022, Lemma 7, maximised over the ranks that the trade-off function of the base allows.
    """
    most = [_log_weights(cells, float(order)).max() / (order - 1.0) for order in orders.ravel()]
    return np.reshape(most, orders.shape)


def _log_weights(cells: RankCells, order: float) -> FloatArray:
    """log of phi(u)^a phi(v)^(1 - a) at the edges of the cells; the weight is jointly convex in phi(u) and phi(v)."""
    # best - other is computed first: both are large where their difference is small
    weights = cells.best + (order - 1.0) * (cells.best - cells.other)
    return weights + 4e-15 * (np.abs(weights) + order)


def sorted_bound(found: SelectedPair, order: float) -> tuple[float, bool]:
    """The bound B at one order: the integral of phi(u)^a phi(v)^(1-a) times e^{(a-1)L}, both in decreasing order.

    The rank is uniform, and among all couplings of two distributions the sorted one has the largest mean product
    (Hardy, Littlewood and Pólya 1934, Theorem 378). Losses beyond the last node are bounded by Chernoff's inequality.
    The second item is True if their contribution is negligible.
    """
    s = order - 1.0
    weights = _log_weights(found.cells, order)
    by_cell = np.maximum(weights[1:], weights[:-1])
    falling = np.argsort(-by_cell)
    by_cell, share = by_cell[falling], found.cells.share[falling]
    top = found.resolved.losses[-1]
    values = np.append(np.log(order) + s * top, s * found.resolved.losses[::-1])
    masses = np.exp(np.append(found.resolved.log_infinite, found.resolved.log_mass[::-1]))
    log_total = _log_sorted(by_cell, share, values, masses)
    steeper = order + np.concatenate([s * _FURTHER, _FURTHER])
    with np.errstate(invalid="ignore"):
        beyond = (steeper - 1.0) * found.resolved.pair.renyi(steeper) - (steeper - order) * top
    beyond = (
        float(np.min(np.where(np.isnan(beyond), np.inf, beyond))) if found.resolved.log_infinite > -np.inf else -np.inf
    )
    beyond += float(by_cell[0])
    return float(np.logaddexp(log_total, beyond)) / s, beyond < log_total - 20.0


def _log_sorted(first: FloatArray, share: FloatArray, second: FloatArray, mass: FloatArray) -> float:
    """log of the integral of the product of two decreasing step functions, given by logarithms of their values."""
    ends_first, ends_second = np.cumsum(share), np.cumsum(mass)
    ends_first[-1] = max(ends_first[-1], 1.0)
    ends_second[-1] = max(ends_second[-1], 1.0)
    cuts = np.unique(np.concatenate([ends_first, ends_second]))
    cuts = np.append(cuts[cuts < 1.0], 1.0)
    width = np.diff(cuts, prepend=0.0)
    one, two = np.searchsorted(ends_first, cuts), np.searchsorted(ends_second, cuts)
    with np.errstate(divide="ignore"):
        return float(np.logaddexp.reduce(np.log(width) + first[one] + second[two])) + 1e-13

"""Rényi curves of the best of K runs: each route an upper bound at one order, beside P(K = 0).

B bounds the divergence given that a run was made, in the sense e^{(a-1) R_a} <= P(K = 0) + e^{(a-1) B}; with a common
outcome of probability P(K = 0) the printed bounds lack that term (docs/notes/selection.md, section 4).
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

_FURTHER = np.ldexp(1.0, np.arange(-5, 7))


def beside_none(runs: RepetitionDistribution, orders: FloatArray, bound: FloatArray) -> FloatArray:
    """1/(a - 1) log(P(K = 0) + e^{(a - 1) B})."""
    s = orders - 1.0
    return np.logaddexp(runs.log_zero_probability, s * bound) / s


def every_run(base: Curve, runs: RepetitionDistribution, orders: FloatArray) -> FloatArray:
    """log f(e^{(a - 1) eps(a)})/(a - 1): all runs and their number released, chosen from afterwards.

    Given K = k the runs compose; a mixture with common weights has at most the mean of e^{(a - 1) R_a}.
    Source: Mironov 2017, Proposition 1, and joint convexity (Van Erven and Harremos 2014). Includes K = 0.
    """
    s = orders - 1.0
    divergence = s * base(orders) * (1.0 + 4e-15) + 4e-16
    finite = np.isfinite(divergence)
    raised = runs.log_pgf(np.where(finite, divergence, 0.0)) + 4e-15 + runs.rounding
    return np.where(finite, raised / s, np.inf)


def second_order(base: Curve, order_limit: float, distribution: TruncatedNegativeBinomial) -> float:
    """The least over h >= 1 of (1 + eta)/h log(1 + (1/gamma - 1) e^{(h - 1) eps(h)}).

    Source: Papernot and Steinke 2022, Theorem 2, the last line but one of its proof.
    """
    odds = np.log(np.expm1(-np.log(distribution.gamma)))

    def objective(orders: FloatArray) -> FloatArray:
        return np.logaddexp(0.0, odds + (orders - 1.0) * base(orders)) / orders * (1.0 + 1e-14)

    at_one = np.logaddexp(0.0, odds)
    return float((1.0 + distribution.eta) * min(minimize_over_orders(objective, order_limit), at_one))


def printed(
    base: Curve,
    log_delta: Curve,
    distribution: RepetitionDistribution,
    constant: Callable[[TruncatedNegativeBinomial], float],
) -> dict[str, Curve]:
    """The source's bounds for this distribution, by name: Theorem 2 or 6, after Lemma 22 where the distribution is
    truncated.

    `constant` gives `second_order`.
    """
    inner = distribution.distribution if isinstance(distribution, TruncatedRepetitions) else distribution
    match inner:
        case TruncatedNegativeBinomial():
            name, bound = "Theorem 2", partial(theorem_2, base, constant(inner), inner)
        case Poisson():
            name, bound = "Theorem 6", partial(theorem_6, base, log_delta, inner)
        case _:
            return {}
    if isinstance(distribution, TruncatedRepetitions):
        return {f"{name} and Lemma 22": lambda a: beside_none(distribution, a, bound(a) + lemma_22(distribution, a))}
    return {name: lambda a: beside_none(distribution, a, bound(a))}


def theorem_2(base: Curve, constant: float, distribution: TruncatedNegativeBinomial, orders: FloatArray) -> FloatArray:
    """eps(a) + second_order + log E K/(a - 1). Source: Papernot and Steinke 2022, Theorem 2, tightened."""
    return base(orders) + constant + np.log(distribution.mean) / (orders - 1.0)


def theorem_6(base: Curve, log_delta: Curve, distribution: Poisson, orders: FloatArray) -> FloatArray:
    """eps(a) + mu delta(log(a/(a - 1))) + log mu/(a - 1), delta the base's privacy curve in both directions.

    Source: Papernot and Steinke 2022, Theorem 6, at the best point of the curve; beside P(K = 0).
    """
    delta = np.exp(log_delta(np.log1p(1.0 / (orders - 1.0))))
    return base(orders) + distribution.mean * delta * (1.0 + 1e-14) + np.log(distribution.mean) / (orders - 1.0)


def lemma_22(distribution: TruncatedRepetitions, orders: FloatArray) -> FloatArray:
    """What truncation adds to the bound of the distribution before it: log(1/P(K <= m))/(a - 1) + log(E K/E[K; K <=
    m]).

    Source: Papernot and Steinke 2022, Lemma 22.
    """
    within = np.log(distribution.mean) + distribution.log_kept
    return -distribution.log_kept / (orders - 1.0) + max(float(np.log(distribution.distribution.mean) - within), 0.0)


def lemma_7(cells: RankCells, orders: FloatArray) -> FloatArray:
    """What the choice adds at most: 1/(a - 1) times the largest of a log phi(u) + (1 - a) log phi(v(u)).

    Source: Papernot and Steinke 2022, Lemma 7, over all that the trade-off of the base allows.
    """
    most = [_log_weights(cells, float(order)).max() / (order - 1.0) for order in orders.ravel()]
    return np.reshape(most, orders.shape)


def _log_weights(cells: RankCells, order: float) -> FloatArray:
    """log of phi(u)^a phi(v)^(1 - a) at the edges: a jointly convex function of the two."""
    weights = cells.best + (order - 1.0) * (cells.best - cells.other)
    return weights + 4e-15 * (np.abs(weights) + order)


def sorted_alike(found: SelectedPair, order: float) -> tuple[float, bool]:
    """B at one order: the integral of phi(u)^a phi(v)^(1-a) times e^{(a-1)L}, both in falling order.

    The rank is uniform, and no coupling of two distributions has a larger mean product than the sorted one (Hardy,
    Littlewood and Polya 1934, Theorem 378). Losses beyond the last node enter by Chernoff's bound; the second item
    tells whether they are next to nothing.
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
    """log of the integral of two step functions, values by their logarithms, both given in falling order."""
    ends_first, ends_second = np.cumsum(share), np.cumsum(mass)
    ends_first[-1] = max(ends_first[-1], 1.0)
    ends_second[-1] = max(ends_second[-1], 1.0)
    cuts = np.unique(np.concatenate([ends_first, ends_second]))
    cuts = np.append(cuts[cuts < 1.0], 1.0)
    width = np.diff(cuts, prepend=0.0)
    one, two = np.searchsorted(ends_first, cuts), np.searchsorted(ends_second, cuts)
    with np.errstate(divide="ignore"):
        return float(np.logaddexp.reduce(np.log(width) + first[one] + second[two])) + 1e-13

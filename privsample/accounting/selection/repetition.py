"""Account of the best of a random number of runs: the minimum of all known upper bounds, each listed by name."""

from collections.abc import Callable
from dataclasses import field, replace
from typing import Any

import numpy as np

from privsample._checks import FloatArray
from privsample._value import cached, frozen_value, set_fields
from privsample.accounting.assumptions import Assumption
from privsample.accounting.base import Accountant
from privsample.accounting.curves.conversion import Curve, HigherOrders, monotone_bound
from privsample.accounting.engine.bounds import CurveBound, PrivacyBounds, RenyiBound, RenyiTable
from privsample.accounting.engine.tables import within_budget
from privsample.accounting.engine.views import least_renyi_curve
from privsample.accounting.loss.gaussian import GaussianPair
from privsample.accounting.loss.pair import LossPair, worst_log_delta
from privsample.accounting.selection import renyi
from privsample.accounting.selection.chosen import ChosenAccountant, check_base, point_bound, pure_bounds, pure_renyi
from privsample.accounting.selection.curve import SelectedPair, all_runs_log_delta
from privsample.accounting.selection.ranks import ordered_pairs, pairs_given_finite_loss
from privsample.distributions.repetitions import (
    RepetitionDistribution,
    TruncatedNegativeBinomial,
    check_repetition_distribution,
)

_LEVELS = tuple(-32.0 * 2.0**k for k in range(7))  # log of the fraction of outcomes left unresolved, by level
# approximate numbers of values of the base's curves that an account needs: of a curve in closed form, of another curve,
# and of the Rényi curve
_VALUES, _FEW_VALUES, _ORDERS = 3000, 600, 5000
# costs of the pointwise bound at one epsilon, and at one order of the sorted bound and of the listed bounds
_OWN_VALUE, _OWN_ORDER, _LISTED_ORDER = 4e3, 400.0, 50.0
_ENOUGH = 16.0  # unresolved losses change the bound by a relative e^-16 at most
_SORTED = 1.0 + np.geomspace(1e-2, 20.0, 20)  # orders at which the sorted bound, the most expensive, is computed


@frozen_value
class SelectionAccountant(ChosenAccountant):
    """The best of K runs of a mechanism, where the number K is random and secret.

    The mechanism of account `base` is run K times on the same data, K has the distribution `repetitions`, and the
    output that ranks highest in any fixed order is released. If K = 0, a fixed public output is released. The relation
    is that of the base. The Rényi curve and the privacy curve are the minimum of several upper bounds, which `explain`
    lists.

    Parameters
    ----------
    base : Accountant
        The account of one run, under AddRemove or ReplaceOne.
    repetitions : RepetitionDistribution
        Distribution of K, such as `TruncatedNegativeBinomial`, `Poisson` or `Binomial`. It must be public. With
        `FixedRepetitions` the account is that of the composition of all runs, and with P(K = 1) = 0 that of the
        composition of the largest number.
    assumptions : frozenset of Assumption, default {TIMING}
        Assumptions of the guarantee. Those of the base are added. {FIXED_WORK} if the largest possible number of runs
        is always made, of which the first K count (docs/notes/constant_time.md).

    Raises
    ------
    TypeError
        If `base` is not an account or `repetitions` is not a RepetitionDistribution.
    RelationMismatch
        If the base is under ProfileEdge: repeated runs on one observation do not compose.

    Notes
    -----
    Source: Papernot and Steinke 2022, Theorems 2 and 6, Lemmas 7, 20 and 22, Proposition 17 for a fixed number of runs;
    docs/notes/selection.md, sections 2 to 4, for the sharper bounds.

    Kind: upper bound.

    Examples
    --------
    The best of 10 runs in expectation, each with 0.1-zCDP:

    >>> import privsample as ps
    >>> run = ps.ZCDPAccountant(rho=0.1)
    >>> best = ps.SelectionAccountant(base=run, repetitions=ps.TruncatedNegativeBinomial.logarithmic(mean=10))
    >>> round(float(best.epsilon(1e-5)), 2), round(float((10 * run).epsilon(1e-5)), 2)
    (2.79, 7.08)
    """

    base: Accountant
    repetitions: RepetitionDistribution
    assumptions: frozenset[Assumption] = frozenset({Assumption.TIMING})
    _cache: dict[Any, Any] = field(default_factory=dict, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        base = check_base(self.base)
        repetitions = check_repetition_distribution(self.repetitions)
        set_fields(self, repetitions=repetitions, assumptions=self.assumptions | base.assumptions)

    @property
    def source(self) -> str:
        """The theorems on selection, and the source of the base."""
        return f"Papernot and Steinke 2022, Theorems 2 and 6, Lemma 7; docs/notes/selection.md; {self.base.source}"

    def _bounds(self) -> PrivacyBounds:
        """The minimum of all known bounds."""
        if (number := self._composed_runs) is not None:
            # selection.md, section 6: the selected output is a function of K and of the outputs of this many runs
            return replace((number * self.base).bounds, exact=frozenset())
        pure, infinity_mass = self._largest_loss, self._infinity_mass
        curves = [
            CurveBound(name="pointwise bound", log_delta=self._pointwise),
            point_bound("curve shifted by R", self._by_ratio),
        ]
        match self._base.pairs:
            case (GaussianPair(mu=mu),):
                curves.append(point_bound("release of all runs", lambda e: all_runs_log_delta(mu, self.repetitions, e)))
        if infinity_mass == 0.0:
            curves += pure_bounds("privacy curve of the pure guarantee", pure)
        return PrivacyBounds.from_renyi(
            self._renyi,
            order_limit=self._limit,
            infinity_mass=infinity_mass,
            pure_epsilon=pure,
            exact=frozenset(),
            curve_is_least=True,
            curve_bounds=tuple(curves),
            own_curve_cost=_OWN_VALUE + len(curves) * self._base.curve_cost,
            own_renyi_cost=_OWN_ORDER + 20 * self._base.renyi_cost,
            listed_renyi_cost=_LISTED_ORDER + 20 * self._base.renyi_cost,
            tabulated=self._base.from_table,
            renyi_bounds=tuple(RenyiBound(name=name, renyi=curve) for name, curve in self._cheap_curves().items()),
            renyi_tables=(RenyiTable(name="sorted Rényi bound", table=self._sorted),),
        )

    @property
    def _composed_runs(self) -> int | None:
        """The number of runs whose composition is the account; None if the bounds by ranks apply.

        These need f'(0) = P(K = 1) > 0: without it phi vanishes at the lowest rank, and no ratio is bounded there.
        """
        if self.repetitions.fixed_number is not None or not np.isneginf(self.repetitions.log_mass(np.ones(()))):
            return self.repetitions.fixed_number
        return int(self.repetitions.maximum) if np.isfinite(self.repetitions.maximum) else None

    @cached
    def _base(self) -> PrivacyBounds:
        """The bounds of the base, tabulated if the required values are too expensive."""
        pairs = self.base.bounds.single_pairs or ()
        values = _VALUES if pairs and not any(pair.is_expensive for pair in pairs) else _FEW_VALUES
        return within_budget(self.base.bounds, curve=values, renyi=_ORDERS)

    @property
    def _limit(self) -> float:
        """The order limit of the base."""
        return self._base.order_limit

    @property
    def _infinity_mass(self) -> float:
        """Probability that some run has infinite privacy loss (Papernot and Steinke 2022, Lemma 20); 0 if none can."""
        base = self.base.infinity_mass
        if base == 0.0:
            return 0.0
        found = float(np.exp(self.repetitions.log_rank_probability(np.asarray(base)) + 1e-14))
        return float(np.clip(found, np.finfo(np.float64).smallest_subnormal, 1 - 2.0**-53))

    @cached
    def _largest_loss(self) -> float:
        """The pure epsilon: that of the base plus the largest log(phi(u)/phi(v)).

        It is at most (2 + eta) times that of the base for the truncated negative binomial distribution, at most the
        maximum of K times that of the base, and the ratio is at most the largest curvature of the generating function
        (for the Poisson distribution the mean) times the total variation distance (docs/notes/selection.md, section 4).
        """
        base = self.base.pure_epsilon
        if np.isinf(base):
            return np.inf
        bounds = [base + max(found.cells.log_ratio for found in self._finite_pairs(0)), self.repetitions.maximum * base]
        distribution = self._finite_repetitions
        if isinstance(distribution, TruncatedNegativeBinomial):
            bounds.append((2.0 + distribution.eta) * base)
        curvature = distribution.curvature_bounds[1]
        if np.isfinite(curvature):
            apart = max(float(one.resolved.pair.log_delta(np.zeros(()))) for one in self._finite_pairs(0))
            bounds.append(base + curvature * float(np.exp(apart)) * (1.0 + 1e-14))
        return min(bounds) if base else 0.0

    def _cached(self, key: Any, make: Callable[[], Any]) -> Any:
        """The stored result under `key`; computed by `make` at first use."""
        if key not in self._cache:
            self._cache[key] = make()
        return self._cache[key]

    def _all_pairs(self, level: int) -> tuple[SelectedPair, ...]:
        """The ordered pairs of the base, outcomes of infinite loss included, resolved to this level."""
        return self._levels("all", level, lambda: ordered_pairs(self._base), self.repetitions)

    def _finite_pairs(self, level: int) -> tuple[SelectedPair, ...]:
        """The ordered pairs of the base conditional on a finite privacy loss, resolved to this level."""
        if self.base.infinity_mass == 0.0:
            return self._all_pairs(level)
        return self._levels("finite", level, lambda: pairs_given_finite_loss(self._base), self._finite_repetitions)

    def _levels(
        self, name: str, level: int, pairs: Callable[[], tuple[LossPair, ...]], distribution: RepetitionDistribution
    ) -> tuple[SelectedPair, ...]:
        """The pairs resolved to a level, stored under `name`; ranks are computed at the first level only."""
        first = self._cached(
            (name, 0), lambda: tuple(SelectedPair.of(pair, distribution, _LEVELS[0]) for pair in pairs())
        )
        return self._cached((name, level), lambda: tuple(selected.refined(_LEVELS[level]) for selected in first))

    @property
    def _finite_repetitions(self) -> RepetitionDistribution:
        """The distribution of the number of runs conditional on a finite loss in each run (Lemma 20)."""
        return self.repetitions.tilted(1.0 - self.base.infinity_mass) if self.base.infinity_mass else self.repetitions

    def _cheap_curves(self) -> dict[str, Curve]:
        """The inexpensive Rényi bounds, by name."""
        if not self._limit > 1.0:  # the base has no Rényi curve at all
            return {}
        base, distribution, found = self._base.renyi, self._finite_repetitions, self._finite_pairs(0)
        pairs = tuple(selected.resolved.pair for selected in found)

        def constant(of: TruncatedNegativeBinomial) -> float:
            return self._cached("second order", lambda: renyi.second_order(base, self._limit, of))

        published_bounds = renyi.published_bounds(base, lambda e: worst_log_delta(pairs, e), distribution, constant)

        def over_trade_off(orders: FloatArray) -> FloatArray:
            extra = np.max([renyi.lemma_7(selected.cells, orders) for selected in found], axis=0)
            return renyi.include_zero_repetitions(distribution, orders, base(orders) + extra)

        return published_bounds | {
            "Lemma 7 over the base's trade-off function": over_trade_off,
            "release of all runs, by Rényi curve": lambda orders: renyi.all_runs(base, distribution, orders),
        }

    def _sorted(self) -> tuple[FloatArray, FloatArray]:
        """A grid of orders, and the sorted bound there."""
        limit = self._limit
        if not self._limit > 1.0:
            return _SORTED, np.full(_SORTED.shape, np.inf)
        orders = _SORTED if np.isinf(limit) else 1.0 + (limit - 1.0) * np.geomspace(1e-3, 0.999, len(_SORTED))
        return self._cached("sorted", lambda: (orders, np.array([self._by_sorting(float(a)) for a in orders])))

    def _by_sorting(self, order: float) -> float:
        """The sorted bound at one order, from as few losses as suffice."""
        best = np.inf
        for level in (0, 1):
            bounds = [renyi.sorted_bound(selected, order) for selected in self._finite_pairs(level)]
            best = min(best, max(bound for bound, _ in bounds))
            if all(negligible for _, negligible in bounds) or any(
                s.resolved.pair.is_expensive for s in self._finite_pairs(0)
            ):
                break
        return float(renyi.include_zero_repetitions(self._finite_repetitions, np.asarray(order), np.asarray(best)))

    @cached
    def _higher(self) -> HigherOrders:
        """The bounds at higher orders, which also hold at lower orders (Papernot and Steinke 2022, Remark 5)."""
        return HigherOrders.of(least_renyi_curve(self.bounds), self._limit)

    def _renyi(self, orders: FloatArray) -> FloatArray:
        """The minimum of all bounds, at this order or at a higher one (Papernot and Steinke 2022, Remark 5)."""
        if not self._limit > 1.0:
            return np.full(orders.shape, np.inf)
        (known, is_expensive), cheap = self._sorted(), least_renyi_curve(self.bounds)

        def bound(a: FloatArray) -> FloatArray:
            near = (a < known[-1]) & (a < self._limit)
            found = cheap(a)
            found[near] = np.minimum(found[near], [self._by_sorting(float(order)) for order in a[near]])
            return found

        least = np.minimum.accumulate(np.append(is_expensive, np.inf)[::-1])[::-1]
        high = least[np.searchsorted(known, orders)]
        found = np.minimum(monotone_bound(bound, orders, self._limit, self._largest_loss, self._higher), high)
        return np.minimum(found, pure_renyi(self._largest_loss, orders))

    def _pointwise(self, epsilon: float, least: float = -np.inf) -> float:
        """log of the pointwise bound at epsilon >= 0; it may be loose where it is below e^least."""
        found, floor = 0.0, np.log(self.repetitions.mean) + _ENOUGH
        for level, share in enumerate(_LEVELS):
            selected = self._all_pairs(level)
            found = max(one.log_delta(epsilon) for one in selected)
            if max(found, least) >= share + floor or all(one.resolved.complete for one in selected):
                break
        return found

    def _by_ratio(self, epsilon: float) -> float:
        """log of E K delta(epsilon - R), where R is the largest log(phi(u)/phi(v)): the shifted curve."""
        found = self._all_pairs(0)
        curves = [s.resolved.pair.log_delta(np.asarray(epsilon - s.cells.log_ratio)) for s in found]
        return min(float(np.max(curves)) + float(np.log(self.repetitions.mean)) + 1e-14, 0.0)

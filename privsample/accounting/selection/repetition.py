"""The account of the best of a random number of runs: every known route, the smallest taken, each named."""

from collections.abc import Callable
from dataclasses import field
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
from privsample.accounting.selection.chosen import ChosenAccountant, checked_base, point_bound, pure_bounds, pure_renyi
from privsample.accounting.selection.curve import SelectedPair, every_run_log_delta
from privsample.accounting.selection.ranks import beside_failure, ordered_pairs
from privsample.distributions.repetitions import (
    Poisson,
    RepetitionDistribution,
    TruncatedNegativeBinomial,
    check_repetition_distribution,
)

_LEVELS = tuple(-32.0 * 2.0**k for k in range(7))  # log shares of outcomes down to which losses are resolved
_VALUES, _ORDERS = 3000, 5000  # of the base, that an account asks for, about
_OWN_VALUE, _OWN_ORDER = 4e3, 1e3  # costs of one value of the pointwise bound, and of sorting at one order
_ENOUGH = 16.0  # what is left beyond matters by e^-16 at most
_SORTED = 1.0 + np.geomspace(1e-2, 20.0, 20)  # orders of the dearest bound


@frozen_value
class SelectionAccountant(ChosenAccountant):
    """The best of K runs of the base by any fixed order of its outputs, K drawn from `runs` and kept secret.

    Where no run is made the output is one that everybody knows. Kind: upper bound.
    Source: Papernot and Steinke 2022, Theorems 2 and 6, Lemmas 7, 20 and 22; what is sharper: docs/notes/selection.md.
    """

    base: Accountant
    runs: RepetitionDistribution
    assumptions: frozenset[Assumption] = frozenset({Assumption.TIMING})
    _cache: dict[Any, Any] = field(default_factory=dict, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        base = checked_base(self.base)
        set_fields(self, runs=check_repetition_distribution(self.runs), assumptions=self.assumptions | base.assumptions)

    @property
    def source(self) -> str:
        """The theorems, and the base's."""
        return f"Papernot and Steinke 2022, Theorems 2 and 6, Lemma 7; docs/notes/selection.md; {self.base.source}"

    def _bounds(self) -> PrivacyBounds:
        """By every known route."""
        pure, infinity_mass = self._largest_loss, self._infinity_mass
        curves = [
            CurveBound(name="pointwise bound", log_delta=self._pointwise),
            point_bound("curve shifted by R", self._by_ratio),
        ]
        match self._base.pairs:
            case (GaussianPair(mu=mu),):
                curves.append(point_bound("every run released", lambda e: every_run_log_delta(mu, self.runs, e)))
        if infinity_mass == 0.0:
            curves += pure_bounds("pure guarantee, by its curve", pure)
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
            tabulated=self._base.from_table,
            renyi_bounds=tuple(RenyiBound(name=name, renyi=curve) for name, curve in self._cheap_curves().items()),
            renyi_tables=(RenyiTable(name="sorted Rényi bound", table=self._sorted),),
        )

    @cached
    def _base(self) -> PrivacyBounds:
        """The base's bounds, by table where the values that the bounds ask for are too expensive."""
        return within_budget(self.base.bounds, curve=_VALUES, renyi=_ORDERS)

    @property
    def _limit(self) -> float:
        return self._base.order_limit

    @property
    def _infinity_mass(self) -> float:
        """Probability that some run fails (Lemma 20); above zero where one can."""
        base = self.base.infinity_mass
        if base == 0.0:
            return 0.0
        found = float(np.exp(self.runs.log_rank_probability(np.asarray(base)) + 1e-14))
        return float(np.clip(found, np.finfo(np.float64).smallest_subnormal, 1 - 2.0**-53))

    @cached
    def _largest_loss(self) -> float:
        """The base's and the largest log phi(u)/phi(v): at most 2 + eta times the base's, or all runs' together.

        For the Poisson distribution that ratio is the mean times the total variation distance.
        """
        base = self.base.pure_epsilon
        if np.isinf(base):
            return np.inf
        bounds = [base + max(found.cells.log_ratio for found in self._beside(0)), self.runs.maximum * base]
        match self._kept:
            case TruncatedNegativeBinomial(eta=eta):
                bounds.append((2.0 + eta) * base)
            case Poisson(mean=mean):
                apart = max(float(one.resolved.pair.log_delta(np.zeros(()))) for one in self._beside(0))
                bounds.append(base + mean * float(np.exp(apart)) * (1.0 + 1e-14))
        return min(bounds) if base else 0.0

    def _once(self, key: Any, make: Callable[[], Any]) -> Any:
        """What was worked out before for this value."""
        if key not in self._cache:
            self._cache[key] = make()
        return self._cache[key]

    def _selected(self, level: int) -> tuple[SelectedPair, ...]:
        """The base's ordered pairs, failures included."""
        return self._levels("all", level, lambda: ordered_pairs(self._base), self.runs)

    def _beside(self, level: int) -> tuple[SelectedPair, ...]:
        """Ordered pairs that hold beside the base's failure."""
        if self.base.infinity_mass == 0.0:
            return self._selected(level)
        return self._levels("beside", level, lambda: beside_failure(self._base), self._kept)

    def _levels(
        self, name: str, level: int, pairs: Callable[[], tuple[LossPair, ...]], distribution: RepetitionDistribution
    ) -> tuple[SelectedPair, ...]:
        first = self._once(
            (name, 0), lambda: tuple(SelectedPair.of(pair, distribution, _LEVELS[0]) for pair in pairs())
        )
        return self._once((name, level), lambda: tuple(selected.further(_LEVELS[level]) for selected in first))

    @property
    def _kept(self) -> RepetitionDistribution:
        """The distribution of the number of runs, given that none fails."""
        return self.runs.tilted(1.0 - self.base.infinity_mass) if self.base.infinity_mass else self.runs

    def _cheap_curves(self) -> dict[str, Curve]:
        """The Rényi curves that cost little, by name."""
        if not self._limit > 1.0:  # the base has no Rényi curve at all
            return {}
        base, distribution, found = self._base.renyi, self._kept, self._beside(0)
        pairs = tuple(selected.resolved.pair for selected in found)

        def constant(of: TruncatedNegativeBinomial) -> float:
            return self._once("second order", lambda: renyi.second_order(base, self._limit, of))

        printed = renyi.printed(base, lambda e: worst_log_delta(pairs, e), distribution, constant)

        def over_trade_off(orders: FloatArray) -> FloatArray:
            extra = np.max([renyi.lemma_7(selected.cells, orders) for selected in found], axis=0)
            return renyi.beside_none(distribution, orders, base(orders) + extra)

        return printed | {
            "Lemma 7 over the base's trade-off": over_trade_off,
            "every run released, by Rényi curve": lambda orders: renyi.every_run(base, distribution, orders),
        }

    def _sorted(self) -> tuple[FloatArray, FloatArray]:
        """Some orders, and the bound by sorting there."""
        limit = self._limit
        if not self._limit > 1.0:
            return _SORTED, np.full(_SORTED.shape, np.inf)
        orders = _SORTED if np.isinf(limit) else 1.0 + (limit - 1.0) * np.geomspace(1e-3, 0.999, len(_SORTED))
        return self._once("sorted", lambda: (orders, np.array([self._by_sorting(float(a)) for a in orders])))

    def _by_sorting(self, order: float) -> float:
        """The integral of sorted functions, from as few losses as will do."""
        best = np.inf
        for level in (0, 1):
            bounds = [renyi.sorted_alike(selected, order) for selected in self._beside(level)]
            best = min(best, max(bound for bound, _ in bounds))
            if all(negligible for _, negligible in bounds) or any(
                s.resolved.pair.is_expensive for s in self._beside(0)
            ):
                break
        return float(renyi.beside_none(self._kept, np.asarray(order), np.asarray(best)))

    @cached
    def _higher(self) -> HigherOrders:
        return HigherOrders.of(least_renyi_curve(self.bounds), self._limit)

    def _renyi(self, orders: FloatArray) -> FloatArray:
        """The least of all bounds, and of what higher orders give (Papernot and Steinke 2022, Remark 5)."""
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
        """log of the pointwise bound at epsilon >= 0; below e^least it may be loose."""
        found, floor = 0.0, np.log(self.runs.mean) + _ENOUGH
        for level, share in enumerate(_LEVELS):
            selected = self._selected(level)
            found = max(one.log_delta(epsilon) for one in selected)
            if max(found, least) >= share + floor or all(one.resolved.settled for one in selected):
                break
        return found

    def _by_ratio(self, epsilon: float) -> float:
        """log of E K delta(epsilon - R), R the largest log phi(u)/phi(v)."""
        found = self._selected(0)
        curves = [s.resolved.pair.log_delta(np.asarray(epsilon - s.cells.log_ratio)) for s in found]
        return min(float(np.max(curves)) + float(np.log(self.runs.mean)) + 1e-14, 0.0)

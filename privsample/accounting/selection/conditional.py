"""The account of drawing again until an output is good enough."""

from dataclasses import field

import numpy as np

from privsample._checks import FloatArray, open_unit_interval
from privsample._value import cached, frozen_value, set_fields
from privsample.accounting.assumptions import Assumption
from privsample.accounting.base import Accountant
from privsample.accounting.curves.conversion import HigherOrders, PointCurve, crossing, monotone_bound
from privsample.accounting.engine.bounds import PrivacyBounds, RenyiBound
from privsample.accounting.engine.tables import within_budget
from privsample.accounting.loss.pair import LossPair, binary_pair
from privsample.accounting.selection.chosen import ChosenAccountant, checked_base, point_bound, pure_bounds, pure_renyi
from privsample.accounting.selection.ranks import Resolved, beside_failure, ordered_pairs

_LOG_SHARE = -32.0
_CALL = 50.0  # cost of asking for one value by itself
_HIGHER, _TRIED, _VALUES = 300, 90, 600  # orders and values that an account asks its base for, about
_SPLITS = 1.0 + np.append(0.0, np.geomspace(1e-3, 1e3, 121))  # r, the free parameter of Proposition 15


@frozen_value
class ConditionalAccountant(ChosenAccountant):
    """The base's output given that it lies in a public set, which has probability >= `floor` whatever the data.

    With `stops` the floor is a chance of its own: each round stops with it and releases nothing, else the base runs,
    and the set is what stops or is good enough; that costs less.
    Kind: upper bound. Source: Papernot and Steinke 2022, Proposition 15, as far as it holds; docs/notes/selection.md,
    section 5, for the bounds from the base's privacy curve.
    """

    base: Accountant
    floor: float
    stops: bool = False
    assumptions: frozenset[Assumption] = frozenset({Assumption.TIMING})
    _growths: dict[bool, list[tuple[LossPair, float]]] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    def __post_init__(self) -> None:
        base, floor = checked_base(self.base), open_unit_interval(floor=self.floor)
        if not floor > base.infinity_mass:
            raise ValueError(
                f"floor must be larger than the base's infinity mass {base.infinity_mass:g}, got {floor:g}: "
                "conditional on a less probable event nothing is guaranteed"
            )
        if not isinstance(self.stops, bool):
            raise TypeError(f"stops must be True or False, got {self.stops!r}")
        set_fields(self, floor=floor, assumptions=self.assumptions | base.assumptions)

    @property
    def source(self) -> str:
        """The theorem, and the base's."""
        return f"Papernot and Steinke 2022, Proposition 15; docs/notes/selection.md; {self.base.source}"

    def _bounds(self) -> PrivacyBounds:
        """By two Rényi bounds, what higher orders give, and the base's privacy curve."""
        pure = self._largest_loss
        infinity_mass = min(self.base.infinity_mass / self.floor * (1 + 1e-15), 1 - 2.0**-53)
        curves = (
            point_bound("privacy curve of the base", self._curve()),
            *(pure_bounds("pure guarantee, by its curve", pure) if infinity_mass == 0.0 else ()),
        )
        return PrivacyBounds.from_renyi(
            self._renyi,
            order_limit=self._limit,
            infinity_mass=infinity_mass,
            pure_epsilon=pure,
            exact=frozenset(),
            curve_is_least=True,
            curve_bounds=curves,
            own_curve_cost=len(curves) * (_CALL + self._base.curve_cost),
            own_renyi_cost=len(_SPLITS) * self._base.renyi_cost,
            tabulated=self._base.from_table,
            renyi_bounds=(
                RenyiBound(name="Proposition 15", renyi=self._proposition_15, explained_only=True),
                RenyiBound(name="growth of the set, by Rényi curve", renyi=self._by_growth, explained_only=True),
                RenyiBound(name="least at this order or higher", renyi=self._renyi),
            ),
        )

    @cached
    def _base(self) -> PrivacyBounds:
        """The base's bounds, by table where the orders that Proposition 15 tries are too many for exact values."""
        orders = len(_SPLITS) * (_HIGHER + _TRIED)
        return within_budget(self.base.bounds, curve=_VALUES, renyi=orders)

    @property
    def _limit(self) -> float:
        return self._base.order_limit

    @property
    def _floor_beside(self) -> float:
        """Probability of the set, at least, or of a stop, beside the base's failure."""
        if self.stops:
            return self.floor / (1.0 - (1.0 - self.floor) * self.base.infinity_mass)
        return (self.floor - self.base.infinity_mass) / (1.0 - self.base.infinity_mass)

    @cached
    def _largest_loss(self) -> float:
        """The base's, and by how much its pure guarantee lets the probability of the set grow."""
        base = self.base.pure_epsilon
        if np.isinf(base):
            return np.inf
        return base + min(base, self._growth(binary_pair(base), self._floor_beside)) if base else 0.0

    def _growth(self, pair: LossPair, floor: float) -> float:
        return (log_growth_beside_stops if self.stops else log_growth)(pair, floor)

    def _proposition_15(self, orders: FloatArray) -> FloatArray:
        """min over r >= 1 of eps(r(a-1)+1) + [(a-2)/(a-1) eps(a-1) if a > 2] + (1/r + 1)/(a-1) log(1/f).

        Source: Papernot and Steinke 2022, Proposition 15 at q = infinity, the best; its middle term is 0 up to order 2.
        """
        s, cost = orders - 1.0, -np.log(self._floor_beside)
        there = self._base.renyi(1.0 + _SPLITS[:, None] * s) + (1.0 / _SPLITS[:, None] + 1.0) / s * cost
        back = np.where(s > 1.0, self._base.renyi(np.where(s > 1.0, s, 2.0)), 0.0)
        return there.min(axis=0) + np.maximum(s - 1.0, 0.0) / s * back

    def _by_growth(self, orders: FloatArray) -> FloatArray:
        """eps(a) + log(G/f) + log(1/f)/(a - 1), G the largest probability of the set under the neighbour.

        With stops: log(((1-f) e^((a-1) eps(a)) + f)/f)/(a - 1), and the growth.
        """
        growth = max(growth for _, growth in self._grown(beside=True))
        log_floor, s = float(np.log(self._floor_beside)), orders - 1.0
        within = s * self._base.renyi(orders) - log_floor
        if self.stops:  # log(1 + x) keeps its digits where x is next to nothing
            within = np.logaddexp(0.0, within + _log_rest(self._floor_beside)) * (1 + 1e-12)
        return growth + within / s

    def _grown(self, *, beside: bool) -> list[tuple[LossPair, float]]:
        """The base's pairs, or those that hold beside its failure, each with log(G/f); worked out once."""
        beside = beside and self.base.infinity_mass > 0.0
        if beside not in self._growths:
            pairs, floor = (
                (beside_failure(self._base), self._floor_beside) if beside else (ordered_pairs(self._base), self.floor)
            )
            self._growths[beside] = [(pair, self._growth(pair, floor)) for pair in pairs]
        return self._growths[beside]

    def _least(self, orders: FloatArray) -> FloatArray:
        """The lesser of the two bounds."""
        return np.minimum(self._proposition_15(orders), self._by_growth(orders))

    @cached
    def _higher(self) -> HigherOrders:
        return HigherOrders.of(self._least, self._limit)

    def _renyi(self, orders: FloatArray) -> FloatArray:
        """The least of both, and of what higher orders give (Papernot and Steinke 2022, Remark 5)."""
        if not self._limit > 1.0:  # the base has no Rényi curve at all
            return np.full(orders.shape, np.inf)
        pure = self._largest_loss
        found = monotone_bound(self._least, orders, self._limit, pure, self._higher)
        return np.minimum(found, pure_renyi(pure, orders))

    def _curve(self) -> PointCurve:
        """log of the bound at e >= 0, the worst over the base's pairs, d their delta(e - log(G/f)).

        It is d/f; with stops, ((1-f) d + f c)/((1-f) d + f), c = (1 - e^(e - growth))_+.
        """
        growths, log_floor = self._grown(beside=False), float(np.log(self.floor))

        def bound(pair: LossPair, e: float) -> float:
            d = float(pair.log_delta(np.asarray(e)))
            if not self.stops:
                return d - log_floor
            runs = d + _log_rest(self.floor)
            stopped = log_floor + float(np.log(-np.expm1(e))) if e < 0.0 else -np.inf
            return float(np.logaddexp(runs, stopped) - np.logaddexp(runs, log_floor))

        def log_delta(epsilon: float) -> float:
            return min(max(bound(pair, epsilon - growth) for pair, growth in growths) + 1e-14, 0.0)

        return log_delta


def log_growth(pair: LossPair, floor: float) -> float:
    """log(G/f), G = min over a of e^a f + D_{e^a}(Q || P): the most that a set of P-probability f has under Q."""
    resolved = Resolved.of(pair, _LOG_SHARE)
    lines = np.logaddexp(-resolved.losses, resolved.reverse - np.log(floor))
    return float(np.clip(lines.min() + 1e-14, 0.0, -np.log(floor)))


def log_growth_beside_stops(pair: LossPair, floor: float) -> float:
    """log of the most that a set with all stops, of chance f, can grow in probability from P to Q.

    It is the g at which f (e^g - 1) = (1-f) D_{e^g}(Q || P).
    """
    back, log_rest, log_floor = pair.reverse(), _log_rest(floor), float(np.log(floor))

    def excess(growth: float) -> float:
        with np.errstate(over="ignore"):
            return log_rest + float(back.log_delta(np.asarray(growth))) - log_floor - float(np.log(np.expm1(growth)))

    return crossing(excess, start=1.0) * (1 + 1e-12)


def _log_rest(floor: float) -> float:
    """log(1 - f), the chance that a round runs the base."""
    with np.errstate(divide="ignore"):
        return float(np.log1p(-floor))

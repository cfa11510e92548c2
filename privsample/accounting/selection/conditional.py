"""Account of a mechanism that is run until its output lies in a set of acceptable outputs."""

from dataclasses import field
from typing import Literal, get_args

import numpy as np

from privsample._checks import FloatArray, one_of, open_unit_interval
from privsample._value import cached, frozen_value, set_fields
from privsample.accounting.assumptions import Assumption
from privsample.accounting.base import Accountant
from privsample.accounting.curves.conversion import HigherOrders, PointCurve, crossing, monotone_bound
from privsample.accounting.engine.bounds import PrivacyBounds, RenyiBound
from privsample.accounting.engine.tables import within_budget
from privsample.accounting.loss.pair import LossPair, binary_pair
from privsample.accounting.selection.chosen import ChosenAccountant, check_base, point_bound, pure_bounds, pure_renyi
from privsample.accounting.selection.ranks import ResolvedPair, ordered_pairs, pairs_given_finite_loss

_LOG_UNRESOLVED = -32.0  # log of the probability mass of outcomes that the grid of losses does not resolve
_CALL_COST = 50.0  # cost of one call, in the unit of `curve_cost`
# approximate numbers of values of the base that are needed: for the bounds at higher orders, for the orders of one
# search, and of its privacy curve
_HIGHER_ORDERS, _SEARCH_ORDERS, _CURVE_VALUES = 300, 90, 600
_SPLITS = 1.0 + np.append(0.0, np.geomspace(1e-3, 1e3, 121))  # r, the free parameter of Proposition 15


Stop = Literal["before", "after"]


@frozen_value
class ConditionalAccountant(ChosenAccountant):
    """The output of a mechanism conditional on an event whose probability has a known lower bound.

    The mechanism of account `base` is run until its output lies in a fixed public set: the event. There are two
    variants. By default, the probability of the event must be at least `event_probability` on every dataset. With
    `geometric_stopping`, each round stops with probability `event_probability`, independently of the data, and then
    nothing is released; otherwise the mechanism runs, and its output is released if it lies in the set. This variant
    needs no assumption on the probability of the event, and its cost is smaller. With `stop="after"`, the mechanism
    runs first, and a round stops with this probability if the output lies outside the set. The relation is that of the
    base.

    Parameters
    ----------
    base : Accountant
        The account of one run, under AddRemove or ReplaceOne.
    event_probability : float
        Lower bound on the probability of the event, for every dataset; with `geometric_stopping`, the stopping
        probability. It lies in (0, 1] and is larger than the infinity mass of the base.
    geometric_stopping : bool, default False
        True if every round stops with probability `event_probability`.
    stop : {"before", "after"}, default "before"
        Whether geometric stopping is decided before or after each run.
    assumptions : frozenset of Assumption, default {TIMING}
        Assumptions of the guarantee. Those of the base are added.

    Raises
    ------
    TypeError
        If `base` is not an account, or another field has the wrong type.
    ValueError
        If `event_probability` is outside its range.
    RelationMismatch
        If the base is under ProfileEdge.

    Notes
    -----
    Source: Papernot and Steinke 2022, Proposition 15, with the correction for orders below 2; docs/notes/selection.md,
    section 5, for the bounds derived from the base's privacy curve.

    Kind: upper bound.

    Examples
    --------
    >>> import privsample as ps
    >>> run = ps.GaussianAccountant(sensitivity=0.25, noise_std=1)
    >>> account = ps.ConditionalAccountant(base=run, event_probability=0.1, geometric_stopping=True)
    >>> round(float(account.epsilon(1e-5)), 2)
    1.28
    """

    base: Accountant
    event_probability: float
    geometric_stopping: bool = False
    stop: Stop = "before"
    assumptions: frozenset[Assumption] = frozenset({Assumption.TIMING})
    _growths: dict[bool, list[tuple[LossPair, float]]] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    def __post_init__(self) -> None:
        base, probability = check_base(self.base), open_unit_interval(event_probability=self.event_probability)
        if not probability > base.infinity_mass:
            raise ValueError(
                f"event_probability must be larger than the base's infinity mass {base.infinity_mass:g}, got "
                f"{probability:g}: conditional on a less probable event there is no guarantee"
            )
        if not isinstance(self.geometric_stopping, bool):
            raise TypeError(f"geometric_stopping must be True or False, got {self.geometric_stopping!r}")
        check_stop(self.stop)
        if self.stop == "after" and not self.geometric_stopping:
            raise ValueError("stop must be left out unless geometric_stopping is True, got 'after'")
        set_fields(self, event_probability=probability, assumptions=self.assumptions | base.assumptions)

    @property
    def source(self) -> str:
        """The theorem, and the source of the base."""
        return f"Papernot and Steinke 2022, Proposition 15; docs/notes/selection.md; {self.base.source}"

    def _bounds(self) -> PrivacyBounds:
        """The minimum of two Rényi bounds, also at higher orders, and the bound from the base's privacy curve."""
        pure = self._largest_loss
        # rounded up; kept below 1, because at 1 there would be no guarantee
        infinity_mass = min(self.base.infinity_mass / self.event_probability * (1 + 1e-15), 1 - 2.0**-53)
        curves = (
            point_bound("privacy curve of the base", self._curve()),
            *(pure_bounds("privacy curve of the pure guarantee", pure) if infinity_mass == 0.0 else ()),
        )
        return PrivacyBounds.from_renyi(
            self._renyi,
            order_limit=self._limit,
            infinity_mass=infinity_mass,
            pure_epsilon=pure,
            exact=frozenset(),
            curve_is_least=True,
            curve_bounds=curves,
            own_curve_cost=len(curves) * (_CALL_COST + self._base.curve_cost),
            own_renyi_cost=len(_SPLITS) * self._base.renyi_cost,
            tabulated=self._base.from_table,
            renyi_bounds=(
                RenyiBound(name="Proposition 15", renyi=self._proposition_15, explained_only=True),
                RenyiBound(name="growth of the event, by Rényi curve", renyi=self._by_growth, explained_only=True),
                RenyiBound(name="least at this order or higher", renyi=self._renyi),
            ),
        )

    @cached
    def _base(self) -> PrivacyBounds:
        """The bounds of the base, tabulated if Proposition 15 needs too many orders for exact values."""
        orders = len(_SPLITS) * (_HIGHER_ORDERS + _SEARCH_ORDERS)
        return within_budget(self.base.bounds, curve=_CURVE_VALUES, renyi=orders)

    @property
    def _limit(self) -> float:
        """The order limit of the base."""
        return self._base.order_limit

    @property
    def _stops_before(self) -> bool:
        """True if each round decides on stopping before its run."""
        return self.geometric_stopping and self.stop == "before"

    @property
    def _finite_event_probability(self) -> float:
        """Least probability of the event, or of stopping, conditional on a finite privacy loss."""
        if self.geometric_stopping and self.stop == "after":
            return self.event_probability  # a run of finite loss that is not accepted stops with this probability
        if self.geometric_stopping:
            return self.event_probability / (1.0 - (1.0 - self.event_probability) * self.base.infinity_mass)
        return (self.event_probability - self.base.infinity_mass) / (1.0 - self.base.infinity_mass)

    @cached
    def _largest_loss(self) -> float:
        """The pure epsilon: that of the base plus the largest log ratio of the event's probabilities on neighbours."""
        base = self.base.pure_epsilon
        if np.isinf(base):
            return np.inf
        return base + min(base, self._growth(binary_pair(base), self._finite_event_probability)) if base else 0.0

    def _growth(self, pair: LossPair, probability: float) -> float:
        """log of the largest ratio of the event's probabilities under Q and P, for a dominating pair (P, Q)."""
        return (log_growth_with_stopping if self.geometric_stopping else log_growth)(pair, probability)

    def _proposition_15(self, orders: FloatArray) -> FloatArray:
        """min over r >= 1 of eps(r(a-1)+1) + [(a-2)/(a-1) eps(a-1) if a > 2] + (1/r + 1)/(a-1) log(1/f).

        Source: Papernot and Steinke 2022, Proposition 15 with q = infinity, the best choice. The middle term is 0 up to
        order 2 (docs/notes/selection.md, section 5).
        """
        s, cost = orders - 1.0, -np.log(self._finite_event_probability)
        forward = self._base.renyi(1.0 + _SPLITS[:, None] * s) + (1.0 / _SPLITS[:, None] + 1.0) / s * cost
        backward = np.where(s > 1.0, self._base.renyi(np.where(s > 1.0, s, 2.0)), 0.0)
        return forward.min(axis=0) + np.maximum(s - 1.0, 0.0) / s * backward

    def _by_growth(self, orders: FloatArray) -> FloatArray:
        """eps(a) + log(G/f) + log(1/f)/(a - 1), where G is the largest probability of the event under the neighbour.

        With geometric stopping after a run, G/f is e^g, where g is the log growth with stopping. With stopping before a
        run: g + log(((1-f) e^((a-1) eps(a)) + f)/f)/(a - 1) (docs/notes/selection.md, section 5).
        """
        growth = max(growth for _, growth in self._pairs_with_growth(finite=True))
        log_probability, s = float(np.log(self._finite_event_probability)), orders - 1.0
        within = s * self._base.renyi(orders) - log_probability
        if self._stops_before:  # log1p keeps the digits of a small second term
            within = np.logaddexp(0.0, within + _log_rest(self._finite_event_probability)) * (1 + 1e-12)
        return growth + within / s

    def _pairs_with_growth(self, *, finite: bool) -> list[tuple[LossPair, float]]:
        """The base's pairs, each with the log growth of the event's probability; computed once.

        With `finite`, the pairs are conditional on a finite privacy loss.
        """
        finite = finite and self.base.infinity_mass > 0.0
        if finite not in self._growths:
            pairs, probability = (
                (pairs_given_finite_loss(self._base), self._finite_event_probability)
                if finite
                else (ordered_pairs(self._base), self.event_probability)
            )
            self._growths[finite] = [(pair, self._growth(pair, probability)) for pair in pairs]
        return self._growths[finite]

    def _minimum(self, orders: FloatArray) -> FloatArray:
        """The minimum of the two Rényi bounds."""
        return np.minimum(self._proposition_15(orders), self._by_growth(orders))

    @cached
    def _higher(self) -> HigherOrders:
        """The bounds at higher orders, which also hold at lower orders (Papernot and Steinke 2022, Remark 5)."""
        return HigherOrders.of(self._minimum, self._limit)

    def _renyi(self, orders: FloatArray) -> FloatArray:
        """The minimum of both bounds, at this order or at a higher one (Papernot and Steinke 2022, Remark 5)."""
        if not self._limit > 1.0:  # the base has no Rényi curve at all
            return np.full(orders.shape, np.inf)
        pure = self._largest_loss
        found = monotone_bound(self._minimum, orders, self._limit, pure, self._higher)
        return np.minimum(found, pure_renyi(pure, orders))

    def _curve(self) -> PointCurve:
        """log of the bound at e >= 0: the maximum over the base's pairs, with d = delta(e - log growth).

        The bound is d/f. With geometric stopping before a run it is ((1-f) d + f c)/((1-f) d + f),
        c = (1 - e^(e - g))_+, and after a run d/((1-f) d + f) (docs/notes/selection.md, section 5).
        """
        growths, log_probability = self._pairs_with_growth(finite=False), float(np.log(self.event_probability))

        def bound(pair: LossPair, e: float) -> float:
            d = float(pair.log_delta(np.asarray(e)))
            if not self.geometric_stopping:
                return d - log_probability
            continued = d + _log_rest(self.event_probability)
            if self.stop == "after":
                return d - float(np.logaddexp(continued, log_probability))
            stopped = log_probability + float(np.log(-np.expm1(e))) if e < 0.0 else -np.inf
            return float(np.logaddexp(continued, stopped) - np.logaddexp(continued, log_probability))

        def log_delta(epsilon: float) -> float:
            # 1e-14 exceeds the rounding error of the logarithms
            return min(max(bound(pair, epsilon - growth) for pair, growth in growths) + 1e-14, 0.0)

        return log_delta


def check_stop(stop: object) -> None:
    """Raise ValueError unless `stop` is "before" or "after"."""
    if not one_of(stop, get_args(Stop)):
        raise ValueError(f"stop must be 'before' or 'after' each run, got {stop!r}")


def log_growth(pair: LossPair, probability: float) -> float:
    """log(G/f), G = min over a of e^a f + D_{e^a}(Q || P): the largest Q-probability of a set of P-probability f."""
    resolved = ResolvedPair.of(pair, _LOG_UNRESOLVED)
    lines = np.logaddexp(-resolved.losses, resolved.reverse - np.log(probability))
    # each line is an upper bound on log(G/f), and so is their minimum; the upper limit -log f follows from G <= 1
    return float(np.clip(lines.min() + 1e-14, 0.0, -np.log(probability)))


def log_growth_with_stopping(pair: LossPair, probability: float) -> float:
    """Largest growth, as a logarithm g, from P to Q of the probability of a set that contains stopping (probability f).

    It is the root g of f (e^g - 1) = (1-f) D_{e^g}(Q || P) (docs/notes/selection.md, section 5, "Growth").
    """
    reverse, log_rest, log_probability = pair.reverse(), _log_rest(probability), float(np.log(probability))

    def excess(growth: float) -> float:
        with np.errstate(over="ignore"):
            return (
                log_rest
                + float(reverse.log_delta(np.asarray(growth)))
                - log_probability
                - float(np.log(np.expm1(growth)))
            )

    # the added 1e-12 exceeds the relative error of the root
    return crossing(excess, start=1.0) * (1 + 1e-12)


def _log_rest(probability: float) -> float:
    """log(1 - f), the log probability that a round does not stop and runs the base."""
    with np.errstate(divide="ignore"):
        return float(np.log1p(-probability))

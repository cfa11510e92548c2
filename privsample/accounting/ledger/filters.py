"""Privacy filters: whether one more release fits, valid although it was chosen after seeing the earlier answers.

Proofs, for every filter and for plans beside it: docs/notes/ledger.md.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal

import numpy as np

from privsample._checks import (
    LARGEST_INTEGER,
    FloatArray,
    positive,
    positive_integer,
    probability,
    real_array,
    renyi_orders,
)
from privsample._value import frozen_value, set_fields
from privsample.accounting.base import Accountant
from privsample.accounting.curves.conversion import crossing, safe_side
from privsample.accounting.guarantees import ApproximateAccountant
from privsample.accounting.targets import DP, RDP, ZCDP, Target

_DIGITS = 15  # of a float's decimals, all of which survive: two that print alike to so many count as equal
_UP, _DOWN = Context(prec=60, rounding=ROUND_CEILING), Context(prec=60, rounding=ROUND_FLOOR)
_PART_DOWN = Context(prec=40, rounding=ROUND_FLOOR)  # fewer digits than a sum keeps: equal parts add up exactly
_SHOWN_DOWN = Context(prec=_DIGITS, rounding=ROUND_FLOOR)
_NOTHING, _ENDLESS = Decimal(0), Decimal("Infinity")
_TWO_ROUNDINGS = 2.0**-51
_CALIBRATED = 1e-9  # of the budget: within this a plan takes it whole
_MARGIN = 1e-9  # of a share's Rényi curve: more than adding up one release at a time can lose
_ROUNDS = 64  # halvings of the interval around the worst loss


def decimal(number: float) -> Decimal:
    """The number to 15 decimal digits, so that 0.1 + 0.2 fits into 0.3; +inf for NaN and for what lies below zero."""
    return Decimal(f"{float(number):.{_DIGITS}g}") if number >= 0 else _ENDLESS


def decimal_of(number: float, whole: float) -> Decimal:
    """As `decimal`, but a k-th of `whole` counts as just that: to 15 digits three times 2/3 is more than 2.

    Within two roundings of a float of the k-th: that is less than what 15 digits leave out.
    """
    found, ratio = decimal(number), float(whole) / float(number) if number > 0 else math.inf
    if not 1.0 <= ratio < LARGEST_INTEGER or not math.isclose(number * round(ratio), whole, rel_tol=_TWO_ROUNDINGS):
        return found
    return _PART_DOWN.divide(decimal(whole), Decimal(round(ratio)))


def _float_down(number: Decimal) -> float:
    """The largest float of 15 digits that is at most this."""
    return float(_SHOWN_DOWN.plus(number)) + 0.0


def _float_up(number: Decimal) -> float:
    """The smallest float of 15 digits that is at least this."""
    return 0.0 - _float_down(number.copy_negate())


@frozen_value
class PrivacyCost:
    """What a filter adds up. Sums are rounded upwards.

    loss: the budget's own measure in nats; for (epsilon, delta) the pure epsilon. renyi: nats at the filter's orders,
    shape (orders,), beside the failures. failure: the probability with which nothing is promised.
    """

    loss: Decimal
    renyi: FloatArray
    infinity_mass: Decimal

    def __add__(self, other: "PrivacyCost") -> "PrivacyCost":
        return PrivacyCost(
            loss=_UP.add(self.loss, other.loss),
            renyi=np.nextafter(self.renyi + other.renyi, np.inf),
            infinity_mass=_UP.add(self.infinity_mass, other.infinity_mass),
        )

    def __mul__(self, times: int) -> "PrivacyCost":
        with np.errstate(over="ignore"):
            renyi = np.nextafter(float(times) * self.renyi, np.inf)
        count = Decimal(times)
        return PrivacyCost(
            loss=_UP.multiply(self.loss, count), renyi=renyi, infinity_mass=_UP.multiply(self.infinity_mass, count)
        )

    __rmul__ = __mul__


class Filter(ABC):
    """A budget and the rule by which charges, chosen one after the other, may go on."""

    __slots__ = ()
    budget: Target

    @property
    def orders(self) -> FloatArray:
        """The orders at which Rényi curves are added, shape (orders,); none for budgets of one number."""
        return np.empty(0)

    @property
    def amount(self) -> float:
        """The budget's own number in nats: epsilon, or rho."""
        return self.budget.rho if isinstance(self.budget, ZCDP) else self.budget.epsilon  # type: ignore[attr-defined]

    @property
    def nothing(self) -> PrivacyCost:
        """Where every ledger begins."""
        return PrivacyCost(loss=_NOTHING, renyi=np.zeros(self.orders.shape), infinity_mass=_NOTHING)

    @abstractmethod
    def charge(self, account: Accountant) -> PrivacyCost:
        """What one release with this account adds; what cannot be computed counts as +inf."""

    @abstractmethod
    def excess(self, total: PrivacyCost) -> float:
        """At most zero exactly where the total fits; grows with every charge."""

    @abstractmethod
    def spent(self, total: PrivacyCost) -> float:
        """The smallest budget of this kind, in nats, in which this filter would let the total pass, rounded up."""

    def fits(self, total: PrivacyCost) -> bool:
        """Whether all releases in the total keep the promise of the budget."""
        return self.excess(total) <= 0.0

    def left(self, total: PrivacyCost) -> float:
        """The budget less `spent`, in nats, rounded down; a pure release of that epsilon still fits (rho: that rho)."""
        spent = decimal(self.spent(total))
        return max(_float_down(_DOWN.subtract(decimal(self.amount), spent)), 0.0)


def _computed(measure: Callable[[], float], whole: float) -> Decimal:
    """A cost, `whole` the budget; +inf where its formula breaks down."""
    try:
        return decimal_of(measure(), whole)
    except ArithmeticError:
        return _ENDLESS


@frozen_value
class SumFilter(Filter):
    """Budgets of one number that simply adds up: pure epsilon, zCDP's rho, Rényi privacy at one order.

    Source: Feldman and Zrnic 2021, Theorem 3.1 (Rényi filter); docs/notes/ledger.md, section 1.
    """

    budget: Target

    def __post_init__(self) -> None:
        if not isinstance(self.budget, (DP, ZCDP, RDP)) or getattr(self.budget, "delta", 0.0) > 0.0:
            raise TypeError(f"budget must be DP, ZCDP or RDP, got {type(self.budget).__name__}")

    def charge(self, account: Accountant) -> PrivacyCost:
        """max_loss, zcdp or rdp(order); +inf where the release may fail outright."""
        if account.infinity_mass > 0:
            return replace(self.nothing, loss=_ENDLESS, infinity_mass=decimal(account.infinity_mass))
        match self.budget:
            case ZCDP():
                loss = _computed(lambda: account.zcdp, self.amount)
            case RDP(order=order):
                loss = _computed(lambda: float(account.rdp(order)), self.amount)
            case _:
                loss = _computed(lambda: account.pure_epsilon, self.amount)
        return replace(self.nothing, loss=loss)

    def excess(self, total: PrivacyCost) -> float:
        """The total over the budget, less one."""
        return float(_UP.subtract(_UP.divide(total.loss, decimal(self.amount)), Decimal(1)))

    def spent(self, total: PrivacyCost) -> float:
        """The sum."""
        return _float_up(total.loss)


@frozen_value
class CurveFilter(Filter):
    """(epsilon, delta) by Rényi curves at fixed orders a with fixed weights w, mixed into one martingale.

    With D = delta - set_aside and S the sums of the curves, go on while
        1 - e^-x <= D * sum_a w_a e^((a-1)(epsilon + x - S_a))  for all x > 0,
    or while the sum of the pure guarantees is at most epsilon; and failures may add up to `set_aside`. This admits
    whatever "some order with S_a <= epsilon + log(w_a D)/(a-1)" admits, and more.
    Proof: docs/notes/ledger.md, section 2.
    """

    budget: DP
    at: tuple[float, ...]
    weights: tuple[float, ...]
    set_aside: float = 0.0

    def __post_init__(self) -> None:
        orders, weights = renyi_orders(self.at), real_array(weights=self.weights)
        positive(**{"delta of the budget": self.budget.delta})
        if not (orders.ndim == 1 and orders.size and orders.shape == weights.shape and len({*self.at}) == orders.size):
            raise ValueError("orders must be different, with one weight for each, and at least one of them")
        if not (np.all((weights > 0) & (weights <= 1)) and abs(math.fsum(weights) - 1.0) <= 1e-9):
            raise ValueError("weights must be > 0 and add up to one")
        if not 0.0 <= self.set_aside <= self.budget.delta:
            raise ValueError(
                f"the part of delta set aside must lie in [0, {self.budget.delta:g}], got {self.set_aside!r}"
            )
        set_fields(self, at=tuple(orders.tolist()), weights=tuple(weights.tolist()), set_aside=float(self.set_aside))

    @property
    def orders(self) -> FloatArray:
        """The fixed orders."""
        return np.array(self.at)

    @property
    def own_delta(self) -> float:
        """The part of delta that pays for Rényi curves, rounded down."""
        return _float_down(_DOWN.subtract(decimal(self.budget.delta), decimal(self.set_aside)))

    def set_aside_left(self, total: PrivacyCost) -> float:
        """What no failure has used yet of the part set aside, rounded down."""
        return max(_float_down(_DOWN.subtract(decimal(self.set_aside), decimal(_float_up(total.infinity_mass)))), 0.0)

    def charge(self, account: Accountant) -> PrivacyCost:
        """The account's Rényi curve beside its failures, its pure guarantee, and its failures."""
        renyi = np.full(len(self.at), np.inf)
        with suppress(ArithmeticError), np.errstate(all="ignore"):  # NaN is seen below
            usable = self.orders < account.bounds.order_limit
            renyi[usable] = account.bounds.renyi(self.orders[usable])
        renyi = np.where(renyi >= 0.0, renyi, np.inf)
        loss = _computed(lambda: account.pure_epsilon, self.amount)
        return PrivacyCost(loss=loss, renyi=renyi, infinity_mass=decimal_of(account.infinity_mass, self.set_aside))

    def tight(self, account: Accountant, delta: float) -> PrivacyCost:
        """The account as its own (epsilon, delta), the best over all routes: for plans declared whole."""
        try:
            epsilon, most = float(account.epsilon(delta)), self.budget.epsilon
            if epsilon > most * (1.0 - _CALIBRATED) and (epsilon <= most or self._keeps(account, delta)):
                epsilon = most  # a plan calibrated to the budget takes it whole: a search ends a little below it
        except ArithmeticError:
            epsilon = math.inf
        if not 0.0 <= epsilon < math.inf:
            return PrivacyCost(
                loss=_ENDLESS, renyi=np.full(len(self.at), np.inf), infinity_mass=decimal_of(delta, self.set_aside)
            )
        return self.charge(ApproximateAccountant(stated_epsilon=epsilon, stated_delta=delta))

    def _keeps(self, account: Accountant, delta: float) -> bool:
        """Whether the account meets the budget by any of its views, whatever a search lost in the last digit."""
        return DP(epsilon=self.budget.epsilon, delta=delta).met_by(account)

    def excess(self, total: PrivacyCost) -> float:
        """How far the better of the two rules is from passing; +inf where too much may fail."""
        if total.infinity_mass > decimal(self.set_aside):
            return math.inf
        pure = SumFilter(budget=DP(epsilon=self.budget.epsilon)).excess(total)
        return pure if pure <= 0.0 else min(pure, self._curve_excess(total.renyi, self.budget.epsilon))

    def spent(self, total: PrivacyCost) -> float:
        """The least epsilon at this delta; +inf where too much may fail."""
        if total.infinity_mass > decimal(self.set_aside):
            return math.inf
        pure = _float_up(total.loss)
        if pure == 0.0:
            return 0.0
        root = crossing(lambda epsilon: self._curve_excess(total.renyi, epsilon), start=self.budget.epsilon)
        by_curve = safe_side(lambda e: self._curve_excess(total.renyi, e) <= 0.0, root, upward=True)
        return min(pure, by_curve)

    def _curve_excess(self, sums: FloatArray, epsilon: float) -> float:
        """max over x > 0 of log(1 - e^-x) - log(D sum_a w_a e^((a-1)(epsilon + x - S_a))), rounded up.

        The function is concave in x, and its slope 1/(e^x - 1) - (a mean of a-1) changes sign between the two ends.
        """
        s = self.orders - 1.0
        with np.errstate(over="ignore"):
            level = np.log(self.weights) - math.log(math.fsum(self.weights)) + s * (epsilon - sums)
        if self.own_delta == 0.0 or not level.max() > -np.inf:
            return math.inf
        low, high = -math.log1p(-1.0 / (1.0 + s.max())), -math.log1p(-1.0 / (1.0 + s.min()))

        def height_and_slope(x: float) -> tuple[float, float]:
            terms = level + s * x
            top = float(terms.max())
            powers = np.exp(terms - top)
            mean = float(powers @ s / powers.sum())
            return math.log(-math.expm1(-x)) - top - math.log(powers.sum()), 1.0 / math.expm1(x) - mean

        for _ in range(_ROUNDS):
            middle = math.sqrt(low * high)
            low, high = (middle, high) if height_and_slope(middle)[1] > 0 else (low, middle)
        height, slope = height_and_slope(low)
        bound = height + max(slope, 0.0) * (high - low) - math.log(self.own_delta)
        return bound + 1e-14 + 1e-15 * float(np.abs(level[level > -np.inf]).max())


def filter_for(
    budget: Target, *, approximate_share: float = 0.0, weights: Mapping[float, float] | None = None
) -> Filter:
    """The filter of a budget: DP, ZCDP or RDP.

    Parameters: approximate_share in [0, 1), the part of delta set aside for failures and plans; weights, order ->
    weight, adding up to one, for (epsilon, delta) with delta > 0. Raises: ValueError, TypeError.
    """
    share = probability(approximate_share=approximate_share)
    if not isinstance(budget, DP) or budget.delta == 0.0:
        made = SumFilter(budget=budget)
        if share > 0 or weights is not None:
            raise ValueError(
                f"approximate_share and weights divide a delta, and {budget.description} has none; leave them out"
            )
        return made
    chosen = dict(weights) if weights is not None else default_weights(budget)
    return CurveFilter(budget=budget, at=tuple(chosen), weights=tuple(chosen.values()), set_aside=share * budget.delta)


def default_weights(budget: DP) -> dict[float, float]:
    """Orders around the one at which Gaussian noise just exhausts the budget, heavier near it; adding up to one.

    Orders are counted in log(1/delta)/epsilon above one: below one such step no order can help, and pure mechanisms
    profit from high ones. Whatever the choice, the filter is valid.
    """
    ratio = -math.log(budget.delta) / budget.epsilon
    steps = np.geomspace(1.0, 64.0, 24)
    centre = 1.0 + math.sqrt(1.0 + 1.0 / max(ratio, 1e-6))
    weights = 0.02 + np.exp(-0.5 * (np.log(steps / centre) / 0.35) ** 2)
    orders = 1.0 + np.clip(steps * ratio, 1e-6, 1e12)
    chosen: dict[float, float] = {}
    for order, weight in zip(orders.tolist(), (weights / weights.sum()).tolist(), strict=True):
        chosen[order] = chosen.get(order, 0.0) + weight
    return chosen


@frozen_value
class Share(Target):
    """One of `releases` equal parts of what a filter has left: met where that many such releases still fit."""

    filter: Filter
    total: PrivacyCost
    releases: int

    def __post_init__(self) -> None:
        set_fields(self, releases=positive_integer(releases=self.releases))

    def _after(self, account: Accountant) -> PrivacyCost:
        more = self.releases * self.filter.charge(account)
        return self.total + replace(more, renyi=more.renyi * (1.0 + _MARGIN))

    def met_by(self, account: Accountant) -> bool:
        """Whether `releases` of these fit, in whatever order they are spent."""
        return self.filter.fits(self._after(account))

    def _excess(self, account: Accountant) -> float:
        return self.filter.excess(self._after(account))

    @property
    def description(self) -> str:
        """The guarantee in one phrase."""
        return f"1/{self.releases} of what is left of {self.filter.budget.description}"

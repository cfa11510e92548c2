"""Privacy filters: whether one more release fits into a budget, although it was chosen after seeing earlier answers.

Proofs for every filter, and for plans: docs/notes/ledger.md.
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

FILTER_SOURCE = "Feldman and Zrnic 2021, Theorem 3.1"
_DIGITS = 15  # decimal digits that every float keeps; numbers that agree to 15 digits count as equal
UP, DOWN = Context(prec=60, rounding=ROUND_CEILING), Context(prec=60, rounding=ROUND_FLOOR)
_PART_DOWN = Context(prec=40, rounding=ROUND_FLOOR)  # fewer digits than sums have, so equal parts add up exactly
_SHOWN_DOWN = Context(prec=_DIGITS, rounding=ROUND_FLOOR)
_ZERO, INFINITE = Decimal(0), Decimal("Infinity")
_TWO_ROUNDINGS = 2.0**-51
_CALIBRATED = 1e-9  # relative tolerance within which a plan uses the complete budget
_MARGIN = 1e-9  # relative margin of a share's Rényi curve, which exceeds the rounding of repeated sums
_MOST_RELEASES = 10**12  # largest number of remaining releases that is counted
_ROUNDS = 64  # bisections of the interval around the maximum over x


def decimal(number: float) -> Decimal:
    """The number to 15 decimal digits, so that 0.1 + 0.2 fits into 0.3; +inf for NaN and for negative numbers."""
    return Decimal(f"{float(number):.{_DIGITS}g}") if number >= 0 else INFINITE


def decimal_of(number: float, whole: float) -> Decimal:
    """As `decimal`, but the k-th part of `integer_valued` counts as exactly that: to 15 digits, 3 * (2/3) exceeds 2.

    This applies within two roundings of a float of the k-th part, which is less than 15 digits resolve.
    """
    found, ratio = decimal(number), float(whole) / float(number) if number > 0 else math.inf
    if not 1.0 <= ratio < LARGEST_INTEGER or not math.isclose(number * round(ratio), whole, rel_tol=_TWO_ROUNDINGS):
        return found
    return _PART_DOWN.divide(decimal(whole), Decimal(round(ratio)))


def float_down(number: Decimal) -> float:
    """The largest float with 15 digits that is at most this number."""
    return float(_SHOWN_DOWN.plus(number)) + 0.0


def float_up(number: Decimal) -> float:
    """The smallest float with 15 digits that is at least this number."""
    return 0.0 - float_down(number.copy_negate())


@frozen_value
class PrivacyCost:
    """The quantities that a filter accumulates. Sums are rounded up.

    `loss` is the budget's own measure in nats; for (epsilon, delta) it is the pure epsilon. `renyi` is the Rényi curve
    at the filter's orders, conditional on a finite loss, shape (orders,), in nats. `infinity_mass` is the probability
    mass of infinite privacy loss.
    """

    loss: Decimal
    renyi: FloatArray
    infinity_mass: Decimal

    def __add__(self, other: "PrivacyCost") -> "PrivacyCost":
        return PrivacyCost(
            loss=UP.add(self.loss, other.loss),
            renyi=np.nextafter(self.renyi + other.renyi, np.inf),
            infinity_mass=UP.add(self.infinity_mass, other.infinity_mass),
        )

    def __mul__(self, times: int) -> "PrivacyCost":
        with np.errstate(over="ignore"):
            renyi = np.nextafter(float(times) * self.renyi, np.inf)
        count = Decimal(times)
        return PrivacyCost(
            loss=UP.multiply(self.loss, count), renyi=renyi, infinity_mass=UP.multiply(self.infinity_mass, count)
        )

    __rmul__ = __mul__


class Filter(ABC):
    """A budget, with the rule that decides whether a further, adaptively chosen charge fits.

    The part `set_aside` of its delta is for infinity masses.
    """

    __slots__ = ()
    budget: Target
    set_aside: float

    @property
    @abstractmethod
    def rule(self) -> str:
        """The rule and its theorem in one sentence."""

    @property
    def depends_on_total(self) -> bool:
        """True if the cost of a release depends on the entries before it."""
        return False

    @property
    def orders(self) -> FloatArray:
        """The orders at which Rényi curves are added, shape (orders,); empty for budgets of a single number."""
        return np.empty(0)

    @property
    def amount(self) -> float:
        """The budget's number in nats: epsilon or rho."""
        return self.budget.rho if isinstance(self.budget, ZCDP) else self.budget.epsilon  # type: ignore[attr-defined]

    @property
    def measure(self) -> str:
        """What `progress` measures, with its unit."""
        return "ρ spent (nats)" if isinstance(self.budget, ZCDP) else "ε spent (nats)"

    @property
    def capacity(self) -> float:
        """The value of `progress` at which the budget is used."""
        return self.amount

    def progress(self, total: PrivacyCost) -> float:
        """What a total uses of `capacity`."""
        return self.spent(total)

    @property
    def zero(self) -> PrivacyCost:
        """The cost of an empty ledger."""
        return PrivacyCost(loss=_ZERO, renyi=np.zeros(self.orders.shape), infinity_mass=_ZERO)

    @abstractmethod
    def charge(self, account: Accountant) -> PrivacyCost:
        """The cost of one release with this account; +inf where it cannot be computed."""

    def cost(self, total: PrivacyCost, account: Accountant, times: int) -> PrivacyCost:
        """The cost that releases with this account add to a total."""
        del total
        return times * self.charge(account)

    def share(self, total: PrivacyCost, releases: int) -> Target:
        """A target for each of several equal releases that fit together into the remaining budget."""
        return Share(filter=self, total=total, releases=releases)

    def remaining_releases(self, total: PrivacyCost, account: Accountant) -> int:
        """How many releases with this account still fit, one at a time; at most a million million."""
        one = self.charge(account)
        return largest_count(lambda times: self.fits(total + times * one))

    @abstractmethod
    def excess(self, total: PrivacyCost) -> float:
        """A number <= 0 if and only if the total fits into the budget; it increases with every charge."""

    @abstractmethod
    def spent(self, total: PrivacyCost) -> float:
        """The smallest budget of this kind, in nats, into which the total fits, rounded up."""

    def set_aside_left(self, total: PrivacyCost) -> float:
        """The part set aside that no infinity mass has used yet, rounded down."""
        return max(float_down(DOWN.subtract(decimal(self.set_aside), decimal(float_up(total.infinity_mass)))), 0.0)

    def fits(self, total: PrivacyCost) -> bool:
        """Return whether the total fits into the budget."""
        return self.excess(total) <= 0.0

    def left(self, total: PrivacyCost) -> float:
        """The budget minus `spent`, in nats, rounded down; a release with this pure epsilon (or rho) still fits."""
        spent = decimal(self.spent(total))
        return max(float_down(DOWN.subtract(decimal(self.amount), spent)), 0.0)


def largest_count(fits: Callable[[int], bool]) -> int:
    """The largest number of releases that fit, by doubling and bisection; at most a million million."""
    low, high = 0, 1
    while fits(high):
        low, high = high, 2 * high
        if low >= _MOST_RELEASES:
            return _MOST_RELEASES
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


def _computed(measure: Callable[[], float], whole: float) -> Decimal:
    """A cost for a budget of size `integer_valued`; +inf if its computation fails."""
    try:
        return decimal_of(measure(), whole)
    except ArithmeticError:
        return INFINITE


@frozen_value
class SumFilter(Filter):
    """Budgets of a single number that is additive: pure epsilon, rho of zCDP, or Rényi divergence at one order.

    The delta of a budget of approximate zCDP or approximate Rényi privacy is for infinity masses. Source: Feldman and
    Zrnic 2021, Theorem 3.1 (Rényi filter); docs/notes/ledger.md, sections 1 and 3.
    """

    budget: Target

    @property
    def set_aside(self) -> float:  # type: ignore[override]
        """The delta of the budget: all of it is for infinity masses."""
        return float(getattr(self.budget, "delta", 0.0))

    @property
    def rule(self) -> str:
        """The sum of the costs."""
        masses = ", and so are their infinity masses" if self.set_aside else ""
        return f"The costs of the releases in the measure of the budget are added{masses} ({FILTER_SOURCE})."

    def __post_init__(self) -> None:
        if not isinstance(self.budget, (DP, ZCDP, RDP)) or (isinstance(self.budget, DP) and self.budget.delta > 0.0):
            raise TypeError(f"budget must be DP, ZCDP or RDP, got {type(self.budget).__name__}")

    def charge(self, account: Accountant) -> PrivacyCost:
        """The account's pure_epsilon, conditional_zcdp or conditional_rdp(order), and its infinity mass.

        The cost is +inf for a budget without delta if there is an infinity mass.
        """
        mass = account.infinity_mass
        if mass > self.set_aside:
            return replace(self.zero, loss=INFINITE, infinity_mass=decimal(mass))
        match self.budget:
            case ZCDP():
                loss = _computed(lambda: account.conditional_zcdp, self.amount)
            case RDP(order=order):
                loss = _computed(lambda: float(account.conditional_rdp(order)), self.amount)
            case _:
                loss = _computed(lambda: account.pure_epsilon, self.amount)
        return replace(self.zero, loss=loss, infinity_mass=decimal_of(mass, self.set_aside))

    def excess(self, total: PrivacyCost) -> float:
        """The total divided by the budget, minus 1; +inf if the infinity masses exceed the delta of the budget."""
        if total.infinity_mass > decimal(self.set_aside):
            return math.inf
        return float(UP.subtract(UP.divide(total.loss, decimal(self.amount)), Decimal(1)))

    def spent(self, total: PrivacyCost) -> float:
        """The sum of the costs; +inf if the infinity masses exceed the delta of the budget."""
        return math.inf if total.infinity_mass > decimal(self.set_aside) else float_up(total.loss)


@frozen_value
class CurveFilter(Filter):
    """(epsilon, delta) by Rényi curves at fixed orders a with fixed weights w, mixed into one martingale.

    Let D = delta - set_aside, and S_a the sum of the Rényi curves at order a. A total fits while
        1 - e^-x <= D * sum_a w_a e^((a-1)(epsilon + x - S_a))  for all x > 0,
    or while the sum of the pure epsilons is at most epsilon; and the infinity masses may add up to `set_aside`. This
    rule accepts everything that "S_a <= epsilon + log(w_a D)/(a-1) for some order" accepts, and more. Proof:
    docs/notes/ledger.md, section 2.
    """

    budget: DP
    at: tuple[float, ...]
    weights: tuple[float, ...]
    set_aside: float = 0.0

    def __post_init__(self) -> None:
        orders, weights = renyi_orders(self.at), real_array(weights=self.weights)
        positive(**{"delta of the budget": self.budget.delta})
        if not (orders.ndim == 1 and orders.size and orders.shape == weights.shape and len({*self.at}) == orders.size):
            raise ValueError("orders must be distinct and nonempty, with one weight each")
        if not (np.all((weights > 0) & (weights <= 1)) and abs(math.fsum(weights) - 1.0) <= 1e-9):
            raise ValueError("weights must be > 0 and sum to 1")
        if not 0.0 <= self.set_aside <= self.budget.delta:
            raise ValueError(f"set_aside must lie in [0, {self.budget.delta:g}], got {self.set_aside!r}")
        set_fields(self, at=tuple(orders.tolist()), weights=tuple(weights.tolist()), set_aside=float(self.set_aside))

    @property
    def rule(self) -> str:
        """The mixture of supermartingales over fixed orders."""
        return (
            f"Rényi curves are added at {len(self.at)} orders that are fixed when the file is made, and mixed with "
            f"fixed weights ({FILTER_SOURCE}, and docs/notes/ledger.md, section 2)."
        )

    @property
    def orders(self) -> FloatArray:
        """The fixed orders."""
        return np.array(self.at)

    @property
    def own_delta(self) -> float:
        """The part of delta for the Rényi curves, rounded down."""
        return float_down(DOWN.subtract(decimal(self.budget.delta), decimal(self.set_aside)))

    def charge(self, account: Accountant) -> PrivacyCost:
        """The account's Rényi curve conditional on a finite loss, its pure epsilon, and its infinity mass."""
        renyi = np.full(len(self.at), np.inf)
        with suppress(ArithmeticError), np.errstate(all="ignore"):  # NaN is seen below
            usable = self.orders < account.bounds.order_limit
            renyi[usable] = account.bounds.renyi(self.orders[usable])
        renyi = np.where(renyi >= 0.0, renyi, np.inf)
        loss = _computed(lambda: account.pure_epsilon, self.amount)
        return PrivacyCost(loss=loss, renyi=renyi, infinity_mass=decimal_of(account.infinity_mass, self.set_aside))

    def charge_composition(self, account: Accountant, delta: float) -> PrivacyCost:
        """The account as one (epsilon, delta), the least over all derivations: for plans declared in advance."""
        try:
            epsilon, most = float(account.epsilon(delta)), self.budget.epsilon
            if epsilon > most * (1.0 - _CALIBRATED) and (epsilon <= most or self._keeps(account, delta)):
                epsilon = most  # a plan calibrated to the budget uses it completely; calibration ends slightly below it
        except ArithmeticError:
            epsilon = math.inf
        if not 0.0 <= epsilon < math.inf:
            return PrivacyCost(
                loss=INFINITE, renyi=np.full(len(self.at), np.inf), infinity_mass=decimal_of(delta, self.set_aside)
            )
        return self.charge(ApproximateAccountant(stated_epsilon=epsilon, stated_delta=delta))

    def _keeps(self, account: Accountant, delta: float) -> bool:
        """Return whether any view of the account meets the budget at this delta."""
        return DP(epsilon=self.budget.epsilon, delta=delta).met_by(account)

    def excess(self, total: PrivacyCost) -> float:
        """The excess by the better of the two rules; +inf if the infinity mass exceeds `set_aside`."""
        if total.infinity_mass > decimal(self.set_aside):
            return math.inf
        pure = SumFilter(budget=DP(epsilon=self.budget.epsilon)).excess(replace(total, infinity_mass=_ZERO))
        return pure if pure <= 0.0 else min(pure, self._curve_excess(total.renyi, self.budget.epsilon))

    def spent(self, total: PrivacyCost) -> float:
        """The least epsilon at this delta; +inf if the infinity mass exceeds `set_aside`."""
        if total.infinity_mass > decimal(self.set_aside):
            return math.inf
        pure = float_up(total.loss)
        if pure == 0.0:
            return 0.0
        root = crossing(lambda epsilon: self._curve_excess(total.renyi, epsilon), start=self.budget.epsilon)
        by_curve = safe_side(lambda e: self._curve_excess(total.renyi, e) <= 0.0, root, upward=True)
        return min(pure, by_curve)

    def _curve_excess(self, sums: FloatArray, epsilon: float) -> float:
        """max over x > 0 of log(1 - e^-x) - log(D sum_a w_a e^((a-1)(epsilon + x - S_a))), rounded up.

        The function is concave in x, and its slope 1/(e^x - 1) - (a weighted mean of a-1) changes sign between the two
        ends (ledger.md, section 2).
        """
        s = self.orders - 1.0
        with np.errstate(over="ignore"):
            level = np.log(self.weights) - math.log(math.fsum(self.weights)) + s * (epsilon - sums)
        if self.own_delta == 0.0 or not level.max() > -np.inf:
            return math.inf
        low, high = -math.log1p(-1.0 / (1.0 + s.max())), -math.log1p(-1.0 / (1.0 + s.min()))

        def slope_at(x: float) -> float:
            terms = level + s * x
            powers = np.exp(terms - np.maximum.reduce(terms))
            return 1.0 / math.expm1(x) - float(powers @ s / np.add.reduce(powers))

        for _ in range(_ROUNDS):
            middle = math.sqrt(low * high)
            if slope_at(middle) > 0:
                if middle == low:  # nothing changes any more
                    break
                low = middle
            else:
                if middle == high:
                    break
                high = middle
        terms = level + s * low
        top = float(terms.max())
        height = math.log(-math.expm1(-low)) - top - math.log(np.exp(terms - top).sum())
        slope = slope_at(low)
        bound = height + max(slope, 0.0) * (high - low) - math.log(self.own_delta)
        return bound + 1e-14 + 1e-15 * float(np.abs(level[level > -np.inf]).max())


def filter_for(
    budget: Target, *, approximate_share: float = 0.0, weights: Mapping[float, float] | None = None
) -> Filter:
    """The filter of a DP, ZCDP or RDP budget.

    `approximate_share` in [0, 1) is the fraction of delta set aside for infinity masses and plans. `weights` maps
    orders to weights that sum to 1, for budgets with delta > 0. Raises ValueError or TypeError.
    """
    share = probability(approximate_share=approximate_share)
    if not isinstance(budget, DP) or budget.delta == 0.0:
        made = SumFilter(budget=budget)
        if share > 0 or weights is not None:
            raise ValueError(
                f"approximate_share and weights need a budget with delta > 0, got {budget.description}; omit them"
            )
        return made
    chosen = dict(weights) if weights is not None else default_weights(budget)
    return CurveFilter(budget=budget, at=tuple(chosen), weights=tuple(chosen.values()), set_aside=share * budget.delta)


def default_weights(budget: DP) -> dict[float, float]:
    """Orders around the one at which Gaussian noise exhausts the budget, with larger weights near it.

    Orders minus 1 are multiples of log(1/delta)/epsilon, below which no order helps; pure mechanisms need high orders.
    The filter is valid for any choice.
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
    """The target of one of `releases` equal parts of the remaining budget: met if that many such releases still fit."""

    filter: Filter
    total: PrivacyCost
    releases: int

    def __post_init__(self) -> None:
        set_fields(self, releases=positive_integer(releases=self.releases))

    def _after(self, account: Accountant) -> PrivacyCost:
        """The total after all releases of this share, with a margin for rounding."""
        more = self.releases * self.filter.charge(account)
        return self.total + replace(more, renyi=more.renyi * (1.0 + _MARGIN))

    def met_by(self, account: Accountant) -> bool:
        """Return whether `releases` releases with this account fit, in any order."""
        return self.filter.fits(self._after(account))

    def _excess(self, account: Accountant) -> float:
        """The excess of the filter after all releases of this share."""
        return self.filter.excess(self._after(account))

    @property
    def description(self) -> str:
        """The guarantee in one phrase."""
        return f"1/{self.releases} of the remainder of {self.filter.budget.description}"

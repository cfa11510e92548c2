"""The filter that counts copies of one fixed release: T_a (x) T_b = T_(a+b) (docs/notes/ledger.md, section 9)."""

import math
from collections.abc import Callable, Iterator
from decimal import Decimal
from functools import cache

import numpy as np
from scipy import stats

from privsample._value import frozen_value, set_fields
from privsample.accounting.base import Accountant, Composed
from privsample.accounting.ledger.filters import (
    INFINITE,
    UP,
    Filter,
    PrivacyCost,
    SumFilter,
    decimal,
    decimal_of,
    float_down,
    largest_count,
)
from privsample.accounting.ledger.largest_mu import largest_mu
from privsample.accounting.loss.failure import FailurePair
from privsample.accounting.loss.pair import LossPair
from privsample.accounting.targets import DP, GDP, RDP, ZCDP, Target
from privsample.errors import UnreachableTarget

_MOST_COPIES = 10**9  # largest number of copies whose composition is computed
_MOST_TRIALS = 10**7  # largest number of copies that a vote is computed for
_NEAR_ONE = 1.01  # order at which the Rényi divergence is nearly the mean loss
_LEAST_CHANCE = 1e-290
_SAFE = 1e-6  # relative margin of the total variation distance, far above the rounding of the curves


@frozen_value
class CopiesFilter(Filter):
    """A budget of `copies` releases with the account `family`; a total holds the copies that are used.

    A release that the composition of k copies dominates is charged k copies.
    """

    budget: Target
    family: Accountant
    copies: int
    set_aside: float = 0.0

    def __post_init__(self) -> None:
        set_fields(self, copies=int(self.copies))

    @property
    def rule(self) -> str:
        """The number of copies."""
        return (
            f"Each release is charged the number of copies of {type(self.family).__name__} that dominate it, up to "
            f"{self.copies} copies (Dong, Roth and Su 2022, Theorem 3.2, applied backwards; docs/notes/ledger.md, "
            "section 9)."
        )

    @property
    def amount(self) -> float:
        """The budget's number."""
        return amount_of(self.budget)

    @property
    def measure(self) -> str:
        """Copies add up."""
        return "copies used"

    @property
    def capacity(self) -> float:
        """The number of copies."""
        return float(self.copies)

    def progress(self, total: PrivacyCost) -> float:
        """The number of used copies."""
        return float(total.loss)

    def charge(self, account: Accountant) -> PrivacyCost:
        """The number of copies, and the infinity mass of releases that are not copies."""
        count, mass = copies_bound(account, self.family)
        loss = INFINITE if math.isinf(count) else Decimal(int(count))
        return PrivacyCost(loss=loss, renyi=np.empty(0), infinity_mass=decimal_of(mass, self.set_aside))

    def excess(self, total: PrivacyCost) -> float:
        """The used copies over all copies, minus 1; +inf if the infinity masses exceed `set_aside`."""
        if total.infinity_mass > decimal(self.set_aside):
            return math.inf
        return float(UP.subtract(UP.divide(total.loss, Decimal(self.copies)), Decimal(1)))

    def spent(self, total: PrivacyCost) -> float:
        """The budget of this kind that the used copies need, rounded up."""
        if total.infinity_mass > decimal(self.set_aside) or not total.loss.is_finite():
            return math.inf
        amount = self._measure(int(total.loss))
        return min(amount, self.amount) if self.fits(total) else amount

    def left(self, total: PrivacyCost) -> float:
        """The budget of this kind that the unused copies need; so many copies still fit."""
        return min(self._measure(self.copies - int(total.loss)), self.amount)

    def _measure(self, copies: int) -> float:
        """The composition of copies in the measure of the budget."""
        return measured(self.budget, copies * self.family, self.set_aside) if copies else 0.0

    def share(self, total: PrivacyCost, releases: int) -> Target:
        """The target of being dominated by an equal number of the unused copies."""
        return CopiesShare(filter=self, copies=(self.copies - int(total.loss)) // releases, releases=releases)


@frozen_value
class CopiesShare(Target):
    """The target of each of `releases` equal releases: at most `copies` copies of the family dominate it."""

    filter: CopiesFilter
    copies: int
    releases: int

    def met_by(self, account: Accountant) -> bool:
        """Return whether the account is charged at most `copies` copies."""
        return copies_bound(account, self.filter.family)[0] <= self.copies

    def _excess(self, account: Accountant) -> float:
        """log of the Rényi divergence of order 2 over that of the copies, which guides the search."""
        whole = max(self.copies, 1) * float(self.filter.family.rdp(2.0))
        with np.errstate(divide="ignore"):
            return float(np.log(account.rdp(2.0)) - np.log(whole))

    @property
    def description(self) -> str:
        """The guarantee in one phrase."""
        return f"{self.copies} copies of {type(self.filter.family).__name__}"


def copies_bound(account: Accountant, family: Accountant) -> tuple[float, float]:
    """How many copies of `family` dominate a release, +inf if none are known to, and an infinity mass beside them."""
    if account == family:
        return 1, 0.0
    if isinstance(account, Composed):
        found = [(times, *copies_bound(member, family)) for member, times in account.entries]
        return sum(times * count for times, count, _ in found), sum(times * mass for times, _, mass in found)
    mass = account.infinity_mass
    if account.pure_epsilon == 0.0:
        return 0, mass
    if _is_dominated(account, family):
        return 1, mass
    return _votes(account.pure_epsilon, response_of(family)), mass


def _is_dominated(account: Accountant, family: Accountant) -> bool:
    """Return whether one copy of the family dominates a release in each direction, conditional on a finite loss."""
    own, theirs = account.bounds.directions, family.bounds.directions
    if not own or len(own) > len(theirs):
        return False
    return all(
        target.dominates(_finite(pair))
        for direction, (target,) in enumerate(theirs)
        for pair in own[min(direction, len(own) - 1)]
    )


def _finite(pair: LossPair) -> LossPair:
    """The pair conditional on a finite loss."""
    return pair.base if isinstance(pair, FailurePair) else pair


def response_of(family: Accountant) -> float:
    """The epsilon of a randomized response that is a post-processing of one release of the family, rounded down.

    A test with power p and false-positive rate q, p - q the total variation distance d, gives randomized response with
    min(log(p/q), log((1-q)/(1-p))) >= -log(1-d); for a pair that is its own reverse p + q = 1.
    """
    least = math.inf
    for pair in family.bounds.pairs:
        distance = math.exp(float(pair.log_delta(np.zeros(1))[0])) * (1.0 - _SAFE)
        symmetric = pair.reverse() == pair
        least = min(least, 2.0 * math.atanh(distance) if symmetric else -math.log1p(-distance))
    return least * (1.0 - 1e-12)


def _votes(epsilon: float, response: float) -> float:
    """The least odd number of randomized responses whose majority is right with log odds >= epsilon; +inf if none."""
    if not (0.0 < epsilon < math.inf and response > 0.0):
        return math.inf
    if response >= epsilon:
        return 1
    mistaken = math.exp(-response) / (1.0 + math.exp(-response))

    def enough(half: int) -> bool:
        chance = float(stats.binom.sf(half, 2 * half + 1, mistaken))
        wrong = math.log(max(chance, _LEAST_CHANCE))  # smaller ones underflow, and are rounded up
        return bool((math.log1p(-chance) - wrong) * (1.0 - 1e-9) >= epsilon)

    half = largest_count(lambda count: count <= _MOST_TRIALS and not enough(count)) + 1
    return 2 * half + 1 if half <= _MOST_TRIALS else math.inf


def amount_of(budget: Target) -> float:
    """The number of a budget: epsilon, rho or mu."""
    match budget:
        case ZCDP(rho=amount) | GDP(mu=amount):
            return amount
        case _:
            return budget.epsilon  # type: ignore[attr-defined]


def measured(budget: Target, account: Accountant, set_aside: float) -> float:
    """An account in the measure of the budget, rounded up."""
    match budget:
        case DP(delta=delta):
            return float(account.epsilon(max(delta - set_aside, 0.0)))
        case ZCDP():
            return account.conditional_zcdp
        case RDP(order=order):
            return float(account.conditional_rdp(order))
        case _:
            return float(account.mu())


def own_budget(budget: Target, set_aside: float) -> Target:
    """The budget without the part of delta that is set aside."""
    if isinstance(budget, DP) and set_aside > 0.0:
        own = float_down(decimal(budget.delta) - decimal(set_aside))
        return DP(epsilon=budget.epsilon, delta=own)
    return budget


def copies_in(budget: Target, family: Accountant) -> int:
    """The largest number of copies of `family` whose composition is known to meet the budget. Raises UnreachableTarget.

    More copies cost more, although the computed cost of few copies may be the looser bound.
    """
    if isinstance(budget, (ZCDP, RDP)) or (isinstance(budget, DP) and budget.delta == 0.0):
        added = SumFilter(budget=budget)
        one = added.charge(family)
        return _at_least_one(largest_count(lambda copies: added.fits(copies * one)), budget)

    @cache
    def fits(copies: int) -> bool:
        return budget.met_by(copies * family)

    start = _copies_by_variance(budget, family)
    root = _crossing_copies(lambda copies: budget._excess(copies * family), start)
    found = next((copies for copies in _from(root) if fits(copies)), 0)
    found = _at_least_one(found, budget)
    return found + largest_count(lambda more: found + more <= _MOST_COPIES and fits(found + more))


def _at_least_one(copies: int, budget: Target) -> int:
    """Return the number of copies. Raises UnreachableTarget if it is 0."""
    if copies:
        return copies
    raise UnreachableTarget(
        f"family must be an account of which at least one release fits into {budget.description}; "
        "choose a release with more noise"
    )


def _from(root: int) -> Iterator[int]:
    """Numbers of copies from `root` down to 1, in growing steps."""
    step = 1
    while root > 1:
        yield root
        root, step = root - step, 2 * step
    yield 1


def _copies_by_variance(budget: Target, family: Accountant) -> int:
    """About how many copies meet the budget if their loss is nearly normal: where the search starts."""
    square = largest_mu(budget, 0.0) ** 2 if isinstance(budget, DP) else amount_of(budget) ** 2
    count = square / max(2.0 * float(family.rdp(_NEAR_ONE)), 1e-300)
    return int(min(max(count, 1.0), _MOST_COPIES))


def _crossing_copies(excess: Callable[[int], float], start: int) -> int:
    """The number of copies near which the excess over the budget changes sign, searched from `start` on."""
    low = start
    while low > 1 and excess(low) > 0.0:
        low //= 2
    high = 2 * low
    while high < _MOST_COPIES and excess(high) <= 0.0:
        low, high = high, 2 * high
    while high - low > 1 + low // 1000:
        middle = (low + high) // 2
        low, high = (middle, high) if excess(middle) <= 0.0 else (low, middle)
    return low

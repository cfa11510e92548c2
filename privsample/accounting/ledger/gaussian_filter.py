"""The Gaussian filter: a budget of mu, from which each release leaves the largest certified Gaussian guarantee.

Proofs: docs/notes/ledger.md, sections 7 and 8.
"""

import math
from decimal import Decimal
from functools import lru_cache

import numpy as np

from privsample._value import frozen_value
from privsample.accounting.base import Accountant, Composed
from privsample.accounting.ledger.filters import (
    DOWN,
    INFINITE,
    UP,
    Filter,
    PrivacyCost,
    decimal,
    decimal_of,
    float_down,
    float_up,
    largest_count,
)
from privsample.accounting.ledger.residue import LossMasses, loss_masses, residue
from privsample.accounting.loss.failure import FailurePair
from privsample.accounting.loss.gaussian import GaussianPair
from privsample.accounting.loss.pair import DiscretePair, LossPair, binary_pair
from privsample.accounting.targets import DP, GDP, Target
from privsample.errors import NumericalFailure

_MOST_RESIDUES = 100  # releases of one entry that are charged one by one; further ones are charged by their own mu
_EQUAL = 1e-15  # relative tolerance within which a square counts as an equal part of the budget
_SHARE_MARGIN = 1e-12
_LEAST_MU = 1e-100  # of a budget; the largest is its inverse


@frozen_value
class GaussianFilter(Filter):
    """A budget of mu: the release of state mu with trade-off f leaves the largest mu' with f (x) G_mu' >= G_mu.

    A total holds the square of mu that is used. Gaussian releases add the square of their own mu, exactly as in a fixed
    plan; other releases add mu^2 - mu'^2. Infinity masses may add up to `set_aside`.
    """

    budget: Target
    mu: float
    set_aside: float = 0.0

    def __post_init__(self) -> None:
        if not _LEAST_MU <= self.mu <= 1.0 / _LEAST_MU:  # squares outside this range are no floats
            raise ValueError(
                f"the mu of the budget must lie in [{_LEAST_MU:g}, {1.0 / _LEAST_MU:g}], got {self.mu:g}; "
                "use another budget, or no family"
            )

    @property
    def rule(self) -> str:
        """The sum of squares, and the residue."""
        return (
            f"Squares of mu are added up to {self.mu:.12g}^2, and a release that is not Gaussian is charged by the "
            "Gaussian guarantee that it leaves (Dong, Roth and Su 2022, Theorem 3.2, applied backwards; "
            "docs/notes/ledger.md, sections 7 and 8)."
        )

    @property
    def depends_on_total(self) -> bool:
        """True: what a release that is not Gaussian leaves depends on the state."""
        return True

    @property
    def amount(self) -> float:
        """The budget's number: epsilon, or mu."""
        return self.budget.mu if isinstance(self.budget, GDP) else self.budget.epsilon  # type: ignore[attr-defined]

    @property
    def measure(self) -> str:
        """Squares add up."""
        return "μ² used"

    @property
    def capacity(self) -> float:
        """The square of the budget's mu."""
        return float(self._square)

    def progress(self, total: PrivacyCost) -> float:
        """The used square."""
        return float(total.loss)

    def charge(self, account: Accountant) -> PrivacyCost:
        """The cost of one release from an empty ledger."""
        return self.cost(self.zero, account, 1)

    def cost(self, total: PrivacyCost, account: Accountant, times: int) -> PrivacyCost:
        """The squares that the releases add, for the worst of the account's pairs, and their infinity masses."""
        if isinstance(account, Composed):  # the members in turn, which keeps their decimal digits
            added = self.zero
            for member, count in account.entries:
                added = added + self.cost(total + added, member, count * times)
            return added
        mass = UP.multiply(Decimal(times), decimal_of(account.infinity_mass, self.set_aside))
        loss = self._added(total.loss, _pairs(account), times)
        if not (UP.add(total.loss, loss) <= self._square or is_gaussian(account)):
            loss = min(loss, UP.multiply(Decimal(times), self._own_square(account)))
        return PrivacyCost(loss=loss, renyi=np.empty(0), infinity_mass=mass)

    def _added(self, used: Decimal, pairs: tuple[LossPair | None, ...], times: int) -> Decimal:
        """The square that `times` releases add to a used square.

        Each release may have another worst pair, so the largest charge is taken release by release.
        """
        bases = [pair.base if isinstance(pair, FailurePair) else pair for pair in pairs]
        if all(isinstance(pair, GaussianPair) for pair in bases):
            return UP.multiply(Decimal(times), self._added_by_one(used, pairs))
        if times > _MOST_RESIDUES:
            return INFINITE
        found = used
        for _ in range(times):
            found = UP.add(found, self._added_by_one(found, pairs))
        return UP.subtract(found, used) if found.is_finite() else INFINITE

    def _added_by_one(self, used: Decimal, pairs: tuple[LossPair | None, ...]) -> Decimal:
        """The square that one release adds to a used square, for the worst of its pairs."""
        if not used.is_finite():
            return INFINITE
        return max([self._added_by_pair(used, pair) for pair in pairs], default=Decimal(0))

    def _added_by_pair(self, used: Decimal, pair: LossPair | None) -> Decimal:
        """The square that one release of a pair adds to a used square."""
        match pair:
            case FailurePair(base=base):
                return self._added_by_pair(used, base)
            case GaussianPair(mu=mu):
                return self._part(mu)
            case None:
                return INFINITE
        left = residue_after(pair, self._mu_after(used))
        if left is None:
            return INFINITE
        return UP.subtract(UP.subtract(self._square, decimal(left * left * (1.0 - _EQUAL))), used)

    def _own_square(self, account: Accountant) -> Decimal:
        """The square of the account's own certified mu."""
        try:
            return self._part(float(account.mu()))
        except (ArithmeticError, NumericalFailure):
            return INFINITE

    @property
    def _square(self) -> Decimal:
        """The square of the budget's mu."""
        return decimal(self.mu * self.mu)

    def _part(self, mu: float) -> Decimal:
        """The square of mu, which counts as exactly the k-th part of the budget's square if it is within rounding."""
        whole, square = self.mu * self.mu, max(mu * mu, 5e-324)
        parts = round(min(whole / square, 1e15))
        if parts and math.isclose(square * parts, whole, rel_tol=_EQUAL):
            square = whole / parts
        return decimal_of(square, whole)

    def mu_left(self, total: PrivacyCost) -> float:
        """The mu that is left, rounded down."""
        return self._mu_after(total.loss)

    def _mu_after(self, used: Decimal) -> float:
        """The mu that a used square leaves, rounded down."""
        return math.sqrt(max(float_down(DOWN.subtract(self._square, used)), 0.0)) * (1.0 - 2.0**-52)

    def excess(self, total: PrivacyCost) -> float:
        """The used square over that of the budget, minus 1; +inf if the infinity masses exceed `set_aside`."""
        if total.infinity_mass > decimal(self.set_aside):
            return math.inf
        return float(UP.subtract(UP.divide(total.loss, self._square), Decimal(1)))

    def spent(self, total: PrivacyCost) -> float:
        """The budget of this kind at which the used mu is all of it, rounded up."""
        if total.infinity_mass > decimal(self.set_aside):
            return math.inf
        used = math.sqrt(float_up(total.loss)) * (1.0 + 2.0**-52) if total.loss else 0.0
        amount = self._measure(used)
        return min(amount, self.amount) if self.fits(total) else amount

    def left(self, total: PrivacyCost) -> float:
        """The budget of this kind of the mu that is left, rounded down; a Gaussian release with it still fits."""
        if not total.loss:
            return self.amount
        return self._measure(self.mu_left(total)) * (1.0 - 1e-12)

    def _measure(self, mu: float) -> float:
        """A mu in the measure of the budget, rounded up."""
        if isinstance(self.budget, DP) and 0.0 < mu < math.inf:
            return GaussianPair(mu=mu).least_epsilon(math.log(self.budget.delta - self.set_aside))
        return mu

    def share(self, total: PrivacyCost, releases: int) -> Target:
        """G_mu with the square of mu that is left divided equally."""
        return GDP(max(self.mu_left(total) / math.sqrt(releases) * (1.0 - _SHARE_MARGIN), 5e-324))

    def remaining_releases(self, total: PrivacyCost, account: Accountant) -> int:
        """How many releases fit: by the closed form if they are Gaussian, otherwise one after the other."""
        one = self.cost(total, account, 1)
        if is_gaussian(account):
            return largest_count(lambda times: self.fits(total + times * one))
        count = 0
        while count < _MOST_RESIDUES and self.fits(total + one):
            total, count = total + one, count + 1
            one = self.cost(total, account, 1)
        if count < _MOST_RESIDUES:
            return count
        own = PrivacyCost(loss=self._own_square(account), renyi=np.empty(0), infinity_mass=one.infinity_mass)
        return count + largest_count(lambda times: self.fits(total + times * own))


def is_gaussian(account: Accountant) -> bool:
    """Return whether all dominating pairs of an account are Gaussian, or there is no loss."""
    return all(isinstance(pair, GaussianPair) for pair in _pairs(account))


def _pairs(account: Accountant) -> tuple[LossPair | None, ...]:
    """Pairs that together dominate every pair of neighbours; None where no pair and no pure guarantee is known."""
    bounds = account.bounds
    if bounds.pure_epsilon == 0.0:
        return ()
    if bounds.pairs:
        return tuple(pair if _has_finite_loss(pair, bounds.infinity_mass) else None for pair in bounds.pairs)
    return (binary_pair(bounds.pure_epsilon),) if bounds.pure_epsilon < math.inf else (None,)


def _has_finite_loss(pair: LossPair, infinity_mass: float) -> bool:
    """Return whether every infinite loss of a discrete pair is part of the account's infinity mass."""
    return infinity_mass > 0.0 or not isinstance(pair, DiscretePair) or pair.max_divergence < math.inf


@lru_cache(maxsize=1024)
def _masses(pair: LossPair) -> LossMasses | None:
    """The discretized loss of a pair."""
    return loss_masses(pair)


@lru_cache(maxsize=4096)
def residue_after(pair: LossPair, mu: float) -> float | None:
    """The Gaussian guarantee that a pair leaves of G_mu, rounded down; None if none is certified."""
    masses = _masses(pair)
    return residue(masses, mu) if masses is not None and mu > 0.0 else None

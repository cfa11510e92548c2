"""Invalid bounds of accounts of other packages are refused in every view."""

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import pytest

import privsample as ps
from privsample.accounting.loss.laplace import LaplacePair
from privsample.errors import NumericalFailure

RENYI, PAIRS = ps.PrivacyBounds.from_renyi, ps.PrivacyBounds.from_pairs
PAIR = LaplacePair(shift=0.5)


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnAccountant(ps.Accountant):
    make: Callable[[], object]
    relation: ps.Relation = ps.AddRemove()
    assumptions: frozenset[ps.Assumption] = frozenset()

    @property
    def source(self) -> str:
        return "a test"

    def _bounds(self) -> ps.PrivacyBounds:
        return self.make()  # type: ignore[return-value]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: None, "OwnAccountant._bounds must return PrivacyBounds, got NoneType"),
        (lambda: PAIRS(PAIR), "groups must be sequences of at least one LossPair"),
        (PAIRS, "groups must be sequences of at least one LossPair"),
        (lambda: PAIRS([PAIR], []), "groups must be sequences of at least one LossPair"),
        (lambda: PAIRS(["pair"]), "groups must hold values of LossPair"),
        (lambda: PAIRS([PAIR], [PAIR], [PAIR]), "directions must be at most two groups"),
        (lambda: PAIRS([PAIR], exact="all"), "exact must be a frozenset"),
        (lambda: RENYI(lambda a: a, infinity_mass=np.nan), "infinity_mass must lie in"),
        (lambda: RENYI(lambda a: a, infinity_mass=-0.5), "infinity_mass must lie in"),
        (lambda: RENYI(lambda a: a, order_limit=0.5), "order_limit must be at least 1"),
        (lambda: RENYI(lambda a: a, order_limit=np.nan), "order_limit must be at least 1"),
        (lambda: RENYI(lambda a: a, pure_epsilon=-1.0), "pure_epsilon and zcdp must be >= 0"),
        (lambda: RENYI(lambda a: a, zcdp=np.nan), "pure_epsilon and zcdp must be >= 0"),
    ],
)
def test_impossible_bounds_are_refused_in_every_view(make: Callable[[], object], message: str) -> None:
    account, other = OwnAccountant(make=make), ps.GaussianAccountant(sensitivity=1, noise_std=2)
    views: tuple[Callable[[], object], ...] = (
        lambda: account.rdp(2.0),
        lambda: account.delta(0.0),
        lambda: account.epsilon(1e-6),
        lambda: (account + other).rdp(2.0),
        lambda: (account | other).epsilon(1e-6),
        lambda: account.group(2).rdp(2.0),
    )
    for view in views:
        with pytest.raises((TypeError, ValueError), match=message):
            view()


@pytest.mark.parametrize("curve", [lambda a: a * np.nan, lambda a: -a])
def test_a_curve_that_is_nan_or_negative_raises(curve: Callable[[object], object]) -> None:
    account = OwnAccountant(make=lambda: RENYI(curve))
    with pytest.raises(NumericalFailure, match="NaN or negative"):
        account.rdp([1.5, 2.0])
    with pytest.raises(NumericalFailure, match="NaN or negative"):
        (3 * account).rdp(2.0)


def test_a_curve_returns_one_value_for_each_order_and_is_infinite_from_its_limit_on() -> None:
    with pytest.raises(ValueError, match=r"renyi must return one value for each order, shape \(2,\), got shape \(\)"):
        OwnAccountant(make=lambda: RENYI(lambda a: 1.0)).rdp([2.0, 3.0])
    limited = OwnAccountant(make=lambda: RENYI(lambda a: a, order_limit=2.0))
    assert limited.rdp([1.5, 2.0, 3.0]).tolist() == [1.5, np.inf, np.inf]


@pytest.mark.parametrize(("epsilon", "times"), [(0.1, 3), (1e-10, 3), (1e-20, 3), (0.7, 11)])
def test_the_pure_guarantee_of_a_composition_is_rounded_up(epsilon: float, times: int) -> None:
    composed = times * ps.PureAccountant(stated_epsilon=epsilon)
    assert Fraction(composed.pure_epsilon) >= times * Fraction(epsilon)
    assert composed.pure_epsilon == pytest.approx(times * epsilon, rel=1e-15)


@pytest.mark.parametrize(("mass", "times"), [(0.1, 2), (0.1, 7), (1e-9, 1000), (0.3, 3)])
def test_the_infinity_mass_of_a_composition_is_rounded_up(mass: float, times: int) -> None:
    composed = times * ps.ApproximateAccountant(stated_epsilon=1.0, stated_delta=mass)
    assert Fraction(composed.infinity_mass) >= 1 - (1 - Fraction(mass)) ** times
    assert composed.infinity_mass == pytest.approx(-np.expm1(times * np.log1p(-mass)), rel=1e-14)


def test_an_infinity_mass_that_rounds_to_one_composes() -> None:
    assert (2000 * ps.ApproximateAccountant(stated_epsilon=1.0, stated_delta=0.3)).infinity_mass == 1.0
    nothing = OwnAccountant(make=lambda: RENYI(lambda a: a, infinity_mass=1.0))
    assert nothing.infinity_mass == 1.0
    assert (2 * nothing).infinity_mass == 1.0
    assert (2 * nothing).epsilon(0.5) == np.inf


@dataclass(frozen=True)
class BrokenPair(ps.LossPair):
    """A pair whose privacy curve, or its inverse, is NaN."""

    value: float

    def log_delta(self, epsilon):
        return np.full(np.shape(epsilon), self.value)

    def least_epsilon(self, log_delta):
        return np.nan

    def renyi(self, orders):
        return np.full(np.shape(orders), 1.0)

    @property
    def max_divergence(self):
        return np.inf

    def reverse(self):
        return self


def test_a_privacy_curve_or_an_epsilon_that_is_nan_raises():
    with pytest.raises(NumericalFailure, match="privacy curve is NaN"):
        OwnAccountant(make=lambda: PAIRS([BrokenPair(np.nan)])).delta(0.5)
    with pytest.raises(NumericalFailure, match="computed epsilon is NaN"):
        OwnAccountant(make=lambda: PAIRS([BrokenPair(-1.0)])).epsilon(1e-6)

"""A bound that cannot be computed is infinite or raises an error; invalid input is refused."""

import numpy as np
import pytest
from scipy import special

from privsample import (
    DP,
    RDP,
    ZCDP,
    Accountant,
    AddRemove,
    ApproximateAccountant,
    BetaBernoulli,
    BoundedRangeAccountant,
    Composed,
    GaussianAccountant,
    Group,
    LaplaceAccountant,
    NormalUnknownVariance,
    Parallel,
    PosteriorAccountant,
    PureAccountant,
    RandomizedResponseAccountant,
    ReplaceOne,
    privacy_statement,
)
from privsample._serial import encode
from privsample.accounting.curves import quadrature
from privsample.accounting.curves.conversion import crossing, epsilon_from_renyi, log_delta_from_renyi, safe_side
from privsample.accounting.curves.quadrature import log_integral
from privsample.accounting.loss.pair import DiscretePair, checked_divergence
from privsample.accounting.posterior import family
from privsample.accounting.posterior.beta import BetaPair
from privsample.accounting.targets import require
from privsample.errors import NumericalFailure, RelationMismatch, UnreachableTarget
from tests.accounting.strategies import Finite

HALF = np.log([0.5, 0.5])
PURE = [
    PureAccountant(stated_epsilon=2.0),
    LaplaceAccountant(sensitivity=2.0, scale=1.0),
    BoundedRangeAccountant(loss_range=0.3),
    BoundedRangeAccountant(loss_range=2.0),
    BoundedRangeAccountant(loss_range=5.0),
    RandomizedResponseAccountant(log_odds=2.0, categories=3, relation=AddRemove()),
]


@pytest.mark.parametrize("account", PURE, ids=lambda a: type(a).__name__)
def test_at_huge_orders_the_renyi_curve_is_the_pure_guarantee(account):
    values = account.rdp(np.array([1e9, 1e12, 1e15, 1e16, 1e17, 1e18]))
    assert np.allclose(values, account.pure_epsilon, rtol=1e-6)


@pytest.mark.parametrize(  # one of each class
    "account", [*PURE[:2], pytest.param(PURE[4], marks=pytest.mark.long), PURE[5]], ids=lambda a: type(a).__name__
)
def test_at_the_least_delta_compositions_cost_their_pure_guarantee(account):
    assert (2 * account).epsilon(1e-300) == pytest.approx(2 * account.pure_epsilon, rel=1e-6)
    assert (3 * account).epsilon(1e-300) >= account.pure_epsilon


@pytest.mark.parametrize(
    ("build", "match"),
    [
        (lambda: Composed(entries=()), "at least one"),
        (lambda: Parallel(parts=()), "at least one"),
        (lambda: RandomizedResponseAccountant(log_odds=1, categories=1, relation=AddRemove()), "at least 2"),
        (lambda: DiscretePair(log_p=HALF, log_q=np.log([1.0])), "one shape"),
        (lambda: DiscretePair(log_p=HALF, log_q=np.log([0.5, 0.6])), "adding up"),
        (lambda: DiscretePair(log_p=HALF[None], log_q=HALF), "adding up"),
        (lambda: DiscretePair(log_p=HALF, log_q=HALF, loss=np.ones(2)), "log_p - log_q"),
        (lambda: GaussianAccountant(sensitivity=1e300, noise_std=1e-300), "must be finite and > 0"),
        (lambda: LaplaceAccountant(sensitivity=1e300, scale=1e-300), "must be finite and > 0"),
        (lambda: ApproximateAccountant(stated_epsilon=1, stated_delta=1.0), "must lie in"),
        (lambda: ApproximateAccountant(stated_epsilon=-1, stated_delta=0.1), "must be finite"),
        (lambda: Accountant.from_dict(encode(AddRemove())), "not an accountant"),
        (lambda: Accountant.from_dict({"type": "Nothing"}), "not a class of this version"),
        (lambda: Accountant.from_dict({"type": "PureAccountant"}), "does not describe"),
        (lambda: Accountant.from_dict({"type": "Assumption", "name": "HOPE"}), "does not describe"),
        (lambda: Accountant.from_dict([1]), "not an accountant"),
    ],
)
def test_refused(build, match):
    with pytest.raises(ValueError, match=match):
        build()


def test_units_do_not_mix():
    people, homes = (PureAccountant(stated_epsilon=1, relation=ReplaceOne(n=3, unit=u)) for u in ("person", "home"))
    with pytest.raises(RelationMismatch, match="one unit"):
        people | homes
    both = people | people
    assert "McSherry" in both.source
    with pytest.raises(RelationMismatch):
        both.to(ReplaceOne(n=4))
    assert (people | people).relation == ReplaceOne(n=6, unit="person")


def test_models_without_an_account():
    with pytest.raises(TypeError, match="must be one of"):
        PosteriorAccountant(model="beta", n=3)
    with pytest.raises(TypeError, match="no account is known"):
        PosteriorAccountant(model=NormalUnknownVariance.example(), n=3)


def test_impossible_numbers_raise(monkeypatch):
    for impossible in (np.array([np.nan]), np.array([-1e-3])):
        with pytest.raises(NumericalFailure):
            checked_divergence(impossible)
    assert checked_divergence(np.array([-1e-16])) == 0.0
    with pytest.raises(NumericalFailure, match="NaN"):
        log_delta_from_renyi(lambda orders: orders * np.nan, np.inf, 1.0)
    with pytest.raises(NumericalFailure, match="NaN"):
        log_integral(lambda *arguments: arguments[-1] * np.nan, 1)
    monkeypatch.setattr(quadrature, "_MOST_PANELS", 10_000)
    with pytest.raises(NumericalFailure, match="did not converge"):
        log_integral(lambda *arguments: 40 * np.sin(1e9 * arguments[-1]) - arguments[-1], 1)


def test_a_support_that_is_not_found_raises():
    with pytest.raises(NumericalFailure, match="support"):
        log_integral(lambda at, u: -1e3 * np.broadcast_to(np.arange(u.shape[1]), u.shape), 1)


def test_unreachable_targets_say_why():
    account = LaplaceAccountant(sensitivity=1, scale=1)
    for target, words in [
        (ZCDP(rho=1e-6), "zCDP of rho 1e-06 cannot be met; more noise"),
        (DP(epsilon=0.5), "costs epsilon 1 at that delta"),
        (RDP(order=2, epsilon=1e-6), "costs 0.6191 at that order"),
    ]:
        with pytest.raises(UnreachableTarget, match=words):
            require(target, account, "more noise")


@pytest.mark.parametrize(
    "document",
    [
        {"type": "Composed", "entries": [[1, 1]]},
        {"type": "Parallel", "parts": [1]},
        {"type": "set", "items": 5},
        {"type": "ReplaceOne", "n": 3},
    ],
)
def test_hostile_documents_are_refused(document):
    with pytest.raises(ValueError, match=r"document|type"):
        Accountant.from_dict(document)


def test_a_composition_of_different_relations_has_no_source_to_quote():
    account = PureAccountant(stated_epsilon=0.5) + LaplaceAccountant(sensitivity=1, scale=1)
    assert "composition" in account.source
    assert account.source.count("Kairouz") == 1


def test_without_orders_there_is_no_bound():
    assert epsilon_from_renyi(lambda orders: orders, 1.0, -1.0) == np.inf
    assert log_delta_from_renyi(lambda orders: orders, 1.0, 1.0) == 0.0


def test_roots():
    assert crossing(lambda x: 1.0, 1.0) == np.inf
    assert crossing(lambda x: -1.0, 1.0) == 0.0
    assert crossing(lambda x: 5 - x, 1.0) == pytest.approx(5)
    assert crossing(lambda x: 1e-9 - x, 1.0) == pytest.approx(1e-9)
    assert safe_side(lambda x: True, np.inf, upward=True) == np.inf
    assert safe_side(lambda x: True, np.inf, upward=False) == 0.0
    assert safe_side(lambda x: False, 1.0, upward=True) == np.inf
    assert safe_side(lambda x: False, 1.0, upward=False) == 0.0
    assert safe_side(lambda x: x >= 1 + 1e-12, 1.0, upward=True) == pytest.approx(1.0)


def test_an_unbounded_loss():
    """An outcome that is possible for only one of two neighbours has infinite loss."""
    p, q = np.log([0.5, 0.5]), np.array([0.0, -np.inf])
    pair = DiscretePair(log_p=p, log_q=q)
    assert np.isinf(pair.renyi(np.array([2.0]))).all()
    assert pair.max_divergence == np.inf
    back = DiscretePair(log_p=q, log_q=p)
    assert back.renyi(np.array([2.0])) == pytest.approx(np.log(2))
    assert back.max_divergence == pytest.approx(np.log(2))
    account = Finite(listed=(pair, back))
    assert account.delta(10.0) == pytest.approx(0.5)
    assert np.isinf(account.epsilon(0.4))
    assert DP(epsilon=1e3, delta=0.51).met_by(account)


def test_pairs_evaluated_together_equal_pairs_evaluated_separately():
    account = PosteriorAccountant(model=BetaBernoulli(alpha=2, beta=3), n=4)
    orders = np.array([1.5, 2.0, 2.9])
    assert np.allclose(np.max([p.renyi(orders) for p in account.pairs], axis=0), account.rdp(orders), rtol=1e-14)
    assert np.isinf(BetaPair(a=1.0, b=2.0, step=1.0).renyi(np.array([3.0, 4.0]))).all()


def test_too_many_blocks_end_in_a_bound(monkeypatch):
    account = PosteriorAccountant(model=BetaBernoulli(alpha=3, beta=3, fractional=True), n=50)
    exact = account.log_delta(0.5)
    monkeypatch.setattr(family, "_BLOCKS", -1)
    assert account.log_delta(0.5) >= exact


def test_groups_of_accounts_with_infinity_mass():
    base = ApproximateAccountant(stated_epsilon=0.5, stated_delta=1e-6)
    group = Group(base=base, size=2)
    assert np.isinf(group.rdp(2.0))
    assert np.isinf(group.pure_epsilon)
    assert base.epsilon(1e-6) < group.epsilon(1e-5) < np.inf
    twice = 2 * group
    assert np.isinf(twice.rdp(2.0))
    assert np.isinf(twice.epsilon(1e-9))
    with pytest.raises(ValueError, match="there is no guarantee"):
        ApproximateAccountant(stated_epsilon=9, stated_delta=0.5).group(3)
    assert ApproximateAccountant(stated_epsilon=0, stated_delta=0.01).group(3).stated_delta == pytest.approx(0.03)
    assert ApproximateAccountant(stated_epsilon=900, stated_delta=0.0).group(3).stated_epsilon == 2700
    with pytest.raises(ValueError, match="view"):
        group.kind("curve")


@pytest.mark.parametrize("stated", [0.0, 1.0, 80.0])
def test_statements_at_both_ends(stated):
    text = privacy_statement(PureAccountant(stated_epsilon=stated), 0.0)
    assert f"epsilon = {stated:g}" in text
    assert "except with probability" not in text


def test_the_group_of_a_sum_is_the_sum_of_the_groups():
    one, other = PureAccountant(stated_epsilon=1), GaussianAccountant(sensitivity=1, noise_std=2)
    assert (one + 2 * other).group(3) == one.group(3) + 2 * other.group(3)


def test_a_divergence_beyond_the_largest_float_is_infinite_without_a_warning():
    vast = GaussianAccountant(sensitivity=1e151, noise_std=1.0)
    assert list(np.isinf(vast.rdp([2.0, 1e7]))) == [False, True]


@pytest.mark.parametrize("mu", [1e6, 1e8, 1e10, 1e15, 1e20])
@pytest.mark.parametrize("delta", [1e-300, 1e-6, 0.1, 0.9])
def test_epsilons_whose_exponential_overflows_are_upper_bounds(mu, delta):
    """There delta is all but the normal tail at epsilon/mu - mu/2; e^epsilon times a tail cancels to the last digit."""
    epsilon = GaussianAccountant(sensitivity=mu, noise_std=1.0).epsilon(delta)
    truth = mu * (mu / 2 + special.ndtri_exp(np.log(delta)) * -1.0)
    assert -1e-5 / mu - 1e-15 <= epsilon / truth - 1 <= 1e-5
    assert GaussianAccountant(sensitivity=mu, noise_std=1.0).log_delta(mu * (mu / 2 - 200.0)) >= -1e-9


@pytest.mark.parametrize("given", ["1e-6", b"0.1", np.array(["1e-6"]), ["0.1", 0.2], np.array(["1", 2], dtype=object)])
def test_text_is_no_number(given):
    account = GaussianAccountant(sensitivity=1, noise_std=1)
    for curve in (account.epsilon, account.delta, account.log_delta, account.rdp):
        with pytest.raises(TypeError, match=r"(delta|epsilon|orders) must be real numbers, got text"):
            curve(given)
    assert account.epsilon(np.array([1e-6, 1e-5], dtype=object)).tolist() == account.epsilon((1e-6, 1e-5)).tolist()

"""Events and accounts: the same numbers both ways, and a clear refusal where one cannot say what the other says."""

import sys

import numpy as np
import pytest

import privsample as ps
from privsample import (
    AddRemove,
    ApproximateAccountant,
    Assumption,
    BetaBernoulli,
    BoundedRangeAccountant,
    Composed,
    GaussianAccountant,
    Group,
    LaplaceAccountant,
    Parallel,
    PoissonSampling,
    PosteriorAccountant,
    PureAccountant,
    RandomizedResponseAccountant,
    ReplaceOne,
    SubsampledAccountant,
    WithoutReplacement,
    WithReplacement,
    ZCDPAccountant,
)
from privsample.errors import RelationMismatch
from privsample.interop.dp_accounting import from_dp_event, to_dp_event

dp = pytest.importorskip("dp_accounting")
events = pytest.importorskip("dp_accounting.dp_event")
pld_accountant = pytest.importorskip("dp_accounting.pld").PLDAccountant
rdp_accountant = pytest.importorskip("dp_accounting.rdp").RdpAccountant
ADD, REPLACE = dp.NeighboringRelation.ADD_OR_REMOVE_ONE, dp.NeighboringRelation.REPLACE_ONE
TEN = ReplaceOne(n=10)
GAUSSIAN, LAPLACE = events.GaussianDpEvent(2.0), events.LaplaceDpEvent(4.0)


def _bare(document):
    """Without assumptions: no event names them."""
    if isinstance(document, dict):
        return {name: _bare(entry) for name, entry in document.items() if name != "assumptions"}
    return [_bare(entry) for entry in document] if isinstance(document, list) else document


ACCOUNTS = [
    GaussianAccountant(sensitivity=1, noise_std=1.7),
    LaplaceAccountant(sensitivity=1, scale=0.3),
    ZCDPAccountant(rho=0.4),
    PureAccountant(stated_epsilon=0.7, relation=TEN),
    PureAccountant(stated_epsilon=0.0),
    3 * GaussianAccountant(sensitivity=1, noise_std=1.7) + LaplaceAccountant(sensitivity=1, scale=0.3),
    5 * ZCDPAccountant(rho=0.4, relation=TEN),
    SubsampledAccountant(base=GaussianAccountant(sensitivity=1, noise_std=2), scheme=PoissonSampling(rate=0.1)),
    2 * SubsampledAccountant(base=2 * LaplaceAccountant(sensitivity=1, scale=2), scheme=PoissonSampling(rate=0.1)),
    SubsampledAccountant(
        base=GaussianAccountant(sensitivity=1, noise_std=2, relation=ReplaceOne(n=3)),
        scheme=WithoutReplacement(n=10, m=3),
    ),
    SubsampledAccountant(
        base=GaussianAccountant(sensitivity=1, noise_std=2, relation=ReplaceOne(n=3)),
        scheme=WithReplacement(n=10, m=3),
    ),
]


@pytest.mark.parametrize("account", ACCOUNTS)
def test_there_and_back(account):
    event = to_dp_event(account)
    again = from_dp_event(event, relation=account.relation, sensitivity=1.0)
    assert _bare(again.to_dict()) == _bare(account.to_dict())
    assert Assumption.STATED in again.assumptions
    assert to_dp_event(again) == event


def test_only_the_ratio_is_kept():
    scaled = GaussianAccountant(sensitivity=3, noise_std=6, relation=AddRemove(unit="patient"))
    assert to_dp_event(scaled) == GAUSSIAN
    again = from_dp_event(GAUSSIAN, relation=scaled.relation)
    assert again.pairs == scaled.pairs
    assert again.relation == scaled.relation
    assert Assumption.TRUSTED_SENSITIVITY in again.assumptions


@pytest.mark.parametrize("log_odds", [1e-6, 0.1, 1.0, 5.0, 25.0, 800.0])
@pytest.mark.parametrize("categories", [2, 7])
def test_randomized_response_there_and_back(log_odds, categories):
    account = RandomizedResponseAccountant(log_odds=log_odds, categories=categories, relation=TEN)
    event = to_dp_event(account)
    if log_odds > 700:
        assert event.noise_parameter == 0.0
        return
    again = from_dp_event(event, relation=TEN)
    assert again.categories == categories
    assert again.log_odds == pytest.approx(log_odds, rel=1e-9)
    assert again.log_odds >= log_odds * (1 - 1e-15)


def their_epsilon(kind, event, relation, delta):
    accountant = kind(neighboring_relation=relation)
    accountant.compose(event)
    return accountant.get_epsilon(delta)


@pytest.mark.parametrize(
    ("event", "relation"),
    [
        (GAUSSIAN, ADD),
        (GAUSSIAN, REPLACE),
        (LAPLACE, ADD),
        (events.RandomizedResponseDpEvent(0.4, 3), REPLACE),
        (events.SelfComposedDpEvent(GAUSSIAN, 7), ADD),
        (events.ComposedDpEvent([GAUSSIAN, events.NoOpDpEvent(), events.SelfComposedDpEvent(GAUSSIAN, 2)]), REPLACE),
        (events.PoissonSampledDpEvent(0.2, GAUSSIAN), ADD),
        (events.PoissonSampledDpEvent(0.2, LAPLACE), ADD),
    ],
)
def test_their_privacy_loss_distributions_give_our_numbers(event, relation):
    """Theirs are pessimistic by one step of their grid for each release; ours are never above them."""
    account = from_dp_event(event, relation=AddRemove() if relation is ADD else TEN)
    for delta in (1e-6, 1e-2):
        theirs = their_epsilon(pld_accountant, event, relation, delta)
        ours = account.epsilon(delta)
        assert ours <= theirs + 1e-9
        assert theirs == pytest.approx(ours, abs=1e-3)


@pytest.mark.parametrize(
    ("event", "relation"),
    [
        (GAUSSIAN, ADD),
        (LAPLACE, ADD),
        (events.ZCDpEvent(rho=0.3), ADD),
        (events.ZCDpEvent(rho=0.0, xi=0.3), ADD),
        (events.RandomizedResponseDpEvent(0.4, 3), REPLACE),
        (events.ComposedDpEvent([GAUSSIAN, events.SelfComposedDpEvent(LAPLACE, 3)]), ADD),
        (events.PoissonSampledDpEvent(0.2, GAUSSIAN), ADD),
    ],
)
def test_their_renyi_accountant_gives_our_numbers(event, relation):
    orders = [2.0, 3.0, 8.0, 32.0]
    account = from_dp_event(event, relation=AddRemove() if relation is ADD else TEN)
    accountant = rdp_accountant(orders=orders, neighboring_relation=relation)
    accountant.compose(event)
    assert (account.rdp(orders) <= accountant._rdp * (1 + 1e-9)).all()
    if not isinstance(event, events.ZCDpEvent):
        assert account.rdp(orders) == pytest.approx(accountant._rdp, rel=1e-6)
    assert account.epsilon(1e-6) <= accountant.get_epsilon(1e-6) + 1e-9


def test_the_reading_that_costs_more():
    """Under replacement their two accountants read one multiplier differently: no conversion goes below either."""
    event, delta = GAUSSIAN, 1e-6
    theirs = [their_epsilon(kind, event, REPLACE, delta) for kind in (pld_accountant, rdp_accountant)]
    assert theirs[0] > 2 * theirs[1]
    assert from_dp_event(event, relation=TEN).epsilon(delta) == pytest.approx(theirs[0], abs=1e-3)
    assert from_dp_event(event, relation=TEN).pairs == from_dp_event(event).to(TEN).pairs
    account = GaussianAccountant(sensitivity=1, noise_std=2, relation=TEN)
    for kind in (pld_accountant, rdp_accountant):
        assert their_epsilon(kind, to_dp_event(account), REPLACE, delta) >= account.epsilon(delta) - 1e-9
    sample = events.SampledWithReplacementDpEvent(10, 3, event)
    assert from_dp_event(sample).base.sensitivity == from_dp_event(sample, relation=TEN).base.sensitivity == 2.0


@pytest.mark.parametrize(
    "event",
    [
        events.NoOpDpEvent(),
        events.ZCDpEvent(rho=0.0),
        events.ComposedDpEvent([]),
        events.SelfComposedDpEvent(events.ComposedDpEvent([events.NoOpDpEvent()]), 3),
        events.SelfComposedDpEvent(GAUSSIAN, 0),
        events.ComposedDpEvent([events.SelfComposedDpEvent(events.NonPrivateDpEvent(), 0)]),
        events.RandomizedResponseDpEvent(0.0, 1),
        events.RandomizedResponseDpEvent(1.0, 4),
        events.PoissonSampledDpEvent(0.0, events.NonPrivateDpEvent()),
        events.SampledWithoutReplacementDpEvent(10, 3, events.NoOpDpEvent()),
    ],
)
def test_what_releases_nothing_costs_nothing(event):
    assert from_dp_event(event, relation=TEN).epsilon(0.0) == 0.0
    assert to_dp_event(from_dp_event(event, relation=TEN)) == events.NoOpDpEvent()


@pytest.mark.parametrize(
    ("event", "relation", "error", "words"),
    [
        (events.NonPrivateDpEvent(), None, ValueError, "must have a privacy guarantee"),
        (events.UnsupportedDpEvent(), None, ValueError, "UnsupportedDpEvent"),
        (events.ZCDpEvent(rho=0.1, xi=0.1), None, ValueError, "supported are"),
        (events.ZCDpEvent(rho=-0.1), None, ValueError, "rho must be"),
        (events.ZCDpEvent(rho=np.nan), None, ValueError, "rho must be"),
        (events.DiscreteLaplaceDpEvent(1.0, 1), None, ValueError, "DiscreteLaplace"),
        (events.MixtureOfGaussiansDpEvent(1.0, [1.0], [1.0]), None, ValueError, "MixtureOfGaussians"),
        (events.RepeatAndSelectDpEvent(GAUSSIAN, 3.0, 1.0), None, ValueError, "RepeatAndSelect"),
        (events.SingleEpochTreeAggregationDpEvent(1.0, 3), None, ValueError, "SingleEpochTree"),
        (events.GaussianDpEvent(0.0), None, ValueError, "noise_multiplier must be"),
        (events.LaplaceDpEvent(np.nan), None, ValueError, "noise_multiplier must be"),
        (events.RandomizedResponseDpEvent(0.5, 2), None, RelationMismatch, "randomized response needs ReplaceOne"),
        (events.RandomizedResponseDpEvent(0.0, 2), TEN, ValueError, "noise_parameter"),
        (events.RandomizedResponseDpEvent(np.nan, 2), TEN, ValueError, "noise_parameter"),
        (events.SelfComposedDpEvent(GAUSSIAN, -1), None, ValueError, "at least 1"),
        (
            events.ComposedDpEvent([GAUSSIAN, events.NonPrivateDpEvent()]),
            None,
            ValueError,
            "must have a privacy guarantee",
        ),
        (events.PoissonSampledDpEvent(1.5, GAUSSIAN), None, ValueError, "rate"),
        (events.SampledWithoutReplacementDpEvent(10, 3, GAUSSIAN), None, RelationMismatch, "ReplaceOne"),
        (events.SampledWithoutReplacementDpEvent(11, 3, GAUSSIAN), TEN, RelationMismatch, "ReplaceOne"),
        ("Gaussian", None, TypeError, "must be a DpEvent"),
    ],
)
def test_events_that_no_account_describes(event, relation, error, words):
    with pytest.raises(error, match=words):
        from_dp_event(event, relation=relation)


@pytest.mark.parametrize(
    "account",
    [
        ApproximateAccountant(stated_epsilon=1, stated_delta=1e-6),
        BoundedRangeAccountant(loss_range=1),
        PosteriorAccountant(model=BetaBernoulli(alpha=1, beta=1), n=10),
        Group(base=ZCDPAccountant(rho=0.1), size=2),
        Parallel(parts=(ZCDPAccountant(rho=0.1), ZCDPAccountant(rho=0.2))),
        Composed(entries=((BoundedRangeAccountant(loss_range=1), 2),)),
    ],
)
def test_accounts_that_no_event_describes(account):
    with pytest.raises(ValueError, match="events exist for Gaussian"):
        to_dp_event(account)


@pytest.mark.parametrize("wrong", [0.0, -1.0, np.nan, np.inf])
def test_wrong_sensitivities(wrong):
    with pytest.raises(ValueError, match="sensitivity"):
        from_dp_event(GAUSSIAN, sensitivity=wrong)


def test_without_the_package(monkeypatch):
    monkeypatch.setitem(sys.modules, "dp_accounting", None)
    for call in (lambda: to_dp_event(ACCOUNTS[0]), lambda: from_dp_event(GAUSSIAN)):
        with pytest.raises(ImportError, match=r"privsample\[crosscheck\]"):
            call()


def test_what_is_no_account_and_no_relation_is_refused():
    with pytest.raises(TypeError, match=r"pass mechanism\.accountant"):
        to_dp_event("an account")
    with pytest.raises(TypeError, match="relation must be AddRemove or ReplaceOne, got str"):
        from_dp_event(to_dp_event(GaussianAccountant(sensitivity=1, noise_std=1)), relation="AddRemove")


def test_random_allocation_has_no_event():
    base = ps.GaussianSum(bounds=(0, 1), noise_std=2.0)
    account = ps.Subsampled(base=base, scheme=ps.RandomAllocation(steps=10)).accountant
    with pytest.raises(ValueError, match="must be expressible as a DpEvent, got RandomAllocation"):
        to_dp_event(account)

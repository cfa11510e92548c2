"""Privacy loss distributions of dp_accounting: never below what they come from, and close, in both directions."""

import json

import numpy as np
import pytest

import privsample as ps
from privsample.accounting.stated.losses import remove_excess_mass

pytest.importorskip("dp_accounting")
pytest.importorskip("dp_accounting.pld")
from dp_accounting.pld import common, pld_pmf, privacy_loss_distribution

TEN = ps.ReplaceOne(n=10)
GAUSSIAN = ps.GaussianAccountant(sensitivity=1, noise_std=1.3)
TABLE = ps.PairAccountant(p=[0.6, 0.395, 0.005], q=[0.45, 0.55, 0.0])
ACCOUNTS = {
    "Gaussian": GAUSSIAN,
    "Laplace": ps.LaplaceAccountant(sensitivity=1, scale=2, relation=TEN),
    "response": ps.RandomizedResponseAccountant(log_odds=1.0, categories=3, relation=TEN),
    "sampled": ps.SubsampledAccountant(base=GAUSSIAN, scheme=ps.PoissonSampling(rate=0.1)),
    "approximate": ps.ApproximateAccountant(stated_epsilon=1.0, stated_delta=1e-4),
    "table": TABLE,
    "either order": ps.PairAccountant(p=TABLE.p, q=TABLE.q, relation=TEN),
    "composed": 3 * GAUSSIAN + 2 * ps.LaplaceAccountant(sensitivity=1, scale=3),
    "composed either order": 3 * ps.PairAccountant(p=TABLE.p, q=TABLE.q, relation=TEN),
    "posterior": ps.PosteriorAccountant(model=ps.BetaBernoulli(alpha=3, beta=4), n=10),
    "range": ps.BoundedRangeAccountant(loss_range=1.0),
}
EACH = pytest.mark.parametrize("account", ACCOUNTS.values(), ids=list(ACCOUNTS))
EPSILONS = [0.0, 0.2, 0.7, 1.5]


@EACH
def test_out_and_in_again(account):
    pld = ps.to_pld(account, discretization=1e-3)
    back = ps.from_pld(pld, relation=account.relation)
    assert len(back.bounds.directions) == max(len(account.bounds.directions), 1)
    assert back.assumptions == frozenset({ps.Assumption.STATED})
    for epsilon in EPSILONS:
        own, theirs = float(account.delta(epsilon)), pld.get_delta_for_epsilon(epsilon)
        assert theirs >= own * (1 - 1e-6) - 1e-12  # a composed curve of ours is rounded up too
        assert theirs <= own * 1.01 + 2e-5
        assert float(back.delta(epsilon)) == pytest.approx(theirs, rel=1e-9, abs=1e-13)
    for delta in (0.1, 0.02):
        assert pld.get_epsilon_for_delta(delta) >= float(account.epsilon(delta)) - 1e-6
        assert pld.get_epsilon_for_delta(delta) <= float(account.epsilon(delta)) + 2e-3


@pytest.mark.parametrize("name", ["Gaussian", "sampled", "approximate", "table"])
def test_compositions_agree_in_either_library(name):
    account = ACCOUNTS[name]
    pld = ps.to_pld(account)
    theirs = pld.self_compose(4)
    ours, back = 4 * account, 4 * ps.from_pld(pld)
    for epsilon in EPSILONS[1:]:
        found = theirs.get_delta_for_epsilon(epsilon)
        assert found >= float(ours.delta(epsilon)) * (1 - 1e-6)
        assert found == pytest.approx(float(ours.delta(epsilon)), rel=1e-4)
        assert float(back.delta(epsilon)) == pytest.approx(found, rel=1e-4)
        assert float(ps.from_pld(theirs).delta(epsilon)) == pytest.approx(found, rel=1e-9)


def test_directions_are_removal_and_addition():
    pld = ps.to_pld(ACCOUNTS["sampled"])
    account = ps.from_pld(pld)
    (removal,), (addition,) = account.bounds.directions
    for pair, pmf in ((removal, pld._pmf_remove), (addition, pld._pmf_add)):
        assert np.exp(pair.log_delta(np.array(0.5))) == pytest.approx(pmf.get_delta_for_epsilon(0.5), rel=1e-9)
    one = ps.from_pld(pld, relation=TEN)
    assert len(one.bounds.directions) == 1
    assert float(one.delta(0.3)) == pytest.approx(float(account.delta(0.3)), rel=1e-12)
    assert float((2 * one).delta(0.3)) >= float((2 * account).delta(0.3)) * (1 - 1e-6)
    moved = account.to(ps.ReplaceOne(n=3))
    assert float(moved.delta(0.3)) >= float(account.delta(0.3))


@pytest.mark.parametrize(
    "build",
    [
        lambda: privacy_loss_distribution.from_gaussian_mechanism(1.0),
        lambda: privacy_loss_distribution.from_laplace_mechanism(1.0, sampling_prob=0.3),
        lambda: privacy_loss_distribution.from_privacy_parameters(common.DifferentialPrivacyParameters(1.0, 1e-4)),
        lambda: privacy_loss_distribution.from_gaussian_mechanism(3.0).self_compose(50),
        lambda: privacy_loss_distribution.from_randomized_response(0.4, 4),
        lambda: privacy_loss_distribution.from_laplace_mechanism(1.0, use_connect_dots=False),
    ],
    ids=["Gaussian", "sampled", "approximate", "composed", "response", "rounded"],
)
def test_their_distributions_give_the_same_numbers(build):
    pld = build()
    account = ps.from_pld(pld)
    for epsilon in EPSILONS:
        theirs = pld.get_delta_for_epsilon(epsilon)
        assert float(account.delta(epsilon)) == pytest.approx(theirs, rel=1e-7, abs=1e-12)
    loaded = ps.Accountant.from_dict(json.loads(json.dumps(account.to_dict())))
    assert loaded == account


def test_a_renyi_curve_alone_is_converted():
    account = ps.ZCDPAccountant(rho=0.1)
    pld = ps.to_pld(account, discretization=1e-2)
    assert float(account.epsilon(1e-3)) <= pld.get_epsilon_for_delta(1e-3) <= float(account.epsilon(1e-3)) * 1.05


def test_no_account_is_made_of_a_lower_bound():
    optimistic = privacy_loss_distribution.from_laplace_mechanism(
        1.0, pessimistic_estimate=False, use_connect_dots=False
    )
    with pytest.raises(ValueError, match="pessimistic estimate: an optimistic one is a lower bound, not a guarantee"):
        ps.from_pld(optimistic)
    with pytest.raises(TypeError, match="pld must be a PrivacyLossDistribution of dp_accounting, got float"):
        ps.from_pld(1.0)
    with pytest.raises(
        TypeError, match=r"account must be an Accountant, got float; for a mechanism pass mechanism.accountant"
    ):
        ps.to_pld(1.0)
    with pytest.raises(ValueError, match="discretization must be finite and > 0"):
        ps.to_pld(GAUSSIAN, discretization=0.0)
    with pytest.raises(ValueError, match="choose a larger discretization"):
        ps.to_pld(GAUSSIAN, discretization=1e-9)


def test_what_a_truncation_left_out_may_have_any_loss():
    pmf = pld_pmf.DensePLDPmf(0.5, -1, np.array([0.3, 0.2, 0.4]), 0.05, True)
    account = ps.from_pld(privacy_loss_distribution.PrivacyLossDistribution(pmf))
    assert account.infinity_mass == pytest.approx(0.1, rel=1e-12)
    empty = pld_pmf.DensePLDPmf(0.5, 0, np.zeros(1), 1.0, True)
    with pytest.raises(ValueError, match=r"infinity_mass must lie in \[0, 1\)"):
        ps.from_pld(privacy_loss_distribution.PrivacyLossDistribution(empty))


def test_rounding_far_below_zero_is_raised():
    """A mass of 1e-18 at a loss of -60 weighs e^60 under Q: no two distributions have that."""
    losses, odds = [-60.0, -1.0, 1.0], np.e / (1 + np.e)
    noisy = ps.LossDistribution(losses=losses, masses=[1e-18, 1 - odds, odds])
    account = ps.LossDistributionAccountant(first=noisy)
    assert account.delta(EPSILONS) == pytest.approx(ps.PureAccountant(stated_epsilon=1.0).delta(EPSILONS), rel=1e-9)
    with pytest.raises(ValueError, match="no two distributions have these losses"):
        ps.LossDistributionAccountant(first=ps.LossDistribution(losses=[-2.0, -1.0], masses=[0.5, 0.5]))


def test_an_excess_is_taken_from_the_lowest_losses():
    assert remove_excess_mass(np.array([0.1, 0.5, 0.5]), 0.05) == pytest.approx([0.0, 0.45, 0.5])
    assert remove_excess_mass(np.array([0.1, 0.5]), 0.05).tolist() == [0.1, 0.5]


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"losses": [0.0, 0.0], "masses": [0.5, 0.5]}, "losses must be strictly increasing"),
        ({"losses": [0.0, 1.0], "masses": [0.5, 0.4]}, "sum to 1.*got 0.9; add missing mass to infinity_mass"),
        ({"losses": [0.0, 1.0], "masses": [1.2, -0.2]}, "masses must be probabilities, got -0.2"),
        ({"losses": [0.0, np.inf], "masses": [0.5, 0.5]}, "losses must be finite numbers"),
        ({"losses": [[0.0]], "masses": [1.0]}, "losses must be finite numbers, shape"),
        ({"losses": [0.0, 1.0], "masses": [1.0]}, "one shape"),
    ],
)
def test_bad_distributions_are_refused(fields, words):
    with pytest.raises(ValueError, match=words):
        ps.LossDistribution(**fields)


def test_other_types_are_refused():
    with pytest.raises(TypeError, match="first must be a LossDistribution, got float"):
        ps.LossDistributionAccountant(first=1.0)
    with pytest.raises(TypeError, match="second must be a LossDistribution, got float"):
        ps.LossDistributionAccountant(first=ps.LossDistribution(losses=[0.0], masses=[1.0]), second=1.0)


def test_a_distribution_without_a_finite_loss_promises_nothing():
    nothing = ps.LossDistribution(losses=[0.0], masses=[0.0], infinity_mass=1 - 1e-10)
    with pytest.raises(ValueError, match="masses must be positive for some finite loss"):
        ps.LossDistributionAccountant(first=nothing)


def test_without_the_library_it_says_what_to_install(monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "dp_accounting", None)
    with pytest.raises(ImportError, match=r"privsample\[crosscheck\]"):
        ps.to_pld(GAUSSIAN)

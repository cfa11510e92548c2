"""A mechanism that fails with a small probability: curves against 50 digits, random mixtures, and compositions."""

import json

import mpmath as mp
import numpy as np
import pytest

import privsample as ps
from privsample import verify
from privsample.accounting.loss.alternatives import OneOfPairs
from privsample.accounting.loss.failure import FailurePair
from privsample.accounting.loss.gaussian import GaussianPair
from privsample.accounting.loss.laplace import LaplacePair
from privsample.errors import NotCertified, UnreachableTarget
from tests.certified import without_digest

GAUSSIAN = GaussianPair(mu=0.7)


def gaussian_delta(mu, epsilon):
    return mp.ncdf(mp.mpf(mu) / 2 - epsilon / mp.mpf(mu)) - mp.exp(epsilon) * mp.ncdf(
        -mp.mpf(mu) / 2 - epsilon / mp.mpf(mu)
    )


@pytest.mark.parametrize("mass", [1e-300, 1e-15, 1e-6, 0.3])
@pytest.mark.parametrize("epsilon", [-2.0, 0.0, 0.5, 3.0, 9.0])
def test_the_curve_to_fifty_digits(mass, epsilon):
    with mp.workdps(50):
        true = mp.mpf(mass) + (1 - mp.mpf(mass)) * gaussian_delta(0.7, mp.mpf(epsilon))
        found = mp.exp(mp.mpf(float(FailurePair(base=GAUSSIAN, mass=mass).log_delta(np.array(epsilon)))))
        assert true <= found * (1 + mp.mpf(10) ** -18)
        assert found <= true * (1 + mp.mpf(10) ** -11)


@pytest.mark.parametrize("mass", [1e-15, 1e-6, 0.3])
def test_epsilon_inverts_the_curve(mass):
    pair = FailurePair(base=GAUSSIAN, mass=mass)
    for delta in (mass * (1 + 1e-9), 2 * mass, min(100 * mass, 0.35)):
        epsilon = pair.least_epsilon(float(np.log(delta)))
        with mp.workdps(50):
            assert mp.mpf(mass) + (1 - mp.mpf(mass)) * gaussian_delta(0.7, mp.mpf(epsilon)) <= mp.mpf(delta)
        assert epsilon == 0.0 or pair.log_delta(np.array(epsilon * (1 - 1e-6))) > np.log(delta)
    for delta in (mass, mass / 2):
        assert pair.least_epsilon(float(np.log(delta))) == np.inf


def hockey_stick(p, q, epsilon):
    return np.maximum(p - np.exp(epsilon) * q, 0.0).sum()


def largest_excess(share, trials=4000):
    """Largest excess of the mixtures' curves over the bound with `share` times the failure probability."""
    rng, worst = np.random.default_rng(5), -np.inf
    for _ in range(trials):
        size = rng.integers(2, 6)
        p, q, *other = rng.dirichlet(np.full(size, 0.3), size=4)
        mass = 10.0 ** rng.uniform(-6, -0.2)
        fails = mass * rng.choice([0.0, 0.5, 1.0], size=2)  # failures may be rarer, and depend on the dataset
        mixed = [(1 - f) * one + f * anything for f, one, anything in zip(fails, (p, q), other, strict=True)]
        for epsilon in (0.0, 0.3, 1.0, 3.0):
            bound = (1 - share * mass) * hockey_stick(p, q, epsilon) + share * mass
            worst = max(worst, hockey_stick(*mixed, epsilon) - bound)
    return worst


def test_no_mixture_exceeds_the_bound():
    assert largest_excess(1.0) <= 1e-15
    assert largest_excess(0.9) > 1e-3  # the broken copy counts nine failures of ten


def test_failures_compose_beside_the_loss():
    account = ps.LogisticAccountant(n=9, features=2, norm=1.0, prior_std=0.2)
    failing = ps.LogisticAccountant(n=9, features=2, norm=1.0, prior_std=0.2, failure_probability=1e-4)
    for times in (1, 3):
        one, other = times * account, times * failing
        mass = 1 - (1 - 1e-4) ** times
        assert other.infinity_mass == pytest.approx(mass, rel=1e-12)
        for epsilon in (0.0, 0.5, 2.0):
            assert other.delta(epsilon) == pytest.approx(mass + (1 - mass) * one.delta(epsilon), rel=1e-10)
        assert other.delta(other.epsilon(1e-3)) <= 1e-3 * (1 + 1e-9)
        assert other.epsilon(mass / 2) == np.inf
        assert np.isinf(other.rdp(2.0))
        assert np.isinf(other.zcdp)
    noise = ps.LaplaceAccountant(sensitivity=1, scale=3, relation=account.relation)
    mixed, plain = 2 * failing + noise, 2 * account + noise
    mass = 1 - (1 - 1e-4) ** 2
    assert mixed.delta(0.4) == pytest.approx(mass + (1 - mass) * plain.delta(0.4), rel=1e-6)
    assert (failing | failing).infinity_mass == 1e-4
    assert failing.group(2).infinity_mass == 1e-4
    assert failing.group(2).shift == pytest.approx(2 * failing.shift)


@pytest.mark.parametrize("target", [ps.ZCDP(0.1), ps.RDP(2, 0.1)], ids=str)
def test_an_infinity_mass_has_no_renyi_guarantee(target):
    with pytest.raises(UnreachableTarget, match="infinity mass of 1e-15"):
        ps.LogisticPosterior.calibrate(n=9, features=2, norm=1.0, prior_std=0.2, target=target)


def test_a_failure_keeps_what_is_known_of_the_base():
    either = OneOfPairs(members=(GAUSSIAN, LaplacePair(shift=0.5)))
    pair = FailurePair(base=either, mass=1e-3)
    assert pair.is_envelope
    assert [one.base for one in pair.alternatives] == list(either.members)
    assert pair.reverse() == pair
    assert (pair.is_expensive, pair.from_table, pair.order_limit) == (False, False, 1.0)
    assert pair.curve_cost == either.curve_cost
    assert np.isinf(pair.renyi(np.array([1.5, 2.0]))).all()
    assert pair.max_divergence == np.inf
    assert (pair.approx_log_delta(np.array([1.0])) >= pair.log_delta(np.array([1.0])) - 1e-9).all()
    wider = FailurePair(base=GaussianPair(mu=0.8), mass=1e-2)
    one = FailurePair(base=GAUSSIAN, mass=1e-3)
    assert wider.dominates(one)
    assert not one.dominates(wider)
    assert wider.dominates(GAUSSIAN)


def test_the_discretized_pair_dominates():
    pair, nodes = FailurePair(base=GAUSSIAN, mass=1e-3), np.linspace(-6, 6, 241)
    log_masses, at_infinity = pair.discretize(nodes)
    for epsilon in (0.0, 0.52, 2.0):
        own = np.exp(log_masses) * np.maximum(-np.expm1(epsilon - nodes), 0.0)
        assert own.sum() + np.exp(at_infinity) >= np.exp(pair.log_delta(np.array(epsilon)))
    assert np.exp(log_masses).sum() + np.exp(at_infinity) == pytest.approx(1.0, abs=1e-3)


@pytest.mark.parametrize("mass", [0.5, 1.0])
def test_a_failure_that_is_certain_costs_everything(mass):
    """The probability that some of 200 releases fails is rounded to 1; warnings are errors."""
    failing = ps.LogisticAccountant(n=9, features=2, norm=1.0, prior_std=0.2, failure_probability=0.5)
    pair = FailurePair(base=GAUSSIAN, mass=mass)
    assert (200 * failing).delta(1.0) == 1.0
    assert (200 * failing).epsilon(0.5) == np.inf
    assert pair.log_delta(np.array([0.0, 3.0])) == pytest.approx(
        np.log(mass) if mass == 1.0 else [-0.45, -0.69], abs=0.1
    )
    assert pair.discretize(np.linspace(-1, 1, 5))[1] <= 0.0


def test_no_failure_has_mass_zero():
    assert str((3 * ps.PureAccountant(stated_epsilon=0.5, relation=ps.ReplaceOne(n=9))).infinity_mass) == "0.0"


def certified_accounts():
    one = ps.LogisticAccountant(n=9, features=2, norm=1.0, prior_std=0.2, failure_probability=1e-4)
    noise = ps.LaplaceAccountant(sensitivity=1, scale=3, relation=one.relation)
    return {"one": one, "three": 3 * one, "noise": one + noise, "group": one.group(2), "groups": (2 * one).group(2)}


@pytest.mark.parametrize("name", certified_accounts())
def test_certificates_hold_the_failure(name):
    """The checker proves the account's own number, and refuses what would be true without the failure."""
    account = certified_accounts()[name]
    certificate = account.certificate(delta=1e-3)
    ((epsilon, delta),) = certificate.claims
    assert account.epsilon(1e-3) <= float(epsilon) <= account.epsilon(1e-3) * (1 + 1e-3)
    assert verify.verify(certificate.to_json())
    without = without_digest(certificate.to_json())
    without["claims"] = [{"epsilon": epsilon, "delta": str(float(delta) - 0.9e-4)}]
    with pytest.raises(verify.Refused):
        verify.verify(json.dumps(without))


def test_a_certain_failure_has_no_certificate():
    with pytest.raises(NotCertified, match="probability 1"):
        FailurePair(base=GAUSSIAN, mass=1.0).certified_pair()

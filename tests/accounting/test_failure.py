"""A mechanism that fails with a small probability: curves against 50 digits, random mixtures, and compositions."""

import mpmath as mp
import numpy as np
import pytest

import privsample as ps
from privsample.accounting.loss.alternatives import OneOfPairs
from privsample.accounting.loss.failure import FailurePair
from privsample.accounting.loss.gaussian import GaussianPair
from privsample.accounting.loss.laplace import LaplacePair
from privsample.errors import UnreachableTarget

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

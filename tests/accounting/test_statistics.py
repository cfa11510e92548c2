"""Accounts of noisy statistics: against enumeration of what two or more records can move."""

import itertools
from dataclasses import dataclass
from fractions import Fraction

import mpmath as mp
import numpy as np
import pytest

from privsample import (
    DP,
    Composed,
    DiscreteGaussianNoise,
    DiscreteLaplaceNoise,
    GaussianAccountant,
    GaussianNoise,
    LaplaceAccountant,
    LaplaceNoise,
    RecordSensitivity,
    ReplaceOne,
    StatisticsAccountant,
    ThresholdKeysAccountant,
)
from privsample.accounting.base import Group
from privsample.accounting.loss.laplace import LaplacePair
from privsample.accounting.loss.pair import DiscretePair, LossPair
from privsample.accounting.loss.product import ProductPair
from privsample.accounting.noise.discrete import DiscreteGaussianPair, DiscreteLaplacePair
from privsample.accounting.noise.sums_of_losses import TwoLaplacePair, independent_coordinates
from privsample.distributions.record_sensitivity import ONE_HOT
from tests.accounting.moved import ORDERS, above
from tests.inference.noises import OwnLogistic

ONE = RecordSensitivity(differences=[[1]], integer_valued=True)
NOISES = [
    LaplaceNoise(scale=2.0),
    GaussianNoise(noise_std=2.0),
    DiscreteLaplaceNoise(scale=2.0),
    DiscreteGaussianNoise(noise_std=2.0),
]
each_noise = pytest.mark.parametrize("noise", NOISES, ids=lambda noise: noise.name)


def hockey_sticks(noise, moves, epsilons, reach=60):
    """By enumeration of all outcomes of discrete noise on several coordinates."""
    k = np.arange(-reach, reach + 1.0)
    p, q = np.zeros(1), np.zeros(1)
    for move in moves:
        p = np.add.outer(p, noise.log_mass(k - move)).ravel()
        q = np.add.outer(q, noise.log_mass(k)).ravel()
    return np.array([np.maximum(np.exp(p) - np.exp(e + q), 0).sum() for e in epsilons])


@pytest.mark.parametrize("noise", [n for n in NOISES if n.integer_valued], ids=lambda noise: noise.name)
@pytest.mark.parametrize("moves", [(1,), (3,), (1, 1), (2, 1)])
def test_accounts_against_enumeration(noise, moves):
    account = StatisticsAccountant(
        differences=RecordSensitivity(differences=[moves], integer_valued=True), n=4, noise=noise
    )
    epsilons = np.array([-0.4, 0.0, 0.2, 0.6])
    truth = hockey_sticks(noise, moves, epsilons)
    found = account.delta(epsilons)
    assert (found >= truth * (1 - 1e-9)).all()
    assert found == pytest.approx(truth, rel=1e-9 if account.kind("delta") == "exact" else 2e-3)
    k, order = np.arange(-60, 61.0), 2.5
    logs = [order * noise.log_mass(k - m) + (1 - order) * noise.log_mass(k) for m in moves]
    each = [np.logaddexp.reduce(log) / (order - 1) for log in logs]
    assert account.rdp(order) == pytest.approx(sum(each), rel=1e-9)


@pytest.mark.parametrize(
    "noise", [n for n in NOISES if n.integer_valued and "laplace" in n.name], ids=lambda noise: noise.name
)
def test_every_move_of_two_records_costs_at_most_the_group(noise):
    """All sums of two one-hot differences over four categories."""
    steps = [np.eye(4)[i] - np.eye(4)[j] for i, j in itertools.permutations(range(4), 2)]
    group = StatisticsAccountant(differences=ONE_HOT, n=5, noise=noise).group(2)
    epsilons = np.array([-1.0, 0.0, 0.3, 0.7, 1.2])
    worst, bound = np.zeros(5), group.delta(epsilons)
    for move in {tuple(-np.sort(-np.abs(a + b))) for a, b in itertools.product(steps, repeat=2)}:
        worst = np.maximum(worst, hockey_sticks(noise, [m for m in move if m], epsilons, reach=14))
    assert (bound >= worst * (1 - 1e-6)).all()
    assert bound == pytest.approx(worst, rel=1e-2)


def test_a_one_hot_record_costs_two_laplace_pairs():
    relation, orders, epsilons = ReplaceOne(n=5), np.array([1.1, 2.0, 10.0, 1e4]), np.array([0.0, 0.3, 0.9])
    account = StatisticsAccountant(differences=ONE_HOT, n=5, noise=LaplaceNoise(scale=2.0))
    two = 2 * LaplaceAccountant(sensitivity=1, scale=2.0, relation=relation)
    assert isinstance(two, Composed)
    assert account.rdp(orders) == pytest.approx(two.rdp(orders), rel=1e-14)
    assert account.pure_epsilon == two.pure_epsilon
    assert account.zcdp == two.zcdp
    assert account.delta(epsilons) == pytest.approx(two.delta(epsilons), rel=1e-6)
    assert (account.delta(epsilons) <= two.delta(epsilons)).all()
    norm = LaplaceAccountant(sensitivity=2, scale=2.0, relation=relation)
    assert (account.rdp(orders) < norm.rdp(orders)).all()
    gaussian = StatisticsAccountant(differences=ONE_HOT, n=5, noise=GaussianNoise(noise_std=2.0))
    peer = GaussianAccountant(sensitivity=2**0.5, noise_std=2.0, relation=relation)
    assert gaussian.delta(epsilons) == pytest.approx(peer.delta(epsilons), rel=1e-12)


def test_two_laplace_coordinates_by_quadrature():
    with mp.workdps(30):
        z = mp.mpf("0.7")

        def delta(e):
            def inner(x):
                threshold = mp.exp(mp.mpf(e) - abs(x) + abs(x - z))  # of the second coordinate's likelihood ratio
                top = mp.log(threshold)
                one = 0 if top >= z else 1 - mp.exp((top - z) / 2) if top >= -z else 1 - mp.exp(top)
                return mp.exp(-abs(x - z)) / 2 * one

            kinks = [x for x in (mp.mpf(e) / 2, z + mp.mpf(e) / 2) if 0 < x < z]
            return mp.quad(inner, sorted([-70, -5, 0, *kinks, z, z + 5, 70]))

        for e in (-2.0, -1.3, -0.4, 0.0, 0.5, 1.2, 1.39):
            assert above(TwoLaplacePair(shift=0.7).log_delta(np.array([e]))[0], float(mp.log(delta(e))))
    assert TwoLaplacePair(shift=0.7).reverse().max_divergence == 1.4
    assert TwoLaplacePair(shift=0.7).renyi(ORDERS) == pytest.approx(2 * LaplacePair(shift=0.7).renyi(ORDERS))
    assert np.isneginf(TwoLaplacePair(shift=0.7).log_delta(np.array([1.4, 9.0]))).all()


def test_sums_of_discrete_losses_are_listed_where_they_are_few():
    near, far = DiscreteLaplacePair(shift=1, scale=2.0), DiscreteLaplacePair(shift=3, scale=2.0)
    made = independent_coordinates(((near, 2), (far, 1)))
    assert isinstance(made, DiscretePair)
    assert made.max_divergence == 2.5
    assert made.renyi(ORDERS) == pytest.approx(2 * near.renyi(ORDERS) + far.renyi(ORDERS), rel=1e-12)
    assert isinstance(independent_coordinates(((DiscreteLaplacePair(shift=1, scale=1e-3), 2),)), ProductPair)
    assert isinstance(independent_coordinates(((DiscreteLaplacePair(shift=5000, scale=1e4), 2),)), ProductPair)
    mixed: tuple[tuple[LossPair, int], ...] = ((near, 1), (TwoLaplacePair(shift=1.0), 1))
    assert isinstance(independent_coordinates(mixed), ProductPair)


@each_noise
def test_several_differences_cost_the_worst(noise):
    several = RecordSensitivity(differences=[[3, 1], [2, 2]], integer_valued=True)
    account = StatisticsAccountant(differences=several, n=5, noise=noise)
    singles = [
        StatisticsAccountant(differences=RecordSensitivity(differences=[row], integer_valued=True), n=5, noise=noise)
        for row in several.differences
    ]
    worst = np.max([single.rdp(ORDERS) for single in singles], axis=0)
    if isinstance(noise, DiscreteGaussianNoise):
        assert (account.rdp(ORDERS) >= worst * (1 - 1e-12)).all()
        assert account.rdp(ORDERS) == pytest.approx(ORDERS * account.zcdp)
    else:
        assert account.rdp(ORDERS) == pytest.approx(worst, rel=1e-12)
    assert account.zcdp == max(single.zcdp for single in singles)
    assert account.delta(0.4) >= max(single.delta(0.4) for single in singles) * (1 - 1e-6)
    assert account.kind("rdp") == ("upper bound" if noise.name == "discrete gaussian" else "exact")
    assert account.kind("delta") == ("exact" if noise.name == "gaussian" else "upper bound")
    bounded = StatisticsAccountant(
        differences=RecordSensitivity(differences=[[3, 1]], tight=False, integer_valued=True), n=5, noise=noise
    )
    assert bounded.kind("rdp") == "upper bound"


@each_noise
def test_features_and_draws_add_up(noise):
    one = StatisticsAccountant(differences=ONE_HOT, n=5, noise=noise)
    features = StatisticsAccountant(differences=ONE_HOT.for_features(3), n=5, noise=noise)
    draws = StatisticsAccountant(differences=ONE_HOT, n=5, noise=noise, draws=3)
    for account in (features, draws):
        assert account.rdp(ORDERS) == pytest.approx(3 * one.rdp(ORDERS), rel=1e-12)
        assert account.zcdp == pytest.approx(3 * one.zcdp)
        assert account.delta(0.4) == pytest.approx((3 * one).delta(0.4), rel=1e-3)
        assert account.delta(0.4) <= (3 * one).delta(0.4) * (1 + 1e-6)


@each_noise
@pytest.mark.parametrize("differences", [ONE, ONE_HOT], ids=["one", "two"])
def test_groups(noise, differences):
    account = StatisticsAccountant(differences=differences, n=3, noise=noise)
    group = account.group(2)
    assert group.relation == ReplaceOne(n=3, members=2)
    if noise.name == "discrete gaussian" and differences is ONE_HOT:
        assert isinstance(group, Group)
        assert group.zcdp == pytest.approx(4 * account.zcdp)
        with pytest.raises(ValueError, match="group_size"):
            StatisticsAccountant(differences=differences, n=3, noise=noise, group_size=2)
        return
    double = StatisticsAccountant(differences=2 * differences, n=3, noise=noise)
    assert group.rdp(ORDERS) == pytest.approx(double.rdp(ORDERS), rel=1e-12)
    assert group.group(4).relation == account.group(3).relation


def test_what_does_not_fit_is_refused():
    real = RecordSensitivity(differences=[[1.0]])
    for noise in (n for n in NOISES if n.integer_valued):
        with pytest.raises(ValueError, match="noise must be continuous"):
            StatisticsAccountant(differences=real, n=3, noise=noise)
    with pytest.raises(TypeError, match="noise"):
        StatisticsAccountant(differences=real, n=3, noise="laplace")
    with pytest.raises(TypeError, match="differences"):
        StatisticsAccountant(differences=[[1.0]], n=3, noise=NOISES[0])
    with pytest.raises(ValueError, match="n must"):
        StatisticsAccountant(differences=real, n=0, noise=NOISES[0])


@each_noise
def test_the_source_is_named(noise):
    account = StatisticsAccountant(differences=ONE, n=3, noise=noise)
    assert "20" in account.source
    assert account.explain(1e-6)[0].name


@each_noise
def test_a_known_l2_norm_bounds_gaussian_noise(noise):
    shorter = RecordSensitivity(differences=[[3, 2], [4, 1]], integer_valued=True, l2=4.0)
    account = StatisticsAccountant(differences=shorter, n=5, noise=noise)
    laplace = isinstance(noise, LaplaceNoise)  # of which the difference (4, 1) costs most: x - 1 + e^-x of 2 and of 1/2
    assert account.zcdp == pytest.approx(0.5 + np.exp(-2.0) + np.exp(-0.5) if laplace else 4.0**2 / 2**2 / 2)
    assert (account.rdp(ORDERS) <= account.zcdp * ORDERS * (1 + 1e-12)).all()
    if isinstance(noise, GaussianNoise):
        peer = GaussianAccountant(sensitivity=4.0, noise_std=2.0, relation=ReplaceOne(n=5))
        assert account.delta(0.5) == pytest.approx(peer.delta(0.5))
        assert account.group(2).zcdp == pytest.approx(4 * account.zcdp)


def test_epsilon_on_a_grid_is_computed_separately():
    closed = StatisticsAccountant(differences=ONE_HOT, n=5, noise=NOISES[0])
    listed = StatisticsAccountant(differences=RecordSensitivity(differences=[[2, 1]]), n=5, noise=NOISES[0])
    assert DP(epsilon=1.0, delta=1e-3).met_by(closed)
    assert DP(epsilon=1.49, delta=0.1).met_by(listed)
    assert not DP(epsilon=0.1, delta=1e-3).met_by(listed)
    with pytest.raises(ValueError, match="l2 must be > 0"):
        RecordSensitivity(differences=[[1]], l2=0.0)


def test_no_noise_is_too_little_or_too_much_for_a_plain_answer():
    """At so large an epsilon outcomes cannot be told apart: the tail bounds the curve, log delta -4.5 (e / 3)^2 * 9."""
    pair = DiscreteGaussianPair(shift=1, noise_std=3.0)
    assert -4.6e34 < pair.log_delta(np.array([1e17]))[0] < -4.4e34
    assert np.isfinite(DiscreteLaplacePair(shift=1000, scale=1e-6).log_delta(np.array([0.999999e9]))[0])
    for noise in (LaplaceNoise(scale=1e-200), GaussianNoise(noise_std=1e-200), DiscreteLaplaceNoise(scale=1e-200)):
        with pytest.raises(ValueError, match="squared ratio of difference and noise must be finite and > 0"):
            StatisticsAccountant(differences=ONE, n=10, noise=noise)
    wide = RecordSensitivity(differences=[[1e200]])
    assert StatisticsAccountant(differences=wide, n=10, noise=GaussianNoise(noise_std=1e200)).zcdp == 0.5
    for noise in (LaplaceNoise(scale=1e300), GaussianNoise(noise_std=1e300)):
        hidden = StatisticsAccountant(differences=ONE, n=10, noise=noise)
        assert min(hidden.zcdp, hidden.rdp(2.0), hidden.delta(0.0)) > 0.0


def test_the_pure_guarantee_is_rounded_up():
    for scale in (3.0, 0.1, 7.0):
        for distribution in (LaplaceNoise(scale=scale), DiscreteLaplaceNoise(scale=scale)):
            account = StatisticsAccountant(differences=ONE_HOT, n=10, noise=distribution, draws=3)
            assert Fraction(account.pure_epsilon) >= 6 / Fraction(scale)


@dataclass(frozen=True, kw_only=True)
class Uniform(GaussianNoise):
    """Noise of another package: uniform on [-10, 10], although it is derived from a class with a known account."""

    def sample(self, shape, rng):
        return rng.uniform(-10.0, 10.0, shape)


@pytest.mark.parametrize("noise", [Uniform(noise_std=10.0), OwnLogistic(scale=10.0)])
def test_noise_of_other_classes_has_no_account(noise):
    """Uniform noise has delta(1) = 0.05 and no pure guarantee; it was charged as discrete Gaussian noise, 'exact'."""
    message = f"one of LaplaceNoise, .* got {type(noise).__name__}; for other noise, state the account"
    with pytest.raises(TypeError, match=message):
        StatisticsAccountant(differences=RecordSensitivity(differences=[[1]]), n=None, noise=noise)
    with pytest.raises(TypeError, match=message):
        ThresholdKeysAccountant(noise=noise, threshold=30.0)

"""Distributions of noise against sums to fifty digits, and their samplers, with mutants that must fail."""

import mpmath as mp
import numpy as np
import pytest
from scipy import stats

from privsample import DiscreteGaussianNoise, DiscreteLaplaceNoise, GaussianNoise, LaplaceNoise
from privsample.distributions.noise import LARGEST_DISCRETE, NAMES, noise_distribution

SPREADS = [1e-6, 0.05, 0.3, 0.99, 1.0, 1.7, 40.0]


def exponent(name, k, spread):
    k, spread = mp.mpf(k), mp.mpf(spread)
    return -abs(k) / spread if "laplace" in name else -(k**2) / (2 * spread**2)


def sums(name, spread):
    """Normaliser and variance of a discrete distribution; tails from each whole number on."""
    with mp.workdps(50):
        terms = [mp.exp(exponent(name, k, spread)) for k in range(int(spread * 130) + 20)]
        total = 2 * mp.fsum(terms) - 1
        return total, 2 * mp.fsum(k * k * t for k, t in enumerate(terms)) / total, terms


@pytest.mark.parametrize("spread", SPREADS)
@pytest.mark.parametrize("name", NAMES[2:])
def test_masses_variances_and_tails_of_discrete_distributions(name, spread):
    distribution, (total, variance, terms) = noise_distribution(name, spread), sums(name, spread)
    assert distribution.integer_valued
    assert distribution.scale_parameter == spread
    assert distribution.variance == pytest.approx(float(variance), rel=1e-12, abs=1e-300)
    masses = distribution.log_mass(np.array([0, 1, -1, 7, 0.5, -3.25]))
    truth = [float(exponent(name, k, spread) - mp.log(total)) for k in (0, 1, -1, 7)]
    assert masses[:4] == pytest.approx(truth, rel=1e-13, abs=1e-14)
    assert np.isneginf(masses[4:]).all()
    for t in (0.0, 0.5, 1.0, 3.0, 7.9, 3 * spread, 10 * spread):
        tail = mp.log(2 * mp.fsum(terms[int(t) + 1 :]) / total)
        assert distribution.log_tail(t) >= tail
        assert (
            distribution.log_tail(t) <= tail * (1 - 0.1) + 0.3
            if name == "discrete gaussian"
            else tail + 1e-12 * (1 - tail)
        )
    assert distribution.log_tail(np.array([-1.0, -0.5])).tolist() == [0.0, 0.0]


@pytest.mark.parametrize("spread", [1e-6, 0.7, 1e12])
@pytest.mark.parametrize("name", NAMES[:2])
def test_masses_variances_and_tails_of_continuous_distributions(name, spread):
    distribution = noise_distribution(name, spread)
    peer = stats.laplace(scale=spread) if name == "laplace" else stats.norm(scale=spread)
    x = spread * np.array([-9.0, -0.2, 0.0, 3.0])
    assert not distribution.integer_valued
    assert distribution.variance == pytest.approx(peer.var())
    assert distribution.log_mass(x) == pytest.approx(peer.logpdf(x), rel=1e-12)
    assert distribution.log_tail(np.abs(x)) == pytest.approx(np.log(2) + peer.logsf(np.abs(x)), rel=1e-12, abs=1e-12)


@pytest.mark.parametrize("spread", [1e-6, 0.4, 3.0, 1e9])
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("log_probability", [-0.1, -5.0, -700.0])
def test_the_noise_stays_within_its_quantile_bound(name, spread, log_probability):
    distribution = noise_distribution(name, spread)
    assert distribution.log_tail(distribution.quantile_bound(log_probability)) <= log_probability * (1 - 1e-12) + 1e-12


@pytest.mark.parametrize("spread", [1e-6, 1e12])
@pytest.mark.parametrize("name", NAMES)
def test_extreme_scales_can_be_drawn(name, spread, rng):
    distribution = noise_distribution(name, spread)
    draws = distribution.sample((3, 1000), rng)
    assert draws.shape == (3, 1000)
    assert np.isfinite(draws).all()
    assert not distribution.integer_valued or (draws == np.rint(draws)).all()
    assert draws.std() <= 2 * spread
    assert np.any(draws) or distribution.integer_valued
    assert distribution.sample((), rng).shape == ()


@pytest.mark.statistical
@pytest.mark.parametrize(("factor", "accepted"), [(1.0, True), (0.98, False), (1.02, False)])
@pytest.mark.parametrize("spread", [0.4, 1.0, 6.5])
@pytest.mark.parametrize("name", NAMES[2:])
def test_discrete_draws_follow_their_distribution(name, spread, factor, accepted, rng, alpha):
    draws = noise_distribution(name, spread * factor).sample((1_000_000,), rng)
    distribution = noise_distribution(name, spread)
    values = np.arange(-100, 101)
    expected = np.exp(distribution.log_mass(values.astype(float))) * len(draws)
    middle = values[expected >= 10]  # what is rarer counts as one lump on each side
    counts = np.array([np.sum(draws < middle[0]), *(np.sum(draws == k) for k in middle), np.sum(draws > middle[-1])])
    side = (len(draws) - expected[expected >= 10].sum()) / 2
    shares = np.array([side, *expected[expected >= 10], side])
    if side < 5:  # too few for the chi-square distribution: they join their neighbours
        counts = np.array([counts[:2].sum(), *counts[2:-2], counts[-2:].sum()])
        shares = np.array([shares[:2].sum(), *shares[2:-2], shares[-2:].sum()])
    assert (stats.chisquare(counts, shares * counts.sum() / shares.sum()).pvalue > alpha) == accepted


@pytest.mark.statistical
@pytest.mark.parametrize(("factor", "accepted"), [(1.0, True), (0.9, False)])
@pytest.mark.parametrize("name", NAMES[:2])
def test_continuous_draws_follow_their_distribution(name, factor, accepted, rng, alpha):
    peer = stats.laplace(scale=3.0) if name == "laplace" else stats.norm(scale=3.0)
    draws = noise_distribution(name, 3.0 * factor).sample((200_000,), rng)
    assert (stats.kstest(draws, peer.cdf).pvalue > alpha) == accepted


@pytest.mark.parametrize("bad", [0.0, -1.0, np.nan, np.inf, True, "1"])
@pytest.mark.parametrize("name", NAMES)
def test_bad_scales_are_refused(name, bad):
    with pytest.raises((ValueError, TypeError), match=r"scale|noise_std"):
        noise_distribution(name, bad)


def test_what_is_too_wide_or_unknown_is_refused():
    for kind, named in ((DiscreteLaplaceNoise, "scale"), (DiscreteGaussianNoise, "noise_std")):
        with pytest.raises(ValueError, match="at most 1e\\+14"):
            kind(**{named: 1e15})
    with pytest.raises(ValueError, match="'discrete gaussian'"):
        noise_distribution("cauchy", 1.0)
    assert noise_distribution("laplace", 2) == LaplaceNoise(scale=2.0)
    assert noise_distribution("gaussian", 2) == GaussianNoise(noise_std=2.0)


def test_the_widest_discrete_gaussian_can_be_drawn(rng):
    drawn = noise_distribution("discrete gaussian", LARGEST_DISCRETE).sample((1000,), rng)
    assert 0.8 < drawn.std() / LARGEST_DISCRETE < 1.2
    assert noise_distribution("gaussian", 1e200).variance == noise_distribution("laplace", 1e200).variance == np.inf


def test_a_tail_of_tiny_laplace_noise_is_finite():
    log_tail = LaplaceNoise(scale=1e-310).log_tail(np.array([0.0, 1.0]))
    assert log_tail[0] == 0.0
    assert np.isfinite(log_tail[1])
    assert log_tail[1] < -1e300

"""Noise-aware posteriors against enumeration and quadrature, and samplers of mixtures, with mutants that must fail."""

import itertools

import mpmath as mp
import numpy as np
import pytest
from scipy import integrate, stats

from privsample import (
    BetaBernoulli,
    DirichletCategorical,
    DiscreteGaussianNoise,
    DiscreteLaplaceNoise,
    GammaExponential,
    GammaPoisson,
    GaussianNoise,
    LaplaceNoise,
    NormalKnownVariance,
    NormalUnknownVariance,
)
from privsample.distributions.models import noise_aware as module
from privsample.distributions.models.mixtures import FAMILIES, ConjugateMixture, TwoCategoryDistribution
from privsample.distributions.parametric.conjugate import Normal

NOISES = [
    LaplaceNoise(scale=3.0),
    GaussianNoise(noise_std=3.0),
    DiscreteLaplaceNoise(scale=3.0),
    DiscreteGaussianNoise(noise_std=3.0),
]
each_noise = pytest.mark.parametrize("noise", NOISES, ids=lambda noise: noise.name)
GRID = np.array([0.05, 0.3, 0.7, 0.95])


def enumerated(log_prior, noise, seen, values):
    """Weights of the hidden count by Bayes' rule over all its values."""
    log_weights = log_prior + sum(noise.log_mass(y - values) for y in seen)
    weights = np.exp(log_weights - log_weights.max())
    return weights / weights.sum()


@each_noise
@pytest.mark.parametrize("seen", [[7.0], [-20.0], [45.0], [3.0, 8.0]], ids=str)
def test_a_count_of_successes_by_enumeration(noise, seen):
    distribution, method = BetaBernoulli(alpha=0.5, beta=2.0).noise_aware(20, noise, np.array(seen))
    s = np.arange(21.0)
    weights = enumerated(stats.betabinom(20, 0.5, 2.0).logpmf(s), noise, seen, s)
    peer = stats.beta(0.5 + s, 22.0 - s)
    assert np.exp(distribution.log_density(GRID)) == pytest.approx([weights @ peer.pdf(x) for x in GRID], rel=1e-10)
    assert distribution.below(GRID) == pytest.approx([weights @ peer.cdf(x) for x in GRID], rel=1e-10)
    assert distribution.mean == pytest.approx(weights @ peer.mean(), rel=1e-10)
    assert distribution.variance == pytest.approx(
        weights @ (peer.var() + peer.mean() ** 2) - distribution.mean**2, rel=1e-9
    )
    assert distribution.below(distribution.quantile(GRID)) == pytest.approx(GRID, rel=1e-9)
    assert distribution.quantile(np.array([[0.0, 1.0]])).tolist() == [[0.0, 1.0]]
    assert "exact" in method


@pytest.mark.parametrize("scale", [0.5, 20.0])
@pytest.mark.parametrize("seen", [400.0, 1003.0, -30.0])
def test_a_window_loses_no_more_than_it_says(scale, seen):
    noise = DiscreteLaplaceNoise(scale=scale)
    distribution, method = BetaBernoulli(alpha=2.0, beta=1.0).noise_aware(1000, noise, np.array([seen]))
    s = np.arange(1001.0)
    weights = enumerated(stats.betabinom(1000, 2.0, 1.0).logpmf(s), noise, [seen], s)
    kept = np.isin(s + 2.0, distribution.first)
    assert weights[~kept].sum() <= module.LOST
    assert distribution.weights == pytest.approx(weights[kept], rel=1e-9)
    assert "left out" in method


def test_large_counts_have_the_right_weights():
    """Against fifty digits, where differences of log Gamma would lose all."""
    noise, n, seen = DiscreteLaplaceNoise(scale=2.0), 10**12, 3e11
    distribution, _ = BetaBernoulli(alpha=2.5, beta=0.5).noise_aware(n, noise, np.array([seen]))
    with mp.workdps(50):
        s = [mp.mpf(a) - mp.mpf("2.5") for a in distribution.first]
        logs = [
            mp.log(mp.binomial(n, k)) + mp.log(mp.beta(k + mp.mpf("2.5"), n - k + mp.mpf("0.5"))) - abs(k - seen) / 2
            for k in s[::20]
        ]
    found = distribution.log_weights[::20]
    assert found - found[0] == pytest.approx([float(x - logs[0]) for x in logs], abs=1e-9)
    assert distribution.mean == pytest.approx(0.3, rel=1e-9)


def test_windows_have_an_end(monkeypatch):
    monkeypatch.setattr(module, "LARGEST", 1000)
    with pytest.raises(ValueError, match="counts possible: use"):
        BetaBernoulli(alpha=1, beta=1).noise_aware(10**6, NOISES[2], np.array([5e5]) * np.array([1, 1.5]))


@each_noise
def test_two_categories_are_two_looks_at_one_count(noise):
    seen = np.array([[4.0, 9.0]])
    distribution, _ = DirichletCategorical(alpha=(0.5, 2.0)).noise_aware(12, noise, seen)
    s = np.arange(13.0)
    prior = stats.betabinom(12, 0.5, 2.0).logpmf(s) + noise.log_mass(4.0 - s)
    weights = enumerated(prior, noise, [9.0], 12 - s)
    mean = weights @ ((0.5 + s) / 14.5)
    assert isinstance(distribution, TwoCategoryDistribution)
    assert distribution.mean == pytest.approx([mean, 1 - mean], rel=1e-10)
    assert distribution.variance[0] == distribution.variance[1] > 0
    draws = distribution.sample(10, np.random.default_rng(0))
    assert draws.sum(axis=1) == pytest.approx(np.ones(10))
    assert distribution.log_density(draws) == pytest.approx(distribution.share.log_density(draws[:, 0]))
    assert distribution.share.below(distribution.quantile(GRID)) == pytest.approx(GRID, rel=1e-9)
    with pytest.raises(TypeError, match="closed form"):
        distribution.relative_entropy(distribution)


@each_noise
def test_a_sum_of_counts_by_enumeration(noise):
    """Bounds that no record reaches: the mixture over the hidden sum."""
    distribution, method = GammaPoisson(shape=3, rate=1, upper=10**4).noise_aware(5, noise, np.array([7.0]))
    t = np.arange(600.0)
    weights = enumerated(stats.nbinom(3, 1 / 6).logpmf(t), noise, [7.0], t)
    assert distribution.mean == pytest.approx(weights @ ((3 + t) / 6), rel=1e-8)
    assert distribution.below(1.5) == pytest.approx(weights @ stats.gamma.cdf(1.5, 3 + t, scale=1 / 6), rel=1e-8)
    assert "sum of clipped records" in method


@pytest.mark.parametrize("noise", NOISES[:2], ids=lambda noise: noise.name)
@pytest.mark.parametrize(
    ("shape", "rate", "n", "seen"), [(2, 1, 10, 5.0), (2, 1, 10, -15.0), (2000, 1000, 1000, 500.0), (2, 1, 1, 3.0)]
)
def test_a_sum_of_times_by_quadrature(noise, shape, rate, n, seen):
    distribution, method = GammaExponential(shape=shape, rate=rate, upper=1e9).noise_aware(n, noise, np.array([seen]))

    def log_integrand(s):
        return (n - 1) * np.log(s) - (n + shape) * np.log(rate + s) + noise.log_mass(seen - s)

    top = max(float(log_integrand(s)) for s in np.linspace(0.01, 600, 5000))
    edges = np.unique(np.clip(seen + np.array([-400, -60, -30, -10, -3, 0, 3, 10, 30, 60, 400]), 0, None))
    edges = np.union1d(edges, [0.0, 1.0, 3.0, 10.0, 30.0, 60.0, 400.0])

    def integral(f):
        pieces = itertools.pairwise(edges)
        return sum(
            integrate.quad(lambda s: f(s) * np.exp(log_integrand(s) - top), a, b, epsabs=0, epsrel=1e-11)[0]
            for a, b in pieces
        )

    mean = integral(lambda s: (n + shape) / (rate + s)) / integral(lambda s: 1.0)
    assert distribution.mean == pytest.approx(mean, rel=1e-7)
    assert "sum of clipped records" in method


def test_a_normal_mean_by_quadrature():
    """Bounds that no record reaches."""
    model = NormalKnownVariance(mean=0.3, variance=2.0, noise_variance=4.0, bounds=(-3e3, 3e3))
    seen = np.array([11.0, 4.0])
    exact, method = model.noise_aware(5, GaussianNoise(noise_std=7.0), seen)
    assert "sum of clipped records" in method
    theta = np.linspace(-12, 12, 20_001)
    prior = stats.norm.pdf(theta, 0.3, 2**0.5)
    joint = prior * stats.multivariate_normal(cov=20 * np.ones((2, 2)) + 49 * np.eye(2)).pdf(seen - 5 * theta[:, None])
    mean = (theta * joint).sum() / joint.sum()
    assert exact.mean == pytest.approx(mean, rel=1e-8)
    assert exact.variance == pytest.approx(((theta - mean) ** 2 * joint).sum() / joint.sum(), rel=1e-7)
    distribution, _ = model.noise_aware(5, LaplaceNoise(scale=7.0), seen[:1])
    s = np.linspace(-200, 200, 4001)
    likelihood = np.array(
        [np.trapezoid(stats.norm.pdf(s, 5 * t, 20**0.5) * np.exp(-np.abs(11 - s) / 7), s) for t in theta[::20]]
    )
    joint = prior[::20] * likelihood
    mean = (theta[::20] * joint).sum() / joint.sum()
    assert distribution.mean == pytest.approx(mean, rel=1e-4)
    assert distribution.below(distribution.quantile(GRID)) == pytest.approx(GRID, rel=1e-9)


@pytest.mark.statistical
@pytest.mark.parametrize(("factor", "accepted"), [(1.0, True), (0.95, False), (1.05, False)])
@pytest.mark.parametrize("family", FAMILIES)
def test_draws_from_mixtures(family, factor, accepted, rng, alpha):
    first, second = np.array([2.0, 5.0, 9.0]), np.array([3.0, 1.0, 4.0])
    distribution, mutant = (
        ConjugateMixture(family=family, first=first * k, second=second, log_weights=np.log([1.0, 2.0, 3.0]))
        for k in (1.0, factor)
    )
    assert (stats.kstest(mutant.sample(50_000, rng), distribution.below).pvalue > alpha) == accepted


@pytest.mark.parametrize("family", FAMILIES)
def test_mixtures_agree_with_themselves(family):
    distribution = ConjugateMixture(
        family=family, first=np.array([2.0, 5.0, 7.0]), second=np.array(3.0), log_weights=np.array([0.0, 1.0, -70.0])
    )
    assert len(distribution.weights) == 2
    x = distribution.quantile(np.linspace(1e-9, 1 - 1e-9, 20_001))
    density = np.exp(distribution.log_density(x))
    assert np.trapezoid(density, x) == pytest.approx(1, abs=1e-3)
    assert np.trapezoid(density * x, x) == pytest.approx(float(distribution.mean), rel=2e-3)
    assert np.trapezoid(density * (x - distribution.mean) ** 2, x) == pytest.approx(
        float(distribution.variance), rel=1e-2
    )
    with pytest.raises(TypeError, match="closed form"):
        distribution.relative_entropy(Normal(location=0, scale=1))
    again = ConjugateMixture(
        family=family, first=distribution.first, second=distribution.second, log_weights=distribution.log_weights
    )
    assert again.weights == pytest.approx(distribution.weights)
    assert again.weights.sum() == pytest.approx(1)


def test_unknown_models_are_pointed_to_chains():
    with pytest.raises(TypeError, match=r"\.mcmc\(\)"):
        NormalUnknownVariance.example().noise_aware(3, NOISES[0], np.ones((1, 2)))

"""Samplers against their distributions, with mutants that must fail; moments, densities, entropies against independent
values.
"""

import mpmath as mp
import numpy as np
import pytest
from scipy import stats

from privsample.distributions.parametric.conjugate import Beta, Dirichlet, Gamma, Normal

DRAWS = 100_000
DISTRIBUTIONS = {
    "beta": (Beta(a=2.5, b=7.0), lambda k: Beta(a=2.5 * k, b=7.0), stats.beta(2.5, 7.0)),
    "tiny beta": (Beta(a=0.02, b=0.03), lambda k: Beta(a=0.02 * k, b=0.03), stats.beta(0.02, 0.03)),
    "large beta": (Beta(a=1e6, b=2e6), lambda k: Beta(a=1e6, b=2e6 * k), stats.beta(1e6, 2e6)),
    "gamma": (Gamma(shape=3.0, rate=2.0), lambda k: Gamma(shape=3.0, rate=2.0 * k), stats.gamma(3.0, scale=0.5)),
    "tiny gamma": (
        Gamma(shape=0.05, rate=2.0),
        lambda k: Gamma(shape=0.05 * k, rate=2.0),
        stats.gamma(0.05, scale=0.5),
    ),
    "large gamma": (
        Gamma(shape=1e8, rate=1e4),
        lambda k: Gamma(shape=1e8, rate=1e4 * k),
        stats.gamma(1e8, scale=1e-4),
    ),
    "normal": (
        Normal(location=-1.0, scale=0.3),
        lambda k: Normal(location=-1.0, scale=0.3 * k),
        stats.norm(-1.0, 0.3),
    ),
}
FACTORS = pytest.mark.parametrize(("factor", "accepted"), [(1.0, True), (0.9, False), (1.1, False)])


NEAR_ONE = 1 - 1e-6


def fits(draws, cdf, alpha, rng):
    """Kolmogorov and Smirnov's test; what lies within 1e-6 below 1, where floats are coarse, counts as one lump."""
    ranks = cdf(draws)
    lump = (draws > NEAR_ONE) & (draws <= 1)
    ranks[lump] = rng.uniform(cdf(NEAR_ONE), cdf(1.0), lump.sum())
    return stats.kstest(ranks, "uniform").pvalue > alpha


@pytest.mark.statistical
@FACTORS
@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_sampler(name, factor, accepted, rng, alpha):
    _, mutant, distribution = DISTRIBUTIONS[name]
    draws = mutant(factor).sample(DRAWS, rng)
    assert draws.shape == (DRAWS,)
    assert fits(draws, distribution.cdf, alpha, rng) == accepted


@pytest.mark.statistical
@FACTORS
@pytest.mark.parametrize("alphas", [(2.0, 3.0, 5.0), (0.05, 0.05, 1.0)])
def test_dirichlet_sampler(alphas, factor, accepted, rng, alpha):
    """Each coordinate is a Beta; the mutant has one coordinate wrong, which shows in that coordinate."""
    wrong = (alphas[0] * factor, *alphas[1:])
    draws = Dirichlet(alpha=wrong).sample(DRAWS, rng)
    assert draws.shape == (DRAWS, 3)
    assert np.allclose(draws.sum(axis=1), 1)
    fit = [fits(draws[:, i], stats.beta(a, sum(alphas) - a).cdf, alpha / 3, rng) for i, a in enumerate(alphas)]
    assert fit[0] == accepted
    assert all(fit) == accepted


@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_moments_densities_and_quantiles(name):
    ours, _, distribution = DISTRIBUTIONS[name]
    assert ours.mean == pytest.approx(distribution.mean(), rel=1e-12)
    assert ours.variance == pytest.approx(distribution.var(), rel=1e-12)
    q = np.array([0.1, 0.5, 0.9])
    x = ours.quantile(q)
    inner = x < 1  # where the distribution is steep at 1, a quantile may be 1 to a float
    assert np.allclose(distribution.cdf(x)[inner], q[inner], rtol=1e-7)
    x = x[inner]
    assert np.allclose(ours.log_density(x), distribution.logpdf(x), rtol=1e-7, atol=1e-6)


def test_dirichlet_moments_and_density():
    alpha = (0.5, 2.0, 3.5)
    ours, distribution = Dirichlet(alpha=alpha), stats.dirichlet(alpha)
    assert np.allclose(ours.mean, distribution.mean())
    assert np.allclose(ours.variance, distribution.var())
    x = np.array([[0.2, 0.3, 0.5], [0.01, 0.9, 0.09]])
    assert np.allclose(ours.log_density(x), [distribution.logpdf(row) for row in x])
    assert ours.quantile(0.3) == pytest.approx(stats.beta(0.5, 5.5).ppf(0.3))


def density(distribution):
    mp_distribution = {
        Beta: lambda x: (
            mp.beta(distribution.a, distribution.b) ** -1
            * x ** (mp.mpf(distribution.a) - 1)
            * (1 - x) ** (mp.mpf(distribution.b) - 1)
        ),
        Gamma: lambda x: (
            mp.mpf(distribution.rate) ** distribution.shape
            / mp.gamma(distribution.shape)
            * x ** (mp.mpf(distribution.shape) - 1)
            * mp.exp(-mp.mpf(distribution.rate) * x)
        ),
        Normal: lambda x: mp.npdf(x, distribution.location, distribution.scale),
    }
    return mp_distribution[type(distribution)]


@pytest.mark.parametrize(
    ("one", "other", "support"),
    [
        (Beta(a=2, b=3), Beta(a=4, b=1.5), [0, 0.2, 0.8, 1]),
        (Gamma(shape=2, rate=3), Gamma(shape=3.5, rate=1), [0, 0.5, 2, 8, 30]),
        (Normal(location=0, scale=1), Normal(location=0.4, scale=2), [-20, -2, 0, 2, 20]),
    ],
)
def test_relative_entropy(one, other, support):
    with mp.workdps(30):
        p, q = density(one), density(other)
        truth = mp.quad(lambda x: p(x) * mp.log(p(x) / q(x)), support)
    assert one.relative_entropy(other) == pytest.approx(float(truth), rel=1e-8)
    assert one.relative_entropy(one) == 0.0


def test_relative_entropy_of_dirichlets_is_that_of_its_coordinates_added_up():
    """With two coordinates a Dirichlet is a Beta; a coordinate split in proportion adds nothing."""
    two = Dirichlet(alpha=(2.0, 3.0)).relative_entropy(Dirichlet(alpha=(4.0, 1.5)))
    assert two == pytest.approx(Beta(a=2, b=3).relative_entropy(Beta(a=4, b=1.5)))
    p, q = Dirichlet(alpha=(2.0, 1.0, 2.0)), Dirichlet(alpha=(1.0, 1.0, 3.0))
    draws = p.sample(200_000, np.random.default_rng(0))
    assert np.mean(p.log_density(draws) - q.log_density(draws)) == pytest.approx(p.relative_entropy(q), rel=0.05)


@pytest.mark.parametrize("wrong", [0.0, -1.0, np.nan, np.inf])
def test_parameters_are_checked(wrong):
    for build in (
        lambda: Beta(a=wrong, b=1),
        lambda: Gamma(shape=1, rate=wrong),
        lambda: Normal(location=0, scale=wrong),
        lambda: Dirichlet(alpha=(1, wrong)),
    ):
        with pytest.raises(ValueError, match="finite and > 0"):
            build()

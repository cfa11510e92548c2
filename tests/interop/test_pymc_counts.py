"""Noisy counts as PyMC distributions: their log densities against enumeration, and their draws."""

import itertools

import mpmath
import numpy as np
import pymc as pm
import pytest
from pytensor.compile.mode import Mode
from scipy import special, stats

import privsample as ps
from privsample.distributions.noise import noise_distribution
from privsample.pymc import NoisyCount, NoisyMultinomial, NoisyPoisson, likelihood

NOISES = [
    ps.LaplaceNoise(scale=3.0),
    ps.GaussianNoise(noise_std=4.0),
    ps.DiscreteLaplaceNoise(scale=3.0),
    ps.DiscreteGaussianNoise(noise_std=4.0),
]
every_noise = pytest.mark.parametrize("noise", NOISES, ids=lambda noise: noise.name)
MODE = Mode(linker="py", optimizer=None)  # rewriting the graph takes longer than computing it once


def logp(variable, value, mode=MODE):
    return pm.logp(variable, np.asarray(value, dtype=float)).eval(mode=mode)


def noisy(family, scale):
    return noise_distribution(family, scale)


@pytest.mark.generations
@every_noise
def test_counts_are_summed_out(noise):
    """Below, at and above the counts that are likely."""
    observed, counts = np.array([-20.0, 11.0, 40.0]), np.arange(401)
    own = noise.log_mass(observed[:, None] - counts)
    binomial = special.logsumexp(stats.binom.logpmf(counts, 40, 0.17) + own, axis=1)
    found = logp(NoisyCount.dist(40, 0.17, noise=noise, size=3), observed)
    assert found == pytest.approx(binomial, rel=1e-12)
    poisson = special.logsumexp(stats.poisson.logpmf(counts, 7.5) + own, axis=1)
    assert logp(NoisyPoisson.dist(7.5, noise=noise, size=3), observed) == pytest.approx(poisson, rel=1e-12)


@pytest.mark.generations
@every_noise
def test_groups_and_copies(noise):
    """Two groups of their own size, probability and noise, each with two copies of its count."""
    others, counts = [noise, noisy(noise.name, 2.0)], np.arange(61)
    values, sizes, p = np.array([[7.0, 12.0], [30.0, 28.0]]), [30, 60], [0.3, 0.4]
    found = logp(NoisyCount.dist(sizes, p, noise=others, copies=2), values)
    for k in range(2):
        own = sum(others[k].log_mass(value - counts) for value in values[k])
        expected = special.logsumexp(stats.binom.logpmf(counts, sizes[k], p[k]) + own)
        assert found[k] == pytest.approx(expected, rel=1e-11)


@pytest.mark.parametrize(
    ("n", "p", "observed"),
    [(10**9, 0.3, 299_980_000), (10**12, 0.3, 300_001_000_000), (10**12, 1e-11, 14), (10**12, 0.5, 499_990_000_000)],
)
def test_large_sizes_against_fifty_digits(n, p, observed):
    """Differences of log Gamma have errors of 4e-3 at n = 1e12."""
    scale, reach = 3.0, 110
    with mpmath.workdps(50):
        exact_p, q = mpmath.mpf(p), mpmath.exp(-1 / mpmath.mpf(scale))
        first = max(observed - reach, 0)
        mass = mpmath.binomial(n, first) * exact_p**first * (1 - exact_p) ** (n - first)
        total = mpmath.mpf(0)
        for s in range(first, observed + reach + 1):
            total += mass * q ** abs(observed - s)
            mass *= mpmath.mpf(n - s) / (s + 1) * exact_p / (1 - exact_p)
        exact = float(mpmath.log(total * (1 - q) / (1 + q)))
    found = logp(NoisyCount.dist(n, p, noise=ps.DiscreteLaplaceNoise(scale=scale)), observed)
    assert found == pytest.approx(exact, rel=1e-14, abs=1e-12)


@pytest.mark.parametrize("noise", [ps.LaplaceNoise(scale=3.0), ps.GaussianNoise(noise_std=4.0)], ids=["l", "g"])
def test_log_density_is_finite_where_the_density_is_below_the_least_float(noise):
    """Chains start there: at p = 1/2, a million records and a noisy count of 300."""
    n, p, observed = 10**6, 0.5, 300.0
    counts = np.arange(n + 1)  # with Laplace noise the terms increase up to 417,000
    log_masses = stats.binom.logpmf(counts, n, p) + noise.log_mass(observed - counts)
    both = [observed, n - observed]
    twice = log_masses + noise.log_mass(observed - counts)
    assert logp(NoisyCount.dist(n, p, noise=noise), observed) == pytest.approx(special.logsumexp(log_masses), rel=1e-12)
    found = logp(NoisyMultinomial.dist(n, [p, p], noise=noise), both)
    assert found == pytest.approx(special.logsumexp(twice), rel=1e-12)


def by_enumeration(n, p, noises, copies):
    terms = []
    for head in itertools.product(range(n + 1), repeat=len(p) - 1):
        if sum(head) <= n:
            counts = np.array([*head, n - sum(head)])
            own = sum(noises[k].log_mass(np.array(copy[k] - counts[k])) for copy in copies for k in range(len(p)))
            terms.append(stats.multinomial.logpmf(counts, n, p) + own)
    return special.logsumexp(terms)


CATEGORIES = {
    "two": (20, [0.3, 0.7], [8, 15]),
    "three": (12, [0.5, 0.3, 0.2], [7, 1, -3]),
    "rare": (12, [0.9, 0.05, 0.03, 0.02], [5, 4, 3, 8]),
    "rarer": (30, [0.9, 0.1 - 1e-6, 1e-6], [50, 4, 1]),
    "one record": (1, [0.2, 0.3, 0.5], [-6, -2, -3]),  # all counts are possible, however the noise falls
    "four": (6, [0.1, 0.2, 0.3, 0.4], [12, -7, 3, -5]),
}


def categories_and_noises():
    """Each case with Laplace noise, and each noise with one record; the other pairs in the long lane."""
    for name, case in CATEGORIES.items():
        for noise in NOISES:
            short = noise is NOISES[0] or name == "one record"
            yield pytest.param(noise, *case, id=f"{name}-{noise.name}", marks=[] if short else pytest.mark.long)


@pytest.mark.parametrize(("noise", "n", "p", "observed"), list(categories_and_noises()))
def test_categories_against_all_vectors_of_counts(noise, n, p, observed):
    """A rare category, where the central limit fails, among them; each category has its own noise."""
    noises = [noisy(noise.name, 1.1 + 0.5 * k) for k in range(len(p))]
    variable = NoisyMultinomial.dist(n, p, noise=noises)
    assert likelihood(variable).startswith("exact")
    assert logp(variable, observed) == pytest.approx(by_enumeration(n, p, noises, [observed]), rel=1e-12)
    copies = [observed, [value + 1 for value in observed]]
    found = logp(NoisyMultinomial.dist(n, p, noise=noises, copies=2), copies)
    assert found == pytest.approx(by_enumeration(n, p, noises, copies), rel=1e-12)


def test_too_many_counts_have_their_central_limit():
    p, n, observed, std = np.array([0.5, 0.3, 0.19, 0.01]), 20_000, np.array([10_300, 5500, 4700, -3]), 300.0
    covariance = n * (np.diag(p) - np.outer(p, p)) + std**2 * np.eye(4)
    variable = NoisyMultinomial.dist(n, p, noise=ps.GaussianNoise(noise_std=std))
    assert likelihood(variable).startswith("central limit")
    assert logp(variable, observed) == pytest.approx(stats.multivariate_normal(n * p, covariance).logpdf(observed))
    several = np.stack([observed, observed + 20])
    both = np.kron(np.ones((2, 2)), covariance - std**2 * np.eye(4)) + std**2 * np.eye(8)
    expected = stats.multivariate_normal(np.tile(n * p, 2), both).logpdf(several.ravel())
    copies = NoisyMultinomial.dist(n, p, noise=ps.GaussianNoise(noise_std=std), copies=2)
    assert logp(copies, several) == pytest.approx(expected, rel=1e-9)


@pytest.mark.generations
def test_laplace_noise_in_a_central_limit_is_normal_given_latent_variances():
    p, noise = [0.5, 0.3, 0.2], ps.LaplaceNoise(scale=300.0)
    with pytest.raises(ValueError, match="latent variances, which belong to a model"):
        NoisyMultinomial.dist(20_000, p, noise=noise)
    with pm.Model() as model:
        variable = NoisyMultinomial("y", 20_000, p, noise=noise, observed=[10_300, 5500, 4700])
    assert [free.name for free in model.free_RVs] == ["y_noise"]
    assert "given the latent variances" in likelihood(variable)


@pytest.mark.generations
def test_exact_as_asked():
    noise = ps.GaussianNoise(noise_std=2.0)
    assert likelihood(NoisyCount.dist(100, 0.3, noise=noise, exact=False)).startswith("central limit")
    found = logp(NoisyCount.dist(100, 0.3, noise=noise, exact=False), 33.0)
    assert found == pytest.approx(stats.norm(30, np.sqrt(25.0)).logpdf(33.0), rel=1e-12)


def drawn(variable, draws=20_000):
    """Independent draws; the seed is fixed, so that the test fails at the rate of its level or never."""
    return pm.draw(_grown(variable, draws), random_seed=7, mode=MODE)


@pytest.mark.statistical
@pytest.mark.parametrize("family", ["discrete laplace", "discrete gaussian"])
@pytest.mark.parametrize(("claimed", "accepted"), [(2.0, True), (1.5, False)])
@pytest.mark.parametrize("kind", ["binomial", "poisson", "multinomial"])
def test_draws_follow_the_log_density(kind, family, claimed, accepted, alpha):
    """Chi-square of whole numbers; the broken copy claims less noise."""

    def made(scale):
        noise = noisy(family, scale)
        if kind == "binomial":
            return NoisyCount.dist(30, 0.3, noise=noise)
        if kind == "poisson":
            return NoisyPoisson.dist(9.0, noise=noise)
        return NoisyMultinomial.dist(4, [0.5, 0.3, 0.2], noise=noise)

    values = drawn(made(2.0))
    if kind == "multinomial":
        grid = np.array(list(itertools.product(range(-3, 8), repeat=3)), dtype=float)
        codes = ((np.clip(values, -4, 8) + 4) @ [169, 13, 1]).astype(int)
        cells = ((grid + 4) @ [169, 13, 1]).astype(int)
    else:
        grid = np.arange(-10.0, 40.0)
        codes, cells = values.astype(int) + 100, grid.astype(int) + 100
    one = made(claimed)
    masses = np.exp(logp(_grown(one, len(grid)), grid, "FAST_COMPILE"))
    kept = masses * len(values) >= 5
    seen = np.array([(codes == cell).sum() for cell in cells[kept]])
    expected = masses[kept] * len(values)
    seen, expected = np.append(seen, len(values) - seen.sum()), np.append(expected, len(values) - expected.sum())
    if expected[-1] < 5:
        seen, expected = seen[:-1], expected[:-1] * (seen[:-1].sum() / expected[:-1].sum())
    assert (stats.chisquare(seen, expected).pvalue > alpha) == accepted


def _grown(variable, count):
    """The same distribution for `count` values at once."""
    op, (rng, _size, *params) = variable.owner.op, variable.owner.inputs
    return op.rebuild_rv(*params, size=(count,), rng=rng)


@pytest.mark.statistical
@pytest.mark.parametrize("noise", NOISES[:2], ids=lambda noise: noise.name)
@pytest.mark.parametrize(("factor", "accepted"), [(1.0, True), (0.5, False)])
def test_continuous_draws_follow_the_log_density(noise, factor, accepted, alpha):
    values = drawn(NoisyCount.dist(30, 0.3, noise=noise))
    grid = np.linspace(-80, 100, 3601)
    claimed = NoisyCount.dist(30, 0.3, noise=noisy(noise.name, factor * noise.scale_parameter))
    density = np.exp(logp(_grown(claimed, len(grid)), grid))
    assert np.trapezoid(density, grid) == pytest.approx(1.0, abs=1e-3)
    distribution = np.cumsum(density) / density.sum()
    assert (stats.kstest(values, lambda x: np.interp(x, grid, distribution)).pvalue > alpha) == accepted

"""Likelihoods of noisy statistics: against brute force, and NUTS against the exact mixture."""

import sys
from types import SimpleNamespace

import mpmath
import numpy as np
import pytest
from scipy import integrate, special, stats

from privsample import (
    BetaBernoulli,
    DirichletCategorical,
    DiscreteGaussianNoise,
    DiscreteLaplaceNoise,
    GammaExponential,
    GammaPoisson,
    GaussianNoise,
    LaplaceNoise,
    LinearRegression,
    NoisyStatistics,
    NormalKnownVariance,
    NormalUnknownVariance,
    PrivateStatistics,
)
from privsample.interop import pymc, pymc_sampling

NOISES = [
    LaplaceNoise(scale=3.0),
    GaussianNoise(noise_std=4.0),
    DiscreteLaplaceNoise(scale=3.0),
    DiscreteGaussianNoise(noise_std=4.0),
]
NORMAL = NormalUnknownVariance(mean=0.2, observations=1.0, shape=3.0, scale=1.0, bounds=(-3.0, 4.0))
REGRESSION = LinearRegression(feature_bounds=((0.0, 4.0), (-1.0, 1.0)), target_bounds=(-3.0, 3.0), shape=3.0, scale=1.0)


def seen(model, noise, n, observed):
    return SimpleNamespace(model=model, noise=noise, n=n, observed=np.atleast_1d(np.array([observed], dtype=float)))


def value(model, noise, n, observed, **parameters):
    """The log likelihood as a number."""
    return put(seen(model, noise, n, observed), **parameters)


def put(release, **parameters):
    """The same of a release, through the public door."""
    import pymc as library

    with library.Model() as built:
        added = pymc.noisy_observation("y", release, **parameters)
    return log_likelihood(built), likelihood(added)


def once():
    """Without rewriting the graph, which takes longer than computing it once."""
    from pytensor.compile.mode import Mode

    return Mode(linker="py", optimizer=None)


def log_likelihood(built):
    """The log likelihood of a model without free variables."""
    return float(built.compile_logp(mode=once())({}))


def likelihood(variable):
    from privsample.pymc import likelihood as stated

    return stated(variable)


def tensor():
    from pytensor import tensor

    return tensor


@pytest.mark.parametrize("noise", NOISES, ids=lambda noise: noise.name)
@pytest.mark.parametrize("observed", [-30.0, 11.0, 70.0])
def test_counts_are_summed_out(noise, observed):
    counts, p = np.arange(41), 0.17
    log_masses = stats.binom.logpmf(counts, 40, p) + noise.log_mass(observed - counts)
    found, words = value(BetaBernoulli(alpha=1, beta=1), noise, 40, observed, theta=p)
    assert found == pytest.approx(special.logsumexp(log_masses), rel=1e-11)
    assert words.startswith("exact")


@pytest.mark.parametrize("p", [1e-12, 1e-4, 0.5, 1 - 1e-9])
def test_no_term_of_any_size_is_left_out(p):
    """In both tails, too; the reference of SciPy has an error of its own."""
    noise, n = DiscreteLaplaceNoise(scale=5.0), 10_000
    for observed in (0.0, 4990.0, 10_050.0):
        every = np.arange(n + 1)
        whole = special.logsumexp(stats.binom.logpmf(every, n, p) + noise.log_mass(observed - every))
        found, words = value(BetaBernoulli(alpha=1, beta=1), noise, n, observed, theta=p)
        assert found == pytest.approx(whole, rel=1e-11, abs=1e-9)
        assert "relative error of at most 1e-12" in words


@pytest.mark.generations
def test_copies_of_a_count_are_views_of_one():
    noise, counts = LaplaceNoise(scale=3.0), np.arange(31)
    masses = stats.binom.logpmf(counts, 30, 0.3) + sum(noise.log_mass(y - counts) for y in (7.5, 12.25))
    release = SimpleNamespace(model=BetaBernoulli(alpha=1, beta=1), noise=noise, n=30, observed=np.array([7.5, 12.25]))
    found, _ = put(release, theta=0.3)
    assert found == pytest.approx(special.logsumexp(masses), rel=1e-12)


def test_two_categories_are_two_views_of_one_count():
    noise, counts = DiscreteLaplaceNoise(scale=4.0), np.arange(31)
    masses = stats.binom.logpmf(counts, 30, 0.3) + noise.log_mass(8 - counts) + noise.log_mass(25 - (30 - counts))
    found, words = value(DirichletCategorical(alpha=(1, 1)), noise, 30, [8, 25], theta=[0.3, 0.7])
    assert found == pytest.approx(special.logsumexp(masses), rel=1e-12)
    assert words.startswith("exact")


@pytest.mark.generations
def test_poisson_counts_are_summed_out():
    import pymc as library

    noise, counts = DiscreteGaussianNoise(noise_std=3.0), np.arange(200)
    with library.Model() as model:
        added = pymc.noisy_count("y", 9, noise, mean=tensor().as_tensor_variable(7.5))
    assert likelihood(added).startswith("exact")
    masses = stats.poisson.logpmf(counts, 7.5) + noise.log_mass(9 - counts)
    assert log_likelihood(model) == pytest.approx(special.logsumexp(masses), rel=1e-12)


def test_counts_that_floats_cannot_tell_apart_have_their_central_limit():
    found, words = value(BetaBernoulli(alpha=1, beta=1), DiscreteLaplaceNoise(scale=2.0), 10**18, 3e17, theta=0.3)
    assert words.startswith("central limit")
    assert np.isfinite(found)


def test_too_many_counts_have_their_central_limit():
    noise = GaussianNoise(noise_std=1e5)
    found, words = value(BetaBernoulli(alpha=1, beta=1), noise, 10**7, 3e6, theta=0.3)
    assert words.startswith("central limit")
    assert found == pytest.approx(stats.norm.logpdf(0, 0, np.sqrt(1e10 + 2.1e6)), rel=1e-12)


@pytest.mark.parametrize("off", [0.0, 0.5, -40.0, 1e3, 1e6])
@pytest.mark.parametrize(("deviation", "scale"), [(1.0, 1.0), (1e-4, 1.0), (1e4, 1.0), (3.0, 0.01)])
def test_normal_plus_laplace(off, deviation, scale):
    with mpmath.workdps(60):
        z, s, b = mpmath.mpf(off), mpmath.mpf(deviation), mpmath.mpf(scale)
        sides = [mpmath.exp(sign * z / b) * mpmath.ncdf(-sign * z / s - s / b) for sign in (1, -1)]
        exact = mpmath.log(sum(sides)) + s**2 / (2 * b**2) - mpmath.log(2 * b)
    variance = tensor().as_tensor_variable(np.float64(deviation) ** 2)
    from privsample.interop.pymc_distributions.noise import normal_plus_noise

    found = normal_plus_noise("laplace", np.float64(off), variance, tensor().as_tensor_variable(np.float64(scale)))
    assert float(found.eval(mode=once())) == pytest.approx(float(exact), rel=1e-9)


@pytest.mark.parametrize("noise", [NOISES[1], NOISES[3]], ids=lambda noise: noise.name)
def test_categories_have_their_central_limit(noise):
    noise = type(noise)(noise_std=300.0)  # too many counts are possible
    p, n, observed = np.array([0.5, 0.3, 0.19, 0.01]), 20_000, np.array([10_300, 5500, 4700, -3])
    covariance = n * (np.diag(p) - np.outer(p, p)) + noise.variance * np.eye(4)
    found, words = value(DirichletCategorical(alpha=(1, 1, 1, 1)), noise, n, observed, theta=p)
    assert found == pytest.approx(stats.multivariate_normal(n * p, covariance).logpdf(observed), rel=1e-10)
    assert words.startswith("central limit")


@pytest.mark.parametrize(
    ("model", "parameters", "records"),
    [
        (GammaPoisson(shape=1, rate=1, upper=4), {"rate": 2.5}, stats.poisson(2.5)),
        (GammaExponential(shape=1, rate=1, upper=2.0), {"rate": 1.3}, stats.expon(scale=1 / 1.3)),
        (GammaExponential(shape=1, rate=1, upper=2.0), {"rate": 4e-4}, stats.expon(scale=1 / 4e-4)),
        (
            NormalKnownVariance(mean=0, variance=1, noise_variance=2.25, bounds=(-1, 3)),
            {"mean": 0.4},
            stats.norm(0.4, 1.5),
        ),
    ],
)
def test_sums_are_those_of_clipped_records(model, parameters, records):
    low, high = model.domain.low, model.domain.high
    if model.domain.integer_valued:
        k = np.arange(int(high))
        first, second = (float((k**j * records.pmf(k)).sum() + high**j * records.sf(high - 1)) for j in (1, 2))
    else:
        first, second = (
            integrate.quad(lambda x, j=j: x**j * records.pdf(x), low, high, epsabs=1e-14, epsrel=1e-13)[0]
            + high**j * records.sf(high)
            + (low**j * records.cdf(low) if low else 0.0)
            for j in (1, 2)
        )
    n, noise = 50, GaussianNoise(noise_std=3.0)
    observed = n * first + 2.0  # near the mean, where the central limit is good
    found, words = value(model, noise, n, observed, **parameters)
    expected = stats.norm(n * first, np.sqrt(n * (second - first**2) + 9)).logpdf(observed)
    assert found == pytest.approx(expected, abs=0.02)
    assert words.startswith("exact")


@pytest.mark.parametrize(
    ("model", "parameters", "theta"),
    [
        (NORMAL, {"mean": 0.8, "variance": 4.0}, np.array([0.8, 4.0])),
        (
            REGRESSION,
            {
                "coefficients": [0.6, -0.8],
                "intercept": -0.9,
                "variance": 0.3,
                "feature_mean": [1.7, 0.2],
                "feature_root": [[0.9, 0.0], [0.2, 0.4]],
            },
            None,
        ),
    ],
    ids=["normal", "regression"],
)
def test_second_moments_have_the_moments_of_clipped_records(model, parameters, theta, rng):
    """By simulation of two million records, some of them clipped."""
    count, n, noise = 2_000_000, 40, GaussianNoise(noise_std=2.0)
    if theta is not None:
        rows = rng.normal(theta[0], theta[1] ** 0.5, (count, 1))
    else:
        features = np.array([1.7, 0.2]) + rng.standard_normal((count, 2)) @ np.array([[0.9, 0.0], [0.2, 0.4]]).T
        target = features @ [0.6, -0.8] - 0.9 + 0.3**0.5 * rng.standard_normal(count)
        rows = np.column_stack([features, target])
    scaled = np.column_stack([np.ones(count), model.moments.scaled(rows)])
    first, second = model.moments.pairs
    terms = scaled[:, first] * scaled[:, second] * model.moments.weights
    distribution = stats.multivariate_normal(n * terms.mean(0), n * np.cov(terms.T) + 4.0 * np.eye(len(first)))
    observed = n * terms.mean(0) + np.linspace(-2, 2, len(first))
    found, _ = value(model, noise, n, observed, **parameters)
    assert found == pytest.approx(distribution.logpdf(observed), abs=0.02)


@pytest.mark.generations
def test_what_is_refused(monkeypatch):
    import pymc as library

    model, noise = BetaBernoulli(alpha=1, beta=1), LaplaceNoise(scale=1.0)
    with library.Model():
        with pytest.raises(TypeError, match="needs the parameters theta of BetaBernoulli, got p"):
            pymc.noisy_observation("y", seen(model, noise, 3, 1.0), p=0.5)
        with pytest.raises(TypeError, match=r"one of the models BetaBernoulli, .* got str"):
            pymc.noisy_observation("y", seen("model", noise, 3, 1.0), p=0.5)
        with pytest.raises(ValueError, match=r"theta must be one number, got shape \(2,\)"):
            pymc.noisy_observation("y", seen(model, noise, 3, 1.0), theta=[0.5, 0.5])
        with pytest.raises(ValueError, match=r"theta must be of shape \(2,\), got shape \(3,\)"):
            pymc.noisy_observation("y", seen(DirichletCategorical(alpha=(1, 1)), noise, 3, [1, 2]), theta=[0.5] * 3)
        with pytest.raises(ValueError, match=r"observed must be of shape \(copies, \*\(2,\)\), got \(1,\)"):
            pymc.noisy_observation("y", seen(NORMAL, noise, 3, 1.0), mean=0.0, variance=1.0)
        with pytest.raises(TypeError, match=r"must be a PrivateStatistics.*got str"):
            pymc.noisy_observation("y", "release", theta=0.5)
        fractional = BetaBernoulli(alpha=1, beta=1, fractional=True)
        with pytest.raises(TypeError, match="fractional records have no likelihood"):
            pymc.noisy_observation("y", seen(fractional, noise, 3, 1.5), theta=0.5)
        several = SimpleNamespace(model=NORMAL, noise=noise, n=3, observed=np.ones((2, 2)))
        with pytest.raises(ValueError, match="one copy"):
            pymc.noisy_observation("y", several, mean=0.0, variance=1.0)
        for wrong in ({}, {"n": 3}, {"n": 3, "p": 0.5, "mean": 1.0}):
            with pytest.raises(ValueError, match="needs n and p"):
                pymc.noisy_count("y", 1.0, noise, **wrong)
    monkeypatch.setitem(sys.modules, "pymc", None)
    with pytest.raises(ImportError, match=r"privsample\[bayes\]"):
        pymc.noise_aware(seen(model, noise, 3, 1.0))


@pytest.mark.statistical
@pytest.mark.parametrize(("noise_scale", "accepted"), [(15.0, True), (3.0, False)])
def test_chains_follow_the_exact_mixture(run, noise_scale, accepted, alpha):
    """Every fifth state, as good as independent; the mutant is the mixture of other noise."""
    drawn, _ = run
    counts, noise = np.arange(101), DiscreteLaplaceNoise(scale=noise_scale)
    log_weights = stats.betabinom.logpmf(counts, 100, 2, 3) + noise.log_mass(37 - counts)
    weights = special.softmax(log_weights)

    def distribution(x):
        return stats.beta.cdf(x[:, None], 2 + counts, 103 - counts) @ weights

    assert (stats.kstest(drawn["theta"][::5], distribution).pvalue > alpha) == accepted


@pytest.fixture(scope="module")
def run():
    """One run for all tests, as on a machine without a C compiler."""
    import pytensor

    release = seen(BetaBernoulli(alpha=2, beta=3), DiscreteLaplaceNoise(scale=15.0), 100, 37.0)
    with pytensor.config.change_flags(cxx=""):
        return pymc.noise_aware(release, draws=1000, rng=np.random.default_rng(5))


def test_a_second_fit_of_the_same_structure_compiles_nothing(run, monkeypatch):
    """Other data, prior, size and noise of the same tails: the compiled graph is asked for other numbers."""
    if pymc_sampling.sampler() == "pymc":
        pytest.skip("PyMC's own sampler has its compiled graphs on disk")
    import nutpie

    monkeypatch.setattr(nutpie, "compile_pymc_model", None)
    other = seen(BetaBernoulli(alpha=30, beta=10), DiscreteLaplaceNoise(scale=2.0), 4000, 1200.0)
    drawn, _ = pymc.noise_aware(other, draws=250, tune=250, chains=2, rng=np.random.default_rng(6))
    exact = stats.beta(30 + 1200, 10 + 2800)  # the noise adds less than one part in 100 to the variance
    assert abs(drawn["theta"].mean() - exact.mean()) < exact.std()
    assert 0.7 < drawn["theta"].std() / exact.std() < 1.4


def test_the_method_says_how(run):
    drawn, method = run
    assert drawn["theta"].shape == (4000,)
    assert method.startswith("exact: the hidden count is summed out, with a relative error of at most 1e-12; NUTS of ")
    assert "divergences 0" in method


@pytest.mark.generations
def test_draws_by_mcmc_carry_the_statistics_of_the_sampler():
    """Of a central limit, which Numba compiles soonest; the noise dwarfs the spread of the count and the prior."""
    n, noise_std = 10_000_000, 1e5
    mechanism = NoisyStatistics(model=BetaBernoulli(alpha=1, beta=1), n=n, noise="gaussian", scale=noise_std)
    statistics = PrivateStatistics(release=mechanism.release(np.arange(n) % 2, rng=np.random.default_rng(2)))
    drawn = statistics.mcmc(300, tune=300, chains=2, rng=np.random.default_rng(4))
    tree = drawn.to_arviz()
    assert drawn.method.startswith("central limit")
    assert tree.posterior["theta"].shape == (2, 300)
    assert tree.sample_stats["diverging"].shape == (2, 300)
    assert np.array_equal(tree.observed_data["noisy_statistic"].values, statistics.observed)
    assert drawn["theta"].mean() == pytest.approx(float(statistics.statistic) / n, abs=0.5 * noise_std / n)
    assert drawn["theta"].std() == pytest.approx(noise_std / n, rel=0.3)

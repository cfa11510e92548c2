"""Likelihoods of noisy sums of clipped records: MATH's table, fifty digits, enumeration; the tabulated posterior."""

import functools
import itertools
import math

import mpmath as mp
import numpy as np
import pytest
from scipy import integrate, stats

from privsample import (
    DiscreteGaussianNoise,
    DiscreteLaplaceNoise,
    Gamma,
    GammaExponential,
    GammaPoisson,
    GaussianNoise,
    LaplaceNoise,
    NormalKnownVariance,
)
from privsample.distributions.clipping.contour import log_likelihood, saddle_log_likelihood
from privsample.distributions.clipping.kernels import noise_kernel
from privsample.distributions.clipping.moments import (
    NUMPY,
    exponential_moments,
    normal_moments,
    poisson_moments,
)
from privsample.distributions.clipping.posterior import clipped_posterior
from privsample.distributions.clipping.records import ClippedExponential, ClippedNormal, ClippedPoisson
from privsample.distributions.parametric.conjugate import Normal
from privsample.distributions.parametric.tabulated import TabulatedDistribution
from tests.cases import in_one_test


def found(record, n, noise, seen):
    return log_likelihood(
        record, n, noise_kernel(noise, np.array(seen, dtype=float), integer_valued=record.integer_valued)
    )


TIMES = [
    (2.0, 1.0, 3, 1.5, 0.7, 0.32659409662084),
    (4.5, 0.6, 5, 1.0, 0.5, 0.34540460767489),
    (1.0, 3.0, 4, 1.0, 0.4, 0.56535460762694),
]
COUNTS = [
    (7.0, 2.0, 4, 3, 0.5, 0.14451946221836),
    (20.0, 1.0, 30, 2, 0.8, 0.032548965206232),
    (0.0, 3.0, 5, 4, 0.3, 1.5574056469821e-5),
]


@pytest.mark.parametrize(("seen", "rate", "n", "upper", "noise_std", "density"), TIMES)
def test_sums_of_times_as_tabulated(seen, rate, n, upper, noise_std, density):
    record = ClippedExponential(rate=rate, upper=upper)
    assert np.exp(found(record, n, GaussianNoise(noise_std=noise_std), [seen])) == pytest.approx(density, rel=1e-13)


@pytest.mark.parametrize(("seen", "mean", "n", "upper", "q", "mass"), COUNTS)
def test_sums_of_counts_as_tabulated(seen, mean, n, upper, q, mass):
    noise = DiscreteLaplaceNoise(scale=-1 / np.log(q))
    assert np.exp(found(ClippedPoisson(mean=mean, upper=upper), n, noise, [seen])) == pytest.approx(mass, rel=1e-13)


def test_a_sum_of_normal_records_as_tabulated():
    record = ClippedNormal(mean=0.3, deviation=1.0, bounds=(-1.0, 1.5))
    assert np.exp(found(record, 3, GaussianNoise(noise_std=0.6), [1.1])) == pytest.approx(0.2487471834147, rel=1e-12)


def exponential_oracle(rate, upper, n, noise, seen):
    """The mixture over the number of clipped records, with the density of a sum of uniform numbers, in forty digits."""
    with mp.workdps(40):
        rate, upper, copies = mp.mpf(rate), mp.mpf(upper), [mp.mpf(y) for y in seen]

        def likelihood(s):
            if isinstance(noise, GaussianNoise):
                return mp.fprod(mp.npdf(y - s, 0, noise.noise_std) for y in copies)
            return mp.fprod(mp.exp(-abs(y - s) / noise.scale) / (2 * mp.mpf(noise.scale)) for y in copies)

        def uniform_sum(m, u):
            terms = ((-1) ** j * mp.binomial(m, j) * (u - j) ** (m - 1) for j in range(int(mp.floor(u)) + 1))
            return mp.fsum(terms) / mp.factorial(m - 1)

        total = mp.exp(-n * rate * upper) * likelihood(n * upper)
        for m in range(1, n + 1):
            k = n - m
            edges = sorted({(k + j) * upper for j in range(m + 1)} | {y for y in copies if k * upper < y < n * upper})
            part = mp.quad(
                lambda s, k=k, m=m: mp.exp(-rate * s) * uniform_sum(m, s / upper - k) * likelihood(s),
                edges,
                method="gauss-legendre",
            )
            total += mp.binomial(n, k) * rate**m * upper ** (m - 1) * part
        return float(mp.log(total))


@pytest.mark.parametrize(
    ("rate", "n", "noise", "seen"),
    [
        (1.0, 3, LaplaceNoise(scale=0.7), [2.0]),
        (0.05, 5, LaplaceNoise(scale=0.5), [4.7]),  # hardly any record inside
        (0.05, 5, LaplaceNoise(scale=0.5), [11.0]),  # beyond every sum: the contour passes a pole
        (3.0, 5, LaplaceNoise(scale=0.5), [-5.7]),
        (1.0, 5, LaplaceNoise(scale=0.5), [2.0, 3.5, 2.5]),
        (1.0, 1, LaplaceNoise(scale=0.5), [0.3]),
        (1.0, 5, LaplaceNoise(scale=0.01), [3.3]),
        (1.0, 6, LaplaceNoise(scale=5.0), [3.3]),
        (1.0, 5, GaussianNoise(noise_std=0.5), [9.0]),  # e^-41 of the peak
        (9.0, 4, GaussianNoise(noise_std=0.3), [2.9, 3.6]),
        (0.01, 5, GaussianNoise(noise_std=0.3), [2.0]),
    ],
)
def test_sums_of_times_against_forty_digits(rate, n, noise, seen):
    """1e-6 is what the cut-off promises where Laplace noise meets few records inside; elsewhere it is rounding."""
    exact = exponential_oracle(rate, 1.0, n, noise, seen)
    record = ClippedExponential(rate=rate, upper=1.0)
    limit = 1e-6 if isinstance(noise, LaplaceNoise) else 1e-13
    assert found(record, n, noise, seen) == pytest.approx(exact, abs=limit)


@in_one_test(
    itertools.product(
        [0.1, 1.0, 30.0],
        [[40.0], [61.0, 55.0], [-9.0], [130.0]],
        ["gaussian", "laplace", "discrete laplace", "discrete gaussian"],
    )
)
def test_sums_of_counts_by_convolution(noise_std, seen, kind):
    noise = {
        "gaussian": GaussianNoise(noise_std=noise_std),
        "laplace": LaplaceNoise(scale=noise_std),
        "discrete laplace": DiscreteLaplaceNoise(scale=noise_std),
        "discrete gaussian": DiscreteGaussianNoise(noise_std=noise_std),
    }[kind]
    seen = np.array(seen) + (0.0 if noise.integer_valued else 0.3)
    masses = stats.poisson(2.0).pmf(np.arange(4.0))
    masses[3] = stats.poisson(2.0).sf(2)
    total = np.array([1.0])
    for _ in range(35):
        total = np.convolve(total, masses)
    logs = np.log(total) + np.sum([noise.log_mass(y - np.arange(106.0)) for y in seen], axis=0)
    exact = float(np.logaddexp.reduce(logs))
    assert found(ClippedPoisson(mean=2.0, upper=3), 35, noise, seen) == pytest.approx(exact, rel=1e-13, abs=1e-11)


def normal_density(x, deviation=1.0):
    return math.exp(-((x / deviation) ** 2) / 2) / (deviation * math.sqrt(2 * math.pi))


@pytest.mark.parametrize("noise", [LaplaceNoise(scale=0.8), GaussianNoise(noise_std=0.8)], ids=lambda noise: noise.name)
@pytest.mark.parametrize(("mean", "seen"), [(0.3, 1.1), (4.0, 2.7), (-6.0, -2.2), (0.3, 9.0), (0.3, -30.0)])
def test_sums_of_two_normal_records_by_brute_force(noise, mean, seen):
    """Atoms, lines and the square inside, between the kinks of the noise."""
    low, high, distribution = -1.0, 1.5, stats.norm(mean, 1.0)
    atoms = [(low, distribution.cdf(low)), (high, distribution.sf(high))]

    def likelihood(s):
        z = seen - s
        return normal_density(z, 0.8) if isinstance(noise, GaussianNoise) else math.exp(-abs(z) / 0.8) / 1.6

    def inside(function, kink):
        edges = np.unique(np.clip([low, kink, high], low, high)).tolist()
        return sum(
            integrate.quad(lambda x: normal_density(x - mean) * function(x), a, b, epsabs=0, epsrel=1e-11)[0]
            for a, b in itertools.pairwise(edges)
        )

    exact = sum(p * q * likelihood(a + b) for a, p in atoms for b, q in atoms)
    exact += 2 * sum(p * inside(lambda x, a=a: likelihood(a + x), seen - a) for a, p in atoms)
    exact += inside(lambda x: inside(lambda y: likelihood(x + y), seen - x), seen - low)
    record = ClippedNormal(mean=mean, deviation=1.0, bounds=(low, high))
    limit = 1e-6 if isinstance(noise, LaplaceNoise) else 1e-9
    assert found(record, 2, noise, [seen]) == pytest.approx(np.log(exact), abs=limit)


def test_records_at_wide_bounds_are_not_clipped():
    """The sum of exponential times is Gamma, of normal records normal, of counts Poisson: at any number of them."""
    for n, seen in ((30, 20.0), (10**6, 1e6 + 500)):
        noise = GaussianNoise(noise_std=8.0)
        normal = ClippedNormal(mean=1.0, deviation=3.0, bounds=(-1e4, 1e4))
        exact = stats.norm(n, np.sqrt(9.0 * n + 64)).logpdf(seen)
        assert found(normal, n, noise, [seen]) == pytest.approx(exact, abs=1e-8)
        counts = np.arange(max(n - 12 * n**0.5, 0) // 1, n + 12 * n**0.5 + 60)
        logs = stats.poisson(n).logpmf(counts) + noise.log_mass(seen - counts)
        exact = float(np.logaddexp.reduce(logs))
        assert found(ClippedPoisson(mean=1.0, upper=10**6), n, noise, [seen]) == pytest.approx(exact, abs=1e-8)
        s = np.linspace(seen - 100, seen + 100, 20_001)
        exact = np.log(np.trapezoid(stats.gamma(n).pdf(s) * np.exp(noise.log_mass(seen - s)), s))
        assert found(ClippedExponential(rate=1.0, upper=1e6), n, noise, [seen]) == pytest.approx(exact, abs=1e-7)


@pytest.mark.parametrize(
    "record",
    [
        ClippedExponential(rate=0.7, upper=1.5),
        ClippedPoisson(mean=2.5, upper=3),
        ClippedNormal(mean=1.0, deviation=1.0, bounds=(-1.0, 1.0)),
    ],
    ids=lambda record: type(record).__name__,
)
def test_many_records_have_the_central_limit_of_the_shared_moments(record):
    """The limit is off by the skewness, which falls like 1/sqrt(n); the mutant is a mean off by half a deviation."""
    mean, variance = {
        ClippedExponential: lambda: exponential_moments(NUMPY, 0.7, 1.5),
        ClippedPoisson: lambda: poisson_moments(NUMPY, 2.5, 3, np.arange(3.0)),
        ClippedNormal: lambda: normal_moments(NUMPY, 1.0, 1.0, -1.0, 1.0),
    }[type(record)]()
    n, noise = 10**8, GaussianNoise(noise_std=100.0)
    spread = np.sqrt(n * variance + 1e4)
    for off in (-2.0, 0.0, 1.0):
        seen = n * mean + off * spread
        assert found(record, n, noise, [seen]) == pytest.approx(stats.norm(n * mean, spread).logpdf(seen), abs=1e-3)
        assert abs(found(record, n, noise, [seen + spread / 2]) - stats.norm(n * mean, spread).logpdf(seen)) > 1e-2
        near = saddle_log_likelihood(
            record, n, noise_kernel(noise, np.array([seen]), integer_valued=record.integer_valued)
        )
        assert near == pytest.approx(found(record, n, noise, [seen]), abs=1e-3)


MODELS = [
    (GammaExponential(shape=2, rate=2, upper=1.0), lambda t, n: ClippedExponential(rate=t, upper=1.0), 13.0),
    (GammaPoisson(shape=2, rate=1, upper=2), lambda t, n: ClippedPoisson(mean=t, upper=2), 26.0),
    (
        NormalKnownVariance(mean=0, variance=2, noise_variance=1, bounds=(-1, 1)),
        lambda t, n: ClippedNormal(mean=t, deviation=1.0, bounds=(-1.0, 1.0)),
        9.0,
    ),
]


@pytest.mark.parametrize(("model", "record", "seen"), MODELS, ids=lambda each: type(each).__name__)
def test_posteriors_are_prior_times_likelihood(model, record, seen):
    """On a grid of parameters, by the trapezium rule."""
    n, noise = 20, GaussianNoise(noise_std=3.0)
    distribution, method = model.noise_aware(n, noise, np.array([seen]))
    assert isinstance(distribution, TabulatedDistribution)
    assert "clipped" in method
    ends = (-4.0, 6.0) if isinstance(model, NormalKnownVariance) else (1e-4, 9.0)
    grid = np.linspace(*ends, 301)
    joint = np.array([model.prior.log_density(t) + found(record(float(t), n), n, noise, [seen]) for t in grid])
    joint = np.exp(joint - joint.max())
    joint /= np.trapezoid(joint, grid)
    at = grid[joint > 1e-9 * joint.max()]
    assert np.exp(distribution.log_density(at)) == pytest.approx(joint[joint > 1e-9 * joint.max()], rel=1e-4)
    mean = np.trapezoid(grid * joint, grid)
    assert distribution.mean == pytest.approx(mean, rel=1e-4, abs=1e-5)
    assert distribution.variance == pytest.approx(np.trapezoid((grid - mean) ** 2 * joint, grid), rel=1e-4)


def test_a_tabulated_distribution_agrees_with_itself():
    """One record far inside its bounds, with normal noise: the posterior of a normal mean has a closed form."""
    model = NormalKnownVariance(mean=0.5, variance=2.0, noise_variance=3.0, bounds=(-1e3, 1e3))
    distribution, _ = model.noise_aware(4, GaussianNoise(noise_std=2.0), np.array([6.0]))
    precision = 1 / 2 + 16 / (12 + 4)
    exact = stats.norm((0.5 / 2 + 4 * 6 / 16) / precision, precision**-0.5)
    assert distribution.mean == pytest.approx(exact.mean(), rel=1e-9)
    assert distribution.variance == pytest.approx(exact.var(), rel=1e-9)
    x = np.linspace(-3, 4, 15)
    assert distribution.log_density(x) == pytest.approx(exact.logpdf(x), abs=1e-9)
    assert distribution.below(x) == pytest.approx(exact.cdf(x), abs=1e-10)
    q = np.array([[0.0, 1e-6, 0.3], [0.5, 1 - 1e-6, 1.0]])
    assert distribution.quantile(q)[0, 1:] == pytest.approx(exact.ppf(q)[0, 1:], abs=1e-8)
    assert distribution.quantile(q).ravel()[[0, -1]].tolist() == [-np.inf, np.inf]
    assert distribution.log_density(np.array([-1e3, 1e3])).tolist() == [-np.inf, -np.inf]
    assert distribution.below(np.array([-1e3, 1e3])) == pytest.approx([0.0, 1.0], abs=1e-15)
    assert distribution.below(distribution.quantile(q[0, 1:])) == pytest.approx(q[0, 1:], rel=1e-9)
    with pytest.raises(TypeError, match="tabulated distribution to a Normal"):
        distribution.relative_entropy(Normal(location=0, scale=1))
    rates, _ = GammaExponential(shape=2, rate=2, upper=1.0).noise_aware(3, GaussianNoise(noise_std=2.0), np.array([2]))
    assert rates.quantile(np.array([0.0, 1.0])).tolist() == [0.0, np.inf]
    assert rates.below(np.array([-1.0, 0.0])) == pytest.approx([0.0, 0.0], abs=1e-15)
    assert rates.log_density(np.array(-1.0)) == -np.inf


@functools.cache
def posterior_of_counts():
    distribution, _ = GammaPoisson(shape=2, rate=1, upper=2).noise_aware(20, LaplaceNoise(scale=3.0), np.array([26.0]))
    return distribution


@pytest.mark.statistical
@pytest.mark.parametrize(("factor", "accepted"), [(1.0, True), (1.02, False)])
def test_draws_from_a_tabulated_distribution(factor, accepted, rng, alpha):
    distribution = posterior_of_counts()
    drawn = factor * distribution.sample(50_000, rng)
    assert (stats.kstest(drawn, distribution.below).pvalue > alpha) == accepted


def test_extreme_releases_have_a_posterior():
    """Every record at the bound, releases beyond all sums, bounds that no record reaches, one record, large counts."""
    gauss, laplace = GaussianNoise(noise_std=0.05), LaplaceNoise(scale=0.05)
    short = GammaExponential(shape=2, rate=2, upper=0.05)
    for noise, seen in ((gauss, 19.95), (gauss, 25.0), (laplace, 20.2), (laplace, -1.0)):
        distribution, _ = short.noise_aware(400, noise, np.array([seen]))
        assert distribution.below(distribution.quantile(0.3)) == pytest.approx(0.3)
    beyond, _ = short.noise_aware(400, laplace, np.array([25.0]))  # Laplace noise beyond all sums: y says no more
    there, _ = short.noise_aware(400, laplace, np.array([20.2]))
    assert beyond.mean == pytest.approx(float(there.mean), rel=1e-6)
    one, _ = GammaExponential(shape=2, rate=2, upper=3).noise_aware(1, LaplaceNoise(scale=3.0), np.array([2.0]))
    assert 0.9 < one.mean < 1.0
    wide, _ = GammaPoisson(shape=3, rate=1e-4, upper=10**6).noise_aware(
        30, DiscreteLaplaceNoise(scale=8.0), np.array([10**6])
    )
    assert wide.mean == pytest.approx((3 + 10**6) / (30 + 1e-4), rel=1e-6)


def test_what_has_no_likelihood_is_refused():
    model = GammaExponential(shape=2, rate=2, upper=1.0)
    with pytest.raises(TypeError, match="discrete laplace noise on sums that are not integer-valued"):
        model.noise_aware(3, DiscreteLaplaceNoise(scale=1.0), np.array([2.0]))
    with pytest.raises(ValueError, match=r"too small relative to the bounds.* use \.posterior\(\)"):
        found(ClippedExponential(rate=1e-3, upper=1.0), 5, GaussianNoise(noise_std=1e-7), [4.9])
    with pytest.raises(TypeError, match=r"no likelihood is known under another noise: use \.mcmc\(\)"):
        noise_kernel(Other(), np.array([1.0]), integer_valued=True)
    with pytest.raises(ValueError, match="no pole"):
        noise_kernel(GaussianNoise(noise_std=1.0), np.array([1.0]), integer_valued=False).residue(1.0)


class Other:
    """Noise of another package."""

    name, integer_valued = "another", True


def test_priors_of_any_shape_are_covered():
    """A likelihood that says nothing returns the prior."""
    for shape in (0.2, 2.0, 500.0):
        prior = Gamma(shape=shape, rate=3.0)
        distribution = clipped_posterior(
            prior,
            lambda rate: ClippedExponential(rate=rate, upper=1.0),
            2,
            GaussianNoise(noise_std=1e6),
            np.array([1.0]),
            positive=True,
        )
        assert distribution.mean == pytest.approx(float(prior.mean), rel=1e-6)
        assert distribution.variance == pytest.approx(float(prior.variance), rel=1e-6)


FAR_COPIES = [
    (1, [-34.0, 37.0, -30.0, -2.0, 171.0, 135.0], 52.6),
    (2, [-39.0, 6.0], 48.0),
    (5, [72.0, -45.0, 66.0], 85.3),
    (40, [2896.0, -622.0, 7525.0], 2520.7),
    (40, [64304.0], 2e4),
    (40, [10.0, -3e5, 3e5], 1e5),
    (2, [7.0, 7.0, -4.0], 0.05),
]
NOISES = (DiscreteLaplaceNoise, LaplaceNoise)


@in_one_test((*copies, *more) for copies in FAR_COPIES for more in itertools.product(NOISES, [0.15, 2.0]))
def test_copies_far_beyond_what_the_sum_reaches(n, seen, scale, kind, mean):
    """Several copies on both sides of the sum, by direct convolution: a contour past a pole must not cancel there."""
    upper, noise = 3, kind(scale=scale)
    masses = stats.poisson.pmf(np.arange(upper + 1), mean)
    masses[-1] = stats.poisson.sf(upper - 1, mean)
    total = np.ones(1)
    for _ in range(n):
        total = np.convolve(total, masses)
    with np.errstate(divide="ignore"):
        terms = np.sum([noise.log_mass(y - np.arange(len(total))) for y in seen], axis=0) + np.log(total)
    record = ClippedPoisson(mean=mean, upper=upper)
    exact = float(np.logaddexp.reduce(terms))
    assert found(record, n, noise, seen) == pytest.approx(exact, abs=1e-8)
    kernel = noise_kernel(noise, np.array(seen), integer_valued=True)
    assert saddle_log_likelihood(record, n, kernel) == pytest.approx(exact, abs=20)


@pytest.mark.parametrize("seen", [[64304.5], [-800.0, 900.0], [0.11, -800.0, 2000.0]])
def test_two_times_under_noise_far_larger_than_their_bound(seen):
    """The noise hides all but its slope at the sum, so the likelihood is flat: E G(S) is between G at the two ends."""
    record, noise = ClippedExponential(rate=4.0, upper=0.28), LaplaceNoise(scale=24_000.0)
    ends = [sum(float(noise.log_mass(np.array(y - s))) for y in seen) for s in (0.0, 0.56)]
    slack = 1e-9 + len(seen) * 0.56 / 24_000
    assert min(ends) - slack <= found(record, 2, noise, seen) <= max(ends) + slack

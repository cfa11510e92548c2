"""Coverage of confidence sets and their intervals, with broken copies that must fail."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import stats

import privsample as ps
from privsample.distributions.noise import noise_distribution
from tests.inference.confidence_releases import LINE, MOMENTS, NORMAL, SURVEY, TIMES, N

LINE_TRUTH = {
    "coefficients": [0.8],
    "intercept": -0.3,
    "variance": 0.04,
    "feature_mean": [0.6],
    "feature_root": [[0.3]],
}
LINE_RANGES = {
    "coefficients": (-3, 3),
    "intercept": (-3, 3),
    "variance": (0, 2),
    "feature_mean": (-1, 2),
    "feature_root": (0, 2),
}
CASES = {
    "bernoulli": (ps.BetaBernoulli(1, 1), {"theta": 0.1}, 0.1, {"theta": (0, 1)}, {"scale": 3.0}),
    "categories": (SURVEY, {"theta": [0.1, 0.2, 0.7]}, np.array([0.1, 0.2, 0.7]), {"theta": (0, 1)}, {"scale": 3.0}),
    "poisson": (ps.GammaPoisson(1, 1, upper=3), {"rate": 2.0}, 2.0, {"rate": (0, 50)}, {"scale": 9.0}),
    "times": (TIMES, {"rate": 0.7}, 0.7, {"rate": (0, 50)}, {"scale": 5.0, "noise": "gaussian", "draws": 2}),
    "normal": (NORMAL, {"mean": 0.5}, 0.5, {"mean": (-9, 9)}, {"scale": 5.0}),
    "moments": (
        MOMENTS,
        {"mean": 0.5, "variance": 2.0},
        (0.5, 2.0),
        {"mean": (-9, 9), "variance": (0, 9)},
        {"scale": 5.0},
    ),
}


def line_records(rng):
    """Features and targets at LINE_TRUTH."""
    x = 0.6 + 0.3 * rng.standard_normal(N)
    return x[:, None], 0.8 * x - 0.3 + 0.2 * rng.standard_normal(N)


def hits(model, theta, own, ranges, fields, rng, *, runs, scale_of_noise=1.0, wider=None):
    """In how many runs the set contains the true value; broken copies read a smaller noise, or a wider model."""
    mechanism, found = ps.NoisyStatistics(model=model, n=N, **fields), 0
    for _ in range(runs):
        release = mechanism.release(line_records(rng) if model is LINE else model.simulate(own, N, rng), rng=rng)
        noise = mechanism.distribution
        if scale_of_noise != 1.0:
            noise = noise_distribution(noise.name, noise.scale_parameter * scale_of_noise)
        seen = SimpleNamespace(model=wider or model, n=N, noise=noise, observed=release["statistic"])
        found += ps.confidence_set(seen, parameters=ranges, level=0.9, simulations=99, rng=rng).contains(**theta)
    return found


# Runs, and the factor of the noise of a broken copy. By the binomial distribution, the broken copy, which covers with
# probability 0.68 instead of 0.9 (0.81 with the factor 0.8), is rejected with probability 0.99999.
sizes = pytest.mark.parametrize(("runs", "factor"), [(400, 0.6), pytest.param(2_000, 0.8, marks=pytest.mark.long)])


@pytest.mark.statistical
@sizes
@pytest.mark.parametrize("name", CASES)
def test_coverage_is_the_level(name, runs, factor, alpha, rng):
    """Ties are broken at random, so the coverage is the level itself, also for counts."""
    del factor
    assert stats.binomtest(hits(*CASES[name], rng, runs=runs), runs, 0.9).pvalue > alpha


@pytest.mark.statistical
@sizes
@pytest.mark.parametrize(
    ("name", "noise"), [("normal", "gaussian"), ("poisson", "discrete gaussian"), ("moments", "gaussian")]
)
def test_too_little_noise_is_seen(name, noise, runs, factor, alpha, rng):
    found = hits(*CASES[name][:4], {"scale": 30.0, "noise": noise}, rng, runs=runs, scale_of_noise=factor)
    assert stats.binom.cdf(found, runs, 0.9) < alpha


@pytest.mark.statistical
def test_records_simulated_without_their_bounds_are_seen(alpha, rng):
    """The broken copies cover with probability 0.3 instead of 0.9."""
    sums, times = (NORMAL, {"mean": 1.0}, 1.0, {"mean": (-9, 9)}), CASES["times"][:4]
    for case, model in ((times, replace(TIMES, upper=50.0)), (sums, replace(NORMAL, bounds=(-50, 50)))):
        found = hits(*case, {"scale": 1.0}, rng, runs=100, wider=model)
        assert stats.binom.cdf(found, 100, 0.9) < alpha


def inside(found, name, value):
    """Whether the interval holds the value; an empty set does not."""
    try:
        low, high = found.interval(name)
    except ValueError:
        return False
    return bool(low <= value <= high)


@pytest.mark.statistical
def test_intervals_of_shares_cover(alpha, rng):
    """The true value is inside with the probability of the level."""
    shares = 0
    for _ in range(150):
        release = ps.NoisyStatistics(model=SURVEY, n=N, scale=3.0).release(
            SURVEY.simulate(np.array([0.1, 0.2, 0.7]), N, rng), rng=rng
        )
        found = ps.confidence_set(release, parameters={"theta": (0, 1)}, level=0.8, simulations=99, rng=rng)
        shares += inside(found, "theta[1]", 0.2)
    assert stats.binomtest(shares, 150, 0.8).pvalue > alpha


@pytest.mark.statistical
@pytest.mark.long
def test_projections_cover(alpha, rng):
    """The true value is inside at least at the level.

    It follows from the coverage of the set, and from intervals that hold each accepted point (test_confidence.py): both
    are tested in each run. A search takes half a second.
    """
    moments = 0
    for _ in range(25):
        release = ps.NoisyStatistics(model=MOMENTS, n=N, scale=3.0).release(
            MOMENTS.simulate((0.5, 2.0), N, rng), rng=rng
        )
        found = ps.confidence_set(
            release, parameters={"mean": (-3, 3), "variance": (0.1, 9)}, level=0.8, simulations=39, rng=rng
        )
        moments += inside(found, "mean", 0.5)
    assert stats.binom.cdf(moments, 25, 0.8) > alpha

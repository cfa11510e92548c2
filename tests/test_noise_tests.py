"""White-box tests of noise: they accept the library's four distributions and refuse what is a little off."""

import numpy as np
import pytest
from scipy import stats

from privsample.distributions.noise import NAMES, DiscreteLaplaceNoise, LaplaceNoise, noise_distribution
from tests.noise_tests import p_value, scale_p_value, shape_p_value

SPREAD = 3.0


@pytest.mark.statistical
@pytest.mark.parametrize("name", NAMES)
def test_the_distributions_of_the_library_pass(name, rng, alpha):
    distribution = noise_distribution(name, SPREAD)
    assert p_value(distribution, distribution.sample((100_000,), rng)) > alpha


@pytest.mark.statistical
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(("factor", "draws"), [(0.9, 30_000), (1.1, 30_000), (0.95, 100_000), (1.05, 100_000)])
def test_a_scale_that_is_off_is_refused(name, factor, draws, rng, alpha):
    assert (
        p_value(noise_distribution(name, SPREAD), noise_distribution(name, SPREAD * factor).sample((draws,), rng))
        < alpha
    )


@pytest.mark.statistical
def test_another_shape_of_the_same_scale_is_refused(rng, alpha):
    draws = 100_000
    gaussian = noise_distribution("gaussian", SPREAD)
    assert shape_p_value(gaussian, LaplaceNoise(scale=SPREAD / np.sqrt(2)).sample((draws,), rng)) < alpha
    discrete = noise_distribution("discrete gaussian", SPREAD)
    assert shape_p_value(discrete, DiscreteLaplaceNoise(scale=SPREAD / np.sqrt(2)).sample((draws,), rng)) < alpha
    assert shape_p_value(discrete, gaussian.sample((draws,), rng)) == 0.0
    shifted = noise_distribution("laplace", SPREAD).sample((draws,), rng) + SPREAD / 10
    assert shape_p_value(noise_distribution("laplace", SPREAD), shifted) < alpha


@pytest.mark.statistical
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("test", [shape_p_value, scale_p_value])
def test_p_values_are_uniform(name, test, rng, alpha):
    distribution, runs = noise_distribution(name, SPREAD), 300
    small = sum(test(distribution, distribution.sample((2_000,), rng)) < 0.1 for _ in range(runs))
    assert 2 * min(_binomial(small, runs), _binomial(runs - small, runs, 0.9)) > alpha


def _binomial(hits, runs, rate=0.1):
    return stats.binom.sf(hits - 1, runs, rate)


@pytest.mark.statistical
@pytest.mark.parametrize("name", NAMES[2:])
@pytest.mark.parametrize(("spread", "draws"), [(0.5, 2_000), (1_000.0, 100), (3e5, 100), (3e5, 30_000)])
def test_whole_numbers_may_be_mostly_zero_or_far_and_wide(name, spread, draws, rng, alpha):
    distribution = noise_distribution(name, spread)
    found = distribution.sample((draws,), rng)
    assert p_value(distribution, found) > alpha
    assert p_value(noise_distribution(name, 4 * spread), found) < alpha


@pytest.mark.parametrize("value", [1, 4])
def test_sums_of_few_whole_numbers_are_held_to_their_own_distribution(value):
    """The chance of a sum as large, by adding up one hundred distributions, is far from the normal distribution's at
    1e-6.
    """
    distribution, n = noise_distribution("discrete laplace", SPREAD), 100
    once = np.exp(distribution.log_mass(np.arange(200.0))) * np.append(1, np.full(199, 2))
    sums = np.fft.irfft(np.fft.rfft(once, 20_000) ** n, 20_000)
    above = np.cumsum(sums[::-1])[::-1]
    total = int(np.argmax(above < 10.0**-value / 2))
    draws = np.full(n, total // n) + (np.arange(n) < total % n)
    assert scale_p_value(distribution, draws) == pytest.approx(2 * above[total], rel=0.3)
    variance = sums @ np.arange(20_000) ** 2 - (sums @ np.arange(20_000)) ** 2
    assert stats.norm.sf((total - sums @ np.arange(20_000)) / variance**0.5) < above[total] / (0.9 if value == 1 else 2)


@pytest.mark.parametrize("test", [shape_p_value, scale_p_value, p_value])
def test_noise_that_is_nearly_always_zero_takes_more_draws(test):
    with pytest.raises(ValueError, match="100 draws are too few"):
        test(noise_distribution("discrete laplace", 0.1), np.zeros(100))


@pytest.mark.parametrize("draws", [np.zeros(99), np.full(100, np.inf)])
def test_draws_that_tell_nothing_are_refused(draws):
    with pytest.raises(ValueError, match="at least 100 finite numbers"):
        p_value(LaplaceNoise(scale=1), draws)

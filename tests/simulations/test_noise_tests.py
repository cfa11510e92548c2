"""White-box tests of noise: they accept the library's four laws and refuse what is a little off."""

import numpy as np
import pytest
from scipy import stats

from privsample.distributions.noise import NAMES, DiscreteLaplaceNoise, LaplaceNoise, noise_law
from privsample.simulations.noise_tests import p_value, scale_p_value, shape_p_value

SPREAD = 3.0


@pytest.mark.statistical
@pytest.mark.parametrize("name", NAMES)
def test_the_laws_of_the_library_pass(name, rng, alpha):
    law = noise_law(name, SPREAD)
    assert p_value(law, law.sample((100_000,), rng)) > alpha


@pytest.mark.statistical
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(("factor", "draws"), [(0.9, 30_000), (1.1, 30_000), (0.95, 100_000), (1.05, 100_000)])
def test_a_scale_that_is_off_is_refused(name, factor, draws, rng, alpha):
    assert p_value(noise_law(name, SPREAD), noise_law(name, SPREAD * factor).sample((draws,), rng)) < alpha


@pytest.mark.statistical
def test_another_shape_of_the_same_scale_is_refused(rng, alpha):
    draws = 100_000
    gaussian = noise_law("gaussian", SPREAD)
    assert shape_p_value(gaussian, LaplaceNoise(scale=SPREAD / np.sqrt(2)).sample((draws,), rng)) < alpha
    discrete = noise_law("discrete gaussian", SPREAD)
    assert shape_p_value(discrete, DiscreteLaplaceNoise(scale=SPREAD / np.sqrt(2)).sample((draws,), rng)) < alpha
    assert shape_p_value(discrete, gaussian.sample((draws,), rng)) == 0.0
    shifted = noise_law("laplace", SPREAD).sample((draws,), rng) + SPREAD / 10
    assert shape_p_value(noise_law("laplace", SPREAD), shifted) < alpha


@pytest.mark.statistical
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("test", [shape_p_value, scale_p_value])
def test_p_values_are_uniform(name, test, rng, alpha):
    law, runs = noise_law(name, SPREAD), 300
    small = sum(test(law, law.sample((2_000,), rng)) < 0.1 for _ in range(runs))
    assert 2 * min(_binomial(small, runs), _binomial(runs - small, runs, 0.9)) > alpha


def _binomial(hits, runs, rate=0.1):
    return stats.binom.sf(hits - 1, runs, rate)


@pytest.mark.parametrize("draws", [np.zeros(99), np.full(100, np.inf)])
def test_draws_that_tell_nothing_are_refused(draws):
    with pytest.raises(ValueError, match="at least 100 finite numbers"):
        p_value(LaplaceNoise(scale=1), draws)

"""Exact draws by OpenDP follow the same distributions as our own."""

import numpy as np
import pytest
from scipy import stats

from privsample import DiscreteGaussianNoise, DiscreteLaplaceNoise, LaplaceNoise
from privsample.interop.opendp import exact_noise

pytest.importorskip("opendp")
DISTRIBUTIONS = [DiscreteLaplaceNoise(scale=2.5), DiscreteGaussianNoise(noise_std=2.5)]


@pytest.mark.statistical
@pytest.mark.parametrize(("factor", "accepted"), [(1.0, True), (0.8, False), (1.25, False)])
@pytest.mark.parametrize("distribution", DISTRIBUTIONS, ids=lambda distribution: distribution.name)
def test_opendp_draws_from_the_declared_distribution(distribution, factor, accepted, alpha):
    draws = exact_noise(_scaled(distribution, factor), (100, 100)).ravel()
    values = np.arange(-6, 7.0)
    expected = np.exp(distribution.log_mass(values)) * len(draws)
    counts = np.array([np.sum(draws == k) for k in values])
    rest, beyond = len(draws) - expected.sum(), len(draws) - counts.sum()
    result = stats.chisquare([*counts, beyond], [*expected, rest])
    assert (result.pvalue > alpha) == accepted


def _scaled(distribution, factor):
    if isinstance(distribution, DiscreteLaplaceNoise):
        return DiscreteLaplaceNoise(scale=distribution.scale * factor)
    return DiscreteGaussianNoise(noise_std=distribution.noise_std * factor)


def test_shapes_and_refusals():
    assert exact_noise(DISTRIBUTIONS[0], (2, 0, 3)).shape == (2, 0, 3)
    assert exact_noise(DISTRIBUTIONS[1], ()).shape == ()
    with pytest.raises(TypeError, match="DiscreteLaplaceNoise or DiscreteGaussianNoise"):
        exact_noise(LaplaceNoise(scale=1.0), (3,))

"""OpenDP as a cross-check: its exact draws and ours follow the same distributions, and the test tells others apart."""

import numpy as np
import pytest
from scipy import stats

from privsample import DiscreteGaussianNoise, DiscreteLaplaceNoise
from privsample.distributions.exact.grid import Grid

dp = pytest.importorskip("opendp.prelude")
DISTRIBUTIONS = [DiscreteLaplaceNoise(scale=2.5), DiscreteGaussianNoise(noise_std=2.5)]


def by_opendp(distribution, size):
    dp.enable_features("contrib")
    numbers = dp.vector_domain(dp.atom_domain(T="i64"))
    if isinstance(distribution, DiscreteLaplaceNoise):
        draw = dp.m.make_laplace(numbers, dp.l1_distance(T="i64"), scale=distribution.scale)
    else:
        draw = dp.m.make_gaussian(numbers, dp.l2_distance(T=float), scale=distribution.noise_std)
    return np.array(draw([0] * size))


def counts(drawn):
    inside = [int(np.sum(drawn == k)) for k in range(-6, 7)]
    return [*inside, len(drawn) - sum(inside)]


@pytest.mark.statistical
@pytest.mark.parametrize(("factor", "accepted"), [(1.0, True), (0.8, False), (1.25, False)])
@pytest.mark.parametrize("distribution", DISTRIBUTIONS, ids=lambda distribution: distribution.name)
def test_opendp_and_our_sampler_draw_from_the_same_distribution(distribution, factor, accepted, rng, alpha):
    scaled = type(distribution)(**dict.fromkeys(distribution.__slots__[:1], factor * distribution.scale_parameter))
    ours = counts(scaled.sample_indices(Grid(pitch=1.0), (100_000,), rng))
    theirs = counts(by_opendp(distribution, 10_000))
    assert (stats.chi2_contingency([ours, theirs]).pvalue > alpha) == accepted

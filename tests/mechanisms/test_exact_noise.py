"""Noise on stated statistics: the rounded sum of the given doubles and of real noise, on a public grid."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

import privsample as ps
from privsample import Assumption, GaussianMechanism, LaplaceMechanism, PostNoise, Release

MECHANISMS = [
    GaussianMechanism(sensitivity=1, noise_std=2, shape=(3,)),
    LaplaceMechanism(sensitivity=1, scale=2, shape=(3,)),
]
each = pytest.mark.parametrize("mechanism", MECHANISMS, ids=lambda mechanism: type(mechanism).__name__)


@each
def test_the_account_trusts_the_sensitivity_and_nothing_else(mechanism):
    assert mechanism.accountant.assumptions == {Assumption.TRUSTED_SENSITIVITY}
    release = mechanism.release([1.0, np.nan, -3.0])
    assert release.account.assumptions == {Assumption.TRUSTED_SENSITIVITY}
    assert release.grid == {"statistic": 2.0**-39}
    assert Release.from_json(release.to_json()) == release
    floats = replace(mechanism, exact=False)
    assert floats.accountant.assumptions == {Assumption.TRUSTED_SENSITIVITY, Assumption.IDEAL_REALS}
    assert floats.accountant.epsilon(1e-6) == mechanism.accountant.epsilon(1e-6)
    assert floats.release([1.0, 2.0, 3.0]).grid is None


@each
def test_further_noise_on_a_rounded_release_assumes_real_numbers(mechanism):
    for base in (mechanism, replace(mechanism, draws=2)):
        assert Assumption.IDEAL_REALS in PostNoise(base=base, noise=1.0).accountant.assumptions


@each
def test_the_same_points_are_reached_from_any_statistic(mechanism, rng):
    """The low bits of a release do not show the statistic: the fraction of the grid index is uniform modulo 256."""
    many = replace(mechanism, draws=5000)
    drawn = many.release([0.0, 0.1, 1e-300], rng=rng)["statistic"]
    steps = drawn / many.pitch
    assert (steps == np.rint(steps)).all()
    low = np.mod(steps, 256)
    assert all(len(np.unique(column)) == 256 for column in low.T)


@pytest.mark.statistical
@pytest.mark.parametrize(("shift", "accepted"), [(0.0, True), (0.15, False)])
@pytest.mark.parametrize("grid", [None, 0.5])
@each
def test_draws_are_the_statistic_and_its_noise(mechanism, grid, shift, accepted, rng, alpha):
    many = replace(mechanism, draws=40_000, shape=(2,), grid=grid)
    drawn = many.release([0.3, -7.7], rng=rng)["statistic"][:, 1]
    peer = stats.norm(-7.7 + shift, 2) if isinstance(mechanism, GaussianMechanism) else stats.laplace(-7.7 + shift, 2)
    ends = np.arange(-13.25, -2.0, 0.5)
    counts = np.histogram(drawn, bins=[-np.inf, *ends, np.inf])[0]
    assert (stats.chisquare(counts, np.diff([0, *peer.cdf(ends), 1]) * len(drawn)).pvalue > alpha) == accepted


@each
def test_the_largest_and_the_smallest_statistics_are_released(mechanism, rng):
    release = mechanism.release([1.7e308, -1e-320, np.inf], rng=rng)
    assert np.isfinite(release["statistic"]).all()
    assert release["statistic"][0, 0] == 1.7e308


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"grid": 0.3}, "grid must be a power of two"),
        ({"grid": 0.5, "exact": False}, "grid must be None with exact=False"),
        ({"grid": -1.0}, "grid"),
    ],
)
@each
def test_bad_grids_are_refused(mechanism, fields, message):
    with pytest.raises(ValueError, match=message):
        replace(mechanism, **fields)
    with pytest.raises(ValueError, match=message):
        ps.BrownianMotion(sensitivity=1, time=1, **fields)
    with pytest.raises(TypeError, match="exact"):
        replace(mechanism, exact="yes")

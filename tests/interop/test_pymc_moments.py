"""Noisy moments of clipped normal records, and of regressions, as PyMC distributions."""

from typing import Any

import numpy as np
import pymc as pm
import pytensor
import pytest
from scipy import stats

import privsample as ps
from privsample.interop.pymc_distributions.moments import NoisyMoments
from privsample.interop.pymc_distributions.regression import NoisyRegressionMoments

PYTHON = pytensor.compile.mode.Mode(linker="py", optimizer="fast_compile")
# For one value: rewriting the graph takes longer than computing it once.
ONCE = pytensor.compile.mode.Mode(linker="py", optimizer=None)
REGRESSION = ps.LinearRegression(feature_bounds=((-0.6, 0.9), (0, 2)), target_bounds=(-1, 0.8), shape=3, scale=2)


def mean_of(variable: Any) -> Any:
    op = variable.owner.op
    return op.mean(*variable.owner.inputs[2:], **op.settings).eval(mode=PYTHON)


def regression(n: int, scale: float = 1e-3, **options: Any) -> Any:
    root = np.array([[0.5, 0.0], [0.3, 0.6]])
    return NoisyRegressionMoments.dist(
        n,
        [0.7, -0.4],
        0.1,
        0.3,
        [0.2, 0.9],
        root,
        feature_bounds=REGRESSION.feature_bounds,
        target_bounds=REGRESSION.target_bounds,
        noise="gaussian",
        noise_scale=scale,
        **options,
    )


@pytest.mark.parametrize("bounds", [(-1.0, 2.0), (0.5, 0.6), (3.0, 9.0)])
def test_means_of_clipped_moments_by_brute_force(bounds):
    x = stats.norm(0.3, 1.1).ppf((np.arange(2_000_000) + 0.5) / 2_000_000)
    model = ps.NormalUnknownVariance(mean=0, observations=1, shape=3, scale=2, bounds=bounds)
    found = mean_of(NoisyMoments.dist(1, 0.3, 1.21, bounds=bounds, noise="gaussian", noise_scale=1.0))
    assert found == pytest.approx(model.statistic(np.clip(x, *bounds)) / len(x), abs=1e-6)


@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
def test_the_density_of_two_moments_integrates_to_one(noise):
    size = 31
    line = np.linspace(-90, 90, size)
    centre = mean_of(NoisyMoments.dist(200, 0.3, 1.0, bounds=(-1, 2), noise=noise, noise_scale=4.0))
    y = centre + np.stack(np.meshgrid(line, line), axis=-1).reshape(-1, 2)
    variable = NoisyMoments.dist(200, 0.3, 1.0, bounds=(-1, 2), noise=noise, noise_scale=4.0, size=len(y))
    values = pm.logp(variable, y).eval(mode=ONCE)
    assert values.shape == (size**2,)
    assert np.exp(values).sum() * (line[1] - line[0]) ** 2 == pytest.approx(1, abs=1e-4)


@pytest.mark.statistical
@pytest.mark.parametrize(("scale", "accepted"), [(10.0, True), (8.0, False)], ids=["noise", "noise scale 0.8"])
def test_draws_of_moments_have_the_density(alpha, scale, accepted):
    drawn = NoisyMoments.dist(100, 0.8, 1.0, bounds=(-1, 1.5), noise="gaussian", noise_scale=10.0, size=2000)
    y = pm.draw(drawn, mode=PYTHON, random_seed=7)
    model = NoisyMoments.dist(100, 0.8, 1.0, bounds=(-1, 1.5), noise="gaussian", noise_scale=scale, size=2000)
    centre = NoisyMoments.dist(100, 0.8, 1.0, bounds=(-1, 1.5), noise="gaussian", noise_scale=scale)
    peak = pm.logp(centre, mean_of(centre)).eval(mode=PYTHON)
    squares = 2 * (peak - pm.logp(model, y).eval(mode=PYTHON))
    assert (stats.kstest(squares, stats.chi2(2).cdf).pvalue > alpha) == accepted


@pytest.mark.statistical
def test_draws_of_a_regression_at_two_thousand_records_have_the_density(alpha):
    y = pm.draw(regression(2_000, 30.0, size=40), mode=PYTHON, random_seed=7)
    variable = regression(2_000, 30.0)
    peak = pm.logp(variable, mean_of(variable)).eval(mode=PYTHON)
    squares = 2 * (peak - pm.logp(regression(2_000, 30.0, size=40), y).eval(mode=PYTHON))
    assert stats.kstest(squares, stats.chi2(y.shape[-1]).cdf).pvalue > alpha


@pytest.mark.generations
def test_draws_of_a_regression_are_statistics_of_its_model():
    rng = np.random.default_rng(5)
    x = np.array([0.2, 0.9]) + rng.standard_normal((400_000, 2)) @ np.array([[0.5, 0.0], [0.3, 0.6]]).T
    target = x @ [0.7, -0.4] + 0.1 + 0.3**0.5 * rng.standard_normal(len(x))
    statistic, n = REGRESSION.summarize((x, target))
    assert mean_of(regression(1)) == pytest.approx(statistic / n, abs=3e-3)


@pytest.mark.generations
def test_laplace_noise_on_a_regression_has_latent_variances():
    with pm.Model() as model:
        slope = pm.Normal("slope", shape=1)
        given = {"feature_bounds": [(-1, 1)], "target_bounds": (-1, 1), "noise": ps.LaplaceNoise(scale=3.0)}
        NoisyRegressionMoments("y", 50, slope, 0.0, 1.0, [0.0], [[1.0]], observed=np.zeros(5), **given)
    assert "y_noise" in model.named_vars
    assert np.isfinite(model.compile_logp(mode=PYTHON)(model.initial_point()))
    with pytest.raises(ValueError, match="latent variances"):
        NoisyRegressionMoments.dist(50, [1.0], 0.0, 1.0, [0.0], [[1.0]], **given)


@pytest.mark.generations
def test_bad_input_is_refused():
    with pytest.raises(ValueError, match="low < high"):
        NoisyMoments.dist(5, 0.0, 1.0, bounds=(2, 1), noise="gaussian", noise_scale=1.0)
    with pytest.raises(TypeError, match="noise must be a Noise"):
        NoisyMoments.dist(5, 0.0, 1.0, bounds=(0, 1), noise=2.0)
    with pytest.raises(ValueError, match="agree in the number of features"):
        NoisyRegressionMoments.dist(
            5,
            [1.0, 2.0],
            0.0,
            1.0,
            [0.0],
            [[1.0]],
            feature_bounds=[(0, 1)],
            target_bounds=(0, 1),
            noise="gaussian",
            noise_scale=1.0,
        )

"""Noisy sums of clipped records of any distribution as PyMC distributions."""

import functools
import importlib
from typing import Any

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest
from scipy import stats

import privsample as ps
from privsample.distributions.clipping import contour, kernels
from privsample.distributions.clipping.records import ClippedExponential, ClippedNormal, ClippedPoisson
from privsample.interop.pymc_distributions import sums
from privsample.interop.pymc_distributions.sums import NoisySum
from privsample.pymc import likelihood

PYTHON = pytensor.compile.mode.Mode(linker="py", optimizer="fast_compile")
# For one value: rewriting the graph takes longer than computing it once.
ONCE = pytensor.compile.mode.Mode(linker="py", optimizer=None)


def log_density(variable: Any, value: Any) -> Any:
    return pm.logp(variable, np.asarray(value, dtype=np.float64)).eval(mode=ONCE)


# MATH-2, section 24: the characteristic function against mixtures in 25 digits.
TABLE = [
    (lambda: pm.Exponential.dist(1.0), 3, 0, 1.5, 0.7, 2, 0.32659409662084),
    (lambda: pm.Exponential.dist(0.6), 5, 0, 1, 0.5, 4.5, 0.34540460767489),
    (lambda: pm.Exponential.dist(np.float64(3)), 4, 0, 1, 0.4, 1, 0.56535460762694),
    (lambda: pm.Normal.dist(0.3, 1.0), 3, -1, 1.5, 0.6, 1.1, 0.2487471834147),
]


@pytest.mark.parametrize(("records", "n", "low", "high", "deviation", "y", "density"), TABLE)
def test_the_table_of_densities(records, n, low, high, deviation, y, density):
    variable = NoisySum.dist(n, records(), lower=low, upper=high, noise=ps.GaussianNoise(noise_std=deviation))
    assert np.exp(log_density(variable, y)) == pytest.approx(density, rel=1e-10)
    assert likelihood(variable).startswith("exact")


@pytest.mark.parametrize(
    ("mean", "n", "upper", "q", "y", "mass"),
    [
        (2.0, 4, 3, 0.5, 7, 0.14451946221836),
        (1.0, 30, 2, 0.8, 20, 0.032548965206232),
        (3.0, 5, 4, 0.3, 0, 1.5574056469821e-5),
    ],
)
def test_counts_with_discrete_laplace_noise(mean, n, upper, q, y, mass):
    noise = ps.DiscreteLaplaceNoise(scale=-1 / np.log(q))
    variable = NoisySum.dist(n, pm.Poisson.dist(mean), lower=0, upper=upper, noise=noise)
    assert np.exp(log_density(variable, y)) == pytest.approx(mass, rel=1e-10)
    assert log_density(variable, y + 0.5) == -np.inf


CASES = [
    (pm.Exponential.dist, lambda a, low, high: ClippedExponential(rate=a, upper=high), 0.0, 3.0),
    (
        lambda a: pm.Normal.dist(a, 1.2),
        lambda a, low, high: ClippedNormal(mean=a, deviation=1.2, bounds=(low, high)),
        -1.0,
        2.0,
    ),
    (
        lambda a: pm.Normal.dist(a, 0.2),
        lambda a, low, high: ClippedNormal(mean=a, deviation=0.2, bounds=(low, high)),
        -1.0,
        2.0,
    ),
    (pm.Poisson.dist, lambda a, low, high: ClippedPoisson(mean=a, upper=int(high)), 0.0, 4.0),
]


@pytest.mark.parametrize(
    "noise", [ps.LaplaceNoise(scale=1.5), ps.GaussianNoise(noise_std=1.5)], ids=lambda each: each.name
)
@pytest.mark.parametrize(("records", "clipped", "low", "high"), CASES)
def test_the_density_of_the_library_at_any_distance(records, clipped, low, high, noise):
    sizes = np.array([1, 2, 5, 30, 64])
    mean, y = pt.dscalar("mean"), pt.dvector("y")
    variable = NoisySum.dist(sizes, records(mean), lower=low, upper=high, noise=noise)
    compute = pytensor.function([mean, y], pm.logp(variable, y), mode=PYTHON)
    for at in (0.3, 2.0):
        record = clipped(at, low, high)
        whole = isinstance(record, ClippedPoisson)
        for share in (-0.2, 0.05, 0.5, 0.97, 1.1):
            seen = sizes * (low + share * (high - low))
            due = [
                contour.log_likelihood(record, int(n), kernels.noise_kernel(noise, np.array([x]), integer_valued=whole))
                for n, x in zip(sizes, seen, strict=True)
            ]
            error = 2e-4 * (3 / 1.5) ** 2 if noise.name == "laplace" and not whole else 1e-9
            found, near = compute(at, seen), np.array(due) > -200
            assert np.isfinite(found).all()
            assert found[near] == pytest.approx(np.array(due)[near], abs=error)


def test_other_distributions_by_brute_force():
    # One record and two records, by integrals of the density between the bounds.
    grid = np.linspace(0, 2, 20001)
    frozen = stats.gamma(2.5, scale=1 / 1.4)
    masses = np.concatenate([[0.0], np.diff(frozen.cdf(grid)), [frozen.sf(2.0)]])
    points = np.concatenate([[0.0], (grid[1:] + grid[:-1]) / 2, [2.0]])
    for y in (-1.0, 0.7, 3.0):
        due = np.log(masses @ stats.laplace(scale=0.8).pdf(y - points))
        variable = NoisySum.dist(1, pm.Gamma.dist(2.5, 1.4), lower=0, upper=2, noise=ps.LaplaceNoise(scale=0.8))
        assert log_density(variable, y) == pytest.approx(due, abs=2e-4)
        due = np.log(masses @ stats.norm(scale=0.8).pdf(y - points))
        variable = NoisySum.dist(1, pm.Gamma.dist(2.5, 1.4), lower=0, upper=2, noise=ps.GaussianNoise(noise_std=0.8))
        assert log_density(variable, y) == pytest.approx(due, abs=1e-6)


def test_narrow_densities_inside_wide_bounds_are_found():
    noise = ps.GaussianNoise(noise_std=3000.0)
    for records in (
        pm.Normal.dist(123.0, 0.01),
        pm.LogNormal.dist(np.log(123.0), 1e-4),
        pm.Gamma.dist(mu=123.0, sigma=0.01),
    ):
        variable = NoisySum.dist(10, records, lower=0, upper=4000, noise=noise)
        assert log_density(variable, 2000.0) == pytest.approx(stats.norm(1230, 3000).logpdf(2000), abs=1e-6)


def test_the_central_limit_beyond_many_records():
    variable = NoisySum.dist(10**6, pm.Exponential.dist(1.0), lower=0, upper=3, noise=ps.LaplaceNoise(scale=3.0))
    assert likelihood(variable).startswith("central limit")
    record = ClippedExponential(rate=1.0, upper=3.0)
    kernel = kernels.noise_kernel(ps.LaplaceNoise(scale=3.0), np.array([950600.0]), integer_valued=False)
    assert log_density(variable, 950600.0) == pytest.approx(contour.log_likelihood(record, 10**6, kernel), abs=2e-3)


EXTREME = [pm.Normal.dist, pm.LogNormal.dist, lambda a, b: pm.Exponential.dist(b)]


@pytest.mark.parametrize(
    ("records", "noise"),
    [
        *((records, "laplace") for records in EXTREME),
        (EXTREME[0], "gaussian"),
        # the same noise and the same records in another pair: in the long lane
        *(pytest.param(records, "gaussian", marks=pytest.mark.long) for records in EXTREME[1:]),
    ],
)
def test_value_and_gradient_are_finite_at_extreme_parameters(records, noise):
    a, b, y = pt.dscalars("a", "b", "y")
    variable = NoisySum.dist(5, records(a, b), lower=-1, upper=2, noise=noise, noise_scale=2.0)
    out = pm.logp(variable, y)
    wanted = [each for each in (a, b, y) if each in set(pytensor.graph.traversal.ancestors([out]))]
    compute = pytensor.function([a, b, y], [out, *pytensor.grad(out, wanted)], mode=PYTHON, on_unused_input="ignore")
    for at_a in (-1e8, -1.0, 0.0, 1e-8, 2.0, 1e8):
        for at_b in (1e-8, 1.0, 1e8):
            for at_y in (-1e3, -5.0, 0.0, 10.0, 1e3):
                assert np.isfinite(compute(at_a, at_b, at_y)).all(), (at_a, at_b, at_y)


@pytest.mark.parametrize("noise", ["gaussian", "laplace"])
def test_the_gradient_is_that_of_the_density(noise):
    a, b = pt.dscalars("a", "b")
    out = pm.logp(NoisySum.dist(5, pm.Normal.dist(a, b), lower=-1, upper=2, noise=noise, noise_scale=2.0), 4.0)
    compute = pytensor.function([a, b], [out, *pytensor.grad(out, [a, b])], mode=PYTHON)
    for at in ((0.3, 1.0), (2.5, 0.4), (-3.0, 2.0)):
        step = 1e-5
        due = [(compute(at[0] + step, at[1])[0] - compute(at[0] - step, at[1])[0]) / (2 * step)]
        due.append((compute(at[0], at[1] + step)[0] - compute(at[0], at[1] - step)[0]) / (2 * step))
        assert compute(*at)[1:] == pytest.approx(due, rel=1e-3 if noise == "laplace" else 1e-4, abs=1e-6)


@pytest.mark.generations
def test_groups_are_computed_as_one_by_one():
    mean, size, y = np.array([0.1, 1.0, 2.5]), np.array([3, 10, 40]), np.array([1.0, 8.0, 60.0])
    together = NoisySum.dist(
        size, pm.Normal.dist(mean, 1.0), lower=[-1, 0, 1], upper=[1, 2, 3], noise="laplace", noise_scale=[1.0, 2.0, 3.0]
    )
    found = log_density(together, y)
    for i in range(3):
        alone = NoisySum.dist(
            int(size[i]), pm.Normal.dist(mean[i], 1.0), lower=i - 1, upper=i + 1, noise="laplace", noise_scale=i + 1.0
        )
        assert found[i] == pytest.approx(log_density(alone, y[i]), abs=1e-6)


@functools.cache
def six_records() -> Any:
    """Draws that both claims are compared with."""
    noise = ps.LaplaceNoise(scale=1.0)
    drawn = NoisySum.dist(6, pm.Normal.dist(-0.8, 1.5), lower=-1, upper=1, noise=noise, size=20000)
    return pm.draw(drawn, mode=PYTHON, random_seed=3)


def levels(variable: Any, draws: Any, low: float, high: float) -> Any:
    """The distribution function of the log density at the draws: uniform if both agree."""
    grid = np.linspace(low, high, 1501)
    y = pt.dscalar("y")
    density = pytensor.function([y], pm.logp(variable, y), mode=PYTHON)
    values = np.exp([density(at) for at in grid])
    total = np.concatenate([[0.0], np.cumsum((values[1:] + values[:-1]) / 2) * (grid[1] - grid[0])])
    assert total[-1] == pytest.approx(1, abs=1e-4)
    return np.interp(draws, grid, total)


@pytest.mark.statistical
@pytest.mark.parametrize(("lower", "accepted"), [(-1.0, True), (-100.0, False)], ids=["bounds", "ignores bounds"])
def test_random_draws_have_the_density(alpha, lower, accepted):
    noise = ps.LaplaceNoise(scale=1.0)
    with_bounds = NoisySum.dist(6, pm.Normal.dist(-0.8, 1.5), lower=lower, upper=-lower, noise=noise)
    found = levels(with_bounds, six_records(), -60.0, 60.0)
    assert (stats.kstest(found, "uniform").pvalue > alpha) == accepted


@pytest.mark.generations
def test_a_release_in_a_model():
    model = ps.GammaExponential(shape=2, rate=1, upper=3)
    mechanism = ps.NoisyStatistics(model=model, n=20, scale=6.0)
    release = mechanism.release(np.linspace(0.1, 4, 20), rng=np.random.default_rng(1))
    with pm.Model() as built:
        rate = pm.Gamma("rate", 2, 1)
        y = NoisySum("y", records=pm.Exponential.dist(rate), observed=release)
    assert y in built.observed_RVs
    assert built["y_upper"].get_value() == 3
    assert np.isfinite(built.compile_logp(mode=PYTHON)(built.initial_point()))


WRONG = [
    ({"records": 3.0}, TypeError, "records must be the distribution of one record"),
    ({"records": pm.Normal.dist(0, 1, shape=3)}, ValueError, "without shape"),
    ({"records": pm.MvNormal.dist(np.zeros(2), np.eye(2))}, TypeError, "univariate"),
    ({"noise": 2.0}, TypeError, "noise must be a Noise"),
    ({"noise": ps.DiscreteLaplaceNoise(scale=1.0)}, TypeError, "whole numbers"),
    ({"lower": 2.0}, ValueError, "lower must be below upper"),
    ({"n": 0}, ValueError, "n must be"),
    ({"records": pm.Poisson.dist(2.0), "upper": 1.5}, ValueError, "upper must be whole"),
]


@pytest.mark.generations
@pytest.mark.parametrize(("changed", "error", "message"), WRONG)
def test_bad_input_is_refused_before_compilation(changed, error, message):
    given = {"n": 5, "records": pm.Normal.dist(0, 1), "lower": -1.0, "upper": 2.0, "noise": ps.LaplaceNoise(scale=1.0)}
    given |= changed
    n, records = given.pop("n"), given.pop("records")
    with pytest.raises(error, match=message):
        NoisySum.dist(n, records, **given)


@pytest.mark.generations
def test_python_floats_are_not_rounded_to_single_precision():
    """PyTensor reads 2.5 in single precision, in which the mean 1 / 2.5 has an error of 6e-9."""
    _, (mean,) = sums.record_of(pm.Exponential.dist(2.5))
    assert float(mean.eval(mode=ONCE)) == 0.4
    with pm.Model():
        scale = pm.HalfNormal("scale")
        _, (mean,) = sums.record_of(pm.Exponential.dist(scale * 2.5))
    assert scale in pytensor.graph.traversal.ancestors([mean])


@pytest.mark.generations
def test_a_variable_of_the_model_is_no_record():
    with pm.Model():
        x = pm.Normal("x")
        with pytest.raises(TypeError, match=r"use \.dist"):
            NoisySum("y", 5, x, lower=0, upper=1, noise=ps.LaplaceNoise(scale=1.0))


def test_draws_that_need_too_much_memory_are_refused(monkeypatch):
    monkeypatch.setattr(sums, "_MEMORY", 50)
    variable = NoisySum.dist(10, pm.Normal.dist(0, 1), lower=-1, upper=1, noise="gaussian", noise_scale=1.0, size=6)
    with pytest.raises(AssertionError, match="draw fewer at once"):
        pm.draw(variable, mode=PYTHON)


@pytest.mark.long
def test_nutpie_samples_a_hierarchy_of_sums():
    """Numba compiles a density of sums and its gradient, which the tests above compute in Python."""
    nutpie = importlib.import_module("nutpie")
    with pm.Model() as model:
        mean = pm.Normal("mean", 0, 2)
        records = pm.Normal.dist(mean, 1.0)
        NoisySum(
            "y",
            np.array([20, 50]),
            records,
            lower=-1,
            upper=2,
            noise=ps.GaussianNoise(noise_std=2.0),
            observed=[10.0, 25.0],
        )
    trace = nutpie.sample(nutpie.compile_pymc_model(model), draws=100, tune=200, chains=2, seed=1, progress_bar=False)
    assert abs(float(trace.posterior["mean"].mean()) - 0.5) < 0.3


@pytest.mark.parametrize("shape", [0.2, 0.6])
def test_a_density_that_is_infinite_at_a_bound_loses_no_probability(shape):
    y = np.linspace(-25, 65, 151)
    noise = ps.GaussianNoise(noise_std=2.0)
    variable = NoisySum.dist(np.full(len(y), 20), pm.Gamma.dist(shape, 1.0), lower=0, upper=2, noise=noise)
    density = np.exp(log_density(variable, y))
    assert np.trapezoid(density, y) == pytest.approx(1, abs=1e-6)
    clipped = np.minimum(np.random.default_rng(1).gamma(shape, 1.0, 10**6), 2.0)
    assert density @ y / density.sum() == pytest.approx(20 * clipped.mean(), abs=0.05)

"""Releases as observed variables: what PyMC and ArviZ do with them, and what is refused before anything is compiled."""

import warnings
from types import SimpleNamespace

import cloudpickle
import numpy as np
import pymc as pm
import pytensor
import pytest
from scipy import special, stats

import privsample as ps
from privsample.pymc import NoisyCount, NoisyMoments, NoisyMultinomial, likelihood

pytestmark = pytest.mark.generations

SIZES = {"A": 40, "B": 60, "C": 50}
MODE = "FAST_COMPILE"
# For one value: rewriting the graph takes longer than computing it once.
ONCE = pytensor.compile.mode.Mode(linker="py", optimizer=None)
BETA = ps.BetaBernoulli(alpha=1, beta=1)


def release_of(n, ones, *, scale=2.0, seed=0, **fields):
    mechanism = ps.NoisyStatistics(model=BETA, n=n, scale=scale, **fields)
    return mechanism.release([1] * ones + [0] * (n - ones), rng=np.random.default_rng(seed))


PUBLISHED = {site: release_of(n, n // 3, seed=k) for k, (site, n) in enumerate(SIZES.items())}
OTHERS = {site: release_of(n, n // 2, seed=9 + k) for k, (site, n) in enumerate(SIZES.items())}


def built(observed, sites=tuple(SIZES)):
    with pm.Model(coords={"site": sites}) as model:
        rate = pm.Beta("rate", 2.0, 3.0, dims="site")
        NoisyCount("y", p=rate, observed=observed, dims="site")
    return model


def log_density(model):
    return float(model.compile_logp(mode=ONCE)({"rate_logodds__": np.array([-1.0, 0.3, 0.0])}))


@pytest.fixture(scope="module")
def fitted():
    """A model, its trace with predictive groups and pointwise log likelihoods, and its prior predictive draws.

    Metropolis steps, compiled for Python, take less time than Numba takes to compile. NUTS samples such a posterior in
    test_pymc_noise.py and in the guide.
    """
    model = built(PUBLISHED)
    with model, pytensor.config.change_flags(mode=MODE):
        trace = pm.sample(
            100,
            tune=100,
            chains=2,
            cores=1,
            step=pm.Metropolis(),
            random_seed=3,
            progressbar=False,
            compute_convergence_checks=False,
        )
        predicted = pm.sample_posterior_predictive(trace, random_seed=4, progressbar=False)
        pm.compute_log_likelihood(trace, progressbar=False)
        prior = pm.sample_prior_predictive(2000, random_seed=5)
    return model, trace, predicted, prior


@pytest.mark.statistical
@pytest.mark.parametrize(("scale", "accepted"), [(2.0, True), (8.0, False)])
def test_the_prior_predictive_distribution_is_exact(fitted, scale, accepted, alpha):
    """A beta-binomial count plus discrete Laplace noise; the broken copy has four times the noise."""
    values = np.asarray(fitted[3].prior_predictive["y"]).reshape(-1, 3)[:, 1]
    grid, counts = np.arange(-60.0, 121.0), np.arange(61)
    own = stats.betabinom.logpmf(counts, 60, 2, 3)
    noise = ps.DiscreteLaplaceNoise(scale=scale)
    masses = np.array([np.exp(special.logsumexp(own + noise.log_mass(value - counts))) for value in grid])
    edges = np.arange(-3.5, 63.5, 3.0)
    seen = np.histogram(values, [-np.inf, *edges, np.inf])[0]
    expected = np.histogram(grid, [-np.inf, *edges, np.inf], weights=masses)[0]
    kept = expected * len(values) >= 5
    seen, expected = np.append(seen[kept], seen[~kept].sum()), np.append(expected[kept], expected[~kept].sum())
    kept = expected > 1e-4
    found = stats.chisquare(seen[kept], expected[kept] / expected[kept].sum() * seen[kept].sum())
    assert (found.pvalue > alpha) == accepted


def test_the_posterior_is_the_exact_mixture(fitted):
    """The log density of the model is that of the mixture; the chains have its mean within 0.6 standard deviations."""
    _, trace, predicted, _ = fitted
    drawn = np.asarray(trace.posterior["rate"]).reshape(-1, 3)
    logits = np.array([-1.0, 0.3, 0.0])
    rates, density = special.expit(logits), 0.0
    for k, release in enumerate(PUBLISHED.values()):
        n, counts = list(SIZES.values())[k], np.arange(list(SIZES.values())[k] + 1)
        noise = release.noise.log_mass(release["statistic"][0] - counts)
        density += stats.beta.logpdf(rates[k], 2, 3) + np.log(rates[k] * (1 - rates[k]))
        density += special.logsumexp(stats.binom.logpmf(counts, n, rates[k]) + noise)
        weights = special.softmax(stats.betabinom.logpmf(counts, n, 2, 3) + noise)
        mean = weights @ ((2 + counts) / (5 + n))
        second = weights @ ((2 + counts) * (3 + counts) / ((5 + n) * (6 + n)))
        assert abs(drawn[:, k].mean() - mean) < 0.6 * np.sqrt(second - mean**2)
    assert log_density(built(PUBLISHED)) == pytest.approx(density, abs=1e-6)
    assert predicted.posterior_predictive["y"].shape == (2, 100, 3)
    assert list(predicted.posterior_predictive["y"].coords["site"].values) == list(SIZES)


def test_groups_of_the_arviz_object(fitted, az):
    _, trace, _, _ = fitted
    assert np.asarray(trace.observed_data["y"]).tolist() == [r["statistic"][0] for r in PUBLISHED.values()]
    assert sorted(trace.constant_data) == ["y_delta", "y_epsilon", "y_n", "y_noise_scale"]
    assert np.asarray(trace.constant_data["y_n"]).tolist() == list(SIZES.values())
    assert np.asarray(trace.constant_data["y_epsilon"]) == pytest.approx([0.5] * 3)
    assert trace.log_likelihood["y"].shape == (2, 100, 3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # 3 observations are few for Pareto smoothing
        found = az.loo(trace)
    assert np.isfinite(float(found.elpd_loo if "elpd_loo" in dir(found) else found.elpd))


def test_one_compiled_model_serves_many_releases():
    model, other = built(PUBLISHED), built(OTHERS)
    assert log_density(model) != pytest.approx(log_density(other))
    with model:
        pm.set_data({"y_released": [release["statistic"][0] for release in OTHERS.values()]})
    assert log_density(model) == pytest.approx(log_density(other), rel=1e-12)
    wide = [release_of(70, 30, scale=5.0, seed=20 + k) for k in range(3)]
    with model:
        values = {"released": [r["statistic"][0] for r in wide], "n": [70] * 3, "noise_scale": [5.0] * 3}
        pm.set_data({f"y_{what}": at for what, at in values.items()})
    assert log_density(model) == pytest.approx(log_density(built(wide)), rel=1e-12)


def test_much_more_noise_than_the_model_was_built_with():
    """The sum has 200,000 terms then; the central limit, which a new model would choose, is accurate."""
    n, scale, rates = 10**9, 1e6, special.expit([-1.0, 0.3, 0.0])
    released = np.round(n * rates + scale * np.array([0.5, -1.0, 2.0]))
    model = built(PUBLISHED)
    with model:
        pm.set_data({"y_n": [n] * 3, "y_noise_scale": [scale] * 3, "y_released": released})
    noise = PUBLISHED[next(iter(PUBLISHED))].noise.name
    limit = NoisyCount.dist(n, rates, noise=noise, noise_scale=scale, exact=False)
    due = pm.logp(limit, released).eval(mode=ONCE) + stats.beta.logpdf(rates, 2, 3) + np.log(rates * (1 - rates))
    assert log_density(model) == pytest.approx(due.sum(), abs=1e-6)


def test_a_release_in_every_form_is_the_same():
    release = release_of(40, 13)
    as_object = SimpleNamespace(model=BETA, n=40, noise=release.noise, observed=release["statistic"])
    found = set()
    for observed in (release, ps.PrivateStatistics(release=release), as_object):
        with pm.Model() as model:
            NoisyCount("y", p=0.3, observed=observed)
        found.add(float(model.compile_logp(mode=MODE)({})))
    with pm.Model() as model:
        NoisyCount("y", 40, 0.3, noise=release.noise, observed=release["statistic"][0])
    found.add(float(model.compile_logp(mode=MODE)({})))
    assert max(found) - min(found) < 1e-12


def test_interventions_and_pictures():
    pytest.importorskip("graphviz")
    model = built(PUBLISHED)
    assert "NoisyCount" in str(pm.model_to_graphviz(model))
    acted = pm.do(model, {"rate": np.full(3, 0.3)})
    assert [free.name for free in acted.free_RVs] == []
    with pm.Model(coords={"site": list(SIZES)}) as open_model:
        rate = pm.Beta("rate", 2.0, 3.0, dims="site")
        NoisyCount("y", n=list(SIZES.values()), p=rate, noise=ps.DiscreteLaplaceNoise(scale=2.0), dims="site")
    seen = pm.observe(open_model, {"y": np.array([r["statistic"][0] for r in PUBLISHED.values()])})
    assert log_density(seen) == pytest.approx(log_density(model), rel=1e-12)


def test_a_pickled_model_has_the_same_density():
    model = built(PUBLISHED)
    assert log_density(cloudpickle.loads(cloudpickle.dumps(model))) == pytest.approx(log_density(model), rel=1e-12)


def test_shapes_and_starting_points():
    noise = ps.LaplaceNoise(scale=2.0)
    assert pm.draw(NoisyCount.dist(9, 0.4, noise=noise, shape=(3, 2)), mode=MODE).shape == (3, 2)
    assert NoisyMultinomial.dist(9, [0.4, 0.3, 0.3], noise=noise, size=5).eval(mode=MODE).shape == (5, 3)
    with pm.Model() as model:
        NoisyCount("y", 10, 0.4, noise=noise)
        NoisyCount("z", 10, 0.4, noise=noise, initval=7.0)
    assert model.initial_point(random_seed=1) == {"y": 4.0, "z": 7.0}


NOISE = ps.LaplaceNoise(scale=2.0)
GAUSS = ps.NoisyStatistics(model=ps.GammaPoisson(shape=1, rate=1, upper=3), n=4, scale=1.0)
REFUSED = {
    "another model": (
        {"observed": GAUSS.release([1] * 4)},
        TypeError,
        "observes releases of BetaBernoulli, got one of Ga",
    ),
    "another mechanism": (
        {"observed": ps.GaussianMechanism(sensitivity=1, noise_std=1).release(3.0)},
        TypeError,
        "GaussianMechanism",
    ),
    "n that contradicts": (
        {"n": 41, "observed": release_of(40, 9)},
        ValueError,
        r"n is 41.*the release has 40.*leave n out",
    ),
    "noise that contradicts": ({"noise": NOISE, "observed": release_of(40, 9)}, ValueError, "noise is laplace, but"),
    "scale that contradicts": (
        {"noise": ps.DiscreteLaplaceNoise(scale=3.0), "observed": release_of(40, 9)},
        ValueError,
        r"noise_scale is 3.0, but the release has 2.0",
    ),
    "noise as a number": ({"n": 4, "noise": 2.0, "observed": 1.0}, TypeError, "noise must be a Noise.*got float"),
    "no noise": ({"n": 4, "observed": 1.0}, TypeError, "noise must be a Noise.*got NoneType"),
    "no n": ({"noise": NOISE, "observed": 1.0}, TypeError, "n must be given, unless observed is a release"),
    "a name without a scale": ({"n": 4, "noise": "laplace", "observed": 1.0}, TypeError, "noise_scale must be given"),
    "a negative scale": (
        {"n": 4, "noise": "laplace", "noise_scale": -1.0},
        ValueError,
        "noise_scale must be finite and > 0",
    ),
    "part of a record": ({"n": 4.5, "noise": NOISE, "observed": 1.0}, ValueError, "n must be whole and >= 1, got 4.5"),
    "a probability above one": ({"n": 4, "p": 1.5, "noise": NOISE}, ValueError, r"p must lie in \[0, 1\], got 1.5"),
    "a missing value": (
        {"n": 4, "noise": NOISE, "observed": [1.0, np.nan]},
        ValueError,
        "observed must be finite, got nan",
    ),
    "no data": ({"n": 4, "noise": NOISE, "observed": []}, ValueError, "at least one number"),
    "fractions": (
        {"n": 4, "noise": ps.DiscreteLaplaceNoise(scale=2.0), "observed": 1.5},
        ValueError,
        "whole numbers under discrete laplace noise, got 1.5",
    ),
    "shapes": (
        {"n": [4, 5, 6], "noise": NOISE, "observed": [1.0, 2.0]},
        ValueError,
        r"n of shape \(3,\) does not fit observed of shape \(2,\)",
    ),
    "dims without coords": (
        {"n": 4, "noise": NOISE, "observed": [1.0], "dims": "site"},
        ValueError,
        "'site' have no coords",
    ),
    "a mapping without dims": ({"observed": PUBLISHED}, ValueError, "needs dims with coords"),
    "keys that are no coords": (
        {"observed": PUBLISHED, "dims": "ward"},
        ValueError,
        r"keys of observed must be the coords of dim 'ward'",
    ),
    "releases with different noise": (
        {"observed": [release_of(9, 3), release_of(9, 3, noise="laplace")]},
        ValueError,
        "same noise, got discrete laplace, laplace",
    ),
    "words": ({"n": 4, "noise": NOISE, "observed": "many"}, TypeError, "observed must be numbers"),
    "copies": ({"n": 4, "noise": NOISE, "copies": 0}, ValueError, "copies must be whole and >= 1"),
}


@pytest.mark.parametrize(("given", "error", "words"), REFUSED.values(), ids=REFUSED)
def test_what_is_refused(given, error, words):
    with pm.Model(coords={"ward": ["x", "y"]}) as model, pytest.raises(error, match=words):
        NoisyCount("y", **{"p": 0.5, **given})
    assert not model.observed_RVs


def test_no_model_and_no_noisy_statistic():
    with pytest.raises(TypeError, match="no PyMC model is open"):
        NoisyCount("y", 4, 0.5, noise=NOISE)
    with pm.Model(), pytest.raises(TypeError, match="name must be a string"):
        NoisyCount(3, 4, 0.5, noise=NOISE)
    with pytest.raises(TypeError, match="must be a noisy statistic"):
        likelihood(pm.Normal.dist())


@pytest.mark.parametrize("given", [(1, 1e-6), [1.0, 1e-6]])
def test_a_target_as_a_pair(given):
    with pytest.raises(TypeError, match=r"write ps.DP\(epsilon=1.*, delta=1e-06\)"):
        ps.NoisyStatistics.calibrate(model=BETA, n=9, target=given)
    with pytest.raises(TypeError, match="got str"):
        ps.NoisyStatistics.calibrate(model=BETA, n=9, target="small")


LAPLACE = ps.LaplaceNoise(scale=2.0)


@pytest.mark.parametrize(
    ("distribution", "arguments", "words"),
    [
        (NoisyCount, {"n": 50, "p": 0.3, "observed": [1, 2], "dims": "site"}, "have lengths"),
        (NoisyCount, {"n": 50, "p": 0.3, "observed": 3, "epsilon": 1.0}, "no argument 'epsilon'"),
        (NoisyCount, {"n": 50, "p": 0.3, "observed": "12"}, "must be numbers"),
        (NoisyCount, {"n": 50, "p": 0.3, "observed": [1, 2, 3], "copies": 2}, "lengths"),
        (NoisyMultinomial, {"n": 50, "p": [0.5, 0.6], "observed": [1, 2]}, "add up to 1"),
        (NoisyMultinomial, {"n": 50, "p": [0.5, 0.5], "observed": [1, 2, 3]}, "lengths"),
        (NoisyMoments, {"n": 9, "mean": 0, "variance": 1, "bounds": (0, 1), "observed": [1, 2, 3]}, "lengths"),
    ],
)
def test_what_does_not_fit_is_refused_before_compilation(distribution, arguments, words):
    with pm.Model(coords={"site": list("abc")}), pytest.raises((TypeError, ValueError), match=words):
        distribution("y", noise=LAPLACE, **arguments)


def test_predictive_draws_have_new_laplace_noise():
    """The latent variances of the noise of the release do not enter: draws given them would have other variances."""
    with pm.Model() as model:
        y = NoisyMultinomial("y", 5000, [0.1, 0.8, 0.1], noise=ps.LaplaceNoise(scale=200.0), observed=[900, 4000, 600])
    drawn = pm.draw(pm.do(model, {"y_noise": np.full(3, 1e-6)})["y"], 2000, random_seed=1, mode=MODE)
    assert y.owner.op.settings["family"] == "laplace"
    assert (drawn.std(axis=0) > 200).all()  # the noise alone has 283, and the mean of its absolute value 200


def test_a_softmax_over_dims_has_the_categories_of_the_release():
    mechanism = ps.NoisyStatistics(model=ps.DirichletCategorical((1, 1, 1)), n=10, scale=1.0, noise="gaussian")
    release = mechanism.release([0, 1, 2, 0, 0, 1, 2, 0, 0, 0], rng=np.random.default_rng(1))
    with pm.Model(coords={"answer": ["yes", "no", "other"]}):
        z = pm.Normal("z", dims="answer")
        counts = NoisyMultinomial("counts", p=pm.math.softmax(z), observed=release, dims="answer")
    assert likelihood(counts)


def test_a_parameter_of_the_model_is_not_in_a_release():
    mechanism = ps.NoisyStatistics(model=ps.BetaBernoulli(1, 1), n=4, scale=1.0)
    release = mechanism.release([0, 1, 1, 1], rng=np.random.default_rng(1))
    with pm.Model(), pytest.raises(TypeError, match="p must be given: it is a parameter of your model"):
        NoisyCount("count", observed=release)

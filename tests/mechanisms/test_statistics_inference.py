"""What an analyst infers from noisy statistics: plug-in and noise-aware posteriors, and draws of them."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from privsample import (
    DP,
    BetaBernoulli,
    GammaExponential,
    GammaPoisson,
    GaussianNoise,
    LaplaceNoise,
    NoisyStatistics,
    NormalKnownVariance,
    PosteriorDraws,
    PrivateStatistics,
    Release,
)
from tests.mechanisms.noisy import BINARY, FRACTIONAL, NORMAL, SURVEY, TIMES, YES, each_model, private


@each_model
def test_any_prior_and_nothing_but_the_prior(model):
    statistics = private(NoisyStatistics(model=model, n=50, scale=0.5))
    plain = statistics.posterior()
    assert statistics.posterior(model) == plain
    changed = model.update_prior(np.full(np.shape(model.empty), 3.0), 6)
    assert statistics.posterior(changed) != plain
    other = BINARY if model is not BINARY else SURVEY
    for wrong in (other, "beta"):
        with pytest.raises(ValueError, match="in its prior only"):
            statistics.posterior(wrong)
        with pytest.raises(ValueError, match="in its prior only"):
            statistics.noise_aware(wrong)


def test_the_plug_in_posterior_stays_feasible():
    mechanism = NoisyStatistics(model=BINARY, n=50, scale=1e6)
    for seed in range(10):
        distribution = private(mechanism, rng=np.random.default_rng(seed)).posterior()
        assert distribution.a >= 1
        assert distribution.b >= 1
        assert distribution.a + distribution.b == 52


def test_counts_beside_enormous_noise_are_brought_to_the_simplex():
    for seen in ([1e300, 5.0, -1e300], [1e20, 1e20, 3.0], [-1e308, -1e308, -1e308], [4.0, 3.0, 3.0]):
        near = SURVEY.feasible(np.array(seen), 10)
        assert near.sum() == pytest.approx(10)
        assert (near >= 0).all()
    assert SURVEY.feasible(np.array([4.0, 3.0, 3.0]), 10).tolist() == [4.0, 3.0, 3.0]


def test_without_noise_and_clipping_both_posteriors_are_the_exact_one():
    wide = [replace(TIMES, upper=1e4), replace(NORMAL, bounds=(-1e3, 1e3)), GammaPoisson(shape=3, rate=1, upper=500)]
    for model in (BINARY, *wide):
        statistics = private(NoisyStatistics(model=model, n=50, scale=1e-6))
        truth = model.posterior(model.summarize(YES)[0], 50)
        for distribution in (statistics.posterior(), statistics.noise_aware()):
            assert distribution.mean == pytest.approx(truth.mean, rel=1e-4)
            assert distribution.variance == pytest.approx(truth.variance, rel=1e-4)


def test_what_has_no_noise_aware_posterior_in_closed_form():
    for model, message in ((SURVEY, "3 categories"), (FRACTIONAL, "fractional")):
        statistics = private(NoisyStatistics(model=model, n=50, scale=3))
        with pytest.raises(TypeError, match=message):
            statistics.noise_aware()
        assert np.isfinite(statistics.posterior().mean).all()


def test_several_copies_are_used_together():
    one = private(NoisyStatistics(model=NORMAL, n=50, scale=3, noise="gaussian", draws=9))
    assert one.statistic == pytest.approx(one.observed.mean())
    single = NoisyStatistics(model=NORMAL, n=50, scale=1, noise="gaussian")
    merged = PrivateStatistics(
        release=Release(mechanism=single, draws={"statistic": one.observed.mean()[None]}, account=single.accountant)
    )
    assert one.noise_aware().mean == pytest.approx(merged.noise_aware().mean)
    assert one.noise_aware().variance == pytest.approx(merged.noise_aware().variance)
    assert one.noise == GaussianNoise(noise_std=3)


def test_draws_carry_the_account_and_say_how_they_were_made():
    statistics = private(NoisyStatistics(model=BINARY, n=50, scale=3))
    exact = statistics.draw(500, rng=np.random.default_rng(1))
    assert isinstance(exact, PosteriorDraws)
    assert exact["theta"].shape == (500,)
    assert exact.account == statistics.account
    assert "exact" in exact.method
    assert exact == statistics.draw(500, rng=np.random.default_rng(1))
    assert "plug-in" in statistics.draw(5, plug_in=True).method
    assert exact.to_arviz().posterior.attrs["privsample_method"] == exact.method
    assert "50" in exact.statement()
    for seed in (0, "seed"):
        with pytest.raises(TypeError, match="Generator or None"):
            statistics.draw(5, rng=seed)
    with pytest.raises(ValueError, match="draws"):
        statistics.draw(0)


# Calibration by simulation: Talts, Betancourt, Simpson, Vehtari and Gelman 2018.


def ranks(model, n, noise, scale, rng, *, plug_in, pairs=1000):
    """The posterior probability below the parameter that made the data: uniform if the posterior is right."""
    prior = model.prior.sample(pairs, rng)
    total = np.array([model.statistic(model.simulate(theta, n, rng)) for theta in prior])
    mechanism = NoisyStatistics(model=model, n=n, scale=scale, noise=noise)
    noisy = total[:, None] + mechanism.distribution.sample((pairs, 1), rng)
    found = np.empty(pairs)
    for i, (theta, seen) in enumerate(zip(prior, noisy, strict=True)):
        release = Release(mechanism=mechanism, draws={"statistic": seen}, account=mechanism.accountant)
        distribution = PrivateStatistics(release=release)
        if plug_in:
            plain = distribution.posterior()
            found[i] = stats.beta.cdf(theta, plain.a, plain.b)
        else:
            aware = distribution.noise_aware()
            found[i] = (
                aware.below(theta) if hasattr(aware, "below") else stats.norm.cdf(theta, aware.location, aware.scale)
            )
    return found


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("n", "epsilon"),
    [
        (20, 0.1),
        (100, 0.3),
        (1000, 1.0),
        pytest.param(20, 1.0, marks=pytest.mark.long),
        pytest.param(1000, 0.1, marks=pytest.mark.long),
    ],
)
@pytest.mark.parametrize("noise", ["discrete laplace", "laplace", "gaussian", "discrete gaussian"])
def test_noise_aware_posteriors_of_counts_are_calibrated(n, epsilon, noise, rng, alpha):
    found = ranks(BetaBernoulli(alpha=2, beta=3), n, noise, 1 / epsilon, rng, plug_in=False)
    assert stats.kstest(found, "uniform").pvalue > alpha


@pytest.mark.statistical
@pytest.mark.parametrize(("n", "epsilon"), [(20, 0.1), (20, 0.3), (100, 0.1)])
def test_the_plug_in_is_not(n, epsilon, rng, alpha):
    assert 2 / epsilon**2 > n / 4  # the noise's variance and the most that sampling has
    found = ranks(BetaBernoulli(alpha=2, beta=3), n, "discrete laplace", 1 / epsilon, rng, plug_in=True)
    assert stats.kstest(found, "uniform").pvalue <= alpha


SUMS = {
    "times": GammaExponential(shape=3, rate=2, upper=0.5),  # the bound is the median of the prior's records, or about
    "normal": NormalKnownVariance(mean=1, variance=0.5, noise_variance=1, bounds=(-2, 1)),
    "counts": GammaPoisson(shape=3, rate=1, upper=3),
}
WIDE = {  # bounds that no record reaches: their likelihood is what was taken for that of clipped records before
    "times": replace(SUMS["times"], upper=1e6),
    "normal": replace(SUMS["normal"], bounds=(-1e4, 1e4)),
    "counts": replace(SUMS["counts"], upper=10**4),
}


def calibration_cases():
    """Each model with one noise, and the mutant, with few pairs; both noises with more pairs in the long lane."""
    short = {("normal", "gaussian"), ("counts", "laplace"), ("times", "gaussian")}
    for name, noise in itertools.product(SUMS, ("laplace", "gaussian")):
        if (name, noise) in short:
            yield pytest.param(name, noise, "modelled", True, 5, id=f"{name}-{noise}")
        yield pytest.param(name, noise, "modelled", True, 40, id=f"{name}-{noise}-40", marks=pytest.mark.long)
    for name in SUMS:
        yield pytest.param(name, "gaussian", "ignored", False, 5, id=f"{name}-mutant")


@pytest.mark.statistical
@pytest.mark.parametrize(("name", "noise", "bounds", "accepted", "pairs"), list(calibration_cases()))
def test_noise_aware_posteriors_of_sums_are_calibrated(name, noise, bounds, accepted, pairs, rng, alpha):
    """Half of the records clip, also in the mutant, whose likelihood ignores the bounds.

    Narrow priors: with hardly any record between the bounds a posterior under Laplace noise takes seconds. Of
    2,000 records the mutant's probabilities are below 1e-14 or above 0.999, all on one side for a model, so that five
    pairs suffice: the p-value is below 2e-15.
    """
    prior = {"times": {"shape": 12, "rate": 8}, "normal": {"variance": 0.1}, "counts": {"shape": 30, "rate": 10}}[name]
    model = replace(SUMS[name], **prior)
    assumed = model if bounds == "modelled" else replace(WIDE[name], **prior)
    found = []
    distribution = NoisyStatistics(model=model, n=2000, scale=12.0, noise=noise).distribution
    for theta in model.prior.sample(pairs, rng):
        total = model.statistic(model.simulate(theta, 2000, rng))
        found.append(
            float(
                assumed.noise_aware(2000, distribution, total + distribution.sample((1,), rng)).distribution.below(
                    theta
                )
            )
        )
    assert (stats.kstest(found, "uniform").pvalue > alpha) == accepted


@pytest.mark.statistical
@pytest.mark.parametrize(("bounds", "accepted"), [("modelled", True), ("ignored", False)])
@pytest.mark.parametrize(
    "name", ["counts", *(pytest.param(name, marks=pytest.mark.long) for name in ("times", "normal"))]
)
def test_intervals_hold_the_truth_where_a_quarter_of_the_records_clip(name, bounds, accepted, rng, alpha):
    """Ninety per cent intervals of releases of 4,000 records at epsilon = 0.3, against their binomial distribution.

    Intervals that ignore the bounds lie 7 standard deviations off: of 100 releases none held the truth for any model,
    and the test rejects if none of 10 does at alpha = 1e-9.
    """
    theta, clipped = {"times": (0.5, {"upper": 2.8}), "normal": (0.325, {"bounds": (-4, 1)}), "counts": (2.0, {})}[name]
    model = replace(SUMS[name], **clipped)
    assumed = model if bounds == "modelled" else WIDE[name]
    mechanism = NoisyStatistics.calibrate(model=model, n=4000, target=DP(epsilon=0.3, delta=0.0))
    share = np.mean(model.simulate(np.array(theta), 10**5, rng) == model.domain.high)
    assert 0.2 < share < 0.35
    held = 0
    for _ in range(10):
        seen = mechanism.release(model.simulate(np.array(theta), 4000, rng), rng=rng)["statistic"]
        held += 0.05 <= float(assumed.noise_aware(4000, mechanism.distribution, seen).distribution.below(theta)) <= 0.95
    assert (stats.binomtest(held, 10, 0.9).pvalue > alpha) == accepted


@pytest.mark.long  # compiling takes twenty seconds; the next test compares the density that is compiled
def test_draws_of_chains_are_those_of_the_exact_route(rng):
    """Central limit of 400 clipped records against their exact likelihood: intervals a few hundredths apart."""
    pytest.importorskip("pymc")
    model = replace(SUMS["normal"], bounds=(-4, 1))
    mechanism = NoisyStatistics.calibrate(model=model, n=400, target=DP(epsilon=1, delta=0.0))
    statistics = private(mechanism, model.simulate(np.array(0.325), 400, rng), rng)
    distribution = statistics.noise_aware()
    drawn = statistics.mcmc(500, tune=500, chains=2, rng=rng)[model.parameter]
    spread = float(distribution.variance) ** 0.5
    assert np.quantile(drawn, [0.05, 0.95]) == pytest.approx(
        distribution.quantile(np.array([0.05, 0.95])), abs=0.35 * spread
    )
    ignored = WIDE["normal"].noise_aware(400, mechanism.distribution, statistics.observed).distribution
    assert abs(float(ignored.mean) - drawn.mean()) > spread


@pytest.mark.parametrize(
    ("name", "clipped", "theta", "coordinate"),
    [
        ("times", {"upper": 2.8}, 0.5, lambda model, theta: np.log(model.rate * theta)),
        ("normal", {"bounds": (-4, 1)}, 0.325, lambda model, theta: (theta - model.mean) / model.variance**0.5),
    ],
    ids=["times", "normal"],
)
def test_the_density_of_chains_is_that_of_the_exact_route(name, clipped, theta, coordinate, rng, monkeypatch):
    """The density that NUTS would be given, in the coordinate of the graph, because compiling it takes long."""
    pymc_fits = pytest.importorskip("privsample.interop.pymc_fits")
    model = replace(SUMS[name], **clipped)
    mechanism = NoisyStatistics.calibrate(model=model, n=400, target=DP(epsilon=1, delta=0.0))
    statistics = private(mechanism, model.simulate(np.array(theta), 400, rng), rng)
    built = []

    def stop(graph, **settings):
        built.append(graph)
        raise KeyboardInterrupt

    monkeypatch.setattr(pymc_fits, "sampler", lambda: "pymc")
    monkeypatch.setattr(pymc_fits, "run", stop)
    with pytest.raises(KeyboardInterrupt):
        statistics.mcmc()
    density, (variable,) = built[0].compile_logp(jacobian=False, mode="FAST_COMPILE"), built[0].value_vars
    exact = statistics.noise_aware()
    at = exact.quantile(np.array([0.05, 0.3, 0.5, 0.7, 0.95]))
    found = np.array([density({variable.name: coordinate(model, each)}) for each in at])
    assert np.ptp(found - exact.log_density(at)) < 0.1  # equal up to a constant
    ignored = WIDE[name].noise_aware(400, mechanism.distribution, statistics.observed).distribution
    assert np.ptp(found - ignored.log_density(at)) > 1.0
    drawn = statistics.draw(20_000, rng=rng)
    assert "sum of clipped records" in drawn.method
    assert drawn[model.parameter].mean() == pytest.approx(float(exact.mean), abs=0.05 * float(exact.variance) ** 0.5)
    plain = statistics.draw(5, plug_in=True, rng=rng)
    assert plain.method == "plug-in: the noise and the clipping of records are ignored"


def test_the_examples_of_clipped_releases():
    """Central releases of the two models whose intervals missed the truth when the bound was ignored."""
    times = GammaExponential(shape=2, rate=2, upper=3)
    seen = np.array([400 * (1 - np.exp(-1.5)) / 0.5])
    low, high = times.noise_aware(400, LaplaceNoise(scale=3.0), seen).distribution.quantile(np.array([0.05, 0.95]))
    assert 0.44 < low < 0.5 < high < 0.56
    normal = NormalKnownVariance(mean=0, variance=1, noise_variance=1, bounds=(-1, 1))
    mean = -stats.norm.cdf(-2) + 0.5 + stats.norm.cdf(0) - stats.norm.cdf(-2) + stats.norm.pdf(-2) - stats.norm.pdf(0)
    distribution = normal.noise_aware(400, LaplaceNoise(scale=2.0), np.array([400 * mean])).distribution
    low, high = distribution.quantile(np.array([0.05, 0.95]))
    assert 0.88 < low < 1.0 < high < 1.12


@pytest.mark.parametrize("observed", [-38.6, 398.0, 412.0, -400.0, pytest.param(273.0, marks=pytest.mark.long)])
def test_a_wide_prior_and_narrow_bounds_need_no_logarithm_of_zero(observed):
    """The density of a strongly tilted record can lie between two neighbouring doubles."""
    model = NormalKnownVariance(0, 9, noise_variance=1, bounds=(-1, 1))
    found = model.noise_aware(400, LaplaceNoise(scale=5.0), np.array([observed])).distribution
    assert abs(found.mean) < 5

"""What an analyst infers from noisy statistics: plug-in and noise-aware posteriors, and draws of them."""

import numpy as np
import pytest
from scipy import stats

from privsample import (
    BetaBernoulli,
    GammaExponential,
    GammaPoisson,
    GaussianNoise,
    NoisyStatistics,
    NormalKnownVariance,
    PosteriorDraws,
    PrivateStatistics,
    Release,
)
from tests.mechanisms.noisy import BINARY, FRACTIONAL, MODELS, NORMAL, SURVEY, YES, each_model, private


@each_model
def test_any_prior_and_nothing_but_the_prior(model):
    statistics = private(NoisyStatistics(model=model, n=50, scale=0.5))
    plain = statistics.posterior()
    assert statistics.posterior(model) == plain
    changed = model.absorb(np.full(np.shape(model.empty), 3.0), 6)
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
        law = private(mechanism, rng=np.random.default_rng(seed)).posterior()
        assert law.a >= 1
        assert law.b >= 1
        assert law.a + law.b == 52


def test_counts_beside_enormous_noise_are_brought_to_the_simplex():
    for seen in ([1e300, 5.0, -1e300], [1e20, 1e20, 3.0], [-1e308, -1e308, -1e308], [4.0, 3.0, 3.0]):
        near = SURVEY.feasible(np.array(seen), 10)
        assert near.sum() == pytest.approx(10)
        assert (near >= 0).all()
    assert SURVEY.feasible(np.array([4.0, 3.0, 3.0]), 10).tolist() == [4.0, 3.0, 3.0]


def test_without_noise_both_posteriors_are_the_exact_one():
    for model in (model for model in MODELS if model not in (FRACTIONAL, SURVEY)):
        statistics = private(NoisyStatistics(model=model, n=50, scale=1e-6))
        truth = model.posterior(model.summarize(YES)[0], 50)
        for law in (statistics.posterior(), statistics.noise_aware()):
            assert law.mean == pytest.approx(truth.mean, rel=1e-4)
            assert law.variance == pytest.approx(truth.variance, rel=1e-4)


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
    noisy = total[:, None] + mechanism.law.sample((pairs, 1), rng)
    found = np.empty(pairs)
    for i, (theta, seen) in enumerate(zip(prior, noisy, strict=True)):
        release = Release(mechanism=mechanism, draws={"statistic": seen}, account=mechanism.accountant)
        law = PrivateStatistics(release=release)
        if plug_in:
            plain = law.posterior()
            found[i] = stats.beta.cdf(theta, plain.a, plain.b)
        else:
            aware = law.noise_aware()
            found[i] = (
                aware.below(theta) if hasattr(aware, "below") else stats.norm.cdf(theta, aware.location, aware.scale)
            )
    return found


@pytest.mark.statistical
@pytest.mark.parametrize(("n", "epsilon"), [(20, 0.1), (20, 1.0), (100, 0.3), (1000, 0.1), (1000, 1.0)])
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


@pytest.mark.statistical
@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
@pytest.mark.parametrize("name", ["times", "normal", "counts"])
def test_noise_aware_posteriors_of_sums_are_calibrated(name, noise, rng, alpha):
    """Bounds that no record reaches: the posterior is that of records that were not clipped."""
    model = {
        "times": GammaExponential(shape=3, rate=2, upper=1e9),
        "normal": NormalKnownVariance(mean=1, variance=2, noise_variance=3, bounds=(-1e3, 1e3)),
        "counts": GammaPoisson(shape=3, rate=1, upper=10**6),
    }[name]
    found = ranks(model, 30, noise, 8.0, rng, plug_in=False, pairs=600)
    assert stats.kstest(found, "uniform").pvalue > alpha

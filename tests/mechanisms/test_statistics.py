"""Noisy statistics from curator to analyst: the release, its file, and what may be inferred from it."""

import json

import numpy as np
import pytest
from scipy import stats

from privsample import (
    DP,
    RDP,
    ZCDP,
    Assumption,
    BetaBernoulli,
    DirectPosterior,
    DirichletCategorical,
    DiscreteLaplaceNoise,
    GammaExponential,
    GammaPoisson,
    GaussianNoise,
    LaplaceNoise,
    LinearRegression,
    NoisyStatistics,
    NormalKnownVariance,
    PosteriorDraws,
    PrivateStatistics,
    Release,
    ReplaceOne,
    StatisticsAccountant,
)
from privsample.distributions.geometry import ONE_HOT
from privsample.errors import SchemaError, UnreachableTarget

BINARY = BetaBernoulli(alpha=1, beta=1)
SURVEY = DirichletCategorical(alpha=(1, 1, 1))
MODELS = [
    BINARY,
    BetaBernoulli(alpha=1, beta=1, fractional=True),
    SURVEY,
    GammaPoisson(shape=3, rate=1, upper=5),
    GammaExponential(shape=3, rate=2, upper=1.5),
    NormalKnownVariance(mean=0, variance=1, noise_variance=2, bounds=(-1, 1)),
]
each_model = pytest.mark.parametrize("model", MODELS, ids=lambda m: type(m).__name__)
YES = np.repeat([0.0, 1.0], [30, 20])


def private(mechanism, data=YES, rng=None):
    return PrivateStatistics(release=mechanism.release(data, rng=rng))


@each_model
def test_the_default_noise_fits_the_statistic(model):
    mechanism = NoisyStatistics(model=model, n=50, scale=2)
    whole = model.differences.whole
    assert mechanism.noise == ("discrete laplace" if whole else "laplace")
    assert mechanism.law == (DiscreteLaplaceNoise(scale=2) if whole else LaplaceNoise(scale=2))
    statistics = private(mechanism)
    assert statistics.observed.shape == (1, *np.shape(model.empty))
    assert not whole or (statistics.observed == np.rint(statistics.observed)).all()
    assert statistics.noise == mechanism.law
    assert (statistics.n, statistics.model) == (50, model)
    if not whole:
        with pytest.raises(ValueError, match="a noise law that does not fit the statistic"):
            NoisyStatistics(model=model, n=50, scale=2, noise="discrete gaussian")


@each_model
@pytest.mark.parametrize("target", [RDP(order=2, epsilon=0.3), ZCDP(rho=0.01), DP(epsilon=0.5)], ids=str)
def test_calibrated_noise_meets_its_target_and_no_less_does(model, target):
    made = NoisyStatistics.calibrate(model=model, n=50, target=target)
    assert target.met_by(made.accountant)
    less = NoisyStatistics(model=model, n=50, scale=made.scale * (1 - 1e-6))
    assert not target.met_by(less.accountant)


@pytest.mark.parametrize("noise", ["laplace", "gaussian", "discrete laplace", "discrete gaussian"])
@pytest.mark.parametrize("model", [BINARY, SURVEY], ids=["count", "counts"])
def test_calibration_at_a_delta(model, noise):
    target = DP(epsilon=1.0, delta=1e-6)
    made = NoisyStatistics.calibrate(model=model, n=50, target=target, noise=noise)
    assert target.met_by(made.accountant)
    assert made.accountant.epsilon(1e-6) == pytest.approx(1.0, rel=1e-6)


def test_what_cannot_be_calibrated():
    with pytest.raises(UnreachableTarget, match="loss is unbounded"):
        NoisyStatistics.calibrate(model=BINARY, n=50, noise="gaussian", target=DP(epsilon=1))
    with pytest.raises(UnreachableTarget):
        NoisyStatistics.calibrate(model=BINARY, n=50, noise="discrete gaussian", target=DP(epsilon=1))
    with pytest.raises(ValueError, match="noise must be one of"):
        NoisyStatistics.calibrate(model=BINARY, n=50, noise="cauchy", target=DP(epsilon=1))


def test_the_account_is_that_of_the_differences_of_records():
    mechanism = NoisyStatistics(model=SURVEY, n=50, scale=2, draws=3, unit="answer")
    assert mechanism.accountant == StatisticsAccountant(
        differences=ONE_HOT, n=50, noise=DiscreteLaplaceNoise(scale=2), draws=3, unit="answer"
    )
    assert mechanism.accountant.relation == ReplaceOne(n=50, unit="answer")
    assert "answer" in mechanism.release(YES).statement()


@pytest.mark.statistical
@pytest.mark.parametrize(("factor", "accepted"), [(1.0, True), (0.9, False), (1.1, False)])
@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
def test_a_release_is_the_statistic_and_its_noise(noise, factor, accepted, rng, alpha):
    model = GammaExponential(shape=3, rate=2, upper=1.5)
    data = np.array([9.0, -1.0, np.nan, 0.5])
    mechanism = NoisyStatistics(model=model, n=4, scale=2 * factor, noise=noise, draws=100_000)
    law = stats.laplace(2.0, 2.0) if noise == "laplace" else stats.norm(2.0, 2.0)
    assert (stats.kstest(mechanism.release(data, rng=rng)["statistic"], law.cdf).pvalue > alpha) == accepted


def test_curator_and_analyst_on_different_machines(tmp_path):
    sent = private(NoisyStatistics(model=SURVEY, n=50, scale=2, draws=2))
    sent.save(tmp_path / "counts.json")
    received = PrivateStatistics.load(tmp_path / "counts.json")
    assert received == sent
    assert received.account == sent.account
    assert received.posterior() == sent.posterior()
    assert PrivateStatistics(release=Release.from_json(sent.release.to_json())) == sent
    with pytest.raises(FileExistsError):
        sent.save(tmp_path / "counts.json")


def altered(text, change):
    document = json.loads(text)
    change(document)
    return json.dumps(document)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda d: d["draws"]["statistic"]["values"].__setitem__(0, 20.5), "altered"),
        (lambda d: d["mechanism"].__setitem__("scale", 9.0), "own"),
        (lambda d: d["mechanism"].__setitem__("n", 51), "own"),
        (lambda d: d["account"]["noise"].__setitem__("scale", 9.0), "own"),
        (lambda d: d.__setitem__("format", 99), "upgrade privsample"),
        (lambda d: d["mechanism"].__setitem__("sampler", "quantum"), "sampler"),
        (lambda d: d["mechanism"].__setitem__("type", "FutureStatistics"), "no value of this version"),
        (lambda d: d.pop("account"), "lacks a part"),
    ],
)
def test_altered_and_newer_files_are_refused(tmp_path, change, message):
    text = private(NoisyStatistics(model=BINARY, n=50, scale=2)).release.to_json()
    path = tmp_path / "altered.json"
    path.write_text(altered(text, change), encoding="utf-8")
    with pytest.raises(ValueError, match=message):
        PrivateStatistics.load(path)


def test_rows_are_released_and_validated():
    model = LinearRegression(feature_bounds=((-1, 1),), target_bounds=(-2, 2), shape=2, scale=2)
    rows, targets = np.linspace(-2, 2, 50)[:, None], np.linspace(-1, 1, 50)
    mechanism = NoisyStatistics(model=model, n=50, scale=3, noise="gaussian")
    assert private(mechanism, (rows, targets)).posterior().mean.shape == (3,)
    assert "outside" in mechanism.validate((rows, targets)).text()
    with pytest.raises(SchemaError, match="50 records were declared"):
        mechanism.validate((rows[:-1], targets[:-1]))
    assert "50 records" in NoisyStatistics(model=BINARY, n=50, scale=3).validate(YES).text()


def test_only_noisy_statistics_are_wrapped(tmp_path):
    other = DirectPosterior(model=BINARY, n=50).release(YES)
    with pytest.raises(TypeError, match="got DirectPosterior"):
        PrivateStatistics(release=other)
    with pytest.raises(TypeError, match="got ndarray"):
        PrivateStatistics(release=np.zeros(3))
    other.save(tmp_path / "other.json")
    with pytest.raises(TypeError, match="NoisyStatistics"):
        PrivateStatistics.load(tmp_path / "other.json")


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


def test_without_noise_both_posteriors_are_the_exact_one():
    for model in MODELS[:1] + MODELS[3:]:
        statistics = private(NoisyStatistics(model=model, n=50, scale=1e-6))
        truth = model.posterior(model.summarize(YES)[0], 50)
        for law in (statistics.posterior(), statistics.noise_aware()):
            assert law.mean == pytest.approx(truth.mean, rel=1e-4)
            assert law.variance == pytest.approx(truth.variance, rel=1e-4)


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


def test_what_has_no_noise_aware_posterior_in_closed_form():
    for model, message in ((SURVEY, "3 categories"), (MODELS[1], "fractional")):
        statistics = private(NoisyStatistics(model=model, n=50, scale=3))
        with pytest.raises(TypeError, match=message):
            statistics.noise_aware()
        assert statistics.posterior().mean is not None


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"scale": 0.0}, "scale must be finite and > 0"),
        ({"scale": -1.0}, "scale"),
        ({"scale": np.nan}, "scale"),
        ({"noise": "cauchy"}, "noise must be one of"),
        ({"n": 0}, "n must"),
        ({"draws": 0}, "draws must"),
        ({"sampler": "dice"}, "sampler must be"),
        ({"sampler": "opendp", "noise": "laplace"}, "discrete noise only"),
    ],
)
def test_bad_parameters(fields, message):
    with pytest.raises(ValueError, match=message):
        NoisyStatistics(**{"model": BINARY, "n": 5, "scale": 1.0, **fields})
    with pytest.raises(TypeError, match="model"):
        NoisyStatistics(model="beta", n=5, scale=1.0)


def test_exact_draws_take_an_assumption_away():
    pytest.importorskip("opendp")
    mechanism = NoisyStatistics(model=SURVEY, n=50, scale=2, sampler="opendp", draws=20)
    release = mechanism.release(YES)
    assert release.account.assumptions == frozenset()
    assert release["statistic"].shape == (20, 3)
    assert Release.from_json(release.to_json()) == release
    assert mechanism.release(YES) != release
    assert NoisyStatistics(model=SURVEY, n=50, scale=2).accountant.assumptions == {Assumption.IDEAL_REALS}
    with pytest.raises(ValueError, match="leave rng out"):
        mechanism.release(YES, rng=np.random.default_rng(0))
    with pytest.raises(TypeError, match="Generator or None"):
        mechanism.release(YES, rng=3)
    with pytest.raises(SchemaError):
        mechanism.release(YES[:-1])


def test_exact_draws_need_opendp(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "opendp.prelude", None)
    with pytest.raises(ImportError, match=r"privsample\[exact\]"):
        NoisyStatistics(model=SURVEY, n=50, scale=2, sampler="opendp").release(YES)


def test_several_copies_are_used_together():
    one = private(NoisyStatistics(model=NormalKnownVariance(**NORMAL), n=50, scale=3, noise="gaussian", draws=9))
    assert one.statistic == pytest.approx(one.observed.mean())
    single = NoisyStatistics(model=NormalKnownVariance(**NORMAL), n=50, scale=1, noise="gaussian")
    merged = PrivateStatistics(
        release=Release(mechanism=single, draws={"statistic": one.observed.mean()[None]}, account=single.accountant)
    )
    assert one.noise_aware().mean == pytest.approx(merged.noise_aware().mean)
    assert one.noise_aware().variance == pytest.approx(merged.noise_aware().variance)
    assert one.noise == GaussianNoise(noise_std=3)


NORMAL = {"mean": 0.0, "variance": 1.0, "noise_variance": 2.0, "bounds": (-1.0, 1.0)}


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
            found[i] = (
                stats.beta.cdf(theta, plain.a, plain.b)
                if hasattr(plain, "a")
                else np.mean(plain.sample(400, rng) < theta)
            )
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


def test_counts_beside_enormous_noise_are_brought_to_the_simplex():
    model = DirichletCategorical(alpha=(1.0, 1.0, 1.0))
    for seen in ([1e300, 5.0, -1e300], [1e20, 1e20, 3.0], [-1e308, -1e308, -1e308], [4.0, 3.0, 3.0]):
        near = model.feasible(np.array(seen), 10)
        assert near.sum() == pytest.approx(10)
        assert (near >= 0).all()
    assert model.feasible(np.array([4.0, 3.0, 3.0]), 10).tolist() == [4.0, 3.0, 3.0]

"""Noisy statistics from curator to analyst: the release, what it costs, and its file."""

import itertools
import json

import numpy as np
import pytest
from scipy import stats

from privsample import (
    DP,
    RDP,
    ZCDP,
    Assumption,
    DirectPosterior,
    DiscreteLaplaceNoise,
    LaplaceNoise,
    LinearRegression,
    NoisyStatistics,
    NormalUnknownVariance,
    PrivateStatistics,
    Release,
    ReplaceOne,
    StatisticsAccountant,
)
from privsample.distributions.record_sensitivity import ONE_HOT
from privsample.errors import SchemaError, UnreachableTarget
from tests.mechanisms.documents import with_digest
from tests.mechanisms.noisy import BINARY, SURVEY, TIMES, YES, each_model, private


@each_model
def test_the_default_noise_fits_the_statistic(model):
    mechanism = NoisyStatistics(model=model, n=50, scale=2)
    whole = model.record_sensitivity.integer_valued
    assert mechanism.noise == ("discrete laplace" if whole else "laplace")
    assert mechanism.distribution == (DiscreteLaplaceNoise(scale=2) if whole else LaplaceNoise(scale=2))
    statistics = private(mechanism)
    assert statistics.observed.shape == (1, *np.shape(model.empty))
    assert not whole or (statistics.observed == np.rint(statistics.observed)).all()
    assert statistics.noise == mechanism.distribution
    assert (statistics.n, statistics.model) == (50, model)
    if not whole:
        with pytest.raises(ValueError, match="noise must be continuous"):
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


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"scale": 0.0}, "scale must be finite and > 0"),
        ({"scale": -1.0}, "scale"),
        ({"scale": np.nan}, "scale"),
        ({"noise": "cauchy"}, "noise must be one of"),
        ({"n": 0}, "n must"),
        ({"draws": 0}, "draws must"),
        ({"grid": 0.3}, "grid must be a power of two"),
        ({"grid": 2.0}, "grid must be at most 1 for an integer statistic"),
        ({"grid": 0.5, "exact": False}, "grid must be None with exact=False"),
    ],
)
def test_bad_parameters(fields, message):
    with pytest.raises(ValueError, match=message):
        NoisyStatistics(**{"model": BINARY, "n": 5, "scale": 1.0, **fields})
    with pytest.raises(TypeError, match="model"):
        NoisyStatistics(model="beta", n=5, scale=1.0)


@pytest.mark.parametrize(
    "model",
    [
        LinearRegression(feature_bounds=((0.0, 1.0),), target_bounds=(-1.0, 2.0), shape=2, scale=1),
        NormalUnknownVariance(mean=0, observations=1, shape=2, scale=1, bounds=(-1, 1)),
    ],
)
def test_records_of_an_audit_attain_the_pure_guarantee_of_moments(model):
    """The largest loss of Laplace noise, over all signs of far outputs, is the L1 distance of the moments."""
    mechanism = NoisyStatistics(model=model, n=10, noise="laplace", scale=3.0)
    cases = mechanism.worst_neighbours()
    signs = (np.array(list(itertools.product([1e6, -1e6], repeat=case.width))) for case in cases)
    largest = max(np.abs(case.loss(outputs)).max() for case, outputs in zip(cases, signs, strict=True))
    assert largest == pytest.approx(mechanism.accountant.pure_epsilon, rel=3e-3)  # the weight of squares is rounded


def test_what_cannot_be_calibrated():
    with pytest.raises(UnreachableTarget, match="is unbounded"):
        NoisyStatistics.calibrate(model=BINARY, n=50, noise="gaussian", target=DP(epsilon=1))
    with pytest.raises(UnreachableTarget):
        NoisyStatistics.calibrate(model=BINARY, n=50, noise="discrete gaussian", target=DP(epsilon=1))
    with pytest.raises(ValueError, match="noise must be one of"):
        NoisyStatistics.calibrate(model=BINARY, n=50, noise="cauchy", target=DP(epsilon=1))


def test_the_account_is_that_of_the_differences_of_records():
    mechanism = NoisyStatistics(model=SURVEY, n=50, scale=2, draws=3, unit="answer")
    assert mechanism.accountant == StatisticsAccountant(
        differences=ONE_HOT,
        n=50,
        noise=DiscreteLaplaceNoise(scale=2),
        draws=3,
        unit="answer",
        assumptions=frozenset(),
    )
    assert mechanism.accountant.relation == ReplaceOne(n=50, unit="answer")
    assert "answer" in mechanism.release(YES).statement()


@pytest.mark.statistical
@pytest.mark.parametrize(("factor", "accepted"), [(1.0, True), (0.9, False), (1.1, False)])
@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
def test_a_release_is_the_statistic_and_its_noise(noise, factor, accepted, rng, alpha):
    data = np.array([9.0, -1.0, np.nan, 0.5])
    mechanism = NoisyStatistics(model=TIMES, n=4, scale=2 * factor, noise=noise, draws=100_000)
    distribution = stats.laplace(2.0, 2.0) if noise == "laplace" else stats.norm(2.0, 2.0)
    assert (stats.kstest(mechanism.release(data, rng=rng)["statistic"], distribution.cdf).pvalue > alpha) == accepted


def test_rows_are_released_and_validated():
    model = LinearRegression(feature_bounds=((-1, 1),), target_bounds=(-2, 2), shape=2, scale=2)
    rows, targets = np.linspace(-2, 2, 50)[:, None], np.linspace(-1, 1, 50)
    mechanism = NoisyStatistics(model=model, n=50, scale=3, noise="gaussian")
    assert private(mechanism, (rows, targets)).posterior().mean.shape == (3,)
    assert "outside" in mechanism.validate((rows, targets)).text()
    with pytest.raises(SchemaError, match="50 records were declared"):
        mechanism.validate((rows[:-1], targets[:-1]))
    assert "50 records" in NoisyStatistics(model=BINARY, n=50, scale=3).validate(YES).text()


@pytest.mark.parametrize("noise", ["laplace", "gaussian", "discrete laplace", "discrete gaussian"])
def test_exact_draws_take_an_assumption_away(noise):
    mechanism = NoisyStatistics(model=SURVEY, n=50, scale=2, noise=noise, draws=20)
    release = mechanism.release(YES)
    assert release.account.assumptions == frozenset()
    assert release["statistic"].shape == (20, 3)
    assert release.grid == {"statistic": 1.0 if noise.startswith("discrete") else 2.0**-40}
    assert Release.from_json(release.to_json()) == release
    assert mechanism.release(YES) != release
    floats = NoisyStatistics(model=SURVEY, n=50, scale=2, noise=noise, exact=False)
    assert floats.accountant.assumptions == {Assumption.IDEAL_REALS}
    assert floats.release(YES).grid is None
    assert mechanism.release(YES, rng=np.random.default_rng(0)).account.assumptions == {Assumption.RNG_FRESH}
    with pytest.raises(TypeError, match="Generator or None"):
        mechanism.release(YES, rng=3)
    with pytest.raises(SchemaError):
        mechanism.release(YES[:-1])


def test_draws_lie_on_the_grid(rng):
    mechanism = NoisyStatistics(model=TIMES, n=4, scale=2, noise="gaussian", grid=0.25, draws=1000)
    drawn = mechanism.release(np.array([9.0, 0.1, np.nan, 0.5]), rng=rng)["statistic"]
    assert (drawn * 4 == np.rint(drawn * 4)).all()
    assert len(np.unique(drawn)) > 20


def test_a_model_without_an_exact_sum_draws_floating_point_numbers(rng):
    """A statistic that a user states as a function is added in floating-point numbers."""

    class Squares(type(TIMES)):
        __slots__ = ()

        def statistic(self, chunk):
            return np.asarray((self.domain.clean(chunk) ** 2 / self.upper).sum())

    model = Squares(shape=1, rate=1, upper=TIMES.upper)
    mechanism = NoisyStatistics(model=model, n=4, scale=2)
    assert not mechanism.exact
    assert mechanism.accountant.assumptions == {Assumption.IDEAL_REALS}
    assert mechanism.release(np.ones(4), rng=rng)["statistic"].shape == (1,)


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
    """The document after a change, with a new digest unless the draws are changed."""
    document = json.loads(text)
    draws = json.dumps(document["draws"])
    change(document)
    return json.dumps(with_digest(document) if json.dumps(document["draws"]) == draws else document)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda d: d["draws"]["statistic"]["values"].__setitem__(0, 20.5), "altered"),
        (lambda d: d["mechanism"].__setitem__("scale", 9.0), "own"),
        (lambda d: d["mechanism"].__setitem__("n", 51), "own"),
        (lambda d: d["account"]["noise"].__setitem__("scale", 9.0), "own"),
        (lambda d: d.__setitem__("format", 99), "upgrade privsample"),
        (lambda d: d["mechanism"].__setitem__("sampler", "quantum"), "sampler"),
        (lambda d: d["mechanism"].__setitem__("type", "FutureStatistics"), "not a class of this version"),
        (lambda d: d.pop("account"), "lacks a part"),
    ],
)
def test_altered_and_newer_files_are_refused(tmp_path, change, message):
    text = private(NoisyStatistics(model=BINARY, n=50, scale=2)).release.to_json()
    path = tmp_path / "altered.json"
    path.write_text(altered(text, change), encoding="utf-8")
    with pytest.raises(ValueError, match=message):
        PrivateStatistics.load(path)


def test_only_noisy_statistics_are_wrapped(tmp_path):
    other = DirectPosterior(model=BINARY, n=50).release(YES)
    with pytest.raises(TypeError, match="got DirectPosterior"):
        PrivateStatistics(release=other)
    with pytest.raises(TypeError, match="got ndarray"):
        PrivateStatistics(release=np.zeros(3))
    other.save(tmp_path / "other.json")
    with pytest.raises(TypeError, match="NoisyStatistics"):
        PrivateStatistics.load(tmp_path / "other.json")

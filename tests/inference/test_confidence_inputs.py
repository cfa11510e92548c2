"""Wrong arguments of confidence sets: one clear error each, before anything is simulated."""

from types import SimpleNamespace

import numpy as np
import pytest
from scipy import stats

import privsample as ps

COUNT = ps.NoisyStatistics(model=ps.BetaBernoulli(1, 1), n=4, scale=1.0).release([0, 1, 1, 0])
SURVEY = ps.NoisyStatistics(model=ps.DirichletCategorical((1, 1, 1)), n=4, scale=1.0).release([0, 1, 1, 2])
SUM = ps.NoisyStatistics(model=ps.NormalKnownVariance(0, 1, noise_variance=1, bounds=(-1, 1)), n=4, scale=1.0).release(
    [0.1, 0.2, 0.3, 0.4]
)
RANGE = {"parameters": {"theta": (0, 1)}}


@pytest.fixture(autouse=True)
def nothing_is_simulated(monkeypatch):
    def fail(*_):
        raise AssertionError("simulated before the error")

    monkeypatch.setattr("privsample.inference.rank_tests.RankTest.evidence", fail)


WRONG = [
    ({"parameters": {"theta": (1, 0)}}, ValueError, r"parameters\['theta'\] must have low < high, got \(1\.0, 0\.0\)"),
    ({"parameters": {"theta": (0, float("nan"))}}, ValueError, r"parameters\['theta'\]\[1\] must be finite, got nan"),
    ({"parameters": {"theta": (-0.5, 1)}}, ValueError, r"parameters\['theta'\] must lie in \[0, 1\], got \[-0\.5, 1\]"),
    ({"parameters": {"theta": 0.5}}, ValueError, "must give a range .* to at least one parameter, got fixed numbers"),
    ({"parameters": {"theta": "0, 1"}}, TypeError, r"parameters\['theta'\] must be a pair \(low, high\) or a number"),
    ({"parameters": {"theta": None}}, TypeError, r"parameters\['theta'\] must be a number"),
    ({"parameters": {"theta": (0, 0.5, 1)}}, ValueError, r"parameters\['theta'\] must be a pair \(low, high\)"),
    ({"parameters": {"share": (0, 1)}}, ValueError, "must be given for theta: theta missing; 'share' unknown"),
    ({"parameters": {}}, ValueError, "parameters must be given for theta: theta missing"),
    ({"parameters": [("theta", (0, 1))]}, TypeError, "parameters must be a mapping, as a dict is, got list"),
    (RANGE | {"level": 0.0}, ValueError, r"level must lie in \(0, 1\), got 0\.0"),
    (RANGE | {"level": 95}, ValueError, r"level must lie in \(0, 1\), got 95"),
    (RANGE | {"level": float("nan")}, ValueError, r"level must lie in \(0, 1\), got nan"),
    (RANGE | {"simulations": 38}, ValueError, "simulations must be at least 39 at the level 0.95, got 38"),
    (RANGE | {"level": 0.99}, None, ""),
    (RANGE | {"level": 0.999}, ValueError, "simulations must be at least 1,999 at the level 0.999, got 999"),
    (RANGE | {"simulations": 10**9}, ValueError, "lower simulations"),
    (RANGE | {"rng": 3}, TypeError, "rng must be a numpy.random.Generator or None, got int"),
]


@pytest.mark.parametrize(("given", "error", "message"), WRONG)
def test_wrong_arguments(given, error, message):
    if error is None:
        assert ps.confidence_set(COUNT, **given).level == given["level"]
        return
    with pytest.raises(error, match=message):
        ps.confidence_set(COUNT, **given)


RELEASES = [
    (
        ps.GaussianMechanism(sensitivity=1, noise_std=5).release(2.0),
        TypeError,
        "must be a Release of NoisyStatistics, got GaussianM",
    ),
    (
        3.0,
        TypeError,
        "release must be a PrivateStatistics, a Release of NoisyStatistics, or an object with .* got float",
    ),
    ({"noise": 2.0}, TypeError, r"release\.noise must be a Noise, such as GaussianNoise\(noise_std=2\.0\), got float"),
    ({"model": "beta"}, TypeError, r"release\.model must be one of privsample's models, got str"),
    ({"n": 2.5}, ValueError, r"release\.n must be a whole number"),
    ({"observed": np.zeros((2, 3))}, ValueError, r"release\.observed must have the shape \(copies\), got \(2, 3\)"),
    ({"observed": np.array([np.nan])}, ValueError, r"release\.observed must not contain NaN"),
    ({"observed": np.array([np.inf])}, ValueError, r"release\.observed must be finite"),
]


@pytest.mark.parametrize(("changed", "error", "message"), RELEASES)
def test_wrong_releases(changed, error, message):
    own = ps.PrivateStatistics(release=COUNT)
    parts = {name: getattr(own, name) for name in ("model", "n", "noise", "observed")}
    release = SimpleNamespace(**parts | changed) if isinstance(changed, dict) else changed
    with pytest.raises(error, match=message):
        ps.confidence_set(release, **RANGE)


RECORDS = [
    (stats.norm(0, 1), TypeError, "records must be a function"),
    (stats.norm, ValueError, r"records\(mean=0\) failed: TypeError: .*argument 'mean'"),
    ("normal", TypeError, "records must be a function, got str"),
    (lambda shift: stats.norm(shift, 1), ValueError, "records takes the parameters shift, but parameters has mean: "),
    (lambda: stats.norm(0, 1), ValueError, "records takes the parameters none, but parameters has mean"),
    (
        lambda mean: 2.0 * mean,
        TypeError,
        r"records must return a distribution with rvs\(size=, random_state=\), .* got float",
    ),
    (lambda mean: stats.norm(mean, -1), ValueError, r"records\(mean=0\) cannot draw records: ValueError: .*scale"),
]


@pytest.mark.parametrize(("records", "error", "message"), RECORDS)
def test_wrong_records(records, error, message):
    with pytest.raises(error, match=message):
        ps.confidence_set(SUM, parameters={"mean": (-1, 1)}, records=records).contains(mean=0.0)


def test_records_that_draw_nan():
    class Broken:
        def rvs(self, size, random_state):
            return np.full(size, np.nan)

    with pytest.raises(
        ValueError, match=r"records\(mean=0\) drew NaN; give ranges in which the distribution is defined"
    ):
        ps.confidence_set(SUM, parameters={"mean": (-1, 1)}, records=lambda mean: Broken())


def test_too_many_records_for_a_model_of_single_records():
    parts = {"noise": ps.LaplaceNoise(scale=1.0), "n": 10**12, "observed": np.array([5.0])}
    release = SimpleNamespace(model=ps.GammaExponential(1, 1, upper=2), **parts)
    with pytest.raises(ValueError, match="lower n: this model simulates single records"):
        ps.confidence_set(release, parameters={"rate": (0, 9)})
    counts = SimpleNamespace(model=ps.GammaPoisson(1, 1, upper=2), **parts)
    assert ps.confidence_set(counts, parameters={"rate": (0, 9)}).level == 0.95


def test_fractional_records_need_a_distribution():
    model = ps.BetaBernoulli(1, 1, fractional=True)
    release = ps.NoisyStatistics(model=model, n=4, scale=1.0).release([0.5, 0.1, 1, 0])
    with pytest.raises(TypeError, match="fractional records of BetaBernoulli have no distribution"):
        ps.confidence_set(release, **RANGE)
    assert "theta" in repr(ps.confidence_set(release, **RANGE, records=lambda theta: stats.beta(2 + theta, 3)))


VALUES = [
    ({}, ValueError, "values must be given for theta: theta missing"),
    ({"theta": 0.5, "rate": 1.0}, ValueError, "'rate' unknown"),
    ({"theta": 1.5}, ValueError, r"theta must lie in its range \[0, 1\], got 1\.5"),
    ({"theta": float("nan")}, ValueError, "theta must not contain NaN"),
    ({"theta": [0.5, 0.5]}, ValueError, r"theta must be a number, got one of shape \(2,\)"),
    ({"theta": "half"}, TypeError, "theta must be real numbers"),
]


@pytest.mark.parametrize(("theta", "error", "message"), VALUES)
def test_wrong_values(theta, error, message):
    found = ps.confidence_set(COUNT, **RANGE)
    for method in (found.contains, found.p_value):
        with pytest.raises(error, match=message):
            method(**theta)


def test_wrong_names_and_sides():
    found = ps.confidence_set(COUNT, **RANGE)
    with pytest.raises(ValueError, match="name must be one of theta, got 'rate'"):
        found.interval("rate")
    with pytest.raises(TypeError, match="name must be the name of a parameter, got int"):
        found.interval(3)
    with pytest.raises(ValueError, match="side must be 'both', 'lower' or 'upper', got 'left'"):
        found.interval("theta", side="left")


def test_ranges_of_vectors():
    for given, low in (
        ((0, 1), [0, 0, 0]),
        ([(0.1, 1), (0, 0.5), 0.2], [0.1, 0, 0.2]),
        (np.full((3, 2), (0.1, 0.4)), [0.1] * 3),
    ):
        found = ps.confidence_set(SURVEY, parameters={"theta": given})
        assert [pair[0] for pair in found.parameters["theta"]] == low
        assert ps.confidence_set(SURVEY, parameters=found.parameters).parameters == found.parameters
    with pytest.raises(
        ValueError, match=r"must be a pair \(low, high\), a number, or a list of 3 of these, got 4 entries"
    ):
        ps.confidence_set(SURVEY, parameters={"theta": [(0, 1)] * 4})
    with pytest.raises(ValueError, match=r"parameters\['theta'\]\[1\] must have low < high"):
        ps.confidence_set(SURVEY, parameters={"theta": [(0, 1), (1, 0), (0, 1)]})


def test_seeds_of_the_class():
    given = {"release": COUNT, "parameters": {"theta": (0, 1)}}
    for wrong in ((), (2**32,), (-1,)):
        with pytest.raises(ValueError, match="seed"):
            ps.ConfidenceSet(**given, seed=wrong)
    with pytest.raises(TypeError, match="seed must be a list, got 3"):
        ps.ConfidenceSet(**given, seed=3)
    assert ps.ConfidenceSet(**given, seed=(1, 2)).seed == (1, 2)

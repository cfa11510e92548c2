"""Simulators of statistics: their distributions, their dependence on the parameters, and the public rule."""

import numpy as np
import pytest
from scipy import stats

import privsample as ps
from privsample.inference.given_records import GivenRecords, simulator_of
from privsample.inference.record_blocks import statistics_of_records
from privsample.inference.simulated_statistics import (
    BernoulliCounts,
    CategoryCounts,
    ExponentialSums,
    NormalSums,
    PoissonSums,
)

N = 12
NORMAL = ps.NormalUnknownVariance(mean=0, observations=1, shape=3, scale=2, bounds=(-1, 2))
LINE = ps.LinearRegression(feature_bounds=((0, 1), (-1, 3)), target_bounds=(-1, 1), shape=3, scale=2)
SCALAR = {
    "bernoulli": (BernoulliCounts(n=N), "theta", (0.0, 1.0)),
    "many counts": (PoissonSums(n=300, upper=3), "rate", (0.0, 30.0)),
    "counts": (PoissonSums(n=N, upper=4), "rate", (0.0, 30.0)),
    "times": (ExponentialSums(n=N, upper=2.0), "rate", (0.0, 30.0)),
    "normal": (NormalSums(n=N, deviation=1.5, bounds=(-1.0, 2.0)), "mean", (-9.0, 9.0)),
}


def simulated(simulator, theta, count=20_000, seed=0):
    base = simulator.base(count, np.random.default_rng(seed))
    return simulator.statistics(base, {name: np.asarray(value, dtype=float) for name, value in theta.items()})


@pytest.mark.parametrize("name", SCALAR)
def test_monotone_for_any_base_draws(name):
    simulator, parameter, (low, high) = SCALAR[name]
    base = simulator.base(200, np.random.default_rng(3))
    values = np.linspace(low, high, 97)
    found = np.array([simulator.statistics(base, {parameter: np.array(x)})[:, 0] for x in values])
    assert (simulator.direction * np.diff(found, axis=0) >= 0).all()
    assert np.ptp(found, axis=0).min() > 0


MODELS = [
    (ps.BetaBernoulli(1, 1), {"theta": 0.3}, 0.3),
    (ps.DirichletCategorical((1, 1, 1)), {"theta": [0.2, 0.5, 0.3]}, [0.2, 0.5, 0.3]),
    (ps.GammaPoisson(1, 1, upper=3), {"rate": 2.0}, 2.0),
    (ps.GammaExponential(1, 1, upper=1.5), {"rate": 0.8}, 0.8),
    (ps.NormalKnownVariance(0, 1, noise_variance=2, bounds=(-1, 2)), {"mean": 0.4}, 0.4),
    (NORMAL, {"mean": 0.4, "variance": 2.0}, (0.4, 2.0)),
]


def direct(model, theta, count=20_000):
    """Statistics of records that the model simulates itself, one dataset after another."""
    rng = np.random.default_rng(9)
    records = np.asarray(model.simulate(np.asarray(theta), count * N, rng)).reshape(count, N)
    return np.array([np.ravel(model.statistic(one)) for one in records])


def disagreement(first, second):
    """The smallest p-value of tests of equal marginals, and of equal sums of all coordinates."""
    pairs = [*zip(first.T, second.T, strict=True), (first.sum(axis=1), second.sum(axis=1))]
    return min(stats.ks_2samp(a, b).pvalue for a, b in pairs)


@pytest.mark.statistical
@pytest.mark.parametrize(("model", "theta", "own"), MODELS)
def test_statistics_have_the_distribution_of_the_model(model, theta, own, alpha):
    """The broken copy simulates one record less."""
    truth = direct(model, own)
    assert disagreement(simulated(simulator_of(model, N), theta), truth) > alpha / 10
    assert disagreement(simulated(simulator_of(model, N - 1), theta), truth) < alpha / 10


@pytest.mark.statistical
def test_regression_rows(alpha):
    """Rows of normal features and a target, against an own simulation; without clipping they are seen to differ."""
    theta = {
        "coefficients": [0.5, -0.2],
        "intercept": 0.1,
        "variance": 0.2,
        "feature_mean": [0.4, 1.0],
        "feature_root": [[0.3, 0.0], [0.4, 0.8]],
    }
    rng = np.random.default_rng(4)
    truth, unclipped = [], []
    for _ in range(4_000):
        x = np.array(theta["feature_mean"]) + rng.standard_normal((N, 2)) @ np.array(theta["feature_root"]).T
        rows = np.column_stack([x, x @ theta["coefficients"] + 0.1 + 0.2**0.5 * rng.standard_normal(N)])
        truth.append(LINE.statistic(rows))
        v = np.column_stack([np.ones(N), (rows - LINE.moments.middles) / LINE.moments.units])
        unclipped.append(LINE.moments.weights * (v.T @ v)[LINE.moments.pairs])
    found = simulated(simulator_of(LINE, N), theta, count=4_000)
    assert disagreement(found, np.array(truth)) > alpha / 10
    assert disagreement(found, np.array(unclipped)) < alpha / 10


@pytest.mark.statistical
def test_two_ways_to_simulate_counts_agree(alpha):
    """Conditional binomial counts of many records, and quantiles of each record."""
    many, rng = PoissonSums(n=400, upper=3), np.random.default_rng(5)
    for rate in (0.01, 1.0, 20.0):
        each = np.minimum(rng.poisson(rate, (5_000, 400)), 3).sum(axis=1)
        assert stats.ks_2samp(simulated(many, {"rate": rate}, 5_000)[:, 0], each).pvalue > alpha / 3


def test_many_records_are_counted_without_a_table():
    """Quantiles one by one agree with tabulated ones, and work for any number of records."""
    n = 10**10
    for share in (0.2, 0.5):
        found = simulated(BernoulliCounts(n=n), {"theta": share}, 400)
        assert abs(found.mean() / n - share) < 5 * (share / n / 400) ** 0.5
        assert found.std() == pytest.approx((n * share * (1 - share)) ** 0.5, rel=0.2)
    base = BernoulliCounts(n=N).base(400, np.random.default_rng(0))
    few = simulated(BernoulliCounts(n=N), {"theta": 0.3}, 400)
    assert few[:, 0].tolist() == stats.binom.ppf(base, N, 0.3).tolist()


def test_ends_of_the_ranges():
    assert simulated(BernoulliCounts(n=5), {"theta": 0.0}, 50).max() == 0
    assert simulated(BernoulliCounts(n=5), {"theta": 1.0}, 50).min() == 5
    assert simulated(PoissonSums(n=5, upper=2), {"rate": 0.0}, 50).max() == 0
    assert simulated(PoissonSums(n=500, upper=2), {"rate": 0.0}, 50).max() == 0
    assert simulated(PoissonSums(n=500, upper=2), {"rate": 1e9}, 50).min() == 1000
    assert simulated(ExponentialSums(n=5, upper=2.0), {"rate": 0.0}, 50).min() == 10
    counts = simulated(CategoryCounts(n=5, categories=3), {"theta": [0.0, 1.0, 0.0]}, 50)
    assert (counts == [0, 5, 0]).all()
    assert simulated(simulator_of(NORMAL, 4), {"mean": 0.5, "variance": 0.0}, 50) == pytest.approx(0.0)


@pytest.mark.parametrize("model", [one[0] for one in MODELS] + [LINE])
def test_the_public_rule_of_given_records(model):
    """Blocks of raw records have the statistics that the model computes, missing and outside values included."""
    rng = np.random.default_rng(6)
    shape = (7, N, 3) if model is LINE else (7, N)
    records = rng.normal(1, 2, shape)
    records[2, 3], records[4, 1] = np.nan, np.inf
    records[5, 0] = -np.inf
    truth = np.array([np.ravel(model.statistic(block)) for block in records])
    assert statistics_of_records(model, records) == pytest.approx(truth, rel=1e-12, abs=1e-12)


def test_given_records_depend_on_the_parameters_alone():
    """The same base draws give the same records, moved by the parameters."""
    model = ps.NormalKnownVariance(0, 1, noise_variance=1, bounds=(-50, 50))
    simulator = GivenRecords(model=model, n=N, records=lambda mean: stats.norm(mean, 1), names=("mean",))
    base = simulator.base(30, np.random.default_rng(7))
    first = simulator.statistics(base, {"mean": np.array(0.0)})
    assert simulator.statistics(base, {"mean": np.array(2.0)}) == pytest.approx(first + 2 * N)


def test_models_without_a_distribution_of_records():
    with pytest.raises(TypeError, match=r"fractional records of BetaBernoulli have no distribution .* pass records="):
        simulator_of(ps.BetaBernoulli(1, 1, fractional=True), 4)

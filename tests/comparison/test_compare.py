"""Expected errors of the mechanisms on simulated data."""

import re

import numpy as np
import pytest
from scipy import stats

from privsample import (
    DP,
    RDP,
    BetaBernoulli,
    DiffusedPosterior,
    DirichletCategorical,
    GammaExponential,
    GammaPoisson,
    NoisyStatistics,
    NormalKnownVariance,
    NormalUnknownVariance,
    compare,
)
from privsample.comparison.candidates import Noisy, candidates
from privsample.comparison.table import Comparison, comparison_table

MODELS = [
    BetaBernoulli(alpha=6, beta=12),
    DirichletCategorical(alpha=(3, 3, 4)),
    GammaPoisson(shape=40, rate=10, upper=5),
    GammaExponential(shape=5, rate=5, upper=1.5),
    NormalKnownVariance(mean=0, variance=4, noise_variance=4, bounds=(-1, 3)),
]
TARGET = DP(epsilon=1, delta=1e-6)


@pytest.mark.parametrize("model", MODELS, ids=lambda model: type(model).__name__)
def test_every_model_has_every_row(model):
    rows = compare(model=model, n=200, target=TARGET, simulations=20, plug_in=True, rng=np.random.default_rng(1))
    names = ["direct", "diffused", "concentrated", "tempered", "noisy", "noisy (Gaussian)", "randomized-response"]
    assert [row.name for row in rows] == names
    for row in rows:
        if row.reason:
            assert row.name == "direct" or (row.name == "randomized-response" and model in MODELS[2:])
            assert ("cannot be met" if row.name == "direct" else "does not apply") in row.reason
            assert np.isnan([row.error, row.relative_entropy, row.ratio, row.excess]).all()
            assert not row.within_chance
        else:
            assert row.relative_entropy >= 0
            assert 0.5 < row.ratio == row.error / row.floor
            assert 0 < row.error_standard_error < row.error
            assert row.excess == pytest.approx(row.error - rows.best.error, abs=1e-15)
            assert row.inference == ("plug-in" if row.parameter in ("scale", "log_odds") else "")
    assert len({row.floor for row in rows if not row.reason}) == 1
    assert rows[3].relative_entropy == np.inf  # its public bounds exclude values
    assert len(rows) == 7


MOMENTS = NormalUnknownVariance.example()


def test_models_without_a_direct_posterior_have_their_noisy_statistics():
    rows = compare(model=MOMENTS, n=200, target=TARGET, simulations=5, rng=np.random.default_rng(1))
    assert [row.name for row in rows if not row.reason] == ["noisy", "noisy (Gaussian)"]
    assert all(row.reason.startswith("does not apply") for row in rows if row.name not in ("noisy", "noisy (Gaussian)"))


def table(rng, means, simulations=100, *, paired=True, shared=1.0):
    """A table of invented errors with these means, of which the data of a simulation are a shared part."""
    data = shared * rng.standard_normal(simulations)
    errors = {name: mean + data + 0.01 * rng.standard_normal(simulations) for name, mean in means.items()}
    rows = [Comparison(name=name, parameter="", amount=np.nan) for name in means]
    return comparison_table(rows, errors, paired=paired, simulations=simulations)


def test_a_winner_beyond_chance(rng):
    """A difference of 0.1 over the same data, which spread by 1, is clear: the differences spread by 0.014."""
    found = table(rng, {"a": 2.1, "b": 2.0, "c": 3.0})
    assert found.best.name == "b"
    assert found.rivals == ()
    assert found.statement.sentence.startswith("b has the smallest error, ")
    assert re.search(r"a is next, 0\.(09|10)", found.statement.sentence)
    assert "more than 3 standard errors" in found.statement.sentence
    (finding,) = found.statement.findings
    assert finding.compared
    assert finding.value == found[0].excess


def test_a_winner_within_chance(rng):
    found = table(rng, {"a": 2.0001, "b": 2.0, "c": 3.0})
    assert {found.best.name, *(each.name for each in found.rivals)} == {"a", "b"}
    assert "within chance" in found.statement.sentence
    assert "100 simulations do not tell which of" in found.statement.sentence
    assert not found.statement.findings[0].compared
    # the broken copy: the same difference of 0.1 as above is within chance if the data are not the same
    assert "within chance" in table(rng, {"a": 2.1, "b": 2.0}, paired=False).statement.sentence
    assert "within chance" in table(rng, {"a": 2.1, "b": 2.0}, simulations=1).statement.sentence


@pytest.mark.statistical
def test_equal_mechanisms_are_rarely_told_apart(rng):
    """Of 400 tables of two equal mechanisms at most 3 percent have a clear winner, where 0.4 percent are expected."""
    clear = [table(rng, {"a": 1.0, "b": 1.0}, simulations=50).statement.findings[0].compared for _ in range(400)]
    assert sum(clear) <= 12


def test_sentences_about_few_mechanisms(rng):
    assert table(rng, {"a": 1.0}).statement.sentence.startswith("Only a meets the target; its error is ")
    nobody = comparison_table(
        [Comparison(name="a", parameter="", amount=np.nan, reason="no")], {}, paired=True, simulations=3
    )
    assert nobody.best is None
    assert nobody.statement.sentence == "No mechanism meets the target."


def test_the_truth_of_ten_thousand_records_is_told_apart():
    """Counts of a public size: noise of scale 1 against randomized response, at the same cost."""
    rows = compare(model=MODELS[0], n=10_000, target=TARGET, simulations=150, rng=np.random.default_rng(4))
    named = {each.name: each for each in rows}
    assert not named["randomized-response"].within_chance
    assert named["randomized-response"].ratio > 1.5
    assert named["noisy"].within_chance
    assert "within chance" in rows.statement.sentence


def test_noise_aware_posteriors_are_used_where_they_exist():
    """With few records and much noise the noise-aware posterior is nearer to the truth than the plug-in posterior."""
    given = {"model": MODELS[0], "n": 20, "target": DP(epsilon=0.1), "simulations": 100}
    aware, plug_in = (compare(**given, plug_in=flag, rng=np.random.default_rng(2)) for flag in (False, True))
    at = [each.name for each in aware].index("noisy")
    assert (aware[at].inference, plug_in[at].inference) == ("noise-aware", "plug-in")
    deviation = np.hypot(aware[at].error_standard_error, plug_in[at].error_standard_error)
    assert aware[at].error + 5 * deviation < plug_in[at].error
    fractional = compare(model=BetaBernoulli(alpha=6, beta=12, fractional=True), n=20, target=TARGET, simulations=2)
    assert fractional[at].inference == "plug-in"
    sums = Noisy(NoisyStatistics(model=MODELS[4], n=50, scale=9.0, noise="gaussian"), plug_in=False)
    many = Noisy(NoisyStatistics(model=MODELS[3], n=10**9, scale=9.0), plug_in=False)
    many(np.array(4e9), np.random.default_rng(2))
    assert many.inference == "plug-in"
    sums(np.array(40.0), np.random.default_rng(2))
    assert sums.inference == "noise-aware"


def test_answers_of_randomized_response(rng):
    """The estimated counts are unbiased: against the mean over many simulated sets of answers."""
    model = DirichletCategorical(alpha=(1, 1, 1))
    _, released = next(
        each for each in candidates(model, 900, TARGET, 1, plug_in=True) if each[0].name == "randomized-response"
    )
    counts = np.array([600.0, 200.0, 100.0])
    means = np.array([released(counts, rng).mean for _ in range(2000)])
    np.testing.assert_allclose(means.mean(axis=0), (counts + 1) / 903, atol=6 * (means.std(axis=0) / 2000**0.5).max())


def test_what_costs_nothing_loses_nothing():
    model = NormalKnownVariance(mean=0, variance=1, noise_variance=9, bounds=(-1, 1))
    given = {"model": model, "n": 10**6, "target": DP(epsilon=5, delta=1e-3), "simulations": 5, "plug_in": True}
    rows = compare(**given, rng=np.random.default_rng(1))
    for each in rows[:3]:
        assert each.relative_entropy == 0.0
        assert each.ratio == 1.0


def test_the_numbers_against_quadrature():
    """With n = 1 and a binary record both expectations are finite sums."""
    model, target = BetaBernoulli(alpha=6, beta=12), RDP(order=2, epsilon=0.002)
    weight = DiffusedPosterior.calibrate(model=model, n=1, target=target).data_weight
    assert weight < 0.6
    row = compare(model=model, n=1, target=target, simulations=2000, plug_in=True, rng=np.random.default_rng(5))[1]
    chance = 6 / 18
    distributions = [(stats.beta(6 + x, 13 - x), stats.beta(6 + weight * x, 12 + weight * (1 - x))) for x in (0, 1)]
    grid = (np.arange(20_000) + 0.5) / 20_000
    gap = sum(
        p * np.mean(np.log(t.pdf(grid) / r.pdf(grid)) * t.pdf(grid))
        for p, (t, r) in zip((1 - chance, chance), distributions, strict=True)
    )
    assert row.relative_entropy == pytest.approx(gap, rel=0.05)
    draws = np.random.default_rng(0)
    theta = [t.rvs(100_000, random_state=draws) for t, _ in distributions]  # the parameter given the record
    error = sum(
        p * np.abs(r.rvs(100_000, random_state=draws) - th).mean()
        for p, th, (_, r) in zip((1 - chance, chance), theta, distributions, strict=True)
    )
    assert row.error == pytest.approx(error, rel=0.05)


@pytest.mark.parametrize("model", MODELS, ids=lambda model: type(model).__name__)
def test_simulated_statistics_follow_the_model(model):
    """Moments of the short cuts against records simulated one by one, at five standard errors."""
    rng = np.random.default_rng(11)
    theta = model.prior.mean
    truth = np.array([model.statistic(model.simulate(theta, 300, rng)) for _ in range(3000)])
    quick = np.array([model.simulate_statistic(theta, 300, rng, one_by_one=0) for _ in range(3000)])
    spread = truth.std(0)
    assert (np.abs(truth.mean(0) - quick.mean(0)) < 5 * spread * (2 / 3000) ** 0.5).all()
    assert (np.abs(quick.std(0) / spread - 1) < 5 * (1 / 3000) ** 0.5).all()


def test_small_files_are_simulated_record_by_record():
    model = MODELS[3]
    found = model.simulate_statistic(np.float64(1.0), 50, np.random.default_rng(2))
    assert found == model.statistic(model.simulate(np.float64(1.0), 50, np.random.default_rng(2)))


@pytest.mark.parametrize("n", [1, 10**9])
@pytest.mark.parametrize("model", MODELS, ids=lambda model: type(model).__name__)
def test_any_size(model, n):
    given = {"model": model, "n": n, "target": RDP(order=1.2, epsilon=0.5), "simulations": 3, "plug_in": True}
    rows = compare(**given, rng=np.random.default_rng(1))
    for each in rows:
        exact = [each.error] if each.name == "tempered" else [each.error, each.relative_entropy]
        assert each.reason or np.isfinite(exact).all()


def test_seeds_and_bad_settings():
    with pytest.raises(TypeError, match="rng must be"):
        compare(model=MODELS[0], n=5, target=TARGET, rng=1)
    with pytest.raises(ValueError, match="simulations must be at least 1"):
        compare(model=MODELS[0], n=5, target=TARGET, simulations=0)
    assert compare(model=MODELS[0], n=5, target=TARGET, simulations=1)

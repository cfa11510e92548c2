"""Figures of an adversary's odds and of the regimes of Bernoulli draws: small runs, and tables that are changed."""

import numpy as np
import pytest

from reproduction import bernoulli_regimes, posterior_odds
from reproduction.base import Experiment
from reproduction.tables import Table

TAILS = np.array([1e-5, 1e-3, 1e-2])


@pytest.fixture(autouse=True)
def coarser_search(monkeypatch):
    """Look for the ends of the regimes and for the largest ratio on fewer points."""
    monkeypatch.setattr(bernoulli_regimes, "_DENSE", 50)


def changed(result, bound, factor):
    """The sentence for a table in which one bound was multiplied."""
    rows = zip(result.columns["bound"], result.columns["y"], strict=True)
    columns = dict(result.columns) | {"y": [y * factor if name == bound else y for name, y in rows]}
    return result.describe(columns).sentence


def test_odds_are_ordered_and_the_sentence_follows_the_table(tmp_path):
    result = posterior_odds.odds(TAILS, 9)
    table = Table(columns=result.columns)
    curve, renyi, exact, point = (
        table.select(bound=name)["y"]
        for name in (
            posterior_odds.CURVE,
            posterior_odds.RENYI,
            posterior_odds.ALL_KNOWN,
            posterior_odds.POINT,
        )
    )
    assert (exact < curve).all()
    assert (curve < renyi).all()
    assert (curve <= point * (1 + 1e-5)).all()
    assert "is below that of the Rényi curve at every tail probability" in result.sentence
    assert "at most 2.7% (73.1%) after it" in result.sentence
    assert "is not below that of the Rényi curve" in changed(result, posterior_odds.CURVE, 1.2)
    assert result.sentence != changed(result, "pure ε = 1", 1.1)
    picture, numbers, _ = Experiment(name="x", title="", run=lambda: result).write(tmp_path)
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert len(numbers.read_text(encoding="utf-8").splitlines()) == 1 + 5 * 9 + 4 * 3


def test_gaussian_odds_by_simulation(rng, alpha):
    """The quantile of the noise is exceeded as often as stated, the account's bound at most so often."""
    from scipy import stats

    result = posterior_odds.odds(np.array([0.01]), 9)
    table = Table(columns=result.columns)
    mu, tail, draws = None, 0.01, 200_000
    exact, bound = (
        float(np.log(table.select(bound=name).at("x", tail, "y")))
        for name in (posterior_odds.ALL_KNOWN, posterior_odds.CURVE)
    )
    mu = -stats.norm.isf(tail) + np.sqrt(stats.norm.isf(tail) ** 2 + 2 * exact)
    losses = mu * mu / 2 + mu * rng.standard_normal(draws)
    low, high = stats.binom.ppf([alpha / 2, 1 - alpha / 2], draws, tail)
    assert low <= (losses > exact).sum() <= high
    assert (losses > bound).sum() <= high
    assert (losses > 0.8 * exact).sum() > high  # an understated bound is exceeded too often


@pytest.mark.parametrize("setting", [(3, 0.1), (2, 0.3)])
def test_regimes_hold_at_points_of_the_table(setting):
    trials, margin = setting
    one = bernoulli_regimes.Setting(trials=trials, margin=margin)
    rows = Table(columns={name: np.broadcast_to(column, 40) for name, column in _columns(one).items()})
    first, third = bernoulli_regimes.regime_one(rows), bernoulli_regimes.regime_three(rows)
    assert (rows["lower"] <= rows["upper"] * (1 + 1e-9)).all()
    assert (rows["upper"] <= np.minimum(rows["epsilon"], rows["asymptote"]) * (1 + 1e-9)).all()
    assert (rows["closed_form"] <= rows["lower"] * (1 + 1e-9)).all()
    for epsilon in first:
        assert one.lower(epsilon) >= bernoulli_regimes.SHARE * epsilon
    for epsilon in third:
        assert one.lower(epsilon) >= bernoulli_regimes.SHARE * one.asymptote
    assert third.min() > one.asymptote * bernoulli_regimes.SHARE


def _columns(one):
    """The first forty rows of a setting."""
    found = one.curves(40)
    return {name: column if np.ndim(column) == 0 else column[-40:] for name, column in found.items()}


def test_regimes_without_a_first_and_with_an_overlap(monkeypatch, tmp_path):
    monkeypatch.setattr(bernoulli_regimes, "SETTINGS", ((2, 0.3), (15, 0.1)))
    result = bernoulli_regimes.regimes(6)
    assert "For N = 2, c = 0.3 there is no regime I" in result.sentence
    assert "so that both overlap" in result.sentence
    assert "Theorem 2 alone proves regime I" in result.sentence
    columns = dict(result.columns) | {"lower": [0.5 * y for y in result.columns["lower"]]}
    columns["asymptote"] = [0.5 * y for y in columns["asymptote"]]
    assert "For N = 15, c = 0.1 there is no regime I" in result.describe(columns).sentence
    picture, *_ = Experiment(name="x", title="", run=lambda: result).write(tmp_path)
    assert picture.read_bytes().startswith(b"\x89PNG")

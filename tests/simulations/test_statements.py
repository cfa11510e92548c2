"""What experiments say is read from the tables that they write, and stands at a second grid or seed."""

import csv
import io
import re

import numpy as np
import pytest

from privsample.simulations.experiments import (
    bernoulli,
    efficiency,
    experiment,
    leak,
    selection,
    selection_data,
    selection_use,
    sgd,
    subsampling,
    subsampling_table,
)
from privsample.simulations.experiments.base import Experiment
from privsample.simulations.experiments.sgd_data import Task
from privsample.simulations.experiments.table import Table, agreement, largest_at

NUMBER = re.compile(r"\d[\d,]*\.?\d*(?:e[-+]?\d+)?%?")
FEW_MEANS = (
    np.sort(np.append(np.geomspace(1.5, 1000.0, 13), 10.0)),
    np.sort(np.append(np.geomspace(1.5, 1e3, 17), 10.0)),
)
SMALL_PANELS = [
    bernoulli.Panel(order=5.0, margin=0.3, dimension=15, draws=1),
    bernoulli.Panel(order=50.0, margin=0.1, dimension=1, draws=2),
]
# Name: how to run it (None: as it is), what reads its table, the grid to change, two grids, digits that may differ
CASES = {
    "bernoulli": (
        lambda: bernoulli._figure(SMALL_PANELS, 2),
        bernoulli.statement,
        (bernoulli, "EPSILONS"),
        (np.geomspace(1e-3, 100, 9), np.geomspace(2e-3, 90, 6)),
        1,
    ),
    "b-near": (
        lambda: bernoulli._figure(SMALL_PANELS, 2),
        bernoulli.statement,
        (bernoulli, "NEAR"),
        (17, 10),
        1,
    ),
    "s-table-1": (None, subsampling_table.statement, (subsampling_table, "POINTS"), (41, 30), 1),
    "s-1a": (None, subsampling.statement_profiles, (subsampling, "POINTS"), (201, 94), 1),
    "s-1b": (None, subsampling.statement_comparison, (subsampling, "POINTS"), (201, 94), 1),
    "s-1c": (None, subsampling.statement_comparison, (subsampling, "POINTS"), (201, 94), 1),
    "s-1d": (None, subsampling.statement_copies, (subsampling, "POINTS"), (201, 94), 1),
    "s-1e": (None, subsampling.statement_boxes, (subsampling, "POINTS"), (201, 94), 1),
    "h-2": (
        None,
        selection.statement_2,
        (selection_data, "ORDERS"),
        (np.array([2.0, 10.0, 31.0]), np.array([3.0, 10.0])),
        1,
    ),
    "h-3": (
        None,
        selection.statement_3,
        (selection_data, "ORDERS"),
        (np.array([2.0, 10.0, 31.0]), np.array([3.0, 10.0])),
        1,
    ),
    "h-4": (None, selection.statement_4, (selection_data, "MEANS"), FEW_MEANS, 1),
    "h-5": (None, selection_use.statement_5, (selection_data, "MEANS"), FEW_MEANS, 1),
    "h-6": (None, selection_use.statement_6, (selection_data, "MEANS"), FEW_MEANS, 1),
    "h-8": (
        None,
        selection.statement_8,
        (selection_data, "EXAMPLE_ORDERS"),
        (np.linspace(2, 30, 15), np.linspace(2, 30, 8)),
        1,
    ),
}


def read(numbers: bytes) -> dict[str, list]:
    """A table as its file has it, numbers as floats."""
    header, *rows = csv.reader(io.StringIO(numbers.decode()))

    def entry(text: str):
        try:
            return float(text)
        except ValueError:
            return text

    return {name: [entry(row[k]) for row in rows] for k, name in enumerate(header)}


def same(one: str, other: str, units: int) -> bool:
    """Whether two sentences have the same words, and numbers that differ by so many units of the last digit."""
    if NUMBER.sub("#", one) != NUMBER.sub("#", other):
        return False
    for a, b in zip(NUMBER.findall(one), NUMBER.findall(other), strict=True):
        x, y = (float(text.rstrip("%").replace(",", "").rstrip(".")) for text in (a, b))
        mantissa, _, power = a.rstrip("%").rstrip(".").partition("e")
        unit = 10.0 ** (int(power or 0) - len(mantissa.partition(".")[2]))
        if abs(x - y) > units * unit * (1 + 1e-9):
            return False
    return True


def made(name: str):
    run = CASES[name][0]
    return (experiment(name) if run is None else Experiment(name=name, title="", run=run)).run()


@pytest.fixture
def few(monkeypatch):
    monkeypatch.setattr(selection_use, "digits", lambda: np.linspace(0.1, 0.9, 40))


@pytest.mark.parametrize("name", CASES)
def test_a_sentence_is_read_from_its_table_and_stands_at_a_second_grid(name, few, monkeypatch):
    _, statement, (module, attribute), grids, units = CASES[name]
    sentences = []
    for grid in grids:
        monkeypatch.setattr(module, attribute, grid)
        result = made(name)
        sentences.append(result.sentence)
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(result.columns)
        writer.writerows(zip(*result.columns.values(), strict=True))
        assert statement(read(text.getvalue().encode())) == result.sentence
    assert same(*sentences, units), sentences


def test_what_a_second_grid_would_show():
    assert same("at most 1.47 nats, 10% of 1,000", "at most 1.46 nats, 10% of 1,000", 1)
    assert not same("at most 1.03 nats", "at most 1.47 nats", 1)
    assert not same("the ones", "not the ones", 1)


def test_a_maximum_over_the_grid_alone_misses_the_kink(monkeypatch):
    """Without the refined points the sentence depends on the grid."""
    sentences = []
    for grid in (np.geomspace(1e-3, 60.0, 49), np.geomspace(2e-3, 90, 40)):
        monkeypatch.setattr(bernoulli, "EPSILONS", grid)
        monkeypatch.setattr(bernoulli.Panel, "epsilons", property(lambda _: np.append(bernoulli.EPSILONS, 5.0)))
        sentences.append(bernoulli._figure(SMALL_PANELS[:1], 1).sentence)
    assert not same(*sentences, 1)


def test_the_largest_gaps_are_those_of_the_paper():
    """Order 5, d = 15, c = 0.3: the kink lies at the asymptote, where the value is known without a search."""
    panel = SMALL_PANELS[0]
    kink = float(panel._account(1.0).asymptote(panel.order))
    assert kink - panel._lower(kink) == pytest.approx(1.4737, abs=1e-4)
    sentence = bernoulli._figure([panel], 1).sentence
    assert "differ by at most 1.47 nats (at ε = 11.4" in sentence
    assert "exceeds the lower bound by at most 1.46 nats" in sentence


def test_maxima_are_refined():
    assert largest_at(lambda x: -abs(x - 0.3), np.linspace(0, 1, 4)) == pytest.approx(0.3, abs=1e-6)
    assert largest_at(lambda x: x, np.array([2.0, 0.0])) == 2.0


def test_tables():
    table = Table(columns={"a": ["x", "y", "x"], "b": [1.0, 2.0, 3.0]})
    assert len(table.select(a="x")) == 2
    assert [key for key, _ in table.groups("a")] == [("x",), ("y",)]
    assert table.select(a="x").at("b", 3.0, "b") == 3.0
    with pytest.raises(LookupError, match="0 rows have b = 4"):
        table.at("b", 4.0, "b")
    assert agreement(1e-16) == "within 1e-12"


@pytest.mark.parametrize("seed", [0, 1])
def test_the_leak_at_two_seeds(seed):
    """No comparison rests on less than two standard errors, and the sentence is read from the table."""
    result = leak.leak(data_sets=16, seed=seed)
    _, right, error = leak.attack(result.columns)
    assert right - 2 * error > 0.5
    assert "more often than chance" in result.sentence
    assert leak.statement(result.columns) == result.sentence


def test_without_outliers_there_is_no_leak(monkeypatch):
    monkeypatch.setattr(leak, "with_outliers", lambda X, y: (X, y))
    result = leak.leak(data_sets=12)
    assert leak.attack(result.columns)[1] == pytest.approx(0.5, abs=1e-12)
    assert "not distinguishable from chance" in result.sentence


def test_ties_tell_nothing():
    """All alphas equally good with and without: the rule "least of equals" would still be a constant, ours is even."""
    flat = leak.tuned(np.ones((3, len(leak.ALPHAS))))
    assert flat == pytest.approx(np.full(flat.shape, 1 / len(leak.ALPHAS)))
    assert leak.right_guesses(flat, flat) == pytest.approx(np.full(flat.shape, 0.5))
    assert leak.tuned(np.array([0.1, 0.5, 0.5])).tolist() == [0.0, 0.5, 0.5]


def test_the_winner_is_named_where_it_leads_by_two_standard_errors(monkeypatch):
    """At a second seed no distribution that was ahead is behind by two standard errors."""
    monkeypatch.setattr(selection_data, "MEANS", FEW_MEANS[0])
    known = selection_data.costs(tuple(FEW_MEANS[0].tolist()))
    tables = []
    for seed in (1, 2):
        curves = selection_data.figure_7(known, selection_use.digits(runs=120, steps=10, seed=seed))
        made = selection.result(curves, selection_use.statement_7, names=("epsilon", "mean_accuracy"))
        assert selection_use.statement_7(made.columns) == made.sentence
        tables.append(made.columns)
    for whose in ("ours", "printed"):
        clear = selection_use.ahead(tables[0], whose)
        rows = Table(columns=tables[1]).select(bound=whose)
        for label, epsilons in clear.items():
            for epsilon in epsilons if label else ():
                one = rows.select(curve=label)
                behind, error = (
                    one.at("epsilon", epsilon, "behind"),
                    one.at("epsilon", epsilon, "standard_error_behind"),
                )
                assert behind <= 2 * error + 1e-12


def test_who_leads_by_less_is_not_named():
    columns = {
        "curve": ["a", "b"] * 2,
        "bound": ["ours"] * 4,
        "epsilon": [1.0, 1.0, 2.0, 2.0],
        "behind": [0.0, 0.1, 0.0, 0.1],
        "standard_error_behind": [0.0, 0.06, 0.0, 0.04],
    }
    assert selection_use.ahead(columns, "ours") == {"": [1.0], "a": [2.0]}


@pytest.mark.parametrize("seed", [4, 5])
def test_efficiencies_at_two_seeds(seed, monkeypatch):
    monkeypatch.setattr(efficiency, "SIZES", (10, 1_000_000))
    monkeypatch.setattr(efficiency, "REPEATS", 4000)
    result = efficiency.run(seed)
    assert efficiency.statement(result.columns) == result.sentence
    table = Table(columns=result.columns).select(records=1_000_000)
    assert (np.abs(table["ratio"] - table["limit"]) < 4 * table["standard_error"]).all()


@pytest.mark.parametrize("seed", [20200615, 7])
def test_searches_at_two_seeds(seed):
    result = bernoulli.conjecture(cases=3, starts=1, seed=seed)
    assert bernoulli.search_statement(result.columns, 1) == result.sentence
    assert "No search exceeded the conjectured value" in result.sentence


def test_accuracies_hold_the_posterior_and_compare_means():
    rng = np.random.default_rng(0)
    rows = rng.uniform(-1, 1, (600, 2))
    task = Task(name="toy", rows=rows, labels=(rows[:, 0] > 0).astype(float), norm=2.0**0.5, train=400, test=200)
    result = sgd.result({"toy": sgd.measured(task, splits=3, epsilons=(1.0,))}, (1.0,))
    assert sgd.statement(result.columns) == result.sentence
    table = Table(columns=result.columns)
    assert np.isfinite(table.select(method=sgd.POSTERIOR)["accuracy"]).all()
    mean = table.select(method=sgd.HIDDEN)["accuracy"].mean()
    assert f"{sgd.HIDDEN} {mean:.1%} ±" in result.sentence


def test_one_mechanism_at_all_orders():
    """Our account in Figure 8 is one account's curve: it falls by no more than a closed bound's tolerance."""
    curves = {curve.label: curve for curve in selection_data.figure_8()}
    account = curves[selection_data.GAUSSIAN_ACCOUNT]
    assert (account.y[1:] >= account.y[:-1] * (1 - 1e-4)).all()
    assert (account.y <= curves[selection_data.FIXED_FLOOR].y * (1 + 1e-9)).all()

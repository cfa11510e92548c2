"""Sentences below figures: computed from the table that is written, and true on a second grid or with a second seed."""

import csv
import re
from importlib.util import find_spec

import numpy as np
import pytest

from privsample.simulations.report.findings import CLEAR, Finding, Statement, compared, join_names
from privsample.simulations.report.results import Result
from reproduction import NAMES, experiment
from reproduction.base import Experiment
from reproduction.sizes import SMALL, small_size
from reproduction.tables import Table, agreement, largest_at, value_at

WITHOUT_SECOND: dict[str, str] = {}  # name of an experiment -> why its sentence needs no second grid or seed
CLOSE = 5e-3  # relative difference of a computed number between two grids: less than the sentence shows
FAR = 6.0  # standard errors between a simulated number and that with another seed
NUMBER = re.compile(r"\d[\d,]*\.?\d*(?:e[-+]?\d+)?%?")


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


def same(one: str, other: str) -> bool:
    """Whether two sentences have the same words, and numbers that differ by at most a unit of the last digit."""
    if NUMBER.sub("#", one) != NUMBER.sub("#", other):
        return False
    for a, b in zip(NUMBER.findall(one), NUMBER.findall(other), strict=True):
        x, y = (float(text.rstrip("%").replace(",", "").rstrip(".")) for text in (a, b))
        mantissa, _, power = a.rstrip("%").rstrip(".").partition("e")
        unit = 10.0 ** (int(power or 0) - len(mantissa.partition(".")[2]))
        if abs(x - y) > unit * (1 + 1e-9):
            return False
    return True


def computed(statement: Statement) -> bool:
    """Whether nothing in the sentence is simulated."""
    return all(found.standard_error == 0 for found in statement.findings)


def unfounded(one: Result) -> list[str]:
    """What is wrong with a sentence by itself: it states nothing, or more than its numbers bear out."""
    statement = one.describe(one.columns)
    wrong = contradicted(statement, statement)
    if not statement.findings:
        wrong.append("no finding is stated")
    if len({each.name for each in statement.findings}) != len(statement.findings):
        wrong.append("two findings have one name")
    return wrong


def faults(first: Result, second: Result) -> list[str]:
    """What is wrong with a sentence, given the same on a second grid or with a second seed."""
    one, two = first.describe(first.columns), second.describe(second.columns)
    found = contradicted(one, two)
    if list(first.columns) != list(second.columns):
        found.append("the second table has other columns")
    elif all(np.array_equal(first.columns[name], second.columns[name]) for name in first.columns):
        found.append("the second table is the first")
    found += [fault for fault in unfounded(first) if fault not in found]
    if computed(one) and not same(one.sentence, two.sentence):
        found.append(f"another sentence: {one.sentence!r}, {two.sentence!r}")
    return found


def lacking(one: Experiment) -> bool:
    """Whether an experiment has no second run, without a reason for it."""
    return one.second is None and one.name not in WITHOUT_SECOND


def read(numbers: bytes) -> dict[str, list]:
    """The columns of a table that was written: numbers where all of a column are."""
    header, *rows = csv.reader(numbers.decode().splitlines())
    columns = {}
    for name, cells in zip(header, zip(*rows, strict=True), strict=True):
        try:
            columns[name] = [float(cell) for cell in cells]
        except ValueError:
            columns[name] = list(cells)
    return columns


@pytest.mark.parametrize("name", NAMES)
def test_every_experiment_has_a_second_run(name):
    assert not lacking(experiment(name))


def test_exceptions_are_experiments_and_have_reasons():
    assert set(WITHOUT_SECOND) <= set(NAMES)
    assert all(WITHOUT_SECOND.values())


def skip_without_data(name: str) -> None:
    """Skip a test of an experiment whose data are in a package that is not installed."""
    package = experiment(name).package
    if package and find_spec(package) is None:
        pytest.skip(f"the data are in {package}, which is not installed")


# In the long lane: the figure of breast cancer, of other data.
OTHER_DATA = {"regression-digits-1-7", "regression-digits-3-8"}


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.long if name in OTHER_DATA else ()) for name in NAMES]
)
def test_each_figure_is_drawn_and_described_at_its_small_size(name, small_once):
    """The sentence is computed from the table that is written, and states nothing that the table does not bear out."""
    skip_without_data(name)
    first, made = small_once(name)
    assert made.image.startswith(b"\x89PNG")
    with small_size(name):  # some sentences name settings
        assert first.describe(read(made.numbers)).sentence == made.sentence == first.sentence
        assert unfounded(first) == []


@pytest.mark.long
@pytest.mark.parametrize("name", [name for name in NAMES if name not in WITHOUT_SECOND])
def test_sentences_are_computed_from_their_tables_and_stand_a_second_time(name, run_once):
    """In full; the small size has too few points and repeats for each sentence to stand on a second grid or seed."""
    skip_without_data(name)
    first, made = run_once(name)
    assert first.describe(read(made.numbers)).sentence == made.sentence == first.sentence
    assert faults(first, experiment(name).second()) == []


def test_an_experiment_without_a_small_size_is_named(monkeypatch, small_once):
    assert set(SMALL) == set(NAMES)
    monkeypatch.delitem(SMALL, "balle-table-1")
    with pytest.raises(ValueError, match="the experiment balle-table-1 has no small size: add to SMALL in"):
        small_once.__wrapped__("balle-table-1")


def test_full_settings_return_after_a_small_run():
    ((module, constant, small),) = SMALL["papernot-1"]
    full = getattr(module, constant)

    def run():
        with small_size("papernot-1"):
            assert getattr(module, constant) == small < full
            raise KeyError

    with pytest.raises(KeyError):
        run()
    assert getattr(module, constant) == full


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


def result(words: str, *findings: Finding, x: float = 1.0, column: str = "x") -> Result:
    return Result(columns={column: [x]}, describe=lambda columns: Statement(words, findings), plot=lambda figure: None)


NUMBER_1 = Finding("number", 1.0)


@pytest.mark.parametrize(
    ("first", "second", "fault"),
    [
        (result("one", NUMBER_1), result("one", NUMBER_1), "the second table is the first"),
        (result("one", NUMBER_1), result("one", NUMBER_1, column="y", x=2.0), "other columns"),
        (result("one"), result("one", x=2.0), "no finding is stated"),
        (result("one", NUMBER_1, NUMBER_1), result("one", NUMBER_1, x=2.0), "two findings have one name"),
        (result("better", NUMBER_1), result("worse", NUMBER_1, x=2.0), "another sentence"),
        (result("at most 1.03", NUMBER_1), result("at most 1.47", NUMBER_1, x=2.0), "another sentence"),
        (result("one", NUMBER_1), result("one", Finding("number", 2.0), x=2.0), "number"),
    ],
)
def test_faults_are_found(first, second, fault):
    (found,) = faults(first, second)[:1]
    assert fault in found


def test_a_sentence_without_fault_passes():
    assert faults(result("one 1.47", NUMBER_1), result("one 1.46", NUMBER_1, x=2.0)) == []
    noisy = Finding("number", 1.0, 0.1)
    assert faults(result("for 3 of 4", noisy), result("for all", noisy, x=2.0)) == []


def test_an_experiment_without_a_second_run_is_found():
    assert lacking(Experiment(name="x", title="", run=lambda: result("one")))
    assert not lacking(Experiment(name="x", title="", run=lambda: result("one"), second=lambda: result("one")))


def test_the_same_sentence():
    assert same("at most 1.47 nats, 10% of 1,000", "at most 1.46 nats, 10% of 1,000")
    assert not same("at most 1.03 nats", "at most 1.47 nats")
    assert not same("the ones", "not the ones")


def test_a_difference_of_less_than_three_standard_errors_is_not_stated():
    assert CLEAR >= 2
    assert compared("clear", 0.031, 0.01).compared
    assert not compared("not clear", 0.029, 0.01).compared
    assert not compared("rounding", 1e-12).compared
    assert not compared("negative", -1.0).compared


def test_a_maximum_is_refined_between_points():
    def kink(x):
        return -abs(x - 0.3456)

    found = largest_at(kink, np.linspace(0, 1, 8))
    assert found == pytest.approx(0.3456, abs=1e-6)
    assert largest_at(lambda x: x, np.array([2.0, 0.0])) == 2.0
    assert max(np.linspace(0, 1, 8), key=kink) != pytest.approx(0.3456, abs=1e-3)


def test_tables_values_and_names():
    table = Table(columns={"a": ["x", "y", "x"], "b": [1.0, 2.0, 3.0]})
    assert len(table.select(a="x")) == 2
    assert table.select(a="x")["b"].tolist() == [1.0, 3.0]
    assert [key for key, _ in table.groups("a")] == [("x",), ("y",)]
    assert table.select(a="x").at("b", 3.0, "b") == 3.0
    with pytest.raises(LookupError, match="0 rows have b = 4"):
        table.at("b", 4.0, "b")
    assert value_at(np.array([1.0, 2.0]), np.array([5.0, 6.0]), 1.9) == 6.0
    assert [join_names(names) for names in (["a"], ["a", "b"], ["a", "b", "c"])] == ["a", "a and b", "a, b and c"]
    assert agreement(1e-16) == "within 1e-12"

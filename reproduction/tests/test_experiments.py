"""Every experiment writes its numbers, its picture and its sentence."""

import csv
import inspect
from importlib import import_module

import numpy as np
import pytest

import reproduction as experiments
from privsample.simulations.report.results import stacked


def test_composed_draws_cost_less_than_their_renyi_curve(tmp_path, small_once):
    picture, numbers, sentence = small_once("composed-draws").made.write(tmp_path / "new" / "folder")
    rows = list(csv.DictReader(numbers.read_text(encoding="utf-8").splitlines()))
    composed, renyi = ([float(row[name]) for row in rows] for name in ("composed_loss", "renyi_curve"))
    assert {"1", "4", "60"} <= {row["draws"] for row in rows}
    assert composed == sorted(composed)
    assert all(0.8 < low / high < 0.97 for low, high in zip(composed, renyi, strict=True))
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert "for k = 1 to 60 draws" in sentence


def test_every_name_leads_to_its_experiment():
    found = [experiments.experiment(name) for name in experiments.NAMES]
    assert [experiment.name for experiment in found] == list(experiments.NAMES)
    assert len({experiment.title for experiment in found}) == len(found)


def test_unknown_experiment():
    with pytest.raises(ValueError, match=r"there is no experiment 'x'; there are geumlek-.*, papernot-8, "):
        experiments.experiment("x")


def test_stacked_parts_hold_every_point():
    parts = [{"name": "a", "x": np.array([1.0, 2.0])}, {"name": "b", "x": np.array([3.0])}]
    assert stacked(parts) == {"name": ["a", "a", "b"], "x": [1.0, 2.0, 3.0]}


def test_who_reads_the_flights_says_so():
    for name, place in experiments.NAMES.items():
        code = inspect.getsource(import_module(f"{experiments.__name__}.{place.split(':')[0]}"))
        assert bool(experiments.experiment(name).package) == ("flights" in code), name

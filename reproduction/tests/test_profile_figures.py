"""The figures of thesis chapter 7: their shapes, what they must show, and the files they leave."""

import csv
import runpy
from pathlib import Path

import numpy as np
import pytest

from privsample.mechanisms.profiles.responses import LocalResponse, SmoothCategorical, SmoothOneBit
from reproduction import profiles, profiles_composition
from reproduction.profiles import PROFILES, Curves, categorical, chain, table, two_profiles

FEW = np.array([0.05, 0.2, 1.0, 3.0])


def test_two_profiles_rises_and_stays_below_local_privacy():
    curves = two_profiles()
    local, one, smooth = curves.values.T
    assert local == pytest.approx(1 / (1 + np.e))
    assert np.all(np.diff(one) >= -1e-12)
    assert np.all(smooth <= one + 1e-8)
    assert np.all(one <= local + 1e-10)
    assert smooth[0] == 0


def test_stand_in_profiles_make_the_baseline_fall_together():
    assert np.allclose(np.sum(list(PROFILES.values()), axis=1), 1)
    local, smooth = (categorical(mechanism_class, "t", FEW) for mechanism_class in (LocalResponse, SmoothCategorical))
    assert np.allclose(local.values, local.values[:, :1], atol=1e-9)
    informative, other = smooth.values[:, :2], smooth.values[:, 2:]
    assert np.all(other <= informative.max(axis=1, keepdims=True) + 1e-12)
    assert np.all(smooth.values[1:] < local.values[1:])
    assert np.all(other[:3] < 0.3 * local.values[:3, :2].max())


@pytest.mark.parametrize("count", [6, 21])
def test_chains_spread_wider_than_under_local_privacy(count):
    local, smooth = (chain(mechanism_class, count, "t", FEW) for mechanism_class in (LocalResponse, SmoothOneBit))
    spread = [curves.values[:, -1] - curves.values[:, 0] for curves in (local, smooth)]
    assert spread[0] == pytest.approx(np.tanh(FEW / 2), abs=1e-8)
    assert np.all(spread[1] > spread[0])
    assert np.allclose(smooth.values + smooth.values[:, ::-1], 1, atol=1e-6)
    assert np.all(np.diff(smooth.values, axis=1) > -1e-9)


@pytest.mark.parametrize(
    ("name", "header", "lines", "words"),
    [
        (
            "geumlek-7.2",
            ["difference", "largest_flip"],
            3 * 95,
            "below the 0.269 of randomized response at every difference, by at least 0.006",
        ),
        ("geumlek-7.3", ["epsilon", "largest_change"], 2 * 4 * 5, "at ε = 0.2"),
        ("geumlek-7.5", ["epsilon", "probability_of_one"], 2 * (6 + 21) * 4, "randomized response 0.100 and 0.100"),
    ],
)
def test_files(tmp_path, name, header, lines, words, small_once):
    """At the small size: four values of ε."""
    picture, numbers, sentence = small_once(name).made.write(tmp_path)
    rows = list(csv.reader(numbers.read_text(encoding="utf-8").splitlines()))
    assert rows[0] == ["panel", "curve", *header]
    assert len(rows) == 1 + lines
    assert picture.read_bytes()[:4] == b"\x89PNG"
    assert words in sentence
    assert "thesis says" in sentence or "the thesis" in sentence


def test_the_baseline_may_be_better_nowhere(monkeypatch):
    monkeypatch.setattr(profiles, "EPSILONS", np.array([0.2, 1.0]))
    assert "this holds here at every ε of the figure." in profiles.CATEGORICAL.run().sentence


def test_where_the_baseline_stops_being_better_is_a_root():
    columns = profiles._categorical(FEW).columns
    (crossing,) = sorted({x for x in columns["epsilon"] if x not in FEW})
    changes = [
        categorical(mechanism_class, "t", np.array([crossing])).values.max()
        for mechanism_class in (LocalResponse, SmoothCategorical)
    ]
    assert changes[0] == pytest.approx(changes[1], abs=1e-7)
    assert (
        f"up to ε = {crossing:.2g} the worst symbol of Smooth Categorical"
        in profiles._describe_categorical(columns).sentence
    )


def test_tables_hold_every_point():
    curves = Curves(
        title="t",
        names=("x", "y"),
        x_label="x (nats)",
        y_label="y of it",
        x=np.array([1.0, 2.0]),
        labels=("a",),
        values=np.array([[3.0], [4]]),
    )
    assert table([curves]) == {"panel": ["t", "t"], "curve": ["a", "a"], "x": [1.0, 2.0], "y": [3.0, 4.0]}


def test_the_example_runs_and_profiles_save(tmp_path, capsys):
    example = runpy.run_path(str(Path(__file__).parents[2] / "examples" / "profiles_by_role.py"))
    assert example["main"]([str(tmp_path)], runs=3) == 0
    assert (tmp_path / "errors.png").exists()
    lines = (tmp_path / "errors.csv").read_text().splitlines()
    assert len(lines) == 7
    errors = np.array([[float(x) for x in line.split(",")[1:4]] for line in lines[1:]])
    assert np.all(errors[:, 0] < errors[:, 1:].min(axis=1))
    assert "total variation" in capsys.readouterr().out
    assert example["main"]([]) == 2
    assert example["proper"](np.array([0.7, 0.5, -0.2])) == pytest.approx([0.6, 0.4, 0.0])


def test_two_releases_by_enumeration():
    """The rules hold for independent observations and selections; each other case breaks its rule."""
    found = profiles_composition.deltas(0.3)
    assert found["independent observations"][2] <= 1e-14
    assert found["independent selections"][2] <= 1e-14
    assert found["one observation twice"][2] > 0.05
    assert found["dependent selections"][2] > 0.5
    assert found["one observation twice"][1] == pytest.approx(0.6, rel=1e-9)
    first, second = np.array([0.7, 0.3]), np.array([0.4, 0.6])
    assert profiles_composition.delta(first, second, 0.0) == pytest.approx(0.3)
    assert profiles_composition.delta(np.outer(first, first), np.outer(second, second), 0.5) > 0.1
    assert profiles_composition.COMPOSITION.run().sentence.endswith(".")

"""The paper's figures redrawn: ours below the printed bounds, the exact example below both, files as promised."""

import csv

import numpy as np
import pytest

import privsample as ps
from privsample.simulations.experiments import experiment, selection_use
from privsample.simulations.experiments import selection_data as data
from privsample.simulations.experiments.base import Experiment
from privsample.simulations.experiments.selection_paint import result

FEW = (2.0, 10.0, 100.0)


def by_label(curves):
    return {(curve.label, curve.whose): curve for curve in curves}


@pytest.mark.parametrize("figure", [data.figure_2, data.figure_3])
def test_renyi_curves_lie_below_the_printed_ones(figure):
    curves = by_label(figure())
    for (label, whose), curve in curves.items():
        assert curve.x.shape == curve.y.shape
        if whose == "ours":
            assert (curve.y <= curves[label, "printed"].y * (1 + 1e-9)).all()


def test_cost_and_utility():
    means = np.array(FEW)
    known = data.costs(FEW)
    four = by_label(data.figure_4(known))
    for label in data.FAMILIES:
        assert (four[label, "ours"].x < four[label, "printed"].x).all()
        assert (np.diff(four[label, "ours"].x) > 0).all()
    assert four["logarithmic (η = 0)", "ours"].x[1] == pytest.approx(2.739, abs=1e-3)
    quantile = by_label(data.figure_5(known))["Poisson", "ours"].y
    assert quantile == pytest.approx(1 - (1 - np.exp(-means)) / means)
    assert by_label(data.figure_6(known))["Poisson", "ours"].y == pytest.approx(-np.expm1(-means / 100))
    accuracy = by_label(data.figure_7(known, np.array([0.2, 0.4, 0.6])))["geometric (η = 1)", "ours"].y
    assert (np.diff(accuracy) > 0).all()
    assert (accuracy < 0.6).all()
    assert accuracy[-1] > 0.59


def test_the_example_of_three_points():
    curves = by_label(data.figure_8())
    exact = curves["three points, exact", "floor"].y
    assert (exact <= curves["Corollary 16, second line", "printed"].y).all()
    assert (curves["ours, Gaussian noise", "ours"].y <= curves["Corollary 16, second line", "printed"].y).all()
    assert (exact >= curves["one run", "base"].y).all()


def test_what_the_paper_has_no_bound_for():
    with pytest.raises(TypeError, match="no bound for Binomial"):
        data.printed(ps.Binomial(maximum=3, rate=0.5))
    with pytest.raises(ValueError, match="Corollary 4"):
        data.printed(ps.TruncatedNegativeBinomial(eta=0, gamma=0.99))


def test_accuracies_differ_by_learning_rate():
    found = selection_use.digits(runs=6, steps=5)
    assert found.shape == (6,)
    assert ((found > 0.05) & (found < 1)).all()


def test_files(tmp_path):
    curves = (
        data.Curve(label="one", whose="ours", x=np.array([1.0, 2.0]), y=np.array([3.0, 4.0])),
        data.Curve(label="one", whose="printed", x=np.array([1.0, 2.0]), y=np.array([3.5, 4.5])),
        data.Curve(label="rest", whose="naive", x=np.array([1.0, 2.0]), y=np.array([5.0, 6.0])),
    )
    made = Experiment(
        name="figx", title="t", run=lambda: result(curves, "Words.", title="t", xlabel="x", ylabel="y", ylim=(0, 7))
    )
    picture, numbers, sentence = made.write(tmp_path)
    assert picture.read_bytes()[:4] == b"\x89PNG"
    assert sentence == "Words."
    rows = list(csv.DictReader(numbers.read_text(encoding="utf-8").splitlines()))
    assert len(rows) == 6
    assert rows[2] == {"curve": "one", "bound": "printed", "x": "1.0", "y": "3.5"}


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("h-4", "costs ε = 2.74 by our account, 3.45 by the paper's, and 7.29"),
        ("h-5", "intermediate range"),
        ("h-6", "for Poisson"),
        ("h-7", "stand-in"),
        ("h-8", "tight up to small"),
    ],
)
def test_sentences(tmp_path, monkeypatch, name, words):
    monkeypatch.setattr(data, "MEANS", np.array(FEW))
    monkeypatch.setattr(selection_use, "digits", lambda: np.array([0.2, 0.4, 0.6]))
    assert words in experiment(name).write(tmp_path)[2]


@pytest.mark.parametrize("name", ["h-2", "h-3"])
def test_renyi_sentences(tmp_path, monkeypatch, name):
    monkeypatch.setattr(data, "ORDERS", np.array([2.0, 10.0]))
    assert "and 10.00" in experiment(name).write(tmp_path)[2]

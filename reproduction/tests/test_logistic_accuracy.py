"""Accuracy of logistic posteriors: public bounds, calibrated mechanisms, scores and missing points."""

import numpy as np
import pytest

import privsample as ps
from reproduction import logistic_accuracy as accuracy
from reproduction.tables import Table


@pytest.mark.parametrize(("made", "n", "features"), [(accuracy.wine, 178, 13), (accuracy.iris, 100, 4)])
def test_records_lie_within_public_bounds(made, n, features):
    task = made()
    assert task.rows.shape == (n, features)
    assert task.train + task.test == n
    assert np.abs(task.rows).max() <= 1.0
    assert (np.abs(task.rows) == 1.0).mean() < 0.02  # hardly anything is clipped
    assert set(task.labels) == {0.0, 1.0}


@pytest.mark.parametrize("method", accuracy.METHODS)
def test_mechanisms_meet_the_target_and_draw_exactly(method):
    made = accuracy.mechanism(accuracy.iris(), method, 1.0)
    assert made.uses_rejection
    assert float(made.accountant.epsilon(accuracy.DELTA)) == pytest.approx(1.0, rel=1e-4)
    assert float(made.accountant.epsilon(accuracy.DELTA)) <= 1.0
    assert ps.Assumption.CONVERGED_CHAIN not in made.accountant.assumptions


def test_draws_that_take_long_are_left_out(monkeypatch):
    monkeypatch.setattr(accuracy, "SPLITS", 2)
    assert accuracy.mechanism(accuracy.breast_cancer(), "diffused posterior", 8.0) is None
    assert np.isnan(accuracy.accuracies(accuracy.breast_cancer(), "diffused posterior", 8.0)).all()


def test_scores_count_right_labels():
    rows, labels = np.array([[1.0], [2.0], [-1.0], [0.5]]), np.array([1.0, 0.0, 0.0, 1.0])
    assert accuracy._score((rows, labels, rows, labels), np.array([1.0]), 0.0) == 0.75
    assert accuracy._score((rows, labels, rows, labels), np.array([1.0]), -5.0) == 0.5


def test_more_privacy_costs_accuracy_and_labels_at_random_leave_none(monkeypatch, rng):
    """A draw for shuffled labels is no better than the larger class: what the figure shows is learnt."""
    monkeypatch.setattr(accuracy, "SPLITS", 8)
    iris = accuracy.iris()
    shuffled = type(iris)(
        name="shuffled",
        rows=iris.rows,
        labels=rng.permutation(iris.labels),
        norm=iris.norm,
        train=iris.train,
        test=iris.test,
    )
    learnt, guessed = (accuracy.accuracies(task, "concentrated posterior", 8.0).mean() for task in (iris, shuffled))
    assert learnt > 0.75
    assert guessed < 0.65


def test_table_and_sentence(small_once):
    """At the small size: one task, two values of ε and four splits."""
    result = small_once("logistic-accuracy").result
    table = Table(columns=result.columns)
    assert len(table) == 2 * 4 + 2 * 2 * 4
    drawn = table.select(method="diffused posterior", epsilon=4.0)["accuracy"]
    assert f"diffused posterior {table.select(method='diffused posterior', epsilon=0.5)['accuracy'].mean():.1%}" in (
        result.sentence
    )
    assert f"{drawn.mean():.1%} ± {2 * drawn.std(ddof=1) / 2:.1%} at ε = 4" in result.sentence
    assert "larger class has 50.0%" in result.sentence

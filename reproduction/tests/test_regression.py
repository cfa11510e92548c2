"""Comparison of private regressions: public bounds, accounts of the learners, and how they are scored."""

import numpy as np
import pytest

import privsample as ps
from reproduction import regression, regression_learners
from reproduction.regression_tasks import diabetes, digit_pair, ten_digits, tumours
from reproduction.tables import Table

TASKS = (tumours, lambda: digit_pair(3, 8), ten_digits, diabetes)


@pytest.mark.parametrize("made", TASKS)
def test_records_lie_within_public_bounds(made):
    task = made()
    assert np.abs(task.data.rows).max() <= 1.0
    assert task.data.train + task.data.test == len(task.data.rows)
    assert set(task.data.labels) == set(range(task.classes)) or np.abs(task.data.labels).max() <= 1.0


@pytest.mark.parametrize("made", TASKS)
def test_posterior_draws_meet_the_target_without_convergence(made):
    task = made()
    account = regression_learners.posterior_mechanism(task, 1.0, steps=20).accountant
    assert float(account.epsilon(regression_learners.DELTA)) == pytest.approx(1.0, rel=1e-4)
    assert float(account.epsilon(regression_learners.DELTA)) <= 1.0
    assert ps.Assumption.CONVERGED_CHAIN not in account.assumptions


def test_the_minimiser_has_no_gradient_and_moves_less_than_its_sensitivity():
    task = digit_pair(3, 8)
    made = regression_learners.posterior_mechanism(task, 1.0)
    (parts,) = task.data.splits(1)
    changed = parts[1].copy()
    changed[0] = 1.0 - changed[0]
    found = [
        regression_learners.minimiser(made._statistic((parts[0], labels)), made.bias.smoothness)
        for labels in (parts[1], changed)
    ]
    assert np.linalg.norm(made._statistic(parts[:2]).gradient(found[0])) <= 2 * regression_learners.MINIMISED
    moved = float(np.linalg.norm(found[0] - found[1]))
    assert 0.0 < moved <= made.accountant.gradient_sensitivity + 2 * regression_learners.MINIMISED


def test_scores_of_known_predictions():
    numbers, pair, ten = diabetes(), tumours(), ten_digits()
    truth = np.array([1.0, 0.0, 1.0, 1.0])
    loss, accuracy = regression_learners.losses_and_scores(pair, np.full((1, 4), 0.75), truth)
    assert (loss, accuracy) == (pytest.approx(-(3 * np.log(0.75) + np.log(0.25)) / 4), 0.75)
    flat = np.full((2, 4, 10), 0.1)
    assert regression_learners.losses_and_scores(ten, flat, truth)[0] == pytest.approx(np.log(10.0))
    assert regression_learners.losses_and_scores(numbers, truth[None], truth) == (0.0, 1.0)
    assert regression_learners.losses_and_scores(numbers, np.full((1, 4), 0.75), truth)[1] == pytest.approx(0.0)


def test_differences_are_paired_and_enlarged_for_few_splits():
    columns = {
        "method": ["a"] * 3 + ["b"] * 3,
        "epsilon": [1.0] * 6,
        "split": [0, 1, 2, 2, 1, 0],
        "loss": [1.0, 2.0, 3.0, 4.2, 3.0, 2.1],
    }
    mean, error = regression.difference(Table(columns=columns), "a", "b", 1.0)
    assert mean == pytest.approx(1.1)
    assert error > np.std([1.1, 1.0, 1.2], ddof=1) / 3**0.5

"""What a tuned hyperparameter reveals: at two seeds, without outliers, and where all values tie."""

import numpy as np
import pytest

from reproduction import leak


@pytest.mark.parametrize(
    ("seed", "data_sets"),
    [
        (0, 16),
        pytest.param(0, 40, marks=pytest.mark.long),
        pytest.param(1, 40, marks=pytest.mark.long),
    ],
)
def test_the_leak_at_two_seeds(seed, data_sets):
    """No comparison rests on less than three standard errors; more data sets and the second seed add margin."""
    result = leak.leak(data_sets=data_sets, seed=seed)
    _, right, error = leak.attack(result.columns)
    assert right - 3 * error > 0.5
    assert "more often than chance" in result.sentence


def test_without_outliers_there_is_no_leak(monkeypatch):
    monkeypatch.setattr(leak, "with_outliers", lambda X, y: (X, y))
    result = leak.leak(data_sets=12)
    assert leak.attack(result.columns)[1] == pytest.approx(0.5, abs=1e-12)
    assert "not distinguishable from chance" in result.sentence


def test_ties_tell_nothing():
    """All alphas are equally good with and without the record; ties are split evenly, not by a constant rule."""
    flat = leak.tuned(np.ones((3, len(leak.ALPHAS))))
    assert flat == pytest.approx(np.full(flat.shape, 1 / len(leak.ALPHAS)))
    assert leak.right_guesses(flat, flat) == pytest.approx(np.full(flat.shape, 0.5))
    assert leak.tuned(np.array([0.1, 0.5, 0.5])).tolist() == [0.0, 0.5, 0.5]

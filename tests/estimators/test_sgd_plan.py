"""Epochs and batches that the descent estimators plan from public quantities."""

import numpy as np
import pytest

from privsample import DP, LogisticLoss, PrivateSGDClassifier, PrivateSGDRegressor, SquaredLoss
from privsample.errors import UnreachableTarget
from privsample.estimators.sgd_plan import default_norm, planned_batches, planned_steps

TARGET = DP(1.0, 1e-5)
LOSS = LogisticLoss(features=30, norm=3.2, radius=10.0, penalty=1e-3)


def test_few_records_are_read_as_a_whole():
    made = PrivateSGDClassifier(bounds=(-1, 1), delta=1e-5).mechanism_for(455, 30)
    assert made.batch == made.n == 455
    assert 10 < made.epochs < 60
    assert made.loss.norm == default_norm(30) == pytest.approx(3.24, abs=0.01)
    assert TARGET.met_by(made.accountant)


def test_the_noise_of_all_steps_has_the_declared_length():
    """Steps that do not contract: the sum of their noise has the length 2.5, 0.4 times the radius if that is less."""
    for loss, length in ((LOSS, 2.5), (SquaredLoss(features=9, norm=2.0, radius=1.0, target=1.0), 0.4)):
        rate = 0.1 / loss.smoothness
        steps = planned_steps(loss, 300, rate, TARGET)
        unit = 1 / 0.26805  # the noise of a Gaussian mechanism with sensitivity 1 at (1, 1e-5)
        found = steps * rate * unit * loss.gradient_sensitivity / 300 * np.sqrt(loss.width)
        assert length * (1 - 1 / steps) <= found * 1.001 <= length * 1.002


def test_more_records_and_weaker_targets_allow_more_steps():
    rate = 1 / LOSS.smoothness
    steps = [planned_steps(LOSS, n, rate, TARGET) for n in (1, 100, 1000, 10_000, 10**9)]
    assert steps == sorted(steps)
    assert (steps[0], steps[-1]) == (1, 500)
    assert planned_steps(LOSS, 455, rate, DP(0.5, 1e-5)) < planned_steps(LOSS, 455, rate, DP(4.0, 1e-5))


@pytest.mark.parametrize(
    ("n", "steps", "batch", "epochs", "expected"),
    [
        (455, 30, None, None, (455, 30)),
        (100_000, 500, None, None, (4000, 20)),
        (10**7, 500, None, None, (20_000, 1)),
        (4000, 200, 7, None, (7, 1)),
        (4000, 200, 800, None, (800, 40)),
        (4000, 200, 9000, None, (9000, 200)),
        (400, 200, None, 1, (20, 1)),
        (400, 20, None, 50, (400, 50)),
        (3, 1, None, None, (3, 1)),
        (5, 5, None, 1, (5, 1)),
    ],
)
def test_batches(n, steps, batch, epochs, expected):
    assert planned_batches(n, steps, batch, epochs) == expected


def test_given_values_are_kept():
    for made in (PrivateSGDClassifier(bounds=(-1, 1)), PrivateSGDRegressor(bounds=(-1, 1), target_bounds=(0, 1))):
        mechanism = made.set_params(batch=50, epochs=3, order="reshuffle", delta=1e-5).mechanism_for(200, 4)
        assert (mechanism.batch, mechanism.epochs, mechanism.order) == (50, 3, "reshuffle")
    with pytest.raises(ValueError, match="epochs must be at least 1"):
        made.set_params(epochs=0).mechanism_for(200, 4)
    with pytest.raises(ValueError, match="order must be one of"):
        made.set_params(epochs=2, order="cyclic").mechanism_for(200, 4)
    with pytest.raises(UnreachableTarget, match="delta > 0"):
        made.set_params(epochs=None, order="given", delta=0.0).mechanism_for(200, 4)


@pytest.mark.statistical
@pytest.mark.parametrize(("planned", "accepted"), [(True, True), (False, False)])
def test_planned_epochs_predict_better_than_one(planned, accepted, rng):
    """Three hundred records of ten features at epsilon 1: the mean accuracy over fifteen fits."""
    scores = []
    for _ in range(15):
        rows = rng.uniform(-1, 1, (300, 10))
        labels = (rows[:, :5].sum(axis=1) > rows[:, 5:].sum(axis=1)).astype(int)
        more = {} if planned else {"epochs": 1, "batch": 20, "norm": 10**0.5}
        made = PrivateSGDClassifier(epsilon=1.0, delta=1e-5, bounds=(-1, 1), **more).fit(rows, labels, rng=rng)
        scores.append(made.score(rows, labels))
    assert (np.mean(scores) > 0.7) == accepted  # seven standard errors below the one, six above the other

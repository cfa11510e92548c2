"""How far apart two records' gradients can be: against a search over records and coefficients in three dimensions."""

import mpmath as mp
import numpy as np
import pytest
from scipy import optimize

from privsample import LogisticLoss, SquaredLoss

RADII = [1e-6, 1e-3, 0.3, 1.0, 2.0, 7.0, 60.0]


def logistic(radius, norm=1.0, features=3, *, intercept=False):
    return LogisticLoss(features=features, norm=norm, radius=radius, intercept=intercept)


def squared(radius, norm=1.0, features=3, target=1.0, *, intercept=False):
    return SquaredLoss(features=features, norm=norm, radius=radius, target=target, intercept=intercept)


def ends(loss):
    return (1.0, 0.0) if isinstance(loss, LogisticLoss) else (loss.target, -loss.target)


def gradients(loss, w, rows, targets):
    columns = np.column_stack([rows, np.ones(len(rows))]) if loss.intercept else rows
    return loss.slopes(columns @ w, targets)[:, None] * columns


def inside(point, radius):
    length = np.linalg.norm(point, axis=-1, keepdims=True)
    return point * np.minimum(1.0, radius / np.maximum(length, 1e-300))


def furthest(loss, rng, tries=2):
    """Found by climbing from random places, of which two suffice: two rows, their targets, one state."""
    best, f, w = 0.0, loss.features, loss.width
    for first in ends(loss):
        for second in ends(loss):

            def apart(flat, first=first, second=second):
                state = inside(flat[2 * f :] * loss.radius, loss.radius)
                rows = inside(flat[: 2 * f].reshape(2, f), 1.0) * loss.norm
                return -float(np.linalg.norm(np.subtract(*gradients(loss, state, rows, np.array([first, second])))))

            starts = rng.normal(size=(tries, 2 * f + w))
            best = max(best, *(-optimize.minimize(apart, start, method="Powell").fun for start in starts))
    return best


@pytest.mark.parametrize("made", [logistic, squared])
@pytest.mark.parametrize("radius", RADII)
def test_nothing_is_further_apart_and_something_nearly_is(made, radius, rng):
    loss = made(radius, norm=0.7)
    found = furthest(loss, rng)
    assert 0.999 * loss.gradient_sensitivity <= found <= loss.gradient_sensitivity


@pytest.mark.parametrize("loss", [logistic(2.0, features=1), squared(2.0, features=1)])
def test_one_coefficient_stays_below(loss, rng):
    assert furthest(loss, rng) <= loss.gradient_sensitivity


@pytest.mark.parametrize("loss", [logistic(2.0, intercept=True), squared(1.0, intercept=True)])
def test_an_intercept_counts_in_the_rows(loss, rng):
    assert 0.6 * loss.gradient_sensitivity <= furthest(loss, rng) <= loss.gradient_sensitivity


def test_the_mirrored_pair_of_the_note_at_fifty_digits():
    """Rows (cos a, sin a), (-cos a, sin a) at the state (0, -radius): the supremum is theirs for the squared loss."""
    with mp.workdps(50):
        for radius in RADII:
            k = mp.mpf(radius)

            def apart(a, height, k=k):
                return 2 * mp.cos(a) * height(k * mp.sin(a))

            def top(height, k=k):
                places = [j * mp.pi / 4000 for j in range(2001)]
                return max(apart(a, height) for a in places)

            squares, curves = top(lambda s: s + 1), top(lambda s: 1 / (1 + mp.exp(-s)))
            assert squares * (1 - mp.mpf("1e-15")) <= squared(radius).gradient_sensitivity <= squares * (1 + 1e-6)
            assert curves <= logistic(radius).gradient_sensitivity <= curves * (1 + mp.mpf("1e-3"))


@pytest.mark.parametrize("radius", [1e-12, 40.0, 41.0, 1e6, 1e150])
def test_extremes_stay_between_the_length_of_one_gradient_and_of_two(radius):
    assert 1.0 <= logistic(radius).gradient_sensitivity <= 2.0 * (1 + 1e-11)
    assert radius <= squared(radius).gradient_sensitivity <= 2.0 * (radius + 1.0) * (1 + 1e-11)

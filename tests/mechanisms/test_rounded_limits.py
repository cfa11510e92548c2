"""Records that rounding leaves an ulp beyond a limit: moved to it, so that accounts hold, and not reported."""

from fractions import Fraction

import numpy as np
import pytest
from sklearn.preprocessing import MinMaxScaler, normalize

import privsample as ps
from privsample.distributions.domains import Domain
from privsample.distributions.rows import count_clipped_rows, within_norm

NORM = ps.LogisticLoss(features=7, norm=1.0, radius=1.0, penalty=0.1)
BY_NORM = {
    "logistic": lambda n: ps.LogisticPosterior(n=n, features=7, norm=1.0, prior_std=1.0),
    "descent": lambda n: ps.NoisyProjectedSGD(loss=NORM, n=n, rate=0.1, noise_std=1.0),
    "sum": lambda n: ps.ClippedSum(norm=1.0, noise_std=1.0, width=7),
}


def rows_of(rng, n=400, width=7):
    return rng.lognormal(0.0, 1.0, (n, width)) * rng.choice([-1.0, 1.0], (n, width))


def exact_square(row):
    return sum((Fraction(float(x)) ** 2 for x in row), Fraction(0))


@pytest.mark.parametrize("made", BY_NORM.values(), ids=BY_NORM)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_normalized_rows_are_not_reported(made, dtype, rng):
    rows = normalize(rows_of(rng).astype(dtype))
    assert rows.dtype == dtype
    assert any(exact_square(row) > 1 for row in rows)
    mechanism = made(len(rows))
    data = rows if isinstance(mechanism, ps.ClippedSum) else (rows, np.arange(len(rows)) % 2)
    assert mechanism.validate(data).facts == {}
    rows[:3] *= np.array([[1.0 + 1e-5], [2.0], [1e300 if dtype == np.float64 else 1e30]], dtype=dtype)
    assert mechanism.validate(data).facts == {"scaled down": 3}


@pytest.mark.parametrize("width", [1, 7, 300])
@pytest.mark.parametrize("norm", [1.0, 0.7, 1e-200])
@pytest.mark.parametrize("order", ["C", "F"])
def test_no_row_that_comes_out_is_longer_than_the_norm(width, norm, order, rng):
    """In exact arithmetic: the accounts' sensitivity is the norm, with no allowance for an ulp."""
    rows = normalize(rows_of(rng, 15 if width > 100 else 200, width))
    rows = np.asarray(np.concatenate([rows, rows * (1.0 + 2**-52), rows * 1.7, rows * 0.3]) * norm, order=order)
    found = within_norm(rows, norm)
    assert all(exact_square(row) <= Fraction(norm) ** 2 for row in found)
    assert np.allclose(found[: len(found) // 2], rows[: len(found) // 2], rtol=1e-12, atol=0.0)
    assert np.array_equal(found[-len(found) // 4 :], rows[-len(found) // 4 :])


def test_the_rule_without_an_allowance_lets_rows_through(rng):
    rows = normalize(rows_of(rng))
    length = np.sqrt((rows * rows).sum(axis=1, keepdims=True))
    plain = np.where(length > 1.0, rows / length, rows)
    assert any(exact_square(row) > 1 for row in plain)


def test_rows_that_are_not_finite_are_counted_apart(rng):
    rows = rows_of(rng, 5)
    rows[0, 0], rows[1, 1] = np.nan, np.inf
    assert count_clipped_rows(rows, 1e9) == {"not finite": 2, "scaled down": 0}


def test_scaled_columns_are_not_reported(rng):
    scaler = MinMaxScaler((0.1, 0.7))
    column = scaler.fit_transform(rng.lognormal(0, 2, (3000, 1)))[:, 0]
    column[0] = 0.7000000000000001
    made = ps.GaussianSum(bounds=(0.1, 0.7), noise_std=1.0)
    assert not (column <= 0.7).all()
    assert not any(made.validate(column).facts.values())
    assert not any(made.validate(column.astype(np.float32)).facts.values())
    assert made.validate([0.7 + 1e-9, 0.1 - 1e-9, 0.5]).facts["outside"] == 2
    assert sum(made._statistic(column)) <= 3000 * Fraction(0.7)
    assert made.domain.clean(column).max() == 0.7


def test_whole_numbers_beside_rounding():
    counts = Domain(low=0.0, high=1e6, missing=0.0, integer_valued=True)
    assert counts.count_problems([np.array([2.9999999999999996, 3.0, 1e6])]) == {}
    assert counts.count_problems([np.array([2.9999, 3.5, 1e6 + 1.0])]) == {"fractional": 2, "outside": 1}
    assert counts.count_problems([np.array([2.5, 7.0], dtype=np.float32)]) == {"fractional": 1}
    codes = Domain(low=0.0, high=2.0, missing=0.0, integer_valued=True, outside_is_missing=True)
    assert codes.count_problems([np.array([2.0000000000000004])]) == {"outside": 1}  # it would count as category 0


def test_targets_of_a_regression_beside_rounding():
    loss = ps.SquaredLoss(features=1, norm=1.0, radius=1.0, target=1.0)
    assert not any(loss.count_problems(np.array([1.0000000000000002, -1.0000000000000002])).values())
    assert loss.count_problems(np.array([1.0 + 1e-9, np.nan])) == {
        "targets that are no number": 1,
        "targets out of bounds": 1,
    }

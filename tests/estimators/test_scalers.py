"""Scalers: by public bounds at no cost, and by means and standard deviations that are paid for."""

import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.utils.estimator_checks import check_estimator

import privsample as ps
from privsample.errors import SchemaError
from tests.estimators.test_newcomers import Untouched

_TOTAL = "no record's value can make such a fit fail"
_RANDOM = "a fit is a random draw: two differ"
EXCEPTIONS = {
    "check_dtype_object": _TOTAL,
    "check_fit_idempotent": _RANDOM,
    "check_transformer_general": _RANDOM,
    "check_transformer_data_not_an_array": _RANDOM,
}
KINDS = (ps.BoundsScaler, ps.PrivateStandardScaler)
each_scaler = pytest.mark.parametrize("kind", KINDS)


@each_scaler
def test_scikit_learns_own_checks(kind):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        results = check_estimator(kind(bounds=(-5, 5), handle_invalid="replace"), on_fail=None, on_skip=None)
    failed = {r["check_name"] for r in results if r["status"] == "failed"}
    assert failed <= (set(EXCEPTIONS) if kind is ps.PrivateStandardScaler else {"check_dtype_object"})
    assert len(results) > 30


def test_bounds_scaler_maps_bounds_to_one():
    scaler = ps.BoundsScaler(bounds=([0, 10], [4, 30]))
    rows = np.array([[0, 30], [2, 20], [9, -5], [np.nan, np.inf]])
    assert scaler.fit_transform(rows).tolist() == [[-1, 1], [0, 0], [1, -1], [0, 1]]
    assert scaler.transform(rows[:1]).tolist() == [[-1, 1]]
    assert ps.BoundsScaler((0, 1)).transform([[0.75]]).tolist() == [[0.5]]  # it learns nothing, so fit may be left out


def test_bounds_scaler_agrees_with_the_bounds_of_an_estimator(rng):
    rows = rng.uniform(-3, 14, (300, 2))
    labels = (rows[:, 0] > 5).astype(int)
    scaled = ps.BoundsScaler((0, 10)).fit_transform(rows)
    one = ps.PrivateSGDClassifier(bounds=(0, 10)).fit(rows, labels, rng=np.random.default_rng(1))
    other = ps.PrivateSGDClassifier(norm=one.mechanism_for(300, 2).loss.norm).fit(
        scaled, labels, rng=np.random.default_rng(1)
    )
    assert np.allclose(one.predict_proba(np.clip(rows, 0, 10)), other.predict_proba(scaled))


def test_private_means_and_deviations(rng):
    rows = np.column_stack([rng.normal(170, 10, 20_000), rng.normal(0.02, 0.003, 20_000)])
    made = ps.PrivateStandardScaler(epsilon=2.0, bounds=([100, 0.0], [250, 0.05])).fit(rows, rng=rng)
    assert np.allclose(made.mean_, rows.mean(axis=0), rtol=0.02)
    assert np.allclose(made.scale_, rows.std(axis=0), rtol=0.1)
    assert np.allclose(made.var_, made.scale_**2)
    again = made.transform(rows)
    assert np.allclose(again.mean(axis=0), 0, atol=0.2)
    assert np.allclose(again, (np.clip(rows, [100, 0], [250, 0.05]) - made.mean_) / made.scale_)
    assert np.isfinite(made.transform([[np.nan, np.inf]])).all()
    assert "epsilon = 2)" in made.statement()
    assert "mean_" not in vars(clone(made))


@pytest.mark.parametrize("features", [1, 2, 7])
def test_the_sensitivity_of_the_released_sums_by_enumeration(features):
    """No two records on a fine grid change the sums by more than the account says, and two of them by as much."""
    grid = np.linspace(-1, 1, 401)
    one = np.column_stack([grid, grid**2 - 1])
    between = ((one[:, None] - one[None]) ** 2).sum(axis=2)
    assert between.max() == pytest.approx(4.0)
    assert (one**2).sum(axis=1).max() <= 1.0 + 1e-15
    mechanism = ps.PrivateStandardScaler(bounds=(-1, 1)).mechanism_for(3, features)
    assert mechanism.sensitivity == pytest.approx(np.sqrt(features * between.max()))
    assert mechanism.width == 2 * features
    longest = np.tile(one[[0, -1, 200]], (1, 1)).repeat(features, axis=1)
    assert mechanism.validate(longest).facts == {}


def test_the_account_is_the_promise(rng):
    made = ps.PrivateStandardScaler(epsilon=0.7, delta=1e-7, bounds=(0, 1))
    account = made.accountant_for(500, 3)
    assert ps.DP(epsilon=0.7, delta=1e-7).met_by(account)
    assert account.relation == ps.ReplaceOne(n=500)
    fitted = made.fit(rng.random((500, 3)), rng=rng)
    assert fitted.accountant_ == fitted.release_.account == account.assuming(ps.Assumption.RNG_FRESH)


def test_a_variance_that_is_lost_in_the_noise_is_not_divided_by():
    rows = np.full((50, 4), 0.3)
    for seed in range(20):
        made = ps.PrivateStandardScaler(epsilon=0.1, bounds=(-1, 1)).fit(rows, rng=np.random.default_rng(seed))
        floor = min(made.mechanism_for(50, 4).noise_std / 50, 1.0)
        assert (made.var_ >= floor).all()
        assert (np.abs(made.mean_) <= 1).all()


@each_scaler
def test_the_curator_hears_of_changed_features(kind):
    rows = np.array([[0.0, 5.0], [2.0, np.nan], [3.0, 9.0]])
    facts = kind(bounds=(0, 2)).validate(pd.DataFrame(rows, columns=["a", "b"])).facts
    assert facts == {
        "not finite": 1,
        "features out of bounds": 3,
        "rows with features out of bounds": 2,
        "feature b out of bounds": 2,
        "feature a out of bounds": 1,
    }


@each_scaler
@pytest.mark.parametrize(
    ("more", "rows", "error", "words"),
    [
        ({"bounds": None}, [[1.0]], ValueError, "bounds must be declared"),
        ({"bounds": (1, 0)}, [[1.0]], ValueError, "low < high"),
        ({}, [["a"]], SchemaError, "X must hold numbers"),
        ({}, np.zeros((0, 2)), SchemaError, r"0 sample\(s\)"),
        ({"handle_invalid": "ignore"}, [[1.0]], ValueError, "handle_invalid must be"),
    ],
    ids=str,
)
def test_bad_input(kind, more, rows, error, words):
    more = {"bounds": (0, 1)} | more
    given = {} if kind is ps.BoundsScaler else {"rng": Untouched()}
    with pytest.raises(error, match=words):
        kind(**more).fit(rows, **given).transform(rows)


def test_the_private_scaler_must_be_fitted_first():
    with pytest.raises(NotFittedError):
        ps.PrivateStandardScaler(bounds=(0, 1)).transform([[0.5]])
    with pytest.raises(ValueError, match="epsilon must be"):
        ps.PrivateStandardScaler(epsilon=0.0, bounds=(0, 1)).accountant_for(5, 1)

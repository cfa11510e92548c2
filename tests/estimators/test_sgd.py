"""scikit-learn's conventions for private descent, as far as privacy allows."""

import warnings

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.utils.estimator_checks import check_estimator

from privsample import DP, Assumption, PrivateSGDClassifier, PrivateSGDRegressor, Release
from privsample.errors import SchemaError, UnreachableTarget

_RANDOM = "a fit is a random draw: two differ"
_DECLARED = "classes are declared, never learned: labels that were not are counted as the negative class"
_TOTAL = "no record's value can make such a fit fail"
TOTAL = {"bounds": (-5, 5), "handle_invalid": "replace"}
EXCEPTIONS = {
    "check_classifiers_classes": _DECLARED,
    "check_classifier_not_supporting_multiclass": _DECLARED,
    "check_classifiers_regression_target": _TOTAL,
    "check_supervised_y_no_nan": _TOTAL,
    "check_dtype_object": _TOTAL,
    "check_fit_idempotent": _RANDOM,
    "check_classifier_data_not_an_array": _RANDOM,
    "check_regressor_data_not_an_array": _RANDOM,
    "check_regressors_int": _RANDOM,
    "check_supervised_y_2d": _RANDOM,
    "check_classifiers_one_label": _RANDOM,
}


def data(rng, n=4000):
    rows = rng.uniform(0, 10, (n, 2))
    odds = 2.0 * (rows[:, 0] - 5) - 1.0 * (rows[:, 1] - 5)
    return rows, np.where(rng.random(n) < 1 / (1 + np.exp(-odds)), "yes", "no")


def classifier(**more):
    return PrivateSGDClassifier(**({"epsilon": 4.0, "delta": 1e-5, "bounds": (0, 10), "classes": ("no", "yes")} | more))


def regressor(**more):
    given = {"epsilon": 4.0, "delta": 1e-5, "bounds": (0, 10), "target_bounds": (0, 50)}
    return PrivateSGDRegressor(**(given | more))


@pytest.mark.parametrize("made", [PrivateSGDClassifier(**TOTAL), PrivateSGDRegressor(**TOTAL, target_bounds=(-1, 1))])
def test_scikit_learns_own_checks(made):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        results = check_estimator(made, on_fail=None, on_skip=None)
    failed = {r["check_name"] for r in results if r["status"] == "failed"}
    assert failed <= set(EXCEPTIONS)
    assert len(results) > 40


@pytest.mark.parametrize("more", [{}, {"order": "given"}, {"fit_intercept": False}, {"norm": 1.0}, {"batch": 7}])
def test_classification(more, rng):
    rows, labels = data(rng)
    made = classifier(**more).fit(rows, labels, rng=rng)
    assert made.coef_.shape == (1, 2)
    assert made.intercept_.shape == (1,)
    assert isinstance(made.release_, Release)
    assert made.accountant_ == made.accountant_for(4000, 2).assuming(Assumption.RNG_FRESH)
    assert DP(epsilon=4.0, delta=1e-5).met_by(made.accountant_)
    assert made.predict_proba(rows).sum(axis=1) == pytest.approx(1.0)
    assert ((made.decision_function(rows) > 0) == (made.predict(rows) == "yes")).all()
    assert clone(made).get_params() == made.get_params()
    if "batch" not in more:
        assert made.score(rows, labels) > 0.8


def test_regression(rng):
    rows, _ = data(rng)
    targets = 3 * rows[:, 0] + rows[:, 1] + rng.normal(0, 1, len(rows))
    made = regressor(epsilon=8.0).fit(pd.DataFrame(rows, columns=["a", "b"]), targets, rng=rng)
    assert list(made.feature_names_in_) == ["a", "b"]
    assert made.score(pd.DataFrame(rows, columns=["a", "b"]), targets) > 0.7
    assert made.coef_.shape == (2,)
    released = made.release_
    scores = (rows / 5 - 1) @ released["coefficients"][0] + released["intercept"][0]
    assert np.allclose(25 + 25 * scores, made.predict(pd.DataFrame(rows, columns=["a", "b"])))


@pytest.mark.parametrize("odd", [None, "secret", np.nan, object(), np.inf, 2**2000], ids=lambda odd: type(odd).__name__)
def test_any_record_is_taken(odd, rng):
    rows, labels = (x.astype(object) for x in data(rng, 60))
    rows[2, 1] = odd
    labels[3] = odd
    assert np.isfinite(classifier(handle_invalid="replace").fit(rows, labels, rng=rng).coef_).all()
    assert np.isfinite(regressor(handle_invalid="replace").fit(rows, labels, rng=rng).coef_).all()
    if isinstance(odd, float) and np.isnan(odd):
        expected = {"not finite": 1, "labels that are not in classes": 1, "label nan, not in classes": 1}
        assert classifier(norm=2**0.5).validate(rows, labels).facts == expected


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"classes": "ab"}, "must be a pair"),
        ({"bounds": None}, "norm or bounds"),
        ({"bounds": (1, 0)}, "low < high"),
        ({"bounds": ([0, 0, 0], 1)}, "2 numbers"),
        ({"norm": -1.0}, "norm must be"),
        ({"rate": 0.0}, "rate must be finite and > 0"),
        ({"rate": 100.0}, "rate must be at most"),
        ({"batch": 0}, "batch must be"),
        ({"radius": 0.0}, "radius must be"),
        ({"epsilon": 0.0}, "epsilon must be"),
    ],
    ids=str,
)
def test_bad_parameters(more, words, rng):
    with pytest.raises((ValueError, ZeroDivisionError), match=words):
        classifier(**more).fit(*data(rng, 60))


def test_bad_data(rng):
    rows, labels = data(rng, 60)
    with pytest.raises(SchemaError, match="59 labels"):
        classifier().fit(rows, labels[1:])
    with pytest.raises(SchemaError, match="1d array"):
        classifier().fit(rows, rows)
    with pytest.raises(SchemaError, match=r"0 sample\(s\)"):
        classifier().fit(rows[:0], labels[:0])
    with pytest.raises(TypeError, match="toarray"):
        classifier().fit(sparse.csr_array(rows), labels)
    with pytest.raises(ValueError, match="requires y"):
        regressor().fit(rows, None)
    with pytest.raises(TypeError, match="seeded"):
        classifier().fit(rows, labels, rng=3)
    with pytest.raises(UnreachableTarget, match="delta > 0"):
        classifier(delta=0.0).fit(rows, labels)
    with pytest.raises(NotFittedError):
        classifier().predict(rows)

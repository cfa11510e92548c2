"""scikit-learn's conventions, as far as privacy allows."""

import re
import warnings

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils.estimator_checks import check_estimator

import privsample as ps
from privsample import DP, Assumption, PrivateLogisticRegression, Release
from privsample.errors import SchemaError, UnreachableTarget

_RANDOM = "a fit is a random draw: two differ, and one is never certain of a label"
_DECLARED = "classes are declared, never learned: labels that were not are counted as the negative class"
_TOTAL = "no record's value can make such a fit fail"
EXCEPTIONS = {
    "check_classifiers_classes": _DECLARED,
    "check_classifier_not_supporting_multiclass": _DECLARED,
    "check_classifiers_regression_target": _TOTAL,
    "check_supervised_y_no_nan": _TOTAL,
    "check_dtype_object": _TOTAL,
    "check_fit_idempotent": _RANDOM,
    "check_classifier_data_not_an_array": _RANDOM,
    "check_supervised_y_2d": _RANDOM,
    "check_classifiers_one_label": _RANDOM,
}


def data(rng, n=400):
    rows = rng.uniform(0, 10, (n, 2))
    odds = 0.8 * (rows[:, 0] - 5) - 0.4 * (rows[:, 1] - 5)
    return rows, np.where(rng.random(n) < 1 / (1 + np.exp(-odds)), "yes", "no")


def regression(**more):
    given = {"epsilon": 5.0, "bounds": (0, 10), "prior_std": 3.0, "classes": ("no", "yes")}
    return PrivateLogisticRegression(**(given | more))


def test_scikit_learns_own_checks(monkeypatch):
    """They cannot pass a generator: here the system's entropy is a fixed one."""
    fixed = np.random.default_rng(1)
    monkeypatch.setattr("privsample._entropy.system_generator", lambda: fixed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        results = check_estimator(
            PrivateLogisticRegression(norm=2.0, epsilon=5.0, sampler="rejection", handle_invalid="replace"),
            expected_failed_checks=EXCEPTIONS,
            on_skip=None,
        )
    assert len(results) > 40
    assert {r["check_name"] for r in results if r["status"] == "xfail"} <= set(EXCEPTIONS)


def test_parameters_and_clone():
    made = regression(draws=3)
    copy = clone(made)
    assert copy.get_params() == made.get_params()
    assert copy.set_params(epsilon=2.0).epsilon == 2.0


def test_the_cost_is_known_before_any_data():
    made = regression()
    account = made.accountant_for(400, 2)
    assert DP(epsilon=5.0, delta=1e-6).met_by(account)
    assert account == made.mechanism_for(400, 2).accountant
    assert made.mechanism_for(400, 2).norm == pytest.approx(np.sqrt(2 / 3 + 1))
    assert made.mechanism_for(400, 1).norm == 1.0
    assert regression(fit_intercept=False).mechanism_for(400, 2).intercept_std is None
    assert regression(intercept_std=7.0).mechanism_for(400, 2).intercept_std == 7.0
    assert regression(method="concentrated").mechanism_for(400, 2).data_weight == 1.0
    assert regression().mechanism_for(400, 2).prior_weight == 1.0


@pytest.mark.parametrize("method", ["diffused", "concentrated"])
@pytest.mark.parametrize("more", [{}, {"fit_intercept": False}, {"draws": 5}, {"norm": 0.5}], ids=str)
def test_fit_and_predict(method, more, rng):
    rows, labels = data(rng)
    made = regression(method=method, **more).fit(rows, labels, rng=rng)
    assert made.coef_.shape == (1, 2)
    assert made.intercept_.shape == (1,)
    assert list(made.classes_) == ["no", "yes"]
    assert made.n_features_in_ == 2
    assert isinstance(made.release_, Release)
    assert made.accountant_ == made.release_.account == made.accountant_for(400, 2).assuming(Assumption.RNG_FRESH)
    chances = made.predict_proba(rows)
    assert np.allclose(chances.sum(axis=1), 1)
    assert (made.predict(rows) == np.where(chances[:, 1] > 0.5, "yes", "no")).all()
    assert ((made.decision_function(rows) > 0) == (chances[:, 1] > 0.5)).all()


@pytest.mark.parametrize("method", ["diffused", "concentrated"])
@pytest.mark.parametrize("features", [1, 2, 30])
def test_auto_never_assumes_that_a_chain_converged(method, features):
    """It draws exactly where the bound on the work permits, and otherwise by Langevin chains."""
    auto = regression(method=method, epsilon=5.0 if features < 3 else 50.0)
    made = auto.mechanism_for(400, features)
    assert isinstance(made, ps.LogisticPosterior if features < 3 else ps.LangevinPosterior)
    assert Assumption.CONVERGED_CHAIN not in made.accountant.assumptions
    assert regression(method=method, sampler="langevin").mechanism_for(400, features).accountant.steps >= 1
    nuts = regression(method=method, sampler="nuts").accountant_for(400, features)
    assert Assumption.CONVERGED_CHAIN in nuts.assumptions
    target = DP(epsilon=5.0, delta=1e-6)
    assert target.met_by(nuts)
    assert target.met_by(auto.set_params(epsilon=5.0).accountant_for(400, features))


def test_langevin_chains_give_records_at_least_the_weight_of_the_ideal_posterior():
    ideal = regression(sampler="nuts").mechanism_for(400, 8)
    chain = regression(sampler="langevin").mechanism_for(400, 8)
    assert ideal.data_weight <= chain.data_weight <= 1.2 * ideal.data_weight


@pytest.mark.parametrize("steps", [1, 30, 3000])
def test_the_number_of_steps_is_public_and_paid_for(steps, rng):
    made = regression(sampler="langevin", steps=steps)
    assert made.mechanism_for(400, 2).accountant.steps == steps
    assert DP(epsilon=5.0, delta=1e-6).met_by(made.accountant_for(400, 2))
    assert re.search(rf"\b{steps} Langevin steps?\b", made.fit(*data(rng), rng=rng).posterior_statement())


def test_the_private_posterior_is_described(rng):
    rows, labels = data(rng)
    made = regression(sampler="langevin").fit(pd.DataFrame(rows, columns=["age", "dose"]), labels, rng=rng)
    assert 0.0 < made.data_weight_ < 1.0 == made.prior_weight_
    words = made.posterior_statement()
    assert f"the weight {made.data_weight_:.4g}: it treats the 400 records as {400 * made.data_weight_:.4g}" in words
    assert "Langevin steps of size" in words
    table = made.summary(0.8)
    for part in ("coefficient", "80 % interval", "age", "dose", "intercept", words, f"{made.coef_[0, 0]:.4g}"):
        assert part in table
    exact = regression(sampler="auto", epsilon=0.5).fit(rows[:, :1], labels, rng=rng)
    assert "itself, by rejection" in exact.posterior_statement()
    timed = regression(epsilon=0.5, constant_time=False).fit(rows[:, :1], labels, rng=rng)
    for made, mass in ((exact, 1e-15), (timed, 0.0)):
        assert made.accountant_.infinity_mass == mass
        assert (ps.Assumption.TIMING in made.accountant_.assumptions) == (mass == 0.0)
    narrow = regression(method="concentrated").fit(rows, labels, rng=rng)
    assert "intervals need not contain the coefficients" in narrow.posterior_statement()
    assert narrow.prior_weight_ > 1.0 == narrow.data_weight_
    free = regression(epsilon=1e4, prior_std=0.1).fit(rows, labels, rng=rng)
    assert "permits the posterior itself" in free.posterior_statement()


def test_intervals_are_in_the_units_of_the_features(rng):
    rows, labels = data(rng)
    one = regression().fit(rows, labels, rng=np.random.default_rng(3)).intervals()
    other = regression(bounds=(0, 1000)).fit(100 * rows, labels, rng=np.random.default_rng(3)).intervals()
    assert one["coefficients"].shape == (2, 2)
    assert (one["coefficients"][0] < one["coefficients"][1]).all()
    assert one["intercept"].shape == (2,)
    assert np.allclose(one["coefficients"], 100 * other["coefficients"])
    assert np.allclose(one["intercept"], other["intercept"])


def test_a_draw_at_a_large_epsilon_predicts_well(rng):
    rows, labels = data(rng, 500)
    made = regression(epsilon=50.0, prior_std=5.0).fit(rows, labels, rng=rng)
    assert made.score(rows, labels) > 0.75
    assert made.coef_[0, 0] > 0.4
    assert made.coef_[0, 1] < 0


def test_coefficients_are_in_the_units_of_the_features(rng):
    rows, labels = data(rng)
    made = regression(draws=4).fit(rows, labels, rng=rng)
    released = made.release_
    logits = (rows / 5 - 1) @ released["coefficients"].T + released["intercept"]
    assert np.allclose(logits, rows @ made.coef_draws_.T + made.intercept_draws_)
    odds = np.exp(made.decision_function(rows))
    mean = (1 / (1 + np.exp(-logits))).mean(axis=1)
    assert np.allclose(odds / (1 + odds), mean)
    assert np.allclose(made.coef_, made.coef_draws_.mean(axis=0))


def test_missing_numbers_count_as_the_middle(rng):
    rows, labels = data(rng)
    rows[:50, 0], filled = np.nan, rows.copy()
    filled[:50, 0] = 5.0
    one, other = (regression().fit(x, labels, rng=np.random.default_rng(2)) for x in (rows, filled))
    assert np.allclose(one.coef_, other.coef_)
    assert (one.predict(rows) == other.predict(filled)).all()


@pytest.mark.parametrize(
    "odd", [None, "secret", np.nan, object(), np.inf, 2**2000, np.ones(2)], ids=lambda odd: type(odd).__name__
)
def test_any_record_is_taken(odd, rng):
    rows, labels = (x.astype(object) for x in data(rng, 30))
    rows[2, 1] = odd
    labels[3] = odd
    assert np.isfinite(regression(handle_invalid="replace").fit(rows, labels, rng=rng).coef_).all()


def test_the_curator_hears_of_them(rng):
    rows, labels = data(rng, 30)
    rows[0, 0] = np.nan
    assert regression(norm=2.0).validate(rows, labels).facts == {"not finite": 1}


def test_pipelines_and_tables(rng):
    rows, labels = data(rng)
    table = pd.DataFrame(rows, columns=["a", "b"])
    pipe = make_pipeline(FunctionTransformer(np.log1p, feature_names_out="one-to-one"), regression(bounds=(0, 3)))
    pipe.fit(table, pd.Series(labels), privatelogisticregression__rng=rng)
    assert list(pipe[-1].feature_names_in_) == ["a", "b"]
    assert set(pipe.predict(table)) <= {"no", "yes"}
    assert cross_val_score(regression(), rows, labels, cv=3).shape == (3,)


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"classes": "ab"}, "classes must be"),
        ({"bounds": None}, "norm or bounds"),
        ({"bounds": (1, 0)}, "low < high"),
        ({"bounds": (0, np.inf)}, "finite"),
        ({"bounds": ([0, 0, 0], 1)}, "2 numbers"),
        ({"bounds": 3}, "bounds must be"),
        ({"method": "direct"}, "method must be"),
        ({"norm": -1.0}, "norm must be"),
        ({"sampler": "gibbs"}, "sampler must be"),
        ({"steps": 0, "sampler": "langevin"}, "steps must be"),
        ({"draws": 0}, "draws must be"),
        ({"epsilon": 0.0}, "epsilon must be"),
    ],
    ids=str,
)
def test_bad_parameters(more, words, rng):
    with pytest.raises(ValueError, match=words):
        regression(**more).fit(*data(rng, 30))


def test_bad_data(rng):
    rows, labels = data(rng, 30)
    with pytest.raises(SchemaError, match="29 labels"):
        regression().fit(rows, labels[1:])
    with pytest.raises(SchemaError, match="1d array"):
        regression().fit(rows, rows)
    with pytest.raises(SchemaError, match=r"0 sample\(s\)"):
        regression().fit(rows[:0], labels[:0])
    with pytest.raises(TypeError, match="toarray"):
        regression().fit(sparse.csr_array(rows), labels)
    with pytest.raises(ValueError, match="requires y"):
        regression().fit(rows, None)
    with pytest.raises(TypeError, match="seeded"):
        regression().fit(rows, labels, rng=3)
    with pytest.raises(UnreachableTarget, match="delta > 0"):
        regression(delta=0.0).fit(rows, labels)
    with pytest.raises(NotFittedError):
        regression().predict(rows)

"""Linear, Poisson and multinomial regression by private posterior draws."""

import warnings

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from sklearn.base import clone, is_classifier
from sklearn.exceptions import NotFittedError
from sklearn.utils.estimator_checks import check_estimator

import privsample as ps
from privsample.errors import SchemaError, ShortChainWarning, UnreachableTarget

_RANDOM = "a fit is a random draw: two differ"
_TOTAL = "no record's value can make such a fit fail"
EXCEPTIONS = {
    "check_supervised_y_no_nan": _TOTAL,
    "check_dtype_object": _TOTAL,
    "check_fit_idempotent": _RANDOM,
    "check_regressor_data_not_an_array": _RANDOM,
    "check_regressors_int": _RANDOM,
    "check_supervised_y_2d": _RANDOM,
}
_DECLARED = "classes are declared, never learned: data of two of them have three decision values"
EXCEPTIONS_OF_CLASSES = EXCEPTIONS | {
    "check_classifiers_classes": _DECLARED,
    "check_classifiers_train": _DECLARED,
    "check_decision_proba_consistency": _DECLARED,
    "check_classifiers_regression_target": _TOTAL,
    "check_classifier_data_not_an_array": _RANDOM,
    "check_classifiers_one_label": _RANDOM,
}
LINEAR = {"epsilon": 5.0, "bounds": (0, 10), "target_bounds": (0, 50)}
POISSON = {"epsilon": 5.0, "bounds": (0, 10), "max_count": 30}


def linear_data(rng, n=2000):
    rows = rng.uniform(0, 10, (n, 2))
    return rows, 20 + 3.0 * (rows[:, 0] - 5) - 1.0 * (rows[:, 1] - 5) + rng.normal(0, 4, n)


def count_data(rng, n=2000):
    rows = rng.uniform(0, 10, (n, 2))
    return rows, rng.poisson(np.exp(1.0 + 0.2 * (rows[:, 0] - 5)))


def class_data(rng, n=2000):
    rows = rng.uniform(0, 10, (n, 2))
    return rows, np.array(["low", "mid", "high"])[np.digitize(rows[:, 0] + rng.normal(0, 1, n), [3, 7])]


CASES = {
    "linear": (ps.PrivateLinearRegression, LINEAR, linear_data),
    "poisson": (ps.PrivatePoissonRegression, POISSON, count_data),
}
each = pytest.mark.parametrize("name", CASES)


def made_of(name, **more):
    kind, given, data = CASES[name]
    return kind(**given | more), data


@pytest.mark.parametrize(
    "made",
    [
        ps.PrivateLinearRegression(bounds=(-5, 5), target_bounds=(-1, 1), handle_invalid="replace", steps=50),
        ps.PrivatePoissonRegression(bounds=(-5, 5), max_count=5, handle_invalid="replace", steps=50),
        ps.PrivateLogisticRegression(bounds=(-5, 5), classes=(0, 1, 2), handle_invalid="replace", steps=50),
    ],
    ids=lambda made: type(made).__name__,
)
def test_scikit_learns_own_checks(made):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        results = check_estimator(made, on_fail=None, on_skip=None)
    failed = {r["check_name"] for r in results if r["status"] == "failed"}
    assert failed <= set(EXCEPTIONS_OF_CLASSES if is_classifier(made) else EXCEPTIONS)
    assert len(results) > 40


@each
@pytest.mark.parametrize("more", [{}, {"fit_intercept": False}, {"draws": 1}, {"method": "concentrated"}], ids=str)
def test_fit_and_predict(name, more, rng):
    made, data = made_of(name, steps=100, **more)
    rows, targets = data(rng, 300)
    made.fit(rows, targets, rng=rng)
    assert made.coef_.shape == (2,)
    assert np.ndim(made.intercept_) == 0
    assert made.coef_draws_.shape == (made.draws, 2)
    assert made.intercept_draws_.shape == (made.draws,)
    assert made.predict(rows).shape == (300,)
    account = made.accountant_for(300, 2)
    assert made.accountant_ == made.release_.account == account.assuming(ps.Assumption.RNG_FRESH)
    assert ps.Assumption.CONVERGED_CHAIN not in account.assumptions
    assert ps.DP(epsilon=5.0, delta=1e-6).met_by(account)
    assert made.statement() == made.release_.statement()
    assert "coef_" not in vars(clone(made))


@each
def test_a_large_epsilon_predicts_well(name, rng):
    made, data = made_of(name, epsilon=300.0, prior_std=2.0, steps=1000)
    rows, targets = data(rng)
    made.fit(rows, targets, rng=rng)
    truth = {"linear": (3.0, -1.0), "poisson": (0.2, 0.0)}[name]
    assert np.allclose(made.coef_, truth, atol={"linear": 0.3, "poisson": 0.05}[name])
    assert made.score(rows, targets) > {"linear": 0.75, "poisson": 0.25}[name]


def test_predictions_are_averages_over_the_draws(rng):
    made, data = made_of("linear", steps=50)
    rows, targets = data(rng, 300)
    made.fit(rows, targets, rng=rng)
    assert np.allclose(made.predict(rows), rows @ made.coef_ + made.intercept_)
    released = made.release_  # in units of the scaled features and targets
    scaled = (rows / 5 - 1) @ released["coefficients"].T + released["intercept"]
    assert np.allclose(made.predict(rows), 25 + 25 * scaled.mean(axis=1))
    made, data = made_of("poisson", steps=50)
    rows, targets = data(rng, 300)
    made.fit(rows, targets, rng=rng)
    logs = rows @ made.coef_draws_.T + made.intercept_draws_
    assert np.allclose(made.predict(rows), np.minimum(np.exp(logs), 30).mean(axis=1))


@each
def test_a_table_with_names_has_a_summary(name, rng):
    made, data = made_of(name, steps=50)
    rows, targets = data(rng, 300)
    made.fit(pd.DataFrame(rows, columns=["age", "dose"]), pd.Series(targets), rng=rng)
    lines = made.summary().splitlines()
    assert [line.split()[0] for line in lines[:4]] == ["coefficient", "age", "dose", "intercept"]
    assert made.posterior_statement() in lines[-1]
    assert made.release_.coords == {"feature": ("age", "dose")}
    low, high = made.intervals()["coefficients"]
    assert (low < made.coef_).all()
    assert (made.coef_ < high).all()


@pytest.mark.parametrize(
    ("name", "more", "words"),
    [
        ("linear", {"target_bounds": None}, "target_bounds must be declared"),
        ("linear", {"noise_std": 0.0}, "noise_std must be"),
        ("linear", {"threshold": -1.0}, "threshold must be"),
        ("poisson", {"max_count": None}, "max_count must be declared"),
        ("poisson", {"clip": 0.0}, "clip must be"),
        *(
            (name, more, words)
            for name in CASES
            for more, words in (
                ({"bounds": None}, "norm or bounds"),
                ({"method": "direct"}, "method must be"),
                ({"epsilon": 0.0}, "epsilon must be"),
                ({"steps": 0}, "steps must be"),
                ({"draws": 0}, "draws must be"),
                ({"prior_std": -1.0}, "prior_std must be"),
            )
        ),
    ],
    ids=str,
)
def test_bad_parameters(name, more, words, rng):
    made, data = made_of(name, **more)
    with pytest.raises(ValueError, match=words):
        made.fit(*data(rng, 30))


@each
def test_bad_data(name, rng):
    made, data = made_of(name, steps=10)
    rows, targets = data(rng, 30)
    with pytest.raises(SchemaError, match="29"):
        made.fit(rows, targets[1:])
    with pytest.raises(ValueError, match="requires y"):
        made.fit(rows, None)
    with pytest.raises(UnreachableTarget, match="delta > 0"):
        clone(made).set_params(delta=0.0).fit(rows, targets)
    with pytest.raises(NotFittedError):
        clone(made).predict(rows)
    for call in ("intervals", "posterior_statement", "summary"):
        with pytest.raises(NotFittedError):
            getattr(clone(made), call)()


@each
def test_short_chains_are_announced_before_anything_else(name, rng):
    made, data = made_of(name, steps=3)
    with pytest.warns(ShortChainWarning, match="after 3 Langevin steps of size"):
        made.fit(*data(rng, 300), rng=rng)
    assert made.posterior_statement().startswith("The chains may be too short: ")
    long, data = made_of(name, steps=None)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert "too short" not in long.fit(*data(rng, 30), rng=rng).posterior_statement()


@each
def test_a_look_at_the_data_is_no_fit(name, rng):
    made, data = made_of(name)
    rows, targets = data(rng, 30)
    made.validate(rows, targets)
    for call in (made.predict, lambda rows: made.summary(), lambda rows: made.statement()):
        with pytest.raises(NotFittedError):
            call(rows)


# --- several classes


def several(**more):
    given = {"epsilon": 5.0, "bounds": (0, 10), "classes": ("low", "mid", "high"), "steps": 200}
    return ps.PrivateLogisticRegression(**given | more)


@pytest.mark.parametrize("more", [{}, {"fit_intercept": False}, {"draws": 1}], ids=str)
def test_several_classes(more, rng):
    rows, labels = class_data(rng, 400)
    made = several(**more).fit(rows, labels, rng=rng)
    assert list(made.classes_) == ["low", "mid", "high"]
    assert made.coef_.shape == (3, 2)
    assert made.intercept_.shape == (3,)
    assert made.coef_draws_.shape == (made.draws, 3, 2)
    chances = made.predict_proba(rows)
    assert np.allclose(chances.sum(axis=1), 1)
    assert (made.predict(rows) == made.classes_[chances.argmax(axis=1)]).all()
    assert np.allclose(np.exp(made.decision_function(rows)), chances)
    scores = np.einsum("kj,dcj->kdc", rows, made.coef_draws_) + made.intercept_draws_
    plain = np.exp(scores - scores.max(axis=2, keepdims=True))
    assert np.allclose(chances, (plain / plain.sum(axis=2, keepdims=True)).mean(axis=1))
    assert isinstance(made.mechanism_for(400, 2), ps.LangevinPosterior)
    assert ps.Assumption.CONVERGED_CHAIN not in made.accountant_.assumptions
    assert made.release_.coords == {"class": ("low", "mid", "high")}
    if made.draws > 1:
        assert made.intervals()["coefficients"].shape == (2, 3, 2)
        assert "high: intercept" in made.summary()


def test_several_classes_at_a_large_epsilon(rng):
    rows, labels = class_data(rng)
    made = several(epsilon=300.0, prior_std=5.0, steps=1000).fit(rows, labels, rng=rng)
    assert made.score(rows, labels) > 0.75


@pytest.mark.parametrize("sampler", ["rejection", "nuts"])
def test_samplers_of_two_classes_alone(sampler, rng):
    with pytest.raises(ValueError, match="sampler must be 'langevin' or 'auto' for more than two classes"):
        several(sampler=sampler).fit(*class_data(rng, 60))


def test_labels_of_several_classes_that_are_not_declared(rng):
    rows, labels = class_data(rng, 60)
    other = np.where(np.arange(60) < 7, "none", labels)
    with pytest.raises(SchemaError, match=r"classes = \('low', 'mid', 'high'\), got others; declare all classes"):
        several().fit(rows, other)
    facts = several().validate(rows, other).facts
    assert facts["labels that are not in classes"] == facts["label 'none', not in classes"] == 7
    replaced = several(handle_invalid="replace")
    as_first = np.where(other == "none", "low", other)
    fits = [clone(replaced).fit(rows, y, rng=np.random.default_rng(1)).coef_ for y in (other, as_first)]
    assert np.array_equal(*fits)


# --- coverage


def linear_truth(rng, rows):
    """Coefficients in units of targets in [-20, 20], whose prior has the standard deviation 0.15 in units of 20."""
    truth = rng.normal(0, 3.0, 4)
    return truth, rng.normal(rows @ truth[:-1] + truth[-1], 3.0)


def count_truth(rng, rows):
    truth = rng.normal(0, 0.5, 4)
    return truth, rng.poisson(np.exp(rows @ truth[:-1] + truth[-1]))


OWN_TARGET = {  # nothing is clipped but what hardly ever occurs, so that the likelihood is that of the simulation
    "linear": (
        ps.PrivateLinearRegression(
            target_bounds=(-20, 20), noise_std=3.0, threshold=20.0, prior_std=0.15, delta=1e-5, norm=1.0
        ),
        linear_truth,
    ),
    "poisson": (
        ps.PrivatePoissonRegression(max_count=12, clip=8.0, prior_std=0.5, steps=1000, delta=1e-5, norm=1.0),
        count_truth,
    ),
}


@pytest.mark.statistical
@pytest.mark.parametrize("kind", OWN_TARGET)
def test_intervals_cover_the_coefficients_that_records_of_the_data_weight_are_about(kind, rng, alpha):
    """Each of 40 records counts 1/5 and stands in the data 5 times: the private posterior is that of 40 records."""
    made, simulate = OWN_TARGET[kind]
    low, high = 1e-2, 1e5
    for _ in range(22):  # the weight is then right to a relative error of 1e-5
        middle = float(np.sqrt(low * high))
        light = made.set_params(epsilon=middle).mechanism_for(200, 3).data_weight < 0.2
        low, high = (middle, high) if light else (low, middle)
    made.set_params(epsilon=high)
    inside = []
    for _ in range(60):
        rows = rng.uniform(-0.57, 0.57, (40, 3))
        truth, targets = simulate(rng, rows)
        made.fit(np.repeat(rows, 5, axis=0), np.repeat(targets, 5), rng=rng)
        found = made.intervals(0.9)
        ends = [np.append(found["coefficients"][end], found["intercept"][end]) for end in (0, 1)]
        inside.append((ends[0] <= truth) & (truth <= ends[1]))
    assert made.data_weight_ == pytest.approx(0.2, rel=1e-4)
    hits = int(sum(each[i % 4] for i, each in enumerate(inside)))
    assert stats.binomtest(hits, len(inside), 0.9).pvalue > alpha

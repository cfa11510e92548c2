"""The estimators as a newcomer uses them, on scikit-learn's data sets: nothing trains on nonsense in silence."""

import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits, load_wine
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, Normalizer

import privsample as ps
from privsample.errors import SchemaError
from privsample.estimators.records import DeclaredRecords

CLASSIFIERS = (ps.PrivateSGDClassifier, ps.PrivateLogisticRegression)
each_classifier = pytest.mark.parametrize("kind", CLASSIFIERS)
REGRESSORS = (ps.PrivateSGDRegressor, ps.PrivateLinearRegression, ps.PrivatePoissonRegression)
OWN = {
    ps.PrivateSGDRegressor: {"target_bounds": (0, 1), "norm": 8.0},
    ps.PrivateLinearRegression: {"target_bounds": (0, 1), "norm": 8.0, "steps": 20},
    ps.PrivatePoissonRegression: {"max_count": 1, "norm": 8.0, "steps": 20},
}
each_estimator = pytest.mark.parametrize("kind", [*CLASSIFIERS, *REGRESSORS])


class Untouched(np.random.Generator):
    """A generator that may not be drawn from."""

    def __init__(self):
        super().__init__(np.random.PCG64(1))

    def __getattribute__(self, name):
        if not name.startswith("__"):
            raise AssertionError(f"{name} was drawn")
        return super().__getattribute__(name)


def declared(kind, **more):
    own = dict(OWN.get(kind, {"norm": 8.0}))
    if more.get("bounds", 0) is None:
        own.pop("norm", None)
    return kind(**{"bounds": (0, 16), **own, **more})


def estimators():
    """All public estimators that take rows and targets."""
    found = [getattr(ps, name) for name in ps.__all__]
    return {each for each in found if isinstance(each, type) and issubclass(each, DeclaredRecords)}


def test_all_estimators_are_tested():
    assert estimators() == {*CLASSIFIERS, *REGRESSORS}


@pytest.fixture(scope="module")
def digits():
    return load_digits(return_X_y=True)


@pytest.fixture(scope="module")
def small(digits):
    """Zeros and ones, a few of them, and six pixels that tell them apart."""
    X, y = digits
    chosen = np.flatnonzero(y < 2)[:80]
    return X[chosen][:, [19, 20, 28, 36, 43, 44]], y[chosen]


# --- labels


@each_classifier
@pytest.mark.parametrize(
    "labels",
    [
        lambda y: y,
        lambda y: np.where(y > 4, "yes", "no"),
        lambda y: (y > 4).astype(str),
        lambda y: pd.Series(np.where(y > 4, "yes", "no"), dtype="category"),
        lambda y: np.where(y > 4, 1.0, np.nan),
        lambda y: [None, *(y[1:] > 4)],
        lambda y: pd.Series(y > 4, dtype="boolean").where(y > 0),
        lambda y: np.where(y > 4, 1, -1),
    ],
    ids=["ten", "text", "numbers as text", "category", "nan", "none", "pandas NA", "minus one"],
)
def test_labels_that_are_not_declared_are_refused_before_anything_is_drawn(kind, labels, digits):
    X, y = digits
    with pytest.raises(SchemaError, match=r"y must hold labels in classes = \(0, 1\), got others") as refused:
        declared(kind).fit(X, labels(y), rng=Untouched())
    advice = ("declare all classes that a record may have",)
    if kind is ps.PrivateSGDClassifier:
        advice = ("declare classes=(negative, positive)", "OneVsRestClassifier", "divided by the number of classes")
    for words in (*advice, "map labels by a public rule"):
        assert words in str(refused.value)
    assert "handle_invalid='replace'" in str(refused.value)
    assert "Nothing was drawn or spent" in str(refused.value)
    facts = declared(kind).validate(X, labels(y)).facts
    named = [count for name, count in facts.items() if name.endswith(", not in classes")]
    assert facts["labels that are not in classes"] == sum(named) > 0


@each_classifier
def test_the_refusal_shows_no_record(kind, digits):
    X, y = digits
    messages = set()
    for odd in ("secret", None, 7, np.nan, object()):
        labels = [odd, *(y[1:] > 4)]
        with pytest.raises(SchemaError) as refused:
            declared(kind).fit(X, labels, rng=Untouched())
        messages.add(str(refused.value))
    assert len(messages) == 1


@each_classifier
@pytest.mark.parametrize(
    ("classes", "words"),
    [
        (("a",), "classes must be"),
        ("ab", "classes must be"),
        ([[0, 1], [2, 3]], "classes must be"),
        ((1, 1.0), "must be different labels"),
        ((0, np.nan), "not missing"),
        ((0, "a"), "of one type"),
    ],
)
def test_bad_classes_are_refused(kind, classes, words, digits):
    with pytest.raises(ValueError, match=words):
        declared(kind, classes=classes).fit(*digits, rng=Untouched())


@each_classifier
@pytest.mark.parametrize(
    ("labels", "classes"),
    [
        (lambda y: np.where(y > 0, "yes", "no"), ("no", "yes")),
        (lambda y: pd.Series(np.where(y > 0, "yes", "no"), dtype="category"), ("no", "yes")),
        (lambda y: pd.Series(np.where(y > 0, "yes", "no"), dtype="string"), ("no", "yes")),
        (lambda y: np.where(y > 0, "yes", "no").tolist(), ("no", "yes")),
        (lambda y: pd.Series(y > 0, dtype="boolean"), (0, 1)),
        (lambda y: y.astype(float), (0, 1)),
        (lambda y: pd.Series(y, dtype="Int64"), (False, True)),
        (lambda y: np.where(y > 0, 1, -1), (-1, 1)),
    ],
    ids=["text", "category", "string", "list", "boolean", "float", "Int64", "minus one"],
)
def test_declared_labels_of_any_type_are_the_same_labels(kind, labels, classes, small):
    X, y = small
    plain = declared(kind, epsilon=0.2).fit(X, y, rng=np.random.default_rng(1))
    made = declared(kind, epsilon=0.2, classes=classes).fit(X, labels(y), rng=np.random.default_rng(1))
    assert np.array_equal(plain.coef_, made.coef_)
    assert (made.predict(X) == made.classes_[plain.predict(X)]).all()
    assert set(made.classes_.tolist()) == set(classes)


@each_classifier
def test_one_class_is_no_reason_to_refuse_but_the_curator_hears_of_it(kind, small):
    """One other label makes two classes of one: a refusal would show that record."""
    X, _ = small
    for label in (0, 1):
        y = np.full(len(X), label)
        assert np.isfinite(declared(kind, epsilon=0.2).fit(X, y).coef_).all()
        assert declared(kind).validate(X, y).facts == {"labels, all of one class": len(X)}


@each_classifier
def test_replaced_labels_count_as_the_negative_class(kind, digits):
    X, y = digits
    made = declared(kind, handle_invalid="replace", epsilon=0.2)
    zero_one = np.where(y == 1, 1, 0)
    fits = [clone(made).fit(X[:60, 20:22], at[:60], rng=np.random.default_rng(2)).coef_ for at in (y, zero_one)]
    assert np.array_equal(*fits)


@each_estimator
def test_how_invalid_records_are_handled_is_checked(kind, small):
    with pytest.raises(ValueError, match="handle_invalid must be 'error' or 'replace', got 'ignore'"):
        declared(kind, handle_invalid="ignore").fit(*small, rng=Untouched())


# --- several classes


def test_more_than_two_classes_are_refused_by_a_model_of_two(digits):
    with pytest.raises(ValueError, match=r"a pair.*got range\(0, 10\).*OneVsRestClassifier.*PrivateLogisticRegression"):
        declared(ps.PrivateSGDClassifier, classes=range(10)).fit(*digits, rng=Untouched())


def test_one_model_for_each_class_at_a_share_of_the_budget(digits):
    """What the error advises works, and costs what it says."""
    X, y = digits
    share = ps.PrivateSGDClassifier(epsilon=10.0, delta=1e-7, bounds=(0, 16))
    together = OneVsRestClassifier(share).fit(X, y)
    assert together.score(X, y) > 0.6
    account = sum((each.accountant_ for each in together.estimators_[1:]), start=together.estimators_[0].accountant_)
    assert ps.DP(epsilon=100.0, delta=1e-6).met_by(account)
    assert not ps.DP(epsilon=10.0, delta=1e-7).met_by(account)


def test_one_model_for_each_class_by_hand(rng):
    X = rng.uniform(-1, 1, (600, 2))
    y = np.array(["low", "mid", "high"])[np.digitize(X[:, 0], [-0.3, 0.3])]
    names = np.array(["low", "high"])
    share = ps.PrivateLogisticRegression(epsilon=10.0, delta=1e-7, bounds=(-1, 1))
    models = [clone(share).fit(X, y == name, rng=rng) for name in names]
    scores = np.column_stack([model.decision_function(X) for model in models])
    ends = y != "mid"
    assert (names[scores.argmax(axis=1)] == y)[ends].mean() > 0.8


# --- features


@each_estimator
def test_text_features_are_refused_and_counted(kind, small):
    X, y = small
    table = pd.DataFrame(X, columns=[f"p{j}" for j in range(6)])
    table["p3"] = pd.Series(np.where(y > 0, "yes", "no"))
    for given in (table, table.to_numpy(), table.to_numpy().tolist()):
        with pytest.raises(SchemaError, match="X must hold numbers or missing entries, got others, such as text"):
            declared(kind).fit(given, y, rng=Untouched())
        facts = declared(kind).validate(given, y).facts
        assert facts["features that are neither numbers nor missing"] == len(y)
    with pytest.raises(SchemaError, match="array of real numbers"):
        declared(kind).fit(X.astype(str), y, rng=Untouched())


@each_estimator
@pytest.mark.parametrize("missing", [None, np.nan, pd.NA, pd.NaT, np.datetime64("NaT")], ids=str)
def test_missing_features_are_no_text(kind, missing, small):
    X, y = small
    rows = X.astype(object)
    rows[0, 5] = missing
    made = declared(kind)
    assert made.validate(rows, y).facts == {"not finite": 1}
    assert np.isfinite(made.set_params(epsilon=0.2).fit(rows, y).coef_).all()


@each_estimator
def test_masked_features_are_missing(kind, small):
    X, y = small
    rows = np.ma.array(X.astype(object), mask=np.zeros(X.shape, dtype=bool))
    rows[0, 5] = "hidden"
    rows[0, 5] = np.ma.masked
    assert declared(kind).validate(rows, y).facts == {"not finite": 1}


@each_estimator
def test_features_out_of_bounds_are_counted_before_they_are_clipped(kind, small):
    X, y = small
    beyond = X > 12
    facts = declared(kind, bounds=(0, 12)).validate(X, y).facts
    assert facts["features out of bounds"] == beyond.sum()
    assert facts["rows with features out of bounds"] == beyond.any(axis=1).sum()
    for j in range(6):
        assert facts.get(f"feature {j} out of bounds", 0) == beyond[:, j].sum()
    named = declared(kind, bounds=(0, 12)).validate(pd.DataFrame(X, columns=list("abcdef")), y).facts
    assert named["feature d out of bounds"] == beyond[:, 3].sum() > 0
    assert declared(kind).validate(X, y).facts == {}
    low = np.zeros(6)
    low[2] = 3.0
    assert declared(kind, bounds=(low, 16)).validate(X, y).facts["features out of bounds"] == (X[:, 2] < 3).sum()


@each_estimator
def test_rows_that_are_longer_than_the_norm_are_counted(kind, small):
    X, y = small
    long = np.linalg.norm(X, axis=1) > 20.0
    assert 0 < long.sum() < len(X)
    assert declared(kind, bounds=None, norm=20.0).validate(X, y).facts == {"scaled down": long.sum()}
    assert declared(kind, bounds=None, norm=1.0).validate(Normalizer().fit_transform(X), y).facts == {}
    scaled = MinMaxScaler((-0.1, 0.7)).fit_transform(X)
    assert declared(kind, bounds=(-0.1, 0.7)).validate(scaled, y).facts == {}


# --- targets


@pytest.mark.parametrize("kind", [ps.PrivateSGDRegressor, ps.PrivateLinearRegression])
def test_targets_of_a_regression(kind):
    X, y = load_diabetes(return_X_y=True, as_frame=True)
    made = kind(bounds=(-0.2, 0.2), target_bounds=(0, 300), norm=4.0)
    assert made.validate(X, y).facts == {"targets out of target_bounds": (y > 300).sum()}
    with pytest.raises(ValueError, match="target_bounds must be declared"):
        kind(bounds=(-0.2, 0.2)).fit(X, y, rng=Untouched())
    for odd in (y.astype(str), y.where(y > 50), y.astype(object).where(y > 50, "few"), [None, *y[1:]]):
        with pytest.raises(SchemaError, match="y must hold a number for each record") as refused:
            made.fit(X, odd, rng=Untouched())
        assert "handle_invalid='replace'" in str(refused.value)
        assert made.validate(X, odd).facts["targets that are no number"] > 0
    assert made.validate(X, y.where(y > 50)).facts["targets that are no number"] == (y <= 50).sum()


def test_targets_of_a_regression_of_counts():
    X, y = load_diabetes(return_X_y=True, as_frame=True)
    made = ps.PrivatePoissonRegression(bounds=(-0.2, 0.2), max_count=300, norm=4.0)
    assert made.validate(X, y).facts == {"counts above max_count": (y > 300).sum()}
    with pytest.raises(ValueError, match="max_count must be declared"):
        ps.PrivatePoissonRegression(bounds=(-0.2, 0.2)).fit(X, y, rng=Untouched())
    for odd in (y.astype(str), y.where(y > 50), y - 100, y + 0.5, [None, *y[1:]]):
        with pytest.raises(SchemaError, match="y must hold a count for each record") as refused:
            made.fit(X, odd, rng=Untouched())
        assert "handle_invalid='replace'" in str(refused.value)
    assert made.validate(X, y - 100).facts["negative counts"] == (y < 100).sum()
    assert made.validate(X, y + 0.5).facts["counts that are no whole number"] == len(y)


# --- statements


@each_estimator
@pytest.mark.parametrize("delta", [1e-9, 1e-3])
def test_a_statement_is_at_the_estimators_own_delta(kind, delta, small, tmp_path):
    epsilon = 0.2 if kind is ps.PrivateLogisticRegression else 3.0
    made = declared(kind, epsilon=epsilon, delta=delta)
    with pytest.raises(NotFittedError):
        made.statement()
    made.fit(*small)
    assert f"epsilon = {epsilon:g})" in made.statement()
    assert f"at most {delta:g}".replace("e-0", "e-") in made.statement()
    assert made.release_.statement() == made.statement()
    assert made.statement(1e-6) == ps.privacy_statement(made.accountant_, 1e-6) != made.statement()
    made.set_params(delta=0.1)
    assert f"epsilon = {epsilon:g})" in made.statement()
    for ending in (".json", ".nc"):
        made.release_.save(tmp_path / f"fit{ending}")
        assert ps.Release.load(tmp_path / f"fit{ending}") == made.release_
        assert ps.Release.load(tmp_path / f"fit{ending}").statement() == made.statement()


def test_the_statement_of_a_search(small):
    X, y = small
    learner = declared(ps.PrivateSGDClassifier, delta=1e-8)
    runs = ps.TruncatedNegativeBinomial.logarithmic(mean=3)
    search = ps.PrivateSearchCV(learner, {"penalty": [1e-3, 1e-2]}, runs, validation=(X, y), training_account="worst")
    with pytest.raises(NotFittedError):
        search.statement()
    search.fit(X[:40], y[:40])
    assert search.statement() == ps.privacy_statement(search.accountant_, 1e-8)
    assert search.statement(1e-6) == ps.privacy_statement(search.accountant_, 1e-6)


def test_a_search_refuses_what_its_estimator_refuses_before_it_pays(small, tmp_path):
    """Else every candidate would fail, which the winner's absence shows and nobody paid for."""
    X, y = small
    runs = ps.TruncatedNegativeBinomial.logarithmic(mean=3)
    for learner in (
        declared(ps.PrivateSGDClassifier),
        make_pipeline(Normalizer(), declared(ps.PrivateSGDClassifier)),
    ):
        name = "penalty" if isinstance(learner, ps.PrivateSGDClassifier) else "privatesgdclassifier__penalty"
        account = ps.PureAccountant(stated_epsilon=1.0, relation=ps.ReplaceOne(n=len(X)))
        budget = ps.DP(epsilon=50, delta=1e-3)
        ledger = ps.Ledger(tmp_path / name, budget=budget, relation=account.relation, dataset="digits")
        search = ps.PrivateSearchCV(
            learner, {name: [1e-3]}, runs, validation=(X[:9], y[:9]), training_account=account, ledger=ledger
        )
        with pytest.raises(SchemaError, match="must hold labels in classes"):
            search.fit(X, ["secret", *y[1:]])
        assert ledger.history() == ()


# --- scikit-learn's tools


@each_classifier
def test_pipelines_searches_copies_and_pickles(kind):
    X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    X = X.iloc[:200, :4]
    y = y.iloc[:200]
    pipe = make_pipeline(Normalizer().set_output(transform="pandas"), kind(norm=1.0, epsilon=0.5))
    pipe.fit(X, y)
    assert list(pipe[-1].feature_names_in_) == list(X.columns)
    assert clone(pipe[-1]).get_params() == pipe[-1].get_params()
    copy = pickle.loads(pickle.dumps(pipe))
    assert np.array_equal(copy.predict_proba(X), pipe.predict_proba(X))
    assert copy[-1].release_ == pipe[-1].release_
    assert copy[-1].statement() == pipe[-1].statement()
    grid = GridSearchCV(kind(norm=1.0), {"epsilon": [0.1, 0.5]}, cv=2, error_score="raise").fit(X / X.max(), y)
    assert grid.best_estimator_.epsilon in (0.1, 0.5)


@each_estimator
def test_several_classes_of_wine(kind):
    X, y = load_wine(return_X_y=True)
    made = declared(kind, bounds=(0, 2000))
    if kind in REGRESSORS:
        reason = "counts above max_count" if kind is ps.PrivatePoissonRegression else "targets out of target_bounds"
        facts = made.set_params(norm=8.0).validate(X, y).facts
        assert facts == {reason: (y == 2).sum()}
        return
    with pytest.raises(SchemaError, match="OneVsRestClassifier" if kind is ps.PrivateSGDClassifier else "all classes"):
        made.fit(X, y, rng=Untouched())

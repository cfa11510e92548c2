"""Pipelines: a step that learns from private data without an account is refused before anything is drawn."""

import numpy as np
import pytest
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.decomposition import PCA
from sklearn.feature_selection import SelectKBest
from sklearn.frozen import FrozenEstimator
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline, make_union
from sklearn.preprocessing import (
    FunctionTransformer,
    KBinsDiscretizer,
    MinMaxScaler,
    Normalizer,
    OneHotEncoder,
    OrdinalEncoder,
    PolynomialFeatures,
    StandardScaler,
)
from sklearn.random_projection import GaussianRandomProjection

import privsample as ps
from privsample.estimators.pipelines import check_steps, is_stateless
from tests.estimators.learners import PUBLIC, RUNS, Constant, X, Y, search

LEARNER = ps.PrivateSGDClassifier(epsilon=1.0, norm=2.0)
SCALER = ps.PrivateStandardScaler(epsilon=0.5, bounds=(-1, 1))
LEARNING = [
    StandardScaler(),
    MinMaxScaler(),
    PCA(2),
    SelectKBest(k=1),
    SimpleImputer(),
    SimpleImputer(strategy="constant"),
    SimpleImputer(strategy="constant", keep_empty_features=True, add_indicator=True),
    KBinsDiscretizer(),
    OneHotEncoder(),
    OneHotEncoder(handle_unknown="ignore"),
    OneHotEncoder(categories=[[0, 1]]),
    OneHotEncoder(categories=[[0, 1]], handle_unknown="ignore", max_categories=2),
    make_pipeline(Normalizer(), StandardScaler()),
    make_union(Normalizer(), PCA(1)),
    make_column_transformer((StandardScaler(), [0]), remainder="passthrough"),
    make_column_transformer((Normalizer(), [0]), remainder=StandardScaler()),
]
STATELESS = [
    "passthrough",
    None,
    Normalizer(),
    FunctionTransformer(np.tanh),
    ps.BoundsScaler((-1, 1)),
    PolynomialFeatures(2),
    SimpleImputer(strategy="constant", keep_empty_features=True),
    OneHotEncoder(categories=[[0, 1]] * 2, handle_unknown="ignore", sparse_output=False),
    OrdinalEncoder(categories=[[0, 1]] * 2, handle_unknown="use_encoded_value", unknown_value=-1),
    GaussianRandomProjection(2),
    FrozenEstimator(StandardScaler().fit(PUBLIC[0])),
    make_pipeline(Normalizer(), PolynomialFeatures()),
    make_union(Normalizer(), PolynomialFeatures()),
    make_column_transformer((Normalizer(), [0]), remainder="passthrough"),
]


class Learned(TransformerMixin, BaseEstimator):
    """A step of another package that learns, and states an account if it is given one."""

    def __init__(self, epsilon=None):
        self.epsilon = epsilon

    @property
    def accountant(self):
        return None if self.epsilon is None else ps.PureAccountant(stated_epsilon=self.epsilon)

    def fit(self, X, y=None):
        self.mean_ = X.mean(axis=0)
        return self

    def transform(self, X):
        return X - self.mean_


def name_of(step):
    return repr(step)[:60]


@pytest.mark.parametrize("step", LEARNING, ids=name_of)
def test_a_step_that_learns_without_an_account_is_refused(step, tmp_path):
    made = make_pipeline(step, LEARNER)
    with pytest.raises(ValueError, match=r"learns from private data without an account.*Nothing was drawn"):
        ps.pipeline_account(made, 60, 2)
    relation = ps.ReplaceOne(n=len(X))
    ledger = ps.Ledger(tmp_path / "l", budget=ps.DP(epsilon=50, delta=1e-3), relation=relation, dataset="d")
    stated = ps.PureAccountant(stated_epsilon=1.0, relation=ps.ReplaceOne(n=len(X)))
    for given in (None, stated, "worst"):
        space = {"privatesgdclassifier__radius": [1.0]}
        tried = ps.PrivateSearchCV(
            made, space, RUNS, validation=PUBLIC, training_account=given, ledger=ledger if given is None else None
        )
        with pytest.raises(ValueError, match="learns from private data without an account"):
            tried.fit(X, Y)
    assert not list(ledger.history())


@pytest.mark.parametrize("step", STATELESS, ids=name_of)
def test_a_step_that_learns_nothing_costs_nothing(step):
    made, width = make_pipeline(step, LEARNER), 2
    if step not in (None, "passthrough"):
        width = step.fit(np.zeros((2, 2)), None).transform(np.zeros((2, 2))).shape[1]
    assert ps.pipeline_account(made, 60, 2) == LEARNER.accountant_for(60, width)


def test_messages_say_what_to_use_instead():
    for step, words in (
        (StandardScaler(), "BoundsScaler.*PrivateStandardScaler"),
        (PCA(1), "GaussianRandomProjection"),
        (SelectKBest(), "public knowledge"),
        (SimpleImputer(), "strategy='constant'"),
        (Learned(), "transforms each record by itself"),
        (make_union(SCALER, Normalizer()), "step of the outermost pipeline"),
    ):
        with pytest.raises(ValueError, match=f"{words}.*FrozenEstimator"):
            ps.pipeline_account(make_pipeline(step, LEARNER), 60, 2)


def test_the_costs_of_a_scaler_and_an_estimator_add_up():
    made = make_pipeline(SCALER, PolynomialFeatures(2), LEARNER)
    account = ps.pipeline_account(made, 200, 2)
    assert account == SCALER.accountant_for(200, 2) + LEARNER.accountant_for(200, 6)
    assert ps.DP(epsilon=1.5, delta=2e-6).met_by(account)
    assert not ps.DP(epsilon=1.0, delta=2e-6).met_by(account)
    both = ps.pipeline_account(make_pipeline(Learned(0.25), Constant(epsilon=0.5)), 60)
    assert both.pure_epsilon == pytest.approx(1.0)  # adding and removing a record, for one that is replaced
    assert both.relation == ps.ReplaceOne(n=60)


def test_a_search_charges_the_whole_pipeline(rng):
    made = make_pipeline(SCALER, LEARNER)
    tried = ps.PrivateSearchCV(
        made, {"privatesgdclassifier__radius": [1.0, 5.0]}, RUNS, validation=PUBLIC, training_account="worst"
    )
    plain = ps.PrivateSearchCV(LEARNER, {"radius": [1.0, 5.0]}, RUNS, validation=PUBLIC, training_account="worst")
    account = tried.accountant_for(60, 2)
    assert account.epsilon(1e-5) > plain.accountant_for(60, 2).epsilon(1e-5)
    assert account.base.epsilon(1e-5) >= ps.pipeline_account(made, 60, 2).epsilon(1e-5)
    fits = [tried.fit(X, Y, rng=np.random.default_rng(7)).best_estimator_ for _ in range(2)]
    assert tried.accountant_ == account.assuming(ps.Assumption.RNG_FRESH)
    if fits[0] is not None:  # each step drew from the given generator
        assert np.array_equal(fits[0][0].mean_, fits[1][0].mean_)
        assert np.array_equal(fits[0][-1].coef_, fits[1][-1].coef_)


def test_steps_of_a_search_space_are_refused_as_well():
    made = make_pipeline(ps.BoundsScaler((-1, 1)), Constant())
    for steps in ([StandardScaler()], [ps.BoundsScaler((-1, 1)), StandardScaler()]):
        with pytest.raises(ValueError, match="StandardScaler"):
            search({"boundsscaler": steps}, estimator=made).accountant_for(60)


def test_a_step_of_another_package_is_trusted_to_a_stated_account():
    made = make_pipeline(Learned(), LEARNER)
    stated = ps.PureAccountant(stated_epsilon=1.0, relation=ps.ReplaceOne(n=60))
    space = {"privatesgdclassifier__radius": [1.0]}
    tried = ps.PrivateSearchCV(made, space, RUNS, validation=PUBLIC, training_account=stated)
    assert ps.Assumption.STATED in tried.accountant_for(60).assumptions


def test_bad_pipelines():
    with pytest.raises(TypeError, match="pipeline must be a Pipeline"):
        ps.pipeline_account(LEARNER, 60, 2)
    with pytest.raises(TypeError, match="LogisticRegression has no account"):
        ps.pipeline_account(make_pipeline(Normalizer(), LogisticRegression()), 60, 2)
    with pytest.raises(ValueError, match="memory of a pipeline must be None"):
        ps.pipeline_account(make_pipeline(SCALER, LEARNER, memory="somewhere"), 60, 2)
    by_name = make_column_transformer((Normalizer(), ["age"]), remainder="drop")
    with pytest.raises(ValueError, match="number of columns that reach step 'privatesgdclassifier' is unknown"):
        ps.pipeline_account(make_pipeline(by_name, LEARNER), 60, 2)
    with pytest.raises(ValueError, match="features must be given"):
        ps.pipeline_account(make_pipeline(Normalizer(), LEARNER), 60)


def by_mean(rows):
    return np.flatnonzero(np.mean(rows, axis=0) > -1)


class Centred(FunctionTransformer):
    def fit(self, X, y=None):
        self.mean_ = np.mean(X, axis=0)
        return self

    def transform(self, X):
        return X - self.mean_


class CentredNormalizer(Normalizer):
    def transform(self, X):
        return super().transform(X - np.mean(X, axis=0))


class LearningPolynomial(PolynomialFeatures):
    def fit(self, X, y=None):
        self.mean_ = np.mean(X, axis=0)
        return super().fit(X, y)


class LearningBounds(ps.BoundsScaler):
    def fit(self, X, y=None):
        self.mean_ = np.mean(X, axis=0)
        return super().fit(X, y)


@pytest.mark.parametrize(
    "step",
    [
        make_column_transformer(("passthrough", by_mean)),
        make_column_transformer((Normalizer(), [0]), ("passthrough", by_mean)),
        make_union("passthrough", make_column_transformer(("passthrough", by_mean))),
        make_column_transformer(
            (OneHotEncoder(categories=[[0, 1]], handle_unknown="ignore"), [0]), remainder="passthrough"
        ),
        Centred(),
        CentredNormalizer(),
        LearningPolynomial(),
        LearningBounds((-1, 1)),
    ],
    ids=name_of,
)
def test_a_subclass_or_a_function_that_chooses_columns_may_learn(step):
    assert not is_stateless(step)
    with pytest.raises(ValueError, match="learns from private data without an account"):
        ps.pipeline_account(make_pipeline(step, LEARNER), n=100)


def test_columns_chosen_by_a_function_of_the_records_are_refused_beside_a_stated_account():
    step = make_union("passthrough", make_column_transformer(("passthrough", by_mean)))
    with pytest.raises(ValueError, match=r"ColumnTransformer.*choose columns by names"):
        check_steps(make_pipeline(step, LEARNER))


def test_columns_chosen_by_their_names_cost_nothing():
    assert is_stateless(make_column_transformer(("passthrough", make_column_selector(pattern="^lab_"))))


@pytest.mark.parametrize("types", [{"dtype_include": float}, {"dtype_exclude": object, "pattern": "a"}])
def test_columns_chosen_by_their_types_are_refused(types):
    """One text among the numbers of a column changes its type, and so the number of columns."""
    step = make_column_transformer(("passthrough", make_column_selector(**types)))
    nested = make_column_transformer((make_pipeline(step), ["a", "b"]))
    for each in (step, nested, make_union("passthrough", step)):
        assert not is_stateless(each)
        with pytest.raises(ValueError, match="one record can change the type of a column"):
            ps.pipeline_account(make_pipeline(each, LEARNER), n=100, features=3)


@pytest.mark.parametrize(
    "step",
    [
        FunctionTransformer(lambda rows: rows - rows.mean(axis=0)),
        FunctionTransformer(lambda rows: rows / np.abs(rows).max()),
        make_union("passthrough", FunctionTransformer(lambda rows: rows > np.median(rows, axis=0))),
    ],
    ids=["mean", "max", "union"],
)
def test_a_function_that_mixes_records_is_refused_where_the_number_of_features_is_known(step):
    with pytest.raises(ValueError, match="learns from private data without an account"):
        ps.pipeline_account(make_pipeline(step, LEARNER), n=100, features=3)


def test_an_object_without_tags_is_no_stateless_step():
    assert not is_stateless(object())

"""Scores of private records: no record moves the mean by more than its share."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import privsample as ps
from privsample.estimators.scoring import RecordScorer, feature_count, score_or_nan, take_rows

RECORDS = ps.ReplaceOne(n=8)
UNIT = (0.0, 1.0)


class Echo:
    """Predicts the first column; refuses what is not finite, as scikit-learn's estimators do."""

    def predict(self, X):
        if not np.isfinite(X).all():
            raise ValueError("not finite")
        return X[:, 0]


def test_mean_scores_of_scikit_learn(rng):
    from sklearn.metrics import accuracy_score, mean_absolute_error, mean_squared_error

    X, y = rng.integers(0, 3, (50, 1)), rng.integers(0, 3, 50)
    wide = (-10.0, 1.0)
    assert RecordScorer(term="accuracy", bounds=UNIT)(Echo(), X, y) == pytest.approx(accuracy_score(y, X[:, 0]))
    found = RecordScorer(term="neg_mean_absolute_error", bounds=wide)(Echo(), X, y)
    assert found == pytest.approx(-mean_absolute_error(y, X[:, 0]))
    found = RecordScorer(term="neg_mean_squared_error", bounds=wide)(Echo(), X, y)
    assert found == pytest.approx(-mean_squared_error(y, X[:, 0]))


def own(model, X, y):
    return 1.0 / y


def fragile(model, X, y):
    """Gives one number for all records, and fails where one is zero."""
    return float(np.mean([1.0 / int(one) for one in y]))


values = st.sampled_from([0.0, 1.0, 2.0, -1e300, np.nan, np.inf])


@given(
    records=st.lists(st.tuples(values, values), min_size=2, max_size=6),
    other=st.tuples(values, values),
    term=st.sampled_from(["accuracy", "neg_mean_absolute_error", "neg_mean_squared_error", own, fragile]),
)
def test_one_record_moves_the_mean_by_its_share(records, other, term):
    scorer = RecordScorer(term=term, bounds=(-2.0, 1.0))
    with np.errstate(all="ignore"):
        a, b = (
            scorer(Echo(), np.array(rows)[:, :1], np.array(rows)[:, 1]) for rows in (records, [other, *records[1:]])
        )
    assert -2.0 <= min(a, b) <= max(a, b) <= 1.0
    assert abs(a - b) <= 3.0 / len(records) * (1 + 1e-12)


def test_text_labels_and_several_outputs():
    class Says:
        def predict(self, X):
            return np.array(["a"] * len(X))

    scorer = RecordScorer(term="accuracy", bounds=UNIT)
    assert scorer(Says(), np.zeros((4, 1)), np.array(["a", "b", "a", "a"])) == 0.75
    assert scorer(Echo(), np.zeros((2, 1)), None) == 0.0

    class Pairs:
        def predict(self, X):
            return np.zeros((len(X), 2))

    assert scorer(Pairs(), np.zeros((2, 1)), np.array([[0, 1], [0, 0]])) == 0.75


def test_no_labels():
    assert RecordScorer(term=lambda model, X: X[:, 0], bounds=UNIT)(Echo(), np.array([[0.5], [0.25]])) == 0.375
    assert score_or_nan(lambda model, X: 3, None, X=[1], y=None) == 3.0


def test_noise_and_its_account():
    noisy = ps.NoisyScore(noise_std=0.1, bounds=(-1, 1))
    made = noisy.mechanism(1 / 8, RECORDS)
    trusted = frozenset({ps.Assumption.TRUSTED_SENSITIVITY})  # the noise is drawn exactly
    assert made.accountant == ps.GaussianAccountant(
        sensitivity=0.25, noise_std=0.1, relation=RECORDS, assumptions=trusted
    )
    laplace = ps.NoisyScore(noise_std=0.1, distribution="laplace").mechanism(1 / 8, RECORDS)
    assert laplace.accountant == ps.LaplaceAccountant(
        sensitivity=1 / 8, scale=0.1 / 2**0.5, relation=RECORDS, assumptions=trusted
    )


@pytest.mark.statistical
@pytest.mark.parametrize(("factor", "accepted"), [(1.0, True), (0.7, False)])
@pytest.mark.parametrize("distribution", ["gaussian", "laplace"])
def test_noise_has_the_declared_deviation(distribution, factor, accepted, rng, alpha):
    from scipy import stats

    made = ps.NoisyScore(noise_std=0.1 * factor, distribution=distribution).mechanism(1 / 8, RECORDS)
    draws = replace(made, draws=4000).release(0.5, rng=rng)["statistic"]
    scale = stats.norm(0.5, 0.1) if distribution == "gaussian" else stats.laplace(0.5, 0.1 / 2**0.5)
    assert (stats.kstest(draws, scale.cdf).pvalue > alpha) == accepted


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"noise_std": 0}, "noise_std must be finite and > 0"),
        ({"noise_std": np.nan}, "noise_std must be finite"),
        ({"noise_std": 1, "bounds": (1, 0)}, "low < high"),
        ({"noise_std": 1, "distribution": "cauchy"}, "distribution must be 'gaussian' or 'laplace'"),
    ],
)
def test_refused(fields, words):
    with pytest.raises(ValueError, match=words):
        ps.NoisyScore(**fields)


class Ones:
    """Predicts 1 for every record, or a pair of them."""

    def __init__(self, outputs=1):
        self.outputs = outputs

    def predict(self, X):
        return np.ones((len(X), self.outputs))


@pytest.mark.parametrize("odd", ["a", b"x", None, [2], [1, 2], 2**70, 1j, np.nan, "1"])
@pytest.mark.parametrize("term", ["accuracy", "neg_mean_absolute_error", "neg_mean_squared_error"])
def test_targets_in_a_list_are_scored_each_by_itself(term, odd):
    """An array of all would turn numbers into texts for the sake of one."""
    scorer, X = RecordScorer(term=term, bounds=(-2.0, 1.0)), [[0.0]] * 4
    plain, mixed = (scorer(Ones(), X, [1, 1, 1, last]) for last in (1, odd))
    assert plain == (1.0 if term == "accuracy" else 0.0)
    assert abs(plain - mixed) <= 3.0 / 4 * (1 + 1e-12)


def test_lists_of_several_targets():
    scorer = RecordScorer(term="accuracy", bounds=UNIT)
    assert scorer(Ones(outputs=2), [[0.0]] * 2, [[1, 1], [1, 0]]) == 0.75
    assert scorer(Ones(), [[0.0]] * 2, [[1], [0]]) == scorer(Ones(), [[0.0]] * 2, (1, 0)) == 0.5
    assert scorer(Ones(outputs=2), [[0.0]] * 2, [[1, 1], [1]]) == 1.0  # one target for both predictions


def test_rows_and_parts_of_lists():
    assert take_rows([3, "a", 5], np.array([2, 0])) == [5, 3]
    assert [feature_count(X) for X in ([[1, 2], (3, 4)], [1, 2], [], np.zeros((2, 3)), np.zeros(2))] == [
        2,
        None,
        None,
        3,
        None,
    ]
    with pytest.raises(ValueError, match="rows of X must have equal lengths"):
        feature_count([[1, 2], [3]])

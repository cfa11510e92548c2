"""A private search compared with scikit-learn's RandomizedSearchCV: same candidates, folds and number of runs."""

import warnings
from collections.abc import Iterator

import numpy as np
from scipy import stats
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import KFold, RandomizedSearchCV
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler

import privsample as ps
from benchmarks.measure import Row, milliseconds, paired

RUNS = 10
SPACE = {"logisticregression__C": stats.uniform(1.0, 1e-9)}  # every candidate takes as long as another
COST = ps.PureAccountant(stated_epsilon=1.0)  # not so: the benchmark is about time


def rows() -> Iterator[Row]:
    """One learner on few records, where overhead dominates, and on four times as many."""
    data = load_breast_cancer()
    for copies in (1, 4):
        X, y = np.tile(data.data, (copies, 1)), np.tile(data.target, copies)
        yield _row(X, y)


def _row(X: np.ndarray, y: np.ndarray) -> Row:
    cv = KFold(5, shuffle=True, random_state=0)
    distribution = ps.Binomial(maximum=RUNS, rate=1 - 1e-12)  # as good as RUNS runs
    noise = ps.NoisyScore(noise_std=0.02)
    library = ps.PrivateSearchCV(
        _learner(), SPACE, distribution, cv=cv, score_noise=noise, refit=True, training_account=COST
    )
    peer = RandomizedSearchCV(_learner(), SPACE, n_iter=RUNS, cv=cv, scoring="accuracy", random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        mine, theirs = paired(lambda: library.fit(X, y, rng=np.random.default_rng(0)), lambda: peer.fit(X, y))
    return Row(
        name=f"search of {RUNS} runs, 5 folds of {len(X)} records",
        library=milliseconds(mine),
        peer=f"{milliseconds(theirs)} RandomizedSearchCV",
        ratio=mine / theirs,
        target="under 1.05",
    )


def _learner() -> Pipeline:
    return make_pipeline(StandardScaler(), LogisticRegression())

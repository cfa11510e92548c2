"""Searches: overhead over scikit-learn's RandomizedSearchCV, time to price a target, and accuracy by its division."""

import time
import warnings
from collections.abc import Iterator

import numpy as np
from scipy import stats
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import KFold, RandomizedSearchCV, train_test_split
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler

import privsample as ps
from benchmarks.measure import Row, milliseconds, paired

RUNS = 10
SPACE = {"logisticregression__C": stats.uniform(1.0, 1e-9)}  # every candidate takes as long as another
LAPLACE = ps.NoisyScore(distribution="laplace")
TARGETS = {  # settings that differ from a search with score noise, five folds and epsilon 1 at delta 1e-5
    "epsilon 1": {},
    "refit": {"refit": True},
    "constant time": {"constant_time": True},
    "Laplace scores": {"score_noise": LAPLACE},
    "Laplace scores, refit": {"score_noise": LAPLACE, "refit": True},
    "epsilon 0.1, delta 1e-9": {"target": ps.DP(0.1, 1e-9)},
    "epsilon 8": {"target": ps.DP(8, 1e-5)},
    "Renyi, order 8": {"target": ps.RDP(order=8, epsilon=0.5)},
}
CANDIDATES = {"radius": [2.0, 5.0, 10.0], "penalty": [1e-4, 1e-3, 1e-2], "rate": [0.05, 0.1, 0.2]}
SPLITS = 10
COST = ps.PureAccountant(stated_epsilon=1.0)  # not so: the benchmark is about time


def rows() -> Iterator[Row]:
    """One learner on few records, where overhead dominates, and on four times as many; then searches with a target."""
    data = load_breast_cancer()
    for copies in (1, 4):
        X, y = np.tile(data.data, (copies, 1)), np.tile(data.target, copies)
        yield _row(X, y)
    for name, changed in TARGETS.items():
        yield _price(name, changed)
    yield _accuracy(data.data, data.target)


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


def _search(**changed: object) -> ps.PrivateSearchCV:
    options = {"score_noise": ps.NoisyScore(), "target": ps.DP(1, 1e-5)} | changed
    return ps.PrivateSearchCV(ps.PrivateSGDClassifier(bounds=(-1, 1)), CANDIDATES, **options)


def _price(name: str, changed: dict[str, object]) -> Row:
    """Processor time of a plan for 2,000 records; a different number is planned first, so that nothing is known."""
    search = _search(**changed)
    search.plan_for(1999, 10)
    start = time.process_time()
    search.plan_for(2000, 10)
    spent = time.process_time() - start
    return Row(name=f"price of a search: {name}", library=milliseconds(spent), peer="", ratio=None, target="under 1 s")


def _accuracy(X: np.ndarray, y: np.ndarray) -> Row:
    """Mean test accuracy at epsilon 2, with the default division and with equal thirds."""
    centre, spread = X.mean(axis=0), 2.0 * X.std(axis=0)  # not private: the benchmark compares divisions
    found = {}
    for division in (None, (1, 1, 1)):
        search = _search(target=ps.DP(2, 1e-5), division=division, refit=True)
        search.set_params(estimator__bounds=(centre - spread, centre + spread))
        found[division] = [_test_accuracy(search, X, y, seed) for seed in range(SPLITS)]
    mine, theirs = (float(np.mean(scores)) for scores in found.values())
    return Row(
        name=f"accuracy on breast cancer, epsilon 2, {SPLITS} splits",
        library=f"{mine:.3f}",
        peer=f"{theirs:.3f} equal thirds",
        ratio=mine / theirs,
        target="at least equal",
    )


def _test_accuracy(search: ps.PrivateSearchCV, X: np.ndarray, y: np.ndarray, seed: int) -> float:
    """Accuracy on a quarter of the records; a search without a model guesses."""
    train, test, labels, truth = train_test_split(X, y, test_size=0.25, random_state=seed)
    search.fit(train, labels, rng=np.random.default_rng(seed))
    return 0.5 if search.best_estimator_ is None else float(search.best_estimator_.score(test, truth))

"""Scores that tell two laws apart, learned from draws of both. A poor score makes an audit weak, never wrong."""

import warnings
from collections.abc import Callable

import numpy as np

from privsample._checks import FloatArray

Score = Callable[[FloatArray], FloatArray]

_LIMIT = 1e12


def learned(first: FloatArray, second: FloatArray) -> tuple[Score, ...]:
    """Candidates for the log density ratio of the first law over the second.

    Parameters: draws of both, shape (draws, width). Returns: functions of such arrays, each to (draws,): a logistic
    regression on coordinates, their sizes and squares, and boosted trees.
    """
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler
    from threadpoolctl import threadpool_limits

    rows = _tame(np.concatenate([first, second]))
    labels = np.repeat([1, 0], [len(first), len(second)])
    linear = make_pipeline(StandardScaler(), LogisticRegression(max_iter=200))
    trees = HistGradientBoostingClassifier(max_iter=60, max_leaf_nodes=15, learning_rate=0.2, random_state=0)
    with warnings.catch_warnings(), np.errstate(all="ignore"), threadpool_limits(1):
        warnings.simplefilter("ignore")  # a learner that has not settled is a weaker score and nothing else
        linear.fit(_widened(rows), labels)
        trees.fit(rows, labels)

    def by_trees(draws: FloatArray) -> FloatArray:
        with threadpool_limits(1):  # where others keep the processors busy, threads wait for one another
            return np.asarray(trees.decision_function(_tame(draws)))

    return lambda draws: linear.decision_function(_widened(_tame(draws))), by_trees


def _tame(draws: FloatArray) -> FloatArray:
    """Where squares do not overflow."""
    return np.clip(draws, -_LIMIT, _LIMIT)


def _widened(rows: FloatArray) -> FloatArray:
    return np.hstack([rows, np.abs(rows), rows * rows])

"""Scores that separate two distributions, given or learned. A poor score makes an audit weak and never wrong."""

import warnings
from collections.abc import Callable

import numpy as np

from privsample._checks import FloatArray

Score = Callable[[FloatArray], FloatArray]

_FAR = 1e150  # outputs are clipped here, so that their differences do not overflow
_LIMIT = 1e6  # in scaled units; outputs are clipped here, so that their squares stay small
_EXTREME = 1e290  # scores are clipped here, because rounding multiplies by 1e9


def score_values(score: Score, outputs: FloatArray) -> FloatArray:
    """Return the scores of outputs of shape (draws, width) as shape (draws,), with infinities clipped.

    Scores are rounded, because the claim refers to real numbers and the last bits of floats reveal more (Mironov 2012).
    Raises: ValueError, for a score that does not return one real number for each draw.
    """
    found, expected = np.asarray(score(outputs)), (len(outputs),)
    if found.dtype.kind not in "biuf" or found.shape != expected:
        raise ValueError(
            f"loss must return one real number for each draw: from outputs of shape {outputs.shape}, an array of "
            f"shape {expected}, got {found.dtype} of shape {found.shape}"
        )
    if np.isnan(found).any():
        raise ValueError(f"loss must not return NaN; it did for {int(np.isnan(found).sum()):,} of {len(found):,} draws")
    bounded: FloatArray = np.clip(found.astype(np.float64), -_EXTREME, _EXTREME)
    return bounded.round(9)


def learn_scores(first: FloatArray, second: FloatArray) -> tuple[Score, ...]:
    """Learn two estimates of the log density ratio from draws of both distributions, shape (draws, width).

    The estimates map such arrays to shape (draws,): a logistic regression on coordinates, absolute values and squares,
    and boosted trees.
    """
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler
    from threadpoolctl import threadpool_limits

    rows = np.clip(np.concatenate([first, second]), -_FAR, _FAR)
    centre = np.median(rows, axis=0)
    sizes = np.abs(rows - centre)
    spread = np.quantile(sizes, 0.75, axis=0)
    spread = np.where(spread > 0.0, spread, sizes.max(axis=0))
    spread = np.where(spread > 0.0, spread, 1.0)

    def scaled(draws: FloatArray) -> FloatArray:
        return np.clip((np.clip(draws, -_FAR, _FAR) - centre) / spread, -_LIMIT, _LIMIT)

    rows = scaled(rows)
    labels = np.repeat([1, 0], [len(first), len(second)])
    linear = make_pipeline(StandardScaler(), LogisticRegression(max_iter=200))
    trees = HistGradientBoostingClassifier(max_iter=60, max_leaf_nodes=15, learning_rate=0.2, random_state=0)
    with warnings.catch_warnings(), np.errstate(all="ignore"), threadpool_limits(1):
        warnings.simplefilter("ignore")  # a learner that has not converged only gives a weaker score
        linear.fit(_widened(rows), labels)
        trees.fit(rows, labels)

    def by_trees(draws: FloatArray) -> FloatArray:
        with threadpool_limits(1):  # threads contend if other processes use the processors
            return np.asarray(trees.decision_function(scaled(draws)))

    return lambda draws: np.nan_to_num(linear.decision_function(_widened(scaled(draws)))), by_trees


def _widened(rows: FloatArray) -> FloatArray:
    return np.hstack([rows, np.abs(rows), rows * rows])

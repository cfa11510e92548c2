"""Scores of canaries: numbers that are larger for canaries that were included, computed from the trained result."""

from collections.abc import Callable
from pickle import PicklingError
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privsample._checks import FloatArray, number
from privsample._progress import progress_bar
from privsample.simulations.audit.canaries import CanarySet

CanaryScore = Callable[[Any, Any], float]

_LEAST, _MOST = float(np.finfo(np.float64).tiny), float(np.finfo(np.float64).max) / 2
_BLOCK = 256  # canaries that one job scores; each job is sent the result


def score_canaries(score: CanaryScore, result: Any, canaries: CanarySet, *, progress: bool) -> FloatArray:
    """The score of each canary, shape (m,), through joblib.

    Raises RuntimeError if a score raises, TypeError if it is no number or cannot be sent to other processes.
    """
    from joblib import Parallel, delayed

    starts = range(0, len(canaries), _BLOCK)
    blocks = [[canaries.canary(k) for k in range(at, min(at + _BLOCK, len(canaries)))] for at in starts]
    jobs = (delayed(_score_block)(score, result, block, at) for at, block in zip(starts, blocks, strict=True))
    found: list[float] = []
    try:
        with progress_bar("score canaries", len(canaries), wanted=progress) as advance:
            for scores in Parallel(return_as="generator")(jobs):
                found += scores
                advance(len(scores))
    except PicklingError:
        raise TypeError(
            "the score or the trained result cannot be sent to other processes: score in this one (n_jobs=1), or in "
            'threads (joblib.parallel_config(backend="threading"))'
        ) from None
    return np.array(found)


def _score_block(score: CanaryScore, result: Any, canaries: list[Any], first: int) -> list[float]:
    scores = []
    for index, canary in enumerate(canaries, start=first):
        try:
            found = score(result, canary)
        except Exception as error:
            raise RuntimeError(f"the score of canary {index} raised {type(error).__name__}: {error}") from error
        scores.append(number(**{f"the score of canary {index}": found}))
    return scores


def default_scores(result: Any, canaries: CanarySet, substitutes: CanarySet | None) -> FloatArray:
    """How much better the trained estimator fits each canary than its substitute, shape (m,).

    Raises TypeError if the result is no fitted estimator, or the canaries have no targets.
    """
    if canaries.targets is None:
        raise TypeError("score must be given for canaries without targets: a function of (result, canary)")
    own = _fit_quality(result, np.asarray(canaries.records), canaries.targets)
    if substitutes is None or substitutes.targets is None:
        return own
    return own - _fit_quality(result, np.asarray(substitutes.records), substitutes.targets)


def _fit_quality(result: Any, rows: NDArray[Any], targets: NDArray[Any]) -> FloatArray:
    """How well an estimator fits each row, shape (m,).

    Of a linear model with one score: the alignment of the coefficients with minus the gradient of the row's loss at
    zero, which needs no intercept and does not saturate. Otherwise the log probability of the row's class, or minus the
    squared error.
    """
    classes = getattr(result, "classes_", None)
    coefficients = np.asarray(getattr(result, "coef_", np.zeros((2, 0))), dtype=np.float64)
    if coefficients.size == rows.shape[1] and (classes is None or len(classes) == 2):
        signs = targets if classes is None else np.where(targets == classes[1], 1.0, -1.0)
        return np.asarray(signs * (rows @ coefficients.ravel()), dtype=np.float64)
    if classes is not None and hasattr(result, "predict_proba"):
        probabilities = np.asarray(result.predict_proba(rows))
        own = (np.asarray(classes)[None, :] == targets[:, None]) * probabilities
        # zeros are raised to the least normal double: the difference of two infinite scores would be NaN
        return np.asarray(np.log(np.maximum(own.sum(axis=1), _LEAST)), dtype=np.float64)
    if hasattr(result, "predict"):
        with np.errstate(over="ignore"):
            errors = np.square(np.asarray(result.predict(rows), dtype=np.float64) - targets)
        return -np.minimum(errors, _MOST)
    raise TypeError(
        f"score must be given for a result of type {type(result).__name__}: a function of (result, canary) that is "
        "larger for canaries that were included. Only fitted estimators have a default"
    )

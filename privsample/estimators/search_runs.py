"""Runs of a search: training and scoring a candidate on one fold, and ranking the run."""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from inspect import signature
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.pipeline import Pipeline

from privsample.estimators.run_account import Folds
from privsample.estimators.scoring import Scorer, score_or_nan, take_rows
from privsample.mechanisms.selection.ranking import FAILED, Rank, rank_of, without_warnings


@dataclass(frozen=True, kw_only=True)
class Task:
    """Settings that all runs share.

    `validation` is public data; if it is None, the test part of the fold gives the score. `keep` says whether fitted
    models are returned. `process` is the id of the main process.
    """

    folds: Folds | None
    scorer: Scorer
    validation: tuple[Any, Any] | None
    keep: bool
    process: int


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """Result of one training: the score and, if it is kept, the fitted model; or a failure."""

    failed: bool
    score: float = float("nan")
    model: Any = None


@dataclass(frozen=True, kw_only=True)
class RankedRun:
    """Rank, score, candidate and model of a run; `candidate` is None if the run failed or there was no run."""

    rank: Rank
    score: float
    candidate: dict[str, Any] | None
    model: Any


NO_RUN = RankedRun(rank=FAILED, score=float("nan"), candidate=None, model=None)


def train_and_score(estimator: Any, rng: np.random.Generator | None, X: Any, y: Any, task: Task, fold: int) -> Outcome:
    """Fit a clone of the estimator on one fold and score it."""
    if os.getpid() != task.process:
        np.random.seed()  # noqa: NPY002 - forked workers inherit one state of numpy's global generator, and would draw equal noise
    train, test = (X, y), (X, y)
    if task.folds is not None:
        train, test = ((take_rows(X, positions), take_rows(y, positions)) for positions in task.folds[fold])
    model = fit_or_none(clone(estimator), rng, *train)
    if model is None:
        return Outcome(failed=True)
    with without_warnings():
        score = score_or_nan(task.scorer, model, *task.validation or test)
    return Outcome(failed=False, score=score, model=model if task.keep else None)


def fit_or_none(estimator: Any, rng: np.random.Generator | None, X: Any, y: Any) -> Any:
    """Return the fitted estimator, or None if fitting fails.

    Errors and warnings are suppressed: the account covers failure as one more output, which ranks last.
    """
    with without_warnings():
        try:
            own = _generators(estimator, rng)
            estimator.fit(X, **own) if y is None else estimator.fit(X, y, **own)
        except Exception:  # noqa: BLE001 - any error is the same failure
            return None
        return estimator


def _generators(estimator: Any, rng: np.random.Generator | None) -> dict[str, np.random.Generator]:
    """Return the generators that `fit` takes by name: `rng`, and `step__rng` of each step of a pipeline."""
    if rng is None:
        return {}
    if isinstance(estimator, Pipeline):
        steps = [(f"{name}__rng", step) for name, step in estimator.steps if hasattr(step, "fit")]
        return {name: rng.spawn(1)[0] for name, step in steps if "rng" in signature(step.fit).parameters}
    return {"rng": rng} if "rng" in signature(estimator.fit).parameters else {}


def rank_run(
    candidate: dict[str, Any], outcomes: Sequence[Outcome], noisy_score: Callable[[float], float]
) -> RankedRun:
    """Rank a run by its score. Failed runs rank last, and runs whose score is NaN rank just above them.

    `noisy_score` adds the score noise, if any, to the mean score of the folds.
    """
    if any(one.failed for one in outcomes):
        return NO_RUN
    score = noisy_score(float(np.mean([one.score for one in outcomes])))
    return RankedRun(rank=rank_of(score), score=score, candidate=candidate, model=outcomes[0].model)


def spawn(rng: np.random.Generator | None) -> np.random.Generator | None:
    """Return an independent child generator, or None for None."""
    return None if rng is None else rng.spawn(1)[0]

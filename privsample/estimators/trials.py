"""The runs of a search: training and scoring of one candidate on one fold, and the rank of a run."""

import os
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from privsample.estimators.pricing import Folds
from privsample.estimators.scoring import Scorer, score_of

Rank = tuple[int, float]
FAILED, NO_NUMBER, SCORED = range(3)


@dataclass(frozen=True, kw_only=True)
class Task:
    """What all runs share; `validation` is public, without it the fold's own part for testing gives the score."""

    X: Any
    y: Any
    folds: Folds | None
    scorer: Scorer
    validation: tuple[Any, Any] | None
    keep: bool
    process: int

    @property
    def parts(self) -> int:
        """Trainings in one run."""
        return 1 if self.folds is None else len(self.folds)


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """A fitted model, where it is kept, and its score; or a failure."""

    failed: bool
    score: float = float("nan")
    model: Any = None


def trained(estimator: Any, task: Task, fold: int) -> Outcome:
    """Fit on one fold and score. Never raises, never warns: either would tell of a run that may not win."""
    if os.getpid() != task.process:
        np.random.seed()  # noqa: NPY002 - a forked worker would share numpy's global state with the others
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            train, test = (slice(None), slice(None)) if task.folds is None else task.folds[fold]
            model = fitted(estimator, _taken(task.X, train), _taken(task.y, train))
        except Exception:  # noqa: BLE001 - a failed candidate is a legal output
            return Outcome(failed=True)
        X, y = task.validation or (_taken(task.X, test), _taken(task.y, test))
        return Outcome(failed=False, score=score_of(task.scorer, model, X, y), model=model if task.keep else None)


def fitted(estimator: Any, X: Any, y: Any) -> Any:
    """The estimator, fitted."""
    return estimator.fit(X) if y is None else estimator.fit(X, y)


def run_score(outcomes: Sequence[Outcome]) -> float | None:
    """The mean of the folds' scores; None where a training failed."""
    return None if any(one.failed for one in outcomes) else float(np.mean([one.score for one in outcomes]))


def rank(score: float | None) -> Rank:
    """Failures last, before them what is no number."""
    if score is None:
        return (FAILED, 0.0)
    return (NO_NUMBER, 0.0) if np.isnan(score) else (SCORED, score)


def _taken(data: Any, positions: Any) -> Any:
    """The rows at these positions."""
    if data is None or isinstance(positions, slice):
        return data
    return data.iloc[positions] if hasattr(data, "iloc") else data[positions]

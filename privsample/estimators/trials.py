"""The runs of a search: training and scoring of one candidate on one fold, and the rank of a run."""

import os
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from privsample.estimators.pricing import Folds
from privsample.estimators.scoring import Scorer, score_of

_FAILED, _NO_NUMBER, _SCORED = range(3)


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


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """A fitted model, where it is kept, and its score; or a failure."""

    failed: bool
    score: float = float("nan")
    model: Any = None


@dataclass(frozen=True, kw_only=True)
class Ranked:
    """What is left of a run: no candidate where it failed, or where none was made."""

    rank: tuple[int, float]
    score: float
    candidate: dict[str, Any] | None
    model: Any


NO_RUN = Ranked(rank=(_FAILED, 0.0), score=float("nan"), candidate=None, model=None)


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


def ranked(candidate: dict[str, Any], outcomes: Sequence[Outcome], shown: Callable[[float], float]) -> Ranked:
    """A run's rank: failures last, before them what is no number. `shown` makes of the folds' mean what may be seen."""
    if any(one.failed for one in outcomes):
        return NO_RUN
    score = shown(float(np.mean([one.score for one in outcomes])))
    order = (_NO_NUMBER, 0.0) if np.isnan(score) else (_SCORED, score)
    return Ranked(rank=order, score=score, candidate=candidate, model=outcomes[0].model)


def _taken(data: Any, positions: Any) -> Any:
    """The rows at these positions."""
    if data is None or isinstance(positions, slice):
        return data
    return data.iloc[positions] if hasattr(data, "iloc") else data[positions]

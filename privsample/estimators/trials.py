"""The runs of a search: training and scoring of one candidate on one fold, and the rank of a run."""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from inspect import signature
from typing import Any

import numpy as np
from sklearn.base import clone

from privsample.estimators.pricing import Folds
from privsample.estimators.scoring import Scorer, score_of, take_rows
from privsample.mechanisms.selection.ranking import FAILED, Rank, rank_of, silent


@dataclass(frozen=True, kw_only=True)
class Task:
    """What all runs share; `validation` is public, without it the fold's own part for testing gives the score."""

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

    rank: Rank
    score: float
    candidate: dict[str, Any] | None
    model: Any


NO_RUN = Ranked(rank=FAILED, score=float("nan"), candidate=None, model=None)


def trained(estimator: Any, rng: np.random.Generator | None, X: Any, y: Any, task: Task, fold: int) -> Outcome:
    """Fit on one fold and score."""
    if os.getpid() != task.process:
        np.random.seed()  # noqa: NPY002 - a forked worker would share numpy's global state with the others
    train, test = (X, y), (X, y)
    if task.folds is not None:
        train, test = ((take_rows(X, positions), take_rows(y, positions)) for positions in task.folds[fold])
    model = fitted(clone(estimator), rng, *train)
    if model is None:
        return Outcome(failed=True)
    with silent():
        score = score_of(task.scorer, model, *task.validation or test)
    return Outcome(failed=False, score=score, model=model if task.keep else None)


def fitted(estimator: Any, rng: np.random.Generator | None, X: Any, y: Any) -> Any:
    """The estimator, fitted; None where that fails. Neither errors nor warnings leave: a failure is a legal output."""
    with silent():
        try:
            own = {} if rng is None or "rng" not in signature(estimator.fit).parameters else {"rng": rng}
            estimator.fit(X, **own) if y is None else estimator.fit(X, y, **own)
        except Exception:  # noqa: BLE001 - whatever it is
            return None
        return estimator


def ranked(candidate: dict[str, Any], outcomes: Sequence[Outcome], noisy_score: Callable[[float], float]) -> Ranked:
    """The rank of a run: failed runs are last, then runs whose score is not a number.

    `noisy_score` turns the mean score of the folds into the score that may be used.
    """
    if any(one.failed for one in outcomes):
        return NO_RUN
    score = noisy_score(float(np.mean([one.score for one in outcomes])))
    return Ranked(rank=rank_of(score), score=score, candidate=candidate, model=outcomes[0].model)


def child(rng: np.random.Generator | None) -> np.random.Generator | None:
    """A generator for one fit, where the caller gave one."""
    return None if rng is None else rng.spawn(1)[0]

"""Ranks of the runs of a selection, and suppression of warnings."""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

Rank = tuple[int, float]

_FAILED, _NO_NUMBER, _SCORED = range(3)
FAILED: Rank = (_FAILED, 0.0)


def rank_of(score: float) -> Rank:
    """The rank of a run that did not fail: NaN ranks above a failure and below every number."""
    return (_NO_NUMBER, 0.0) if np.isnan(score) else (_SCORED, score)


@contextmanager
def without_warnings() -> Iterator[None]:
    """Suppress warnings, whose number would reveal the number of runs."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        yield

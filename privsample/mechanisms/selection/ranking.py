"""How the runs of a choice are ranked, and kept quiet."""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

Rank = tuple[int, float]

_FAILED, _NO_NUMBER, _SCORED = range(3)
FAILED: Rank = (_FAILED, 0.0)


def rank_of(score: float) -> Rank:
    """The place of a run that did not fail: NaN stands above a failure and below every number."""
    return (_NO_NUMBER, 0.0) if np.isnan(score) else (_SCORED, score)


@contextmanager
def silent() -> Iterator[None]:
    """Without warnings: their number would tell the number of runs."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        yield

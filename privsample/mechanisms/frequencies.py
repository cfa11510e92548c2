"""Estimates of the frequencies of records from the numbers of their random responses."""

import numpy as np

from privsample._checks import FloatArray
from privsample.mechanisms.base import Mechanism
from privsample.mechanisms.release import Release


def checked_release(release: object, mechanism: Mechanism) -> Release:
    """The release, if the mechanism made it. Raises TypeError, ValueError."""
    if not isinstance(release, Release):
        raise TypeError(f"release must be a Release of this mechanism, got {type(release).__name__}")
    if release.mechanism != mechanism:
        raise ValueError("another mechanism made this release: call the method of release.mechanism")
    return release


def estimated_frequencies(distributions: FloatArray, shares: FloatArray) -> FloatArray:
    """Unbiased estimates of the shares of the inputs, shape (inputs,), from shares of the outcomes, shape (outcomes,).

    `distributions` has shape (inputs, outcomes) and linearly independent rows.
    """
    return np.asarray(_inverse(distributions) @ shares)


def frequency_errors(distributions: FloatArray, shares: FloatArray, responses: int) -> FloatArray:
    """Standard errors of `estimated_frequencies`, if the records of all persons are drawn from one population."""
    inverse = _inverse(distributions)
    variance = inverse**2 @ shares - (inverse @ shares) ** 2
    return np.asarray(np.sqrt(np.maximum(variance, 0.0) / responses))


def _inverse(distributions: FloatArray) -> FloatArray:
    """The matrix A with A @ distributions.T = 1. Raises ValueError if there is none."""
    if np.linalg.matrix_rank(distributions) < len(distributions):
        raise ValueError(
            "frequencies cannot be estimated: responses to different records have linearly dependent distributions"
        )
    return np.asarray(np.linalg.pinv(distributions.T))

"""Estimates of the frequencies of records from the numbers of their random responses."""

import numpy as np

from privsample._checks import FloatArray


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

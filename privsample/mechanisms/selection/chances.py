"""Probabilities with which candidates are selected, given their utilities in units of the noise."""

import numpy as np

from privsample._checks import FloatArray

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(32)
_BLOCK = 1 << 20  # factors that are held at once


def exponential_chances(scores: FloatArray) -> FloatArray:
    """The probabilities of the exponential mechanism: proportional to e^score.

    The largest of the scores, shape (candidates,), is 0; -inf is allowed.
    """
    weights = np.exp(scores - scores.max())
    return np.asarray(weights / weights.sum())


def permute_and_flip_chances(scores: FloatArray) -> FloatArray:
    """The probabilities of permute-and-flip: a_j times the integral of the product of 1 - a_i s, i != j, over [0, 1].

    The integrand is positive, so nothing cancels (exponential.md, step 3.1). The panels halve towards 0, where the
    integrand of many good candidates is concentrated; on each of them 32 nodes leave a relative error below 1e-14.
    """
    a = np.exp(scores - scores.max())
    panels = int(np.ceil(np.log2(len(a)))) + 6
    ends = np.append(0.0, 2.0 ** np.arange(-panels, 1.0))
    half = np.diff(ends)[:, None] / 2
    s = (ends[:-1, None] + half * (1.0 + _NODES)).ravel()
    weights, blocks = (half * _WEIGHTS).ravel(), np.array_split(a, len(a) * len(s) // _BLOCK + 1)
    total = sum((_factors(block, s).sum(axis=0) for block in blocks), np.zeros(len(s)))
    chances = a * np.concatenate([np.exp(total - _factors(block, s)) @ weights for block in blocks])
    return np.asarray(chances / chances.sum())


def _factors(a: FloatArray, s: FloatArray) -> FloatArray:
    """The logarithms of 1 - a_i s, shape (candidates, nodes); s < 1, so all are finite."""
    return np.asarray(np.log1p(-a[:, None] * s))

"""Shared audit code of mechanisms that release independent codes, each with a known distribution for one input."""

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privsample._checks import FloatArray
from privsample.mechanisms.base import Mechanism
from privsample.mechanisms.neighbours import Loss

_BLOCK = 1_000  # pairs of distributions compared at once


def code_loss(p: FloatArray, q: FloatArray) -> Loss:
    """The privacy loss in nats of independent codes, as a function of outputs (draws, codes released)."""
    ratios = _log_ratios(p, q)
    return lambda codes: ratios[codes.astype(np.int64)].sum(axis=1)


def worst_rows(distributions: FloatArray, ends: NDArray[np.int64]) -> list[tuple[int, int]]:
    """The pairs of rows with the largest log ratio and with the largest total variation distance."""
    ratio, variation = (np.empty(len(ends)) for _ in range(2))
    for block in np.array_split(np.arange(len(ends)), -(-len(ends) // _BLOCK)):
        first, second = distributions[ends[block, 0]], distributions[ends[block, 1]]
        ratio[block] = np.abs(_log_ratios(first, second)).max(axis=1)
        variation[block] = np.abs(first - second).sum(axis=1)
    worst = dict.fromkeys([int(np.argmax(ratio)), int(np.argmax(variation))])
    return [(int(ends[at, 0]), int(ends[at, 1])) for at in worst]


def after_kernels(distributions: FloatArray, kernels: tuple[FloatArray, ...]) -> FloatArray:
    """The distributions of codes after each kernel in turn, shape (inputs, outcomes)."""
    for kernel in kernels:
        distributions = np.asarray(distributions @ kernel)
    return distributions


def with_innermost(outer: Any, inner: Mechanism, new: Mechanism) -> Mechanism:
    """The wrappers of `outer` around `inner`, if there are any, rebuilt around the mechanism `new`."""
    return new if outer is inner else replace(outer, base=with_innermost(outer.base, inner, new))


def _log_ratios(p: FloatArray, q: FloatArray) -> FloatArray:
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.nan_to_num(np.log(p) - np.log(q), nan=0.0, posinf=np.inf, neginf=-np.inf)

"""Counts of a binomial distribution in blocks whose probabilities are rounded up: random numbers of sampled records."""

import numpy as np
from numpy.typing import NDArray

from privsample._checks import FloatArray
from privsample._logspace import log1p_excess, stirling_remainder

_MOST_BLOCKS, _GROWTH = 1024, 1.25


def count_blocks(trials: int, rate: float) -> list[tuple[int, int, float]]:
    """Blocks (low, high, log probability) of the counts k >= 1 of a binomial distribution.

    Likely counts have blocks of their own. The probability of each block is rounded up.
    """
    if rate == 1.0:
        return [(trials, trials, 0.0)]
    mean, spread = trials * rate, np.sqrt(trials * rate * (1.0 - rate))
    low, high = max(1, int(mean - 14 * spread - 50)), min(trials, int(mean + 14 * spread + 150))
    starts = np.arange(low, high + 1, -(-(high + 1 - low) // _MOST_BLOCKS))
    weights = np.logaddexp.reduceat(log_binomial(np.arange(low, high + 1), trials, rate), starts - low)
    blocks = [
        (int(k), int(end), float(w)) for k, end, w in zip(starts, [*(starts[1:] - 1), high], weights, strict=True)
    ]
    if low > 1:
        blocks.insert(0, (1, low - 1, float(log_binomial(np.array([low - 1]), trials, rate)[0] + np.log(low - 1))))
    while high < trials:  # above the mean the probabilities decrease, so the first count of a block bounds the others
        first, high = high + 1, min(trials, int(_GROWTH * high) + 1)
        weight = log_binomial(np.array([first]), trials, rate)[0] + np.log(high - first + 1)
        blocks.append((first, high, float(weight)))
    return blocks


def log_binomial(k: NDArray[np.int64], trials: int, rate: float) -> FloatArray:
    """log probability of k successes, 1 <= k <= trials, rounded up. Source: Loader 2000."""
    n, successes = float(trials), np.maximum(np.minimum(k, trials - 1), 1).astype(np.float64)
    failures, away = np.maximum(n - successes, 1.0), successes - n * rate
    deviance = _deviance(successes, n * rate, -away) + _deviance(failures, n * (1.0 - rate), away)
    remainders = stirling_remainder(n) - stirling_remainder(successes) - stirling_remainder(failures)
    inside = remainders - deviance - 0.5 * np.log(2 * np.pi * successes * (failures / n))
    slope = np.abs(away) * (1.0 / successes + 1.0 / failures)  # derivative in the mean, which is rounded
    rounding = np.finfo(np.float64).eps * (16.0 + 16.0 * np.abs(deviance) + 2.0 * n * rate * slope)
    return np.where(k < trials, inside + rounding, n * np.log(rate) * (1 - 2 * np.finfo(np.float64).eps))


def _deviance(count: FloatArray, mean: float, away: FloatArray) -> FloatArray:
    """count log(count/mean) + mean - count with away = mean - count; by a series where the two nearly cancel."""
    y = away / count
    return count * np.where(np.abs(y) < 0.1, log1p_excess(np.clip(y, -0.1, 0.1)), y - np.log(mean / count))

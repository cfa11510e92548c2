"""The exact privacy curve of shuffled responses with two outcomes: all datasets, whose number of ones is released.

Source: docs/notes/shuffling.md, step 6.
"""

import numpy as np

from privsample._checks import FloatArray
from privsample._logspace import log1mexp
from privsample._value import cached, frozen_value
from privsample.accounting.loss.pair import binary_pair, delta_below_zero
from privsample.accounting.subsampling.chorded import ChordedPair

_ULP = float(np.finfo(np.float64).eps)
_BLOCK = 1 << 16  # values that are held at once

Tails = tuple[FloatArray, FloatArray, FloatArray]


@frozen_value
class TwoOutcomePair(ChordedPair):
    """Numbers of ones among n responses, each one with probability `high` or `low`; an own one changes between them.

    The curve is the largest of all datasets and of both orders of two neighbours, so that the pair is its own reverse.
    Probabilities between the two give no larger values, by convexity. 0 < low <= high < 1. Kind: exact.
    """

    high: float
    low: float
    n: int

    @property
    def max_divergence(self) -> float:
        """That of a single response: the others may all give the same one."""
        found = max(np.log(self.high) - np.log(self.low), np.log1p(-self.low) - np.log1p(-self.high))
        return float(found) + 16 * _ULP * (1.0 + abs(float(np.log(self.low))) + abs(float(np.log1p(-self.high))))

    @property
    def is_envelope(self) -> bool:
        """True: the largest of many curves."""
        return True

    @property
    def curve_cost(self) -> float:
        """One binary search for each dataset."""
        return self.n * float(np.log2(self.n + 1.0)) / 60.0 * len(self._orders)

    @property
    def order_limit(self) -> float:
        """Infinite, since losses are bounded."""
        return np.inf

    def ceiling(self, orders: FloatArray) -> FloatArray:
        """The Rényi curve of a pure guarantee of one response."""
        return binary_pair(self.max_divergence).renyi(orders)

    @cached
    def _orders(self) -> tuple[Tails, ...]:
        """The tails of both orders, the second with exchanged outcomes; of one if they are equal."""
        ahead = _tails(self.high, self.low, self.n)
        if abs(self.high + self.low - 1.0) <= 4 * _ULP:  # the error of the masses covers this difference
            return (ahead,)
        return ahead, _tails(1.0 - self.low, 1.0 - self.high, self.n)

    def log_delta(self, epsilon: FloatArray) -> FloatArray:
        """log of the largest delta of all datasets, rounded up; for negative epsilon by symmetry."""
        e = np.asarray(epsilon, dtype=np.float64)
        flat = np.abs(e).ravel()
        blocks = np.array_split(flat, flat.size * self.n // _BLOCK + 1)
        found = np.concatenate([np.max([_largest(tails, part) for tails in self._orders], axis=0) for part in blocks])
        above = np.where(flat >= self.max_divergence, -np.inf, np.minimum(found, 0.0)).reshape(e.shape)
        return np.where(e >= 0, above, delta_below_zero(e, above))

    def reverse(self) -> "TwoOutcomePair":
        """The pair itself."""
        return self


def _largest(tails: Tails, epsilon: FloatArray) -> FloatArray:
    """log of the largest P(S >= s) - e^epsilon Q(S >= s), with the first s of each dataset whose loss may exceed it."""
    losses, log_p, log_q = tails
    starts = np.arange(len(losses)) * losses.shape[1]
    at = np.zeros((len(epsilon), len(losses)), dtype=np.int64)
    step = losses.shape[1] // 2
    while step:
        below = losses.ravel()[starts + at + step - 1] <= epsilon[:, None]
        at += step * below
        step //= 2
    p, q = (log_masses.ravel()[starts + at] for log_masses in (log_p, log_q))
    with np.errstate(invalid="ignore"):
        gap = np.minimum(np.where(np.isneginf(p), 0.0, epsilon[:, None] + q - p), 0.0)
    return np.asarray((p + log1mexp(gap)).max(axis=1))


def _tails(high: float, low: float, n: int) -> Tails:
    """For each dataset and s, the largest loss up to s, and log P(S >= s) and log Q(S >= s), each on the safe side.

    P has the own response of probability `high`. The loss increases with s, so the best event of each epsilon is a
    tail. Shape (n, width), width a power of two above n + 1; no loss exceeds the entries after the last.
    """
    others = np.pad(_others(high, low, n - 1), ((0, 0), (1, 1)), constant_values=-np.inf)
    log_p, log_q = (np.logaddexp(np.log(own) + others[:, :-1], np.log1p(-own) + others[:, 1:]) for own in (high, low))
    error = (n + 16) * _ULP * (96.0 + 6 * np.log(n + 1.0) + np.maximum(np.abs(log_p), np.abs(log_q)))
    losses = np.maximum.accumulate(log_p - log_q + 2 * error, axis=1)
    upper_p, upper_q = (np.logaddexp.accumulate(masses[:, ::-1], axis=1)[:, ::-1] for masses in (log_p, log_q))
    after = ((0, 0), (0, (1 << (n + 1).bit_length()) - n - 1))
    return (
        np.pad(losses, after, constant_values=np.inf),
        np.pad(upper_p + 3 * error, after, constant_values=-np.inf),
        np.pad(upper_q - 3 * error, after, constant_values=-np.inf),
    )


def _others(high: float, low: float, persons: int) -> FloatArray:
    """Log masses of Bin(k, high) + Bin(persons - k, low) for k = 0, ..., persons, shape (persons + 1, persons + 1).

    The generating function satisfies a differential equation of first order, and so the masses a recurrence of three
    terms, c(s+1) = a(s) c(s) + b(s) c(s-1) up to factors, b > 0. It runs up while a >= 0 and down while a < 0, so that
    only positive terms are added. Sums of log ratios start in the middle, where masses are large.
    """
    k = np.arange(persons + 1.0)
    both, neither = high * low, (1.0 - high) * (1.0 - low)
    one, other = high * (1.0 - low), low * (1.0 - high)
    middle = np.array([one * (k - s) + other * (persons - k - s) for s in range(persons + 1)])
    up, down = np.empty((persons + 1, persons + 1)), np.empty((persons + 1, persons + 1))
    last = np.full(persons + 1, np.inf)
    for s in range(persons):  # ratios c(s+1)/c(s)
        last = (np.maximum(middle[s], 0.0) + both * (persons - s + 1) / last) / (neither * (s + 1))
        up[s] = last
    last = np.full(persons + 1, np.inf)
    for s in range(persons, 0, -1):  # ratios c(s-1)/c(s)
        last = (np.maximum(-middle[s], 0.0) + neither * (s + 1) / last) / (both * (persons - s + 1))
        down[s - 1] = last
    rising = middle[:-1] >= 0.0
    logs = np.where(rising, np.log(up[:-1]), -np.log(down[:-1]))
    above = np.cumsum(np.where(rising, 0.0, logs), axis=0)
    below = np.cumsum(np.where(rising, logs, 0.0)[::-1], axis=0)[::-1]
    start = np.zeros((1, persons + 1))
    found = np.concatenate([start, above]) - np.concatenate([below, start])
    return np.ascontiguousarray((found - np.logaddexp.reduce(found, axis=0)).T)

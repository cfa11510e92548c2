"""Neighbouring Beta posteriors with any sum of the other records: a certificate that the ends are the worst."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from privsample._checks import FloatArray, Real
from privsample._value import value
from privsample.accounting.posterior.beta import beta_log_delta

PairCurve = Callable[[FloatArray, FloatArray, Real, FloatArray], FloatArray]
Rows = NDArray[np.intp]

_TOLERANCE = 1e-9  # of the privacy curve
_ROUNDS, _BLOCKS = 40, 2000


@value
class BetaFamily:
    """All pairs Beta(a + r s + r k, b + r t) against Beta(a + r s, b + r t + r k), t = n - k - s, and their mirrors.

    r is `step` and k is `moved`, how many of the n records are replaced at once.
    Every s in [low, high] is dominated by the pair with a + r low and b + r (n-k-high): adding independent Gamma
    variables to both sides of the Beta's quotient is post-processing (docs/notes/posterior.md, Lemma 2).
    """

    a: float
    b: float
    step: float
    n: int
    whole: bool
    moved: int = 1

    @property
    def slack(self) -> float:
        """What the goal has to lie above the ends: where sums are real, a block next to an end is never below it."""
        return 0.0 if self.whole else _TOLERANCE

    def log_delta(self, epsilon: FloatArray, goal: FloatArray, curve: PairCurve = beta_log_delta) -> FloatArray:
        """The privacy curve of the whole family at each epsilon, certified: `goal`, its value at the ends, or above it.

        Blocks of sums are split until each one's bound is at most the goal; what does not go below raises the result.
        Parameters: epsilon, goal: (k,). Returns: (k,).
        """
        last = self.n - self.moved
        first, final = self._first_blocks(last)
        worst, at = np.array(goal, dtype=np.float64), np.repeat(np.arange(len(epsilon)), len(first))
        low, high = np.tile(first, len(epsilon)), np.tile(final, len(epsilon))
        left = _ROUNDS
        while low.size:
            left -= 1
            bound = self._bounds(low, high, epsilon[at], curve)
            single = high - low <= (0.0 if self.whole else 1e-9 * last)
            np.maximum.at(worst, at[single], bound[single])
            stays = (bound > worst[at]) & ~single
            ends = stays & ((left == 0) | (np.bincount(at[stays], minlength=len(epsilon)) > _BLOCKS)[at])
            np.maximum.at(worst, at[ends], bound[ends])
            low, high, at = self._split(low[stays & ~ends], high[stays & ~ends], at[stays & ~ends])
        return worst

    def _bounds(self, low: FloatArray, high: FloatArray, epsilon: FloatArray, curve: PairCurve) -> FloatArray:
        """The privacy curve of what dominates each block, both directions."""
        a, b = self.a + self.step * low, self.b + self.step * (self.n - self.moved - high)
        step = self.moved * self.step
        return np.maximum(curve(a, b, step, epsilon), curve(b, a, step, epsilon))

    def _first_blocks(self, last: int) -> tuple[FloatArray, FloatArray]:
        """Blocks that grow threefold from both ends: single sums first where sums are whole."""
        if self.whole:
            growth = np.unique(np.floor(3.0 ** np.arange(np.log(max(last / 2, 1)) / np.log(3.0) + 1)))
            cuts = np.unique(np.clip(np.concatenate([[1], growth, last - growth + 1, [last]]), 1, max(last, 1)))
            return cuts[:-1], cuts[1:] - 1
        growth = last / 2 * np.append(0.0, 3.0 ** -np.arange(22.0)[::-1])
        cuts = np.unique(np.concatenate([growth, last - growth]))
        return cuts[:-1], cuts[1:]

    def _split(self, low: FloatArray, high: FloatArray, at: Rows) -> tuple[FloatArray, FloatArray, Rows]:
        """Each block in eight, or in single sums."""
        shares, at = np.arange(9) / 8, np.repeat(at, 8)
        if self.whole:
            cuts = low[:, None] + np.round((high + 1 - low)[:, None] * shares)
            first, last = cuts[:, :-1].ravel(), cuts[:, 1:].ravel() - 1
            return first[first <= last], last[first <= last], at[first <= last]
        cuts = low[:, None] + (high - low)[:, None] * shares
        return cuts[:, :-1].ravel(), cuts[:, 1:].ravel(), at

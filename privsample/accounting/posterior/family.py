"""Neighbouring Beta posteriors with any sum of the other records: a certificate that the ends are the worst."""

from collections.abc import Callable

import numpy as np

from privsample._checks import FloatArray, Real
from privsample._value import value
from privsample.accounting.posterior.beta import beta_log_delta
from privsample.accounting.posterior.blocks import Rows, largest

PairCurve = Callable[[FloatArray, FloatArray, Real, FloatArray], FloatArray]

_TOLERANCE = 1e-9  # of the privacy curve
_BLOCKS = 2000


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

        Parameters: epsilon, goal: (k,). Returns: (k,).
        """

        def bounds(low: FloatArray, high: FloatArray, at: Rows) -> FloatArray:
            """The privacy curve of what dominates each block, both directions."""
            a, b = self.a + self.step * low, self.b + self.step * (self.n - self.moved - high)
            step = self.moved * self.step
            return np.maximum(curve(a, b, step, epsilon[at]), curve(b, a, step, epsilon[at]))

        return largest(bounds, goal, self.n - self.moved, whole=self.whole, most=_BLOCKS)

"""All pairs of neighbouring Beta laws held in an interval: the privacy curve over every sum of whole records.

Source: docs/notes/tempered.md.
"""

import numpy as np
from numpy.typing import NDArray
from scipy import special

from privsample._checks import FloatArray
from privsample._logspace import log1mexp
from privsample._value import value
from privsample.accounting.curves.quadrature import Rows, log_integral
from privsample.accounting.loss import delta_below_zero

Sums = NDArray[np.intp]

_LOST = 1e-10  # what two log normalisers, each within 2e-11, take from a threshold or a density
_COARSE = 24


@value
class HeldBetaFamily:
    """Beta(a + r s + r k, b + r t) against Beta(a + r s, b + r t + r k), t = n - k - s, both on [low, high], every s.

    r is `step`, k is `moved`. low + high = 1; the mirror images come with a and b exchanged.
    """

    a: float
    b: float
    step: float
    n: int
    low: float
    high: float
    moved: int = 1

    def log_delta(self, epsilon: FloatArray, *, certified: bool) -> FloatArray:
        """The largest log delta over all sums and both orders at each epsilon, (k,), rounded up.

        Without `certified` only over sums near the worst of a few.
        """
        every: Sums = np.arange(self.n - self.moved + 1)
        above = np.array(
            [max(self._worst(e, every, mirrored, certified) for mirrored in (False, True)) for e in np.abs(epsilon)]
        )
        return np.where(epsilon >= 0, above, delta_below_zero(epsilon, above))

    def _worst(self, epsilon: float, sums: Sums, mirrored: bool, certified: bool) -> float:
        if certified or len(sums) <= 2 * _COARSE:
            return float(self._log_delta(epsilon, sums, mirrored).max())
        few = np.unique(np.linspace(0, len(sums) - 1, _COARSE).round().astype(np.intp))
        padded = np.pad(self._log_delta(epsilon, few, mirrored), 1, constant_values=-np.inf)
        peaks = np.nonzero((padded[1:-1] >= padded[:-2]) & (padded[1:-1] >= padded[2:]))[0]
        around = [np.arange(few[max(at - 1, 0)], few[min(at + 1, len(few) - 1)] + 1) for at in peaks.tolist()]
        return float(self._log_delta(epsilon, np.unique(np.concatenate(around)), mirrored).max())

    def _log_delta(self, epsilon: float, sums: Sums, mirrored: bool) -> FloatArray:
        """log delta of each pair, (sums,)."""
        first, second = (self.b, self.a) if mirrored else (self.a, self.b)
        total, jump = first + second + self.step * self.n, self.step * self.moved
        q: FloatArray = first + self.step * sums.astype(np.float64)
        half = float(special.logit(self.high))

        def log_density(slope: FloatArray, y: FloatArray) -> FloatArray:
            return slope * y - total * np.logaddexp(0.0, y)

        def log_mass(slope: FloatArray) -> FloatArray:
            ends = np.full(len(slope), 2 * half)
            return log_integral(lambda at, u: log_density(slope[at, None], u - half), len(slope), ends)

        mass_p, mass_q = log_mass(q + jump), log_mass(q)
        at_least = (epsilon - _LOST + mass_p - mass_q) / jump  # the loss is above epsilon from here on
        start = np.maximum(at_least, -half)
        inside = start < half
        result = np.full(len(sums), -np.inf)
        if inside.any():
            slope, start, at_least = (q + jump)[inside], start[inside], at_least[inside]

            def integrand(at: Rows, u: FloatArray) -> FloatArray:
                y = start[at, None] + u
                return log_density(slope[at, None], y) + log1mexp(-jump * (y - at_least[at, None]))

            result[inside] = log_integral(integrand, len(slope), half - start) - mass_p[inside] + _LOST
        return np.minimum(result, 0.0)

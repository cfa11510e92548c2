"""All pairs of neighbouring Beta distributions held in an interval: the privacy curve over every sum of whole records.

Source: docs/notes/tempered.md.
"""

from dataclasses import replace

import numpy as np
from scipy import special

from privsample._checks import FloatArray, Real
from privsample._logspace import log1mexp
from privsample._value import frozen_value
from privsample.accounting.curves.quadrature import Rows, log_integral
from privsample.accounting.loss.pair import delta_below_zero
from privsample.accounting.posterior.branch_and_bound import maximize_over_sums
from privsample.accounting.posterior.pairs import by_rows

_NORMALIZER_ERROR = 1e-10  # what two log normalisers, each within 2e-11, take from a threshold or a density
_ROUNDING = 16 * float(np.finfo(float).eps)  # what rounding takes besides, relative to the terms of a log density
_COARSE, _BLOCKS = 24, 8000


@frozen_value
class TruncatedBetaFamily:
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

        Without `certified` only over some sums, ever closer to the worst of them.
        """
        positive = np.abs(epsilon)
        above = np.full(len(epsilon), -np.inf)
        for family in dict.fromkeys([self, replace(self, a=self.b, b=self.a)]):
            above = np.maximum(above, [family._local_search(e) for e in positive.tolist()])
            if certified:
                above = family._certified(positive, above)
        return np.where(epsilon >= 0, above, delta_below_zero(epsilon, above))

    def _certified(self, epsilon: FloatArray, goal: FloatArray) -> FloatArray:
        """The largest log delta over all sums, in this order of the pair; `goal`: what is known, the ends among it."""

        def bounds(lows: FloatArray, highs: FloatArray, at: Rows) -> FloatArray:
            return self._log_delta(epsilon[at], lows, highs)

        return maximize_over_sums(bounds, goal, self.n - self.moved, whole=True, most=_BLOCKS)

    def _local_search(self, epsilon: float) -> float:
        """The largest log delta among sums spread evenly, then among sums around the two highest peaks, and so on."""
        sums, best = _spaced_sums(0, self.n - self.moved), -np.inf
        for _ in range(int(np.log10(self.n)) + 2):
            values = self._log_delta(epsilon, sums, sums)
            best = max(best, float(values.max()))
            padded = np.pad(values, 1, constant_values=-np.inf)
            peaks = np.nonzero((values >= padded[:-2]) & (values >= padded[2:]))[0]
            peaks = peaks[np.argsort(-values[peaks], kind="stable")][:2]
            lows, highs = sums[np.maximum(peaks - 1, 0)], sums[np.minimum(peaks + 1, len(sums) - 1)]
            sums = np.unique(np.concatenate([_spaced_sums(low, high) for low, high in zip(lows, highs, strict=True)]))
        return best

    def _log_delta(self, epsilon: Real, lows: FloatArray, highs: FloatArray) -> FloatArray:
        """A bound on log delta of every pair with lows <= s <= highs; of one pair, its value where both are equal."""
        return by_rows(self._columns, epsilon, lows, highs)

    def _columns(self, epsilon: FloatArray, lows: FloatArray, highs: FloatArray) -> FloatArray:
        """P of the highest sum beyond the threshold of the lowest, for columns (docs/notes/tempered.md, Lemma)."""
        total, jump = self.a + self.b + self.step * self.n, self.step * self.moved
        half = float(special.logit(self.high))
        lost = _NORMALIZER_ERROR + _ROUNDING * (4.0 * total**0.5 + jump)

        sums, places = np.unique(np.concatenate([lows, highs]), return_inverse=True)
        low, high = places.reshape(2, -1)
        a, b = (self.a + self.step * sums)[:, None], (self.b + self.step * (self.n - sums))[:, None]
        a_p, b_p = a + jump, (self.b + self.step * (self.n - self.moved - sums))[:, None]
        centre = np.clip(np.log((a + jump / 2) / (b_p + jump / 2)), -half, half)  # near the modes of both distributions

        def log_mass(a: FloatArray, b: FloatArray) -> FloatArray:
            def log_density(at: Rows, u: FloatArray) -> FloatArray:
                return np.add(*_log_factors(a[at], b[at], centre[at], u - half - centre[at]))

            return log_integral(log_density, len(a), np.full(len(a), 2 * half))

        mass_p, mass_q = log_mass(a_p, b_p), log_mass(a, b)
        moved = centre[low, 0] - centre[high, 0]
        at_least = (epsilon[:, 0] - lost + mass_p[low] - mass_q[low]) / jump + moved  # the loss is above epsilon here
        start = np.maximum(at_least, -half - centre[high, 0])
        inside = start < half - centre[high, 0]
        result = np.full(len(lows), -np.inf)
        if inside.any():
            high, start, at_least = high[inside], start[inside, None], at_least[inside, None]
            a_p, b_p, centre = a_p[high], b_p[high], centre[high]

            def integrand(at: Rows, u: FloatArray) -> FloatArray:
                v = start[at] + u
                return np.add(*_log_factors(a_p[at], b_p[at], centre[at], v)) + log1mexp(-jump * (v - at_least[at]))

            tail = log_integral(integrand, len(high), (half - centre - start)[:, 0])
            terms = np.abs(_log_factors(a_p, b_p, centre, np.maximum(start, 0.0))).sum(axis=0)[:, 0]
            result[inside] = tail - mass_p[high] + lost + _ROUNDING * terms
        return np.minimum(result, 0.0)


def _log_factors(a: FloatArray, b: FloatArray, centre: FloatArray, v: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The two terms of the log density of Beta(a, b) at centre + v less that at the centre, on the logit scale."""
    p, q = special.expit(centre), special.expit(-centre)
    return -a * np.log1p(q * np.expm1(-v)), -b * np.log1p(p * np.expm1(v))


def _spaced_sums(low: float, high: float) -> FloatArray:
    """Whole numbers from low to high, both included: all, or some spread evenly."""
    return np.unique(np.linspace(low, high, _COARSE).round())

"""All pairs of neighbouring truncated Beta posteriors: the largest privacy curve over all sums of whole records.

Proof: tempered.md, section 3.
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

_NORMALIZER_ERROR = 1e-10  # bounds the error of two log normalizers, each accurate to 2e-11
_ROUNDING = 16 * float(np.finfo(float).eps)  # bounds the rounding error relative to the terms of a log density
_COARSE, _BLOCKS = 24, 8000  # sums of one step of the local search; largest number of blocks


@frozen_value
class TruncatedBetaFamily:
    """Beta(a + r s + r k, b + r t) against Beta(a + r s, b + r t + r k), t = n - k - s, truncated to [low, high].

    s ranges over the whole numbers from 0 to n - k; r is `step`, and k is `group_size`, the number of replaced records.
    The bounds satisfy low + high = 1, so that the reversed pairs are those with a and b exchanged.
    """

    a: float
    b: float
    step: float
    n: int
    low: float
    high: float
    group_size: int = 1

    def log_delta(self, epsilon: FloatArray, *, certified: bool) -> FloatArray:
        """Largest log delta over all sums and both directions at each epsilon, (k,), rounded up.

        Without `certified`, the maximum is over the sums of a local search only.
        """
        positive = np.abs(epsilon)
        above = np.full(len(epsilon), -np.inf)
        for family in dict.fromkeys([self, replace(self, a=self.b, b=self.a)]):
            above = np.maximum(above, [family._local_search(e) for e in positive.tolist()])
            if certified:
                above = family._certified(positive, above)
        return np.where(epsilon >= 0, above, delta_below_zero(epsilon, above))

    def _certified(self, epsilon: FloatArray, goal: FloatArray) -> FloatArray:
        """Largest log delta over all sums in this direction; `goal` holds known values, at least those of the ends."""

        def bounds(lows: FloatArray, highs: FloatArray, at: Rows) -> FloatArray:
            return self._log_delta(epsilon[at], lows, highs)

        return maximize_over_sums(bounds, goal, self.n - self.group_size, integer_valued=True, most=_BLOCKS)

    def _local_search(self, epsilon: float) -> float:
        """Largest log delta over evenly spaced sums, refined repeatedly around the two highest local maxima."""
        sums, best = _spaced_sums(0, self.n - self.group_size), -np.inf
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
        """Upper bound on log delta of all pairs with lows <= s <= highs; the pair's value if both are equal."""
        return by_rows(self._columns, epsilon, lows, highs)

    def _columns(self, epsilon: FloatArray, lows: FloatArray, highs: FloatArray) -> FloatArray:
        """The bound of the Lemma for columns: P of the highest sum, integrated beyond the lowest sum's threshold.

        Thresholds are lowered and densities raised by `lost`, the bound on their errors (tempered.md, section 3,
        "Rounding").
        """
        total, jump = self.a + self.b + self.step * self.n, self.step * self.group_size
        half = float(special.logit(self.high))
        lost = _NORMALIZER_ERROR + _ROUNDING * (4.0 * total**0.5 + jump)

        sums, places = np.unique(np.concatenate([lows, highs]), return_inverse=True)
        low, high = places.reshape(2, -1)
        a, b = (self.a + self.step * sums)[:, None], (self.b + self.step * (self.n - sums))[:, None]
        a_p, b_p = a + jump, (self.b + self.step * (self.n - self.group_size - sums))[:, None]
        centre = np.clip(np.log((a + jump / 2) / (b_p + jump / 2)), -half, half)  # close to the modes of P and Q

        def log_mass(a: FloatArray, b: FloatArray) -> FloatArray:
            """Log normalizer of the truncated Beta(a, b), relative to its density at the centre."""

            def log_density(at: Rows, u: FloatArray) -> FloatArray:
                return np.add(*_log_factors(a[at], b[at], centre[at], u - half - centre[at]))

            return log_integral(log_density, len(a), np.full(len(a), 2 * half))

        mass_p, mass_q = log_mass(a_p, b_p), log_mass(a, b)
        moved = centre[low, 0] - centre[high, 0]
        at_least = (epsilon[:, 0] - lost + mass_p[low] - mass_q[low]) / jump + moved  # the loss exceeds epsilon above
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
    """The two terms of the log density of Beta(a, b) at centre + v, relative to that at the centre, on the logit scale.

    Near the mode each term is small, so that the log density keeps its digits for any weight a + b.
    """
    p, q = special.expit(centre), special.expit(-centre)
    return -a * np.log1p(q * np.expm1(-v)), -b * np.log1p(p * np.expm1(v))


def _spaced_sums(low: float, high: float) -> FloatArray:
    """At most 24 evenly spaced whole numbers from low to high, including both."""
    return np.unique(np.linspace(low, high, _COARSE).round())

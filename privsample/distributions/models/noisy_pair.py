"""The posterior of a proportion, given noisy numbers of zeros and of ones, where the number of records is private.

The prior of the number of records is uniform on 0, 1, 2, ..., improper. It is the mixture of Poisson distributions with
a uniform mean, under which the two counts are independent; so the sum over both hidden counts is one integral of a
product of two sums. docs/notes/statistics.md.
"""

from collections.abc import Callable

import numpy as np
from numpy.polynomial import chebyshev
from scipy import special

from privsample._checks import FloatArray
from privsample.distributions.models.noise_aware import LARGEST, LOST, NoiseAware
from privsample.distributions.noise import Noise
from privsample.distributions.parametric.odds import ShareOfOdds
from privsample.distributions.parametric.tabulated import tabulate

_DEGREE = 14  # of the polynomial of a log mass in each panel of length 1
_NODES = chebyshev.chebpts2(_DEGREE + 1)
_TO_COEFFICIENTS = np.linalg.inv(chebyshev.chebvander(_NODES, _DEGREE))
_RULE, _WEIGHTS = np.polynomial.legendre.leggauss(16)
_PANEL = 1.5  # in the root of the mean, in which the integrand has a standard deviation of at least 1/2
_DEPTH = 60.0  # terms below e^-60 of the largest are omitted
_TAIL = 45.0  # at most e^-45 of the posterior lies outside the log odds that are tabulated
_MARGIN = 4.5  # nine standard deviations of the root of a Gamma variable
_WIDEST = 700.0  # log odds are at most this large
_STIRLING = 1000.0  # above it three terms of Stirling's series are exact in doubles


class _CountTable:
    """log of the sum over counts k of Poisson(k | mu) times the noise masses of the copies of k, tabulated in mu.

    The table is in x = log mu below mu = 1, and in x = 2 (sqrt(mu) - 1) above, where the sum is smooth on the scale 1.
    A panel is computed at its first use.
    """

    def __init__(self, noise: Noise, seen: FloatArray, reach: float) -> None:
        centre = np.clip([seen.min(), seen.max()], 0.0, None)
        self.low, self.high = max(float(np.floor(centre[0] - reach)), 0.0), float(np.ceil(centre[1] + reach))
        if not self.high - self.low < LARGEST:
            raise ValueError(
                f"the noise leaves more than {LARGEST} counts possible: use .posterior(), which ignores the noise"
            )
        counts = np.arange(self.low, self.high + 1)
        masses = np.sum([noise.log_mass(one - counts) for one in seen.ravel()], axis=0)
        kept = np.isfinite(masses)
        self._counts, self._logs = counts[kept], masses[kept] - _log_root(counts[kept])
        edges = [x for x in (self.low - 1, self.high + 1) if x >= 0]
        beyond = np.sum([noise.log_mass(one - np.array(edges)) for one in seen.ravel()], axis=0)
        self.outside = float(beyond.max())
        self.mass = float(np.logaddexp.reduce(masses))
        self._panels: dict[int, FloatArray] = {}

    def __call__(self, log_mean: FloatArray) -> FloatArray:
        """The log of the sum at these logarithms of the mean."""
        with np.errstate(over="ignore"):
            x = np.where(log_mean < 0, log_mean, 2 * np.expm1(log_mean / 2))
        panel = np.floor(x).astype(np.int64)
        found, place = np.unique(panel, return_inverse=True)
        for one in found.tolist():
            if one not in self._panels:
                self._panels[one] = _TO_COEFFICIENTS @ self._exact(one + (1 + _NODES) / 2)
        columns = np.stack([self._panels[one] for one in found.tolist()], axis=1)
        return np.asarray(chebyshev.chebval(2 * (x - panel) - 1, columns[:, place], tensor=False))

    def _exact(self, x: FloatArray) -> FloatArray:
        """The log of the sum at places of the table."""
        log_mean = np.where(x < 0, x, 2 * np.log1p(np.maximum(x, 0.0) / 2))
        first, last = self._range(log_mean[[0, -1]])
        return np.asarray(special.logsumexp(self._terms(log_mean, slice(first, last)), axis=1))

    def _range(self, log_mean: FloatArray) -> tuple[int, int]:
        """The places of the terms that are not negligible; the terms are log-concave in the count, and move with it."""
        step = int(np.sqrt(len(self._counts)))
        coarse = self._terms(log_mean, slice(None, None, step))
        kept = np.flatnonzero((coarse > coarse.max(axis=1, keepdims=True) - _DEPTH).any(axis=0)) * step
        return max(int(kept[0]) - step, 0), int(kept[-1]) + step + 1

    def _terms(self, log_mean: FloatArray, places: slice) -> FloatArray:
        """The logs of the terms, shape (means, counts)."""
        log_mean, counts = log_mean[:, None], self._counts[places]
        mean = np.exp(log_mean)
        off = (counts - mean) / mean
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            near = -mean * ((1 + off) * np.log1p(off) - off)  # no difference of large numbers: k and mu may be 1e12
            far = counts * (log_mean - np.log(np.maximum(counts, 1.0))) - mean + counts
        return np.asarray(np.where(np.abs(off) < 0.5, near, far) + self._logs[places])


def _log_root(counts: FloatArray) -> FloatArray:
    """log k! - k log k + k, without cancellation."""
    small, large = np.minimum(counts, _STIRLING), np.maximum(counts, _STIRLING)
    exact = special.gammaln(small + 1) - special.xlogy(small, small) + small
    series = 0.5 * np.log(2 * np.pi * large) + (1 - 1 / (30 * large**2)) / (12 * large)
    return np.where(counts < _STIRLING, exact, series)


def noisy_pair_posterior(a: float, b: float, noise: Noise, zeros: FloatArray, ones: FloatArray) -> NoiseAware:
    """The posterior of a proportion of ones with a Beta(a, b) prior, given noisy copies of both counts.

    Raises ValueError if the noise leaves too many counts possible.
    """
    reach = noise.quantile_bound(np.log(LOST) - 5.0)
    while True:
        tables = _CountTable(noise, zeros, reach), _CountTable(noise, ones, reach)
        log_likelihood = _integrated(*tables)

        def log_density(odds: float, inner: Callable[[float], float] = log_likelihood) -> float:
            return inner(odds) - a * float(np.logaddexp(0.0, -odds)) - b * float(np.logaddexp(0.0, odds))

        low = -_largest_odds(b + tables[0].high, a + tables[1].low)
        high = _largest_odds(a + tables[1].high, b + tables[0].low)
        found = tabulate(log_density, log_density, (low, high), positive=True)
        middle = float(np.log(found.quantile(np.array(0.5))))
        lost = max(  # at the median: counts outside have at most the noise mass next to the range
            tables[0].outside + tables[1].mass + np.logaddexp(0.0, -middle),
            tables[1].outside + tables[0].mass + np.logaddexp(0.0, middle),
        )
        if lost - log_likelihood(middle) <= np.log(LOST):
            counts = " and ".join(f"{table.high - table.low + 1:.0f}" for table in tables)
            words = f"exact, summed over {counts} values of the hidden counts"
            words = f"{words}, under a uniform prior of the number of records; tabulated"
            return NoiseAware(ShareOfOdds(odds=found), words)
        reach *= 1.5


def _largest_odds(first: float, second: float) -> float:
    """An upper bound on the log odds under Beta(first, second), up to a probability of about e^-45."""
    reach = [np.sqrt(2 * _TAIL / shape) + _TAIL / shape for shape in (first, second)]  # of log Gamma variables
    return float(np.clip(np.log(first / second) + sum(reach), -_WIDEST, _WIDEST))


def _integrated(zeros: _CountTable, ones: _CountTable) -> Callable[[float], float]:
    """The log likelihood as a function of the log odds of a one: the integral over the mean of the number of records.

    Given the counts, that mean is a Gamma variable of shape 1 + n, whose root has a standard deviation of about 1/2.
    """
    low = np.sqrt(max(zeros.low + ones.low, 0.0)) - _MARGIN
    high = np.sqrt(zeros.high + ones.high + 1.0) + _MARGIN
    panels = int(np.ceil((high - max(low, 0.0)) / _PANEL))
    edges = np.linspace(max(low, 0.0), high, panels + 1)
    half = np.diff(edges)[:, None] / 2
    root = (edges[:-1, None] + half + half * _RULE).ravel()
    log_mean, log_weights = 2 * np.log(root), np.log(2 * root * (half * _WEIGHTS).ravel())

    def log_likelihood(odds: float) -> float:
        first, second = log_mean - np.logaddexp(0.0, odds), log_mean - np.logaddexp(0.0, -odds)
        return float(special.logsumexp(zeros(first) + ones(second) + log_weights))

    return log_likelihood

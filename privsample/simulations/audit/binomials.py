"""Exact tests and confidence bounds for the probabilities of an event under two distributions."""

import heapq
import itertools
import math
from collections.abc import Callable, Iterator

import numpy as np
from scipy import special

from privsample._checks import FloatArray

Counts = tuple[int, int]

_STRAY = 1e-13  # error probability of the range of the nuisance parameter, added to every p-value
_PIECES, _HALVINGS, _WIDTH = 8, 40, 9.0
_SLACK = 1e-9


def clopper_pearson(hits: int, draws: int, level: float) -> tuple[float, float]:
    """Confidence bounds on a probability, each wrong with probability at most `level` (Clopper and Pearson 1934)."""
    low = float(special.betaincinv(hits, draws - hits + 1, level)) if hits > 0 else 0.0
    high = float(special.betainccinv(hits + 1, draws - hits, level)) if hits < draws else 1.0
    return low, high


def excess_p_value(hits: Counts, draws: Counts, factor: float, excess: float) -> float:
    """Return an upper bound on the p-value of p - factor q <= excess, for the difference of the two frequencies.

    `hits` and `draws` belong to the first and the second distribution; factor > 0; 0 <= excess <= 1. The supremum over
    the null hypothesis is bounded on intervals that cover the Clopper-Pearson interval of p; on each, the tail
    probability is evaluated at the corner where it is largest, and the worst interval is bisected (Berger and Boos
    1994).
    """
    binomials = _Binomial(draws[0]), _Binomial(draws[1])
    return min(bound for bound, _ in _refining_bounds(hits, binomials, factor, excess))


def excess_refuted(hits: Counts, draws: Counts, factor: float, excess: float, level: float) -> bool:
    """Return whether `excess_p_value` is at most `level`; it stops as soon as its bounds decide this."""
    return _refuted(hits, (_Binomial(draws[0]), _Binomial(draws[1])), factor, excess, level)


def _refuted(
    hits: Counts, binomials: tuple["_Binomial", "_Binomial"], factor: float, excess: float, level: float
) -> bool:
    """Return `excess_refuted`, given what does not depend on the excess."""
    for step, (above, below) in enumerate(_refining_bounds(hits, binomials, factor, excess)):
        if above <= level:
            return True
        # A lower bound only ends the search earlier, and the first ones nearly always do if any does.
        if step & (step + 1) == 0 and below() > level:
            return False
    return False


def _refining_bounds(
    hits: Counts, binomials: tuple["_Binomial", "_Binomial"], factor: float, excess: float
) -> Iterator[tuple[float, Callable[[], float]]]:
    """Yield nonincreasing upper bounds on the p-value, each with a function that computes a lower bound."""
    (x, y), (n, m) = hits, (binomials[0].draws, binomials[1].draws)
    if not x / n - factor * y / m > excess:
        yield 1.0, lambda: 1.0
        return

    def tail(p: float, least: float) -> float:
        q = max((least - excess) / factor, 0.0)
        return _tail_probability(hits, binomials, factor, p, q) if q <= 1.0 else 0.0

    def piece(low: float, high: float) -> tuple[float, float, float]:
        return -tail(high, low), low, high

    ends = np.linspace(*clopper_pearson(x, n, _STRAY), _PIECES + 1)
    pieces = [piece(low, high) for low, high in itertools.pairwise(ends)]
    heapq.heapify(pieces)
    for _ in range(_HALVINGS):
        most, low, high = heapq.heappop(pieces)
        middle = (low + high) / 2
        yield min(-most + 3 * _STRAY, 1.0), lambda p=middle: tail(p, p)  # type: ignore[misc]
        heapq.heappush(pieces, piece(low, middle))
        heapq.heappush(pieces, piece(middle, high))
    yield min(-pieces[0][0] + 3 * _STRAY, 1.0), lambda: 0.0


def draws_needed(factor: float, excess: float, level: float) -> float:
    """Return the number of draws of each distribution below which p - factor q <= excess cannot be refuted.

    The p-value is smallest if all n draws of one distribution and none of the other are in the event; it is then the
    maximum of (p (1 - q))^n over the null hypothesis.
    """
    if excess >= 1.0:
        return np.inf
    p = min(max((factor + excess) / 2, excess), 1.0)
    return float(np.ceil(np.log(level) / (np.log(p) + np.log1p(-(p - excess) / factor))))


class _Binomial:
    """Masses of binomial distributions with one number of draws; binomial coefficients are computed once."""

    __slots__ = ("_choices", "_lost", "_start", "draws")

    def __init__(self, draws: int) -> None:
        self.draws = draws
        # Upper bound on the rounding error of the logarithms: masses are rounded up.
        self._lost = 1e-15 * draws * np.log(draws + 2.0)
        self._start, self._choices = 0, np.empty(0)

    def masses(self, first: int, last: int, p: float) -> FloatArray:
        """P(X = k) for X ~ Bin(draws, p) and k from `first` to `last`, rounded up."""
        ks = np.arange(float(first), last + 1.0)
        left = self.draws - ks
        # The same products as of `xlogy` and `xlog1py` for each k, which take the logarithms anew.
        if 0.0 < p < 1.0:
            hit, missed = ks * special.xlogy(1.0, p), left * special.xlog1py(1.0, -p)
        else:
            hit, missed = special.xlogy(ks, p), special.xlog1py(left, -p)
        return np.exp(self._log_choices(first, last) + hit + missed + self._lost)

    def at_most(self, ks: FloatArray, q: float) -> FloatArray:
        """P(Y <= k) for Y ~ Bin(draws, q) at increasing whole numbers, rounded up: a tail and the masses above it."""
        m = self.draws
        first, last = (int(min(max(k, 0.0), m - 1.0)) for k in (ks[0], ks[-1]))
        below = special.betaincc(first + 1, m - first, q) * (1 + 1e-12)
        sums = np.empty(last - first + 1)
        sums[0] = 0.0
        np.cumsum(self.masses(first + 1, last, q), out=sums[1:])
        sums = np.minimum(below + sums, 1.0)
        found = sums[np.clip(ks, first, last).astype(np.int64) - first]
        return np.where(ks < 0, 0.0, np.where(ks >= m, 1.0, found))

    def _log_choices(self, first: int, last: int) -> FloatArray:
        """The logarithms of the binomial coefficients from `first` to `last`; those between all that were asked for."""
        if not self._start <= first <= last + 1 <= self._start + len(self._choices):
            reach = (last - first) // 4
            low, high = max(first - reach, 0), min(last + reach, self.draws)
            if len(self._choices):
                low, high = min(low, self._start), max(high, self._start + len(self._choices) - 1)
            ks = np.arange(float(low), high + 1.0)
            n = self.draws
            self._choices = special.gammaln(n + 1) - special.gammaln(ks + 1) - special.gammaln(n - ks + 1)
            self._start = low
        return self._choices[first - self._start : last + 1 - self._start]


def _tail_probability(hits: Counts, binomials: tuple[_Binomial, _Binomial], factor: float, p: float, q: float) -> float:
    """P(X/n - factor Y/m >= x/n - factor y/m) for X ~ Bin(n, p), Y ~ Bin(m, q)."""
    (x, y), (n, m) = hits, (binomials[0].draws, binomials[1].draws)
    spread = _WIDTH * math.sqrt(n * p * (1 - p)) + 2 * _WIDTH**2  # Bernstein: all but 1e-16 or so
    first, last = max(0, int(n * p - spread)), min(n, int(n * p + spread) + 1)
    ks = np.arange(float(first), last + 1.0)
    most = np.floor((ks - x) / n * m / factor + y + _SLACK)
    return float((binomials[0].masses(first, last, p) * binomials[1].at_most(most, q)).sum())


def excess_limits(hits: Counts, draws: Counts, factor: float, level: float) -> tuple[float, float]:
    """Confidence bounds on p - factor q, clipped to [0, 1], each wrong with probability at most `level`."""
    (p_low, p_high), (q_low, q_high) = (clopper_pearson(h, n, level / 2) for h, n in zip(hits, draws, strict=True))
    lower, upper = p_low - factor * q_high, p_high - factor * q_low
    return float(np.clip(lower, 0.0, 1.0)), float(np.clip(upper, 0.0, 1.0))


def empirical_epsilon(hits: Counts, draws: Counts, deltas: FloatArray, level: float) -> FloatArray:
    """Lower confidence bounds on epsilon at each delta from one event; all hold with probability at least 1 - level.

    They use the intervals of `excess_limits`: (epsilon, delta)-DP implies p <= e^epsilon q + delta, so epsilon is at
    least log((p_low - delta) / q_high), and at least 0 (Jagielski, Ullman and Oprea 2020).
    """
    p_low, _ = clopper_pearson(hits[0], draws[0], level / 2)
    _, q_high = clopper_pearson(hits[1], draws[1], level / 2)
    return np.asarray(np.log(np.maximum((p_low - deltas) / q_high, 1.0)))


def excess_lower(hits: Counts, draws: Counts, factor: float, level: float) -> float:
    """Lower confidence bound on p - factor q: the largest excess refuted at `level`, up to ten bisection steps."""

    binomials = _Binomial(draws[0]), _Binomial(draws[1])

    def refuted(excess: float) -> bool:
        return _refuted(hits, binomials, factor, excess, level)

    low, _ = excess_limits(
        hits, draws, factor, level
    )  # initial value; the bound is accepted only if the test refutes it
    high = hits[0] / draws[0] - factor * hits[1] / draws[1]
    if not refuted(low):
        low, high = 0.0, low
        if not refuted(low):
            return 0.0
    for _ in range(10):
        middle = (low + high) / 2
        low, high = (middle, high) if refuted(middle) else (low, middle)
    return low

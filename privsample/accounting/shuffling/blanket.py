"""The dominating pair of shuffled local responses, by the blanket of the other persons' responses.

Source: Balle, Bell, Gascón and Nissim 2019; docs/notes/shuffling.md, steps 1 to 4.
"""

from itertools import combinations

import numpy as np
from scipy import special

from privsample._checks import FloatArray
from privsample._value import frozen_value
from privsample.accounting.curves.conversion import least_epsilon, safe_side
from privsample.accounting.loss.pair import DiscretePair, LossPair, binary_pair, delta_below_zero
from privsample.accounting.shuffling.lattice import Jumps, log_mean_positive_part
from privsample.accounting.stated.finite import finite_pair, merged_table
from privsample.accounting.subsampling.chorded import ChordedPair

_ULP = float(np.finfo(np.float64).eps)
_MOST_OUTCOMES = 1 << 14  # pairs with more outcomes are not tabulated
_MOST_PERSONS = 10**9  # more persons count as so many
_CURVE, _TABLE, _SEARCH = 1e-6, 1e-4, 1e-2  # tolerances of log delta: of the curve, of its table, and of a search
_CURVE_COST, _COST_OF_ROOT = 2e3, 50.0  # approximate cost of one value: at least, and times the root of n
_CELLS, _CELLS_FOR_GUIDE = 1024, 1 << 15  # largest size of a lattice: for the curve, times the root of n; otherwise
_LARGE = 600.0  # delta decreases in epsilon, so that a larger epsilon counts as this one
_FLOOR, _SHARE = -1e4, 1e-3  # least value in a search for a root; first relative width of its bracket
_CLOSE = 1e-9  # relative width at which the search ends


@frozen_value
class BlanketPair(ChordedPair):
    """Responses of n persons in random order, of whom one has the distribution `first` or `second`.

    Each other response is, for every outcome y, a draw from the blanket with total mass blanket[y] <= min_x R_x(y), and
    the rest of it is revealed; so is an own response without a blanket. All arrays have shape (outcomes,), and
    `slack` bounds their relative error. Kind: upper bound; the exact pair of what is revealed.

    For epsilon >= 0, delta(epsilon) = E (X_1 + ... + X_n)_+ / n for independent X_i, each of which is
    (first[y] - e^epsilon second[y]) / blanket[y] with probability blanket[y], and 0 with the rest.
    """

    first: FloatArray
    second: FloatArray
    blanket: FloatArray
    n: int
    slack: float

    @property
    def max_divergence(self) -> float:
        """The largest log ratio of the two distributions: that of a single response."""
        with np.errstate(divide="ignore"):
            ratios = np.log(self.first[self.first > 0]) - np.log(self.second[self.first > 0])
        largest = float(ratios.max())
        return largest + 2 * self.slack + 4 * _ULP * abs(largest)

    @property
    def curve_cost(self) -> float:
        """The cost of a Fourier transform, whose length increases with the root of n."""
        return _CURVE_COST + _COST_OF_ROOT * float(np.sqrt(min(self.n, _MOST_PERSONS)))

    @property
    def _nodes(self) -> int:
        """The number of nodes of the table."""
        return int(np.clip(1e6 / self.curve_cost, 96, 256))

    def ceiling(self, orders: FloatArray) -> FloatArray:
        """The Rényi curve of a pure guarantee of one response."""
        largest = max(self.max_divergence, self.reverse().max_divergence)
        return binary_pair(largest).renyi(orders) if np.isfinite(largest) else np.full(np.shape(orders), np.inf)

    @property
    def order_limit(self) -> float:
        """Infinite if the loss is bounded."""
        return np.inf if np.isfinite(self.max_divergence) else 1.0

    def log_delta(self, epsilon: FloatArray) -> FloatArray:
        """log of the mean of the positive part; for negative epsilon from the reversed pair."""
        return self._at(epsilon, _CURVE)

    def approx_log_delta(self, epsilon: FloatArray) -> FloatArray:
        """The same on a coarser lattice."""
        return self._at(epsilon, _SEARCH)

    def _table_curve(self, epsilon: FloatArray) -> FloatArray:
        return self._at(epsilon, _TABLE)

    def _at(self, epsilon: FloatArray, tolerance: float) -> FloatArray:
        e = np.asarray(epsilon, dtype=np.float64)
        distinct, where = np.unique(np.abs(e), return_inverse=True)
        above = np.array([self._value(x, tolerance) for x in distinct])[where].reshape(e.shape)
        if not (e < 0).any():
            return above
        back = self.reverse()
        below = np.array([back._value(x, tolerance) for x in distinct])[where].reshape(e.shape)
        return np.where(e >= 0, above, delta_below_zero(e, below))

    def _value(self, epsilon: float, tolerance: float) -> float:
        """log delta at one epsilon >= 0, rounded up."""
        if epsilon >= self.max_divergence:
            return -np.inf
        grown = np.exp(min(epsilon, _LARGE))
        gain = self.first * (1.0 + 2 * self.slack) - grown * self.second * (1.0 - 2 * self.slack)
        covered = self.blanket > 0.0
        seen = float(np.maximum(gain[~covered], 0.0).sum())
        masses = self.blanket[covered] * (1.0 - self.slack)
        persons = min(self.n, _MOST_PERSONS)
        fine = int(np.clip(np.log2(_CELLS * np.sqrt(persons)), 15, 21))
        most = 1 << fine if tolerance <= _CURVE else _CELLS_FOR_GUIDE
        jumps = Jumps(gain[covered] / masses, masses)
        found = log_mean_positive_part(jumps, persons, tolerance, most) - np.log(persons)
        with np.errstate(divide="ignore"):
            total = float(np.logaddexp(found, np.log(seen)))
        return min(total + 8 * _ULP * (4.0 + abs(max(total, -1e300))), 0.0)

    def least_epsilon(self, log_delta: float) -> float:
        """Smallest epsilon at which the curve is found to be at most a given delta.

        The root of the coarser curve is near that of the curve, which is found in a bracket that starts there.
        """
        from scipy.optimize import brentq

        def excess(x: float) -> float:
            return max(self._value(x, _CURVE) - log_delta, _FLOOR)

        if excess(0.0) <= 0.0:
            return 0.0
        high = least_epsilon(self.approx_log_delta, self.approx_log_delta, log_delta)
        high = safe_side(lambda x: excess(x) <= 0.0, high, upward=True)
        if not np.isfinite(high):
            return high
        low, share = high, _SHARE
        while excess(low) <= 0.0:
            low, high, share = low * (1.0 - share), low, min(4.0 * share, 0.5)
        root = float(brentq(excess, low, high, xtol=1e-300, rtol=_CLOSE))
        return min(safe_side(lambda x: excess(x) <= 0.0, root, upward=True), high)

    def reverse(self) -> "BlanketPair":
        """The pair with exchanged distributions; itself if that has the same outcomes in another order."""
        mirrored = [self.second, self.first, self.blanket]
        order = np.lexsort(mirrored)
        found = BlanketPair(
            first=self.second[order],
            second=self.first[order],
            blanket=self.blanket[order],
            n=self.n,
            slack=self.slack,
        )
        return self if found == self else found


def blanket_pair(first: FloatArray, second: FloatArray, blanket: FloatArray, n: int, slack: float) -> LossPair:
    """The pair of masses of shape (outcomes,) as a table if it has few outcomes, otherwise as a BlanketPair."""
    used = (first > 0.0) | (second > 0.0)
    first, second, blanket = first[used], second[used], blanket[used]
    order = np.lexsort([first, second, blanket])
    first, second, blanket = first[order], second[order], blanket[order]
    kinds = int((blanket > 0.0).sum())
    if special.comb(n + kinds, kinds) <= _MOST_OUTCOMES:
        return finite_pair(_table(first, second, blanket, n, slack))
    return BlanketPair(first=first, second=second, blanket=blanket, n=n, slack=slack)


def _table(first: FloatArray, second: FloatArray, blanket: FloatArray, n: int, slack: float) -> DiscretePair:
    """The masses of all numbers of blanket responses, the own one included, that an observer may see."""
    covered = blanket > 0.0
    kinds = int(covered.sum())
    placed = list(combinations(range(n + kinds), kinds))
    bars = np.array(placed, dtype=np.int64).reshape(len(placed), kinds)
    ends = np.concatenate([np.full((len(bars), 1), -1), bars], axis=1)
    counts = np.diff(ends, axis=1) - 1  # the numbers of each outcome; what remains of n is revealed
    counts = counts[counts.sum(axis=1) > 0]
    rest = n - counts.sum(axis=1)
    masses = blanket[covered]
    logs = special.gammaln(n + 1.0) - special.gammaln(counts + 1.0).sum(axis=1) - special.gammaln(rest + 1.0)
    logs += (counts * np.log(masses)).sum(axis=1)
    logs += special.xlogy(rest, max(1.0 - float(masses.sum()), 0.0))
    with np.errstate(divide="ignore"):
        ahead, back = (np.log(counts @ (own[covered] / masses) / n) for own in (first, second))
        own_ahead, own_back = np.log(first[~covered]), np.log(second[~covered])
    log_p, log_q = np.concatenate([logs + ahead, own_ahead]), np.concatenate([logs + back, own_back])
    there = ~np.isneginf(log_p) | ~np.isneginf(log_q)
    log_p, log_q = log_p[there], log_q[there]
    log_p, log_q = (column - np.logaddexp.reduce(column) for column in (log_p, log_q))
    with np.errstate(invalid="ignore"):
        loss = np.where(np.isneginf(log_p), -np.inf, log_p - log_q)
    error = 2 * n * slack + 8 * _ULP * (
        16.0 + float(special.gammaln(n + 2.0)) + n * abs(float(np.log(masses.min(initial=1.0))))
    )
    return merged_table(log_p + error, log_q + error, loss + 2 * error)

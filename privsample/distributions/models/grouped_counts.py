"""Posteriors of the proportions of many groups, each given a noisy count: mixtures of Beta distributions in tables.

Bernstein and Sheldon 2018, section 2, as for one count; docs/notes/statistics.md. One table holds the weights of many
groups, a row each. The distribution function of a row needs one incomplete beta function: those of the other components
follow by I_x(A, B) = I_x(A + 1, B - 1) + x^A (1 - x)^(B - 1) / (A B(A, B)), whose terms are positive.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import special

from privsample._checks import FloatArray
from privsample._value import frozen_value
from privsample.distributions.models.grouped import GroupPosteriors, Sizes, distinct_groups, members_of
from privsample.distributions.models.mixtures import ConjugateMixture
from privsample.distributions.models.noise_aware import LARGEST, LOST, TOO_MANY, noisy_count_posterior
from privsample.distributions.noise import Noise

_ENTRIES = 1 << 20  # of one table
_STEPS = 100
_CLOSE = 1e-13  # relative distance of two steps of the search for a quantile at which it ends

Rows = NDArray[np.int64]


class Table(NamedTuple):
    """Mixtures of Beta(first + k, second - k), k = 0, ..., top: a row each, padded with weights of zero."""

    first: FloatArray  # (rows, 1)
    second: FloatArray  # (rows, 1)
    top: NDArray[np.int64]  # (rows, 1)
    weights: FloatArray  # (rows, width)
    log_ratios: FloatArray  # (rows, width): of the Beta densities at x = 1/2 to that of k = 0

    @property
    def steps(self) -> FloatArray:
        """The values k of all rows, shape (width,)."""
        return np.arange(self.weights.shape[1], dtype=np.float64)

    @property
    def means(self) -> FloatArray:
        """The means of the components."""
        return (self.first + self.steps) / (self.first + self.second)

    def only(self, rows: NDArray[np.bool_]) -> "Table":
        """Some of the rows."""
        first, second, top = self.first[rows], self.second[rows], self.top[rows]
        return Table(first, second, top, self.weights[rows], self.log_ratios[rows])

    def distribution(self, x: FloatArray) -> tuple[FloatArray, FloatArray]:
        """The distribution function and the density of each row at x of shape (rows, 1)."""
        from scipy.stats import beta

        total, k = self.first + self.second, self.steps
        # The component whose density at x is the largest: no ratio to it can overflow.
        near = np.clip(np.round(x * (total - 1) - self.first), 0, self.top).astype(np.int64)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore", under="ignore"):
            slope = np.log(x) - np.log1p(-x)
            largest = beta.pdf(x, self.first + near, self.second - near)
            ratios = np.exp(self.log_ratios - np.take_along_axis(self.log_ratios, near, 1) + (k - near) * slope)
            ratios = np.where(k <= self.top, ratios, 0.0)
            density = largest[:, 0] * (self.weights * ratios).sum(axis=1)
            jumps = np.where(k < self.top, ratios * self.weights.cumsum(axis=1) / (self.first + k), 0.0)
            below = special.betainc(self.first + self.top, self.second - self.top, x)[:, 0]
            return below + (largest * x)[:, 0] * jumps.sum(axis=1), density


@frozen_value
class NoisyProportions(GroupPosteriors):
    """The proportions of groups with a Beta(a, b) prior, given noisy copies of a binomial count of each.

    `sizes` (k,), `observed` (copies, k) and the ranges `low` to `high` (k,) of the hidden counts are those of the
    distinct groups; `places`, shape (groups,), says which of them is whose.
    """

    a: float
    b: float
    noise: Noise
    sizes: Sizes
    observed: FloatArray
    low: FloatArray
    high: FloatArray
    places: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.places)

    def __getitem__(self, place: int) -> ConjugateMixture:
        own = self.places[place]
        return noisy_count_posterior(self.a, self.b, int(self.sizes[own]), self.noise, self.observed[:, own])[0]

    @property
    def mean(self) -> FloatArray:
        """The mean of each group, shape (groups,)."""
        return self._moments()[0]

    @property
    def variance(self) -> FloatArray:
        """The variance of each group, shape (groups,)."""
        return self._moments()[1]

    def _moments(self) -> FloatArray:
        found = np.empty((2, len(self.sizes)))
        for rows, table in self._tables():
            found[:, rows] = _moments(table)
        return found[:, self.places]

    def quantile(self, q: FloatArray) -> FloatArray:
        """Quantiles of each group, shape (..., groups), by Newton steps, or bisection where they leave the bracket."""
        shares = np.asarray(q, dtype=np.float64)
        found = np.empty((shares.size, len(self.sizes)))
        for rows, table in self._tables():
            for goal, values in zip(shares.ravel(), found, strict=True):
                values[rows] = _quantile(table, float(goal))
        return found[:, self.places].reshape(*shares.shape, len(self))

    def sample(self, size: int, rng: np.random.Generator) -> FloatArray:
        """Draw a component for each draw of each group, then from it; shape (size, groups)."""
        drawn, members = np.empty((size, len(self))), members_of(self.places, len(self.sizes))
        for rows, table in self._tables():
            for row, own, first, second in zip(
                rows, table.weights.cumsum(axis=1), table.first[:, 0], table.second[:, 0], strict=True
            ):
                shape = (size, len(members[row]))
                chosen = np.minimum(np.searchsorted(own, rng.random(shape) * own[-1], side="right"), len(own) - 1)
                drawn[:, members[row]] = rng.beta(first + chosen, second - chosen)
        return drawn

    def _tables(self) -> Iterator[tuple[Rows, Table]]:
        """Tables of the distinct groups, block by block, so that the memory does not grow with the groups."""
        for rows in blocks(self.high - self.low + 1):
            ends = self.low[rows], self.high[rows]
            yield rows, _table(self.a, self.b, self.sizes[rows], self.noise, self.observed[:, rows], *ends)[0]


def noisy_proportions(
    a: float, b: float, sizes: Sizes, noise: Noise, observed: FloatArray
) -> tuple[NoisyProportions, str]:
    """The posteriors of proportions with a Beta(a, b) prior given noisy counts (copies, groups), and their description.

    As for one group, the ranges of hidden counts leave out at most 1e-13 of each posterior, which is certified. Raises
    ValueError if a range holds too many counts.
    """
    own, seen, places = distinct_groups(sizes, observed)
    n = own.astype(np.float64)
    centre = np.clip(np.stack([seen.min(axis=0), seen.max(axis=0)]), 0.0, n)
    reach = np.full(len(own), noise.quantile_bound(np.log(LOST) - 5.0))
    lost, left = np.full(len(own), np.inf), np.arange(len(own))
    low, high = centre
    while len(left):
        low, high = np.maximum(np.floor(centre[0] - reach), 0.0), np.minimum(np.ceil(centre[1] + reach), n)
        if not (high - low).max() < LARGEST:
            raise ValueError(TOO_MANY)
        for block in blocks(high[left] - low[left] + 1):
            rows = left[block]
            _, log_total = _table(a, b, own[rows], noise, seen[:, rows], low[rows], high[rows])
            beyond = [
                np.where((x >= 0) & (x <= n[rows]), _log_likelihood(noise, seen[:, rows], x), -np.inf)
                for x in (low[rows] - 1, high[rows] + 1)
            ]
            lost[rows] = np.maximum(*beyond) - log_total
        left = np.flatnonzero(lost > np.log(LOST))
        reach[left] *= 1.25
    found = NoisyProportions(a=a, b=b, noise=noise, sizes=own, observed=seen, low=low, high=high, places=places)
    widest, most = int((high - low).max()) + 1, float(np.exp(lost.max()))
    return found, (
        f"exact, for each group a mixture over up to {widest} values of the hidden count; at most {most:.1g} of a "
        "posterior left out"
    )


def blocks(widths: FloatArray) -> Iterator[Rows]:
    """Divide rows of these widths into blocks of similar widths, whose tables are small."""
    levels = np.ceil(np.log2(widths)).astype(np.int64)
    for level in np.unique(levels):
        rows, step = np.flatnonzero(levels == level), max(_ENTRIES >> int(level), 1)
        yield from (rows[start : start + step] for start in range(0, len(rows), step))


def _log_likelihood(noise: Noise, seen: FloatArray, s: FloatArray) -> FloatArray:
    """The log likelihood of counts s given the copies seen; both have the same axes after that of the copies."""
    return np.sum([noise.log_mass(copy - s) for copy in seen], axis=0)


def _table(
    a: float, b: float, sizes: Sizes, noise: Noise, seen: FloatArray, low: FloatArray, high: FloatArray
) -> tuple[Table, FloatArray]:
    """The mixtures of rows with counts from low to high, and the log probabilities (densities) of what was seen."""
    n, start = sizes[:, None].astype(np.float64), low[:, None]
    top = (high - low).astype(np.int64)[:, None]
    k = np.arange(int(top.max()) + 1, dtype=np.float64)
    s = np.minimum(start + k, high[:, None])
    inner = k[:-1] < top
    before = np.where(inner, s[:, :-1], 0.0)  # any count below n will do where a row has ended
    prior = np.log1p((a - 1) / (before + 1)) + np.log((n - before) / (n - before - 1 + b))
    ratios = np.log((b + n - before - 1) / (a + before))
    log_weights = _from_zero(np.where(inner, prior, 0.0)) + _log_likelihood(noise, seen[:, :, None], s)
    log_weights = np.where(k <= top, log_weights, -np.inf)
    total = special.logsumexp(log_weights, axis=1, keepdims=True)
    table = Table(
        first=a + start,
        second=b + n - start,
        top=top,
        weights=np.exp(log_weights - total),
        log_ratios=_from_zero(np.where(inner, ratios, 0.0)),
    )
    chosen = -np.log1p(n) - special.betaln(n - start + 1, start + 1)
    return table, (total + chosen + special.betaln(start + a, n - start + b) - special.betaln(a, b))[:, 0]


def _from_zero(steps: FloatArray) -> FloatArray:
    """The sums of the first 0, 1, ... steps of each row."""
    return np.concatenate([np.zeros((len(steps), 1)), steps.cumsum(axis=1)], axis=1)


def _moments(table: Table) -> FloatArray:
    """The mean and the variance of each row, shape (2, rows)."""
    means, total = table.means, table.first + table.second
    mean = (table.weights * means).sum(axis=1)
    spread = means * (1 - means) / (total + 1) + (means - mean[:, None]) ** 2
    return np.stack([mean, (table.weights * spread).sum(axis=1)])


def _quantile(table: Table, goal: float) -> FloatArray:
    """The quantile of each row."""
    if not 0.0 < goal < 1.0:
        return np.full(len(table.top), 0.0 if goal <= 0 else 1.0)
    mean, variance = _moments(table)
    x = np.clip(mean + np.sqrt(variance) * special.ndtri(goal), mean / 2, mean / 2 + 0.5)
    low, high = np.zeros_like(x), np.ones_like(x)
    found, rows = np.empty_like(x), np.arange(len(x))
    for _ in range(_STEPS):
        below, density = table.distribution(x[:, None])
        low, high = np.where(below <= goal, x, low), np.where(below >= goal, x, high)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            step = x - (below - goal) / density
        new = np.where((step > low) & (step < high), step, low / 2 + high / 2)
        found[rows] = new
        open_rows = np.abs(new - x) > _CLOSE * x
        if not open_rows.any():
            break
        table, rows = table.only(open_rows), rows[open_rows]
        x, low, high = new[open_rows], low[open_rows], high[open_rows]
    return found

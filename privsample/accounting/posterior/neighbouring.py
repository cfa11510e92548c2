"""Certified largest Rényi divergence over all pairs of neighbours in one truncated exponential family.

Branch and bound over the sum of the other records, with the bounds of tempered.md, section 4 (Lemmas A, B, Blocks).
"""

import itertools
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from privsample._checks import FloatArray
from privsample._value import frozen_value
from privsample.accounting.posterior.truncated import TruncatedFamily
from privsample.errors import NumericalFailure

Rows = NDArray[np.intp]

_SLACK = 1e-3  # relative: the search stops when no bound exceeds the largest value by more
_CLOSE_TO_BOUND = (
    0.02  # relative: how far below a bound that is known the largest value may be for no search to be made
)
_START, _SPLIT, _ROUNDS, _MOST = 32, 8, 24, 4_000
_LARGEST_ORDER = 1e5  # largest order that the table of standard deviations covers
_SHARES = np.array(
    [0.0, 0.001, 0.003, 0.01, 0.03, 0.1, 0.2, 0.4, 0.7, 1.0]
)  # of the way from P to the blend, where its bound is cut
_WEIGHTS = np.diff(_SHARES - _SHARES**2 / 2)
_COARSE, _FINENESS = 1 / 4, 1 / 8  # of a cell's half-width, in standard deviations
_MOST_CELLS = 16_000
_ULP = float(np.finfo(np.float64).eps)


class Blocks(NamedTuple):
    """Blocks of sums from `low` to `high` for divergence number `at`, and its values at both ends, each (blocks,)."""

    low: FloatArray
    high: FloatArray
    at: Rows
    at_low: FloatArray
    at_high: FloatArray


@frozen_value
class NeighbouringFamily:
    """The pairs of the distributions at phi + jump and at phi, phi = first + unit s, in both orders.

    s is the sum of the records that the neighbours share: any number in [0, last], or any whole number if
    `integer_valued`. `rounding` bounds the rounding error of a natural parameter.
    """

    family: TruncatedFamily
    first: float
    unit: float
    last: float
    integer_valued: bool
    jump: float
    rounding: float

    def renyi(self, orders: FloatArray, enough: FloatArray) -> FloatArray:
        """Largest divergence over all sums and both directions at each order, rounded up and at most `enough`.

        `orders` are at most 1e5; `enough` holds known upper bounds in nats. All shapes are (orders,). Where the bound
        is nearly attained, or the table of standard deviations would be too large, the bound itself is returned.
        """
        margin = self.jump * _LARGEST_ORDER
        last = self.first + self.unit * self.last + self.jump
        table = deviation_table(self.family, self.first - margin, last + margin)
        if table is None:
            return enough
        search = _Search(self, np.tile(orders, 2), np.repeat([1.0, -1.0], len(orders)), table)
        found = search.largest(np.tile(enough, 2)).reshape(2, -1).max(axis=0)
        return np.asarray(np.minimum(found, enough))


class _Search:
    """Search for the largest values of several divergences, each of one order and one direction, over all sums.

    Direction 1 is (phi + jump, phi), direction -1 is (phi, phi + jump).
    """

    def __init__(
        self, members: NeighbouringFamily, orders: FloatArray, signs: FloatArray, table: "DeviationTable"
    ) -> None:
        self._members, self._orders, self._signs, self._table = members, orders, signs, table

    def largest(self, enough: FloatArray) -> FloatArray:
        """Upper bounds on the largest values; a search stops early if its value is within 2 percent of `enough`."""
        blocks, best, above = self._first_blocks(enough)
        left = _ROUNDS
        while blocks.at.size:
            left -= 1
            bounds = self._bounds(blocks)
            stops = (bounds <= best[blocks.at] * (1 + _SLACK)) | (blocks.high - blocks.low <= self._single_width)
            stops |= (best * (1 + _CLOSE_TO_BOUND) >= enough)[blocks.at] | (left <= 0)
            stops |= (np.bincount(blocks.at[~stops], minlength=len(best)) > _MOST)[blocks.at]
            np.maximum.at(above, blocks.at[stops], bounds[stops])
            blocks = self._split(_rows(blocks, ~stops), best)
        # Rounding of phi moves a divergence by at most (1 - rounding * deviation)^-2 (tempered.md, section 5).
        lost = self._members.rounding * self._table.top
        return np.maximum(best, above) / (1.0 - lost) ** 2 if lost < 0.5 else np.full(len(best), np.inf)

    @property
    def _single_width(self) -> float:
        """Largest width of a block without inner sums: 1 if sums are whole, otherwise 0."""
        return 1.0 if self._members.integer_valued else 0.0

    def _values(self, sums: FloatArray, at: Rows) -> FloatArray:
        """Value of divergence number at[i] at sums[i]."""
        phi, jump = self._members.first + self._members.unit * sums, self._members.jump
        return self._members.family.renyi(
            np.where(self._signs[at] > 0, phi, phi + jump), self._signs[at] * jump, self._orders[at]
        )

    def _cut_points(self, low: FloatArray, high: FloatArray, count: int) -> FloatArray:
        """Sums that divide each block into `count` blocks, (blocks, count + 1), including both ends."""
        cuts = low[:, None] + (high - low)[:, None] * (np.arange(count + 1) / count)
        cuts[:, -1] = high
        return np.round(cuts) if self._members.integer_valued else cuts

    def _local_search(self) -> FloatArray:
        """Largest value of each divergence over evenly spaced sums, refined repeatedly around the largest."""
        at, last = np.arange(len(self._orders)), self._members.last
        low, high, best = np.zeros(len(at)), np.full(len(at), last), np.zeros(len(at))
        widths = self._members.unit * last * self._table.top
        for _ in range(2 + int(np.log(max(widths, 1.0)) / np.log(_START / 2))):
            cuts = self._cut_points(low, high, _START)
            values = self._values(cuts.ravel(), np.repeat(at, _START + 1)).reshape(cuts.shape)
            top = values.argmax(axis=1)
            best = np.maximum(best, values.max(axis=1))
            low, high = cuts[at, np.maximum(top - 1, 0)], cuts[at, np.minimum(top + 1, _START)]
        return best

    def _first_blocks(self, enough: FloatArray) -> tuple[Blocks, FloatArray, FloatArray]:
        """Blocks for the search, the largest value of each divergence found so far, and bounds on the omitted blocks.

        A block is omitted if the variances alone bound it by hardly more than the value found, which needs no value of
        the divergence. The other blocks are split until the values at their ends give a useful bound.
        """
        best, last = self._local_search(), self._members.last
        above = np.zeros(len(best))
        sums = np.unique(self._cut_points(np.zeros(1), np.array([last]), _START))
        low, high = (np.tile(ends, len(best)) for ends in (sums[:-1], sums[1:]))
        at = np.repeat(np.arange(len(best)), len(sums) - 1)
        none = np.zeros(0)
        kept = [(none, none, at[:0])]
        left = _ROUNDS
        while at.size:
            left -= 1
            weights, variances, width = self._variances_along_path(low, high, at)
            alone = (weights * variances).sum(axis=0)
            rest = (alone > best[at] * (1 + _SLACK)) & ~(best * (1 + _CLOSE_TO_BOUND) >= enough)[at]
            np.maximum.at(above, at[~rest], alone[~rest])
            narrow = (variances.max(axis=0) * width**2 <= 1.0) | (high - low <= self._single_width) | (left <= 0)
            narrow |= (np.bincount(at[rest], minlength=len(best)) > _MOST)[at]
            kept.append((low[rest & narrow], high[rest & narrow], at[rest & narrow]))
            rest &= ~narrow
            cuts = self._cut_points(low[rest], high[rest], _SPLIT)
            low, high, at = cuts[:, :-1].ravel(), cuts[:, 1:].ravel(), np.repeat(at[rest], _SPLIT)
            low, high, at = low[high > low], high[high > low], at[high > low]
        low, high, at = (np.concatenate(column) for column in zip(*kept, strict=True))
        values = self._values(np.concatenate([low, high]), np.tile(at, 2)).reshape(2, -1)
        np.maximum.at(best, at, values.max(axis=0))
        return Blocks(low, high, at, values[0], values[1]), best, above

    def _split(self, blocks: Blocks, best: FloatArray) -> Blocks:
        """Split each block into eight, and raise `best` to the values at the new ends."""
        cuts = self._cut_points(blocks.low, blocks.high, _SPLIT)
        inner, at = cuts[:, 1:-1], np.repeat(blocks.at, _SPLIT - 1)
        values = self._values(inner.ravel(), at)
        np.maximum.at(best, at, values)
        values = np.concatenate([blocks.at_low[:, None], values.reshape(inner.shape), blocks.at_high[:, None]], axis=1)
        split = Blocks(
            low=cuts[:, :-1].ravel(),
            high=cuts[:, 1:].ravel(),
            at=np.repeat(blocks.at, _SPLIT),
            at_low=values[:, :-1].ravel(),
            at_high=values[:, 1:].ravel(),
        )
        return _rows(split, split.high > split.low)

    def _bounds(self, blocks: Blocks) -> FloatArray:
        """Upper bound on the values in each block: the minimum of the three bounds of section 4, "Blocks"."""
        weights, variances, width = self._variances_along_path(blocks.low, blocks.high, blocks.at)
        ends = np.maximum(blocks.at_low, blocks.at_high)
        curved = np.minimum(variances.max(axis=0) * width**2 / 4, 1.0)
        with np.errstate(divide="ignore"):
            between = np.minimum(ends / (1.0 - curved), ends + (weights * variances**2).sum(axis=0) * width**2 / 4)
        between = np.where(blocks.high - blocks.low <= self._single_width, ends, between)
        return np.minimum((weights * variances).sum(axis=0), between)

    def _variances_along_path(
        self, low: FloatArray, high: FloatArray, at: Rows
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Weights and largest variances on the pieces of the parameter path of each block, and the block's width.

        The path leads from Q through P to p^a q^(1-a). Shapes are (pieces, blocks), (pieces, blocks) and (blocks,).
        Natural parameters are rounded outward, which increases the variances.
        """
        members, order, sign = self._members, self._orders[at], self._signs[at]
        first, last = (members.first + members.unit * sums for sums in (low, high))
        first, last = first - members.rounding, last + members.rounding
        start, step = np.where(sign > 0, 0.0, members.jump), sign * members.jump
        deviations = [self._table.largest(*_span(first, last, start, start + step))]
        for near, far in itertools.pairwise(_SHARES.tolist()):
            ends = (start + step * (1 + (order - 1) * share) for share in (near, far))
            deviations.append(self._table.largest(*_span(first, last, *ends)))
        weights = np.concatenate([np.full((1, len(order)), 0.5), _WEIGHTS[:, None] * (order - 1)])
        return weights * members.jump**2 * (1 + 64 * _ULP), np.array(deviations) ** 2, last - first


class DeviationTable:
    """Upper bounds on the standard deviation on cells of natural parameters, with maxima over 2^k adjacent cells."""

    def __init__(self, cuts: FloatArray, bounds: FloatArray) -> None:
        self._cut_points, self._levels, self.top = cuts, [bounds], float(bounds.max())
        while (width := 1 << len(self._levels)) <= len(bounds):
            last = self._levels[-1]
            self._levels.append(
                np.maximum(last[: len(bounds) - width + 1], last[width // 2 :][: len(bounds) - width + 1])
            )

    def largest(self, low: FloatArray, high: FloatArray) -> FloatArray:
        """Largest bound on [low, high], shapes (rows,), as the maximum over two overlapping runs of 2^k cells."""
        last = len(self._cut_points) - 2
        first = np.clip(np.searchsorted(self._cut_points, low, side="right") - 1, 0, last)
        final = np.clip(np.searchsorted(self._cut_points, high, side="left") - 1, first, last)
        level = np.frexp(final - first + 1)[1] - 1
        found = np.empty(len(first))
        for k in np.unique(level):
            rows = level == k
            found[rows] = np.maximum(self._levels[k][first[rows]], self._levels[k][final[rows] + 1 - (1 << int(k))])
        return found


def deviation_table(family: TruncatedFamily, low: float, high: float) -> DeviationTable | None:
    """Bounds on the standard deviation over [low, high] from its values at cell centres; None if cells are too many.

    1/deviation is 1-Lipschitz in the natural parameter (tempered.md, Lemma A), so that the value at the centre of a
    cell bounds it over the whole cell.
    """
    cuts, bounds = [np.empty(0)], [np.empty(0)]
    left, right = np.array([low]), np.array([high])
    widest = (family.high - family.low) / 2
    largest = 0.0
    while left.size:
        if left.size + sum(map(len, cuts)) > _MOST_CELLS:
            return None
        middle, half = (left + right) / 2, (right - left) / 2 * (1 + 8 * _ULP) + 8 * _ULP * np.maximum(-left, right)
        own = np.minimum(family.deviation(middle), widest)
        if not np.isfinite(own).all():
            raise NumericalFailure("a standard deviation is NaN or infinite, so no guarantee is stated")
        largest = max(largest, float(own.max()))
        bound = np.minimum(own / np.maximum(1.0 - half * own, 1e-300), widest)
        settled = half * own <= np.where(bound**2 >= largest**2 / 2, _FINENESS, _COARSE)
        cuts.append(left[settled])
        bounds.append(bound[settled])
        left, middle, right = left[~settled], middle[~settled], right[~settled]
        left, right = np.concatenate([left, middle]), np.concatenate([middle, right])
    starts, values = np.concatenate(cuts), np.concatenate(bounds)
    order = np.argsort(starts)
    return DeviationTable(np.append(starts[order], high), values[order])


def _rows(blocks: Blocks, rows: NDArray[np.bool_]) -> Blocks:
    """The selected blocks."""
    low, high, at, at_low, at_high = blocks
    return Blocks(low[rows], high[rows], at[rows], at_low[rows], at_high[rows])


def _span(low: FloatArray, high: FloatArray, one: FloatArray, other: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Range of parameters in a block under two shifts: lowest plus smaller shift to highest plus larger shift."""
    return low + np.minimum(one, other), high + np.maximum(one, other)

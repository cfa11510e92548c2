"""The largest Rényi divergence over all pairs of neighbours in one truncated exponential family, certified.

Source: docs/notes/tempered.md, section 4.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from privsample._checks import FloatArray
from privsample._value import Memo, cached, value
from privsample.accounting.posterior.truncated import TruncatedFamily

Rows = NDArray[np.intp]

_SLACK = 1e-3  # relative: how far below the largest bound the largest value may be where the search stops
_FEW = 128  # sums up to which the search goes on until nothing is left
_START, _SPLIT, _ROUNDS, _MOST = 64, 8, 40, 20_000
_SHARES = np.array([0.0, 0.1, 0.2, 0.35, 0.5, 0.75, 1.0])  # of the way from P to the blend, where its bound is cut
_WEIGHTS = np.diff(_SHARES - _SHARES**2 / 2)
_FINENESS, _MOST_CELLS = 1 / 8, 50_000
_ULP = float(np.finfo(np.float64).eps)


class Blocks(NamedTuple):
    """Sums of the others from `low` to `high` for the divergence number `at`, each (blocks,)."""

    low: FloatArray
    high: FloatArray
    at: Rows


@value
class NeighbouringFamily(Memo):
    """The distributions at phi + jump against those at phi, phi = first + unit s, and the same the other way round.

    s, the sum of all other records, is any number in [0, last]; with `whole` any whole one.
    """

    family: TruncatedFamily
    first: float
    unit: float
    last: float
    whole: bool
    jump: float

    def renyi(self, orders: FloatArray) -> FloatArray:
        """The largest divergence over both directions at each order, shape (orders,), rounded up."""
        if not orders.size:
            return np.empty(0)
        both = np.concatenate([orders, orders])
        forward = np.arange(len(both)) < len(orders)
        return np.asarray(self._largest(both, forward).reshape(2, -1).max(axis=0))

    def _largest(self, orders: FloatArray, forward: NDArray[np.bool_]) -> FloatArray:
        """The largest divergence at each order in its direction; no bound is left out below the answer."""
        table = self._table(float(orders.max()))
        best, above = np.zeros(len(orders)), np.zeros(len(orders))
        slack = 0.0 if self.whole and self.last <= _FEW else _SLACK
        blocks = self._first_blocks(len(orders))
        for left in reversed(range(_ROUNDS)):
            quick = self._quick(table, blocks, orders, forward)
            kept = quick > best[blocks.at] * (1 + slack)
            np.maximum.at(above, blocks.at[~kept], quick[~kept])
            blocks, quick = _rows(blocks, kept), quick[kept]
            if not blocks.at.size:
                break
            middle, half = self._middle(blocks)
            found = self._at(middle, orders[blocks.at], forward[blocks.at])
            exact = half <= self._rounding
            np.maximum.at(best, blocks.at, found)
            bound = np.minimum(quick, found / self._lipschitz(table, blocks, orders, forward, half))
            np.maximum.at(above, blocks.at[exact], bound[exact])
            stays = (bound > best[blocks.at] * (1 + slack)) & ~exact
            stops = stays & ((left == 0) | (np.bincount(blocks.at[stays], minlength=len(orders)) > _MOST)[blocks.at])
            stays &= ~stops
            np.maximum.at(above, blocks.at[~stays], bound[~stays])
            blocks = self._split(_rows(blocks, stays))
            if not blocks.at.size:
                break
        return np.maximum(best, above)

    @property
    def _rounding(self) -> float:
        """More than rounding moves a natural parameter."""
        ends = self.family.potential.slope(np.array([self.family.low, self.family.high]))
        return 16 * _ULP * (abs(self.first) + self.unit * self.last + self.jump + float(np.abs(ends).max()))

    def _at(self, sums: FloatArray, orders: FloatArray, forward: NDArray[np.bool_]) -> FloatArray:
        """The divergences for these sums of the others."""
        phi = self.first + self.unit * sums
        return self.family.renyi(
            np.where(forward, phi, phi + self.jump), np.where(forward, self.jump, -self.jump), orders
        )

    # Blocks of sums

    def _first_blocks(self, count: int) -> Blocks:
        """All sums, in a few blocks, for each of `count` divergences."""
        if self.whole:
            cuts = np.unique(np.round(np.linspace(0, self.last + 1, _START + 1)))
            low, high = cuts[:-1], cuts[1:] - 1
        else:
            cuts = np.linspace(0, self.last, _START + 1)
            low, high = (cuts[:-1], cuts[1:]) if self.last else (np.zeros(1), np.zeros(1))
        return Blocks(np.tile(low, count), np.tile(high, count), np.repeat(np.arange(count), len(low)))

    def _middle(self, blocks: Blocks) -> tuple[FloatArray, FloatArray]:
        """A sum in the middle of each block, and how far natural parameters lie from its own at most."""
        middle = (blocks.low + blocks.high) / 2
        if self.whole:
            middle = np.floor(middle)
        return middle, self.unit * np.maximum(blocks.high - middle, middle - blocks.low) + self._rounding

    def _split(self, blocks: Blocks) -> Blocks:
        shares, at = np.arange(_SPLIT + 1) / _SPLIT, np.repeat(blocks.at, _SPLIT)
        if not self.whole:
            cuts = blocks.low[:, None] + (blocks.high - blocks.low)[:, None] * shares
            cuts[:, -1] = blocks.high
            return Blocks(cuts[:, :-1].ravel(), cuts[:, 1:].ravel(), at)
        cuts = blocks.low[:, None] + np.round((blocks.high + 1 - blocks.low)[:, None] * shares)
        low, high = cuts[:, :-1].ravel(), cuts[:, 1:].ravel() - 1
        return Blocks(low[low <= high], high[low <= high], at[low <= high])

    # Bounds of blocks, by the standard deviations along the way from Q over P to the blend of the two

    def _quick(
        self, table: "DeviationTable", blocks: Blocks, orders: FloatArray, forward: NDArray[np.bool_]
    ) -> FloatArray:
        """The weighted integral of variances, by the largest on each of a few pieces of the way."""
        low, high = self._parameters(blocks)
        order, sign = orders[blocks.at], np.where(forward[blocks.at], 1.0, -1.0)
        start = np.where(sign > 0, 0.0, self.jump)
        total = table.most(*_span(low, high, start, start + sign * self.jump)) ** 2 / 2
        for weight, ends in zip(_WEIGHTS, zip(_SHARES[:-1], _SHARES[1:], strict=True), strict=True):
            near, far = (start + sign * self.jump * (1 + (order - 1) * end) for end in ends)
            total += weight * (order - 1) * table.most(*_span(low, high, near, far)) ** 2
        return total * self.jump**2 * (1 + 64 * _ULP)

    def _lipschitz(
        self,
        table: "DeviationTable",
        blocks: Blocks,
        orders: FloatArray,
        forward: NDArray[np.bool_],
        half: FloatArray,
    ) -> FloatArray:
        """The square of 1 - `half` times the largest standard deviation on the way, and zero where that is negative."""
        low, high = self._parameters(blocks)
        start = np.where(forward[blocks.at], 0.0, self.jump)
        end = start + np.where(forward[blocks.at], 1.0, -1.0) * self.jump * orders[blocks.at]
        shrunk = np.maximum(1.0 - half * table.most(*_span(low, high, start, end)), 0.0)
        return np.maximum(shrunk**2, 1e-300)

    def _parameters(self, blocks: Blocks) -> tuple[FloatArray, FloatArray]:
        """The natural parameters of a block's ends, rounded outward."""
        low, high = (self.first + self.unit * sums for sums in (blocks.low, blocks.high))
        return low - self._rounding, high + self._rounding

    def _table(self, order: float) -> "DeviationTable":
        """Standard deviations as far as this order reaches."""
        reach = self.jump * 10.0 ** np.ceil(np.log10(order + 1.0))
        if reach not in self._tables:
            span = self.first - reach, self.first + self.unit * self.last + self.jump + reach
            self._tables[reach] = deviation_table(self.family, *span)
        return self._tables[reach]

    @cached
    def _tables(self) -> dict[float, "DeviationTable"]:
        return {}


class DeviationTable:
    """Upper bounds of the standard deviation on cells of natural parameters, and their maxima on runs of cells."""

    def __init__(self, cuts: FloatArray, bounds: FloatArray) -> None:
        self._cuts, self._levels = cuts, [bounds]
        while (width := 1 << len(self._levels)) <= len(bounds):
            last = self._levels[-1]
            self._levels.append(np.maximum(last[: len(bounds) - width + 1], last[width // 2 :][: len(bounds) - width + 1]))

    def most(self, low: FloatArray, high: FloatArray) -> FloatArray:
        """The largest bound anywhere on [low, high], (rows,)."""
        last = len(self._cuts) - 2
        first = np.clip(np.searchsorted(self._cuts, low, side="right") - 1, 0, last)
        final = np.clip(np.searchsorted(self._cuts, high, side="left") - 1, first, last)
        level = np.frexp(final - first + 1)[1] - 1
        found = np.empty(len(first))
        for k in np.unique(level):
            rows = level == k
            found[rows] = np.maximum(self._levels[k][first[rows]], self._levels[k][final[rows] + 1 - (1 << int(k))])
        return found


def deviation_table(family: TruncatedFamily, low: float, high: float) -> DeviationTable:
    """1/deviation is 1-Lipschitz, so that the value in the middle of a cell bounds it all over the cell."""
    cuts, bounds = [np.empty(0)], [np.empty(0)]
    left, right = np.array([low]), np.array([high])
    widest = (family.high - family.low) / 2
    while left.size:
        middle, half = (left + right) / 2, (right - left) / 2 * (1 + 8 * _ULP) + 8 * _ULP * np.maximum(-left, right)
        own = np.minimum(family.deviation(middle), widest)
        settled = half * own <= _FINENESS
        if left.size + sum(map(len, cuts)) > _MOST_CELLS:
            settled[:] = True
        bound = own / np.maximum(1.0 - half * own, 1e-300)
        cuts.append(left[settled])
        bounds.append(np.minimum(bound, widest)[settled])
        left, middle, right = left[~settled], middle[~settled], right[~settled]
        left, right = np.concatenate([left, middle]), np.concatenate([middle, right])
    starts, values = np.concatenate(cuts), np.concatenate(bounds)
    order = np.argsort(starts)
    return DeviationTable(np.append(starts[order], high), values[order])


def _rows(blocks: Blocks, rows: NDArray[np.bool_]) -> Blocks:
    return Blocks(*(column[rows] for column in blocks))


def _span(low: FloatArray, high: FloatArray, one: FloatArray, other: FloatArray) -> tuple[FloatArray, FloatArray]:
    """From a block's lowest parameter moved by the lesser of two shifts to its highest moved by the greater."""
    return low + np.minimum(one, other), high + np.maximum(one, other)

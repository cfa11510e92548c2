"""The privacy curves of Beta posteriors for many numbers of records, certified together over all sums of the records.

Proof: docs/notes/subsampling.md, "Many sizes", steps 3 and 4; posterior.md, section 3 (Lemma 2).
"""

import itertools
from dataclasses import dataclass

import numpy as np

from privsample._checks import FloatArray
from privsample._value import frozen_value, set_fields
from privsample.accounting.loss.rows import CurveRows, Rows
from privsample.accounting.posterior.beta import BetaPair
from privsample.accounting.posterior.pairs import lower_product, lower_sum
from privsample.accounting.posterior.threshold_sweep import beta_curves

_TOLERANCE = 1e-4  # relative excess of delta over the ends that ends the search in a block
_NEXT_TO_END = 1e-6  # share of real-valued sums next to an end that counts as the end
_MOST_BLOCKS, _PARTS = 4000, 4  # largest number of blocks; parts into which sizes, and sums, of a block are split
_GROWTH = 1.3  # ratio of the largest to the smallest size of a first block


@frozen_value
class BetaRows(CurveRows):
    """All pairs Beta(a + r s + r, b + r t) against Beta(a + r s, b + r t + r), t = m - s, and their reverses, in row m.

    r is `step`, m in `others` is the number of the other records, and s is the sum of their values: any whole number in
    [0, m] if `integer_valued`, otherwise any real number. `others` increases.
    """

    a: float
    b: float
    step: float
    others: FloatArray
    integer_valued: bool

    def __post_init__(self) -> None:
        others = np.array(self.others, dtype=np.float64)
        others.flags.writeable = False
        set_fields(self, others=others)

    @property
    def max_divergence(self) -> float:
        """Infinite: the loss is unbounded."""
        return np.inf

    @property
    def order_limit(self) -> float:
        """That of the ends, which have a record of the rarer kind in common with no other record."""
        return 1.0 + min(self.a, self.b) / self.step

    @property
    def value_cost(self) -> float:
        """Some microseconds: the quadratures of many epsilons are shared."""
        return 20.0

    def ceiling(self, orders: FloatArray) -> FloatArray:
        """The Rényi curve of the ends of the smallest size, which are the worst at every order."""
        low, high = self._shapes(float(self.others[0]))
        ends = [BetaPair(a=self.a, b=high, step=self.step), BetaPair(a=low, b=self.b, step=self.step)]
        return BetaPair.worst_renyi([*ends, *(end.reverse() for end in ends)], orders)

    def _shapes(self, count: float) -> tuple[float, float]:
        """a and b plus the step times a number of records, rounded down."""
        more = lower_product(count, self.step) if count else 0.0
        return lower_sum(self.a, more), lower_sum(self.b, more)

    def approx_log_delta(self, rows: Rows, epsilon: FloatArray) -> FloatArray:
        """Largest log delta of the ends: all other records are failures, or all are successes."""
        rest = self.others[rows] * (1.0 if self.integer_valued else 1.0 - _NEXT_TO_END)
        return self._worst_order(np.zeros(len(rest)), rest, epsilon)

    def _worst_order(self, few: FloatArray, many: FloatArray, epsilon: FloatArray) -> FloatArray:
        """Largest log delta with `few` records of one kind and `many` of the other, for both kinds and both orders."""
        shapes = [np.array([self._shapes(count) for count in counts.tolist()]).reshape(-1, 2) for counts in (few, many)]
        (few_a, few_b), (many_a, many_b) = (shape.T for shape in shapes)
        pairs = [(few_a, many_b), (many_b, few_a)]
        if self.a != self.b:
            pairs += [(many_a, few_b), (few_b, many_a)]
        return np.max([beta_curves(a, b, self.step, epsilon) for a, b in pairs], axis=0)

    def log_delta(self, rows: Rows, epsilon: FloatArray) -> FloatArray:
        """Log delta of the ends, raised where the bounds on other sums exceed it."""
        return _Search(self, self.others[rows], epsilon, self.approx_log_delta(rows, epsilon)).result()

    def bound(self, few: FloatArray, many: FloatArray, epsilon: FloatArray) -> FloatArray:
        """Log delta of the pair that dominates all with at least these numbers of records of the two kinds."""
        return self._worst_order(few, many, epsilon)


@dataclass(frozen=True, slots=True)
class _Block:
    """The rows from `start` to before `end`, and the sums of the rarer kind of records from `low` to `high`."""

    start: int
    end: int
    low: float
    high: float


class _Search:
    """Certifies values for sizes by epsilons over blocks of sizes and of sums (subsampling.md, "Many sizes", step 3).

    Where the bound on a block exceeds the ends of one of its sizes by more than the tolerance, the block is split.
    Blocks that remain at the iteration limit raise the values by their bounds.
    """

    def __init__(self, family: BetaRows, others: FloatArray, epsilon: FloatArray, ends: FloatArray) -> None:
        self.family, self.others, self.ends = family, others, ends
        self.worst = ends.copy()
        # at most the epsilon of each row before, so that one epsilon serves a block also if they should increase
        self.epsilon = np.minimum.accumulate(epsilon, axis=0)
        self.left = _MOST_BLOCKS

    def result(self) -> FloatArray:
        """The certified values, shape (sizes, points)."""
        whole, start = self.family.integer_valued, 0
        blocks = []
        while start < len(self.others):
            end = max(int(np.searchsorted(self.others, _GROWTH * self.others[start], side="right")), start + 1)
            first = 1.0 if whole else _NEXT_TO_END * float(self.others[start])
            last = float(self.others[end - 1]) / 2
            blocks += [
                _Block(start, end, low, high) for low, high in _growing(first, np.floor(last) if whole else last, whole)
            ]
            start = end
        open_ = [(blocks, np.arange(self.ends.shape[1]))]
        while open_:
            blocks, points = open_.pop()
            for block, left in self._examine(blocks, points):
                open_.append((self._split(block), left))
        return self.worst

    def _examine(self, blocks: list[_Block], points: Rows) -> list[tuple[_Block, Rows]]:
        """Bound the blocks at these points; return those to be split, with the points that exceed the ends."""
        following: list[tuple[_Block, Rows]] = []
        if not blocks:
            return following
        low = np.array([block.low for block in blocks])
        total = np.array([self.others[block.start] for block in blocks])
        many = np.maximum(total - [block.high for block in blocks], total / 2)
        epsilon = np.stack([self.epsilon[block.end - 1, points] for block in blocks])
        bounds = self.family.bound(low, many, epsilon)
        self.left -= len(blocks)
        for block, bound in zip(blocks, bounds, strict=True):
            rows = slice(block.start, block.end)
            exceeds = bound > self.ends[rows, points].min(axis=0) + _TOLERANCE
            if self.left < 0 or not self._can_split(block):
                exceeds[:] = False
            accepted = points[~exceeds]
            self.worst[rows, accepted] = np.maximum(self.worst[rows, accepted], bound[~exceeds])
            if exceeds.any():
                following.append((block, points[exceeds]))
        return following

    def _can_split(self, block: _Block) -> bool:
        """True unless the block is one size and one sum."""
        least = 0.0 if self.family.integer_valued else 1e-9 * float(self.others[block.start])
        return block.end - block.start > 1 or block.high - block.low > least

    def _split(self, block: _Block) -> list[_Block]:
        """Parts of about equal numbers of sizes, and of about equal ranges of sums."""
        cuts = np.unique(np.linspace(block.start, block.end, _PARTS + 1).astype(int)).tolist()
        whole, width = self.family.integer_valued, block.high - block.low
        if whole:
            edges = np.unique(block.low + np.round((width + 1.0) * np.arange(_PARTS + 1) / _PARTS))
            sums = [(float(low), float(high) - 1.0) for low, high in itertools.pairwise(edges)]
        else:
            edges = block.low + width * np.arange(_PARTS + 1) / _PARTS
            sums = [(float(low), float(high)) for low, high in itertools.pairwise(edges)]
        return [
            _Block(start, end, low, high)
            for start, end in itertools.pairwise(cuts)
            for low, high in sums
            if low <= self.others[end - 1] / 2
        ]


def _growing(first: float, last: float, whole: bool) -> list[tuple[float, float]]:
    """Ranges of sums from first to last that grow in width; ranges of whole numbers do not share their ends."""
    found, low = [], first
    while low <= last:
        high = min(3.0 * low - 1.0 if whole and low > 1.0 else low if whole else 3.0 * low, last)
        found.append((low, max(high, low)))
        low = max(high, low) + 1.0 if whole else high
        if high >= last:
            break
    return found

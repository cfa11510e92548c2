"""Certified maxima over all sums of the records for many numbers of records, by blocks of sizes and of sums.

Proof: docs/notes/subsampling.md, "Many sizes", step 3.
"""

import itertools
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from privsample._checks import FloatArray
from privsample.accounting.loss.rows import Rows

_MOST_BLOCKS, _PARTS = 60_000, 4  # largest number of blocks; parts into which sizes, and sums, of a block are split
_GROWTH = 1.3  # ratio of the largest to the smallest size of a first block


@dataclass(frozen=True, slots=True)
class Block:
    """The rows from `start` to before `end`, of sizes from `least` to `most`, and the sums from `low` to `high`."""

    start: int
    end: int
    least: float
    most: float
    low: float
    high: float


class SizedFamily(Protocol):
    """All neighbouring posteriors of several numbers of records."""

    @property
    def integer_valued(self) -> bool:
        """True if sums are whole numbers."""

    def first_sums(self, least: float, most: float) -> list[tuple[float, float]]:
        """Ranges of sums that cover those of all sizes from `least` to `most`, except sums known to be included."""

    def last_sum(self, size: float) -> float:
        """The largest sum of a size that must be covered."""

    def block_bounds(self, blocks: list[Block], epsilon: FloatArray) -> FloatArray:
        """Bounds on log delta in each block at epsilons of shape (blocks, points); the value for one size and sum."""


def certify(
    family: SizedFamily, sizes: FloatArray, epsilon: FloatArray, known: FloatArray, *, tolerance: float
) -> FloatArray:
    """Upper bounds on the largest log delta of each size at each epsilon, shape (sizes, points).

    `known` holds log deltas that are attained or included, and `sizes` increase. The result exceeds the largest log
    delta found by at most `tolerance`, unless the iteration limit is reached.
    """
    search = _Search(family, sizes, epsilon, known, tolerance)
    every = np.arange(known.shape[1])
    open_ = {every.tobytes(): (search.first_blocks(), every)}
    while open_:
        _, (blocks, points) = open_.popitem()
        for block, left in search.examine(blocks, points):
            open_.setdefault(left.tobytes(), ([], left))[0].extend(search.split(block))
    return search.worst


class _Search:
    """The state of a search: the largest values found, the bounds reported, and the number of blocks that are left.

    Where the bound on a block exceeds the largest value found of one of its sizes by more than the tolerance, the block
    is split. A block of one size and one sum raises the largest value. Blocks that remain at the limit count by their
    bounds.
    """

    def __init__(
        self, family: SizedFamily, sizes: FloatArray, epsilon: FloatArray, known: FloatArray, tolerance: float
    ) -> None:
        self.family, self.sizes, self.tolerance = family, sizes, tolerance
        self.found, self.worst = known.copy(), known.copy()
        # at most the epsilons of the rows before, so that one epsilon serves a block also if they should increase
        self.epsilon = np.minimum.accumulate(epsilon, axis=0)
        self.left = _MOST_BLOCKS

    def first_blocks(self) -> list[Block]:
        """Blocks of sizes that differ by a third at most, with the family's ranges of sums."""
        blocks, start = [], 0
        while start < len(self.sizes):
            least = float(self.sizes[start])
            end = max(int(np.searchsorted(self.sizes, _GROWTH * least, side="right")), start + 1)
            most = float(self.sizes[end - 1])
            blocks += [Block(start, end, least, most, low, high) for low, high in self.family.first_sums(least, most)]
            start = end
        return blocks

    def examine(self, blocks: list[Block], points: Rows) -> list[tuple[Block, Rows]]:
        """Bound the blocks at these points; return those to be split, with the points where the bound is too large."""
        if not blocks:
            return []
        following = []
        epsilon = np.stack([self.epsilon[block.end - 1, points] for block in blocks])
        bounds = self.family.block_bounds(blocks, epsilon)
        self.left -= len(blocks)
        for block, bound in zip(blocks, bounds, strict=True):
            rows = slice(block.start, block.end)
            single = block.end - block.start == 1 and block.high - block.low <= self._least_width(block)
            if single:
                self.found[rows, points] = np.maximum(self.found[rows, points], bound)
            exceeds = bound > self.found[rows, points].min(axis=0) + self.tolerance
            if self.left < 0:
                exceeds[:] = False
            accepted = points[~exceeds]
            self.worst[rows, accepted] = np.maximum(self.worst[rows, accepted], bound[~exceeds])
            if exceeds.any():
                following.append((block, points[exceeds]))
        return following

    def _least_width(self, block: Block) -> float:
        """Width of a range of sums that counts as one sum."""
        return 0.0 if self.family.integer_valued else 1e-9 * block.least

    def split(self, block: Block) -> list[Block]:
        """Parts of about equal numbers of sizes, and of about equal ranges of sums."""
        cuts = np.unique(np.linspace(block.start, block.end, _PARTS + 1).astype(int)).tolist()
        width, shares = block.high - block.low, np.arange(_PARTS + 1) / _PARTS
        if self.family.integer_valued:
            edges = np.unique(block.low + np.round((width + 1.0) * shares))
            sums = [(float(low), float(high) - 1.0) for low, high in itertools.pairwise(edges)]
        else:
            edges = block.low + width * shares
            sums = [(float(low), float(high)) for low, high in itertools.pairwise(edges)]
        return [
            Block(start, end, float(self.sizes[start]), float(self.sizes[end - 1]), low, high)
            for start, end in itertools.pairwise(cuts)
            for low, high in sums
            if low <= self.family.last_sum(float(self.sizes[end - 1]))
        ]

"""Sums of many independent discrete variables by a binary tree of products of Fourier transforms (grid.md, section 8).

Each product is trimmed: what has a negligible mass at both ends is dropped. Every block of the tree carries a bound on
the mass that its array lacks, by trimming and by rounding.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from privsample._checks import FloatArray, check_memory

_UNIT = float(np.finfo(np.float64).eps) / 2  # largest relative error of one operation
_BATCH = 2**17  # points of transforms that are computed together
_SPREAD = 1.06  # quotient of the longest and the shortest sums that are transformed together
_NEGLIGIBLE = 1e-12  # mass that the products of the whole tree may drop
_ROUND_UP = 1.0 + 1e-9  # covers the rounding errors of norms, and products of errors


@dataclass(frozen=True, slots=True)
class Block:
    """The sum of some variables: masses in increasing order, and the rest.

    The last mass lies `below_top` steps below the sum of the variables' largest values. The exact masses exceed the
    array by at most `missing`, summed over all values.
    """

    masses: FloatArray
    below_top: int
    missing: float


def sum_of_blocks(blocks: Sequence[Block]) -> Block:
    """The sum of all blocks, which are independent."""
    share = _NEGLIGIBLE / (2 * len(blocks))
    left = list(blocks)
    while len(left) > 1:
        left.sort(key=lambda block: len(block.masses))
        longest = [left.pop()] if len(left) % 2 else []
        left = [*_sums(list(zip(left[0::2], left[1::2], strict=True)), share), *longest]
    return left[0]


def power_of_block(block: Block, times: int) -> Block:
    """The sum of `times` independent copies of a block, by repeated squares."""
    share, result = _NEGLIGIBLE / (2 * times), None
    while True:
        if times % 2:
            result = block if result is None else next(_sums([(result, block)], share))
        times //= 2
        if not times:
            break
        block = next(_sums([(block, block)], share))
    assert result is not None
    return result


def _sums(pairs: Sequence[tuple[Block, Block]], share: float) -> Iterator[Block]:
    """The sums of the two blocks of each pair; pairs of about the same length are transformed together."""
    from scipy.fft import next_fast_len

    start = 0
    while start < len(pairs):
        need, stop = _length(pairs[start]), start + 1
        while stop < len(pairs) and (stop - start) * need < _BATCH and need <= _length(pairs[stop]) <= _SPREAD * need:
            stop += 1
        size = next_fast_len(max(_length(pair) for pair in pairs[start:stop]), real=True)
        yield from _batch(pairs[start:stop], size, share)
        start = stop


def _length(pair: tuple[Block, Block]) -> int:
    """Number of values of the sum."""
    return len(pair[0].masses) + len(pair[1].masses) - 1


def _batch(pairs: Sequence[tuple[Block, Block]], size: int, share: float) -> Iterator[Block]:
    """The sums of all pairs by transforms of one size, which holds each of them."""
    from scipy.fft import irfft, rfft

    check_memory(size, lower="how many draws or releases are put together")
    first, second = np.zeros((2, len(pairs), size))
    for row, (one, other) in enumerate(pairs):
        first[row, : len(one.masses)] = one.masses
        second[row, : len(other.masses)] = other.masses
    lost = _rounding_errors(first, second)
    spectrum = rfft(first)
    spectrum *= rfft(second)
    masses = np.maximum(irfft(spectrum, size), 0.0)  # exact masses are not negative
    totals = first.sum(axis=1), second.sum(axis=1)
    for row, (one, other) in enumerate(pairs):
        missing = one.missing * (totals[1][row] + other.missing) + other.missing * totals[0][row]
        found = masses[row, : _length((one, other))]
        # Dropping as much as rounding may have lost at most doubles the bound, and removes tails of rounding errors.
        most = max(share, lost[row])
        half = len(found) // 2
        below, above = np.cumsum(found[:half]), np.cumsum(found[:half:-1])
        low, high = int(np.searchsorted(below, most, "right")), int(np.searchsorted(above, most, "right"))
        dropped = (below[low - 1] if low else 0.0) + (above[high - 1] if high else 0.0)
        yield Block(
            masses=found[low : len(found) - high].copy(),
            below_top=one.below_top + other.below_top + high,
            missing=(missing + lost[row] + dropped) * _ROUND_UP,
        )


def _rounding_errors(first: FloatArray, second: FloatArray) -> FloatArray:
    """Bounds on the sums of the absolute rounding errors of the products of rows, shape (rows,).

    Each transform has a relative error of at most 8 u log2(size) in the Euclidean norm.
    """
    size = first.shape[1]
    relative = 8 * _UNIT * np.log2(size)
    norms = [np.sqrt(np.einsum("ij,ij->i", rows, rows)) for rows in (first, second)]
    sizes = norms[0] * second.sum(axis=1) + norms[1] * first.sum(axis=1)
    result: FloatArray = np.sqrt(size) * (2 * relative + 4 * _UNIT) * sizes * _ROUND_UP
    return result

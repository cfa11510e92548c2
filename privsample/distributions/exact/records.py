"""Exact sums of records: rounded to a public grid inside their bounds, and added as integers.

The sum does not depend on the order of the records or on how they are split, and a record changes it by no more than
the width of its bounds. docs/notes/exact_noise.md, steps 6 and 7.
"""

import math
from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privsample._checks import FloatArray
from privsample.distributions.domains import Domain
from privsample.distributions.exact.grid import Grid

_STEPS = 40  # the default pitch is 2^-40 of the width of the bounds
_LARGEST_SUM = 2**62  # sums of smaller absolute values fit in 64 bits
_BLOCK = 1 << 15  # records whose arrays stay in the processor's cache
_ORDINARY = 950  # exponents of powers of two that are normal doubles, also times 2^53
_SHIFT = 1.5 * 2.0**52
_MOST_SHIFTED = 2**51  # absolute values of indices that the shift rounds
_MOST_STEPS = 2**53  # across the bounds: the index of a record, counted from the lower bound, is an exact double
_INTEGERS = Grid(pitch=1.0)


def default_pitch(scale: float) -> float:
    """The power of two at or below a public scale, times 2^-40; the smallest double where that is smaller still."""
    return math.ldexp(1.0, max(math.frexp(scale)[1] - 1 - _STEPS, -1074))


def record_grid(domain: Domain, grid: float | None = None) -> Grid:
    """The public grid to which records of a domain are rounded.

    Parameters
    ----------
    domain : Domain
        The domain, with finite bounds.
    grid : float, optional
        The pitch, a power of two. By default 1 for integer records, otherwise 2^-40 of the width of the bounds.

    Returns
    -------
    Grid
        The grid.

    Raises
    ------
    ValueError
        If the pitch is no power of two, if a record has no choice on it, or if it is finer than doubles resolve.
    """
    if domain.integer_valued:
        return integer_grid(grid)
    width = domain.high - domain.low
    found = Grid(pitch=default_pitch(width) if grid is None else grid)
    first, last = index_ends(domain, found)
    if not first < last:
        raise ValueError(
            f"grid must have at least two points from {domain.low:g} to {domain.high:g}, got the pitch "
            f"{found.pitch!r}: use a smaller power of two, such as {default_pitch(width)!r}"
        )
    if not last - first <= _MOST_STEPS:
        raise ValueError(
            f"grid must be at least 2^-53 of the width {width:g} of the bounds, got the pitch {found.pitch!r}: finer "
            f"points are no doubles; use a larger power of two, such as {default_pitch(width)!r}"
        )
    return found


def integer_grid(grid: float | None = None) -> Grid:
    """The public grid of an integer statistic: pitch 1, or a smaller power of two. Raises ValueError."""
    found = Grid(pitch=1.0 if grid is None else grid)
    if found.pitch > 1:
        raise ValueError(f"grid must be at most 1 for an integer statistic, got {found.pitch!r}: leave it out")
    return found


def exact_sum(domain: Domain, chunk: NDArray[Any], grid: Grid | None = None) -> Fraction:
    """The sum of a chunk of records after the public rule of `domain`, each rounded to a public grid.

    The sum is exact, so it does not depend on the order of the records. A rounded record stays inside the bounds, so
    that no record changes the sum by more than their distance.

    Parameters
    ----------
    domain : Domain
        The domain of the records.
    chunk : array of shape (k,)
        Records.
    grid : Grid, optional
        The grid; by default that of `record_grid`.

    Returns
    -------
    fractions.Fraction
        The sum, a multiple of the pitch.
    """
    if domain.integer_valued:
        if float(domain.low).is_integer() and float(domain.high).is_integer():
            return Fraction(index_sum(domain, chunk, _INTEGERS))
        return Fraction(integer_sum(np.asarray(domain.clean(chunk), dtype=np.float64)))
    grid = grid or record_grid(domain)
    return index_sum(domain, chunk, grid) * Fraction(grid.pitch)


def index_sum(domain: Domain, chunk: NDArray[Any], grid: Grid) -> int:
    """The sum of the indices of a chunk of records: `exact_sum` over the pitch. It is 1 for an integer-valued domain.

    Parameters
    ----------
    domain : Domain
        The domain of the records.
    chunk : array of shape (k,)
        Records.
    grid : Grid
        The grid.

    Returns
    -------
    int
        The sum.
    """
    first, last = index_ends(domain, grid)
    largest = max(abs(first), abs(last))
    if largest > _MOST_SHIFTED or abs(grid.exponent) >= _ORDINARY:
        return _wide_sum(np.asarray(domain.clean(chunk), dtype=np.float64), first, last, grid)
    if domain.integer_valued and _lies_inside(chunk, first, last):
        return sum(int(part.sum(dtype=np.int64)) for part in _parts(chunk, largest))
    # Doubles near 1.5 2^52 pitches are one pitch apart: adding that number to a record of at most 2^51 pitches rounds
    # it to the nearest point of the grid, half to even, and leaves the index in the last bits of the sum. The bits, as
    # integers, less those of the number are the index (exact_noise.md, step 6).
    shift = math.ldexp(_SHIFT, grid.exponent)
    shift_bits = int(np.float64(shift).view(np.int64))
    # Rounding is monotone, and the ends are grid points: clipping to them first equals clipping the indices.
    low, high = first * grid.pitch, last * grid.pitch
    missing = min(max(domain.missing, low), high)
    buffer, total = np.empty(min(len(chunk), _BLOCK)), 0
    with np.errstate(over="ignore", invalid="ignore"):  # of wider floats, and of signalling NaN
        for part in _parts(chunk, largest):
            moved = buffer[: len(part)]
            numbers = part.astype(np.float64, copy=False)  # a narrower type would round the bounds
            np.clip(numbers, low, high, out=moved)
            if domain.outside_is_missing:
                np.putmask(moved, ~((numbers >= domain.low) & (numbers <= domain.high)), missing)  # also NaN
            elif np.isnan(moved.max()):
                np.putmask(moved, np.isnan(moved), missing)
            np.add(moved, shift, out=moved)
            total += _wrapped(int(moved.view(np.int64).sum()) - len(part) * shift_bits)
    return total


def _wrapped(number: int) -> int:
    """The integer of 64 bits that equals a number modulo 2^64: a sum that fits is exact, however it overflowed."""
    return (number + 2**63) % 2**64 - 2**63


def _parts(chunk: NDArray[Any], largest: int) -> Iterator[NDArray[Any]]:
    """A chunk in blocks that stay in the processor's cache, and whose sums of such numbers fit in 64 bits."""
    block = min(_BLOCK, _LARGEST_SUM // max(largest, 1))
    return (chunk[start : start + block] for start in range(0, len(chunk), block))


def _lies_inside(chunk: NDArray[Any], first: int, last: int) -> bool:
    """Whether a chunk holds integers that the public rule leaves as they are."""
    return chunk.dtype.kind in "iu" and len(chunk) > 0 and first <= int(chunk.min()) and int(chunk.max()) <= last


def _wide_sum(cleaned: FloatArray, first: int, last: int, grid: Grid) -> int:
    """The sum of indices that lie too far from 0 for the shift, or on a grid of extreme pitch."""
    low = float(first)  # exact: an end is below 2^53, or is a double times a power of two
    total = first * len(cleaned)
    for start in range(0, len(cleaned), _BLOCK):
        indices = np.clip(np.rint(_steps(cleaned[start : start + _BLOCK], grid)), low, float(last))
        total += integer_sum(indices - low)  # exact doubles: the difference of integers at most 2^53 apart
    return total


def row_indices(rows: FloatArray, grid: Grid) -> FloatArray:
    """The indices of rows rounded towards 0, entry by entry: no row becomes longer."""
    return np.trunc(_steps(rows, grid))


def _steps(numbers: FloatArray, grid: Grid) -> FloatArray:
    """Numbers over the pitch: exact, except next to 0, where they are rounded to 0 in any case."""
    if abs(grid.exponent) < _ORDINARY:
        return numbers * 2.0**-grid.exponent  # the same as ldexp, and faster
    return np.ldexp(numbers, -grid.exponent)


def integer_sum(numbers: FloatArray) -> int:
    """The exact sum of whole numbers that doubles hold, of shape (k,)."""
    largest = float(np.abs(numbers).max(initial=0.0))
    if not largest < _LARGEST_SUM:
        return sum(int(number) for number in numbers.tolist())
    block = max(_LARGEST_SUM // max(int(largest), 1), 1)
    return sum(int(numbers[start : start + block].astype(np.int64).sum()) for start in range(0, len(numbers), block))


def integer_sums(rows: FloatArray) -> tuple[int, ...]:
    """The exact sums of the columns of whole numbers that doubles hold."""
    return tuple(integer_sum(column) for column in np.ascontiguousarray(rows.T))


def grid_indices(statistic: Sequence[Fraction], pitch: float) -> tuple[int, ...]:
    """The indices of points of a grid."""
    indices = [number / Fraction(pitch) for number in statistic]
    assert all(index.denominator == 1 for index in indices)
    return tuple(index.numerator for index in indices)


def points(indices: NDArray[Any], grid: Grid) -> FloatArray:
    """The points of a grid with these indices, integers of any size, as the nearest finite doubles."""
    largest = float(np.finfo(np.float64).max)
    if indices.dtype != object:
        with np.errstate(over="ignore"):
            return np.clip(np.ldexp(indices.astype(np.float64), grid.exponent), -largest, largest)
    found = np.array([grid.point(int(index)) for index in indices.ravel()], dtype=np.float64)
    return np.clip(found, -largest, largest).reshape(indices.shape)


def rounded_bounds(domain: Domain, grid: Grid | None = None) -> tuple[Fraction, Fraction]:
    """The smallest and the largest record after rounding to a public grid; the bounds themselves without one."""
    if grid is None:
        return Fraction(domain.low), Fraction(domain.high)
    first, last = index_ends(domain, grid)
    return first * Fraction(grid.pitch), last * Fraction(grid.pitch)


def index_ends(domain: Domain, grid: Grid) -> tuple[int, int]:
    """The indices of the first and the last grid point within the bounds."""
    pitch = Fraction(grid.pitch)
    return math.ceil(Fraction(domain.low) / pitch), math.floor(Fraction(domain.high) / pitch)

"""Features of released floating-point numbers: what an observer reads in their bits, each a finite number of cells.

A feature maps every number to one of `cells` cells. Events of an audit are unions of cells, so counts of the cells are
all that an audit has to hold in memory.
"""

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from privsample._checks import FloatArray

Cells = NDArray[np.int64]
_Bits = NDArray[np.uint64]

_EXPONENTS, _ZEROS, _LAST, _RESIDUES = 64, 64, 128, 256
_MANTISSA, _BIAS = 52, 1023
_MOST_VALUES = 4_095
_QUANTILES = 256
_HUGE = 2.0**61


class BitFeature(Protocol):
    """A function from outputs to cells, and the description of a cell in plain words."""

    @property
    def cells(self) -> int:
        """Number of cells."""

    @property
    def description(self) -> str:
        """What the feature reads in the output, a noun phrase."""

    def cell(self, x: FloatArray) -> Cells:
        """Return the cell of each number, shape (draws,)."""

    def describe(self, cell: int) -> str:
        """Return what the numbers of one cell have in common, to follow "such as"."""


def significands(x: FloatArray) -> tuple[_Bits, Cells]:
    """Return the integer significand and the exponent of its last bit: x = +-significand 2^exponent."""
    bits = np.ascontiguousarray(x).view(np.uint64)
    biased = ((bits >> np.uint64(_MANTISSA)) & np.uint64(0x7FF)).astype(np.int64)
    fraction = bits & np.uint64((1 << _MANTISSA) - 1)
    normal = (biased > 0).astype(np.uint64) << np.uint64(_MANTISSA)  # subnormal numbers have no implicit bit
    return fraction | normal, np.maximum(biased, 1) - _BIAS - _MANTISSA


def trailing_zeros(significand: _Bits) -> Cells:
    """Return the number of zero bits at the end of each significand; 64 for zero."""
    lowest = significand & (~significand + np.uint64(1))
    return np.bitwise_count(lowest - np.uint64(1)).astype(np.int64)


def exponents(x: FloatArray) -> Cells:
    """Return floor(log2 |x|) of each number; that of the smallest normal number for zero and subnormal numbers."""
    return significands(x)[1] + _MANTISSA


@dataclass(frozen=True, kw_only=True)
class TrailingZeros:
    """Sign, exponent, and number of trailing zero bits of the mantissa. `top`: the largest exponent kept."""

    top: int
    cells: int = 2 * _EXPONENTS * _ZEROS
    description: str = "the sign, the exponent and the number of zero bits at the end of the mantissa"

    def cell(self, x: FloatArray) -> Cells:
        significand, last = significands(x)
        exponent = np.clip(self.top - (last + _MANTISSA), 0, _EXPONENTS - 1)
        zeros = np.minimum(trailing_zeros(significand), _MANTISSA + 1)
        return ((x < 0.0).astype(np.int64) * _EXPONENTS + exponent) * _ZEROS + zeros

    def describe(self, cell: int) -> str:
        rest, zeros = divmod(cell, _ZEROS)
        negative, below = divmod(rest, _EXPONENTS)
        if zeros > _MANTISSA:
            return "the number 0"
        words = "no zero bit" if zeros == 0 else f"{zeros} zero bit{'' if zeros == 1 else 's'}"
        sign = "negative" if negative else "positive"
        return f"a {sign} number {_binade(self.top - below, below)} whose mantissa ends in {words}"


@dataclass(frozen=True, kw_only=True)
class LowestBit:
    """The lowest bit that is set: the largest power of two of which the number is a multiple, 2^(base + cell)."""

    base: int
    cells: int = 256
    description: str = "the largest power of two of which the output is a multiple"

    def cell(self, x: FloatArray) -> Cells:
        significand, last = significands(x)
        found = np.clip(last + trailing_zeros(significand) - self.base, 0, self.cells - 2)
        return np.where(significand == 0, self.cells - 1, found)

    def describe(self, cell: int) -> str:
        if cell == self.cells - 1:
            return "the number 0"
        return f"an odd multiple of 2^{self.base + cell}"


@dataclass(frozen=True, kw_only=True)
class LastBits:
    """The exponent and the last seven bits of the mantissa. `top`: the largest exponent kept."""

    top: int
    cells: int = _EXPONENTS * _LAST
    description: str = "the exponent and the last seven bits of the mantissa"

    def cell(self, x: FloatArray) -> Cells:
        significand, last = significands(x)
        exponent = np.clip(self.top - (last + _MANTISSA), 0, _EXPONENTS - 1)
        return exponent * _LAST + (significand & np.uint64(_LAST - 1)).astype(np.int64)

    def describe(self, cell: int) -> str:
        below, last = divmod(cell, _LAST)
        return f"a number {_binade(self.top - below, below)} whose mantissa ends in {last:07b}"


@dataclass(frozen=True, kw_only=True)
class Residue:
    """The number modulo 2^(exponent + 8), in steps of 2^exponent: eight bits at a fixed place."""

    exponent: int
    cells: int = _RESIDUES

    @property
    def description(self) -> str:
        """What the feature reads in the output, a noun phrase."""
        return f"the residue modulo 2^{self.exponent + 8}, in steps of 2^{self.exponent}"

    def cell(self, x: FloatArray) -> Cells:
        with np.errstate(over="ignore"):
            steps = np.floor(np.ldexp(x, -self.exponent))
        steps = np.where(np.abs(steps) < _HUGE, steps, 0.0)  # all larger numbers are multiples of the modulus
        return (steps - _RESIDUES * np.floor(steps / _RESIDUES)).astype(np.int64)

    def describe(self, cell: int) -> str:
        return f"the residue {cell} x 2^{self.exponent}"


@dataclass(frozen=True, kw_only=True, eq=False)
class RepeatedValues:
    """Which of the values that occurred repeatedly the number is; cell 0 holds all other numbers."""

    values: FloatArray
    description: str = "the values that occur repeatedly"

    @property
    def cells(self) -> int:
        """Number of cells."""
        return len(self.values) + 1

    def cell(self, x: FloatArray) -> Cells:
        at = np.minimum(np.searchsorted(self.values, x), len(self.values) - 1)
        return np.where(self.values[at] == x, at + 1, 0)

    def describe(self, cell: int) -> str:
        return "a value that did not occur repeatedly" if cell == 0 else f"the value {float(self.values[cell - 1])!r}"


@dataclass(frozen=True, kw_only=True, eq=False)
class Size:
    """The number itself, between quantiles of the pilot draws: what is visible without its last bits."""

    ends: FloatArray
    description: str = "the size of the output"

    @property
    def cells(self) -> int:
        """Number of cells."""
        return len(self.ends) + 1

    def cell(self, x: FloatArray) -> Cells:
        return np.searchsorted(self.ends, x)

    def describe(self, cell: int) -> str:
        if cell in {0, len(self.ends)}:
            return f"a number {'up to' if cell == 0 else 'above'} {self.ends[min(cell, len(self.ends) - 1)]:.4g}"
        return f"a number above {self.ends[cell - 1]:.4g} and up to {self.ends[cell]:.4g}"


def bit_features(x: FloatArray) -> list[BitFeature]:
    """Return the features of one column of outputs, whose ranges are chosen from pilot draws of both datasets."""
    found: list[BitFeature] = []
    significand, last = significands(x)
    some = significand > 0
    if some.any():
        top = int((last[some] + _MANTISSA).max()) + 1
        lowest = int((last + trailing_zeros(significand))[some].min())
        found += [TrailingZeros(top=top), LastBits(top=top), LowestBit(base=max(lowest, top - 240) - 8)]
        found += [Residue(exponent=exponent) for exponent in range(max(lowest, top - 64), top, 8)]
    found.append(Size(ends=np.unique(np.quantile(x, np.linspace(0.0, 1.0, _QUANTILES), method="lower"))))
    values, counts = np.unique(x, return_counts=True)
    often = np.argsort(-counts, kind="stable")[: min(_MOST_VALUES, int((counts > 1).sum()))]
    return [*found, RepeatedValues(values=np.sort(values[often]))] if len(often) else found


def _binade(exponent: int, below: int) -> str:
    """Describe the numbers with an exponent; the last cell holds all smaller ones."""
    if below == _EXPONENTS - 1:
        return f"of size below 2^{exponent + 1}"
    return f"of size 2^{exponent} to 2^{exponent + 1}"

"""Statistics that contain the number of records, for releases where that number is private. docs/notes/statistics.md.

A sum of records between two bounds is released as two totals: of the distances of the records to the upper and to the
lower bound. Every record adds the width of the bounds to the two together, so that no part of the sensitivity is
unused.
"""

import math
from abc import ABC, abstractmethod
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privsample._checks import FloatArray
from privsample._value import Memo, cached, frozen_value
from privsample.distributions.exact.rational import ExactStatistic
from privsample.distributions.record_sensitivity import RecordSensitivity

_LARGEST = 2**61  # totals below it are computed in 64 bits


class SizedStatistic(Memo, ABC):
    """A linear map of the model's statistic and of the number of records, from which both follow."""

    __slots__ = ()

    @property
    @abstractmethod
    def labels(self) -> tuple[str, ...]:
        """The name of each coordinate."""

    @property
    @abstractmethod
    def axis(self) -> str:
        """The name of the axis."""

    @property
    @abstractmethod
    def shape(self) -> tuple[int, ...]:
        """The shape of the coordinates."""

    @property
    @abstractmethod
    def sensitivity(self) -> RecordSensitivity:
        """What one record adds."""

    @abstractmethod
    def exact(self, statistic: ExactStatistic, n: int) -> ExactStatistic:
        """The coordinates, from the model's exact statistic of n records."""

    @abstractmethod
    def indices(self, sums: NDArray[Any], counts: NDArray[np.int64], unit: Fraction) -> NDArray[Any]:
        """The coordinates of many groups in multiples of `unit`, from integers of tallies of shape (groups, k)."""

    @abstractmethod
    def parts(self, values: FloatArray) -> tuple[FloatArray, FloatArray]:
        """The model's statistic and the number of records, from coordinates along the last axis."""

    def of(self, statistic: FloatArray, n: int) -> FloatArray:
        """The coordinates in floating-point numbers."""
        return np.array([float(one) for one in self.exact(tuple(map(Fraction, np.ravel(statistic).tolist())), n)])

    def nearest(self, values: FloatArray) -> tuple[FloatArray, float]:
        """A feasible statistic and number of records near noisy coordinates: negative ones become 0."""
        statistic, n = self.parts(np.maximum(values, 0.0))
        return statistic, float(n)


@frozen_value
class BoundTotals(SizedStatistic):
    """The totals of (high - x) and of (x - low) over all records x, for a model whose statistic is the sum.

    Of zeros and ones, these are the number of zeros and the number of ones. A record at a bound adds to one total only,
    that with the name of the bound. `low` and `high` are the bounds after rounding to the grid.
    """

    low: Fraction
    high: Fraction
    labels: tuple[str, str]
    integer_valued: bool

    @property
    def axis(self) -> str:
        """The name "bound"."""
        return "bound"

    @property
    def shape(self) -> tuple[int, ...]:
        """Two totals."""
        return (2,)

    @cached
    def sensitivity(self) -> RecordSensitivity:
        """A record at a bound; of integers, also the record next to it."""
        exact = self.high - self.low
        width = float(exact)
        width = width if Fraction(width) >= exact else math.nextafter(width, math.inf)
        rows = [[width, 0.0], [width - 1, 1.0]] if self.integer_valued else [[width]]
        return RecordSensitivity(differences=np.array(rows), integer_valued=self.integer_valued)

    def exact(self, statistic: ExactStatistic, n: int) -> ExactStatistic:
        """The totals, from the sum."""
        (total,) = statistic
        return n * self.high - total, total - n * self.low

    def indices(self, sums: NDArray[Any], counts: NDArray[np.int64], unit: Fraction) -> NDArray[Any]:
        """The totals of each group, as whole numbers of any size where 64 bits do not suffice."""
        low, high = int(self.low / unit), int(self.high / unit)
        largest = max(abs(low), abs(high)) * int(counts.max(initial=0))
        narrow = sums.dtype != object and largest + int(np.abs(sums).max(initial=0)) < _LARGEST
        total, n = (array.astype(np.int64 if narrow else object) for array in (sums[:, 0], counts))
        return np.stack([n * high - total, total - n * low], axis=1)

    def parts(self, values: FloatArray) -> tuple[FloatArray, FloatArray]:
        """The sum and the number of records."""
        below, above = np.moveaxis(np.asarray(values, dtype=np.float64), -1, 0)
        low, high = float(self.low), float(self.high)
        first, second = below / (high - low), above / (high - low)  # divided first, so that no product overflows
        return low * first + high * second, first + second


@frozen_value
class CodeCounts(SizedStatistic):
    """The counts of all codes, which are the model's statistic, and whose sum is the number of records."""

    codes: int
    axis: str
    labels: tuple[str, ...]

    @property
    def shape(self) -> tuple[int, ...]:
        """One count for each code."""
        return (self.codes,)

    @property
    def sensitivity(self) -> RecordSensitivity:
        """One count increases by 1."""
        return RecordSensitivity(differences=np.ones((1, 1)), integer_valued=True)

    def exact(self, statistic: ExactStatistic, n: int) -> ExactStatistic:
        """The counts themselves."""
        del n
        return statistic

    def indices(self, sums: NDArray[Any], counts: NDArray[np.int64], unit: Fraction) -> NDArray[Any]:
        """The counts themselves."""
        del counts, unit
        return sums

    def parts(self, values: FloatArray) -> tuple[FloatArray, FloatArray]:
        """The counts and their sum."""
        return np.asarray(values), np.asarray(values).sum(axis=-1)

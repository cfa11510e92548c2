"""Noise on an exact statistic: both are multiples of the pitch of a public grid, and are added as integers."""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from fractions import Fraction

import numpy as np

from privsample._checks import FloatArray, flag
from privsample._value import cached, set_fields
from privsample.accounting.assumptions import Assumption
from privsample.distributions.exact.grid import Grid
from privsample.distributions.exact.records import points
from privsample.distributions.noise import Noise
from privsample.mechanisms.base import Mechanism

_LARGEST = 2**61  # indices whose sums fit in 64 bits


class ExactNoise(Mechanism):
    """Base class of mechanisms that add noise exactly, on a public grid, if `exact` is True.

    Records are rounded to the grid inside their bounds and added as integers. round(s + Z) = s + round(Z) for a point s
    of the grid, so that a release is the rounded release of the ideal mechanism (docs/notes/exact_noise.md, step 9).
    """

    __slots__ = ()
    exact: bool
    grid: float | None

    @abstractmethod
    def _exact_grid(self) -> Grid | None:
        """The grid of the statistic, from `grid` or by default; None if the statistic is not known exactly."""

    @property
    @abstractmethod
    def _released_name(self) -> str:
        """The name under which the noisy statistic is released."""

    def _check_exact(self) -> None:
        """Check and store `exact` and `grid`. Raises TypeError, ValueError."""
        set_fields(self, exact=flag(exact=self.exact))
        if self.grid is None:
            return
        if not self.exact:
            raise ValueError(
                f"grid must be None with exact=False: only exact draws are rounded to a grid, got {self.grid!r}"
            )
        set_fields(self, grid=Grid(pitch=self.grid).pitch)

    @cached
    def pitch(self) -> float | None:
        """The distance of the points on which records, noise and draws lie, a power of two; None if not `exact`."""
        grid = self._exact_grid() if self.exact else None
        return None if grid is None else grid.pitch

    @property
    def _grid(self) -> Mapping[str, float] | None:
        return None if self.pitch is None else {self._released_name: self.pitch}

    @property
    def _assumptions(self) -> frozenset[Assumption]:
        """What the account of the draws assumes."""
        return frozenset({Assumption.IDEAL_REALS} if self.pitch is None else ())


def noisy_points(
    statistic: Sequence[Fraction], shape: tuple[int, ...], noise: Noise, grid: Grid, rng: np.random.Generator
) -> FloatArray:
    """An exact statistic plus independent exact noise on each number, on the grid, as doubles.

    shape: that of the result; its last axes are the statistic, in one row. The sum of an index of the statistic and of
    the noise is exact, and converting it to the nearest double is post-processing.
    """
    pitch = Fraction(grid.pitch)
    indices = [number / pitch for number in statistic]
    assert all(index.denominator == 1 for index in indices)
    whole = [index.numerator for index in indices]
    drawn = noise.sample_indices(grid, (int(np.prod(shape)) // max(len(whole), 1), len(whole)), rng)
    fits = drawn.dtype != object and int(np.abs(drawn).max(initial=0)) < _LARGEST
    narrow = fits and all(abs(index) < _LARGEST for index in whole)
    own = np.array(whole, dtype=np.int64 if narrow else object)
    return points(own + (drawn if narrow else drawn.astype(object)), grid).reshape(shape)

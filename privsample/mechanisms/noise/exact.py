"""Noise on an exact statistic: both are multiples of the pitch of a public grid, and are added as integers."""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from fractions import Fraction
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privsample._checks import FloatArray, flag
from privsample._value import cached, set_fields
from privsample.accounting.assumptions import Assumption
from privsample.distributions.exact.grid import Grid
from privsample.distributions.exact.records import grid_indices, points
from privsample.distributions.noise import Noise
from privsample.mechanisms.base import Draws, Mechanism

_LARGEST = 2**61  # indices whose sums fit in 64 bits
_COARSEST = 2.0**-30  # of the noise's scale: a coarser grid is more than the rounding of floating-point numbers


class ExactNoise(Mechanism):
    """Base class of mechanisms that add noise exactly, on a public grid, if `exact` is True.

    Records are rounded to the grid inside their bounds and added as integers. round(s + Z) = s + round(Z) for a point s
    of the grid, so that a release is the rounded release of the ideal mechanism (docs/notes/exact_noise.md, step 9).
    """

    __slots__ = ()
    exact: bool
    grid: float | None
    draws: int

    @property
    def _statistic_shape(self) -> tuple[int, ...]:
        """The shape of one noisy copy of the statistic."""
        return ()

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

    @property
    def _integer_statistic(self) -> bool:
        """Whether the statistic is integer-valued, so that the integers of a tally are the statistic itself."""
        return False

    @property
    def _unit(self) -> float:
        """The distance of two integers of a tally, in the unit of the statistic. Raises TypeError if not `exact`."""
        if self.pitch is None:
            raise TypeError(self._why_no_tally)
        return 1.0 if self._integer_statistic else self.pitch

    def _check_size(self, count: int) -> None:
        """Check the number of records, if it is public. Raises SchemaError."""

    @property
    def _tally_width(self) -> int:
        return prod(self._statistic_shape)

    def _from_integers(self, sums: tuple[int, ...], count: int) -> tuple[Fraction, ...]:
        unit = Fraction(self._unit)
        self._check_size(count)
        return tuple(each * unit for each in sums)

    def _draw_groups(self, sums: NDArray[Any], counts: NDArray[np.int64], rng: np.random.Generator) -> Draws:
        del counts  # the noise does not depend on them
        unit, noise = self._unit, self._noise_distribution
        assert self.pitch is not None
        assert noise is not None
        steps = int(unit / self.pitch)
        noisy = noisy_groups(sums, steps, self.draws, noise, Grid(pitch=self.pitch), rng)
        return {self._released_name: noisy.reshape(*noisy.shape[:2], *self._statistic_shape)}

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


def check_fine_grid(base: ExactNoise, scale: float, *, step: str) -> None:
    """Refuse a base whose noise was rounded so coarsely that the account of a further step does not hold.

    The theorems on noise after noise are about the unrounded sum of statistic and noise. On a grid that is fine
    relative to the noise this is the assumption IDEAL_REALS; on a coarse one the result is less private than the
    account says (docs/notes/postprocessing.md). Raises: ValueError.
    """
    if base.pitch is not None and not base.pitch <= _COARSEST * scale:
        raise ValueError(
            f"grid must be at most 2^-30 of the noise's scale {scale:g} in the base of {step}, got {base.pitch:g}: "
            "the account is that of noise before it is rounded; leave grid out, or set exact=False"
        )


def noisy_points(
    statistic: Sequence[Fraction], shape: tuple[int, ...], noise: Noise, grid: Grid, rng: np.random.Generator
) -> FloatArray:
    """An exact statistic plus independent exact noise on each number, on the grid, as doubles.

    shape: that of the result; its last axes are the statistic, in one row.
    """
    whole = np.array([grid_indices(statistic, grid.pitch)], dtype=object)
    draws = int(np.prod(shape)) // max(whole.size, 1)
    return noisy_groups(whole, 1, draws, noise, grid, rng).reshape(shape)


def noisy_groups(
    integers: NDArray[Any], steps: int, draws: int, noise: Noise, grid: Grid, rng: np.random.Generator
) -> FloatArray:
    """Integers of many groups, shape (groups, k), plus independent exact noise, as doubles, shape (draws, groups, k).

    steps: the distance of two integers in pitches of the grid. The sum of an index of the statistic and of the noise is
    exact, and converting it to the nearest double is post-processing.
    """
    drawn = noise.sample_indices(grid, (draws, *integers.shape), rng)
    narrow = (
        drawn.dtype != object
        and max(-int(drawn.min(initial=0)), int(drawn.max(initial=0))) < _LARGEST
        and max(-int(integers.min(initial=0)), int(integers.max(initial=0))) * steps < _LARGEST
    )
    kind: Any = np.int64 if narrow else object
    return points(integers.astype(kind) * steps + drawn.astype(kind, copy=False), grid)

"""Posterior draws that are exact: rational parameters, an exact statistic, and a public grid."""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privsample._checks import FloatArray, flag
from privsample._value import cached, set_fields
from privsample.accounting.assumptions import Assumption
from privsample.distributions.exact.gammas import LARGEST_SHAPE
from privsample.distributions.exact.grid import Grid
from privsample.distributions.exact.rational import ExactStatistic, RationalDistribution
from privsample.distributions.exact.records import grid_indices
from privsample.distributions.parametric.conjugate import PosteriorDistribution
from privsample.distributions.parametric.grouped import GroupedPosterior
from privsample.mechanisms.base import Draws, Mechanism
from privsample.mechanisms.posterior.column import ConjugateMechanism
from privsample.mechanisms.tallies.rule import RecordRule, record_rule

_FINEST = 2.0**20  # the pitch is at most 2^-20 of the smallest standard deviation
_SCALES = (2.0**-890, 2.0**890)  # public scales that grids have
_CROWDED = Fraction(1, 20)  # below this shape parameter, many draws are smaller than any fixed pitch


class ExactDraws(ConjugateMechanism):
    """Base class of mechanisms that draw from a posterior exactly, rounded to a public grid, if `exact` is True.

    A mechanism whose model has no exact posterior draws floating-point numbers: its `exact` becomes False.
    """

    __slots__ = ()
    exact: bool = False
    grid: float | None = None

    @abstractmethod
    def _posterior_in_doubles(self, statistic: FloatArray, n: int) -> PosteriorDistribution:
        """The distribution of one draw given n records, before truncation, with rounded parameters."""

    @abstractmethod
    def _exact_distribution(self, statistic: ExactStatistic, n: int) -> RationalDistribution:
        """The distribution of one draw, given the exact statistic of n records."""

    @property
    def _parameter_bounds(self) -> tuple[float, float] | None:
        """The public bounds of the parameter; None without truncation."""
        return None

    def _check_exact(self) -> None:
        """Check and store `exact` and `grid`. Raises TypeError, ValueError."""
        exact = flag(exact=self.exact) and self.model.has_exact_posterior
        set_fields(self, exact=exact)
        if exact:
            self._check_extremes()
        if self.grid is None:
            return
        if not exact:
            why = (
                "exact=False"
                if self.model.has_exact_posterior
                else f"a {type(self.model).__name__} model, which does not define exact_posterior or an exact sum"
            )
            raise ValueError(f"grid must be None with {why}: only exact draws are rounded to a grid, got {self.grid!r}")
        set_fields(self, grid=self._rounding_to(self.grid).pitch)

    def _check_extremes(self) -> None:
        """Check that no data make a release fail. Raises ValueError.

        The parameters increase or decrease with the statistic, so that the extreme ones have the extreme parameters.
        """
        if not np.isfinite(self._extremes(self.n)).all():
            return  # refused as a sum that overflows
        extremes = self._exact_extremes(self.n)
        if not max((shape for one in extremes for shape in one.shapes), default=0) <= LARGEST_SHAPE:
            self.accountant  # noqa: B018 - its own errors about the fields come first
            raise ValueError(
                "the shape parameters of the posterior must be at most 2^200 for exact draws, and can be larger here; "
                "lower the prior or its weight, or set exact=False"
            )
        try:
            for distribution in extremes:
                distribution.sampler()
        except ValueError as error:
            raise ValueError(
                f"the posterior cannot be drawn exactly for all records: {error}; measure the data in another unit, "
                "lower the prior, or set exact=False"
            ) from None
        if self.grid is None and self._rounding is not None:
            try:
                self._rounding_to(self._rounding.pitch)  # samples of the records are drawn on the same grid
            except ValueError:
                raise ValueError(
                    f"the posterior of n = {self.n} records must not be narrower than 2^-180 of the prior for exact "
                    f"draws, got the pitch {self._rounding.pitch!r} by default; set a larger grid, or exact=False"
                ) from None

    @cached
    def _rounding(self) -> Grid | None:
        """The public grid to which draws are rounded; None if `exact` is False.

        The default pitch is 2^-40 of the parameter's public scale: 1 for proportions, otherwise the largest size of the
        posterior mean for any records. It is at most 2^-20 of the smallest standard deviation of the posterior. Where a
        shape parameter can be below 0.05, cells are relative: numbers keep 40 significant bits.
        """
        return self._rounding_to(self.grid) if self.exact else None

    def _rounding_to(self, pitch: float | None) -> Grid:
        """The grid with this pitch, or with the default. Raises ValueError.

        Whether cells are relative, and whether a given pitch is refused, does not depend on the number of records: it
        follows from one record and from the prior. The size of a sample is secret, and must not decide it.
        """
        low, high = self._parameter_bounds or self._support
        relative = self._parameter_bounds is None and min(self._shapes(1), default=_CROWDED) < _CROWDED
        scale = self._scale([self.model.empty], 0) if pitch is not None else self._scale(self._extremes(self.n), self.n)
        return Grid.of_scale(scale, grid=pitch, low=low, high=high, relative=relative)

    def _scale(self, statistics: Sequence[FloatArray], n: int) -> float:
        """The public scale of the parameter given any of these statistics of n records."""
        found = [self._posterior_in_doubles(statistic, n) for statistic in statistics]
        with np.errstate(all="ignore"):
            deviation = min(float(np.sqrt(one.variance.min())) for one in found)
            largest = max(float(np.abs(one.mean).max()) for one in found)
        if self._parameter_bounds is not None:
            low, high = self._parameter_bounds
            deviation, largest = min(deviation, high - low), max(abs(low), abs(high))
        scale = 1.0 if self._support == (0.0, 1.0) else max(largest, deviation)
        return float(np.clip(min(scale, _FINEST * deviation), *_SCALES))

    def _extremes(self, n: int) -> list[FloatArray]:
        """The statistics of n equal extreme records: among them is the narrowest posterior."""
        extremes = {record for records in self.model.extreme_records for record in records}
        with np.errstate(over="ignore"):
            return [n * self.model.statistic(np.array([record])) for record in sorted(extremes)]

    def _shapes(self, n: int) -> list[Fraction]:
        """The shape parameters given n equal extreme records."""
        return [shape for one in self._exact_extremes(n) for shape in one.shapes]

    def _exact_extremes(self, n: int) -> list[RationalDistribution]:
        """The distributions of a draw given n equal extreme records."""
        fractions = (tuple(map(Fraction, statistic.ravel().tolist())) for statistic in self._extremes(n))
        return [self._exact_distribution(each, n) for each in fractions]

    @cached
    def _support(self) -> tuple[float, float]:
        """The possible values of the parameter without truncation."""
        nothing = (Fraction(0),) * self.model.empty.size
        return self._exact_distribution(nothing, 0).support

    @property
    def _grid(self) -> Mapping[str, float] | None:
        return None if self._rounding is None else {self.parameter: self._rounding.pitch}

    @property
    def _grid_text(self) -> str:
        if self._rounding is not None and self._rounding.relative:
            return f"{self.parameter} to {1 - self._rounding.exponent} significant bits"
        return super()._grid_text

    @property
    def _assumptions(self) -> frozenset[Assumption]:
        """What the account of the draws assumes."""
        return frozenset() if self.exact else frozenset({Assumption.IDEAL_REALS})

    @cached
    def _unit(self) -> float | None:
        """The distance of two integers of a tally, in the unit of the statistic; None if the statistic is not exact.

        A statistic that is known exactly is computed exactly, even if draws are floating-point numbers.
        """
        try:
            grid = self._statistic_grid()
        except (ValueError, OverflowError):  # of bounds that exact draws would refuse
            grid = None
        return None if grid is None else grid.pitch

    def _statistic_grid(self) -> Grid | None:
        """The grid of the records; None if the statistic has no exact sum."""
        return self.model.statistic_grid()

    def _summary(self, data: Any) -> tuple[Any, int]:
        if self._unit is None:
            return super()._summary(data)
        sums, count = self._integers(data)
        return self._statistic_of(sums, count), count

    def _integers(self, data: Any) -> tuple[tuple[int, ...], int]:
        if self._unit is None:
            raise TypeError(self._why_no_tally)
        statistic, count = self.model.exact_summarize(data)
        return grid_indices(statistic, self._unit), count

    @property
    def _tally_width(self) -> int:
        return self.model.empty.size

    def _from_integers(self, sums: tuple[int, ...], count: int) -> Any:
        if self._unit is None:
            raise TypeError(self._why_no_tally)
        self._check_size(count)
        return self._statistic_of(sums, count)

    def _statistic_of(self, sums: tuple[int, ...], count: int) -> Any:
        """The statistic of `count` records, from its integers: fractions for exact draws, otherwise doubles."""
        exact = self._exact_statistic(sums, count)
        return exact if self.exact else np.array(list(map(float, exact))).reshape(self.model.empty.shape)

    def _exact_statistic(self, sums: tuple[int, ...], count: int) -> ExactStatistic:
        """The statistic of `count` records as fractions."""
        del count
        assert self._unit is not None
        unit = Fraction(self._unit)
        return tuple(each * unit for each in sums)

    def _draw_groups(self, sums: NDArray[Any], counts: NDArray[np.int64], rng: np.random.Generator) -> Draws:
        if self._rounding is None:
            sizes = counts.astype(np.float64)
            grouped = self._grouped_posterior(self._statistics_in_doubles(sums, sizes), sizes)
            if grouped is None:
                return super()._draw_groups(sums, counts, rng)
            return {self.parameter: grouped.sample(self.draws, rng)}
        drawn = [
            self._exact_distribution(self._exact_statistic(tuple(row), n), n).sample(self.draws, self._rounding, rng)
            for row, n in zip(sums.tolist(), counts.tolist(), strict=True)
        ]
        return {self.parameter: np.stack(drawn, axis=1)}

    def _statistics_in_doubles(self, sums: NDArray[Any], sizes: FloatArray) -> FloatArray:
        """The statistics of many groups of these sizes, shape (groups, ...)."""
        del sizes
        assert self._unit is not None
        return (sums.astype(np.float64) * self._unit).reshape(-1, *self.model.empty.shape)

    def _grouped_posterior(self, statistics: FloatArray, sizes: FloatArray) -> GroupedPosterior | None:
        """The distributions of one draw for many groups; None, the default, if they are computed one by one."""
        del statistics, sizes
        return None

    @property
    def _record_rule(self) -> RecordRule | None:
        return None if self._unit is None else record_rule(self.model)

    def _draw(self, statistic: Any, rng: np.random.Generator) -> Draws:
        if self._rounding is None:
            return super()._draw(statistic, rng)
        return {self.parameter: self._exact_distribution(statistic, self.n).sample(self.draws, self._rounding, rng)}

    def for_size(self, size: int) -> "Mechanism":
        """The same mechanism for another number of records, on the same grid.

        A default grid depends on n. A sample's size is secret, so the grid must not change with it.

        Parameters
        ----------
        size : int
            Number of records, >= 1.

        Returns
        -------
        Mechanism
            The mechanism for `size` records.
        """
        fixed: Any = self
        if self._rounding is not None:
            fixed = replace(fixed, grid=self._rounding.pitch)
        return Mechanism.for_size(fixed, size)

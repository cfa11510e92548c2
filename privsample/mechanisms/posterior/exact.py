"""Posterior draws that are exact: rational parameters, an exact statistic, and a public grid."""

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np

from privsample._checks import FloatArray, flag
from privsample._value import cached, set_fields
from privsample.accounting.assumptions import Assumption
from privsample.distributions.exact.grid import Grid
from privsample.distributions.parametric.conjugate import PosteriorDistribution
from privsample.distributions.parametric.rational import ExactStatistic, RationalDistribution
from privsample.mechanisms.base import Draws, Mechanism
from privsample.mechanisms.posterior.column import ConjugateMechanism

_FINEST = 2.0**20  # the pitch is at most 2^-20 of the smallest standard deviation
_SCALES = (1e-290, 1e290)  # the default pitch of any scale between is a power of two that a double holds


class ExactDraws(ConjugateMechanism):
    """Base class of mechanisms that draw from a posterior exactly, rounded to a public grid, if `exact` is True.

    A mechanism whose model has no exact posterior draws floating-point numbers: its `exact` becomes False.
    """

    __slots__ = ()
    exact: bool
    grid: float | None

    @abstractmethod
    def _posterior_in_doubles(self, statistic: FloatArray) -> PosteriorDistribution:
        """The distribution of one draw before truncation, with rounded parameters: for the scale of the grid."""

    @abstractmethod
    def _exact_distribution(self, statistic: ExactStatistic) -> RationalDistribution:
        """The distribution of one draw, given the exact statistic."""

    @property
    def _parameter_bounds(self) -> tuple[float, float] | None:
        """The public bounds of the parameter; None without truncation."""
        return None

    def _check_exact(self) -> None:
        """Check and store `exact` and `grid`. Raises TypeError, ValueError."""
        exact = flag(exact=self.exact) and self.model.has_exact_posterior
        set_fields(self, exact=exact)
        if self.grid is None:
            return
        if not exact:
            why = (
                "exact=False"
                if self.model.has_exact_posterior
                else f"a {type(self.model).__name__} model, which does not define exact_posterior"
            )
            raise ValueError(f"grid must be None with {why}: only exact draws are rounded to a grid, got {self.grid!r}")
        set_fields(self, grid=Grid(pitch=self.grid).pitch)
        low, high = self._parameter_bounds or self._support
        if not self.grid <= (high - low) / 2:
            raise ValueError(
                f"grid must be at most {(high - low) / 2:g}, half of the interval of {self.parameter}, got "
                f"{self.grid:g}: a smaller power of two, such as the default, keeps more of each draw"
            )

    @cached
    def _support(self) -> tuple[float, float]:
        """The possible values of the parameter without truncation."""
        nothing = (Fraction(0),) * self.model.empty.size
        return self._exact_distribution(nothing).support

    @cached
    def pitch(self) -> float | None:
        """The distance of the grid points to which draws are rounded, a power of two; None if `exact` is False.

        The default is 2^-40 of the parameter's public scale: 1 for proportions, otherwise the largest size of the
        posterior mean for any records; and at most 2^-20 of the smallest standard deviation of the posterior.
        """
        if not self.exact:
            return None
        if self.grid is not None:
            return self.grid
        extremes = {record for records in self.model.extreme_records for record in records}
        statistics = [self.n * self.model.statistic(np.array([record])) for record in sorted(extremes)]
        found = [self._posterior_in_doubles(statistic) for statistic in statistics]
        with np.errstate(all="ignore"):
            deviation = min(float(np.sqrt(one.variance.min())) for one in found)
            largest = max(float(np.abs(one.mean).max()) for one in found)
        if self._parameter_bounds is not None:
            low, high = self._parameter_bounds
            deviation, largest = min(deviation, high - low), max(abs(low), abs(high))
        scale = 1.0 if self._support == (0.0, 1.0) else max(largest, deviation)
        return Grid.of_scale(float(np.clip(min(scale, _FINEST * deviation), *_SCALES))).pitch

    @property
    def _grid(self) -> Mapping[str, float] | None:
        return None if self.pitch is None else {self.parameter: self.pitch}

    @property
    def _assumptions(self) -> frozenset[Assumption]:
        """What the account of the draws assumes."""
        return frozenset() if self.exact else frozenset({Assumption.IDEAL_REALS})

    def _summary(self, data: Any) -> tuple[Any, int]:
        return self._exact_summary(data) if self.exact else super()._summary(data)

    def _exact_summary(self, data: Any) -> tuple[ExactStatistic, int]:
        """The exact statistic and the number of records."""
        return self.model.exact_summarize(data)

    def _draw(self, statistic: Any, rng: np.random.Generator) -> Draws:
        if self.pitch is None:
            return super()._draw(statistic, rng)
        distribution = self._exact_distribution(statistic)
        return {self.parameter: distribution.sample(self.draws, Grid(pitch=self.pitch), rng)}

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
        return Mechanism.for_size(replace(fixed, grid=self.pitch), size)

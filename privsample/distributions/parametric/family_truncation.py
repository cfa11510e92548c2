"""Members of an exponential family of one's own between public bounds of the parameter."""

from collections.abc import Callable
from typing import Any

import numpy as np

from privsample._checks import FloatArray, function
from privsample._value import frozen_value
from privsample.distributions.parametric.truncated import TruncatedDistribution
from privsample.errors import NumericalFailure


@frozen_value
class FamilyTruncation:
    """How an exponential family of your own is restricted to public bounds of its parameter theta.

    A tempered posterior has the density e^(T(theta) . eta / temperature), with respect to the base measure of the
    family, where every coordinate of theta lies in [low, high]. Neither function can be proven right, so that accounts
    have the assumption STATED.

    Parameters
    ----------
    sampler : callable
        Maps (natural parameter of shape (k,), low, high, size, generator) to independent draws of theta with the
        density e^(T(theta) . eta) between the bounds, shape (size,) or (size, length). Draws are clipped to the bounds.
    statistic_bounds : callable
        Maps (low, high) to the smallest and the largest value of each coordinate of T(theta) between the bounds: two
        arrays of shape (k,).

    Raises
    ------
    TypeError
        If a field is not a function.

    Notes
    -----
    Geumlek 2020, section 4.2, Theorems 2 and 3; docs/notes/tempered.md, section 7.

    Examples
    --------
    The normal distributions of variance 1 by their quantile function; T(theta) = theta increases:

    >>> import numpy as np
    >>> from scipy import special
    >>> import privsample as ps
    >>> def draw(eta, low, high, size, rng):
    ...     ends = special.ndtr([low - eta[0], high - eta[0]])
    ...     return eta[0] + special.ndtri(rng.uniform(*ends, size))
    >>> truncation = ps.FamilyTruncation(
    ...     sampler=draw, statistic_bounds=lambda low, high: (np.array([low]), np.array([high]))
    ... )
    >>> truncation.widths(-1.0, 3.0, 1).tolist()
    [4.0]
    """

    sampler: Callable[[FloatArray, float, float, int, np.random.Generator], Any]
    statistic_bounds: Callable[[float, float], Any]

    def __post_init__(self) -> None:
        function(sampler=self.sampler), function(statistic_bounds=self.statistic_bounds)

    def widths(self, low: float, high: float, size: int) -> FloatArray:
        """The widths of the ranges of the coordinates of T(theta) between bounds.

        Parameters
        ----------
        low, high : float
            Public bounds of the parameter, low < high.
        size : int
            Number k of coordinates.

        Returns
        -------
        array of shape (k,)
            Largest minus smallest values, finite and >= 0.

        Raises
        ------
        TypeError
            If `statistic_bounds` returns another shape.
        ValueError
            If a bound is not finite, or the largest value is below the smallest.
        """
        found = np.asarray(self.statistic_bounds(low, high), dtype=np.float64)
        if found.shape != (2, size):
            raise TypeError(f"statistic_bounds must return two arrays of shape ({size},), got shape {found.shape}")
        least, most = found
        if not (np.isfinite(found).all() and (most >= least).all()):
            raise ValueError(
                f"statistic_bounds must be finite with the smallest values first, got {least.tolist()} and "
                f"{most.tolist()} for the bounds ({low:g}, {high:g})"
            )
        return most - least


@frozen_value
class TruncatedNatural(TruncatedDistribution):
    """A member of a family between bounds, drawn by the sampler that its author states.

    `natural` is the natural parameter, shape (k,); `parameter_statistic` is T.
    """

    natural: FloatArray
    low: float
    high: float
    truncation: FamilyTruncation
    parameter_statistic: Callable[[FloatArray], Any]

    def log_density(self, x: FloatArray) -> FloatArray:
        """Log density up to a constant with respect to the base measure, shape (draws, ...) to (draws,)."""
        inside = ((x >= self.low) & (x <= self.high)).reshape(len(x), -1).all(axis=1)
        statistics = np.asarray(self.parameter_statistic(np.clip(x, self.low, self.high)), dtype=np.float64)
        return np.where(inside, statistics @ self.natural, -np.inf)

    def sample(self, size: int, rng: np.random.Generator) -> FloatArray:
        """Independent draws, clipped to the bounds. Raises NumericalFailure if a draw is not a number."""
        found = np.asarray(self.truncation.sampler(self.natural, self.low, self.high, size, rng), dtype=np.float64)
        if found.shape[:1] != (size,):
            raise TypeError(f"sampler must return {size} draws along the first axis, got shape {found.shape}")
        if np.isnan(found).any():
            raise NumericalFailure("sampler returned a value that is not a number, so nothing is released")
        return np.clip(found, self.low, self.high)

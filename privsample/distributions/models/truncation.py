"""Public bounds on the parameter of a model, and the range of the log likelihood ratio within them."""

from typing import NamedTuple, Self

import numpy as np

from privsample._checks import interval, number, positive

Truncation = float | tuple[float, float]
_SHIFT_OF_RANGE = float(np.sqrt(np.pi / 2.0)) * (1.0 + 2.0**-50)
_NARROWEST = 1e-9  # the remaining share must have more correct digits than rounding removes


class LogRatio(NamedTuple):
    """Bounds on the log likelihood ratio of two records, as a function of the parameter within its bounds.

    Parameters
    ----------
    range : float
        Largest value minus smallest value, for the worst pair of records, in nats.
    slope : float
        Largest slope in a coordinate y of the parameter, for any two records.
    curvature : float
        Smallest curvature of the negative log density of y given n records, over the bounds and all data.
    stated : bool, default False
        True if the range is as the author of a model states it; accounts then have the assumption STATED.
    """

    range: float
    slope: float
    curvature: float
    stated: bool = False

    @classmethod
    def of_range(cls, range: float) -> Self:  # noqa: A002 - the name of the field
        """Bounds that follow from a stated range alone.

        A draw whose loss has a range of r nats is r-DP, hence mu-GDP with Phi(mu/2) = 1/(1 + e^-r), and mu <=
        sqrt(pi/2) r. So slope and curvature are chosen with the quotient slope/sqrt(curvature) = sqrt(pi/2) r
        (docs/notes/tempered.md, section 7).

        Parameters
        ----------
        range : float
            Largest value minus smallest value of the log likelihood ratio, over the parameters within the bounds and
            for the worst pair of records, in nats, finite and > 0.

        Returns
        -------
        LogRatio
            The bounds, with `stated` True.

        Raises
        ------
        ValueError
            If the range is not finite and > 0.

        Examples
        --------
        >>> from privsample.distributions.models.truncation import LogRatio
        >>> LogRatio.of_range(2.0).range
        2.0
        """
        checked = positive(range=range)
        return cls(range=checked, slope=checked * _SHIFT_OF_RANGE, curvature=1.0, stated=True)


def interval_truncation(truncation: object, *, positive: bool = False) -> tuple[float, float]:
    """Check bounds (low, high) of a number; if `positive`, 0 < low. Raises ValueError, TypeError."""
    low, high = interval(truncation=truncation)
    if positive and not low > 0.0:
        raise ValueError(f"truncation must lie inside (0, inf) for a rate, got ({low}, {high})")
    return low, high


def share_truncation(truncation: object, categories: int) -> float:
    """Check the smallest allowed proportion of any category. Raises ValueError, TypeError."""
    if isinstance(truncation, (tuple, list)):
        raise TypeError(
            "truncation must be one number for proportions, the smallest proportion of any category, "
            f"got {truncation!r}; the largest proportion follows from it"
        )
    share = number(truncation=truncation)
    if not _NARROWEST <= share <= (1.0 - _NARROWEST) / categories:
        raise ValueError(
            f"truncation must lie in (0, 1/{categories}), and {_NARROWEST:g} or more from its ends, got {truncation!r}"
        )
    return share


def share_bounds(least: float, categories: int) -> tuple[float, float]:
    """The smallest and the largest proportion; the largest is rounded down, so that all proportions can add up to 1."""
    rest = (categories - 1) * least
    high = 1.0 - rest
    return least, high if 1.0 - high >= rest else float(np.nextafter(high, 0.0))


def log_ratio(low: float, high: float) -> float:
    """log(high/low) with relative error of a few ulp, also for nearly equal bounds; +inf if low <= 0."""
    if not low > 0.0:
        return np.inf
    return float(np.log1p((high - low) / low) if high < 2.0 * low else np.log(high) - np.log(low))

"""Public bounds on a model's parameter: what they may be, and how far a log likelihood ratio ranges inside them."""

from typing import NamedTuple

import numpy as np

from privsample._checks import interval, number

Truncation = float | tuple[float, float]
_NARROWEST = 1e-9  # what is left beside a share must be known to more digits than rounding takes


class LogRatio(NamedTuple):
    """The log likelihood ratio of two records as a function of the parameter inside its bounds, at its farthest.

    Parameters
    ----------
    range : float
        The largest less the smallest value, for the two records for which this is largest.
    slope : float
        The largest slope in a coordinate y of the parameter, for any two records.
    curvature : float
        The least curvature of the negative log density of y after n records, over the bounds and all data.
    """

    range: float
    slope: float
    curvature: float


def interval_truncation(truncation: object, *, positive: bool = False) -> tuple[float, float]:
    """Checked bounds (low, high) of a number, of a positive one if `positive`. Raises: ValueError, TypeError."""
    low, high = interval(truncation=truncation)
    if positive and not low > 0.0:
        raise ValueError(f"truncation must lie inside (0, inf) for a rate, got ({low}, {high})")
    return low, high


def share_truncation(truncation: object, categories: int) -> float:
    """The checked least share of any of so many categories. Raises: ValueError, TypeError."""
    share = number(truncation=truncation)
    if not _NARROWEST <= share <= (1.0 - _NARROWEST) / categories:
        raise ValueError(
            f"truncation must lie in (0, 1/{categories}), and {_NARROWEST:g} or more from its ends, got {truncation!r}"
        )
    return share


def share_bounds(least: float, categories: int) -> tuple[float, float]:
    """The least share and the largest, which leaves no less than the least to each of the others."""
    rest = (categories - 1) * least
    high = 1.0 - rest
    return least, high if 1.0 - high >= rest else float(np.nextafter(high, 0.0))


def log_ratio(low: float, high: float) -> float:
    """log(high/low), to a few units in the last place however close they are; +inf where low is not above 0."""
    if not low > 0.0:
        return np.inf
    return float(np.log1p((high - low) / low) if high < 2.0 * low else np.log(high) - np.log(low))

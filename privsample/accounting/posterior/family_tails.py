"""Tail probabilities that a user states for a family, compared with each other and with the log normalizer.

Proof that correct tails pass: families.md, section 6, "Checks of the tails".
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from privsample._checks import FloatArray
from privsample._logspace import log1mexp
from privsample.distributions.parametric.natural import LogNormalizer
from privsample.errors import NumericalFailure

Tails = Callable[[FloatArray, FloatArray, FloatArray], tuple[FloatArray, FloatArray]]

_LEAST = -745.0  # logarithm of the smallest positive double: smaller tail probabilities are raised to it
_ULP = float(np.finfo(np.float64).eps)
# tilts of the compared distribution in standard deviations, and cells between three standard deviations on each side
_TILTS = ((1.0, 600), (-1.0, 600), (12.0, 300), (-12.0, 300))
_REACH, _WIDTH = 0.9, 3.0
_CANTELLI = 1.0 / (1.0 + _WIDTH**2)  # bounds the probability beyond so many standard deviations on one side
_SEEN, _TOLERANCE = np.log(1e-6), 1e-4  # cells of less mass are not compared; relative error of the others
_DEEPEST = -600.0  # logarithm of a probability below which nothing is compared
_SUM_TOLERANCE = 1e-9


def tail_logs(tails: Tails, natural: FloatArray, direction: FloatArray, y: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The logarithms of the lower and the upper tail at y, shape (rows,), between -745 and 0.

    Raises TypeError or NumericalFailure if the function does not return two arrays of numbers.
    """
    rule = f"log_tails must return two arrays of shape {y.shape}, the logarithms of the lower and of the upper tail"
    try:
        with np.errstate(all="ignore"):
            found: Any = tails(natural, direction, y)
    except Exception as error:  # the message may show values: the function is called at public ones only
        raise NumericalFailure(
            f"log_tails failed at {_readable(natural)}: {type(error).__name__}: {error}; no guarantee is stated"
        ) from error
    if not isinstance(found, (tuple, list, np.ndarray)) or len(found) != 2:
        raise TypeError(f"{rule}, got {type(found).__name__}")
    try:
        both = [np.asarray(one) for one in found]
        if any(one.dtype.kind not in "fiu" for one in both):
            raise TypeError
    except (TypeError, ValueError):
        raise TypeError(f"{rule}, got values that are no real numbers") from None
    for one in both:
        if one.shape != y.shape:
            raise TypeError(f"{rule}, got shape {one.shape}")
        if np.isnan(one).any():
            raise NumericalFailure("log_tails returned NaN, so no guarantee is stated")
        if (one > _SUM_TOLERANCE).any():
            raise ValueError(
                f"log_tails must return logarithms of probabilities, which are at most 0, got {float(one.max()):g} at "
                f"the natural parameter {_readable(natural)}; correct log_tails"
            )
    lower, upper = (np.clip(one.astype(np.float64), _LEAST, 0.0) for one in both)
    return lower, upper


def check_tails(normalizer: LogNormalizer, tails: Tails, natural: FloatArray, direction: FloatArray) -> None:
    """Compare the tails of direction . T(theta) at one natural parameter with those at tilted parameters.

    Exact tails of the family pass. Raises ValueError if they disagree.
    """
    _, spread = _moments(normalizer, natural, direction)
    if not 0.0 < spread < np.inf:
        return
    sides = np.stack([direction, -direction])
    reaches = normalizer.distances_to_boundary(np.stack([natural, natural]), sides).tolist()
    for size, cells in _TILTS:
        t = float(np.copysign(min(abs(size) / spread, _REACH * reaches[int(size < 0)]), size))
        tilted = natural + t * direction
        mean, deviation = _moments(normalizer, tilted, direction)
        if not (0.0 < deviation < np.inf and np.isfinite(mean)):
            continue
        y = mean + deviation * np.linspace(-_WIDTH, _WIDTH, cells + 1)
        here, there = (tail_logs(tails, each, direction, y) for each in (natural, tilted))
        for at, (lower, upper) in ((natural, here), (tilted, there)):
            _check_probabilities(at, direction, y, lower, upper)
        if max(there[0][0], there[1][-1]) > np.log(_CANTELLI) + _TOLERANCE:
            raise ValueError(_disagreement(tilted, direction, f"the mean is {mean:.6g}, the deviation {deviation:.6g}"))
        logs = normalizer.values(np.array([natural, tilted]))
        rise, error = float(logs[1] - logs[0]), _TOLERANCE + 1e3 * _ULP * float(np.abs(logs).sum())
        own, other = _cell_masses(*here), _cell_masses(*there)
        # On a cell the density of the tilted distribution is e^(t y - rise) times the other, so the masses are, too.
        ends = np.sort(np.stack([t * y[:-1], t * y[1:]]) - rise, axis=0)
        compared = (other > _SEEN) & (other - ends[1] > _DEEPEST)
        wrong = compared & ~((own >= other - ends[1] - error) & (own <= other - ends[0] + error))
        if wrong.any():
            j = int(np.argmax(wrong))
            raise ValueError(
                _disagreement(
                    natural,
                    direction,
                    f"from y = {y[j]:.6g} to {y[j + 1]:.6g} the probability has the logarithm {own[j]:.6g}, and by the "
                    f"normalizer it lies between {other[j] - ends[1][j]:.6g} and {other[j] - ends[0][j]:.6g}",
                )
            )


def _moments(normalizer: LogNormalizer, natural: FloatArray, direction: FloatArray) -> tuple[float, float]:
    """Mean and standard deviation of direction . T(theta)."""
    mean = float(normalizer.gradients(natural[None])[0] @ direction)
    return mean, float(np.sqrt(max(float(normalizer.variances(natural[None], direction[None])[0]), 0.0)))


def _check_probabilities(
    natural: FloatArray, direction: FloatArray, y: FloatArray, lower: FloatArray, upper: FloatArray
) -> None:
    """Raise ValueError unless both tails are monotone and add up to 1."""
    total = np.exp(lower) + np.exp(upper)
    if (wrong := np.abs(total - 1.0) > _SUM_TOLERANCE).any():
        j = int(np.argmax(wrong))
        raise ValueError(
            _disagreement(
                natural, direction, f"at y = {y[j]:.6g} the two probabilities add up to {total[j]:.9g}, not 1"
            )
        )
    if (np.diff(lower) < -_SUM_TOLERANCE).any() or (np.diff(upper) > _SUM_TOLERANCE).any():
        raise ValueError(
            _disagreement(natural, direction, "the lower tail must increase with y, and the upper tail decrease")
        )


def _cell_masses(lower: FloatArray, upper: FloatArray) -> FloatArray:
    """Logarithms of the probabilities between adjacent places, from the smaller of the two tails."""
    with np.errstate(divide="ignore"):
        right = upper[:-1] + log1mexp(np.minimum(upper[1:] - upper[:-1], 0.0))
        left = lower[1:] + log1mexp(np.minimum(lower[:-1] - lower[1:], 0.0))
    return np.where(upper[:-1] < lower[1:], right, left)


def _disagreement(natural: FloatArray, direction: FloatArray, found: str) -> str:
    return (
        f"log_tails disagree with the log normalizer at the natural parameter {_readable(natural)} in the direction "
        f"{_readable(direction)}: {found}; correct log_tails, which are the logarithms of P(direction . T <= y) and "
        "P(direction . T > y)"
    )


def _readable(natural: FloatArray) -> str:
    """A natural parameter in a message."""
    return "(" + ", ".join(f"{float(x):.6g}" for x in natural) + ")"

"""How many counts matter for a likelihood near its largest value, by which the exact one is chosen."""

import numpy as np

from privsample.interop.pymc_distributions import noise as noises

MASS_OUTSIDE = 1e-12  # probability that the noise, or the count, leaves the window
MAX_COUNTS = 1 << 14  # largest number of counts that are summed over near the largest density
_EXACT = 2.0**53  # floats represent all whole numbers up to here
_HOEFFDING = float(np.sqrt(np.log(2 / MASS_OUTSIDE) / 2))  # P(|X - np| > t sqrt(n)) <= 2 e^(-2 t^2)


def is_affordable(family: str, scale: float, most: float, copies: int) -> bool:
    """Return whether the counts that matter are few enough; unknown numbers (nan) are checked when they are known."""
    found = width(family, scale, copies)
    if np.isfinite(most):
        found = np.fmin(np.fmin(found, most + 1), 2 * np.ceil(_HOEFFDING * np.sqrt(most)) + 2)
    return not found > MAX_COUNTS and not (np.isfinite(most) and most >= _EXACT)


def width(family: str, scale: float, copies: int) -> float:
    """Return the number of counts in a window around noisy copies; nan if the scale is not known."""
    return float(2 * np.ceil(noises.reach(family, scale, MASS_OUTSIDE / copies)) + 2)

"""Log probabilities of consecutive counts, and the windows of counts over which a likelihood sums.

Log probabilities are computed as Loader (2000) does: deviance and Stirling error, so that the rounding errors of log
Gamma, 4e-3 at 1e12, do not enter. Other counts of a window follow by their ratios (docs/notes/moments.md, section 4).
"""

from typing import Any

import numpy as np
import pytensor.tensor as pt
from pytensor.gradient import disconnected_grad
from pytensor.raise_op import Assert

from privsample.interop.pymc_distributions import noise as noises

MASS_OUTSIDE = 1e-12  # probability that the noise, or the count, leaves the window
MAX_COUNTS = 1 << 14  # largest number of counts in a window
_EXACT = 2.0**53  # floats represent all whole numbers up to here
_HOEFFDING = float(np.sqrt(np.log(2 / MASS_OUTSIDE) / 2))  # P(|X - np| > t sqrt(n)) <= 2 e^(-2 t^2)
_SERIES = 256.0  # from here on, two terms of the series of the Stirling error suffice; the next is below 1e-15
_FAR = (
    "a window of more than 16384 counts is needed: the noise scale was replaced by a much larger one; build the model "
)
_FAR += "anew with these numbers"


def is_affordable(family: str, scale: float, most: float, copies: int) -> bool:
    """Return whether the counts that matter are few enough; unknown numbers (nan) are checked when they are known."""
    found = width(family, scale, copies)
    if np.isfinite(most):
        found = np.fmin(np.fmin(found, most + 1), 2 * np.ceil(_HOEFFDING * np.sqrt(most)) + 2)
    return not found > MAX_COUNTS and not (np.isfinite(most) and most >= _EXACT)


def width(family: str, scale: float, copies: int) -> float:
    """Return the number of counts in a window around noisy copies; nan if the scale is not known."""
    return float(2 * np.ceil(noises.reach(family, scale, MASS_OUTSIDE / copies)) + 2)


def window(value: Any, family: str, scale: Any, *, most: Any = None, centre: Any = None) -> Any:
    """Return consecutive counts, shape (..., width), that are compatible with noisy copies, shape (..., copies).

    They lie within the reach of the noise around the middle of the copies or, if there are fewer of them, within the
    reach of a binomial count around its mean `centre`. Either leaves out at most MASS_OUTSIDE. `most` is the largest
    count, shape (...).
    """
    copies = value.type.shape[-1]
    half = pt.ceil(noises.reach(family, scale, MASS_OUTSIDE / copies).max())
    middle = pt.floor((value.min(axis=-1) + value.max(axis=-1)) / 2)
    if most is None:
        size = _checked(2 * half + 2)
        start = pt.maximum(middle - half, 0)
    else:
        narrow = pt.ceil(_HOEFFDING * pt.sqrt(most.max()))
        at = pt.switch(half <= narrow, middle, pt.floor(centre))
        half = pt.minimum(half, narrow)
        size = _checked(pt.minimum(2 * half + 2, most.max() + 1))
        start = pt.clip(at - half, 0, pt.maximum(most + 1 - size, 0))
    return disconnected_grad(start)[..., None] + pt.arange(size)


def _checked(size: Any) -> Any:
    return Assert(_FAR)(size, pt.le(size, MAX_COUNTS)).astype("int64")


def log_binomial(s: Any, n: Any, p: Any) -> Any:
    """Return the log probabilities of consecutive counts s, shape (..., width), and -inf above n; n and p (...)."""
    n, p = n[..., None], pt.clip(p, 1e-300, 1 - 2.0**-53)[..., None]
    first = s[..., 0][..., None]
    off = n - first
    own = _stirling_error(n) - _stirling_error(first) - _stirling_error(off) + _half_log(n, first, off)
    own = own - _deviance(first, n * p) - _deviance(off, n * (1 - p))
    steps = _from_first(pt.log(pt.maximum(n - s + 1, 0.5) / pt.maximum(s, 1)))
    slope = pt.log(p) - pt.log1p(-p)
    return pt.switch(s <= n, own + steps + (s - first) * slope, -np.inf)


def log_poisson(s: Any, mu: Any) -> Any:
    """Return the log probabilities of consecutive counts s, shape (..., width); mu (...)."""
    mu, first = pt.maximum(mu, 1e-300)[..., None], s[..., 0][..., None]
    own = -_deviance(first, mu) - _stirling_error(first) - 0.5 * pt.log(2 * np.pi * pt.maximum(first, 1 / (2 * np.pi)))
    return own - _from_first(pt.log(pt.maximum(s, 1))) + (s - first) * pt.log(mu)


def log_sum(terms: Any) -> Any:
    """Return log of the sum of e^terms over the last axis; finite also where each e^term is below the least float."""
    largest = disconnected_grad(pt.maximum(terms.max(axis=-1), np.float64(-1e300)))
    return pt.log(pt.exp(terms - largest[..., None]).sum(axis=-1)) + largest


def _from_first(ratios: Any) -> Any:
    """Return the sum of the log ratios of a window (..., width) from its second count on; 0 at the first."""
    sums = ratios.cumsum(axis=-1)
    return sums - sums[..., 0][..., None]


def _half_log(n: Any, s: Any, off: Any) -> Any:
    """Return log sqrt(n / (2 pi s (n - s))), with factors 2 pi s replaced by 1 at s = 0."""
    parts = [pt.maximum(2 * np.pi * each, 1.0) for each in (n, s, off)]
    return 0.5 * (pt.log(parts[0]) - pt.log(parts[1]) - pt.log(parts[2]))


def _deviance(x: Any, mean: Any) -> Any:
    """Return x log(x / mean) + mean - x; its absolute error is a few ulp of x - mean."""
    off = (x - mean) / mean
    inside = pt.maximum(off, 2.0**-53 - 1)
    return pt.switch(x > 0, mean * ((1 + inside) * pt.log1p(inside) - inside), mean)


def _stirling_error(x: Any) -> Any:
    """Return log x! - log(sqrt(2 pi x) (x / e)^x) for whole x; 0 at 0."""
    small, large = pt.clip(x, 1.0, _SERIES), pt.maximum(x, _SERIES)
    exact = pt.gammaln(small + 1) - (small + 0.5) * pt.log(small) + small - 0.5 * np.log(2 * np.pi)
    series = 1 / (12 * large) - 1 / (360 * large**3)
    return pt.switch(x < _SERIES, pt.switch(x < 1, 0.0, exact), series)

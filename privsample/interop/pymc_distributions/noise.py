"""The noise of a release in PyTensor: its parameters, its log density, and its random draws."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pytensor.tensor as pt

from privsample.distributions.noise import NAMES, Noise, noise_distribution

_THETA_TERMS = 10  # terms of either theta series; the first omitted term is below 1e-21 of the sum
_TABLE = 1 << 12  # largest standard deviation of discrete Gaussian noise that is drawn by its table
_REACH = 12.0  # standard deviations in the table; e^-72 lies outside


class NoiseTensor(NamedTuple):
    """A family of noise and its scale parameter, a tensor; `known` holds the scale if it is a constant."""

    family: str
    scale: Any
    known: np.ndarray | None

    @property
    def integer_valued(self) -> bool:
        """Whether the noise takes whole numbers only."""
        return self.family.startswith("discrete")


def noise_tensor(noise: Any, noise_scale: Any = None) -> NoiseTensor:
    """Return the noise of a distribution as a tensor.

    `noise` is a Noise, a sequence of Noise objects of one family, or the name of a family; a name needs `noise_scale`.
    Raises TypeError for anything else, such as a number, and ValueError for several families.
    """
    if isinstance(noise, str):
        if noise not in NAMES:
            raise ValueError(f"noise must be one of {', '.join(NAMES)}, got {noise!r}")
        if noise_scale is None:
            raise TypeError(f"noise_scale must be given with the name of a noise, {noise!r}")
        scale = pt.as_tensor_variable(noise_scale).astype("float64")
        known = scale.data if hasattr(scale, "data") else None
        return NoiseTensor(noise, scale, known)
    if noise_scale is not None:
        raise TypeError("noise_scale is for the name of a noise; a Noise has its own scale: leave noise_scale out")
    several = list(noise) if isinstance(noise, Sequence) else [noise]
    wrong = next((each for each in several if not isinstance(each, Noise)), None)
    if wrong is not None or not several:
        found = "an empty sequence" if not several else type(wrong).__name__
        raise TypeError(
            "noise must be a Noise, such as ps.LaplaceNoise(scale=2.0), a sequence of them, or the name of a noise "
            f"with noise_scale, got {found}"
        )
    names = {each.name for each in several}
    if len(names) > 1:
        raise ValueError(f"all elements of one variable must have the same noise, got {', '.join(sorted(names))}")
    scales = np.array([each.scale_parameter for each in several], dtype=np.float64)
    known = scales if isinstance(noise, Sequence) else scales[0]
    return NoiseTensor(names.pop(), pt.constant(known), np.asarray(known))


def reach(family: str, scale: float, mass_outside: float) -> float:
    """Return a distance that the noise exceeds with at most this probability."""
    return noise_distribution(family, scale).quantile_bound(float(np.log(mass_outside)))


def log_density(family: str, x: Any, scale: Any) -> Any:
    """Return the log density of continuous noise, or the log probability of discrete noise; elementwise."""
    if family == "laplace":
        return -pt.abs(x) / scale - pt.log(2 * scale)
    if family == "gaussian":
        return -0.5 * (x / scale) ** 2 - pt.log(scale) - 0.5 * np.log(2 * np.pi)
    if family == "discrete laplace":
        value = -pt.abs(x) / scale + pt.log(pt.tanh(0.5 / scale))
    else:
        value = -0.5 * (x / scale) ** 2 - _log_theta(scale)
    return pt.switch(pt.eq(x, pt.round(x)), value, -np.inf)


def variance(family: str, scale: Any) -> Any:
    """Return the variance; for discrete Gaussian noise that of the continuous one, which is an upper bound."""
    if family == "laplace":
        return 2 * scale**2
    if family == "discrete laplace":
        return 0.5 / pt.sinh(0.5 / scale) ** 2
    return scale**2


def draw(family: str, scale: Any, size: Any, rng: Any) -> tuple[Any, Any]:
    """Return the next generator and independent draws of the noise, of batch shape `size`."""
    if family == "laplace":
        return _drawn(pt.random.laplace(0.0, scale, size=size, rng=rng))
    if family == "gaussian":
        return _drawn(pt.random.normal(0.0, scale, size=size, rng=rng))
    if family == "discrete laplace":  # the difference of two geometric variables
        failure = -pt.expm1(-1.0 / scale)
        between, first = _drawn(pt.random.geometric(failure, size=size, rng=rng))
        last, second = _drawn(pt.random.geometric(failure, size=size, rng=between))
        return last, first - second
    # The inverse of the distribution function on a table; for a large scale, a rounded normal variable, whose
    # distribution differs by less than 1 / (12 scale^2) in total variation.
    between, wide = _drawn(pt.random.normal(0.0, scale, size=size, rng=rng))
    last, uniform = _drawn(pt.random.uniform(0.0, 1.0, size=size, rng=between))
    narrow = pt.minimum(scale, _TABLE)
    far = pt.ceil(_REACH * narrow.max()).astype("int64") + 1
    k = pt.arange(-far, far + 1).astype("float64")
    below = pt.exp(-0.5 * (k / narrow[..., None]) ** 2 - _log_theta(narrow)[..., None]).cumsum(axis=-1)
    table = (uniform[..., None] > below).sum(axis=-1) - far
    return last, pt.switch(scale > _TABLE, pt.round(wide), table)


def _drawn(variable: Any) -> tuple[Any, Any]:
    following, drawn = variable.owner.outputs
    return following, drawn.astype("float64")


def _log_theta(scale: Any) -> Any:
    """Return log sum_k e^(-k^2 / (2 scale^2)), by the series that converges fast."""
    k = np.arange(1.0, _THETA_TERMS)
    small = pt.log1p(2 * pt.exp(-0.5 * (k / pt.minimum(scale, 1.0)[..., None]) ** 2).sum(-1))
    images = pt.exp(-2 * (np.pi * k * pt.maximum(scale, 1.0)[..., None]) ** 2).sum(-1)
    large = pt.log(scale) + 0.5 * np.log(2 * np.pi) + pt.log1p(2 * images)
    return pt.switch(scale < 1.0, small, large)

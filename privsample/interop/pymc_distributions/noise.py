"""The noise of a release in PyTensor: its parameters, its log density, and its random draws."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pytensor.tensor as pt
from pytensor.compile.sharedvalue import SharedVariable
from pytensor.scalar.basic import Cast

from privsample._checks import FloatArray
from privsample.distributions.noise import NAMES, Noise

_THETA_TERMS = 10  # terms of either theta series; the first omitted term is below 1e-21 of the sum
_TABLE = 1 << 12  # largest standard deviation of discrete Gaussian noise that is drawn by its table
_REACH = 12.0  # standard deviations in the table; e^-72 lies outside


class NoiseTensor(NamedTuple):
    """A family of noise and its scale parameter, a tensor; `known` is its present value, or None if it has none."""

    family: str
    scale: Any
    known: FloatArray | None

    @property
    def integer_valued(self) -> bool:
        """Whether the noise takes whole numbers only."""
        return self.family.startswith("discrete")

    @property
    def normal(self) -> bool:
        """Whether a central limit treats the noise as normal: it is Gaussian, or discrete Gaussian."""
        return self.family.endswith("gaussian")

    @property
    def largest(self) -> float:
        """The largest scale, or nan if it is not known."""
        return np.nan if self.known is None else float(self.known.max())


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
        scale = tensor_of("noise_scale", noise_scale)
        known = present_value(scale)
        if known is not None and not (np.isfinite(known) & (known > 0)).all():
            raise ValueError(f"noise_scale must be finite and > 0, got {noise_scale!r}")
        return NoiseTensor(noise, scale, known)
    if noise_scale is not None:
        raise TypeError("noise_scale is for the name of a noise; a Noise has its own scale: leave noise_scale out")
    several = list(noise) if isinstance(noise, Sequence) else [noise]
    wrong = [each for each in several if not isinstance(each, Noise)]
    if wrong or not several:
        found = type(wrong[0]).__name__ if wrong else "an empty sequence"
        raise TypeError(
            "noise must be a Noise, such as ps.LaplaceNoise(scale=2.0), a sequence of them, or the name of a noise "
            f"with noise_scale, got {found}"
        )
    names = {each.name for each in several}
    if len(names) > 1:
        raise ValueError(f"all elements of one variable must have the same noise, got {', '.join(sorted(names))}")
    scales = np.array([each.scale_parameter for each in several], dtype=np.float64)
    known = scales if isinstance(noise, Sequence) else np.asarray(scales[0])
    return NoiseTensor(names.pop(), pt.constant(known), known)


def tensor_of(what: str, given: Any) -> Any:
    """Return the parameter as a tensor of floats. Raises TypeError, with the name of the parameter."""
    if given is None:
        raise TypeError(f"{what} must be given, unless observed is a release")
    try:
        return pt.as_tensor_variable(given).astype("float64")  # PyTensor may read a Python float as float32
    except (NotImplementedError, TypeError, ValueError):
        raise TypeError(f"{what} must be a variable of your model or numbers, got {type(given).__name__}") from None


def present_value(tensor: Any) -> FloatArray | None:
    """Return the value of a constant, or the present value of data of the model; None for anything else."""
    if tensor.owner is not None and isinstance(getattr(tensor.owner.op, "scalar_op", None), Cast):
        return present_value(tensor.owner.inputs[0])
    if hasattr(tensor, "data"):
        return np.asarray(tensor.data, dtype=np.float64)
    if isinstance(tensor, SharedVariable):
        return np.asarray(tensor.get_value(), dtype=np.float64)
    return None


def reach(family: str, scale: Any, mass_outside: float) -> Any:
    """Return a distance that the noise exceeds with at most this probability; of numbers or of a tensor.

    These are the tail bounds of `privsample.distributions.noise`, as functions of the scale.
    """
    log_mass = float(np.log(mass_outside))
    if family.endswith("laplace"):
        return scale * ((np.log(2) if family.startswith("discrete") else 0.0) - log_mass)
    return scale * np.sqrt(2 * ((np.log(2) if family.startswith("discrete") else 0.0) - log_mass))


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
    """Return the variance; that of discrete Gaussian noise of scale 1 or more to 2e-7 of itself, otherwise exact."""
    if family == "laplace":
        return 2 * scale**2
    if family == "discrete laplace":
        return 0.5 / pt.sinh(0.5 / scale) ** 2
    if family == "gaussian":
        return scale**2
    k = np.arange(1.0, _THETA_TERMS)
    terms = 2 * pt.exp(-0.5 * (k / pt.minimum(scale, 1.0)[..., None]) ** 2)
    return pt.switch(scale < 1.0, (k**2 * terms).sum(-1) / (1 + terms.sum(-1)), scale**2)


def draw(family: str, scale: Any, size: Any, rng: Any) -> tuple[Any, Any]:
    """Return the next generator and independent draws of the noise, of batch shape `size`."""
    if family == "laplace":
        return _drawn(pt.random.laplace, 0.0, scale, size=size, rng=rng)
    if family == "gaussian":
        return _drawn(pt.random.normal, 0.0, scale, size=size, rng=rng)
    if family == "discrete laplace":  # the difference of two geometric variables
        failure = -pt.expm1(-1.0 / scale)
        between, first = _drawn(pt.random.geometric, failure, size=size, rng=rng)
        last, second = _drawn(pt.random.geometric, failure, size=size, rng=between)
        return last, first - second
    # The inverse of the distribution function on a table; for a large scale, a rounded normal variable, whose
    # distribution differs by less than 1 / (12 scale^2) in total variation.
    between, wide = _drawn(pt.random.normal, 0.0, scale, size=size, rng=rng)
    last, uniform = _drawn(pt.random.uniform, 0.0, 1.0, size=size, rng=between)
    narrow = pt.minimum(scale, _TABLE)
    far = pt.ceil(_REACH * narrow.max()).astype("int64") + 1
    k = pt.arange(-far, far + 1).astype("float64")
    below = pt.exp(-0.5 * (k / narrow[..., None]) ** 2 - _log_theta(narrow)[..., None]).cumsum(axis=-1)
    table = (uniform[..., None] > below).sum(axis=-1) - far
    return last, pt.switch(scale > _TABLE, pt.round(wide), table)


def normal_plus_noise(family: str, off: Any, own: Any, scale: Any) -> Any:
    """Return the log density at `off` of a normal variable of mean 0 and variance `own`, plus noise; elementwise.

    Discrete noise is replaced by the continuous noise of the same variance. The density of normal plus Laplace is a sum
    of two terms in erfcx; each is evaluated in a form that cannot overflow (docs/notes/moments.md, section 4).
    """
    noise_variance = variance(family, scale)
    if family.endswith("gaussian"):
        total = own + noise_variance
        return -0.5 * (off**2 / total + pt.log(2 * np.pi * total))
    width, deviation = pt.sqrt(noise_variance / 2), pt.sqrt(own)

    def side(z: Any) -> Any:
        """log of e^(-z^2 / (2 own)) erfcx(x)."""
        x = (deviation / width - z / deviation) / np.sqrt(2)
        near = -0.5 * z**2 / own + pt.log(pt.erfcx(pt.maximum(x, 0.0)))
        far = (own / (2 * width) - z) / width + pt.log(pt.erfc(pt.minimum(x, 0.0)))
        return pt.switch(x >= 0, near, far)

    above, below = side(off), side(-off)
    return pt.maximum(above, below) + pt.softplus(-abs(above - below)) - pt.log(4 * width)


def log_normal_below(z: Any) -> Any:
    """Return the log of the standard normal distribution function, in a form that cannot underflow; elementwise."""
    below = pt.log(0.5 * pt.erfcx(-pt.minimum(z, 0.0) / 2**0.5)) - 0.5 * z**2
    return pt.switch(z < 0, below, pt.log1p(-0.5 * pt.erfc(pt.maximum(z, 0.0) / 2**0.5)))


def log_normal_plus_noise_below(family: str, off: Any, own: Any, scale: Any) -> Any:
    """Return the log probability that a normal variable of mean 0 and variance `own`, plus noise, is at most `off`.

    Discrete noise is replaced as in `normal_plus_noise`. With Laplace noise it is, below the mean, the sum of
    E[1 - e^(-(off - X) / b) / 2; X <= off], which is at least half of P(X <= off), and a positive term.
    """
    noise_variance = variance(family, scale)
    if family.endswith("gaussian"):
        return log_normal_below(off / pt.sqrt(own + noise_variance))
    width, deviation = pt.sqrt(noise_variance / 2), pt.sqrt(pt.maximum(own, 1e-300))
    z = -abs(off)
    alone = log_normal_below(z / deviation)

    def side(at: Any) -> Any:
        """log of E[e^((X - at) / b); X <= at]."""
        u = at / deviation - deviation / width
        near = pt.log(0.5 * pt.erfcx(-pt.minimum(u, 0.0) / 2**0.5)) - 0.5 * (at / deviation) ** 2
        far = (0.5 * own / width - at) / width + log_normal_below(pt.maximum(u, 0.0))
        return pt.switch(u <= 0, near, far)

    below = alone + pt.log1p(-0.5 * pt.exp(pt.minimum(side(z) - alone, 0.0)))
    found = pt.logaddexp(below, np.log(0.5) + side(-z))
    return pt.switch(off < 0, found, pt.log1p(-pt.exp(found)))


def sampled(operation: Any, *params: Any, size: Any, rng: Any) -> tuple[Any, Any]:
    """Return the next generator and draws of a random operation, in either generation of PyTensor."""
    following, drawn = operation.make_node(rng, size, *params).outputs
    return following, drawn


def _drawn(operation: Any, *params: Any, size: Any, rng: Any) -> tuple[Any, Any]:
    following, drawn = sampled(operation, *params, size=size, rng=rng)
    return following, drawn.astype("float64")


def _log_theta(scale: Any) -> Any:
    """Return log sum_k e^(-k^2 / (2 scale^2)), by the series that converges fast."""
    k = np.arange(1.0, _THETA_TERMS)
    small = pt.log1p(2 * pt.exp(-0.5 * (k / pt.minimum(scale, 1.0)[..., None]) ** 2).sum(-1))
    images = pt.exp(-2 * (np.pi * k * pt.maximum(scale, 1.0)[..., None]) ** 2).sum(-1)
    large = pt.log(scale) + 0.5 * np.log(2 * np.pi) + pt.log1p(2 * images)
    return pt.switch(scale < 1.0, small, large)

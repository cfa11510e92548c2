"""Distributions truncated to bounds, with samplers that stay exact if the bounds lie far in a tail.

A univariate distribution is sampled in a coordinate in which its density is log-concave, relative to the mode within
the bounds, so that nothing cancels or underflows far in a tail.
"""

from abc import ABC, abstractmethod
from typing import TypeVar

import numpy as np
from scipy import special

from privsample._checks import FloatArray, finite, interval, positive
from privsample._logspace import expm1_excess
from privsample._value import frozen_value, set_fields
from privsample.distributions.parametric.conjugate import Beta, Dirichlet, Gamma, Normal, PosteriorDistribution
from privsample.distributions.parametric.rejection import sample_log_concave, sample_truncated_dirichlet

_WIDEST = 1e30  # beyond 1/eps^2 the shares vary by less than the float spacing, and no draw would be accepted
Number = TypeVar("Number", float, FloatArray)


class TruncatedDistribution(ABC):
    """A distribution truncated to bounds; its density is known up to a constant."""

    __slots__ = ()

    @abstractmethod
    def log_density(self, x: FloatArray) -> FloatArray:
        """Log density up to a constant, shape (...) or (..., K) to (...); -inf outside the bounds."""

    @abstractmethod
    def sample(self, size: int, rng: np.random.Generator) -> FloatArray:
        """Independent exact draws, shape (size,) or (size, K)."""


class TruncatedUnivariate(TruncatedDistribution):
    """A number in [low, high] with a log-concave density in the coordinate y; `_place` maps y back to the number."""

    __slots__ = ()
    low: float
    high: float

    @property
    @abstractmethod
    def _ends(self) -> tuple[float, float]:
        """The bounds low and high in the coordinate y."""

    @property
    @abstractmethod
    def _peak(self) -> float:
        """The mode of the untruncated density of y."""

    @abstractmethod
    def _fall(self, mode: float, z: FloatArray) -> FloatArray:
        """Log density of y at mode + z minus that at the mode."""

    @abstractmethod
    def _place(self, mode: float, z: FloatArray) -> FloatArray:
        """The number at y = mode + z."""

    def sample(self, size: int, rng: np.random.Generator) -> FloatArray:
        """Independent exact draws, shape (size,)."""
        low, high = self._ends
        mode = float(np.clip(self._peak, low, high))
        z = sample_log_concave(lambda shift: self._fall(mode, shift), low - mode, high - mode, size, rng)
        return np.clip(self._place(mode, z), self.low, self.high)


@frozen_value
class TruncatedBeta(TruncatedUnivariate):
    """Beta(a, b) truncated to [low, high] within (0, 1); y is the logit."""

    a: float
    b: float
    low: float
    high: float

    def __post_init__(self) -> None:
        low, high = interval(truncation=(self.low, self.high))
        if not (low > 0.0 and high < 1.0):
            raise ValueError(f"truncation must lie inside (0, 1), got ({low}, {high})")
        set_fields(self, a=positive(a=self.a), b=positive(b=self.b), low=low, high=high)

    def log_density(self, x: FloatArray) -> FloatArray:
        """Log density up to a constant, elementwise."""
        inside = (x >= self.low) & (x <= self.high)
        at = np.clip(x, self.low, self.high)
        return np.where(inside, (self.a - 1) * np.log(at) + (self.b - 1) * np.log1p(-at), -np.inf)

    @property
    def _ends(self) -> tuple[float, float]:
        return float(special.logit(self.low)), float(special.logit(self.high))

    @property
    def _peak(self) -> float:
        return float(np.log(self.a) - np.log(self.b))

    def _fall(self, mode: float, z: FloatArray) -> FloatArray:
        share = special.expit(mode)
        slope = (self.a + self.b) * (self.a / (self.a + self.b) - share)
        grown = np.where(z < 30.0, np.log1p(share * np.expm1(np.minimum(z, 30.0))), z + np.log(share))
        return slope * z - (self.a + self.b) * (grown - share * z)

    def _place(self, mode: float, z: FloatArray) -> FloatArray:
        return np.asarray(special.expit(mode + z))


@frozen_value
class TruncatedGamma(TruncatedUnivariate):
    """Gamma(shape, rate) truncated to [low, high] within (0, inf); y is the logarithm."""

    shape: float
    rate: float
    low: float
    high: float

    def __post_init__(self) -> None:
        low, high = interval(truncation=(self.low, self.high))
        if not low > 0.0:
            raise ValueError(f"truncation must lie inside (0, inf), got ({low}, {high})")
        set_fields(self, shape=positive(shape=self.shape), rate=positive(rate=self.rate), low=low, high=high)

    def log_density(self, x: FloatArray) -> FloatArray:
        """Log density up to a constant, elementwise."""
        inside = (x >= self.low) & (x <= self.high)
        at = np.clip(x, self.low, self.high)
        return np.where(inside, (self.shape - 1) * np.log(at) - self.rate * at, -np.inf)

    @property
    def _ends(self) -> tuple[float, float]:
        return float(np.log(self.low)), float(np.log(self.high))

    @property
    def _peak(self) -> float:
        return float(np.log(self.shape) - np.log(self.rate))

    def _fall(self, mode: float, z: FloatArray) -> FloatArray:
        weight = self.rate * np.exp(mode)
        return (self.shape - weight) * z - weight * expm1_excess(z)

    def _place(self, mode: float, z: FloatArray) -> FloatArray:
        return np.exp(mode + z)


@frozen_value
class TruncatedNormal(TruncatedUnivariate):
    """Normal(location, scale) truncated to [low, high]; y is the number itself."""

    location: float
    scale: float
    low: float
    high: float

    def __post_init__(self) -> None:
        low, high = interval(truncation=(self.low, self.high))
        set_fields(self, location=finite(location=self.location), scale=positive(scale=self.scale), low=low, high=high)

    def log_density(self, x: FloatArray) -> FloatArray:
        """Log density up to a constant, elementwise."""
        inside = (x >= self.low) & (x <= self.high)
        with np.errstate(over="ignore"):
            return np.where(inside, -0.5 * ((x - self.location) / self.scale) ** 2, -np.inf)

    @property
    def _ends(self) -> tuple[float, float]:
        return self.low, self.high

    @property
    def _peak(self) -> float:
        return self.location

    def _fall(self, mode: float, z: FloatArray) -> FloatArray:
        with np.errstate(over="ignore"):
            own = z / self.scale
            return -own * ((mode - self.location) / self.scale + own / 2)

    def _place(self, mode: float, z: FloatArray) -> FloatArray:
        return mode + z


@frozen_value
class TruncatedDirichlet(TruncatedDistribution):
    """Dirichlet(alpha) truncated to shares of at least `low`, low < 1/K."""

    alpha: tuple[float, ...]
    low: float

    def __post_init__(self) -> None:
        alpha = tuple(positive(**{f"alpha[{i}]": a}) for i, a in enumerate(self.alpha))
        low = positive(truncation=self.low)
        if not low * len(alpha) < 1.0:
            raise ValueError(f"truncation must lie below 1/{len(alpha)} for {len(alpha)} categories, got {low}")
        if not max(alpha) <= _WIDEST:
            raise ValueError(f"alpha must be at most {_WIDEST:g} to draw from at this temperature, got {max(alpha):g}")
        set_fields(self, alpha=alpha, low=low)

    def log_density(self, x: FloatArray) -> FloatArray:
        """Log density up to a constant, at x of shape (..., K)."""
        alpha = np.array(self.alpha)
        inside = (x >= self.low).all(axis=-1)
        return np.where(inside, ((alpha - 1) * np.log(np.maximum(x, self.low))).sum(axis=-1), -np.inf)

    def sample(self, size: int, rng: np.random.Generator) -> FloatArray:
        """Independent exact draws, shape (size, K)."""
        rows = np.broadcast_to(np.array(self.alpha), (size, len(self.alpha)))
        return sample_truncated_dirichlet(rows, np.full(size, self.low), rng)


def temper(distribution: PosteriorDistribution, temperature: float) -> PosteriorDistribution:
    """The tempered distribution, with density proportional to the given density to the power 1/temperature.

    Raises TypeError for a distribution that is not Beta, Dirichlet, Gamma or Normal.
    """
    match distribution:
        case Beta(a=a, b=b):
            return Beta(a=tempered_shape(a, temperature), b=tempered_shape(b, temperature))
        case Dirichlet(alpha=alpha):
            return Dirichlet(alpha=tuple(tempered_shape(np.array(alpha), temperature)))
        case Gamma(shape=shape, rate=rate):
            return Gamma(shape=tempered_shape(shape, temperature), rate=rate / temperature)
        case Normal(location=location, scale=scale):
            return Normal(location=location, scale=scale * temperature**0.5)
    raise TypeError(f"no tempered distribution is known for {type(distribution).__name__}")


def tempered_shape(shape: Number, temperature: float) -> Number:
    """Shape parameter of a tempered Beta, Dirichlet or Gamma distribution: 1 + (shape - 1)/T, T >= 1."""
    return (shape + (temperature - 1.0)) / temperature


def truncate(distribution: PosteriorDistribution, low: float, high: float) -> TruncatedDistribution:
    """The distribution truncated to [low, high]; a Dirichlet to shares of at least `low`.

    Raises TypeError for other distributions, and ValueError for bounds out of range.
    """
    match distribution:
        case Beta(a=a, b=b):
            return TruncatedBeta(a=a, b=b, low=low, high=high)
        case Dirichlet(alpha=alpha):
            return TruncatedDirichlet(alpha=alpha, low=low)
        case Gamma(shape=shape, rate=rate):
            return TruncatedGamma(shape=shape, rate=rate, low=low, high=high)
        case Normal(location=location, scale=scale):
            return TruncatedNormal(location=location, scale=scale, low=low, high=high)
    raise TypeError(f"no distribution between bounds is known for {type(distribution).__name__}")

"""Distributions of additive noise: exact log mass, variance and tails, and samplers without a loop per draw."""

from abc import ABC, abstractmethod
from collections.abc import Callable

import numpy as np
from scipy import special

from privsample._checks import FloatArray, one_of, positive
from privsample._value import frozen_value, set_fields

LARGEST_DISCRETE = 1e14  # discrete draws stay whole numbers in a float, up to 90 times this scale
_ROUNDING = 8 * np.finfo(np.float64).eps
_TERMS = np.arange(1.0, 10.0)  # of the theta series: the first one left out is below 1e-21 of the sum


class Noise(ABC):
    """A distribution of independent noise, symmetric about zero, one draw for each coordinate."""

    __slots__ = ()

    @property
    @abstractmethod
    def name(self) -> str:
        """The distribution in words, as `noise_distribution` takes it."""

    @property
    @abstractmethod
    def whole(self) -> bool:
        """Whether the draws are whole numbers."""

    @property
    @abstractmethod
    def spread(self) -> float:
        """The distribution's parameter: its scale or its noise_std."""

    @property
    @abstractmethod
    def variance(self) -> float:
        """Exact, and the distribution's own: not that of its continuous counterpart."""

    @abstractmethod
    def log_mass(self, x: FloatArray) -> FloatArray:
        """Log density; of a discrete distribution, log probability, and -inf off the whole numbers. Elementwise."""

    @abstractmethod
    def log_tail(self, t: FloatArray) -> FloatArray:
        """At least log P(|noise| > t). Elementwise."""

    @abstractmethod
    def reach(self, log_probability: float) -> float:
        """A distance beyond which the noise lies with at most this log probability, < 0."""

    @abstractmethod
    def sample(self, shape: tuple[int, ...], rng: np.random.Generator) -> FloatArray:
        """Independent draws; exact for ideal uniform reals."""


@frozen_value
class LaplaceNoise(Noise):
    """Density proportional to e^(-|x| / scale)."""

    scale: float

    def __post_init__(self) -> None:
        set_fields(self, scale=positive(scale=self.scale))

    @property
    def name(self) -> str:
        """Laplace."""
        return "laplace"

    @property
    def whole(self) -> bool:
        """Real."""
        return False

    @property
    def spread(self) -> float:
        """scale."""
        return self.scale

    @property
    def variance(self) -> float:
        """Twice the squared scale."""
        return 2 * self.scale * self.scale

    def log_mass(self, x: FloatArray) -> FloatArray:
        """Log density."""
        return -np.abs(x) / self.scale - np.log(2 * self.scale)

    def log_tail(self, t: FloatArray) -> FloatArray:
        """-t / scale. Exact."""
        return _up(-np.maximum(t, 0.0) / self.scale)

    def reach(self, log_probability: float) -> float:
        """Exact."""
        return -self.scale * log_probability

    def sample(self, shape: tuple[int, ...], rng: np.random.Generator) -> FloatArray:
        """NumPy's."""
        return rng.laplace(0.0, self.scale, shape)


@frozen_value
class GaussianNoise(Noise):
    """Normal with standard deviation `noise_std`."""

    noise_std: float

    def __post_init__(self) -> None:
        set_fields(self, noise_std=positive(noise_std=self.noise_std))

    @property
    def name(self) -> str:
        """Gaussian."""
        return "gaussian"

    @property
    def whole(self) -> bool:
        """Real."""
        return False

    @property
    def spread(self) -> float:
        """noise_std."""
        return self.noise_std

    @property
    def variance(self) -> float:
        """noise_std squared."""
        return self.noise_std * self.noise_std

    def log_mass(self, x: FloatArray) -> FloatArray:
        """Log density."""
        return -0.5 * (x / self.noise_std) ** 2 - np.log(self.noise_std) - 0.5 * np.log(2 * np.pi)

    def log_tail(self, t: FloatArray) -> FloatArray:
        """log 2 Phi(-t / noise_std). Exact."""
        return _up(np.log(2) + special.log_ndtr(-np.maximum(t, 0.0) / self.noise_std))

    def reach(self, log_probability: float) -> float:
        """By 2 Phi(-t) <= e^(-t^2/2)."""
        return float(self.noise_std * np.sqrt(-2 * log_probability))

    def sample(self, shape: tuple[int, ...], rng: np.random.Generator) -> FloatArray:
        """NumPy's."""
        return self.noise_std * rng.standard_normal(shape)


@frozen_value
class DiscreteLaplaceNoise(Noise):
    """P(k) proportional to e^(-|k| / scale) on the whole numbers (two-sided geometric). scale <= 1e14."""

    scale: float

    def __post_init__(self) -> None:
        set_fields(self, scale=_within(scale=self.scale))

    @property
    def name(self) -> str:
        """Discrete Laplace."""
        return "discrete laplace"

    @property
    def whole(self) -> bool:
        """Whole."""
        return True

    @property
    def spread(self) -> float:
        """scale."""
        return self.scale

    @property
    def variance(self) -> float:
        """2 q / (1 - q)^2, q = e^(-1 / scale)."""
        return float(2 * np.exp(-1 / self.scale) / np.expm1(-1 / self.scale) ** 2)

    @property
    def log_normalizer(self) -> float:
        """log of the sum over k of e^(-|k| / scale): log((1 + q) / (1 - q))."""
        return float(np.log1p(np.exp(-1 / self.scale)) - np.log(-np.expm1(-1 / self.scale)))

    def log_mass(self, x: FloatArray) -> FloatArray:
        """Log probability."""
        return _on_whole(x, lambda k: -np.abs(k) / self.scale - self.log_normalizer)

    def log_tail(self, t: FloatArray) -> FloatArray:
        """log(2 q^m / (1 + q)), m the next whole number after t. Exact."""
        beyond = np.floor(np.maximum(t, 0.0)) + 1
        tail = np.log(2) - beyond / self.scale - np.log1p(np.exp(-1 / self.scale))
        return np.where(np.asarray(t) < 0, 0.0, _up(tail))

    def reach(self, log_probability: float) -> float:
        """By 2 q^t."""
        return float(self.scale * (np.log(2) - log_probability))

    def sample(self, shape: tuple[int, ...], rng: np.random.Generator) -> FloatArray:
        """The difference of two geometric draws, each a standard exponential times the scale, rounded down."""
        up, down = rng.standard_exponential((2, *shape))
        return np.floor(self.scale * up) - np.floor(self.scale * down)


@frozen_value
class DiscreteGaussianNoise(Noise):
    """P(k) proportional to e^(-k^2 / (2 noise_std^2)) on the whole numbers. noise_std <= 1e14.

    Source: Canonne, Kamath and Steinke 2020.
    """

    noise_std: float

    def __post_init__(self) -> None:
        set_fields(self, noise_std=_within(noise_std=self.noise_std))

    @property
    def name(self) -> str:
        """Discrete Gaussian."""
        return "discrete gaussian"

    @property
    def whole(self) -> bool:
        """Whole."""
        return True

    @property
    def spread(self) -> float:
        """noise_std."""
        return self.noise_std

    @property
    def variance(self) -> float:
        """By the theta series, or by its Fourier series for a wide distribution; always below noise_std^2."""
        s, squares = self.noise_std, _TERMS**2
        if s < 1:
            terms = 2 * _gauss_terms(s)
            return float((squares * terms).sum() / (1 + terms.sum()))
        waves = 2 * np.exp(-2 * (np.pi * s) ** 2 * squares)
        return float(s**2 * (1 - (2 * np.pi * s) ** 2 * (squares * waves).sum() / (1 + waves.sum())))

    @property
    def log_normalizer(self) -> float:
        """log of the sum over k of e^(-k^2 / (2 noise_std^2)), by Poisson summation for a wide distribution."""
        s = self.noise_std
        if s < 1:
            return float(np.log1p(2 * _gauss_terms(s).sum()))
        waves = 2 * np.exp(-2 * (np.pi * s * _TERMS) ** 2)
        return float(np.log(s) + 0.5 * np.log(2 * np.pi) + np.log1p(waves.sum()))

    def log_mass(self, x: FloatArray) -> FloatArray:
        """Log probability."""
        return _on_whole(x, lambda k: -0.5 * (k / self.noise_std) ** 2 - self.log_normalizer)

    def log_tail(self, t: FloatArray) -> FloatArray:
        """The lesser of the normal tail one step nearer (Proposition 25) and of a geometric series."""
        last, s = np.floor(np.maximum(t, 0.0)), self.noise_std
        normal = np.log(2) + special.log_ndtr(-last / s)
        ratio = np.log(-np.expm1(-(last / s + 1.5 / s) / s))
        series = np.log(2) + self.log_mass(last + 1) - ratio
        return np.where(np.asarray(t) < 0, 0.0, _up(np.minimum(normal, series)))

    def reach(self, log_probability: float) -> float:
        """By P(|noise| >= t) <= 2 e^(-t^2 / (2 noise_std^2))."""
        return float(self.noise_std * np.sqrt(2 * (np.log(2) - log_probability)))

    def sample(self, shape: tuple[int, ...], rng: np.random.Generator) -> FloatArray:
        """Rejection from discrete Laplace draws (Algorithm 3), all that are missing at once."""
        size, s = int(np.prod(shape)), self.noise_std
        proposals = DiscreteLaplaceNoise(scale=min(np.floor(s) + 1, LARGEST_DISCRETE))
        drawn, have = np.empty(size), 0
        while have < size:
            some = proposals.sample((2 * (size - have) + 16,), rng)
            cost = 0.5 * ((np.abs(some) - s * (s / proposals.scale)) / s) ** 2
            kept = some[rng.standard_exponential(some.shape) > cost][: size - have]
            drawn[have : have + len(kept)] = kept
            have += len(kept)
        return drawn.reshape(shape)


_DISTRIBUTIONS: dict[str, Callable[[float], Noise]] = {
    "laplace": lambda spread: LaplaceNoise(scale=spread),
    "gaussian": lambda spread: GaussianNoise(noise_std=spread),
    "discrete laplace": lambda spread: DiscreteLaplaceNoise(scale=spread),
    "discrete gaussian": lambda spread: DiscreteGaussianNoise(noise_std=spread),
}
NAMES = tuple(_DISTRIBUTIONS)


def noise_distribution(name: str, spread: float) -> Noise:
    """The distribution of this name; `spread` is its scale or its noise_std. Raises: ValueError, for another name."""
    if not one_of(name, _DISTRIBUTIONS):
        raise ValueError(f"noise must be one of {', '.join(map(repr, NAMES))}, got {name!r}")
    return _DISTRIBUTIONS[name](spread)


def _within(**named: float) -> float:
    ((name, given),) = named.items()
    spread = positive(**named)
    if not spread <= LARGEST_DISCRETE:
        raise ValueError(
            f"{name} of discrete noise must be at most {LARGEST_DISCRETE:g}, got {given!r}: use continuous noise"
        )
    return spread


def _up(log_probability: FloatArray) -> FloatArray:
    """Rounded up."""
    return np.minimum(log_probability + _ROUNDING * (1.0 - log_probability), 0.0)


def _on_whole(x: FloatArray, log_mass: Callable[[FloatArray], FloatArray]) -> FloatArray:
    x = np.asarray(x, dtype=np.float64)
    return np.where(x == np.floor(x), log_mass(x), -np.inf)


def _gauss_terms(noise_std: float) -> FloatArray:
    with np.errstate(over="ignore"):
        return np.exp(-0.5 * (_TERMS / noise_std) ** 2)

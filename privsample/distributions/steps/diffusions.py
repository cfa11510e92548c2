"""Diffusions with Gaussian transition kernels: the distribution after a given time from a given starting point."""

from abc import ABC, abstractmethod

import numpy as np
from scipy.special import exprel

from privsample._checks import FloatArray, positive
from privsample._value import frozen_value, set_fields


class Diffusion(ABC):
    """The transition from x after time t is shrink(t) x + noise(t) N(0, I); it is a semigroup in t."""

    __slots__ = ()

    @abstractmethod
    def shrink(self, time: float) -> float:
        """The factor of the starting point."""

    @abstractmethod
    def noise(self, time: float) -> float:
        """The standard deviation of the noise in each coordinate.

        It is computed without its square, which may under- or overflow.
        """

    def variance(self, time: float) -> float:
        """The variance of the noise in each coordinate; 0 or +inf if it under- or overflows."""
        deviation = self.noise(time)
        return deviation * deviation

    @abstractmethod
    def noise_at_start(self, time: float) -> float:
        """noise/shrink, rounded down: the standard deviation of the noise in units of the starting point."""

    def step(self, x: FloatArray, time: float, rng: np.random.Generator) -> FloatArray:
        """One random transition of x, of any shape, after this time."""
        return self.shrink(time) * x + self.noise(time) * rng.standard_normal(x.shape)


_ROUNDING = 8 * float(np.finfo(np.float64).eps)


@frozen_value
class BrownianDiffusion(Diffusion):
    """Brownian motion dX = sqrt(2) dW."""

    def shrink(self, time: float) -> float:
        """1."""
        del time
        return 1.0

    def noise(self, time: float) -> float:
        """sqrt(2t)."""
        return float(np.sqrt(2.0) * np.sqrt(time))

    def noise_at_start(self, time: float) -> float:
        """sqrt(2t)."""
        return self.noise(time) * (1 - _ROUNDING)


@frozen_value
class OrnsteinUhlenbeckDiffusion(Diffusion):
    """Ornstein-Uhlenbeck process dX = -theta X dt + sqrt(2) rho dW."""

    theta: float
    rho: float

    def __post_init__(self) -> None:
        set_fields(self, theta=positive(theta=self.theta), rho=positive(rho=self.rho))

    def shrink(self, time: float) -> float:
        """e^(-theta t)."""
        return float(np.exp(-self.theta * time))

    def noise(self, time: float) -> float:
        """rho sqrt((1 - e^(-2 theta t))/theta)."""
        return float(self.rho * np.sqrt(2 * time * exprel(-2 * self.theta * time)))

    def noise_at_start(self, time: float) -> float:
        """rho sqrt((e^(2 theta t) - 1)/theta)."""
        with np.errstate(over="ignore"):
            noise = float(self.rho * np.sqrt(2 * time * exprel(2 * self.theta * time)))
        return noise * (1 - _ROUNDING * (1 + min(self.theta * time, 1e3)))

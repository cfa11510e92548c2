"""Diffusions: random transitions after a given time from a given starting point, which form a semigroup in time."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.special import exprel

from privsample._checks import FloatArray, function, numbers_of, positive
from privsample._value import frozen_value, set_fields


class Diffusion(ABC):
    """Abstract base class of diffusions: how a state moves at random, and what remains of the difference of two starts.

    A subclass of your own is a frozen dataclass that defines `step` and `intrinsic_sensitivity`; `DiffusedStatistic`
    draws from it and accounts for it. The transitions must form a semigroup: a step of time s followed by an
    independent step of time t has the distribution of a step of time s + t. They must also meet the assumptions of the
    theorem in the notes. Neither is validated.

    Notes
    -----
    Balle, Barthe, Gaboardi and Geumlek 2019, section 5, Theorem 6.

    Examples
    --------
    Each coordinate reverts to 0 at its own rate, dX = -rate X dt + sqrt(2) dW:

    >>> from dataclasses import dataclass
    >>> import numpy as np
    >>> import privsample as ps
    >>> @dataclass(frozen=True)
    ... class Relaxation(ps.Diffusion):
    ...     rates: tuple[float, ...]
    ...
    ...     def step(self, x, time, rng):
    ...         rates = np.array(self.rates)
    ...         return np.exp(-rates * time) * x + np.sqrt(-np.expm1(-2 * rates * time) / rates) * rng.normal(
    ...             size=x.shape
    ...         )
    ...
    ...     def intrinsic_sensitivity(self, time, distance):
    ...         slowest = min(self.rates)
    ...         return distance**2 * slowest / (2 * np.expm1(2 * slowest * time))
    >>> mechanism = ps.DiffusedStatistic(diffusion=Relaxation((0.5, 2.0)), sensitivity=1, time=3, shape=(2,))
    >>> round(float(mechanism.accountant.epsilon(1e-6)), 3)
    0.718
    """

    __slots__ = ()

    @abstractmethod
    def step(self, x: FloatArray, time: float, rng: np.random.Generator) -> FloatArray:
        """One random transition of each state.

        Parameters
        ----------
        x : array of shape (draws, ...)
            States, which move independently of each other along the first axis.
        time : float
            Time of the transition, finite and > 0.
        rng : numpy.random.Generator
            Source of all randomness.

        Returns
        -------
        array, shape of `x`
            The states after this time.
        """

    @abstractmethod
    def intrinsic_sensitivity(self, time: float, distance: float) -> float:
        """Upper bound on the intrinsic sensitivity Lambda: rdp(a) <= a Lambda for two starts at this distance.

        Parameters
        ----------
        time : float
            Time of the diffusion, finite and > 0.
        distance : float
            Largest L2 distance between the starts, finite and > 0.

        Returns
        -------
        float
            The bound in nats, finite and >= 0.
        """


@frozen_value
class StatedDiffusion(Diffusion):
    """A user's diffusion, given by functions: its transition, and a bound on its intrinsic sensitivity.

    A value that holds functions cannot be saved; a subclass of `Diffusion` that is registered can.

    Parameters
    ----------
    transition : callable
        Maps (states of shape (draws, ...), time, generator) to the states after this time, of the same shape.
    sensitivity_bound : callable
        Maps (time, distance) to an upper bound on the intrinsic sensitivity; `intrinsic_sensitivity` of this package
        computes it from kappa, the largest squared gradient of the log density ratio.

    Raises
    ------
    TypeError
        If a field is not a function of its arguments.

    Examples
    --------
    Brownian motion, with kappa(s) = distance^2/(4 s^2):

    >>> import numpy as np
    >>> import privsample as ps
    >>> def bound(time, distance):
    ...     kappa, tail = (lambda s: (distance / 2 / s) ** 2), (lambda s: distance**2 / (4 * s))
    ...     return ps.intrinsic_sensitivity(kappa, time, tail)
    >>> motion = ps.StatedDiffusion(
    ...     transition=lambda x, time, rng: x + np.sqrt(2 * time) * rng.standard_normal(x.shape),
    ...     sensitivity_bound=bound,
    ... )
    >>> round(motion.intrinsic_sensitivity(2.0, 1.0), 3)
    0.125
    """

    transition: Callable[[FloatArray, float, np.random.Generator], Any]
    sensitivity_bound: Callable[[float, float], float]

    def __post_init__(self) -> None:
        function("states", "time", "generator", transition=self.transition)
        function("time", "distance", sensitivity_bound=self.sensitivity_bound)

    def step(self, x: FloatArray, time: float, rng: np.random.Generator) -> FloatArray:
        """One random transition of each state by the user's function."""
        return numbers_of(self.transition(x, time, rng), "transition")

    def intrinsic_sensitivity(self, time: float, distance: float) -> float:
        """The user's bound on the intrinsic sensitivity."""
        return self.sensitivity_bound(time, distance)


class GaussianDiffusion(Diffusion):
    """The transition from x after time t is shrink(t) x + noise(t) N(0, I)."""

    __slots__ = ()

    @abstractmethod
    def shrink(self, time: float) -> float:
        """The factor of the starting point.

        Parameters
        ----------
        time : float
            Time of the transition, finite and > 0.

        Returns
        -------
        float
            The factor, >= 0.
        """

    @abstractmethod
    def noise(self, time: float) -> float:
        """The standard deviation of the noise in each coordinate.

        It is computed without its square, which may under- or overflow.

        Parameters
        ----------
        time : float
            Time of the transition, finite and > 0.

        Returns
        -------
        float
            The standard deviation, > 0.
        """

    def variance(self, time: float) -> float:
        """The variance of the noise in each coordinate.

        Parameters
        ----------
        time : float
            Time of the transition, finite and > 0.

        Returns
        -------
        float
            The variance; 0 or +inf if it under- or overflows.
        """
        deviation = self.noise(time)
        return deviation * deviation

    @abstractmethod
    def noise_at_start(self, time: float) -> float:
        """The standard deviation of the noise in units of the starting point: noise/shrink, rounded down.

        Parameters
        ----------
        time : float
            Time of the transition, finite and > 0.

        Returns
        -------
        float
            The standard deviation; +inf if it overflows.
        """

    def intrinsic_sensitivity(self, time: float, distance: float) -> float:
        """Half the squared distance in standard deviations of the noise; exact."""
        ratio = distance / self.noise_at_start(time)
        return ratio * ratio / 2

    def step(self, x: FloatArray, time: float, rng: np.random.Generator) -> FloatArray:
        """One random transition of x, of any shape, after this time."""
        return self.shrink(time) * x + self.noise(time) * rng.standard_normal(x.shape)


_ROUNDING = 8 * float(np.finfo(np.float64).eps)


@frozen_value
class BrownianDiffusion(GaussianDiffusion):
    """Brownian motion dX = sqrt(2) dW.

    Examples
    --------
    >>> import privsample as ps
    >>> print(f"{ps.BrownianDiffusion().intrinsic_sensitivity(2.0, 1.0):.4f}")
    0.1250
    """

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
class OrnsteinUhlenbeckDiffusion(GaussianDiffusion):
    """Ornstein-Uhlenbeck process dX = -theta X dt + sqrt(2) rho dW.

    Parameters
    ----------
    theta : float
        Rate of mean reversion, finite and > 0, per unit of time.
    rho : float
        Diffusion rate of the noise, finite and > 0.

    Raises
    ------
    ValueError
        If a parameter is not finite and > 0.

    Examples
    --------
    >>> import privsample as ps
    >>> print(f"{ps.OrnsteinUhlenbeckDiffusion(theta=1, rho=1).intrinsic_sensitivity(2.0, 1.0):.4f}")
    0.0093
    """

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

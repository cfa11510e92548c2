"""The likelihood of noisy copies as a function of the hidden sum, and its transform. docs/notes/clipping.md, step 2."""

from abc import ABC, abstractmethod
from typing import NamedTuple

import numpy as np

from privsample._checks import FloatArray
from privsample._value import Memo, cached, frozen_value
from privsample.distributions.clipping.records import ComplexArray
from privsample.distributions.noise import (
    DiscreteGaussianNoise,
    DiscreteLaplaceNoise,
    GaussianNoise,
    LaplaceNoise,
    Noise,
)

_NARROW = 4.0  # variance up to which normal noise on whole sums is summed term by term
_STEPS = 45.0  # e^-45 is below rounding


class Slopes(NamedTuple):
    """First and second derivatives of the (approximate) log transform along the real axis."""

    first: float
    second: float


class NoiseKernel(Memo, ABC):
    """G(s), the product over all copies of the noise densities (or masses) at observed - s.

    Its transform is the integral, or the sum over whole s, of e^(-z s) G(s). It converges for |Re z| < `strip` and is
    continued analytically beyond.
    """

    __slots__ = ()
    observed: FloatArray
    integer_valued: bool

    @property
    @abstractmethod
    def centre(self) -> float:
        """A point near the maximum of G."""

    @property
    @abstractmethod
    def strip(self) -> float:
        """The distance of the poles from the imaginary axis; inf if there are none."""

    @abstractmethod
    def log_value(self, s: FloatArray) -> FloatArray:
        """log G, elementwise."""

    @abstractmethod
    def transform(self, tilt: float, frequencies: FloatArray) -> tuple[ComplexArray, float]:
        """The integral (or sum) of e^(-z (s - centre)) G(s) at z = tilt + it: scaled values, and log scale."""

    @abstractmethod
    def slopes(self, tilt: float) -> Slopes:
        """Derivatives of the log transform of G, accurate enough to find a saddle point."""

    @abstractmethod
    def residue(self, side: float) -> float:
        """log c, where G(s) = c e^(side strip s) beyond the copies: the residue of a contour moved past the pole."""

    def within(self, low: float, high: float) -> "tuple[NoiseKernel, float]":
        """A kernel with all copies in [low, high], and the log of a factor: equal to this one where s is in there."""
        del low, high
        return self, 0.0

    def exponential(self, low: float, high: float) -> tuple[float, float] | None:
        """(slope, log c) where G(s) = c e^(slope s) for all s in [low, high]; else None."""
        del low, high
        return None

    def far_end(self, side: float) -> float:
        """The copy beyond which G is the exponential of `residue`. Raises ValueError if there is no such copy."""
        raise ValueError(f"no pole on the side {side}")

    @property
    @abstractmethod
    def cut(self) -> float:
        """The frequency above which the transform is below rounding, or inf."""


@frozen_value
class NormalKernel(NoiseKernel):
    """Copies with normal noise, for which their mean is sufficient."""

    observed: FloatArray
    noise: Noise
    integer_valued: bool

    @cached
    def centre(self) -> float:
        """The mean of the copies."""
        return float(self.observed.mean())

    @cached
    def strip(self) -> float:
        """Infinite: the transform is entire."""
        return np.inf

    @cached
    def _variance(self) -> float:
        return self.noise.scale_parameter**2 / len(self.observed)

    def log_value(self, s: FloatArray) -> FloatArray:
        """The log density summed over the copies."""
        return np.sum([self.noise.log_mass(y - np.asarray(s)) for y in self.observed], axis=0)

    def transform(self, tilt: float, frequencies: FloatArray) -> tuple[ComplexArray, float]:
        """In closed form; for whole sums with its periodic images, or as a finite sum if the noise is narrow."""
        variance, z = self._variance, tilt + 1j * frequencies
        if self.integer_valued and variance <= _NARROW:
            middle, reach = self.centre - variance * tilt, np.sqrt(2 * _STEPS * variance) + 1
            sums = np.arange(np.ceil(middle - reach), np.floor(middle + reach) + 1)
            logs = self._squares(sums - self.centre) - tilt * (sums - self.centre)
            largest = float(logs.max())
            terms = np.exp(-1j * np.outer(frequencies, sums - self.centre)) @ np.exp(logs - largest)
            return np.asarray(terms), largest + self._constant
        shift = variance * tilt * tilt / 2
        images = (-1, 0, 1) if self.integer_valued else (0,)  # with the phase e^(-2 pi i k centre)
        parts = [
            np.exp(variance * (z + 2j * np.pi * k) ** 2 / 2 - shift - 2j * np.pi * k * self.centre) for k in images
        ]
        return np.sum(parts, axis=0), shift + self._constant + 0.5 * np.log(2 * np.pi * variance)

    def slopes(self, tilt: float) -> Slopes:
        """Derivatives of variance z^2 / 2 - centre z."""
        return Slopes(self._variance * tilt - self.centre, self._variance)

    def residue(self, side: float) -> float:
        """Raises ValueError: the transform has no pole."""
        raise ValueError(f"normal noise has no pole on the side {side}")

    @property
    def cut(self) -> float:
        """The frequency at which the transform is e^(-40) of its maximum."""
        return 9.0 / float(np.sqrt(self._variance))

    def _squares(self, off: FloatArray) -> FloatArray:
        return -0.5 * off**2 / self._variance

    @cached
    def _constant(self) -> float:
        """log G is this less the square of (s - centre) over twice the variance."""
        apart = ((self.observed - self.centre) ** 2).sum() / (2 * self.noise.scale_parameter**2)
        return float(len(self.observed) * float(self.noise.log_mass(np.array(0.0))) - apart)


@frozen_value
class LaplaceKernel(NoiseKernel):
    """Copies with Laplace noise: log G is piecewise linear between the sorted copies."""

    observed: FloatArray
    noise: Noise
    integer_valued: bool

    @cached
    def centre(self) -> float:
        """The median of the copies."""
        return float(np.median(self.observed))

    @cached
    def strip(self) -> float:
        """The slope of log G beyond all copies."""
        return len(self.observed) / self.noise.scale_parameter

    def log_value(self, s: FloatArray) -> FloatArray:
        """The log density summed over the copies."""
        return np.sum([self.noise.log_mass(y - np.asarray(s)) for y in self.observed], axis=0)

    def transform(self, tilt: float, frequencies: FloatArray) -> tuple[ComplexArray, float]:
        """The sum of two tails and of one term for each interval between copies."""
        z: ComplexArray = np.asarray(tilt + 1j * frequencies, dtype=np.complex128)
        seen = np.sort(self.observed)
        corners = np.ceil(seen) if self.integer_valued else seen
        levels = self.log_value(corners) - tilt * (corners - self.centre)
        largest = float(levels.max())
        first = corners[0] - 1 if self.integer_valued else corners[0]
        start = float(self.log_value(np.array(first))) - tilt * (first - self.centre) - largest
        turned = np.exp(-1j * np.outer(corners - self.centre, frequencies))
        total = np.exp(start) * np.exp(-1j * frequencies * (first - self.centre)) / self._pole(self.strip - z)
        total = total + np.exp(levels[-1] - largest) * turned[-1] / self._pole(self.strip + z)
        for j in range(len(seen) - 1):
            slope = self.strip * (1 - 2 * (j + 1) / len(seen))
            gap = corners[j + 1] - corners[j]
            total = total + np.exp(levels[j] - largest) * turned[j] * self._piece(slope - z, gap)
        return np.asarray(total), largest

    def slopes(self, tilt: float) -> Slopes:
        """Derivatives of -log(1 - (z / strip)^2) - centre z, which has the same poles."""
        share = tilt / self.strip
        room = (1 - share) * (1 + share)
        first = 2 * share / (room * self.strip)
        return Slopes(first - self.centre, 2 * (1 + share * share) / (room * self.strip) ** 2)

    def residue(self, side: float) -> float:
        """From the copy that is farthest on the other side."""
        end = self.far_end(side)
        return float(self.log_value(np.array(end))) - side * self.strip * end

    def far_end(self, side: float) -> float:
        """The least copy or, on the left, the largest."""
        return float(self.observed.min() if side > 0 else self.observed.max())

    def exponential(self, low: float, high: float) -> tuple[float, float] | None:
        """Where no copy lies between the ends."""
        above = int((self.observed >= high).sum())
        if above + int((self.observed <= low).sum()) < len(self.observed):
            return None
        slope = self.strip * (2 * above / len(self.observed) - 1)
        return slope, float(self.log_value(np.array(low))) - slope * low

    def within(self, low: float, high: float) -> tuple[NoiseKernel, float]:
        """Copies outside [low, high] are moved to the nearer end; log G between the ends changes by a constant."""
        moved = np.clip(self.observed, low, high)
        off = float(np.abs(self.observed - moved).sum()) / self.noise.scale_parameter
        return (
            (self, 0.0)
            if off == 0.0
            else (LaplaceKernel(observed=moved, noise=self.noise, integer_valued=self.integer_valued), -off)
        )

    @property
    def cut(self) -> float:
        """Infinite: the transform decays only like 1/t^2."""
        return np.inf

    def _pole(self, w: ComplexArray) -> ComplexArray:
        """Inverse of the integral of e^(-w s) over s > 0, or of its sum from 0."""
        return -np.expm1(-w) if self.integer_valued else w

    def _piece(self, w: ComplexArray, gap: float) -> ComplexArray:
        """The integral of e^(w s) over [0, gap], or its sum without the end."""
        if self.integer_valued:
            at_zero = np.abs(np.expm1(w)) < 1e-12
            return np.where(at_zero, gap, np.expm1(w * gap) / np.where(at_zero, 1.0, np.expm1(w)))
        at_zero = np.abs(w) < 1e-300
        return np.where(at_zero, gap, np.expm1(w * gap) / np.where(at_zero, 1.0, w))


def noise_kernel(noise: Noise, observed: FloatArray, *, integer_valued: bool) -> NoiseKernel:
    """The kernel of noisy copies of an integer-valued or real sum. Raises TypeError for discrete noise on real sums."""
    seen = np.asarray(observed, dtype=np.float64).ravel()
    if noise.integer_valued and not integer_valued:
        raise TypeError(
            f"{noise.name} noise on sums that are not integer-valued has no likelihood: use continuous noise"
        )
    if isinstance(noise, GaussianNoise | DiscreteGaussianNoise):
        return NormalKernel(observed=seen, noise=noise, integer_valued=integer_valued)
    if isinstance(noise, LaplaceNoise | DiscreteLaplaceNoise):
        return LaplaceKernel(observed=seen, noise=noise, integer_valued=integer_valued)
    raise TypeError(f"no likelihood is known under {noise.name} noise: use .mcmc()")

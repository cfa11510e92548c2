"""Distributions of posteriors with exact rational parameters, drawn exactly and rounded to a public grid.

The parameters are fractions, computed without rounding from the fields of a model and from an exact statistic. A draw
is round(X) on the grid, where X has exactly the stated distribution (docs/notes/exact_draws.md).
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any, Self

import numpy as np

from privsample._checks import FloatArray
from privsample._value import frozen_value
from privsample.distributions.exact import laws
from privsample.distributions.exact.balls import enclose
from privsample.distributions.exact.grid import Grid
from privsample.distributions.exact.lazy import LazyMap, LazyReal, affine, rounded
from privsample.distributions.exact.truncated import (
    truncated_beta_sampler,
    truncated_gamma_sampler,
    truncated_normal_sampler,
)
from privsample.distributions.exact.truncated_dirichlet import truncated_dirichlet_sampler
from privsample.distributions.exact.words import WordStream

Bounds = tuple[Fraction, Fraction]
Sampler = Callable[[WordStream], Sequence[LazyReal]]
ExactStatistic = tuple[Fraction, ...]


class RationalDistribution(ABC):
    """A distribution with rational parameters, of a number or of a vector of proportions.

    `bounds` truncates each number to an interval; None leaves the distribution as it is.
    """

    __slots__ = ()
    bounds: Bounds | None

    @abstractmethod
    def tempered(self, temperature: float) -> Self:
        """The distribution whose density is proportional to the density of this one to the power 1/temperature."""

    def truncated(self, low: float, high: float) -> Self:
        """The distribution given that each number lies in [low, high]; doubles are exact fractions."""
        return replace(self, bounds=(Fraction(low), Fraction(high)))  # type: ignore[type-var]

    @abstractmethod
    def sampler(self) -> Sampler:
        """A function that draws the numbers once, each known by enclosures that can be refined.

        What depends on no randomness is computed once.
        """

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of one draw."""
        return ()

    @property
    def support(self) -> tuple[float, float]:
        """The open interval of possible numbers without truncation."""
        return -math.inf, math.inf

    @property
    def shapes(self) -> tuple[Fraction, ...]:
        """The shape parameters, if there are any; draws crowd at 0 where one is small."""
        return ()

    def sample(self, size: int, grid: Grid, rng: np.random.Generator) -> FloatArray:
        """Independent exact draws, rounded to the grid, shape (size,) or (size, K)."""
        words, draw = WordStream(rng), self.sampler()
        drawn = [rounded_numbers(draw(words), grid) for _ in range(size)]
        return np.array(drawn, dtype=np.float64).reshape(size, *self.shape)


def rounded_numbers(numbers: Sequence[LazyReal], grid: Grid) -> list[float]:
    """The points of the cells that contain the numbers."""
    return [grid.point(rounded(number, grid)) for number in numbers]


def _power(shape: Fraction, temperature: float) -> Fraction:
    """The shape parameter of a tempered Beta, Gamma or Dirichlet distribution, without rounding."""
    return 1 + (shape - 1) / Fraction(temperature)


@frozen_value
class RationalBeta(RationalDistribution):
    """Beta(a, b) on (0, 1)."""

    a: Fraction
    b: Fraction
    bounds: Bounds | None = None

    @property
    def support(self) -> tuple[float, float]:
        """(0, 1)."""
        return 0.0, 1.0

    @property
    def shapes(self) -> tuple[Fraction, ...]:
        """Both a and b."""
        return self.a, self.b

    def tempered(self, temperature: float) -> "RationalBeta":
        """The Beta distribution with the shapes 1 + (a - 1)/T and 1 + (b - 1)/T."""
        return replace(self, a=_power(self.a, temperature), b=_power(self.b, temperature))

    def sampler(self) -> Sampler:
        """One number."""
        if self.bounds is None:
            draw = laws.beta_sampler(self.a, self.b)
        else:
            draw = truncated_beta_sampler(self.a, self.b, *self.bounds)
        return lambda words: (draw(words),)


@frozen_value
class RationalGamma(RationalDistribution):
    """Gamma(shape, rate) on (0, inf)."""

    gamma_shape: Fraction
    rate: Fraction
    bounds: Bounds | None = None

    @property
    def support(self) -> tuple[float, float]:
        """(0, inf)."""
        return 0.0, math.inf

    @property
    def shapes(self) -> tuple[Fraction, ...]:
        """The shape."""
        return (self.gamma_shape,)

    def tempered(self, temperature: float) -> "RationalGamma":
        """The Gamma distribution with the shape 1 + (shape - 1)/T and the rate over T."""
        shape, rate = _power(self.gamma_shape, temperature), self.rate / Fraction(temperature)
        return replace(self, gamma_shape=shape, rate=rate)

    def sampler(self) -> Sampler:
        """One number."""
        if self.bounds is None:
            plain, scale = laws.gamma_sampler(self.gamma_shape), 1 / self.rate
            return lambda words: (affine(plain(words), scale),)
        draw = truncated_gamma_sampler(self.gamma_shape, self.rate, *self.bounds)
        return lambda words: (draw(words),)


@frozen_value
class RationalNormal(RationalDistribution):
    """Normal distribution with a rational mean and variance."""

    mean: Fraction
    variance: Fraction
    bounds: Bounds | None = None

    def tempered(self, temperature: float) -> "RationalNormal":
        """The normal distribution with the variance times T."""
        return replace(self, variance=self.variance * Fraction(temperature))

    def sampler(self) -> Sampler:
        """One number."""
        if self.bounds is None:
            return lambda words: (LazyMap(self._place, laws.normal(words)),)
        draw = truncated_normal_sampler(self.mean, self.variance, *self.bounds)
        return lambda words: (draw(words),)

    def _place(self, ball: Any) -> Any:
        """The mean plus the standard deviation times a ball around a standard normal number."""
        return enclose(self.mean) + enclose(self.variance).sqrt() * ball


@frozen_value
class RationalDirichlet(RationalDistribution):
    """Dirichlet(alpha) on the simplex of K proportions."""

    alpha: tuple[Fraction, ...]
    bounds: Bounds | None = None

    @property
    def shape(self) -> tuple[int, ...]:
        """(K,)."""
        return (len(self.alpha),)

    @property
    def support(self) -> tuple[float, float]:
        """(0, 1)."""
        return 0.0, 1.0

    @property
    def shapes(self) -> tuple[Fraction, ...]:
        """All alpha."""
        return self.alpha

    def tempered(self, temperature: float) -> "RationalDirichlet":
        """The Dirichlet distribution with the parameters 1 + (alpha - 1)/T."""
        return replace(self, alpha=tuple(_power(a, temperature) for a in self.alpha))

    def sampler(self) -> Sampler:
        """K numbers."""
        if self.bounds is None:
            return laws.dirichlet_sampler(self.alpha)
        return truncated_dirichlet_sampler(self.alpha, self.bounds[0])

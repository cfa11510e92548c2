"""Exact choices with weights e^(c (u - max u)) for exact utilities u and a rational c (exact_choices.md, section 3)."""

import math
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privsample._checks import FloatArray
from privsample.distributions.exact.categorical import (
    Boundaries,
    Categorical,
    Integers,
    as_ball,
    ball_boundaries,
    bernoulli_of_bounds,
    scaled_bounds,
    uniform_integers,
)

_LEAST = -700.0  # exponents below it count as it: their weights are below 2^-1000
_ERROR = 2.0**-41  # relative error of a weight: 2^-41.4 of the exponent, at most 4 * 700 ulp, and 2^-45 of its power
_SUM_ERROR = 2.0**-52  # of each addition, relative to the total
_UNIT_ERROR = 2.0**-1000
_SERIES = [1.0 / math.factorial(k) for k in range(17)]
_LN2_HIGH = math.ldexp(2977044471, -32)  # 32 bits of log 2: its multiples up to 2^20 are exact doubles
_LN2_LOW = 1.9082149292705877e-10  # log 2 less these bits; the error is below 2^-80
_BLOCK = 1 << 20  # Bernoulli draws that are held at once


class ExponentialWeights:
    """Weights e^(factor (u - max u)) of candidates.

    Parameters
    ----------
    utilities : array of int64 or float64, shape (candidates,)
        The utilities u, exact numbers; the differences of integers must fit in 63 bits.
    factor : Fraction
        The factor c > 0 of the utilities in the exponent.
    """

    def __init__(self, utilities: NDArray[Any], factor: Fraction) -> None:
        self._utilities, self._best, self._factor = utilities, utilities.max(), factor

    def choose(self, count: int, rng: np.random.Generator) -> Integers:
        """Independent choices with probabilities proportional to the weights, shape (count,)."""
        weights = self._approximate_weights()
        below = np.cumsum(weights)
        # The error of a sum is at most e times the total, and so a quotient of two has an error of at most 4 e.
        error = 4 * (_ERROR + len(weights) * (_SUM_ERROR + _UNIT_ERROR))
        first = scaled_bounds(below[:-1] / below[-1], np.asarray(error))
        return Categorical(ball_boundaries(self._masses), first).draw(count, rng)

    def permute_and_flip(self, count: int, rng: np.random.Generator) -> Integers:
        """Independent choices by permute-and-flip, shape (count,).

        Each candidate is accepted with its weight as probability, and one of the accepted candidates is chosen
        uniformly: it is the first accepted one of a random order. The best candidate has weight 1.
        """
        parts = np.array_split(np.empty(count), count * len(self._utilities) // _BLOCK + 1)
        weights = self._approximate_weights()
        low, high = scaled_bounds(weights, weights * (2 * _ERROR) + _UNIT_ERROR)
        return np.concatenate([self._first_accepted(low, high, len(part), rng) for part in parts])

    def _first_accepted(self, low: Any, high: Any, count: int, rng: np.random.Generator) -> Integers:
        candidates = len(low)
        drawn = bernoulli_of_bounds(
            np.tile(low, count), np.tile(high, count), lambda at: self._acceptance(at % candidates), rng
        )
        accepted = np.cumsum(drawn.reshape(count, candidates), axis=1, dtype=np.int64)
        places = uniform_integers(accepted[:, -1], count, rng)
        return np.asarray((accepted > places[:, None]).argmax(axis=1), dtype=np.int64)

    def _approximate_weights(self) -> FloatArray:
        """The weights in doubles, with a relative error of at most 2^-41, or an absolute one of 2^-1000."""
        with np.errstate(over="ignore"):
            differences = (self._utilities - self._best).astype(np.float64)
            try:
                factor = float(self._factor)
            except OverflowError:
                factor = math.inf
            exponents = np.multiply(differences, factor, where=differences < 0, out=np.zeros(len(differences)))
        return power_of_e(np.maximum(exponents, _LEAST))

    def _exponent(self, place: int) -> Fraction:
        return self._factor * (Fraction(self._utilities[place].item()) - Fraction(self._best.item()))

    def _masses(self, bits: int) -> list[Any]:
        """Balls around all weights, in the working precision."""
        del bits
        return [as_ball(self._exponent(place)).exp() for place in range(len(self._utilities))]

    def _acceptance(self, place: int) -> Boundaries:
        """The boundaries of a Bernoulli variable with the weight of a candidate as probability of 0."""

        def masses(bits: int) -> list[Any]:
            del bits
            weight = as_ball(self._exponent(place)).exp()
            return [weight, 1 - weight]

        return ball_boundaries(masses)


def power_of_e(x: FloatArray) -> FloatArray:
    """e^x for x in [-700, 0] with a relative error below 2^-45, by additions and multiplications only.

    The error of a library's exponential is not specified; those of IEEE additions and multiplications are. With
    x = k log 2 + r, |r| <= 0.35: the error of r is below 2^-51, that of the series 1e-24, and each of its 17 steps adds
    at most 2^-52.
    """
    k = np.rint(x * (1.0 / math.log(2.0)))
    r = (x - k * _LN2_HIGH) - k * _LN2_LOW
    found = np.full(x.shape, _SERIES[-1])
    for coefficient in reversed(_SERIES[:-1]):
        found = found * r + coefficient
    return np.ldexp(found, k.astype(np.int64))

"""Exact draws of categories, Bernoulli variables and integers from random words (docs/notes/exact_choices.md)."""

from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from itertools import accumulate
from math import lcm, prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privsample._checks import FloatArray
from privsample.distributions.exact.balls import WorkingPrecision, enclose
from privsample.distributions.exact.words import Words, random_words

Integers = NDArray[np.int64]
Shape = int | tuple[int, ...]
# Maps a number of bits b to integers below and above 2^b C_j, where C_1, ..., C_(k-1) are the cumulative probabilities
# of all categories but the last.
Boundaries = Callable[[int], tuple[list[int], list[int]]]

_BITS = 63  # bits of a uniform number that decide nearly all draws: 2^63 itself is a word
_MORE = 64  # bits that are added while a draw is undecided
_MOST_PRECISION = 1 << 16  # bits of precision up to which the sum of all masses is sharpened
_GUARD = 48  # bits of precision beyond those of the boundaries; they cover the rounding of up to 2^40 sums


class Categorical:
    """A distribution on 0, ..., k - 1 that is drawn exactly.

    A draw is the category whose cumulative probabilities enclose a uniform number. Its first 63 bits nearly always
    decide; otherwise more bits are drawn and the boundaries are enclosed more tightly until they do (exact_choices.md,
    section 1).

    Parameters
    ----------
    boundaries : function of int
        Maps a number of bits b to integers below and above 2^b C_j, where C_1, ..., C_(k-1) are the cumulative
        probabilities.
    first : tuple of two arrays of uint64, optional
        The integers for 63 bits. None takes them from `boundaries`.
    """

    __slots__ = ("_boundaries", "_high", "_low")

    def __init__(self, boundaries: Boundaries, first: tuple[Words, Words] | None = None) -> None:
        self._boundaries = boundaries
        low, high = (_words(side) for side in boundaries(_BITS)) if first is None else first
        # Boundaries increase, so that a lower bound also bounds those after it, and an upper bound those before it.
        self._low = np.minimum.accumulate(low[::-1])[::-1]
        self._high = np.maximum.accumulate(high)

    @classmethod
    def of_weights(cls, weights: Iterable[Fraction | float]) -> "Categorical":
        """The distribution with probabilities proportional to these rational weights >= 0; a float is a fraction."""
        return cls(weight_boundaries([Fraction(weight) for weight in weights]))

    @classmethod
    def of_balls(cls, masses: Callable[[int], Sequence[Any]]) -> "Categorical":
        """The distribution with probabilities proportional to real masses, of which a precision in bits gives balls."""
        return cls(ball_boundaries(masses))

    def draw(self, size: Shape, rng: np.random.Generator) -> Integers:
        """Independent draws, an array of shape `size`.

        Raises OSError if the operating system provides no entropy.
        """
        shape = (size,) if isinstance(size, int) else size
        words = random_words(rng, prod(shape)) >> np.uint64(64 - _BITS)
        found = np.searchsorted(self._high, words, side="right")
        for at in np.flatnonzero(found != np.searchsorted(self._low, words, side="right")):
            found[at] = settled(self._boundaries, int(words[at]), rng)
        return found.astype(np.int64).reshape(shape)


def settled(boundaries: Boundaries, word: int, rng: np.random.Generator) -> int:
    """The category of the uniform number that starts with the 63 bits of `word`, which do not decide."""
    value, bits = word, _BITS
    while True:
        value = value << _MORE | int(random_words(rng, 1)[0])
        bits += _MORE
        low, high = boundaries(bits)
        found = bisect_right(list(accumulate(high, max)), value)
        if found == len(low) or low[found] > value:
            return found


def weight_boundaries(weights: Sequence[Fraction]) -> Boundaries:
    """The boundaries for rational weights, by exact integers."""
    shared = lcm(*(weight.denominator for weight in weights))
    below = list(accumulate(weight.numerator * (shared // weight.denominator) for weight in weights))
    total = below.pop()

    def boundaries(bits: int) -> tuple[list[int], list[int]]:
        scaled = [part << bits for part in below]
        return [part // total for part in scaled], [-(-part // total) for part in scaled]

    return boundaries


def ball_boundaries(masses: Callable[[int], Sequence[Any]]) -> Boundaries:
    """The boundaries for masses that balls of python-flint enclose, for any precision in bits."""

    def boundaries(bits: int) -> tuple[list[int], list[int]]:
        precision = bits + _GUARD
        while True:
            with WorkingPrecision(precision):
                below = list(accumulate(masses(precision)))
                total = below.pop()
                # a sum in which digits cancel, such as a tail's mass, is computed again with more of them
                if total.rel_accuracy_bits() >= bits or precision > _MOST_PRECISION:
                    balls = [part * 2**bits / total for part in below]
                    return [floor_of(ball) for ball in balls], [ceil_of(ball, bits) for ball in balls]
            precision *= 2

    return boundaries


def floor_of(ball: Any) -> int:
    """The largest integer certainly at or below a number >= 0; 0 if the ball is not finite."""
    if not ball.is_finite():
        return 0
    return max(int(ball.lower().floor().unique_fmpz() or 0), 0)


def ceil_of(ball: Any, bits: int) -> int:
    """The smallest integer certainly at or above a number up to 2^bits; 2^bits if the ball is not finite."""
    if not ball.is_finite():
        return 2**bits
    found = ball.upper().ceil().unique_fmpz()
    return 2**bits if found is None else min(int(found), 2**bits)


def as_ball(number: Fraction | float) -> Any:
    """A ball of python-flint around a rational number in the working precision; a float is a fraction."""
    return enclose(Fraction(number))


def bernoulli_draws(probabilities: FloatArray, rng: np.random.Generator) -> NDArray[np.bool_]:
    """Independent exact Bernoulli draws, of the shape of `probabilities`, whose doubles are exact rational numbers."""
    flat = np.ravel(probabilities)
    scaled = np.ldexp(flat, _BITS)  # exact
    return bernoulli_of_bounds(
        np.floor(scaled).astype(np.uint64),
        np.ceil(scaled).astype(np.uint64),
        lambda at: weight_boundaries([Fraction(float(flat[at])), 1 - Fraction(float(flat[at]))]),
        rng,
    ).reshape(np.shape(probabilities))


def bernoulli_of_bounds(
    low: Words, high: Words, exact: Callable[[int], Boundaries], rng: np.random.Generator
) -> NDArray[np.bool_]:
    """Independent exact Bernoulli draws, whose probabilities times 2^63 lie between `low` and `high`.

    `exact(place)` gives the boundaries of a probability that must be enclosed more tightly.
    """
    words = random_words(rng, len(low)) >> np.uint64(64 - _BITS)
    found = words < low
    for at in np.flatnonzero(~found & (words < high)):
        found[at] = settled(exact(int(at)), int(words[at]), rng) == 0
    return found


def uniform_integers(counts: int | Integers, size: int, rng: np.random.Generator) -> Integers:
    """Independent uniform integers from 0 to count - 1, shape (size,), count >= 1: words below a multiple of it.

    `counts` is one count, or one for each integer.
    """
    each = np.broadcast_to(np.asarray(counts).astype(np.uint64), (size,))
    most = ~((np.uint64(0) - each) % each)  # the largest words that are kept, 2^64 - 1 - 2^64 mod count
    words = random_words(rng, size)
    while (beyond := words > most).any():
        words = words.copy()
        words[beyond] = random_words(rng, int(beyond.sum()))
    return (words % each).astype(np.int64)


def _words(integers: Sequence[int]) -> Words:
    return np.array(integers, dtype=np.uint64)


def scaled_bounds(values: FloatArray, error: FloatArray) -> tuple[Words, Words]:
    """Integers below and above 2^63 x for numbers x in [0, 1] that are known up to `error`, as words."""
    low = np.floor(np.ldexp(np.clip(values - error, 0.0, 1.0), _BITS))
    high = np.ceil(np.ldexp(np.clip(values + error, 0.0, 1.0), _BITS))
    return low.astype(np.uint64), high.astype(np.uint64)

"""Random real numbers that are known by enclosures, which are refined until a decision is certain."""

from collections.abc import Callable
from typing import Any, Protocol, TypeVar

from privsample.distributions.exact.balls import (
    Rational,
    WorkingPrecision,
    dyadic_ball,
    enclose,
    flint,
    power_of_two,
)
from privsample.distributions.exact.grid import Grid
from privsample.distributions.exact.words import WordStream

T = TypeVar("T")
START = 64  # bits of the quick path: one random word a number, and balls of one machine word
_SLACK = 16  # leading zeros that a uniform number may have before another word is read for its relative accuracy
_MOST = 1 << 20  # what is open at this precision has a probability below 2^-10^6: the test can never decide


class LazyReal(Protocol):
    """A random real number; every call of `ball` encloses the same number."""

    def ball(self, bits: int) -> Any:
        """An enclosure of the number, an `arb` of python-flint; more bits give a smaller ball."""


class LazyUniform:
    """A uniform number in (0, 1), of which bits are revealed as they are needed.

    Parameters
    ----------
    words : WordStream
        The source of the random bits.

    Notes
    -----
    The sum of b_i 2^-i with fair independent bits b_i is uniform (exact_draws.md, step 1). Kind: exact.

    Examples
    --------
    >>> import numpy as np
    >>> from privsample.distributions.exact.lazy import LazyUniform
    >>> from privsample.distributions.exact.words import WordStream
    >>> uniform = LazyUniform(WordStream(np.random.default_rng(0)))
    >>> bool(uniform.ball(64).contains(uniform.ball(256)))
    True
    """

    __slots__ = ("_ball", "_count", "_value", "_words")

    def __init__(self, words: WordStream) -> None:
        self._words = words
        self._value = 0  # the revealed bits as an integer
        self._count = 0  # and their number
        self._ball: Any = None

    def ball(self, bits: int) -> Any:
        """An interval with all numbers that begin with the revealed bits: at least `bits` - 16 after leading zeros.

        For revealed bits v, [v - 1, v + 1] 2^-count takes a third of the time of [v, v + 1] 2^-count. It is exact where
        the working precision holds v.
        """
        needed = max(bits - _SLACK, 1)  # at least one bit: the ball must exclude 0, where logarithms are infinite
        if self._ball is None or self._value.bit_length() < needed:
            while self._value.bit_length() < needed:
                self._value = self._value << 64 | self._words.word()
                self._count += 64
            if flint().ctx.prec >= self._value.bit_length():
                self._ball = flint().arb(self._value, 1) * power_of_two(-self._count)
            else:
                self._ball = dyadic_ball(self._value, -self._count)
        return self._ball


class LazyMap:
    """A continuous function of random real numbers, evaluated in ball arithmetic.

    Parameters
    ----------
    function : callable
        Maps one `arb` for each part to an enclosure of the result.
    *parts : LazyReal
        The arguments.
    """

    __slots__ = ("_ball", "_bits", "_function", "_parts")

    def __init__(self, function: Callable[..., Any], *parts: LazyReal) -> None:
        self._function = function
        self._parts = parts
        self._bits = 0
        self._ball: Any = None

    def ball(self, bits: int) -> Any:
        """The enclosure of the result at this precision."""
        if bits != self._bits:
            parts = [part.ball(bits) for part in self._parts]
            if flint().ctx.prec == bits:
                self._ball = self._function(*parts)
            else:
                with WorkingPrecision(bits):
                    self._ball = self._function(*parts)
            self._bits = bits
        return self._ball


def affine(value: LazyReal, factor: Rational, offset: Rational = 0) -> LazyReal:
    """The random number offset + factor * value."""
    return LazyMap(lambda ball: enclose(offset) + enclose(factor) * ball, value)


def less(left: Any, right: Any) -> bool | None:
    """Whether one number is below another, by their enclosures; None if it is not certain."""
    if left < right:
        return True
    return False if left >= right else None


def decide(test: Callable[[int], bool | None]) -> bool:
    """The certain answer to a test of random numbers; the precision is doubled until there is one.

    Parameters
    ----------
    test : callable
        Maps a precision in bits to True, False, or None if enclosures at this precision leave the answer open.

    Returns
    -------
    bool
        The answer.

    Raises
    ------
    ArithmeticError
        If the answer is open at 2^20 bits. That has a probability below 2^-10^6 unless the test compares equal numbers.
    """
    return refine(test)


def rounded(value: LazyReal, grid: Grid) -> int:
    """The index of the cell of a grid that contains a random number; the precision is doubled until it is certain.

    Parameters
    ----------
    value : LazyReal
        A random number with a density.
    grid : Grid
        The public grid.

    Returns
    -------
    int
        The index, `grid.point` of which is the released number.

    Raises
    ------
    ArithmeticError
        If the cell is open at 2^20 bits, which has a probability below 2^-10^6 for a number with a density.

    Notes
    -----
    Rounding is post-processing: the released number costs what the ideal draw costs (exact_draws.md, step 2).
    Kind: exact.

    Examples
    --------
    >>> import numpy as np
    >>> from privsample.distributions.exact.grid import Grid
    >>> from privsample.distributions.exact.laws import normal
    >>> from privsample.distributions.exact.lazy import rounded
    >>> from privsample.distributions.exact.words import WordStream
    >>> grid = Grid(pitch=2.0**-3)
    >>> grid.point(rounded(normal(WordStream(np.random.default_rng(1))), grid)) * 8 % 1
    0.0
    """
    return refine(lambda bits: grid.index(value.ball(bits)))


def refine(answer: Callable[[int], T | None]) -> T:
    """The first certain answer as the precision is doubled."""
    bits = START
    while bits <= _MOST:
        with WorkingPrecision(bits):
            found = answer(bits)
        if found is not None:
            return found
        bits *= 2
    raise ArithmeticError(
        f"a comparison of random numbers is open at {_MOST} bits, expected far fewer: two of them are equal, or an "
        "enclosure is infinite; please report the law and its parameters"
    )

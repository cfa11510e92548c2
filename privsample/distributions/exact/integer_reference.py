"""Exact draws of noise in Python integers and fractions: the reference of the kernels in `integer_kernels`.

It reads the same words in the same order, settles every comparison by reading further words, and so continues a draw
that a kernel left undecided. docs/notes/exact_noise.md, steps 1 to 5.
"""

import math
from collections.abc import Callable
from fractions import Fraction

_BITS = 64  # of a word


class Uniform:
    """A uniform variate U of [0, 1) whose first binary digits are known; `refine` reads the next ones."""

    __slots__ = ("_word", "_word_bits", "bits", "digits")

    def __init__(self, word: Callable[[], int], word_bits: int) -> None:
        self._word, self._word_bits = word, word_bits
        self.digits = self.bits = 0
        self.refine()

    def refine(self) -> None:
        """Read one more word."""
        self.digits = (self.digits << self._word_bits) | (self._word() >> (_BITS - self._word_bits))
        self.bits += self._word_bits

    @property
    def low(self) -> Fraction:
        """The lower end of the interval in which U lies."""
        return Fraction(self.digits, 1 << self.bits)

    @property
    def high(self) -> Fraction:
        """The upper end of the interval in which U lies."""
        return Fraction(self.digits + 1, 1 << self.bits)

    def below(self, other: "Uniform") -> bool:
        """Whether this uniform is below another one."""
        while True:
            if self.high <= other.low:
                return True
            if other.high <= self.low:
                return False
            self.refine()
            other.refine()


class Reference:
    """Exact draws from a source of random words.

    Parameters
    ----------
    word : callable
        Returns the next word, an integer in [0, 2^64).
    word_bits : int, default 64
        Number of leading bits of a word that are digits of a uniform, in [1, 64]; fewer serve the tests.
    """

    def __init__(self, word: Callable[[], int], word_bits: int = _BITS) -> None:
        self._word, self._word_bits = word, word_bits

    def _uniform(self) -> Uniform:
        return Uniform(self._word, self._word_bits)

    def _negative(self) -> bool:
        return self._word() >> (_BITS - 1) == 1

    def run(self) -> Uniform | None:
        """A uniform variate U with probability e^-U, else None: whether the run U > V > ... has odd length (step 1)."""
        first = current = self._uniform()
        odd = True
        while (following := self._uniform()).below(current):
            current, odd = following, not odd
        return first if odd else None

    def exponential(self) -> tuple[int, Uniform]:
        """A standard exponential as its whole part and its fraction (step 1)."""
        whole = 0
        while (fraction := self.run()) is None:
            whole += 1
        return whole, fraction

    def cell(self, factor: Fraction, whole: int, fraction: Uniform, offset: Fraction) -> int:
        """floor(offset + factor (whole + fraction)) for a factor of any sign (step 2)."""
        while True:
            low, high = sorted((offset + factor * (whole + fraction.low), offset + factor * (whole + fraction.high)))
            if math.floor(low) == math.ceil(high) - 1:
                return math.floor(low)
            fraction.refine()

    def laplace(self, factor: Fraction, offset: Fraction = Fraction(1, 2)) -> int:
        """floor(offset +- factor E), E standard exponential: the rounded Laplace variate for 1/2 (step 3)."""
        sign = -1 if self._negative() else 1
        return self.cell(sign * factor, *self.exponential(), offset)

    def discrete_laplace(self, scale: Fraction) -> int:
        """A sign times floor(scale E); a negative zero is drawn again (step 3)."""
        while True:
            negative = self._negative()
            size = self.cell(scale, *self.exponential(), Fraction(0))
            if size or not negative:
                return -size if negative else size

    def _exceeds(self, cost: Fraction) -> bool:
        """Whether a standard exponential exceeds a number."""
        whole, fraction = self.exponential()
        while True:
            if whole + fraction.low >= cost:
                return True
            if whole + fraction.high <= cost:
                return False
            fraction.refine()

    def gaussian(self, factor: Fraction, offset: Fraction = Fraction(1, 2)) -> int:
        """floor(offset +- factor X), X half-normal: the rounded normal variate for 1/2 (step 4)."""
        while True:
            whole, fraction = self.exponential()
            other, part = self.exponential()
            if self._accepted(whole, fraction, other, part):
                sign = -1 if self._negative() else 1
                return self.cell(sign * factor, whole, fraction, offset)

    @staticmethod
    def _accepted(whole: int, fraction: Uniform, other: int, part: Uniform) -> bool:
        """Whether other + part > (whole + fraction - 1)^2 / 2."""
        while True:
            ends = ((whole + fraction.low - 1) ** 2 / 2, (whole + fraction.high - 1) ** 2 / 2)
            if other + part.low >= max(ends):
                return True
            if other + part.high <= min(ends):
                return False
            fraction.refine()
            part.refine()

    def discrete_gaussian(self, noise_std: Fraction) -> int:
        """A discrete Gaussian draw by rejection (Canonne, Kamath and Steinke 2020; step 5)."""
        scale = Fraction(math.floor(noise_std) + 1)
        while True:
            found = self.discrete_laplace(scale)
            if self._exceeds((abs(found) / noise_std - noise_std / scale) ** 2 / 2):
                return found

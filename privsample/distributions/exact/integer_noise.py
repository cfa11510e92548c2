"""Exact draws of noise: discrete Laplace, discrete Gaussian, and rounded Laplace and normal variates.

All are decided by comparisons of random words: the released integer has exactly the stated distribution. Compiled
kernels make nearly all draws; a draw that 64 bits of a uniform do not settle is continued by the reference in Python
integers, from the same words. docs/notes/exact_noise.md.
"""

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privsample._checks import FloatArray, nonnegative_integer, positive
from privsample.distributions.exact.grid import Grid
from privsample.distributions.exact.integer_reference import Reference
from privsample.distributions.exact.words import random_words

Integers = NDArray[Any]
Kernel = Callable[..., tuple[int, int, int]]
_WORD_BITS = 64  # digits of a uniform in a word; the tests shorten it, so that many draws are left undecided
_LARGEST_STEP = 2**55  # of the kernels: beyond it indices may exceed 64 bits
_LARGEST_BASE = 2.0**61  # indices of centers whose sums with those of noise fit in 64 bits
_SPARE_WORDS = 64
_MOST_WORDS = 1 << 20  # fetched at a time


def discrete_laplace(scale: float | Fraction, size: int, rng: np.random.Generator) -> Integers:
    """Exact draws with P(k) proportional to e^(-|k| / scale) on the integers.

    Parameters
    ----------
    scale : float or Fraction
        Scale, > 0; a float is the exact dyadic number that it is.
    size : int
        Number of draws, >= 0.
    rng : numpy.random.Generator
        Source of the random words.

    Returns
    -------
    numpy.ndarray
        The draws, shape (size,): int64, or Python integers where 64 bits could be too few (scale >= 2^55).
    """
    factor, size = _rational(scale=scale), nonnegative_integer(size=size)

    def by_reference(source: Reference, _: int) -> int:
        return source.discrete_laplace(factor)

    if (parts := _parts(factor)) is None:
        return _by_reference(by_reference, size, rng)

    none = np.empty(0, dtype=np.uint64)
    return _filled(
        lambda kernels, words, at, spare, out, start: kernels.rounded_laplace(
            *parts, none, words, at, spare, out, start
        ),
        by_reference,
        np.empty(size, dtype=np.int64),
        rng,
        words_each=10,
    )


def rounded_laplace(
    scale: float | Fraction, grid: Grid, size: int, rng: np.random.Generator, *, around: FloatArray | float = 0.0
) -> Integers:
    """The indices of Laplace variates rounded to a grid: round((x + Z) / pitch), with Z exactly Laplace.

    Parameters
    ----------
    scale : float or Fraction
        Scale of Z, > 0, in the unit of the grid.
    grid : Grid
        The grid.
    size : int
        Number of draws, >= 0.
    rng : numpy.random.Generator
        Source of the random words.
    around : float or array of shape (size,), default 0
        The finite number x to which each variate is added, without rounding the sum; a float is the exact dyadic number
        that it is.

    Returns
    -------
    numpy.ndarray
        The indices, shape (size,): int64, or Python integers where 64 bits could be too few.
    """
    factor, centers = _rational(scale=scale) / Fraction(grid.pitch), _Centers(around, grid, size)

    def by_reference(source: Reference, draw: int) -> int:
        return source.laplace(factor, centers.offset(draw))

    if (parts := _parts(factor)) is None:
        return centers.plus(_by_reference(by_reference, size, rng))

    return centers.plus(
        _filled(
            lambda kernels, words, at, spare, out, start: kernels.rounded_laplace(
                *parts, centers.words, words, at, spare, out, start
            ),
            by_reference,
            np.empty(size, dtype=np.int64),
            rng,
            words_each=6,
        )
    )


def rounded_gaussian(
    noise_std: float | Fraction, grid: Grid, size: int, rng: np.random.Generator, *, around: FloatArray | float = 0.0
) -> Integers:
    """The indices of normal variates rounded to a grid: round((x + Z) / pitch), with Z exactly N(0, noise_std^2).

    Parameters
    ----------
    noise_std : float or Fraction
        Standard deviation of Z, > 0, in the unit of the grid.
    grid : Grid
        The grid.
    size : int
        Number of draws, >= 0.
    rng : numpy.random.Generator
        Source of the random words.
    around : float or array of shape (size,), default 0
        The finite number x to which each variate is added, without rounding the sum; a float is the exact dyadic number
        that it is.

    Returns
    -------
    numpy.ndarray
        The indices, shape (size,): int64, or Python integers where 64 bits could be too few.
    """
    factor, centers = _rational(noise_std=noise_std) / Fraction(grid.pitch), _Centers(around, grid, size)

    def by_reference(source: Reference, draw: int) -> int:
        return source.gaussian(factor, centers.offset(draw))

    if (parts := _parts(factor)) is None:
        return centers.plus(_by_reference(by_reference, size, rng))

    unit = 2.0**-_WORD_BITS
    return centers.plus(
        _filled(
            lambda kernels, words, at, spare, out, start: kernels.rounded_gaussian(
                *parts, centers.words, words, at, spare, out, start, unit
            ),
            by_reference,
            np.empty(size, dtype=np.int64),
            rng,
            words_each=14,
        )
    )


def discrete_gaussian(noise_std: float | Fraction, size: int, rng: np.random.Generator) -> Integers:
    """Exact draws with P(k) proportional to e^(-k^2 / (2 noise_std^2)) on the integers.

    Parameters
    ----------
    noise_std : float or Fraction
        Standard deviation parameter, > 0; a float is the exact dyadic number that it is.
    size : int
        Number of draws, >= 0.
    rng : numpy.random.Generator
        Source of the random words.

    Returns
    -------
    numpy.ndarray
        The draws, shape (size,): int64, or Python integers where 64 bits could be too few (noise_std >= 2^53).
    """
    exact = _rational(noise_std=noise_std)
    scale = exact.numerator // exact.denominator + 1
    near = float(exact)

    def by_reference(source: Reference, _: int) -> int:
        return source.discrete_gaussian(exact)

    if Fraction(near) != exact or scale > 2**53 or (parts := _parts(Fraction(scale))) is None:
        return _by_reference(by_reference, size, rng)
    return _filled(
        lambda kernels, words, at, spare, out, start: kernels.discrete_gaussian(
            near, *parts, near / scale, words, at, spare, out, start, 2.0**-_WORD_BITS
        ),
        by_reference,
        np.empty(nonnegative_integer(size=size), dtype=np.int64),
        rng,
        words_each=16,
    )


class _Centers:
    """The numbers around which noise is rounded: x / pitch + 1/2 is an integer base plus an offset in [0, 1).

    `words` holds the first 64 bits of the offsets, one for all draws or one for each.
    """

    def __init__(self, around: FloatArray | float, grid: Grid, size: int) -> None:
        values = np.atleast_1d(np.asarray(around, dtype=np.float64))
        if not np.isfinite(values).all() or values.shape not in ((1,), (nonnegative_integer(size=size),)):
            raise ValueError(f"around must be finite numbers, one or {size}, got an array of shape {values.shape}")
        self._values, self._pitch = values, Fraction(grid.pitch)
        with np.errstate(over="ignore"):
            steps = np.ldexp(values, -grid.exponent)
        ordinary = np.where(np.abs(steps) < _LARGEST_BASE, steps, 0.0)
        base = np.rint(ordinary)
        rest = ordinary - base  # exact, in [-1/2, 1/2]
        base, rest = np.where(rest == 0.5, base + 1, base), np.where(rest == 0.5, -0.5, rest)
        # Adding 2^63 modulo 2^64 adds 1/2 modulo 1.
        self.words = np.floor(np.ldexp(rest, 64)).astype(np.int64).view(np.uint64) + np.uint64(2**63)
        if (np.abs(steps) < _LARGEST_BASE).all() and (np.ldexp(steps, grid.exponent) == values).all():
            self._base: Integers = base.astype(np.int64)
            return
        exact = [Fraction(value) / self._pitch + Fraction(1, 2) for value in values.tolist()]
        self._base = np.array([math.floor(number) for number in exact], dtype=object)
        self.words = np.array([math.floor(number % 1 * 2**64) for number in exact], dtype=np.uint64)

    def offset(self, draw: int) -> Fraction:
        """The exact offset of a draw."""
        value = self._values[draw if len(self._values) > 1 else 0]
        return (Fraction(float(value)) / self._pitch + Fraction(1, 2)) % 1

    def plus(self, drawn: Integers) -> Integers:
        """The draws relative to the bases as indices of the grid."""
        return drawn + self._base


def _rational(**named: float | Fraction) -> Fraction:
    """A positive number as a fraction. Raises ValueError."""
    ((name, given),) = named.items()
    if isinstance(given, Fraction):
        if not given > 0:
            raise ValueError(f"{name} must be > 0, got {given}")
        return given
    return Fraction(positive(**{name: given}))


def _parts(factor: Fraction) -> tuple[Any, Any] | None:
    """Mantissa and shift with factor = mantissa 2^(64 - shift), as the kernels take them; None if they cannot."""
    denominator = factor.denominator
    if factor > _LARGEST_STEP or factor.numerator.bit_length() > 53 + 55 or denominator & (denominator - 1):
        return None
    mantissa, exponent = factor.numerator, 1 - denominator.bit_length()
    twos = (mantissa & -mantissa).bit_length() - 1
    mantissa, exponent = mantissa >> twos, exponent + twos
    if mantissa.bit_length() > 53:
        return None
    return np.uint64(mantissa), np.uint64(64 - exponent)


def _by_reference(draw: Callable[[Reference, int], int], size: int, rng: np.random.Generator) -> Integers:
    """Draws in Python integers, for scales beyond 64 bits."""
    source = Reference(_Source(rng, _SPARE_WORDS).word, _WORD_BITS)
    drawn = np.empty(nonnegative_integer(size=size), dtype=object)
    for i in range(len(drawn)):
        drawn[i] = draw(source, i)
    return drawn


class _Source:
    """Random words as an array that grows, and the place of the next one."""

    def __init__(self, rng: np.random.Generator, count: int) -> None:
        self._rng = rng
        self.words, self.at = random_words(rng, count), 0

    def more(self, count: int) -> None:
        """Drop the words before the next one and fetch more."""
        self.words, self.at = np.concatenate([self.words[self.at :], random_words(self._rng, count)]), 0

    def word(self) -> int:
        """The next word."""
        if self.at >= len(self.words):
            self.more(_SPARE_WORDS)
        self.at += 1
        return int(self.words[self.at - 1])


def _kernels() -> Any:
    """The compiled kernels; None without Numba: the reference then makes the same draws from the same words, slowly."""
    try:
        from privsample.distributions.exact import integer_kernels
    except ImportError:
        return None
    return integer_kernels


def _filled(
    kernel: Kernel,
    reference: Callable[[Reference, int], int],
    out: NDArray[Any],
    rng: np.random.Generator,
    *,
    words_each: int,
) -> NDArray[Any]:
    """Fill `out` by a kernel, and by the reference where the kernel leaves a draw undecided."""

    def needed(draws: int) -> int:
        return min(words_each * draws + _SPARE_WORDS, _MOST_WORDS)

    source, done, kernels = _Source(rng, needed(len(out))), 0, _kernels()
    exact, spare = Reference(source.word, _WORD_BITS), np.uint64(64 - _WORD_BITS)
    while done < len(out):
        if kernels is not None:
            done, source.at, status = kernel(kernels, source.words, source.at, spare, out, done)
            if status == kernels.DONE:
                break
            if status == kernels.MORE_WORDS:
                source.more(needed(len(out) - done))
                continue
        out[done] = reference(exact, done)
        done += 1
    return out

"""Exact draws of noise from random words, compiled by Numba. docs/notes/exact_noise.md, steps 1 to 4.

Every kernel draws `out[start:]` from `words[at:]` and stops early in two cases, which it reports: the words do not
suffice, or 64 bits of a uniform do not settle a comparison. Each returns the number of draws that are complete, the
place of the first word of the next draw, and why it stopped.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from privsample._compiled import compiled

DONE, MORE_WORDS, UNDECIDED = 0, 1, 2
LARGEST_STEP = 2.0**55  # largest ratio of scale to pitch: an index below 2^55 * 100 is below 2^63
_LONGEST = 100  # largest whole part of an exponential that the kernels handle; beyond with probability e^-100
_MARGIN = 2.0**-36  # above the rounding error of every floating-point number compared (step 4)
_ONE, _LOW32 = np.uint64(1), np.uint64(0xFFFFFFFF)
_32, _63, _64, _128 = np.uint64(32), np.uint64(63), np.uint64(64), np.uint64(128)
Words = NDArray[np.uint64]
Integers = NDArray[np.int64]
State = tuple[int, int, int]


@compiled
def _exponential(words: Words, at: int, spare: Any) -> tuple[int, int, Any, int]:
    """A standard exponential k + U: the whole part k, the first word of U, and the place after the words read.

    Von Neumann's method, step 1: U is accepted if the longest decreasing run U > V > ... has odd length.
    """
    whole, last = 0, len(words)
    while True:
        if at >= last:
            return MORE_WORDS, whole, _ONE, at
        first = words[at] >> spare
        at += 1
        current, odd = first, True
        while True:
            if at >= last:
                return MORE_WORDS, whole, first, at
            word = words[at] >> spare
            at += 1
            if word == current:
                return UNDECIDED, whole, first, at
            if word > current:
                break
            current, odd = word, not odd
        if odd:
            return (DONE if whole < _LONGEST else UNDECIDED), whole, first, at
        whole += 1


@compiled
def _product(a: Any, b: Any) -> tuple[Any, Any]:
    """The product of two 64-bit words: its upper and its lower word."""
    a_low, a_high, b_low, b_high = a & _LOW32, a >> _32, b & _LOW32, b >> _32
    middle = a_high * b_low + ((a_low * b_low) >> _32)
    other = a_low * b_high + (middle & _LOW32)
    return a_high * b_high + (middle >> _32) + (other >> _32), a * b


@compiled
def _split(upper: Any, lower: Any, shift: Any, filled: bool) -> tuple[Any, Any]:
    """The whole part and the first 64 fractional bits of T / 2^shift, for T = upper 2^64 + lower < 2^124, 0 < shift.

    Bits that a small shift leaves free are ones if `filled`, else zeros.
    """
    if shift < _64:
        free = _64 - shift
        rest = (_ONE << free) - _ONE if filled else np.uint64(0)
        return (upper << free) | (lower >> shift), (lower << free) | rest
    if shift >= _128:
        over = shift - _128
        return np.uint64(0), (upper >> over if over < _64 else np.uint64(0))
    if shift == _64:
        return upper, lower
    over = shift - _64
    return upper >> over, (upper << (_64 - over)) | (lower >> over)


@compiled
def _cell(mantissa: Any, shift: Any, whole: int, word: Any, spare: Any, offset: Any, slack: Any) -> tuple[bool, Any]:
    """Whether floor(c (whole + U) + f) is certain for c = mantissa 2^(64 - shift), and the value at the lower end.

    U is known by its first word: it lies in [word, word + 1] / 2^(64 - spare). f lies in [offset, offset + slack] /
    2^64. Step 2.
    """
    carried = mantissa * np.uint64(whole)
    first = word << spare
    upper, lower = _product(mantissa, first)
    low, rest = _split(carried + upper, lower, shift, False)
    if rest + offset < rest:
        low += _ONE
    upper, lower = _product(mantissa, first + ((_ONE << spare) - _ONE))
    last = lower + (mantissa - _ONE)
    if last < lower:
        upper += _ONE
    high, rest = _split(carried + upper, last, shift, True)
    moved = rest + offset
    if moved < rest or moved + slack < moved:
        high += _ONE
    return low == high, np.int64(low)


@compiled
def rounded_laplace(
    mantissa: Any, shift: Any, offsets: Words, words: Words, at: int, spare: Any, out: Integers, start: int
) -> State:
    """Fill `out` with floor(f +- c E), E standard exponential, c = mantissa 2^(64 - shift), f from `offsets`.

    The first 64 bits of f are given for each draw, or once for all. Without any, the draw is discrete Laplace: a sign
    times floor(c E), and a zero with a negative sign is drawn again (step 3).
    """
    discrete, each = len(offsets) == 0, len(offsets) > 1
    slack = np.uint64(0) if discrete else _ONE
    for i in range(start, len(out)):
        begin = at
        offset = np.uint64(0) if discrete else offsets[i if each else 0]
        while True:
            if at >= len(words):
                return i, begin, MORE_WORDS
            negative = (words[at] >> _63) == _ONE
            status, whole, word, at = _exponential(words, at + 1, spare)
            if status != DONE:
                return i, begin, status
            side = ~offset if negative and not discrete else offset
            certain, size = _cell(mantissa, shift, whole, word, spare, side, slack)
            if not certain:
                return i, begin, UNDECIDED
            if not discrete or size != 0 or not negative:
                break
        out[i] = -size if negative else size
    return len(out), at, DONE


@compiled
def rounded_gaussian(
    mantissa: Any,
    shift: Any,
    offsets: Words,
    words: Words,
    at: int,
    spare: Any,
    out: Integers,
    start: int,
    unit: float,
) -> State:
    """Fill `out` with floor(f +- c X), X half-normal, c = mantissa 2^(64 - shift); unit is 2^-(64 - spare).

    X is a standard exponential E that is accepted if another one exceeds (E - 1)^2 / 2 (step 4).
    """
    each = len(offsets) > 1
    for i in range(start, len(out)):
        begin = at
        while True:
            status, whole, word, at = _exponential(words, at, spare)
            if status != DONE:
                return i, begin, status
            status, whole_2, word_2, at = _exponential(words, at, spare)
            if status != DONE:
                return i, begin, status
            near = np.float64(whole - 1) + np.float64(word) * unit
            far = near + unit
            if whole == 0:
                near, far = -far, -near
            other = np.float64(whole_2) + np.float64(word_2) * unit
            if other > 0.5 * far * far + _MARGIN:
                break
            if not other + unit < 0.5 * near * near - _MARGIN:
                return i, begin, UNDECIDED
        if at >= len(words):
            return i, begin, MORE_WORDS
        negative = (words[at] >> _63) == _ONE
        at += 1
        offset = offsets[i if each else 0]
        certain, size = _cell(mantissa, shift, whole, word, spare, ~offset if negative else offset, _ONE)
        if not certain:
            return i, begin, UNDECIDED
        out[i] = -size if negative else size
    return len(out), at, DONE


@compiled
def discrete_gaussian(
    noise_std: float,
    proposal: Any,
    shift: Any,
    ratio: float,
    words: Words,
    at: int,
    spare: Any,
    out: Integers,
    start: int,
    unit: float,
) -> State:
    """Fill `out` with discrete Gaussian draws by rejection from discrete Laplace draws of scale t = proposal 2^(...).

    A proposal Y is accepted if a standard exponential exceeds (|Y| / s - s / t)^2 / 2; ratio is s / t (step 5).
    """
    place, offsets = np.empty(1, np.int64), np.empty(0, np.uint64)
    for i in range(start, len(out)):
        begin = at
        while True:
            done, at, status = rounded_laplace(proposal, shift, offsets, words, at, spare, place, 0)
            if done == 0:
                return i, begin, status
            status, whole, word, at = _exponential(words, at, spare)
            if status != DONE:
                return i, begin, status
            distance = np.float64(abs(place[0])) / noise_std - ratio
            cost = 0.5 * distance * distance
            if cost > 2.0 * _LONGEST:  # the exponential is below 101
                continue
            low = np.float64(whole) + np.float64(word) * unit
            if low > cost + _MARGIN:
                break
            if not low + unit < cost - _MARGIN:
                return i, begin, UNDECIDED
        out[i] = place[0]
    return len(out), at, DONE

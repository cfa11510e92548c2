"""Ball arithmetic by python-flint: every ball encloses the real number that it stands for, at any precision."""

import os
import threading
from fractions import Fraction
from functools import cache
from types import TracebackType
from typing import Any

from privsample._checks import number
from privsample._optional import require

Rational = Fraction | int
_LOCK = threading.RLock()
if hasattr(os, "register_at_fork"):
    # A process that is forked while another thread holds the lock would wait for it forever.
    os.register_at_fork(before=_LOCK.acquire, after_in_parent=_LOCK.release, after_in_child=_LOCK.release)


@cache
def flint() -> Any:
    """Return the package python-flint. Raises ImportError if it is not installed."""
    require("flint", "", "exact arithmetic", advice=", or set exact=False to draw floating-point numbers")
    import flint as package

    return package


class WorkingPrecision:
    """Set the precision of ball arithmetic within a `with` block, in bits.

    The precision of python-flint is one number for the whole process. A lock therefore keeps other threads from
    changing it within the block. A ball encloses its number at every precision, so a change by foreign code makes
    balls wider, but never wrong.
    """

    __slots__ = ("_before", "_bits", "_context")

    def __init__(self, bits: int) -> None:
        self._bits = bits
        self._context = flint().ctx

    def __enter__(self) -> None:
        _LOCK.acquire()
        self._before = self._context.prec
        self._context.prec = self._bits

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._context.prec = self._before
        _LOCK.release()


def rational(**named: Any) -> Fraction:
    """A finite number as an exact fraction: a double is the dyadic number that it holds.

    Raises TypeError if it is no number, and ValueError if it is infinite or NaN.
    """
    ((name, item),) = named.items()
    if isinstance(item, Fraction):
        return item
    if isinstance(item, int) and not isinstance(item, bool):
        return Fraction(item)
    value = number(**named)
    try:
        return Fraction(value)
    except (OverflowError, ValueError):
        raise ValueError(f"{name} must be finite, got {item!r}") from None


def enclose(value: Rational) -> Any:
    """A ball around a rational number at the working precision."""
    library = flint()
    if isinstance(value, int):
        return library.arb(value)
    return library.arb(library.fmpq(value.numerator, value.denominator))


def dyadic_ball(mantissa: int, exponent: int) -> Any:
    """The ball [mantissa, mantissa + 1] 2^exponent, exactly."""
    return flint().arb((2 * mantissa + 1, exponent - 1), (1, exponent - 1))


@cache
def power_of_two(exponent: int) -> Any:
    """The exact ball 2^exponent."""
    return flint().arb((1, exponent))

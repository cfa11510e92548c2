"""Ends of sets of accepted numbers, by bisection between an accepted and a rejected number."""

from collections.abc import Callable
from math import copysign, sqrt

_PRECISION = 2.0**-30  # of an end, relative to its size; a rejected number this close to an accepted one is returned
_SMALL = 2.0**-1000  # precision of an end at 0
_WIDE = 1e3  # ratio from which two numbers are halved on the log scale: ranges may be much wider than sets
_STEPS = 200


def rejected_end(accepts: Callable[[float], bool], inside: float, outside: float, *, tolerance: float) -> float:
    """A rejected number next to an accepted one, between `inside`, which is accepted, and `outside`, which is not.

    The result is the only boundary if the accepted numbers between the two form an interval (docs/notes/confidence.md,
    Theorem 2). The distance to the nearest accepted number is at most 2^-30 of the end, or `tolerance`.
    """
    for _ in range(_STEPS):
        middle = _middle(inside, outside, least=tolerance)
        if abs(outside - inside) <= max(_PRECISION * abs(outside), tolerance):
            break
        if accepts(middle):
            inside = middle
        else:
            outside = middle
    return outside


def _middle(one: float, other: float, *, least: float) -> float:
    """A number between two: 0 if they have different signs, the geometric mean if their sizes are very different."""
    small, large = sorted((abs(one), abs(other)))
    if large <= _WIDE * max(small, least):
        return one / 2 + other / 2
    if one * copysign(1.0, other) < 0 and small > 0:
        return 0.0
    return copysign(sqrt(max(small, least)) * sqrt(large), one if abs(one) == large else other)


def one_sided_end(accepts: Callable[[float], bool], low: float, high: float) -> float | None:
    """The end near `low` of accepted numbers that reach up to `high` if there are any; None if `high` is rejected.

    A rejected number, or `low` if all are accepted. With low > high the numbers are searched from above.
    """
    if accepts(low):
        return low
    if not accepts(high):
        return None
    return rejected_end(accepts, high, low, tolerance=_SMALL)

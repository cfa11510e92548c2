"""The public grid to which exact draws are rounded."""

import math
from typing import Any

from privsample._checks import positive
from privsample._value import frozen_value, set_fields

_STEPS = 40  # the default pitch is 2^-40 of the public scale


@frozen_value
class Grid:
    """The multiples of a pitch that is a power of two; a number is rounded to the nearest one.

    Cell j is [(j - 1/2) pitch, (j + 1/2) pitch]. A number that has a density lies on a boundary with probability 0.

    Parameters
    ----------
    pitch : float
        Distance of the points, a power of two, in the unit of the released number.

    Raises
    ------
    ValueError
        If `pitch` is not a power of two.

    Examples
    --------
    >>> from privsample.distributions.exact.grid import Grid
    >>> Grid.of_scale(3.0).pitch == 2.0**-39
    True
    """

    pitch: float

    def __post_init__(self) -> None:
        pitch = positive(grid=self.pitch)
        if math.frexp(pitch)[0] != 0.5:
            raise ValueError(
                f"grid must be a power of two, such as {2.0 ** math.floor(math.log2(pitch))!r}, got {pitch!r}: "
                "the points of such a grid are exact floating-point numbers"
            )
        set_fields(self, pitch=pitch)

    @classmethod
    def of_scale(cls, scale: float) -> "Grid":
        """The default grid for numbers of a public scale: the largest power of two up to `scale`, times 2^-40."""
        return cls(pitch=math.ldexp(1.0, max(math.frexp(positive(scale=scale))[1] - 1 - _STEPS, -1074)))

    @property
    def exponent(self) -> int:
        """The exponent e with pitch = 2^e."""
        return math.frexp(self.pitch)[1] - 1

    def point(self, index: int) -> float:
        """The point with this index as the nearest double: rounding an exact index is post-processing."""
        try:
            return math.ldexp(float(index), self.exponent)
        except OverflowError:
            return math.copysign(float("inf"), index)

    def index(self, ball: Any) -> int | None:
        """The index of the only cell that a ball of python-flint meets; None if it is not certain."""
        found = ball * _power(-self.exponent) + 0.5
        whole = found.floor().unique_fmpz()
        return None if whole is None else int(whole)


def _power(exponent: int) -> Any:
    from flint import arb

    return arb(2) ** exponent

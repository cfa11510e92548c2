"""The public grid to which exact draws are rounded."""

import math
from fractions import Fraction
from typing import Any

from privsample._checks import number, positive
from privsample._value import frozen_value, set_fields
from privsample.distributions.exact.balls import power_of_two

_STEPS = 40  # the default pitch is 2^-40 of the public scale
_FINEST = 200  # finest pitch that is accepted, 2^-200 of the public scale
_WIDEST = 900  # public scales are in [2^-900, 2^900]: the pitch and the points are then ordinary doubles
_LOWEST = -1022  # relative cells end at the smallest normal double
_HIGHEST = 1024  # at the largest double
_NEXT_TO_ONE = -53  # and at the largest double below 1


@frozen_value
class Grid:
    """A public partition of the line, or of an interval, into cells; a number is replaced by the point of its cell.

    Cell j is [(j - 1/2) pitch, (j + 1/2) pitch], and its point is j pitch. If that point does not lie inside the
    support, the point is the middle of the part of the cell that does: on (0, 1) the first point is pitch / 4 and the
    last one 1 - pitch / 4, so a positive number never becomes 0, and a probability never becomes 0 or 1.

    Relative cells hold numbers of a fixed count of significant bits: a number x on (0, inf) is rounded to a multiple of
    pitch 2^floor(log2 x). On (0, 1) this holds up to 1/2, and beyond it for 1 - x. The outermost cells are those of
    2^-1022, of the largest double, and on (0, 1) of 1 - 2^-53.

    A number that has a density lies on a boundary with probability 0.

    Parameters
    ----------
    pitch : float
        Distance of the points, a power of two, in the unit of the released number; of relative cells the distance over
        the power of two at or below the number, from 2^-52 to 1/2.
    low, high : float
        Ends of the support of the number; default -inf and inf.
    relative : bool
        True for relative cells, for a support of (0, inf) or (0, 1); default False.

    Raises
    ------
    ValueError
        If `pitch` is not a power of two, or is larger than the support; if `low` is not below `high`; or if relative
        cells are asked for with another support or pitch.

    Examples
    --------
    >>> from privsample.distributions.exact.grid import Grid
    >>> Grid.of_scale(3.0).pitch == 2.0**-39
    True
    >>> shares = Grid(pitch=0.25, low=0.0, high=1.0)
    >>> [shares.point(j) for j in range(5)]
    [0.0625, 0.25, 0.5, 0.75, 0.9375]
    """

    pitch: float
    low: float = -math.inf
    high: float = math.inf
    relative: bool = False

    def __post_init__(self) -> None:
        pitch, low, high = positive(grid=self.pitch), number(low=self.low), number(high=self.high)
        if math.frexp(pitch)[0] != 0.5:
            raise ValueError(
                f"grid must be a power of two, such as {2.0 ** math.floor(math.log2(pitch))!r}, got {pitch!r}: "
                "the points of such a grid are exact floating-point numbers"
            )
        if not low < high:
            raise ValueError(f"low must be below high, got {low!r} and {high!r}")
        if not isinstance(self.relative, bool):
            raise TypeError(f"relative must be True or False, got {self.relative!r}")
        if self.relative:
            if low != 0.0 or high not in {1.0, math.inf}:
                raise ValueError(f"relative cells need the support (0, 1) or (0, inf), got ({low!r}, {high!r})")
            if not 2.0**-52 <= pitch <= 0.5:
                raise ValueError(f"grid must be in [2^-52, 1/2] for relative cells, got {pitch!r}")
        elif not pitch <= high - low:
            raise ValueError(f"grid must be at most the width {high - low!r} of the support, got {pitch!r}")
        set_fields(self, pitch=pitch, low=low, high=high, relative=self.relative)

    @classmethod
    def of_scale(
        cls,
        scale: float,
        *,
        grid: float | None = None,
        low: float = -math.inf,
        high: float = math.inf,
        relative: bool = False,
    ) -> "Grid":
        """The grid for numbers of a public scale; without a pitch, the power of two at or below it times 2^-40.

        Parameters
        ----------
        scale : float
            Public scale of the number, in [2^-900, 2^900]; of relative cells it is not used.
        grid : float or None
            The pitch, at least 2^-200 of the scale; default None: the power of two at or below the scale, times 2^-40.
        low, high, relative
            As in `Grid`; the default pitch of relative cells is 2^-39, which are 40 significant bits.

        Returns
        -------
        Grid
            The grid.

        Raises
        ------
        ValueError
            If the scale or the pitch is out of range.
        """
        if relative:
            return cls(pitch=2.0 ** (1 - _STEPS) if grid is None else grid, low=low, high=high, relative=True)
        exponent = math.frexp(positive(scale=scale))[1] - 1
        if not -_WIDEST <= exponent < _WIDEST:
            raise ValueError(
                f"scale must be in [2^-{_WIDEST}, 2^{_WIDEST}] for exact draws, got {scale!r}: measure the data in "
                "another unit, or set exact=False"
            )
        if grid is None:
            return cls(pitch=math.ldexp(1.0, exponent - _STEPS), low=low, high=high)
        if not positive(grid=grid) >= math.ldexp(1.0, exponent - _FINEST):
            raise ValueError(
                f"grid must be at least 2^-{_FINEST} of the scale {scale!r}, got {grid!r}: "
                "exact draws do not settle finer cells"
            )
        return cls(pitch=grid, low=low, high=high)

    @property
    def exponent(self) -> int:
        """The exponent e with pitch = 2^e."""
        return math.frexp(self.pitch)[1] - 1

    def point(self, index: int) -> float:
        """The point of the cell with this index, as the nearest double inside the support.

        Rounding an exact index is post-processing.
        """
        if self.relative:
            return self._inside(self._relative_point(index))
        found = _nearest_double(index, self.exponent)
        if self.low < found < self.high:
            return found
        if not math.isfinite(found):
            return self._inside(found)
        pitch = Fraction(self.pitch)
        first, last = (index - Fraction(1, 2)) * pitch, (index + Fraction(1, 2)) * pitch
        first = max(first, Fraction(self.low)) if math.isfinite(self.low) else first
        last = min(last, Fraction(self.high)) if math.isfinite(self.high) else last
        return self._inside(float((first + last) / 2))

    def index(self, ball: Any) -> int | None:
        """The index of the only cell that a ball of python-flint meets; None if it is not certain."""
        if self.relative:
            # Both ends, exactly: cells of unequal width allow no rounding of the ball as a whole.
            first, last = (self._relative_index(end) for end in (ball.lower(), ball.upper()))
            return first if first == last else None
        whole = (ball * power_of_two(-self.exponent) + 0.5).floor().unique_fmpz()
        return None if whole is None else int(whole)

    def _inside(self, point: float) -> float:
        """The double nearest to a point inside the open support."""
        return min(max(point, math.nextafter(self.low, math.inf)), math.nextafter(self.high, -math.inf))

    def _relative_point(self, index: int) -> float:
        """The point of a relative cell."""
        steps = -self.exponent
        if self.high == 1.0 and index > 0:
            return 1.0 - self._relative_point(-index)
        octave, place = divmod(index, 1 << steps)
        return math.ldexp((1 << steps) + place, octave - steps - (self.high == 1.0))

    def _relative_index(self, end: Any) -> int | None:
        """The relative cell of an exact number; None if the number is not finite."""
        if not end.is_finite():
            return None
        mantissa, exponent = (int(part) for part in end.man_exp())
        if self.high == math.inf:
            return self._cell(mantissa, exponent, _LOWEST)
        # On (0, 1) index 0 is at 1/2. Far below it, 1 - x is not computed: its length is that of the exponent.
        if mantissa <= 0 or exponent + mantissa.bit_length() < 0:
            return self._cell(mantissa, exponent, _LOWEST) + self._shift
        rest = 0 if exponent >= 0 else (1 << -exponent) - mantissa
        if rest >= mantissa:
            return self._cell(mantissa, exponent, _LOWEST) + self._shift
        return -self._cell(rest, exponent, _NEXT_TO_ONE) - self._shift

    @property
    def _shift(self) -> int:
        """The number of cells of an octave, by which the index of 1/2 becomes 0."""
        return 1 << -self.exponent

    def _cell(self, mantissa: int, exponent: int, lowest: int) -> int:
        """The cell of mantissa 2^exponent among the octaves from 2^lowest to 2^1024: octave, then place in it."""
        steps, last = -self.exponent, (_HIGHEST << -self.exponent) - 1
        length = mantissa.bit_length()
        octave = exponent + length - 1
        if mantissa <= 0 or octave < lowest:
            return lowest << steps
        if octave >= _HIGHEST:
            return last
        shift = steps + 1 - length
        place = mantissa << shift if shift >= 0 else ((mantissa >> (-shift - 1)) + 1) >> 1
        return min(((octave - 1) << steps) + place, last)


def _nearest_double(index: int, exponent: int) -> float:
    """The double nearest to index 2^exponent, infinite beyond the largest."""
    try:
        if abs(index) < 1 << 1000:
            return math.ldexp(float(index), exponent)
        return float(index * Fraction(2) ** exponent)
    except OverflowError:
        return math.inf if index > 0 else -math.inf

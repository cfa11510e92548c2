"""Exact draws by the inverse distribution function: the reference for the faster methods, and a method for any law."""

from collections.abc import Callable, Iterable
from fractions import Fraction
from typing import Any

from privsample.distributions.exact.balls import Rational, WorkingPrecision, enclose, flint
from privsample.distributions.exact.gammas import check_shape
from privsample.distributions.exact.grid import Grid
from privsample.distributions.exact.words import WordStream

DistributionFunction = Callable[[Any], Any]  # from a ball to a ball, at the working precision


class QuantileSampler:
    """Cells of a grid drawn with exactly their probabilities, by revealing the bits of a uniform number.

    The bits give an interval [lo, hi]. The cell is certain once F(lower end) <= lo and hi <= F(upper end) in ball
    arithmetic; the quantile function itself is never enclosed.

    Parameters
    ----------
    cdf : callable
        The distribution function F of the number, from balls to balls; continuous.
    quantile : callable
        An approximate inverse of F in doubles: it decides which cells are tried first, and nothing else.
    grid : Grid
        The public grid, with absolute cells.
    first, last : int or None
        The outermost cells, which contain everything beyond; default None: those of the support of the grid.

    Raises
    ------
    ValueError
        If the grid has relative cells.

    Notes
    -----
    MATH-2, section 19; Han and Hoshi 1997: the expected number of bits is at most the entropy of the cell plus 3
    (exact_draws.md, step 9). Kind: exact.

    Examples
    --------
    >>> from scipy.special import ndtri
    >>> from privsample.distributions.exact.grid import Grid
    >>> from privsample.distributions.exact.quantiles import QuantileSampler, normal_cdf
    >>> sampler = QuantileSampler(normal_cdf, ndtri, Grid(pitch=0.125))
    >>> sampler.index([0, 1, 1, 0, 1, 0, 0, 1, 1, 0])  # the index of -0.25, and the number of bits
    (-2, 6)
    """

    def __init__(
        self,
        cdf: DistributionFunction,
        quantile: Callable[[float], float],
        grid: Grid,
        *,
        first: int | None = None,
        last: int | None = None,
    ) -> None:
        if grid.relative:
            raise ValueError(
                "grid must have absolute cells for quantiles, got relative cells; draw from `laws` instead"
            )
        self._cdf, self._quantile, self.pitch = cdf, quantile, Fraction(grid.pitch)
        self.first = _cell_of(grid.low, grid, 1) if first is None else first
        self.last = _cell_of(grid.high, grid, -1) if last is None else last

    def below(self, index: int) -> Any:
        """The probability of all cells below this one, as a ball at the working precision."""
        if self.first is not None and index <= self.first:
            return flint().arb(0)
        if self.last is not None and index > self.last:
            return flint().arb(1)
        return self._cdf(enclose((index - Fraction(1, 2)) * self.pitch))

    def cell(self, value: int, count: int) -> int | None:
        """The cell of all uniform numbers that begin with these `count` bits, an integer; None if they meet several."""
        low, high = Fraction(value, 1 << count), Fraction(value + 1, 1 << count)
        index, bits, step = self._clip(self._guess(float((low + high) / 2))), count + 64, 1
        least, most = self.first, self.last
        while bits <= 8 * count + 512:
            with WorkingPrecision(bits):
                start, end = enclose(low), enclose(high)
                before, after = self.below(index), self.below(index + 1)
                if before <= start and end <= after:
                    return index
                if before >= end:
                    most = index - 1
                    index, step = index - step if least is None else max((least + most) // 2, index - step), 2 * step
                elif after <= start:
                    least = index + 1
                    index, step = index + step if most is None else min((least + most) // 2, index + step), 2 * step
                elif start < before < end or start < after < end:
                    return None
                else:
                    bits *= 2
        return None  # an end of a cell is an end of the interval, perhaps exactly: more bits decide

    def index(self, bits: Iterable[int]) -> tuple[int, int]:
        """The cell decided by a sequence of bits, and how many of them were needed.

        Raises ValueError if the sequence ends before.
        """
        value, count = 0, 0
        for bit in bits:
            value, count = value << 1 | bit, count + 1
            found = self.cell(value, count)
            if found is not None:
                return found, count
        raise ValueError(f"bits must decide a cell, got {count} bits that leave it open: give more")

    def draw(self, words: WordStream) -> int:
        """The cell of a random number, from words of 64 random bits."""
        value, count = 0, 0
        while True:
            value, count = value << 64 | words.word(), count + 64
            found = self.cell(value, count)
            if found is not None:
                return found

    def _guess(self, level: float) -> int:
        """The cell of the approximate quantile."""
        guess = float(self._quantile(min(max(level, 5e-324), 1.0 - 2.0**-53)))
        return round(Fraction(guess) / self.pitch)

    def _clip(self, index: int) -> int:
        index = index if self.first is None else max(index, self.first)
        return index if self.last is None else min(index, self.last)


def normal_cdf(x: Any) -> Any:
    """The standard normal distribution function of a ball."""
    return (-x / flint().arb(2).sqrt()).erfc() / 2


def laplace_cdf(x: Any) -> Any:
    """The distribution function of the Laplace distribution of scale 1 at a ball of certain sign."""
    return x.exp() / 2 if x < 0 else 1 - (-x).exp() / 2 if x > 0 else flint().arb(0.5, 0.5)


def gamma_cdf(shape: Rational) -> DistributionFunction:
    """The distribution function of Gamma(shape), rate 1, for positive balls.

    Raises ValueError if the shape is not in (0, 2^200].
    """
    shape = check_shape(shape=shape)
    # In python-flint the object is the argument x, and the parameter is the shape; the other order runs, too. The lower
    # function loses all its digits near shapes of 10^4 and takes seconds there; the upper one does not.
    return lambda x: 1 - x.gamma_upper(enclose(shape), regularized=1)


def beta_cdf(a: Rational, b: Rational) -> DistributionFunction:
    """The distribution function of Beta(a, b) for balls inside (0, 1).

    Raises ValueError if a shape is not in (0, 2^200].
    """
    a, b = check_shape(a=a), check_shape(b=b)
    return lambda x: x.beta_lower(enclose(a), enclose(b), regularized=1)


def truncated_cdf(cdf: DistributionFunction, low: Rational, high: Rational) -> DistributionFunction:
    """The distribution function of a number truncated to [low, high], for balls inside of it."""

    def truncated(x: Any) -> Any:
        before = cdf(enclose(low))
        return (cdf(x) - before) / (cdf(enclose(high)) - before)

    return truncated


def _cell_of(end: float, grid: Grid, side: int) -> int | None:
    """The cell that contains the points next to an end of the support, above (1) or below it (-1)."""
    if end in {float("inf"), float("-inf")}:
        return None
    place = Fraction(end) / Fraction(grid.pitch) + Fraction(1, 2)
    whole = place.numerator // place.denominator
    return whole - 1 if side < 0 and place == whole else whole

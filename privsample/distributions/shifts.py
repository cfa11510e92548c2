"""How far two posteriors lie apart that differ in one group of records: by which of their parameters, and by how much.

A model says by these values which posteriors of neighbouring data sets differ most. They know nothing of what follows
from that. Every shift stands for both orders of its two distributions, and a family of shifts for all its pairs. These
kinds are all that there are: a model of another package states its posteriors by them.
"""

from privsample._checks import interval, positive, positive_integer
from privsample._value import put, value


@value
class BetaShift:
    """Beta(a + step, b) against Beta(a, b + step): a success replaced by a failure.

    Parameters
    ----------
    a, b : float
        The parameters that both posteriors share, finite and > 0.
    step : float
        How much one record adds to either of them, finite and > 0.

    Examples
    --------
    >>> BetaShift(a=2.0, b=3.0, step=1.0).step
    1.0
    """

    a: float
    b: float
    step: float

    def __post_init__(self) -> None:
        put(self, a=positive(a=self.a), b=positive(b=self.b), step=positive(step=self.step))


@value
class BetaShifts:
    """Beta(a + step (s + moved), b + step t) against Beta(a + step s, b + step (t + moved)), s + t = n - moved.

    One pair for every sum s that the n - moved records in common may have, in [0, n - moved].

    Parameters
    ----------
    a, b : float
        The prior's parameters, finite and > 0.
    step : float
        How much one success adds to a, or one failure to b, finite and > 0.
    n : int
        The number of records, at least 1.
    whole : bool
        Whether all records are 0 or 1, so that s is a whole number. Otherwise they are numbers in [0, 1].
    moved : int, default 1
        How many records differ, from 1 to n.
    """

    a: float
    b: float
    step: float
    n: int
    whole: bool
    moved: int = 1

    def __post_init__(self) -> None:
        put(self, a=positive(a=self.a), b=positive(b=self.b), step=positive(step=self.step), whole=bool(self.whole))
        _check_moved(self)

    @property
    def ends(self) -> tuple[BetaShift, BetaShift]:
        """The two pairs in which the records in common are all failures, and all successes."""
        rest, step = self.step * (self.n - self.moved), self.moved * self.step
        return BetaShift(a=self.a, b=self.b + rest, step=step), BetaShift(a=self.a + rest, b=self.b, step=step)


@value
class TruncatedBetaShifts:
    """The pairs of `BetaShifts` for records of 0 and 1, all distributions truncated to [low, high].

    Parameters
    ----------
    a, b, step, n, moved
        As for `BetaShifts`.
    low, high : float
        The interval, low < high inside (0, 1), low + high = 1.
    """

    a: float
    b: float
    step: float
    n: int
    low: float
    high: float
    moved: int = 1

    def __post_init__(self) -> None:
        low, high = interval(bounds=(self.low, self.high))
        put(self, a=positive(a=self.a), b=positive(b=self.b), step=positive(step=self.step), low=low, high=high)
        _check_moved(self)


def _check_moved(family: BetaShifts | TruncatedBetaShifts) -> None:
    put(family, n=positive_integer(n=family.n), moved=positive_integer(moved=family.moved))
    if not family.moved <= family.n:
        raise ValueError(f"moved must be at most n = {family.n}, got {family.moved}")


@value
class GammaShapeShift:
    """Gamma(shape + step, rate) against Gamma(shape, rate), whatever the rate is.

    Parameters
    ----------
    shape : float
        The smaller shape, finite and > 0.
    step : float
        The difference of the shapes, finite and > 0.
    """

    shape: float
    step: float

    def __post_init__(self) -> None:
        put(self, shape=positive(shape=self.shape), step=positive(step=self.step))


@value
class GammaRateShift:
    """Gamma(shape, rate + step) against Gamma(shape, rate).

    Parameters
    ----------
    shape : float
        The shape of both, finite and > 0.
    rate : float
        The smaller rate, finite and > 0.
    step : float
        The difference of the rates, finite and > 0.
    """

    shape: float
    rate: float
    step: float

    def __post_init__(self) -> None:
        put(self, shape=positive(shape=self.shape), rate=positive(rate=self.rate), step=positive(step=self.step))


@value
class NormalShift:
    """N(mu, 1) against N(0, 1): two normal distributions of one variance, their means mu standard deviations apart.

    Parameters
    ----------
    mu : float
        The difference of the means over the standard deviation, finite and > 0.
    """

    mu: float

    def __post_init__(self) -> None:
        put(self, mu=positive(mu=self.mu))


Shift = BetaShift | BetaShifts | GammaShapeShift | GammaRateShift | NormalShift

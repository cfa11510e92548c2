"""Which posteriors lie farthest apart among those of neighbouring data sets: in the words of their parameters.

A model states them by these values, one or more, as posteriors by Bayes' rule of n records of which one was replaced.
Weights of the data, divisors of the prior, the number of records and of those replaced come in where the values are
used. A shift stands for both orders of its two posteriors. Numbers that were rounded must not be too small where they
say how far records reach. These kinds are all that there are: a model of another
package states its posteriors by them, too.
"""

from privsample._checks import flag, positive
from privsample._value import frozen_value, set_fields


@frozen_value
class BetaShift:
    """Beta(a + 1, b) against Beta(a, b + 1): one count replaced by another, where all other records are elsewhere.

    Parameters
    ----------
    a, b : float
        The prior's parameters of the two counts, finite and > 0.
    """

    a: float
    b: float

    def __post_init__(self) -> None:
        set_fields(self, a=positive(a=self.a), b=positive(b=self.b))

    @property
    def counts(self) -> tuple[float, ...]:
        """The prior's parameters that records are added to one by one."""
        return self.a, self.b


@frozen_value
class BetaShifts:
    """Beta(a + s + 1, b + t) against Beta(a + s, b + t + 1) for every sum s of the others: s + t = n - 1.

    Parameters
    ----------
    a, b : float
        The prior's parameters, finite and > 0.
    whole : bool
        Whether every record is 0 or 1, so that s is a whole number. Otherwise records are any numbers in [0, 1].
    """

    a: float
    b: float
    whole: bool

    def __post_init__(self) -> None:
        set_fields(self, a=positive(a=self.a), b=positive(b=self.b), whole=flag(whole=self.whole))

    @property
    def counts(self) -> tuple[float, ...]:
        """The prior's parameters that records are added to one by one."""
        return self.a, self.b


@frozen_value
class GammaShapeShift:
    """Gamma(shape + reach, rate) against Gamma(shape, rate), whatever the rate is.

    Parameters
    ----------
    shape : float
        The prior's shape, finite and > 0, to which the sum of the records is added.
    reach : float
        The largest less the smallest record, finite and > 0; the smallest is 0.
    """

    shape: float
    reach: float

    def __post_init__(self) -> None:
        set_fields(self, shape=positive(shape=self.shape), reach=positive(reach=self.reach))

    @property
    def counts(self) -> tuple[float, ...]:
        """The prior's parameters that records are added to one by one."""
        return (self.shape,)


@frozen_value
class GammaRateShift:
    """Gamma(shape + n each, rate + reach) against Gamma(shape + n each, rate).

    Parameters
    ----------
    shape, rate : float
        The prior's parameters, finite and > 0. The sum of what records hold, at least 0 each, is added to the rate.
    reach : float
        The most that a record adds to the rate, finite and > 0; the least is 0.
    each : float, default 1
        How much every record adds to the shape, finite and > 0.
    """

    shape: float
    rate: float
    reach: float
    each: float = 1.0

    def __post_init__(self) -> None:
        set_fields(self, shape=positive(shape=self.shape), rate=positive(rate=self.rate))
        set_fields(self, reach=positive(reach=self.reach), each=positive(each=self.each))

    @property
    def counts(self) -> tuple[float, ...]:
        """The prior's parameters that records are added to one by one, of which the shape's size does not matter."""
        return ()


@frozen_value
class NormalShift:
    """Two normal distributions of precision 1/variance + n/noise_variance, means reach/noise_variance/precision apart.

    Parameters
    ----------
    variance : float
        The prior's variance, finite and > 0.
    noise_variance : float
        The variance of one record about the mean, finite and > 0.
    reach : float
        The largest less the smallest record, finite and > 0.
    """

    variance: float
    noise_variance: float
    reach: float

    def __post_init__(self) -> None:
        set_fields(
            self, variance=positive(variance=self.variance), noise_variance=positive(noise_variance=self.noise_variance)
        )
        set_fields(self, reach=positive(reach=self.reach))

    @property
    def counts(self) -> tuple[float, ...]:
        """The prior's parameters that records are added to one by one: none."""
        return ()


Shift = BetaShift | BetaShifts | GammaShapeShift | GammaRateShift | NormalShift

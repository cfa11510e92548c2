"""Families of pairs of neighbouring posteriors, stated by the parameters of the prior.

A model states its least private pairs of posteriors as one or more of these values: posteriors by Bayes' rule of n
records of which one is replaced. The weight of the data, the weight of the prior, the number of records and the
number of replaced records are given where the values are used. A shift stands for both orders of its two posteriors.
A field that bounds the range of a record must be rounded up. There are no other families; a model of another package
states its posteriors by these, too: `NaturalShifts` stands for any exponential family of one's own.
"""

from collections.abc import Callable

import numpy as np

from privsample._checks import FloatArray, flag, function, positive, real_array
from privsample._value import frozen_value, set_fields
from privsample.distributions.parametric.natural import LogNormalizer


@frozen_value
class BetaShift:
    """Neighbouring posteriors Beta(a + 1, b) and Beta(a, b + 1): one record changes from one category to another.

    No other record is in either category.

    Parameters
    ----------
    a, b : float
        Parameters of the prior for the two categories, finite and > 0.

    Raises
    ------
    ValueError
        If a parameter is not finite and > 0.

    Examples
    --------
    >>> import privsample as ps
    >>> ps.BetaShift(a=1, b=2).pseudo_counts
    (1.0, 2.0)
    """

    a: float
    b: float

    def __post_init__(self) -> None:
        set_fields(self, a=positive(a=self.a), b=positive(b=self.b))

    @property
    def pseudo_counts(self) -> tuple[float, ...]:
        """The pseudo-counts of the prior, to which the posterior adds counts of the data."""
        return self.a, self.b


@frozen_value
class BetaShifts:
    """Neighbouring posteriors Beta(a + s + 1, b + t) and Beta(a + s, b + t + 1), for every sum s of the other records.

    The other n - 1 records give s + t = n - 1.

    Parameters
    ----------
    a, b : float
        Parameters of the prior, finite and > 0.
    integer_valued : bool
        True if every record is 0 or 1, so that s is an integer; False if records are any numbers in [0, 1].

    Raises
    ------
    TypeError
        If `integer_valued` is not True or False.
    ValueError
        If a parameter is not finite and > 0.

    Examples
    --------
    >>> import privsample as ps
    >>> ps.BetaShifts(a=1, b=2, integer_valued=True).pseudo_counts
    (1.0, 2.0)
    """

    a: float
    b: float
    integer_valued: bool

    def __post_init__(self) -> None:
        set_fields(
            self, a=positive(a=self.a), b=positive(b=self.b), integer_valued=flag(integer_valued=self.integer_valued)
        )

    @property
    def pseudo_counts(self) -> tuple[float, ...]:
        """The pseudo-counts of the prior, to which the posterior adds counts of the data."""
        return self.a, self.b


@frozen_value
class GammaShapeShift:
    """Neighbouring posteriors Gamma(shape + max_shift, rate) and Gamma(shape, rate), for any rate.

    Parameters
    ----------
    shape : float
        Shape of the prior, finite and > 0. The sum of the records is added to it.
    max_shift : float
        Largest possible record, finite and > 0; the smallest possible record is 0. One record changes the shape by it.

    Raises
    ------
    ValueError
        If a parameter is not finite and > 0.

    Examples
    --------
    >>> import privsample as ps
    >>> ps.GammaShapeShift(shape=2, max_shift=5).pseudo_counts[0]
    2.0
    """

    shape: float
    max_shift: float

    def __post_init__(self) -> None:
        set_fields(self, shape=positive(shape=self.shape), max_shift=positive(max_shift=self.max_shift))

    @property
    def pseudo_counts(self) -> tuple[float, ...]:
        """The pseudo-counts of the prior, to which the posterior adds counts of the data."""
        return (self.shape,)


@frozen_value
class GammaRateShift:
    """Neighbouring posteriors Gamma(a, rate + max_shift) and Gamma(a, rate) with a = shape + n shape_per_record.

    n is the number of records.

    Parameters
    ----------
    shape, rate : float
        Parameters of the prior, finite and > 0. The sum of the records' nonnegative contributions is added to the rate.
    max_shift : float
        Largest contribution of a record to the rate, finite and > 0; the smallest is 0.
    shape_per_record : float, default 1
        Contribution of every record to the shape, finite and > 0.

    Raises
    ------
    ValueError
        If a parameter is not finite and > 0.

    Examples
    --------
    >>> import privsample as ps
    >>> ps.GammaRateShift(shape=2, rate=1, max_shift=5).shape_per_record
    1.0
    """

    shape: float
    rate: float
    max_shift: float
    shape_per_record: float = 1.0

    def __post_init__(self) -> None:
        set_fields(self, shape=positive(shape=self.shape), rate=positive(rate=self.rate))
        set_fields(
            self,
            max_shift=positive(max_shift=self.max_shift),
            shape_per_record=positive(shape_per_record=self.shape_per_record),
        )

    @property
    def pseudo_counts(self) -> tuple[float, ...]:
        """The pseudo-counts whose range an account checks: none, because the shape may be any number > 0."""
        return ()


@frozen_value
class NormalShift:
    """Neighbouring normal posteriors with the same variance and different means.

    Both have precision 1/variance + n/noise_variance; their means differ by record_range/noise_variance/precision.

    Parameters
    ----------
    variance : float
        Variance of the prior, finite and > 0.
    noise_variance : float
        Variance of one record given the mean, finite and > 0.
    record_range : float
        Largest possible record minus smallest possible record, finite and > 0.

    Raises
    ------
    ValueError
        If a parameter is not finite and > 0.

    Examples
    --------
    >>> import privsample as ps
    >>> ps.NormalShift(variance=1, noise_variance=2, record_range=3).pseudo_counts
    ()
    """

    variance: float
    noise_variance: float
    record_range: float

    def __post_init__(self) -> None:
        set_fields(
            self, variance=positive(variance=self.variance), noise_variance=positive(noise_variance=self.noise_variance)
        )
        set_fields(self, record_range=positive(record_range=self.record_range))

    @property
    def pseudo_counts(self) -> tuple[float, ...]:
        """The pseudo-counts of the prior: none."""
        return ()


@frozen_value
class NaturalShifts:
    """Neighbouring posteriors of any exponential family with natural parameters c + S(x) and c + S(x').

    S(x) is the contribution of a record x, and c is the prior plus the contributions of the other n - 1 records.

    Parameters
    ----------
    normalizer : LogNormalizer
        The log normalizer of the posteriors.
    prior : array of shape (k,)
        Natural parameter of the prior.
    vertices : array of shape (vertices, k)
        Contributions whose convex hull contains the contribution of every record, at least two different ones.
    attained : bool, default True
        True if every record has one of these contributions, or if there are two, each of a record. False if the convex
        hull is only an upper bound; the account is then one, too.
    hessian_bound : float or callable or None, default None
        Upper bound on the largest eigenvalue of the Hessian: a number, for all natural parameters, or a function that
        maps points (rows, k) to a bound over their convex hull. Where it is given, the account is that of Geumlek
        2020, Lemma 17, which needs no convexity.
    convexity_stated : bool, default False
        True if the user states that the family meets the condition of Geumlek 2020, Theorem 10; otherwise an account
        checks it at many points.
    log_tails : callable, optional
        Maps (natural parameter (k,), direction (k,), y of shape (rows,)) to the logarithms of the probabilities that
        direction . T(theta) is at most y, and that it is greater, two arrays of shape (rows,). With it, the account has
        the privacy curve of these neighbours. For n > 1 they are the worst at every epsilon only as the user states.

    Raises
    ------
    TypeError, ValueError
        If a field has the wrong type or shape.

    Examples
    --------
    >>> import numpy as np
    >>> import privsample as ps
    >>> normal = ps.LogNormalizer(
    ...     value=lambda eta: eta[:, 0] ** 2 / 2,
    ...     gradient=lambda eta: eta,
    ...     hessian=lambda eta: np.ones((len(eta), 1, 1)),
    ...     normalizable=lambda eta: np.isfinite(eta[:, 0]),
    ... )
    >>> ps.NaturalShifts(normalizer=normal, prior=[0.0], vertices=[[-1.0], [1.0]]).vertices.tolist()
    [[-1.0], [1.0]]
    """

    normalizer: LogNormalizer
    prior: FloatArray
    vertices: FloatArray
    attained: bool = True
    hessian_bound: float | Callable[[FloatArray], float] | None = None
    convexity_stated: bool = False
    log_tails: Callable[[FloatArray, FloatArray, FloatArray], tuple[FloatArray, FloatArray]] | None = None

    def __post_init__(self) -> None:
        if self.log_tails is not None:
            function(log_tails=self.log_tails)
        if not isinstance(self.normalizer, LogNormalizer):
            raise TypeError(f"normalizer must be a LogNormalizer, got {type(self.normalizer).__name__}")
        prior, vertices = np.array(real_array(prior=self.prior)), np.array(real_array(vertices=self.vertices))
        if prior.ndim != 1 or not prior.size or not np.isfinite(prior).all():
            raise ValueError(f"prior must be a finite natural parameter of shape (k,), got {self.prior!r}")
        if vertices.ndim != 2 or vertices.shape[1] != prior.size or not np.isfinite(vertices).all():
            raise ValueError(
                f"vertices must be finite contributions of shape (vertices, {prior.size}), got shape {vertices.shape}"
            )
        if len(np.unique(vertices, axis=0)) < 2:
            raise ValueError("vertices must hold at least two different contributions: otherwise no record matters")
        for array in (prior, vertices):
            array.flags.writeable = False
        set_fields(self, prior=prior, vertices=vertices, attained=flag(attained=self.attained))
        set_fields(self, convexity_stated=flag(convexity_stated=self.convexity_stated))
        if self.hessian_bound is not None and not callable(self.hessian_bound):
            set_fields(self, hessian_bound=positive(hessian_bound=self.hessian_bound))

    @property
    def pseudo_counts(self) -> tuple[float, ...]:
        """The pseudo-counts of the prior: none."""
        return ()


Shift = BetaShift | BetaShifts | GammaShapeShift | GammaRateShift | NormalShift | NaturalShifts

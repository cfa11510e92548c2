"""Models: a likelihood with a conjugate prior, its sufficient statistic, and its least private neighbours."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import fields
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from privsample._checks import FloatArray
from privsample._data import chunks
from privsample._value import Memo, cached
from privsample.distributions.domains import Domain
from privsample.distributions.exact.grid import Grid
from privsample.distributions.exact.rational import ExactStatistic, RationalDistribution
from privsample.distributions.exact.records import (
    exact_sum,
    integer_grid,
    integer_sums,
    record_grid,
    rounded_bounds,
)
from privsample.distributions.models.simulation import ONE_BY_ONE
from privsample.distributions.models.sizes import BoundTotals, SizedStatistic
from privsample.distributions.models.truncation import LogRatio, Truncation, interval_truncation
from privsample.distributions.parametric.conjugate import PosteriorDistribution
from privsample.distributions.parametric.grouped import GroupedPosterior
from privsample.distributions.parametric.truncated import TruncatedDistribution, temper, truncate
from privsample.distributions.posterior_shifts import BetaShifts, Shift
from privsample.distributions.record_format import ColumnFormat, RecordFormat
from privsample.distributions.record_sensitivity import RecordSensitivity, scalar_sensitivity

if TYPE_CHECKING:
    from privsample.distributions.models.noise_aware import NoiseAware
    from privsample.distributions.noise import Noise

Records = tuple[float, float, float]


class Model(Memo, ABC):
    """A likelihood with its conjugate prior.

    The posterior of n records with statistic s = sum S(x_i) has the natural parameter `prior_weight` times that of the
    prior, plus `data_weight` (s, n). Both weights are 1 for Bayes' rule. Source: Geumlek, Song and Chaudhuri 2017;
    Geumlek 2020, Algorithms 1-3.

    A subclass is a frozen dataclass of its parameters, with keyword-only fields that compare by content. It must define
    `domain`, `parameter` and `posterior`. All other members have defaults: some are correct for every model of one
    bounded number, the others raise TypeError and name the member to define.

    Attributes
    ----------
    command_name : str or None
        The name of the model on the command line; None, the default, leaves it out there.
    prior_parameters : tuple of str
        The fields that are parameters of the prior, in the order in which the command line takes them. One field that
        is a tuple takes all numbers. All other fields are part of the likelihood.
    options : mapping of str to str
        The other fields that the command line takes, each with a line of help. Numbers, whole numbers, pairs of
        numbers and flags are distinguished by their annotations.
    records_are_codes : bool
        Whether records are codes 0, ..., K-1 of categories, which may have names, one for each number of the prior.
    description : str
        What the parameter is, in words that fit after "a belief about".
    axis_name : str
        The name of the axis of a vector parameter, such as "category", in ArviZ objects; "" leaves it unnamed. A model
        with a field `names` names the coordinates along it.

    Examples
    --------
    Times of three exponential stages each, with a Gamma prior on the rate of a stage:

    >>> from dataclasses import dataclass
    >>> import privsample as ps
    >>> @dataclass(frozen=True, kw_only=True)
    ... class GammaErlang(ps.Model):
    ...     shape: float
    ...     rate: float
    ...     upper: float
    ...     prior_parameters = ("shape", "rate")
    ...     description = "the rate of a stage"
    ...     parameter = "rate"
    ...
    ...     @property
    ...     def domain(self):
    ...         return ps.Domain(low=0.0, high=self.upper, missing=0.0)
    ...
    ...     def posterior(self, statistic, n, *, data_weight=1.0, prior_weight=1.0):
    ...         shape = prior_weight * self.shape + data_weight * 3 * n
    ...         return ps.Gamma(shape=shape, rate=prior_weight * self.rate + data_weight * float(statistic))
    ...
    ...     @property
    ...     def neighbouring_posteriors(self):
    ...         return (ps.GammaRateShift(shape=self.shape, rate=self.rate, max_shift=self.upper, shape_per_record=3),)
    >>> model = GammaErlang(shape=2, rate=9, upper=4)
    >>> account = ps.DiffusedPosterior(model=model, n=100, data_weight=0.05).accountant
    >>> print(f"{account.epsilon(1e-6):.3f}")
    0.489
    """

    __slots__ = ()
    command_name: ClassVar[str | None] = None
    prior_parameters: ClassVar[tuple[str, ...]] = ()
    options: ClassVar[Mapping[str, str]] = {}
    records_are_codes: ClassVar[bool] = False
    description: ClassVar[str] = "the parameter"
    axis_name: ClassVar[str] = ""

    # Records and their statistic

    @property
    @abstractmethod
    def domain(self) -> Domain:
        """The valid records, and the public rule that maps every other value to a valid one."""

    @property
    def empty(self) -> FloatArray:
        """The statistic of an empty dataset; by default, one number 0."""
        return np.zeros(())

    @property
    def draw_shape(self) -> tuple[int, ...]:
        """The shape of one draw of the parameter; by default, that of the statistic."""
        return self.empty.shape

    def statistic(self, chunk: NDArray[Any]) -> FloatArray:
        """Sum of the sufficient statistics of a chunk of records, after the public rule of `domain`.

        By default, the sum of the records. A model with another statistic also overrides `record_sensitivity` and
        `feasible`.

        Parameters
        ----------
        chunk : array of shape (k,)
            Records.

        Returns
        -------
        array
            The statistic, of the shape of `empty`.
        """
        return np.asarray(self.domain.clean(chunk).sum(dtype=np.float64))

    @cached
    def record_sensitivity(self) -> RecordSensitivity:
        """The largest changes of the statistic by one replaced record; by default, those of one bounded number."""
        return scalar_sensitivity(self.domain.high - self.domain.low, integer_valued=self.domain.integer_valued)

    def sized_statistic(self, grid: Grid | None = None) -> SizedStatistic:
        """The statistic together with the number of records, for releases where that number is private.

        By default, the totals of the distances of the records to both bounds, if the statistic is the sum of the
        records.

        Parameters
        ----------
        grid : Grid, optional
            The grid to which records are rounded; None if they are not rounded.

        Returns
        -------
        SizedStatistic
            The map from statistic and number of records to what is released, and what one record adds to it.

        Raises
        ------
        TypeError
            If the model has another statistic, and does not define this method.
        """
        if type(self).statistic is not Model.statistic or self.empty.ndim:
            raise TypeError(
                f"n must be given for {type(self).__name__}: the model does not define sized_statistic, which states "
                "what one record adds to its statistic"
            )
        low, high = rounded_bounds(self.domain, grid)
        labels = (repr(float(self.domain.low)).removesuffix(".0"), repr(float(self.domain.high)).removesuffix(".0"))
        return BoundTotals(low=low, high=high, labels=labels, integer_valued=self.domain.integer_valued)

    def feasible(self, statistic: FloatArray, n: int) -> FloatArray:
        """Project a (noisy) statistic onto the range of statistics of n records.

        Parameters
        ----------
        statistic : array
            A statistic, of the shape of `empty`.
        n : int
            Number of records.

        Returns
        -------
        array
            The nearest value in a convex superset of the possible statistics.
        """
        return np.clip(statistic, n * self.domain.low, n * self.domain.high)

    def summarize(self, data: Any) -> tuple[FloatArray, int]:
        """Compute the statistic and the number of records in one pass over the data.

        Parameters
        ----------
        data : array or Arrow stream
            One column of records.

        Returns
        -------
        statistic : array
            The statistic.
        n : int
            The number of records.

        Raises
        ------
        SchemaError
            If the data are not one column of numbers.
        """
        total, count = self.empty, 0
        for chunk in chunks(data):
            total, count = total + self.statistic(chunk), count + len(chunk)
        return total, count

    def examine(self, data: Any, domain: Domain | None = None) -> tuple[dict[str, int], int]:
        """Count the values that the public rule changes, by reason, and the records; for the curator only.

        Parameters
        ----------
        data : array or Arrow stream
            One column of records.
        domain : Domain, optional
            The domain whose rule is applied; by default, that of the model.

        Returns
        -------
        problems : dict of str to int
            Counts of the reasons that occur.
        n : int
            The number of records.

        Raises
        ------
        SchemaError
            If the data are not one column of numbers.
        """
        count = 0

        def counting() -> Iterator[NDArray[Any]]:
            nonlocal count
            for chunk in chunks(data):
                count += len(chunk)
                yield chunk

        return (domain or self.domain).count_problems(counting()), count

    # Prior and posterior

    @property
    @abstractmethod
    def parameter(self) -> str:
        """The name of the parameter whose posterior the model gives."""

    @abstractmethod
    def posterior(
        self, statistic: FloatArray, n: float, *, data_weight: float = 1.0, prior_weight: float = 1.0
    ) -> PosteriorDistribution:
        """The posterior distribution given the statistic of n records; n = 0 gives the prior.

        Parameters
        ----------
        statistic : array
            The statistic, of the shape of `empty`.
        n : float
            Number of records, >= 0.
        data_weight : float, default 1
            Power r of the likelihood (power posterior), in (0, 1].
        prior_weight : float, default 1
            Factor w of the natural parameters of the prior, finite and >= 1 (1/m in the thesis).

        Returns
        -------
        PosteriorDistribution
            The distribution with natural parameter w prior + r (s, n).
        """

    # Exact sums

    def statistic_grid(self, grid: float | None = None) -> Grid | None:
        """The public grid on which the statistic is summed exactly; None if only floating-point sums are known.

        By default, the grid of the records, if the statistic is their sum or is integer-valued.

        Parameters
        ----------
        grid : float, optional
            The pitch of the statistic, a power of two. By default 1 for integers, otherwise 2^-40 of the width of the
            bounds.

        Returns
        -------
        Grid or None
            The grid.

        Raises
        ------
        ValueError
            If the pitch is too coarse or too fine for the records.
        """
        if self.record_sensitivity.integer_valued:
            return integer_grid(grid)
        return record_grid(self.domain, grid) if self._has_exact_statistic else None

    @property
    def _has_exact_statistic(self) -> bool:
        """True if the statistic is integer-valued or the sum of the records, or has an exact sum of its own.

        A class that defines `summarize`, and inherits `exact_summarize` from a base of it, has no exact sum.
        """
        return _follows(type(self), "exact_summarize", "summarize") and (
            type(self).statistic is Model.statistic
            or type(self).exact_statistic is not Model.exact_statistic
            or self.record_sensitivity.integer_valued
        )

    def exact_summarize(self, data: Any, grid: Grid | None = None) -> tuple[ExactStatistic, int]:
        """Compute the statistic without rounding, and the number of records, in one pass over the data.

        Each record is rounded to the grid, inside its bounds, and the results are added as integers. Statistics of
        parts of the data therefore add up to the statistic of all of them, in any order.

        Parameters
        ----------
        data : array or Arrow stream
            One column of records.
        grid : Grid, optional
            The grid of the statistic; by default that of `statistic_grid`.

        Returns
        -------
        statistic : tuple of fractions.Fraction
            The numbers of the statistic, multiples of the pitch.
        n : int
            The number of records.

        Raises
        ------
        SchemaError
            If the data are not one column of numbers.
        """
        total = (Fraction(0),) * self.empty.size
        count = 0
        for chunk in chunks(data):
            total = tuple(a + b for a, b in zip(total, self.exact_statistic(chunk, grid), strict=True))
            count += len(chunk)
        return total, count

    def exact_statistic(self, chunk: NDArray[Any], grid: Grid | None = None) -> ExactStatistic:
        """Sum of the sufficient statistics of a chunk of records, without rounding.

        By default, the sum of the records after the public rule of `domain`, each rounded to the grid; of an
        integer-valued statistic, that statistic.

        Parameters
        ----------
        chunk : array of shape (k,)
            Records.
        grid : Grid, optional
            The grid of the statistic; by default that of `statistic_grid`.

        Returns
        -------
        tuple of fractions.Fraction
            The numbers of the statistic.
        """
        if type(self).statistic is Model.statistic:
            return (exact_sum(self.domain, chunk, grid),)
        if not self._has_exact_statistic:
            raise TypeError(f"{type(self).__name__} does not define exact_statistic, which exact draws need")
        return tuple(map(Fraction, integer_sums(self.statistic(chunk).reshape(1, -1))))

    def exact_posterior(
        self, statistic: ExactStatistic, n: int, *, data_weight: float = 1.0, prior_weight: float = 1.0
    ) -> RationalDistribution:
        """The posterior with parameters that are computed without rounding, for exact draws.

        Parameters
        ----------
        statistic : tuple of fractions.Fraction
            The exact statistic.
        n : int
            Number of records, >= 0.
        data_weight : float, default 1
            Power r of the likelihood (power posterior), in (0, 1].
        prior_weight : float, default 1
            Factor w of the natural parameters of the prior, finite and >= 1.

        Returns
        -------
        RationalDistribution
            The distribution with natural parameter w prior + r (s, n).

        Raises
        ------
        TypeError
            By default: the model does not define this method, and its posterior is drawn with floating-point numbers.
        """
        del statistic, n, data_weight, prior_weight
        raise TypeError(f"{type(self).__name__} does not define exact_posterior, which exact draws need")

    def grouped_posterior(
        self, statistics: FloatArray, sizes: FloatArray, *, data_weight: float = 1.0, prior_weight: float = 1.0
    ) -> GroupedPosterior | None:
        """The posteriors of many groups of records at once.

        Parameters
        ----------
        statistics : array of shape (groups, ...)
            The statistic of each group.
        sizes : array of shape (groups,)
            The number of records of each group.
        data_weight : float, default 1
            Power r of the likelihood (power posterior), in (0, 1].
        prior_weight : float, default 1
            Factor w of the natural parameters of the prior, finite and >= 1.

        Returns
        -------
        GroupedPosterior or None
            The posteriors; None, the default, if they are computed one by one.
        """
        del statistics, sizes, data_weight, prior_weight
        return None

    @property
    def has_exact_posterior(self) -> bool:
        """True if the model defines `exact_posterior`, and the statistic is known exactly.

        A class that defines `posterior`, and inherits `exact_posterior` from a base of it, is drawn from the former.
        """
        return (
            type(self).exact_posterior is not Model.exact_posterior
            and _follows(type(self), "exact_posterior", "posterior")
            and self._has_exact_statistic
        )

    @cached
    def prior(self) -> PosteriorDistribution:
        """The prior distribution."""
        return self.posterior(self.empty, 0)

    @cached
    def likelihood(self) -> tuple[Any, ...]:
        """The likelihood part of the model: models with equal values differ in their priors only."""
        rest = (field.name for field in fields(self) if field.name not in self.prior_parameters)  # type: ignore[arg-type]
        return type(self).__name__, self.domain, *(getattr(self, name) for name in rest)

    def update_prior(self, statistic: FloatArray, n: int) -> Self:
        """The model whose prior is the posterior given the statistic of n records.

        Parameters
        ----------
        statistic : array
            The statistic, of the shape of `empty`.
        n : int
            Number of records.

        Returns
        -------
        Model
            A model with the same likelihood.

        Raises
        ------
        TypeError
            By default: the model does not define this update.
        """
        del statistic, n
        raise TypeError(f"{type(self).__name__} does not define update_prior, which makes the posterior the new prior")

    def with_public_data(self, data: Any) -> Self:
        """The model whose prior has been updated with public records, at no privacy cost.

        Parameters
        ----------
        data : array or Arrow stream
            One column of public records.

        Returns
        -------
        Model
            A model with the same likelihood.

        Raises
        ------
        SchemaError
            If the data are not one column of numbers.
        TypeError
            If the model does not define `update_prior`.

        Notes
        -----
        Source: Geumlek 2020, section 5.3.1.
        """
        return self.update_prior(*self.summarize(data))

    def noise_aware(self, n: int, noise: "Noise", observed: FloatArray) -> "NoiseAware":
        """The posterior given noisy observations of the statistic, which accounts for the noise.

        Parameters
        ----------
        n : int
            Number of records.
        noise : Noise
            Distribution of the noise on each coordinate.
        observed : array of shape (draws, ...)
            Noisy copies of the statistic with independent noise.

        Returns
        -------
        NoiseAware
            The posterior distribution, and a description of how exact it is.

        Raises
        ------
        TypeError
            By default: the posterior is available by MCMC only.
        """
        del n, noise, observed
        raise TypeError(f"the noise-aware posterior of {type(self).__name__} needs MCMC: use .mcmc()")

    def noise_aware_groups(self, sizes: NDArray[np.int64], noise: "Noise", observed: FloatArray) -> "NoiseAware":
        """The posteriors of many groups given noisy observations of their statistics.

        By default, `noise_aware` is called once for each distinct pair of a number of records and observations.

        Parameters
        ----------
        sizes : array of int, shape (groups,)
            Numbers of records.
        noise : Noise
            Distribution of the noise on each coordinate.
        observed : array of shape (draws, groups, ...)
            Noisy copies of the statistics with independent noise.

        Returns
        -------
        NoiseAware
            The posterior distributions, a `GroupPosteriors`, and a description of how exact they are.

        Raises
        ------
        TypeError
            If `noise_aware` is not defined: the posterior is available by MCMC only.
        """
        from privsample.distributions.models.noise_aware import noise_aware_of_each

        return noise_aware_of_each(lambda n, seen: self.noise_aware(n, noise, seen), sizes, observed)

    def sized_noise_aware(self, noise: "Noise", observed: FloatArray, grid: Grid | None = None) -> "NoiseAware":
        """The posterior given noisy observations of `sized_statistic`, where the number of records is private.

        The prior of the number of records is uniform on 0, 1, 2, ..., improper, and independent of the parameter.

        Parameters
        ----------
        noise : Noise
            Distribution of the noise on each coordinate.
        observed : array of shape (draws, ...)
            Noisy copies of the statistic with independent noise.
        grid : Grid, optional
            The grid to which records were rounded; None if they were not rounded.

        Returns
        -------
        NoiseAware
            The posterior distribution, and a description of how exact it is.

        Raises
        ------
        TypeError
            By default: no such posterior is known.
        """
        del noise, observed, grid
        raise TypeError(
            f"the noise-aware posterior of {type(self).__name__} is not known for a private number of records: use "
            ".posterior(), which ignores the noise, or a public n"
        )

    # Simulated records

    def simulate(self, theta: FloatArray, n: int, rng: np.random.Generator) -> FloatArray:
        """Simulate records from the model.

        Parameters
        ----------
        theta : array
            Value of the parameter.
        n : int
            Number of records.
        rng : numpy.random.Generator
            Source of randomness.

        Returns
        -------
        array of shape (n,)
            The records.

        Raises
        ------
        TypeError
            By default: the model does not define a simulation.
        """
        del theta, n, rng
        raise TypeError(f"{type(self).__name__} does not define simulate, which draws records from the model")

    def simulate_statistic(
        self, theta: FloatArray, n: int, rng: np.random.Generator, *, one_by_one: int = ONE_BY_ONE
    ) -> FloatArray:
        """Simulate the statistic of n records, without single records where that is faster.

        Parameters
        ----------
        theta : array
            Value of the parameter.
        n : int
            Number of records.
        rng : numpy.random.Generator
            Source of randomness.
        one_by_one : int, default 20000
            Largest number of records for which no approximation is allowed.

        Returns
        -------
        array
            The statistic, of the shape of `empty`.
        """
        del one_by_one
        return self.statistic(self.simulate(theta, n, rng))

    @classmethod
    def example(cls) -> Self | None:
        """A small instance for tests and documentation.

        Returns
        -------
        Model or None
            The instance; None, the default, if there is none.
        """
        return None

    @property
    def record_format(self) -> RecordFormat:
        """How data hold the records of the model: by default, in one column."""
        return ColumnFormat(names=getattr(self, "names", ()))

    # Neighbouring data sets

    @property
    def extreme_records(self) -> tuple[Records, ...]:
        """Records with (almost) the most different neighbouring posteriors: (record of all others, x, x').

        By default, x and x' are the bounds of the domain, and all other records equal either bound. Raises TypeError if
        the statistic is not one number.
        """
        if self.empty.ndim:
            raise TypeError(
                f"{type(self).__name__} defines no worst neighbours of its posterior: pass datasets=(first, second)"
            )
        low, high = self.domain.low, self.domain.high
        return (low, low, high), (high, high, low)

    @property
    def neighbouring_posteriors(self) -> tuple[Shift, ...]:
        """The least private pairs of posteriors of n records of which one is replaced, for any n.

        Every other pair of neighbouring posteriors, also with weights, must be a post-processing of one of these pairs.
        This needs a proof; the library does not validate it.

        Raises
        ------
        TypeError
            By default: no such pairs are known.
        """
        raise TypeError(
            f"no account is known for the posterior of {type(self).__name__}: it does not define "
            "neighbouring_posteriors"
        )

    def supports_groups(self, prior_weight: float) -> bool:
        """Whether `neighbouring_posteriors` also holds for k replaced records, with shifts k times as large.

        Parameters
        ----------
        prior_weight : float
            Factor of the parameters of the prior, finite and >= 1.

        Returns
        -------
        bool
            False by default.
        """
        del prior_weight
        return False

    @property
    def prior_counts(self) -> tuple[float, ...]:
        """The pseudo-counts of the prior, to which the posterior adds counts; an account checks their range."""
        return tuple(prior for shift in self.neighbouring_posteriors for prior in shift.pseudo_counts)

    @property
    def exact_neighbours(self) -> BetaShifts | None:
        """All pairs of neighbouring posteriors, if they form exactly one family; None by default.

        The pairs in `neighbouring_posteriors` dominate all others. The pairs here are exactly the neighbouring
        posteriors, so that they also give the account of a posterior that is truncated to public bounds.
        """
        return None

    # Tempered posterior with the parameter truncated to public bounds

    def check_truncation(self, truncation: object) -> Truncation:
        """Check public bounds on the parameter.

        Parameters
        ----------
        truncation : object
            The bounds as the user gives them; by default, a pair (low, high).

        Returns
        -------
        float or tuple of float
            The checked bounds.

        Raises
        ------
        TypeError, ValueError
            If the bounds are not valid for this parameter.
        """
        return interval_truncation(truncation)

    def parameter_bounds(self, truncation: Truncation) -> tuple[float, float]:
        """The smallest and the largest value of (each coordinate of) the parameter.

        Parameters
        ----------
        truncation : float or tuple of float
            Bounds that `check_truncation` returned.

        Returns
        -------
        tuple of float
            The pair (low, high).
        """
        assert isinstance(truncation, tuple)
        return truncation

    def log_ratio(self, n: int, temperature: float, bounds: tuple[float, float]) -> LogRatio:
        """Bounds on the log likelihood ratio of two records for parameters within public bounds.

        Parameters
        ----------
        n : int
            Number of records.
        temperature : float
            Temperature of the tempered posterior, >= 1.
        bounds : tuple of float
            The pair (low, high) that `parameter_bounds` returned.

        Returns
        -------
        LogRatio
            Range, slope and curvature. The curvature is that of the posterior to the power 1/temperature.

        Raises
        ------
        TypeError
            By default: the model does not define these bounds.
        """
        del n, temperature, bounds
        raise TypeError(
            f"no account is known for a tempered draw of {type(self).__name__}: it does not define log_ratio; an "
            "ExponentialFamily states truncation=FamilyTruncation(...), another model defines log_ratio and "
            "tempered_posterior"
        )

    def tempered_posterior(
        self, statistic: FloatArray, n: int, temperature: float, bounds: tuple[float, float]
    ) -> TruncatedDistribution:
        """The posterior at a temperature, with the parameter truncated to public bounds.

        Parameters
        ----------
        statistic : array
            The statistic of the records, of the shape of `empty`.
        n : int
            Number of records.
        temperature : float
            Temperature, >= 1.
        bounds : tuple of float
            The pair (low, high) that `parameter_bounds` returned.

        Returns
        -------
        TruncatedDistribution
            The distribution of one draw, for which `log_ratio` bounds the log likelihood ratio. By default, the density
            of the posterior to the power 1/temperature.

        Raises
        ------
        TypeError
            By default, if the posterior is not Beta, Dirichlet, Gamma or Normal.
        """
        return truncate(temper(self.posterior(statistic, n), temperature), *bounds)

    @property
    def as_bernoulli(self) -> "Model":
        """The equivalent model of zeros and ones, for records of two categories; by default, the model itself."""
        return self

    def two_categories(self, first: int, second: int) -> "Model":
        """The model of zeros and ones for records of two of the categories.

        Parameters
        ----------
        first, second : int
            Codes of the categories; a record of the first becomes a one.

        Returns
        -------
        Model
            The model of zeros and ones.

        Raises
        ------
        TypeError
            By default: the records are not categories.
        """
        del first, second
        raise TypeError(f"records of {type(self).__name__} are not categories")


def _follows(model: type[Model], exact: str, rounded: str) -> bool:
    """Whether the exact form of a method is defined by the class that defines the rounded one, or by one below it."""
    first = [next(i for i, cls in enumerate(model.__mro__) if name in vars(cls)) for name in (exact, rounded)]
    return first[0] <= first[1]

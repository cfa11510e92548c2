"""What a model is: how records become a statistic, and a statistic a posterior, and all that is known of both."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import fields
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from privsample._checks import FloatArray
from privsample._data import chunks
from privsample._value import Memo, cached
from privsample.distributions.domains import Domain
from privsample.distributions.geometry import RecordSensitivity, one_number
from privsample.distributions.models.simulation import ONE_BY_ONE
from privsample.distributions.models.truncation import LogRatio, Truncation, interval_truncation
from privsample.distributions.parametric.conjugate import PosteriorDistribution
from privsample.distributions.shifts import BetaShifts, Shift

if TYPE_CHECKING:
    from privsample.distributions.models.noise_aware import NoiseAware
    from privsample.distributions.noise import Noise

Records = tuple[float, float, float]


class Model(Memo, ABC):
    """A likelihood with its conjugate prior.

    The posterior of n records with statistic s = sum S(x_i) has natural parameter prior/`prior_divisor` +
    `data_weight` (s, n): both one for Bayes' rule. Source: Geumlek, Song and Chaudhuri 2017, Algorithms 1-3.

    A subclass is a frozen dataclass of its parameters, with keyword-only fields that compare by content. It must define
    `domain`, `parameter` and `posterior`. Everything else has a default, which says what is lost with it: some hold
    for all models of one bounded number, and others raise TypeError, so that nothing is assumed that was not said.

    Attributes
    ----------
    command_name : str or None
        The name of the model on the command line; None, the default, leaves it out there.
    prior_parameters : tuple of str
        The fields that are parameters of the prior, in the order in which the command line takes them. One field that
        is a tuple takes all numbers. All other fields are part of the likelihood.
    options : mapping of str to str
        The other fields that the command line takes, each with a line of help. Numbers, whole numbers, pairs of
        numbers and flags are told apart by their annotations.
    records_are_codes : bool
        Whether records are codes 0, ..., K-1 of categories, which may have names, one for each number of the prior.
    description : str
        What the parameter is, in words that fit after "a belief about".

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
    ...     def posterior(self, statistic, n, *, data_weight=1.0, prior_divisor=1.0):
    ...         shape = self.shape / prior_divisor + data_weight * 3 * n
    ...         return ps.Gamma(shape=shape, rate=self.rate / prior_divisor + data_weight * float(statistic))
    ...
    ...     @property
    ...     def neighbouring_posteriors(self):
    ...         return (ps.GammaRateShift(shape=self.shape, rate=self.rate, reach=self.upper, each=3),)
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

    # Records and their statistic

    @property
    @abstractmethod
    def domain(self) -> Domain:
        """Where records live, and the public rule that brings every other value there."""

    @property
    def empty(self) -> FloatArray:
        """The statistic of no records; by default, one number."""
        return np.zeros(())

    def statistic(self, chunk: NDArray[Any]) -> FloatArray:
        """Sum of the sufficient statistics of a chunk of records, after the public rule of `domain`.

        By default, the sum of the records. A model with another statistic also overrides `record_sensitivity` and
        `feasible`.
        """
        return np.asarray(self.domain.clean(chunk).sum(dtype=np.float64))

    @cached
    def record_sensitivity(self) -> RecordSensitivity:
        """How far one record replaced by another can move the statistic; here, one number from end to end."""
        return one_number(self.domain.high - self.domain.low, whole=self.domain.whole)

    def feasible(self, statistic: FloatArray, n: int) -> FloatArray:
        """The statistic of n records that is nearest to this one, which may be that of none."""
        return np.clip(statistic, n * self.domain.low, n * self.domain.high)

    def summarize(self, data: Any) -> tuple[FloatArray, int]:
        """Statistic and number of records, read once in chunks. Raises: SchemaError."""
        total, count = self.empty, 0
        for chunk in chunks(data):
            total, count = total + self.statistic(chunk), count + len(chunk)
        return total, count

    def examine(self, data: Any, domain: Domain | None = None) -> tuple[dict[str, int], int]:
        """How many values the rule of `domain` would move, by reason, and how many records there are: for the curator.

        Raises: SchemaError.
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
        """The name of the parameter that the posterior is about."""

    @abstractmethod
    def posterior(
        self, statistic: FloatArray, n: float, *, data_weight: float = 1.0, prior_divisor: float = 1.0
    ) -> PosteriorDistribution:
        """The posterior distribution of n records with this statistic; n = 0 gives the prior."""

    @cached
    def prior(self) -> PosteriorDistribution:
        """The prior distribution."""
        return self.posterior(self.empty, 0)

    @cached
    def likelihood(self) -> tuple[Any, ...]:
        """What the model is beside its prior: equal ones give a posterior from the same statistic."""
        rest = (field.name for field in fields(self) if field.name not in self.prior_parameters)  # type: ignore[arg-type]
        return type(self).__name__, self.domain, *(getattr(self, name) for name in rest)

    def absorb(self, statistic: FloatArray, n: int) -> Self:
        """The model whose prior is the posterior of n records with this statistic. Raises: TypeError, by default."""
        del statistic, n
        raise TypeError(f"{type(self).__name__} does not say how its prior takes records up: define absorb")

    def with_public_data(self, data: Any) -> Self:
        """Fold public records into the prior, at no cost (thesis, section 5.3.1). Raises: SchemaError, TypeError."""
        return self.absorb(*self.summarize(data))

    def noise_aware(self, n: int, noise: "Noise", observed: FloatArray) -> "NoiseAware":
        """The posterior of n records whose statistic plus noise was observed: (draws, ...) independent copies.

        Raises: TypeError, by default: none is known but by MCMC.
        """
        del n, noise, observed
        raise TypeError(f"the noise-aware posterior of {type(self).__name__} needs draws by MCMC: use .mcmc()")

    # Simulated records

    def simulate(self, theta: FloatArray, n: int, rng: np.random.Generator) -> FloatArray:
        """n records from the model at parameter theta, shape (n,). Raises: TypeError, by default."""
        del theta, n, rng
        raise TypeError(f"{type(self).__name__} does not say how its records are simulated: define simulate")

    def simulate_statistic(
        self, theta: FloatArray, n: int, rng: np.random.Generator, *, one_by_one: int = ONE_BY_ONE
    ) -> FloatArray:
        """The statistic of n simulated records, where that is quicker than to simulate each.

        one_by_one: a number of records up to which no approximation may be made.
        """
        del one_by_one
        return self.statistic(self.simulate(theta, n, rng))

    @classmethod
    def example(cls) -> Self | None:
        """A small instance for tests and documentation; None, by default, where there is none."""
        return None

    # Neighbouring data sets

    @property
    def extreme_records(self) -> tuple[Records, ...]:
        """What all other records hold, x and x', so that the posteriors of neighbours differ most, or nearly so.

        By default, x and x' are the ends of the domain, and all others hold either. Raises: TypeError, where the
        statistic is not one number.
        """
        if self.empty.ndim:
            raise TypeError(f"the worst neighbours of a {type(self).__name__} posterior are not known to the audit")
        low, high = self.domain.low, self.domain.high
        return (low, low, high), (high, high, low)

    @property
    def neighbouring_posteriors(self) -> tuple[Shift, ...]:
        """The posteriors of n records, of which one is replaced, that lie farthest apart, whatever n is.

        Every other two posteriors of such data sets, also with weights, must be what some randomized map makes of one
        of these pairs. Whether that holds is for a proof: nothing checks it.

        Raises
        ------
        TypeError
            By default: none are known.
        """
        raise TypeError(
            f"no account is known for the posterior of {type(self).__name__}: it does not define "
            "neighbouring_posteriors"
        )

    def supports_groups(self, prior_divisor: float) -> bool:
        """Whether `neighbouring_posteriors` holds for k records replaced, with steps k times as long; by default, not.

        prior_divisor: what divides the prior's parameters, in (0, 1].
        """
        del prior_divisor
        return False

    @property
    def prior_counts(self) -> tuple[float, ...]:
        """The prior's parameters that records are added to one by one, whose range an account has to check."""
        return tuple(prior for shift in self.neighbouring_posteriors for prior in shift.counts)

    @property
    def exact_neighbours(self) -> BetaShifts | None:
        """All pairs of neighbouring posteriors, where they are just those of one family; None, by default.

        Unlike `neighbouring_posteriors`, which others may only be made of, these can be restricted to bounds.
        """
        return None

    # A posterior at a temperature, its parameter inside public bounds

    def check_truncation(self, truncation: object) -> Truncation:
        """The bounds after their checks; by default, (low, high). Raises: ValueError, TypeError."""
        return interval_truncation(truncation)

    def parameter_bounds(self, truncation: Truncation) -> tuple[float, float]:
        """The least and the largest value of (each coordinate of) the parameter under a checked truncation."""
        assert isinstance(truncation, tuple)
        return truncation

    def log_ratio(self, n: int, temperature: float, bounds: tuple[float, float]) -> LogRatio:
        """How far the log likelihood ratio of two records ranges inside the parameter's bounds, and how steeply.

        The curvature is that of the posterior of n records to the power 1/temperature. Raises: TypeError, by default.
        """
        del n, temperature, bounds
        raise TypeError(
            f"no account is known for a tempered draw of {type(self).__name__}: it does not define log_ratio"
        )

    @property
    def as_bernoulli(self) -> "Model":
        """The model of ones and zeros, where records are of two categories; by default, the model itself."""
        return self

    def two_categories(self, first: int, second: int) -> "Model":
        """The model of ones and zeros for records of which each is of one of these two categories, a one of the first.

        Raises: TypeError, by default: records are of no categories.
        """
        del first, second
        raise TypeError(f"records of {type(self).__name__} are of no categories")

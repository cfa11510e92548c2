"""Exponential families with conjugate priors: how records become a statistic, and a statistic a posterior."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from privsample._checks import FloatArray, finite, interval, positive, positive_integer
from privsample._data import chunks
from privsample._value import put, value
from privsample.distributions.domains import Domain
from privsample.distributions.geometry import ONE_HOT, Differences, one_number
from privsample.distributions.laws.conjugate import Beta, Dirichlet, Gamma, Law, Normal


class Model(ABC):
    """A likelihood with its conjugate prior.

    The posterior of n records with statistic s = sum S(x_i) has natural parameter prior/`prior_divisor` +
    `data_weight` (s, n): both one for Bayes' rule. Source: Geumlek, Song and Chaudhuri 2017, Algorithms 1-3.
    """

    __slots__ = ()
    description: ClassVar[str] = "the parameter"

    @property
    @abstractmethod
    def domain(self) -> Domain:
        """Where records live, and the public rule that brings every other value there."""

    @property
    @abstractmethod
    def parameter(self) -> str:
        """The name of the parameter that the posterior is about."""

    @abstractmethod
    def posterior(
        self, statistic: FloatArray, n: float, *, data_weight: float = 1.0, prior_divisor: float = 1.0
    ) -> Law:
        """The posterior law of n records with this statistic; n = 0 gives the prior."""

    @abstractmethod
    def absorb(self, statistic: FloatArray, n: int) -> Self:
        """The model whose prior is the posterior of n records with this statistic."""

    @abstractmethod
    def simulate(self, theta: FloatArray, n: int, rng: np.random.Generator) -> FloatArray:
        """n records from the model at parameter theta, shape (n,)."""

    @property
    def differences(self) -> Differences:
        """How far one record replaced by another can move the statistic; here, one number from end to end."""
        return one_number(self.domain.high - self.domain.low, whole=self.domain.whole)

    @property
    def likelihood(self) -> tuple[Any, ...]:
        """What the model is beside its prior: equal ones give a posterior from the same statistic."""
        return type(self).__name__, self.domain

    def feasible(self, statistic: FloatArray, n: int) -> FloatArray:
        """The statistic of n records that is nearest to this one, which may be that of none."""
        return np.clip(statistic, n * self.domain.low, n * self.domain.high)

    @property
    def empty(self) -> FloatArray:
        """The statistic of no records."""
        return np.zeros(())

    @property
    def prior(self) -> Law:
        """The prior law."""
        return self.posterior(self.empty, 0)

    def statistic(self, chunk: NDArray[Any]) -> FloatArray:
        """Sum of the sufficient statistics of a chunk of records, after the public rule of `domain`."""
        return np.asarray(self.domain.clean(chunk).sum(dtype=np.float64))

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

        return (domain or self.domain).counted(counting()), count

    def with_public_data(self, data: Any) -> Self:
        """Fold public records into the prior, at no cost (thesis, section 5.3.1). Raises: SchemaError."""
        return self.absorb(*self.summarize(data))


@value
class BetaBernoulli(Model):
    """Bernoulli records with a Beta(alpha, beta) prior; with `fractional`, records anywhere in [0, 1]."""

    alpha: float
    beta: float
    fractional: bool = False
    description: ClassVar[str] = "the share of ones"

    def __post_init__(self) -> None:
        put(self, alpha=positive(alpha=self.alpha), beta=positive(beta=self.beta), fractional=bool(self.fractional))

    @property
    def domain(self) -> Domain:
        """{0, 1} or [0, 1]; a missing record counts as 0."""
        return Domain(low=0.0, high=1.0, missing=0.0, whole=not self.fractional)

    @property
    def parameter(self) -> str:
        """The proportion."""
        return "theta"

    def posterior(
        self, statistic: FloatArray, n: float, *, data_weight: float = 1.0, prior_divisor: float = 1.0
    ) -> Beta:
        """Beta(alpha/m + r s, beta/m + r (n - s))."""
        s = float(statistic)
        return Beta(a=self.alpha / prior_divisor + data_weight * s, b=self.beta / prior_divisor + data_weight * (n - s))

    def absorb(self, statistic: FloatArray, n: int) -> "BetaBernoulli":
        """Successes to alpha, failures to beta."""
        law = self.posterior(statistic, n)
        return BetaBernoulli(alpha=law.a, beta=law.b, fractional=self.fractional)

    def simulate(self, theta: FloatArray, n: int, rng: np.random.Generator) -> FloatArray:
        """Zeros and ones."""
        return (rng.random(n) < theta).astype(np.float64)


@value
class DirichletCategorical(Model):
    """Records in {0, ..., K-1} with a Dirichlet(alpha) prior, K = len(alpha) >= 2."""

    alpha: tuple[float, ...]
    description: ClassVar[str] = "the share of each category"

    def __post_init__(self) -> None:
        alpha = tuple(
            positive(**{f"alpha[{i}]": a}) for i, a in enumerate(np.atleast_1d(np.asarray(self.alpha, dtype=object)))
        )
        if not len(alpha) >= 2:
            raise ValueError(f"alpha must have at least two categories, got {len(alpha)}")
        put(self, alpha=alpha)

    @property
    def domain(self) -> Domain:
        """{0, ..., K-1}; whatever is missing or outside counts as category 0."""
        return Domain(low=0.0, high=len(self.alpha) - 1.0, missing=0.0, whole=True, outside_is_missing=True)

    @property
    def parameter(self) -> str:
        """The vector of proportions."""
        return "theta"

    @property
    def differences(self) -> Differences:
        """One count less, another one more."""
        return ONE_HOT

    def feasible(self, statistic: FloatArray, n: int) -> FloatArray:
        """The nearest nonnegative vector that adds up to n: what is too much is taken off evenly, down to zero."""
        with np.errstate(over="ignore"):  # n would not count beside very large entries: only their differences matter
            statistic = np.maximum(statistic - statistic.max(), -float(n))
        falling = -np.sort(-statistic)
        surplus = (np.cumsum(falling) - n) / np.arange(1, len(falling) + 1)
        return np.maximum(statistic - surplus[np.flatnonzero(falling > surplus)[-1]], 0.0)

    @property
    def empty(self) -> FloatArray:
        """The statistic of no records."""
        return np.zeros(len(self.alpha))

    def statistic(self, chunk: NDArray[Any]) -> FloatArray:
        """Counts of the categories."""
        codes = self.domain.clean(chunk).astype(np.int64)
        return np.bincount(codes, minlength=len(self.alpha)).astype(np.float64)

    def posterior(
        self, statistic: FloatArray, n: float, *, data_weight: float = 1.0, prior_divisor: float = 1.0
    ) -> Dirichlet:
        """Dirichlet(alpha/m + r counts)."""
        del n  # the counts say it
        return Dirichlet(alpha=tuple(np.array(self.alpha) / prior_divisor + data_weight * statistic))

    def absorb(self, statistic: FloatArray, n: int) -> "DirichletCategorical":
        """Counts to alpha."""
        return DirichletCategorical(alpha=self.posterior(statistic, n).alpha)

    def simulate(self, theta: FloatArray, n: int, rng: np.random.Generator) -> FloatArray:
        """Codes of categories."""
        return rng.choice(len(self.alpha), size=n, p=theta / theta.sum()).astype(np.float64)


@value
class GammaPoisson(Model):
    """Counts clipped to {0, ..., upper}, Poisson with a Gamma(shape, rate) prior on their mean."""

    shape: float
    rate: float
    upper: int
    description: ClassVar[str] = "the mean count"

    def __post_init__(self) -> None:
        upper = positive_integer(upper=self.upper)
        put(self, shape=positive(shape=self.shape), rate=positive(rate=self.rate), upper=upper)

    @property
    def domain(self) -> Domain:
        """{0, ..., upper}; a missing record counts as 0."""
        return Domain(low=0.0, high=float(self.upper), missing=0.0, whole=True)

    @property
    def parameter(self) -> str:
        """The mean count."""
        return "rate"

    def posterior(
        self, statistic: FloatArray, n: float, *, data_weight: float = 1.0, prior_divisor: float = 1.0
    ) -> Gamma:
        """Gamma(shape/m + r s, rate/m + r n)."""
        shape = self.shape / prior_divisor + data_weight * float(statistic)
        return Gamma(shape=shape, rate=self.rate / prior_divisor + data_weight * n)

    def absorb(self, statistic: FloatArray, n: int) -> "GammaPoisson":
        """Counts to the shape, their number to the rate."""
        law = self.posterior(statistic, n)
        return GammaPoisson(shape=law.shape, rate=law.rate, upper=self.upper)

    def simulate(self, theta: FloatArray, n: int, rng: np.random.Generator) -> FloatArray:
        """Poisson counts, clipped."""
        return np.minimum(rng.poisson(float(theta), n), self.upper).astype(np.float64)


@value
class GammaExponential(Model):
    """Waiting times clipped to [0, upper], exponential with a Gamma(shape, rate) prior on their rate."""

    shape: float
    rate: float
    upper: float
    description: ClassVar[str] = "the rate"

    def __post_init__(self) -> None:
        put(self, shape=positive(shape=self.shape), rate=positive(rate=self.rate), upper=positive(upper=self.upper))

    @property
    def domain(self) -> Domain:
        """[0, upper]; a missing record counts as 0."""
        return Domain(low=0.0, high=self.upper, missing=0.0)

    @property
    def parameter(self) -> str:
        """The rate of the exponential law."""
        return "rate"

    def posterior(
        self, statistic: FloatArray, n: float, *, data_weight: float = 1.0, prior_divisor: float = 1.0
    ) -> Gamma:
        """Gamma(shape/m + r n, rate/m + r s)."""
        rate = self.rate / prior_divisor + data_weight * float(statistic)
        return Gamma(shape=self.shape / prior_divisor + data_weight * n, rate=rate)

    def absorb(self, statistic: FloatArray, n: int) -> "GammaExponential":
        """Number to the shape, total time to the rate."""
        law = self.posterior(statistic, n)
        return GammaExponential(shape=law.shape, rate=law.rate, upper=self.upper)

    def simulate(self, theta: FloatArray, n: int, rng: np.random.Generator) -> FloatArray:
        """Exponential times, clipped."""
        return np.minimum(rng.exponential(1 / float(theta), n), self.upper)


@value
class NormalKnownVariance(Model):
    """Records clipped to `bounds`, normal of known `noise_variance`; a Normal(mean, variance) prior on their mean."""

    mean: float
    variance: float
    noise_variance: float
    bounds: tuple[float, float]
    description: ClassVar[str] = "the mean"

    def __post_init__(self) -> None:
        put(self, mean=finite(mean=self.mean), variance=positive(variance=self.variance))
        put(self, noise_variance=positive(noise_variance=self.noise_variance), bounds=interval(bounds=self.bounds))

    @property
    def domain(self) -> Domain:
        """[low, high]; a missing record counts as the middle."""
        low, high = self.bounds
        return Domain(low=low, high=high, missing=low / 2 + high / 2)

    @property
    def parameter(self) -> str:
        """The mean."""
        return "mean"

    @property
    def likelihood(self) -> tuple[Any, ...]:
        """With the known variance."""
        return type(self).__name__, self.domain, self.noise_variance

    def posterior(
        self, statistic: FloatArray, n: float, *, data_weight: float = 1.0, prior_divisor: float = 1.0
    ) -> Normal:
        """Precision 1/(m variance) + r n / noise_variance, mean weighted by precision."""
        own, theirs = 1 / (prior_divisor * self.variance), data_weight / self.noise_variance
        precision = own + theirs * n
        return Normal(location=(own * self.mean + theirs * float(statistic)) / precision, scale=precision**-0.5)

    def absorb(self, statistic: FloatArray, n: int) -> "NormalKnownVariance":
        """Mean and variance move to the posterior's."""
        law = self.posterior(statistic, n)
        return NormalKnownVariance(
            mean=law.location, variance=law.scale**2, noise_variance=self.noise_variance, bounds=self.bounds
        )

    def simulate(self, theta: FloatArray, n: int, rng: np.random.Generator) -> FloatArray:
        """Normal records, clipped."""
        return np.clip(rng.normal(float(theta), self.noise_variance**0.5, n), *self.bounds)

"""Bounded numbers of known variance with a normal prior on their mean."""

from collections.abc import Mapping
from dataclasses import field
from fractions import Fraction
from typing import ClassVar, Self

import numpy as np

from privsample._checks import FloatArray, finite, interval, positive
from privsample._value import cached, frozen_value, set_fields
from privsample.distributions.clipping.moments import NUMPY, normal_moments
from privsample.distributions.clipping.records import ClippedNormal
from privsample.distributions.domains import Domain
from privsample.distributions.exact.rational import ExactStatistic, RationalNormal
from privsample.distributions.models.base import Model, Records
from privsample.distributions.models.noise_aware import NoiseAware, noisy_sum_posterior
from privsample.distributions.models.simulation import ONE_BY_ONE, normal_sum
from privsample.distributions.models.truncation import LogRatio
from privsample.distributions.noise import Noise
from privsample.distributions.parametric.conjugate import Normal
from privsample.distributions.parametric.grouped import GroupedPosterior
from privsample.distributions.parametric.truncated import temper
from privsample.distributions.posterior_shifts import NormalShift


@frozen_value
class NormalKnownVariance(Model):
    """Normal records of known variance, clipped to `bounds`, with a Normal(mean, variance) prior on their mean.

    Parameters
    ----------
    mean : float
        Mean of the prior, finite, in units of the records.
    variance : float
        Variance of the prior, finite and > 0, in squared units of the records.
    noise_variance : float
        Variance of one record given the mean, finite and > 0, in squared units of the records.
    bounds : tuple of float
        Public bounds (low, high) of a record, finite, low < high; values outside are clipped.

    Raises
    ------
    TypeError, ValueError
        If a field has the wrong type or is out of range.

    Examples
    --------
    >>> import numpy as np
    >>> import privsample as ps
    >>> model = ps.NormalKnownVariance(mean=0, variance=1, noise_variance=1, bounds=(-1, 1))
    >>> print(f"{model.posterior(np.array(2.0), 3).mean:.2f}")
    0.50
    """

    command_name = "normal-known-variance"
    prior_parameters = ("mean", "variance")
    options: ClassVar[Mapping[str, str]] = {
        "bounds": "values outside count as the nearer bound",
        "noise_variance": "variance of one record",
    }
    description = "the mean"

    mean: float = field(kw_only=False)
    variance: float = field(kw_only=False)
    noise_variance: float
    bounds: tuple[float, float]

    def __post_init__(self) -> None:
        set_fields(self, mean=finite(mean=self.mean), variance=positive(variance=self.variance))
        set_fields(
            self, noise_variance=positive(noise_variance=self.noise_variance), bounds=interval(bounds=self.bounds)
        )

    @cached
    def domain(self) -> Domain:
        """[low, high]; a missing record counts as the midpoint."""
        low, high = self.bounds
        return Domain(low=low, high=high, missing=low / 2 + high / 2)

    @property
    def parameter(self) -> str:
        """The name "mean" of the mean of the records."""
        return "mean"

    def posterior(
        self, statistic: FloatArray, n: float, *, data_weight: float = 1.0, prior_weight: float = 1.0
    ) -> Normal:
        """The normal posterior of precision w/variance + r n/noise_variance, with data weight r and prior weight w."""
        own, theirs = prior_weight / self.variance, data_weight / self.noise_variance
        precision = own + theirs * n
        return Normal(location=(own * self.mean + theirs * float(statistic)) / precision, scale=precision**-0.5)

    def grouped_posterior(
        self, statistics: FloatArray, sizes: FloatArray, *, data_weight: float = 1.0, prior_weight: float = 1.0
    ) -> GroupedPosterior:
        """The posteriors of many groups: normal distributions."""
        r, w = data_weight, prior_weight
        own, theirs = w / self.variance, r / self.noise_variance
        precisions = own + theirs * sizes
        return GroupedPosterior(Normal, ((own * self.mean + theirs * statistics) / precisions, precisions**-0.5))

    def exact_posterior(
        self, statistic: ExactStatistic, n: int, *, data_weight: float = 1.0, prior_weight: float = 1.0
    ) -> RationalNormal:
        """The posterior of precision w/variance + r n/noise_variance without rounding."""
        (s,) = statistic
        own = Fraction(prior_weight) / Fraction(self.variance)
        theirs = Fraction(data_weight) / Fraction(self.noise_variance)
        precision = own + theirs * n
        return RationalNormal(mean=(own * Fraction(self.mean) + theirs * s) / precision, variance=1 / precision)

    def update_prior(self, statistic: FloatArray, n: int) -> "NormalKnownVariance":
        """The model whose prior mean and variance are those of the posterior."""
        distribution = self.posterior(statistic, n)
        return NormalKnownVariance(
            mean=distribution.location,
            variance=distribution.scale**2,
            noise_variance=self.noise_variance,
            bounds=self.bounds,
        )

    def noise_aware(self, n: int, noise: Noise, observed: FloatArray) -> NoiseAware:
        """The posterior given noisy sums, with the exact likelihood by inversion of the characteristic function."""
        deviation = self.noise_variance**0.5
        return noisy_sum_posterior(
            self.prior,
            lambda mean: ClippedNormal(mean=mean, deviation=deviation, bounds=self.bounds),
            n,
            noise,
            observed,
            positive=False,
        )

    def simulate(self, theta: FloatArray, n: int, rng: np.random.Generator) -> FloatArray:
        """Simulate clipped normal records."""
        return np.clip(rng.normal(float(theta), self.noise_variance**0.5, n), *self.bounds)

    def simulate_statistic(
        self, theta: FloatArray, n: int, rng: np.random.Generator, *, one_by_one: int = ONE_BY_ONE
    ) -> FloatArray:
        """The sum of n simulated records: exact if n <= `one_by_one`, otherwise normal with the exact moments."""
        if n <= one_by_one:
            return self.statistic(self.simulate(theta, n, rng))
        mean, variance = normal_moments(NUMPY, float(theta), self.noise_variance**0.5, *self.bounds)
        return normal_sum(mean, variance, n, self.bounds, rng)

    @classmethod
    def example(cls) -> Self:
        """A model of records from -1 to 2 with a standard normal prior."""
        return cls(mean=0, variance=1, noise_variance=1, bounds=(-1, 2))

    @property
    def extreme_records(self) -> tuple[Records, ...]:
        """A record changes from one bound to the other; the other records shift both posterior means equally."""
        low, high = self.bounds
        return ((low, low, high),)

    @property
    def neighbouring_posteriors(self) -> tuple[NormalShift, ...]:
        """A record changes from one bound to the other."""
        low, high = self.bounds
        return (NormalShift(variance=self.variance, noise_variance=self.noise_variance, record_range=high - low),)

    def supports_groups(self, prior_weight: float) -> bool:
        """True: all k records change from one bound to the other (docs/notes/posterior.md, Lemma 3)."""
        del prior_weight
        return True

    def log_ratio(self, n: int, temperature: float, bounds: tuple[float, float]) -> LogRatio:
        """Bounds on the log likelihood ratio of two records, in the mean."""
        (low, high), (least, most), distribution = bounds, self.bounds, temper(self.prior, temperature)
        assert isinstance(distribution, Normal)
        slope = (most - least) / self.noise_variance
        weight = n / temperature
        return LogRatio(slope * (high - low), slope, distribution.scale**-2.0 + weight / self.noise_variance)

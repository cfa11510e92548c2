"""Bounded waiting times with a Gamma prior on their rate."""

from collections.abc import Mapping
from dataclasses import field
from fractions import Fraction
from typing import ClassVar, Self

import numpy as np

from privsample._checks import FloatArray, positive
from privsample._value import cached, frozen_value, set_fields
from privsample.distributions.clipping.moments import NUMPY, exponential_moments
from privsample.distributions.clipping.records import ClippedExponential
from privsample.distributions.domains import Domain
from privsample.distributions.exact.rational import ExactStatistic, RationalGamma
from privsample.distributions.models.base import Model, Records
from privsample.distributions.models.noise_aware import NoiseAware, noisy_sum_posterior
from privsample.distributions.models.simulation import ONE_BY_ONE, normal_sum
from privsample.distributions.models.truncation import LogRatio, Truncation, interval_truncation
from privsample.distributions.noise import Noise
from privsample.distributions.parametric.conjugate import Gamma
from privsample.distributions.parametric.grouped import GroupedPosterior
from privsample.distributions.posterior_shifts import GammaRateShift


@frozen_value
class GammaExponential(Model):
    """Exponential waiting times clipped to [0, upper], with a Gamma(shape, rate) prior on their rate.

    Parameters
    ----------
    shape, rate : float
        Parameters of the prior, finite and > 0; `rate` in units of time.
    upper : float
        Upper bound of a record, finite and > 0, in units of time; larger values are clipped.

    Raises
    ------
    TypeError, ValueError
        If a field has the wrong type or is out of range.

    Examples
    --------
    >>> import numpy as np
    >>> import privsample as ps
    >>> ps.GammaExponential(shape=1, rate=2, upper=5).posterior(np.array(6.0), 4)
    Gamma(shape=5.0, rate=8.0)
    """

    command_name = "gamma-exponential"
    prior_parameters = ("shape", "rate")
    options: ClassVar[Mapping[str, str]] = {"upper": "larger values count as this one"}
    description = "the rate"

    shape: float = field(kw_only=False)
    rate: float = field(kw_only=False)
    upper: float

    def __post_init__(self) -> None:
        set_fields(
            self, shape=positive(shape=self.shape), rate=positive(rate=self.rate), upper=positive(upper=self.upper)
        )

    @cached
    def domain(self) -> Domain:
        """[0, upper]; a missing record counts as 0."""
        return Domain(low=0.0, high=self.upper, missing=0.0)

    @property
    def parameter(self) -> str:
        """The name "rate" of the rate of the exponential distribution."""
        return "rate"

    def posterior(
        self, statistic: FloatArray, n: float, *, data_weight: float = 1.0, prior_weight: float = 1.0
    ) -> Gamma:
        """The posterior Gamma(w shape + r n, w rate + r s) for the sum s, data weight r and prior weight w."""
        rate = prior_weight * self.rate + data_weight * float(statistic)
        return Gamma(shape=prior_weight * self.shape + data_weight * n, rate=rate)

    def grouped_posterior(
        self, statistics: FloatArray, sizes: FloatArray, *, data_weight: float = 1.0, prior_weight: float = 1.0
    ) -> GroupedPosterior:
        """The posteriors of many groups: Gamma distributions."""
        r, w = data_weight, prior_weight
        return GroupedPosterior(Gamma, (w * self.shape + r * sizes, w * self.rate + r * statistics))

    def exact_posterior(
        self, statistic: ExactStatistic, n: int, *, data_weight: float = 1.0, prior_weight: float = 1.0
    ) -> RationalGamma:
        """The posterior Gamma(w shape + r n, w rate + r s) without rounding."""
        (s,), r, w = statistic, Fraction(data_weight), Fraction(prior_weight)
        return RationalGamma(gamma_shape=w * Fraction(self.shape) + r * n, rate=w * Fraction(self.rate) + r * s)

    def update_prior(self, statistic: FloatArray, n: int) -> "GammaExponential":
        """The model whose prior is the posterior: n is added to `shape`, and the sum of the times to `rate`."""
        distribution = self.posterior(statistic, n)
        return GammaExponential(shape=distribution.shape, rate=distribution.rate, upper=self.upper)

    def noise_aware(self, n: int, noise: Noise, observed: FloatArray) -> NoiseAware:
        """The posterior given noisy sums, with the exact likelihood by inversion of the characteristic function."""
        return noisy_sum_posterior(
            self.prior, lambda rate: ClippedExponential(rate=rate, upper=self.upper), n, noise, observed, positive=True
        )

    def simulate(self, theta: FloatArray, n: int, rng: np.random.Generator) -> FloatArray:
        """Simulate clipped exponential times."""
        return np.minimum(rng.exponential(1 / float(theta), n), self.upper)

    def simulate_statistic(
        self, theta: FloatArray, n: int, rng: np.random.Generator, *, one_by_one: int = ONE_BY_ONE
    ) -> FloatArray:
        """The sum of n simulated records: exact if n <= `one_by_one`, otherwise normal with the exact moments."""
        if n <= one_by_one:
            return self.statistic(self.simulate(theta, n, rng))
        mean, variance = exponential_moments(NUMPY, float(theta), self.upper)
        return normal_sum(mean, variance, n, (0.0, self.upper), rng)

    @classmethod
    def example(cls) -> Self:
        """A model of times from 0 to 4 with a Gamma(5, 3) prior."""
        return cls(shape=5, rate=3, upper=4)

    @property
    def extreme_records(self) -> tuple[Records, ...]:
        """A record changes from 0 to `upper`, and all other records are 0."""
        return ((0.0, 0.0, self.upper),)

    @property
    def neighbouring_posteriors(self) -> tuple[GammaRateShift, ...]:
        """The posteriors when a record changes from 0 to `upper` and all other records are 0.

        Larger other records increase the rate of both posteriors, and this pair dominates those
        (docs/notes/posterior.md).
        """
        return (GammaRateShift(shape=self.shape, rate=self.rate, max_shift=self.upper),)

    def supports_groups(self, prior_weight: float) -> bool:
        """True: all k records change from one bound to the other (docs/notes/posterior.md, Lemma 3)."""
        del prior_weight
        return True

    def check_truncation(self, truncation: object) -> Truncation:
        """Check bounds (low, high) with 0 < low < high."""
        return interval_truncation(truncation, positive=True)

    def log_ratio(self, n: int, temperature: float, bounds: tuple[float, float]) -> LogRatio:
        """Bounds on the log likelihood ratio of two records, in the rate; each record adds 1 to the shape."""
        low, high = bounds
        return LogRatio(self.upper * (high - low), self.upper, (self.shape + (n - 1)) / temperature / high / high)

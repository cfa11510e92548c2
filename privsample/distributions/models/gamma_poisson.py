"""Clipped Poisson counts with a Gamma prior on the Poisson mean."""

from collections.abc import Mapping
from dataclasses import field
from fractions import Fraction
from typing import ClassVar, Self

import numpy as np
from scipy import special

from privsample._checks import FloatArray, positive, positive_integer
from privsample._value import cached, frozen_value, set_fields
from privsample.distributions.clipping.records import ClippedPoisson
from privsample.distributions.domains import Domain
from privsample.distributions.exact.rational import ExactStatistic, RationalGamma
from privsample.distributions.models.base import Model, Records
from privsample.distributions.models.noise_aware import NoiseAware, noisy_sum_posterior
from privsample.distributions.models.simulation import ONE_BY_ONE
from privsample.distributions.models.truncation import LogRatio, Truncation, interval_truncation, log_ratio
from privsample.distributions.noise import Noise
from privsample.distributions.parametric.conjugate import Gamma
from privsample.distributions.parametric.grouped import GroupedPosterior
from privsample.distributions.parametric.truncated import temper
from privsample.distributions.posterior_shifts import GammaShapeShift


@frozen_value
class GammaPoisson(Model):
    """Poisson counts clipped to {0, ..., upper}, with a Gamma(shape, rate) prior on the Poisson mean.

    Parameters
    ----------
    shape, rate : float
        Parameters of the prior, finite and > 0.
    upper : int
        Upper bound of a record, >= 1; larger values are clipped.

    Raises
    ------
    TypeError, ValueError
        If a field has the wrong type or is out of range.

    Examples
    --------
    >>> import numpy as np
    >>> import privsample as ps
    >>> ps.GammaPoisson(shape=1, rate=2, upper=5).posterior(np.array(6.0), 4)
    Gamma(shape=7.0, rate=6.0)
    """

    command_name = "gamma-poisson"
    prior_parameters = ("shape", "rate")
    options: ClassVar[Mapping[str, str]] = {"upper": "upper bound of a count; larger counts are clipped"}
    description = "the mean count"

    shape: float = field(kw_only=False)
    rate: float = field(kw_only=False)
    upper: int

    def __post_init__(self) -> None:
        upper = positive_integer(upper=self.upper)
        set_fields(self, shape=positive(shape=self.shape), rate=positive(rate=self.rate), upper=upper)

    @cached
    def domain(self) -> Domain:
        """The set {0, ..., upper}; a missing record is replaced by 0."""
        return Domain(low=0.0, high=float(self.upper), missing=0.0, integer_valued=True)

    @property
    def parameter(self) -> str:
        """The name of the parameter, "rate": the Poisson mean."""
        return "rate"

    def posterior(
        self, statistic: FloatArray, n: float, *, data_weight: float = 1.0, prior_weight: float = 1.0
    ) -> Gamma:
        """The posterior Gamma(w shape + r s, w rate + r n) for the sum s, data weight r and prior weight w."""
        shape = prior_weight * self.shape + data_weight * float(statistic)
        return Gamma(shape=shape, rate=prior_weight * self.rate + data_weight * n)

    def grouped_posterior(
        self, statistics: FloatArray, sizes: FloatArray, *, data_weight: float = 1.0, prior_weight: float = 1.0
    ) -> GroupedPosterior:
        """The posteriors of many groups: Gamma distributions."""
        r, w = data_weight, prior_weight
        return GroupedPosterior(Gamma, (w * self.shape + r * statistics, w * self.rate + r * sizes))

    def exact_posterior(
        self, statistic: ExactStatistic, n: int, *, data_weight: float = 1.0, prior_weight: float = 1.0
    ) -> RationalGamma:
        """The posterior Gamma(w shape + r s, w rate + r n) without rounding."""
        (s,), r, w = statistic, Fraction(data_weight), Fraction(prior_weight)
        return RationalGamma(gamma_shape=w * Fraction(self.shape) + r * s, rate=w * Fraction(self.rate) + r * n)

    def update_prior(self, statistic: FloatArray, n: int) -> "GammaPoisson":
        """The model whose prior is the posterior: the sum of the counts is added to `shape`, and n to `rate`."""
        distribution = self.posterior(statistic, n)
        return GammaPoisson(shape=distribution.shape, rate=distribution.rate, upper=self.upper)

    def noise_aware(self, n: int, noise: Noise, observed: FloatArray) -> NoiseAware:
        """The posterior given noisy sums, with the exact likelihood by inversion of the characteristic function."""
        return noisy_sum_posterior(
            self.prior, lambda rate: ClippedPoisson(mean=rate, upper=self.upper), n, noise, observed, positive=True
        )

    def simulate(self, theta: FloatArray, n: int, rng: np.random.Generator) -> FloatArray:
        """Simulate clipped Poisson counts."""
        return np.minimum(rng.poisson(float(theta), n), self.upper).astype(np.float64)

    def simulate_statistic(
        self, theta: FloatArray, n: int, rng: np.random.Generator, *, one_by_one: int = ONE_BY_ONE
    ) -> FloatArray:
        """The sum of n simulated records, from one multinomial draw of the number of records at each count.

        It is exact for any n, except that the probability of counts more than about 12 standard deviations from the
        mean is moved to the ends of this range.
        """
        del one_by_one
        rate = float(theta)
        reach = 12 * (rate + 12) ** 0.5
        low, high = (int(min(max(end, 0), self.upper)) for end in (rate - reach, rate + reach))
        counts = np.arange(low, high + 1)
        below = special.pdtr(counts, rate)
        below[-1] = 1.0
        shares = np.diff(below, prepend=0.0)
        return np.asarray(float(rng.multinomial(n, shares / shares.sum()) @ counts))

    @classmethod
    def example(cls) -> Self:
        """A model of counts from 0 to 4 with a Gamma(5, 1) prior."""
        return cls(shape=5, rate=1, upper=4)

    @property
    def extreme_records(self) -> tuple[Records, ...]:
        """A record changes from 0 to `upper`, and all other records are 0."""
        return ((0.0, 0.0, float(self.upper)),)

    @property
    def neighbouring_posteriors(self) -> tuple[GammaShapeShift, ...]:
        """The posteriors when a record changes from 0 to `upper` and all other records are 0.

        Larger other records increase the shape of both posteriors. These pairs are post-processings of the pair here
        (docs/notes/posterior.md).
        """
        return (GammaShapeShift(shape=self.shape, max_shift=self.upper),)

    def supports_groups(self, prior_weight: float) -> bool:
        """True: all k records change from one bound to the other (docs/notes/posterior.md, Lemma 3)."""
        del prior_weight
        return True

    def check_truncation(self, truncation: object) -> Truncation:
        """Check bounds (low, high) with 0 < low < high."""
        return interval_truncation(truncation, positive=True)

    def log_ratio(self, n: int, temperature: float, bounds: tuple[float, float]) -> LogRatio:
        """Bounds on the log likelihood ratio of two records, in the coordinate y = log(mean)."""
        (low, high), distribution = bounds, temper(self.prior, temperature)
        assert isinstance(distribution, Gamma)
        weight = n / temperature
        return LogRatio(self.upper * log_ratio(low, high), float(self.upper), (distribution.rate + weight) * low)

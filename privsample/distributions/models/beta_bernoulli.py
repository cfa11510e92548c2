"""Zeros and ones, or numbers between, with a Beta prior on their mean."""

from collections.abc import Mapping
from typing import ClassVar, Self

import numpy as np

from privsample._checks import FloatArray, flag, positive
from privsample._value import cached, frozen_value, set_fields
from privsample.distributions.domains import Domain
from privsample.distributions.models.base import Model, Records
from privsample.distributions.models.noise_aware import NoiseAware, noisy_count_posterior
from privsample.distributions.models.simulation import ONE_BY_ONE
from privsample.distributions.models.truncation import LogRatio, Truncation, log_ratio, share_bounds, share_truncation
from privsample.distributions.noise import Noise
from privsample.distributions.parametric.conjugate import Beta
from privsample.distributions.parametric.truncated import temper
from privsample.distributions.shifts import BetaShifts


@frozen_value
class BetaBernoulli(Model):
    """Bernoulli records with a Beta(alpha, beta) prior; with `fractional`, records anywhere in [0, 1]."""

    command_name = "beta-bernoulli"
    prior_parameters = ("alpha", "beta")
    options: ClassVar[Mapping[str, str]] = {"fractional": "records are numbers from 0 to 1"}
    description = "the share of ones"

    alpha: float
    beta: float
    fractional: bool = False

    def __post_init__(self) -> None:
        set_fields(
            self,
            alpha=positive(alpha=self.alpha),
            beta=positive(beta=self.beta),
            fractional=flag(fractional=self.fractional),
        )

    @cached
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
        distribution = self.posterior(statistic, n)
        return BetaBernoulli(alpha=distribution.a, beta=distribution.b, fractional=self.fractional)

    def noise_aware(self, n: int, noise: Noise, observed: FloatArray) -> NoiseAware:
        """A mixture over the hidden count. Raises: TypeError, for fractional records."""
        if self.fractional:
            raise TypeError(
                "fractional records have no likelihood to be aware of: use .posterior(), which takes the released sum "
                "for the true one"
            )
        return NoiseAware(*noisy_count_posterior(self.alpha, self.beta, n, noise, observed))

    def simulate(self, theta: FloatArray, n: int, rng: np.random.Generator) -> FloatArray:
        """Zeros and ones."""
        return (rng.random(n) < theta).astype(np.float64)

    def simulate_statistic(
        self, theta: FloatArray, n: int, rng: np.random.Generator, *, one_by_one: int = ONE_BY_ONE
    ) -> FloatArray:
        """A binomial number, of records that are 0 or 1. Exact at any n."""
        del one_by_one
        return np.asarray(float(rng.binomial(n, float(theta))))

    @classmethod
    def example(cls) -> Self:
        """Shares of a success."""
        return cls(alpha=2, beta=3)

    @property
    def extreme_records(self) -> tuple[Records, ...]:
        """All others failures, or all successes."""
        return (0.0, 1.0, 0.0), (1.0, 1.0, 0.0)

    @property
    def neighbouring_posteriors(self) -> tuple[BetaShifts, ...]:
        """Any sum of the others. Proof: docs/notes/posterior.md."""
        return (BetaShifts(a=self.alpha, b=self.beta, whole=not self.fractional),)

    def supports_groups(self, prior_divisor: float) -> bool:
        """All from one end to the other (docs/notes/posterior.md, Lemma 3)."""
        del prior_divisor
        return True

    def check_truncation(self, truncation: object) -> Truncation:
        """The least share of zeros or ones."""
        return share_truncation(truncation, 2)

    def parameter_bounds(self, truncation: Truncation) -> tuple[float, float]:
        """Of the share of ones."""
        assert isinstance(truncation, float)
        return share_bounds(truncation, 2)

    def log_ratio(self, n: int, temperature: float, bounds: tuple[float, float]) -> LogRatio:
        """y is the logit."""
        (low, high), distribution = bounds, temper(self.prior, temperature)
        assert isinstance(distribution, Beta)
        weight = n / temperature
        return LogRatio(2.0 * log_ratio(low, high), 1.0, (distribution.a + distribution.b + weight) * low * high)

    @property
    def exact_neighbours(self) -> BetaShifts | None:
        """Any sum of the others, where records are 0 or 1."""
        return None if self.fractional else self.neighbouring_posteriors[0]

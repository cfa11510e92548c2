"""Bernoulli records, or numbers in [0, 1], with a Beta prior on their mean."""

from collections.abc import Mapping
from dataclasses import field
from fractions import Fraction
from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from privsample._checks import FloatArray, flag, positive
from privsample._value import cached, frozen_value, set_fields
from privsample.distributions.domains import Domain
from privsample.distributions.exact.grid import Grid
from privsample.distributions.exact.rational import ExactStatistic, RationalBeta
from privsample.distributions.models.base import Model, Records
from privsample.distributions.models.grouped_counts import noisy_proportions
from privsample.distributions.models.noise_aware import NoiseAware, noisy_count_posterior
from privsample.distributions.models.noisy_pair import noisy_pair_posterior
from privsample.distributions.models.simulation import ONE_BY_ONE
from privsample.distributions.models.truncation import LogRatio, Truncation, log_ratio, share_bounds, share_truncation
from privsample.distributions.noise import Noise
from privsample.distributions.parametric.conjugate import Beta
from privsample.distributions.parametric.grouped import GroupedPosterior
from privsample.distributions.parametric.truncated import temper
from privsample.distributions.posterior_shifts import BetaShifts


@frozen_value
class BetaBernoulli(Model):
    """Bernoulli records with a Beta(alpha, beta) prior on the proportion of ones.

    Parameters
    ----------
    alpha, beta : float
        Parameters of the prior, finite and > 0: pseudo-counts of ones and of zeros.
    fractional : bool, default False
        False if records are 0 or 1; True if they are any numbers in [0, 1].

    Raises
    ------
    TypeError, ValueError
        If a field has the wrong type or is out of range.

    Examples
    --------
    >>> import numpy as np
    >>> import privsample as ps
    >>> ps.BetaBernoulli(alpha=1, beta=1).posterior(np.array(3.0), 10)
    Beta(a=4.0, b=8.0)
    """

    command_name = "beta-bernoulli"
    prior_parameters = ("alpha", "beta")
    options: ClassVar[Mapping[str, str]] = {"fractional": "records are numbers from 0 to 1"}
    description = "the share of ones"

    alpha: float = field(kw_only=False)
    beta: float = field(kw_only=False)
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
        """{0, 1}, or [0, 1] if `fractional`; a missing record counts as 0."""
        return Domain(low=0.0, high=1.0, missing=0.0, integer_valued=not self.fractional)

    @property
    def parameter(self) -> str:
        """The name "theta" of the proportion of ones."""
        return "theta"

    def posterior(
        self, statistic: FloatArray, n: float, *, data_weight: float = 1.0, prior_weight: float = 1.0
    ) -> Beta:
        """The posterior Beta(w alpha + r s, w beta + r (n - s)) for the sum s, data weight r and prior weight w."""
        s = float(statistic)
        return Beta(a=prior_weight * self.alpha + data_weight * s, b=prior_weight * self.beta + data_weight * (n - s))

    def grouped_posterior(
        self, statistics: FloatArray, sizes: FloatArray, *, data_weight: float = 1.0, prior_weight: float = 1.0
    ) -> GroupedPosterior:
        """The posteriors of many groups: Beta distributions."""
        r, w = data_weight, prior_weight
        return GroupedPosterior(Beta, (w * self.alpha + r * statistics, w * self.beta + r * (sizes - statistics)))

    def exact_posterior(
        self, statistic: ExactStatistic, n: int, *, data_weight: float = 1.0, prior_weight: float = 1.0
    ) -> RationalBeta:
        """The posterior Beta(w alpha + r s, w beta + r (n - s)) without rounding."""
        (s,), r, w = statistic, Fraction(data_weight), Fraction(prior_weight)
        return RationalBeta(a=w * Fraction(self.alpha) + r * s, b=w * Fraction(self.beta) + r * (n - s))

    def update_prior(self, statistic: FloatArray, n: int) -> "BetaBernoulli":
        """The model whose prior is the posterior: the sum s is added to `alpha`, and n - s to `beta`."""
        distribution = self.posterior(statistic, n)
        return BetaBernoulli(alpha=distribution.a, beta=distribution.b, fractional=self.fractional)

    def noise_aware(self, n: int, noise: Noise, observed: FloatArray) -> NoiseAware:
        """The posterior as a mixture over the hidden count. Raises TypeError for fractional records."""
        self._check_likelihood()
        return NoiseAware(*noisy_count_posterior(self.alpha, self.beta, n, noise, observed))

    def noise_aware_groups(self, sizes: NDArray[np.int64], noise: Noise, observed: FloatArray) -> NoiseAware:
        """The posteriors of many groups, computed in tables. Raises TypeError for fractional records."""
        self._check_likelihood()
        return NoiseAware(*noisy_proportions(self.alpha, self.beta, sizes, noise, observed))

    def sized_noise_aware(self, noise: Noise, observed: FloatArray, grid: Grid | None = None) -> NoiseAware:
        """The posterior given noisy numbers of zeros and of ones. Raises TypeError for fractional records."""
        del grid
        self._check_likelihood()
        return noisy_pair_posterior(self.alpha, self.beta, noise, observed[..., 0], observed[..., 1])

    def _check_likelihood(self) -> None:
        """Raise TypeError for fractional records."""
        if self.fractional:
            raise TypeError(
                "fractional records have no likelihood, so there is no noise-aware posterior: use .posterior(), which "
                "ignores the noise"
            )

    def simulate(self, theta: FloatArray, n: int, rng: np.random.Generator) -> FloatArray:
        """Simulate zeros and ones."""
        return (rng.random(n) < theta).astype(np.float64)

    def simulate_statistic(
        self, theta: FloatArray, n: int, rng: np.random.Generator, *, one_by_one: int = ONE_BY_ONE
    ) -> FloatArray:
        """The sum of n simulated records: one binomial draw, exact for any n."""
        del one_by_one
        return np.asarray(float(rng.binomial(n, float(theta))))

    @classmethod
    def example(cls) -> Self:
        """A model with a Beta(2, 3) prior."""
        return cls(alpha=2, beta=3)

    @property
    def extreme_records(self) -> tuple[Records, ...]:
        """A record changes from 0 to 1 or from 1 to 0; all other records are 0, or all are 1."""
        return (0.0, 1.0, 0.0), (1.0, 1.0, 0.0)

    @property
    def neighbouring_posteriors(self) -> tuple[BetaShifts, ...]:
        """Beta posteriors for any sum of the other records; the proof is in docs/notes/posterior.md."""
        return (BetaShifts(a=self.alpha, b=self.beta, integer_valued=not self.fractional),)

    def supports_groups(self, prior_weight: float) -> bool:
        """True: all k records change from one bound to the other (docs/notes/posterior.md, Lemma 3)."""
        del prior_weight
        return True

    def check_truncation(self, truncation: object) -> Truncation:
        """Check the smallest allowed proportion of zeros and of ones."""
        return share_truncation(truncation, 2)

    def parameter_bounds(self, truncation: Truncation) -> tuple[float, float]:
        """The bounds of the proportion of ones."""
        assert isinstance(truncation, float)
        return share_bounds(truncation, 2)

    def log_ratio(self, n: int, temperature: float, bounds: tuple[float, float]) -> LogRatio:
        """Bounds on the log likelihood ratio of two records, in the logit of the proportion."""
        (low, high), distribution = bounds, temper(self.prior, temperature)
        assert isinstance(distribution, Beta)
        weight = n / temperature
        return LogRatio(2.0 * log_ratio(low, high), 1.0, (distribution.a + distribution.b + weight) * low * high)

    @property
    def exact_neighbours(self) -> BetaShifts | None:
        """Beta posteriors for any sum of the other records, if records are 0 or 1; otherwise None."""
        return None if self.fractional else self.neighbouring_posteriors[0]

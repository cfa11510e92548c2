"""Categorical records with a Dirichlet prior on their proportions."""

from dataclasses import field
from fractions import Fraction
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from privsample._checks import FloatArray, positive
from privsample._data import category_names, codes_of_names
from privsample._value import cached, frozen_value, set_fields
from privsample.distributions.domains import Domain
from privsample.distributions.exact.grid import Grid
from privsample.distributions.exact.rational import ExactStatistic, RationalDirichlet
from privsample.distributions.models.base import Model, Records
from privsample.distributions.models.beta_bernoulli import BetaBernoulli
from privsample.distributions.models.mixtures import TwoCategoryDistribution
from privsample.distributions.models.noise_aware import NoiseAware, noisy_count_posterior
from privsample.distributions.models.noisy_pair import noisy_pair_posterior
from privsample.distributions.models.simulation import ONE_BY_ONE
from privsample.distributions.models.sizes import CodeCounts
from privsample.distributions.models.truncation import LogRatio, Truncation, log_ratio, share_bounds, share_truncation
from privsample.distributions.noise import Noise
from privsample.distributions.parametric.conjugate import Dirichlet
from privsample.distributions.parametric.grouped import GroupedPosterior
from privsample.distributions.parametric.truncated import temper
from privsample.distributions.posterior_shifts import BetaShift, BetaShifts, Shift
from privsample.distributions.record_sensitivity import ONE_HOT, RecordSensitivity


@frozen_value
class DirichletCategorical(Model):
    """Categorical records in {0, ..., K-1} with a Dirichlet(alpha) prior on the proportions.

    Parameters
    ----------
    alpha : tuple of float
        Parameters of the prior, shape (K,), K >= 2, each finite and > 0: pseudo-counts of the categories.
    names : tuple of str, default ()
        Public names of the K categories. With names, a column may also hold text: each name counts as its place in the
        list, and any other text as category 0. Releases, ArviZ objects, tables and plots show the names.

    Raises
    ------
    TypeError, ValueError
        If a field has the wrong type or is out of range.

    Examples
    --------
    >>> import numpy as np
    >>> import privsample as ps
    >>> ps.DirichletCategorical(alpha=(1, 1)).statistic(np.array([0, 1, 1]))
    array([1., 2.])
    """

    command_name = "dirichlet-categorical"
    prior_parameters = ("alpha",)
    records_are_codes = True
    description = "the share of each category"
    axis_name = "category"

    alpha: tuple[float, ...] = field(kw_only=False)
    names: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        alpha = tuple(
            positive(**{f"alpha[{i}]": a}) for i, a in enumerate(np.atleast_1d(np.asarray(self.alpha, dtype=object)))
        )
        if not len(alpha) >= 2:
            raise ValueError(f"alpha must have at least two categories, got {len(alpha)}")
        set_fields(self, alpha=alpha, names=category_names(self.names, len(alpha)))

    @cached
    def domain(self) -> Domain:
        """{0, ..., K-1}; a missing value or a value outside counts as category 0."""
        return Domain(low=0.0, high=len(self.alpha) - 1.0, missing=0.0, integer_valued=True, outside_is_missing=True)

    @cached
    def likelihood(self) -> tuple[Any, ...]:
        """The categories: models with as many categories differ in their priors and names only."""
        return type(self).__name__, self.domain

    def summarize(self, data: Any) -> tuple[FloatArray, int]:
        """The counts of the categories and the number of records of a column of codes, or of names."""
        return Model.summarize(self, codes_of_names(data, self.names))

    def examine(self, data: Any, domain: Domain | None = None) -> tuple[dict[str, int], int]:
        """Count the values that the public rule changes, by reason, and the records; for the curator only."""
        return Model.examine(self, codes_of_names(data, self.names), domain)

    @property
    def parameter(self) -> str:
        """The name "theta" of the vector of proportions."""
        return "theta"

    @property
    def record_sensitivity(self) -> RecordSensitivity:
        """One count decreases by 1 and another increases by 1."""
        return ONE_HOT

    def sized_statistic(self, grid: Grid | None = None) -> CodeCounts:
        """The counts of all categories, whose sum is the number of records."""
        del grid
        return CodeCounts(codes=len(self.alpha), axis=self.axis_name, labels=self.names)

    def feasible(self, statistic: FloatArray, n: int) -> FloatArray:
        """The Euclidean projection onto the nonnegative vectors that sum to n."""
        with np.errstate(over="ignore"):  # beside very large entries n is lost to rounding: only differences matter
            statistic = np.maximum(statistic - statistic.max(), -float(n))
        falling = -np.sort(-statistic)
        surplus = (np.cumsum(falling) - n) / np.arange(1, len(falling) + 1)
        return np.maximum(statistic - surplus[np.flatnonzero(falling > surplus)[-1]], 0.0)

    @property
    def empty(self) -> FloatArray:
        """The statistic of an empty dataset: K zeros."""
        return np.zeros(len(self.alpha))

    def statistic(self, chunk: NDArray[Any]) -> FloatArray:
        """The counts of the categories, shape (K,)."""
        codes = self.domain.clean(chunk).astype(np.int64)
        return np.bincount(codes, minlength=len(self.alpha)).astype(np.float64)

    def exact_summarize(self, data: Any, grid: Grid | None = None) -> tuple[ExactStatistic, int]:
        """The counts of the categories and the number of records of a column of codes, or of names."""
        return Model.exact_summarize(self, codes_of_names(data, self.names), grid)

    def posterior(
        self, statistic: FloatArray, n: float, *, data_weight: float = 1.0, prior_weight: float = 1.0
    ) -> Dirichlet:
        """The posterior Dirichlet(w alpha + r counts), with data weight r and prior weight w."""
        del n  # n is the sum of the counts
        return Dirichlet(alpha=tuple(prior_weight * np.array(self.alpha) + data_weight * statistic))

    def grouped_posterior(
        self, statistics: FloatArray, sizes: FloatArray, *, data_weight: float = 1.0, prior_weight: float = 1.0
    ) -> GroupedPosterior:
        """The posteriors of many groups: Dirichlet distributions."""
        r, w = data_weight, prior_weight
        del sizes  # they are the sums of the counts
        return GroupedPosterior(Dirichlet, (w * np.array(self.alpha) + r * statistics,))

    def exact_posterior(
        self, statistic: ExactStatistic, n: int, *, data_weight: float = 1.0, prior_weight: float = 1.0
    ) -> RationalDirichlet:
        """The posterior Dirichlet(w alpha + r counts) without rounding."""
        del n  # n is the sum of the counts
        r, w = Fraction(data_weight), Fraction(prior_weight)
        counts = zip(self.alpha, statistic, strict=True)
        return RationalDirichlet(alpha=tuple(w * Fraction(own) + r * count for own, count in counts))

    def update_prior(self, statistic: FloatArray, n: int) -> "DirichletCategorical":
        """The model whose prior is the posterior: the counts are added to `alpha`."""
        return DirichletCategorical(alpha=self.posterior(statistic, n).alpha, names=self.names)

    def noise_aware(self, n: int, noise: Noise, observed: FloatArray) -> NoiseAware:
        """The posterior of two categories, as a mixture over the hidden count. Raises TypeError for more."""
        if len(self.alpha) > 2:
            raise TypeError(f"the noise-aware posterior of {len(self.alpha)} categories needs MCMC: use .mcmc()")
        seen = np.concatenate([observed[..., 0], n - observed[..., 1]])  # two noisy observations of the first count
        first, second = self.alpha
        distribution, method = noisy_count_posterior(first, second, n, noise, seen)
        return NoiseAware(TwoCategoryDistribution(share=distribution), method)

    def sized_noise_aware(self, noise: Noise, observed: FloatArray, grid: Grid | None = None) -> NoiseAware:
        """The posterior of two categories, given their noisy counts. Raises TypeError for more."""
        del grid
        if len(self.alpha) > 2:
            raise TypeError(f"the noise-aware posterior of {len(self.alpha)} categories needs MCMC: use .mcmc()")
        first, second = self.alpha
        found = noisy_pair_posterior(first, second, noise, observed[..., 1], observed[..., 0])
        return NoiseAware(TwoCategoryDistribution(share=found.distribution), found.method)

    def simulate(self, theta: FloatArray, n: int, rng: np.random.Generator) -> FloatArray:
        """Simulate codes of categories."""
        return rng.choice(len(self.alpha), size=n, p=theta / theta.sum()).astype(np.float64)

    def simulate_statistic(
        self, theta: FloatArray, n: int, rng: np.random.Generator, *, one_by_one: int = ONE_BY_ONE
    ) -> FloatArray:
        """Multinomial counts, exact for any n."""
        del one_by_one
        return rng.multinomial(n, theta / theta.sum()).astype(np.float64)

    @classmethod
    def example(cls) -> Self:
        """A model of three categories."""
        return cls(alpha=(1, 2, 3))

    @property
    def extreme_records(self) -> tuple[Records, ...]:
        """The two categories with the smallest priors, all other records in the one with the largest prior."""
        i, j, *others = (float(k) for k in np.argsort(self.alpha, kind="stable"))
        return ((others[-1], i, j),) if others else ((i, i, j), (j, i, j))

    @property
    def neighbouring_posteriors(self) -> tuple[Shift, ...]:
        """The two categories with the smallest priors, with all other records in a third category if there is one."""
        first, second = sorted(self.alpha)[:2]
        if len(self.alpha) == 2:
            return (BetaShifts(a=first, b=second, integer_valued=True),)
        return (BetaShift(a=first, b=second),)

    def supports_groups(self, prior_weight: float) -> bool:
        """False if K >= 3 and a scaled prior count is below 1 (docs/notes/posterior.md, Lemma 3); otherwise True."""
        # compared without rounding: the lemma fails where a scaled count is below 1 by any amount
        return len(self.alpha) == 2 or Fraction(min(self.alpha)) * Fraction(prior_weight) >= 1

    @property
    def prior_counts(self) -> tuple[float, ...]:
        """All prior counts."""
        return self.alpha

    def check_truncation(self, truncation: object) -> Truncation:
        """Check the smallest allowed proportion of each category."""
        return share_truncation(truncation, len(self.alpha))

    def parameter_bounds(self, truncation: Truncation) -> tuple[float, float]:
        """The bounds of each proportion."""
        assert isinstance(truncation, float)
        return share_bounds(truncation, len(self.alpha))

    def log_ratio(self, n: int, temperature: float, bounds: tuple[float, float]) -> LogRatio:
        """Bounds on the log likelihood ratio of two records, in the logarithms of the proportions."""
        (low, high), distribution = bounds, temper(self.prior, temperature)
        assert isinstance(distribution, Dirichlet)
        least = low * high if len(distribution.alpha) == 2 else low / 2.0
        return LogRatio(2.0 * log_ratio(low, high), 1.0, (sum(distribution.alpha) + n / temperature) * least)

    @property
    def exact_neighbours(self) -> BetaShifts | None:
        """The pairs of the equivalent Bernoulli model, for two categories; otherwise None."""
        return self.two_categories(0, 1).exact_neighbours if len(self.alpha) == 2 else None

    @property
    def as_bernoulli(self) -> Model:
        """The equivalent Bernoulli model, for two categories; otherwise the model itself."""
        return self.two_categories(0, 1) if len(self.alpha) == 2 else self

    def two_categories(self, first: int, second: int) -> BetaBernoulli:
        """The Bernoulli model of the records that are in one of two categories."""
        return BetaBernoulli(alpha=self.alpha[first], beta=self.alpha[second])

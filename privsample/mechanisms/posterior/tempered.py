"""Draws from a tempered posterior with a truncated parameter."""

from collections.abc import Mapping
from typing import Any

from privsample._checks import FloatArray, flag, positive_integer
from privsample._value import cached, frozen_value, set_fields
from privsample.accounting.base import Accountant
from privsample.accounting.posterior.tempered import TemperedAccountant
from privsample.distributions.exact.rational import ExactStatistic, RationalDistribution
from privsample.distributions.models.base import Model, Records
from privsample.distributions.models.beta_bernoulli import BetaBernoulli
from privsample.distributions.models.truncation import Truncation
from privsample.distributions.parametric.conjugate import PosteriorDistribution
from privsample.distributions.parametric.truncated import TruncatedDistribution, TruncatedUnivariate, temper
from privsample.mechanisms.arguments import CommandLine
from privsample.mechanisms.base import compose_draws
from privsample.mechanisms.calibration import FreeParameter
from privsample.mechanisms.examples import Example
from privsample.mechanisms.neighbours import Neighbours, records_outside_group
from privsample.mechanisms.posterior.exact import ExactDraws
from privsample.mechanisms.posterior.neighbours import LogDensity
from privsample.mechanisms.posterior.tempered_neighbours import IntegratedDensity, worst_common_records

_ADVICE = "narrow the truncation, or ask for fewer draws"


def _temperature_of_share(share: float, _: Mapping[str, Any]) -> float:
    return 1 / share


@frozen_value
class TemperedPosterior(ExactDraws):
    """Draws from the posterior at temperature T >= 1, with the parameter truncated to public bounds.

    Prior and likelihood both have the power 1/T, as densities of the model's own parameter. The truncation bounds the
    privacy loss, so each draw satisfies pure DP. `release` takes one column of records (array protocol or Arrow
    stream), and draws the model's `parameter`, shape (draws,) or (draws, K). The guarantee holds under ReplaceOne(n).

    Parameters
    ----------
    model : Model
        Conjugate model with its prior, such as `BetaBernoulli(alpha=1, beta=1)`. It defines the public rules for
        records. An `ExponentialFamily` of your own needs `truncation`; a model of your own defines `log_ratio` and
        `tempered_posterior`.
    n : int
        Public number of records, >= 1. Data with another number of records are refused with SchemaError.
    temperature : float
        Temperature T, finite and >= 1. A higher one gives a flatter distribution.
    truncation : float or tuple of (float, float)
        Public bounds of the parameter. For Beta-Bernoulli and Dirichlet-categorical models: the smallest share of any
        category, in (0, 1/2), below 1/K for K categories. For a rate or a mean: the interval (low, high).
    draws : int, default 1
        Number of independent draws in one release, >= 1. The account covers all of them together.
    unit : str, default "record"
        What one record is, for example "patient". The privacy statement uses this word.
    exact : bool, default True
        True draws exactly and rounds to `grid`, so that the account does not assume IDEAL_REALS. It becomes False for a
        model without `exact_posterior`.
    grid : float, optional
        Distance of the grid points, a power of two, in the unit of the parameter. None takes 2^-40 of the parameter's
        public scale, or less if the posterior is narrow; see the guide
        "Exact draws".

    Raises
    ------
    ValueError
        If a field lies outside its range.

    Notes
    -----
    Wang, Fienberg and Smola 2015 (one posterior sample); Geumlek 2020, section 4.3.1; docs/notes/tempered.md. Kind:
    upper bound. The privacy curve of one draw is exact for Beta-Bernoulli models with whole records, n <= 100,000.

    Examples
    --------
    >>> import privsample as ps
    >>> model = ps.BetaBernoulli(alpha=1, beta=1)
    >>> mechanism = ps.TemperedPosterior(model=model, n=5, temperature=4.0, truncation=0.1)
    >>> mechanism.release([0, 1, 1, 0, 1])["theta"].shape
    (1,)
    >>> round(float(mechanism.accountant.epsilon(0.0)), 3)
    1.099
    """

    model: Model
    n: int
    temperature: float
    truncation: Truncation
    draws: int = 1
    unit: str = "record"
    exact: bool = True
    grid: float | None = None
    free_parameters = (
        FreeParameter(
            name="temperature",
            value=_temperature_of_share,
            trial={"exact": False, "grid": None},  # the cost depends on neither
            advice=_ADVICE,
        ),
    )
    command = CommandLine(
        name="tempered",
        data=("column",),
        help={"truncation": "the smallest share of any category, below 1/2; or LOW,HIGH for a rate or a mean"},
    )

    def __post_init__(self) -> None:
        set_fields(self, exact=flag(exact=self.exact))
        account = self._single
        set_fields(self, n=account.n, temperature=account.temperature, truncation=account.truncation)
        self._check_draws()
        self._draw_distribution(
            self.model.empty
        )  # raises an error before data are read if the distribution cannot be sampled
        self._check_exact()

    @cached
    def accountant(self) -> Accountant:
        """The account of all draws, under ReplaceOne(n)."""
        return compose_draws(self._single, self.draws)

    @cached
    def _single(self) -> TemperedAccountant:
        return TemperedAccountant(
            model=self.model,
            n=self.n,
            temperature=self.temperature,
            truncation=self.truncation,
            unit=self.unit,
            assumptions=self._assumptions,
        )

    @property
    def description(self) -> str:
        """The temperature and the number of records, in one sentence."""
        return (
            f"The posterior of {self._label} given {self.n:,} records was flattened by a temperature "
            f"of {self.temperature:.4g} and truncated to public bounds; random draws were released."
        )

    def _draw_distribution(self, statistic: FloatArray) -> TruncatedDistribution:
        return self.model.tempered_posterior(statistic, self.n, self.temperature, self._single.parameter_bounds)

    def _posterior_in_doubles(self, statistic: FloatArray, n: int) -> PosteriorDistribution:
        return temper(self.model.posterior(statistic, n), self.temperature)

    def _exact_distribution(self, statistic: ExactStatistic, n: int) -> RationalDistribution:
        posterior = self.model.exact_posterior(statistic, n)
        return posterior.tempered(self.temperature).truncated(*self._single.parameter_bounds)

    @property
    def _parameter_bounds(self) -> tuple[float, float]:
        return self._single.parameter_bounds

    @classmethod
    def examples(cls) -> tuple[Example, ...]:
        """A mutant with a lower temperature than stated."""
        example = cls(model=BetaBernoulli(alpha=2, beta=3), n=2, temperature=2.0, truncation=0.1)
        return (
            Example.with_wrong_fields(
                "tempered-posterior", example, temperature=1.0, bug="a third too cold", samples=6_000
            ),
        )

    def worst_neighbours(self, group: int = 1) -> tuple[Neighbours, ...]:
        """Pairs with a known density for a single number; for several numbers the audit learns a score."""
        group = positive_integer(group=group)
        records_outside_group(group, self.n)
        if self.model.records_are_codes:
            return self._worst_categories(group)
        if not isinstance(self._draw_distribution(self.model.empty), TruncatedUnivariate):
            # the normalizer between bounds is not known, so the audit learns a score
            return tuple(self._pair(records, group, None) for records in self.model.extreme_records)
        _, *ends = self.model.extreme_records[0]
        records = (min(ends), min(ends), max(ends))
        places = self._worst_others(records, group)
        return tuple(self._pair(records, group, self._log_density, raised=k) for k in places)

    def _worst_others(self, records: Records, group: int) -> list[int]:
        return worst_common_records(self._draw_distribution, self.model, self.n, records, group)

    def _worst_categories(self, group: int) -> tuple[Neighbours, ...]:
        """Worst pairs for several categories.

        If the other shares stay at the bound, two shares behave nearly like the two probabilities of a Beta-Bernoulli
        model.
        """
        (other, i, j), *_ = self.model.extreme_records
        two_categories = TemperedPosterior(
            model=self.model.two_categories(int(j), int(i)),
            n=self.n,
            temperature=self.temperature,
            truncation=self.truncation,
        )
        elsewhere = [self._pair((other, i, j), group, None)] if other != i else []
        places = two_categories._worst_others((0.0, 0.0, 1.0), group)
        return *elsewhere, *(self._pair((i, i, j), group, None, raised=k) for k in places)

    def _log_density(self, statistic: FloatArray) -> LogDensity:
        distribution = IntegratedDensity.of(self._draw_distribution(statistic))
        return lambda drawn: distribution.log_density(drawn[:, 0])

"""Draws from a posterior at a temperature of one or more, its parameter held inside bounds."""

from collections.abc import Mapping
from typing import Any

from privsample._checks import FloatArray, positive_integer
from privsample._value import cached, frozen_value, set_fields
from privsample.accounting.base import Accountant
from privsample.accounting.posterior.tempered import TemperedAccountant
from privsample.distributions.models.base import Model, Records
from privsample.distributions.models.beta_bernoulli import BetaBernoulli
from privsample.distributions.models.truncation import Truncation
from privsample.distributions.parametric.truncated import TruncatedDistribution, temper, truncate
from privsample.mechanisms.arguments import CommandLine
from privsample.mechanisms.base import compose_draws
from privsample.mechanisms.calibration import FreeParameter
from privsample.mechanisms.examples import Example
from privsample.mechanisms.neighbours import Neighbours, others_beside
from privsample.mechanisms.posterior.conjugate import ConjugateMechanism
from privsample.mechanisms.posterior.neighbours import LogDensity
from privsample.mechanisms.posterior.tempered_neighbours import IntegratedDensity, worst_others

_ADVICE = "narrow the truncation, or ask for fewer draws"


def _inverse(share: float, _: Mapping[str, Any]) -> float:
    return 1 / share


@frozen_value
class TemperedPosterior(ConjugateMechanism):
    """`draws` independent, exact draws from the posterior at `temperature` T >= 1, the parameter inside `truncation`.

    Prior and likelihood both count to the power 1/T, with respect to the model's own parameter. `truncation` is public:
    the least share of any category, in (0, 1/2), for Beta-Bernoulli and Dirichlet-categorical (below 1/K for K
    categories); an interval (low, high) for a rate or a mean. It bounds the loss: one draw is pure, whatever the data.
    Source: Wang, Fienberg and Smola 2015 (one posterior sample); Geumlek 2020, section 4.3.1; docs/notes/tempered.md.
    """

    model: Model
    n: int
    temperature: float
    truncation: Truncation
    draws: int = 1
    unit: str = "record"
    free_parameters = (FreeParameter(name="temperature", value=_inverse, advice=_ADVICE),)
    command = CommandLine(
        name="tempered",
        data=("column",),
        help={"truncation": "the least share of any category, below 1/2; or LOW,HIGH for a rate or a mean"},
    )

    def __post_init__(self) -> None:
        account = self._single
        set_fields(self, n=account.n, temperature=account.temperature, truncation=account.truncation)
        self._settle_draws()
        self._law(self.model.empty)  # refuses what could not be drawn from, before there are data

    @cached
    def accountant(self) -> Accountant:
        """The account of all draws together, under ReplaceOne(n)."""
        return compose_draws(self._single, self.draws)

    @cached
    def _single(self) -> TemperedAccountant:
        return TemperedAccountant(
            model=self.model, n=self.n, temperature=self.temperature, truncation=self.truncation, unit=self.unit
        )

    @property
    def description(self) -> str:
        """At which temperature was drawn, and from what."""
        return (
            f"What {self.n:,} records and a prior say about {self._about} was flattened by a temperature "
            f"of {self.temperature:.4g} and held inside public bounds; random draws were released."
        )

    def _law(self, statistic: FloatArray) -> TruncatedDistribution:
        return truncate(
            temper(self.model.posterior(statistic, self.n), self.temperature), *self._single.parameter_bounds
        )

    @classmethod
    def examples(cls) -> tuple[Example, ...]:
        """A posterior that is colder than it is said to be."""
        example = cls(model=BetaBernoulli(alpha=2, beta=3), n=2, temperature=2.0, truncation=0.1)
        return (Example.with_wrong_fields("tempered-posterior", example, temperature=1.0, bug="a third too cold"),)

    def worst_neighbours(self, group: int = 1) -> tuple[Neighbours, ...]:
        """The density is known for one number; for several a score is learned."""
        group = positive_integer(group=group)
        others_beside(group, self.n)
        if self.model.records_are_codes:
            return self._worst_shares(group)
        _, *ends = self.model.extreme_records[0]
        records = (min(ends), min(ends), max(ends))
        places = self._worst_others(records, group)
        return tuple(self._pair(records, group, self._log_density, raised=k) for k in places)

    def _worst_others(self, records: Records, group: int) -> list[int]:
        return worst_others(self._law, self.model, self.n, records, group)

    def _worst_shares(self, group: int) -> tuple[Neighbours, ...]:
        """Two shares among others that stay at the bound are nearly the chances of a coin; and all others elsewhere."""
        (other, i, j), *_ = self.model.extreme_records
        coin = TemperedPosterior(
            model=self.model.two_categories(int(j), int(i)),
            n=self.n,
            temperature=self.temperature,
            truncation=self.truncation,
        )
        elsewhere = [self._pair((other, i, j), group, None)] if other != i else []
        places = coin._worst_others((0.0, 0.0, 1.0), group)
        return *elsewhere, *(self._pair((i, i, j), group, None, raised=k) for k in places)

    def _log_density(self, statistic: FloatArray) -> LogDensity:
        distribution = IntegratedDensity.of(self._law(statistic))
        return lambda drawn: distribution.log_density(drawn[:, 0])

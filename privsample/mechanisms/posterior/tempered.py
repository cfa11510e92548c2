"""Draws from a posterior at a temperature of one or more, its parameter held inside bounds."""

from typing import Self

from privsample._checks import FloatArray
from privsample._value import put, value
from privsample.accounting.base import Accountant
from privsample.accounting.posterior.tempered import TemperedAccountant
from privsample.accounting.targets import Target, largest
from privsample.distributions.laws.truncated import HeldLaw, heated, held
from privsample.distributions.models.base import Model
from privsample.distributions.models.truncation import Truncation
from privsample.mechanisms.base import repeated
from privsample.mechanisms.posterior.conjugate import ConjugateMechanism

_ADVICE = "narrow the truncation, or ask for fewer draws"


@value
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

    def __post_init__(self) -> None:
        account = self._single
        put(self, n=account.n, temperature=account.temperature, truncation=account.truncation)
        self._settle_draws()
        self._law(self.model.empty)  # refuses what could not be drawn from, before there are data

    @property
    def accountant(self) -> Accountant:
        """The account of all draws together, under ReplaceOne(n)."""
        return repeated(self._single, self.draws)

    @property
    def _single(self) -> TemperedAccountant:
        return TemperedAccountant(
            model=self.model, n=self.n, temperature=self.temperature, truncation=self.truncation, unit=self.unit
        )

    def _law(self, statistic: FloatArray) -> HeldLaw:
        return held(heated(self.model.posterior(statistic, self.n), self.temperature), *self._single.parameter_bounds)

    @classmethod
    def calibrate(
        cls, *, model: Model, n: int, truncation: Truncation, target: Target, draws: int = 1, unit: str = "record"
    ) -> Self:
        """The lowest temperature, at least one, that meets the target, on the safe side. Raises: UnreachableTarget."""
        return largest(
            lambda share: cls(model=model, n=n, temperature=1 / share, truncation=truncation, draws=draws, unit=unit),
            lambda made: made.accountant,
            target,
            most=1.0,
            advice=_ADVICE,
        )

"""Draws from a conjugate posterior whose data were weighted down or whose prior was scaled up."""

from abc import abstractmethod
from dataclasses import replace
from typing import Any, Literal, Protocol, Self, TypeVar

import numpy as np

from privsample._checks import FloatArray, generator, holdable, how_many, interval, positive, positive_integer, share
from privsample._data import chunks
from privsample._entropy import undisturbed
from privsample._value import put, value
from privsample.accounting.base import Accountant
from privsample.accounting.posterior.conjugate import PosteriorAccountant
from privsample.accounting.targets import Target, largest, require
from privsample.distributions.domains import Domain
from privsample.distributions.laws.conjugate import Beta
from privsample.distributions.models.base import Model
from privsample.distributions.models.beta_bernoulli import BetaBernoulli
from privsample.errors import SchemaError
from privsample.mechanisms.base import Mechanism, charged
from privsample.mechanisms.notes import CuratorNotes
from privsample.mechanisms.release import Release

_ADVICE = "a larger prior (its smallest parameter) raises the order limit"
P = TypeVar("P", bound="PosteriorMechanism")


class Sampled(Protocol):
    """A law that can be drawn from."""

    def sample(self, size: int, rng: np.random.Generator) -> FloatArray:
        """Independent draws, the first axis of length `size`."""


class ConjugateMechanism(Mechanism):
    """Draws of a model's parameter from the sufficient statistic of n records in one column."""

    __slots__ = ()
    model: Model
    n: int
    draws: int
    unit: str

    @property
    def parameter(self) -> str:
        """The name under which the draws are released."""
        return self.model.parameter

    @property
    def domain(self) -> Domain:
        """Where records live, and the public rule for all other values."""
        return self.model.domain

    @abstractmethod
    def _law(self, statistic: FloatArray) -> Sampled:
        """What is drawn from, given the statistic."""

    def release(self, data: Any, *, rng: np.random.Generator | None = None) -> Release:
        """Draw from the posterior of `data`: n records in one column (array protocol or Arrow stream), read once.

        Returns: draws of the model's parameter, shape (draws,) or (draws, K). Raises: SchemaError, TypeError.
        """
        source = generator(rng)
        account = charged(self, rng)
        law = self._law(self._statistic(data))
        drawn = undisturbed(source, lambda: law.sample(self.draws, source))
        return Release(mechanism=self, draws={self.parameter: drawn}, account=account)

    def validate(self, data: Any) -> CuratorNotes:
        """What the public rule would change in these data, for the curator's eyes. Raises: SchemaError."""
        facts, count = self.model.examine(data, self.domain)
        self._check_size(count)
        return CuratorNotes(title=f"{how_many(count, 'record')}, expected {self.domain.words}", facts=facts)

    def _settle_draws(self) -> None:
        self.model.domain.summable(self.n, self.model.domain.high - self.model.domain.low)
        put(self, draws=positive_integer(draws=self.draws))
        holdable(self.draws * self.model.empty.size, lower="draws")

    def _statistic(self, data: Any) -> FloatArray:
        statistic, count = self.model.summarize(data)
        self._check_size(count)
        return statistic

    def _check_size(self, count: int) -> None:
        if count != self.n:
            raise SchemaError(
                f"n = {self.n} records were declared, the data hold {count}; declare n as it is, or fix the data"
            )


class PosteriorMechanism(ConjugateMechanism):
    """`draws` independent, exact draws from the posterior of n records with data weight r and prior divisor m.

    Source: Geumlek, Song and Chaudhuri 2017, Algorithms 1-3: one implementation, three names.
    """

    __slots__ = ()

    @property
    @abstractmethod
    def _weights(self) -> tuple[float, float]:
        """(data weight r, prior divisor m)."""

    @property
    def accountant(self) -> Accountant:
        """The account of all draws together, under ReplaceOne(n)."""
        r, m = self._weights
        return PosteriorAccountant(
            model=self.model, n=self.n, data_weight=r, prior_divisor=m, draws=self.draws, unit=self.unit
        )

    def _law(self, statistic: FloatArray) -> Sampled:
        r, m = self._weights
        return self.model.posterior(statistic, self.n, data_weight=r, prior_divisor=m)


def _calibrated(cls: type[P], free: str, fixed: dict[str, Any], target: Target) -> P:
    """The mechanism with the largest value of the free field that meets the target."""
    return largest(
        lambda amount: cls(**fixed, **{free: amount}), lambda made: made.accountant, target, most=1.0, advice=_ADVICE
    )


def _common(self: Any) -> None:
    put(self, n=positive_integer(n=self.n))
    self.accountant  # noqa: B018 - building it checks the rest
    self._settle_draws()


@value
class DirectPosterior(PosteriorMechanism):
    """The posterior itself (Algorithm 1): private only below the order limit that the prior sets."""

    model: Model
    n: int
    draws: int = 1
    unit: str = "record"

    def __post_init__(self) -> None:
        _common(self)

    @property
    def _weights(self) -> tuple[float, float]:
        return 1.0, 1.0

    @classmethod
    def calibrate(cls, *, model: Model, n: int, target: Target, draws: int = 1, unit: str = "record") -> Self:
        """The mechanism, if it meets the target: it has no free parameter. Raises: UnreachableTarget."""
        made = cls(model=model, n=n, draws=draws, unit=unit)
        require(target, made.accountant, _ADVICE + ", or use a diffused or concentrated posterior")
        return made


@value
class DiffusedPosterior(PosteriorMechanism):
    """Every record counts `data_weight` times, in (0, 1] (Algorithm 2): wider than the posterior."""

    model: Model
    n: int
    data_weight: float
    draws: int = 1
    unit: str = "record"

    def __post_init__(self) -> None:
        put(self, data_weight=share(data_weight=self.data_weight))
        _common(self)

    @property
    def _weights(self) -> tuple[float, float]:
        return self.data_weight, 1.0

    @classmethod
    def calibrate(cls, *, model: Model, n: int, target: Target, draws: int = 1, unit: str = "record") -> Self:
        """The largest data weight that meets the target, on the safe side. Raises: UnreachableTarget."""
        return _calibrated(cls, "data_weight", {"model": model, "n": n, "draws": draws, "unit": unit}, target)


@value
class ConcentratedPosterior(PosteriorMechanism):
    """The prior's parameter is divided by `prior_divisor`, in (0, 1] (Algorithm 3): drawn towards the prior's mean."""

    model: Model
    n: int
    prior_divisor: float
    draws: int = 1
    unit: str = "record"

    def __post_init__(self) -> None:
        put(self, prior_divisor=share(prior_divisor=self.prior_divisor))
        _common(self)

    @property
    def _weights(self) -> tuple[float, float]:
        return 1.0, self.prior_divisor

    @classmethod
    def calibrate(cls, *, model: Model, n: int, target: Target, draws: int = 1, unit: str = "record") -> Self:
        """The largest prior divisor that meets the target, on the safe side. Raises: UnreachableTarget."""
        return _calibrated(cls, "prior_divisor", {"model": model, "n": n, "draws": draws, "unit": unit}, target)


@value
class BetaQuery(PosteriorMechanism):
    """The mean of a bounded column as a Beta draw: phi(x) = (x - low)/(high - low), with a Beta(alpha, beta) prior.

    The draw `rho` lies in (0, 1); low + (high - low) rho is the column's mean.
    Source: Geumlek 2020 (thesis), Algorithm 4.
    """

    alpha: float
    beta: float
    bounds: tuple[float, float]
    n: int
    data_weight: float = 1.0
    prior_divisor: float = 1.0
    draws: int = 1
    unit: str = "record"

    def __post_init__(self) -> None:
        put(self, alpha=positive(alpha=self.alpha), beta=positive(beta=self.beta), bounds=interval(bounds=self.bounds))
        put(
            self, data_weight=share(data_weight=self.data_weight), prior_divisor=share(prior_divisor=self.prior_divisor)
        )
        _common(self)

    @property
    def model(self) -> Model:  # type: ignore[override]
        """Beta-Bernoulli over [0, 1]; the query brings the column there."""
        return BetaBernoulli(alpha=self.alpha, beta=self.beta, fractional=True)

    @property
    def _weights(self) -> tuple[float, float]:
        return self.data_weight, self.prior_divisor

    @property
    def parameter(self) -> str:
        """The mean of phi."""
        return "rho"

    @property
    def domain(self) -> Domain:
        """The bounds; a missing record counts as the lower one."""
        low, high = self.bounds
        return Domain(low=low, high=high, missing=low)

    def _statistic(self, data: Any) -> FloatArray:
        statistic, count = self._scaled_sum(data)
        self._check_size(count)
        return statistic

    def _scaled_sum(self, data: Any) -> tuple[FloatArray, int]:
        low, high = self.bounds
        total, count = 0.0, 0
        for chunk in chunks(data):
            scaled = (self.domain.clean(chunk).astype(np.float64) - low) / (high - low)
            total, count = total + float(np.clip(scaled, 0.0, 1.0).sum()), count + len(chunk)
        return np.asarray(total), count

    def with_public_data(self, data: Any) -> Self:
        """Fold public records into the prior, at no cost (thesis, section 5.3.1). Raises: SchemaError."""
        law = self.model.posterior(*self._scaled_sum(data))
        assert isinstance(law, Beta)
        return replace(self, alpha=law.a, beta=law.b)

    @classmethod
    def calibrate(
        cls,
        *,
        alpha: float,
        beta: float,
        bounds: tuple[float, float],
        n: int,
        target: Target,
        draws: int = 1,
        unit: str = "record",
        by: Literal["data_weight", "prior_divisor"] = "data_weight",
    ) -> Self:
        """The largest data weight (or prior divisor) that meets the target, on the safe side."""
        if by not in ("data_weight", "prior_divisor"):
            raise ValueError(f"by must be 'data_weight' or 'prior_divisor', got {by!r}")
        fixed: dict[str, Any] = {"alpha": alpha, "beta": beta, "bounds": bounds, "n": n, "draws": draws, "unit": unit}
        return _calibrated(cls, by, fixed, target)

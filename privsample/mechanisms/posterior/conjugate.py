"""Draws from a conjugate posterior, if required with down-weighted data or a strengthened prior."""

from abc import abstractmethod
from collections.abc import Iterable
from dataclasses import replace
from fractions import Fraction
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from privsample._checks import (
    FloatArray,
    interval,
    open_unit_interval,
    positive,
    positive_integer,
    prior_factor,
)
from privsample._data import chunks
from privsample._value import cached, frozen_value, set_fields
from privsample.accounting.base import Accountant
from privsample.accounting.posterior.conjugate import PosteriorAccountant
from privsample.accounting.targets import Target, check_target, is_met, unreachable, warn_of_large_delta
from privsample.distributions.domains import Domain
from privsample.distributions.exact.grid import Grid
from privsample.distributions.exact.rational import ExactStatistic, RationalDistribution
from privsample.distributions.exact.records import record_grid
from privsample.distributions.models.base import Model
from privsample.distributions.models.beta_bernoulli import BetaBernoulli
from privsample.distributions.models.dirichlet_categorical import DirichletCategorical
from privsample.distributions.models.gamma_exponential import GammaExponential
from privsample.distributions.models.gamma_poisson import GammaPoisson
from privsample.distributions.models.normal_known_variance import NormalKnownVariance
from privsample.distributions.parametric.conjugate import Beta, PosteriorDistribution
from privsample.distributions.parametric.grouped import GroupedPosterior
from privsample.mechanisms.arguments import Argument, CommandLine
from privsample.mechanisms.calibration import FreeParameter, inverse
from privsample.mechanisms.examples import TOO_MUCH_WEIGHT, Example
from privsample.mechanisms.posterior.exact import ExactDraws
from privsample.mechanisms.posterior.neighbours import LogDensity
from privsample.mechanisms.tallies.rule import RecordRule, column_rule, column_sums

_ADVICE = "a larger prior (its smallest parameter) raises the order limit"
# The cost depends on neither field, and a search that no weight satisfies leaves the shapes that exact draws allow.
_IN_FLOATS = {"exact": False, "grid": None}
_DATA_WEIGHT = FreeParameter(name="data_weight", trial=_IN_FLOATS, advice=_ADVICE)
_PRIOR_WEIGHT = FreeParameter(name="prior_weight", value=inverse, trial=_IN_FLOATS, advice=_ADVICE)


class PosteriorMechanism(ExactDraws):
    """Base class: independent exact draws from the posterior of n records with data weight r and prior weight w.

    It implements Algorithms 1 to 3 of Geumlek 2020 (Geumlek, Song and Chaudhuri 2017).
    """

    __slots__ = ()

    @property
    @abstractmethod
    def _weights(self) -> tuple[float, float]:
        """The data weight r and the prior weight w."""

    @cached
    def accountant(self) -> Accountant:
        """The account of all draws together, under ReplaceOne(n)."""
        r, w = self._weights
        return PosteriorAccountant(
            model=self.model,
            n=self.n,
            data_weight=r,
            prior_weight=w,
            draws=self.draws,
            unit=self.unit,
            assumptions=self._assumptions,
        )

    @property
    def description(self) -> str:
        """The number of records and the posterior from which draws were released, in one sentence."""
        return f"The {self.n:,} records and a prior belief give {self._belief}; random draws from it were released."

    @property
    def _belief(self) -> str:
        match self._weights:
            case (weight, 1.0):
                return (
                    f"a belief about {self._label} in which every record counts {100 * weight:.3g} % of its full weight"
                )
            case (1.0, weight):
                return f"a belief about {self._label} in which the prior counts {weight:.3g} times as much as usual"
        return f"a weakened belief about {self._label}"

    def _draw_distribution(self, statistic: FloatArray) -> PosteriorDistribution:
        return self._posterior_in_doubles(statistic, self.n)

    def _posterior_in_doubles(self, statistic: FloatArray, n: int) -> PosteriorDistribution:
        r, w = self._weights
        return self.model.posterior(statistic, n, data_weight=r, prior_weight=w)

    def _exact_distribution(self, statistic: ExactStatistic, n: int) -> RationalDistribution:
        r, w = self._weights
        return self.model.exact_posterior(statistic, n, data_weight=r, prior_weight=w)

    def _grouped_posterior(self, statistics: FloatArray, sizes: FloatArray) -> GroupedPosterior | None:
        r, w = self._weights
        return self.model.grouped_posterior(statistics, sizes, data_weight=r, prior_weight=w)

    def _log_density(self, statistic: FloatArray) -> LogDensity:
        distribution = self._draw_distribution(statistic)
        return lambda drawn: distribution.log_density(drawn if self.model.draw_shape else drawn[:, 0])


def _common(self: Any) -> None:
    set_fields(self, n=positive_integer(n=self.n))
    if not isinstance(self.model, Model):
        raise TypeError(f"model must be one of privsample's models, got {type(self.model).__name__}")
    self._check_draws()
    self._check_exact()
    self.accountant  # noqa: B018 - building it checks the rest


@frozen_value
class DirectPosterior(PosteriorMechanism):
    """Draws from the posterior itself, with unchanged data weight and prior.

    `release` takes one column of records (array protocol or Arrow stream), and draws the model's `parameter`, shape
    (draws,) or (draws, K). The guarantee holds under ReplaceOne(n). The account is finite only below an order limit
    that the prior determines.

    Parameters
    ----------
    model : Model
        Conjugate model with its prior, such as `BetaBernoulli(alpha=1, beta=1)`. It defines the public rules for
        records.
    n : int
        Public number of records, >= 1. Data with another number of records are refused with SchemaError.
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
    Geumlek, Song and Chaudhuri 2017; Geumlek 2020 (thesis), Algorithm 1 and Theorem 10. Kind: exact for the Rényi
    curve. The privacy curve is exact, or certified to lie at most a relative 1e-9 above the exact one (Beta-Bernoulli).

    Examples
    --------
    >>> import privsample as ps
    >>> mechanism = ps.DirectPosterior(model=ps.BetaBernoulli(alpha=6, beta=12), n=50)
    >>> mechanism.release([1] * 20 + [0] * 30)["theta"].shape
    (1,)
    >>> round(float(mechanism.accountant.rdp(2.0)), 3)
    0.199
    """

    model: Model
    n: int
    draws: int = 1
    unit: str = "record"
    exact: bool = True
    grid: float | None = None
    unreachable_advice = _ADVICE + ", or use a diffused or concentrated posterior"
    command = CommandLine(name="direct", data=("column",))

    def __post_init__(self) -> None:
        _common(self)

    @classmethod
    def examples(cls) -> tuple[Example, ...]:
        """A mutant with a weaker prior than stated."""
        return (
            Example(
                name="direct-posterior",
                mechanism=cls(model=BetaBernoulli(alpha=6, beta=12), n=50),
                mutant=cls(model=BetaBernoulli(alpha=4, beta=8), n=50),
                bug="a prior of two thirds the strength",
                samples=70_000,
            ),
        )

    @property
    def _weights(self) -> tuple[float, float]:
        return 1.0, 1.0

    @property
    def _belief(self) -> str:
        return f"the posterior belief about {self._label}"

    def with_public_batches(self, batches: Iterable[Any], *, target: Target) -> Self:
        """The mechanism whose prior is updated with batches of public records, one by one, until it meets a target.

        A batch is taken from `batches` only while the account does not meet the target, so that an iterator that buys
        public records buys no batch too many. Public records have no privacy cost, and the choice to stop depends on
        them alone. A batch need not lower the cost: the account is computed again after each.

        Parameters
        ----------
        batches : iterable
            Batches of public records, each one column (array or Arrow stream).
        target : Target
            The guarantee, such as `RDP(order=2, epsilon=0.1)`.

        Returns
        -------
        DirectPosterior
            The mechanism for the private records. Its model contains the public records in its prior.

        Raises
        ------
        UnreachableTarget
            If the account does not meet the target with all batches.
        SchemaError
            If a batch is not one column of numbers.
        TypeError
            If `target` is not a target, or the model does not define `update_prior`.

        Notes
        -----
        Geumlek 2020 (thesis), section 5.3.1; docs/notes/posterior.md, section 6. Kind: that of the account.

        Examples
        --------
        >>> import privsample as ps
        >>> batches = iter([[0, 1] * 5] * 100)
        >>> weak = ps.DirectPosterior(model=ps.BetaBernoulli(alpha=1, beta=1), n=50)
        >>> mechanism = weak.with_public_batches(batches, target=ps.RDP(order=2, epsilon=0.1))
        >>> mechanism.model.alpha, len(list(batches))
        (16.0, 97)
        """
        check_target(target)
        mechanism, remaining = self, iter(batches)
        while not is_met(target, mechanism.accountant):
            try:
                batch = next(remaining)
            except StopIteration:
                raise unreachable(target, mechanism.accountant, "add public batches, or " + _ADVICE) from None
            mechanism = replace(mechanism, model=mechanism.model.with_public_data(batch))
        warn_of_large_delta(target, mechanism.accountant.relation, stacklevel=3)
        return mechanism


@frozen_value
class DiffusedPosterior(PosteriorMechanism):
    """Draws from a power posterior (tempered likelihood): each record's likelihood counts `data_weight` times.

    `release` takes one column of records (array protocol or Arrow stream), and draws the model's `parameter`, shape
    (draws,) or (draws, K). The guarantee holds under ReplaceOne(n). The distribution is wider than the posterior.

    Parameters
    ----------
    model : Model
        Conjugate model with its prior, such as `BetaBernoulli(alpha=1, beta=1)`. It defines the public rules for
        records.
    n : int
        Public number of records, >= 1. Data with another number of records are refused with SchemaError.
    data_weight : float
        Weight r of each record's log likelihood, in (0, 1].
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
    Geumlek, Song and Chaudhuri 2017; Geumlek 2020 (thesis), Algorithm 2 and Theorem 10. Kind: exact for the Rényi
    curve. The privacy curve is exact, or certified to lie at most a relative 1e-9 above the exact one (Beta-Bernoulli).

    Examples
    --------
    >>> import privsample as ps
    >>> target = ps.RDP(order=2, epsilon=0.5)
    >>> mechanism = ps.DiffusedPosterior.calibrate(model=ps.BetaBernoulli(alpha=1, beta=1), n=50, target=target)
    >>> round(mechanism.data_weight, 3)
    0.519
    >>> mechanism.release([1] * 20 + [0] * 30)["theta"].shape
    (1,)
    """

    model: Model
    n: int
    data_weight: float
    draws: int = 1
    unit: str = "record"
    exact: bool = True
    grid: float | None = None
    free_parameters = (_DATA_WEIGHT,)
    command = CommandLine(name="diffused", data=("column",))

    def __post_init__(self) -> None:
        set_fields(self, data_weight=open_unit_interval(data_weight=self.data_weight))
        _common(self)

    @classmethod
    def examples(cls) -> tuple[Example, ...]:
        """For each model, a mutant in which records count more than stated."""
        sharp = cls(model=BetaBernoulli(alpha=0.6, beta=0.6), n=1, data_weight=0.5)
        bug = "every record counts 10 % too much"
        models = {
            "dirichlet-posterior": DirichletCategorical.example(),
            "poisson-posterior": GammaPoisson.example(),
            "normal-posterior": NormalKnownVariance.example(),
        }
        heavy = [(name, cls(model=model, n=1, data_weight=0.5)) for name, model in models.items()]
        return (
            Example.with_wrong_fields("beta-posterior", sharp, data_weight=0.55, bug=bug, samples=100_000),
            *(
                Example.with_wrong_fields(name, example, data_weight=0.7, bug=TOO_MUCH_WEIGHT, samples=10_000)
                for name, example in heavy
            ),
        )

    @property
    def _weights(self) -> tuple[float, float]:
        return self.data_weight, 1.0


@frozen_value
class ConcentratedPosterior(PosteriorMechanism):
    """Draws from a posterior with a strengthened prior: the prior's parameter is multiplied by `prior_weight`.

    `release` takes one column of records (array protocol or Arrow stream), and draws the model's `parameter`, shape
    (draws,) or (draws, K). The guarantee holds under ReplaceOne(n). The draws move towards the prior's mean.

    Parameters
    ----------
    model : Model
        Conjugate model with its prior, such as `BetaBernoulli(alpha=1, beta=1)`. It defines the public rules for
        records.
    n : int
        Public number of records, >= 1. Data with another number of records are refused with SchemaError.
    prior_weight : float
        The number w by which the prior's parameter is multiplied, finite and >= 1 (1/m in the thesis).
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
    Geumlek, Song and Chaudhuri 2017; Geumlek 2020 (thesis), Algorithm 3 and Theorem 10. Kind: exact for the Rényi
    curve. The privacy curve is exact, or certified to lie at most a relative 1e-9 above the exact one (Beta-Bernoulli).

    Examples
    --------
    >>> import privsample as ps
    >>> mechanism = ps.ConcentratedPosterior(model=ps.BetaBernoulli(alpha=1, beta=1), n=50, prior_weight=10)
    >>> mechanism.release([1] * 20 + [0] * 30)["theta"].shape
    (1,)
    >>> round(float(mechanism.accountant.rdp(2.0)), 3)
    0.122
    """

    model: Model
    n: int
    prior_weight: float
    draws: int = 1
    unit: str = "record"
    exact: bool = True
    grid: float | None = None
    free_parameters = (_PRIOR_WEIGHT,)
    command = CommandLine(name="concentrated", data=("column",))

    def __post_init__(self) -> None:
        set_fields(self, prior_weight=prior_factor(prior_weight=self.prior_weight))
        _common(self)

    @classmethod
    def examples(cls) -> tuple[Example, ...]:
        """Mutants in which the prior counts less than stated."""
        bernoulli = cls(model=BetaBernoulli(alpha=0.5, beta=0.5), n=20, prior_weight=2)
        exponential = cls(model=GammaExponential.example(), n=20, prior_weight=2)
        bug = "the prior counts less than stated"
        return (
            Example.with_wrong_fields("concentrated-posterior", bernoulli, prior_weight=1.0, bug=bug, samples=5_000),
            Example.with_wrong_fields(
                "exponential-posterior", exponential, prior_weight=1.0, bug=TOO_MUCH_WEIGHT, samples=1_000
            ),
        )

    @property
    def _weights(self) -> tuple[float, float]:
        return 1.0, self.prior_weight


@frozen_value
class BetaQuery(PosteriorMechanism):
    """The mean of a bounded column, as a draw from a Beta posterior.

    Each value x is scaled to (x - low)/(high - low) in [0, 1] and enters a Beta-Bernoulli model as a fractional record.
    `release` takes one column, and releases "rho", shape (draws,), in (0, 1); low + (high - low) rho is the mean of the
    column. The guarantee holds under ReplaceOne(n).

    Parameters
    ----------
    alpha : float
        First parameter of the Beta prior, finite and > 0.
    beta : float
        Second parameter of the Beta prior, finite and > 0.
    bounds : tuple of (float, float)
        Lower and upper bound, finite, in the unit of the column. Values outside count as the nearer bound.
    n : int
        Public number of records, >= 1. Data with another number of records are refused with SchemaError.
    data_weight : float, default 1.0
        Weight r of each record's log likelihood, in (0, 1].
    prior_weight : float, default 1.0
        The number w by which the prior's parameter is multiplied, finite and >= 1 (1/m in the thesis).
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
    Geumlek 2020 (thesis), Algorithm 4. Kind: exact for the Rényi curve. The privacy curve is certified to lie at most a
    relative 1e-9 above the exact one.

    Examples
    --------
    >>> import privsample as ps
    >>> mechanism = ps.BetaQuery(alpha=2, beta=3, bounds=(0, 100), n=4, data_weight=0.5)
    >>> mechanism.release([20, 35, 40, 80])["rho"].shape
    (1,)
    >>> mechanism.with_public_data([0, 100]).alpha
    3.0
    """

    alpha: float
    beta: float
    bounds: tuple[float, float]
    n: int
    data_weight: float = 1.0
    prior_weight: float = 1.0
    draws: int = 1
    unit: str = "record"
    exact: bool = True
    grid: float | None = None
    free_parameters = (_DATA_WEIGHT, _PRIOR_WEIGHT)
    command = CommandLine(
        data=("column",),
        arguments={
            "alpha": Argument(
                name="prior", kind=tuple[float, float], metavar="A,B", help="alpha,beta", fields=("alpha", "beta")
            ),
            "beta": Argument(
                name="model",
                choices={"beta-bernoulli": None},
                help="beta-bernoulli, the only model of this query; may be left out",
                required=False,
            ),
        },
    )

    def __post_init__(self) -> None:
        set_fields(
            self, alpha=positive(alpha=self.alpha), beta=positive(beta=self.beta), bounds=interval(bounds=self.bounds)
        )
        set_fields(
            self,
            data_weight=open_unit_interval(data_weight=self.data_weight),
            prior_weight=prior_factor(prior_weight=self.prior_weight),
        )
        _common(self)

    @cached
    def model(self) -> Model:  # type: ignore[override]
        """The Beta-Bernoulli model of fractional records in [0, 1], to which the query scales the column."""
        return BetaBernoulli(alpha=self.alpha, beta=self.beta, fractional=True)

    @classmethod
    def examples(cls) -> tuple[Example, ...]:
        """A mutant in which a record counts more than stated."""
        example = cls(alpha=2, beta=3, bounds=(5, 30), n=1, data_weight=0.5)
        return (Example.with_wrong_fields("beta-query", example, data_weight=0.7, bug=TOO_MUCH_WEIGHT, samples=15_000),)

    @property
    def _weights(self) -> tuple[float, float]:
        return self.data_weight, self.prior_weight

    @property
    def title(self) -> str:
        """The fixed text "Mean of a bounded column"."""
        return "Mean of a bounded column"

    @property
    def quantity(self) -> str:
        """The label "mean of the column"."""
        return "mean of the column"

    @property
    def _label(self) -> str:
        return "the column's mean"

    @property
    def parameter(self) -> str:
        """The name of the scaled mean, "rho"."""
        return "rho"

    @cached
    def domain(self) -> Domain:
        """The bounds; a missing record counts as the lower bound."""
        low, high = self.bounds
        return Domain(low=low, high=high, missing=low)

    def _statistic_grid(self) -> Grid:
        return record_grid(self.domain)

    def _integers(self, data: Any) -> tuple[tuple[int, ...], int]:
        return column_sums(self.domain, data, self._statistic_grid())

    def _exact_statistic(self, sums: tuple[int, ...], count: int) -> ExactStatistic:
        low, high = map(Fraction, self.bounds)
        (total,) = ExactDraws._exact_statistic(self, sums, count)
        return ((total - count * low) / (high - low),)

    def _statistics_in_doubles(self, sums: NDArray[Any], sizes: FloatArray) -> FloatArray:
        low, high = self.bounds
        return np.clip((ExactDraws._statistics_in_doubles(self, sums, sizes) - sizes * low) / (high - low), 0.0, sizes)

    @property
    def _record_rule(self) -> RecordRule | None:
        return column_rule(self.domain, self._statistic_grid())

    def _summary(self, data: Any) -> tuple[Any, int]:
        return ExactDraws._summary(self, data) if self._unit is not None else self._scaled_sum(data)

    def _scaled_sum(self, data: Any) -> tuple[FloatArray, int]:
        low, high = self.bounds
        total, count = 0.0, 0
        for chunk in chunks(data):
            scaled = (self.domain.clean(chunk).astype(np.float64) - low) / (high - low)
            total, count = total + float(np.clip(scaled, 0.0, 1.0).sum()), count + len(chunk)
        return np.asarray(total), count

    def with_public_data(self, data: Any) -> Self:
        """The same query with public records added to the prior, at no privacy cost.

        Parameters
        ----------
        data : list, array or Arrow stream
            Public records in one column, in the unit of the private column.

        Returns
        -------
        BetaQuery
            The query whose prior is the posterior of the public records.

        Raises
        ------
        SchemaError
            If the data have another shape or type.

        Notes
        -----
        Geumlek 2020 (thesis), section 5.3.1.
        """
        distribution = self.model.posterior(*self._scaled_sum(data))
        assert isinstance(distribution, Beta)
        return replace(self, alpha=distribution.a, beta=distribution.b)

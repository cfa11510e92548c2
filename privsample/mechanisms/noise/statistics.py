"""A model's sufficient statistic, released once with noise; private_statistics.py infers from it at no further cost."""

from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privsample._checks import (
    LARGEST_INTEGER,
    FloatArray,
    check_memory,
    nonnegative_integer,
    positive,
    positive_integer,
)
from privsample._value import cached, frozen_value, set_fields
from privsample.accounting.base import Accountant
from privsample.accounting.noise.statistics import StatisticsAccountant
from privsample.distributions.exact.grid import Grid
from privsample.distributions.exact.rational import ExactStatistic
from privsample.distributions.exact.records import default_pitch, grid_indices
from privsample.distributions.models.base import Model
from privsample.distributions.models.beta_bernoulli import BetaBernoulli
from privsample.distributions.models.moments import MomentModel
from privsample.distributions.models.sizes import SizedStatistic
from privsample.distributions.noise import LARGEST_DISCRETE, NAMES, Noise, noise_distribution
from privsample.mechanisms.arguments import CommandLine, noise_argument
from privsample.mechanisms.base import Draws, Mechanism
from privsample.mechanisms.calibration import FreeParameter
from privsample.mechanisms.draws import many_draws
from privsample.mechanisms.examples import TOO_LITTLE_NOISE, Example
from privsample.mechanisms.neighbours import Draw, Neighbours, SumRecords
from privsample.mechanisms.noise.exact import ExactNoise, noisy_points
from privsample.mechanisms.noise.neighbours import added_neighbours, moment_neighbours, moment_records
from privsample.mechanisms.posterior.column import ConjugateMechanism, Sampled
from privsample.mechanisms.posterior.neighbours import LogDensity
from privsample.mechanisms.tallies.rule import RecordRule, record_rule

_LARGEST = float(np.finfo(np.float64).max)
_LARGEST_RATIO = 1e150  # largest ratio of noise to difference whose square does not overflow
_ADVICE = "ask for delta > 0, or for a Rényi or zCDP guarantee, or use (discrete) Laplace noise"


def _checked(model: Any, noise: Any) -> tuple[Model, str | None]:
    """Check a model and the name of a noise distribution or None. Raises TypeError."""
    if not isinstance(model, Model):
        raise TypeError(f"model must be one of privsample's models, got {type(model).__name__}")
    if not (noise is None or isinstance(noise, str)):
        raise TypeError(f"noise must be the name of a noise, such as 'gaussian', got {type(noise).__name__}")
    return model, noise


def _scaled_by_sensitivity(ratio: float, fields: Mapping[str, Any]) -> float:
    model, noise = _checked(fields["model"], fields["noise"])
    known = model.sized_statistic().sensitivity if fields["n"] is None else model.record_sensitivity
    reach = float(known.differences.max())
    discrete = noise.startswith("discrete") if noise else model.record_sensitivity.integer_valued
    return min(reach * min(max(ratio, 1 / _LARGEST_RATIO), _LARGEST_RATIO), LARGEST_DISCRETE if discrete else _LARGEST)


@frozen_value
class NoisyStatistics(ExactNoise, ConjugateMechanism):
    """A model's sufficient statistic plus noise, `draws` times, under ReplaceOne(n) or, without n, under AddRemove.

    `release` takes the records in one column, and releases "statistic", shape (draws, ...). Wrap the release in
    PrivateStatistics to infer from it.

    If the number of records is private (n=None), it is released with noise too, as part of the statistic: of codes, the
    counts of all codes, shape (draws, K). Of a sum of records between two bounds, shape (draws, 2), the totals of the
    distances of all records to the upper bound and to the lower bound; of zeros and ones, these are the numbers of
    zeros and of ones. The two totals give the number of records and the sum.

    Parameters
    ----------
    model : Model
        The model, which defines the statistic, its sensitivity and the public rules for records.
    n : int, optional
        Public number of records, >= 1. Data with another number of records are refused with SchemaError. None if the
        number is private: neighbours then differ by one added or removed record.
    scale : float
        Scale of Laplace noise or standard deviation of Gaussian noise, finite and > 0, in the statistic's unit.
    noise : {"laplace", "gaussian", "discrete laplace", "discrete gaussian"}, optional
        Noise distribution. By default discrete Laplace for integer statistics and Laplace for others.
    draws : int, default 1
        Number of independent draws in one release, >= 1. The account covers all of them together.
    unit : str, default "record"
        What one record is, for example "patient". The privacy statement uses this word.
    exact : bool, default True
        True rounds each record to `grid` and adds integers and exact noise, so that the account does not assume
        IDEAL_REALS. It becomes False for a model whose statistic has no exact sum. False adds floating-point numbers.
    grid : float, optional
        Distance of the grid points, a power of two, in the statistic's unit. By default 1 for discrete noise, otherwise
        2^-40 of the width of a record's bounds; for whole numbers 2^-40 of the smaller of 1 and `scale`.

    Raises
    ------
    ValueError
        If a field lies outside its range, or if the grid is too coarse or too fine for the records.
    TypeError
        If `model` is not a model of privsample or `noise` is not a string.

    Notes
    -----
    Foulds, Geumlek, Welling and Chaudhuri 2016 (Laplace noise on sufficient statistics); Canonne, Kamath and Steinke
    2020 (discrete Gaussian noise). The account is computed from the changes of the statistic that one record can
    cause. Kind: exact or upper bound, depending on the noise; see `StatisticsAccountant`.

    Examples
    --------
    >>> import privsample as ps
    >>> mechanism = ps.NoisyStatistics(model=ps.BetaBernoulli(alpha=1, beta=1), n=4, scale=2.0)
    >>> mechanism.noise, round(float(mechanism.accountant.epsilon(0.0)), 6)
    ('discrete laplace', 0.5)
    >>> mechanism.release([0, 1, 1, 0])["statistic"].shape
    (1,)

    If the number of records is private, the noisy numbers of zeros and of ones:

    >>> mechanism = ps.NoisyStatistics(model=ps.BetaBernoulli(alpha=1, beta=1), scale=2.0)
    >>> mechanism.accountant.relation.change, round(float(mechanism.accountant.epsilon(0.0)), 6)
    ('one record is added or removed', 0.5)
    >>> mechanism.release([0, 1, 1, 0])["statistic"].shape
    (1, 2)
    """

    model: Model
    n: int | None = None  # type: ignore[assignment]
    scale: float
    noise: str | None = None
    draws: int = 1
    unit: str = "record"
    exact: bool = True
    grid: float | None = None
    free_parameters = (FreeParameter(name="scale", direction="smallest", value=_scaled_by_sensitivity, advice=_ADVICE),)
    command = CommandLine(
        name="noisy",
        data=("column", "labelled rows"),
        help={"scale": "the spread of the noise, in the statistic's unit"},
        arguments={"noise": noise_argument("laplace; discrete-laplace for counts")},
    )

    def __post_init__(self) -> None:
        _checked(self.model, self.noise)
        set_fields(
            self,
            noise=self.noise or ("discrete laplace" if self.model.record_sensitivity.integer_valued else "laplace"),
        )
        if self.n is not None:
            set_fields(self, n=positive_integer(n=self.n))
        set_fields(self, scale=self.distribution.scale_parameter)
        self._check_exact()
        self._check_draws()
        if self.grid is not None and self.pitch is None:
            raise ValueError(
                f"grid must be None for a {type(self.model).__name__} model, whose statistic has no exact sum, got "
                f"{self.grid!r}"
            )
        set_fields(self, exact=self.pitch is not None)
        self.accountant  # noqa: B018 - building it checks the rest

    @cached
    def distribution(self) -> Noise:
        """The distribution of the noise on each coordinate."""
        return noise_distribution(str(self.noise), positive(scale=self.scale))

    @property
    def _noise_distribution(self) -> Noise:
        """The distribution of the noise on each coordinate."""
        return self.distribution

    @cached
    def _sized(self) -> SizedStatistic | None:
        """The statistic with the number of records if that is private, on the grid of the draws; otherwise None."""
        grid = None if self.pitch is None else Grid(pitch=self.pitch)
        return self.model.sized_statistic(grid) if self.n is None else None

    @property
    def _dims(self) -> Mapping[str, tuple[str, ...]]:
        if self._sized is not None:
            return {self.parameter: (self._sized.axis,)}
        return {self.parameter: (self.model.axis_name,)} if self.model.records_are_codes else {}

    def _coords(self, data: Any) -> Mapping[str, tuple[str, ...]]:
        if self._sized is not None:
            return {self._sized.axis: self._sized.labels} if self._sized.labels else {}
        return ConjugateMechanism._coords(self, data)

    @property
    def parameter(self) -> str:
        """The name under which the noisy statistic is released, "statistic"."""
        return "statistic"

    @cached
    def accountant(self) -> Accountant:
        """The account of all draws, from the differences that one record can cause."""
        return StatisticsAccountant(
            differences=self.model.record_sensitivity if self._sized is None else self._sized.sensitivity,
            n=self.n,
            noise=self.distribution,
            draws=self.draws,
            unit=self.unit,
            assumptions=self._assumptions,
        )

    @property
    def description(self) -> str:
        """The noise distribution, its scale and the number of records, in one sentence."""
        of = "the records and their number" if self.n is None else f"{self.n:,} records"
        return (
            f"Random noise ({self.noise}, scale {self.scale:.4g}) was added to the sufficient statistic of {of}, from "
            f"which {self._label} is inferred. Inference from it has no further privacy cost."
        )

    @property
    def quantity(self) -> str:
        """The label "statistic"."""
        return "noisy sufficient statistic"

    @classmethod
    def examples(cls) -> tuple[Example, ...]:
        """An example for each noise distribution; the mutants add too little noise."""
        model = BetaBernoulli(alpha=2, beta=3)
        each = {f"{name.replace(' ', '-')}-statistics": cls(model=model, n=20, noise=name, scale=2.0) for name in NAMES}
        each["private-size-statistics"] = cls(model=model, scale=2.0)
        return tuple(
            Example.with_wrong_fields(name, example, scale=1.5, bug=TOO_LITTLE_NOISE) for name, example in each.items()
        )

    def worst_neighbours(self, group: int = 1) -> tuple[Neighbours, ...]:
        """Datasets that differ in the records whose replacement or addition changes the statistic most."""
        group = positive_integer(group=group)
        one = replace(self, draws=1)
        if self.n is None:
            record = self._largest_record
            added = self._contribution(record)
            return added_neighbours(record, added, group, self.distribution, one.accountant, one._many_draws(one))
        if not isinstance(self.model, MomentModel):
            return ConjugateMechanism.worst_neighbours(self, group)
        return moment_neighbours(
            model=self.model,
            noise=self.distribution,
            n=self.n,
            group=group,
            account=one.accountant,
            draw=one._many_draws(one),
        )

    def _sum_records(self, *, random_size: bool) -> tuple[SumRecords, ...]:
        if self.n is None:
            return self._added_records() if random_size else ()
        if isinstance(self.model, MomentModel):
            return moment_records(self.model)
        return tuple(self._with_contributions(*records) for records in self.model.extreme_records)

    def _added_records(self) -> tuple[SumRecords, ...]:
        """A record that adds most, in the place of every record but the one that is exchanged for it."""
        common, first, second = (np.asarray(record) for record in self.model.extreme_records[0])
        added = self._contribution(second)
        contributions = (self._contribution(common), added, np.zeros_like(added))
        return (SumRecords(records=(common, second, first), contributions=contributions),)

    @property
    def _largest_record(self) -> FloatArray:
        """A record that changes the statistic most where it is added."""
        return np.asarray(self.model.extreme_records[0][2])

    def _contribution(self, record: FloatArray) -> FloatArray:
        """What one record adds to the statistic with the number of records."""
        statistic, n = self._summary(np.asarray(record)[None])
        return np.array([float(number) for number in self._joined(statistic, n)])

    def _with_contributions(self, *records: float) -> SumRecords:
        common, first, second = (np.asarray(record) for record in records)
        each = [self.model.statistic(np.array([record])) for record in records]
        return SumRecords(records=(common, first, second), contributions=(each[0], each[1], each[2]))

    def _log_density(self, statistic: FloatArray) -> LogDensity:
        noise = self.distribution
        return lambda drawn: noise.log_mass(drawn - statistic).sum(axis=1)

    def _many_draws(self, outer: Mechanism) -> Draw:
        return many_draws(self, self.parameter, outer)

    @property
    def _released_name(self) -> str:
        return self.parameter

    def _check_draws(self) -> None:
        if self.n is not None:
            ConjugateMechanism._check_draws(self)
            return
        # Exact sums lose nothing to rounding, whatever their length: only an overflow of one record is possible.
        domain, count = self.model.domain, LARGEST_INTEGER if self.pitch is None else 1
        domain.check_summable(count, domain.high - domain.low)
        set_fields(self, draws=positive_integer(draws=self.draws))
        check_memory(self.draws * prod(self._statistic_shape), lower="draws")

    def _exact_grid(self) -> Grid | None:
        if self.distribution.integer_valued or not self.model.record_sensitivity.integer_valued:
            return self.model.statistic_grid(self.grid)
        return self.model.statistic_grid(self.grid or default_pitch(min(self.scale, 1.0)))

    def _summary(self, data: Any) -> tuple[Any, int]:
        if self.pitch is None:
            return ConjugateMechanism._summary(self, data)
        return self.model.exact_summarize(data, Grid(pitch=self.pitch))

    def _integers(self, data: Any) -> tuple[tuple[int, ...], int]:
        unit = self._unit
        statistic, count = self._summary(data)
        return grid_indices(statistic, unit), count

    @property
    def _integer_statistic(self) -> bool:
        return self.model.record_sensitivity.integer_valued

    @property
    def _record_rule(self) -> RecordRule | None:
        return None if self.pitch is None else record_rule(self.model, Grid(pitch=self.pitch))

    def _statistic(self, data: Any) -> Any:
        statistic, count = self._summary(data)
        self._check_size(count)
        return self._joined(statistic, count)

    def _joined(self, statistic: Any, count: int) -> Any:
        """The statistic with the number of records if that is private; otherwise the statistic itself."""
        if self._sized is None:
            return statistic
        return self._sized.of(statistic, count) if self.pitch is None else self._sized.exact(statistic, count)

    def _check_size(self, count: int) -> None:
        if self.n is not None:
            ConjugateMechanism._check_size(self, count)

    def for_size(self, size: int) -> "NoisyStatistics":
        """The same mechanism for another number of records; a private number of records is any number."""
        size = nonnegative_integer(size=size)
        return self if self.n is None else replace(self, n=size)

    @property
    def _statistic_shape(self) -> tuple[int, ...]:
        """The shape of one released statistic."""
        return self.model.empty.shape if self._sized is None else self._sized.shape

    @property
    def _tally_width(self) -> int:
        return prod(self.model.empty.shape)

    def _from_integers(self, sums: tuple[int, ...], count: int) -> ExactStatistic:
        statistic: ExactStatistic = self._joined(ExactNoise._from_integers(self, sums, count), count)
        return statistic

    def _draw_groups(self, sums: NDArray[Any], counts: NDArray[np.int64], rng: np.random.Generator) -> Draws:
        joined = sums if self._sized is None else self._sized.indices(sums, counts, Fraction(self._unit))
        return ExactNoise._draw_groups(self, joined, counts, rng)

    def _draw(self, statistic: Any, rng: np.random.Generator) -> Draws:
        if self.pitch is None:
            return ConjugateMechanism._draw(self, statistic, rng)
        shape = (self.draws, *self._statistic_shape)
        return {self.parameter: noisy_points(statistic, shape, self.distribution, Grid(pitch=self.pitch), rng)}

    def _draw_distribution(self, statistic: FloatArray) -> Sampled:
        return _Noisy(statistic=statistic, noise=self.distribution)


@frozen_value
class _Noisy:
    """The distribution of the released statistic, given the true one, in floating-point numbers."""

    statistic: FloatArray
    noise: Noise

    def sample(self, size: int, rng: np.random.Generator) -> FloatArray:
        """Independent noisy copies, shape (size, ...)."""
        with np.errstate(over="ignore"):
            noisy = self.statistic + self.noise.sample((size, *self.statistic.shape), rng)
            return np.clip(noisy, -_LARGEST, _LARGEST)

"""Noisy sums of records: mechanisms with Gaussian or Laplace noise that can run on a subsample."""

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from privsample._checks import (
    LARGEST_INTEGER,
    FloatArray,
    check_memory,
    count_noun,
    interval,
    positive,
    positive_integer,
)
from privsample._value import cached, frozen_value, set_fields
from privsample.accounting.base import Accountant
from privsample.accounting.noise.additive import GaussianAccountant, LaplaceAccountant
from privsample.distributions.domains import Domain
from privsample.distributions.exact.grid import Grid
from privsample.distributions.exact.records import integer_sums, record_grid, row_indices
from privsample.distributions.noise import GaussianNoise, LaplaceNoise, Noise
from privsample.distributions.record_format import ColumnFormat, RecordFormat, RowFormat
from privsample.distributions.rows import count_clipped_rows, within_norm
from privsample.errors import SchemaError
from privsample.mechanisms.arguments import CommandLine
from privsample.mechanisms.base import Draws, Mechanism, compose_draws
from privsample.mechanisms.calibration import FreeParameter
from privsample.mechanisms.draws import many_draws
from privsample.mechanisms.examples import TOO_LITTLE_NOISE, Example
from privsample.mechanisms.intervals import column_names
from privsample.mechanisms.neighbours import (
    Dataset,
    Draw,
    Neighbours,
    SumRecords,
    copies,
    describe_records,
    public_size,
    records_outside_group,
)
from privsample.mechanisms.noise.exact import ExactNoise, noisy_points
from privsample.mechanisms.noise.neighbours import shifted_loss
from privsample.mechanisms.notes import CuratorNotes
from privsample.mechanisms.tallies.rule import RecordRule, column_rule, column_sums
from privsample.relations import AddRemove, Relation, ReplaceOne, check_single_record_relation

_LARGEST = float(np.finfo(np.float64).max)
_ADVICE = "ask for delta > 0, or for a Rényi or zCDP guarantee"


class NoisySum(ExactNoise):
    """Base class: `draws` noisy sums of what the records contribute, under AddRemove or ReplaceOne."""

    __slots__ = ()
    record_format: ClassVar[RecordFormat]
    relation: Relation
    draws: int

    @property
    @abstractmethod
    def sensitivity(self) -> float:
        """Largest change of the sum between neighbouring datasets, in the unit of the column or rows."""

    @property
    @abstractmethod
    def domain(self) -> Domain:
        """The interval in which the summed numbers lie, with the public rule for all other values."""

    def records(self, data: Any) -> NDArray[Any]:
        """Read the records as an array, one along the first axis.

        Parameters
        ----------
        data : object
            The records, as for `release`.

        Returns
        -------
        numpy.ndarray
            The records before the public rule, shape (k,) or (k, width).

        Raises
        ------
        SchemaError
            If the data have another shape or type.
        """
        return self.record_format.read(data)

    @abstractmethod
    def _contributions(self, records: NDArray[Any]) -> FloatArray:
        """What each record adds to the sum, shape (k,) or (k, width), defined for every value."""

    @abstractmethod
    def _facts(self, records: NDArray[Any]) -> dict[str, int]:
        """The number of records that the public rule changes, by reason."""

    @property
    @abstractmethod
    def _noise_distribution(self) -> Noise:
        """The distribution of the noise on each number."""

    @property
    def _released_name(self) -> str:
        return "sum"

    @abstractmethod
    def _index_sums(self, data: Any) -> tuple[tuple[int, ...], int]:
        """The sums of the grid's indices of what the records contribute, and the number of records."""

    @property
    @abstractmethod
    def _extremes(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """The common record, and the two records that change the sum most; AddRemove uses only the first of the two."""

    @property
    @abstractmethod
    def _least_record(self) -> FloatArray:
        """The record that adds least to the sum."""

    def extreme_records(self) -> NDArray[Any]:
        """The records that change the sum most, and the record that adds least to it."""
        return np.unique(np.stack([*self._extremes, self._least_record]), axis=0)

    def _sum_records(self, *, random_size: bool) -> tuple[SumRecords, ...]:
        common, first, second = self._extremes
        records = (self._least_record if random_size else common, first, second)
        return (SumRecords(records=records, contributions=records),)

    def _many_draws(self, outer: Mechanism) -> Draw:
        return many_draws(self, "sum", outer)

    @property
    def quantity(self) -> str:
        """The label "noisy sum"."""
        return "noisy sum"

    def worst_neighbours(self, group: int = 1) -> tuple[Neighbours, ...]:
        """Under ReplaceOne, all records at one extreme and `group` of them at the other; else `group` or none."""
        group = positive_integer(group=group)
        one: Any = replace(self, draws=1)  # type: ignore[type-var]
        size, (common, first, second) = public_size(self.relation), self._extremes
        if size is None:
            datasets: tuple[Dataset, Dataset] = (lambda: copies(first, group), lambda: copies(first, 0))
            words, totals = (describe_records(group, first), "no records"), (group * first, 0 * first)
        else:
            rest = records_outside_group(group, size)
            datasets = (
                lambda: np.concatenate([copies(common, rest), copies(first, group)]),
                lambda: np.concatenate([copies(common, rest), copies(second, group)]),
            )
            others = f"{describe_records(rest, common)} and "
            words = (others + describe_records(group, first), others + describe_records(group, second))
            totals = (rest * common + group * first, rest * common + group * second)
        return (
            Neighbours(
                account=one.accountant,
                descriptions=words,
                datasets=datasets,
                draw=one._many_draws(one),
                loss=shifted_loss(self._noise_distribution, *totals),
                width=int(np.size(first)),
            ),
        )

    def _statistic(self, data: Any) -> Any:
        if self.exact:
            return self._from_integers(*self._integers(data))
        return np.asarray(self._contributions(self._checked(data)).sum(axis=0))

    def _integers(self, data: Any) -> tuple[tuple[int, ...], int]:
        self._unit  # noqa: B018 - raises the error of a mechanism that is not exact
        return self._index_sums(data)

    @property
    def _statistic_shape(self) -> tuple[int, ...]:
        return np.shape(self._least_record)

    def _draw(self, statistic: Any, rng: np.random.Generator) -> Draws:
        shape = (self.draws, *self._statistic_shape)
        if self.pitch is not None:
            noisy = noisy_points(statistic, shape, self._noise_distribution, Grid(pitch=self.pitch), rng)
            return {"sum": noisy}
        with np.errstate(over="ignore"):
            return {"sum": np.clip(statistic + self._noise_distribution.sample(shape, rng), -_LARGEST, _LARGEST)}

    def validate(self, data: Any) -> CuratorNotes:
        """Count the values that the public rule would replace, for the curator only. Raises SchemaError."""
        records = self._checked(data)
        facts = {reason: count for reason, count in self._facts(records).items() if count}
        return CuratorNotes(title=f"{count_noun(len(records), 'record')} to add up", facts=facts)

    def _checked(self, data: Any) -> NDArray[Any]:
        records = self.records(data)
        self._check_size(len(records))
        return records

    def _check_size(self, count: int) -> None:
        if isinstance(self.relation, ReplaceOne) and count != self.relation.n:
            raise SchemaError(f"n = {self.relation.n} records were declared, the data hold {count}")


def _normalize(self: Any) -> None:
    self._check_exact()
    relation = check_single_record_relation(self.relation)
    self.domain.check_summable(relation.n if isinstance(relation, ReplaceOne) else LARGEST_INTEGER, self.sensitivity)
    set_fields(self, draws=positive_integer(draws=self.draws))
    check_memory(self.draws * getattr(self, "width", 1), lower="draws or width" if hasattr(self, "width") else "draws")
    self.pitch, self.accountant  # noqa: B018 - building it checks the rest


def _column_sensitivity(bounds: tuple[float, float], relation: Relation) -> float:
    low, high = bounds
    return high - low if isinstance(relation, ReplaceOne) else max(abs(low), abs(high))


def _row_sensitivity(norm: float, relation: Relation) -> float:
    return 2 * norm if isinstance(relation, ReplaceOne) else norm


def _scaled_by_column(ratio: float, fields: Mapping[str, Any]) -> float:
    return _column_sensitivity(interval(bounds=fields["bounds"]), fields["relation"]) * ratio


def _scaled_by_row(ratio: float, fields: Mapping[str, Any]) -> float:
    return _row_sensitivity(positive(norm=fields["norm"]), fields["relation"]) * ratio


class ColumnSum(NoisySum):
    """Base class: the sum of a column of numbers, each clipped to `bounds`.

    A missing value counts as the number nearest 0 within the bounds.
    """

    __slots__ = ()
    record_format: ClassVar[RecordFormat] = ColumnFormat()
    bounds: tuple[float, float]

    @property
    def domain(self) -> Domain:
        """The bounds, with the number nearest 0 for missing values."""
        low, high = self.bounds
        return Domain(low=low, high=high, missing=min(max(0.0, low), high))

    @property
    def sensitivity(self) -> float:
        """Largest change of the sum: the width of the bounds, or the larger absolute bound under AddRemove."""
        return _column_sensitivity(self.bounds, self.relation)

    @property
    def _extremes(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        low, high = (np.asarray(bound) for bound in self.bounds)
        if isinstance(self.relation, ReplaceOne):
            return low, high, low
        return np.asarray(self.domain.missing), np.asarray(max(*self.bounds, key=abs)), np.asarray(0.0)

    @property
    def _least_record(self) -> FloatArray:
        return np.asarray(self.domain.missing)

    def _contributions(self, records: NDArray[Any]) -> FloatArray:
        return np.asarray(self.domain.clean(records), dtype=np.float64)

    def _exact_grid(self) -> Grid:
        return record_grid(self.domain, self.grid)

    def _index_sums(self, data: Any) -> tuple[tuple[int, ...], int]:
        return column_sums(self.domain, data, self._exact_grid())

    @property
    def _record_rule(self) -> RecordRule | None:
        return None if self.pitch is None else column_rule(self.domain, self._exact_grid())

    def _facts(self, records: NDArray[Any]) -> dict[str, int]:
        return self.domain.problems(records)


@frozen_value
class GaussianSum(ColumnSum):
    """The sum of a column clipped to bounds, with Gaussian noise.

    `release` takes one column of numbers, and releases "sum", shape (draws,). A missing value counts as the number
    nearest 0 within the bounds. The sensitivity is derived from the bounds and the relation.

    Parameters
    ----------
    bounds : tuple of (float, float)
        Lower and upper bound, finite, in the unit of the column. Values outside are clipped.
    noise_std : float
        Standard deviation of the noise, finite and > 0, in the unit of the column.
    relation : Relation, default AddRemove()
        The neighbouring relation: `AddRemove()`, or `ReplaceOne(n=...)` for a public number of records n.
    draws : int, default 1
        Number of independent draws in one release, >= 1. The account covers all of them together.
    exact : bool, default True
        True rounds each record to `grid` and adds integers and exact noise, so that the account does not assume
        IDEAL_REALS. False adds floating-point numbers.
    grid : float, optional
        Distance of the grid points, a power of two, in the unit of the column. By default 2^-40 of the width of
        `bounds`.

    Raises
    ------
    ValueError
        If a field lies outside its range, or if the grid is too coarse or too fine for the bounds.

    Notes
    -----
    Balle and Wang 2018. Kind: exact. The sum is exact: docs/notes/exact_noise.md.

    Examples
    --------
    >>> import privsample as ps
    >>> mechanism = ps.GaussianSum(bounds=(0, 10), noise_std=40)
    >>> mechanism.sensitivity, round(float(mechanism.accountant.epsilon(1e-6)), 3)
    (10.0, 1.061)
    >>> mechanism.release([3.5, 7.0, 12.0])["sum"].shape
    (1,)
    """

    bounds: tuple[float, float]
    noise_std: float
    relation: Relation = AddRemove()
    draws: int = 1
    exact: bool = True
    grid: float | None = None
    free_parameters = (FreeParameter(name="noise_std", direction="smallest", value=_scaled_by_column, advice=_ADVICE),)
    command = CommandLine(data=("column",))

    def __post_init__(self) -> None:
        set_fields(self, bounds=interval(bounds=self.bounds), noise_std=positive(noise_std=self.noise_std))
        _normalize(self)

    @cached
    def accountant(self) -> Accountant:
        """The exact account of all draws."""
        one = GaussianAccountant(
            sensitivity=self.sensitivity,
            noise_std=self.noise_std,
            relation=self.relation,
            assumptions=self._assumptions,
        )
        return compose_draws(one, self.draws)

    @classmethod
    def examples(cls) -> tuple[Example, ...]:
        """An example, and a mutant that adds too little noise."""
        example = cls(bounds=(-1, 2), noise_std=2)
        return (
            Example.with_wrong_fields("gaussian-sum", example, noise_std=1.6, bug=TOO_LITTLE_NOISE, samples=20_000),
        )

    @property
    def _noise_distribution(self) -> Noise:
        return GaussianNoise(noise_std=self.noise_std)


@frozen_value
class LaplaceSum(ColumnSum):
    """The sum of a column clipped to bounds, with Laplace noise.

    `release` takes one column of numbers, and releases "sum", shape (draws,). A missing value counts as the number
    nearest 0 within the bounds. The sensitivity is derived from the bounds and the relation.

    Parameters
    ----------
    bounds : tuple of (float, float)
        Lower and upper bound, finite, in the unit of the column. Values outside are clipped.
    scale : float
        Scale b of the Laplace noise, finite and > 0, in the unit of the column; its variance is 2 b^2.
    relation : Relation, default AddRemove()
        The neighbouring relation: `AddRemove()`, or `ReplaceOne(n=...)` for a public number of records n.
    draws : int, default 1
        Number of independent draws in one release, >= 1. The account covers all of them together.
    exact : bool, default True
        True rounds each record to `grid` and adds integers and exact noise, so that the account does not assume
        IDEAL_REALS. False adds floating-point numbers.
    grid : float, optional
        Distance of the grid points, a power of two, in the unit of the column. By default 2^-40 of the width of
        `bounds`.

    Raises
    ------
    ValueError
        If a field lies outside its range, or if the grid is too coarse or too fine for the bounds.

    Notes
    -----
    Dwork, McSherry, Nissim and Smith 2006. Kind: exact. The sum is exact: docs/notes/exact_noise.md.

    Examples
    --------
    >>> import privsample as ps
    >>> mechanism = ps.LaplaceSum(bounds=(0, 10), scale=20)
    >>> mechanism.sensitivity, round(float(mechanism.accountant.epsilon(0.0)), 6)
    (10.0, 0.5)
    """

    bounds: tuple[float, float]
    scale: float
    relation: Relation = AddRemove()
    draws: int = 1
    exact: bool = True
    grid: float | None = None
    free_parameters = (FreeParameter(name="scale", direction="smallest", value=_scaled_by_column, advice=_ADVICE),)
    command = CommandLine(data=("column",))

    def __post_init__(self) -> None:
        set_fields(self, bounds=interval(bounds=self.bounds), scale=positive(scale=self.scale))
        _normalize(self)

    @cached
    def accountant(self) -> Accountant:
        """The exact account of all draws."""
        one = LaplaceAccountant(
            sensitivity=self.sensitivity, scale=self.scale, relation=self.relation, assumptions=self._assumptions
        )
        return compose_draws(one, self.draws)

    @classmethod
    def examples(cls) -> tuple[Example, ...]:
        """An example, and a mutant that adds too little noise."""
        example = cls(bounds=(-1, 2), scale=3, relation=ReplaceOne(n=9))
        return (Example.with_wrong_fields("laplace-sum", example, scale=2.4, bug=TOO_LITTLE_NOISE, samples=20_000),)

    @property
    def _noise_distribution(self) -> Noise:
        return LaplaceNoise(scale=self.scale)


@frozen_value
class ClippedSum(NoisySum):
    """The sum of rows clipped to an L2 norm, with Gaussian noise on each entry.

    With Poisson sampling it is one step of differentially private gradient descent. `release` takes an array of shape
    (k, width), and releases "sum", shape (draws, width). An entry that is not a finite number counts as 0, and a row
    longer than `norm` is scaled down to it.

    Parameters
    ----------
    norm : float
        Largest L2 norm of a row, finite and > 0. Longer rows are scaled down to it.
    noise_std : float
        Standard deviation of the noise on each entry, finite and > 0, in the unit of the rows.
    width : int
        Number of entries of a row, >= 1.
    relation : Relation, default AddRemove()
        The neighbouring relation: `AddRemove()`, or `ReplaceOne(n=...)` for a public number of records n.
    draws : int, default 1
        Number of independent draws in one release, >= 1. The account covers all of them together.
    exact : bool, default True
        True rounds each row towards 0 to `grid` and adds integers and exact noise, so that the account does not assume
        IDEAL_REALS. False adds floating-point numbers.
    grid : float, optional
        Distance of the grid points, a power of two, in the unit of the rows. By default 2^-40 of 2 `norm`.

    Raises
    ------
    ValueError
        If a field lies outside its range, or if the grid is too coarse or too fine for the bounds.

    Notes
    -----
    Abadi et al. 2016 (one step of DP-SGD). Kind: exact. The sum is exact: docs/notes/exact_noise.md.

    Examples
    --------
    >>> import privsample as ps
    >>> mechanism = ps.ClippedSum(norm=1, noise_std=4, width=2)
    >>> mechanism.release([[3.0, 4.0], [0.1, 0.2]])["sum"].shape
    (1, 2)
    >>> round(float(mechanism.accountant.epsilon(1e-6)), 3)
    1.061
    """

    norm: float
    noise_std: float
    width: int
    relation: Relation = AddRemove()
    draws: int = 1
    exact: bool = True
    grid: float | None = None
    free_parameters = (FreeParameter(name="noise_std", direction="smallest", value=_scaled_by_row, advice=_ADVICE),)
    command = CommandLine(data=("rows",), help={"width": "the number of entries of a row"})

    def __post_init__(self) -> None:
        set_fields(self, norm=positive(norm=self.norm), noise_std=positive(noise_std=self.noise_std))
        set_fields(self, width=positive_integer(width=self.width))
        _normalize(self)

    @property
    def domain(self) -> Domain:
        """The interval that holds every entry of a clipped row."""
        return Domain(low=-self.norm, high=self.norm, missing=0.0)

    @property
    def sensitivity(self) -> float:
        """Largest change of the sum in L2: `norm` under AddRemove, twice `norm` under ReplaceOne."""
        return _row_sensitivity(self.norm, self.relation)

    @cached
    def accountant(self) -> Accountant:
        """The exact account of all draws."""
        one = GaussianAccountant(
            sensitivity=self.sensitivity,
            noise_std=self.noise_std,
            relation=self.relation,
            assumptions=self._assumptions,
        )
        return compose_draws(one, self.draws)

    @property
    def _dims(self) -> Mapping[str, tuple[str, ...]]:
        return {"sum": ("feature",)}

    def _coords(self, data: Any) -> Mapping[str, tuple[str, ...]]:
        names = column_names(data)
        return {"feature": names} if len(names) == self.width else {}

    @property
    def record_format(self) -> RowFormat:  # type: ignore[override]
        """Rows of `width` numbers."""
        return RowFormat(width=self.width)

    def _contributions(self, records: NDArray[Any]) -> FloatArray:
        return within_norm(records, self.norm)

    def _exact_grid(self) -> Grid:
        return record_grid(self.domain, self.grid)

    def _index_sums(self, data: Any) -> tuple[tuple[int, ...], int]:
        records = self.records(data)
        return integer_sums(self._row_indices(records)), len(records)

    def _row_indices(self, records: NDArray[Any]) -> FloatArray:
        """The integers of each record, as whole doubles, shape (n, width)."""
        return row_indices(self._contributions(records), self._exact_grid())

    def _facts(self, records: NDArray[Any]) -> dict[str, int]:
        return count_clipped_rows(records, self.norm)

    @property
    def _extremes(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        end = self.norm * np.eye(1, self.width)[0]
        return (-end, end, -end) if isinstance(self.relation, ReplaceOne) else (0 * end, end, 0 * end)

    @property
    def _least_record(self) -> FloatArray:
        return np.zeros(self.width)

    @classmethod
    def examples(cls) -> tuple[Example, ...]:
        """An example, and a mutant whose clipping norm is larger than stated."""
        example = cls(norm=2, noise_std=2, width=3)
        bug = "rows are scaled down to a norm a quarter too large"
        return (Example.with_wrong_fields("clipped-sum", example, norm=2.5, bug=bug, samples=20_000),)

    @property
    def _noise_distribution(self) -> Noise:
        return GaussianNoise(noise_std=self.noise_std)

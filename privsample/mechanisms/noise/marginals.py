"""Marginal tables of public categorical columns, counted once and released with Gaussian noise."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privsample._checks import FloatArray, check_memory, count_noun, positive, positive_integer
from privsample._value import cached, frozen_value, set_fields
from privsample.accounting.base import Accountant
from privsample.accounting.noise.additive import GaussianAccountant
from privsample.distributions.categorical_format import CategoricalFormat
from privsample.distributions.exact.grid import Grid
from privsample.distributions.exact.records import default_pitch, integer_grid
from privsample.distributions.marginal_tables import MarginalTables, marginal_tables
from privsample.distributions.noise import GaussianNoise
from privsample.errors import SchemaError
from privsample.mechanisms.arguments import Argument, CommandLine
from privsample.mechanisms.base import Draws, Mechanism, compose_draws
from privsample.mechanisms.calibration import FreeParameter
from privsample.mechanisms.draws import many_draws
from privsample.mechanisms.examples import TOO_LITTLE_NOISE, Example
from privsample.mechanisms.neighbours import Dataset, Draw, Neighbours, SumRecords, public_size, records_outside_group
from privsample.mechanisms.noise.exact import ExactNoise, noisy_points
from privsample.mechanisms.noise.neighbours import shifted_loss
from privsample.mechanisms.notes import CuratorNotes
from privsample.relations import AddRemove, Relation, ReplaceOne, check_single_record_relation

_LARGEST = float(np.finfo(np.float64).max)
_COLUMNS = Argument(
    name="variables",  # --columns selects columns of a file
    kind=tuple[tuple[str, ...], ...],
    help="the columns, each in parentheses: its name and its categories",
    fields=("columns",),
)
_ADVICE = "ask for delta > 0, or for a Rényi or zCDP guarantee"


def _scaled_by_sensitivity(ratio: float, fields: Mapping[str, Any]) -> float:
    tables = marginal_tables(fields["columns"], fields["marginals"])
    return _sensitivity(tables, check_single_record_relation(fields["relation"])) * ratio


def _sensitivity(tables: MarginalTables, relation: Relation) -> float:
    """The root of the number of counts that one record changes by 1, rounded up."""
    changed = len(tables.marginals) * (2 if isinstance(relation, ReplaceOne) else 1)
    root = math.isqrt(changed)
    return float(root) if root * root == changed else math.nextafter(math.sqrt(changed), math.inf)


@frozen_value
class NoisyMarginals(ExactNoise):
    """The counts of all combinations of categories in public sets of columns, with Gaussian noise on each count.

    `release` takes the records as a mapping or table of columns by name, of names of categories or of codes 0, 1, ...,
    or as an array of codes of shape (n, columns). It releases "counts", shape (draws, width): the tables one after the
    other, the last column of a set fastest. `tables` splits them. A value that is missing or not listed counts as the
    first category of its column. `synthesize` draws synthetic data from the release.

    Parameters
    ----------
    columns : mapping of str to (sequence of str, or int)
        The public columns with the public names of their categories, at least two each. A number K stands for the names
        "0", ..., "K-1". Stored as rows of a name and its categories, in which form they may also be given.
    noise_std : float
        Standard deviation of the noise on each count, finite and > 0, in records.
    marginals : sequence of sequences of str, optional
        The public sets of columns whose combinations are counted, each set once. None counts all pairs of columns.
    relation : Relation, default AddRemove()
        The neighbouring relation: `AddRemove()`, or `ReplaceOne(n=...)` for a public number of records n.
    draws : int, default 1
        Number of independent draws in one release, >= 1. The account covers all of them together.
    exact : bool, default True
        True adds exact noise on `grid` to the counts, so that the account does not assume IDEAL_REALS. False adds
        floating-point numbers.
    grid : float, optional
        Distance of the grid points, a power of two of at most 1, in records. By default 2^-40 of the smaller of 1 and
        `noise_std`.

    Raises
    ------
    TypeError, ValueError
        If a field has the wrong type or is out of range.

    Notes
    -----
    One record adds 1 to one count of each of the k tables: the L2 sensitivity is sqrt(k) under AddRemove, and
    sqrt(2 k) under ReplaceOne. Balle and Wang 2018 (analytic Gaussian mechanism). Kind: exact.

    Examples
    --------
    >>> import privsample as ps
    >>> columns = {"smoker": ("no", "yes"), "age": ("young", "old"), "ill": ("no", "yes")}
    >>> mechanism = ps.NoisyMarginals(columns=columns, noise_std=10)
    >>> mechanism.marginals
    (('smoker', 'age'), ('smoker', 'ill'), ('age', 'ill'))
    >>> data = {"smoker": ["no", "yes", None], "age": ["old", "old", "young"], "ill": [0, 1, 0]}
    >>> release = mechanism.release(data)
    >>> release["counts"].shape, release.coords["cell"][0]
    ((1, 12), 'smoker=no, age=young')
    >>> mechanism.tables(release["counts"])["smoker", "age"].shape
    (1, 2, 2)
    >>> round(float(mechanism.accountant.epsilon(1e-6)), 3)
    0.715
    """

    columns: Mapping[str, Sequence[str] | int] | tuple[tuple[str, ...], ...]  # stored as ((name, category, ...), ...)
    noise_std: float
    marginals: Sequence[Sequence[str]] | tuple[tuple[str, ...], ...] | None = None  # stored as tuples
    relation: Relation = AddRemove()
    draws: int = 1
    exact: bool = True
    grid: float | None = None
    free_parameters = (
        FreeParameter(name="noise_std", direction="smallest", value=_scaled_by_sensitivity, advice=_ADVICE),
    )
    command = CommandLine(
        data=("rows",),
        help={"marginals": "the sets of columns to count, each in parentheses (default: all pairs)"},
        arguments={"columns": _COLUMNS},
    )

    def __post_init__(self) -> None:
        layout = marginal_tables(self.columns, self.marginals)
        set_fields(self, columns=tuple((name, *names) for name, names in layout.columns), marginals=layout.marginals)
        set_fields(self, noise_std=positive(noise_std=self.noise_std), draws=positive_integer(draws=self.draws))
        check_single_record_relation(self.relation)
        check_memory(self.draws * layout.width, lower="draws or marginals")
        self._check_exact()
        self.pitch, self.accountant  # noqa: B018 - building it checks the rest

    @cached
    def layout(self) -> MarginalTables:
        """The tables: their columns, shapes and places in the released row of counts."""
        return marginal_tables(self.columns, self.marginals)

    @property
    def sensitivity(self) -> float:
        """Largest L2 change of the counts: sqrt(k) for k tables under AddRemove, sqrt(2 k) under ReplaceOne."""
        return _sensitivity(self.layout, self.relation)

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

    def tables(self, counts: NDArray[Any]) -> dict[tuple[str, ...], NDArray[Any]]:
        """Split rows of counts into tables.

        Parameters
        ----------
        counts : numpy.ndarray
            Released counts, shape (..., width).

        Returns
        -------
        dict of tuple of str to numpy.ndarray
            The table of each set of columns, of shape (..., categories of the first column of the set, ...).

        Raises
        ------
        ValueError
            If the rows have another width.
        """
        rows = np.asarray(counts)
        if rows.ndim == 0 or rows.shape[-1] != self.layout.width:
            raise ValueError(f"counts must have shape (..., {self.layout.width}), got {rows.shape}")
        return self.layout.split(rows)

    @property
    def title(self) -> str:
        """The fixed text "Marginal tables with Gaussian noise"."""
        return "Marginal tables with Gaussian noise"

    @property
    def description(self) -> str:
        """The standard deviation of the noise and the number of tables, in one sentence."""
        return (
            f"Normal noise of standard deviation {self.noise_std:.4g} was added to each count of "
            f"{count_noun(len(self.layout.marginals), 'table')}, in each of which a record is counted once."
        )

    @property
    def quantity(self) -> str:
        """The label "noisy count"."""
        return "noisy count"

    @property
    def record_format(self) -> CategoricalFormat:  # type: ignore[override]
        """Rows of codes, or columns by name."""
        return CategoricalFormat(columns=self.layout.columns)

    def validate(self, data: Any) -> CuratorNotes:
        """Count the values that the public rule would replace, for the curator only. Raises SchemaError."""
        records = self._records(data)
        facts: dict[str, object] = {}
        for name, domain, column in zip(self.layout.names, self.layout.domains, records.T, strict=True):
            facts |= {f"{name}, {reason}": count for reason, count in domain.count_problems([column]).items()}
        return CuratorNotes(title=f"{count_noun(len(records), 'record')} to count", facts=facts)

    @classmethod
    def examples(cls) -> tuple[Example, ...]:
        """An example with three tables, and a mutant that adds too little noise."""
        columns = {"sex": ("F", "M"), "smoker": ("no", "yes"), "age": ("young", "old")}
        example = cls(columns=columns, noise_std=2)
        return (
            Example.with_wrong_fields("noisy-marginals", example, noise_std=1.6, bug=TOO_LITTLE_NOISE, samples=20_000),
        )

    def worst_neighbours(self, group: int = 1) -> tuple[Neighbours, ...]:
        """Records in the first categories, of which `group` are in the last categories of all columns, or missing."""
        group = positive_integer(group=group)
        size, one = public_size(self.relation), replace(self, draws=1)
        rest = group if size is None else records_outside_group(group, size)
        first, last = self._extremes

        def dataset(*counts: tuple[NDArray[np.int64], int]) -> Dataset:
            return lambda: np.concatenate([np.tile(record, (count, 1)) for record, count in counts])

        both = dataset((first, rest), (last, group)), dataset((first, rest), (first, group if size else 0))
        total = self._contribution(first), self._contribution(last)
        first_sum = rest * total[0] + group * total[1]
        second_sum = (rest + (group if size else 0)) * total[0]
        among = f"{group:,} of {rest + group:,} records in the last categories"
        return (
            Neighbours(
                account=one.accountant,
                descriptions=(
                    among,
                    "all records in the first categories" if size else f"{rest:,} records without them",
                ),
                datasets=both,
                draw=one._many_draws(one),
                loss=shifted_loss(self._noise_distribution, first_sum, second_sum),
                width=self.layout.width,
            ),
        )

    def extreme_records(self) -> NDArray[Any]:
        """A record in the first categories, and one in the last: they differ in every table."""
        return np.array(self._extremes, dtype=np.float64)

    def _sum_records(self, *, random_size: bool) -> tuple[SumRecords, ...]:
        del random_size
        first, last = (np.asarray(record, dtype=np.float64) for record in self._extremes)
        each = self._contribution(self._extremes[0]), self._contribution(self._extremes[1])
        return (SumRecords(records=(first, last, first), contributions=(each[0], each[1], each[0])),)

    @property
    def _extremes(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        last = np.array(self.layout.sizes, dtype=np.int64) - 1
        return 0 * last, last

    def _contribution(self, record: NDArray[np.int64]) -> FloatArray:
        return self.layout.counts(record[None]).astype(np.float64)

    def _many_draws(self, outer: Mechanism) -> Draw:
        return many_draws(self, "counts", outer)

    @property
    def _noise_distribution(self) -> GaussianNoise:
        return GaussianNoise(noise_std=self.noise_std)

    @property
    def _released_name(self) -> str:
        return "counts"

    @property
    def _dims(self) -> Mapping[str, tuple[str, ...]]:
        return {"counts": ("cell",)}

    def _coords(self, data: Any) -> Mapping[str, tuple[str, ...]]:
        del data
        return {"cell": self.layout.labels}

    def _exact_grid(self) -> Grid:
        return integer_grid(self.grid or default_pitch(min(self.noise_std, 1.0)))

    def _records(self, data: Any) -> NDArray[Any]:
        records = self.record_format.read(data)
        self._check_size(len(records))
        return records

    def _check_size(self, count: int) -> None:
        if isinstance(self.relation, ReplaceOne) and count != self.relation.n:
            raise SchemaError(f"n = {self.relation.n} records were declared, the data hold {count}")

    def _statistic(self, data: Any) -> Any:
        if self.exact:
            return self._from_integers(*self._integers(data))
        return self.layout.counts(self.layout.codes(self._records(data)))

    def _integers(self, data: Any) -> tuple[tuple[int, ...], int]:
        self._unit  # noqa: B018 - raises the error of a mechanism that is not exact
        records = self.record_format.read(data)
        return tuple(self.layout.counts(self.layout.codes(records)).tolist()), len(records)

    @property
    def _integer_statistic(self) -> bool:
        return True

    @property
    def _statistic_shape(self) -> tuple[int, ...]:
        return (self.layout.width,)

    def _draw(self, statistic: Any, rng: np.random.Generator) -> Draws:
        shape = (self.draws, self.layout.width)
        if self.pitch is not None:
            return {"counts": noisy_points(statistic, shape, self._noise_distribution, Grid(pitch=self.pitch), rng)}
        with np.errstate(over="ignore"):
            noisy = statistic + self._noise_distribution.sample(shape, rng)
        return {"counts": np.clip(noisy, -_LARGEST, _LARGEST)}

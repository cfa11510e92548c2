"""One release for every group of a public list: the same mechanism on the records of each group, drawn together."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privsample._checks import (
    FloatArray,
    check_memory,
    count_noun,
    is_encodable,
    listed,
    one_of,
    positive_integer,
)
from privsample._value import cached, frozen_value, set_fields
from privsample.accounting.assumptions import Assumption
from privsample.accounting.groups.grouped import GroupedAccountant
from privsample.accounting.targets import Target
from privsample.distributions.models.beta_bernoulli import BetaBernoulli
from privsample.distributions.noise import Noise
from privsample.distributions.record_format import ColumnFormat
from privsample.errors import RelationMismatch, SchemaError
from privsample.interop.arviz import SAMPLE_DIMS, check_name
from privsample.mechanisms.base import Draws, Mechanism
from privsample.mechanisms.examples import TOO_LITTLE_NOISE, Example
from privsample.mechanisms.groups.calibration import NOISE_OF_BASE
from privsample.mechanisms.groups.columns import KeyColumn, Unlisted, read_keys
from privsample.mechanisms.groups.contribution import Contribution, Integers, Seeds
from privsample.mechanisms.groups.keys import KeyIndex, Keys, checked_keys
from privsample.mechanisms.groups.neighbours import grouped_neighbours
from privsample.mechanisms.groups.sums import grouped_sums, record_offsets, sums_of_groups
from privsample.mechanisms.neighbours import Neighbours
from privsample.mechanisms.noise.exact import ExactNoise
from privsample.mechanisms.noise.statistics import NoisyStatistics
from privsample.mechanisms.noise.sums import GaussianSum
from privsample.mechanisms.notes import CuratorNotes
from privsample.mechanisms.tallies.rule import RecordRule
from privsample.mechanisms.tallies.tally import Tally
from privsample.relations import AddRemove, ReplaceOne


@frozen_value
class Units:
    """The unit of each record: a whole number, equal for equal units, and a public hash of its key."""

    codes: Integers
    seeds: Seeds

    def __len__(self) -> int:
        return len(self.codes)

    def chosen(self, which: NDArray[np.bool_]) -> "Units":
        """The units of some records."""
        return Units(codes=self.codes[which], seeds=self.seeds[which])


Columns = tuple[Integers, NDArray[Any], Units | None]


@frozen_value
class GroupedMechanism(Mechanism):
    """One release of a mechanism for every group of a public list of keys, from the records of the group.

    `release` takes `(groups, records)`: a column with the key of each record, text or whole numbers, and the records as
    the base takes them; with `contribution`, `(units, groups, records)`. It releases the draws of the base under their
    names, shape (draws, groups, ...), also for groups without records, with the keys as coordinates. `ps.by` makes it.
    `calibrate` takes a base with any noise, and replaces its noise (of a posterior, its weight) by that of the target.

    Parameters
    ----------
    name : str
        What a group is, for example "hospital"; the name of the axis of the draws.
    base : Mechanism
        The mechanism for one group. It must have tallies, as noisy sums and statistics do.
    keys : tuple of str, or of int
        The public keys of all groups, distinct.
    sizes : tuple of int, optional
        The public number of records of each group, in the order of `keys`, or a mapping from keys, for a base with a
        public number of records. None means that of the base. It must be None for a base under AddRemove.
    contribution : Contribution, optional
        Bounds for units with several records. None, the default, means that every record is a unit of its own.
    unlisted : {"refuse", "drop"}, default "refuse"
        What happens to a record whose key is not in `keys`, or that has no key or no unit: "refuse" raises SchemaError,
        so that it must be public that there are none; "drop" leaves the record out. With "drop", an entry that is
        neither text nor a whole number of 64 bits is no key, and a float without fraction is a whole number.

    Raises
    ------
    TypeError
        If a field has the wrong type, or the base has no tallies.
    ValueError
        If keys are repeated, or sizes or `contribution` do not fit the base, or the draws do not fit in memory.

    Notes
    -----
    McSherry 2009, Theorem 4; docs/notes/groups.md. Kind: see `GroupedAccountant`.

    Examples
    --------
    >>> import privsample as ps
    >>> mechanism = ps.by("hospital", ps.LaplaceSum(bounds=(0, 10), scale=20), keys=["north", "south", "west"])
    >>> mechanism.accountant.pure_epsilon
    0.5
    >>> release = mechanism.release((["north", "north", "south"], [3.5, 8.0, 1.0]))
    >>> release["sum"].shape, release.coords["hospital"]
    ((1, 3), ('north', 'south', 'west'))
    """

    name: str
    base: Mechanism
    keys: Keys
    sizes: tuple[int, ...] | None = None
    contribution: Contribution | None = None
    unlisted: Unlisted = "refuse"
    free_parameters = (NOISE_OF_BASE,)

    def __post_init__(self) -> None:
        if not isinstance(self.name, str):
            raise TypeError(f"name must be a string, what a group is, got {type(self.name).__name__}")
        if not self.name.strip() or not is_encodable(self.name):
            raise ValueError(f"name must be what a group is, such as 'hospital', got {self.name!r}")
        try:
            check_name(self.name)
        except ValueError:
            raise ValueError(
                "name must start with a letter or digit, without '/', control characters or end space, so that files "
                f"can hold it as the name of an axis, got {self.name!r}; choose another, and give by= for the column"
            ) from None
        if self.name in SAMPLE_DIMS:
            raise ValueError(f"name must differ from {SAMPLE_DIMS}, the axes of draws in files, got {self.name!r}")
        if not isinstance(self.base, Mechanism):
            raise TypeError(f"base must be a mechanism, got {type(self.base).__name__}")
        if not one_of(self.unlisted, ("refuse", "drop")):
            raise ValueError(f"unlisted must be 'refuse' or 'drop', got {self.unlisted!r}")
        if not (self.contribution is None or isinstance(self.contribution, Contribution)):
            raise TypeError(f"contribution must be a Contribution or None, got {type(self.contribution).__name__}")
        self._check_base()
        keys = checked_keys(self.keys)
        set_fields(self, keys=keys, sizes=self._checked_sizes(keys))
        if self.name in {axis for axes in self._dims.values() for axis in axes[1:]} | self._dims.keys():
            raise ValueError(f"name must differ from the names of the draws and their axes, got {self.name!r}")
        check_memory(len(keys) * self._draws * self._width, lower="the number of keys or of draws")
        self.accountant  # noqa: B018 - building it checks the rest

    def _check_base(self) -> None:
        if self.base.record_format is None:
            raise TypeError(f"base must take records that can be divided into groups, got {type(self.base).__name__}")
        self.base._tallied(self._no_records)  # raises TypeError without tallies
        if self.base._may_release_nothing:
            raise TypeError(
                f"base must release draws for every group, and {type(self.base).__name__} may release none; repeat it "
                "a number of times that is at least 1, such as TruncatedNegativeBinomial"
            )
        if not isinstance(self.base.accountant.relation, (AddRemove, ReplaceOne)):
            raise RelationMismatch(f"base must be under AddRemove or ReplaceOne, got {self.base.accountant.relation}")
        if self.contribution is None:
            return
        if self._sizes_are_public:
            raise RelationMismatch(
                "contribution must be None for a base under ReplaceOne: the bounds leave records out, so that the "
                "number of records of a group is not public; leave out the public n of the base (relation AddRemove)"
            )
        if self.contribution.clip is not None and not isinstance(self.base.record_format, ColumnFormat):
            raise TypeError("contribution must bound records: clip adds up one column, and the base takes rows")

    def _checked_sizes(self, keys: Keys) -> tuple[int, ...] | None:
        """The number of records of each group; None if it is not public. Raises TypeError or ValueError."""
        relation = self.base.accountant.relation
        if not isinstance(relation, ReplaceOne):
            if self.sizes is not None:
                raise ValueError("sizes must be None for a base under AddRemove, whose numbers of records are private")
            return None
        if self.sizes is None:
            return (relation.n,) * len(keys)
        sizes: Any = self.sizes
        if isinstance(sizes, Mapping):
            if missing := [key for key in keys if key not in sizes]:
                raise ValueError(
                    f"sizes must hold a number for each key, {count_noun(len(missing), 'key')} without one"
                )
            sizes = [sizes[key] for key in keys]
        given = listed(sizes=sizes)
        if len(given) != len(keys):
            raise ValueError(f"sizes must hold a number for each of the {len(keys):,} keys, got {len(given):,}")
        return tuple(positive_integer(sizes=size) for size in given)

    @property
    def _sizes_are_public(self) -> bool:
        return isinstance(self.base.accountant.relation, ReplaceOne)

    @property
    def _no_records(self) -> Any:
        """Data of the base without records."""
        record_format: Any = self.base.record_format
        width = getattr(record_format, "width", None) or (getattr(record_format, "features", -1) + 1)
        return record_format.to_data(np.empty((0, width) if width else (0,)))

    @cached
    def accountant(self) -> GroupedAccountant:
        """The account of the release for all groups together."""
        assumed = frozenset({Assumption.LISTED_KEYS} if self.unlisted == "refuse" else ())
        if self.sizes is not None:
            each = Counter(self.sizes).items()
            accounts = tuple((self.base.for_size(n).accountant, count) for n, count in each)
        else:
            accounts = ((self.base.accountant, len(self.keys)),)
        bounds = self.contribution
        if bounds is None:
            return GroupedAccountant(accounts=accounts, assumptions=assumed)
        return GroupedAccountant(
            accounts=accounts,
            groups_per_unit=bounds.groups,
            records_per_group=bounds.records_per_group,
            unit=bounds.unit,
            assumptions=assumed | {Assumption.WHOLE_UNITS},
        )

    # Reading

    @cached
    def _index(self) -> KeyIndex:
        return KeyIndex(self.keys)

    def _columns(self, data: Any) -> Columns:
        """The places of the records that are listed, these records, and their units if they are bounded.

        Raises SchemaError.
        """
        wanted = "(groups, records)" if self.contribution is None else "(units, groups, records)"
        parts = 2 if self.contribution is None else 3
        if not isinstance(data, (tuple, list)) or len(data) != parts:
            got = f"{len(data)} parts" if isinstance(data, (tuple, list)) else type(data).__name__
            raise SchemaError(f"data must be {wanted}, columns of equal length, got {got}")
        assert self.base.record_format is not None
        places = self._index.places(self._read_keys(data[-2]), self._column)
        units = None
        if parts == 3:
            keys = read_keys(data[0], f"{self._unit} column", unlisted=self.unlisted)
            units = Units(codes=keys.codes(), seeds=keys.seeds())
            if keys.absent is not None and len(keys) == len(places):
                places = np.where(keys.absent, -1, places)
        records = self.base.record_format.read(data[-1])
        if not len(places) == len(records) == (len(places) if units is None else len(units)):
            raise SchemaError(f"data must be {wanted}, columns of equal length, got different lengths")
        listed_ = places >= 0
        if listed_.all():
            return places, records, units
        if self.unlisted == "refuse":
            raise SchemaError(
                f"the {self.name} keys must be among the {len(self.keys):,} public keys, got records with others; add "
                "the keys to the public list, or leave such records out by unlisted='drop' (on the command line "
                "--unlisted drop)"
            )
        return places[listed_], records[listed_], None if units is None else units.chosen(listed_)

    def _read_keys(self, column: Any) -> KeyColumn:
        """Read the column of the keys of groups. Raises SchemaError."""
        return read_keys(column, self._column, unlisted=self.unlisted)

    @property
    def _column(self) -> str:
        """What the column of keys is, for messages."""
        return f"{self.name} keys"

    @property
    def _unit(self) -> str:
        assert self.accountant.unit is not None
        return self.accountant.unit

    def _tallied(self, data: Any) -> tuple[NDArray[Any], NDArray[np.int64], NDArray[np.int64] | None]:
        """The integers of the groups that have records. With bounds, all records of a unit must be in the data."""
        places, records, units = self._columns(data)
        rule, groups = self.base._record_rule, len(self.keys)
        if units is not None and self.contribution is not None and self.contribution.clip is not None:
            places, records = self.contribution.summed(
                units.codes, places, records.astype(np.float64), seeds=units.seeds
            )
            units = None
        if rule is None:
            counted = self._counted(units, places, records)
            sums, counts = sums_of_groups(self.base, places[counted], records[counted], groups)
        else:
            offsets = record_offsets(rule, records)
            counted = self._counted(units, places, offsets)
            sums, counts = grouped_sums(rule, places[counted], offsets[counted], groups)
        keys = np.flatnonzero(counts)
        return sums[keys], counts[keys], keys

    def _counted(self, units: Units | None, places: Integers, values: NDArray[Any]) -> Any:
        """Which records count: a mask, or a slice of all."""
        if units is None or self.contribution is None:
            return slice(None)
        return self.contribution.bounded(units.codes, places, values, seeds=units.seeds)

    def _from_tally(self, tally: Tally) -> tuple[NDArray[Any], Integers]:
        if tally.keys is None:
            raise SchemaError(f"the tally must have groups, one for each {self.name} with records, got one without")
        if tally.sums.shape[1] != self._width:
            raise SchemaError("the tally must be one that this mechanism makes, got another number of sums")
        self._check_possible(tally)
        return self._of_all_groups(tally.sums, tally.counts, tally.keys)

    def _statistic(self, data: Any) -> tuple[NDArray[Any], Integers]:
        sums, counts, keys = self._tallied(data)
        assert keys is not None
        return self._of_all_groups(sums, counts, keys)

    def _of_all_groups(self, sums: NDArray[Any], counts: Integers, keys: Integers) -> tuple[NDArray[Any], Integers]:
        """The integers and the numbers of records of all groups. Raises SchemaError if public numbers differ."""
        groups = len(self.keys)
        if len(keys) and int(keys[-1]) >= groups:
            raise SchemaError(f"the tally must be of the {groups:,} public keys, got places beyond them")
        every = np.zeros((groups, *sums.shape[1:]), dtype=sums.dtype)
        found = np.zeros(groups, dtype=np.int64)
        every[keys], found[keys] = sums, counts
        if self.sizes is not None and (wrong := np.flatnonzero(found != np.array(self.sizes))).size:
            raise SchemaError(
                f"{count_noun(len(wrong), 'group')} must have other numbers of records, of which the first is "
                f"{self.name} {self.keys[wrong[0]]!r}: {self.sizes[wrong[0]]} records were declared"
            )
        return every, found

    # Drawing

    def _draw(self, statistic: Any, rng: np.random.Generator) -> Draws:
        sums, counts = statistic
        if self.sizes is None or isinstance(self.base, ExactNoise):  # the noise does not depend on the sizes
            return self.base._draw_groups(sums, counts, rng)
        found: dict[str, FloatArray] = {}
        for size in sorted(set(self.sizes)):
            chosen = counts == size
            drawn = self.base.for_size(size)._draw_groups(sums[chosen], counts[chosen], rng)
            for name, array in drawn.items():
                shape = (array.shape[0], len(counts), *array.shape[2:])
                found.setdefault(name, np.empty(shape, dtype=array.dtype))[:, chosen] = array
        return found

    @property
    def _draws(self) -> int:
        """The number of independent draws for each group."""
        return int(getattr(self.base, "draws", 1))

    def _base_of(self, place: int) -> Mechanism:
        """The mechanism for one group."""
        return self.base if self.sizes is None else self.base.for_size(self.sizes[place])

    @property
    def _width(self) -> int:
        """Numbers in one draw for one group."""
        sums, _, _ = self.base._tallied(self._no_records)
        return int(sums.shape[1])

    # Description

    @property
    def _scope(self) -> str:
        """Which groups are released, and what a unit contributes, in one or two sentences."""
        groups = f"in {len(self.keys):,} groups" if len(self.keys) > 1 else "in one group"
        sentence = f"The numbers are released for each {self.name}, {groups}, and the guarantee covers all together."
        if self.contribution is None:
            return sentence
        most = count_noun(min(self.contribution.groups, len(self.keys)), "group")
        return f"{sentence} One {self._unit} counts in at most {most}, {self.contribution.description}."

    @property
    def title(self) -> str:
        """The title of the base, and the name of the groups."""
        return f"{self.base.title} for each {self.name}"

    @property
    def description(self) -> str:
        """The description of the base, which groups are released, and what a unit contributes."""
        return f"{self.base.description} {self._scope}"

    @property
    def quantity(self) -> str:
        """The label of the base."""
        return self.base.quantity

    @property
    def _noise_distribution(self) -> Noise | None:
        return self.base._noise_distribution

    @property
    def _grid(self) -> Mapping[str, float] | None:
        return self.base._grid

    @property
    def _grid_text(self) -> str:
        return self.base._grid_text

    @property
    def _record_rule(self) -> RecordRule | None:
        return self.base._record_rule

    @property
    def _dims(self) -> Mapping[str, tuple[str, ...]]:
        inner = self.base._dims
        return {name: (self.name, *inner.get(name, ())) for name in dict.fromkeys([*(self._grid or {}), *inner])}

    def _coords(self, data: Any) -> Mapping[str, tuple[str, ...]]:
        records = data[-1] if isinstance(data, (tuple, list)) and data else data
        return {**self.base._coords(records), self.name: self._key_texts}

    @cached
    def _key_texts(self) -> tuple[str, ...]:
        return tuple(map(str, self.keys))

    def validate(self, data: Any) -> CuratorNotes:
        """Count the records that the public rules replace or leave out, for the curator. Raises SchemaError."""
        counts, (places, records, units) = self._statistic(data)[1], self._columns(data)
        assert self.base.record_format is not None
        facts: dict[str, object] = {}
        if len(records):
            facts |= self.base.for_size(len(records)).validate(self.base.record_format.to_data(records)).facts
        more = {
            "records left out by unlisted='drop'": len(self._read_keys(data[-2])) - len(places),
            "records beyond the bounds of their unit": 0 if units is None else len(places) - int(counts.sum()),
        }
        groups = count_noun(int(np.count_nonzero(counts)), self.name)
        title = f"{count_noun(len(records), 'record')} in {groups} of {len(self.keys):,}"
        return CuratorNotes(title=title, facts=facts | {reason: count for reason, count in more.items() if count})

    def worst_neighbours(self, group: int = 1) -> tuple[Neighbours, ...]:
        """The worst neighbours of the base, in each of the groups to which a unit can contribute."""
        return grouped_neighbours(self, group)

    @classmethod
    def examples(cls) -> tuple[Example, ...]:
        """A sum whose mutant adds too little noise, and one whose mutant counts too many records of a unit."""
        keys = ("north", "south")
        base = GaussianSum(bounds=(0, 1), noise_std=2)
        one, two = (Contribution(groups=2, records=k, unit="patient") for k in (1, 2))
        with_public_sizes = NoisyStatistics(model=BetaBernoulli(alpha=2, beta=3), n=3, scale=2.0)
        return (
            Example.with_wrong_fields(
                "grouped-units",
                cls(name="clinic", base=base, keys=keys, contribution=one),
                contribution=two,
                bug="more records of a unit count than stated",
            ),
            Example.with_wrong_fields(
                "grouped-statistics",
                cls(name="clinic", base=with_public_sizes, keys=keys, sizes=(3, 4)),
                base=replace(with_public_sizes, scale=1.4),
                bug=TOO_LITTLE_NOISE,
            ),
        )


def by(
    name: str,
    mechanism: Mechanism,
    *,
    keys: Any,
    sizes: Any = None,
    contribution: Contribution | None = None,
    unlisted: Unlisted = "refuse",
    target: Target | None = None,
) -> GroupedMechanism:
    """The mechanism that makes one release for every group of a public list of keys, at the cost of one group.

    With bounds for units, the release costs more than that of one group: `target` chooses the noise for the whole.

    Parameters
    ----------
    name : str
        What a group is, for example "hospital"; the name of the axis of the draws.
    mechanism : Mechanism
        The mechanism for one group. It must have tallies, as noisy sums and statistics do.
    keys : sequence of str, or of int
        The public keys of all groups, distinct: a list, an array, or an Arrow or pandas column.
    sizes : sequence of int or mapping, optional
        The public number of records of each group, for a mechanism with a public number of records. None means that of
        the mechanism.
    contribution : Contribution, optional
        Bounds for units with several records.
    unlisted : {"refuse", "drop"}, default "refuse"
        What happens to a record whose key is not in `keys`, or that has no key or no unit: "refuse" raises SchemaError;
        "drop" leaves it out.
    target : Target, optional
        The guarantee that the release for all groups must meet, such as `ps.DP(1, 1e-6)`. The noise of `mechanism` (of
        a posterior, its weight) is then replaced by that of the target, as by `GroupedMechanism.calibrate`. None, the
        default, keeps the mechanism as it is.

    Returns
    -------
    GroupedMechanism
        The mechanism for all groups.

    Raises
    ------
    TypeError, ValueError
        As for GroupedMechanism.
    UnreachableTarget
        If no noise meets the target.

    Examples
    --------
    >>> import privsample as ps
    >>> bounds = ps.Contribution(groups=2, records=3, unit="patient")
    >>> mechanism = ps.by("clinic", ps.GaussianSum(bounds=(0, 1), noise_std=9), keys=[1, 2, 3], contribution=bounds)
    >>> round(float(mechanism.accountant.epsilon(1e-6)), 3)
    2.113
    >>> half = ps.by("clinic", mechanism.base, keys=[1, 2, 3], contribution=bounds, target=ps.DP(epsilon=1, delta=1e-6))
    >>> round(half.base.noise_std, 2), round(float(half.accountant.epsilon(1e-6)), 9)
    (17.92, 1.0)
    """
    fields: dict[str, Any] = {
        "name": name,
        "base": mechanism,
        "keys": keys,
        "sizes": sizes,
        "contribution": contribution,
        "unlisted": unlisted,
    }
    return GroupedMechanism(**fields) if target is None else GroupedMechanism.calibrate(target=target, **fields)

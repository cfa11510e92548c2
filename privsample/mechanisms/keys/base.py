"""Base class of the mechanisms that release keys which are not public."""

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from privsample._checks import FloatArray, count_noun
from privsample.mechanisms.base import Draws, DrawsWithNotes, Mechanism
from privsample.mechanisms.keys.pairs import (
    KeyCounts,
    bounded_counts,
    distinct_pairs,
    keys_of_units,
    read_rows,
)
from privsample.mechanisms.neighbours import Dataset, Loss, Neighbours
from privsample.mechanisms.notes import CuratorNotes
from privsample.relations import Relation

AXIS = "key"


class PrivateKeys(Mechanism):
    """Base class: which keys are released is random, and a key that no unit has is never released.

    `release` takes `(units, keys)`, two columns of equal length. The release names the keys in `coords["key"]`.
    """

    __slots__ = ()
    keys_per_unit: int
    relation: Relation
    _draws_coords: ClassVar[bool] = True

    @abstractmethod
    def _kept(self, units: NDArray[np.int64], rng: np.random.Generator) -> tuple[NDArray[np.bool_], Draws]:
        """Which of the keys with these numbers of units >= 1 are released, and their draws, shape (1, kept keys)."""

    def _statistic(self, data: Any) -> KeyCounts:
        counts = bounded_counts(read_rows(data), self.keys_per_unit)
        there = counts.units > 0
        return KeyCounts(tuple(np.array(counts.keys, dtype=object)[there].tolist()), counts.units[there])

    def _draw(self, statistic: KeyCounts, rng: np.random.Generator) -> DrawsWithNotes:
        kept, draws = self._kept(statistic.units, rng)
        names = tuple(statistic.keys[place] for place in np.flatnonzero(kept).tolist())
        return DrawsWithNotes(draws=draws, coords={AXIS: names})

    @property
    def _dims(self) -> Mapping[str, tuple[str, ...]]:
        return {self.quantity: (AXIS,)}

    @property
    def _public_names(self) -> tuple[str, ...]:
        """The keys of the worst neighbours."""
        return tuple(map(str, range(self.keys_per_unit)))

    def _with_units(self, count: int) -> str:
        """Description of a dataset of so many units."""
        return f"{count_noun(count, 'unit')} with {count_noun(self.keys_per_unit, 'key')} each"

    def _neighbours(self, units: int, group: int, loss: Loss) -> Neighbours:
        """Datasets of `units` units and of `group` more, each with all keys; an output has one number for each key.

        The number of a key that is not released is 0.
        """

        def draw(data: Any, count: int, rng: np.random.Generator) -> FloatArray:
            found = self._statistic(data)
            known = dict(zip(found.keys, found.units.tolist(), strict=True))
            each = np.tile([known.get(name, 0) for name in self._public_names], count)
            outputs = np.zeros(each.shape)
            there = np.flatnonzero(each)
            kept, draws = self._kept(each[there], rng)
            outputs[there[kept]] = draws[self.quantity][0]
            return outputs.reshape(count, -1)

        def dataset(size: int) -> Dataset:
            keys = np.arange(self.keys_per_unit)
            return lambda: (np.repeat(np.arange(size), len(keys)), np.tile(keys, size))

        return Neighbours(
            account=self.accountant,
            descriptions=(self._with_units(units), self._with_units(units + group)),
            datasets=(dataset(units), dataset(units + group)),
            draw=draw,
            loss=loss,
            width=self.keys_per_unit,
        )

    def validate(self, data: Any) -> CuratorNotes:
        """Count the rows that are left out and the units with too many keys, for the curator only.

        Parameters
        ----------
        data : tuple of two columns
            The units and their keys, as for `release`.

        Returns
        -------
        CuratorNotes
            The counts, which depend on the data.

        Raises
        ------
        SchemaError
            If `release` would refuse the data.
        """
        rows = read_rows(data)
        sizes = keys_of_units(distinct_pairs(rows))
        facts = {
            "rows without unit or key": rows.missing,
            f"units with more than {count_noun(self.keys_per_unit, 'key')}": int((sizes > self.keys_per_unit).sum()),
        }
        title = f"{count_noun(len(sizes), 'unit')} with {count_noun(len(rows.texts), 'distinct key')}"
        return CuratorNotes(title=title, facts={name: count for name, count in facts.items() if count})

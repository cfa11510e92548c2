"""A tally: the integer statistic of a part of the data on a public grid. Tallies of disjoint parts add up exactly."""

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Self, TypeGuard

import numpy as np
from numpy.typing import NDArray

from privsample._checks import flag, is_encodable
from privsample._value import frozen_value, set_fields
from privsample.errors import SchemaError
from privsample.mechanisms.files import writable, write_whole
from privsample.mechanisms.tallies.arrow import fields_of_table, from_file, to_file, to_table
from privsample.mechanisms.tallies.fingerprints import file_digest

_LARGEST = 2**62  # the sum of two smaller absolute values fits in 64 bits
_MOST = 2**63  # integers from -2^63 to 2^63 - 1 fit in 64 bits
_DIGITS = 64  # of a fingerprint
_ENDING = ".arrow"


@frozen_value
class Tally:
    """The integer statistic of a part of the data, for one mechanism, in total or for each group.

    It is private: it holds the exact statistic. `mechanism.release(tally)` draws from it. The sum of the tallies of
    disjoint parts is the tally of all of them, whatever the parts and their order.

    Parameters
    ----------
    mechanism : str
        Fingerprint of the mechanism and of the format of tallies: only equal ones add up.
    sums : numpy.ndarray of int
        The statistic in units of the grid's pitch, shape (groups, k); one row without groups. Numbers that do not fit
        in 64 bits are Python integers, in an array of objects.
    counts : numpy.ndarray of int
        Numbers of records, >= 0, shape (groups,).
    keys : numpy.ndarray of int, optional
        Places of the groups in the public list of keys, >= 0, increasing, shape (groups,). None without groups.
    parts : frozenset of str, default frozenset()
        Names of the parts that were counted; empty if they have no names.

    Raises
    ------
    SchemaError
        If the fields are not those of a tally. The message shows no number of it.

    Examples
    --------
    >>> import privsample as ps
    >>> mechanism = ps.LaplaceSum(bounds=(0, 1), scale=2, grid=0.5)
    >>> first, second = mechanism.tally([1, 0.5]), mechanism.tally([0.5])
    >>> total = first + second
    >>> total.sums.tolist(), total.counts.tolist(), total == mechanism.tally([0.5, 0.5, 1])
    ([[4]], [3], True)
    """

    mechanism: str
    sums: NDArray[Any]
    counts: NDArray[np.int64]
    keys: NDArray[np.int64] | None = None
    parts: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        mechanism: Any = self.mechanism
        if not isinstance(mechanism, str) or len(mechanism) != _DIGITS or set(mechanism) - set("0123456789abcdef"):
            raise _broken(f"its mechanism must be a fingerprint of {_DIGITS} hexadecimal digits")
        sums, counts = _integers(self.sums, 2, "sums"), _small(self.counts, "counts")
        keys = None if self.keys is None else _small(self.keys, "keys")
        if not len(sums) == len(counts) == (1 if keys is None else len(keys)):
            raise _broken("it must have one row of sums, one count and one key for each group")
        if keys is not None and (keys[1:] <= keys[:-1]).any():
            raise _broken("its keys must increase")
        set_fields(self, sums=sums, counts=counts, keys=keys, parts=_names(self.parts))

    def __reduce__(self) -> Any:
        return _restored, (self.mechanism, self.sums, self.counts, self.keys, self.parts)

    def __repr__(self) -> str:
        groups = "" if self.keys is None else f"{len(self.keys)} groups, "
        parts = f"{len(self.parts)} parts, " if self.parts else ""
        return f"Tally(mechanism={self.mechanism[:8]!r}, {groups}{parts}sums hidden)"

    def __add__(self, other: "Tally") -> "Tally":
        if not isinstance(other, Tally):
            return NotImplemented
        self._check_addition(other)
        keys, first, second = _union(self.keys, other.keys)
        groups = 1 if keys is None else len(keys)
        return Tally(
            mechanism=self.mechanism,
            sums=_added(groups, (first, self.sums), (second, other.sums)),
            counts=_added(groups, (first, self.counts), (second, other.counts)),
            keys=keys,
            parts=self.parts | other.parts,
        )

    def _check_addition(self, other: "Tally") -> None:
        """Check that another tally counts other records for the same mechanism. Raises SchemaError."""
        if other.mechanism != self.mechanism:
            raise SchemaError(
                "the tallies must be of one mechanism, got those of two: make all of them with equal mechanisms and "
                "one version of privsample"
            )
        if other.sums.shape[1] != self.sums.shape[1] or (other.keys is None) != (self.keys is None):
            raise SchemaError("the tallies must have the same form, got sums of different lengths, or groups and none")
        if bool(self.parts) != bool(other.parts):
            raise SchemaError(
                "the parts must all have names or none, got a tally of named parts and one without: pass part= to "
                "every call of tally, so that each part is counted once"
            )
        if twice := self.parts & other.parts:
            raise SchemaError(
                f"each part must be counted once, got {min(twice)!r} in both tallies: merge_tallies counts a repeated "
                "part once"
            )

    def to_arrow(self) -> Any:
        """Return the tally as an Arrow table, private as the tally is.

        Returns
        -------
        pyarrow.Table
            The columns "key" (with groups) and "count", of the type int64, and "sum_0", "sum_1", ..., of the type
            decimal128(38, 0). The metadata hold the format, the fingerprint of the mechanism, the names of the parts,
            and a digest of the content.

        Raises
        ------
        ImportError
            If pyarrow is not installed.
        SchemaError
            If a sum has more than 38 digits.
        """
        return to_table(self)

    @classmethod
    def from_arrow(cls, table: Any) -> Self:
        """Return the tally of an Arrow table.

        Parameters
        ----------
        table : pyarrow.Table, pyarrow.RecordBatch or other Arrow data
            The whole table that `to_arrow` returned.

        Returns
        -------
        Tally
            The tally.

        Raises
        ------
        ImportError
            If pyarrow is not installed.
        TypeError
            If `table` is no Arrow data.
        SchemaError
            If the table is that of no tally, or of another format, or has lost rows.
        """
        fields, digest = fields_of_table(table)
        found = cls(**fields)
        if digest != file_digest(found):
            raise _broken("its content was altered or cut")
        return found

    def save(self, path: str | os.PathLike[str], *, force: bool = False) -> None:
        """Write the tally to an Arrow file, which is as private as the data and which its owner alone may read.

        Parameters
        ----------
        path : str or os.PathLike
            The file to write, which ends in .arrow.
        force : bool, default False
            Replace an existing file.

        Raises
        ------
        ValueError, OSError
            If the path has another ending, or cannot be written.
        ImportError
            If pyarrow is not installed.
        """
        target = writable(path, force=flag(force=force), endings=(_ENDING,))
        write_whole(target, to_file(self), private=True)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read a tally from a file.

        Parameters
        ----------
        path : str or os.PathLike
            A file that `save` wrote.

        Returns
        -------
        Tally
            The tally.

        Raises
        ------
        SchemaError
            If the file is truncated, altered, of another format, or holds no tally.
        OSError
            If it cannot be read.
        """
        return cls.from_arrow(from_file(Path(path).read_bytes()))

    @property
    def never_written(self) -> bool:
        """Always True: the functions that write releases, reports and accounts raise an error for a tally."""
        return True


def is_tally(data: object) -> TypeGuard[Tally]:
    """Whether the data are a tally. Raises TypeError for several tallies, which would be read as missing records."""
    if isinstance(data, (list, tuple)) and data and isinstance(data[0], Tally):
        raise TypeError("data must be one tally, got several: add them up by merge_tallies(tallies)")
    return isinstance(data, Tally)


def exact_row(integers: Iterable[int]) -> NDArray[Any]:
    """Integers of any size as an array of shape (1, k), which NumPy must not round."""
    return np.array([list(integers)], dtype=object)


def part_names(part: object) -> frozenset[str]:
    """The names of the parts of a tally of one part, which may have none. Raises TypeError."""
    if part is None:
        return frozenset()
    if not isinstance(part, str) or not part or not is_encodable(part):
        raise TypeError(f"part must be a text that is not empty, or None, got {part!r}")
    return frozenset({str(part)})


def _restored(mechanism: str, sums: Any, counts: Any, keys: Any, parts: frozenset[str]) -> Tally:
    """The tally with these fields, checked again; for pickles."""
    return Tally(mechanism=mechanism, sums=sums, counts=counts, keys=keys, parts=parts)


def _broken(why: str) -> SchemaError:
    return SchemaError(f"this is not a tally: {why}; make it again with mechanism.tally(data)")


def _integers(given: Any, axes: int, name: str) -> NDArray[Any]:
    """Integers as a read-only copy: in 64 bits if all of them fit, otherwise as Python integers. Raises SchemaError."""
    try:  # an object array: NumPy would round a list of integers of which one exceeds 64 bits
        array = np.array(given, dtype=object if isinstance(given, (list, tuple)) else None)
    except ValueError:
        raise _broken(f"its {name} must be an array of integers") from None
    if array.dtype.kind not in "iuO" and array.size:
        raise _broken(f"its {name} must be integers, got {array.dtype}")
    if array.ndim != axes:
        raise _broken(f"its {name} must have {axes} axes, got {array.ndim}")
    if array.dtype.kind in "uO":
        items = [item.item() if isinstance(item, np.integer) else item for item in array.ravel().tolist()]
        if not all(type(item) is int for item in items):
            raise _broken(f"its {name} must be integers, got other objects")
        fits = all(-_MOST <= item < _MOST for item in items)
        array = np.array(items, dtype=np.int64 if fits else object).reshape(array.shape)
    array = array.astype(np.int64, copy=False) if array.dtype != object else array
    array.flags.writeable = False
    return array


def _small(given: Any, name: str) -> NDArray[np.int64]:
    """Integers from 0 to 2^63 - 1, of shape (groups,). Raises SchemaError."""
    array = _integers(given, 1, name)
    if array.dtype == object or (array < 0).any():
        raise _broken(f"its {name} must be integers from 0 to 2^63 - 1")
    return array


def _names(parts: Any) -> frozenset[str]:
    """The names of the parts. Raises SchemaError."""
    if not isinstance(parts, Iterable) or isinstance(parts, (str, bytes)):
        raise _broken("its parts must be a set of names")
    found = list(parts)
    if not all(isinstance(name, str) and name and is_encodable(name) for name in found):
        raise _broken("its parts must be texts that are not empty")
    return frozenset(found)


def _union(first: Any, second: Any) -> tuple[Any, Any, Any]:
    """The sorted union of two sets of keys, and the places in it of both; slices where one set is the union."""
    every = slice(None)
    if first is None or np.array_equal(first, second):
        return first, every, every
    both = np.concatenate([first, second])
    both.sort(kind="stable")  # merges the two, as each is sorted
    keys = both[np.append(True, both[1:] != both[:-1])[: len(both)]]
    before, after = (every if len(own) == len(keys) else np.searchsorted(keys, own) for own in (first, second))
    return keys, before, after


def _added(groups: int, *terms: tuple[Any, NDArray[Any]]) -> NDArray[Any]:
    """The sum of arrays whose rows have the given places, in Python integers where 64 bits could be too few."""
    narrow = all(
        array.dtype != object and array.min(initial=0) >= -_LARGEST and array.max(initial=0) < _LARGEST
        for _, array in terms
    )
    total = np.zeros((groups, *terms[0][1].shape[1:]), dtype=np.int64 if narrow else object)
    for places, array in terms:
        total[places] += array if narrow else array.astype(object)
    return total

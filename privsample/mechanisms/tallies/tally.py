"""A tally: the integer statistic of a part of the data on a public grid. Tallies of disjoint parts add up exactly."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from privsample._value import frozen_value, set_fields
from privsample.errors import SchemaError

_LARGEST = 2**62  # absolute values below it add up in 64 bits


@frozen_value
class Tally:
    """The integer statistic of a part of the data, for one mechanism, in total or for each group.

    It is private: it holds the exact statistic. `mechanism.release(tally)` draws from it. The sum of the tallies of
    disjoint parts is the tally of all of them, whatever the parts and their order.

    Parameters
    ----------
    mechanism : str
        Fingerprint of the mechanism and of the format of tallies: only equal ones add up.
    sums : numpy.ndarray of int or object
        The statistic in units of the grid's pitch, shape (groups, k); one row without groups.
    counts : numpy.ndarray of int
        Numbers of records, shape (groups,).
    keys : numpy.ndarray of int, optional
        Places of the groups in the public list of keys, increasing, shape (groups,). None without groups.
    parts : frozenset of str, default frozenset()
        Names of the parts that were counted. A part that has a name can be added once only.

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
        counts = np.array(self.counts, dtype=np.int64)
        set_fields(self, sums=_canonical(self.sums), counts=counts, parts=frozenset(self.parts))

    def __repr__(self) -> str:
        groups = "" if self.keys is None else f", {len(self.keys)} groups"
        return f"Tally(mechanism={self.mechanism[:8]!r}{groups}, private)"

    def __add__(self, other: "Tally") -> "Tally":
        if not isinstance(other, Tally):
            return NotImplemented
        if other.mechanism != self.mechanism:
            raise SchemaError("the tallies are of different mechanisms: make both with one mechanism and one version")
        if twice := self.parts & other.parts:
            raise SchemaError(f"part {min(twice)!r} is in both tallies: each part must be counted once")
        keys, first, second = _union(self.keys, other.keys)
        return Tally(
            mechanism=self.mechanism,
            sums=_added(len(first[0]), first, self.sums, second, other.sums),
            counts=_added(len(first[0]), first, self.counts, second, other.counts),
            keys=keys,
            parts=self.parts | other.parts,
        )

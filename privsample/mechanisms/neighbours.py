"""Pairs of neighbouring datasets on which an account is nearly attained: what a mechanism offers to an audit."""

from collections.abc import Callable
from math import isqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privsample._checks import FloatArray, positive_integer
from privsample._value import frozen_value
from privsample.accounting.base import Accountant
from privsample.relations import AddRemove, Relation, ReplaceOne

MOST_RECORDS = 20_000_000
MOST_PAIRS = 64

Draw = Callable[[Any, int, np.random.Generator], FloatArray]
Dataset = Callable[[], Any]
Loss = Callable[[FloatArray], FloatArray]


@frozen_value
class Neighbours:
    """Two neighbouring datasets, and how to draw a mechanism's outputs on either.

    Parameters
    ----------
    account : Accountant or None
        The account of one draw, which an audit tries to refute. None where only the caller of the audit knows a claim.
    words : tuple of two str
        What the first and the second dataset hold, for the verdict.
    datasets : tuple of two functions
        Each takes no argument and builds one of the datasets, so that large ones exist only while they are needed.
    draw : function of (data, count, rng)
        `count` independent outputs on one of the datasets: an array whose first axis has length `count`.
    loss : function, optional
        The log density ratio of the first over the second dataset's output distribution, from outputs of shape
        (count, width) to (count,). None, the default, where it is not known: the audit then learns a score.
    width : int, default 1
        How many numbers one output has.
    """

    account: Accountant | None
    words: tuple[str, str]
    datasets: tuple[Dataset, Dataset]
    draw: Draw
    loss: Loss | None = None
    width: int = 1


def others_beside(group: int, n: int) -> int:
    """How many of n records are left beside a group. Raises: ValueError, none are, or too many to simulate."""
    check_simulated(n)
    if group > n:
        raise ValueError(f"a group must be no larger than n = {n}, got {group}")
    return n - group


def check_simulated(size: int) -> None:
    """Refuse to build datasets of too many records. Raises: ValueError."""
    if size > MOST_RECORDS:
        raise ValueError(f"n = {size} records are too many to simulate; audit with n = {MOST_RECORDS} or fewer")


def public_size(relation: Relation | None) -> int | None:
    """The public number of records, if there is one."""
    return relation.n if isinstance(relation, ReplaceOne) else None


def copies(record: FloatArray, count: int) -> FloatArray:
    """`count` equal records, shape (count, ...)."""
    return np.broadcast_to(record, (count, *np.shape(record)))


def record_words(count: int, record: FloatArray) -> str:
    """So many equal records in words; of several numbers the norm is told."""
    largest = float(np.abs(record).max()) or 1.0  # its square may be no number
    number = largest * np.linalg.norm(record / largest) * (np.sign(np.ravel(record)[0]) or 1)
    return f"{count:,} {'record' if count == 1 else 'records'} of {number:g}"


@frozen_value
class PairRecipe:
    """Two neighbours, by the places of their records in a list: `shared` of them in both, and then `group` more.

    common: the place of all shared records, or None: all records in turn. second: None where the others are left out.
    """

    common: int | None
    first: int
    second: int | None
    shared: int
    group: int

    def places(self, side: int, count: int) -> NDArray[np.int64]:
        """Of the records of the first (0) or the second (1) dataset; the list has `count` records."""
        common = np.arange(self.shared) % count if self.common is None else np.full(self.shared, self.common)
        own = (self.first, self.second)[side]
        return common if own is None else np.append(common, np.full(self.group, own))


def pair_recipes(count: int, relation: Relation, *, size: int | None, group: int, most: int) -> list[PairRecipe]:
    """As `neighbouring_pairs`, of `count` records. Raises: TypeError, ValueError."""
    replaced = isinstance(relation, ReplaceOne)
    if isinstance(relation, ReplaceOne):
        if size is not None:
            raise TypeError(f"size goes with AddRemove: under ReplaceOne the relation says it, n = {relation.n}")
        n, pairs = relation.n, count * (count - 1) // 2
    elif isinstance(relation, AddRemove):
        if size is None:
            raise TypeError("size must be given under AddRemove: how many records the larger dataset holds")
        n, pairs = positive_integer(size=size), count
    else:
        raise TypeError(f"relation must be ReplaceOne or AddRemove, got {relation!r}")
    if not pairs:
        raise ValueError("two different records are needed at least: one is replaced by the other")
    if group > n:
        raise ValueError(f"a group must be no larger than n = {n}, got {group}")
    shared = n - group
    commons = 1 if shared == 0 else count if min(count, shared) == 1 else count + 1

    def recipe(place: int) -> PairRecipe:
        common, at = divmod(place, pairs)
        second = (1 + isqrt(1 + 8 * at)) // 2 if replaced else None  # of the pairs in order of their later record
        first = at if second is None else at - second * (second - 1) // 2
        return PairRecipe(
            common=None if common == count else common, first=first, second=second, shared=shared, group=group
        )

    total = pairs * commons
    chosen = np.random.default_rng(0).choice(total, most, replace=False) if total > most else np.arange(total)
    return [recipe(place) for place in np.sort(chosen).tolist()]

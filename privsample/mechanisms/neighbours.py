"""Pairs of neighbouring datasets that nearly attain an account; mechanisms offer them to audits."""

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
    """Two neighbouring datasets, and how to draw a mechanism's outputs on each of them.

    Parameters
    ----------
    account : Accountant or None
        The account of one draw, which an audit tries to refute. None if only the caller of the audit states a claim.
    descriptions : tuple of (str, str)
        Descriptions of the first and the second dataset, for the verdict.
    datasets : tuple of two functions
        Each takes no argument and builds one of the datasets, so that large datasets exist only while they are needed.
    draw : function of (data, count, rng)
        Makes `count` independent outputs on one dataset: an array whose first axis has length `count`.
    loss : function, optional
        The privacy loss in nats: the log density ratio of the first over the second dataset's output distribution, from
        outputs of shape (count, width) to (count,). None, the default, if it is not known: the audit then learns a
        score.
    width : int, default 1
        Number of numbers in one output, >= 1.

    Examples
    --------
    >>> import numpy as np, privsample as ps
    >>> case = ps.LaplaceMechanism(sensitivity=1, scale=2).worst_neighbours()[0]
    >>> case.descriptions
    ('a statistic of 0', 'a statistic of 1')
    >>> case.loss(np.array([[0.0], [1.0]])).tolist()
    [0.5, -0.5]
    >>> case.draw(case.datasets[0](), 5, np.random.default_rng(0)).shape
    (5,)
    """

    account: Accountant | None
    descriptions: tuple[str, str]
    datasets: tuple[Dataset, Dataset]
    draw: Draw
    loss: Loss | None = None
    width: int = 1


@frozen_value
class SumRecords:
    """Worst records of a mechanism that adds noise to a sum over the records, as its record format reads them.

    records: the record of all others, and the two records that change the sum most. contributions: what each of the
    three adds to the sum.
    """

    records: tuple[FloatArray, FloatArray, FloatArray]
    contributions: tuple[FloatArray, FloatArray, FloatArray]


def records_outside_group(group: int, n: int) -> int:
    """Number of the n records outside a group. Raises ValueError if group > n, or n is too large to simulate."""
    check_simulated(n)
    if group > n:
        raise ValueError(f"a group must be no larger than n = {n}, got {group}")
    return n - group


def check_simulated(size: int) -> None:
    """Raise ValueError if a dataset has too many records to simulate."""
    if size > MOST_RECORDS:
        raise ValueError(f"n = {size} records are too many to simulate; audit with n = {MOST_RECORDS} or fewer")


def public_size(relation: Relation | None) -> int | None:
    """The public number of records of a relation, or None."""
    return relation.n if isinstance(relation, ReplaceOne) else None


def copies(record: FloatArray, count: int) -> FloatArray:
    """`count` equal records, shape (count, ...)."""
    return np.broadcast_to(record, (count, *np.shape(record)))


def describe_records(count: int, record: FloatArray) -> str:
    """Description of `count` equal records; a record of several numbers is described by its signed L2 norm."""
    largest = float(np.abs(record).max()) or 1.0  # scaled first, because the square may overflow
    number = largest * np.linalg.norm(record / largest) * (np.sign(np.ravel(record)[0]) or 1)
    return f"{count:,} {'record' if count == 1 else 'records'} of {number:g}"


@frozen_value
class PairRecipe:
    """Two neighbouring datasets, by positions of their records in a list.

    The datasets have `shared` records in common and differ in `group` records.

    common: position of all common records; None repeats all records in turn. second: None if the second dataset lacks
    the group.
    """

    common: int | None
    first: int
    second: int | None
    shared: int
    group: int

    def places(self, side: int, count: int) -> NDArray[np.int64]:
        """Positions of the records of dataset `side` (0 or 1) in a list of `count` records."""
        common = np.arange(self.shared) % count if self.common is None else np.full(self.shared, self.common)
        own = (self.first, self.second)[side]
        return common if own is None else np.append(common, np.full(self.group, own))


def pair_recipes(count: int, relation: Relation, *, size: int | None, group: int, most: int) -> list[PairRecipe]:
    """The pairs of `neighbouring_pairs` for `count` records. Raises TypeError or ValueError."""
    replaced = isinstance(relation, ReplaceOne)
    if isinstance(relation, ReplaceOne):
        if size is not None:
            raise TypeError(f"size must be left out under ReplaceOne, where the relation states n = {relation.n}")
        n, pairs = relation.n, count * (count - 1) // 2
    elif isinstance(relation, AddRemove):
        if size is None:
            raise TypeError("size must be given under AddRemove: the number of records of the larger dataset")
        n, pairs = positive_integer(size=size), count
    else:
        raise TypeError(f"relation must be ReplaceOne or AddRemove, got {relation!r}")
    if not pairs:
        raise ValueError("records must hold at least two different records: one is replaced by the other")
    if group > n:
        raise ValueError(f"a group must be no larger than n = {n}, got {group}")
    shared = n - group
    commons = 1 if shared == 0 else count if min(count, shared) == 1 else count + 1

    def recipe(place: int) -> PairRecipe:
        common, at = divmod(place, pairs)
        second = (
            (1 + isqrt(1 + 8 * at)) // 2 if replaced else None
        )  # pairs are numbered in the order of their later record
        first = at if second is None else at - second * (second - 1) // 2
        return PairRecipe(
            common=None if common == count else common, first=first, second=second, shared=shared, group=group
        )

    total = pairs * commons
    chosen = np.random.default_rng(0).choice(total, most, replace=False) if total > most else np.arange(total)
    return [recipe(place) for place in np.sort(chosen).tolist()]

"""How one record becomes integers on a public grid, in a form that a database can compute."""

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from privsample._data import chunks
from privsample._value import frozen_value
from privsample.distributions.domains import Domain
from privsample.distributions.exact.grid import Grid
from privsample.distributions.exact.records import index_ends, index_sum
from privsample.distributions.models.base import Model

_LARGEST = 2**62  # products below it fit in 64 bits


@frozen_value
class RecordRule:
    """The integers of one record, as a formula: a tally is their sum over the records.

    A record x that is missing or not a number becomes `domain.missing`; any other is clipped to `domain.low` and
    `domain.high` (with `domain.outside_is_missing` it becomes `domain.missing`). Then q = round(x / pitch), half to
    even, is clipped to `first` and `last`. Of the kind "sum" a record adds q to one sum. Of the kind "codes" it adds 1
    to the sum number q of `last + 1` sums, and 0 to the others. Text is missing, unless it is one of `names`, whose
    place is its code; other text is the code -1, which lies outside the domain, and blank text is missing.

    Parameters
    ----------
    domain : Domain
        The bounds, and the number that replaces a missing one.
    pitch : float
        Distance of the grid points, a power of two, in the unit of the records; 1 for whole numbers.
    first, last : int
        The smallest and the largest q.
    kind : {"sum", "codes"}, default "sum"
        Whether q itself is added, or records are counted by q.
    names : tuple of str, default ()
        Public names of the codes in columns of text.

    Examples
    --------
    >>> import privsample as ps
    >>> rule = ps.LaplaceSum(bounds=(0, 1), scale=2, grid=0.5)._record_rule
    >>> rule.kind, rule.pitch, rule.first, rule.last
    ('sum', 0.5, 0, 2)
    """

    domain: Domain
    pitch: float
    first: int
    last: int
    kind: Literal["sum", "codes"] = "sum"
    names: tuple[str, ...] = ()

    def is_possible(self, sums: NDArray[Any], counts: NDArray[np.int64]) -> bool:
        """Whether so many records of each group can have these sums.

        Parameters
        ----------
        sums : numpy.ndarray of int
            The sums, shape (groups, k).
        counts : numpy.ndarray of int
            The numbers of records, shape (groups,).

        Returns
        -------
        bool
            False if the sums are not those of any records, so that the tally was altered.
        """
        if self.kind == "codes":
            return bool((sums >= 0).all() and (sums.sum(axis=1) == counts).all())
        if sums.shape[1] != 1:
            return True
        largest = max(abs(self.first), abs(self.last)) * int(counts.max(initial=0))
        number = counts if largest < _LARGEST else counts.astype(object)
        return bool((number * self.first <= sums[:, 0]).all() and (sums[:, 0] <= number * self.last).all())


def record_rule(model: Model, grid: Grid | None = None) -> RecordRule | None:
    """The rule of the statistic of a model of one column, on the grid; None if Python alone can compute it."""
    if model.records_are_codes:
        last, names = model.empty.size - 1, getattr(model, "names", ())
        return RecordRule(domain=model.domain, pitch=1.0, first=0, last=last, kind="codes", names=names)
    if type(model).statistic is not Model.statistic:
        return None
    return column_rule(model.domain, grid or model.statistic_grid())


def column_sums(domain: Domain, data: Any, grid: Grid) -> tuple[tuple[int], int]:
    """The sum of the grid's indices of a column of numbers, and the number of records. Raises SchemaError."""
    total, count = 0, 0
    for chunk in chunks(data):
        total, count = total + index_sum(domain, chunk, grid), count + len(chunk)
    return (total,), count


def column_rule(domain: Domain, grid: Grid | None) -> RecordRule | None:
    """The rule of the sum of a column, on the grid, or in whole numbers; None without a grid."""
    if domain.integer_valued:
        return RecordRule(domain=domain, pitch=1.0, first=int(domain.low), last=int(domain.high))
    if grid is None:
        return None
    first, last = index_ends(domain, grid)
    return RecordRule(domain=domain, pitch=grid.pitch, first=first, last=last)

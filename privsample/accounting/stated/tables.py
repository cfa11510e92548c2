"""Account of a stated table: the output distributions on two neighbours."""

from fractions import Fraction

import numpy as np
from numpy.typing import ArrayLike

from privsample._checks import FloatArray, positive_integer, real_array
from privsample._value import frozen_value, set_fields
from privsample.accounting.assumptions import Assumption
from privsample.accounting.engine.bounds import PrivacyBounds
from privsample.accounting.stated.base import (
    EXACT,
    STATED,
    StatedAccountant,
    bounds_of_tables,
    check_ordered,
    stated_bounds,
)
from privsample.accounting.stated.exact import Masses, normalize_masses
from privsample.accounting.stated.finite import rounded_table
from privsample.relations import AddRemove, Relation, related

_TOLERANCE = 1e-9


@frozen_value
class PairAccountant(StatedAccountant):
    """A mechanism whose worst neighbours have stated output distributions on a finite set.

    (p, q) dominates neighbours in one order and (q, p) in the other. The privacy curve, the Rényi curve, compositions,
    subsampling and selection use the table itself. An outcome with zero probability under only one of the two
    distributions has infinite privacy loss.

    Parameters
    ----------
    p, q : array of float, shape (outcomes,) or (pairs, outcomes)
        Output probabilities under one dataset and under its neighbour. With several rows, every two neighbours are
        dominated by one of the pairs. Zeros are allowed. A row whose sum is within 1e-9 of 1 is divided by its sum.
    relation : Relation, default AddRemove()
        Neighbouring relation of the guarantee.
    ordered : bool, optional
        Whether the relation determines which of two neighbours comes first. By default True under AddRemove: p belongs
        to the dataset that contains the record and q to the one that does not. By default False under other relations:
        composed releases may then be worst in different orders, for example two columns of one table, and all mixtures
        of orders are covered. Set it to True if all composed accounts agree on the order, as for several draws of one
        mechanism; the composition is then that of p against that of q.
    group_size : int, default 1
        Number of units in which neighbours differ, >= 1; set by `group`.
    assumptions : frozenset of Assumption, default {STATED}
        Assumptions of the guarantee.

    Raises
    ------
    ValueError
        For negative or NaN probabilities, rows that do not sum to 1, different shapes, or p and q without a common
        outcome.

    Notes
    -----
    The class checks that the rows are probabilities. It assumes (STATED) that they dominate every two neighbours.

    Source: Zhu, Dong and Wang 2022, Theorem 9 and Proposition 10; docs/notes/stated.md.

    Kind: exact for the stated table.

    Examples
    --------
    >>> import privsample as ps
    >>> account = ps.PairAccountant(p=[0.6, 0.4, 0.0], q=[0.3, 0.6, 0.1])
    >>> round(float(account.delta(0.0)), 6), round(float((6 * account).delta(0.0)), 6)
    (0.3, 0.650943)
    """

    p: FloatArray
    q: FloatArray
    relation: Relation = AddRemove()
    ordered: bool | None = None
    group_size: int = 1
    assumptions: frozenset[Assumption] = STATED

    def __post_init__(self) -> None:
        relation = related(self.relation)
        p, q = check_probabilities(p=self.p), check_probabilities(q=self.q)
        if p.shape != q.shape:
            raise ValueError(f"p and q must have one shape, got {p.shape} and {q.shape}")
        set_fields(self, p=p, q=q, relation=relation, ordered=check_ordered(self.ordered, relation))
        set_fields(self, group_size=positive_integer(group_size=self.group_size))
        self.bounds  # noqa: B018 - raises an error if there is no guarantee

    def _stated_bounds(self) -> PrivacyBounds:
        """The bounds of the tables, in exact arithmetic if they are small."""
        rows = list(zip(np.atleast_2d(self.p), np.atleast_2d(self.q), strict=True))
        if self.p.size <= EXACT:
            tables = [_exact(p, q) for p, q in rows]
            return bounds_of_tables(tables, ordered=bool(self.ordered), group_size=self.group_size)
        if self.group_size > 1:
            raise ValueError(f"group_size must be 1 for tables of more than {EXACT} outcomes; use account.group(size)")
        first = [rounded_table(p, q) for p, q in rows]
        return stated_bounds(first, [table.reverse() for table in first], ordered=bool(self.ordered))

    @property
    def source(self) -> str:
        """The theorem on dominating pairs."""
        return "Zhu, Dong and Wang 2022, Theorem 9 and Proposition 10 (dominating pairs)"

    @property
    def _outcomes(self) -> int:
        """The number of outcomes of all tables."""
        return int(self.p.size)


def _exact(p: FloatArray, q: FloatArray) -> Masses:
    """The normalised masses of one pair of rows in exact arithmetic."""
    return normalize_masses((Fraction(a), Fraction(b)) for a, b in zip(p.tolist(), q.tolist(), strict=True))


def check_probabilities(**named: ArrayLike) -> FloatArray:
    """Check rows of probabilities, shape (outcomes,) or (rows, outcomes), and return a copy. Raises ValueError."""
    ((name, _),) = named.items()
    result = real_array(**named).copy()
    if result.ndim not in (1, 2) or not result.size:
        raise ValueError(f"{name} must have shape (outcomes,) or (pairs, outcomes), got {result.shape}")
    if (wrong := ~((result >= 0.0) & np.isfinite(result))).any():
        raise ValueError(f"{name} must be probabilities, got {float(result[wrong][0])!r}")
    sums = np.atleast_2d(result).sum(axis=1)
    if (off := np.flatnonzero(~(np.abs(sums - 1.0) <= _TOLERANCE))).size:
        row = f" (row {int(off[0])})" if result.ndim == 2 else ""
        total = float(sums[off[0]])
        advice = "add an outcome with the missing probability" if total < 1.0 else "divide frequencies by their sum"
        raise ValueError(f"{name}{row} must sum to 1 within {_TOLERANCE:g}, got {total:.12g}; {advice}")
    result.flags.writeable = False
    return result

"""An account of a table: the output distributions on two neighbours."""

from fractions import Fraction

import numpy as np
from numpy.typing import ArrayLike

from privsample._checks import FloatArray, positive_integer, real_array
from privsample._value import frozen_value, set_fields
from privsample.accounting.assumptions import Assumption
from privsample.accounting.engine.bounds import PrivacyBounds
from privsample.accounting.stated.base import EXACT, STATED, StatedAccountant, bounds_of_tables, in_order, stated_bounds
from privsample.accounting.stated.exact import Masses, normalised
from privsample.accounting.stated.finite import rounded_table
from privsample.relations import AddRemove, Relation, related

_TOLERANCE = 1e-9


@frozen_value
class PairAccountant(StatedAccountant):
    """Cost of a mechanism whose worst neighbours have the output distributions p and q, on one finite set.

    (p, q) dominates neighbours in one order and (q, p) in the other. The privacy curve, the Rényi curve, compositions,
    subsamples and the best of several runs are those of the table itself. An outcome that p has and q lacks, or the
    reverse, has an infinite privacy loss.

    Parameters
    ----------
    p, q : array of probabilities, shape (outcomes,) or (pairs, outcomes)
        Output probabilities under one dataset and under its neighbour. Several rows are several pairs: every two
        neighbours are bounded by one of them. Zeros are allowed on either side. A row whose sum is within 1e-9 of
        one is divided by its sum.
    relation : AddRemove, ReplaceOne or ProfileEdge, default AddRemove()
        Which datasets are neighbours.
    ordered : bool, optional
        Whether the relation tells which of two neighbours comes first. True under AddRemove unless said otherwise: p
        belongs to the dataset that holds the record, q to the one that lacks it. False under other relations unless
        said otherwise: releases that are composed may then be worst in different orders, two columns of one table for
        example, and all mixtures of orders are covered. Set it to True where all accounts that are composed agree on
        the order, as for several draws of one mechanism: the composition is then that of p against that of q.
    group_size : int, default 1
        By how many units neighbours differ; set by `group`.
    assumptions : frozenset of Assumption, default {STATED}
        What the account takes for granted.

    Raises
    ------
    ValueError
        For negative or NaN probabilities, rows that do not add up to one, different shapes, or p and q that have no
        outcome in common.

    Notes
    -----
    Checked: that the rows are probabilities. Taken on trust (STATED): that they dominate every two neighbours.

    Source: Zhu, Dong and Wang 2022, Theorem 9 and Proposition 10; docs/notes/stated.md. Kind: exact.

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
        p, q = probabilities(p=self.p), probabilities(q=self.q)
        if p.shape != q.shape:
            raise ValueError(f"p and q must have one shape, got {p.shape} and {q.shape}")
        set_fields(self, p=p, q=q, relation=relation, ordered=in_order(self.ordered, relation))
        set_fields(self, group_size=positive_integer(group_size=self.group_size))
        self.bounds  # noqa: B018 - building them refuses what promises nothing

    def _stated_bounds(self) -> PrivacyBounds:
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
        """The theorem that a table's numbers rest on."""
        return "Zhu, Dong and Wang 2022, Theorem 9 and Proposition 10 (dominating pairs)"

    @property
    def _outcomes(self) -> int:
        return int(self.p.size)


def _exact(p: FloatArray, q: FloatArray) -> Masses:
    return normalised((Fraction(a), Fraction(b)) for a, b in zip(p.tolist(), q.tolist(), strict=True))


def probabilities(**named: ArrayLike) -> FloatArray:
    """Rows of probabilities, read-only: shape (outcomes,) or (rows, outcomes). Raises: ValueError."""
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
        advice = "add an outcome for what is missing" if total < 1.0 else "divide frequencies by their sum"
        raise ValueError(f"{name}{row} must add up to one within {_TOLERANCE:g}, got {total:.12g}; {advice}")
    result.flags.writeable = False
    return result

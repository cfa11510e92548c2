"""Sensitivity of a statistic to one record: the extreme differences between the statistics of two neighbours."""

from dataclasses import replace

import numpy as np

from privsample._checks import FloatArray, flag, number, positive_integer, real_array
from privsample._value import frozen_value, set_fields


@frozen_value
class RecordSensitivity:
    """Largest changes of a statistic when one record is replaced by another.

    The set of all differences S(x) - S(x') over records x and x' is described up to signs and up to the order of the
    coordinates, since the noise is symmetric and has the same distribution on all coordinates.

    Parameters
    ----------
    differences : array of shape (rows, coordinates)
        Finite rows, none of them zero, in units of the statistic. Every difference of two records, after changes of
        signs and a permutation of coordinates, is a convex combination of these rows; if `integer_valued`, it is
        coordinatewise at most one of them. Stored without signs and zero columns, each row in descending order, without
        rows that another row dominates.
    integer_valued : bool, default False
        True if all coordinates of the statistic are integers.
    tight : bool, default True
        True if some pair of records attains each row; False if the rows are only an upper bound.
    l2 : float, default inf
        Upper bound on the L2 norm of every difference, > 0. The norm of the longest row is used where it is smaller.

    Raises
    ------
    TypeError
        If a field has the wrong type.
    ValueError
        If a row is zero or not finite, if a row of an integer-valued statistic has other numbers, or if `l2` is not >
        0.

    Notes
    -----
    Source: docs/notes/statistics.md. Kind: exact if `tight`, otherwise upper bound.

    Examples
    --------
    Replacing one record of a histogram lowers one count by 1 and raises another by 1:

    >>> import privsample as ps
    >>> move = ps.RecordSensitivity(differences=[[-1, 1, 0]], integer_valued=True)
    >>> move.differences
    array([[1., 1.]])
    >>> print(f"{move.l2:.3f}")
    1.414
    """

    differences: FloatArray
    integer_valued: bool = False
    tight: bool = True
    l2: float = np.inf

    def __post_init__(self) -> None:
        given = np.abs(real_array(differences=self.differences))
        set_fields(self, integer_valued=flag(integer_valued=self.integer_valued), tight=flag(tight=self.tight))
        if given.ndim != 2 or given.size == 0 or not np.isfinite(given).all() or not given.any(axis=1).all():
            raise ValueError(
                "differences must be finite rows, none of them zero, of shape (rows, coordinates), got "
                f"{given.tolist() if given.size < 9 else given.shape}"
            )
        if self.integer_valued and (given != np.rint(given)).any():
            raise ValueError("differences of an integer-valued statistic must be whole numbers")
        rows = np.unique(-np.sort(-given, axis=1), axis=0)
        # np.unique sorts rows lexicographically, so only a later row can dominate an earlier one.
        dominated = [any((row <= other).all() for other in rows[i + 1 :]) for i, row in enumerate(rows)]
        kept = rows[~np.array(dominated)]
        kept = np.ascontiguousarray(kept[:, kept.any(axis=0)])
        kept.flags.writeable = False
        set_fields(self, differences=kept, integer_valued=bool(self.integer_valued), tight=bool(self.tight))
        if not number(l2=self.l2) > 0:
            raise ValueError(f"l2 must be > 0, got {self.l2}")
        # The largest entry is divided out first, so that squares neither overflow nor underflow.
        longest = kept.max() * np.linalg.norm(kept / kept.max(), axis=1).max()
        set_fields(self, l2=min(float(self.l2), float(longest)))

    def __mul__(self, times: int) -> "RecordSensitivity":
        """The sensitivity to `times` records that are replaced together, times >= 1."""
        times = positive_integer(times=times)
        return replace(self, differences=times * self.differences, l2=times * self.l2)

    __rmul__ = __mul__

    def for_features(self, features: int) -> "RecordSensitivity":
        """The sensitivity of a statistic that concatenates one such statistic for each feature of a record.

        Parameters
        ----------
        features : int
            Number of features, >= 1.

        Returns
        -------
        RecordSensitivity
            The rows repeated `features` times, and `l2` multiplied by sqrt(features).

        Raises
        ------
        ValueError
            If there are several rows and several features: their combinations must then be listed explicitly.
        """
        rows = np.tile(self.differences, (1, positive_integer(features=features)))
        l2 = features**0.5 * self.l2
        if len(rows) > 1 and features > 1:
            raise ValueError("only a single difference can be repeated: list the combinations of several")
        return replace(self, differences=rows, l2=l2)


def scalar_sensitivity(max_change: float, *, integer_valued: bool) -> RecordSensitivity:
    """The sensitivity of a statistic of one coordinate that changes by at most `max_change`."""
    return RecordSensitivity(differences=np.array([[max_change]]), integer_valued=integer_valued)


ONE_HOT = RecordSensitivity(differences=np.array([[1.0, 1.0]]), integer_valued=True)

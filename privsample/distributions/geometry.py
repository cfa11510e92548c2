"""How far one record can move a statistic: the extreme differences of two neighbours."""

from dataclasses import replace

import numpy as np

from privsample._checks import FloatArray, flag, number, positive_integer, real_array
from privsample._value import frozen_value, set_fields


@frozen_value
class RecordSensitivity:
    """S(x) - S(x') over all records x and x', up to signs and places: noise is symmetric and alike on all coordinates.

    Every difference, with signs and places changed, is a convex combination of the rows of `vectors`, shape
    (vectors, coordinates). With `whole` the statistic has whole coordinates only, and each difference is, coordinate
    by coordinate, at most one of the rows. `attained`: whether neighbours exist at every row, or rows bound them.
    No difference is longer than `length` in L2 norm, which the longest row gives if nothing shorter is known.
    Rows are held without signs and zeros, each in falling order, none that another covers.
    """

    vectors: FloatArray
    whole: bool = False
    attained: bool = True
    length: float = np.inf

    def __post_init__(self) -> None:
        given = np.abs(real_array(vectors=self.vectors))
        set_fields(self, whole=flag(whole=self.whole), attained=flag(attained=self.attained))
        if given.ndim != 2 or given.size == 0 or not np.isfinite(given).all() or not given.any(axis=1).all():
            raise ValueError(
                "vectors must be finite differences, none of them zero, of shape (vectors, coordinates), got "
                f"{given.tolist() if given.size < 9 else given.shape}"
            )
        if self.whole and (given != np.rint(given)).any():
            raise ValueError("vectors of a whole statistic must be whole numbers")
        rows = np.unique(-np.sort(-given, axis=1), axis=0)
        covered = [any((row <= other).all() for other in rows[i + 1 :]) for i, row in enumerate(rows)]
        kept = rows[~np.array(covered)]
        kept = np.ascontiguousarray(kept[:, kept.any(axis=0)])
        kept.flags.writeable = False
        set_fields(self, vectors=kept, whole=bool(self.whole), attained=bool(self.attained))
        if not number(length=self.length) > 0:
            raise ValueError(f"length must be > 0, got {self.length}")
        longest = kept.max() * np.linalg.norm(kept / kept.max(), axis=1).max()  # squares neither overflow nor vanish
        set_fields(self, length=min(float(self.length), float(longest)))

    def __mul__(self, times: int) -> "RecordSensitivity":
        """What so many records can do together."""
        times = positive_integer(times=times)
        return replace(self, vectors=times * self.vectors, length=times * self.length)

    __rmul__ = __mul__

    def repeated(self, features: int) -> "RecordSensitivity":
        """Of a record with so many features, each of which moves its own part of the statistic like this."""
        rows = np.tile(self.vectors, (1, positive_integer(features=features)))
        length = features**0.5 * self.length
        if len(rows) > 1 and features > 1:
            raise ValueError("only a single difference can be repeated: list the combinations of several")
        return replace(self, vectors=rows, length=length)


def one_number(reach: float, *, whole: bool) -> RecordSensitivity:
    """A statistic of one coordinate that moves by at most `reach`."""
    return RecordSensitivity(vectors=np.array([[reach]]), whole=whole)


ONE_HOT = RecordSensitivity(vectors=np.array([[1.0, 1.0]]), whole=True)

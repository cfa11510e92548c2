"""Domains of records: which values are valid, and the public rule that maps every other value to a valid one."""

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privsample._data import text_mask
from privsample._value import frozen_value

_LOST = 1e-6  # rounding error of a sum relative to the change by one record
_ROUNDING, _SINGLE_ROUNDING = 1e-12, 1e-6  # relative to the larger bound: smaller changes are not reported
_EPS = float(np.finfo(np.float64).eps)


@frozen_value
class Domain:
    """Numbers in [low, high], restricted to integers if `integer_valued`.

    The public rule maps every input into the domain. A missing value becomes `missing`. A value outside becomes the
    nearer bound, or `missing` if `outside_is_missing`. If `integer_valued`, values are rounded to the nearest integer,
    half to even.

    Parameters
    ----------
    low, high : float
        The smallest and the largest valid number.
    missing : float
        The value that replaces a missing value.
    integer_valued : bool, default False
        True if only integers are valid.
    outside_is_missing : bool, default False
        True if a number outside [low, high] is treated as missing; False if it becomes the nearer bound.

    Examples
    --------
    >>> import numpy as np
    >>> import privsample as ps
    >>> ps.Domain(low=0, high=10, missing=5).clean(np.array([3.0, np.nan, 12.0]))
    array([ 3.,  5., 10.])
    """

    low: float
    high: float
    missing: float
    integer_valued: bool = False
    outside_is_missing: bool = False

    @property
    def description(self) -> str:
        """A description of the domain, such as "numbers from 0 to 10"."""
        if self.integer_valued and self.high - self.low == 1:
            return f"{self.low:g} or {self.high:g}"
        return f"{'whole numbers' if self.integer_valued else 'numbers'} from {self.low:g} to {self.high:g}"

    def check_summable(self, count: int, max_change: float) -> None:
        """Check that the sum of `count` numbers of this domain neither overflows nor loses single records to rounding.

        Parameters
        ----------
        count : int
            Largest number of records, >= 0.
        max_change : float
            Largest change of the sum by one record, > 0.

        Raises
        ------
        ValueError
            If the sum could overflow, or if rounding could change it by more than 1e-6 of `max_change`.
        """
        far = max(abs(self.low), abs(self.high))
        if not count * far < np.inf:
            raise ValueError(f"the sum of {self.description} would overflow for {count:,} records; use a smaller unit")
        if far > max_change and not count * far * _EPS <= _LOST * max_change:
            raise ValueError(
                f"{self.description} lie so far from 0 that rounding would change the sum of {count:,} records about "
                f"as much as one record; subtract a public number near {self.low:g} from column and bounds first"
            )

    def clean(self, chunk: NDArray[Any]) -> NDArray[Any]:
        """Map numbers into the domain by the public rule.

        Parameters
        ----------
        chunk : array of shape (k,)
            Real numbers of any NumPy type; a missing value is NaN.

        Returns
        -------
        array of shape (k,)
            Numbers in the domain; the input itself where nothing has to change.
        """
        if chunk.size == 0:
            return chunk
        if chunk.dtype.kind == "f" and chunk.dtype != np.float64:  # a narrower type would round the bounds
            with np.errstate(over="ignore"):
                chunk = chunk.astype(np.float64)
        inside = bool(chunk.min() >= self.low and chunk.max() <= self.high)  # False where there is a NaN
        if not inside:
            chunk = chunk.astype(np.float64)
            if self.outside_is_missing:
                chunk = np.where((chunk >= self.low) & (chunk <= self.high), chunk, self.missing)
            chunk = np.clip(np.where(np.isnan(chunk), self.missing, chunk), self.low, self.high)
        return np.rint(chunk) if self.integer_valued and chunk.dtype.kind == "f" else chunk

    def count_problems(self, chunks: Iterable[NDArray[Any]]) -> dict[str, int]:
        """Count the values of all chunks that the public rule changes, by reason.

        Parameters
        ----------
        chunks : iterable of arrays
            Real numbers; a missing value is NaN.

        Returns
        -------
        dict of str to int
            The counts of the reasons that occur. They depend on the data and are for the curator only.
        """
        total: dict[str, int] = {}
        for chunk in chunks:
            for reason, found in self.problems(chunk).items():
                total[reason] = total.get(reason, 0) + found
        return {reason: found for reason, found in total.items() if found}

    def outside(self, chunk: NDArray[Any]) -> NDArray[np.bool_]:
        """Which values lie outside [low, high].

        Parameters
        ----------
        chunk : array
            Real numbers; a missing value is NaN.

        Returns
        -------
        array of bool
            Shape of `chunk`. Unless `outside_is_missing`, values beyond a bound by no more than rounding are unmarked.
        """
        slack = 0.0 if self.outside_is_missing else self._slack(chunk)
        numbers = chunk.astype(np.float64)
        return ~np.isnan(numbers) & ~((numbers >= self.low - slack) & (numbers <= self.high + slack))

    def _slack(self, chunk: NDArray[Any]) -> float:
        """The largest distance beyond a bound that is attributed to rounding."""
        single = chunk.dtype.kind == "f" and chunk.dtype.itemsize < 8
        return (_SINGLE_ROUNDING if single else _ROUNDING) * max(abs(self.low), abs(self.high))

    def problems(self, chunk: NDArray[Any]) -> dict[str, int]:
        """Count the values of one chunk that the public rule changes by more than rounding, by reason.

        Parameters
        ----------
        chunk : array
            Real numbers; a missing value is NaN.

        Returns
        -------
        dict of str to int
            The count of each reason. The counts depend on the data and are for the curator only.
        """
        return {reason: int(found.sum()) for reason, found in self.problem_masks(chunk).items()}

    def problem_masks(self, chunk: NDArray[Any]) -> dict[str, NDArray[np.bool_]]:
        """Which values of one chunk the public rule changes by more than rounding, by reason.

        A value within rounding of a bound or of a whole number, as a scaler produces it, is not marked. If
        `outside_is_missing`, every value outside is marked.

        Parameters
        ----------
        chunk : array
            Real numbers; a missing value is NaN.

        Returns
        -------
        dict of str to array of bool
            Masks of the shape of `chunk`; a value is marked for at most one reason. For the curator only.
        """
        slack, outside = self._slack(chunk), self.outside(chunk)
        chunk = chunk.astype(np.float64)
        lost, text = np.isnan(chunk), text_mask(chunk)
        fractional = np.zeros_like(lost)
        if self.integer_valued:
            held = ~lost & ~outside
            fractional[held] = np.abs(chunk[held] - np.rint(chunk[held])) > min(slack, _SINGLE_ROUNDING)
        return {"missing": lost & ~text, "text": text, "outside": outside, "fractional": fractional}

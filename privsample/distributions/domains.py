"""Public rules for records: what a value may be, and where every other value goes."""

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privsample._data import text_mask
from privsample._value import frozen_value

_LOST = 1e-6  # of what one record moves: what rounding may take of a sum
_ROUNDING, _SINGLE_ROUNDING = 1e-12, 1e-6  # of the larger bound: what is moved by less is not reported
_EPS = float(np.finfo(np.float64).eps)


@frozen_value
class Domain:
    """Numbers in [low, high], whole ones only if `whole`.

    The public rule, total on every input: a missing value becomes `missing`; a value outside becomes the nearer bound,
    or `missing` too if `outside_is_missing`; what should be whole is rounded to the nearest whole number, half to even.

    Parameters
    ----------
    low, high : float
        The least and the largest number.
    missing : float
        What a missing value counts as.
    whole : bool, default False
        Whether only whole numbers belong to it.
    outside_is_missing : bool, default False
        Whether a number outside counts as missing; by default it becomes the nearer of low and high.

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
    whole: bool = False
    outside_is_missing: bool = False

    @property
    def words(self) -> str:
        """The domain in words."""
        if self.whole and self.high - self.low == 1:
            return f"{self.low:g} or {self.high:g}"
        return f"{'whole numbers' if self.whole else 'numbers'} from {self.low:g} to {self.high:g}"

    def check_summable(self, count: int, moved: float) -> None:
        """Refuse sums of `count` numbers that overflow, or lie so far from 0 that a float does not tell records apart.

        moved: how far one record can move the sum. Raises: ValueError.
        """
        far = max(abs(self.low), abs(self.high))
        if not count * far < np.inf:
            raise ValueError(f"the sum of {self.words} would overflow for {count:,} records; take a smaller unit")
        if far > moved and not count * far * _EPS <= _LOST * moved:
            raise ValueError(
                f"{self.words} lie so far from 0 that rounding would move the sum of {count:,} records about as much "
                f"as one record; take a public number near {self.low:g} off the column and the bounds first"
            )

    def clean(self, chunk: NDArray[Any]) -> NDArray[Any]:
        """Map a chunk of real numbers, shape (k,), into the domain; untouched where nothing has to move."""
        if chunk.size == 0:
            return chunk
        if chunk.dtype.kind == "f" and chunk.dtype != np.float64:  # a narrower type would narrow the bounds
            with np.errstate(over="ignore"):
                chunk = chunk.astype(np.float64)
        inside = bool(chunk.min() >= self.low and chunk.max() <= self.high)  # False where there is a NaN
        if not inside:
            chunk = chunk.astype(np.float64)
            if self.outside_is_missing:
                chunk = np.where((chunk >= self.low) & (chunk <= self.high), chunk, self.missing)
            chunk = np.clip(np.where(np.isnan(chunk), self.missing, chunk), self.low, self.high)
        return np.rint(chunk) if self.whole and chunk.dtype.kind == "f" else chunk

    def count_problems(self, chunks: Iterable[NDArray[Any]]) -> dict[str, int]:
        """The problems of all chunks together; only those that occur."""
        total: dict[str, int] = {}
        for chunk in chunks:
            for reason, found in self.problems(chunk).items():
                total[reason] = total.get(reason, 0) + found
        return {reason: found for reason, found in total.items() if found}

    def outside(self, chunk: NDArray[Any]) -> NDArray[np.bool_]:
        """Which values lie outside, by more than rounding where they are moved to the nearer end; shape of chunk."""
        slack = 0.0 if self.outside_is_missing else self._slack(chunk)
        numbers = chunk.astype(np.float64)
        return ~np.isnan(numbers) & ~((numbers >= self.low - slack) & (numbers <= self.high + slack))

    def _slack(self, chunk: NDArray[Any]) -> float:
        single = chunk.dtype.kind == "f" and chunk.dtype.itemsize < 8
        return (_SINGLE_ROUNDING if single else _ROUNDING) * max(abs(self.low), abs(self.high))

    def problems(self, chunk: NDArray[Any]) -> dict[str, int]:
        """How many values of the chunk the rule would move, by reason, beyond rounding. For the curator's eyes only."""
        return {reason: int(found.sum()) for reason, found in self.problem_masks(chunk).items()}

    def problem_masks(self, chunk: NDArray[Any]) -> dict[str, NDArray[np.bool_]]:
        """Which values of the chunk the rule would move, by reason: each has one. For the curator's eyes only.

        What a scaler leaves some ulps beyond a bound, or beside a whole number, is moved there and not marked; where
        `outside_is_missing`, every value outside is.
        """
        slack, outside = self._slack(chunk), self.outside(chunk)
        chunk = chunk.astype(np.float64)
        lost, text = np.isnan(chunk), text_mask(chunk)
        fractional = np.zeros_like(lost)
        if self.whole:
            held = ~lost & ~outside
            fractional[held] = np.abs(chunk[held] - np.rint(chunk[held])) > min(slack, _SINGLE_ROUNDING)
        return {"missing": lost & ~text, "text": text, "outside": outside, "fractional": fractional}

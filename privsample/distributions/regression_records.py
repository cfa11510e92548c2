"""Records of a regression, read block by block in every pass: arrays in memory or mapped from a file, and chunks."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privsample._checks import FloatArray
from privsample._data import chunks
from privsample._value import frozen_value
from privsample.distributions.rows import table, within_norm
from privsample.errors import SchemaError

_EPS = float(np.finfo(np.float64).eps)
_SINGLE = 2.0**-20  # of the norm: rows in single precision stay within it after their factor is rounded
_LARGE, _SMALL = 1e100, 1e-100  # squares of numbers between these neither overflow nor vanish
# In single precision, products with larger entries might overflow, and the factors of longer rows lose digits.
_LARGE_SINGLE = 1e30
_LEAST_NORM_SINGLE, _MOST_NORM_SINGLE = 1e-18, 1e12  # outside of these limits rows are read in double precision
_CELLS = 1 << 17  # numbers of a block: it stays in the processor's cache
_PAIR = "data must be a pair (rows, targets), or a function that returns an iterator of such pairs"

_END = object()

Source = Callable[[], Iterator[Any]]


@frozen_value
class Block:
    """Some records after the public rule: their rows are `rows` times `factors`, shape (k, features) and (k,).

    lengths: the L2 norms of the rows after the rule, shape (k,). `factors` is None if all are 1.
    """

    rows: NDArray[Any]
    factors: NDArray[Any] | None
    lengths: FloatArray
    targets: FloatArray


class RegressionRecords(ABC):
    """Records of a regression that can be read any number of times."""

    __slots__ = ()

    @abstractmethod
    def blocks(self, scores: int) -> Iterator[Block]:
        """One pass over the records, in blocks small enough for `scores` numbers a record."""


@frozen_value
class ArrayRecords(RegressionRecords):
    """Records in one array, which is not copied.

    `unfit` says which rows hold numbers that are not finite or whose products might overflow; they are replaced, in a
    copy of their block, when they are read.
    """

    rows: NDArray[Any]
    norm: float
    factors: FloatArray | None
    lengths: FloatArray
    unfit: NDArray[np.bool_] | None
    targets: FloatArray

    @classmethod
    def prepare(cls, rows: NDArray[Any], targets: FloatArray, norm: float) -> "ArrayRecords":
        """The factors and lengths of all rows by the public rule of `within_norm`, in one pass."""
        n = len(rows)
        factors, lengths, unfit = np.ones(n), np.empty(n), np.zeros(n, dtype=bool)
        if rows.dtype == np.float32 and not _LEAST_NORM_SINGLE <= norm <= _MOST_NORM_SINGLE:
            rows = rows.astype(np.float64)
        single = rows.dtype == np.float32
        limit = norm * (1.0 - (rows.shape[1] / 4 + 8) * _EPS - (_SINGLE if single else 0.0))
        large = _LARGE_SINGLE if single else _LARGE
        size = max(1, _CELLS // rows.shape[1])
        for start in range(0, n, size):
            part = slice(start, start + size)
            block = np.asarray(rows[part], dtype=np.float64)
            with np.errstate(over="ignore", invalid="ignore"):
                squares = np.einsum("ij,ij->i", block, block)
            plain = (squares < large) & (squares > _SMALL) if norm > _SMALL else np.zeros(len(block), dtype=bool)
            lengths[part] = np.sqrt(np.where(plain, squares, 0.0))
            odd = np.flatnonzero(~plain)
            odd = odd[(block[odd] != 0.0).any(axis=1)]
            if len(odd):
                unfit[start + odd] = True
                cleaned = within_norm(block[odd], norm)
                largest = np.maximum(np.abs(cleaned).max(axis=1, initial=0.0), np.finfo(np.float64).tiny)
                own = np.sqrt(((cleaned / largest[:, None]) ** 2).sum(axis=1)) * largest
                lengths[start + odd] = np.minimum(own, limit)
        long = lengths > limit
        factors[long] = limit / lengths[long]
        return cls(
            rows=rows,
            norm=norm,
            factors=factors if long.any() else None,
            # Lengths in single precision are rounded up, so that clipped slopes have room for the rounding of products.
            lengths=np.minimum(lengths, limit) * (1.0 + (_SINGLE if single else 0.0)),
            unfit=unfit if unfit.any() else None,
            targets=targets,
        )

    def blocks(self, scores: int) -> Iterator[Block]:
        """One pass over the array."""
        size = max(1, _CELLS // max(scores, self.rows.shape[1]))
        for start in range(0, len(self.rows), size):
            part = slice(start, start + size)
            rows = np.asarray(self.rows[part])
            if self.unfit is not None and self.unfit[part].any():
                odd = self.unfit[part]
                within = self.norm * (1.0 - (_SINGLE if rows.dtype == np.float32 else 0.0))
                rows = rows.copy()  # in the same precision, so that one row changes no product of the others
                rows[odd] = within_norm(rows[odd].astype(np.float64), within)
            yield Block(
                rows=rows,
                factors=None if self.factors is None else self.factors[part],
                lengths=self.lengths[part],
                targets=self.targets[part],
            )


@frozen_value
class ChunkRecords(RegressionRecords):
    """Records that a function yields anew in every pass, in chunks (rows, targets)."""

    source: Source
    features: int
    norm: float
    clean_targets: Callable[[FloatArray], FloatArray]
    count: int

    def blocks(self, scores: int) -> Iterator[Block]:
        """One pass over the chunks. Raises SchemaError if their number of records differs from the first pass."""
        seen = 0
        for rows, targets in read_chunks(self.source, self.features):
            seen += len(rows)
            yield from ArrayRecords.prepare(rows, self.clean_targets(targets), self.norm).blocks(scores)
        if seen != self.count:
            raise SchemaError("data must yield the same records in every pass, but the number of records changed")


def regression_records(
    data: Any, features: int, norm: float, clean_targets: Callable[[FloatArray], FloatArray]
) -> tuple[RegressionRecords, int, int]:
    """The records of a pair (rows, targets), or of a function that yields such pairs; and their numbers.

    The second and third result are the number of rows and of targets. Raises SchemaError.
    """
    if callable(data):
        counts = [len(rows) for rows, _ in read_chunks(data, features)]
        count = sum(counts)
        records = ChunkRecords(source=data, features=features, norm=norm, clean_targets=clean_targets, count=count)
        return records, count, count
    rows, targets = read_pair(data, features)
    count = min(len(rows), len(targets))
    return (
        ArrayRecords.prepare(rows[:count], clean_targets(targets[:count]), norm),
        len(rows),
        len(targets),
    )


def read_chunks(source: Source, features: int) -> Iterator[tuple[NDArray[Any], FloatArray]]:
    """One pass over the chunks of a function, rows and targets as numbers. Raises SchemaError."""
    try:
        found = iter(source())
    except Exception:  # noqa: BLE001 - the message could show a record
        raise SchemaError(f"{_PAIR}, which can be called once for each pass without arguments") from None
    while True:
        try:
            chunk = next(found, _END)
        except Exception:  # noqa: BLE001
            raise SchemaError(f"{_PAIR}; the iterator raised an error") from None
        if chunk is _END:
            return
        rows, targets = read_pair(chunk, features)
        if len(rows) != len(targets):
            raise SchemaError("each chunk must hold one target for each row")
        yield rows, targets


def read_pair(data: Any, features: int) -> tuple[NDArray[Any], FloatArray]:
    """The rows and targets of a pair; an array of floats in native byte order is not copied. Raises SchemaError."""
    if not (isinstance(data, (tuple, list)) and len(data) == 2):
        raise SchemaError(f"{_PAIR}: rows of shape (n, features), targets of shape (n,)")
    rows = data[0]
    plain = isinstance(rows, np.ndarray) and not isinstance(rows, np.ma.MaskedArray)
    if not (plain and rows.dtype in (np.float32, np.float64) and rows.ndim == 2 and rows.shape[1] == features):
        rows = table(rows, features)
    return rows, np.concatenate([np.empty(0), *chunks(data[1])])

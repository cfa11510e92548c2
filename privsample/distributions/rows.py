"""Conversion of data to rows of numbers, and the public rule that bounds their L2 norm."""

from typing import Any

import numpy as np

from privsample._checks import FloatArray
from privsample._data import as_float, chunks, readable_dtype
from privsample.errors import SchemaError

NORM_TOLERANCE = 1e-6  # of the report only: rounding in single precision lengthens a normalized row by some 1e-7
_EPS = float(np.finfo(np.float64).eps)


def matrix(data: Any, *, rule: str | None = None) -> FloatArray:
    """Rows as floats, shape (n, width); a masked or non-numeric entry becomes NaN.

    Raises SchemaError, which states `rule` for data with another number of axes.
    """
    try:
        if isinstance(data, (list, tuple)):  # entry by entry: NumPy would convert a list with one string to strings
            rows = np.array([[as_float(item) for item in row] for row in data])
        else:
            rows = np.asarray(data)
    except Exception:  # noqa: BLE001 - the message could show a record
        raise SchemaError("the rows must be an array of real numbers") from None
    if rows.dtype.kind == "O":
        rows = np.array([as_float(item) for item in rows.ravel()], dtype=np.float64).reshape(rows.shape)
    if rows.dtype.kind == "c":
        raise SchemaError("Complex data not supported: the rows must be an array of real numbers")
    if rows.dtype.kind not in "biuf":
        raise SchemaError(f"the rows must be an array of real numbers, got {readable_dtype(rows.dtype)}")
    if rows.ndim != 2:
        default = f"the rows must have shape (n, width), got {rows.shape}; for one number each, (n, 1)"
        raise SchemaError(f"{rule}, got shape {rows.shape}" if rule else default)
    hidden = data.mask if isinstance(data, np.ma.MaskedArray) else False
    with np.errstate(over="ignore"):
        return np.where(hidden, np.nan, rows.astype(np.float64))


def table(data: Any, width: int, *, rule: str | None = None) -> FloatArray:
    """Rows as floats with a public width, as `matrix` returns them. Raises SchemaError, with `rule` if it is given."""
    if isinstance(data, (list, tuple)) and not data:  # no records, whose width cannot be read
        return np.empty((0, width))
    rows = matrix(data, rule=rule)
    if rows.shape[1] != width:
        default = f"the rows must have shape (n, {width}), got {rows.shape}"
        raise SchemaError(f"{rule}, got shape {rows.shape}" if rule else default)
    return rows


def labelled(data: Any, width: int, n: int) -> tuple[FloatArray, FloatArray]:
    """The rows and labels of a pair that holds n records, as `labelled_rows` reads them. Raises SchemaError."""
    rows, labels = _both(data, width)
    for words, count in (("rows", len(rows)), ("labels", len(labels))):
        if count != n:
            raise SchemaError(f"n = {n} records were declared, the data hold {count} {words}")
    return rows, labels


def labelled_rows(data: Any, width: int) -> tuple[FloatArray, FloatArray]:
    """Rows, shape (n, width), and one number for each, shape (n,), of a pair; what is no number is NaN.

    Raises: SchemaError.
    """
    rows, labels = _both(data, width)
    if len(rows) != len(labels):
        raise SchemaError(f"data must hold one label for each row, got {len(rows)} rows and {len(labels)} labels")
    return rows, labels


def _both(data: Any, width: int) -> tuple[FloatArray, FloatArray]:
    if not (isinstance(data, (tuple, list)) and len(data) == 2):
        raise SchemaError("data must be a pair (rows, labels): rows of shape (n, features), labels of shape (n,)")
    return table(data[0], width), np.concatenate([np.empty(0), *chunks(data[1])])


def within_norm(rows: FloatArray, norm: float) -> FloatArray:
    """Replace non-finite entries by 0, and scale rows longer than `norm` down to that L2 norm.

    No returned row is longer than `norm`, not even by an ulp. The computed length has a relative error of at most
    (width/4 + 3) eps for any order of summation, and scaling adds 2 eps. Rows are therefore compared with, and scaled
    to, `norm` less this error, so that accounts need no allowance for rounding.
    """
    finite = np.where(np.isfinite(rows), rows, 0.0)
    largest = np.max(np.abs(finite), axis=1, initial=np.finfo(np.float64).tiny)[:, None]
    scaled = finite / largest  # squares neither overflow nor vanish
    length = np.sqrt((scaled * scaled).sum(axis=1, keepdims=True))
    limit = norm * (1.0 - (rows.shape[1] / 4 + 8) * _EPS)
    with np.errstate(over="ignore"):
        too_long = length > limit / largest
    return np.where(too_long, scaled / np.maximum(length, 1.0) * limit, finite)


def count_clipped_rows(rows: FloatArray, norm: float) -> dict[str, int]:
    """Count the rows that the rule changes by more than rounding, by reason. For the curator only.

    A row counts as scaled down if it is longer than `norm` by more than one part in a million; normalising in single or
    double precision causes much smaller errors.
    """
    unfit = ~np.isfinite(rows).all(axis=1)
    moved = (within_norm(rows, norm * (1.0 + NORM_TOLERANCE)) != rows).any(axis=1) & ~unfit
    return {"not finite": int(unfit.sum()), "scaled down": int(moved.sum())}

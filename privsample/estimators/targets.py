"""Targets in: one of any kind for each record, none of which changes how another is read."""

from typing import Any

import numpy as np
from sklearn.utils import column_or_1d

from privsample.errors import SchemaError


def column(y: Any) -> list[Any]:
    """One target for each record: of a list each entry by itself, as one text in an array would make texts of all.

    An entry that is itself a list of one counts as what it holds. Raises: SchemaError.
    """
    if isinstance(y, (list, tuple)):
        return [item[0] if isinstance(item, (list, tuple, np.ndarray)) and len(item) == 1 else item for item in y]
    try:
        entries: list[Any] = column_or_1d(y, warn=True).tolist()
    except Exception:  # noqa: BLE001 - the message could show a target
        raise SchemaError(f"y should be a 1d array, got shape {getattr(y, 'shape', None)}") from None
    return entries


def same(target: Any, other: Any) -> bool:
    """Equality, total on whatever a record holds."""
    try:
        return bool(target == other)
    except Exception:  # noqa: BLE001 - then it is another
        return False


def is_missing(item: Any) -> bool:
    """Whether an entry says that there is none: None, NaN, NaT, pandas' NA, or a masked entry of NumPy."""
    if item is None or item is np.ma.masked:
        return True
    try:
        return bool(item != item) and not isinstance(item, np.ndarray)  # noqa: PLR0124 - NaN and NaT differ from themselves
    except Exception:  # noqa: BLE001 - pandas' NA is neither equal to itself nor different
        return type(item).__name__ == "NAType"

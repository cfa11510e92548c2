"""Reading targets record by record, so that no entry changes how another entry is read."""

from typing import Any

import numpy as np
from sklearn.utils import column_or_1d

from privsample.errors import SchemaError


def target_list(y: Any) -> list[Any]:
    """Return one target for each record.

    The entries of a list are not converted to an array, because a single string would make NumPy convert every target
    to a string. An entry that is a list of length 1 is replaced by its element. Raises SchemaError.
    """
    if isinstance(y, (list, tuple)):
        return [item[0] if isinstance(item, (list, tuple, np.ndarray)) and len(item) == 1 else item for item in y]
    try:
        entries: list[Any] = column_or_1d(y, warn=True).tolist()
    except Exception:  # noqa: BLE001 - the original message could reveal a target
        raise SchemaError(f"y should be a 1d array, got shape {getattr(y, 'shape', None)}") from None
    return entries


def labels_equal(target: Any, other: Any) -> bool:
    """Return whether two labels are equal; False if the comparison fails."""
    try:
        return bool(target == other)
    except Exception:  # noqa: BLE001 - labels that cannot be compared are different
        return False


def is_missing(item: Any) -> bool:
    """Return whether an entry is missing: None, NaN, NaT, pandas' NA, or a masked entry of NumPy."""
    if item is None or item is np.ma.masked:
        return True
    try:
        return bool(item != item) and not isinstance(item, np.ndarray)  # noqa: PLR0124 - only NaN and NaT differ from themselves
    except Exception:  # noqa: BLE001 - comparisons with pandas' NA have no truth value
        return type(item).__name__ == "NAType"

"""One column of records, read so that no record can make that fail."""

from typing import Any

import numpy as np

from privsample._checks import FloatArray
from privsample._data import chunks


def read_column(data: Any) -> FloatArray:
    """Read one column of records; what is missing or no real number is NaN, and True and False are 1 and 0.

    For `_statistic` of a mechanism: no value of a record makes it fail or changes its message. A public rule, such as
    `Domain.clean`, then says what NaN and numbers outside the domain count as.

    Parameters
    ----------
    data : list, tuple, array of shape (n,), or Arrow stream of one column
        The records, as a `release` was given them.

    Returns
    -------
    numpy.ndarray of float
        The records in their order, shape (n,): a copy, in which masked entries, text and other objects are NaN.
        The NaN of text is one of its own, by which `Domain.problems` tells text from what is missing.

    Raises
    ------
    SchemaError
        For data of another shape or type, such as an array or an Arrow column whose type is text. The message shows no
        record.

    Examples
    --------
    >>> read_column([1, "two", None, True])
    array([ 1., nan, nan,  1.])
    """
    parts = [np.array(chunk, dtype=np.float64) for chunk in chunks(data)]
    return np.concatenate([np.empty(0), *parts])

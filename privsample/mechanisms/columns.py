"""Reading of one column of records. No value of a record can cause an error."""

from typing import Any

import numpy as np

from privsample._checks import FloatArray
from privsample._data import chunks


def read_column(data: Any) -> FloatArray:
    """Read one column of records as floats; missing values and values that are not real numbers become NaN.

    True and False become 1 and 0. Mechanisms call it in `_statistic`, because no value of a record can cause an error
    or change its message. A public rule, such as `Domain.clean`, then replaces NaN and numbers outside the domain.

    Parameters
    ----------
    data : list, tuple, array of shape (n,), or Arrow stream of one column
        The records, as they were passed to `release`.

    Returns
    -------
    numpy.ndarray of float
        The records in their order, shape (n,). It is a copy, in which masked entries, text and other objects are NaN.
        Text becomes a NaN with a distinct payload, by which `Domain.problems` distinguishes text from missing values.

    Raises
    ------
    SchemaError
        If the data have another shape or type, such as an array or an Arrow column of text. The message shows no
        record.

    Examples
    --------
    >>> import privsample as ps
    >>> ps.read_column([1, "two", None, True])
    array([ 1., nan, nan,  1.])
    """
    parts = [np.array(chunk, dtype=np.float64) for chunk in chunks(data)]
    return np.concatenate([np.empty(0), *parts])

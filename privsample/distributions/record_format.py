"""How the data of a mechanism hold records: reading the records, and writing some of them as data again."""

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privsample._checks import FloatArray, listed, positive_integer
from privsample._data import chunks, codes_of_names
from privsample._value import frozen_value, set_fields
from privsample.distributions.rows import labelled_rows, table


class RecordFormat(ABC):
    """How the data of a mechanism hold records. A mechanism that declares a format can run on samples of the records.

    `Subsampled` reads all records by `read`, samples rows of the array, and gives the base `to_data` of the sample.
    The subclasses of the library are `ColumnFormat`, `RowFormat` and `LabelledFormat`.

    Examples
    --------
    >>> import privsample as ps
    >>> records = ps.LabelledFormat(features=2).read(([[1.0, 2.0], [3.0, 4.0]], [1, 0]))
    >>> records.tolist()
    [[1.0, 2.0, 1.0], [3.0, 4.0, 0.0]]
    >>> isinstance(ps.ColumnFormat(), ps.RecordFormat)
    True
    """

    __slots__ = ()

    @abstractmethod
    def read(self, data: Any) -> NDArray[Any]:
        """Read the records of a dataset, one along the first axis.

        Parameters
        ----------
        data : object
            The data, as `release` takes them.

        Returns
        -------
        numpy.ndarray
            The records; a value that is not a number is NaN.

        Raises
        ------
        SchemaError
            If the data have another shape or type. No value of a record causes an error.
        """

    @abstractmethod
    def to_data(self, records: NDArray[Any]) -> Any:
        """Convert records to data.

        Parameters
        ----------
        records : numpy.ndarray
            Some of the records that `read` returned, in any order, possibly repeated.

        Returns
        -------
        object
            Data that hold these records, as `release` takes them.
        """


@frozen_value
class ColumnFormat(RecordFormat):
    """One column of numbers, or of the names of public categories; a record is a number.

    Parameters
    ----------
    names : tuple of str, default ()
        Names of the categories 0, 1, ... in columns of text. Empty if the column holds numbers.

    Examples
    --------
    >>> import privsample as ps
    >>> ps.ColumnFormat().read([1, None, 3]).tolist()
    [1.0, nan, 3.0]
    """

    names: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        set_fields(self, names=tuple(listed(names=self.names)))

    def read(self, data: Any) -> NDArray[Any]:
        """The numbers or codes, shape (n,)."""
        return np.concatenate([np.empty(0), *chunks(codes_of_names(data, self.names))])

    def to_data(self, records: NDArray[Any]) -> NDArray[Any]:
        """The records themselves."""
        return records


@frozen_value
class RowFormat(RecordFormat):
    """Rows of numbers, shape (n, width); a record is a row.

    Parameters
    ----------
    width : int
        Number of numbers in a row, >= 1.

    Examples
    --------
    >>> import privsample as ps
    >>> ps.RowFormat(width=2).read([[1, 2], [3, 4], [5, 6]]).shape
    (3, 2)
    """

    width: int

    def __post_init__(self) -> None:
        set_fields(self, width=positive_integer(width=self.width))

    def read(self, data: Any) -> FloatArray:
        """The rows, shape (n, width)."""
        return table(data, self.width)

    def to_data(self, records: NDArray[Any]) -> NDArray[Any]:
        """The records themselves."""
        return records


@frozen_value
class LabelledFormat(RecordFormat):
    """A pair (rows, labels) of shapes (n, features) and (n,); a record is a row followed by its label or target.

    Parameters
    ----------
    features : int
        Number of numbers in a row, >= 1.

    Examples
    --------
    >>> import privsample as ps
    >>> rows, labels = ps.LabelledFormat(features=1).to_data(ps.LabelledFormat(features=1).read(([[3], [5]], [1, 0])))
    >>> rows.tolist(), labels.tolist()
    ([[3.0], [5.0]], [1.0, 0.0])
    """

    features: int

    def __post_init__(self) -> None:
        set_fields(self, features=positive_integer(features=self.features))

    def read(self, data: Any) -> FloatArray:
        """The rows with their labels in the last column, shape (n, features + 1)."""
        rows, labels = labelled_rows(data, self.features)
        return np.column_stack([rows, labels])

    def to_data(self, records: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
        """The rows and the labels."""
        return records[:, :-1], records[:, -1]

"""Base class of PyMC models that can be saved, and may state extreme records for audits."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

from privsample._value import Memo
from privsample.distributions.record_columns import RecordColumn


class RecordModel(Memo, ABC):
    """Base class of functions that build a PyMC model from columns of records, and can be saved.

    A mechanism that holds a plain function cannot be saved. A subclass of this class is a registered frozen dataclass
    of public parameters: `columns` states the columns of the data, and calling it with them builds the model.

    Examples
    --------
    >>> import privsample as ps
    >>> isinstance(ps.NormalMeanModel(prior_std=2.0), ps.RecordModel)
    True
    """

    __slots__ = ()

    @abstractmethod
    def __call__(self, data: Any) -> Any:
        """Build the model from symbolic columns. It must not read any data itself.

        Parameters
        ----------
        data : mapping of str to symbolic array
            The columns; `data[name]` has shape (n,) or (n, width).

        Returns
        -------
        pymc.Model
            The model, with `observed=data[...]`.
        """

    @property
    @abstractmethod
    def columns(self) -> Mapping[str, RecordColumn]:
        """The columns of the data by name."""

    @property
    def released_numbers(self) -> int:
        """Number of numbers in one draw of all released variables; audits need it where extreme records are known."""
        raise TypeError(f"{type(self).__name__} does not state how many numbers a draw has")

    def extreme_records(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Two records whose gradients are long and opposite, for audits.

        Returns
        -------
        tuple of two dict
            Each record by column: a number or a row.

        Raises
        ------
        TypeError
            By default: such records are not known for this class.
        """
        raise TypeError(
            f"{type(self).__name__} defines no extreme records: pass datasets=(first, second), two neighbouring "
            "datasets, to the audit"
        )

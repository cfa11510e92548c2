"""What one comparison asks of its mechanisms: data to simulate, and the error of a release."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

_RECORDS = 1_000  # where the number of records is not public


class Question(ABC):
    """A question that several classes of mechanisms answer, with data to simulate and an error of a release."""

    error: ClassVar[str]
    kinds: ClassVar[tuple[type, ...]]
    exact: ClassVar[bool] = False  # whether the error is an expectation over releases, computed without sampling
    held_out: ClassVar[bool] = False  # whether the error is that of predictions for records that were not released

    def takes(self, mechanism: Any) -> bool:
        """Whether a mechanism answers this question."""
        return isinstance(mechanism, self.kinds)

    def check(self, mechanisms: Sequence[Any]) -> None:
        """Raise ValueError if the mechanisms cannot be given the same data; by default all can."""
        del mechanisms

    @abstractmethod
    def simulate(self, mechanisms: Sequence[Any], rng: np.random.Generator) -> tuple[list[Any], Any]:
        """Data for each mechanism, and the held-out records. Raises TypeError if data cannot be simulated."""

    @abstractmethod
    def error_of(self, mechanism: Any, data: Any, held_out: Any, rng: np.random.Generator) -> float:
        """The error of one release of the mechanism from the data."""


def public_size(mechanism: Any) -> int:
    """The public number of records, or 1,000 where it is not public."""
    return int(getattr(mechanism.accountant.relation, "n", _RECORDS))

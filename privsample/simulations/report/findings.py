"""Numbers and comparisons that a sentence states, by name, so that each can be tested on other data."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

CLEAR = 3.0  # standard errors; a smaller simulated difference is not stated
EXACT = 1e-9  # a smaller computed difference can be a rounding error
Columns = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Finding:
    """Number that a sentence states, with its Monte Carlo standard error, 0 if it is computed exactly.

    `compared` is True if the sentence states that the number, a difference, is above zero.
    """

    name: str
    value: float
    standard_error: float = 0.0
    compared: bool = False

    @property
    def clear(self) -> bool:
        """True if the number is above zero by more than simulation or rounding errors explain."""
        return self.value > max(CLEAR * self.standard_error, EXACT)


@dataclass(frozen=True, slots=True)
class Statement:
    """Sentence about a table, with the findings that it states."""

    sentence: str
    findings: tuple[Finding, ...]


def compared(name: str, difference: float, standard_error: float = 0.0) -> Finding:
    """Return a difference as a finding: a comparison if it is clear, otherwise only a number."""
    found = Finding(name, float(difference), float(standard_error))
    return Finding(name, found.value, found.standard_error, compared=found.clear)


def join_names(names: Sequence[str]) -> str:
    """Join names to a list in a sentence: a, b and c."""
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"

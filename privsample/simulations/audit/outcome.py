"""What the verdicts of all audits have in common: a p-value, a level, and the outcome that follows from them."""

from abc import ABC, abstractmethod
from typing import Literal

Outcome = Literal["VIOLATED", "CONSISTENT"]


class AuditVerdict(ABC):
    """Base class of verdicts. An audit can refute a claim and cannot prove one."""

    __slots__ = ()
    p_value: float
    level: float

    @property
    @abstractmethod
    def statement(self) -> str:
        """The verdict as text."""

    @property
    def violated(self) -> bool:
        """True if the evidence refutes the claim at `level`."""
        return self.p_value <= self.level

    @property
    def outcome(self) -> Outcome:
        """The outcome, "VIOLATED" or "CONSISTENT"."""
        return "VIOLATED" if self.violated else "CONSISTENT"

    def __str__(self) -> str:
        return self.statement

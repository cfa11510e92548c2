"""The contract: a mechanism draws, its accountant says what that costs."""

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

import numpy as np

from privsample.accounting.assumptions import Assumption
from privsample.accounting.base import Accountant

if TYPE_CHECKING:
    from privsample.mechanisms.notes import CuratorNotes
    from privsample.mechanisms.release import Release


class Mechanism(ABC):
    """A frozen choice of parameters, all public, that decides the cost before data are seen."""

    __slots__ = ()

    @property
    @abstractmethod
    def accountant(self) -> Accountant:
        """The cost of one `release`."""

    @abstractmethod
    def release(self, data: Any, *, rng: np.random.Generator | None = None) -> "Release":
        """Draw once. Total on the public schema: no record's value can make it fail.

        Parameters: rng, a numpy Generator (which adds the assumption RNG_FRESH) or None for the system's entropy.
        Raises: SchemaError, for data of another shape, type or public size; TypeError, for a seed. Nothing is drawn.
        """

    @abstractmethod
    def validate(self, data: Any) -> "CuratorNotes":
        """The curator's own step: what the public rules would change in these data. Nothing is drawn or spent.

        Raises: SchemaError, as `release` would.
        """


def repeated(account: Accountant, times: int) -> Accountant:
    """The account of `times` independent draws."""
    return account if times == 1 else times * account


def charged(mechanism: Mechanism, rng: np.random.Generator | None) -> Accountant:
    """The mechanism's account, with the assumption that a caller's own generator adds."""
    account = mechanism.accountant
    return account if rng is None else account.assuming(Assumption.RNG_FRESH)

"""Plans that are paid for as a whole, and the mechanisms that a ledger draws from."""

import json
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Protocol, TypeVar, final

from privsample._checks import flag, positive_integer
from privsample._serial import decode, encode
from privsample._value import Memo
from privsample.accounting.base import Accountant
from privsample.accounting.ledger.book import Entry, Item, declared
from privsample.relations import Relation

R_co = TypeVar("R_co", covariant=True)


class Draws(Protocol[R_co]):
    """A mechanism, as far as the ledger knows it."""

    @property
    def accountant(self) -> Accountant:
        """The cost of one `release`."""

    def release(self, data: Any) -> R_co:
        """Draw once, with noise from the operating system."""


class PlanLedger(Protocol):
    """A ledger, as far as a reserved plan knows it."""

    def history(self) -> tuple[Entry, ...]:
        """All entries, oldest first."""

    def _use(self, number: int, position: int) -> None:
        """Mark one draw of a plan's item as made, and sync it. Raises: BudgetExceeded, when it is used up."""


Planned = Draws[Any] | Accountant
Plan = Sequence[Planned | tuple[Planned, int]]


@final
class Reservation:
    """A plan that is paid for. Each draw is marked as made, and synced, before it is made."""

    __slots__ = ("_ledger", "_number")

    def __init__(self, ledger: PlanLedger, number: int) -> None:
        if not hasattr(ledger, "history"):
            raise TypeError(f"ledger must be a Ledger, got {type(ledger).__name__}")
        self._ledger, self._number = ledger, positive_integer(number=number)

    def __repr__(self) -> str:
        return f"Reservation({self._ledger!r}, number={self._number})"

    @property
    def number(self) -> int:
        """The plan's number in `ledger.history()`."""
        return self._number

    @property
    def items(self) -> tuple[Item, ...]:
        """The plan's items, each with how often it was reserved, used and is left."""
        return self._ledger.history()[self._number - 1].items

    def release(self, position: int, data: Any, *, validated: bool = False) -> Any:
        """Draw the item at this position, counted from 0, by the mechanism that was declared.

        Raises: BudgetExceeded, when it is used up; ValueError, for an item that was declared by its account; as
        `Ledger.release`.
        """
        item = self._item(position)
        if item.mechanism is None:
            raise ValueError(f"item {position} was declared by its account; draw after take({position})")
        mechanism = decode(json.loads(item.mechanism))
        if mechanism.accountant != item.account:
            raise ValueError(f"item {position} was reserved at another cost than its mechanism has in this version")
        if not flag(validated=validated):
            validated_first(mechanism, data)
        self._ledger._use(self._number, position)
        return mechanism.release(data)

    def take(self, position: int) -> Accountant:
        """Mark one draw of the item as made, for the caller to make by the mechanism meant when the plan was reserved.

        Returns: its account. Raises: BudgetExceeded, when it is used up; ValueError.
        """
        item = self._item(position)
        self._ledger._use(self._number, position)
        return item.account

    def _item(self, position: int) -> Item:
        items = self.items
        given: Any = position
        if isinstance(given, bool) or not isinstance(given, int) or given not in range(len(items)):
            raise ValueError(f"position must be one of 0 to {len(items) - 1}, got {position!r}")
        return items[position]


def validated_first(mechanism: Any, data: Any) -> None:
    """Let the mechanism look at data that can be read twice. Raises: SchemaError."""
    check = getattr(mechanism, "validate", None)
    if check is not None and (hasattr(data, "__len__") or hasattr(data, "__array__")):
        check(data)


def refuse_unregistered(mechanism: Any) -> None:
    """Raises: NotRegistered, for a mechanism that no file could name. One that holds a function is its own affair."""
    if isinstance(mechanism, Memo):
        with suppress(TypeError):
            encode(mechanism)


def planned(member: Any, relation: Relation) -> Item:
    """A member of a plan as an item. Raises: TypeError, ValueError (NotRegistered), RelationMismatch."""
    what, times = member if isinstance(member, tuple) and len(member) == 2 else (member, 1)
    if isinstance(what, Accountant):
        return declared(what, times, relation)
    if not hasattr(what, "accountant"):
        raise TypeError(f"a plan holds mechanisms and accountants, got {type(what).__name__}")
    text = json.dumps(encode(what), allow_nan=False)
    if decode(json.loads(text)) != what:
        raise ValueError(f"the mechanism {type(what).__name__} cannot be stored exactly; declare its accountant")
    return declared(what.accountant, times, relation, text)

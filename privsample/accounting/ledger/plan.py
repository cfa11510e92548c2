"""Plans that are charged as a whole, and the protocol of mechanisms that a ledger draws from."""

import json
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Protocol, TypeVar, final

from privsample._checks import flag, positive_integer
from privsample._serial import decode, encode
from privsample._value import Memo
from privsample.accounting.base import Accountant
from privsample.accounting.ledger.state import Entry, Item, storable_item
from privsample.relations import Relation

# Data with one of these, and without a length, can perhaps be read once only.
_STREAM_METHODS = ("__iter__", "__next__", "__arrow_c_stream__", "__arrow_c_array__", "__dataframe__", "read")

R_co = TypeVar("R_co", covariant=True)


class Draws(Protocol[R_co]):
    """The part of a mechanism that the ledger uses."""

    @property
    def accountant(self) -> Accountant:
        """The account of one `release`."""

    def release(self, data: Any) -> R_co:
        """Draw once, with entropy from the operating system."""


class PlanLedger(Protocol):
    """The part of a ledger that a reservation uses."""

    def history(self) -> tuple[Entry, ...]:
        """All entries, oldest first."""

    def _mark_draw(self, number: int, position: int) -> None:
        """Record one draw of a plan's item, and sync it. Raises BudgetExceeded if none is left."""


PlanMember = Draws[Any] | Accountant
SpendingPlan = Sequence[PlanMember | tuple[PlanMember, int]]


@final
class Reservation:
    """A plan that a ledger has charged; its draws can be made later. `Ledger.reserve` returns it.

    Each draw is recorded, and synced, before it is made.

    Parameters
    ----------
    ledger : Ledger
        The ledger that holds the plan.
    number : int
        Number of the plan in `ledger.history()`, >= 1.

    Raises
    ------
    TypeError
        If `ledger` is not a ledger.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> import privsample as ps
    >>> folder = TemporaryDirectory()
    >>> ledger = ps.Ledger(
    ...     f"{folder.name}/study.ledger", budget=ps.DP(epsilon=1, delta=1e-6), relation=ps.AddRemove(), dataset="study"
    ... )
    >>> mechanism = ps.GaussianMechanism(sensitivity=1, noise_std=20)
    >>> plan = ledger.reserve([(mechanism, 5)], delta=1e-6)
    >>> plan.release(0, 12.0)["statistic"].shape
    (1,)
    >>> plan.items[0].left
    4
    >>> folder.cleanup()
    """

    __slots__ = ("_ledger", "_number")

    def __init__(self, ledger: PlanLedger, number: int) -> None:
        if not hasattr(ledger, "history"):
            raise TypeError(f"ledger must be a Ledger, got {type(ledger).__name__}")
        self._ledger, self._number = ledger, positive_integer(number=number)

    def __repr__(self) -> str:
        return f"Reservation({self._ledger!r}, number={self._number})"

    @property
    def number(self) -> int:
        """The number of the plan in `ledger.history()`."""
        return self._number

    @property
    def items(self) -> tuple[Item, ...]:
        """The items of the plan, each with its numbers of reserved, used and remaining draws."""
        return self._ledger.history()[self._number - 1].items

    def release(self, position: int, data: Any, *, validated: bool = False) -> Any:
        """Draw an item with the mechanism that was declared.

        Parameters
        ----------
        position : int
            Position of the item in the plan, from 0.
        data : object
            The data that the mechanism reads.
        validated : bool, default False
            True if the caller has validated the data already.

        Returns
        -------
        Release
            The release of the mechanism.

        Raises
        ------
        BudgetExceeded
            If no draw of the item is left.
        ValueError
            If the item was declared by its account, or its mechanism has another account in this version.
        SchemaError
            If the data have the wrong shape; nothing is drawn then.
        """
        item = self._item(position)
        if item.mechanism is None:
            raise ValueError(f"item {position} was declared by its account; draw after take({position})")
        mechanism = decode(json.loads(item.mechanism))
        if mechanism.accountant != item.account:
            raise ValueError(
                f"item {position} was reserved with another account than that of its mechanism in this version"
            )
        held = validated_data(mechanism, data, validated=flag(validated=validated))
        check_ready(mechanism)
        self._ledger._mark_draw(self._number, position)
        return mechanism.release(held)

    def take(self, position: int) -> Accountant:
        """Record one draw of an item that the caller makes with the mechanism that the plan declared.

        Parameters
        ----------
        position : int
            Position of the item in the plan, from 0.

        Returns
        -------
        Accountant
            The account of the item.

        Raises
        ------
        BudgetExceeded
            If no draw of the item is left.
        ValueError
            If there is no such position.
        """
        item = self._item(position)
        self._ledger._mark_draw(self._number, position)
        return item.account

    def _item(self, position: int) -> Item:
        """The item at a position. Raises ValueError."""
        items = self.items
        given: Any = position
        if isinstance(given, bool) or not isinstance(given, int) or given not in range(len(items)):
            raise ValueError(f"position must be one of 0 to {len(items) - 1}, got {position!r}")
        return items[position]


def validated_data(mechanism: Any, data: Any, *, validated: bool) -> Any:
    """The data, validated by the mechanism; data that may be readable only once are read, and held as what was read.

    Raises SchemaError.
    """
    repeatable = hasattr(data, "__len__") or hasattr(data, "__array__")
    if not repeatable and any(hasattr(data, name) for name in _STREAM_METHODS):
        read = getattr(mechanism, "_read_once", None)
        return data if read is None else read(data)
    check = getattr(mechanism, "validate", None)
    if check is not None and not validated:
        check(data)
    return data


def check_ready(mechanism: Any) -> None:
    """Check what does not depend on the data, such as a package that is missing, before anything is spent."""
    check = getattr(mechanism, "_check_generator", bool)  # any other object is ready
    check(None)


def check_registered(mechanism: Any) -> None:
    """Check that files can name the mechanism, unless it holds a function. Raises NotRegistered."""
    if isinstance(mechanism, Memo):
        with suppress(TypeError):
            encode(mechanism)


def plan_item(member: Any, relation: Relation) -> Item:
    """A member of a plan as an item. Raises TypeError, ValueError (NotRegistered) or RelationMismatch."""
    what, times = member if isinstance(member, tuple) and len(member) == 2 else (member, 1)
    if isinstance(what, Accountant):
        return storable_item(what, times, relation)
    if not hasattr(what, "accountant"):
        raise TypeError(f"plan must contain mechanisms and accountants, got {type(what).__name__}")
    text = json.dumps(encode(what), allow_nan=False)
    if decode(json.loads(text)) != what:
        raise ValueError(f"the mechanism {type(what).__name__} cannot be stored exactly; declare its accountant")
    return storable_item(what.accountant, times, relation, text)

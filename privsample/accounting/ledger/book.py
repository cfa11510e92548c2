"""What the events say: entries, what is used of them, and totals that are computed anew from the stored accounts."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from privsample._checks import positive_integer
from privsample._serial import decode, storable
from privsample._value import frozen_value
from privsample.accounting.base import Accountant, Composed, composable
from privsample.accounting.ledger.filters import CurveFilter, Filter, PrivacyCost, filter_for
from privsample.accounting.ledger.log import Event
from privsample.accounting.targets import Target
from privsample.errors import RelationMismatch
from privsample.relations import Relation


@frozen_value
class Item:
    """An account and how often it was entered; a plan's item also has its mechanism (as JSON text) and its draws."""

    account: Accountant
    times: int
    mechanism: str | None = None
    used: int = 0

    @property
    def left(self) -> int:
        """How often a plan's item may still be drawn."""
        return self.times - self.used


@frozen_value
class Entry:
    """What was entered at once. kind: "spend", "release" or "plan"; at: UTC; version: of privsample, which wrote it.

    delta: None where the charge is by Rényi curve, otherwise the part of delta at which a plan counts tightly.
    """

    number: int
    kind: str
    at: str
    version: str
    label: str
    items: tuple[Item, ...]
    delta: float | None

    @property
    def account(self) -> Accountant:
        """All items composed as if fixed beforehand, which they were only within one entry."""
        return whole(self.items)


def whole(items: Sequence[Item]) -> Accountant:
    """One account for items declared together."""
    if len(items) == 1 and items[0].times == 1:
        return items[0].account
    return Composed(entries=tuple((item.account, item.times) for item in items))


@frozen_value
class Settings:
    """What was fixed at creation."""

    budget: Target
    relation: Relation
    dataset: str
    approximate_share: float = 0.0
    weights: Mapping[float, float] | None = None

    @property
    def filter(self) -> Filter:
        """The filter of the budget."""
        return filter_for(self.budget, approximate_share=self.approximate_share, weights=self.weights)


@frozen_value
class LedgerState:
    """The state after some events. `filter` is the creation's, but for what a first plan has taken of delta."""

    settings: Settings
    filter: Filter
    entries: tuple[Entry, ...]
    total: PrivacyCost
    last: Event

    @property
    def reservable(self) -> float:
        """The part of delta that a plan may take now: all of it while nothing was entered, else what is set aside."""
        if not isinstance(self.filter, CurveFilter):
            return 0.0
        return self.filter.budget.delta if not self.entries else self.filter.set_aside_left(self.total)

    def charge(self, items: Sequence[Item], delta: float | None) -> PrivacyCost:
        """What an entry of these items adds."""
        return _charge(self.filter, items, delta, {})

    def fits(self, charge: PrivacyCost, delta: float | None = None) -> bool:
        """Whether an entry with this charge keeps the promise of the budget."""
        found, total = _entered(self.filter, self.total, charge, delta, first=not self.entries)
        return found.fits(total)


def _charge(
    found: Filter, items: Sequence[Item], delta: float | None, known: dict[Accountant, PrivacyCost]
) -> PrivacyCost:
    """By Rényi curve, or at `delta` as one (epsilon, delta). known: charges of one release, filled here."""
    if delta is not None:
        if not isinstance(found, CurveFilter):
            raise ValueError(f"a plan has taken a part of delta, and {found.budget.description} has none")
        return found.tight(whole(items), delta)
    total = found.nothing
    for item in items:
        if item.account not in known:
            known[item.account] = found.charge(item.account)
        total = total + item.times * known[item.account]
    return total


def _entered(
    found: Filter, total: PrivacyCost, charge: PrivacyCost, delta: float | None, *, first: bool
) -> tuple[Filter, PrivacyCost]:
    """Filter and total after an entry. Only the first may still choose how delta is split: no answer was seen yet."""
    if first and delta is not None and isinstance(found, CurveFilter) and delta > found.set_aside:
        found = replace(found, set_aside=delta)
    return found, total + charge


def creation(settings: Settings, stamp: Mapping[str, Any]) -> str:
    """The first event. The filter's orders and weights are stored: another version's choice must not change them."""
    made = settings.filter
    weights = list(zip(made.at, made.weights, strict=True)) if isinstance(made, CurveFilter) else None
    document = {
        "event": "create",
        "budget": storable(settings.budget),
        "relation": storable(settings.relation),
        "dataset": settings.dataset,
        "approximate_share": settings.approximate_share,
        "weights": weights,
    }
    return _text(document | dict(stamp))


def entering(kind: str, items: Sequence[Item], label: str, delta: float | None, stamp: Mapping[str, Any]) -> str:
    """The event of an entry, of `declared` items. Raises: ValueError, for a label that is no text."""
    listed = [{"account": item.account.to_dict(), "times": item.times, "mechanism": item.mechanism} for item in items]
    return _text({"event": kind, "items": listed, "label": label, "delta": delta} | dict(stamp))


def drawing(entry: int, item: int, stamp: Mapping[str, Any]) -> str:
    """The event of a draw from a plan."""
    return _text({"event": "draw", "entry": entry, "item": item} | dict(stamp))


def _text(document: dict[str, Any]) -> str:
    try:
        return json.dumps(document, allow_nan=False, sort_keys=True)
    except TypeError as error:
        raise ValueError(f"this cannot be stored in a ledger: {error}") from None


def counted(account: Accountant, times: int, relation: Relation, mechanism: str | None = None) -> Item:
    """An item, checked. Raises: TypeError, ValueError, RelationMismatch."""
    if not isinstance(account, Accountant):
        raise TypeError(f"a ledger takes accountants (mechanism.accountant), got {type(account).__name__}")
    count = positive_integer(times=times)
    if account.relation != relation:
        raise RelationMismatch(
            f"the ledger counts under {relation}, this account under {account.relation}; use the ledger's relation, "
            "its n and its unit, or see account.to(ledger.relation)"
        )
    composable((account,))
    return Item(account=account, times=count, mechanism=mechanism)


def declared(account: Accountant, times: int, relation: Relation, mechanism: str | None = None) -> Item:
    """An item to be entered: checked, and sure to come back from the file as it is.

    Raises: as `counted`; NotRegistered, for an account of a class that no file could name.
    """
    item = counted(account, times, relation, mechanism)
    if Accountant.from_dict(json.loads(json.dumps(account.to_dict(), allow_nan=False))) != account:
        raise ValueError(
            f"the account {type(account).__name__} cannot be stored exactly: what was loaded would not be equal to it; "
            "nothing was spent or drawn; let its dataclass compare by content"
        )
    return item


def read(path: object, book: LedgerState | None, events: Sequence[Event]) -> LedgerState:
    """The state after more events. Raises: ValueError, for an event that this version does not understand."""
    at = 1
    try:
        if book is None:
            book, events = _created(json.loads(events[0].document), events[0]), events[1:]
        entries, found, total, last = list(book.entries), book.filter, book.total, book.last
        accounts, charges = dict[str, Accountant](), dict[Accountant, PrivacyCost]()
        for last in events:
            at, document = last.number, json.loads(last.document)
            if document["event"] == "draw":
                _use(entries, document["entry"], document["item"])
                continue
            entry = _entry(document, len(entries) + 1, accounts, book.settings.relation)
            charge = _charge(found, entry.items, entry.delta, charges)
            found, total = _entered(found, total, charge, entry.delta, first=not entries)
            entries.append(entry)
    except (KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
        raise ValueError(
            f"event {at} of the ledger {path} cannot be read by this version of privsample ({error}); "
            "upgrade, or restore a copy that holds all that was spent"
        ) from None
    return replace(book, entries=tuple(entries), filter=found, total=total, last=last)


def _created(document: dict[str, Any], event: Event) -> LedgerState:
    if document["event"] != "create":
        raise ValueError(f"the first event is {document['event']!r}")
    weights = document["weights"]
    settings = Settings(
        budget=decode(document["budget"]),
        relation=decode(document["relation"]),
        dataset=document["dataset"],
        approximate_share=document["approximate_share"],
        weights=None if weights is None else dict(weights),
    )
    made = settings.filter
    return LedgerState(settings=settings, filter=made, entries=(), total=made.nothing, last=event)


def _entry(document: dict[str, Any], number: int, known: dict[str, Accountant], relation: Relation) -> Entry:
    items = []
    for item in document["items"]:
        text = json.dumps(item["account"])
        if text not in known:
            known[text] = Accountant.from_dict(item["account"])
        items.append(counted(known[text], item["times"], relation, item["mechanism"]))
    if document["event"] not in ("spend", "release", "plan") or not items:
        raise ValueError(f"an event of kind {document['event']!r} with {len(items)} items")
    return Entry(
        number=number,
        kind=document["event"],
        at=document["at"],
        version=document["version"],
        label=document["label"],
        items=tuple(items),
        delta=document["delta"],
    )


def _use(entries: list[Entry], number: int, position: int) -> None:
    if not (1 <= number <= len(entries) and 0 <= position < len(entries[number - 1].items)):
        raise ValueError("a draw from a plan that is not there")
    entry = entries[number - 1]
    item = entry.items[position]
    if entry.kind != "plan" or not item.used < item.times:
        raise ValueError("a draw that no plan allows")
    items = list(entry.items)
    items[position] = replace(item, used=item.used + 1)
    entries[number - 1] = replace(entry, items=tuple(items))

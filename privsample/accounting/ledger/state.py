"""State of a ledger after a sequence of events: entries, draws from plans, and totals recomputed from the accounts."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from privsample._checks import positive_integer
from privsample._serial import decode, storable
from privsample._value import frozen_value
from privsample.accounting.base import Accountant, Composed, check_composable
from privsample.accounting.ledger.copies import CopiesFilter
from privsample.accounting.ledger.filters import CurveFilter, Filter, PrivacyCost
from privsample.accounting.ledger.log import Event
from privsample.accounting.ledger.place import Place
from privsample.accounting.ledger.rules import filter_of
from privsample.accounting.targets import Target
from privsample.errors import RelationMismatch
from privsample.relations import Relation


@frozen_value
class Item:
    """An account with its number of releases; items of plans also have a mechanism (JSON) and a number of draws."""

    account: Accountant
    times: int
    mechanism: str | None = None
    used: int = 0

    @property
    def left(self) -> int:
        """Number of draws that remain for an item of a plan."""
        return self.times - self.used


@frozen_value
class Entry:
    """One entry of a ledger, which was charged at once.

    Its kind is "spend", "release" or "plan"; `at` is the time in UTC and `version` the version of privsample that wrote
    it. `delta` is None if the charge is by Rényi curve; otherwise it is the part of delta at which a plan's composition
    is charged.
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
        """The composition of all items. Items were fixed in advance only within one entry."""
        return compose_items(self.items)


def compose_items(items: Sequence[Item]) -> Accountant:
    """One account for items that were declared together."""
    if len(items) == 1 and items[0].times == 1:
        return items[0].account
    return Composed(entries=tuple((item.account, item.times) for item in items))


@frozen_value
class Settings:
    """The settings that are fixed when a ledger is created.

    `family` names the family that fills the budget, and `copies` is how many copies of it do, if that was computed
    before.
    """

    budget: Target
    relation: Relation
    dataset: str
    approximate_share: float = 0.0
    weights: Mapping[float, float] | None = None
    family: str | Accountant | None = None
    copies: int | None = None

    @property
    def filter(self) -> Filter:
        """The privacy filter of the budget."""
        return filter_of(
            self.budget,
            family=self.family,
            copies=self.copies,
            approximate_share=self.approximate_share,
            weights=self.weights,
        )


@frozen_value
class LedgerState:
    """The state of a ledger after some events.

    `filter` is that of the settings, except that the first plan may have changed how delta is split. `totals` are the
    totals after each entry. `place` is where the file was last bound, or None in files of earlier versions.
    """

    settings: Settings
    filter: Filter
    entries: tuple[Entry, ...]
    total: PrivacyCost
    last: Event
    totals: tuple[PrivacyCost, ...] = ()
    place: Place | None = None

    @property
    def reservable(self) -> float:
        """The part of delta that a plan may use now: all of it while the ledger is empty, then what is set aside."""
        if not isinstance(self.filter, CurveFilter):
            return 0.0
        return self.filter.budget.delta if not self.entries else self.filter.set_aside_left(self.total)

    def charge(self, items: Sequence[Item], delta: float | None) -> PrivacyCost:
        """The cost that an entry with these items adds."""
        return _charge(self.filter, self.total, items, delta, {})

    def fits(self, charge: PrivacyCost, delta: float | None = None) -> bool:
        """Return whether the budget still holds after an entry with this charge."""
        found, total = _entered(self.filter, self.total, charge, delta, first=not self.entries)
        return found.fits(total)


def _charge(
    found: Filter, total: PrivacyCost, items: Sequence[Item], delta: float | None, known: dict[Accountant, PrivacyCost]
) -> PrivacyCost:
    """The cost by Rényi curve, or at `delta` as one (epsilon, delta). `known` collects charges of single releases."""
    if delta is not None:
        if not isinstance(found, CurveFilter):
            raise ValueError(
                f"the charge of a plan needs a part of delta, and {found.budget.description} has none to divide by the "
                "rule of this ledger; omit delta"
            )
        return found.charge_composition(compose_items(items), delta)
    added = found.zero
    for item in items:
        if found.depends_on_total:
            added = added + found.cost(total + added, item.account, item.times)
            continue
        if item.account not in known:
            known[item.account] = found.charge(item.account)
        added = added + item.times * known[item.account]
    return added


def _entered(
    found: Filter, total: PrivacyCost, charge: PrivacyCost, delta: float | None, *, first: bool
) -> tuple[Filter, PrivacyCost]:
    """Filter and total after an entry. Only the first entry may change how delta is split: no answer was seen yet."""
    if first and delta is not None and isinstance(found, CurveFilter) and delta > found.set_aside:
        found = replace(found, set_aside=delta)
    return found, total + charge


def creation_event(settings: Settings, place: Place, stamp: Mapping[str, Any]) -> str:
    """The first event, as JSON.

    It stores the orders and weights of the filter, so that another version's defaults cannot change them.
    """
    made, family = settings.filter, settings.family
    weights = list(zip(made.at, made.weights, strict=True)) if isinstance(made, CurveFilter) else None
    document = {
        "event": "create",
        "budget": storable(settings.budget),
        "relation": storable(settings.relation),
        "dataset": settings.dataset,
        "approximate_share": settings.approximate_share,
        "weights": weights,
        "place": _place_document(place),
    }
    if isinstance(made, CopiesFilter):
        document |= {"family": made.family.to_dict(), "copies": made.copies}
    elif family is not None:
        document |= {"family": family}
    return _text(document | dict(stamp))


def entry_event(kind: str, items: Sequence[Item], label: str, delta: float | None, stamp: Mapping[str, Any]) -> str:
    """The event of an entry with checked items, as JSON. Raises ValueError for a label that cannot be stored."""
    listed = [{"account": item.account.to_dict(), "times": item.times, "mechanism": item.mechanism} for item in items]
    return _text({"event": kind, "items": listed, "label": label, "delta": delta} | dict(stamp))


def draw_event(entry: int, item: int, stamp: Mapping[str, Any]) -> str:
    """The event of a draw from a plan, as JSON."""
    return _text({"event": "draw", "entry": entry, "item": item} | dict(stamp))


def place_event(place: Place, stamp: Mapping[str, Any]) -> str:
    """The event that binds the file to a place, as JSON."""
    return _text({"event": "place", "place": _place_document(place)} | dict(stamp))


def _place_document(place: Place) -> dict[str, Any]:
    """The place as a dict. Numbers are strings: other programs read large ones as floats."""
    return {"volume": place.volume, "folder": str(place.folder), "file": str(place.file), "name": place.name}


def _place(document: dict[str, Any]) -> Place:
    """The place from its dict."""
    return Place(
        volume=document["volume"],
        folder=int(document["folder"]),
        file=int(document["file"]),
        name=document["name"],
    )


def _text(document: dict[str, Any]) -> str:
    """The document as JSON. Raises ValueError if it cannot be stored."""
    try:
        return json.dumps(document, allow_nan=False, sort_keys=True)
    except TypeError as error:
        raise ValueError(f"this cannot be stored in a ledger: {error}") from None


def checked_item(account: Accountant, times: int, relation: Relation, mechanism: str | None = None) -> Item:
    """Check an account and its number of releases. Raises TypeError, ValueError or RelationMismatch."""
    if not isinstance(account, Accountant):
        raise TypeError(f"account must be an accountant (mechanism.accountant), got {type(account).__name__}")
    count = positive_integer(times=times)
    if account.relation != relation:
        raise RelationMismatch(
            f"account must be under the relation of the ledger, {relation}, got {account.relation}; use this relation, "
            "with its n and its unit, or account.to(ledger.relation)"
        )
    check_composable((account,))
    return Item(account=account, times=count, mechanism=mechanism)


def storable_item(account: Accountant, times: int, relation: Relation, mechanism: str | None = None) -> Item:
    """Check an item that is to be entered: loading its account from the file must return an equal account.

    Raises the errors of `checked_item`, and NotRegistered for an account of a class that files cannot name.
    """
    item = checked_item(account, times, relation, mechanism)
    if Accountant.from_dict(json.loads(json.dumps(account.to_dict(), allow_nan=False))) != account:
        raise ValueError(
            f"the account {type(account).__name__} cannot be stored exactly: what was loaded would not be equal to it; "
            "nothing was spent or drawn; its class must be a dataclass that compares by content"
        )
    return item


def apply_events(path: object, state: LedgerState | None, events: Sequence[Event]) -> LedgerState:
    """The state after further events. Raises ValueError for an event that this version does not understand."""
    at = 1
    try:
        if state is None:
            state, events = _created(json.loads(events[0].document), events[0]), events[1:]
        entries, found, total, last = list(state.entries), state.filter, state.total, state.last
        totals, place = list(state.totals), state.place
        accounts, charges = dict[str, Accountant](), dict[Accountant, PrivacyCost]()
        for last in events:
            at, document = last.number, json.loads(last.document)
            if document["event"] == "draw":
                _count_draw(entries, document["entry"], document["item"])
                continue
            if document["event"] == "place":
                place = _place(document["place"])
                continue
            entry = _entry(document, len(entries) + 1, accounts, state.settings.relation)
            charge = _charge(found, total, entry.items, entry.delta, charges)
            found, total = _entered(found, total, charge, entry.delta, first=not entries)
            entries.append(entry)
            totals.append(total)
    except (KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
        raise ValueError(
            f"event {at} of the ledger {path} cannot be read by this version of privsample ({error}); "
            "upgrade, or restore a copy that contains all entries"
        ) from None
    return replace(
        state, entries=tuple(entries), filter=found, total=total, last=last, totals=tuple(totals), place=place
    )


def _created(document: dict[str, Any], event: Event) -> LedgerState:
    """The state after the event of creation."""
    if document["event"] != "create":
        raise ValueError(f"the first event is {document['event']!r}")
    from privsample._version import __version__

    weights, family = document["weights"], document.get("family")
    settings = Settings(
        budget=decode(document["budget"]),
        relation=decode(document["relation"]),
        dataset=document["dataset"],
        approximate_share=document["approximate_share"],
        weights=None if weights is None else dict(weights),
        family=Accountant.from_dict(family) if isinstance(family, dict) else family,
        copies=document.get("copies") if document["version"] == __version__ else None,  # formulas may have changed
    )
    made = settings.filter
    place = _place(document["place"]) if "place" in document else None  # none in files of earlier versions
    return LedgerState(settings=settings, filter=made, entries=(), total=made.zero, last=event, place=place)


def _entry(document: dict[str, Any], number: int, known: dict[str, Accountant], relation: Relation) -> Entry:
    """An entry from the document of its event."""
    items = []
    for item in document["items"]:
        text = json.dumps(item["account"])
        if text not in known:
            known[text] = Accountant.from_dict(item["account"])
        items.append(checked_item(known[text], item["times"], relation, item["mechanism"]))
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


def _count_draw(entries: list[Entry], number: int, position: int) -> None:
    """Count one draw from an item of a plan."""
    if not (1 <= number <= len(entries) and 0 <= position < len(entries[number - 1].items)):
        raise ValueError("a draw from a plan that does not exist")
    entry = entries[number - 1]
    item = entry.items[position]
    if entry.kind != "plan" or not item.used < item.times:
        raise ValueError("a draw beyond the number that the plan reserved")
    items = list(entry.items)
    items[position] = replace(item, used=item.used + 1)
    entries[number - 1] = replace(entry, items=tuple(items))

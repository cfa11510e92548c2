"""The ledger: what may be spent of a budget, what was, and draws that are paid for before they are made."""

import json
import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, final

from privsample._checks import flag, listed, positive, positive_integer, probability
from privsample.accounting.base import Accountant
from privsample.accounting.ledger.book import (
    Entry,
    Item,
    LedgerState,
    Settings,
    creation,
    declared,
    drawing,
    entering,
    read,
)
from privsample.accounting.ledger.export import document, write_new
from privsample.accounting.ledger.filters import PrivacyCost, Share
from privsample.accounting.ledger.log import Log, Writer, chained
from privsample.accounting.ledger.plan import (
    Draws,
    Plan,
    R_co,
    Reservation,
    planned,
    refuse_unregistered,
    validated_first,
)
from privsample.accounting.ledger.refusal import closed, refused
from privsample.accounting.targets import Target
from privsample.errors import BudgetExceeded
from privsample.relations import Relation


@final
class Ledger:
    """A budget in a file. Spending is written and synced before anything is drawn; what would exceed it is refused.

    The refusal stays valid although every release may be chosen after seeing all earlier ones (docs/notes/ledger.md).
    A killed process may waste what it had just spent; it never overspends, and no entry is lost.
    Numbers are nats in the budget's own measure: epsilon (at the budget's delta or order), or rho.
    """

    __slots__ = ("_book", "_log")

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        budget: Target | None = None,
        relation: Relation | None = None,
        dataset: str | None = None,
        approximate_share: float | None = None,
        weights: Mapping[float, float] | None = None,
        timeout: float = 60.0,
    ) -> None:
        """Open the file; or make it, where there is none and budget, relation and dataset are given.

        Parameters: budget, DP, ZCDP or RDP; relation, with the unit of privacy; dataset, a name for the data that this
        budget protects; approximate_share in [0, 1), the part of delta that pays for releases that may fail outright
        and for plans by their tight composition; weights, order -> weight, for (epsilon, delta) only, where the default
        will not do; timeout, in seconds, while other processes write.
        Raises: ValueError, for a file that is damaged, newer or another program's, or that says otherwise than what is
        given; FileNotFoundError and other OSErrors.
        """
        self._log = Log(path=_path(path).absolute(), timeout=positive(timeout=timeout))
        fixed = {"budget": budget, "relation": relation, "dataset": dataset}
        given: dict[str, Any] = fixed | {"approximate_share": approximate_share, "weights": weights}
        given = {name: item for name, item in given.items() if item is not None}
        _check(given)
        if not self._log.path.exists():
            missing = [name for name, item in fixed.items() if item is None]
            if missing:
                raise FileNotFoundError(
                    f"there is no ledger at {path}; to make one, give its {', '.join(missing)}, too"
                )
            with suppress(FileExistsError):  # another process was faster
                self._log.create(creation(Settings(**given), _stamp()))
        self._log.check()
        events = self._log.after(None)
        chained(self._log.path, None, events)
        self._book = read(self._log.path, None, events)
        _agree(self._log.path, self._book.settings, given)

    def __repr__(self) -> str:
        return f"Ledger({str(self.path)!r}, budget={self.budget}, dataset={self.dataset!r})"

    @property
    def path(self) -> Path:
        """The file."""
        return self._log.path

    @property
    def budget(self) -> Target:
        """The guarantee that all releases together keep."""
        return self._book.settings.budget

    @property
    def relation(self) -> Relation:
        """Neighbouring data sets, with n where it is public, and the unit of privacy."""
        return self._book.settings.relation

    @property
    def dataset(self) -> str:
        """The name of the data that the budget protects."""
        return self._book.settings.dataset

    def fits(self, account: Accountant, times: int = 1) -> bool:
        """Whether this could be spent now; nothing is spent. Raises: as `spend`, but for BudgetExceeded."""
        item = declared(account, times, self.relation)
        book = self._now()
        return book.fits(book.charge((item,), None))

    def spend(self, account: Accountant, times: int = 1, label: str = "") -> Entry:
        """Write down `times` releases with this account, before they are made.

        Raises: BudgetExceeded, RelationMismatch, NotRegistered (an account that the file could not give back),
        ValueError, TypeError, OSError; then nothing was spent.
        """
        _text(label=label)
        return self._spend("spend", declared(account, times, self.relation), label)

    def release(self, mechanism: Draws[R_co], data: Any, *, label: str = "", validated: bool = False) -> R_co:
        """Spend the mechanism's account, then draw from `data` with noise from the operating system.

        The mechanism's `validate`, if it has one, sees the data first, so that data of a wrong shape cost nothing;
        not where `data` can be read only once, or with `validated`, where the caller has done it. An error after the
        spend wastes it. A mechanism of a class that is not registered, whose release no file could hold, is refused
        before; one with a function as score is not, as it is known that its release cannot be saved.
        Raises: as `spend`; SchemaError.
        """
        if not hasattr(mechanism, "accountant"):
            raise TypeError(f"mechanism must be a mechanism, got {type(mechanism).__name__}")
        _text(label=label)
        refuse_unregistered(mechanism)
        item = declared(mechanism.accountant, 1, self.relation)
        if not flag(validated=validated):
            validated_first(mechanism, data)
        self._spend("release", item, label or type(mechanism).__name__)
        return mechanism.release(data)

    def reserve(self, plan: Plan, *, delta: float | None = None, label: str = "") -> "Reservation":
        """Spend a whole plan at once: mechanisms or accounts, alone or as (mechanism, times), fixed before any draw.

        The plan is charged by its Rényi curve; where that does not fit, or with `delta`, by the epsilon of its tight
        composition at a part of the budget's delta: at most what is set aside and left, or all of delta while
        the ledger is empty. That part stays taken. The draws may come later, in any order and between other releases,
        and from another process.
        Equal items must be draws from one and the same column: their tight composition takes them for that.
        Raises: as `spend`.
        """
        _text(label=label)
        items = [planned(member, self.relation) for member in listed(plan=plan)]
        if not items:
            raise ValueError("the plan must name at least one mechanism or account")
        if delta is not None and not probability(delta=delta) > 0:
            raise ValueError(f"delta must be > 0, got {delta!r}; leave it out to count the plan by its Rényi curve")
        known: dict[float | None, PrivacyCost] = {}

        def fitting(book: LedgerState) -> float | None:
            for part in [delta] if delta is not None else [None, *filter(None, [book.reservable])]:
                if part not in known:
                    known[part] = book.charge(items, part)
                if book.fits(known[part], part):
                    return part
            raise refused(book, self.path, known[delta], "the plan", delta=delta, plan=True)

        with suppress(BudgetExceeded):  # computes outside the lock what may take long
            fitting(self._now())
        entry = self._enter(lambda book: entering("plan", items, label, fitting(book), _stamp()))
        return Reservation(self, entry.number)

    def reservation(self, number: int) -> "Reservation":
        """A plan that was reserved before, by its number in `history`: to go on after a restart. Raises: ValueError."""
        entries = self._now().entries
        if not 1 <= positive_integer(number=number) <= len(entries) or entries[number - 1].kind != "plan":
            raise ValueError(f"entry {number} of the ledger {self.path} is no reserved plan; see history()")
        return Reservation(self, number)

    def spent(self) -> float:
        """What all entries cost, in nats: the smallest budget of this kind that the same filter would let them pass in.

        Computed from the stored accounts by this version's formulas, when the ledger is opened and as it is added to.
        """
        book = self._now()
        return book.filter.spent(book.total)

    def remaining(self) -> float:
        """The budget less `spent`, at least 0, in nats: a pure release of that epsilon (or that rho) still fits."""
        book = self._now()
        return book.filter.left(book.total) if book.filter.fits(book.total) else 0.0

    def share(self, k: int) -> Share:
        """A target for each of k equal releases, to which a mechanism can be calibrated, so that all k still fit."""
        book = self._now()
        return Share(filter=book.filter, total=book.total, releases=positive_integer(k=k))

    def history(self) -> tuple[Entry, ...]:
        """All entries, oldest first."""
        return self._now().entries

    def export(self, path: str | os.PathLike[str] | None = None) -> dict[str, Any]:
        """All that the ledger holds and its totals in JSON's types; written to a new file if `path` is given.

        Raises: FileExistsError, OSError.
        """
        made = document(self._now())
        if path is not None:
            write_new(_path(path), json.dumps(made, allow_nan=False, indent=2))
        return made

    def _now(self) -> LedgerState:
        return self._caught_up(self._log)

    def _caught_up(self, log: Log | Writer) -> LedgerState:
        """The state with what others have added. Raises: ValueError, where the file is not the same any more."""
        book = self._book
        events = log.after(book.last)
        if not events or events[0] != book.last:
            raise ValueError(f"the ledger {self.path} was replaced or cut short while it was open; open it again")
        chained(self.path, book.last, events[1:])
        self._book = read(self.path, book, events[1:])
        return self._book

    def _spend(self, kind: str, item: Item, label: str) -> Entry:
        charge = self._book.charge((item,), None)

        def event(book: LedgerState) -> str:
            if not book.fits(charge):
                raise refused(book, self.path, charge, label or type(item.account).__name__, delta=None, plan=False)
            return entering(kind, (item,), label, None, _stamp())

        return self._enter(event)

    def _enter(self, event: Callable[[LedgerState], str]) -> Entry:
        """Write an event that the current state allows, and sync it."""
        with self._log.writing() as writer:
            book = self._caught_up(writer)
            added = writer.add(book.last, event(book))
        self._book = after = read(self.path, book, [added])
        return after.entries[-1]

    def _use(self, number: int, position: int) -> None:
        """Mark one draw of a plan's item as made, and sync it."""

        def event(book: LedgerState) -> str:
            if not book.filter.fits(book.total):
                raise closed(book, self.path)
            item = book.entries[number - 1].items[position]
            if not item.left:
                raise BudgetExceeded(
                    f"item {position} of plan {number} in {self.path} was reserved {item.times} times and is used up; "
                    "nothing was drawn; draw another item, or reserve more"
                )
            return drawing(number, position, _stamp())

        self._enter(event)


def _path(path: Any) -> Path:
    if not isinstance(path, (str, os.PathLike)):
        raise TypeError(f"path must be the name of a file, got {type(path).__name__}")
    return Path(path)


def _text(*, label: Any) -> None:
    if not isinstance(label, str):
        raise TypeError(f"label must be text, got {type(label).__name__}")


def _check(given: Mapping[str, Any]) -> None:
    kinds: dict[str, type] = {"budget": Target, "relation": Relation, "dataset": str, "weights": Mapping}
    for name, item in given.items():
        if name in kinds and not isinstance(item, kinds[name]):
            raise TypeError(f"{name} must be a {kinds[name].__name__}, got {type(item).__name__}")
    if "approximate_share" in given:
        probability(approximate_share=given["approximate_share"])
    dataset = given.get("dataset", "data")
    if not (dataset.strip() and dataset.isprintable()):
        raise ValueError(f"dataset must be a name in printable characters, got {dataset!r}")


def _agree(path: Path, settings: Settings, given: Mapping[str, Any]) -> None:
    for name, item in given.items():
        held = getattr(settings, name)
        if held != item:
            raise ValueError(f"the ledger {path} was made with {name} {held}, not {item}; nothing was changed")


def _stamp() -> dict[str, str]:
    from privsample._version import __version__

    return {"at": datetime.now(UTC).isoformat(timespec="seconds"), "version": __version__}

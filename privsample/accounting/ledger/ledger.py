"""The ledger: a budget in a file, the entries charged to it, and draws that are charged before they are made."""

import itertools
import json
import math
import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

import numpy as np

from privsample._checks import flag, listed, positive, positive_integer, probability
from privsample.accounting.base import Accountant
from privsample.accounting.ledger.export import document, write_new
from privsample.accounting.ledger.filters import PrivacyCost
from privsample.accounting.ledger.log import Event, Log, Writer, check_chain, check_head, head_number
from privsample.accounting.ledger.odometer import odometer
from privsample.accounting.ledger.place import check_place, place_of
from privsample.accounting.ledger.plan import (
    Draws,
    R_co,
    Reservation,
    SpendingPlan,
    check_ready,
    check_registered,
    plan_item,
    validated_data,
)
from privsample.accounting.ledger.refusal import over_budget_error, refusal_error
from privsample.accounting.ledger.rules import check_family
from privsample.accounting.ledger.state import (
    Entry,
    Item,
    LedgerState,
    Settings,
    apply_events,
    creation_event,
    draw_event,
    entry_event,
    place_event,
    storable_item,
)
from privsample.accounting.targets import DP, Target, warn_of_large_delta
from privsample.errors import BudgetExceeded
from privsample.plots.spending import plot_spending
from privsample.relations import Relation

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_LONGEST_LABEL = 1_000  # characters
_MOST_SHOWN = 200  # entries in a plot
_SHARE = 1e-6  # default share of delta for infinity masses; it changes the epsilon spent in the seventh digit


@final
class Ledger:
    """A privacy budget in a file, shared by processes.

    An expense is written and synced before anything is drawn, and refused if it would exceed the budget. The guarantee
    holds although every release may be chosen after seeing all earlier ones (privacy filters; docs/notes/ledger.md). If
    a process is killed, its last expense may be wasted, but the budget is never exceeded and no entry is lost. The file
    is bound to its place: a copied, moved or restored one opens only after `Ledger.moved`, and one with several hard
    links does not open (docs/notes/ledger_file.md). Numbers are nats in the measure of the budget: epsilon (at the
    delta or order of the budget) or rho.

    Parameters
    ----------
    path : str or path-like
        The file. It is created if it does not exist and `budget`, `relation` and `dataset` are given.
    budget : Target, optional
        `DP`, `ZCDP`, `RDP` or `GDP`.
    relation : Relation, optional
        Neighbouring relation with the unit of privacy; all accounts must be under it.
    dataset : str, optional
        A name for the data that the budget protects.
    approximate_share : float, optional
        Fraction of delta, in [0, 1), that is set aside for infinity masses and for plans that are charged by the
        epsilon of their composition. By default a millionth of a delta > 0, which is enough for the failure
        probabilities of a thousand releases of `LogisticPosterior` at delta = 1e-6.
    weights : mapping of float to float, optional
        Weights by Rényi order, which sum to 1, for budgets with delta > 0 and no family; chosen around the budget by
        default.
    family : "gaussian" or Accountant, optional
        The releases that fill the budget exactly; fixed when the file is made. By default Rényi curves are added for
        (epsilon, delta), and a `GDP` budget is spent by Gaussian releases. With "gaussian", an (epsilon, delta) budget
        becomes the largest mu that implies it. With an account, the budget becomes the number of such releases that
        would fit if they were fixed in advance, and any other release is charged by the number that dominates it.
    at_least : str, optional
        The `head` of the ledger at an earlier time, which was kept elsewhere: the file must contain all events up to
        it. A copy that is older, or that went on without them, is refused.
    timeout : float, default 60.0
        Largest time, in seconds, to wait for other processes that write.

    Raises
    ------
    ValueError
        If the file is damaged, of a newer format or not a ledger, if its settings differ from the arguments, if it is
        not where it was last written, has several names or lacks events of `at_least`.
    TypeError
        If an argument has the wrong type.
    FileNotFoundError
        If the file does not exist, and `budget`, `relation` or `dataset` is missing or `at_least` is given.

    Warns
    -----
    LargeDeltaWarning
        If a new ledger has a budget whose delta is at least 1/n, and the number n of records is public.

    Notes
    -----
    Source: Feldman and Zrnic 2021, Theorem 3.1; Dong, Roth and Su 2022, Theorem 3.2; docs/notes/ledger.md. `rule` says
    by which of them the ledger decides.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> import privsample as ps
    >>> folder = TemporaryDirectory()
    >>> ledger = ps.Ledger(
    ...     f"{folder.name}/study.ledger", budget=ps.DP(epsilon=1, delta=1e-6), relation=ps.AddRemove(), dataset="study"
    ... )
    >>> release = ledger.release(ps.LaplaceMechanism(sensitivity=1, scale=4), 12.0)
    >>> ledger.spent(), ledger.remaining()
    (0.25, 0.75)
    >>> folder.cleanup()
    """

    __slots__ = ("_log", "_state")

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        budget: Target | None = None,
        relation: Relation | None = None,
        dataset: str | None = None,
        approximate_share: float | None = None,
        weights: Mapping[float, float] | None = None,
        family: str | Accountant | None = None,
        at_least: str | None = None,
        timeout: float = 60.0,
    ) -> None:
        """Open the file, or create it if it does not exist."""
        _check_head_name(at_least)
        self._log = Log(path=_path(path).absolute(), timeout=positive(timeout=timeout))
        fixed = {"budget": budget, "relation": relation, "dataset": dataset}
        given: dict[str, Any] = fixed | {"approximate_share": approximate_share, "weights": weights, "family": family}
        given = {name: item for name, item in given.items() if item is not None}
        _check(given)
        if not self._log.path.exists():
            self._create(path, given, at_least)
        state = self._load(at_least)
        check_place(self._log.path, state.place)
        _agree(self._log.path, state.settings, given)

    def _create(self, path: str | os.PathLike[str], given: dict[str, Any], at_least: str | None) -> None:
        """Create the file, unless another process is faster. Raises FileNotFoundError if a setting is missing."""
        if at_least is not None:
            raise FileNotFoundError(
                f"there is no ledger at {path}, and at_least says that there was one; put its newest copy back"
            )
        missing = [name for name in ("budget", "relation", "dataset") if name not in given]
        if missing:
            raise FileNotFoundError(f"there is no ledger at {path}; to create one, give {', '.join(missing)} as well")
        if isinstance(given.get("family"), Accountant):
            storable_item(given["family"], 1, given["relation"])
        settings = Settings(**_with_share(given))
        warn_of_large_delta(settings.budget, settings.relation, stacklevel=4)
        with suppress(FileExistsError):  # another process created it first
            self._log.create(lambda place: [creation_event(settings, place, _stamp())])

    def _load(self, at_least: str | None) -> LedgerState:
        """Read all events of the file, wherever it is. Raises ValueError or OSError."""
        self._log.check()
        events = self._log.after(None)
        check_chain(self._log.path, None, events)
        check_head(self._log.path, events, at_least)
        self._state = apply_events(self._log.path, None, events)
        return self._state

    @classmethod
    def moved(cls, path: str | os.PathLike[str], *, at_least: str | None = None, timeout: float = 60.0) -> "Ledger":
        """Open a ledger that was moved, copied or restored, and bind it to the place where it is now.

        Call it once, if the file is the newest copy and no other copy will be used again. What an older copy lacks is
        no longer charged: give `at_least` if you have kept a head. A file that was not moved is opened as it is.

        Parameters
        ----------
        path : str or path-like
            The file.
        at_least : str, optional
            As for `Ledger`.
        timeout : float, default 60.0
            As for `Ledger`.

        Returns
        -------
        Ledger
            The ledger. At the former place, copies open no longer.

        Raises
        ------
        ValueError, TypeError, OSError
            As for `Ledger`, and if the file cannot be written. Nothing is changed if an error is raised.

        Examples
        --------
        >>> from tempfile import TemporaryDirectory
        >>> import privsample as ps
        >>> folder = TemporaryDirectory()
        >>> ledger = ps.Ledger(
        ...     f"{folder.name}/old.ledger", budget=ps.DP(1, 1e-6), relation=ps.AddRemove(), dataset="study"
        ... )
        >>> entry = ledger.spend(ps.PureAccountant(stated_epsilon=0.25))
        >>> path = ledger.path.rename(f"{folder.name}/new.ledger")
        >>> ps.Ledger.moved(path, at_least=ledger.head).spent()
        0.25
        >>> folder.cleanup()
        """
        _check_head_name(at_least)
        ledger = object.__new__(cls)
        ledger._log = Log(path=_path(path).absolute(), timeout=positive(timeout=timeout))
        if not ledger._log.path.exists():
            raise FileNotFoundError(f"there is no ledger at {path}")
        ledger._load(at_least)
        with ledger._log.writing() as writer:
            state, here = ledger._read_on(writer), place_of(ledger.path)
            added = [writer.add(state.last, place_event(here, _stamp()))] if state.place != here else []
        check_place(ledger.path, here)
        ledger._state = apply_events(ledger.path, state, added)
        return ledger

    def __repr__(self) -> str:
        return f"Ledger({str(self.path)!r}, budget={self.budget}, dataset={self.dataset!r})"

    @property
    def path(self) -> Path:
        """The path of the file."""
        return self._log.path

    @property
    def budget(self) -> Target:
        """The guarantee that all releases together satisfy."""
        return self._state.settings.budget

    @property
    def relation(self) -> Relation:
        """The neighbouring relation, with n where it is public, and the unit of privacy."""
        return self._state.settings.relation

    @property
    def dataset(self) -> str:
        """The name of the data that the budget protects."""
        return self._state.settings.dataset

    @property
    def family(self) -> str | Accountant | None:
        """The releases that fill the budget exactly: "gaussian", an account, or None for the general rule."""
        return self._state.settings.family

    @property
    def head(self) -> str:
        """The number of the last event that this object has read or written, and a digest of all events up to it.

        Keep it elsewhere, for example beside a release, and give it as `at_least` when the ledger is opened again.
        """
        return self._state.last.head

    @property
    def rule(self) -> str:
        """The rule by which releases are charged, with its theorem, in one sentence."""
        return self._state.filter.rule

    def fits(self, account: Accountant, times: int = 1) -> bool:
        """Return whether an expense fits into the budget now. Nothing is spent.

        Parameters
        ----------
        account : Accountant
            The account of one release.
        times : int, default 1
            Number of releases, >= 1.

        Returns
        -------
        bool
            True if `spend` would accept it.

        Raises
        ------
        RelationMismatch, NotRegistered, ValueError, TypeError
            As for `spend`.
        """
        item = storable_item(account, times, self.relation)
        state = self._now()
        return state.fits(state.charge((item,), None))

    def spend(self, account: Accountant, times: int = 1, label: str = "") -> Entry:
        """Record releases with this account, before they are made.

        Parameters
        ----------
        account : Accountant
            The account of one release.
        times : int, default 1
            Number of releases, >= 1.
        label : str, default ""
            A label for the entry.

        Returns
        -------
        Entry
            The entry.

        Raises
        ------
        BudgetExceeded
            If the expense does not fit into the budget.
        RelationMismatch
            If the account is under another relation.
        NotRegistered
            If the account is of a class that files cannot name.
        ValueError, TypeError, OSError
            For wrong arguments, or a file that cannot be written. Nothing is spent if an error is raised.
        """
        _text(label=label)
        return self._spend("spend", storable_item(account, times, self.relation), label)

    def release(self, mechanism: Draws[R_co], data: Any, *, label: str = "", validated: bool = False) -> R_co:
        """Record the account of a mechanism, then draw from `data` with entropy from the operating system.

        Data are validated first, so data of the wrong shape cost nothing. If an error occurs after the expense was
        recorded, the expense is wasted.

        Parameters
        ----------
        mechanism : Mechanism
            The mechanism. Its class must be registered unless it holds a function, such as a score, which files cannot
            hold.
        data : object
            The data that the mechanism reads.
        label : str, default ""
            A label for the entry; by default the name of the class.
        validated : bool, default False
            True if the caller has validated the data already. Data that can be read only once are read before the
            expense is recorded.

        Returns
        -------
        Release
            The release of the mechanism.

        Raises
        ------
        BudgetExceeded, RelationMismatch, NotRegistered, ValueError, TypeError, OSError
            As for `spend`.
        SchemaError
            If the data have the wrong shape.
        ImportError
            If a package that the draw needs is not installed. Nothing was spent.
        """
        if not hasattr(mechanism, "accountant"):
            raise TypeError(f"mechanism must be a mechanism, got {type(mechanism).__name__}")
        _text(label=label)
        check_registered(mechanism)
        item = storable_item(mechanism.accountant, 1, self.relation)
        held = validated_data(mechanism, data, validated=flag(validated=validated))
        check_ready(mechanism)
        self._spend("release", item, label or type(mechanism).__name__)
        return mechanism.release(held)

    def reserve(self, plan: SpendingPlan, *, delta: float | None = None, label: str = "") -> "Reservation":
        """Record a whole plan at once: mechanisms or accounts that are fixed before any draw.

        The plan is charged by its Rényi curve. If that does not fit, or if `delta` is given, it is charged by the
        epsilon of its composition at a part of the budget's delta: at most the unused part that is set aside, or all of
        delta while the ledger is empty. That part stays used. The draws may be made later, in any order, between other
        releases, and by another process.

        Parameters
        ----------
        plan : sequence of Mechanism, Accountant or (member, int)
            The members, each with its number of draws. Equal members must be draws from the same data, because their
            composition assumes this.
        delta : float, optional
            The part of delta, > 0, at which the composition is charged.
        label : str, default ""
            A label for the entry.

        Returns
        -------
        Reservation
            The plan, from which the draws are made.

        Raises
        ------
        BudgetExceeded, RelationMismatch, NotRegistered, ValueError, TypeError, OSError
            As for `spend`.
        """
        _text(label=label)
        items = [plan_item(member, self.relation) for member in listed(plan=plan)]
        if not items:
            raise ValueError("plan must contain at least one mechanism or account")
        if delta is not None and not probability(delta=delta) > 0:
            raise ValueError(f"delta must be > 0, got {delta!r}; omit it to charge the plan by its Rényi curve")
        known: dict[tuple[float | None, PrivacyCost | None], PrivacyCost] = {}

        def charge(state: LedgerState, part: float | None) -> PrivacyCost:
            key = (part, state.total if state.filter.depends_on_total else None)
            if key not in known:
                known[key] = state.charge(items, part)
            return known[key]

        def fitting_delta(state: LedgerState) -> float | None:
            for part in [delta] if delta is not None else [None, *filter(None, [state.reservable])]:
                if state.fits(charge(state, part), part):
                    return part
            raise refusal_error(state, self.path, charge(state, delta), "the plan", items=items, delta=delta, plan=True)

        with suppress(BudgetExceeded):  # expensive charges are computed before the file is locked
            fitting_delta(self._now())
        entry = self._enter(lambda state: entry_event("plan", items, label, fitting_delta(state), _stamp()))
        return Reservation(self, entry.number)

    def reservation(self, number: int) -> "Reservation":
        """A plan that was reserved earlier, for example before a restart.

        Parameters
        ----------
        number : int
            Number of the plan in `history()`, >= 1.

        Returns
        -------
        Reservation
            The plan.

        Raises
        ------
        ValueError
            If the entry is not a plan.
        """
        entries = self._now().entries
        if not 1 <= positive_integer(number=number) <= len(entries) or entries[number - 1].kind != "plan":
            raise ValueError(f"entry {number} of the ledger {self.path} is not a reserved plan; see history()")
        return Reservation(self, number)

    def spent(self, delta: float | None = None) -> float:
        """The cost of all entries: the smallest budget of this kind into which they fit, or their epsilon at a delta.

        Everything that was charged is counted, also draws of plans that were not made yet. The cost is computed from
        the stored accounts by the formulas of this version.

        Parameters
        ----------
        delta : float, optional
            A probability in (0, 1) that was chosen independently of the outputs. The result is then a privacy odometer:
            (epsilon, delta)-differential privacy holds with the epsilon that is returned, at any time, although this
            time and the releases may depend on outputs. It follows from the Rényi curves of all entries, with fixed
            weights, whatever the rule of the ledger is (docs/notes/ledger.md, section 10).

        Returns
        -------
        float
            Nats in the measure of the budget, or mu; epsilon if `delta` is given. Rounded up; +inf if there is no
            guarantee at this delta.

        Raises
        ------
        ValueError
            If delta is not in (0, 1).
        """
        state = self._now()
        if delta is None:
            return state.filter.spent(state.total)
        if not probability(delta=delta) > 0:
            raise ValueError(f"delta must be > 0, got {delta!r}; omit it for the cost in the measure of the budget")
        return odometer(state, float(delta))

    def remaining(self) -> float:
        """The part of the budget that remains.

        By the general rule it is the budget minus `spent`, and a release with this pure epsilon (or rho) still fits. In
        a ledger with a family it is the guarantee that the rest of the family has, in the measure of the budget.

        Returns
        -------
        float
            Nats in the measure of the budget, or mu, >= 0, rounded down.
        """
        state = self._now()
        return state.filter.left(state.total) if state.filter.fits(state.total) else 0.0

    def remaining_releases(self, account: Accountant) -> int:
        """How many releases with this account still fit, one at a time.

        Parameters
        ----------
        account : Accountant
            The account of one release.

        Returns
        -------
        int
            The number of releases, at most 10^12. It is exact for the rule of the ledger, except that after 100
            releases that are charged by what they leave of a Gaussian guarantee it counts fewer.

        Raises
        ------
        RelationMismatch, NotRegistered, ValueError, TypeError
            As for `spend`.

        Examples
        --------
        >>> from tempfile import TemporaryDirectory
        >>> import privsample as ps
        >>> folder = TemporaryDirectory()
        >>> ledger = ps.Ledger(
        ...     f"{folder.name}/study.ledger", budget=ps.GDP(1), relation=ps.AddRemove(), dataset="study"
        ... )
        >>> ledger.remaining_releases(ps.GaussianAccountant(sensitivity=1, noise_std=4))
        16
        >>> folder.cleanup()
        """
        item, state = storable_item(account, 1, self.relation), self._now()
        return state.filter.remaining_releases(state.total, item.account) if state.filter.fits(state.total) else 0

    def share(self, k: int) -> Target:
        """A target for each of k equal releases, to which mechanisms can be calibrated so that all k fit.

        Parameters
        ----------
        k : int
            Number of releases, >= 1.

        Returns
        -------
        Target
            The target.
        """
        state = self._now()
        return state.filter.share(state.total, positive_integer(k=k))

    def plot(self, ax: "Axes | None" = None) -> "Axes":
        """Plot what was spent after each entry, with the budget.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            The axes; by default those of a new figure.

        Returns
        -------
        matplotlib Axes
            The axes.
        """
        state = self._now()
        found, entries = state.filter, np.arange(1, len(state.totals) + 1)
        shown = entries[:: max(math.ceil(len(entries) / _MOST_SHOWN), 1)]
        used = np.array([found.progress(state.totals[number - 1]) for number in shown])
        return plot_spending(
            ax,
            shown.astype(float),
            used,
            budget=found.capacity,
            names=[state.entries[number - 1].label for number in shown] if len(shown) == len(state.totals) else [],
            measure=found.measure,
        )

    def history(self) -> tuple[Entry, ...]:
        """All entries, oldest first.

        Returns
        -------
        tuple of Entry
            The entries.
        """
        return self._now().entries

    @property
    def cost_measure(self) -> str:
        """The measure of `costs` with its unit, for example "ε spent (nats)" or "copies used"."""
        return self._state.filter.measure

    def costs(self, last: int | None = None) -> dict[int, float]:
        """What each entry added to the used part of the budget: to what `plot` shows.

        Parameters
        ----------
        last : int, optional
            Number of entries, >= 1, from the last one back; all by default. An entry of a ledger by the general rule
            takes 0.01 s.

        Returns
        -------
        dict of int to float
            Number of the entry -> its cost, oldest first, in `cost_measure`: in the measure of the budget by the
            general rule, otherwise in squares of mu or in copies of the family.
        """
        state = self._now()
        count = len(state.totals) if last is None else min(positive_integer(last=last), len(state.totals))
        start = len(state.totals) - count
        before = state.totals[start - 1] if start else state.filter.zero
        used = [state.filter.progress(total) for total in (before, *state.totals[start:])]
        pairs = enumerate(itertools.pairwise(used), start + 1)
        return {number: max(more - less, 0.0) if more < math.inf else math.inf for number, (less, more) in pairs}

    def backup(self, path: str | os.PathLike[str]) -> str:
        """Write all events to a new file, consistently although other processes write at the same time.

        The copy opens only after `Ledger.moved`, so that it is not used beside the ledger by mistake.

        Parameters
        ----------
        path : str or path-like
            The new file, which is never replaced.

        Returns
        -------
        str
            The head of the copy.

        Raises
        ------
        FileExistsError, OSError, ValueError
            If the file exists or cannot be written, or if the ledger is damaged. No file is left then.
        """
        copy = Log(path=_path(path).absolute(), timeout=self._log.timeout)
        self._now()  # checks the place
        events = self._log.after(None)
        check_chain(self.path, None, events)
        copy.create(lambda _: [event.document for event in events])
        return events[-1].head

    def export(self, path: str | os.PathLike[str] | None = None) -> dict[str, Any]:
        """Export all contents and totals of the ledger as lists, numbers and strings.

        Parameters
        ----------
        path : str or path-like, optional
            A new JSON file to which the document is written.

        Returns
        -------
        dict
            The document.

        Raises
        ------
        FileExistsError, OSError
            If the file exists or cannot be written.
        """
        made = document(self._now())
        if path is not None:
            write_new(_path(path), json.dumps(made, allow_nan=False, indent=2))
        return made

    def _now(self) -> LedgerState:
        """The state with all events of the file."""
        return self._caught_up(self._log)

    def _caught_up(self, log: Log | Writer) -> LedgerState:
        """The state with the events that other processes have added. Raises ValueError if the file was moved."""
        state = self._read_on(log)
        check_place(self.path, state.place)
        return state

    def _read_on(self, log: Log | Writer) -> LedgerState:
        """The state with the events that other processes have added. Raises ValueError if the file was replaced."""
        state = self._state
        events = log.after(state.last)
        if not events or events[0] != state.last:
            raise ValueError(f"the ledger {self.path} was replaced or cut short while it was open; open it again")
        check_chain(self.path, state.last, events[1:])
        self._state = apply_events(self.path, state, events[1:])
        return self._state

    def _spend(self, kind: str, item: Item, label: str) -> Entry:
        """Enter one item if it fits. Raises BudgetExceeded."""
        before = self._state
        known = before.charge((item,), None)  # expensive charges are computed before the file is locked

        def event(state: LedgerState) -> str:
            same = not state.filter.depends_on_total or state.total == before.total
            charge = known if same else state.charge((item,), None)
            if not state.fits(charge):
                raise refusal_error(
                    state,
                    self.path,
                    charge,
                    label or type(item.account).__name__,
                    items=(item,),
                    delta=None,
                    plan=False,
                )
            return entry_event(kind, (item,), label, None, _stamp())

        return self._enter(event)

    def _enter(self, event: Callable[[LedgerState], str]) -> Entry:
        """Write an event that the current state allows, and sync it. Files of earlier versions are bound first.

        Whatever was drawn after a write to a file that is no longer at its path would not be charged: the place is
        compared after the write as well.
        """
        with self._log.writing() as writer:
            state = self._caught_up(writer)
            here, added = place_of(self.path), list[Event]()
            for document in ([] if state.place else [place_event(here, _stamp())]) + [event(state)]:
                added.append(writer.add(added[-1] if added else state.last, document))
        check_place(self.path, here)
        self._state = after = apply_events(self.path, state, added)
        return after.entries[-1]

    def _mark_draw(self, number: int, position: int) -> None:
        """Record one draw of a plan's item, and sync it."""

        def event(state: LedgerState) -> str:
            if not state.filter.fits(state.total):
                raise over_budget_error(state, self.path)
            item = state.entries[number - 1].items[position]
            if not item.left:
                raise BudgetExceeded(
                    f"item {position} of plan {number} in {self.path} was reserved {item.times} times, and no draw "
                    f"is left; "
                    "nothing was drawn; draw another item, or reserve more"
                )
            return draw_event(number, position, _stamp())

        self._enter(event)


def _path(path: Any) -> Path:
    """Check that the argument is the name of a file. Raises TypeError."""
    if not isinstance(path, (str, os.PathLike)):
        raise TypeError(f"path must be the name of a file, got {type(path).__name__}")
    return Path(path)


def _check_head_name(at_least: str | None) -> None:
    """Check that `at_least` can be a head. Raises TypeError or ValueError."""
    if at_least is not None:
        head_number(at_least)


def _text(*, label: Any) -> None:
    """Check that a label is a short string that can be printed. Raises TypeError or ValueError."""
    if not isinstance(label, str):
        raise TypeError(f"label must be a string, got {type(label).__name__}")
    if len(label) > _LONGEST_LABEL or not label.isprintable():
        raise ValueError(
            f"label must be at most {_LONGEST_LABEL} printable characters, got {len(label)} characters; shorten it, "
            "and leave out line breaks and control characters"
        )


def _check(given: Mapping[str, Any]) -> None:
    """Check the types of the settings. Raises TypeError or ValueError."""
    kinds: dict[str, type] = {"budget": Target, "relation": Relation, "dataset": str, "weights": Mapping}
    for name, item in given.items():
        if name in kinds and not isinstance(item, kinds[name]):
            raise TypeError(f"{name} must be a {kinds[name].__name__}, got {type(item).__name__}")
    if "family" in given:
        check_family(given["family"])
    if "approximate_share" in given:
        probability(approximate_share=given["approximate_share"])
    dataset = given.get("dataset", "data")
    if not (dataset.strip() and dataset.isprintable()):
        raise ValueError(f"dataset must be a name in printable characters, got {dataset!r}")


def _agree(path: Path, settings: Settings, given: Mapping[str, Any]) -> None:
    """Check that the given settings equal those of the ledger. Raises ValueError."""
    for name, item in given.items():
        held = getattr(settings, name)
        if held != item:
            raise ValueError(f"the ledger {path} was created with {name} {held}, got {item}; nothing was changed")


def _stamp() -> dict[str, str]:
    """Time and version of an event."""
    from privsample._version import __version__

    return {"at": datetime.now(UTC).isoformat(timespec="seconds"), "version": __version__}


def _with_share(given: dict[str, Any]) -> dict[str, Any]:
    """The settings of a new ledger, with the default share of delta for infinity masses."""
    budget = given["budget"]
    return {"approximate_share": _SHARE} | given if isinstance(budget, DP) and budget.delta > 0.0 else given

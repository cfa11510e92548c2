"""The file of a ledger: an append-only list of events in SQLite, each synced before the next step.

Several processes share one file: a rollback journal leaves no side files, `synchronous=EXTRA` makes commits survive a
loss of power, and `BEGIN IMMEDIATE` lets a writer see all earlier events. Each event has a digest of itself and of all
earlier ones, which detects accidental damage but not forgery. How the file is bound to its place is described in
docs/notes/ledger_file.md.
"""

import hashlib
import os
import re
import sqlite3
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

from privsample._value import frozen_value
from privsample.accounting.ledger.journal import check_journal
from privsample.accounting.ledger.place import Place, check_links, place_of_draft

# "prSb"; all schemas have the same tables: 1 has older tags in its documents, 3 a rule that earlier versions do not
# know, 4 events that bind the file to its place, which earlier versions would not check
APPLICATION, SCHEMA = 0x70725362, 4
_TABLES = """
    PRAGMA application_id = {application};
    PRAGMA user_version = {schema};
    CREATE TABLE events (id INTEGER PRIMARY KEY, document TEXT NOT NULL, digest TEXT NOT NULL);
    CREATE TRIGGER never_changed BEFORE UPDATE ON events BEGIN SELECT RAISE(ABORT, 'a ledger is only added to'); END;
    CREATE TRIGGER never_removed BEFORE DELETE ON events BEGIN SELECT RAISE(ABORT, 'a ledger is only added to'); END;
"""
_NOTHING_SPENT = "nothing was spent or drawn"
_BUSY = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}
_HEAD = re.compile(r"([1-9][0-9]*):([0-9a-f]{16})")


@frozen_value
class Event:
    """One event: its number from 1 on, its JSON document, and the digest of the log up to it."""

    number: int
    document: str
    digest: str

    def follows(self, before: "Event | None") -> bool:
        """Return whether this event was written directly after `before` (None for the first event)."""
        return self == _next(before, self.document)

    @property
    def head(self) -> str:
        """The number and the start of the digest, which name this event and all earlier ones."""
        return f"{self.number}:{self.digest[:16]}"


def _next(before: Event | None, document: str) -> Event:
    """The event with this document after `before`."""
    number, digest = (1, "") if before is None else (before.number + 1, before.digest)
    return Event(
        number=number,
        document=document,
        digest=hashlib.sha256(f"{digest}\n{number}\n{document}".encode()).hexdigest(),
    )


@frozen_value
class Writer:
    """The log during an exclusive write."""

    connection: sqlite3.Connection

    def after(self, last: Event | None) -> list[Event]:
        """The event `last`, if given, and all later events."""
        return _events(self.connection, last)

    def add(self, last: Event | None, document: str) -> Event:
        """Write one event after `last`; it is committed when the write ends without an error."""
        # older versions refuse the file with a clear message
        ((found,),) = self.connection.execute("PRAGMA user_version")
        self.connection.execute(f"PRAGMA user_version = {max(found, SCHEMA)}")
        made = _next(last, document)
        row = (made.number, made.document, made.digest)
        self.connection.execute("INSERT INTO events (id, document, digest) VALUES (?, ?, ?)", row)
        return made


@frozen_value
class Log:
    """A file of events. Each call opens it anew, so it can be used from threads, forks and other processes."""

    path: Path
    timeout: float

    def create(self, documents: Callable[[Place], Sequence[str]]) -> None:
        """Create the file with its first events, completely or not at all. Raises FileExistsError or OSError.

        `documents` returns them for the place that the file will have.
        """
        if not self.path.parent.is_dir():
            raise FileNotFoundError(f"the folder {self.path.parent} does not exist; create it first")
        draft = self.path.with_name(f".{self.path.name}.{uuid.uuid4().hex}")
        try:
            with _translate_errors(self.path), closing(self._connect(draft, "rwc")) as connection:
                tables = _TABLES.format(application=APPLICATION, schema=SCHEMA)
                connection.executescript(f"BEGIN IMMEDIATE; {tables}")
                writer, last = Writer(connection=connection), None
                for document in documents(place_of_draft(draft, self.path)):
                    last = writer.add(last, document)
                connection.execute("COMMIT")
            os.link(draft, self.path)  # fails if the file exists
            _sync_folder(self.path.parent)
        finally:
            draft.unlink(missing_ok=True)

    def check(self) -> None:
        """Check that the file is an undamaged ledger of a known format. Raises ValueError or OSError."""
        if self.path.is_dir():
            raise IsADirectoryError(f"{self.path} is a folder; name a file in it")
        with self._open() as connection:
            found = connection.execute("PRAGMA quick_check(1)").fetchall()
            if found != [("ok",)]:
                raise _damaged(self.path, "SQLite's quick_check failed")

    def after(self, last: Event | None) -> list[Event]:
        """The event `last`, if given, and all later events. Raises ValueError or OSError."""
        with self._open() as connection:
            return _events(connection, last)

    @contextmanager
    def writing(self) -> Iterator[Writer]:
        """Lock the file for writing; events are committed and synced at the end, or none of them if an error occurs.

        Raises TimeoutError if other processes hold the lock, OSError for a full disk or a read-only file, and
        ValueError.
        """
        with self._open() as connection:
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield Writer(connection=connection)
                connection.execute("COMMIT")
            except BaseException:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                raise

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        """Open the file, check its names, its journal and its format, and close it afterwards."""
        check_links(self.path)
        check_journal(self.path)
        with _translate_errors(self.path), closing(self._connect(self.path, "rw")) as connection:
            self._identify(connection)
            yield connection

    def _connect(self, path: Path, mode: str) -> sqlite3.Connection:
        """Open the file. Mode rw never creates it, so a removed ledger does not start anew."""
        uri = f"{path.as_uri()}?mode={mode}"
        connection = sqlite3.connect(uri, uri=True, timeout=self.timeout, isolation_level=None)
        for setting in ("synchronous = EXTRA", "fullfsync = ON", "trusted_schema = OFF", "cell_size_check = ON"):
            connection.execute(f"PRAGMA {setting}")
        return connection

    def _identify(self, connection: sqlite3.Connection) -> None:
        """Check that the file is a ledger of a known format. Raises ValueError."""
        ((application,),) = connection.execute("PRAGMA application_id")
        ((schema,),) = connection.execute("PRAGMA user_version")
        if application != APPLICATION:
            raise _foreign(self.path)
        if schema > SCHEMA:
            raise ValueError(
                f"{self.path} was written by a newer privsample (format {schema}; this version reads {SCHEMA}); upgrade"
            )
        if schema < 1:
            raise _damaged(self.path, f"its format number is {schema}")


def _events(connection: sqlite3.Connection, last: Event | None) -> list[Event]:
    """The events from `last` on, in order."""
    first = 1 if last is None else last.number
    rows = connection.execute("SELECT id, document, digest FROM events WHERE id >= ? ORDER BY id", (first,))
    return [Event(number=number, document=document, digest=digest) for number, document, digest in rows]


def _foreign(path: Path) -> ValueError:
    """The error for a file that is not a ledger."""
    return ValueError(
        f"{path} is not a privsample ledger: it is empty, damaged or written by another program; use another file"
    )


def _damaged(path: Path, reason: str) -> ValueError:
    """The error for a damaged ledger."""
    return ValueError(
        f"the ledger {path} is damaged ({reason}) and was not changed; restore a copy that contains all entries, or, "
        f"if the file was copied or moved without its {path.name}-journal, put that beside it"
    )


def check_chain(path: Path, last: Event | None, events: Sequence[Event]) -> None:
    """Check that no event is missing or altered and that the first continues `last`. Raises ValueError."""
    expected = last
    for event in events:
        if not event.follows(expected):
            raise _damaged(
                path, f"the digest of event {event.number} does not match its content or the events before it"
            )
        expected = event


@contextmanager
def _translate_errors(path: Path) -> Iterator[None]:
    """Raise Python's own exceptions in place of SQLite's, with messages that say what to do."""
    try:
        yield
    except sqlite3.Error as error:
        raise _python_error(path, error) from None


def _python_error(path: Path, error: sqlite3.Error) -> Exception:
    """The Python exception for an error of SQLite."""
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF
    if code in _BUSY:
        return TimeoutError(f"the ledger {path} is locked by another process; {_NOTHING_SPENT}; try again")
    if getattr(error, "sqlite_errorcode", code) == sqlite3.SQLITE_READONLY_DBMOVED:
        return OSError(f"the ledger {path} was moved or replaced while it was written; {_NOTHING_SPENT}; try again")
    if code == sqlite3.SQLITE_READONLY:
        return PermissionError(f"the ledger {path} is read-only; {_NOTHING_SPENT}; make it and its folder writable")
    if code in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR):
        return OSError(
            f"the ledger {path} could not be written ({error}); {_NOTHING_SPENT}; free some space on its disk"
        )
    if code in (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM, sqlite3.SQLITE_AUTH):
        if path.parent.is_dir() and not path.exists():
            return FileNotFoundError(f"there is no ledger at {path}, or its folder is not writable")
        return PermissionError(f"the ledger {path} cannot be opened; check that it and its folder may be written")
    return _foreign(path) if code == sqlite3.SQLITE_NOTADB else _damaged(path, str(error))


def _sync_folder(folder: Path) -> None:
    """Sync the folder, so that a new file survives a loss of power, where the system supports it."""
    if hasattr(os, "O_DIRECTORY"):
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def check_head(path: Path, events: Sequence[Event], at_least: str | None) -> None:
    """Check that the first events are those that `at_least` names. Raises ValueError."""
    if at_least is None:
        return
    number = head_number(at_least)
    if len(events) < number:
        raise ValueError(
            f"the ledger {path} is an older copy: it ends at event {len(events)}, and at_least names event {number}; "
            "nothing was changed, spent or drawn; put the newest copy back"
        )
    if events[number - 1].head != at_least:
        raise ValueError(
            f"the ledger {path} has another history than at_least names: its event {number} differs, as in a copy that "
            "was used beside the ledger; nothing was changed, spent or drawn; put the right copy back"
        )


def head_number(at_least: object) -> int:
    """The number of the event that a head names. Raises TypeError or ValueError."""
    if not isinstance(at_least, str):
        raise TypeError(f"at_least must be a string such as Ledger.head, got {type(at_least).__name__}")
    found = _HEAD.fullmatch(at_least)
    if found is None:
        raise ValueError(f"at_least must be a head, such as '7:0123456789abcdef', got {at_least!r}; see Ledger.head")
    return int(found[1])

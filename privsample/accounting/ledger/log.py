"""The file: events that are only ever added, each synced before the next step. SQLite, safe against kill -9.

One file, several processes: a rollback journal (no side files stay), `synchronous=EXTRA` (what is committed survives a
loss of power, the removal of the journal too), `BEGIN IMMEDIATE` (whoever writes has seen all that was written before).
Each event carries a digest of itself and of all before it: it catches accidents, not forgers.
"""

import hashlib
import os
import sqlite3
import uuid
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

from privsample._value import frozen_value

APPLICATION, SCHEMA = 0x70725362, 2  # "prSb"; schema 1 has the same tables, and older tags in its documents
_TABLES = """
    PRAGMA application_id = {application};
    PRAGMA user_version = {schema};
    CREATE TABLE events (id INTEGER PRIMARY KEY, document TEXT NOT NULL, digest TEXT NOT NULL);
    CREATE TRIGGER never_changed BEFORE UPDATE ON events BEGIN SELECT RAISE(ABORT, 'a ledger is only added to'); END;
    CREATE TRIGGER never_removed BEFORE DELETE ON events BEGIN SELECT RAISE(ABORT, 'a ledger is only added to'); END;
"""
_NOTHING_SPENT = "nothing was spent or drawn"
_BUSY = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}


@frozen_value
class Event:
    """One line of the log: its number from 1 on, its JSON text, and the digest that ends with it."""

    number: int
    document: str
    digest: str

    def follows(self, before: "Event | None") -> bool:
        """Whether this is what was written after `before` (None: at the beginning)."""
        return self == _next(before, self.document)


def _next(before: Event | None, document: str) -> Event:
    number, digest = (1, "") if before is None else (before.number + 1, before.digest)
    return Event(
        number=number,
        document=document,
        digest=hashlib.sha256(f"{digest}\n{number}\n{document}".encode()).hexdigest(),
    )


@frozen_value
class Writer:
    """The log while nobody else can write."""

    connection: sqlite3.Connection

    def after(self, last: Event | None) -> list[Event]:
        """The event `last` itself, if it is given, and all after it."""
        return _events(self.connection, last)

    def add(self, last: Event | None, document: str) -> Event:
        """Write one event after `last`; it is kept when the writing ends without an error."""
        self.connection.execute(f"PRAGMA user_version = {SCHEMA}")  # versions that cannot read it say so
        made = _next(last, document)
        row = (made.number, made.document, made.digest)
        self.connection.execute("INSERT INTO events (id, document, digest) VALUES (?, ?, ?)", row)
        return made


@frozen_value
class Log:
    """A file of events. Each call opens it anew, so that threads, forks and other processes need no care."""

    path: Path
    timeout: float

    def create(self, document: str) -> None:
        """Make the file with its first event, whole or not at all. Raises: FileExistsError, OSError."""
        if not self.path.parent.is_dir():
            raise FileNotFoundError(f"the folder {self.path.parent} does not exist; create it first")
        draft = self.path.with_name(f".{self.path.name}.{uuid.uuid4().hex}")
        try:
            with _told(self.path), closing(self._connect(draft, "rwc")) as connection:
                tables = _TABLES.format(application=APPLICATION, schema=SCHEMA)
                connection.executescript(f"BEGIN IMMEDIATE; {tables}")
                Writer(connection=connection).add(None, document)
                connection.execute("COMMIT")
            os.link(draft, self.path)  # never replaces a file
            _sync_folder(self.path.parent)
        finally:
            draft.unlink(missing_ok=True)

    def check(self) -> None:
        """Refuse what is no ledger, a newer one, or damaged. Raises: ValueError, OSError."""
        if self.path.is_dir():
            raise IsADirectoryError(f"{self.path} is a folder; name a file in it")
        with self._open() as connection:
            found = connection.execute("PRAGMA quick_check(1)").fetchall()
            if found != [("ok",)]:
                raise _damaged(self.path, "its pages are not in order")

    def after(self, last: Event | None) -> list[Event]:
        """The event `last` itself, if it is given, and all after it. Raises: ValueError, OSError."""
        with self._open() as connection:
            return _events(connection, last)

    @contextmanager
    def writing(self) -> Iterator[Writer]:
        """Alone with the file: what is added is committed and synced at the end, or not at all on any error.

        Raises: TimeoutError, when others keep the file; OSError, for a full disk or a read-only file; ValueError.
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
        with _told(self.path), closing(self._connect(self.path, "rw")) as connection:
            self._identify(connection)
            yield connection

    def _connect(self, path: Path, mode: str) -> sqlite3.Connection:
        """Mode rw never makes a new file: a ledger that was removed must not begin anew."""
        uri = f"{path.as_uri()}?mode={mode}"
        connection = sqlite3.connect(uri, uri=True, timeout=self.timeout, isolation_level=None)
        for setting in ("synchronous = EXTRA", "fullfsync = ON", "trusted_schema = OFF", "cell_size_check = ON"):
            connection.execute(f"PRAGMA {setting}")
        return connection

    def _identify(self, connection: sqlite3.Connection) -> None:
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
    first = 1 if last is None else last.number
    rows = connection.execute("SELECT id, document, digest FROM events WHERE id >= ? ORDER BY id", (first,))
    return [Event(number=number, document=document, digest=digest) for number, document, digest in rows]


def _foreign(path: Path) -> ValueError:
    return ValueError(f"{path} is no privsample ledger: it is empty, damaged or another program's; name another file")


def _damaged(path: Path, reason: str) -> ValueError:
    return ValueError(
        f"the ledger {path} is damaged ({reason}) and was left as it is; restore a copy that holds all that was spent"
    )


def chained(path: Path, last: Event | None, events: Sequence[Event]) -> None:
    """Refuse a log in which an event is missing or was altered, or that does not go on from `last`.

    Raises: ValueError.
    """
    expected = last
    for event in events:
        if not event.follows(expected):
            raise _damaged(path, f"event {event.number} is not what was written")
        expected = event


@contextmanager
def _told(path: Path) -> Iterator[None]:
    """SQLite's errors as Python's own, in plain words."""
    try:
        yield
    except sqlite3.Error as error:
        raise _plain(path, error) from None


def _plain(path: Path, error: sqlite3.Error) -> Exception:
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF
    if code in _BUSY:
        return TimeoutError(f"other processes keep the ledger {path} busy; {_NOTHING_SPENT}; try again")
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
    """Make a new name in a folder survive a loss of power, where the system can."""
    if hasattr(os, "O_DIRECTORY"):
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)

"""The file of a sequential audit: one SQLite database, locked while the audit runs, and written after every batch.

A batch of draws and the wealth after it are committed together or not at all, so that an interrupted audit goes on
where the last batch ended. What the file belongs to is checked before anything is written.
"""

import hashlib
import json
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from privsample._checks import FloatArray

APPLICATION, FORMAT = 0x70725361, 1  # "prSa"
_TABLES = """
    CREATE TABLE document (text TEXT NOT NULL, digest TEXT NOT NULL);
    CREATE TABLE draws (
        first_pair INTEGER PRIMARY KEY, width INTEGER NOT NULL, x BLOB NOT NULL, y BLOB NOT NULL, digest TEXT NOT NULL
    );
"""
_UNCHANGED = "the file was not changed"

Batch = tuple[int, FloatArray, FloatArray]  # number of pairs before it, and the draws of both distributions


class StateFile:
    """The open and locked file of one sequential audit; without a path, nothing is stored.

    `document` is what was stored last, or None for a new file.
    """

    def __init__(self, connection: sqlite3.Connection | None, path: Path | None) -> None:
        self._connection, self._path = connection, path
        self.document: dict[str, Any] | None = None

    def check(self, identity: Mapping[str, str]) -> None:
        """Check that the file belongs to this audit, part by part. Raises: ValueError."""
        stored = {} if self.document is None else self.document["identity"]
        for part, own in identity.items():
            if self.document is not None and stored.get(part) != own:
                raise ValueError(
                    f"the state file {self._path} belongs to an audit with another {part}: continue it with the {part} "
                    f"it was started with, or name a new file; {_UNCHANGED}"
                )

    def batches(self) -> list[Batch]:
        """Return the stored batches of draws in order.

        Raises: ValueError, if one is missing or was changed: the same pairs would then be drawn and bet on twice.
        """
        if self._connection is None or self.document is None:
            return []
        found: list[Batch] = []
        with _translate_errors(self._path):
            rows = self._connection.execute(
                "SELECT first_pair, width, x, y, digest FROM draws ORDER BY first_pair"
            ).fetchall()
        end = self.document["kept_from"]
        for at, width, x, y, digest in rows:
            if at != end or digest != _batch_digest(at, width, x, y):
                raise _foreign(self._path)
            found.append((at, *(np.frombuffer(blob).reshape(-1, width) for blob in (x, y))))
            end = at + len(found[-1][1])
        if end != self.document["pairs"]:
            raise _foreign(self._path)
        return found

    def write(self, document: Mapping[str, Any], batch: Batch, oldest: int) -> None:
        """Store the document and a batch, and remove batches that begin before the pair `oldest`. Raises: OSError."""
        at, first, second = batch
        document = {**document, "kept_from": oldest, "pairs": at + len(first)}
        if self._connection is None:
            return
        with _translate_errors(self._path):
            if not self._connection.in_transaction:
                self._connection.execute("BEGIN EXCLUSIVE")
            self._connection.execute("DELETE FROM document")
            text = json.dumps(document)
            self._connection.execute("INSERT INTO document VALUES (?, ?)", (text, _digest(text)))
            self._connection.execute("DELETE FROM draws WHERE first_pair < ?", (oldest,))
            held = (at, first.shape[1], *(np.ascontiguousarray(rows).tobytes() for rows in (first, second)))
            self._connection.execute("INSERT INTO draws VALUES (?, ?, ?, ?, ?)", (*held, _batch_digest(*held)))
            self._connection.execute("COMMIT")


@contextmanager
def open_state(path: Path | None) -> Iterator[StateFile]:
    """Open and lock the file, or a new one, until the end of the context.

    Raises: ValueError, for a file of another program or format; TimeoutError, if another audit uses it; OSError.
    """
    if path is None:
        yield StateFile(None, None)
        return
    if path.is_dir():
        raise IsADirectoryError(f"state must name a file, and {path} is a folder: name a file in it")
    if not path.parent.is_dir():
        raise FileNotFoundError(f"state: the folder {path.parent} does not exist; create it first")
    is_new = not path.exists()
    with _translate_errors(path):
        connection = sqlite3.connect(path, timeout=0.0, isolation_level=None)
    try:
        yield from _locked(connection, path)
    finally:
        if is_new and path.exists() and not path.stat().st_size:  # nothing was written
            path.unlink()


def _locked(connection: sqlite3.Connection, path: Path) -> Iterator[StateFile]:
    """Yield the locked file with what it holds, and close it."""
    with closing(connection):
        state = StateFile(connection, path)
        with _translate_errors(path):
            connection.execute("PRAGMA trusted_schema = OFF")
            connection.execute("PRAGMA locking_mode = EXCLUSIVE")
            connection.execute("BEGIN EXCLUSIVE")
            state.document = _read(connection, path)
            if state.document is None:  # written with the first batch, or not at all
                for line in filter(str.strip, _TABLES.split(";")):
                    connection.execute(line)
                connection.execute(f"PRAGMA application_id = {APPLICATION}")
                connection.execute(f"PRAGMA user_version = {FORMAT}")
            else:
                connection.execute("COMMIT")
        try:
            yield state
        finally:
            if connection.in_transaction:
                connection.execute("ROLLBACK")


def _read(connection: sqlite3.Connection, path: Path) -> dict[str, Any] | None:
    """Return the stored document; None for an empty file. Raises: ValueError."""
    ((application,),) = connection.execute("PRAGMA application_id")
    ((version,),) = connection.execute("PRAGMA user_version")
    ((tables,),) = connection.execute("SELECT count(*) FROM sqlite_master")
    if application == 0 and version == 0 and tables == 0:
        return None
    if application != APPLICATION:
        raise _foreign(path)
    if version != FORMAT:
        raise ValueError(
            f"the state file {path} has format {version}, and this version of privsample reads format {FORMAT}: "
            f"continue it with the version that wrote it, or name a new file; {_UNCHANGED}"
        )
    if connection.execute("PRAGMA quick_check(1)").fetchall() != [("ok",)]:
        raise _foreign(path)
    rows = connection.execute("SELECT text, digest FROM document").fetchall()
    if len(rows) != 1 or rows[0][1] != _digest(rows[0][0]):
        raise _foreign(path)
    found: dict[str, Any] = json.loads(rows[0][0])
    return found


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _batch_digest(at: int, width: int, x: bytes, y: bytes) -> str:
    return hashlib.sha256(f"{at} {width} {len(x)} ".encode() + x + y).hexdigest()


@contextmanager
def _translate_errors(path: Path | None) -> Iterator[None]:
    """Raise Python's own exceptions in place of SQLite's."""
    try:
        yield
    except sqlite3.Error as error:
        code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF
        if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
            raise TimeoutError(
                f"the state file {path} is used by another audit: wait until it ends, or name another file"
            ) from None
        if code in (sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT):
            raise _foreign(path) from None
        raise OSError(
            f"the state file {path} could not be read or written ({error}): check its folder, its permissions and the "
            "space on its disk"
        ) from None


def _foreign(path: Path | None) -> ValueError:
    return ValueError(
        f"{path} is damaged or was not written by a sequential audit: name a new file for state; {_UNCHANGED}"
    )

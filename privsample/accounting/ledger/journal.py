"""The journal of an unfinished write: whether it belongs to the file beside which it is (docs/notes/ledger_file.md).

SQLite rolls an unfinished write back when the file is next opened. It does not notice that the file was replaced since,
for example by a copy that was written elsewhere, and would undo the newer writes. The file counts its commits in its
first page, and the journal holds this page as it was before the write: the counts agree, or differ by one, if and only
if no other write came between.
"""

import os
import sqlite3
import time
from contextlib import closing
from pathlib import Path
from typing import BinaryIO

from privsample._value import frozen_value

_MAGIC = bytes.fromhex("d9d505f920a163d7")
_HEAD = 28  # bytes of the header of a journal, and of its identity: it has a random number
_COMMITS = slice(24, 28)  # of the first page
_WRAP = 2**32  # commits are counted modulo this number
_LOOKS, _WAIT = 1_000, 0.001  # looks at a journal that live writers change, and seconds between them


@frozen_value
class Journal:
    """The journal of an unfinished write; `commits` is the file's count before it, or None if it does not say."""

    identity: bytes
    commits: int | None


def check_journal(path: Path) -> None:
    """Check that an unfinished write beside the file, if there is one, is a write to this file. Raises ValueError."""
    journal = Path(os.path.realpath(path) + "-journal")
    for _ in range(_LOOKS):
        found = read_journal(journal)
        if found is None:
            return
        try:
            content = _content(path)
        except sqlite3.OperationalError:  # the caller opens it next, and says why that fails
            return
        if read_journal(journal) == found:
            _compare(path, journal, found, content)
            return
        time.sleep(_WAIT)


def _content(path: Path) -> bytes:
    """The file as it is, without what SQLite would undo; nothing if it is no database. Raises OperationalError.

    It is read through SQLite all the same: to open and close it otherwise would drop the locks of other threads.
    """
    with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro&immutable=1", uri=True)) as connection:
        connection.execute("PRAGMA writable_schema = ON")  # reads half-written files that lack pages, too
        try:
            return connection.serialize()
        except sqlite3.Error:
            return b""


def read_journal(journal: Path) -> Journal | None:
    """The journal, or None if there is none that SQLite would use."""
    try:
        with journal.open("rb") as file:
            return _parse(file)
    except OSError:
        return None


def _parse(file: BinaryIO) -> Journal | None:
    """The first part of a journal; all but very large writes have one part. It has no header before it is synced."""
    head = file.read(_HEAD)
    if len(head) < _HEAD or head[:8] != _MAGIC:
        return None
    records, _, _, sector, size = (int.from_bytes(head[at : at + 4], "big") for at in range(8, _HEAD, 4))
    length, commits = 4 + size + 4, None
    file.seek(sector)
    for _ in range(records):
        record = file.read(length)
        if len(record) < length:
            break
        if record[:4] == b"\0\0\0\x01":
            commits = int.from_bytes(record[4:][_COMMITS], "big")
            break
    return Journal(identity=head, commits=commits)


def _compare(path: Path, journal: Path, found: Journal, content: bytes) -> None:
    """Compare the journal with the file. Raises ValueError."""
    commits = int.from_bytes(content[_COMMITS], "big")
    ahead = None if found.commits is None or not content else (commits - found.commits) % _WRAP
    if ahead in (0, 1):
        return
    raise ValueError(
        f"beside the ledger {path} is {journal.name}, the unfinished write of another state of the file: one of them "
        f"was copied, moved or restored without the other; nothing was changed, spent or drawn. "
        + (
            f"The file is newer: if it is the newest copy, move {journal.name} to another folder"
            if ahead is not None and ahead < _WRAP // 2
            else "The file is older, and lacks entries: put the newest copy back"
        )
    )

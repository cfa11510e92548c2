"""The place of a ledger's file, to which the ledger is bound (docs/notes/ledger_file.md)."""

import os
import re
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from privsample._value import frozen_value

_DRAFT = re.compile(r"[0-9a-f]{32}")  # how the name of a draft ends


@frozen_value
class Place:
    """The place of a file: the names of its file system, its folder and itself, as the system numbers them.

    `volume` identifies the file system, or the file by its time of birth where numbers of file systems change. `folder`
    and `file` are inode numbers, and `name` is the last part of the path, after symbolic links. The path of the folder
    is left out, so that a renamed or mounted folder stays the same place: an unfinished write stays beside the file.
    """

    volume: str
    folder: int
    file: int
    name: str

    def difference(self, other: "Place") -> str:
        """The difference that says most about what happened to the file, or an empty string."""
        if self.name != other.name:
            return f"its name was {self.name!r}"
        if self.folder != other.folder:
            return "it was in another folder, or its folder was copied; a container must mount the folder, not the file"
        if self.file != other.file:
            return "it is another file than before, as after a copy or a restored backup"
        return "" if self.volume == other.volume else "its file system was another one, or has a new number"


def place_of(path: Path) -> Place:
    """Where the file is. Raises ValueError for a file with several names, and FileNotFoundError."""
    real = Path(os.path.realpath(path))
    found = _only_link(path, real)
    return Place(
        volume=_volume(real, found),
        folder=real.parent.stat().st_ino,
        file=found.st_ino,
        name=os.path.normcase(real.name),
    )


def place_of_draft(draft: Path, path: Path) -> Place:
    """Where a new file will be when its draft has become `path`."""
    return replace(place_of(draft), name=os.path.normcase(path.name))


def check_links(path: Path) -> None:
    """Check that the file has one name. Raises ValueError and FileNotFoundError."""
    _only_link(path, Path(os.path.realpath(path)))


def check_place(path: Path, bound: Place | None) -> None:
    """Check that the file is where it was last written; older files are bound when they are next written.

    Raises ValueError and FileNotFoundError.
    """
    here = place_of(path)
    if bound is not None and bound != here:
        raise ValueError(
            f"the ledger {path} is not where it was last written ({bound.difference(here)}), and a copy may lack "
            f"entries; nothing was changed, spent or drawn. If this is the newest copy, and no other one will be used "
            "again, call Ledger.moved(path) once, or `privsample ledger moved FILE`"
        )


def _only_link(path: Path, real: Path) -> os.stat_result:
    """The status of a file with one name. Raises ValueError and FileNotFoundError."""
    try:
        found = real.stat()
        if found.st_nlink > 1:
            _remove_drafts(real, found)
            found = real.stat()
    except FileNotFoundError:
        raise FileNotFoundError(f"there is no ledger at {path}, or its folder is not writable") from None
    if found.st_nlink > 1:
        raise ValueError(
            f"the ledger {path} has {found.st_nlink} names (hard links), and a write through one of them could be "
            f"undone through another; nothing was changed, spent or drawn. Remove the other names, which "
            f"`find FOLDER -samefile {path}` lists; to copy a ledger use Ledger.backup(path)"
        )
    return found


def _remove_drafts(real: Path, found: os.stat_result) -> None:
    """Remove the name under which the file was made, if the process that made it was killed before it could."""
    start = f".{real.name}."
    for other in real.parent.iterdir():
        if other.name.startswith(start) and _DRAFT.fullmatch(other.name[len(start) :]):
            with suppress(OSError):
                if os.path.samestat(other.lstat(), found):
                    other.unlink()


def _volume(real: Path, found: os.stat_result) -> str:
    """What identifies the file system, and stays the same when it is mounted again."""
    born = getattr(found, "st_birthtime", None)
    if not hasattr(os, "statvfs"):  # Windows: the serial number; later versions of Python return more digits of it
        return str(found.st_dev & 0xFFFFFFFF)
    if born is not None:  # macOS and BSD, where numbers of file systems change
        return f"born {born!r}"
    return str(os.statvfs(real.parent).f_fsid)

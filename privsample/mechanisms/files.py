"""The content of release files, and files that are written completely or not at all."""

import hashlib
import json
import os
import secrets
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privsample._serial import decode, storable

FORMAT = 2
RELEASE_ATTRIBUTE, DRAWS_ATTRIBUTE = "privsample_release", "privsample_draws"  # of netCDF files
READABLE = (1, FORMAT)  # format 1 has other tags, which `decode` reads
Draws = Mapping[str, NDArray[Any]]


def described(mechanism: Any, account: Any, digest: str, *, callers_generator: bool) -> dict[str, Any]:
    """A release without its draws, as plain data. Raises an error if it could not be loaded again.

    digest: that of its random output. callers_generator: whether the account includes the assumption that a caller's
    generator adds.
    """
    from privsample._version import __version__

    return {
        "format": FORMAT,
        "privsample": __version__,
        "mechanism": storable(mechanism),
        "account": storable(account),
        "callers_generator": callers_generator,
        "digest": digest,
    }


def tables(draws: Draws) -> dict[str, Any]:
    """The draws as plain data; every number is restored exactly."""
    return {
        name: {"dtype": array.dtype.str, "shape": list(array.shape), "values": array.ravel().tolist()}
        for name, array in draws.items()
    }


def parts(document: Any, draws: Draws | None) -> dict[str, Any]:
    """The fields of a release; draws that are not given are read from the document. Raises ValueError."""
    if not isinstance(document, dict) or "format" not in document:
        raise ValueError("this JSON is not a privsample release")
    if document["format"] not in READABLE:
        raise ValueError(
            f"this release has format {document['format']!r}; this version reads {READABLE[0]} to {FORMAT}: "
            "upgrade privsample"
        )
    found = draws if draws is not None else {name: _array(table) for name, table in document.get("draws", {}).items()}
    return {"mechanism": decode(document["mechanism"]), "account": decode(document["account"]), "draws": found}


def digest(draws: Draws, coords: Mapping[str, Sequence[str]]) -> str:
    """SHA-256 over names, types, shapes and little-endian values; it detects accidental changes, not forgery.

    coords: names of coordinates that were drawn, too; empty for most mechanisms.
    """
    total = hashlib.sha256()
    for name in sorted(draws):
        array = np.ascontiguousarray(draws[name])
        array = array.astype(array.dtype.newbyteorder("<"))
        total.update(f"{name} {array.dtype.str} {array.shape}".encode())
        total.update(array.tobytes())
    if coords:
        total.update(json.dumps({axis: list(names) for axis, names in coords.items()}, sort_keys=True).encode())
    return total.hexdigest()


def _array(table: Mapping[str, Any]) -> NDArray[Any]:
    return np.array(table["values"], dtype=np.dtype(table["dtype"])).reshape(table["shape"])


def writable(path: str | os.PathLike[str], *, force: bool, endings: tuple[str, ...]) -> Path:
    """The path, if a file may be written there. Raises ValueError, FileExistsError or FileNotFoundError."""
    target = Path(path)
    if target.suffix not in endings:
        raise ValueError(f"{target.name or 'the name'} must end in {' or '.join(endings)}")
    if target.exists() and not force:
        raise FileExistsError(f"{target} exists; choose another name, or force (--force) to replace it")
    if not target.parent.is_dir():
        raise FileNotFoundError(f"the folder {target.parent} does not exist; create it first")
    return target


def write_whole(target: Path, content: str | bytes, *, private: bool = False) -> None:
    """Write a file under a temporary name and move it into place, so that no partial file remains. Text is UTF-8.

    private: whether the owner alone may read the file; otherwise the umask of the process decides, as for any file.
    """
    part = target.with_name(f".{target.name[:200]}.{secrets.token_hex(8)}")
    mode = 0o600 if private else 0o666  # less what the umask takes away
    with open(part, "xb", opener=lambda name, flags: os.open(name, flags, mode)) as file:
        try:
            file.write(content.encode() if isinstance(content, str) else content)
            file.flush()
            os.fsync(file.fileno())
            part.replace(target)
        except BaseException:
            part.unlink()
            raise

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

from privsample._serial import document_digest, storable

FORMAT = 3
RELEASE_ATTRIBUTE, DRAWS_ATTRIBUTE = "privsample_release", "privsample_draws"  # of netCDF files
READABLE = (1, 2, FORMAT)  # format 1 has other tags, which `decode` reads; up to 2 the digest was that of the draws
_LONGEST = 16  # bytes of a number
Draws = Mapping[str, NDArray[Any]]


def described(mechanism: Any, account: Any, *, callers_generator: bool) -> dict[str, Any]:
    """A release without its draws and its digest, as plain data. Raises an error if it could not be loaded again.

    callers_generator: whether the account includes the assumption that a caller's generator adds.
    """
    return {
        "format": FORMAT,
        "privsample": library_version(),
        "mechanism": storable(mechanism),
        "account": storable(account),
        "callers_generator": callers_generator,
    }


def library_version() -> str:
    """The version of the library, which files record."""
    from privsample._version import __version__

    return __version__


def forms(arrays: Draws) -> dict[str, Any]:
    """The type, the shape and the SHA-256 of the little-endian bytes of each array: arrays in canonical documents."""
    found = {}
    for name, array in arrays.items():
        content = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<")).tobytes()
        sha256 = hashlib.sha256(content).hexdigest()
        found[name] = {"dtype": array.dtype.str, "shape": list(array.shape), "sha256": sha256}
    return found


def tables(arrays: Draws) -> dict[str, Any]:
    """The arrays as plain data; every number is restored exactly."""
    return {
        name: {"dtype": array.dtype.str, "shape": list(array.shape), "values": array.ravel().tolist()}
        for name, array in arrays.items()
    }


def as_saved(arrays: Draws, recorded: Mapping[str, Any]) -> dict[str, NDArray[Any]]:
    """The arrays of a netCDF file with the types and shapes that they had before ArviZ widened them.

    Raises ValueError if an array is missing or is not one that was recorded. Single numbers may have axes in the file.
    """
    if arrays.keys() != recorded.keys():
        raise ValueError(f"the file holds the arrays {sorted(arrays)}, and its document names {sorted(recorded)}")
    found = {}
    for name, form in recorded.items():
        shape, kept = tuple(form["shape"]), arrays[name].shape
        if shape != kept and shape:
            raise ValueError(f"the numbers {name!r} of the file have shape {kept}, and its document names {shape}")
        array = arrays[name].astype(np.dtype(form["dtype"])).reshape(shape)
        if array.astype(arrays[name].dtype).tobytes() != arrays[name].tobytes():
            raise ValueError(f"the numbers {name!r} of the file are not of the recorded type {form['dtype']}")
        found[name] = array
    return found


def read_tables(document: Any) -> dict[str, NDArray[Any]]:
    """The arrays of `tables`. Raises ValueError, or TypeError for data that are no tables."""
    return {name: _array(table) for name, table in document.items()}


def _array(table: Mapping[str, Any]) -> NDArray[Any]:
    """The array of one table; its size is bounded by the number of its values before it is made."""
    kind, shape, values = np.dtype(table["dtype"]), table["shape"], table["values"]
    if table.keys() != {"dtype", "shape", "values"} or kind.kind not in "fiu" or kind.itemsize > _LONGEST:
        raise ValueError(f"a table of draws must hold a dtype of numbers, a shape and values, got {kind}")
    return np.array(values, dtype=kind).reshape(shape)


def check_format(document: Any) -> None:
    """Raise ValueError if this is not the document of a release or of draws that this version reads."""
    if not isinstance(document, dict) or "format" not in document:
        raise ValueError("this JSON is not a privsample release")
    number = document["format"]
    if type(number) is not int or number not in READABLE:
        raise ValueError(
            f"this release has format {number!r}; this version reads {READABLE[0]} to {FORMAT}: upgrade privsample"
        )


def check_digest(document: Mapping[str, Any], canonical: Mapping[str, Any]) -> None:
    """Raise ValueError if the digest of a document is not that of its canonical form."""
    if document.get("digest") != document_digest(canonical):
        raise ValueError(
            "the file was altered or damaged: its content does not match its digest; copy the file again, or save it "
            "again"
        )


def digest(draws: Draws, coords: Mapping[str, Sequence[str]]) -> str:
    """The digest of formats 1 and 2: SHA-256 over names, types, shapes and little-endian values of the draws.

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

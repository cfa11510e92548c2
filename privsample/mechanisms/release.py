"""What may leave: draws, account and public parameters."""

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from privsample._serial import decode, encode
from privsample._value import put, value
from privsample.accounting.assumptions import Assumption
from privsample.accounting.base import Accountant
from privsample.accounting.statement import privacy_statement
from privsample.errors import PrivateContent
from privsample.interop import arviz
from privsample.mechanisms.notes import refuse_notes

if TYPE_CHECKING:
    from privsample.mechanisms.base import Mechanism

FORMAT = 1
_ATTRIBUTE = "privsample_release"


@value
class Release:
    """Draws of a mechanism with their account: the only thing that writers, reports and plots accept.

    draws maps the parameter's name to an array of shape (draws, ...). Two releases are equal when all their content is.
    """

    mechanism: "Mechanism"
    draws: Mapping[str, NDArray[Any]]
    account: Accountant

    def __post_init__(self) -> None:
        refuse_notes(dict(self.draws))
        held = {}
        for name, array in self.draws.items():
            copy = np.array(array)
            if copy.ndim == 0 or copy.dtype.kind not in "fi":
                raise ValueError(f"draws[{name!r}] must be an array of numbers of shape (draws, ...), got {copy.dtype}")
            copy.flags.writeable = False
            held[name] = copy
        own, account = self.mechanism._own_account, self.account
        with_rng = own if account is own else self.mechanism._account_with_rng
        if not (account is own or account is with_rng or account in (own, with_rng)):
            raise ValueError("the account must be the mechanism's own, with the assumptions that it makes")
        put(self, draws=held)

    def __getitem__(self, name: str) -> NDArray[Any]:
        return self.draws[name]

    def statement(self, delta: float = 1e-6) -> str:
        """A plain-words privacy statement to publish beside the release."""
        return privacy_statement(self.account, delta)

    def to_json(self) -> str:
        """The release as text; every number survives exactly."""
        return json.dumps(self._document(self._tables()), allow_nan=False)

    @staticmethod
    def from_json(text: str) -> "Release":
        """The release that `to_json` wrote. Raises: ValueError, for text cut short, altered, or of a newer format."""
        try:
            document = json.loads(text)
        except ValueError:
            raise ValueError(
                "this is not a whole release file: it is cut short or not JSON; write the release again"
            ) from None
        return _read(document, None)

    def to_arviz(self) -> Any:
        """An ArviZ object (InferenceData, or DataTree from ArviZ 1 on) with the account in its attributes."""
        return arviz.to_arviz(self.draws, {_ATTRIBUTE: json.dumps(self._document(None), allow_nan=False)})

    def save(self, path: str | os.PathLike[str], *, force: bool = False) -> None:
        """Write `.json` or `.nc` (netCDF for ArviZ), whole or not at all.

        Raises: FileExistsError, unless force; ValueError, for another ending.
        """
        target = writable(path, force=force, endings=(".json", ".nc"))
        if target.suffix == ".nc":
            arviz.write_netcdf(self.to_arviz(), target)
        else:
            write_whole(target, self.to_json())

    @staticmethod
    def load(path: str | os.PathLike[str]) -> "Release":
        """The release that `save` wrote. Raises: ValueError, for a file cut short, altered, or of a newer format."""
        source = Path(path)
        if source.suffix != ".nc":
            return Release.from_json(source.read_text(encoding="utf-8"))
        draws, attributes = arviz.read_netcdf(source)
        if _ATTRIBUTE not in attributes:
            raise ValueError(f"{source.name} is a netCDF file without a privsample release in it")
        return _read(json.loads(attributes[_ATTRIBUTE]), draws)

    def _tables(self) -> dict[str, Any]:
        return {
            name: {"dtype": array.dtype.str, "shape": list(array.shape), "values": array.ravel().tolist()}
            for name, array in self.draws.items()
        }

    def _document(self, tables: dict[str, Any] | None) -> dict[str, Any]:
        from privsample._version import __version__

        caller = Assumption.RNG_FRESH in self.account.assumptions - self.mechanism.accountant.assumptions
        document = {
            "format": FORMAT,
            "privsample": __version__,
            "mechanism": encode(self.mechanism),
            "account": encode(self.account),
            "callers_generator": caller,
            "digest": _digest(self.draws),
        }
        return document if tables is None else document | {"draws": tables}


def to_arviz(release: Release) -> Any:
    """`release.to_arviz()`, for a Release and nothing else. Raises: PrivateContent, TypeError."""
    refuse_notes(release)
    if not isinstance(release, Release):
        raise TypeError(f"only a Release may leave, got {type(release).__name__}")
    return release.to_arviz()


def writable(path: str | os.PathLike[str], *, force: bool, endings: tuple[str, ...]) -> Path:
    """The path, if a file may be written there. Raises: ValueError, FileExistsError, FileNotFoundError."""
    target = Path(path)
    if target.suffix not in endings:
        raise ValueError(f"{target.name or 'the name'} must end in {' or '.join(endings)}")
    if target.exists() and not force:
        raise FileExistsError(f"{target} exists; choose another name, or force (--force) to replace it")
    if not target.parent.is_dir():
        raise FileNotFoundError(f"the folder {target.parent} does not exist; create it first")
    return target


def write_whole(target: Path, content: str | bytes) -> None:
    """Write a file under a temporary name, then move it into place: it is whole or not there. Text as UTF-8."""
    with NamedTemporaryFile(dir=target.parent, prefix=f".{target.name}.", delete=False) as file:
        part = Path(file.name)
        try:
            file.write(content.encode() if isinstance(content, str) else content)
            file.flush()
            os.fsync(file.fileno())
            part.chmod(0o644)
            part.replace(target)
        except BaseException:
            part.unlink()
            raise


def _digest(draws: Mapping[str, NDArray[Any]]) -> str:
    """SHA-256 over names, types, shapes and little-endian values: catches accidents, not forgers."""
    total = hashlib.sha256()
    for name in sorted(draws):
        array = np.ascontiguousarray(draws[name])
        array = array.astype(array.dtype.newbyteorder("<"))
        total.update(f"{name} {array.dtype.str} {array.shape}".encode())
        total.update(array.tobytes())
    return total.hexdigest()


def _read(document: Any, draws: dict[str, NDArray[Any]] | None) -> Release:
    if not isinstance(document, dict) or "format" not in document:
        raise ValueError("this JSON is not a privsample release")
    if document["format"] != FORMAT:
        raise ValueError(
            f"this release has format {document['format']!r}; this version reads {FORMAT}: upgrade privsample"
        )
    try:
        tables = document.get("draws", {})
        found = draws if draws is not None else {n: _table(t) for n, t in tables.items()}
        release = Release(mechanism=decode(document["mechanism"]), account=decode(document["account"]), draws=found)
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"the release file lacks a part or holds a wrong one: {error}") from None
    expected = release.mechanism.accountant
    if document.get("callers_generator"):
        expected = expected.assuming(Assumption.RNG_FRESH)
    if release.account != expected or _digest(release.draws) != document.get("digest"):
        raise ValueError("the release file was altered: its draws, mechanism and account do not belong together")
    return release


def _table(table: Mapping[str, Any]) -> NDArray[Any]:
    return np.array(table["values"], dtype=np.dtype(table["dtype"])).reshape(table["shape"])


__all__ = ["PrivateContent", "Release", "to_arviz", "writable", "write_whole"]

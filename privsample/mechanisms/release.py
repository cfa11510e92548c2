"""What may leave: draws, account and public parameters."""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from privsample._checks import mapping, probability
from privsample._value import frozen_value, set_fields
from privsample.accounting.assumptions import Assumption
from privsample.accounting.base import Accountant, checked_account
from privsample.accounting.statement import privacy_statement
from privsample.errors import PrivateContent
from privsample.interop import arviz
from privsample.mechanisms.files import described, digest, parts, tables, writable, write_whole
from privsample.mechanisms.notes import refuse_notes

if TYPE_CHECKING:
    from privsample.mechanisms.base import Mechanism

_DELTA = 1e-6  # a file leaves it out: those of older versions have none
_ATTRIBUTE = "privsample_release"


@frozen_value
class Release:
    """Draws of a mechanism with their account: the only thing that writers, reports and plots accept.

    draws maps the parameter's name to an array of shape (draws, ...). `delta` is where `statement` reads the account
    unless told otherwise: an estimator's own. Two releases are equal when all their content is.
    """

    mechanism: "Mechanism"
    draws: Mapping[str, NDArray[Any]]
    account: Accountant
    delta: float = _DELTA

    def __post_init__(self) -> None:
        draws = mapping(draws=self.draws)
        refuse_notes(draws)
        held = {}
        for name, array in draws.items():
            copy = np.array(array)
            if copy.ndim == 0 or copy.dtype.kind not in "fi":
                raise ValueError(
                    f"draws[{name!r}] must be an array of numbers of shape (draws, ...), got {copy.dtype} of shape "
                    f"{copy.shape}"
                )
            copy.flags.writeable = False
            held[name] = copy
        if not hasattr(self.mechanism, "_own_account"):
            raise TypeError(f"mechanism must be a mechanism, got {type(self.mechanism).__name__}")
        own, account = self.mechanism._own_account, checked_account(account=self.account)
        with_rng = own if account is own else self.mechanism._account_with_rng
        if not (account is own or account is with_rng or account in (own, with_rng)):
            raise ValueError("the account must be the mechanism's own, with the assumptions that it makes")
        set_fields(self, draws=held, delta=probability(delta=self.delta))

    def __getitem__(self, name: str) -> NDArray[Any]:
        return self.draws[name]

    def statement(self, delta: float | None = None) -> str:
        """A plain-words privacy statement to publish beside the release, at its own `delta` unless another is given."""
        return privacy_statement(self.account, self.delta if delta is None else delta)

    def to_json(self) -> str:
        """The release as text; every number survives exactly.

        Raises: NotRegistered, a class of another package that was not registered; TypeError, a function as score.
        """
        return json.dumps(self._description() | {"draws": tables(self.draws)}, allow_nan=False)

    @staticmethod
    def from_json(text: str) -> "Release":
        """The release that `to_json` wrote, in any format up to the present one.

        Raises: ValueError, for text cut short, altered, or of a newer format; NotRegistered, which is a ValueError.
        """
        try:
            document = json.loads(text)
        except (ValueError, RecursionError):
            raise ValueError(
                "this is not a whole release file: it is cut short or not JSON; write the release again"
            ) from None
        return _read(document, None)

    def to_arviz(self) -> Any:
        """An ArviZ object (InferenceData, or DataTree from ArviZ 1 on) with the account in its attributes."""
        types = {name: array.dtype.str for name, array in self.draws.items()}  # ArviZ widens short integers
        return arviz.to_arviz(
            self.draws, {_ATTRIBUTE: json.dumps(self._description() | {"dtypes": types}, allow_nan=False)}
        )

    def save(self, path: str | os.PathLike[str], *, force: bool = False) -> None:
        """Write `.json` or `.nc` (netCDF for ArviZ), whole or not at all.

        Raises: FileExistsError, unless force; ValueError, for another ending; as `to_json`.
        """
        target = writable(path, force=force, endings=(".json", ".nc"))
        if target.suffix == ".nc":
            arviz.write_netcdf(self.to_arviz(), target)
        else:
            write_whole(target, self.to_json())

    @staticmethod
    def load(path: str | os.PathLike[str]) -> "Release":
        """The release that `save` wrote. Raises: as `from_json`."""
        source = Path(path)
        if source.suffix != ".nc":
            return Release.from_json(source.read_text(encoding="utf-8"))
        draws, attributes = arviz.read_netcdf(source)
        if _ATTRIBUTE not in attributes:
            raise ValueError(f"{source.name} is a netCDF file without a privsample release in it")
        document = json.loads(attributes[_ATTRIBUTE])
        return _read(document, _as_drawn(draws, document.get("dtypes", {})))

    def _description(self) -> dict[str, Any]:
        own = Assumption.RNG_FRESH in self.account.assumptions - self.mechanism.accountant.assumptions
        found = described(self.mechanism, self.account, self.draws, callers_generator=own)
        return found if self.delta == _DELTA else found | {"delta": self.delta}


def _read(document: Any, draws: Mapping[str, NDArray[Any]] | None) -> Release:
    try:
        release = Release(**parts(document, draws), delta=document.get("delta", _DELTA))
    except (KeyError, TypeError, AttributeError, RecursionError, OverflowError) as error:
        raise ValueError(f"the release file lacks a part or holds a wrong one: {error}") from None
    expected = release.mechanism.accountant
    if document.get("callers_generator"):
        expected = expected.assuming(Assumption.RNG_FRESH)
    if release.account != expected or digest(release.draws) != document.get("digest"):
        raise ValueError("the release file was altered: its draws, mechanism and account do not belong together")
    return release


def _as_drawn(draws: Mapping[str, NDArray[Any]], types: Mapping[str, str]) -> Mapping[str, NDArray[Any]]:
    """The draws of a netCDF file in the types that they had; as they are, where the file does not say."""
    return {name: array.astype(types.get(name, array.dtype)) for name, array in draws.items()}


def to_arviz(release: Release) -> Any:
    """`release.to_arviz()`, for a Release and nothing else. Raises: PrivateContent, TypeError."""
    refuse_notes(release)
    if not isinstance(release, Release):
        raise TypeError(f"only a Release may leave, got {type(release).__name__}")
    return release.to_arviz()


__all__ = ["PrivateContent", "Release", "to_arviz", "writable", "write_whole"]

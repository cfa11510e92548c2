"""Draws from a posterior that was made of a private release: post-processing, which costs nothing further."""

import json
import os
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privsample._checks import mapping, positive_integer
from privsample._value import frozen_value, set_fields
from privsample.accounting.base import Accountant
from privsample.accounting.statement import privacy_statement
from privsample.interop import arviz
from privsample.mechanisms.notes import refuse_notes
from privsample.mechanisms.release import writable


@frozen_value
class PosteriorDraws:
    """Draws of parameters with the account of the release behind them, and how they were made, in words.

    draws maps a name to an array of shape (draws, ...), the draws of the `chains` chains one after the other.
    `method` says what was modelled and whether that is exact: it is not a claim about privacy.
    """

    draws: Mapping[str, NDArray[Any]]
    account: Accountant
    method: str
    chains: int = 1

    def __post_init__(self) -> None:
        draws = mapping(draws=self.draws)
        refuse_notes(draws)
        method: Any = self.method
        if not (isinstance(method, str) and method):
            raise ValueError("method must say in words how the draws were made, got nothing")
        chains, held = positive_integer(chains=self.chains), {}
        for name, array in draws.items():
            copy = np.array(array)
            if copy.ndim == 0 or copy.dtype.kind not in "fi" or len(copy) % chains:
                raise ValueError(
                    f"draws[{name!r}] must be an array of numbers of shape (draws, ...), as many for each of "
                    f"{chains} chains, got {copy.dtype} of shape {copy.shape}"
                )
            copy.flags.writeable = False
            held[name] = copy
        set_fields(self, draws=held, chains=chains)

    def __getitem__(self, name: str) -> NDArray[Any]:
        return self.draws[name]

    def statement(self, delta: float = 1e-6) -> str:
        """The privacy statement of the release that these draws were made of."""
        return privacy_statement(self.account, delta)

    def to_arviz(self) -> Any:
        """An ArviZ object (InferenceData, or DataTree from ArviZ 1 on) with method and account in its attributes."""
        account = json.dumps(self.account.to_dict(), allow_nan=False)
        attributes = {"privsample_account": account, "privsample_method": self.method}
        return arviz.to_arviz(self.draws, attributes, chains=self.chains)

    def save(self, path: str | os.PathLike[str], *, force: bool = False) -> None:
        """Write `.nc`, the netCDF file of `to_arviz`, with method and account; ArviZ reads it.

        Raises: FileExistsError, unless force; ValueError, for another ending; ImportError, no netCDF library.
        """
        arviz.write_netcdf(self.to_arviz(), writable(path, force=force, endings=(".nc",)))

"""Draws from a posterior that was computed from a private release: post-processing at no further privacy cost."""

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
    """Draws of parameters, with the account of the release behind them and a description of the method.

    Parameters
    ----------
    draws : mapping of str to numpy.ndarray
        The draws by parameter name, numbers of shape (draws, ...), the draws of one chain after those of another. The
        arrays are copied and read-only. Index by name: `posterior["theta"]`.
    account : Accountant
        The account of the release from which the draws were computed.
    method : str
        What was modelled, and whether it is exact. It is not a claim about privacy.
    chains : int, default 1
        Number of chains, >= 1; it must divide the number of draws.

    Raises
    ------
    ValueError
        If a draw is not an array of numbers, `method` is empty, or chains have unequal lengths.
    PrivateContent
        If the draws contain curator's notes.

    Examples
    --------
    >>> import numpy as np, privsample as ps
    >>> mechanism = ps.NoisyStatistics(model=ps.BetaBernoulli(alpha=1, beta=1), n=20, scale=2.0)
    >>> statistics = ps.PrivateStatistics(release=mechanism.release([1] * 12 + [0] * 8))
    >>> posterior = statistics.draw(500)
    >>> posterior["theta"].shape, posterior.account == statistics.account
    ((500,), True)
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
            raise ValueError("method must describe how the draws were made, got empty text")
        chains, arrays = positive_integer(chains=self.chains), {}
        for name, array in draws.items():
            copy = np.array(array)
            if copy.ndim == 0 or copy.dtype.kind not in "fi" or len(copy) % chains:
                raise ValueError(
                    f"draws[{name!r}] must be an array of numbers of shape (draws, ...), as many for each of "
                    f"{chains} chains, got {copy.dtype} of shape {copy.shape}"
                )
            copy.flags.writeable = False
            arrays[name] = copy
        set_fields(self, draws=arrays, chains=chains)

    def __getitem__(self, name: str) -> NDArray[Any]:
        return self.draws[name]

    def statement(self, delta: float = 1e-6) -> str:
        """The privacy statement of the release behind the draws.

        Parameters
        ----------
        delta : float, default 1e-6
            The delta in (0, 1) at which epsilon is reported.

        Returns
        -------
        str
            The statement in plain words, with every assumption of the account.
        """
        return privacy_statement(self.account, delta)

    def to_arviz(self) -> Any:
        """The draws as an ArviZ object, with the method and the account in its attributes.

        Returns
        -------
        arviz.InferenceData or xarray.DataTree
            An InferenceData, or a DataTree from ArviZ 1 on, with one group `posterior`.
        """
        account = json.dumps(self.account.to_dict(), allow_nan=False)
        attributes = {"privsample_account": account, "privsample_method": self.method}
        return arviz.to_arviz(self.draws, attributes, chains=self.chains)

    def save(self, path: str | os.PathLike[str], *, force: bool = False) -> None:
        """Write the draws to a `.nc` file, the netCDF file of `to_arviz`, which ArviZ reads.

        Parameters
        ----------
        path : str or os.PathLike
            The file to write; it must end in `.nc`.
        force : bool, default False
            Replace an existing file.

        Raises
        ------
        FileExistsError
            If the file exists and `force` is False.
        ValueError
            If the path has another ending.
        ImportError
            If no netCDF library is installed.
        """
        arviz.write_netcdf(self.to_arviz(), writable(path, force=force, endings=(".nc",)))

"""Draws from a posterior that was computed from a private release: post-processing at no further privacy cost."""

import json
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from privsample._checks import FloatArray, mapping, positive_integer
from privsample._value import frozen_value, set_fields
from privsample.accounting.base import Accountant
from privsample.accounting.display import account_rows
from privsample.accounting.statement import privacy_statement
from privsample.interop import arviz
from privsample.mechanisms.intervals import Names, coordinates, equal_tailed
from privsample.mechanisms.notes import refuse_notes
from privsample.mechanisms.release import writable
from privsample.mechanisms.shown import draws_picture, draws_rows, draws_text, one_line
from privsample.plots.draws import plot_draws
from privsample.plots.html import attempted, card

if TYPE_CHECKING:
    from matplotlib.axes import Axes


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
            raise ValueError("method must say in words how the draws were made, got nothing")
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

    def __repr__(self) -> str:
        try:
            chains = f", {self.chains} chains" if self.chains > 1 else ""
            return one_line("PosteriorDraws", f"{draws_text(self.draws)}{chains}", self.method)
        except Exception:  # noqa: BLE001 - a repr must not raise
            return "PosteriorDraws(...)"

    def _repr_html_(self) -> str:
        rows = [("method", self.method), *draws_rows(self.draws, self._names)]
        title = f"Posterior draws of {' and '.join(self.draws)}"
        picture = attempted(lambda: draws_picture(coordinates(self.draws, self._names), "value"))
        return card(title, [*rows, *account_rows(self.account, 1e-6)], picture)

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

    def interval(self, probability: float = 0.9) -> dict[str, FloatArray]:
        """Equal-tailed credible intervals of every parameter.

        Parameters
        ----------
        probability : float, default 0.9
            Posterior probability between the ends, in (0, 1).

        Returns
        -------
        dict of str to numpy.ndarray
            The ends by name, shape (2, ...): `low, high = draws.interval()["theta"]`.

        Raises
        ------
        ValueError
            If `probability` lies outside (0, 1).
        """
        return equal_tailed(self.draws, probability)

    def plot(self, ax: "Axes | None" = None, *, probability: float = 0.9) -> "Axes":
        """Plot the draws of each parameter: histograms, or one row for each coordinate where there are many.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, optional
            The axes to plot on. None makes a new figure.
        probability : float, default 0.9
            Posterior probability of the intervals, in (0, 1).

        Returns
        -------
        matplotlib.axes.Axes
            The axes.

        Raises
        ------
        ImportError
            If Matplotlib is not installed.
        ValueError
            If `probability` lies outside (0, 1).
        """
        equal_tailed(self.draws, probability)  # checks the probability
        return plot_draws(
            ax, coordinates(self.draws, self._names), xlabel=" and ".join(self.draws), probability=probability
        )

    @property
    def _names(self) -> Names:
        return {}

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

"""Draws from a posterior that was computed from a private release: post-processing at no further privacy cost."""

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from privsample._checks import FloatArray, inner_probability, mapping, positive_integer
from privsample._serial import document_digest, parse_json, storable
from privsample._value import frozen_value, set_fields
from privsample.accounting.base import Accountant
from privsample.accounting.display import account_rows
from privsample.accounting.statement import privacy_statement
from privsample.interop import arviz
from privsample.mechanisms.files import (
    DRAWS_ATTRIBUTE,
    FORMAT,
    RELEASE_ATTRIBUTE,
    as_saved,
    check_digest,
    check_format,
    digest,
    forms,
    library_version,
    writable,
)
from privsample.mechanisms.intervals import (
    Names,
    axis_names,
    checked_coords,
    coordinates,
    divisor,
    equal_tailed,
    frozen_array,
    named_axes,
)
from privsample.mechanisms.named_draws import NamedDraws
from privsample.mechanisms.notes import refuse_notes
from privsample.mechanisms.shown import draws_picture, draws_rows, draws_text, one_line
from privsample.plots.draws import SHOWN, plot_draws
from privsample.plots.html import card, text_or_empty

if TYPE_CHECKING:
    from matplotlib.axes import Axes


_GROUPS = ("sample_stats", "observed_data", "constant_data")


@frozen_value
class PosteriorDraws(NamedDraws):
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
        Number of chains, >= 1; it must divide the number of draws. Independent draws are one chain here; `to_arviz`
        splits them.
    dims, coords : mapping of str to sequence of str, optional
        Names of the axes of a parameter after the first, by parameter, and names of the coordinates, by axis.
    sample_stats : mapping of str to numpy.ndarray, optional
        Statistics of the sampler, shape (draws,), such as "diverging".
    observed_data, constant_data : mapping of str to numpy.ndarray, optional
        The released numbers that were conditioned on, and public constants.

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
    dims: Mapping[str, Sequence[str]] = field(default_factory=dict)
    coords: Mapping[str, Sequence[str]] = field(default_factory=dict)
    sample_stats: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    observed_data: Mapping[str, Any] = field(default_factory=dict)
    constant_data: Mapping[str, Any] = field(default_factory=dict)

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
        set_fields(self, draws=arrays, chains=chains, coords=checked_coords(coords=self.coords))
        set_fields(self, dims=checked_coords(dims=self.dims))
        for group in _GROUPS:
            given = mapping(**{group: getattr(self, group)})
            refuse_notes(given)
            set_fields(self, **{group: {name: frozen_array(item) for name, item in given.items()}})

    def __repr__(self) -> str:
        try:
            chains = f", {self.chains} chains" if self.chains > 1 else ""
            return one_line("PosteriorDraws", f"{draws_text(self.draws)}{chains}", self.method)
        except Exception:  # noqa: BLE001 - a repr must not raise
            return "PosteriorDraws(...)"

    def _repr_html_(self) -> str:
        rows = [("method", self.method), *draws_rows(self.draws, self._names)]
        title = f"Posterior draws of {' and '.join(self.draws)}"
        picture = text_or_empty(lambda: draws_picture(self.draws, self._names, "value"))
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
        TypeError
            If the draws are whole numbers.
        ValueError
            If `probability` lies outside (0, 1), or there are no draws.
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
            If there is nothing to plot, or `probability` lies outside (0, 1).
        """
        given = inner_probability(probability)
        found, count = coordinates(self.draws, self._names, SHOWN)
        if not found:
            raise ValueError("there are no draws of real numbers, so there is nothing to plot")
        return plot_draws(ax, found, count=count, xlabel=" and ".join(self.draws), probability=given)

    @property
    def _names(self) -> Names:
        return axis_names(self.dims, self.coords, self.draws)

    def to_arviz(self, *, chains: int | None = None) -> Any:
        """The draws as an ArviZ object, with the method and the account in its attributes.

        Parameters
        ----------
        chains : int, optional
            Number of chains into which independent draws are split; it must divide their number. None splits them into
            four or two chains if each has at least four draws. Draws of several chains stay as they are.

        Returns
        -------
        arviz.InferenceData or xarray.DataTree
            An InferenceData, or a DataTree from ArviZ 1 on, with the groups `posterior`, `sample_stats` if a sampler
            has any, `observed_data` and `constant_data`.

        Raises
        ------
        ValueError
            If `chains` does not divide the number of draws.
        """
        document = self._document()
        attributes = {
            "privsample_account": json.dumps(document.pop("account"), allow_nan=False),
            "privsample_method": document.pop("method"),
            DRAWS_ATTRIBUTE: json.dumps(document, allow_nan=False),
        }
        count = min((len(array) for array in self.draws.values()), default=1)
        split = self.chains
        if chains is not None:
            split = divisor(count, chains=chains)
        elif self.chains == 1 and not self.sample_stats:
            split = arviz.default_chains(count)
        dims, coords = named_axes(self.draws, self.dims, self.coords)
        groups = {group: getattr(self, group) for group in _GROUPS}
        return arviz.to_arviz(self.draws, attributes, dims, coords, split, groups)

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

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read draws that `save` wrote.

        Parameters
        ----------
        path : str or os.PathLike
            A `.nc` file.

        Returns
        -------
        PosteriorDraws
            The draws, equal to those that were saved.

        Raises
        ------
        ValueError
            If the file is truncated or altered, or holds something else, such as a release.
        ImportError
            If no netCDF library is installed.
        """
        source = Path(path)
        stored = arviz.read_posterior(source)
        attributes = stored.attributes
        if DRAWS_ATTRIBUTE not in attributes:
            release = "; Release.load reads it" if RELEASE_ATTRIBUTE in attributes else ""
            raise ValueError(f"{source.name} holds no posterior draws of a version that can load them{release}")
        try:
            return cls._read(source, stored)
        except (KeyError, TypeError, ValueError, AttributeError, RecursionError, OverflowError) as error:
            raise ValueError(
                f"{source.name} was altered or damaged, copy the file again or save the draws again: {error}"
            ) from None

    @classmethod
    def _read(cls, source: Path, stored: arviz.StoredGroup) -> Self:
        """The draws of a file whose group `posterior` has been read."""
        document = parse_json(stored.attributes[DRAWS_ATTRIBUTE])
        former = "format" not in document
        if not former:
            check_format(document)
        recorded = _former_arrays(document) if former else document["arrays"]
        held = {"draws": stored, **{name: arviz.read_group(source, name) for name in _GROUPS if recorded[name]}}
        groups = {name: as_saved(group.arrays, recorded[name]) for name, group in held.items()}
        groups = {name: {} for name in _GROUPS} | groups
        account = parse_json(stored.attributes["privsample_account"])
        method = stored.attributes["privsample_method"]
        if not former:
            arrays = {name: forms(each) for name, each in groups.items()}
            check_digest(document, {**document, "account": account, "method": method, "arrays": arrays})
        found = cls(
            account=Accountant.from_dict(account),
            method=method,
            chains=document["chains"],
            dims=document["dims"],
            coords=document["coords"],
            **groups,
        )
        if former and document["digest"] != found._former_digest():
            raise ValueError("it does not hold the draws that were saved")
        for group in () if former else held.values():
            arviz.check_labels(source, group, found.coords)
        return found

    def _document(self) -> dict[str, Any]:
        """The canonical document of the draws with its digest; `load` reads everything besides the numbers from it."""
        groups = {"draws": self.draws, **{name: getattr(self, name) for name in _GROUPS}}
        found: dict[str, Any] = {
            "format": FORMAT,
            "privsample": library_version(),
            "account": storable(self.account),
            "method": self.method,
            "chains": self.chains,
            "dims": {name: list(axes) for name, axes in self.dims.items()},
            "coords": {axis: list(names) for axis, names in self.coords.items()},
            "arrays": {group: forms(arrays) for group, arrays in groups.items()},
        }
        return found | {"digest": document_digest(found)}

    def _former_digest(self) -> str:
        """The digest in files of versions whose documents had no format."""
        groups = {"draws": self.draws, **{name: getattr(self, name) for name in _GROUPS}}
        found: dict[str, Any] = {
            "chains": self.chains,
            "dims": {name: list(axes) for name, axes in self.dims.items()},
            "coords": {axis: list(names) for axis, names in self.coords.items()},
            "forms": {
                group: {name: [array.dtype.str, list(array.shape)] for name, array in arrays.items()}
                for group, arrays in groups.items()
            },
        }
        text = json.dumps([found, self.method, self.account.to_dict()], sort_keys=True, allow_nan=False)
        parts = [digest(arrays, {}) for arrays in groups.values()]
        return hashlib.sha256("".join([text, *parts]).encode()).hexdigest()


def _former_arrays(document: Mapping[str, Any]) -> dict[str, Any]:
    """The recorded types and shapes in a document without a format, as in those of today."""
    return {
        group: {name: {"dtype": kind, "shape": shape} for name, (kind, shape) in forms.items()}
        for group, forms in document["forms"].items()
    }

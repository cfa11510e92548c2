"""Releases: draws, account and public parameters, which may be published."""

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from privsample._checks import FloatArray, flag, mapping, probability
from privsample._serial import decode, document_digest, parse_json
from privsample._value import frozen_value, set_fields
from privsample.accounting.assumptions import Assumption
from privsample.accounting.base import Accountant, checked_account
from privsample.accounting.statement import privacy_statement
from privsample.distributions.noise import Noise
from privsample.errors import PrivateContent
from privsample.interop import arviz
from privsample.mechanisms.files import (
    DRAWS_ATTRIBUTE,
    RELEASE_ATTRIBUTE,
    as_saved,
    check_digest,
    check_format,
    described,
    digest,
    forms,
    read_tables,
    tables,
    writable,
    write_whole,
)
from privsample.mechanisms.intervals import (
    Names,
    axis_names,
    checked_coords,
    divisor,
    equal_tailed,
    named_axes,
    public_numbers,
)
from privsample.mechanisms.named_draws import NamedDraws
from privsample.mechanisms.notes import refuse_notes
from privsample.mechanisms.shown import plot_release, release_html, release_repr

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from privsample.accounting.certificates.certificate import Certificate
    from privsample.mechanisms.base import Mechanism

_DELTA = 1e-6  # files omit this value, since files of older versions have no delta
_STATEMENT = "privsample_statement"
_WHOLE = 3  # the first format whose digest covers the whole document
_PARTLY = (
    "The release was read from a file of an earlier format, whose digest covered the released numbers only: it could "
    "not be checked that the parameters of the mechanism, delta and the names of coordinates are those that were saved."
)


@frozen_value
class Release(NamedDraws):
    """Draws of a mechanism together with their account: the only object that writers, reports and plots accept.

    Two releases are equal if all their content is equal.

    Parameters
    ----------
    mechanism : Mechanism
        The mechanism that drew.
    draws : mapping of str to numpy.ndarray
        The draws by name, numbers of shape (draws, ...). The arrays are copied and read-only. Index the release by
        name: `release["statistic"]`.
    account : Accountant
        The mechanism's own account, with RNG_FRESH among its assumptions if the caller passed a generator.
    delta : float, default 1e-6
        The delta in (0, 1) at which `statement` reports epsilon by default.
    coords : mapping of str to sequence of str, optional
        Public names of coordinates by axis, such as `{"category": ("no", "yes")}`: the names that a model declares, and
        the names of the data's columns. Plots, tables, files and ArviZ objects show them.
    partly_digested : bool, default False
        Whether the release comes from a file of format 1 or 2, whose digest covered the draws only. `statement` says so
        then, and so do files to which the release is saved again.

    Raises
    ------
    ValueError
        If a draw is not an array of numbers, or the account is not the mechanism's own.
    PrivateContent
        If the draws contain curator's notes.

    Examples
    --------
    >>> import privsample as ps
    >>> release = ps.GaussianMechanism(sensitivity=1, noise_std=5, draws=3).release(2.0)
    >>> release["statistic"].shape, round(float(release.account.epsilon(1e-6)), 3)
    ((3,), 1.51)
    >>> ps.Release.from_json(release.to_json()) == release
    True
    """

    mechanism: "Mechanism"
    draws: Mapping[str, NDArray[Any]]
    account: Accountant
    delta: float = _DELTA
    coords: Mapping[str, Sequence[str]] = field(default_factory=dict)
    partly_digested: bool = False

    def __post_init__(self) -> None:
        draws = mapping(draws=self.draws)
        refuse_notes(draws)
        arrays = {}
        for name, array in draws.items():
            copy = np.array(array)
            if copy.ndim == 0 or copy.dtype.kind not in "fi":
                raise ValueError(
                    f"draws[{name!r}] must be an array of numbers of shape (draws, ...), got {copy.dtype} of shape "
                    f"{copy.shape}"
                )
            copy.flags.writeable = False
            arrays[name] = copy
        if not hasattr(self.mechanism, "_own_account"):
            raise TypeError(f"mechanism must be a mechanism, got {type(self.mechanism).__name__}")
        own, account = self.mechanism._own_account, checked_account(account=self.account)
        with_rng = own if account is own else self.mechanism._account_with_rng
        if not (account is own or account is with_rng or account in (own, with_rng)):
            raise ValueError("the account must be the mechanism's own, with all of its assumptions")
        coords = checked_coords(coords=self.coords)
        set_fields(self, draws=arrays, delta=probability(delta=self.delta), coords=coords)
        set_fields(self, partly_digested=flag(partly_digested=self.partly_digested))

    @property
    def noise(self) -> Noise | None:
        """The distribution of the noise on each released number; None if the mechanism adds no independent noise."""
        return getattr(self.mechanism, "_noise_distribution", None)

    @property
    def grid(self) -> Mapping[str, float] | None:
        """The distance of the points of the public grid on which the draws lie, by name; None if they lie on none."""
        return getattr(self.mechanism, "_grid", None)

    def __repr__(self) -> str:
        return release_repr(self)

    def _repr_html_(self) -> str:
        return release_html(self)

    def certificate(self, *, epsilon: float | None = None, delta: float | None = None) -> "Certificate":
        """Write a certificate of the account's (epsilon, delta), which `privsample verify` checks.

        Parameters
        ----------
        epsilon : float, optional
            Claimed epsilon in nats. None claims the account's epsilon at `delta`, rounded up to four digits.
        delta : float, optional
            Claimed delta in [0, 1]. None claims the release's own `delta` if epsilon is None too, otherwise the
            account's delta at `epsilon`, rounded up to four digits.

        Returns
        -------
        Certificate
            The certificate, whose claim the checker has proved.

        Raises
        ------
        NotCertified
            If the account has a part that certificates cannot name, or its pairs do not prove the claim.

        Examples
        --------
        >>> import privsample as ps
        >>> release = ps.GaussianMechanism(sensitivity=1, noise_std=5, draws=3).release(2.0)
        >>> release.certificate().claims
        (('1.51', '1e-06'),)
        """
        if epsilon is None and delta is None:
            delta = self.delta
        return self.account.certificate(epsilon=epsilon, delta=delta)

    def statement(self, delta: float | None = None) -> str:
        """A privacy statement in plain words, to publish beside the release.

        Parameters
        ----------
        delta : float, optional
            The delta in [0, 1) at which epsilon is reported; 0 reports the pure guarantee. None uses the release's own
            `delta`.

        Returns
        -------
        str
            The statement, with every assumption of the account, the groups of a release for groups, the grid of exact
            draws, and what the digest of a file of an earlier format did not cover.
        """
        statement = privacy_statement(self.account, self.delta if delta is None else delta)
        rounding = getattr(self.mechanism, "_grid_text", "")
        drawn = f"The numbers were drawn exactly and rounded: {rounding}." if rounding else ""
        parts = [statement, getattr(self.mechanism, "_scope", ""), drawn, _PARTLY if self.partly_digested else ""]
        return " ".join(filter(None, parts))

    def interval(self, probability: float = 0.9) -> dict[str, FloatArray]:
        """Equal-tailed intervals of the released draws, for mechanisms that draw from a posterior.

        The ends are quantiles of the draws: many draws are needed, and each draw costs privacy.

        Parameters
        ----------
        probability : float, default 0.9
            The share of the draws between the ends, in (0, 1).

        Returns
        -------
        dict of str to numpy.ndarray
            The ends by name, shape (2, ...): `low, high = release.interval()["theta"]`.

        Raises
        ------
        TypeError
            If the draws are noisy statistics, or codes.
        ValueError
            If `probability` lies outside (0, 1), or there are no draws.
        """
        inner: Any = self.mechanism
        while hasattr(inner, "base"):  # a mechanism around another one
            inner = inner.base
        if getattr(inner, "_noise_distribution", None) is not None:
            raise TypeError(
                "the draws are noisy statistics, not draws from a posterior; for NoisyStatistics call "
                "PrivateStatistics(release=release).draw(1000).interval()"
            )
        return equal_tailed(self.draws, probability)

    def plot(self, ax: "Axes | None" = None, *, probability: float = 0.9) -> "Axes":
        """Plot the released numbers.

        Draws of a posterior are shown by histograms, by one row for each coordinate where there are many, or by ticks
        where there are few draws. Noisy statistics are shown with the interval of the noise, codes by their counts.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, optional
            The axes to plot on. None makes a new figure.
        probability : float, default 0.9
            Probability of the intervals, in (0, 1).

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
        return plot_release(self.mechanism, self.draws, self._names, ax, probability)

    @property
    def _names(self) -> Names:
        """Draw name -> the names of its coordinates; the axis "category" also names the codes of categories."""
        found = dict(axis_names(self.mechanism._dims, self.coords, self.draws))
        codes = {name: self.coords.get("category", ()) for name, array in self.draws.items() if array.dtype.kind == "i"}
        return {**codes, **found}

    def to_json(self) -> str:
        """The release as JSON text; every number is restored exactly.

        Returns
        -------
        str
            The JSON document.

        Raises
        ------
        NotRegistered
            If a class of another package was not registered.
        TypeError
            If the mechanism contains a function, for example as a score.
        """
        return json.dumps(self._canonical() | {"draws": tables(self.draws)}, allow_nan=False)

    @staticmethod
    def from_json(text: str) -> "Release":
        """Read a release that `to_json` wrote, in any format up to the present one.

        Parameters
        ----------
        text : str
            The JSON document.

        Returns
        -------
        Release
            The release, equal to the one that was written.

        Raises
        ------
        ValueError
            If the text is truncated, altered, or of a newer format. NotRegistered, a class that is not known, is a
            ValueError.
        """
        return _read(_parsed(text))

    def to_arviz(self, *, chains: int | None = None) -> Any:
        """The draws as an ArviZ object, with the release in its attributes.

        A mechanism that holds a function cannot be stored: then the attributes hold the privacy statement alone. The
        draws are independent, so they may be split into any number of chains. Axes and coordinates have the names
        that the mechanism and the data give them.

        Parameters
        ----------
        chains : int, optional
            Number of chains, which must divide the number of draws. None splits into four chains, or two, where each
            has at least four draws, so that the diagnostics of `az.summary` are defined; otherwise one.

        Returns
        -------
        arviz.InferenceData or xarray.DataTree
            An InferenceData, or a DataTree from ArviZ 1 on, with the draws in the group `posterior` and the numbers
            among the mechanism's public fields in `constant_data`, where "theta_grid" is the grid of "theta".

        Raises
        ------
        ImportError
            If ArviZ is not installed.
        ValueError
            If `chains` does not divide the number of draws.
        """
        dims, coords = named_axes(self.draws, self.mechanism._dims, self.coords)
        count = min((len(array) for array in self.draws.values()), default=1)
        split = arviz.default_chains(count) if chains is None else divisor(count, chains=chains)
        grids = {f"{name}_grid": pitch for name, pitch in (self.grid or {}).items()}
        constants = {"constant_data": public_numbers(self.mechanism) | grids}
        return arviz.to_arviz(self.draws, self._attributes, dims, coords, split, constants)

    @property
    def _attributes(self) -> dict[str, str]:
        """The attributes of an ArviZ object: the release without its draws, or the statement of one with a function."""
        try:
            return {RELEASE_ATTRIBUTE: json.dumps(self._canonical(), allow_nan=False)}
        except PrivateContent:
            raise
        except TypeError:
            return {_STATEMENT: self.statement()}

    def save(self, path: str | os.PathLike[str], *, force: bool = False) -> None:
        """Write the release to a `.json` or `.nc` file (netCDF for ArviZ), completely or not at all.

        Parameters
        ----------
        path : str or os.PathLike
            The file to write; its ending selects the format.
        force : bool, default False
            Replace an existing file.

        Raises
        ------
        FileExistsError
            If the file exists and `force` is False.
        ValueError
            If the path has another ending.
        NotRegistered, TypeError
            As for `to_json`.
        """
        target = writable(path, force=force, endings=(".json", ".nc"))
        if target.suffix == ".nc":
            self._description()  # raises TypeError for a release that could not be loaded again
            arviz.write_netcdf(self.to_arviz(), target)
        else:
            write_whole(target, self.to_json())

    @staticmethod
    def load(path: str | os.PathLike[str]) -> "Release":
        """Read a release that `save` wrote.

        Parameters
        ----------
        path : str or os.PathLike
            A `.json` or `.nc` file.

        Returns
        -------
        Release
            The release, equal to the one that was saved.

        Raises
        ------
        ValueError
            If the file is truncated, altered, or of a newer format.
        """
        source = Path(path)
        if source.suffix != ".nc":
            return _read(_parsed(source.read_bytes()))
        stored = arviz.read_posterior(source)
        if RELEASE_ATTRIBUTE not in stored.attributes:
            hint = "; PosteriorDraws.load reads the draws in it" if DRAWS_ATTRIBUTE in stored.attributes else ""
            raise ValueError(f"{source.name} is a netCDF file without a privsample release in it{hint}")
        document = _parsed(stored.attributes[RELEASE_ATTRIBUTE])
        release = _read(document, stored.arrays)
        if not release.partly_digested:
            arviz.check_labels(source, stored, release.coords)
            _check_constants(source, document)
        return release

    def _canonical(self) -> dict[str, Any]:
        """The canonical document of the release and its digest: arrays by type, shape and SHA-256."""
        found = self._description() | {"draws": forms(self.draws)}
        return found | {"digest": document_digest(found)}

    def _description(self) -> dict[str, Any]:
        """The release without its draws, as plain data."""
        own = Assumption.RNG_FRESH in self.account.assumptions - self.mechanism.accountant.assumptions
        found = described(self.mechanism, self.account, callers_generator=own)
        if self.grid is not None:
            found["grid"] = dict(self.grid)
        if self.coords:
            found["coords"] = {axis: list(names) for axis, names in self.coords.items()}
        if self.partly_digested:
            found["partly_digested"] = True
        return found if self.delta == _DELTA else found | {"delta": self.delta}

    @property
    def _former_digest(self) -> str:
        """The digest of formats 1 and 2: that of the draws, and of the coordinates if they were drawn."""
        drawn = getattr(self.mechanism, "_draws_coords", False)
        return digest(self.draws, self.coords if drawn else {})


def _parsed(text: str | bytes) -> Any:
    """JSON text, or the bytes of a file, as plain data. Raises ValueError, and TypeError for anything else."""
    if not isinstance(text, (str, bytes)):
        raise TypeError(f"text must be the content of a release file, got {type(text).__name__}")
    try:
        return parse_json(text if isinstance(text, str) else text.decode())
    except (ValueError, RecursionError) as error:
        raise ValueError(
            f"this is not a complete release file: it is truncated or not JSON ({error!s:.100}); copy the file or "
            "write the release again"
        ) from None


def _read(document: Any, stored: Mapping[str, NDArray[Any]] | None = None) -> Release:
    """The release of a document. stored: the arrays of a netCDF file; None if the document holds them."""
    check_format(document)
    try:
        return _checked(document, stored)
    except (KeyError, TypeError, AttributeError, RecursionError, OverflowError) as error:
        raise ValueError(f"the release file lacks a part or holds a wrong one: {error}") from None


def _checked(document: Mapping[str, Any], stored: Mapping[str, NDArray[Any]] | None) -> Release:
    """The release of a document whose digest has been checked."""
    partly = document["format"] < _WHOLE
    if stored is None:
        draws = read_tables(document["draws"])
    elif partly:
        types = document.get("dtypes", {})  # without a record the draws stay as they are
        draws = {name: array.astype(types.get(name, array.dtype)) for name, array in stored.items()}
    else:
        draws = as_saved(stored, document["draws"])
    if not partly:
        check_digest(document, {**document, "draws": forms(draws)})
        partly = document.get("partly_digested", False)
    release = Release(
        mechanism=decode(document["mechanism"]),
        draws=draws,
        account=decode(document["account"]),
        delta=document.get("delta", _DELTA),
        coords=document.get("coords", {}),
        partly_digested=partly,
    )
    if "grid" in document and document["grid"] != release.grid:
        raise ValueError("the release file was altered: its grid is not that of its mechanism")
    expected = release.mechanism.accountant
    if document.get("callers_generator"):
        expected = expected.assuming(Assumption.RNG_FRESH)
    known = document["format"] >= _WHOLE or release._former_digest == document.get("digest")
    if release.account != expected or not known:
        raise ValueError("the release file was altered: its draws, mechanism and account do not belong together")
    return release


def _check_constants(source: Path, document: Mapping[str, Any]) -> None:
    """Raise ValueError if a public number that a netCDF file shows beside the draws is not that of its document."""
    recorded = {**document["mechanism"], **{f"{name}_grid": pitch for name, pitch in document.get("grid", {}).items()}}
    constants = arviz.read_group(source, "constant_data")
    arviz.check_labels(source, constants, {})
    for name, array in constants.arrays.items():
        if array.size != 1 or name not in recorded or array.item() != recorded[name]:
            raise ValueError(f"{source.name} was altered: its constant {name!r} is not that of the release")


def to_arviz(release: Release) -> Any:
    """The draws of a release as an ArviZ object; only a `Release` is accepted.

    Parameters
    ----------
    release : Release
        The release to convert.

    Returns
    -------
    arviz.InferenceData or xarray.DataTree
        An InferenceData, or a DataTree from ArviZ 1 on, with one group `posterior`.

    Raises
    ------
    PrivateContent
        If the object is, or contains, curator's notes.
    TypeError
        If the object is not a Release.
    ImportError
        If ArviZ is not installed.

    Examples
    --------
    >>> import privsample as ps
    >>> try:
    ...     ps.to_arviz({"statistic": [1.0]})
    ... except TypeError as error:
    ...     print(error)
    only a Release can be converted, got dict
    """
    refuse_notes(release)
    if not isinstance(release, Release):
        raise TypeError(f"only a Release can be converted, got {type(release).__name__}")
    return release.to_arviz()


__all__ = ["PrivateContent", "Release", "to_arviz", "writable", "write_whole"]

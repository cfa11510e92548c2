"""Conversion of draws to and from ArviZ, for both of its generations.

Generation 0 (ArviZ 0.23, with PyMC 5) keeps draws in an InferenceData, generation 1 (ArviZ 1, with PyMC 6) in an
xarray DataTree. Both write netCDF4 files with a group `posterior`, so each reads the files of the other.
"""

import errno
import logging
import os
import re
import secrets
import unicodedata
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module, metadata
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privsample._optional import MissingPackage, is_installed, require
from privsample.interop.netcdf_digest import append_digest, has_own_digest
from privsample.interop.netcdf_limits import check_limits

SAMPLE_DIMS = ("chain", "draw")
_OVERHEAD = 1 << 20  # bytes of a file besides its numbers
_FEWEST = 4  # draws of a chain for which ArviZ computes R-hat
CREATION = {"created_at", "creation_library", "creation_library_language", "creation_library_version"}
RESERVED = CREATION | {"arviz_version", "sample_dims", "coordinates"}  # reserved by ArviZ; xarray removes the last one


def arviz_generation() -> int:
    """Return 0 for ArviZ 0.x and 1 for later versions, without importing it. Raises ImportError without ArviZ."""
    require("arviz", "bayes", "an ArviZ object")
    return int(metadata.version("arviz").split(".")[0] != "0")


def to_arviz(
    draws: Mapping[str, NDArray[Any]],
    attributes: Mapping[str, str],
    dims: Mapping[str, Sequence[str]] | None = None,
    coords: Mapping[str, Sequence[str | int]] | None = None,
    chains: int = 1,
    groups: Mapping[str, Mapping[str, Any]] | None = None,
) -> Any:
    """Return an InferenceData (generation 0) or DataTree (generation 1) with a group `posterior`, and others if given.

    Parameters
    ----------
    draws : mapping of str to array
        The draws by variable name, numbers of shape (draws, ...), all with the same number of draws >= 1. Booleans and
        integers become int64, because ArviZ 1 cannot summarize booleans and ArviZ 0 cannot plot unsigned integers.
    attributes : mapping of str to str
        Text attributes of the group and of the root.
    dims : mapping of str to sequence of str, optional
        For each variable, one dimension name for each axis after the first.
    coords : mapping of str to sequence, optional
        For each dimension, its labels.
    chains : int, default 1
        Number of chains, >= 1; the draws are stored chain after chain.
    groups : mapping of str to mapping, optional
        For each further group, its variables: those of `sample_stats` have shape (draws, ...), those of
        `observed_data` and `constant_data` any shape. Empty groups are left out.

    Raises
    ------
    TypeError, ValueError
        If draws, names or lengths could not be restored unchanged from a netCDF file.
    """
    data = {check_name(name): _by_chain(name, values, chains) for name, values in draws.items()}
    if len(numbers := {values.shape[1] for values in data.values()}) != 1:
        raise ValueError(f"draws must hold variables with one common number of draws, got {sorted(numbers)}")
    attrs = {check_name(name): _text(name, text) for name, text in attributes.items()}
    axes = _axes(data, dims or {}, coords or {})
    others = {}
    for group, variables in (groups or {}).items():
        made = {
            check_name(name): _by_chain(name, at, chains) if group == "sample_stats" else np.array(at)
            for name, at in variables.items()
        }
        if made:
            others[group] = made
    az = _arviz()
    if arviz_generation() == 0:  # groups are keyword arguments here, since a dict would become one object variable
        return az.from_dict(posterior=data, **others, posterior_attrs=attrs, attrs=attrs, **axes)
    return az.from_dict({"posterior": data, **others}, attrs={"posterior": attrs, "/": attrs}, **axes)


def default_chains(draws: int) -> int:
    """Number of chains into which independent draws are split: four where each has enough draws for diagnostics.

    ArviZ needs two chains of four draws for R-hat, and logs a warning otherwise.
    """
    return next((chains for chains in (4, 2) if draws % chains == 0 and draws // chains >= _FEWEST), 1)


def write_netcdf(tree: Any, path: str | os.PathLike[str]) -> None:
    """Write the result of `to_arviz` as a netCDF file; an existing file is replaced atomically.

    Raises ImportError without a netCDF library, TypeError for a tree without a posterior, and OSError if the file
    cannot be written.
    """
    if not (hasattr(tree, "to_netcdf") and hasattr(tree, "posterior")):
        raise TypeError(f"tree must be what to_arviz returns, with a group 'posterior', got {type(tree).__name__}")
    engine, target = netcdf_engine(), Path(path)
    temporary = target.parent / f".{secrets.token_hex(8)}.tmp"
    try:
        _check_space(temporary, 2 * _count_bytes(tree) + _OVERHEAD)
        # The compression of ArviZ 0.23 doubles the size of a small file.
        tree.to_netcdf(str(temporary), engine=engine, **({} if arviz_generation() else {"compress": False}))
        with temporary.open("rb+") as file:
            append_digest(file)
            os.fsync(file.fileno())
        temporary.replace(target)
    finally:
        temporary.unlink(missing_ok=True)


def _count_bytes(tree: Any) -> int:
    """Count the bytes of the numbers of the result of `to_arviz`."""
    groups = [node.dataset for node in tree.subtree] if arviz_generation() else list(tree.values())
    return sum(int(group.nbytes) for group in groups)


def _check_space(temporary: Path, size: int) -> None:
    """Raise OSError if a file of this size cannot be written: on a full disk HDF5 ends the process."""
    with temporary.open("xb") as file:
        try:
            if hasattr(os, "posix_fallocate"):
                os.posix_fallocate(file.fileno(), 0, size)
        except OSError as error:
            if error.errno not in (errno.EOPNOTSUPP, errno.EINVAL):  # file systems that cannot reserve space
                raise
    temporary.unlink()


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredGroup:
    """A group of a netCDF file: arrays, those of draws with one axis of draws; labels of axes; attributes."""

    arrays: Mapping[str, NDArray[Any]]
    labels: Mapping[str, Sequence[Any]]
    attributes: Mapping[str, str]


def read_netcdf(path: str | os.PathLike[str]) -> tuple[dict[str, NDArray[Any]], dict[str, str]]:
    """Return the draws by name, shape (chains * draws, ...), and the text attributes of a file of either generation.

    All numbers are restored exactly. Raises ImportError without a netCDF library, OSError if the file cannot be opened,
    and ValueError if it is damaged, was not written by `write_netcdf`, or would need much more memory than its size.
    """
    found = read_posterior(path)
    return dict(found.arrays), dict(found.attributes)


def read_posterior(path: str | os.PathLike[str]) -> StoredGroup:
    """Return the draws of a file with the labels of their axes and its attributes. Raises as `read_netcdf` does."""
    if not isinstance(path, (str, os.PathLike)):
        raise TypeError(f"path must be the name of a file, got {type(path).__name__}")
    engine, source = netcdf_engine(), Path(path)
    with source.open("rb") as file:
        if file.read(8) != b"\x89HDF\r\n\x1a\n":
            raise _read_error(source, "it has no netCDF4 (HDF5) signature")
        if not has_own_digest(file):
            raise _read_error(source, "it is damaged, its content does not match the digest at its end")
    posterior = _load_group(source, "posterior", engine)
    if posterior is None:
        raise _read_error(source, "it has no group 'posterior'")
    for name, variable in posterior.data_vars.items():
        if not set(SAMPLE_DIMS) <= set(variable.dims) or variable.dtype.kind not in "biuf":
            raise _read_error(source, f"its variable {name!r} is not an array of numbers over {SAMPLE_DIMS}")
    if not posterior.data_vars:
        raise _read_error(source, "its group 'posterior' is empty")
    return _stored(posterior)


def read_group(path: str | os.PathLike[str], group: str) -> StoredGroup:
    """Return another group of a file that `read_posterior` reads; its variables over draws are draws by name.

    Raises ValueError if the group is damaged; a missing one is empty.
    """
    found = _load_group(Path(path), group, netcdf_engine(), is_known=True)
    return StoredGroup(arrays={}, labels={}, attributes={}) if found is None else _stored(found)


def _stored(dataset: Any) -> StoredGroup:
    """The content of an xarray.Dataset."""
    arrays = {}
    for name, variable in dataset.data_vars.items():
        values = variable.values
        if set(SAMPLE_DIMS) <= set(variable.dims):
            values = variable.transpose(*SAMPLE_DIMS, ...).values
            values = values.reshape(values.shape[0] * values.shape[1], *values.shape[2:])
        arrays[str(name)] = values
    labels = {str(name): one.values.tolist() for name, one in dataset.coords.items()}
    attributes = {k: v for k, v in dataset.attrs.items() if isinstance(v, str) and k not in RESERVED}
    return StoredGroup(arrays=arrays, labels=labels, attributes=attributes)


def _load_group(source: Path, group: str, engine: str, *, is_known: bool = False) -> Any:
    """Load a group of a file as an xarray.Dataset with the numbers as they are stored; None without such a group.

    is_known: whether another group of the file has been loaded.
    """
    try:
        # h5netcdf also prints a traceback when a file that it failed to open is collected: the check opens it first.
        if not check_limits(source, group, engine, is_known=is_known):
            return None
        load = import_module("xarray").load_dataset
        return load(str(source), group=group, engine=engine, mask_and_scale=False, decode_times=False)
    except Exception as error:  # noqa: BLE001 (each library has its own errors for a broken file)
        reason = f"reading its group {group!r} stopped with {type(error).__name__}, {error!s:.200}"
        raise _read_error(source, reason) from None


def check_labels(path: str | os.PathLike[str], stored: StoredGroup, coords: Mapping[str, Sequence[str]]) -> None:
    """Raise ValueError if an axis of the draws has other labels than those in `coords`, or than the positions."""
    for axis, labels in stored.labels.items():
        if list(labels) not in (list(coords.get(axis, ())), list(range(len(labels)))):
            raise ValueError(
                f"{Path(path).name} was altered: the labels of its axis {axis!r} are not those of its draws"
            )


def summary(tree: Any) -> Any:
    """Return the table of `az.summary`; entries that need more draws or chains are NaN, without a warning."""
    with _quiet(tree):
        return _arviz().summary(tree)


def plot_posterior(tree: Any) -> Any:
    """Return the axes of `az.plot_posterior` or the PlotCollection of `az.plot_dist`. Raises ImportError."""
    az = _arviz()
    if az.rcParams["plot.backend"] == "none":
        raise MissingPackage("plots need a plotting library, and none is installed: pip install 'privsample[report]'")
    with _quiet(tree):
        # ArviZ 0.23 calls matplotlib 3.11 in a way that matplotlib 3.13 removes.
        warnings.filterwarnings("ignore", "Passing a dict or None as alias_mapping", DeprecationWarning)
        return az.plot_posterior(tree) if arviz_generation() == 0 else az.plot_dist(tree)


def _arviz() -> Any:
    require("arviz", "bayes", "an ArviZ object")
    with warnings.catch_warnings():
        # ArviZ 0.23 announces ArviZ 1 when it is imported; both are supported.
        warnings.filterwarnings("ignore", r"\s*ArviZ is undergoing a major refactor", FutureWarning)
        import arviz
    return arviz


def netcdf_engine() -> str:
    """Return the netCDF library to use; h5netcdf needs h5py. Raises MissingPackage, also without ArviZ."""
    require("arviz", "bayes", "a netCDF file")
    if not is_installed("netCDF4") or (is_installed("h5netcdf") and is_installed("h5py")):
        for package in ("xarray", "h5netcdf", "h5py"):
            require(package, "bayes", "a netCDF file")
        return "h5netcdf"
    require("xarray", "bayes", "a netCDF file")
    return "netcdf4"


def check_name(name: str) -> str:
    """The name of a variable or an axis, if netCDF files take it. Raises ValueError."""
    if not re.fullmatch(r"[^\W_][^/\x00-\x1f\x7f]*(?<! )", name) or not unicodedata.is_normalized("NFC", name):
        raise ValueError(f"names must start with a letter or digit and be NFC, with no '/' or end space, got {name!r}")
    return name


def _text(name: str, text: str) -> str:
    if not isinstance(text, str):
        raise TypeError(f"attribute {name} must be a string, got {type(text).__name__}")
    if name in RESERVED or "\0" in text or any("\ud800" <= letter <= "\udfff" for letter in text):
        raise ValueError(f"attribute {name} must have no NUL or lone surrogate, nor a name in {sorted(RESERVED)}")
    return text


def _by_chain(name: str, values: NDArray[Any], chains: int) -> NDArray[Any]:
    """Return a copy of shape (chains, draws / chains, ...) as int64, float32 or float64."""
    array = np.asarray(values)
    if array.ndim == 0 or len(array) == 0:
        raise ValueError(f"{name} must have shape (draws, ...) with at least one draw, got shape {array.shape}")
    kind = np.dtype("i8") if np.can_cast(array.dtype, "i8") else array.dtype.newbyteorder("=")
    if kind not in {np.dtype("i8"), np.dtype("f4"), np.dtype("f8")}:
        raise TypeError(f"{name} must hold booleans, integers (not uint64) or float32/float64, got {array.dtype}")
    return np.array(array, dtype=kind).reshape(chains, len(array) // chains, *array.shape[1:])


def _axes(data: dict[str, NDArray[Any]], dims: Mapping[str, Any], coords: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments dims and coords of ArviZ, checked against the data."""
    sizes: dict[str, int] = {}
    for name, names in dims.items():
        shape = data[name].shape[2:] if name in data else ()
        if name not in data or not len(shape) == len(names) == len(set(names)):
            raise ValueError(f"dims[{name!r}] must name each axis of a variable after the first, got {names}")
        if any(sizes.setdefault(check_name(dim), size) != size for dim, size in zip(names, shape, strict=True)):
            raise ValueError(f"dims must have one size each, got shape {shape} for {names}; sizes so far are {sizes}")
    if reused := sorted((sizes.keys() | data.keys()) & {*SAMPLE_DIMS} | sizes.keys() & data.keys()):
        raise ValueError(f"variables and dims must differ in name, also from {SAMPLE_DIMS}, got {reused}")
    if any(sizes.get(dim) != len(labels) for dim, labels in coords.items()):
        raise ValueError(
            f"coords must have one label for each position of a dim; the dims and their sizes are {sizes}, got {coords}"
        )
    return {"dims": {k: list(v) for k, v in dims.items()}, "coords": {k: list(v) for k, v in coords.items()}}


def _read_error(path: Path, wrong: str) -> ValueError:
    expected = "Expected a complete netCDF4 file with a group 'posterior' of draws, as write_netcdf makes it"
    return ValueError(f"{path} cannot be read: {wrong}. {expected}; copy the file again, or write it again.")


@contextmanager
def _quiet(tree: Any) -> Iterator[None]:
    """Suppress warnings and log lines that arise only because there is one chain, or one draw."""
    if not hasattr(tree, "posterior"):
        raise TypeError(f"tree must be what to_arviz made, with a group 'posterior', got {type(tree).__name__}")
    logger = logging.getLogger("arviz_stats.base.stats_utils") if arviz_generation() else _arviz()._log

    def keep(record: logging.LogRecord) -> bool:
        return "Shape validation failed" not in record.getMessage()

    logger.addFilter(keep)
    try:
        with warnings.catch_warnings():
            if tree.posterior.sizes["chain"] * tree.posterior.sizes["draw"] == 1:
                warnings.filterwarnings("ignore", "Degrees of freedom <= 0|invalid value encountered", RuntimeWarning)
                warnings.filterwarnings("ignore", "Your data appears to have a single value", UserWarning)
            yield
    finally:
        logger.removeFilter(keep)

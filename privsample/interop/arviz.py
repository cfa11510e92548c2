"""Draws to and from ArviZ: the one module that knows that there are two generations of it.

Generation 0 (ArviZ 0.23, with PyMC 5) keeps draws in an InferenceData, generation 1 (ArviZ 1, with PyMC 6) in an
xarray DataTree. Both write netCDF4 files with a group `posterior`, so each reads the files of the other.
"""

import importlib.metadata
import importlib.util
import logging
import os
import re
import secrets
import unicodedata
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

SAMPLE_DIMS = ("chain", "draw")
HDF5_SIGNATURE = b"\x89HDF\r\n\x1a\n"
# Written by ArviZ itself, or taken out of the attributes by xarray (coordinates).
RESERVED = frozenset(
    {"arviz_version", "coordinates", "created_at", "sample_dims"}
    | {"creation_library", "creation_library_language", "creation_library_version"}
)


def arviz_generation() -> int:
    """0 for ArviZ 0.x, 1 for ArviZ 1 and later, without importing it. Raises: ImportError, ArviZ is not installed."""
    return int(importlib.metadata.version("arviz").split(".")[0] != "0")


def to_arviz(
    draws: Mapping[str, NDArray[Any]],
    attributes: Mapping[str, str],
    dims: Mapping[str, Sequence[str]] | None = None,
    coords: Mapping[str, Sequence[str | int]] | None = None,
) -> Any:
    """An InferenceData (generation 0) or DataTree (generation 1) with one group, `posterior`, of one chain.

    Parameters: draws: name -> (draws, ...) numbers, the same number of draws >= 1 for all; booleans are stored as the
    integers 0 and 1, because ArviZ 1 cannot summarise booleans. attributes: name -> text; they go to the group and to
    the root. dims: name of a variable -> one name for each axis after the first. coords: name of a dim -> its labels.
    Raises: TypeError or ValueError, for draws, names or lengths that a netCDF file could not give back unchanged.
    """
    dims, coords = {k: list(v) for k, v in (dims or {}).items()}, {k: list(v) for k, v in (coords or {}).items()}
    data = {name: _one_chain(name, values) for name, values in draws.items()}
    if len({values.shape[1] for values in data.values()}) != 1:
        shapes = {name: values.shape[1:] for name, values in data.items()}
        raise ValueError(f"draws must hold variables with the same number of draws, got the shapes {shapes}")
    _check_dims(data, dims, coords)
    for name, text in attributes.items():
        _check_name(name)
        if not isinstance(text, str):
            raise TypeError(f"attribute {name} must be text, got {type(text).__name__}")
        if name in RESERVED or "\0" in text or text.encode("utf-8", "ignore").decode() != text:
            raise ValueError(f"attribute {name} must hold no NUL or lone surrogate, and not be one of {sorted(RESERVED)}")
    attrs = dict(attributes)
    az = _arviz()
    if arviz_generation() == 0:  # groups are keywords: a dict of groups would become one variable of objects
        return az.from_dict(posterior=data, posterior_attrs=attrs, attrs=attrs, dims=dims, coords=coords)
    return az.from_dict({"posterior": data}, attrs={"posterior": attrs, "/": attrs}, dims=dims, coords=coords)


def write_netcdf(tree: Any, path: str | os.PathLike[str]) -> None:
    """Write what `to_arviz` returns as a netCDF file; an existing file is replaced whole, or left as it was.

    Raises: ImportError, no netCDF library; TypeError, not a tree with a posterior; OSError, the folder or the disk.
    """
    _posterior(tree)
    engine, target = _engine(), Path(path)
    temporary = target.parent / f".{secrets.token_hex(8)}.tmp"
    try:
        tree.to_netcdf(str(temporary), engine=engine)
        with temporary.open("rb+") as file:
            os.fsync(file.fileno())
        temporary.replace(target)
    finally:
        temporary.unlink(missing_ok=True)


def read_netcdf(path: str | os.PathLike[str]) -> tuple[dict[str, NDArray[Any]], dict[str, str]]:
    """The draws, name -> (chains * draws, ...), and the text attributes of a file of either generation, bit for bit.

    Raises: ImportError, no netCDF library; OSError, the file cannot be opened; ValueError, it is broken or foreign.
    """
    engine, source = _engine(), Path(path)
    with source.open("rb") as file:
        start = file.read(len(HDF5_SIGNATURE))
    if start != HDF5_SIGNATURE:
        raise _unreadable(source, "it is empty" if not start else "it does not begin as a netCDF4 (HDF5) file does")
    import xarray

    options = {"engine": engine, "mask_and_scale": False, "decode_times": False}
    try:
        if engine == "h5netcdf":  # h5netcdf would also print a traceback when its half-opened file is collected
            import h5py

            h5py.File(source, "r").close()
        with xarray.open_dataset(str(source), group="posterior", **options) as posterior:
            posterior.load()
    except Exception as error:  # noqa: BLE001 (each library has its own errors for a broken file)
        reason = " ".join(str(error).split())[:200]
        raise _unreadable(source, f"reading it stopped with {type(error).__name__}: {reason}") from None
    draws = {}
    for name, variable in posterior.data_vars.items():
        if not set(SAMPLE_DIMS) <= set(variable.dims) or variable.dtype.kind not in "biuf":
            raise _unreadable(source, f"variable {name!r} is no array of numbers over {SAMPLE_DIMS}")
        values = variable.transpose(*SAMPLE_DIMS, ...).values
        draws[str(name)] = values.reshape(values.shape[0] * values.shape[1], *values.shape[2:])
    if not draws:
        raise _unreadable(source, "its group 'posterior' is missing or empty")
    return draws, {k: v for k, v in posterior.attrs.items() if isinstance(v, str) and k not in RESERVED}


def summary(tree: Any) -> Any:
    """The table of `az.summary`; silent about too few draws or chains, where its entries are NaN."""
    with _quiet(tree):
        return _arviz().summary(tree)


def plot_posterior(tree: Any) -> Any:
    """The axes of `az.plot_posterior` (generation 0) or the PlotCollection of `az.plot_dist` (generation 1).

    Raises: ImportError, no plotting library is installed.
    """
    az = _arviz()
    if az.rcParams["plot.backend"] == "none":
        raise ImportError("plots need a plotting library: pip install 'privsample[report]'")
    with _quiet(tree):
        # ArviZ 0.23 calls matplotlib 3.11 in a way that goes away in 3.13.
        warnings.filterwarnings("ignore", "Passing a dict or None as alias_mapping", DeprecationWarning)
        return az.plot_posterior(tree) if arviz_generation() == 0 else az.plot_dist(tree)


def _arviz() -> Any:
    with warnings.catch_warnings():
        # ArviZ 0.23 announces ArviZ 1 when it is imported; both are supported.
        warnings.filterwarnings("ignore", r"\s*ArviZ is undergoing a major refactor", FutureWarning)
        import arviz
    return arviz


def _engine() -> str:
    """The netCDF library to use; h5netcdf alone is not enough, it reads and writes through h5py."""
    if all(importlib.util.find_spec(name) for name in ("h5netcdf", "h5py")):
        return "h5netcdf"
    if importlib.util.find_spec("netCDF4"):
        return "netcdf4"
    raise ImportError("netCDF files need h5netcdf with h5py, or netCDF4: pip install 'privsample[netcdf]'")


def _one_chain(name: str, values: NDArray[Any]) -> NDArray[Any]:
    """(draws, ...) -> (1, draws, ...), a copy in native byte order."""
    _check_name(name)
    array = np.asarray(values)
    if array.ndim == 0 or array.shape[0] == 0:
        raise ValueError(f"{name} must have shape (draws, ...) with at least one draw, got shape {array.shape}")
    if array.dtype.kind not in "biuf" or (array.dtype.kind == "f" and array.dtype.itemsize not in (4, 8)):
        raise TypeError(f"{name} must hold booleans, integers, or floats of 4 or 8 bytes, got type {array.dtype}")
    kind = np.dtype(np.int64) if array.dtype.kind == "b" else array.dtype.newbyteorder("=")
    return np.array(array, dtype=kind)[np.newaxis]


def _check_name(name: str) -> None:
    if not re.fullmatch(r"[^\W_][^/\x00-\x1f\x7f]*(?<! )", name) or not unicodedata.is_normalized("NFC", name):
        raise ValueError(f"a netCDF name must be NFC text from a letter or digit on, without '/' or end space: {name!r}")


def _check_dims(data: dict[str, NDArray[Any]], dims: dict[str, list[str]], coords: dict[str, list[Any]]) -> None:
    sizes: dict[str, int] = {}
    for name, names in dims.items():
        axes = data[name].shape[2:] if name in data else None
        if axes is None or len(axes) != len(set(names)) or len(axes) != len(names):
            raise ValueError(f"dims[{name!r}] must name each axis of the draws after the first, got {names} for {axes}")
        for dim, size in zip(names, axes, strict=True):
            _check_name(dim)
            if sizes.setdefault(dim, size) != size:
                raise ValueError(f"dim {dim!r} must have one size, got {sizes[dim]} and {size}")
    if reused := sorted((sizes.keys() | data.keys()) & {*SAMPLE_DIMS} | sizes.keys() & data.keys()):
        raise ValueError(f"variables and dims must differ in name, and from {SAMPLE_DIMS}, got {reused} twice")
    for dim, labels in coords.items():
        if sizes.get(dim) != len(labels):
            raise ValueError(f"coords[{dim!r}] must label each place of a dim in dims, got {len(labels)} for {sizes}")


def _posterior(tree: Any) -> Any:
    if not (hasattr(tree, "to_netcdf") and hasattr(tree, "posterior")):
        raise TypeError(f"tree must be what to_arviz returns, with a group 'posterior', got {type(tree).__name__}")
    return tree.posterior


def _unreadable(path: Path, wrong: str) -> ValueError:
    return ValueError(
        f"{path} cannot be read: {wrong}. Expected a whole netCDF4 file with a group 'posterior' of draws, "
        "as write_netcdf makes it; copy the file again from its source, or write it again."
    )


@contextmanager
def _quiet(tree: Any) -> Iterator[None]:
    """Without the warnings and log lines whose only cause is that there is one chain, or one draw."""
    sizes, loggers = _posterior(tree).sizes, [logging.getLogger(n) for n in ("arviz", "arviz_stats.base.stats_utils")]

    def keep(record: logging.LogRecord) -> bool:
        return "Shape validation failed" not in record.getMessage()

    for logger in loggers:
        logger.addFilter(keep)
    try:
        with warnings.catch_warnings():
            if sizes["chain"] * sizes["draw"] == 1:
                few = r"Degrees of freedom <= 0|invalid value encountered in (scalar )?divide"
                warnings.filterwarnings("ignore", few, RuntimeWarning)
                warnings.filterwarnings("ignore", "Your data appears to have a single value", UserWarning)
            yield
    finally:
        for logger in loggers:
            logger.removeFilter(keep)

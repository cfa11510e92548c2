"""Limits on what reading a netCDF4 (HDF5) file allocates, checked before any of its numbers are read.

A small file can declare large content: chunks that were never written, data that a filter expands, and many references
to one long text. It can also name other files, whose content would be read in its place.
"""

from collections.abc import Iterator
from contextlib import closing
from importlib import import_module
from math import prod
from mmap import ACCESS_READ, mmap
from pathlib import Path
from struct import unpack_from
from typing import Any

FLOOR, RATIO = 1 << 24, 100  # bytes that any file may allocate, and further ones for each byte of the file
_NO_COMPRESSION = frozenset({2, 3})  # HDF5's filters shuffle and fletcher32, which keep the size
_HEAP = b"GCOL\x01\x00\x00\x00"
_FEW = 64  # elements of an attribute; those of ArviZ and netCDF have one for each dimension


def check_limits(source: Path, group: str, engine: str, *, is_known: bool = False) -> bool:
    """Raise ValueError if loading a group of a file could allocate more than `FLOOR` + `RATIO` bytes per byte of it.

    Returns whether the file has the group.

    Also refuses content that lies in other files, data that were compressed more than once, and heaps of texts at which
    HDF5 stays for ever. Without h5py the shapes of arrays are checked and nothing else.

    engine: "h5netcdf" if h5py is installed, otherwise "netcdf4". is_known: whether another group of the file has been
    checked, so that what all groups share is not checked again.
    """
    allowed = FLOOR + RATIO * source.stat().st_size
    budget = _Budget(allowed)
    if engine == "netcdf4":
        try:
            store = import_module("xarray").backends.NetCDF4DataStore.open(str(source), group=group)
        except OSError:
            return False
        with closing(store):  # without the indexes of a dataset, which are read at once
            budget.spend(sum(int(variable.nbytes) for variable in store.get_variables().values()))
        return True
    if not is_known:
        _check_heaps(source)
    h5py = import_module("h5py")
    with h5py.File(source, "r") as file:
        if not is_known:
            texts: dict[str, Any] = {}
            _check_attributes(file, budget, texts)
            file.visititems(lambda _, item: _check_attributes(item, budget, texts))
        if group not in file:
            return False
        held = _linked(h5py, file, group)
        for name in held:
            item = _linked(h5py, held, name)
            if isinstance(item, h5py.Dataset):
                _check_storage(h5py, item, budget)
                for size in _sizes(item, allowed // source.stat().st_size):
                    budget.spend(size)
    return True


def _check_heaps(source: Path) -> None:
    """Raise ValueError if a heap of texts holds an object without length, at which HDF5 stays for ever.

    HDF5 file format specification, III.E: a collection has a head of 16 bytes and then objects, each with an index,
    which is 0 for free space, and a length, which is that of the free space or of the data after 16 bytes.
    """
    with source.open("rb") as file, mmap(file.fileno(), 0, access=ACCESS_READ) as content:
        start = content.find(_HEAP)
        while start >= 0:
            (size,) = unpack_from("<Q", content, start + 8) if start + 16 <= len(content) else (0,)
            at, end = start + 16, min(start + size, len(content))
            while end - at >= 16:
                index, length = unpack_from("<H6xQ", content, at)
                step = length if index == 0 else 16 + (length + 7) // 8 * 8
                if step % (1 << 64) == 0:  # HDF5 adds it as a number of 64 bits
                    raise ValueError("a heap of its texts is damaged")
                at += step
            start = content.find(_HEAP, start + 1)


class _Budget:
    """Bytes that may be allocated."""

    def __init__(self, allowed: int) -> None:
        self._allowed = self._left = allowed

    def spend(self, size: int) -> None:
        """Count bytes. Raises ValueError if there are too many."""
        self._left -= size
        if self._left < 0:
            raise ValueError(
                f"its arrays or attributes need more than {self._allowed} bytes, too many for a file of its size"
            )


def _linked(h5py: Any, holder: Any, name: str) -> Any:
    """A member of a group. Raises ValueError if it is in another file."""
    if not isinstance(holder.get(name, getlink=True), h5py.HardLink):
        raise ValueError(f"{name!r} is missing or a link, possibly to another file")
    return holder[name]


def _check_attributes(item: Any, budget: _Budget, texts: dict[str, Any]) -> None:
    """Count the bytes of all attributes of a group or an array. Raises ValueError if copies of a text differ.

    texts: those of this library by name, which ArviZ copies to the groups.
    """
    for name in item.attrs:
        identifier = item.attrs.get_id(name)
        count = prod(identifier.shape)
        budget.spend(_storage_size(identifier))
        if _is_variable_length(identifier.dtype):
            if count > _FEW:
                raise ValueError(f"its attribute {name!r} has {count} elements, and at most {_FEW} are allowed")
            if count and _storage_size(identifier):
                content = item.attrs[name]
                budget.spend(sum(map(_length, _flat(content))))
                if name.startswith("privsample_") and texts.setdefault(name, content) != content:
                    raise ValueError(f"its groups have different attributes {name!r}")


def _storage_size(identifier: Any) -> int:
    """Bytes that an attribute stores; some versions of h5py raise for an empty one."""
    try:
        return int(identifier.get_storage_size())
    except RuntimeError:
        return 0


def _check_storage(h5py: Any, item: Any, budget: _Budget) -> None:
    """Count a chunk of an array. Raises ValueError if its data lie in other files or were compressed twice."""
    plan = item.id.get_create_plist()
    filters = [plan.get_filter(k)[0] for k in range(plan.get_nfilters())]
    if plan.get_external_count() or plan.get_layout() == h5py.h5d.VIRTUAL:
        raise ValueError(f"the numbers of {item.name!r} lie in another file")
    if len([code for code in filters if code not in _NO_COMPRESSION]) > 1:
        raise ValueError(f"the numbers of {item.name!r} were compressed more than once")
    if item.chunks:
        budget.spend(prod(item.chunks) * item.dtype.itemsize)


def _sizes(item: Any, step: int) -> Iterator[int]:
    """The bytes of an array, without reading it, except for texts: these are read `step` at a time."""
    if item.shape is None:
        return
    yield prod(item.shape) * item.dtype.itemsize
    if _is_variable_length(item.dtype):
        row = prod(item.shape[1:])
        if row > step:
            raise ValueError(f"the texts {item.name!r} have {row} in a row, and at most {step} are allowed")
        rows = step // row if row else 1
        for start in range(0, item.shape[0], rows) if item.ndim else ():
            yield sum(map(_length, _flat(item[start : start + rows])))
        if not item.ndim:
            yield _length(item[()])


def _is_variable_length(kind: Any) -> bool:
    return bool(kind.hasobject)


def _flat(found: Any) -> Any:
    return found.ravel() if hasattr(found, "ravel") else [found]


def _length(element: Any) -> int:
    """Bytes of a text or of an array of references."""
    return int(getattr(element, "nbytes", 0)) or (len(element) if hasattr(element, "__len__") else 8)

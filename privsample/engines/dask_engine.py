"""The dask engine: one tally for each partition, computed by the workers, and added up in a tree.

A worker receives the mechanism and its partition, and returns a tally. Draws are made in the caller's process only,
after the last tally has come back: a task that runs twice computes a tally twice and draws nothing.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from privsample._data import unreadable
from privsample._optional import require
from privsample._value import frozen_value
from privsample.engines.parts import Part, parquet_parts
from privsample.engines.protocol import Columns, check_columns, check_types
from privsample.engines.sources import is_path
from privsample.errors import SchemaError
from privsample.mechanisms.base import Mechanism
from privsample.mechanisms.tallies.merge import merge_tallies
from privsample.mechanisms.tallies.tally import Tally

_BRANCHES = 8  # tallies that one task adds up
_AXES_OF_FRAME = 2


@frozen_value
class DaskEngine:
    """Tallies of a dask DataFrame, a dask Array of one column, or Parquet files, on the caller's dask scheduler.

    The scheduler is that of `dask.compute`: the active client of `distributed`, or the one that `dask.config` sets; by
    default, threads of this process. If the mechanism bounds the contribution of a unit, the rows are first shuffled by
    a public hash of the unit, so that all rows of a unit lie in one partition.
    """

    def tally(self, source: Any, mechanism: Mechanism, columns: Columns) -> Tally:
        """The tally of all records of the source.

        Parameters
        ----------
        source : dask.dataframe.DataFrame, dask.array.Array, str, path or sequence of these
            The data: a dask collection, or the path of a Parquet file, a folder, a glob, or a list of these. The
            workers must see the same paths.
        mechanism : Mechanism
            A mechanism that has tallies.
        columns : Columns
            The columns that it reads. Of an array, `columns.records` names the only one.

        Returns
        -------
        Tally
            The tally, equal to `mechanism.tally` of all records at once.

        Raises
        ------
        SchemaError
            If a column is missing or has the wrong type, or if the job fails. Nothing is drawn.
        """
        for package in ("dask", "pandas", "pyarrow"):
            require(package, "dask", "engine='dask'")
        return _tallied(_parts(source, mechanism, columns), mechanism, columns)


def _parts(source: Any, mechanism: Mechanism, columns: Columns) -> list["_Task"]:
    """The parts of a source. Raises TypeError if it is none that dask reads."""
    module, axes = type(source).__module__, getattr(source, "ndim", None)
    if module.startswith("dask.array"):
        return _array_parts(source, columns)
    if module.startswith("dask.dataframe") and axes == _AXES_OF_FRAME:
        return _frame_parts(source, columns)
    if not is_path(source):
        raise TypeError(
            "source must be a dask DataFrame or Array, a path, or a list of paths for engine='dask', got "
            f"{type(source).__name__}"
        )
    if columns.unit is None:
        return _file_parts(source, mechanism, columns)
    return _frame_parts(_frame_of_files(source, mechanism, columns), columns)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Task:
    """A part of the data: its name, the delayed partition or what describes it, and the function that reads it."""

    name: str
    content: Any
    read: Callable[[Any, Columns, Mechanism], Any]


def _tallied(parts: Sequence[_Task], mechanism: Mechanism, columns: Columns) -> Tally:
    """Compute the tallies of all parts and their sum. Raises SchemaError."""
    import dask

    # The mechanism is one node of the graph: a worker receives it once, not with every task.
    shared = dask.delayed(mechanism, name=f"mechanism-{mechanism._fingerprint}", traverse=False)
    count, add = dask.delayed(_count, pure=False, traverse=False), dask.delayed(_add, pure=False)
    level = [count(part.content, part.read, part.name, shared, columns) for part in parts]
    while len(level) > 1:
        level = [add(level[first : first + _BRANCHES]) for first in range(0, len(level), _BRANCHES)]
    try:
        (found,) = dask.compute(level[0])
    except (SchemaError, TypeError, MemoryError):  # TypeError: the mechanism has no tallies
        raise
    except Exception as error:  # noqa: BLE001 (of any worker, scheduler or file system; its message may show a record)
        raise unreadable("the data of the dask job", error) from None
    total = merge_tallies([found], parts=[part.name for part in parts])
    return replace(total, parts=frozenset())


def _count(content: Any, read: Callable[..., Any], name: str, mechanism: Mechanism, columns: Columns) -> Tally:
    """The tally of one part, on a worker. Raises SchemaError, which shows no record in the logs of workers."""
    try:
        data = read(content, columns, mechanism)
    except (SchemaError, MemoryError):
        raise
    except Exception as error:  # noqa: BLE001 (of pyarrow or pandas: its message may show a record)
        raise unreadable("a partition", error) from None
    return mechanism.tally(data, part=name)


def _add(tallies: Sequence[Tally]) -> Tally:
    return merge_tallies(tallies)


def _file_parts(source: Any, mechanism: Mechanism, columns: Columns) -> list[_Task]:
    """The parts of files, which the workers read without another library between."""
    files = parquet_parts(source, columns)
    check_types(files.empty, columns, mechanism)
    return [_Task(name=part.name, content=part, read=_read_file) for part in files.parts]


def _read_file(part: Part, columns: Columns, mechanism: Mechanism) -> Any:
    return columns.data(part.read(columns.names), mechanism)


def _frame_of_files(source: Any, mechanism: Mechanism, columns: Columns) -> Any:
    """The files as a dask DataFrame of Arrow columns."""
    import dask.dataframe as dd

    files = parquet_parts(source, columns)
    check_types(files.empty, columns, mechanism)
    return dd.from_map(_read_frame, files.parts, names=columns.names, meta=_to_frame(files.empty))


def _read_frame(part: Part, *, names: tuple[str, ...]) -> Any:
    return _to_frame(part.read(names))


def _to_frame(table: Any) -> Any:
    import pandas as pd

    return table.to_pandas(types_mapper=pd.ArrowDtype)


def _frame_parts(frame: Any, columns: Columns) -> list[_Task]:
    """The partitions of a dask DataFrame; with units, of one whose partitions hold complete units."""
    check_columns(frame.columns, columns, "the dask DataFrame")
    chosen = frame[list(columns.names)]
    if columns.unit is not None:
        # The hash depends on the type, which must therefore be the same in every partition.
        checked = chosen.map_partitions(_same_types, chosen._meta.dtypes.to_dict(), meta=chosen._meta)
        chosen = checked.shuffle(on=columns.unit, npartitions=chosen.npartitions)
    return [
        _Task(name=f"{chosen._name} partition {place}", content=partition, read=_read_partition)
        for place, partition in enumerate(chosen.to_delayed())
    ]


def _same_types(frame: Any, types: dict[str, Any]) -> Any:
    """The partition, if its columns have these types. Raises SchemaError."""
    for name, kind in types.items():
        if frame[name].dtype != kind:
            raise SchemaError(
                f"column {name!r} has the type {kind} in the dask DataFrame, and {frame[name].dtype} in a partition; "
                "convert it with astype"
            )
    return frame


def _read_partition(frame: Any, columns: Columns, mechanism: Mechanism) -> Any:
    import pyarrow as pa

    table = pa.Table.from_pandas(frame, preserve_index=False)
    if table.num_rows == 0:  # text without an entry has no type
        table = table.cast(pa.schema([field.with_type(_known(field.type)) for field in table.schema]))
    return columns.data(table, mechanism)


def _known(kind: Any) -> Any:
    import pyarrow as pa

    return pa.string() if pa.types.is_null(kind) else kind


def _array_parts(array: Any, columns: Columns) -> list[_Task]:
    """The blocks of a dask Array of shape (n,). Raises SchemaError."""
    if array.ndim != 1 or columns.names != (columns.records,):
        raise SchemaError(
            f"a dask Array must be one column, shape (n,), without groups and units, got {array.ndim} axes; make a "
            "dask DataFrame of several columns"
        )
    return [
        _Task(name=f"{array.name} block {place}", content=block, read=_read_block)
        for place, block in enumerate(array.to_delayed().ravel())
    ]


def _read_block(block: Any, columns: Columns, mechanism: Mechanism) -> Any:
    del columns, mechanism
    return block

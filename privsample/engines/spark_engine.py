"""The Spark engine: one tally for each partition through `mapInArrow`, added up by the driver.

An executor receives the mechanism and the record batches of a partition, and returns one row: the name of the part and
its tally. Draws are made by the driver only, after the last tally has come back.
"""

import re
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any

from privsample._data import ROWS, unreadable
from privsample._optional import require
from privsample._value import frozen_value
from privsample.engines.protocol import Columns, check_columns, check_types
from privsample.errors import SchemaError
from privsample.mechanisms.base import Mechanism
from privsample.mechanisms.tallies.arrow import from_file, to_file
from privsample.mechanisms.tallies.merge import merge_tallies
from privsample.mechanisms.tallies.tally import Tally

BATCH_SCHEMA = "part string, tally binary"  # of the rows that `tally_batches` yields, for mapInArrow
_MANY_GROUPS = 10_000  # from so many groups on, executors add up tallies before the driver does
_BRANCHES = 16  # tallies that the driver then receives
_SAID = re.compile(r"privsample\.errors\.SchemaError: (.*)")  # an error of an executor, in the text of the driver's

Batches = Callable[[Iterable[Any]], Iterator[Any]]


def tally_batches(mechanism: Mechanism, columns: Any, *, by: str | None = None, unit: str | None = None) -> Batches:
    """The function for `mapInArrow` of Spark that computes the tally of a partition.

    It takes an iterator of Arrow record batches, the rows of one partition, and yields one record batch with one row of
    the schema "part string, tally binary". `merge_batches` adds these rows up. If the mechanism bounds the contribution
    of a unit, partition the rows by the unit first, with `df.repartition(number, unit)`, so that all rows of a unit lie
    in one partition; the partition must then fit in the memory of an executor.

    Parameters
    ----------
    mechanism : Mechanism
        A mechanism that has tallies.
    columns : str or tuple of str
        The column of the records; for rows of several numbers, their columns in order, and the label last.
    by : str, optional
        The column of the group's key. None, the default, is the name of the grouped mechanism.
    unit : str, optional
        The column of the unit, for a mechanism that bounds its contribution.

    Returns
    -------
    callable
        The function, which Spark sends to its executors. They need privsample and pyarrow.

    Raises
    ------
    TypeError
        If `columns`, `by` or `unit` are not names of columns, or do not suit the mechanism.
    ValueError
        If one column is named twice.

    Examples
    --------
    >>> import privsample as ps, pyarrow as pa
    >>> mechanism = ps.LaplaceSum(bounds=(0, 1), scale=2)
    >>> function = ps.tally_batches(mechanism, "x")
    >>> rows = list(function(iter([pa.record_batch({"x": [1, 0, 1]}), pa.record_batch({"x": [1]})])))
    >>> rows[0].column("part").to_pylist(), ps.merge_batches(rows) == mechanism.tally([1, 0, 1, 1])
    (['partition 0'], True)
    """
    return _Counting(mechanism, Columns.of(mechanism, columns, by=by, unit=unit))


def merge_batches(rows: Any) -> Tally:
    """Add up the tallies of all partitions, each once.

    Parameters
    ----------
    rows : pyarrow.Table or iterable of pyarrow.RecordBatch
        The rows that the function of `tally_batches` yielded, of all partitions, as `df.toArrow()` returns them. A
        partition that occurs twice with the same content counts once.

    Returns
    -------
    Tally
        The tally of all partitions.

    Raises
    ------
    SchemaError
        If a partition is missing, occurs twice with different content, or a row is not a whole tally.

    Examples
    --------
    >>> import privsample as ps, pyarrow as pa
    >>> mechanism = ps.LaplaceSum(bounds=(0, 1), scale=2)
    >>> partition = [pa.record_batch({"x": [1, 0, 1, 1]})]
    >>> rows = list(ps.tally_batches(mechanism, "x")(iter(partition)))
    >>> ps.merge_batches([*rows, *rows]) == mechanism.tally([1, 0, 1, 1])  # the partition was computed twice
    True
    """
    batches = rows.to_batches() if hasattr(rows, "to_batches") else rows
    total = merge_tallies(_tallies(batches))
    return replace(merge_tallies([total], parts=map(_part, range(len(total.parts)))), parts=frozenset())


@frozen_value
class SparkEngine:
    """Tallies of a Spark DataFrame, through `mapInArrow`.

    If the mechanism bounds the contribution of a unit, Spark first partitions the rows by a public hash of the unit,
    into as many partitions as `spark.sql.shuffle.partitions` says.
    """

    def tally(self, source: Any, mechanism: Mechanism, columns: Columns) -> Tally:
        """The tally of all rows of a Spark DataFrame.

        Parameters
        ----------
        source : pyspark.sql.DataFrame
            The data.
        mechanism : Mechanism
            A mechanism that has tallies.
        columns : Columns
            The columns that it reads.

        Returns
        -------
        Tally
            The tally, equal to `mechanism.tally` of all records at once.

        Raises
        ------
        SchemaError
            If a column is missing or has the wrong type, or if the job fails. Nothing is drawn.
        """
        require("pyarrow", "spark", "engine='spark'")  # who has a Spark DataFrame has pyspark
        if not hasattr(source, "mapInArrow"):
            raise TypeError(f"a Spark source must be a Spark DataFrame, got {type(source).__name__}")
        check_columns(source.columns, columns, "the Spark DataFrame")
        frame = source.select(*(f"`{name.replace('`', '``')}`" for name in columns.names))
        check_types(_empty(frame), columns, mechanism)
        if columns.unit is not None:
            number = int(source.sparkSession.conf.get("spark.sql.shuffle.partitions"))
            frame = frame.repartition(number, frame[0])
        rows = frame.mapInArrow(_Counting(mechanism, columns), BATCH_SCHEMA)
        if len(getattr(mechanism, "keys", ())) >= _MANY_GROUPS:
            rows = rows.repartition(_BRANCHES).mapInArrow(_add_batches, BATCH_SCHEMA)
        try:
            found = rows.toArrow()
        except Exception as error:  # noqa: BLE001 (of Spark, the Java runtime or an executor; it may show a record)
            said = _SAID.findall(str(error))
            raise SchemaError(said[0].strip()) if said else unreadable("the Spark DataFrame", error) from None
        return merge_batches(found)


def _empty(frame: Any) -> Any:
    """An empty Arrow table with the columns of a Spark DataFrame, for which no job runs."""
    from pyspark.sql.pandas.types import to_arrow_schema

    return to_arrow_schema(frame.schema).empty_table()


class _Counting:
    """The function of `tally_batches`, as an object that Spark can pickle."""

    def __init__(self, mechanism: Mechanism, columns: Columns) -> None:
        self._mechanism, self._columns = mechanism, columns

    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        """Yield the row of one partition. Raises SchemaError."""
        tables = _tables(batches, self._columns)
        found = merge_tallies(self._mechanism.tally(self._columns.data(table, self._mechanism)) for table in tables)
        name = _part(_partition())
        yield _row(name, replace(found, parts=frozenset({name})))


def _tables(batches: Iterable[Any], columns: Columns) -> Iterator[Any]:
    """The rows of a partition as tables of some 2^18 rows; all of them in one if units must be complete."""
    import pyarrow as pa

    held, rows, count = list[Any](), 0, 0
    for batch in batches:
        held.append(batch)
        rows += batch.num_rows
        if rows >= ROWS and columns.unit is None:
            yield pa.Table.from_batches(held)
            held, rows, count = [], 0, count + 1
    if held:
        yield pa.Table.from_batches(held)
    elif not count:
        yield pa.table({name: pa.nulls(0) for name in columns.names})


def _add_batches(batches: Iterable[Any]) -> Iterator[Any]:
    """The rows of some partitions as one row, on an executor."""
    if found := list(_tallies(batches)):
        yield _row("", merge_tallies(found))


def _tallies(batches: Iterable[Any]) -> Iterator[Tally]:
    for batch in batches:
        for content in batch.column("tally"):
            yield Tally.from_arrow(from_file(content.as_py()))


def _row(name: str, tally: Tally) -> Any:
    import pyarrow as pa

    return pa.record_batch({"part": pa.array([name]), "tally": pa.array([to_file(tally)], pa.binary())})


def _part(number: int) -> str:
    return f"partition {number}"


def _partition() -> int:
    """The number of the partition that this executor works on; 0 outside Spark."""
    pyspark: Any = sys.modules.get("pyspark")
    context = None if pyspark is None else pyspark.TaskContext.get()
    return 0 if context is None else int(context.partitionId())

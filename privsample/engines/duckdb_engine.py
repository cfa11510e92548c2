"""The DuckDB engine: the integers of records, and their sums by group, are computed in the database."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from glob import has_magic
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from privsample._data import unreadable
from privsample._optional import require
from privsample._value import frozen_value
from privsample.engines.arrow_engine import ArrowEngine, tally_stream
from privsample.engines.gathering import MISSING_KEY, MISSING_UNIT, UNLISTED, gathered
from privsample.engines.parts import parquet_parts
from privsample.engines.protocol import Columns, check_columns, check_types
from privsample.engines.sources import Stream, is_path, is_relation, open_stream, quoted
from privsample.engines.sql import FLOATS, chosen_sql, clipped_sql, index_sql, is_text, literal, number_sql
from privsample.mechanisms.base import Mechanism
from privsample.mechanisms.groups.grouped import GroupedMechanism
from privsample.mechanisms.tallies.tally import Tally

_KEYS, _SOURCE = "privsample_keys", "privsample_rows"
_WIDEST_DECIMAL = 128  # bits
# Parquet files give the smallest and the largest value without NaN: from these, DuckDB concludes that none is NaN.
_SETTINGS = {"preserve_insertion_order": "false", "disabled_optimizers": "statistics_propagation"}


@frozen_value
class DuckDBEngine:
    """Tallies by SQL: records are rounded to the grid and added up in DuckDB, which returns integers for each group.

    Mechanisms whose integers SQL cannot compute, such as sums of rows, read the rows out of DuckDB as Arrow. Files are
    read by a database in memory, which writes what does not fit there to a temporary folder.
    """

    def tally(self, source: Any, mechanism: Mechanism, columns: Columns) -> Tally:
        """The tally of all records of a source.

        Parameters
        ----------
        source : object
            A DuckDB relation; or what `ArrowEngine` takes. The own connection of a relation computes unless records
            are floating-point numbers or the contribution of a unit is bounded: these rows are streamed.
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
            If a column is missing, has a type that the mechanism does not read, or the query fails. Nothing is drawn.
        """
        for package in ("duckdb", "pyarrow"):
            require(package, "duckdb", "engine='duckdb'")
        rule = mechanism._record_rule
        if rule is None or not isinstance(columns.records, str):
            return ArrowEngine().tally(source, mechanism, columns)
        with _opened(source, columns) as rows:
            if isinstance(rows, Stream):
                return tally_stream(rows, mechanism, columns)
            check_types(rows.empty, columns, mechanism)
            query = _query(rows, mechanism, columns)
            if query is None:
                return ArrowEngine().tally(rows.relation, mechanism, columns)
            return gathered(_read(query), mechanism, rule)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rows:
    """The rows of a source: a relation, an empty Arrow table of its columns, and the connection if it is our own."""

    relation: Any
    empty: Any
    connection: Any = None

    def kind(self, name: str) -> str:
        """The type of a column in SQL."""
        return str(self.relation.types[self.relation.columns.index(name)])


@contextmanager
def _opened(source: Any, columns: Columns) -> Iterator[_Rows | Stream]:
    """The columns of a source as a DuckDB relation, or as a stream where DuckDB would read other data or no data.

    Raises SchemaError and TypeError.
    """
    import duckdb

    if is_relation(source) and _computes_itself(source, columns):
        names = ", ".join(map(quoted, columns.names))
        empty = _read(source.project(names).limit(0))
        yield _Rows(relation=source, empty=empty)
        return
    with TemporaryDirectory() as folder:
        settings: dict[str, Any] = {"temp_directory": folder, **_SETTINGS}
        with duckdb.connect(config=settings) as connection:
            yield _own_rows(source, columns, connection)


def _computes_itself(relation: Any, columns: Columns) -> bool:
    """Whether the connection of a relation can compute: it may conclude from the range in a file that none is NaN."""
    try:
        kinds = dict(zip(relation.columns, map(str, relation.types), strict=True))
    except Exception as error:  # noqa: BLE001 (its message may show data)
        raise unreadable("the relation", error) from None
    check_columns(relation.columns, columns)
    return columns.unit is None and kinds[str(columns.records)] not in FLOATS


def _own_rows(source: Any, columns: Columns, connection: Any) -> _Rows | Stream:
    """The rows of a source in a connection of its own; a stream if DuckDB cannot read them as they are."""
    import pyarrow as pa

    if is_path(source):
        found = parquet_parts(source, columns)
        # DuckDB reads names of files as patterns, and ignores the case of letters in names of columns.
        if found.ambiguous or any(map(has_magic, found.names)):
            return open_stream(source, columns)
        files = ", ".join(map(literal, found.names))
        names = ", ".join(map(quoted, columns.names))
        query = f"SELECT {names} FROM read_parquet([{files}], hive_partitioning = false)"
        try:
            relation = connection.sql(query)
        except Exception as error:  # noqa: BLE001 (its message may show data)
            raise unreadable("the files", error) from None
        return _Rows(relation=relation, empty=found.empty, connection=connection)
    if isinstance(source, pa.Table) and _is_readable(source.schema, columns):
        check_columns(source.column_names, columns)
        chosen = source.select(list(columns.names))
        return _Rows(relation=connection.from_arrow(chosen), empty=chosen.slice(0, 0), connection=connection)
    stream = open_stream(source, columns)
    if not _is_readable(stream.empty.schema, columns):
        return stream
    reader = pa.RecordBatchReader.from_batches(stream.empty.schema, stream.batches)
    return _Rows(relation=connection.from_arrow(reader), empty=stream.empty, connection=connection)


def _is_readable(schema: Any, columns: Columns) -> bool:
    """Whether DuckDB reads the Arrow types of the columns."""
    from pyarrow import types

    def readable(kind: Any) -> bool:
        if types.is_decimal(kind):
            return kind.bit_width <= _WIDEST_DECIMAL and kind.scale >= 0
        return not (types.is_float16(kind) or types.is_nested(kind))

    return all(readable(field.type) for field in schema if field.name in columns.names)


def _query(rows: _Rows, mechanism: Mechanism, columns: Columns) -> Any | None:
    """The relation of the sums and the counts of all groups; None if SQL cannot compute them."""
    rule, name = mechanism._record_rule, columns.records
    assert rule is not None
    assert isinstance(name, str)
    kind = rows.kind(name)
    index = index_sql(rule, quoted(name), kind)
    if index is None or len({column.lower() for column in columns.names}) < len(columns.names):
        return None
    if any(rows.kind(key) in FLOATS for key in (columns.unit, columns.group) if key is not None):
        return None
    if columns.unit is None:
        keys = [] if columns.group is None else [_key(rows, columns.group)]
        groups = [*keys, index] if rule.kind == "codes" else keys
        numbers = f"{index} AS q" if rule.kind == "codes" else f"coalesce(sum({index}), 0) AS s"
        return rows.relation.aggregate(
            ", ".join([*(f"{key} AS k" for key in keys), numbers, "count(*) AS n"]), ", ".join(groups)
        )
    return _bounded_query(rows, mechanism, columns, index)


def _key(rows: _Rows, name: str) -> str:
    """The key of a group or unit: whole numbers as they are, text as its bytes, without a collation."""
    return f"encode(CAST({quoted(name)} AS VARCHAR))" if is_text(rows.kind(name)) else quoted(name)


def _bounded_query(rows: _Rows, mechanism: Mechanism, columns: Columns, index: str) -> Any | None:
    """As `_query`, for a mechanism that bounds the contribution of a unit."""
    import pyarrow as pa

    assert isinstance(mechanism, GroupedMechanism)
    assert isinstance(columns.records, str)
    bounds, rule = mechanism.contribution, mechanism._record_rule
    assert bounds is not None
    assert rule is not None
    assert columns.unit is not None
    assert columns.group is not None
    number = number_sql(quoted(columns.records), rows.kind(columns.records))
    value = f"{index} - {rule.first} AS q" if bounds.clip is None else f"{number} AS x"
    of_text = isinstance(mechanism.keys[0], str)
    keys = [key.encode() for key in mechanism.keys] if of_text else list(mechanism.keys)  # type: ignore[union-attr]
    rows.connection.register(_KEYS, pa.table({"key": keys, "place": np.arange(len(keys))}))
    unit, group = _key(rows, columns.unit), _key(rows, columns.group)
    chosen = (
        f"SELECT CASE WHEN u IS NULL THEN {MISSING_UNIT} WHEN k IS NULL THEN {MISSING_KEY} WHEN place IS NULL THEN "
        f"{UNLISTED} ELSE 0 END AS bad, u, place AS p, {value[-1:]} FROM (SELECT {unit} AS u, {group} AS k, {value} "
        f"FROM {_SOURCE}) LEFT JOIN {_KEYS} ON k = key"
    )
    units_of_text = is_text(rows.kind(columns.unit))
    if bounds.clip is None:
        counted: str | None = chosen_sql(chosen, bounds, of_text=units_of_text)
    else:
        counted = clipped_sql(chosen, bounds, rule, of_text=units_of_text)
    if counted is None or number is None:
        return None
    counted_from = rule.first if bounds.clip is None else 0
    total = "q" if rule.kind == "codes" else f"sum(q + {counted_from}) AS s"
    grouped = "bad, p, q" if rule.kind == "codes" else "bad, p"
    return rows.relation.query(_SOURCE, f"SELECT bad, p, {total}, count(*) AS n FROM ({counted}) GROUP BY {grouped}")


def _read(query: Any) -> Any:
    """The result of a query as an Arrow table. Raises SchemaError if the query fails."""
    try:
        return query.to_arrow_table()  # a reader would not compute on all cores
    except Exception as error:  # noqa: BLE001 (its message may show data)
        raise unreadable("the query", error) from None

"""The tally of data in files, tables or databases, by the engine of one's choice."""

from importlib import import_module
from typing import Any, Literal

from privsample._checks import one_of
from privsample.engines.protocol import Columns, Engine
from privsample.mechanisms.base import Mechanism
from privsample.mechanisms.tallies.tally import Tally

EngineName = Literal["arrow", "duckdb", "polars", "dask", "spark"]
_CLASSES = {
    "arrow": "ArrowEngine",
    "duckdb": "DuckDBEngine",
    "polars": "PolarsEngine",
    "dask": "DaskEngine",
    "spark": "SparkEngine",
}


def tally_source(
    source: Any,
    mechanism: Mechanism,
    *,
    columns: Any,
    by: str | None = None,
    unit: str | None = None,
    engine: EngineName = "arrow",
) -> Tally:
    """The tally of columns of a source, computed where the data are; `mechanism.release(tally)` draws from it.

    All engines return equal tallies, whatever the order of the rows and their division into files and parts.

    Parameters
    ----------
    source : object
        A path, a folder or a glob of Parquet files, or a list of these; a pyarrow Table, RecordBatchReader or Dataset;
        a DuckDB relation; a Polars DataFrame or LazyFrame; a dask or Spark DataFrame with their engines; or any object
        with `__arrow_c_stream__`.
    mechanism : Mechanism
        A mechanism that has tallies, such as `GaussianSum`, or `ps.by(...)` of one.
    columns : str or tuple of str
        The column of the records; for rows of several numbers, their columns in order, and the label last.
    by : str, optional
        The column of the group's key. None, the default, is the name of the grouped mechanism.
    unit : str, optional
        The column of the unit, for a mechanism that bounds its contribution.
    engine : {"arrow", "duckdb", "polars", "dask", "spark"}, default "arrow"
        What computes: this process, DuckDB, Polars, the active dask scheduler, or Spark.

    Returns
    -------
    Tally
        The tally. It is private: it holds the exact statistic.

    Raises
    ------
    SchemaError
        If a column is missing, its type differs between files or is not what the mechanism reads, a key is missing or
        not in the public list, or the source cannot be read to its end. Nothing is drawn, and no message shows data.
    TypeError
        If the source is none of these, or the mechanism has no tallies.
    ImportError
        If the package of the engine is not installed.

    Examples
    --------
    >>> import privsample as ps, pyarrow as pa
    >>> table = pa.table({"hospital": ["north", "south", "north"], "stay": [3.5, 9.0, 12.0]})
    >>> mechanism = ps.by("hospital", ps.GaussianSum(bounds=(0, 10), noise_std=40), keys=["north", "south", "west"])
    >>> tally = ps.tally_source(table, mechanism, columns="stay", engine="duckdb")
    >>> tally.counts.tolist(), tally == mechanism.tally((table["hospital"], table["stay"]))
    ([2, 1], True)
    >>> mechanism.release(tally)["sum"].shape
    (1, 3)
    """
    if not isinstance(mechanism, Mechanism):
        raise TypeError(f"mechanism must be a mechanism with tallies, got {type(mechanism).__name__}")
    if not one_of(engine, _CLASSES):
        raise ValueError(f"engine must be one of {', '.join(map(repr, _CLASSES))}, got {engine!r}")
    chosen = Columns.of(mechanism, columns, by=by, unit=unit)
    found: Engine = getattr(import_module(f"privsample.engines.{engine}_engine"), _CLASSES[engine])()
    return found.tally(source, mechanism, chosen)

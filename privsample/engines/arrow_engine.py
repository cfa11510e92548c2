"""The Arrow engine: streams record batches of a source through a mechanism, in one process."""

from collections.abc import Iterator
from typing import Any

from privsample._optional import require
from privsample._value import frozen_value
from privsample.engines.protocol import Columns
from privsample.engines.sources import Stream, open_stream
from privsample.engines.units import whole_units
from privsample.mechanisms.base import Mechanism
from privsample.mechanisms.tallies.merge import merge_tallies
from privsample.mechanisms.tallies.tally import Tally

_ROWS = 1 << 18  # records that are counted at a time, unless there are more groups


@frozen_value
class ArrowEngine:
    """Tallies of Parquet files and of every source that speaks Arrow, read as a stream in this process.

    Memory does not grow with the number of rows. If the mechanism bounds the contribution of a unit, sources of many
    rows are first divided by a public hash of the unit into temporary files, which are deleted at the end.
    """

    def tally(self, source: Any, mechanism: Mechanism, columns: Columns) -> Tally:
        """The tally of all records of a source.

        Parameters
        ----------
        source : object
            A path, a folder or a glob of Parquet files or a list of these; a pyarrow Table, RecordBatchReader or
            Dataset; a DuckDB relation; a Polars DataFrame or LazyFrame; or whatever has `__arrow_c_stream__`.
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
            If a column is missing, has a type that the mechanism does not read, or the source cannot be read to its
            end. Nothing is drawn.
        """
        require("pyarrow", "files", "engine='arrow'")
        return tally_stream(open_stream(source, columns), mechanism, columns)


def tally_stream(stream: Stream, mechanism: Mechanism, columns: Columns) -> Tally:
    """The tally of the rows of a stream. Raises SchemaError."""
    return merge_tallies(
        mechanism.tally(columns.data(table, mechanism)) for table in _parts(stream, mechanism, columns)
    )


def _parts(stream: Stream, mechanism: Mechanism, columns: Columns) -> Iterator[Any]:
    """Tables that hold all rows, and complete units if the mechanism bounds their contribution."""
    if columns.unit is not None:
        return whole_units(stream, columns.unit)
    return stream.tables(max(_ROWS, 4 * len(getattr(mechanism, "keys", ()))))

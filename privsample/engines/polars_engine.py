"""The Polars engine: the integers of records, and their sums by group, as lazy expressions that Polars streams."""

from decimal import Decimal
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privsample._data import unreadable
from privsample._optional import require
from privsample._value import frozen_value
from privsample.engines.arrow_engine import ArrowEngine
from privsample.engines.gathering import gathered, whole_numbers
from privsample.engines.parts import parquet_parts
from privsample.engines.protocol import Columns, check_columns, check_types
from privsample.engines.sources import is_path, names_of, select
from privsample.errors import SchemaError
from privsample.mechanisms.base import Mechanism
from privsample.mechanisms.tallies.rule import RecordRule
from privsample.mechanisms.tallies.tally import Tally

_SHIFT = 1.5 * 2.0**52
_MOST = 2**51  # absolute values of integers that the shift rounds
_ORDINARY = 950  # exponents of powers of two that are normal doubles, also times 2^53
_LIMB = 2**26  # sums of 2^36 numbers below it fit in 64 bits
_LARGEST = 2**62
_KEY, _UPPER, _LOWER, _CODE, _COUNT = "k", "upper", "lower", "q", "n"


@frozen_value
class PolarsEngine:
    """Tallies by lazy expressions of Polars, computed by its streaming engine.

    Bounds on the contribution of a unit, and mechanisms whose integers are no such expression, read the rows as Arrow.
    """

    def tally(self, source: Any, mechanism: Mechanism, columns: Columns) -> Tally:
        """The tally of all records of a source.

        Parameters
        ----------
        source : object
            A Polars DataFrame or LazyFrame, or paths of Parquet files, as `ArrowEngine` takes them; other sources are
            streamed by that engine.
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
        for package in ("polars", "pyarrow"):
            require(package, "polars", "engine='polars'")
        import polars as pl

        rule = mechanism._record_rule
        is_frame = isinstance(source, (pl.DataFrame, pl.LazyFrame))
        if rule is None or columns.unit is not None or not _is_simple(rule) or not (is_frame or is_path(source)):
            return ArrowEngine().tally(source, mechanism, columns)
        try:
            frame = _frame(source, columns)
            empty = frame.head(0).collect()
            check_types(empty.to_arrow(), columns, mechanism)
            if not isinstance(columns.records, str) or not _is_plain(empty.schema[columns.records]):
                return ArrowEngine().tally(source, mechanism, columns)
            found = _summed(frame, columns, rule).collect(engine="streaming")
        except (SchemaError, TypeError, MemoryError):  # of our own checks
            raise
        except (Exception, pl.exceptions.PanicException) as error:  # noqa: BLE001 (its message may show data)
            raise unreadable("the query", error) from None
        return gathered(_with_sums(found, rule), mechanism, rule)


def _frame(source: Any, columns: Columns) -> Any:
    """The columns of a source as a lazy frame. Raises SchemaError."""
    import polars as pl
    from polars import selectors

    if is_path(source):
        files = parquet_parts(source, columns).names
        texts = selectors.categorical().cast(pl.String)  # dictionaries, which differ between files
        each = (pl.scan_parquet(file, hive_partitioning=False, glob=False) for file in files)
        return pl.concat([select(frame, columns.names).with_columns(texts) for frame in each])
    check_columns(names_of(source) or [], columns)
    return select(source.lazy(), columns.names)


def _is_simple(rule: RecordRule) -> bool:
    """Whether a shift rounds to the integers of a rule."""
    return max(abs(rule.first), abs(rule.last)) <= _MOST and 2.0**-_ORDINARY < rule.pitch < 2.0**_ORDINARY


def _is_plain(kind: Any) -> bool:
    """Whether a column holds booleans, integers or floating-point numbers."""
    import polars as pl

    return bool(kind == pl.Boolean or kind.is_integer() or kind.is_float())


def _summed(frame: Any, columns: Columns, rule: RecordRule) -> Any:
    """The lazy frame of sums and counts, by group and code."""
    import polars as pl

    domain, low, high = rule.domain, rule.first * rule.pitch, rule.last * rule.pitch
    number = pl.nth(list(columns.names).index(str(columns.records))).cast(pl.Float64)
    if domain.outside_is_missing:
        inside = number.is_between(domain.low, domain.high)  # False for NaN, and null for null
        cleaned = pl.when(inside).then(number).otherwise(domain.missing)
    else:
        cleaned = number.fill_nan(None).fill_null(domain.missing)
    index = ((cleaned.clip(low, high) * (1 / rule.pitch) + _SHIFT) - _SHIFT).cast(pl.Int64)
    offset = index - rule.first
    sums = [] if rule.kind == "codes" else [(offset // _LIMB).sum().alias(_UPPER), (offset % _LIMB).sum().alias(_LOWER)]
    keys = [index.alias(_CODE)] if rule.kind == "codes" else []
    if columns.group is not None:
        key = pl.nth(list(columns.names).index(columns.group))
        of_numbers = frame.collect_schema()[columns.group].is_numeric()
        keys.append((key if of_numbers else key.cast(pl.String)).alias(_KEY))
    counted = [*sums, pl.len().alias(_COUNT)]
    return frame.group_by(keys).agg(counted) if keys else frame.select(counted)


def _with_sums(found: Any, rule: RecordRule) -> Any:
    """The result as an Arrow table, with the sums of the integers in place of those of their parts."""
    import pyarrow as pa

    table = found.to_arrow()
    if rule.kind == "codes":
        return table
    upper, lower, counts = (whole_numbers(table.column(name)) for name in (_UPPER, _LOWER, _COUNT))
    largest = max(abs(rule.first), abs(rule.last), rule.last - rule.first)
    small = int(counts.max(initial=0)) * largest < _LARGEST
    kind: Any = np.int64 if small else object
    sums: NDArray[Any] = upper.astype(kind) * _LIMB + lower.astype(kind) + counts.astype(kind) * rule.first
    return table.append_column("s", pa.array(sums) if small else pa.array(map(Decimal, sums), pa.decimal128(38)))

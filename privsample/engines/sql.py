"""How one record becomes integers, and which records of a unit count, as expressions of DuckDB's SQL.

Each expression computes what `RecordRule` and `Contribution` define, bit for bit: products with powers of two are
exact, DuckDB rounds doubles to integers half to even, and all further arithmetic is that of integers.
"""

import math
from fractions import Fraction

from privsample.distributions.exact.grid import Grid
from privsample.mechanisms.groups.contribution import Contribution
from privsample.mechanisms.tallies.rule import RecordRule

_ORDINARY = 950  # exponents of powers of two that are normal doubles, also times 2^53
_FARTHEST_SUM = 2**62 - 2**10  # a double below 2^62: larger indices lie beyond all bounds of sums of units
_WORD = 2**64 - 1
FLOATS = ("DOUBLE", "FLOAT")
_NUMBERS = (
    *FLOATS,
    *("BOOLEAN", "TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT"),
)


def index_sql(rule: RecordRule, column: str, kind: str) -> str | None:
    """The integer of a record of a column of this type of DuckDB; None if SQL cannot compute it."""
    if not _is_exact(rule):
        return None
    if is_text(kind):
        return _code_sql(rule, column)
    number = number_sql(column, kind)
    return None if number is None else _rounded(rule, number, may_be_nan=kind in FLOATS)


def is_text(kind: str) -> bool:
    """Whether a column of this type of DuckDB holds text."""
    return kind == "VARCHAR" or kind.startswith("ENUM(")


def number_sql(column: str, kind: str) -> str | None:
    """A record as a double, or NULL, as Python reads it; None for other types."""
    decimal = kind.startswith("DECIMAL(")
    return f"CAST({column} AS DOUBLE)" if kind in _NUMBERS or decimal else None


def chosen_sql(rows: str, bounds: Contribution, *, of_text: bool) -> str:
    """The rows that count, of rows (bad, u, p, q): the unit, the place of the group, and the integer of the record.

    Of a unit, the groups with most rows count, ties by their hash, and in each those with the smallest hash. Rows with
    bad > 0, whose unit or key is missing or not listed, are kept. `of_text`: whether u is the bytes of a text.
    """
    numbered = (
        "SELECT bad, u, p, q, count(*) OVER (PARTITION BY bad, u, p) AS size, "
        f"row_number() OVER (PARTITION BY bad, u, p, q) - 1 AS i FROM ({rows})"
    )
    hashed = f"SELECT bad, u, p, q, size, cell, {_record_hash_sql('hash')} FROM ({_with_cells(numbered, of_text)})"
    return (
        f"SELECT bad, p, q FROM (SELECT bad, p, q, dense_rank() OVER (PARTITION BY u ORDER BY bad, size DESC, cell, p) "
        f"AS g, row_number() OVER (PARTITION BY bad, u, p ORDER BY hash, q) AS r FROM ({hashed})) "
        f"WHERE bad > 0 OR (g <= {bounds.groups} AND r <= {bounds.records_per_group})"
    )


def clipped_sql(rows: str, bounds: Contribution, rule: RecordRule, *, of_text: bool) -> str | None:
    """As `chosen_sql`, for rows (bad, u, p, x) with a double x: one row for each unit and group, of its clipped sum."""
    grid, (first, last) = bounds._grid, bounds._ends
    if not _is_exact(rule) or abs(grid.exponent) >= _ORDINARY:
        return None
    far = _double(float(_FARTHEST_SUM))
    present = "x IS NOT NULL AND NOT isnan(x)"
    step = f"CAST(least(greatest(x * {_double(2.0**-grid.exponent)}, -{far}), {far}) AS BIGINT)"
    total = (
        f"CASE WHEN bool_or({present}) THEN least(greatest(sum({step}) FILTER (WHERE {present}), {first}), {last}) END"
    )
    value = _rounded(rule, f"(CAST(total AS DOUBLE) * {_double(grid.pitch)})", may_be_nan=False)
    cells = f"SELECT bad, u, p, count(*) AS size, {total} AS total FROM ({rows}) GROUP BY bad, u, p"
    return (
        f"SELECT bad, p, {value} AS q FROM (SELECT *, row_number() OVER (PARTITION BY u ORDER BY bad, size DESC, "
        f"cell, p) AS g FROM ({_with_cells(cells, of_text)})) WHERE bad > 0 OR g <= {bounds.groups}"
    )


def _rounded(rule: RecordRule, number: str, *, may_be_nan: bool) -> str:
    """The integer of a number after the rule of the domain: NULL and NaN are missing."""
    domain, pitch = rule.domain, rule.pitch
    low, high = rule.first * pitch, rule.last * pitch  # rounding is monotone: clipping first is the same
    missing = min(max(domain.missing, low), high)
    inside = f"WHEN {number} BETWEEN {_double(low)} AND {_double(high)} THEN {number}"
    above = f"WHEN {number} > {_double(high)}{f' AND NOT isnan({number})' if may_be_nan else ''} THEN {_double(high)}"
    below = f"WHEN {number} < {_double(low)} THEN {_double(low)}" if missing != low else ""
    if domain.outside_is_missing:
        outside = f"NOT BETWEEN {_double(domain.low)} AND {_double(domain.high)}"
        inside = f"WHEN {number} {outside} THEN {_double(missing)} {inside}"
    chosen = f"CASE {inside} {above} {below} ELSE {_double(missing)} END"  # NaN is larger than every number
    return f"CAST({chosen} * {_double(1 / pitch)} AS BIGINT)"


def _code_sql(rule: RecordRule, column: str) -> str | None:
    """The code of a text: its place among the names. None if blank text and text that is no name differ."""
    others = {rule.domain.missing if rule.domain.outside_is_missing else rule.domain.low, rule.domain.missing}
    if not rule.names or len(others) > 1:
        return None
    text = f"encode(CAST({column} AS VARCHAR))"  # without the collation of the column
    places = " ".join(f"WHEN {_bytes(name)} THEN {place}" for place, name in enumerate(rule.names))
    return f"CAST(CASE {text} {places} ELSE {int(others.pop())} END AS BIGINT)"


def _is_exact(rule: RecordRule) -> bool:
    """Whether the ends of a rule are doubles, and their indices are of 62 bits."""
    pitch = Fraction(rule.pitch)
    ends = (rule.first, rule.last)
    return (
        max(map(abs, ends)) < 2**62
        and abs(Grid(pitch=rule.pitch).exponent) < _ORDINARY
        and all(Fraction(end * rule.pitch) == end * pitch for end in ends)
    )


def _with_cells(rows: str, of_text: bool) -> str:
    """Rows with `cell`, the hash of the unit u and of the place p of the group: as in `Contribution`."""
    seed = "CAST(md5_number_lower(u) AS UHUGEINT)" if of_text else _bits_sql("u")
    steps = [*_mix_sql("seed", seed), *_mix_sql("place", _bits_sql("p")), *_mix_sql("cell", "xor(seed, place)")]
    return f"SELECT *, {', '.join(steps)} FROM ({rows})"


def _record_hash_sql(name: str) -> str:
    """The hash of a record: of its cell, its integer q >= 0, and its number i among equal ones."""
    steps = [*_mix_sql("value", f"xor(cell, {_bits_sql('q')})"), *_mix_sql(name, f"xor(value, {_bits_sql('i')})")]
    return ", ".join(steps)


def _mix_sql(name: str, bits: str) -> tuple[str, ...]:
    """Columns of which the last, `name`, holds mixed bits (splitmix64), each computed from those before it."""
    return (
        f"({bits} + {_whole(0x9E3779B97F4A7C15)}) & {_whole(_WORD)} AS {name}_1",
        f"(xor({name}_1, {name}_1 >> {_whole(30)}) * {_whole(0xBF58476D1CE4E5B9)}) & {_whole(_WORD)} AS {name}_2",
        f"(xor({name}_2, {name}_2 >> {_whole(27)}) * {_whole(0x94D049BB133111EB)}) & {_whole(_WORD)} AS {name}_3",
        f"xor({name}_3, {name}_3 >> {_whole(31)}) AS {name}",
    )


def _bits_sql(column: str) -> str:
    """A whole number of at most 64 bits as its bits, in two's complement."""
    return f"CAST(CAST({column} AS HUGEINT) & {_WORD}::HUGEINT AS UHUGEINT)"


def literal(text: str) -> str:
    """A text as a literal of SQL."""
    return "'" + text.replace("'", "''") + "'"


def _bytes(text: str) -> str:
    """The bytes of a text as a literal of SQL."""
    return "'" + "".join(f"\\x{byte:02X}" for byte in text.encode()) + "'::BLOB"


def _double(number: float) -> str:
    assert math.isfinite(number)
    return f"'{number!r}'::DOUBLE"


def _whole(number: int) -> str:
    return f"{number}::UHUGEINT"

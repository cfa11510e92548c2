"""Parts of Parquet files: runs of row groups, each small enough for one task, with names that do not change."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from glob import glob, has_magic
from os import PathLike, fspath
from pathlib import Path
from typing import Any

from privsample._data import unreadable, value_type
from privsample.engines.protocol import Columns, check_columns, check_same_types
from privsample.errors import SchemaError

_ROWS = 1 << 21  # of a part, unless one row group has more


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """Consecutive row groups of one file, from `first` to before `last`."""

    file: str
    first: int
    last: int

    @property
    def name(self) -> str:
        """The name of the part, under which it counts once."""
        return f"{self.file}, row groups {self.first} to {self.last - 1}"

    def read(self, names: Iterable[str]) -> Any:
        """The columns of these names as an Arrow table, dictionaries decoded."""
        import pyarrow.parquet as pq

        with pq.ParquetFile(self.file) as file:
            return _decoded(file.read_row_groups(list(range(self.first, self.last)), columns=list(names)))


@dataclass(frozen=True, slots=True, kw_only=True)
class ParquetFiles:
    """The parts of Parquet files, an empty Arrow table of the columns, and whether their names are unambiguous.

    `ambiguous` is True if a file has another column whose name equals that of a chosen one but for the case of letters.
    """

    parts: list[Part]
    empty: Any
    ambiguous: bool

    @property
    def names(self) -> list[str]:
        """The absolute names of the files."""
        return list(dict.fromkeys(part.file for part in self.parts))


def parquet_parts(source: Any, columns: Columns) -> ParquetFiles:
    """The parts of the files of a path, a folder, a glob or a list of these.

    Raises SchemaError, if there is no file, one cannot be read, or the columns are missing or differ in type.
    """
    import pyarrow.parquet as pq

    parts, tables, ambiguous = list[Part](), dict[str, Any](), False
    chosen = set(map(str.casefold, columns.names))
    for path in parquet_files(source):
        try:
            with pq.ParquetFile(path) as file:
                schema, counts = file.schema_arrow, file.metadata
                rows = [counts.row_group(place).num_rows for place in range(counts.num_row_groups)]
        except (OSError, ValueError) as error:  # ValueError: it is no Parquet file
            raise unreadable(f"file {path}", error) from None
        check_columns(schema.names, columns, f"file {path}")
        ambiguous |= sum(name.casefold() in chosen for name in schema.names) > len(columns.names)
        tables[path] = _decoded(schema.empty_table().select(list(columns.names)))
        parts += [Part(file=path, first=first, last=last) for first, last in _runs(rows)]
    kinds = {path: {field.name: str(field.type) for field in table.schema} for path, table in tables.items()}
    check_same_types(kinds, columns)
    return ParquetFiles(parts=parts, empty=next(iter(tables.values())), ambiguous=ambiguous)


def parquet_files(source: Any) -> list[str]:
    """The absolute names of all files, sorted, each once. Raises SchemaError if there are none."""
    found = set[str]()
    given = [source] if isinstance(source, (str, PathLike)) else list(source)
    if not given:
        raise SchemaError("source must name at least one Parquet file, got an empty list")
    for item in given:
        if not isinstance(item, (str, PathLike)):
            raise TypeError(f"a path must be a text or a path, got {type(item).__name__}")
        if not fspath(item):
            raise SchemaError("source must be a path, a folder or a glob, got an empty text")
        path = Path(fspath(item)).absolute()
        if path.is_dir():
            new = [file for file in path.rglob("*.parquet") if file.is_file()]
        elif path.exists() or not has_magic(str(path)):
            new = [path] if path.exists() else []
        else:
            new = [Path(name) for name in glob(str(path), recursive=True)]  # noqa: PTH207 (the pattern is absolute)
        if not new:
            raise SchemaError(f"there is no Parquet file at {item}")
        found |= {str(file) for file in new}
    return sorted(found)


def _runs(rows: list[int]) -> Iterator[tuple[int, int]]:
    """Runs of row groups of at most `_ROWS` rows together, or of one row group; at least one run."""
    first = total = 0
    for place, count in enumerate(rows):
        if place > first and total + count > _ROWS:
            yield first, place
            first, total = place, 0
        total += count
    yield first, len(rows)


def _decoded(table: Any) -> Any:
    """The table with the values of its columns in place of dictionaries, which differ between files."""
    import pyarrow as pa

    return table.cast(pa.schema([field.with_type(value_type(field.type)) for field in table.schema]))

"""Readers of file formats. Each yields the Arrow type of a column first, then its records in arrays."""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from privsample.cli.errors import DataProblem, UsageProblem, nearest
from privsample.cli.textfile import (
    MOST_BYTES,
    TextForm,
    broken_line,
    check_encoding,
    count_lines,
    header_names,
    list_names,
    long_line,
    other_separator,
    ragged_line,
)

TEXT, PARQUET, ARROW = (".csv", ".tsv", ".txt"), (".parquet", ".pq"), (".feather", ".arrow", ".ipc")
_PACKED = (".gz", ".bz2", ".zst")
_ROWS, _BYTES = 1 << 16, MOST_BYTES


def file_format(path: Path) -> str:
    """Return the file name extension of the format; text may be compressed. Raises: UsageProblem, if it is unknown."""
    last, inner = path.suffix.lower(), Path(path.stem).suffix.lower()
    found = inner if last in _PACKED and inner in TEXT else last
    if found not in TEXT + PARQUET + ARROW:
        known = ", ".join(TEXT + PARQUET + ARROW)
        raise UsageProblem(f"the name {path.name} must end in one of {known} (text also in {', '.join(_PACKED)})")
    return found


def read(path: Path, column: str, form: TextForm) -> Iterator[Any]:
    """Yield the Arrow type of the column, then its records. Raises: UsageProblem, DataProblem, errors of pyarrow."""
    kind = file_format(path)
    if kind in TEXT:
        return _csv(path, column, form)
    return (_parquet if kind in PARQUET else _arrow)(path, column)


def read_error(path: Path, error: Exception, form: TextForm) -> DataProblem:
    """Return an error without records for a file that pyarrow cannot read; messages of pyarrow can contain records."""
    if file_format(path) not in TEXT:
        return DataProblem(f"{path.name} cannot be read: it is damaged, incomplete, or in another format")
    if fields := re.search(r"Expected (\d+) columns, got (\d+)", str(error)):
        place, count = ragged_line(path, form) or (None, int(fields[2]))
        line = path.name if place is None else f"line {place} of {path.name}"
        names = header_names(path, form)
        listed = "" if names is None else f" ({list_names(names)})"
        fix = other_separator(path, form) or "correct the file, or quote fields that contain a separator"
        held = f"{count} field" if count == 1 else f"{count} fields"
        return DataProblem(f"{line} has a row of {held} where the header has {fields[1]}{listed}; {fix}")
    if "straddling" in str(error):
        return unclosed_quote_problem(path, form) or DataProblem(
            f"{path.name} has a row of more than 1 MB; correct the file"
        )
    if isinstance(error, UnicodeError):
        used = form.encoding or "UTF-8"
        return DataProblem(
            f"{path.name} is not text in the encoding {used}; give the encoding with --encoding, e.g. latin-1"
        )
    return DataProblem(f"{path.name} cannot be read as UTF-8 text with a header: it is damaged, incomplete or not CSV")


def unclosed_quote_problem(path: Path, form: TextForm) -> DataProblem | None:
    """Return an error for a row of more than 1 MB or an unclosed quotation mark, or None if there is neither."""
    place = long_line(path, form)
    if place is None:
        return None
    return DataProblem(
        f"line {place} of {path.name} starts a row of more than 1 MB, or a quotation mark that is never closed; "
        "correct the file"
    )


def _csv(path: Path, column: str, form: TextForm) -> Iterator[Any]:
    import pyarrow as pa
    from pyarrow import csv

    check_encoding(path, form)
    block = csv.ReadOptions(block_size=_BYTES, encoding=form.encoding or "utf8")
    rows = csv.ParseOptions(delimiter=form.between(path), newlines_in_values=True)
    with csv.open_csv(str(path), read_options=block, parse_options=rows) as reader:
        names = reader.schema.names
    _column_index(names, column, path, form)
    # In a file with a single column, an empty line is a record with a missing value.
    rows = csv.ParseOptions(delimiter=form.between(path), newlines_in_values=True, ignore_empty_lines=len(names) > 1)
    # Read bytes, not numbers, so that no record can raise an error; values.py converts them.
    convert = csv.ConvertOptions(include_columns=[column], column_types={column: pa.binary()})
    count = 1  # the header
    with csv.open_csv(str(path), read_options=block, parse_options=rows, convert_options=convert) as reader:
        yield pa.binary()
        for batch in reader:
            count += batch.num_rows
            yield batch.column(0)
    if not form.multiline and count != count_lines(path, form, empty=len(names) == 1):
        raise _several_lines_problem(path, form)


def _several_lines_problem(path: Path, form: TextForm) -> DataProblem:
    """Return the error for a file in which a field goes on in the next line."""
    line = broken_line(path, form)
    where = path.name if line is None else f"line {line} of {path.name}"
    return DataProblem(
        f"{where} has a field that does not end on its line, and would hold the records of the next: a quotation mark "
        "is stray or missing. Correct the file; if fields are meant to hold line breaks, give --multiline"
    )


def _parquet(path: Path, column: str) -> Iterator[Any]:
    from pyarrow import parquet

    with parquet.ParquetFile(str(path), pre_buffer=False, buffer_size=_BYTES) as file:
        schema = file.schema_arrow
        yield _plain_type(schema.field(_column_index(schema.names, column, path, None)).type)
        for batch in file.iter_batches(batch_size=_ROWS, columns=[column]):
            if batch.schema.names != [column]:  # 'a.b' also selects the field b of a nested column a
                raise UsageProblem(f"{path.name} has several columns that match {column!r}; rename one")
            yield _plain(batch.column(0))


def _arrow(path: Path, column: str) -> Iterator[Any]:
    from pyarrow import OSFile, ipc

    with OSFile(str(path)) as source:
        place = _column_index(ipc.open_file(source).schema.names, column, path, None)
        file = ipc.open_file(source, options=ipc.IpcReadOptions(included_fields=[place], use_threads=False))
        yield _plain_type(file.schema.field(0).type)
        for i in range(file.num_record_batches):
            yield _plain(file.get_batch(i).column(0))


def _column_index(names: Sequence[str], column: str, path: Path, form: TextForm | None) -> int:
    """Return the index of the column; `form` is the form of a text file. Raises: UsageProblem, unless it is unique."""
    if names.count(column) == 1:
        return names.index(column)
    if column in names:
        raise UsageProblem(f"{path.name} has {names.count(column)} columns named {column!r}; rename all but one")
    shown: Sequence[str] | None = names
    if form is not None:  # the first line may be a record; the message must not contain it
        count = "one column" if len(names) == 1 else f"{len(names)} columns"
        start = f"the first line of {path.name} names {count}, none of them {column!r}"
        if hint := other_separator(path, form):
            raise UsageProblem(f"{start}; {hint}")
        shown = header_names(path, form)
    else:
        start = f"{path.name} has no column {column!r}"
    if shown is None:
        raise UsageProblem(f"{start}; check --column, --separator, and that the file has a header")
    raise UsageProblem(f"{start}; it has: {list_names(shown)}{nearest([column], shown)}")


def _plain(array: Any) -> Any:
    from pyarrow import types

    return array.dictionary_decode() if types.is_dictionary(array.type) else array


def _plain_type(kind: Any) -> Any:
    from pyarrow import types

    return kind.value_type if types.is_dictionary(kind) else kind

"""Diagnosis of text files: encoding, header, separators and lines.

Messages for the curator contain line numbers and the names of the header, and never a field of a record.
"""

import codecs
import csv
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from io import StringIO, TextIOWrapper
from pathlib import Path
from typing import IO

from privsample.cli.errors import DataProblem

MOST_BYTES = 1 << 20  # of one row
_HEAD = 1 << 16  # bytes at the beginning of a file that are examined
_RECORDS = 2  # a first line counts as a header only above a column of at least this many numbers
_MOST_NAMES = 20
_OTHERS = {";": "';'", "\t": "tab", "|": "'|'", ",": "','"}
_VALUE = re.compile(r"(?i)\s*([+-]?(\d[\d.,]*|[.,]\d+)(e[+-]?\d+)?|nan|inf|infinity|true|false)?\s*")


@dataclass(frozen=True, slots=True, kw_only=True)
class TextForm:
    """Form of a text file: field separator (None: by the file name) and encoding (None: UTF-8).

    Without `multiline` each record is one line, so that no field can hold other records.
    """

    separator: str | None = None
    encoding: str | None = None
    multiline: bool = False

    def between(self, path: Path) -> str:
        """Return the field separator."""
        return self.separator or ("\t" if ".tsv" in path.suffixes[-2:] else ",")

    @property
    def codec(self) -> str:
        """Name of the Python codec; "utf-8-sig" removes a byte order mark from the first name."""
        return "utf-8-sig" if self.encoding is None or codecs.lookup(self.encoding).name == "utf-8" else self.encoding


def check_encoding(path: Path, form: TextForm) -> None:
    """Check that the beginning of the file is text in this encoding. Raises: DataProblem."""
    start = _beginning(path)
    if form.encoding is None:
        if start[:2] in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):
            raise DataProblem(f"{path.name} is UTF-16 text, expected UTF-8; give --encoding utf-16")
        if b"\0" in start:
            raise DataProblem(f"{path.name} has zero bytes, so it is not UTF-8 text; {_zero_bytes_hint(start)}")
    elif codecs.lookup(form.encoding).name.startswith("utf-16") and _is_single_byte(start):
        raise DataProblem(f"{path.name} is not UTF-16 text: leave --encoding out")


def _zero_bytes_hint(start: bytes) -> str:
    """Return advice about zero bytes; in UTF-16 text of ASCII characters every other byte is zero."""
    even, odd = start[0::2].count(0), start[1::2].count(0)
    if 3 * max(even, odd) < len(start) // 2:
        return "it is damaged or in another format"
    return f"if it is UTF-16, give --encoding utf-16-{'be' if even > odd else 'le'}"


def _is_single_byte(start: bytes) -> bool:
    """Return True if the beginning is text of one byte per character."""
    return b"\0" not in start and start[:2] not in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE) and b"\n" in start


def _beginning(path: Path) -> bytes:
    import pyarrow as pa

    with pa.input_stream(str(path), compression="detect") as stream:
        return bytes(stream.read(_HEAD))


def header_names(path: Path, form: TextForm) -> list[str] | None:
    """Return the names in the first line, or None if the first line may be a record.

    The first line counts as a header if at least one of its names is above a column of two or more numbers.
    """
    start = _beginning(path).decode(form.codec, errors="replace")
    whole = start if len(start.encode()) < _HEAD // 2 else start[: start.rfind("\n") + 1]
    try:
        rows = [row for row in csv.reader(StringIO(whole, newline=""), delimiter=form.between(path)) if row]
    except csv.Error:
        return None
    if not rows or len(set(rows[0])) < len(rows[0]) or any(map(_VALUE.fullmatch, rows[0])):
        return None
    records = [row for row in rows[1:] if len(row) == len(rows[0])]
    columns = zip(*records, strict=True)
    named = len(records) >= _RECORDS and any(all(map(_VALUE.fullmatch, column)) and any(column) for column in columns)
    return rows[0] if named and all(name.isprintable() for name in rows[0]) else None


def list_names(names: Sequence[str]) -> str:
    """Join the first column names to a phrase."""
    shown = ", ".join(repr(name) for name in names[:_MOST_NAMES])
    return shown + (f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else "")


def other_separator(path: Path, form: TextForm) -> str:
    """Return advice if the first line has no separator but another common separator; empty otherwise."""
    first = _beginning(path).decode(form.codec, errors="replace").partition("\n")[0]
    own = form.between(path)
    if own in first:
        return ""
    found = [sign for sign in _OTHERS if sign in first]
    if not found:
        return ""
    sign = _OTHERS[max(found, key=first.count)]
    return f"it has no {own!r}, but {sign}: give --separator {sign}"


def line_numbers(path: Path, form: TextForm, places: Sequence[int]) -> list[int]:
    """Return the lines on which records start, given their positions from 0; empty if the file cannot be parsed."""
    wanted, found = set(places), []
    last = max(wanted, default=-1)
    try:
        with _opened(path, form) as file:
            for place, (line, _) in enumerate(_records(file, form.between(path))):
                if place > last:
                    break
                if place in wanted:
                    found.append(line)
    except (csv.Error, UnicodeError, OSError):
        return []
    return found


def ragged_line(path: Path, form: TextForm) -> tuple[int, int] | None:
    """Return the first line whose number of fields differs from the header, and this number; None if there is none."""
    separator = form.between(path)
    try:
        with _opened(path, form) as file:
            width = len(next(csv.reader([file.readline()], delimiter=separator), []))
            for line, row in _rows(file, separator, 2):
                if row and len(row) != width:
                    return line, len(row)
    except (csv.Error, UnicodeError, OSError):
        pass
    return None


def count_lines(path: Path, form: TextForm, *, empty: bool) -> int | None:
    """Count the lines of the file, empty ones only with `empty`; None if a field is open at the end of the last."""
    last, count = "", 0
    with _opened(path, form, newline=None) as file:
        for line in file:
            if empty or line != "\n":
                last, count = line, count + 1
    rows = csv.reader([last, "\n"], delimiter=form.between(path))
    try:
        next(rows, None)
    except csv.Error:  # a field of more than 131,072 characters
        return count
    return count if rows.line_num <= 1 else None


def broken_line(path: Path, form: TextForm) -> int | None:
    """Return the line on which the first row of several lines starts, or None."""
    before = 0
    with _opened(path, form) as file:
        reader = csv.reader(file, delimiter=form.between(path))
        try:
            for _ in reader:
                if reader.line_num > before + 1:
                    return before + 1
                before = reader.line_num
        except csv.Error:  # a field of more than 131,072 characters
            return before + 1
    return None


def long_line(path: Path, form: TextForm) -> int | None:
    """Return the line on which a row of more than 1 MB or with an unclosed quotation mark starts, or None."""
    try:
        with _opened(path, form) as file:
            start, held, is_quoted = 1, 0, False
            for line, text in enumerate(iter(lambda: file.readline(MOST_BYTES + 1), ""), start=1):
                if not is_quoted:
                    start, held = line, 0
                held += len(text)
                is_quoted ^= bool(text.count('"') % 2)
                if held > MOST_BYTES:
                    return start
            return start if is_quoted else None
    except (UnicodeError, OSError):
        return None


def _opened(path: Path, form: TextForm, newline: str | None = "") -> IO[str]:
    import pyarrow as pa

    stream = pa.input_stream(str(path), compression="detect")
    return TextIOWrapper(stream, encoding=form.codec, errors="replace", newline=newline)


def _records(file: IO[str], separator: str) -> Iterator[tuple[int, list[str]]]:
    """Yield each record with its first line; in a file with a single column an empty line is a record."""
    rows = _rows(file, separator, 1)
    _, header = next(rows, (0, []))
    return ((line, row) for line, row in rows if row or len(header) == 1)


def _rows(file: IO[str], separator: str, first: int) -> Iterator[tuple[int, list[str]]]:
    reader = csv.reader(file, delimiter=separator)
    start = first
    for row in reader:
        yield start, row
        start = first + reader.line_num

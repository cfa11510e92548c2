"""What a text file looks like: its encoding, header and lines, told without showing a record.

Line numbers and the names in a header are told to the curator; no field of a record ever is.
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
_HEAD = 1 << 16  # bytes that show how a file begins
_RECORDS = 2  # numbers below a name, without which the first line may be a record itself
_MOST_NAMES = 20
_OTHERS = {";": "';'", "\t": "tab", "|": "'|'", ",": "','"}
_VALUE = re.compile(r"(?i)\s*([+-]?(\d[\d.,]*|[.,]\d+)(e[+-]?\d+)?|nan|inf|infinity|true|false)?\s*")


@dataclass(frozen=True, slots=True, kw_only=True)
class TextForm:
    """How a text file is written: what stands between fields (None: what its name says), and its encoding."""

    separator: str | None = None
    encoding: str | None = None

    def between(self, path: Path) -> str:
        """What stands between the fields."""
        return self.separator or ("\t" if ".tsv" in path.suffixes[-2:] else ",")

    @property
    def codec(self) -> str:
        """The encoding as Python knows it; a byte order mark is no part of the first name."""
        return "utf-8-sig" if self.encoding is None or codecs.lookup(self.encoding).name == "utf-8" else self.encoding


def check_encoding(path: Path, form: TextForm) -> None:
    """Refuse bytes that are no text in this encoding, as far as the file's beginning shows. Raises: DataProblem."""
    start = _beginning(path)
    if form.encoding is None:
        if start[:2] in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):
            raise DataProblem(f"{path.name} is UTF-16 text, expected UTF-8; give --encoding utf-16")
        if b"\0" in start:
            raise DataProblem(f"{path.name} has zero bytes, so it is no UTF-8 text; {_zero_bytes_hint(start)}")
    elif codecs.lookup(form.encoding).name.startswith("utf-16") and _is_single_byte(start):
        raise DataProblem(f"{path.name} is no UTF-16 text: leave --encoding out")


def _zero_bytes_hint(start: bytes) -> str:
    """What to do about them: every other byte is zero in plain text of two bytes a character."""
    even, odd = start[0::2].count(0), start[1::2].count(0)
    if 3 * max(even, odd) < len(start) // 2:
        return "it is broken, or of another format"
    return f"if it is UTF-16, give --encoding utf-16-{'be' if even > odd else 'le'}"


def _is_single_byte(start: bytes) -> bool:
    """Whether the beginning is text of one byte a character, as all line ends and separators show."""
    return b"\0" not in start and start[:2] not in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE) and b"\n" in start


def _beginning(path: Path) -> bytes:
    import pyarrow as pa

    with pa.input_stream(str(path), compression="detect") as stream:
        return bytes(stream.read(_HEAD))


def header_names(path: Path, form: TextForm) -> list[str] | None:
    """The names in the first line, or None where that may be a record: below some name stand numbers, two at least."""
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
    """Names of columns in one phrase."""
    shown = ", ".join(repr(name) for name in names[:_MOST_NAMES])
    return shown + (f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else "")


def other_separator(path: Path, form: TextForm) -> str:
    """What to do where the first line holds no separator, but another character that may be one; empty otherwise."""
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
    """The lines of the file on which these records start, counted from 0; none where the file cannot be followed."""
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
    """The first line whose row has another number of fields than the header, and that number."""
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


def long_line(path: Path, form: TextForm) -> int | None:
    """The line on which a row of more than 1 MB starts, as one does whose quotation mark is never closed."""
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


def _opened(path: Path, form: TextForm) -> IO[str]:
    import pyarrow as pa

    stream = pa.input_stream(str(path), compression="detect")
    return TextIOWrapper(stream, encoding=form.codec, errors="replace", newline="")


def _records(file: IO[str], separator: str) -> Iterator[tuple[int, list[str]]]:
    """Each record with the line on which it starts; an empty line is one where there is a single column."""
    rows = _rows(file, separator, 1)
    _, header = next(rows, (0, []))
    return ((line, row) for line, row in rows if row or len(header) == 1)


def _rows(file: IO[str], separator: str, first: int) -> Iterator[tuple[int, list[str]]]:
    reader = csv.reader(file, delimiter=separator)
    start = first
    for row in reader:
        yield start, row
        start = first + reader.line_num

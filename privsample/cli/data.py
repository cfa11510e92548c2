"""Data sources in files: a column as a stream, several columns, columns with labels, or a statistic."""

import inspect
import json
import re
from argparse import Namespace
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from privsample._data import chunks
from privsample.cli.errors import DataProblem, UsageProblem
from privsample.cli.files import Advance, Column, Reading, check_file
from privsample.cli.textfile import TextForm
from privsample.mechanisms.arguments import DataFormat
from privsample.mechanisms.base import Mechanism

_OPTIONS: dict[DataFormat, str] = {
    "column": "one column: give --column C",
    "rows": "rows of several columns: give --columns A,B,C",
    "labelled rows": "rows of several columns with a label: give --columns A,B,C --label Y",
    "statistic": "a statistic: give a .json file with a number or lists of numbers, or a .npy file, and no --column",
}


class Source(Protocol):
    """Part of a file that a mechanism reads; it can be read several times."""

    path: Path

    @property
    def records(self) -> int | None:
        """Number of records at the last reading; None for a statistic."""

    @property
    def description(self) -> str:
        """Description of the part of the file, for messages."""

    @property
    def unread(self) -> str:
        """Description of the columns without a single readable record at the last reading; empty if there are none."""

    def reading(self, advance: Advance = int) -> Any:
        """Context that yields the data for `release` and calls `advance` with the number of rows of each chunk."""

    def broken(self) -> DataProblem | None:
        """Error for a malformed file that can be read but gives too few records, or None."""


class Rows:
    """Several columns as an array of shape (n, width), optionally with a column of labels."""

    def __init__(self, path: str, columns: Sequence[str], label: str | None, how: Reading) -> None:
        named = [*columns] + ([] if label is None else [label])
        self.path = Path(path)
        self._labelled = label is not None
        self.columns = [Column(path, name, how) for name in named]

    @property
    def description(self) -> str:
        """Description of the columns, for messages."""
        return "columns " + ", ".join(repr(column.name) for column in self.columns)

    @property
    def records(self) -> int | None:
        """Number of records at the last reading."""
        return self.columns[0].records

    @property
    def unread(self) -> str:
        """Description of the columns without a single readable record; empty if there are none."""
        return " and ".join(column.unread for column in self.columns if column.unread)

    @property
    def is_text(self) -> bool:
        """True if at least one column holds text."""
        return any(column.is_text for column in self.columns)

    def broken(self) -> DataProblem | None:
        """Error for a malformed file, or None; see `Column.broken`."""
        return self.columns[0].broken()

    @contextmanager
    def reading(self, advance: Advance = int) -> Iterator[Any]:
        """Yield the array, or the array and the labels; each column is read in a separate pass."""
        found = []
        for place, column in enumerate(self.columns):
            with column.reading(advance if place == 0 else int) as stream:
                found.append(np.concatenate([np.empty(0), *chunks(stream)]))
        yield (np.column_stack(found[:-1]), found[-1]) if self._labelled else np.column_stack(found)


class Statistic:
    """A statistic, a number or an array of numbers, in its own JSON or NumPy file."""

    description, records = "the statistic", None

    def __init__(self, path: str) -> None:
        self.path, self.unread = Path(path), ""
        if self.path.suffix not in (".json", ".npy"):
            raise UsageProblem(
                f"a statistic is read from a .json or .npy file, got {self.path.name}; to read records from a "
                "table, give --column or --columns"
            )
        check_file(self.path)

    @contextmanager
    def reading(self, advance: Advance = int) -> Iterator[Any]:
        """Yield the array; entries that are not numbers are NaN."""
        del advance
        try:
            if self.path.suffix == ".npy":
                with self.path.open("rb") as file:
                    found = np.lib.format.read_array(file, allow_pickle=False)
            else:
                found = _as_floats(json.loads(self.path.read_text(encoding="utf-8")))
        except OSError as error:
            raise UsageProblem(f"{self.path.name} cannot be read: {error.strerror}") from None
        except (ValueError, RecursionError, EOFError):  # their messages could contain the statistic
            raise DataProblem(
                f"{self.path.name} cannot be read: expected a number, or nested lists of numbers of equal length"
            ) from None
        entries = np.ravel(found)
        is_lost = entries.dtype.kind == "f" and entries.size and np.isnan(entries).all()
        self.unread = self.description if is_lost else ""
        yield found

    def broken(self) -> None:
        """Return None: a malformed file already raises an error in `reading`."""


def _as_floats(document: Any) -> Any:
    """Convert a number or nested lists to floats; all other entries become NaN. Raises: ValueError."""
    if isinstance(document, list):
        return np.array([_as_floats(item) for item in document])
    return float(document) if isinstance(document, (int, float)) else np.nan


def formats(cls: type[Mechanism], fields: dict[str, Any]) -> tuple[DataFormat, ...]:
    """Return the accepted data formats of a mechanism; a wrapper accepts the formats of its base."""
    if cls.command.data:
        return cls.command.data
    base = fields.get("base")
    return formats(type(base), wrapped_fields(base)) if isinstance(base, Mechanism) else ()


def wrapped_fields(mechanism: Mechanism) -> dict[str, Any]:
    """Return {"base": the wrapped mechanism}, with None as value if the mechanism wraps none."""
    return {"base": getattr(mechanism, "base", None)}


def open_source(args: Namespace, fields: dict[str, Any], file: str) -> Source:
    """Open the part of the file that the options select. Raises: UsageProblem, DataProblem."""
    found = data_format(args, fields)
    if found == "statistic":
        return Statistic(file)
    how = _reading(args)
    source: Column | Rows = (
        Column(file, args.column, how) if found == "column" else Rows(file, args.columns, args.label, how)
    )
    if how.mapping and file == args.file and not source.is_text:
        raise UsageProblem(
            f"--map applies to text, and {source.description} of {source.path.name} holds none: leave --map out"
        )
    return source


def data_format(args: Namespace, fields: dict[str, Any]) -> DataFormat:
    """Return the data format that the options select, and that the mechanism accepts. Raises: UsageProblem."""
    accepted = formats(args.kind, fields)
    if not accepted:
        raise UsageProblem(
            f"--mechanism {args.mechanism} cannot read its data from a file; its data are {_accepted_data(args.kind)}. "
            f"Call {args.kind.__name__}(...).release(data) in Python{_extension_hint(args.kind)}"
        )
    if args.label is not None and args.columns is None:
        raise UsageProblem("--label needs --columns, the columns of the rows")
    if args.column is not None and args.columns is not None:
        raise UsageProblem("give --column, or --columns for several, not both")
    found: DataFormat = "column" if args.column is not None else "statistic"
    if args.columns is not None:
        found = "rows" if args.label is None else "labelled rows"
    if found not in accepted:
        asked = "the model" if args.mechanism is None else f"--mechanism {args.mechanism}"
        raise UsageProblem(f"{asked} takes {_OPTIONS[accepted[0]]}")
    return found


def _reading(args: Namespace) -> Reading:
    """Return the rules by which values are read. Raises: UsageProblem."""
    categories = (getattr(args, "categories", None) or ()) if args.column is not None else ()
    if categories and args.map:
        raise UsageProblem("--map and --categories both assign values to text: give only one of them")
    form = TextForm(separator=args.separator, encoding=args.encoding, multiline=args.multiline)
    return Reading(categories=categories, mapping=args.map or {}, form=form)


def _accepted_data(cls: type[Mechanism]) -> str:
    """Return the description of the data in the docstring of the class or of a base class."""
    for kind in cls.__mro__:
        text = " ".join(inspect.cleandoc(vars(kind).get("__doc__") or "").split())
        if said := re.search(r"`release` takes (.*?)(?:[.;:] |, and draws|$)", text):
            return said[1]
    return "available in Python only"


def _extension_hint(cls: type[Mechanism]) -> str:
    """Return advice for the author of an extension whose mechanism declares no file format; else an empty string."""
    if cls.__module__.partition(".")[0] == __name__.partition(".")[0]:
        return ""
    return "; or declare the data format in its class, for example: command = CommandLine(data=('column',))"

"""What of a file a mechanism takes: one column as a stream, several columns, columns with labels, or a statistic."""

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
    """Data in a file, which can be read several times."""

    path: Path

    @property
    def words(self) -> str:
        """Which part of the file it is."""

    @property
    def unread(self) -> str:
        """Words for what of it could not be read at all, when it was read last; empty where all could."""

    def reading(self, advance: Advance = int) -> Any:
        """A context: what `release` takes, `advance` told of each chunk's rows."""

    def broken(self) -> DataProblem | None:
        """What to say of a file that is broken so that it still could be read, where it holds too few records."""


class Rows:
    """Several columns as an array of shape (n, width), and another as labels where one is named."""

    def __init__(self, path: str, columns: Sequence[str], label: str | None, how: Reading) -> None:
        named = [*columns] + ([] if label is None else [label])
        self.path = Path(path)
        self._labelled = label is not None
        self.columns = [Column(path, name, how) for name in named]

    @property
    def words(self) -> str:
        """The columns."""
        return "columns " + ", ".join(repr(column.name) for column in self.columns)

    @property
    def unread(self) -> str:
        """The columns in which nothing could be read."""
        return " and ".join(column.unread for column in self.columns if column.unread)

    @property
    def is_text(self) -> bool:
        """Whether some column holds text."""
        return any(column.is_text for column in self.columns)

    def broken(self) -> DataProblem | None:
        """As for one column."""
        return self.columns[0].broken()

    @contextmanager
    def reading(self, advance: Advance = int) -> Iterator[Any]:
        """The array, or the array and the labels; each column is read in a pass of its own."""
        found = []
        for place, column in enumerate(self.columns):
            with column.reading(advance if place == 0 else int) as stream:
                found.append(np.concatenate([np.empty(0), *chunks(stream)]))
        yield (np.column_stack(found[:-1]), found[-1]) if self._labelled else np.column_stack(found)


class Statistic:
    """A number or an array of numbers, in a file of its own."""

    words = "the statistic"

    def __init__(self, path: str) -> None:
        self.path, self.unread = Path(path), ""
        if self.path.suffix not in (".json", ".npy"):
            raise UsageProblem(f"the name {self.path.name} must end in .json or .npy: it is {_OPTIONS['statistic']}")
        check_file(self.path)

    @contextmanager
    def reading(self, advance: Advance = int) -> Iterator[Any]:
        """The array; what is no number in it is NaN."""
        del advance
        try:
            if self.path.suffix == ".npy":
                with self.path.open("rb") as file:
                    found = np.lib.format.read_array(file, allow_pickle=False)
            else:
                found = _numbers(json.loads(self.path.read_text(encoding="utf-8")))
        except OSError as error:
            raise UsageProblem(f"{self.path.name} cannot be read: {error.strerror}") from None
        except (ValueError, RecursionError, EOFError):  # their messages could show the statistic
            raise DataProblem(
                f"{self.path.name} cannot be read: expected a number, or lists of numbers of one length"
            ) from None
        entries = np.ravel(found)
        is_lost = entries.dtype.kind == "f" and entries.size and np.isnan(entries).all()
        self.unread = self.words if is_lost else ""
        yield found

    def broken(self) -> None:
        """Never: JSON that ends too early cannot be read."""


def _numbers(document: Any) -> Any:
    """A number or nested lists as an array of floats; None and other things are NaN. Raises: ValueError."""
    if isinstance(document, list):
        return np.array([_numbers(item) for item in document])
    return float(document) if isinstance(document, (int, float)) else np.nan


def formats(cls: type[Mechanism], fields: dict[str, Any]) -> tuple[DataFormat, ...]:
    """What of a file the mechanism takes; one around a base takes what the base does."""
    if cls.command.data:
        return cls.command.data
    base = fields.get("base")
    return formats(type(base), vars_of(base)) if isinstance(base, Mechanism) else ()


def vars_of(mechanism: Mechanism) -> dict[str, Any]:
    """The base of a mechanism, if it has one."""
    return {"base": getattr(mechanism, "base", None)}


def opened(args: Namespace, fields: dict[str, Any], file: str) -> Source:
    """The part of the file that the mechanism takes. Raises: UsageProblem, DataProblem."""
    accepted = formats(args.kind, fields)
    if not accepted:
        raise UsageProblem(
            f"--mechanism {args.mechanism} takes no column of a file: it takes {_taken(args.kind)}. "
            f"Call {args.kind.__name__}(...).release(data) in Python{_own(args.kind)}"
        )
    if args.label is not None and args.columns is None:
        raise UsageProblem("--label goes with --columns, the columns of the rows")
    if args.column is not None and args.columns is not None:
        raise UsageProblem("give --column, or --columns for several, not both")
    found: DataFormat = "column" if args.column is not None else "statistic"
    if args.columns is not None:
        found = "rows" if args.label is None else "labelled rows"
    if found not in accepted:
        asked = "the model" if args.mechanism is None else f"--mechanism {args.mechanism}"
        raise UsageProblem(f"{asked} takes {_OPTIONS[accepted[0]]}")
    if found == "statistic":
        return Statistic(file)
    how = _reading(args)
    source: Column | Rows = (
        Column(file, args.column, how) if found == "column" else Rows(file, args.columns, args.label, how)
    )
    if how.words and file == args.file and not source.is_text:
        raise UsageProblem(
            f"--map is for text, and there is none in {source.words} of {source.path.name}: leave it out"
        )
    return source


def _reading(args: Namespace) -> Reading:
    """How the file's values are read. Raises: UsageProblem."""
    categories = (getattr(args, "categories", None) or ()) if args.column is not None else ()
    if categories and args.map:
        raise UsageProblem("--map gives numbers and --categories gives codes to the same words: give one of the two")
    form = TextForm(separator=args.separator, encoding=args.encoding)
    return Reading(categories=categories, words=args.map or {}, form=form)


def _taken(cls: type[Mechanism]) -> str:
    """What `release` takes, as the class or one above it says."""
    for kind in cls.__mro__:
        text = " ".join(inspect.cleandoc(vars(kind).get("__doc__") or "").split())
        if said := re.search(r"`release` takes (.*?)(?:[.;:] |, and draws|$)", text):
            return said[1]
    return "data that only Python can give"


def _own(cls: type[Mechanism]) -> str:
    """What the author of a mechanism that says nothing of files can do."""
    if cls.__module__.partition(".")[0] == __name__.partition(".")[0]:
        return ""
    return "; or let its class say what of a file it takes, for example: command = CommandLine(data=('column',))"

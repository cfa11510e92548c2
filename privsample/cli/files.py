"""One column of a data file, which mechanisms read as a stream in constant memory."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from privsample.cli.errors import CliError, DataProblem, UsageProblem, require
from privsample.cli.formats import TEXT, file_format, read, read_error, unclosed_quote_problem
from privsample.cli.textfile import TextForm, line_numbers
from privsample.cli.values import check_type, encode_categories, is_text, parse_numbers

Advance = Callable[[int], object]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """How the values of a file are read: the categories' names, the numbers that words stand for, and the text."""

    categories: Sequence[str] = ()
    mapping: Mapping[str, float | None] = field(default_factory=dict)
    form: TextForm = field(default_factory=TextForm)


class Column:
    """A column as an Arrow stream that can be read several times.

    The file's schema is checked when this is made. Raises: UsageProblem, DataProblem; no message shows a record.
    """

    def __init__(self, path: str, name: str, how: Reading | None = None) -> None:
        require("pyarrow", "cli", "reading a data file")
        self.path, self.name, self._how = Path(path), name, how or Reading()
        self.records = self.numbers = 0  # how many were read last, and how many of them as a number or a category
        self._advance: Advance = int
        self._stopped: BaseException | None = None
        file_format(self.path)
        if check_file(self.path):
            raise DataProblem(f"{self.path.name} is empty: it lacks even a header")
        with self._guard():
            kind = next(read(self.path, name, self._how.form))
        self.is_text = is_text(kind)
        if self._how.categories or file_format(self.path) not in TEXT:
            check_type(kind, name, categories=bool(self._how.categories), mapped=bool(self._how.mapping))

    @property
    def description(self) -> str:
        """The column."""
        return f"column {self.name!r}"

    @property
    def unread(self) -> str:
        """Words for this column, if no record in it could be read when it was read last; empty otherwise."""
        return self.description if self.records and not self.numbers else ""

    def where(self, places: Sequence[int]) -> str:
        """Where records stand, counted from 0, for the curator: lines of a text file, else numbers from 1 on."""
        lines = line_numbers(self.path, self._how.form, places) if file_format(self.path) in TEXT else []
        word, found = ("line", lines) if lines else ("record", [place + 1 for place in places])
        return f"{word}{'s' if len(found) > 1 else ''} {', '.join(map(str, found))}"

    def broken(self) -> DataProblem | None:
        """What to say of a file whose number of records is wrong because a quotation mark in it is never closed."""
        return unclosed_quote_problem(self.path, self._how.form) if file_format(self.path) in TEXT else None

    @contextmanager
    def reading(self, advance: Advance = int) -> Iterator["Column"]:
        """Tell `advance` the rows of each chunk; an error or interrupt inside the stream comes out as it was."""
        self._advance, self._stopped = advance, None
        try:
            yield self
        except BaseException:
            if self._stopped is not None:
                raise self._stopped from None
            raise

    @contextmanager
    def _guard(self) -> Iterator[None]:
        try:
            yield
        except (CliError, MemoryError):
            raise
        except Exception as error:  # noqa: BLE001 (pyarrow's own messages can show a record)
            raise read_error(self.path, error, self._how.form) from None

    def _records(self) -> Iterator[Any]:
        """The Arrow type of what follows, then arrays of numbers."""
        import pyarrow as pa

        arrays = read(self.path, self.name, self._how.form)
        kind = next(arrays)
        if self._how.categories:
            yield pa.int64()
            yield from (encode_categories(array, self._how.categories) for array in arrays)
        elif is_text(kind):
            yield pa.float64()
            yield from (parse_numbers(array, self._how.mapping) for array in arrays)
        else:
            yield kind
            yield from arrays

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        import pyarrow as pa

        records = self._records()
        with self._guard():
            schema = pa.schema([pa.field(self.name, next(records))])
        batches = self._batches(records, schema)
        return pa.RecordBatchReader.from_batches(schema, batches).__arrow_c_stream__(requested_schema)

    def _batches(self, records: Iterator[Any], schema: Any) -> Iterator[Any]:
        import pyarrow as pa

        self.records = self.numbers = 0
        try:
            with self._guard():
                for array in records:
                    self.records += len(array)
                    self.numbers += _count_readable(array, known=bool(self._how.categories))
                    self._advance(len(array))
                    yield pa.record_batch([array], schema=schema)
        except GeneratorExit:
            raise
        except BaseException as error:
            self._stopped = error  # it cannot cross Arrow's interface as it is
            raise


def _count_readable(array: Any, *, known: bool) -> int:
    """How many entries are numbers; of codes, how many are of known categories."""
    import pyarrow.compute as pc
    from pyarrow import types

    if known:
        return int(pc.sum(pc.greater_equal(array, 0)).as_py() or 0)
    lost = int(pc.sum(pc.is_nan(array)).as_py() or 0) if types.is_floating(array.type) else 0
    return len(array) - array.null_count - lost


def check_file(path: Path) -> bool:
    """Whether a file is empty. Raises: UsageProblem, unless something can be read there."""
    if path.is_dir():
        raise UsageProblem(f"{path} cannot be opened: Is a directory")
    if path.exists() and not path.is_file():
        raise UsageProblem(f"{path} is no regular file; write its content to one first")
    try:
        with path.open("rb") as file:
            return not file.read(1)
    except FileNotFoundError:
        raise UsageProblem(f"there is no file {path}") from None
    except (OSError, ValueError) as error:  # a ValueError for a name that no file can have
        reason = error.strerror if isinstance(error, OSError) else "no file can have this name"
        raise UsageProblem(f"{path} cannot be opened: {reason}") from None

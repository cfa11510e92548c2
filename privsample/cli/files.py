"""A column of a data file as an Arrow stream, read in constant memory."""

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
    """Rules for reading values: names of the categories, numbers assigned to text (`mapping`), and form of the text."""

    categories: Sequence[str] = ()
    mapping: Mapping[str, float | None] = field(default_factory=dict)
    form: TextForm = field(default_factory=TextForm)


class Column:
    """A column as an Arrow stream that can be read several times.

    The constructor checks the schema of the file. Raises: UsageProblem, DataProblem; no message contains a record.
    """

    def __init__(self, path: str, name: str, how: Reading | None = None) -> None:
        require("pyarrow", "cli", "reading a data file")
        self.path, self.name, self._how = Path(path), name, how or Reading()
        self.records = self.numbers = 0  # of the last reading: all records, and those with a readable value
        self._advance: Advance = int
        self._stopped: BaseException | None = None
        file_format(self.path)
        if check_file(self.path):
            raise DataProblem(f"{self.path.name} is empty; expected a header and records")
        with self._guard():
            kind = next(read(self.path, name, self._how.form))
        self.is_text = is_text(kind)
        if self._how.categories or file_format(self.path) not in TEXT:
            check_type(kind, name, categories=bool(self._how.categories), mapped=bool(self._how.mapping))

    @property
    def description(self) -> str:
        """Description of the column, for messages."""
        return f"column {self.name!r}"

    @property
    def unread(self) -> str:
        """Description of the column if no record had a readable value at the last reading; empty otherwise."""
        return self.description if self.records and not self.numbers else ""

    def where(self, places: Sequence[int]) -> str:
        """Describe the positions of records, given from 0: lines of a text file, otherwise record numbers from 1."""
        lines = line_numbers(self.path, self._how.form, places) if file_format(self.path) in TEXT else []
        word, found = ("line", lines) if lines else ("record", [place + 1 for place in places])
        return f"{word}{'s' if len(found) > 1 else ''} {', '.join(map(str, found))}"

    def broken(self) -> DataProblem | None:
        """Error for a text file with an unclosed quotation mark, which changes the number of records; else None."""
        return unclosed_quote_problem(self.path, self._how.form) if file_format(self.path) in TEXT else None

    @contextmanager
    def reading(self, advance: Advance = int) -> Iterator["Column"]:
        """Call `advance` with the number of rows of each chunk; errors inside the stream are raised unchanged."""
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
        except Exception as error:  # noqa: BLE001 (messages of pyarrow can contain a record)
            raise read_error(self.path, error, self._how.form) from None

    def _records(self) -> Iterator[Any]:
        """Yield the Arrow type of the column, then its records as arrays of numbers."""
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
            self._stopped = error  # the C interface of Arrow would replace it by its own error; `reading` raises it
            raise


def _count_readable(array: Any, *, known: bool) -> int:
    """Count the entries that are numbers; of category codes, those of known categories."""
    import pyarrow.compute as pc
    from pyarrow import types

    if known:
        return int(pc.sum(pc.greater_equal(array, 0)).as_py() or 0)
    lost = int(pc.sum(pc.is_nan(array)).as_py() or 0) if types.is_floating(array.type) else 0
    return len(array) - array.null_count - lost


def check_file(path: Path) -> bool:
    """Return True if the file is empty. Raises: UsageProblem, if it is not a readable file."""
    if path.is_dir():
        raise UsageProblem(f"{path} cannot be opened: Is a directory")
    if path.exists() and not path.is_file():
        raise UsageProblem(f"{path} is not a regular file; write its content to a regular file first")
    try:
        with path.open("rb") as file:
            return not file.read(1)
    except FileNotFoundError:
        raise UsageProblem(f"there is no file {path}") from None
    except (OSError, ValueError) as error:  # ValueError: the name contains a null character
        reason = error.strerror if isinstance(error, OSError) else "invalid file name"
        raise UsageProblem(f"{path} cannot be opened: {reason}") from None

"""One column of a data file, which mechanisms read as a stream in constant memory."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from privsample.cli.errors import DataProblem, Stop, UsageProblem, require
from privsample.cli.formats import TEXT, ending, read, unreadable
from privsample.cli.values import check_type, coded, is_text, parsed

Advance = Callable[[int], object]


class Column:
    """A column as an Arrow stream that can be read several times.

    The file's schema is checked when this is made. Raises: UsageProblem, DataProblem; no message shows a record.
    """

    def __init__(self, path: str, name: str, *, categories: Sequence[str] = (), separator: str | None = None) -> None:
        require("pyarrow", "cli", "reading a data file")
        self.path, self.name = Path(path), name
        self._categories, self._separator = tuple(categories), separator
        self._advance: Advance = int
        self._stopped: BaseException | None = None
        _check_file(self.path)
        with self._guard():
            kind = next(read(self.path, name, separator))
        if categories or ending(self.path) not in TEXT:
            check_type(kind, name, categories=bool(categories))

    @property
    def words(self) -> str:
        """The column."""
        return f"column {self.name!r}"

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
        except (Stop, MemoryError):
            raise
        except Exception as error:  # noqa: BLE001 (pyarrow's own messages can show a record)
            raise unreadable(self.path, error) from None

    def _records(self) -> Iterator[Any]:
        """The Arrow type of what follows, then arrays of numbers."""
        import pyarrow as pa

        arrays = read(self.path, self.name, self._separator)
        kind = next(arrays)
        if self._categories:
            yield pa.int64()
            yield from (coded(array, self._categories) for array in arrays)
        elif is_text(kind):
            yield pa.float64()
            yield from (parsed(array) for array in arrays)
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

        try:
            with self._guard():
                for array in records:
                    self._advance(len(array))
                    yield pa.record_batch([array], schema=schema)
        except GeneratorExit:
            raise
        except BaseException as error:
            self._stopped = error  # it cannot cross Arrow's interface as it is
            raise


def _check_file(path: Path) -> None:
    """Raises: UsageProblem, DataProblem, unless something can be read there."""
    if path.exists() and not (path.is_file() or path.is_dir()):
        raise UsageProblem(f"{path} is no regular file; write its content to one first")
    try:
        with path.open("rb") as file:
            empty = not file.read(1)
    except FileNotFoundError:
        raise UsageProblem(f"there is no file {path}") from None
    except OSError as error:
        raise UsageProblem(f"{path} cannot be opened: {error.strerror}") from None
    ending(path)
    if empty:
        raise DataProblem(f"{path.name} is empty: it lacks even a header")

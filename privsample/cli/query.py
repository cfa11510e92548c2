"""Data that an engine reads: many Parquet files, or tallies that were made before."""

from argparse import Namespace
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from privsample.cli import data
from privsample.cli.choice import dest
from privsample.cli.errors import DataProblem, UsageProblem, require
from privsample.cli.groups import Groups
from privsample.cli.parallel import dask_client
from privsample.cli.validate import warn_curator
from privsample.engines.parts import parquet_files
from privsample.engines.tally_source import EngineName, tally_source
from privsample.errors import SchemaError
from privsample.mechanisms.base import Mechanism
from privsample.mechanisms.tallies.merge import merge_tallies
from privsample.mechanisms.tallies.tally import Tally

_ENGINES = {"arrow": "pyarrow", "duckdb": "duckdb", "polars": "polars", "dask": "dask"}  # and the package of each
_ASKS_ENGINE = ("by", "engine", "dask", "tally_out")  # options with which an engine reads FILE, too
_TEXT_ONLY = ("map", "separator", "encoding", "multiline")


def add_query(parser: Any) -> None:
    """Add the options of data in many files and of tallies."""
    group = parser.add_argument_group(
        "many files",
        "Instead of FILE. The public rule of the mechanism applies to invalid records, as with --clip; they are not "
        "counted first.",
    )
    group.add_argument(
        "--data",
        metavar="PATTERN",
        help="Parquet files: a folder, or a pattern in quotes such as 'folder/*.parquet'",
    )
    group.add_argument(
        "--engine", choices=tuple(_ENGINES), metavar="E", help="arrow (default), duckdb, polars or dask reads them"
    )
    group.add_argument(
        "--dask",
        metavar="ADDRESS",
        help="with --engine dask: the address of the scheduler of a cluster (default: this computer)",
    )
    group.add_argument(
        "--tally-out",
        metavar="PATH",
        help="draw nothing and charge nothing: write the tally (.arrow), the exact statistic of the data. It is as "
        "private as the data; its owner alone may read the file",
    )
    group.add_argument(
        "--tally",
        metavar="FILE",
        action="append",
        help="instead of data: draw from this tally of the same mechanism; given several times, from their sum",
    )


def is_query(args: Namespace) -> bool:
    """Return True if an engine reads the data, or they are tallies. Raises: UsageProblem."""
    given = [name for name, one in (("FILE", args.file), ("--data", args.data), ("--tally", args.tally)) if one]
    if not given:
        raise UsageProblem(
            "the data are missing: give FILE, or --data with a pattern of Parquet files, or --tally (see privsample "
            "release --help)"
        )
    if len(given) > 1:
        raise UsageProblem(f"give one of FILE, --data and --tally, got {' and '.join(given)}")
    if args.tally and args.tally_out is not None:
        raise UsageProblem("--tally-out needs data, and --tally is made already: leave one out")
    if args.tally and (args.engine is not None or args.dask is not None):
        raise UsageProblem("--engine and --dask read data: leave them out with --tally")
    if args.dask is not None and args.engine != "dask":
        raise UsageProblem("--dask needs --engine dask")
    return args.file is None or any(getattr(args, name) is not None for name in _ASKS_ENGINE)


class Query:
    """What an engine reads, or the tallies that were made before; opening it checks that all files are there."""

    def __init__(self, args: Namespace, fields: dict[str, Any], groups: Groups | None) -> None:
        for name in _TEXT_ONLY:
            if getattr(args, name):
                raise UsageProblem(f"--{name} is for text files, and an engine reads Parquet files: leave it out")
        self._args, self._groups = args, groups
        self._engine: EngineName = args.engine or "arrow"
        self.inputs = [Path(path) for path in args.tally or ()]
        if args.tally:
            self.description = ", ".join(path.name for path in self.inputs)
            return
        require(
            _ENGINES[self._engine], self._engine if self._engine != "arrow" else "files", f"--engine {self._engine}"
        )
        if data.data_format(args, fields) == "statistic":
            raise UsageProblem("an engine reads records: give --column C, or --columns A,B,C")
        self._source = args.data or args.file
        if args.file is not None and Path(args.file).suffix != ".parquet":
            raise UsageProblem(f"an engine reads Parquet files, got {Path(args.file).name}; write the data as .parquet")
        try:
            self.inputs = list(map(Path, parquet_files(self._source)))
        except SchemaError as error:
            raise UsageProblem(str(error)) from None
        self.description = self._source
        self._check_unit()

    def tally(self, mechanism: Mechanism) -> Tally:
        """Return the tally; nothing was charged or drawn before. Raises: UsageProblem, DataProblem, SchemaError."""
        if self._args.tally:
            return merge_tallies(map(_load, _different(self.inputs)))
        try:
            with self._scheduler():
                return tally_source(
                    self._source,
                    mechanism,
                    columns=self._columns(),
                    by=None if self._groups is None else self._groups.name,
                    unit=self._args.unit_column if self._is_bounded else None,
                    engine=self._engine,
                )
        except SchemaError as error:  # its messages contain public information only
            raise DataProblem(f"{error}; nothing was charged or drawn") from None
        except (TypeError, ValueError, ImportError) as error:
            raise UsageProblem(str(error)) from None

    @property
    def _is_bounded(self) -> bool:
        return self._groups is not None and self._groups.contribution is not None

    def _check_unit(self) -> None:
        """Refuse a claim for units, in whose column a unit may have several rows, that was made without bounds.

        Raises: UsageProblem.
        """
        unit = getattr(self._args, dest("unit"), None)
        if unit is None or self._is_bounded or unit not in self._column_names():
            return
        several = f"the data have a column {unit!r}, and without bounds each row counts as another {unit}"
        if self._groups is not None and self._groups.sizes is None and getattr(self._args, dest("n"), None) is None:
            raise UsageProblem(
                f"{several}; give --records-per-unit 1, or larger bounds, or leave --unit out to protect single rows"
            )
        warn_curator(f"{several}: the account does not protect a {unit} with several rows as a whole")

    def _column_names(self) -> list[str]:
        """Return the names of the columns of the first file; an engine raises the error if it cannot be read."""
        require("pyarrow", "files", "reading Parquet files")
        from pyarrow import ArrowException, parquet

        try:
            return list(parquet.read_schema(self.inputs[0]).names)
        except (OSError, ArrowException):
            return []

    def _columns(self) -> str | tuple[str, ...]:
        if self._args.column is not None:
            return str(self._args.column)
        label = () if self._args.label is None else (self._args.label,)
        return (*self._args.columns, *label)

    @contextmanager
    def _scheduler(self) -> Iterator[None]:
        """Run the code inside on the cluster, if one is given. Raises: UsageProblem."""
        if self._args.dask is None:
            yield
            return
        with dask_client(self._args.dask, default=True):
            yield


def _different(paths: list[Path]) -> list[Path]:
    """Return the paths. Raises: UsageProblem, if two are the same file: its records would count twice."""
    known = [path.resolve() for path in paths]
    if len(set(known)) < len(known):
        raise UsageProblem("--tally: each file must be given once, got one twice")
    return paths


def _load(path: Path) -> Tally:
    require("pyarrow", "files", "reading a tally")
    try:
        return Tally.load(path)
    except FileNotFoundError:
        raise UsageProblem(f"--tally: there is no file {path}") from None
    except SchemaError as error:
        raise DataProblem(f"--tally {path.name}: {error}") from None

"""One database in memory for many tallies: to open a new one takes 18 ms, longer than most tallies of tests."""

from collections.abc import Iterator
from typing import Any

import pytest


@pytest.fixture(scope="session")
def _database() -> Iterator[Any]:
    """A database with the settings of the DuckDB engine."""
    duckdb = pytest.importorskip("duckdb")
    from privsample.engines import duckdb_engine

    with duckdb.connect(config=duckdb_engine._SETTINGS) as database:
        yield database


@pytest.fixture
def shared_database(_database: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Give the DuckDB engine a new connection to one database in place of a database of its own."""
    import duckdb

    original = duckdb.connect

    def connect(*args: Any, config: dict[str, Any] | None = None, **options: Any) -> Any:
        return original(*args, **options) if config is None else _database.cursor()

    monkeypatch.setattr(duckdb, "connect", connect)

"""A disk that hinders: whatever fails, nothing was spent."""

import sqlite3

import pytest

from privsample.accounting.ledger import Ledger
from tests.accounting.ledger.shared import BUDGET, TOY, Watching, pure, unchanged


def connected(monkeypatch, name=lambda file: file, **more):
    """Every connection from now on is made to another name, or with other settings."""
    connect = sqlite3.connect
    monkeypatch.setattr(
        "privsample.accounting.ledger.log.sqlite3.connect",
        lambda file, **settings: connect(name(file), **settings, **more),
    )


def test_folders_and_places_that_cannot_be_written(path, made, tmp_path, monkeypatch):
    with pytest.raises(IsADirectoryError, match="is a folder"):
        Ledger(tmp_path, budget=BUDGET, **TOY)
    with pytest.raises(FileNotFoundError, match=r"folder .* does not exist"):
        Ledger(tmp_path / "missing" / "toy.ledger", budget=BUDGET, **TOY)
    connected(monkeypatch, lambda file: file.replace(tmp_path.as_uri(), (tmp_path / "missing").as_uri()))
    with pytest.raises(FileNotFoundError, match="not writable"):
        made()
    path.touch()
    with pytest.raises(PermissionError, match="cannot be opened"):
        Ledger(path)
    path.unlink()
    assert list(tmp_path.iterdir()) == []


def test_a_read_only_file_can_be_read_and_not_spent_from(path, made, monkeypatch):
    ledger = made()
    ledger.spend(pure(0.1))
    before = ledger.history()
    connected(monkeypatch, lambda file: file.replace("mode=rw", "mode=ro"))
    ledger, seen = Ledger(path), []
    with pytest.raises(PermissionError, match="read-only; nothing was spent"):
        ledger.release(Watching(path=path, seen=seen), [1])
    assert seen == []
    assert unchanged(ledger, before)


class Full(sqlite3.Connection):
    def __init__(self, *words, **settings):
        super().__init__(*words, **settings)
        self.execute("PRAGMA max_page_count = 1")


def test_a_full_disk_fails_the_spend_before_the_draw(path, made, monkeypatch):
    ledger = made()
    ledger.spend(pure(0.1))
    before, seen = ledger.history(), []
    with monkeypatch.context() as context:
        connected(context, factory=Full)
        context.setattr("privsample.accounting.ledger.ledger._LONGEST_LABEL", 20_000)  # more than the pages hold
        with pytest.raises(OSError, match=r"full.*nothing was spent.*free some space"):
            ledger.release(Watching(path=path, seen=seen), [1], label="x" * 20_000)
        with pytest.raises(OSError, match=r"full.*nothing was spent"):
            ledger.reserve([(pure(1e-6), 1)] * 500)
        with pytest.raises(OSError, match="full"):
            Ledger(path.with_name("other"), budget=BUDGET, **TOY)
    assert not path.with_name("other").exists()
    assert seen == []
    assert unchanged(ledger, before)
    ledger.spend(pure(0.1))


class Failing(sqlite3.Connection):
    def execute(self, statement, *values):
        if statement == "COMMIT":
            error = sqlite3.OperationalError("disk I/O error")
            error.sqlite_errorcode = sqlite3.SQLITE_IOERR_FSYNC
            raise error
        return super().execute(statement, *values)


def test_a_commit_that_fails_is_rolled_back(made, monkeypatch):
    ledger = made()
    with monkeypatch.context() as context:
        connected(context, factory=Failing)
        with pytest.raises(OSError, match=r"disk I/O error.*nothing was spent"):
            ledger.spend(pure(0.1))
    assert unchanged(ledger, ())


def test_an_error_after_the_transaction_has_ended_is_told(made):
    ledger = made()

    def writing():
        with ledger._log.writing() as writer:
            writer.connection.execute("ROLLBACK")
            raise ValueError("stopped")

    with pytest.raises(ValueError, match="stopped"):
        writing()


def test_a_busy_file_is_waited_for_and_then_told(path, made):
    made()
    ledger = Ledger(path, timeout=0.05)
    with (
        ledger._log.writing(),
        pytest.raises(TimeoutError, match=r"locked by another process; nothing was spent.*try again"),
    ):
        ledger.spend(pure(0.1))
    ledger.spend(pure(0.1))


def test_a_system_without_folder_handles(path, made, monkeypatch):
    monkeypatch.delattr("privsample.accounting.ledger.log.os.O_DIRECTORY")
    assert made().spent() == 0.0

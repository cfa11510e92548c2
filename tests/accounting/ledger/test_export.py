"""A ledger as JSON."""

import json

import pytest

from privsample.accounting.base import Accountant
from tests.accounting.ledger.shared import LAPLACE, pure


def test_export(path, made):
    ledger = made(approximate_share=0.5)
    ledger.spend(pure(0.1), label="a")
    ledger.reserve([(LAPLACE, 2), pure(0.01)])
    ledger.reservation(2).release(0, 1.0)
    target = path.with_suffix(".json")
    document = ledger.export(target)
    assert json.loads(target.read_text()) == document
    assert document["spent"] == ledger.spent()
    assert document["remaining"] == ledger.remaining()
    assert [entry["kind"] for entry in document["entries"]] == ["spend", "plan"]
    assert [item["used"] for item in document["entries"][1]["items"]] == [1, 0]
    assert Accountant.from_dict(document["entries"][0]["items"][0]["account"]) == pure(0.1)
    assert document["entries"][1]["items"][0]["mechanism"]["type"] == ["privsample", "LaplaceMechanism", 2]
    with pytest.raises(FileExistsError):
        ledger.export(target)
    with pytest.raises(FileNotFoundError):
        ledger.export(path.parent / "missing" / "x.json")


def test_a_half_written_export_is_removed(path, made, monkeypatch):
    ledger = made()

    def full(handle):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("privsample.accounting.ledger.export.os.fsync", full)
    with pytest.raises(OSError, match="No space"):
        ledger.export(path.with_suffix(".json"))
    assert not path.with_suffix(".json").exists()

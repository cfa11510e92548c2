"""A file that is no ledger, or no longer the one that was written, is refused and left as it is."""

import json
import math
import shutil
import sqlite3
from dataclasses import replace

import pytest

from privsample import DP, GaussianAccountant, ReplaceOne
from privsample.accounting.ledger import Ledger
from privsample.accounting.ledger.log import SCHEMA, Event, Log
from privsample.accounting.ledger.state import draw_event
from tests.accounting.ledger.shared import BUDGET, LAPLACE, TOY, pure


def edit(path, statement):
    """What another program could do to the file."""
    connection = sqlite3.connect(path, isolation_level=None)
    for trigger in ("never_changed", "never_removed"):
        connection.execute(f"DROP TRIGGER IF EXISTS {trigger}")
    connection.execute(statement)
    connection.close()


def refused_as_it_is(path, words):
    before = path.read_bytes()
    with pytest.raises(ValueError, match=words):
        Ledger(path)
    with pytest.raises(ValueError, match=words):
        Ledger(path, budget=BUDGET, **TOY)
    assert path.read_bytes() == before


@pytest.mark.parametrize("content", [b"", b"x", b"some notes\n" * 1000, b"SQLite format 3\0" + b"\xff" * 5000])
def test_what_is_no_ledger_is_refused(content, path):
    path.write_bytes(content)
    refused_as_it_is(path, "not a privsample ledger|damaged")


def test_another_programs_file_is_refused(path):
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE events (id INTEGER PRIMARY KEY, document TEXT, digest TEXT)")
    connection.close()
    refused_as_it_is(path, "another program")


def test_newer_and_impossible_formats_are_refused(path, made):
    made()
    edit(path, f"PRAGMA user_version = {SCHEMA + 1}")
    refused_as_it_is(path, "newer privsample.*upgrade")
    edit(path, "PRAGMA user_version = 0")
    refused_as_it_is(path, "damaged .its format number is 0")


def test_a_flipped_bit_in_a_number_is_found(path, made):
    made().spend(GaussianAccountant(sensitivity=1, noise_std=250))
    content = path.read_bytes()
    assert content.count(b'"noise_std": 250.0') == 1
    path.write_bytes(content.replace(b'"noise_std": 250.0', b'"noise_std": 750.0'))
    refused_as_it_is(path, "the digest of event 2 does not match.*restore")


def test_damaged_pages_are_found(path, made):
    ledger = made()
    for _ in range(40):
        ledger.spend(pure(1e-6), label="x" * 500)
    content = path.read_bytes()
    for where in range(4096, len(content), 4096):
        path.write_bytes(content[:where] + b"\xa5" * 64 + content[where + 64 :])
        refused_as_it_is(path, "damaged")
    path.write_bytes(content[: len(content) // 2])
    refused_as_it_is(path, "damaged")
    path.write_bytes(content)
    assert len(Ledger(path).history()) == 40


@pytest.mark.parametrize(
    ("statement", "words"),
    [
        ("DELETE FROM events WHERE id = 1", "the digest of event 2 does not match"),
        ("DELETE FROM events WHERE id = 2", "the digest of event 3 does not match"),
        ("UPDATE events SET document = replace(document, '0.25', '0.01')", "the digest of event 2 does not match"),
        ("UPDATE events SET document = x'00' WHERE id = 2", "the digest of event 2 does not match"),
        ("UPDATE events SET document = CAST(x'ff' AS TEXT) WHERE id = 2", "damaged"),
        ("UPDATE events SET id = 9 WHERE id = 3", "the digest of event 9 does not match"),
        ("DROP TABLE events", "damaged"),
        ("DELETE FROM events", "cannot be read"),
    ],
)
def test_lost_and_altered_entries_are_found(statement, words, path, made):
    ledger = made()
    ledger.spend(pure(0.25))
    ledger.spend(pure(0.125))
    edit(path, statement)
    refused_as_it_is(path, words)


def test_entries_cannot_be_changed_by_accident(path, made):
    made().spend(pure(0.1))
    connection = sqlite3.connect(path)
    for statement in ("UPDATE events SET document = ''", "DELETE FROM events"):
        with pytest.raises(sqlite3.IntegrityError, match="only added to"):
            connection.execute(statement)
    connection.close()


@pytest.mark.parametrize(
    "change",
    [
        {"event": "refund"},
        {"items": []},
        {"items": [{"account": {"type": "FutureAccountant"}, "times": 1, "mechanism": None}]},
        {"items": [{"account": {"type": "AddRemove"}, "times": 1, "mechanism": None}]},
        {"items": [{"account": pure(0.1).to_dict(), "times": 0, "mechanism": None}]},
        {"items": [{"account": pure(math.pi).to_dict(), "mechanism": None}]},
        {"items": [{"account": replace(pure(0.1), relation=ReplaceOne(n=2)).to_dict(), "times": 1, "mechanism": None}]},
        {"event": "draw", "entry": 1, "item": 0},
        {"event": "draw", "entry": 0, "item": 0},
        {"event": "draw", "entry": 2, "item": 2},
        {"event": "draw", "entry": 2, "item": -1},
        {"event": "draw", "entry": 2, "item": 0},
        {"event": "draw"},
        {"delta": 0.1},
    ],
)
def test_events_that_this_version_does_not_understand_are_refused(change, path, made):
    """As if a newer version had written them: digests and all are in order."""
    ledger = made(DP(epsilon=1) if "delta" in change else BUDGET)
    ledger.spend(pure(0.1))
    ledger.reserve([pure(0.1)]).take(0)
    log = Log(path=path, timeout=1.0)
    events = log.after(None)
    document = json.loads(events[1].document) | change
    with log.writing() as writer:
        writer.add(events[-1], json.dumps(document))
    refused_as_it_is(path, r"event 5 of the ledger .* cannot be read by this version.*upgrade")


def test_a_first_event_of_another_kind_is_refused(path):
    Log(path=path, timeout=1.0).create(lambda place: [draw_event(1, 0, {})])
    refused_as_it_is(path, "event 1 of the ledger .* cannot be read.*the first event is 'draw'")
    assert Event(number=1, document="", digest="").follows(None) is False


def test_a_ledger_that_is_replaced_or_removed_while_open_is_not_begun_anew(path, made):
    ledger = made()
    shutil.copy(path, path.with_name("old"))
    ledger.spend(pure(0.5))
    shutil.copy(path.with_name("old"), path)
    for step in (ledger.spent, lambda: ledger.spend(pure(0.1))):
        with pytest.raises(ValueError, match="replaced or cut short"):
            step()
    path.unlink()
    for step in (ledger.spent, lambda: ledger.spend(pure(0.1)), lambda: ledger.release(LAPLACE, 1.0)):
        with pytest.raises(FileNotFoundError, match="no ledger"):
            step()
    assert not path.exists()

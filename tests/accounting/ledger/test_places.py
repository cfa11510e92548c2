"""A ledger that was copied, moved, linked or restored: no entry is lost, and one line says what to do."""

import json
import os
import shutil
import sqlite3
import subprocess
import sys
import threading
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from privsample import DP
from privsample.accounting.ledger import Ledger
from privsample.accounting.ledger import place as places
from privsample.accounting.ledger.journal import Journal, check_journal, read_journal
from privsample.accounting.ledger.log import Event, Log, check_chain
from privsample.accounting.ledger.place import place_of
from privsample.errors import BudgetExceeded
from tests.accounting.ledger.shared import BUDGET, LAPLACE, TOY, Watching, pure

STORED = Path(__file__).parents[2] / "data"
MOVED = r"not where it was last written \({}.*nothing was changed.*call Ledger.moved"


class Stop(Exception):
    pass


def journal_of(path):
    return path.with_name(f"{path.name}-journal")


def interrupt(path, pages=()):
    """Leave the file and its journal as a writer does that is killed when only these pages are in the file."""
    log, before = Log(path=path, timeout=1.0), path.read_bytes()
    with log.writing() as writer:
        last = writer.after(None)[-1]
        for _ in range(20):
            last = writer.add(last, "x" * 500)
        journal = bytearray(journal_of(path).read_bytes())
    after = path.read_bytes()
    torn = bytearray(before)
    for page in pages:
        torn.extend(bytes(max(4096 * (page + 1) - len(torn), 0)))
        torn[4096 * page : 4096 * (page + 1)] = after[4096 * page : 4096 * (page + 1)]
    path.write_bytes(torn)
    journal[:8] = bytes.fromhex("d9d505f920a163d7")  # the header is written when the records are synced
    journal[8:12] = ((len(journal) - 512) // (4096 + 8)).to_bytes(4, "big")
    journal_of(path).write_bytes(journal)
    assert read_journal(journal_of(path)).commits == int.from_bytes(before[24:28], "big")


def refused(path, words, error=ValueError):
    """Opening is refused, nothing is drawn, and the files stay as they are."""
    before = [(file, file.read_bytes()) for file in path.parent.iterdir() if file.is_file()]
    with pytest.raises(error, match=words) as found:
        Ledger(path)
    assert "\n" not in str(found.value)
    assert [(file, file.read_bytes()) for file in path.parent.iterdir() if file.is_file()] == before


@pytest.fixture
def one(made):
    """A ledger with one entry."""
    ledger = made()
    ledger.spend(pure(0.01), label="first")
    return ledger


@pytest.fixture
def elsewhere(tmp_path):
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    return folder


def labels(ledger):
    return [entry.label for entry in ledger.history()]


def test_a_copy_that_was_used_elsewhere_survives_the_journal_that_was_left(one, path, elsewhere):
    """SQLite alone would roll the five entries of the copy back, and the chain of digests would be whole."""
    interrupt(path)
    copy = elsewhere / path.name
    shutil.copy(path, copy)
    with pytest.raises(ValueError, match=MOVED.format("it was in another folder")):
        Ledger(copy)
    used = Ledger.moved(copy)
    for number in range(5):
        used.spend(pure(0.01), label=f"copy {number}")
    shutil.copy(copy, path)
    refused(path, "unfinished write of another state.*The file is newer.*move toy.ledger-journal to another folder")
    with pytest.raises(ValueError, match="unfinished write of another state"):
        Ledger.moved(path)
    assert journal_of(path).exists()
    journal_of(path).unlink()
    refused(path, MOVED.format("it was in another folder"))
    again = Ledger.moved(path, at_least=used.head)
    assert labels(again) == ["first", *(f"copy {number}" for number in range(5))]
    assert again.spent() == used.spent() == pytest.approx(0.06)


def test_one_entry_elsewhere_is_enough(one, path, elsewhere):
    interrupt(path)
    copy = elsewhere / path.name
    shutil.copy(path, copy)
    Ledger.moved(copy).spend(pure(0.01), label="copy")
    shutil.copy(copy, path)
    refused(path, "The file is newer")


def test_an_older_copy_beside_the_journal_of_a_newer_file_is_refused(one, path):
    older = path.read_bytes()
    for _ in range(3):
        one.spend(pure(0.01))
    interrupt(path)
    path.write_bytes(older)
    refused(path, "The file is older, and lacks entries")
    path.write_bytes(b"")
    refused(path, "The file is older, and lacks entries")
    path.write_bytes(b"another program's file\n" * 1000)
    refused(path, "The file is older")


@pytest.mark.parametrize("pages", [(), (0,), (1,), (0, 1, 2, 3), (3, 2)])
def test_the_journal_of_the_file_itself_is_rolled_back(one, path, pages):
    interrupt(path, pages)
    assert labels(Ledger(path)) == ["first"]
    assert not journal_of(path).exists()


def test_a_file_that_is_moved_with_its_journal_is_whole(one, path, elsewhere):
    interrupt(path)
    moved = elsewhere / path.name
    path.rename(moved)
    journal_of(path).rename(journal_of(moved))
    with pytest.raises(ValueError, match=MOVED.format("it was in another folder")):
        Ledger(moved)
    assert labels(Ledger.moved(moved)) == ["first"]
    assert not journal_of(moved).exists()


def test_a_file_that_is_renamed_without_its_journal_is_refused_and_mended_with_it(one, path):
    interrupt(path, pages=(0,))
    other = path.with_name("other")
    path.rename(other)
    with pytest.raises(ValueError, match=r"damaged.*without its other-journal, put that beside it"):
        Ledger.moved(other)
    journal_of(path).rename(journal_of(other))
    assert labels(Ledger.moved(other)) == ["first"]


def test_no_half_written_file_opens_with_fewer_entries(path, made):
    """Every set of the pages that a write changes, as a kill or a loss of power can leave them, without the journal.

    A copy of such a file is refused, or has all entries, perhaps with the one that was being written. The long test
    covers ledgers of 150 entries.
    """
    half_written_files(path, made, 12)


@pytest.mark.long
def test_no_half_written_file_opens_with_fewer_entries_in_long_ledgers(path, made):
    half_written_files(path, made, 150)


def half_written_files(path, made, entries):
    made()
    log, torn = Log(path=path, timeout=1.0), Log(path=path.with_name("torn"), timeout=1.0)
    seen = set()
    for number in range(1, entries):
        events, before = log.after(None), path.read_bytes()
        with log.writing() as writer:
            writer.add(events[-1], "x" * (300, 900, 3000, 9000)[number % 4])
        after = path.read_bytes()
        pages = [at for at in range(0, len(after), 4096) if before[at : at + 4096] != after[at : at + 4096]]
        for chosen in range(1, 2 ** len(pages) - 1):
            content = bytearray(before)
            for place, at in enumerate(pages):
                if chosen >> place & 1:
                    content.extend(bytes(max(at + 4096 - len(content), 0)))
                    content[at : at + 4096] = after[at : at + 4096]
            torn.path.write_bytes(content)
            try:
                torn.check()
                found = torn.after(None)
                check_chain(torn.path, None, found)
            except ValueError:
                seen.add("refused")
            else:
                assert len(found) - len(events) in (0, 1)
                seen.add(len(found) - len(events))
    assert seen == {"refused", 0, 1}


def test_a_second_name_is_refused_wherever_the_ledger_is_used(one, path, elsewhere):
    other = elsewhere / path.name
    os.link(path, other)
    seen = []
    for step in (
        lambda: Ledger(path),
        lambda: Ledger(other),
        lambda: Ledger.moved(other),
        one.spent,
        lambda: one.spend(pure(0.01)),
        lambda: one.release(Watching(path=path, seen=seen), 1.0),
        lambda: one.backup(elsewhere / "backup"),
    ):
        with pytest.raises(ValueError, match=r"has 2 names \(hard links\).*Remove the other names.*Ledger.backup"):
            step()
    other.unlink()
    assert labels(one) == labels(Ledger(path)) == ["first"]
    assert seen == []


def test_the_name_that_a_killed_maker_left_is_removed(one, path):
    draft = path.with_name(f".{path.name}.{'0f' * 16}")
    os.link(path, draft)
    mine = path.with_name(f".{path.name}.note")
    mine.touch()
    unrelated = path.with_name(f".{path.name}.{'1f' * 16}")
    unrelated.touch()
    assert labels(Ledger(path)) == ["first"]
    assert not draft.exists()
    assert mine.exists()
    assert unrelated.exists()


@pytest.mark.parametrize("way", ["rename", "replace", "copy"])
def test_moved_files_open_after_moved_only(one, path, elsewhere, way):
    """Renamed, replaced by a copy of itself, copied."""
    now = path if way == "replace" else elsewhere / path.name if way == "copy" else path.with_name("now")
    if way == "rename":
        path.rename(now)
    elif way == "copy":
        shutil.copy(path, now)
    else:
        shutil.copy(path, path.with_name("copy"))
        path.with_name("copy").replace(path)
    words = {"rename": "its name was 'toy.ledger'", "copy": "it was in another folder", "replace": "it is another file"}
    refused(now, MOVED.format(words[way]))
    ledger = Ledger.moved(now, at_least=one.head)
    ledger.spend(pure(0.01), label="second")
    assert labels(Ledger(now)) == ["first", "second"]
    head = ledger.head
    assert Ledger.moved(now).head == head  # nothing is written twice
    if way == "copy":  # the former place goes on by itself, until the copy comes back
        shutil.copy(now, path)
        refused(path, MOVED.format("it was in another folder"))


def test_a_renamed_folder_and_a_symbolic_link_are_the_same_place(path, made, tmp_path):
    folder = tmp_path / "before"
    folder.mkdir()
    ledger = Ledger(folder / "l", budget=BUDGET, **TOY)
    ledger.spend(pure(0.01), label="first")
    after = folder.rename(tmp_path / "after")
    link = tmp_path / "link"
    link.symlink_to(after / "l")
    by_link = Ledger(link)
    by_link.spend(pure(0.01), label="second")
    assert labels(Ledger(after / "l")) == ["first", "second"]
    interrupt(after / "l")
    assert labels(Ledger(link)) == ["first", "second"]


def test_a_file_that_is_replaced_while_it_is_written_is_not_drawn_from(one, path, monkeypatch):
    """The write ends in a file that has no name any more: the draw must not be made."""
    seen, write = [], Log.writing

    def replacing(log):
        shutil.copy(path, path.with_name("copy"))
        return _replaced(log)

    @contextmanager
    def _replaced(log):
        with write(log) as writer:
            yield writer
            writer.connection.execute("COMMIT")
            path.with_name("copy").replace(path)
            writer.connection.execute("BEGIN")

    monkeypatch.setattr(Log, "writing", replacing)
    with pytest.raises(ValueError, match=MOVED.format("it is another file")):
        one.release(Watching(path=path, seen=seen), 1.0)
    assert seen == []


def test_a_file_that_is_replaced_before_the_write_is_not_written(one, path, monkeypatch):
    """SQLite itself finds that the file has lost its name."""
    shutil.copy(path, path.with_name("copy"))
    log = Log(path=path, timeout=1.0)
    last = log.after(None)[-1]

    def write():
        with log.writing() as writer:
            path.with_name("copy").replace(path)
            writer.add(last, "{}")

    with pytest.raises(OSError, match="moved or replaced while it was written; nothing was spent"):
        write()


def test_the_file_system_is_compared(one, path, monkeypatch):
    monkeypatch.setattr(places, "_volume", lambda *_: "another")
    refused(path, MOVED.format("its file system was another one, or has a new number"))
    assert labels(Ledger.moved(path)) == ["first"]
    assert labels(Ledger(path)) == ["first"]


def test_what_identifies_a_file_system_elsewhere(path, monkeypatch):
    """Windows has no statvfs and returns more digits of the serial number in later versions; macOS numbers anew."""
    path.touch()
    born = SimpleNamespace(st_birthtime=12.5, st_dev=3 * 2**32 + 7)
    assert places._volume(path, born) == "born 12.5"
    assert places._volume(path, path.stat()) == str(os.statvfs(path).f_fsid)
    monkeypatch.delattr(os, "statvfs")
    assert places._volume(path, born) == "7"


def test_files_of_earlier_versions_are_bound_by_their_first_write(tmp_path):
    """Until then they can be read anywhere, as before."""
    path, copy = tmp_path / "copies.ledger", tmp_path / "copy.ledger"
    shutil.copy(STORED / "ledgers" / "copies.ledger", path)
    path.chmod(0o644)
    ledger = Ledger(path)
    assert (ledger.spent(), ledger.remaining(), len(ledger.history())) == (
        pytest.approx(0.4989780904686584, rel=1e-9), pytest.approx(0.7454156744840487, rel=1e-9), 3,
    )  # fmt: skip
    shutil.copy(path, copy)
    assert Ledger(copy).history() == ledger.history()
    with pytest.raises(BudgetExceeded):  # refused, and not bound either
        ledger.spend(replace(pure(5.0), relation=ledger.relation))
    assert ledger._state.place is None
    ledger.reservation(3).take(0)
    assert ledger._state.place == place_of(path)
    assert len(Ledger(path).history()) == 3
    path.rename(tmp_path / "other")
    with pytest.raises(ValueError, match=MOVED.format("its name was 'copies.ledger'")):
        Ledger(tmp_path / "other")
    assert Ledger.moved(copy)._state.place == place_of(copy)  # bound at once


def test_a_backup_holds_all_and_opens_after_moved(one, path, elsewhere):
    plan = one.reserve([(LAPLACE, 2)])
    plan.take(0)
    backup = elsewhere / "backup"
    assert one.backup(backup) == one.head
    assert [item.name for item in elsewhere.iterdir()] == ["backup"]
    with pytest.raises(ValueError, match=MOVED.format("its name was 'toy.ledger'")):
        Ledger(backup)
    with pytest.raises(FileExistsError):
        one.backup(backup)
    ledger = Ledger.moved(backup, at_least=one.head)
    assert ledger.history() == one.history()
    assert ledger.reservation(2).items[0].left == 1
    with pytest.raises(FileNotFoundError, match="does not exist"):
        one.backup(elsewhere / "missing" / "backup")
    with pytest.raises(TypeError, match="path must be"):
        one.backup(3)


def test_a_head_finds_older_and_other_copies(one, path):
    old = path.read_bytes()
    first = one.head
    one.spend(pure(0.01), label="second")
    assert first.startswith("2:")
    assert Ledger(path).head == one.head != first
    for head in (first, one.head):
        assert Ledger(path, at_least=head).head == one.head
    path.write_bytes(old)  # in place, which nothing else can find
    assert labels(Ledger(path)) == ["first"]
    for open_ in (Ledger, Ledger.moved):
        with pytest.raises(ValueError, match="an older copy: it ends at event 2, and at_least names event 3"):
            open_(path, at_least=one.head)
    Ledger(path).spend(pure(0.02), label="another second")
    for open_ in (Ledger, Ledger.moved):
        with pytest.raises(ValueError, match="another history than at_least names: its event 3 differs"):
            open_(path, at_least=one.head)
    assert labels(Ledger(path, at_least=first)) == ["first", "another second"]


@pytest.mark.parametrize("wrong", ["7", "7:0", "0:0123456789abcdef", "7:0123456789ABCDEF", " 7:0123456789abcdef", 7])
def test_bad_heads_are_refused_before_anything(path, wrong):
    for step in (
        lambda: Ledger(path, budget=BUDGET, **TOY, at_least=wrong),
        lambda: Ledger.moved(path, at_least=wrong),
    ):
        with pytest.raises((ValueError, TypeError), match="at_least must be"):
            step()
    assert not path.exists()


def test_a_ledger_that_should_exist_is_not_begun_anew(path):
    with pytest.raises(FileNotFoundError, match="at_least says that there was one"):
        Ledger(path, budget=BUDGET, **TOY, at_least="7:0123456789abcdef")
    with pytest.raises(FileNotFoundError, match="no ledger at"):
        Ledger.moved(path)
    assert list(path.parent.iterdir()) == []


def test_costs_are_what_the_entries_added(one, made, tmp_path):
    one.spend(pure(0.02), times=3)
    assert one.costs() == {1: pytest.approx(0.01), 2: pytest.approx(0.06)}
    assert one.costs(1) == {2: one.costs(last=9)[2]}
    assert one.cost_measure == "ε spent (nats)"
    copies = Ledger(tmp_path / "copies", budget=DP(epsilon=1), family=pure(0.1), **TOY)
    copies.spend(pure(0.1), times=2)
    copies.spend(pure(0.1))
    assert copies.costs() == {1: 2.0, 2: 1.0}
    assert copies.costs(1) == {2: 1.0}
    assert copies.cost_measure == "copies used"
    with pytest.raises(ValueError, match="last"):
        one.costs(0)


# Several processes at once.


def at_once(*steps):
    """Run the steps in threads that start together; each opens the file by itself, as processes do."""
    gate, errors = threading.Barrier(len(steps)), []

    def run(step):
        gate.wait()
        try:
            step()
        except Exception as error:  # noqa: BLE001
            errors.append(error)

    threads = [threading.Thread(target=run, args=(step,)) for step in steps]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []


def test_several_that_open_a_moved_ledger_bind_it_once(one, path):
    now = path.rename(path.with_name("now"))
    at_once(*[lambda: Ledger.moved(now).spend(pure(0.01))] * 4)
    events = [json.loads(event.document)["event"] for event in Log(path=now, timeout=1.0).after(None)]
    assert events.count("place") == 1
    assert events.count("spend") == 5
    assert len(Ledger(now).history()) == 5


def test_backups_beside_writers_hold_all_entries_of_a_moment(one, path):
    heads = []

    def back_up():
        for number in range(5):
            before = len(Ledger(path).history())
            copy = path.with_name(f"backup {number}")
            heads.append(one.backup(copy))
            assert len(Ledger.moved(copy, at_least=heads[-1]).history()) >= before

    def write():
        for _ in range(5):
            Ledger(path).spend(pure(0.001))

    at_once(back_up, write, write)
    assert len(Ledger(path).history()) == 11
    for head in heads:
        Ledger(path, at_least=head)


# The journal itself.


def written(path, records, content=b"", nonce=b"\1\2\3\4", sector=512, size=512):
    numbers = [records, int.from_bytes(nonce, "big"), 1, sector, size]
    head = bytes.fromhex("d9d505f920a163d7") + b"".join(number.to_bytes(4, "big") for number in numbers)
    path.write_bytes(head.ljust(sector, b"\0") + content)


def record(page, commits, size=512):
    return page.to_bytes(4, "big") + (bytes(24) + commits.to_bytes(4, "big")).ljust(size, b"\0") + bytes(4)


def test_journals_are_read(tmp_path):
    path = tmp_path / "l-journal"
    assert read_journal(path) is None
    path.write_bytes(b"\xd9\xd5\x05")
    assert read_journal(path) is None
    path.write_bytes(bytes(600))  # as after a write with a journal that is kept
    assert read_journal(path) is None
    for records in (2, 0xFFFFFFFF):
        written(path, records, record(2, 9) + record(1, 5))
        assert read_journal(path) == Journal(identity=path.read_bytes()[:28], commits=5)
    for records, size in ((0, 512), (1, 512), (3, 512), (2, 100)):
        written(path, records, record(2, 9) + record(3, 5), size=size)
        assert read_journal(path).commits is None


def test_a_journal_without_the_first_page_is_refused(one, path):
    written(journal_of(path), 1, record(2, 0, size=4096), size=4096)
    refused(path, "unfinished write of another state")


def test_a_journal_that_changes_is_looked_at_again(one, path, monkeypatch):
    """Other processes are writing: neither refused nor waited for without end."""
    written(journal_of(path), 0)
    looks, sleeps = [], []

    def look(path):
        looks.append(path)
        written(journal_of(path), 0, nonce=len(looks).to_bytes(4, "big"))
        return b""

    def fail(path):
        raise sqlite3.OperationalError("unable to open database file")

    monkeypatch.setattr("privsample.accounting.ledger.journal._LOOKS", 5)
    monkeypatch.setattr("privsample.accounting.ledger.journal.time.sleep", sleeps.append)
    monkeypatch.setattr("privsample.accounting.ledger.journal._content", look)
    check_journal(path)
    assert len(looks) == len(sleeps) == 5
    monkeypatch.setattr("privsample.accounting.ledger.journal._content", fail)
    check_journal(path)  # the caller opens the file next, and says why that fails


def test_the_look_at_a_journal_keeps_the_locks_of_other_threads(one, path):
    """To open and close the file outside of SQLite would drop them."""
    log = Log(path=path, timeout=0.01)
    with log.writing() as writer:
        last = writer.after(None)[-1]
        writer.add(last, "{}")
        assert journal_of(path).exists()
        check_journal(path)
        code = (
            "import sqlite3, sys; c = sqlite3.connect(sys.argv[1], timeout=0, isolation_level=None);"
            "\ntry: c.execute('BEGIN IMMEDIATE')\nexcept sqlite3.OperationalError as error: print(error)"
        )
        ran = subprocess.run([sys.executable, "-S", "-c", code, path], capture_output=True, text=True, check=True)
        assert "locked" in ran.stdout
        writer.connection.execute("ROLLBACK")
        writer.connection.execute("BEGIN")


def test_events_have_heads():
    assert Event(number=7, document="{}", digest="0123456789abcdef" * 4).head == "7:0123456789abcdef"

"""Kills writers of a ledger at random times, while an owner copies, moves, links and restores its file.

Usage: python tools/ledger_kills.py [--kills 300] [--seed 0] [--writers 3] [--folder FOLDER] [--kilobytes K]

Each writer draws from one ledger and notes, in a file of its own, each draw and each head that it has seen. Between the
kills the owner does what owners do, and then what the messages of the ledger say. At the end each draw must have an
entry. With --kilobytes the size of the files that writers write is limited, in place of a small disk: spends then fail,
at any place of a write, and a new ledger is begun when one has been full for a while. The last line counts lost spends
and draws without a spend; the exit code is 1 unless both are 0.
"""

import argparse
import json
import os
import random
import resource
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from privsample import DP, AddRemove, LaplaceMechanism
from privsample.accounting.ledger import Ledger
from privsample.accounting.ledger.journal import read_journal

COST = LaplaceMechanism(sensitivity=1, scale=1e6)
SETTINGS: dict[str, Any] = {"budget": DP(epsilon=1), "relation": AddRemove(), "dataset": "kills"}
LONGEST_WAIT = 0.3  # seconds until a kill
FULL_ROUNDS = 7  # kills of all writers on a full disk, each followed by another action of the owner


class Noted:
    """A mechanism that notes its draw before it is made, as an adversary would see it."""

    def __init__(self, notes: int, label: str) -> None:
        self.notes, self.label, self.accountant = notes, label, COST.accountant

    def release(self, data: object) -> object:
        """Note the draw: a line that is written at once survives the kill of this process."""
        write(self.notes, "drawn", self.label)
        return data


def write(notes: int, kind: str, what: str) -> None:
    """Write one line in one call."""
    os.write(notes, f"{kind} {what}\n".encode())


def draw(path: Path, notes: int, label: str) -> None:
    """Draw once, and note the spend and the head."""
    ledger = Ledger(path)
    ledger.release(Noted(notes, label), None, label=label)
    write(notes, "spent", label)
    write(notes, "head", ledger.head)


def writer(path: Path, notes: int, name: str, seed: int, kilobytes: int | None) -> None:
    """Draw without end; errors of the ledger are noted."""
    if kilobytes is not None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (1024 * kilobytes, resource.RLIM_INFINITY))
    length = random.Random(seed)
    for number in range(sys.maxsize):
        label = f"{name}-{number}-{'x' * length.choice((0, 0, 300, 900))}"
        try:
            draw(path, notes, label)
        except (OSError, ValueError) as error:
            write(notes, "full" if "free some space" in str(error) else "refused", type(error).__name__)
            time.sleep(0.001)


class Run:
    """One run: the ledger of an owner, and what was seen of it."""

    def __init__(self, folder: Path, seed: int, writers: int, kilobytes: int | None) -> None:
        self.chance, self.writers, self.kilobytes = random.Random(seed), writers, kilobytes
        self.base = folder
        (folder / "home").mkdir()
        self.path = folder / "home" / "l"
        self.notes = os.open(folder / "notes", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        self.counts: Counter[str] = Counter()
        Ledger(self.path, **SETTINGS)

    def noted(self, kind: str) -> list[str]:
        """What the notes say of a kind, oldest first."""
        lines = (self.base / "notes").read_text().splitlines()
        return [line.partition(" ")[2] for line in lines if line.startswith(f"{kind} ")]

    def head(self) -> str | None:
        """The newest head that anyone has noted."""
        return max(self.noted("head"), key=lambda head: int(head.partition(":")[0]), default=None)

    def journal(self, path: Path) -> Path:
        """The journal of the file."""
        return path.with_name(f"{path.name}-journal")

    def kill_writers(self) -> None:
        """Start writers and kill them at a random time, or as soon as one has half of a write in the file."""
        children = []
        for number in range(self.writers):
            name, seed = f"{self.counts['kills']}-{number}", self.chance.randrange(2**32)
            child = os.fork()
            if not child:
                try:
                    writer(self.path, self.notes, name, seed, self.kilobytes)
                finally:
                    os._exit(1)
            children.append(child)
        until = time.monotonic() + self.chance.uniform(0.0, LONGEST_WAIT)
        in_a_write = self.chance.random() < 0.5  # kills at random times rarely leave a journal
        while time.monotonic() < until and not (in_a_write and read_journal(self.journal(self.path))):
            time.sleep(0.0 if in_a_write else 0.001)
        for child in children:
            os.kill(child, signal.SIGKILL)
        for child in children:
            os.waitpid(child, 0)
            self.counts["kills"] += 1
        self.counts["journals left"] += read_journal(self.journal(self.path)) is not None

    def try_to_open(self, open_: Callable[[Path], Ledger], path: Path) -> Ledger | None:
        """Open the file, or count the refusal."""
        try:
            return open_(path)
        except ValueError as refusal:
            words = ("not where it was", "unfinished write", "hard links", "older copy", "another history", "damaged")
            self.counts["refused: " + next((word for word in words if word in str(refusal)), str(refusal))] += 1
            return None

    def opened(self, path: Path, aside: Path | None = None) -> Ledger | None:
        """Open a file that may have moved, by the advice of the messages; `aside` is where its journal was left."""
        ledger = self.try_to_open(Ledger, path) or self.try_to_open(Ledger.moved, path)
        if ledger is None and self.journal(path).exists():  # "move FILE-journal to another folder"
            self.journal(path).rename(self.base / f"journal-{self.counts['kills']}")
            self.counts["journals moved away"] += 1
            ledger = self.try_to_open(Ledger.moved, path)
        if ledger is None and aside is not None and aside.exists():  # "put that beside it"
            aside.rename(self.journal(path))
            self.counts["journals put back"] += 1
            ledger = self.try_to_open(Ledger.moved, path)
        return ledger

    def draw(self, path: Path, times: int) -> None:
        """Draw from a file that opens."""
        for _ in range(times):
            self.counts["draws of the owner"] += 1
            draw(path, self.notes, f"owner-{self.counts['draws of the owner']}")

    # What owners do. Whoever takes a copy uses it alone until it comes back.

    def copy_and_bring_back(self) -> None:
        """Copy the file without its journal, use the copy, and copy it back."""
        folder = self.base / f"copy-{self.counts['kills']}"
        folder.mkdir()
        copy = folder / self.path.name
        shutil.copy(self.path, copy)
        if self.opened(copy) is None:  # half a write is in it: its journal must come along
            shutil.copy(self.path, copy)
            shutil.copy(self.journal(self.path), self.journal(copy))
            assert self.opened(copy) is not None
        self.draw(copy, self.chance.choice((0, 1, 1, 2, 5)))
        shutil.copy(copy, self.path)
        assert self.opened(self.path) is not None

    def rename_and_rename_back(self) -> None:
        """Rename the file without its journal, use it, and rename it back."""
        other = self.path.with_name("other")
        self.path.rename(other)
        assert self.opened(other, aside=self.journal(self.path)) is not None
        self.draw(other, self.chance.choice((0, 1, 1, 2, 5)))
        other.rename(self.path)
        assert self.opened(self.path) is not None

    def move_folder(self) -> None:
        """Rename the folder with all that is in it: the ledger stays open to all."""
        folder = self.base / f"home-{self.counts['kills']}"
        self.path.parent.rename(folder)
        self.path = folder / self.path.name
        Ledger(self.path)
        self.draw(self.path, 1)

    def link(self) -> None:
        """Give the file a second name: it is refused under both, while writers are killed, until the name is gone."""
        folder = self.base / f"link-{self.counts['kills']}"
        folder.mkdir()
        name = folder / self.path.name
        os.link(self.path, name)
        assert self.try_to_open(Ledger, name) is None
        assert self.try_to_open(Ledger.moved, name) is None
        drawn = len(self.noted("drawn"))
        self.kill_writers()
        assert len(self.noted("drawn")) == drawn
        name.unlink()
        Ledger(self.path)

    def use_symbolic_link(self) -> None:
        """Draw through a symbolic link: the journal is beside the file all the same."""
        name = self.base / f"symbolic-{self.counts['kills']}"
        name.symlink_to(self.path)
        self.draw(name, 2)

    def restore_older(self) -> None:
        """Restore an older copy in place: the head that was kept finds it, and the newest copy is put back."""
        before = self.base / "before"
        shutil.copy(self.path, before)
        ledger = self.opened(self.path)
        assert ledger is not None
        self.draw(self.path, 1)
        newest = self.base / "newest"
        newest.unlink(missing_ok=True)
        head = Ledger(self.path).backup(newest)
        shutil.copy(before, self.path)
        assert self.try_to_open(lambda path: Ledger(path, at_least=head), self.path) is None
        self.path.unlink()
        self.journal(self.path).unlink(missing_ok=True)
        shutil.copy(newest, self.path)
        assert self.try_to_open(lambda path: Ledger.moved(path, at_least=head), self.path) is not None

    def back_up_while_others_write(self) -> None:
        """Write a backup while others write: it has all entries of some moment."""
        child = os.fork()
        if not child:
            try:
                writer(self.path, self.notes, f"beside-{self.counts['kills']}", 0, self.kilobytes)
            finally:
                os._exit(1)
        copy = self.base / f"backup-{self.counts['kills']}"
        before = set(self.noted("spent"))
        try:
            head = Ledger(self.path).backup(copy)
            labels = {entry.label for entry in Ledger.moved(copy, at_least=head).history()}
            self.counts["lost spends"] += len(before - labels)
        finally:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            self.counts["kills"] += 1

    def run(self, kills: int) -> None:
        """Kill and disturb, then count."""
        actions = [
            self.copy_and_bring_back,
            self.rename_and_rename_back,
            self.move_folder,
            self.link,
            self.use_symbolic_link,
            self.restore_older,
            self.back_up_while_others_write,
        ]
        full_rounds = 0
        while self.counts["kills"] < kills and full_rounds < FULL_ROUNDS:
            full = len(self.noted("full"))
            self.kill_writers()
            full_rounds += len(self.noted("full")) > full
            if not self.counts["rounds"] % len(actions):
                self.chance.shuffle(actions)
            action = actions[self.counts["rounds"] % len(actions)]
            self.counts["rounds"] += 1
            self.counts[action.__name__] += 1
            action()
        ledger = Ledger(self.path, at_least=self.head())
        labels = Counter(entry.label for entry in ledger.history())
        self.counts["entries"], self.counts["draws"] = labels.total(), len(self.noted("drawn"))
        self.counts["refusals of writers"], self.counts["full disks"] = (
            len(self.noted("refused")),
            len(self.noted("full")),
        )
        self.counts["draws without a spend"] = (Counter(self.noted("drawn")) - labels).total()
        self.counts["lost spends"] += (Counter(self.noted("spent")) - labels).total()
        assert self.counts["draws"], "no writer has drawn: the run proves nothing"


def main() -> int:
    """Run, print the counts, and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--writers", type=int, default=3)
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--kilobytes", type=int)
    args = parser.parse_args()
    counts: Counter[str] = Counter({"lost spends": 0, "draws without a spend": 0})
    while counts["kills"] < args.kills:
        with tempfile.TemporaryDirectory(dir=args.folder) as folder:
            run = Run(Path(folder), args.seed + counts["ledgers"], args.writers, args.kilobytes)
            run.run(args.kills - counts["kills"])
        counts.update(run.counts, ledgers=1)
    print(json.dumps(counts))
    return 0 if not counts["lost spends"] + counts["draws without a spend"] else 1


if __name__ == "__main__":
    sys.exit(main())

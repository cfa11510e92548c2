"""The ledger under several processes, and under kill -9."""

import multiprocessing
import os
import signal
import threading
import time
from contextlib import suppress

import pytest

from privsample import DP, LaplaceMechanism
from privsample.accounting.ledger import Ledger
from privsample.errors import BudgetExceeded
from tests.accounting.ledger.shared import TOY, pure

ONE = DP(epsilon=1)
killing = pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="no kill -9 on this system")
# A server that has imported the ledger forks the processes, which then need not import it again; on systems without
# one each process starts anew.
SERVED = "forkserver" in multiprocessing.get_all_start_methods()
PROCESSES = multiprocessing.get_context("forkserver" if SERVED else "spawn")
if SERVED:
    PROCESSES.set_forkserver_preload(["pytest", "privsample.accounting.ledger", "tests.accounting.ledger.shared"])


class Killed:
    """A mechanism whose process is killed when it should draw."""

    accountant = LaplaceMechanism(sensitivity=1, scale=4).accountant

    def __init__(self, drawn):
        self.drawn = drawn

    def release(self, data):
        os.kill(os.getpid(), signal.SIGKILL)
        self.drawn.touch()


def draw(path, how, drawn):
    """Be killed between the spend and the draw."""
    ledger = Ledger(path)
    if how == "release":
        ledger.release(Killed(drawn), 1.0)
    else:
        plan, mark = ledger.reservation(1), Ledger._mark_draw

        def killed(*of):
            mark(*of)
            os.kill(os.getpid(), signal.SIGKILL)

        Ledger._mark_draw = killed
        plan.release(0, 1.0)
    drawn.touch()


def spend_without_end(path, reported):
    """Spend, and report the number of each entry in a line that a kill cannot take back."""
    ledger, file = Ledger(path), os.open(reported, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.write(file, b"0\n")
    while True:
        os.write(file, f"{ledger.spend(pure(1e-6)).number}\n".encode())


def die_in_a_write(path):
    """Be killed with half a write in the file."""
    ledger = Ledger(path)
    with ledger._log.writing() as writer:
        writer.connection.execute("PRAGMA cache_size = 1")
        last = ledger._state.last
        for _ in range(300):
            last = writer.add(last, "x" * 2000)
        os.kill(os.getpid(), signal.SIGKILL)


def run(target, *words):
    """Run a process to its end, and return its exit code."""
    process = PROCESSES.Process(target=target, args=words)
    process.start()
    process.join(60)
    return process.exitcode


def race(path, gate, won):
    """Spend 0.01 until nothing is left."""
    ledger, count = Ledger(path, budget=ONE, **TOY), 0
    gate.wait()
    with suppress(BudgetExceeded):
        for _ in range(101):
            ledger.spend(pure(0.01))
            count += 1
    won.put(count)


def test_eight_processes_racing_for_the_budget_never_exceed_it(path, made):
    """They race for the making of the file, too."""
    gate, won = PROCESSES.Barrier(8), PROCESSES.Queue()
    workers = [PROCESSES.Process(target=race, args=(path, gate, won)) for _ in range(8)]
    for worker in workers:
        worker.start()
    counts = [won.get(timeout=120) for _ in workers]
    for worker in workers:
        worker.join()
    assert sum(counts) == 100
    ledger = made(ONE)
    assert (ledger.spent(), ledger.remaining(), len(ledger.history())) == (1.0, 0.0, 100)


def test_threads_share_one_ledger(made):
    ledger, won = made(ONE), []

    def run():
        with suppress(BudgetExceeded):
            while True:
                won.append(ledger.spend(pure(0.05)).number)

    threads = [threading.Thread(target=run) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(won) == list(range(1, 21))
    assert ledger.spent() == 1.0


@killing
@pytest.mark.parametrize("how", ["release", "plan"])
def test_a_kill_between_spend_and_draw_wastes_the_spend(tmp_path, made, how):
    ledger = made(ONE)
    if how == "plan":
        ledger.reserve([LaplaceMechanism(sensitivity=1, scale=4)])
    assert run(draw, ledger.path, how, tmp_path / "drawn") == -signal.SIGKILL
    assert not (tmp_path / "drawn").exists()
    again = Ledger(ledger.path)
    assert again.spent() == ledger.spent() == 0.25
    assert len(again.history()) == 1
    if how == "plan":
        with pytest.raises(BudgetExceeded, match="no draw is left"):
            again.reservation(1).release(0, 1.0)


@killing
@pytest.mark.parametrize(
    "waits", [(0.001, 0.05), pytest.param((0.0, 0.001, 0.007, 0.0143, 0.03, 0.05), marks=pytest.mark.long)]
)
def test_a_kill_at_any_moment_loses_no_entry(waits, tmp_path, made):
    """Whatever a killed process had reported as spent is there, at most one entry more, and the file is in order."""
    ledger, reports = made(ONE), tmp_path / "reported"
    for wait in waits:
        before = len(ledger.history())
        reports.unlink(missing_ok=True)
        process = PROCESSES.Process(target=spend_without_end, args=(ledger.path, reports))
        process.start()
        while not (reports.exists() and reports.read_text()):
            time.sleep(0.001)
        time.sleep(wait)
        process.kill()
        process.join()
        numbers = [int(line) for line in reports.read_text().split()]
        reported = max([before, *numbers])
        history = Ledger(ledger.path).history()
        assert reported <= len(history) <= reported + 1
    ledger.spend(pure(0.1))
    assert Ledger(ledger.path).spent() == pytest.approx(0.1 + 1e-6 * (len(ledger.history()) - 1), rel=1e-12)


@killing
def test_a_kill_while_the_journal_is_hot_rolls_back(tmp_path, made):
    """A writer that dies with half a transaction in the file leaves the state before it."""
    ledger = made(ONE)
    ledger.spend(pure(0.25))
    assert run(die_in_a_write, ledger.path) == -signal.SIGKILL
    assert (tmp_path / "toy.ledger-journal").exists()
    assert Ledger(ledger.path).spent() == ledger.spent() == 0.25
    ledger.spend(pure(0.25))
    assert [path.name for path in tmp_path.iterdir()] == ["toy.ledger"]

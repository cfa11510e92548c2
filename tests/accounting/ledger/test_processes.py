"""The ledger under several processes, and under kill -9."""

import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

import pytest

import privsample
from privsample import DP
from privsample.accounting.ledger import Ledger
from privsample.errors import BudgetExceeded
from tests.accounting.ledger.shared import TOY, pure

ROOT = Path(privsample.__file__).parents[1]
ONE = DP(epsilon=1)
killing = pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="no kill -9 on this system")
# A server that has imported the ledger forks the processes, which then need not import it again; on systems without
# one each process starts anew.
SERVED = "forkserver" in multiprocessing.get_all_start_methods()
PROCESSES = multiprocessing.get_context("forkserver" if SERVED else "spawn")
if SERVED:
    PROCESSES.set_forkserver_preload(["privsample.accounting.ledger", "tests.accounting.ledger.shared"])
DRAW = """
import os, signal, sys
from pathlib import Path
from privsample import LaplaceMechanism
from privsample.accounting.ledger import Ledger

class Killed:
    accountant = LaplaceMechanism(sensitivity=1, scale=4).accountant
    def release(self, data):
        os.kill(os.getpid(), signal.SIGKILL)
        Path("drawn").touch()

ledger = Ledger("toy.ledger")
if sys.argv[1] == "plan":
    plan = ledger.reservation(1)
    mark = ledger._mark_draw
    def killed(*of):
        mark(*of)
        os.kill(os.getpid(), signal.SIGKILL)
    type(ledger)._mark_draw = lambda self, *of: killed(*of)
    plan.release(0, 1.0)
else:
    ledger.release(Killed(), 1.0)
Path("drawn").touch()
"""
SPEND = """
from privsample import PureAccountant
from privsample.accounting.ledger import Ledger
ledger = Ledger("toy.ledger")
print("ready", flush=True)
while True:
    print(ledger.spend(PureAccountant(stated_epsilon=1e-6)).number, flush=True)
"""


def start(program, folder, *words, **settings):
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    environment.pop("COVERAGE_PROCESS_START", None)
    return subprocess.Popen([sys.executable, "-c", program, *words], cwd=folder, env=environment, **settings)


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
        ledger.reserve([privsample.LaplaceMechanism(sensitivity=1, scale=4)])
    assert start(DRAW, tmp_path, how).wait() == -signal.SIGKILL
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
    ledger = made(ONE)
    for wait in waits:
        before = len(ledger.history())
        process = start(SPEND, tmp_path, stdout=subprocess.PIPE, text=True)
        assert process.stdout.readline() == "ready\n"
        time.sleep(wait)
        process.kill()
        numbers = [int(line) for line in process.stdout.read().split("\n")[:-1]]
        process.stdout.close()
        process.wait()
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
    program = """
import os, signal
from privsample.accounting.ledger import Ledger
ledger = Ledger("toy.ledger")
with ledger._log.writing() as writer:
    writer.connection.execute("PRAGMA cache_size = 1")
    last = ledger._state.last
    for _ in range(300):
        last = writer.add(last, "x" * 2000)
    os.kill(os.getpid(), signal.SIGKILL)
"""
    assert start(program, tmp_path).wait() == -signal.SIGKILL
    assert (tmp_path / "toy.ledger-journal").exists()
    assert Ledger(ledger.path).spent() == ledger.spent() == 0.25
    ledger.spend(pure(0.25))
    assert [path.name for path in tmp_path.iterdir()] == ["toy.ledger"]

"""Runs of chains: the same for any workers, stopped by interrupts and errors, with progress and bounded threads."""

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import ClassVar

import joblib
import numpy as np
import pytest

import privsample as ps
from privsample.inference import chains as module
from privsample.inference.chains import Observation, run_chains
from privsample.inference.records import ExponentialRecords

OBSERVATION = Observation(
    model=ps.GammaExponential(4, 4, upper=1.5), n=20, noise=ps.LaplaceNoise(scale=3.0), observed=np.array([14.0])
)


def make():
    return ExponentialRecords(OBSERVATION)


class Counter:
    """A chain whose state is the number of its sweeps, and which records how often it was tuned."""

    made: ClassVar[list["Counter"]] = []

    def __init__(self):
        self.tuned = self.sweeps = 0
        Counter.made.append(self)

    def start(self, rng):
        self.first = float(rng.random())

    def sweep(self, rng, *, tuning):
        self.tuned += tuning
        self.sweeps += 1
        return self.sweeps / 100

    def parameters(self):
        return {"sweeps": np.asarray(float(self.sweeps)), "pair": np.array([self.first, self.tuned])}


def test_draws_follow_one_chain_after_the_other_without_the_tuning():
    Counter.made.clear()
    trace = run_chains(Counter, draws=3, tune=5, chains=2, rng=np.random.default_rng(1))
    assert trace.draws["sweeps"].tolist() == [6, 7, 8, 6, 7, 8]
    assert trace.draws["pair"].shape == (6, 2)
    assert set(trace.draws["pair"][:, 1]) == {5}
    assert trace.acceptance.tolist() == [0.06, 0.07, 0.08] * 2
    assert len({chain.first for chain in Counter.made}) == 2


def config(**given):
    return joblib.parallel_config(**given)


@pytest.mark.parametrize(
    "given", [{"n_jobs": 1}, {"n_jobs": 2, "backend": "threading"}, {"n_jobs": 3}, {"n_jobs": 2, "backend": "loky"}]
)
def test_results_do_not_depend_on_the_workers(given):
    expected = run_chains(make, draws=20, tune=20, chains=3, rng=np.random.default_rng(7))
    with config(**given):
        found = run_chains(make, draws=20, tune=20, chains=3, rng=np.random.default_rng(7))
    assert (found.draws["rate"] == expected.draws["rate"]).all()
    assert (found.acceptance == expected.acceptance).all()
    assert len(np.unique(found.draws["rate"].reshape(3, 20)[:, -1])) == 3


def test_two_runs_with_one_generator_differ_and_seeds_repeat():
    rng = np.random.default_rng(3)
    first, second = (run_chains(make, draws=5, tune=1, chains=1, rng=rng).draws["rate"] for _ in range(2))
    again = run_chains(make, draws=5, tune=1, chains=1, rng=np.random.default_rng(3)).draws["rate"]
    assert (first != second).any()
    assert (first == again).all()


@pytest.mark.parametrize("threaded", [False, True])
def test_chains_in_python_run_one_after_the_other_by_default(threaded, monkeypatch):
    monkeypatch.setattr("joblib.cpu_count", lambda: 2)
    places = []

    class Placed(Counter):
        def start(self, rng):
            super().start(rng)
            places.append(threading.current_thread() is threading.main_thread())

    run_chains(Placed, draws=1, tune=1, chains=2, rng=np.random.default_rng(3), threaded=threaded)
    assert places == [not threaded] * 2


class Failing(Counter):
    """The chain that is made first fails in its third sweep; the others would never end."""

    error: type[BaseException] = ValueError
    lock = threading.Lock()
    count = 0

    def __init__(self):
        super().__init__()
        with Failing.lock:
            Failing.count += 1
            self.fails = Failing.count == 1

    def sweep(self, rng, *, tuning):
        if self.fails and self.sweeps == 2:
            raise self.error("stop")
        return super().sweep(rng, tuning=tuning)


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_a_failure_ends_the_other_chains(error, monkeypatch):
    """They would make 10^9 sweeps."""
    monkeypatch.setattr(Failing, "error", error)
    monkeypatch.setattr(Failing, "count", 0)
    before = set(threading.enumerate())  # other tests may leave threads
    with config(n_jobs=2, backend="threading"), pytest.raises(error, match="stop"):
        run_chains(Failing, draws=1, tune=10**9, chains=2, rng=np.random.default_rng(1))
    started = set(threading.enumerate()) - before
    for thread in started:
        thread.join(timeout=5)
    assert not [thread.name for thread in started if thread.is_alive()]


def test_an_interrupt_ends_a_single_chain(monkeypatch):
    monkeypatch.setattr(Failing, "error", KeyboardInterrupt)
    monkeypatch.setattr(Failing, "count", 0)
    with pytest.raises(KeyboardInterrupt):
        run_chains(Failing, draws=1, tune=10**9, chains=1, rng=np.random.default_rng(1))


@pytest.mark.parametrize("given", [{"n_jobs": 1}, {"n_jobs": 2}, {"n_jobs": 2, "backend": "loky"}])
def test_progress_counts_all_sweeps(given, monkeypatch):
    pytest.importorskip("rich", reason="draws progress bars")
    steps = []

    class Bar:
        def __init__(self, title, total, *, wanted):
            steps.append(("total", total, wanted))

        def __enter__(self):
            return steps.append

        def __exit__(self, *_):
            return None

    monkeypatch.setattr(module, "progress_bar", Bar)
    with config(**given):
        run_chains(make, draws=13, tune=30, chains=2, rng=np.random.default_rng(1), progress=True)
    assert steps[0] == ("total", 86, True)
    assert sum(steps[1:]) == 86


def test_the_bar_is_shown_on_standard_error_on_request_only(capsys):
    pytest.importorskip("rich", reason="draws progress bars")
    run_chains(make, draws=2, tune=2, chains=1, rng=np.random.default_rng(1))
    assert capsys.readouterr() == ("", "")
    run_chains(make, draws=2, tune=2, chains=1, rng=np.random.default_rng(1), progress=True)
    out, err = capsys.readouterr()
    assert out == ""
    assert "sampling" in err


def test_a_bar_without_rich_is_refused_before_sampling(monkeypatch):
    monkeypatch.setitem(sys.modules, "rich", None)
    with pytest.raises(ImportError, match=r"pip install 'privsample\[cli\]'"):
        run_chains(Counter, draws=2, tune=2, chains=1, rng=np.random.default_rng(1), progress=True)


def test_what_cannot_be_sent_to_other_processes_is_named():
    lock = threading.Lock()

    def made():
        lock.acquire(blocking=False)
        return make()

    with config(n_jobs=2, backend="loky"), pytest.raises(TypeError, match=r"backend=\"threading\""):
        run_chains(made, draws=2, tune=2, chains=2, rng=np.random.default_rng(1))


INTERRUPTED = """
import signal, sys, threading
signal.signal(signal.SIGINT, signal.default_int_handler)  # a process in the background of a shell ignores it
import joblib
import numpy as np
from privsample.inference.chains import run_chains

class Endless:
    waited = threading.Event()
    def start(self, rng): pass
    def parameters(self): return {}
    def sweep(self, rng, *, tuning):
        if not Endless.waited.is_set():
            Endless.waited.set()
            print("started", flush=True)
        threading.Event().wait(1e-3)
        return 1.0

try:
    with joblib.parallel_config(n_jobs=int(sys.argv[1]), backend="threading"):
        run_chains(Endless, draws=1, tune=10**9, chains=2, rng=np.random.default_rng(1))
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""


@pytest.mark.parametrize("workers", [1, 2])
def test_control_c_raises_keyboard_interrupt_and_the_process_goes_on(workers):
    """The process prints a line after the interrupt, and ends by itself: no thread is left that keeps it alive."""
    root = Path(ps.__file__).parents[1]
    with subprocess.Popen(
        [sys.executable, "-c", INTERRUPTED, str(workers)],
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": str(root)},
    ) as process:
        assert process.stdout.readline() == "started\n"
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=120)
    assert out == "interrupted\n"
    assert process.returncode == 0

"""Kills of writers while an owner copies, moves, links and restores the file: no spend is lost, each draw has one."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

TOOL = Path(__file__).parents[3] / "tools" / "ledger_kills.py"
BROKEN = f"""
import sys
sys.path.insert(0, {str(TOOL.parent)!r})
import ledger_kills
from privsample.accounting.ledger import log
log.check_journal = lambda path: None
sys.exit(ledger_kills.main())
"""
pytestmark = pytest.mark.skipif(
    not (hasattr(signal, "SIGKILL") and hasattr(os, "fork")), reason="no kill -9 or no fork on this system"
)


def run(program, tmp_path, **options):
    words = [word for name, value in options.items() for word in (f"--{name}", str(value))]
    environment = {**os.environ, "PYTHONPATH": str(TOOL.parents[1])}
    environment.pop("COVERAGE_PROCESS_START", None)
    return subprocess.run(
        [sys.executable, *program, "--folder", str(tmp_path), *words],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )


def counts_of(ran):
    """The counts of a run in which nothing was lost."""
    assert ran.returncode == 0, ran.stdout + ran.stderr
    found = json.loads(ran.stdout)
    assert (found["lost spends"], found["draws without a spend"]) == (0, 0)
    assert found["draws"] > 0
    return found


def test_no_kill_loses_a_spend(tmp_path):
    """Each of the owner's actions, with one writer: that it runs; the long tests kill at all places of a write."""
    found = counts_of(run([TOOL], tmp_path, kills=9, writers=1))
    assert found["refused: hard links"] > 0
    assert found["refused: not where it was"] > 0


@pytest.mark.long
@pytest.mark.parametrize("limit", [{}, {"kilobytes": 64}], ids=["", "64 kB"])
def test_no_kill_loses_a_spend_in_hundreds(limit, tmp_path):
    found = counts_of(run([TOOL], tmp_path, kills=300, seed=os.getpid(), **limit))
    assert found["refused: unfinished write"] > 0
    if limit:
        assert found["full disks"] > 0


@pytest.mark.long
def test_spends_are_lost_if_the_journal_is_not_compared(tmp_path):
    """The broken copy, which must be found: by its counts, or by the owner, who cannot open a newest copy."""
    ran = run(["-c", BROKEN], tmp_path, kills=600)
    assert ran.returncode == 1
    assert "AssertionError" in ran.stderr or json.loads(ran.stdout)["lost spends"] > 0

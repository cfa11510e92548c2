"""Measuring what tests run: missed lines and branches fail the run, joined over workers."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

SOURCE = """def size(x):
    if x < 0:
        x = -x
    return x
"""
TESTS = {
    "whole": "from part.sizes import size\ndef test_both():\n    assert size(-2) == size(2) == 2\n",
    "half": "from part.sizes import size\ndef test_minus():\n    assert size(-2) == 2\n",
    "none": "def test_nothing(): pass\n",
}


@pytest.mark.parametrize(
    ("tests", "passes", "shown"),
    [("whole", True, "all were run"), ("half", False, "2->4"), ("none", False, "1-4")],
)
def test_a_run_that_misses_a_line_or_a_branch_fails(tmp_path: Path, tests: str, passes: bool, shown: str) -> None:
    (tmp_path / "part").mkdir()
    (tmp_path / "part" / "sizes.py").write_text(SOURCE, encoding="utf-8")
    (tmp_path / "test_sizes.py").write_text(TESTS[tests], encoding="utf-8")
    (tmp_path / "pytest.ini").write_text("[pytest]\npythonpath = .\n", encoding="utf-8")
    workers = "1" if tests == "whole" else "0"  # a worker returns what it saw
    words = ["-p", "measured", "-p", "no:cacheprovider", "-n", workers, "--measure", "part", "--require-all"]
    outer = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}  # of this run
    run = subprocess.run(
        [sys.executable, "-m", "pytest", *words],
        cwd=tmp_path,
        env=outer | {"PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), *sys.path])},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (run.returncode == 0) is passes, run.stdout + run.stderr
    assert shown in run.stdout

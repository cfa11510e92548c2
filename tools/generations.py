"""Run tests/interop on the other generation of PyMC and ArviZ, if an interpreter for it is on this machine.

Python 3.11 gets PyMC 5 and ArviZ 0.23, Python 3.12 and newer get PyMC 6 and ArviZ 1: the other generation needs
another interpreter. The statistical tests, which take longest, run on the interpreter of `make test` only: a generation
changes the functions of PyMC and ArviZ, and tests that compare densities with enumeration run on both. Standard library
only.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
NAMES = ("python3.12", "python3.13", "python3.14", "python3.11")
PROBE = "import sys, venv, ensurepip; print('%d.%d' % sys.version_info[:2])"


def candidates() -> Iterator[str]:
    """Interpreters on the path, then those of pyenv."""
    for name in NAMES:
        found = shutil.which(name)
        if found:
            yield found
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv") / "versions"
    for name in NAMES:
        yield from map(str, sorted(pyenv.glob(f"*/bin/{name}")))


def version_of(interpreter: str) -> str:
    """The version that it says when it runs (a name on the path can be an empty shell); '' if it cannot make a venv."""
    try:
        done = subprocess.run([interpreter, "-I", "-c", PROBE], capture_output=True, text=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def is_new(version: str) -> bool:
    return version != "3.11"


def main() -> int:
    here = "{}.{}".format(*sys.version_info[:2])
    for interpreter in candidates():
        version = version_of(interpreter)
        if version and is_new(version) != is_new(here):
            break
    else:
        wanted = "Python 3.11" if is_new(here) else "Python 3.12 or newer"
        print(f"test-generations: no {wanted} on this machine, so the other generation of ArviZ is not tested")
        return 0
    print(f"test-generations: tests/interop without statistical tests, on Python {version}", flush=True)
    folder = f".venv-{version}"
    built = subprocess.run([interpreter, "tools/environment.py", folder], cwd=ROOT, check=False)
    if built.returncode:
        return built.returncode
    tests = [f"{folder}/bin/python", "-m", "pytest", "-n", "auto", "-m", "not statistical", "tests/interop"]
    return subprocess.run(tests, cwd=ROOT, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())

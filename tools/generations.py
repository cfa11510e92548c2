"""Run tests/interop on the other generation of PyMC and ArviZ, if an interpreter for it is on this machine.

    python tools/generations.py            its tests marked `generations`: each function that uses PyMC or ArviZ
    python tools/generations.py --whole    the whole folder, the long lane too, but for statistical tests

Python 3.11 gets PyMC 5 and ArviZ 0.23, Python 3.12 and newer get PyMC 6 and ArviZ 1: the other generation needs
another interpreter. A generation changes the functions of PyMC and ArviZ and not the mathematics, so that the
statistical tests, which take longest, run on the interpreter of `make test` only. Standard library only.
"""

import shlex
import subprocess
import sys
from pathlib import Path

from interpreters import interpreters

ROOT = Path(__file__).resolve().parent.parent


def is_new(version: str) -> bool:
    return version != "3.11"


def main(*, whole: bool) -> int:
    here = "{}.{}".format(*sys.version_info[:2])
    other = next(((version, path) for version, path in interpreters() if is_new(version) != is_new(here)), None)
    if other is None:
        wanted = "Python 3.11" if is_new(here) else "Python 3.12 or newer"
        print(f"test-generations: no {wanted} on this machine, so the other generation of ArviZ is not tested")
        return 0
    version, interpreter = other
    chosen = ("--lane", "all", "-m", "not statistical") if whole else ("-m", "generations and not statistical")
    print(f"test-generations: pytest {shlex.join(chosen)} tests/interop, on Python {version}", flush=True)
    folder = f".venv-{version}"
    built = subprocess.run([interpreter, "tools/environment.py", folder], cwd=ROOT, check=False)
    if built.returncode:
        return built.returncode
    tests = [f"{folder}/bin/python", "-m", "pytest", "-n", "auto", *chosen, "tests/interop"]
    return subprocess.run(tests, cwd=ROOT, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(whole="--whole" in sys.argv[1:]))

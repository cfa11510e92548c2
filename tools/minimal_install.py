"""Check what `pip install privsample` gives: the required packages alone, on each supported Python of this machine.

For each interpreter it makes a throwaway environment, installs the locked versions of the required packages and then a
wheel of privsample, which may fetch nothing else, runs `minimal_program.py` far away from the source tree, and measures
the environment. Standard library only.
"""

import environment  # on an interpreter that is too old, this ends with one line that says so

import re
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

from interpreters import interpreters

ROOT = environment.ROOT
PROGRAM = (ROOT / "tools" / "minimal_program.py").read_text(encoding="utf-8")
LARGEST = 300  # MB of a whole environment


def required() -> list[str]:
    """The names of the required packages."""
    with (ROOT / "pyproject.toml").open("rb") as file:
        lines: list[str] = tomllib.load(file)["project"]["dependencies"]
    return [re.split(r"[^\w.-]", line, maxsplit=1)[0] for line in lines]


def locked(names: list[str]) -> str:
    """The entries of these packages in the lock, with markers and hashes."""
    kept, keep = [], False
    for line in environment.LOCKED.read_text(encoding="utf-8").splitlines():
        if not line.startswith(" "):
            keep = line.partition("==")[0] in names
        if keep:
            kept.append(line)
    return "\n".join(kept) + "\n"


def run(folder: Path, *command: str) -> None:
    """Run a command in a folder; if it fails, end."""
    done = subprocess.run(command, cwd=folder, check=False)
    if done.returncode:
        sys.exit(f"minimal install: failed with exit code {done.returncode}")


def megabytes(folder: Path) -> float:
    """The size of all files below a folder, in units of 10^6 bytes."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file() and not path.is_symlink()) / 1e6


def check(interpreter: str, folder: Path, wheel: Path | None) -> tuple[float, Path]:
    """Install and run in a new folder; return the size of the environment, and the wheel, which is built only once."""
    folder.mkdir()
    python = str(folder / "venv" / "bin" / "python")
    pip = (python, "-m", "pip", "--quiet", "--disable-pip-version-check", "--no-input")
    (folder / "requirements.txt").write_text(locked(required()), encoding="utf-8")
    run(folder, interpreter, "-m", "venv", str(folder / "venv"))
    if wheel is None:
        run(folder, *pip, "wheel", "--no-deps", "--wheel-dir", str(folder.parent), str(ROOT))
        (wheel,) = folder.parent.glob("*.whl")
    run(folder, *pip, "install", "--require-hashes", "--only-binary", ":all:", "--requirement", "requirements.txt")
    run(folder, *pip, "install", "--no-index", str(wheel))
    run(folder, python, "-I", "-W", "error", "-c", PROGRAM)
    return megabytes(folder / "venv"), wheel


def main() -> None:
    wheel, sizes = None, {}
    with tempfile.TemporaryDirectory() as name:
        for version, interpreter in sorted(interpreters(), key=lambda found: int(found[0].partition(".")[2])):
            sizes[version], wheel = check(interpreter, Path(name) / version, wheel)
            print(f"minimal install: Python {version} with {sizes[version]:.0f} MB", flush=True)
    if not sizes:
        sys.exit("minimal install: no Python 3.11 to 3.14 that can make an environment is on this machine")
    if max(sizes.values()) > LARGEST:
        sys.exit(f"minimal install: an environment has more than {LARGEST} MB; which package grew?")
    print(f"minimal install: works with {', '.join(required())} alone, in at most {LARGEST} MB")


if __name__ == "__main__":
    main()

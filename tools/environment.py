"""Build the project's environment: a venv with the locked packages and privsample itself, editable.

    python3 tools/environment.py [folder]          the folder is .venv by default

Standard library only. A second call does nothing while the lock, the project file, the interpreter and the place of
the project are the same. A build that was broken off is started anew; two builds at once wait for each other.
"""

import sys

OLDEST, NEWEST = (3, 11), (3, 14)
if not OLDEST <= sys.version_info[:2] <= NEWEST:
    sys.exit(
        "privsample needs Python 3.11 to 3.14, but {} is Python {}.{}: "  # old interpreters must be able to read this
        "install one of these and name it, for instance: make test PYTHON=python3.12".format(
            sys.executable, *sys.version_info[:2]
        )
    )

import contextlib
import hashlib
import os
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

try:
    import fcntl
except ImportError:  # not a POSIX system: builds at the same time are not kept apart
    fcntl = None  # type: ignore[assignment]

ROOT = Path(__file__).resolve().parent.parent
LOCKED = ROOT / "requirements.lock"
# The interpreter below any venv, so that an activated .venv can be replaced.
BASE_PYTHON = str(getattr(sys, "_base_executable", sys.executable))


def fingerprint(*files: Path) -> str:
    """Changes with the files, the interpreter and the folder of the project."""
    state = hashlib.sha256("\n".join((sys.version, os.path.realpath(BASE_PYTHON), str(ROOT))).encode())
    for file in files:
        state.update(hashlib.sha256(file.read_bytes()).digest())
    return state.hexdigest()


def check_venv() -> None:
    """End with the command that helps if this interpreter cannot make a venv."""
    try:
        import ensurepip
        import venv  # noqa: F401

        ensurepip.version()
    except (ImportError, OSError, ValueError):
        version = "{}.{}".format(*sys.version_info[:2])
        system = Path("/etc/os-release")
        debian = system.exists() and "debian" in system.read_text(encoding="utf-8").lower()  # Ubuntu names it too
        if debian and BASE_PYTHON.startswith("/usr/bin/"):
            root = "" if os.geteuid() == 0 else "sudo "
            mend = f"{root}apt-get update && {root}apt-get install -y python{version}-venv"
        else:
            mend = "make PYTHON=... naming another Python, one in which `-m ensurepip --version` works"
        sys.exit(f"{BASE_PYTHON} cannot make an environment: it has no venv with pip. What helps:\n  {mend}")


@contextlib.contextmanager
def alone(folder: Path) -> Iterator[tuple[int, ...]]:
    """One build of this folder at a time; gives the open files that hold the lock.

    The steps inherit them: if this process is killed, the lock lasts until its last step has ended too.
    """
    with (folder.parent / f"{folder.name}.lock").open("w", encoding="utf-8") as file:
        if fcntl is None:
            yield ()
            return
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("waiting for another build of", folder.name)
            fcntl.flock(file, fcntl.LOCK_EX)
        yield (file.fileno(),)


def say(*words: str) -> None:
    print("environment:", *words, flush=True)


def step(held: tuple[int, ...], *command: str) -> None:
    """Run a command quietly; if it fails, show what it printed and end."""
    done = subprocess.run(
        command, cwd=ROOT, pass_fds=held, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
    if done.returncode:
        sys.exit(f"{done.stdout}\nenvironment: this failed: {shlex.join(command)}")


def build(folder: Path) -> None:
    """Make the environment, or only the part of it that is out of date."""
    wanted = {"packages": fingerprint(LOCKED), "project": fingerprint(LOCKED, ROOT / "pyproject.toml")}
    stamps = {part: folder / f"privsample-{part}.stamp" for part in wanted}

    def outdated(part: str) -> bool:
        return not stamps[part].exists() or stamps[part].read_text(encoding="utf-8") != wanted[part]

    if not outdated("packages") and not outdated("project"):
        return
    python = folder / "bin" / "python"
    # Packages are compiled while they are installed: a warning from compiling one later would fail a test.
    pip = (str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-input")
    with alone(folder) as held:
        if outdated("packages"):
            check_venv()
            say(f"creating {folder.name} with Python {sys.version.split()[0]}")
            if folder.exists():
                shutil.rmtree(folder)
            step(held, BASE_PYTHON, "-m", "venv", str(folder))
            say("installing the locked packages (a minute or two)")
            step(held, *pip, "--require-hashes", "--requirement", str(LOCKED))
            stamps["packages"].write_text(wanted["packages"], encoding="utf-8")
        if outdated("project"):
            say("installing privsample")
            step(held, *pip, "--no-deps", "--no-build-isolation", "--editable", str(ROOT))
            stamps["project"].write_text(wanted["project"], encoding="utf-8")


if __name__ == "__main__":
    try:
        build(ROOT / (sys.argv[1] if len(sys.argv) > 1 else ".venv"))
    except KeyboardInterrupt:
        sys.exit("environment: broken off; the next run starts anew")

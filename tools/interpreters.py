"""The interpreters on this machine on which privsample runs. Standard library only."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

VERSIONS = ("3.12", "3.13", "3.14", "3.11")  # in the order in which a tool that needs only one tries them
_PROBE = "import sys, venv, ensurepip; print('%d.%d' % sys.version_info[:2])"


def interpreters() -> Iterator[tuple[str, str]]:
    """Each version that can make an environment, once, and the path of its interpreter."""
    found = set()
    for interpreter in _candidates():
        version = _version_of(interpreter)
        if version in VERSIONS and version not in found:
            found.add(version)
            yield version, interpreter


def _candidates() -> Iterator[str]:
    """Interpreters on the path, then those of pyenv."""
    names = [f"python{version}" for version in VERSIONS]
    for name in names:
        path = shutil.which(name)
        if path:
            yield path
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv") / "versions"
    for name in names:
        yield from map(str, sorted(pyenv.glob(f"*/bin/{name}")))


def _version_of(interpreter: str) -> str:
    """The version that it says when it runs (a name on the path can be an empty shell); '' if it cannot make a venv."""
    try:
        done = subprocess.run(
            [interpreter, "-I", "-c", _PROBE], capture_output=True, text=True, timeout=30, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""

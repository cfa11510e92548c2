"""Why a command stops, and with which exit code. Messages are one line and never show a record."""

from collections.abc import Collection
from difflib import get_close_matches
from importlib.util import find_spec


class CliError(Exception):
    """A command cannot go on; `code` is its exit code."""

    code = 2


class UsageProblem(CliError):
    """The command line or the machine: another option, another name, another package would do."""


class Interrupted(CliError):
    """The user stopped it."""

    code = 130


class DataProblem(CliError):
    """The data are not what was declared."""

    code = 1


def require(package: str, extra: str, purpose: str) -> None:
    """Raise UsageProblem unless the package can be imported."""
    if find_spec(package) is None:
        raise UsageProblem(f"{purpose} needs {package}, which is not installed: pip install 'privsample[{extra}]'")


def require_known(what: str, names: Collection[str], known: Collection[str], command: str) -> None:
    """Raise UsageProblem unless all names are known: with the nearest known ones, and the command that prints all."""
    unknown = [name for name in names if name not in known]
    if not unknown:
        return
    hint = nearest(unknown, known) or ";"
    raise UsageProblem(f"there is no {what} {', '.join(unknown)}{hint} `{command}` prints all names")


def nearest(names: Collection[str], known: Collection[str]) -> str:
    """A question about the known names that are most like these, to stand after a statement; empty where none are."""
    near = dict.fromkeys(other for name in names for other in _near(name.lower(), known))
    return f"; did you mean {' or '.join(near)}?" if near else ""


def _near(name: str, known: Collection[str]) -> list[str]:
    """A few names that hold this one, or else the one that is most like it."""
    return [other for other in known if name and name in other][:3] or get_close_matches(name, known, 1)

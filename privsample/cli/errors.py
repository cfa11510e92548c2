"""Errors of commands with their exit codes. Messages are one line and never contain a record."""

from collections.abc import Collection
from difflib import get_close_matches

from privsample import _optional


class CliError(Exception):
    """A command failed; `code` is its exit code."""

    code = 2


class UsageProblem(CliError):
    """The command line is invalid, a package is missing, or a file cannot be opened or written."""


class Interrupted(CliError):
    """The user interrupted the command."""

    code = 130


class DataProblem(CliError):
    """The data differ from their declaration."""

    code = 1


def require(package: str, extra: str, purpose: str) -> None:
    """Raise UsageProblem unless the package is installed."""
    try:
        _optional.require(package, extra, purpose)
    except _optional.MissingPackage as error:
        raise UsageProblem(str(error)) from None


def require_known(what: str, names: Collection[str], known: Collection[str], command: str) -> None:
    """Raise UsageProblem unless all names are known; it suggests similar names and the command that lists all."""
    unknown = [name for name in names if name not in known]
    if not unknown:
        return
    hint = nearest(unknown, known) or ";"
    raise UsageProblem(f"there is no {what} {', '.join(unknown)}{hint} `{command}` prints all names")


def nearest(names: Collection[str], known: Collection[str]) -> str:
    """Return "; did you mean ...?" with the most similar known names; empty if none is similar."""
    near = dict.fromkeys(other for name in names for other in _near(name.lower(), known))
    return f"; did you mean {' or '.join(near)}?" if near else ""


def _near(name: str, known: Collection[str]) -> list[str]:
    """Return up to three names that contain this one, or else the most similar name."""
    return [other for other in known if name and name in other][:3] or get_close_matches(name, known, 1)

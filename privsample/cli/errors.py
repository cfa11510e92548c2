"""Why a command stops, and with which exit code. Messages are one line and never show a record."""

from importlib.util import find_spec


class Stop(Exception):
    """A command cannot go on; `code` is its exit code."""

    code = 2


class UsageProblem(Stop):
    """The command line or the machine: another option, another name, another package would do."""


class Interrupted(Stop):
    """The user stopped it."""

    code = 130


class DataProblem(Stop):
    """The data are not what was declared."""

    code = 1


def require(package: str, extra: str, purpose: str) -> None:
    """Raise UsageProblem unless the package can be imported."""
    if find_spec(package) is None:
        raise UsageProblem(f"{purpose} needs {package}, which is not installed: pip install 'privsample[{extra}]'")

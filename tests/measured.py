"""A plugin of pytest that measures which lines and branches of a folder the tests run: `pytest --measure FOLDER`.

SlipCover, which counts them, stops watching a line that was seen, so that measuring costs little. Each worker of
pytest-xdist returns what it saw, and the process that started the workers joins it.
"""

import json
from typing import Any

import pytest

_EXCLUDED = ["@overload", "@abstractmethod", r"^\s*\.\.\.$"]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--measure", metavar="FOLDER", help="count which lines and branches of this folder the tests run")
    parser.addoption("--require-all", action="store_true", help="with --measure: fail if some were not run")


def pytest_configure(config: pytest.Config) -> None:
    folder = config.getoption("--measure")
    if folder:
        config.pluginmanager.register(Measured(config, folder))


class Measured:
    """What the tests of a run have seen of a folder."""

    def __init__(self, config: pytest.Config, folder: str) -> None:
        self.config = config
        self.folder = folder
        self.seen: dict[str, Any] | None = None
        self.own: Any = None
        if config.getoption("numprocesses", None) and not hasattr(config, "workerinput"):
            return  # the workers run the tests
        from slipcover import FileMatcher, ImportManager, Slipcover  # most runs measure nothing

        self.own = Slipcover(branch=True, source=[folder], exclude_also=_EXCLUDED)
        ImportManager(self.own, FileMatcher(sources=[folder])).__enter__()

    def pytest_testnodedown(self, node: Any) -> None:
        """Join what a worker saw."""
        self._join(json.loads(getattr(node, "workeroutput", {}).get("measured", "null")))

    @pytest.hookimpl(wrapper=True, trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> Any:
        """Return what this worker saw, or decide whether the whole run saw enough."""
        if self.own:
            self._join(self.own.get_coverage())
        if hasattr(self.config, "workeroutput"):
            self.config.workeroutput["measured"] = json.dumps(self.seen)
        elif self.config.getoption("--require-all") and not self._is_complete() and not session.exitstatus:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED
        return (yield)

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """Show the files that were not run in full, with their lines and branches."""
        terminalreporter.section(f"lines and branches of {self.folder}")
        if not self.seen:
            terminalreporter.line("nothing was measured")
            return
        from slipcover import print_coverage

        print_coverage(self.seen, outfile=terminalreporter, skip_covered=True)
        if self.config.getoption("--require-all"):
            verdict = "all were run" if self._is_complete() else f"{self.folder} must be run in full, and is not"
            terminalreporter.line(verdict, red=not self._is_complete(), green=self._is_complete())

    def _join(self, seen: Any) -> None:
        from slipcover import merge_coverage

        self.seen = merge_coverage(self.seen, seen) if self.seen and seen else self.seen or seen

    def _is_complete(self) -> bool:
        files = self.seen["files"].values() if self.seen else []
        return bool(files) and not any(file["missing_lines"] or file["missing_branches"] for file in files)

"""The hosted workflow runs what CONTRIBUTING names, and pins the actions that it uses."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
WORKFLOW = (ROOT / ".github" / "workflows" / "ci.yml").read_text(encoding="utf-8")


def test_actions_are_pinned_by_digest():
    """A tag can be moved by the owner of an action; a digest cannot."""
    used = re.findall(r"uses: (.*)", WORKFLOW)
    assert len(used) >= 6
    assert [each for each in used if not re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", each)] == []


def test_each_command_is_there():
    """A job runs `.ci/run`, a program of tools/, or a target of the Makefile."""
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    commands = re.findall(r"run: (.*)", WORKFLOW)
    assert ".ci/run" in commands
    assert "make test-long" in commands
    for command in commands:
        if command.startswith("make "):
            assert command.removeprefix("make ") in targets
        else:
            assert (ROOT / command.removeprefix("python ")).exists()

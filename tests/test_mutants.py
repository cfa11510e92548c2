"""The list of mutants fits the source, and its tool finds mutants, kills them, and reports those that survive."""

import sys
from dataclasses import replace
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
sys.path.append(str(ROOT / "tools"))

import mutants  # noqa: E402
from mutations import mutations  # noqa: E402

PROGRAM = '''"""1 < 2 in a docstring."""

import numpy as np

FACTOR = 2.0


def bound(x: int, low=-1.5, *, text="a" + "b"):
    """x + 1."""
    if not x > 0:
        raise ValueError(f"x must be > 0, got {x + 1}")
    if x < 3 and low:
        return np.log1p(x) * 2 if x else min(x, low)
    return np.nextafter(x / low, np.inf)


def description(x):
    return x + 1
'''
EDITS = [
    ("constant", "FACTOR = 2.25"),
    ("minus", 'def bound(x: int, low=1.5, *, text="a" + "b"):'),
    ("constant", 'def bound(x: int, low=-1.6875, *, text="a" + "b"):'),
    ("condition", "if (not (x < 3 and low)):"),
    ("boolean", "if x < 3 or low:"),
    ("comparison", "if x <= 3 and low:"),
    ("constant", "if x < 4 and low:"),
    ("condition", "return np.log1p(x) * 2 if (not (x)) else min(x, low)"),
    ("arithmetic", "return np.log1p(x) / 2 if x else min(x, low)"),
    ("logarithm", "return np.log(x) * 2 if x else min(x, low)"),
    ("constant", "return np.log1p(x) * 3 if x else min(x, low)"),
    ("extremum", "return np.log1p(x) * 2 if x else max(x, low)"),
    ("rounding", "return (x / low)"),
    ("arithmetic", "return np.nextafter(x * low, np.inf)"),
]


def test_every_listed_mutant_fits_the_source_and_is_killed_or_argued():
    listed = mutants.load()
    assert [mutant.number for mutant in listed] == list(range(1, 61))
    assert list(mutants.problems(listed)) == []


def test_mutations_are_those_of_numerical_code():
    """Neither text, messages nor checks that only raise are mutated."""
    found = [(mutation.kind, mutation.after) for mutation in mutations(PROGRAM)]
    assert sorted(found) == sorted(EDITS)


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A project with one module and one test, which looks at large numbers only."""
    files = {
        "privsample/__init__.py": "",
        "privsample/accounting/__init__.py": "",
        "privsample/accounting/sign.py": "def sign(x):\n    return 1 if x > 0 else -1\n",
        "tests/test_sign.py": (
            "from privsample.accounting.sign import sign\n\n\ndef test_sign():\n    assert sign(9) == 1\n"
            "    assert sign(-9) == -1\n"
        ),
        "conftest.py": "SUITE_FALSE_ALARM_RATE = 1e-6\n",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    monkeypatch.setattr(mutants, "ROOT", tmp_path)
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")  # they take most of the time
    killed, survivor = (
        mutants.Mutant(
            number=number,
            kind=kind,
            file="privsample/accounting/sign.py",
            function="sign",
            before="return 1 if x > 0 else -1",
            after=after,
            occurrence=0,
        )
        for number, kind, after in (
            (1, "minus", "return 1 if x > 0 else 1"),
            (2, "comparison", "return 1 if x >= 0 else -1"),
        )
    )
    return killed, survivor


def test_a_mutant_is_killed_or_reported(project, capfd, monkeypatch):
    killed, survivor = mutants.run(list(project), {}, "others", 1)
    assert (killed.status, killed.killed_by) == ("killed", "tests/test_sign.py::test_sign")
    assert survivor == project[1]
    said = capfd.readouterr().out
    assert "killed by tests/test_sign.py::test_sign" in said
    assert "survived (unknown)" in said
    mutants.save([survivor])
    monkeypatch.setattr(sys, "argv", ["mutants.py", "run", "--last", "recorded"])
    assert mutants.main() == 1
    mutants.save([killed, replace(survivor, status="equivalent", argument="0 has either sign")])
    assert mutants.main() == 0
    assert "1 of 1 killed; 1 of the list are equivalent" in capfd.readouterr().out


def test_a_test_that_fails_without_a_mutant_kills_none(project):
    test = mutants.ROOT / "tests/test_sign.py"
    test.write_text(test.read_text(encoding="utf-8") + "    assert sign(0) == 0\n", encoding="utf-8")
    with pytest.raises(RuntimeError, match=r"test_sign\.py::test_sign fails without a mutant"):
        mutants.run([project[1]], {}, "nearest", 1)


def test_problems_of_a_list_are_named(project):
    killed, survivor = project
    assert list(mutants.problems([survivor])) == ["mutant 2 survives, and no argument is recorded"]
    gone = replace(killed, status="killed", killed_by="tests/test_sign.py::test_gone")
    assert "test that is gone: tests/test_sign.py::test_gone" in next(mutants.problems([gone]))
    edited = replace(survivor, status="equivalent", argument="0 has either sign", before="return x")
    assert next(mutants.problems([edited])).endswith("has no line 'return x'")


def test_the_seed_decides_and_no_place_is_drawn_twice(project, monkeypatch):
    monkeypatch.setattr(mutants, "ROOMS", {"privsample/accounting": 4})
    chosen = [mutants.choose(seed) for seed in (1, 1, 2)]
    assert chosen[0] == chosen[1] != chosen[2]
    assert len({mutant.after for mutant in chosen[0]}) == 4
    assert {project[0].after, project[1].after} & {mutant.after for mutant in chosen[0] + chosen[2]}

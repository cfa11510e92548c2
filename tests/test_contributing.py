"""A mechanism is added by CONTRIBUTING alone: the files that it names and no other, and the tests accept it."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import privsample

ROOT = Path(privsample.__file__).parents[1]
PLACES = {"THEME": "selection", "STEM": "majority", "CLASS": "NoisyMajority"}
COPIED = ("privsample", "tests", "reproduction", "docs", "tools", "examples", "benchmarks")
FILES = ("conftest.py", "pyproject.toml", "README.md", "CONTRIBUTING.md", "CHANGELOG.md")

ACCOUNTANT = '''"""The account of the more frequent of two answers, chosen by permute-and-flip. Kind: exact."""

import numpy as np

from privsample._checks import positive
from privsample._value import frozen_value, set_fields
from privsample.accounting.assumptions import Assumption
from privsample.accounting.base import SizeFreeAccountant
from privsample.accounting.engine.bounds import PrivacyBounds
from privsample.accounting.loss.pair import DiscretePair
from privsample.relations import AddRemove, Relation, related


@frozen_value
class MajorityAccountant(SizeFreeAccountant):
    """One more record changes the lead of an answer by one. Kind: exact. Source: McKenna and Sheldon 2020."""

    rate: float
    relation: Relation = AddRemove()
    assumptions: frozenset[Assumption] = frozenset({Assumption.IDEAL_REALS})

    def __post_init__(self) -> None:
        set_fields(self, rate=positive(rate=self.rate), relation=related(self.relation))

    @property
    def source(self) -> str:
        """The mechanism."""
        return "McKenna and Sheldon 2020, Algorithm 1, for two answers"

    def _bounds(self) -> PrivacyBounds:
        """By a tie and a lead of one record, in either order."""
        log_behind = -self.rate - np.log(2.0)
        log_q = np.array([np.log1p(-np.exp(log_behind)), log_behind])
        tie = DiscretePair(log_p=np.log([0.5, 0.5]), log_q=log_q)
        return PrivacyBounds.from_pairs([tie, tie.reverse()])
'''
MECHANISM = '''"""The more frequent of two answers, chosen by permute-and-flip."""

from typing import Any

import numpy as np

from privsample._checks import FloatArray, check_memory, positive_integer
from privsample._value import cached, frozen_value, set_fields
from privsample.accounting.base import Accountant
from privsample.accounting.selection.majority import MajorityAccountant
from privsample.distributions.domains import Domain
from privsample.mechanisms.base import Draws, Mechanism
from privsample.mechanisms.calibration import FreeParameter
from privsample.mechanisms.columns import read_column
from privsample.mechanisms.draws import many_draws
from privsample.mechanisms.examples import Example
from privsample.mechanisms.neighbours import Neighbours

_ANSWER = Domain(low=0.0, high=1.0, missing=0.0, integer_valued=True)


@frozen_value
class NoisyMajority(Mechanism):
    """The answer, 0 or 1, that most records give; the one that is behind by k records with probability e^(-rate k)/2.

    `release` takes one column of answers; what is missing counts as 0. It releases "majority", shape (draws,).
    """

    rate: float
    draws: int = 1
    free_parameters = (FreeParameter(name="rate", upper=30.0, advice="ask for epsilon > 0 or delta > 0"),)

    def __post_init__(self) -> None:
        set_fields(self, rate=MajorityAccountant(rate=self.rate).rate, draws=positive_integer(draws=self.draws))
        check_memory(self.draws, lower="draws")

    @cached
    def accountant(self) -> Accountant:
        """Exact."""
        return self.draws * MajorityAccountant(rate=self.rate)

    @property
    def description(self) -> str:
        """How often it is wrong."""
        return f"The more frequent answer was released, or at times the other one: {self.rate:g} is the rate."

    def worst_neighbours(self, group: int = 1) -> tuple[Neighbours, ...]:
        """No records, and `group` of answer 1."""
        log_behind = -self.rate * group - np.log(2.0)
        log_ratio = np.log(0.5) - np.array([log_behind, np.log1p(-np.exp(log_behind))])

        def loss(outputs: FloatArray) -> FloatArray:
            return np.asarray(log_ratio[outputs[:, 0].astype(int)])

        return (
            Neighbours(
                account=MajorityAccountant(rate=self.rate),
                descriptions=("no records", f"{group} of answer 1"),
                datasets=(lambda: np.empty(0), lambda: np.ones(group)),
                draw=many_draws(self, "majority"),
                loss=loss,
            ),
        )

    @classmethod
    def examples(cls) -> tuple[Example, ...]:
        """A record that counts half as much again."""
        bug = "a record counts half as much again"
        return (Example.with_wrong_fields("majority", cls(rate=1), rate=1.5, bug=bug, samples=20_000),)

    def _statistic(self, data: Any) -> float:
        answers = _ANSWER.clean(read_column(data))
        return float(2 * answers.sum() - len(answers))

    def _draw(self, statistic: float, rng: np.random.Generator) -> Draws:
        behind = rng.random(self.draws) < np.exp(-self.rate * abs(statistic)) / 2
        return {"majority": np.where(behind, statistic <= 0, statistic > 0).astype(np.int64)}
'''
TEST = '''"""The numbers of the majority's account are those of its probabilities."""

import numpy as np
import pytest

from privsample import NoisyMajority


@pytest.mark.parametrize("lead", [0, 1, 5])
def test_probabilities(lead):
    mechanism = NoisyMajority(rate=0.5)
    first, second = (np.exp(-0.5 * k) / 2 for k in (lead, lead + 1))
    assert max(first - second, 0.0) <= float(mechanism.accountant.delta(0.0))
    if lead == 0:
        assert float(mechanism.accountant.delta(0.0)) == pytest.approx(first - second)
'''
NOTE = """# The more frequent of two answers

Claim: ...
"""
PAGE = """# NoisyMajority

The more frequent of two answers, by permute-and-flip.

## Theorem

The answer that is behind by $k$ records is released with probability $e^{-r k} / 2$. The proof is in
docs/notes/majority.md.

## Example

```python
>>> import privsample as ps
>>> mechanism = ps.NoisyMajority(rate=0.5)
>>> mechanism.release([0, 1, 1])["majority"].shape
(1,)

```

## Privacy cost

```{account} mechanism.accountant
```
"""
NEW = {
    "privsample/accounting/selection/majority.py": ACCOUNTANT,
    "privsample/mechanisms/selection/majority.py": MECHANISM,
    "tests/mechanisms/test_majority.py": TEST,
    "docs/notes/majority.md": NOTE,
    "docs/mechanisms/NoisyMajority.md": PAGE,
}
LINES = {
    "privsample/__init__.pyi": [
        "from privsample.accounting.selection.majority import MajorityAccountant as MajorityAccountant",
        "from privsample.mechanisms.selection.majority import NoisyMajority as NoisyMajority",
    ],
    "CHANGELOG.md": ["- `NoisyMajority`: the more frequent of two answers."],
}
# Parts of the suite that look at every mechanism, and at the lists that a new one could miss.
SUITE = [
    "tests/mechanisms/test_majority.py",
    "tests/mechanisms/test_descriptions.py",
    "tests/accounting/test_described.py",
    "tests/testing/test_every_mechanism.py",
    "tests/simulations/test_every_mechanism.py",
    "tests/test_docs.py",
    "tests/test_imports.py",
]


def named():
    """The files that CONTRIBUTING numbers, with the names of this mechanism."""
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    section = text.split("## Add a mechanism: five new files, and two that get a line each")[1].split("\n## ")[0]
    found = re.findall(r"^\d+\. `([^`]+)`:", section, re.MULTILINE)
    for place, name in PLACES.items():
        found = [path.replace(place, name) for path in found]
    return found


def test_contributing_counts_the_files():
    assert named() == [*NEW, *LINES]
    assert len(NEW) == 5
    assert len(LINES) == 2


def with_lines(text, added):
    """The text with the lines among others of their kind: imports in their order, or first below *Added*."""
    lines = text.splitlines()
    if "### Added" in lines:
        at = lines.index("### Added") + 2
        return "\n".join([*lines[:at], *added, *lines[at:], ""])
    imports = [at for at, line in enumerate(lines) if line.startswith("from ")]
    block = sorted([*lines[imports[0] : imports[-1] + 1], *added], key=lambda line: line.split()[1])
    return "\n".join([*lines[: imports[0]], *block, *lines[imports[-1] + 1 :], ""])


@pytest.fixture(scope="module")
def checkout(tmp_path_factory):
    """A copy of the library to which the mechanism was added as CONTRIBUTING says."""
    folder = tmp_path_factory.mktemp("checkout")
    ignored = shutil.ignore_patterns(".*_cache")
    for name in COPIED:  # with what was compiled: it stays valid, because the times of the files are copied, too
        shutil.copytree(ROOT / name, folder / name, ignore=ignored)
    for name in FILES:
        shutil.copy(ROOT / name, folder / name)
    for name in named():
        path = folder / name
        if name in NEW:
            assert path.parent.is_dir(), f"{name} needs a folder that CONTRIBUTING does not name"
            assert not path.exists()
            path.write_text(NEW[name], encoding="utf-8")
        else:
            path.write_text(with_lines(path.read_text(encoding="utf-8"), LINES[name]), encoding="utf-8")
    return folder


def run(checkout, *words):
    """What a program printed in the copy."""
    environment = {**os.environ, "PYTHONPATH": str(checkout)}
    environment.pop("COVERAGE_PROCESS_START", None)
    return subprocess.run(
        [sys.executable, *words], capture_output=True, text=True, env=environment, check=False, cwd=checkout
    )


def test_the_suite_accepts_the_mechanism_and_looks_at_it(checkout):
    chosen = "majority or Majority or public or each_mechanism_has_a_page or reference or light"
    done = run(checkout, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-rA", "-k", chosen, *SUITE)
    assert done.returncode == 0, done.stdout[-5000:]
    passed = re.findall(r"^PASSED (\S+)", done.stdout, re.MULTILINE)
    for file in SUITE[:6]:
        assert [test for test in passed if test.startswith(file) and "ajority" in test], f"{file} does not look at it"


def test_it_is_linted(checkout):
    pytest.importorskip("importlinter", reason="only where the tools of development are")
    python = [name for name in named() if name.endswith((".py", ".pyi"))]
    done = run(checkout, "-m", "ruff", "check", *python)
    assert done.returncode == 0, done.stdout
    assert run(checkout, "-m", "ruff", "format", "--check", *python).returncode == 0
    program = "from importlinter.cli import lint_imports_command; lint_imports_command()"
    layers = run(checkout, "-c", program)
    assert "0 broken" in layers.stdout, layers.stdout + layers.stderr

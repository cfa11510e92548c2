"""The example of an extension, installed where only its entry point leads to it, is first-class."""

import io
import json
import os
import subprocess
import sys
import tokenize
from pathlib import Path

import pytest

import privsample as ps

ROOT = Path(ps.__file__).parents[1]
PACKAGE = ROOT / "examples" / "extension"
MODULE = PACKAGE / "src" / "private_majority" / "__init__.py"
GUIDE = ROOT / "docs" / "guides" / "extend.md"
MOST_LINES = 60

WRITE = """
import sys
import numpy as np
import privsample as ps
from private_majority import PrivateMajority
folder = sys.argv[1]
mechanism = PrivateMajority.calibrate(target=ps.DP(epsilon=0.5, delta=1e-6))
votes = [0, 1, 1, 1, "?"]
book = ps.Ledger(f"{folder}/ledger.db", budget=ps.DP(epsilon=2, delta=1e-6), relation=ps.AddRemove(), dataset="votes")
assert book.fits(mechanism.accountant)
release = book.release(mechanism, votes)
release.save(f"{folder}/release.json")
release.save(f"{folder}/release.nc")
both = mechanism.accountant + ps.GaussianAccountant(sensitivity=1, noise_std=5)
assert both.epsilon(1e-6) > mechanism.accountant.epsilon(1e-6)
sampled = ps.Subsampled(base=mechanism, scheme=ps.PoissonSampling(rate=0.1))
assert sampled.release(votes)["majority"].shape == (1,)
assert sampled.accountant.epsilon(0.0) < 0.1
for number in range(100):
    try:
        book.release(mechanism, votes)
    except ps.errors.BudgetExceeded:
        break
assert 2 <= number < 10, number
print(repr(release.account.epsilon(1e-6)), book.spent())
"""
# In a process that has imported nothing of the extension: each part prints lines, and the parts stand apart.
READ = """
import sys
import numpy as np
import privsample as ps
from privsample.errors import NotRegistered
folder, places = sys.argv[1], [*sys.path]
sys.path.insert(0, folder)
for package in ("undeclared_module", "os", "private_majority", "subprocess"):
    before = set(sys.modules)
    try:
        ps.Accountant.from_dict({"type": [package, "MajorityAccountant", 1], "rate": 1.0})
    except NotRegistered as error:
        assert f"the package {package!r}" in str(error)
    else:
        raise SystemExit("it was loaded")
    assert not {name for name in set(sys.modules) - before if name.startswith((package, "private_majority"))}
sys.path[:] = places
print("refused")
print("---")
releases = [ps.Release.load(f"{folder}/release.{ending}") for ending in ("json", "nc")]
assert releases[0] == releases[1]
assert type(releases[0].mechanism).__name__ == "PrivateMajority"
print(repr(releases[0].account.epsilon(1e-6)), ps.Ledger(f"{folder}/ledger.db").spent())
print("---")
from privsample.simulations.audit.catalogue import catalogue
from privsample.cli import main
example = catalogue()["private-majority"]
rng = np.random.default_rng(1)
print(ps.audit(example.mechanism, samples=example.samples, rng=rng).outcome)
print(ps.audit(example.mutant, claim=example.claim, samples=example.samples, rng=rng).outcome)
main(["audit", "--list"])
print("---")
words = "--column vote --mechanism private-majority --epsilon 0.5 --delta 0"
main(["release", f"{folder}/votes.csv", *words.split(), "--out", f"{folder}/majority.json"])
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """A folder with the extension alone, built and installed without a network."""
    folder = tmp_path_factory.mktemp("installed")
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-index", "--no-deps"]
    done = subprocess.run(
        [*pip, "--no-build-isolation", "--target", str(folder), str(PACKAGE)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return folder


def run(installed, *words):
    """What a program printed in a process that finds the extension where it was installed."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(installed), str(ROOT)])}
    environment.pop("COVERAGE_PROCESS_START", None)
    done = subprocess.run(
        [sys.executable, *map(str, words)], capture_output=True, text=True, env=environment, check=False
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def printed(installed, tmp_path_factory):
    """A folder, what the program that writes into it printed, and what each part of the one that reads it printed."""
    folder = tmp_path_factory.mktemp("votes")
    (folder / "undeclared_module.py").write_text("raise SystemExit('this was imported')")
    (folder / "votes.csv").write_text("vote\n1\n0\n1\n1\n")
    written = run(installed, "-c", WRITE, folder)
    return folder, written, run(installed, "-c", READ, folder).split("---\n")


def test_a_release_is_paid_for_saved_and_loaded_where_nothing_was_imported(printed):
    _, written, (_, read, *_) = printed
    assert read == written


def test_it_is_listed_and_audited_and_its_mutant_is_caught(printed):
    _, _, (_, _, audited, _) = printed
    sound, mutant, *listed = audited.split()
    assert (sound, mutant) == ("CONSISTENT", "VIOLATED")
    assert "private-majority" in listed


def test_the_command_line_releases(printed):
    folder, *_ = printed
    release = json.loads((folder / "majority.json").read_text())
    assert release["mechanism"]["type"] == ["private-majority", "PrivateMajority", 1]
    assert release["mechanism"]["rate"] == pytest.approx(0.5)


def test_a_file_imports_nothing_that_no_installed_package_declares(printed):
    _, _, (refused, *_) = printed
    assert refused.split() == ["refused"]


@pytest.mark.parametrize("laws", [False, pytest.param(True, marks=pytest.mark.long)])
def test_its_own_tests_pass(laws, installed):
    """Without that of the laws, which takes half of the time, because the guide makes the same check."""
    words = ["-m", "pytest", "-q", "-W", "error", "-p", "no:cacheprovider", "-c", os.devnull, "--rootdir", PACKAGE]
    words += [] if laws else ["--deselect", "tests/test_private_majority.py::test_the_mechanism_obeys_every_law"]
    found = run(installed, *words, PACKAGE / "tests")
    assert " passed" in found
    assert ("1 deselected" in found) == (not laws)


def test_the_guide_runs_and_shows_the_whole_module(installed):
    program = (
        f"import sys; sys.path.append({str(ROOT / 'tools')!r}); from docs_examples import run_page; "
        "print(run_page('docs/guides/extend').problems or 'all of it')"
    )
    assert run(installed, "-c", program).strip() == "all of it"
    text = GUIDE.read_text(encoding="utf-8")
    blocks = [block.split("```")[0] for block in text.split("```python\n")[1:]]
    shown = "".join(block for block in blocks if not block.startswith(">>>"))
    assert code_lines(shown) == code_lines(MODULE.read_text(encoding="utf-8"))


def code_lines(source):
    """The lines that hold code: neither blank, nor a comment, nor within a docstring."""
    layout = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}
    tokens = list(tokenize.generate_tokens(io.StringIO(source).readline))
    found: dict[int, None] = {}
    before = tokenize.NEWLINE
    for token in tokens:
        docstring = token.type == tokenize.STRING and before in (tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT)
        if token.type not in layout and not docstring:
            found.update(dict.fromkeys(range(token.start[0], token.end[0] + 1)))
        if token.type not in (tokenize.NL, tokenize.COMMENT):
            before = token.type
    lines = source.splitlines()
    return [lines[number - 1].strip() for number in found]


def test_mechanism_and_accountant_take_fewer_than_sixty_lines_of_code():
    """Imports count, too."""
    lines = code_lines(MODULE.read_text(encoding="utf-8"))
    assert 30 < len(lines) < MOST_LINES
    assert not [line for line in lines if "privsample" in line and "import privsample as ps" not in line]


def test_lines_are_counted_without_docstrings_comments_and_blanks():
    source = (
        '"""About\n\nthis."""\n\nx = (\n    1,  # one\n)\n\n\ndef f():\n    """Text."""\n    # why\n    return "a"\n'
    )
    assert code_lines(source) == ["x = (", "1,  # one", ")", "def f():", 'return "a"']

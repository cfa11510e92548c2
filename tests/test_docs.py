"""The pages of the documentation: each mechanism has one, its examples run, and what it refers to is there.

`make docs` builds the site; here only its sources are looked at, and the check of its links.
"""

import inspect
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

import privsample
import privsample.errors
import privsample.testing
from privsample import Accountant, Assumption
from privsample.mechanisms.discovery import mechanism_classes

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
sys.path.append(str(ROOT / "tools"))

from docs_examples import executed  # noqa: E402
from docs_site import broken_links, commands, examples, moved, overview, reference  # noqa: E402

PAGES = {page.stem: page.read_text(encoding="utf-8") for page in sorted((DOCS / "mechanisms").glob("[A-Z]*.md"))}


def test_each_mechanism_has_a_page_and_each_page_a_place():
    """So has each estimator that says what it will cost; the index finds them all."""
    estimators = {name for name in privsample.__all__ if hasattr(getattr(privsample, name), "accountant_for")}
    assert {cls.__name__ for cls in mechanism_classes()} | estimators == set(PAGES)
    index = overview(moved("docs/mechanisms/index.md"))
    assert sorted(re.findall(r"^\[(\w+)\]\(\1\.md\)\n: \S", index, re.MULTILINE)) == sorted(PAGES)
    assert sorted(re.findall(r"^([A-Z]\w+)$", index, re.MULTILINE)) == sorted(PAGES)
    titles = re.findall(r"^## (.*)", index, re.MULTILINE)
    assert len(titles) == len(set(titles)) > 5
    assert all(titles)


@pytest.mark.parametrize("name", PAGES)
def test_a_page_says_what_it_must_and_its_examples_run(name):
    text = PAGES[name]
    assert text.startswith(f"# {name}\n")
    assert re.findall("^## (.*)", text, re.MULTILINE) == ["Theorem", "Example", "What it costs"]
    names, failed = executed(name, text)
    assert not failed, failed
    accounts = re.findall(r"^```{account} (.*)$", text, re.MULTILINE)
    assert accounts
    assert all(isinstance(eval(account, names), Accountant) for account in accounts)


@pytest.mark.parametrize("guide", ["budget", "files"])
def test_guides_run(guide):
    assert executed(guide, (DOCS / "guides" / f"{guide}.md").read_text(encoding="utf-8"))[1] == ""


def test_the_guide_to_stated_accounts_runs():
    pytest.importorskip("dp_accounting")
    assert executed("accounts", (DOCS / "guides" / "accounts.md").read_text(encoding="utf-8"))[1] == ""


def test_an_example_that_fails_is_reported():
    assert "Expected" in executed("broken", ">>> 1 + 1\n3\n")[1]


def test_a_page_that_fails_ends_the_build_and_is_named(tmp_path):
    pytest.importorskip("sphinx", reason="the packages that build the site")
    page = "# Broken\n\n```python\n>>> 1 + 1\n3\n\n```\n\n```{account} unknown\n```\n"
    (tmp_path / "index.md").write_text(page, encoding="utf-8")
    flags = ["-W", "--keep-going", "-q", "-c", str(DOCS)]
    words = [sys.executable, "-m", "sphinx", *flags, str(tmp_path), str(tmp_path / "html")]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "index.md: WARNING: an example failed" in done.stderr
    assert "index.md:9: ERROR: unknown gave NameError" in done.stderr


def test_each_assumption_is_explained_among_the_limits():
    limits = (DOCS / "limits.md").read_text(encoding="utf-8")
    for one in Assumption:
        start = f"({one.name.lower()})=\n### {one.name}\n\n:::{{assumption}} {one.name}\n:::\n\n"
        assert re.search(re.escape(start) + r"\S", limits), f"{one.name} lacks a section with text"


def test_notes_that_are_named_are_there():
    texts = [*PAGES.values(), (DOCS / "limits.md").read_text(encoding="utf-8")]
    named = {note for text in texts for note in re.findall(r"docs/notes/(\w+)\.md", text)}
    assert named
    assert not [note for note in sorted(named) if not (DOCS / "notes" / f"{note}.md").exists()]


def test_links_between_files_lead_into_the_site():
    text = moved("README.md")
    for link in ("guides/private_search.md", "notes/index.md", "examples/profiles_by_role.md", "contributing.md"):
        assert f"]({link})" in text
    assert "](docs/" not in text
    assert "](../notes/selection.md)" in moved("docs/guides/private_search.md")


def test_every_public_name_stands_in_the_reference_once():
    pages = dict(reference())
    listed = re.findall(r"^\.\. auto\w+:: privsample\.(\S+)$", "\n".join(pages.values()), re.MULTILINE)
    deeper = {
        f"errors.{name}" for name in vars(privsample.errors) if isinstance(getattr(privsample.errors, name), type)
    }
    deeper |= {f"testing.{name}" for name in vars(privsample.testing) if not name.startswith("_")} - {
        f"testing.{module.stem}" for module in Path(privsample.testing.__file__).parent.glob("*.py")
    }
    deeper |= {"interop.pymc.noisy_observation", "interop.pymc.noisy_count"}
    assert sorted(listed) == sorted([*privsample.__all__, *deeper])
    assert all(f"   {name.partition('.')[0]}\n" in pages["index.rst"] + "\n" for name in pages if name != "index.rst")


def test_every_command_and_every_program_is_listed():
    told = commands()
    for name in ("release", "account", "compare", "validate", "ledger", "audit", "reproduce"):
        assert f"## privsample {name}\n\n```text\nusage: privsample {name} " in told
    for program in (ROOT / "examples").glob("*.py"):
        assert re.search(rf"\[{program.name}\]\({program.stem}\.md\)\n: \w", examples())


def test_broken_links_are_found(tmp_path):
    (tmp_path / "index.html").write_text(
        '<p id="here"><a href="#here">a</a><a href="other.html#there">b</a><a href="https://example.org">c</a></p>'
    )
    (tmp_path / "other.html").write_text('<p id="there"><a href="index.html#here">a</a></p>')
    assert broken_links(tmp_path) == []
    (tmp_path / "other.html").write_text(
        '<a href="gone.html">a</a><a href="index.html#gone">b</a><script src="https://example.org/x.js"></script>'
    )
    assert broken_links(tmp_path) == [
        "index.html refers to other.html#there: no such anchor",
        "other.html refers to gone.html: no such file",
        "other.html refers to index.html#gone: no such anchor",
        "other.html loads https://example.org/x.js",
    ]


@pytest.mark.parametrize(
    ("text", "pieces"),
    [
        ("e^{ε−L} dP", [("", "e"), ("^", "ε−L"), ("", " dP")]),
        ("D_{e^{ε}}(P‖Q)", [("", "D"), ("_", "e^{ε}"), ("", "(P‖Q)")]),
        ("f^(−(1+η)t) = P_iA_i", [("", "f"), ("^", "−(1+η)t"), ("", " = P"), ("_", "i"), ("", "A"), ("_", "i")]),
        ("2^−j noise_std, IDEAL_REALS, a_share", [("", "2"), ("^", "−j"), ("", " noise_std, IDEAL_REALS, a_share")]),
        ("an open e^{ε stays, x_i not", [("", "an open e^{ε stays, x"), ("_", "i"), ("", " not")]),
        (
            "e^log_odds, e^-mean m, e^tP",
            [("", "e"), ("^", "log_odds"), ("", ", e"), ("^", "-mean"), ("", " m, e"), ("^", "t"), ("", "P")],
        ),
        ("dP_{s}/dP_s of n_max", [("", "dP"), ("_", "s"), ("", "/dP"), ("_", "s"), ("", " of n_max")]),
        ("δ_best(ε), G_xy, x_±", [("", "δ"), ("_", "best"), ("", "(ε), G"), ("_", "xy"), ("", ", x"), ("_", "±")]),
        ("∫₀^∞ [L^2]", [("", "∫₀"), ("^", "∞"), ("", " [L"), ("^", "2"), ("", "]")]),
    ],
)
def test_plain_formulas_are_raised_and_lowered(text, pieces):
    maths = pytest.importorskip("docs_maths", reason="the packages that build the site")
    assert list(maths.scripts(text)) == pieces


def test_formulas_of_docstrings_are_raised_and_lowered():
    maths = pytest.importorskip("docs_maths", reason="the packages that build the site")
    from docs_docstrings import escaped
    from docutils import nodes
    from docutils.core import publish_doctree

    document = publish_doctree(escaped("R_a <= |s_0|^2 for `noise_std`, not for noise_std"))
    document.settings.env = SimpleNamespace(docname="reference/mechanisms")
    maths.PlainFormulas(document).apply()
    assert [each.astext() for each in document.findall(nodes.subscript)] == ["a", "0"]
    assert [each.astext() for each in document.findall(nodes.superscript)] == ["2"]


def test_what_follows_named_parameters_is_none_of_them():
    docstrings = pytest.importorskip("docs_docstrings", reason="the packages that build the site")
    text = "Parameters:\nrows: so many\n    of them.\na, b: two.\nThey run: apart.\nRaises: TypeError, no rows;\nmore."
    assert docstrings.marked_up(text).split("\n") == [
        ":Parameters:",
        *("   ``rows``", "      so many of them.", ""),
        *("   ``a, b``", "      two.", ""),
        *("They run: apart.", ""),
        *(":Raises: TypeError, no rows; more.", ""),
    ]


def test_sections_of_numpydoc_become_fields():
    docstrings = pytest.importorskip("docs_docstrings", reason="the packages that build the site")
    text = """What it does.

    Parameters
    ----------
    n_draws : int, default 1
        How many,
        all of one kind.
    scale : float

    Notes
    -----
    A proof of n_draws.

    Examples
    --------
    >>> 1 + 1
    2
    """
    lines = docstrings.marked_up(inspect.cleandoc(text)).splitlines()
    assert lines == [
        *("What it does.", ""),
        *(
            ":Parameters:",
            "   ``n_draws : int, default 1``",
            "      How many, all of one kind.",
            "",
            "   ``scale : float``",
        ),
        *("", ".. rubric:: Notes", "", "A proof of n\\_draws.", "", ".. rubric:: Examples", "", ">>> 1 + 1", "2"),
    ]


def test_a_prime_stands_beside_its_letter():
    maths = pytest.importorskip("docs_maths", reason="the packages that build the site")
    assert "msup" not in maths.mathml(r"\delta'(x')", "inline")
    assert "<msup><mi>x</mi><mn>2</mn></msup>" in maths.mathml("x^2", "block")

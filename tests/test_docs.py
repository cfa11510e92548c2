"""The pages of the documentation: each mechanism has one, its examples run, and what it refers to is there.

`make docs` builds the site; these tests look at its sources.
"""

import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

import privsample
import privsample.errors
import privsample.pymc
import privsample.testing
from privsample import Assumption
from privsample.mechanisms.discovery import mechanism_classes

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
sys.path.append(str(ROOT / "tools"))

from docs_site import SHARED, commands, examples, moved, overview, reference  # noqa: E402

TUTORIALS = sorted((DOCS / "tutorials").glob("*.md"))
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
def test_a_page_says_what_it_must(name):
    """The tests of pages run its examples."""
    text = PAGES[name]
    assert text.startswith(f"# {name}\n")
    assert re.findall("^## (.*)", text, re.MULTILINE) == ["Theorem", "Example", "Privacy cost"]
    assert re.search(r"^```{account} (.*)$", text, re.MULTILINE)


def test_there_is_a_tutorial_for_each_reader():
    assert {page.stem for page in TUTORIALS} == {"bayesian", "scikit_learn", "researcher"}
    for page in TUTORIALS:
        text = page.read_text(encoding="utf-8")
        assert ">>> " in text
        assert "```{picture} " in text
        assert f"](tutorials/{page.name})" in (DOCS / "index.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("kind", ["figure", "axes", "array", "bytes"])
def test_pictures_have_no_background(kind):
    pytest.importorskip("matplotlib", reason="the pictures")
    import docs_plots
    from matplotlib.figure import Figure

    figure = Figure()
    axes = figure.subplots(2)
    values = {"figure": figure, "axes": axes[0], "array": axes, "bytes": b"<path style='fill: #ffffff'/>"}
    svg = docs_plots.to_svg(values[kind])
    assert b"#ffffff" not in svg
    assert b"fill: none" in svg
    with pytest.raises(TypeError, match="a figure or axes are needed, got int"):
        docs_plots.to_svg(3)


BROKEN = """# Broken

```python
>>> 1 + 1
3

```

```{account} unknown
```

[gone](gone.md) [gone](#nowhere)

```{toctree}
tables
```
"""
TABLES = """# Tables

| term | meaning $x$ | was |
|---|---|---|
| grid | even values | lattice |
| chord | line | |

| a | b |
|---|---|
| c | d |
"""


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """The pages above as a site, and the process that built it."""
    pytest.importorskip("sphinx", reason="the packages that build the site")
    folder = tmp_path_factory.mktemp("site")
    (folder / "index.md").write_text(BROKEN, encoding="utf-8")
    (folder / "tables.md").write_text(TABLES, encoding="utf-8")
    flags = ["-W", "--keep-going", "-q", "-c", str(DOCS)]
    words = [sys.executable, "-m", "sphinx", *flags, str(folder), str(folder / "html")]
    return folder / "html", subprocess.run(words, capture_output=True, text=True, check=False)


def test_a_page_that_fails_ends_the_build_and_is_named(built):
    _, done = built
    assert done.returncode == 1
    assert "index.md: WARNING: an example failed" in done.stderr
    assert "index.md:9: ERROR: unknown gave NameError" in done.stderr
    assert re.search("index.md:12: WARNING: .*gone.md", done.stderr)
    assert re.search("index.md:12: WARNING: .*nowhere", done.stderr)
    assert "tables.md" not in done.stderr


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
    text = moved("docs/index.md")
    assert "](examples/three_posteriors.md)" in text
    assert "](limits.md)" in text
    assert "](../notes/selection.md)" in moved("docs/guides/private_search.md")
    assert "](vocabulary.md)" in moved("docs/contributing/vocabulary.md") or "](contributing/vocabulary.md)" in moved(
        "CONTRIBUTING.md"
    )


def test_every_public_name_stands_in_the_reference_once():
    pages = dict(reference())
    listed = re.findall(r"^\.\. auto\w+:: privsample\.(\S+)$", "\n".join(pages.values()), re.MULTILINE)
    deeper = {
        f"errors.{name}" for name in vars(privsample.errors) if isinstance(getattr(privsample.errors, name), type)
    }
    deeper |= {f"testing.{name}" for name in privsample.testing.__all__}
    deeper |= {"interop.pymc.noisy_observation", "interop.pymc.noisy_count"}
    deeper |= {f"pymc.{name}" for name in privsample.pymc.__all__}
    assert sorted(listed) == sorted([*privsample.__all__, *deeper])
    lists = {name.partition(".")[0] for name in re.findall(r"^   (\w+)$", pages["index.rst"], re.MULTILINE)}
    tables = "\n".join(text for name, text in pages.items() if name.removesuffix(".rst") in lists)
    for name in listed:
        assert f"   ~privsample.{name}\n" in tables, f"no list shows {name}"
        assert f"{name}.rst" in pages


def test_the_cells_of_a_wide_table_name_their_columns(built):
    site, _ = built
    html = (site / "tables.html").read_text(encoding="utf-8")
    assert re.findall('<p class="column">([^<]*)</p>', html) == ["meaning x", "was", "meaning x"]
    assert len(re.findall('<table class="[^"]*stacked[^"]*"', html)) == 1
    assert html.count('<td class="empty">') == 1


def test_a_page_of_the_reference_leads_to_inherited_methods():
    pages = dict(reference())
    assert "``epsilon``, ``delta``, ``rdp``, ``explain`` and ``plot`` are methods of" in pages["GaussianAccountant.rst"]
    assert "are methods of :py:obj:`privsample.Mechanism`" in pages["GaussianSum.rst"]
    for name in ("Accountant", "Mechanism", "Verdict"):
        assert "are methods of" not in pages[f"{name}.rst"]
    for name, text in pages.items():
        for base, methods in SHARED.items():
            if f"are methods of :py:obj:`privsample.{base.__name__}`" in text:
                assert all(callable(getattr(base, method)) for method in methods), name


def test_a_class_without_bases_shows_none():
    pages = dict(reference())
    assert ":show-inheritance:" in pages["GaussianAccountant.rst"]
    assert ":show-inheritance:" not in pages["Ledger.rst"]
    for name in ("Verdict", "SequentialVerdict"):  # the outcome is a property of all verdicts
        assert ":inherited-members:" in pages[f"{name}.rst"]


def test_every_command_and_every_program_is_listed():
    text = commands()
    for name in ("release", "account", "compare", "validate", "ledger", "audit", "reproduce"):
        assert f"## privsample {name}\n\n```text\nusage: privsample {name} " in text
    for program in (ROOT / "examples").glob("*.py"):
        assert re.search(rf"\[{program.name}\]\({program.stem}\.md\)\n: \w", examples())


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
    from docs_pages import escaped
    from docutils import nodes
    from docutils.core import publish_doctree

    document = publish_doctree(escaped("R_a <= |s_0|^2 for `noise_std`, not for noise_std"))
    document.settings.env = SimpleNamespace(docname="reference/mechanisms")
    maths.PlainFormulas(document).apply()
    assert [each.astext() for each in document.findall(nodes.subscript)] == ["a", "0"]
    assert [each.astext() for each in document.findall(nodes.superscript)] == ["2"]


def test_docstrings_keep_their_code_and_examples():
    pages = pytest.importorskip("docs_pages", reason="the packages that build the site")
    text = "Of |x| * `a_`s\nand `b\nc`, not d_.\n\nExamples\n--------\n>>> 2 * 3\n6\n\n*end"
    assert pages.escaped(text) == (
        "Of \\|x\\| \\* ``a_``\\ s\nand ``b c``, not d\\_.\n\nExamples\n--------\n>>> 2 * 3\n6\n\n\\*end"
    )


def test_a_prime_stands_beside_its_letter():
    maths = pytest.importorskip("docs_maths", reason="the packages that build the site")
    assert "msup" not in maths.mathml(r"\delta'(x')", "inline")
    assert "<msup><mi>x</mi><mn>2</mn></msup>" in maths.mathml("x^2", "block")


def test_a_displayed_formula_may_break_at_wide_spaces():
    maths = pytest.importorskip("docs_maths", reason="the packages that build the site")
    assert maths.displayed_mathml(r"x = 1, \qquad y = 2 \quad z").count("<math ") == 3
    assert maths.displayed_mathml(r"\begin{matrix} a & \quad b \end{matrix}").count("<math ") == 1

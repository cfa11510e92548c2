"""Each page runs once and prints what it says; certificates prove what its examples report of accounts.

`epsilon` and `delta` are recorded where the examples of the README, a guide or a tutorial call them. What cannot be
certified is named in docs/guides/certificates.md, with the reason. The guide on extensions runs in test_extension.py,
in an environment of its own. `make docs` shows what the pages gave here.
"""

import re
import sys
from pathlib import Path

import numpy as np
import pytest

import privsample as ps
from privsample import verify
from privsample.accounting.base import Accountant
from privsample.errors import NotCertified

ROOT = Path(__file__).parent.parent
sys.path.append(str(ROOT / "tools"))

import docs_examples  # noqa: E402
from docs_examples import DIRECTIVE, kept_or_run, run, run_page  # noqa: E402

GUIDE = (ROOT / "docs" / "guides" / "certificates.md").read_text(encoding="utf-8")
EXAMPLE = re.compile(r"^>>> ", re.MULTILINE)
PAGES = [
    page.relative_to(ROOT).with_suffix("").as_posix()
    for page in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    if EXAMPLE.search(text := page.read_text(encoding="utf-8")) or DIRECTIVE.search(text)
]
PAGES.remove("docs/guides/extend")
TO_THE_FOURTH_DIGIT = [
    pytest.param(page, 1.002, marks=pytest.mark.long) for page in PAGES if not page.startswith("docs/mechanisms/")
]
# Packages beside those of `make test` that a page needs.
NEEDED = {"docs/guides/groups": ("pymc", "nutpie", "duckdb", "distributed"), "docs/guides/engines": ("duckdb",)}


@pytest.fixture
def recorded(monkeypatch):
    """(account, name of the method, argument, value) of each call from the examples of a page."""
    calls = []

    def record(name):
        original = getattr(Accountant, name)

        def method(self, argument):
            value = original(self, argument)
            if sys._getframe(1).f_code.co_filename.startswith("<doctest"):
                calls.append((self, name, argument, value))
            return value

        monkeypatch.setattr(Accountant, name, method)

    record("epsilon")
    record("delta")
    return calls


@pytest.fixture(autouse=True)
def _settings_of_pytensor_are_restored():
    """A page may choose how PyTensor compiles: later tests must not compile by Numba for that reason."""
    before = sys.modules["pytensor"].config.mode if "pytensor" in sys.modules else None
    yield
    if (pytensor := sys.modules.get("pytensor")) is not None:
        pytensor.config.mode = before or "Mode"


def test_every_kind_of_page_runs():
    folders = {page.rpartition("/")[0] for page in PAGES}
    assert folders == {"", "docs", "docs/guides", "docs/tutorials", "docs/mechanisms"}
    assert len(PAGES) > 70


# ArviZ 0.23 passes to Matplotlib 3.11 what Matplotlib 3.13 will refuse.
@pytest.mark.filterwarnings("ignore:Passing a dict or None as alias_mapping:DeprecationWarning")
@pytest.mark.filterwarnings("ignore:Cannot cache compiled function")  # Numba, of graphs with large constants
@pytest.mark.parametrize(("page", "margin"), [(page, 1.05) for page in PAGES] + TO_THE_FOURTH_DIGIT)
def test_a_page_prints_what_it_says_and_its_numbers_are_certified(page, margin, recorded):
    """A certificate of many releases proves the number times the margin: a narrow one takes up to half a minute."""
    for package in ("matplotlib", "h5netcdf", "dp_accounting", *NEEDED.get(page, ())):
        pytest.importorskip(package, reason="the pages show pictures and files")
    done = run_page(page)
    assert not done.problems, done.problems
    for account, name, argument, value in [] if page.startswith("docs/mechanisms/") else list(recorded):
        for one, reported in zip(np.ravel(argument), np.ravel(value), strict=True):
            given = {"delta": one} if name == "epsilon" else {"epsilon": one}
            if name == "epsilon" and any(times >= 10 for _, times in getattr(account, "entries", ())):
                given["epsilon"] = reported * margin
            if named_in_the_guide(account, float(reported)):
                with pytest.raises(NotCertified):
                    account.certificate(**given)
            else:
                check(account.certificate(**given), name, float(reported), margin)


def test_numbers_of_pages_are_recorded(recorded):
    """The test above checks certificates at all: this page calls `epsilon`, and the recorder sees it."""
    run(
        "page", ">>> import privsample as ps\n>>> x = ps.GaussianAccountant(sensitivity=1, noise_std=1).epsilon(1e-6)\n"
    )
    assert [(name, argument) for _, name, argument, _ in recorded] == [("epsilon", 1e-6)]


def check(certificate, name, reported, margin):
    """The certificate proves the reported number, up to its fourth digit or the margin."""
    ((epsilon, delta),) = certificate.claims
    claimed = float(verify.Fraction(epsilon if name == "epsilon" else delta))
    assert reported <= claimed <= reported * max(1.0022, margin * 1.0002) + 1e-12
    ((_, proved),) = certificate.verify()
    assert proved <= float(verify.Fraction(delta)) * (1 + 1e-15) + 1e-300


def named_in_the_guide(account, reported):
    """Whether the guide's table says that no such account can be certified, or the number is infinite."""
    cells = re.findall(r"^\| ((?:`\w+`(?:, )?)+) \|", exceptions(), re.MULTILINE)  # without further conditions
    assert len(cells) >= 3
    return not np.isfinite(reported) or f"`{type(account).__name__}`" in ", ".join(cells)


def exceptions():
    """The guide's table of accounts that cannot be certified."""
    return GUIDE.partition("| account | reason |")[2].partition("```")[0]


UNCERTIFIED = {
    "SelectionAccountant": ps.SelectionAccountant(
        base=ps.GaussianAccountant(sensitivity=1, noise_std=4), repetitions=ps.Poisson(mean=5)
    ),
    "ConditionalAccountant": ps.ConditionalAccountant(
        base=ps.GaussianAccountant(sensitivity=1, noise_std=4), event_probability=0.2
    ),
    "LaplaceSumAccountant": ps.LaplaceSumAccountant(sensitivity=1, scale=2, further_scale=3),
    "TemperedAccountant": ps.TemperedAccountant(
        model=ps.BetaBernoulli(alpha=5, beta=7), n=20, temperature=4, truncation=0.2
    ),
    "BernoulliAccountant": ps.BernoulliAccountant(base=ps.ZCDPAccountant(rho=0.1), margin=0.2, draws=1, dimension=1),
}


@pytest.mark.parametrize("name", UNCERTIFIED)
def test_the_exceptions_of_the_guide_are_true(name):
    assert f"`{name}`" in exceptions()
    with pytest.raises(NotCertified, match=f"^{name} cannot be certified: "):
        UNCERTIFIED[name].certificate(delta=1e-6)


def test_an_example_that_fails_is_reported():
    assert "Expected" in run("broken", ">>> 1 + 1\n3\n").problems


def test_a_picture_shows_what_its_expression_was_where_it_stands():
    circle = ">>> from matplotlib.figure import Figure\n>>> x = Figure()\n"
    text = f"{circle}\n```{{picture}} x\n```\n\n>>> x = 2\n>>> x\n3\n\n```{{picture}} x\n```\n\n```{{picture}} z\n```\n"
    done = run("page", text)
    assert done.shown[0].svg.startswith("<?xml")
    assert done.shown[1].error == "TypeError: a figure or axes are needed, got int"
    assert done.shown[2].error == "NameError: name 'z' is not defined"
    assert 'File "page", line 8' in done.failed


def test_what_a_page_showed_is_read_until_its_code_changes(tmp_path, monkeypatch):
    """A changed sentence keeps it; a changed example, package or environment does not; a failure is never kept."""
    monkeypatch.setattr(docs_examples, "KEPT", tmp_path / "kept")
    monkeypatch.setattr(docs_examples, "ROOT", tmp_path)
    monkeypatch.setattr(docs_examples, "_sources", lambda: "the package")
    page, text = tmp_path / "page.md", "Words.\n\n>>> 1 + 1\n2\n\n```{account} unknown\n```\n"
    page.write_text(text, encoding="utf-8")
    assert run_page("page").problems == "unknown gave NameError: name 'unknown' is not defined\n"
    assert not (tmp_path / "kept").exists()
    text = text.partition("```")[0]
    page.write_text(text, encoding="utf-8")
    done = run_page("page")
    monkeypatch.setattr(docs_examples, "run", lambda *_: "run anew")
    assert kept_or_run("page", text) == done
    assert kept_or_run("page", text.replace("Words", "Other words")) == done
    assert kept_or_run("page", text.replace("1 + 1", "2 + 0")) == "run anew"
    assert kept_or_run("other", text) == "run anew"
    monkeypatch.setattr(docs_examples, "_sources", lambda: "a changed package")
    assert kept_or_run("page", text) == "run anew"

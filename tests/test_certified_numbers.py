"""Every epsilon and delta that an account computes in the README, a guide or a tutorial is proved by its certificate.

The pages are executed with `epsilon` and `delta` recorded where the page itself calls them. What cannot be certified is
named in docs/guides/certificates.md, with the reason.
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

from docs_examples import executed  # noqa: E402

GUIDE = (ROOT / "docs" / "guides" / "certificates.md").read_text(encoding="utf-8")
# Pages whose examples call methods of accounts.
PAGES = ("README", "docs/index", "docs/guides/ab_test", "docs/guides/accounts", "docs/guides/budget")
PAGES += (
    "docs/guides/certificates",
    "docs/guides/private_search",
    "docs/guides/survey_histogram",
    "docs/guides/selection",
)
PAGES += ("docs/guides/groups", "docs/guides/private_regression", "docs/guides/exact_inference")
PAGES += tuple(f"docs/tutorials/{name}" for name in ("bayesian", "researcher", "scikit_learn"))


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


def test_every_page_with_such_numbers_is_listed():
    """A page that calls `epsilon` or `delta` of anything is among PAGES, or calls them in other code than examples."""
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").glob("[!n]*.md")), *(ROOT / "docs").glob("guides/*.md")]
    pages += (ROOT / "docs").glob("tutorials/*.md")
    calling = re.compile(r"^(?:>>>|\.\.\.).*\.(?:epsilon|delta)\(", re.MULTILINE)
    found = {
        page.relative_to(ROOT).with_suffix("").as_posix() for page in pages if calling.search(page.read_text("utf-8"))
    }
    assert found - set(PAGES) == {"docs/guides/extend"}  # its account is a user's class, which a test would register
    assert len(found) >= 9


# ArviZ 0.23 passes to Matplotlib 3.11 what Matplotlib 3.13 will refuse.
@pytest.mark.filterwarnings("ignore:Passing a dict or None as alias_mapping:DeprecationWarning")
@pytest.mark.parametrize("page", PAGES)
def test_the_numbers_of_a_page_are_certified(page, recorded, tmp_path, monkeypatch):
    needed = ("pymc", "nutpie", "duckdb", "distributed") if page == "docs/guides/groups" else ()
    for package in ("matplotlib", "h5netcdf", "dp_accounting", *needed):
        pytest.importorskip(package, reason="the pages show pictures and files")
    _, failed = executed(page, (ROOT / f"{page}.md").read_text(encoding="utf-8"))
    assert not failed, failed
    assert recorded or page == "docs/guides/certificates"
    for account, name, argument, value in list(recorded):
        for one, reported in zip(np.ravel(argument), np.ravel(value), strict=True):
            given = {"delta": one} if name == "epsilon" else {"epsilon": one}
            if any(times >= 10_000 for _, times in getattr(account, "entries", ())):
                given["epsilon"] = np.ceil(reported * 100) / 100  # the fourth digit is proved too, in half a minute
            if named_in_the_guide(account, float(reported)):
                with pytest.raises(NotCertified):
                    account.certificate(**given)
            else:
                check(account.certificate(**given), name, float(reported))


def check(certificate, name, reported):
    """The certificate proves the reported number, up to its fourth digit."""
    ((epsilon, delta),) = certificate.claims
    claimed = float(verify.Fraction(epsilon if name == "epsilon" else delta))
    assert reported <= claimed <= reported * 1.0022 + 1e-12
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

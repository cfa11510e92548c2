"""The guide prints what it says, and the example of several sites runs at a small size."""

import doctest
import re
from pathlib import Path

import arviz
import pymc as pm
import pytensor
import pytest

from examples import private_counts_from_sites as sites
from privsample.interop import pymc_sampling


# ArviZ 0.23 passes to Matplotlib 3.11 what Matplotlib 3.13 will refuse.
@pytest.mark.filterwarnings("ignore:Passing a dict or None as alias_mapping:DeprecationWarning")
@pytest.mark.filterwarnings("ignore:Cannot cache compiled function")  # Numba, of graphs with large constants
@pytest.mark.long
def test_guide():
    """In both generations; in that of `make test`, tests/test_pages.py runs it with the other pages."""
    guide = Path(__file__).parents[2] / "docs" / "guides" / "pymc.md"
    page = doctest.DocTestParser().get_doctest(guide.read_text(encoding="utf-8"), {}, guide.name, str(guide), 0)
    absent = [name for name in ("plot_ppc", "plot_ecdf") if not hasattr(arviz, name)]  # ArviZ 1 has other names
    page.examples = [each for each in page.examples if not any(f"az.{name}(" in each.source for name in absent)]
    found = doctest.DocTestRunner().run(page)
    assert found.attempted >= 50
    assert found.failed == 0


def test_sites(monkeypatch):
    """Compiled for Python, and sampled by Metropolis steps: NUTS of the same model runs in the guide."""

    def few_steps(model, *, draws, rng, **_):
        with model, pytensor.config.change_flags(mode="FAST_COMPILE"):
            return pm.sample(
                draws,
                tune=draws,
                chains=1,
                cores=1,
                step=pm.Metropolis(),
                random_seed=rng,
                progressbar=False,
                compute_convergence_checks=False,
            )

    monkeypatch.setattr(pymc_sampling, "run", few_steps)
    words = sites.main(draws=30)
    assert words.count("published") == len(sites.SIZES)
    assert re.search(
        r"^\d of 6 true rates lie in their 90 % intervals; the likelihood is exact\.$", words, re.MULTILINE
    )
    assert words.endswith("All sites together cost epsilon = 0.5: each record is at one site.")


@pytest.mark.generations
def test_a_record_touches_one_site():
    whole = sites.mechanism().accountant
    assert whole.relation.n == sum(sites.SIZES.values())
    assert whole.epsilon(0.0) == sites.EPSILON

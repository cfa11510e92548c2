"""Every mechanism of the library satisfies the requirements on mechanisms of other packages."""

from functools import cache

import pytest

from privsample.accounting.posterior.truncated_beta import TruncatedBetaFamily
from privsample.simulations.audit.catalogue import catalogue
from privsample.testing import check_mechanism

EXAMPLES = catalogue()


@pytest.fixture(scope="module", autouse=True)
def searched_once():
    """Keep the results of a pure search, which Rényi integrals repeat for every order and in both directions."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(TruncatedBetaFamily, "_local_search", cache(TruncatedBetaFamily._local_search))
        yield


@pytest.mark.parametrize("name", EXAMPLES)
def test_a_mechanism_of_the_library_satisfies_every_requirement(name):
    checked = check_mechanism(EXAMPLES[name], skip=["audit", "mutant"])  # these are audited apart
    assert sum(requirement.applied for requirement in checked) > 15

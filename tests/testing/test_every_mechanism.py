"""Every mechanism of the library satisfies the requirements on mechanisms of other packages."""

from functools import cache

import pytest

from privsample.accounting.posterior.truncated_beta import TruncatedBetaFamily
from privsample.accounting.subsampling.allocation import AllocationPair
from privsample.simulations.audit.catalogue import catalogue
from privsample.testing import check_mechanism

EXAMPLES = catalogue()
# Requirements that take seconds for these accounts: in the test lane other samples satisfy them.
SLOW = {
    "sampled-tempered-posterior": ("one-pair-two-curves", "ledger"),
    "sampled-logistic-posterior": ("composition",),
    "langevin-model-batches": ("repeated-release",),  # its account is that of a Poisson sample
}


AUDITS = ("audit", "mutant")  # tests/simulations/test_every_mechanism.py makes these two
MORE_AUDITS = ("many-draws", "other-pairs")


def cases():
    """Each mechanism, and in the long lane once more with the requirements that take seconds."""
    for name in EXAMPLES:
        yield pytest.param(name, (*AUDITS, *MORE_AUDITS, *SLOW.get(name, ())), id=name)
        yield pytest.param(name, AUDITS, id=f"{name}-whole", marks=pytest.mark.long)


@pytest.fixture(scope="module", autouse=True)
def computed_once():
    """Keep the results of pure functions of a pair, which are repeated for every order and for every equal account."""
    repeated = ((TruncatedBetaFamily, "_local_search"), (AllocationPair, "_lattice"), (AllocationPair, "_approximate"))
    with pytest.MonkeyPatch.context() as patch:
        for owner, name in repeated:
            patch.setattr(owner, name, cache(getattr(owner, name)))
        yield


@pytest.mark.parametrize(("name", "left_out"), list(cases()))
def test_a_mechanism_of_the_library_satisfies_every_requirement(name, left_out):
    checked = check_mechanism(EXAMPLES[name], skip=left_out)
    assert sum(requirement.applied for requirement in checked) > 15

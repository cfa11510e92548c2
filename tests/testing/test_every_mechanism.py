"""Every mechanism of the library satisfies the requirements on mechanisms of other packages."""

from functools import wraps

import numpy as np
import pytest

from privsample.accounting.loss import planner
from privsample.accounting.posterior.family import BetaEnvelope
from privsample.accounting.posterior.neighbouring import NeighbouringFamily
from privsample.accounting.posterior.truncated_beta import TruncatedBetaFamily
from privsample.accounting.postprocessing import bernoulli
from privsample.accounting.postprocessing.laplace_sum import LaplaceSumPair
from privsample.accounting.subsampling.allocation import AllocationPair
from privsample.accounting.subsampling.chorded import ChordedPair
from privsample.accounting.subsampling.pairs import CurvePair
from privsample.simulations.audit.catalogue import catalogue
from privsample.testing import check_mechanism

EXAMPLES = catalogue()
# Requirements whose time adds up over all examples, and the examples that other examples stand for in the test lane:
# the same class of mechanism and of account, around a base or a utility that is an example itself.
COSTLY = ("account-of-fields", "no-memory", "calibrate", "composition", "ledger")
SIMILAR = (
    *("sampled-tempered-posterior", "sampled-logistic-posterior", "sampled-gibbs-histograms", "grouped-statistics"),
    *("gibbs-scan", "weighted-categorical", "exponential-ratings", "permute-and-flip-ratings"),
    "selection-stopped-after-runs",
)
# Two releases of pure losses are composed on the same large grid: some accounts of each class compose in the test lane.
LARGE_GRID = (
    *("laplace-sum", "laplace-statistics", "discrete-laplace-statistics", "private-size-statistics"),
    *("one-bit-cluster", "smooth-one-bit", "smooth-categorical", "weighted-categorical", "local-response"),
    *("grouped-statistics", "sampled-statistics", "sampled-tempered-posterior"),
    *("permute-and-flip-ratings", "report-noisy-max"),
    "langevin-model-batches",  # its account is that of a Poisson sample
    *("markov-kernel", "shuffled", "one-bit"),  # pairs of finitely many losses, as those of randomized responses
)
# Requirements that take seconds for one account.
SLOW = {
    "sampled-tempered-posterior": ("one-pair-two-curves",),
    "bernoulli-sampling": ("calibrate",),
    "gibbs-network": ("no-memory",),  # draws statistics, as gibbs-histograms does
    "gibbs-scan": ("epsilon-inverts-delta",),  # a composed account, as that of gibbs-updates
}


AUDITS = ("audit", "mutant")  # tests/simulations/test_every_mechanism.py makes these two
MORE_AUDITS = ("many-draws", "other-pairs")
FILES = ("files",)  # tests/mechanisms/test_files.py saves and loads a release of each example


def cases():
    """Each mechanism, and in the long lane once more with the requirements that take seconds."""
    for name in EXAMPLES:
        left_out = (*AUDITS, *MORE_AUDITS, *FILES, *SLOW.get(name, ()))
        left_out += COSTLY if name in SIMILAR else ()
        left_out += ("repeated-release",) if name in LARGE_GRID else ()
        yield pytest.param(name, left_out, id=name)
        yield pytest.param(name, AUDITS, id=f"{name}-whole", marks=pytest.mark.long)


def by_content(function):
    """Keep the results of a pure function of values and arrays."""
    results = {}

    def key(item):
        return (item.shape, item.tobytes()) if isinstance(item, np.ndarray) else item

    @wraps(function)
    def kept(*given):
        content = tuple(map(key, given))
        if content not in results:
            results[content] = function(*given)
        found = results[content]
        return found.copy() if isinstance(found, np.ndarray) else found

    return kept


@pytest.fixture(scope="module", autouse=True)
def computed_once():
    """Keep the results of pure functions of a pair, which are repeated for every order and for every equal account."""
    repeated = (
        (TruncatedBetaFamily, "_local_search"),
        (AllocationPair, "_lattice"),
        (AllocationPair, "_approximate"),
        (AllocationPair, "log_delta"),
        (BetaEnvelope, "log_delta"),
        (BetaEnvelope, "approx_log_delta"),
        (BetaEnvelope, "least_epsilon"),
        (ChordedPair, "renyi"),
        (CurvePair, "renyi"),
        (NeighbouringFamily, "renyi"),
        (LaplaceSumPair, "_below_shift"),
        (planner, "least_epsilon"),
        (planner, "_on_grid"),
        (bernoulli, "renyi_bound"),
        (bernoulli, "farthest_renyi"),
    )
    with pytest.MonkeyPatch.context() as patch:
        for owner, name in repeated:
            patch.setattr(owner, name, by_content(getattr(owner, name)))
        yield


@pytest.mark.parametrize(("name", "left_out"), list(cases()))
def test_a_mechanism_of_the_library_satisfies_every_requirement(name, left_out):
    checked = check_mechanism(EXAMPLES[name], skip=left_out)
    assert sum(requirement.applied for requirement in checked) > 15

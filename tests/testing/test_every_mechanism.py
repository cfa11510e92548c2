"""Every mechanism of the library obeys the laws that are asked of mechanisms of other packages."""

import pytest

from privsample.simulations.audit.catalogue import catalogue
from privsample.testing import check_mechanism

EXAMPLES = catalogue()


@pytest.mark.parametrize("name", EXAMPLES)
def test_a_mechanism_of_the_library_obeys_every_law(name):
    checked = check_mechanism(EXAMPLES[name], skip=["audit", "mutant"])  # these are audited apart
    assert sum(law.applied for law in checked) > 15

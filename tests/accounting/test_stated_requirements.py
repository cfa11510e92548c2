"""The distributions of all accounts, for those that a user states: alone, in groups, and where they keep order,
composed.
"""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.accounting import test_requirements
from tests.accounting.strategies import RELATIONS, grouped, stated
from tests.properties import examples


def alone():
    """Stated accounts and their groups."""
    one = st.sampled_from(RELATIONS).flatmap(lambda relation: stated(relation, failing=True))
    return st.one_of(one, st.tuples(one, st.integers(2, 3)).map(grouped))


def composed():
    """Several releases of stated accounts without infinite losses."""
    each = st.sampled_from(RELATIONS).flatmap(
        lambda relation: st.lists(st.tuples(stated(relation, failing=False), st.integers(1, 2)), min_size=1, max_size=2)
    )
    return each.map(lambda entries: sum(account * times for account, times in entries))


REQUIREMENTS = [
    "test_renyi_curve",
    "test_privacy_curve",
    "test_epsilon_and_delta_are_inverse_on_the_safe_side",
    "test_routes",
    "test_round_trip",
    "test_frozen",
]


@pytest.mark.hypothesis  # with random examples in the long lane
@pytest.mark.parametrize("accounts", [alone, composed])
@pytest.mark.parametrize("distribution", REQUIREMENTS)
def test_stated_accounts_meet_the_requirements(distribution, accounts):
    body = getattr(test_requirements, distribution).hypothesis.inner_test
    deltas = [st.sampled_from(test_requirements.DELTAS)] * (body.__code__.co_argcount - 1)
    examples(8)(given(accounts(), *deltas)(body))()

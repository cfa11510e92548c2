"""Laws that hold for every account, whatever it is an account of: on random accounts of all classes."""

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from privsample import (
    AddRemove,
    ApproximateAccountant,
    BoundedRangeAccountant,
    GaussianAccountant,
    LaplaceAccountant,
    PoissonSampling,
    PureAccountant,
    ReplaceOne,
    SubsampledAccountant,
)
from tests.accounting.strategies import RELATIONS, accounts, every, positive
from tests.properties import examples, is_thorough

GRID = 1e-6  # nats by which two grids may differ, and the relative error of their deltas
DELTAS = [1e-200, 1e-12, 1e-6, 1e-3, 0.1]


def plain(relation=AddRemove()):
    """Accounts whose samples and compositions are quick."""
    at = {"relation": st.just(relation)}
    return st.one_of(
        st.builds(PureAccountant, stated_epsilon=positive(), **at),
        st.builds(GaussianAccountant, sensitivity=positive(), noise_std=positive(), **at),
        st.builds(LaplaceAccountant, sensitivity=positive(), scale=positive(0.5), **at),
        st.builds(BoundedRangeAccountant, loss_range=positive(), **at),
        st.builds(ApproximateAccountant, stated_epsilon=positive(), stated_delta=st.floats(1e-9, 0.2), **at),
    )


PAIRS = st.tuples(plain(), plain())


def at_most(low, high, relative=1e-9, absolute=GRID):
    """Not above, up to the stated error of compositions on grids."""
    return bool(np.all(low <= high * (1 + relative) + absolute))


@examples(3)
@given(accounts(AddRemove()) | accounts(ReplaceOne(n=5)), st.integers(1, 5), st.sampled_from(DELTAS))
def test_more_releases_never_cost_less(account, times, delta):
    fewer, more = times * account, (times + 1) * account
    assert at_most(fewer.epsilon(delta), more.epsilon(delta))
    assert at_most(fewer.rdp(3.0), more.rdp(3.0), absolute=0.0)


@examples(2)
@given(PAIRS, st.sampled_from(DELTAS), st.sampled_from([0.1, 0.5, 0.9]))
def test_basic_composition(pair, delta, share):
    one, other = pair
    separate = one.epsilon(delta * share) + other.epsilon(delta * (1 - share) * (1 - 1e-15))
    assert at_most((one + other).epsilon(delta), separate)


@examples(6)
@given(every(), st.lists(st.floats(0.0, 8.0), min_size=3, max_size=3, unique=True))
def test_the_privacy_curve_falls_and_is_convex(account, epsilons):
    x = np.exp(np.sort(epsilons))
    assume(x[1] - x[0] > 1e-3 * x[1] and x[2] - x[1] > 1e-3 * x[2])
    left, middle, right = account.delta(np.log(x))
    assert left * (1 + 1e-9) >= middle
    assert middle * (1 + 1e-9) >= right
    share = (x[2] - x[1]) / (x[2] - x[0])
    if account.kind("delta") == "exact" and account.bounds.inverts_exactly:
        assert middle <= (share * left + (1 - share) * right) * (1 + 1e-8)


@examples(6)
@given(every(), st.sampled_from(DELTAS))
def test_no_curve_is_above_the_renyi_conversion_or_the_pure_guarantee(account, delta):
    epsilon = account.epsilon(delta)
    if account.infinity_mass <= delta:
        assert at_most(epsilon, account.pure_epsilon, absolute=0.0)
    for order in (1.5, 3.0, 20.0, 1e3):
        converted = account.rdp(order) + np.log(1 / delta) / (order - 1)  # Mironov 2017, Proposition 3
        assert at_most(epsilon, converted, absolute=0.0)


@examples(6)
@given(plain(), st.floats(1e-6, 0.999), st.sampled_from(DELTAS))
def test_a_sample_never_costs_more_than_all_records(account, rate, delta):
    sampled = SubsampledAccountant(base=account, scheme=PoissonSampling(rate=rate))
    assert at_most(sampled.epsilon(delta), account.epsilon(delta))
    assert at_most(sampled.delta(0.3), account.delta(0.3), absolute=0.0)
    assert at_most(sampled.rdp(2.0), account.rdp(2.0), absolute=0.0)
    assert at_most(sampled.pure_epsilon, account.pure_epsilon, absolute=0.0)


@examples(4)
@given(plain(), st.integers(2, 5), st.sampled_from(DELTAS))
def test_a_group_never_costs_less_than_one_record(account, size, delta):
    try:
        group = account.group(size)
    except ValueError:  # the infinity mass of the group reaches 1
        assume(False)
    assert at_most(account.epsilon(delta), group.epsilon(delta))
    assert at_most(account.rdp(2.0), group.rdp(2.0), absolute=0.0)


@examples(4)
@given(
    st.sampled_from(RELATIONS).flatmap(lambda r: st.tuples(accounts(r), accounts(r), accounts(r))),
    st.sampled_from(DELTAS),
)
def test_order_and_grouping_of_a_sum_do_not_matter(three, delta):
    a, b, c = three
    sums = [(a + b) + c, a + (b + c), (c + a) + b]
    epsilons = np.array([total.epsilon(delta) for total in sums])
    assert at_most(epsilons.max(), epsilons.min(), relative=1e-9)
    assert at_most(max(s.rdp(2.5) for s in sums), min(s.rdp(2.5) for s in sums), relative=1e-12, absolute=0.0)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(10))
def test_laws_of_many_pure_and_sampled_accounts(seed):
    """10^4 accounts with quick curves: monotone in each parameter, and between a part and the whole."""
    rng = np.random.default_rng([int(np.random.default_rng().integers(2**31)) if is_thorough() else 0, seed])
    for _ in range(1000):
        check_a_quick_account(rng)


def test_laws_of_quick_accounts(rng):
    for _ in range(6):
        check_a_quick_account(rng)


def check_a_quick_account(rng):
    """One account of an account class with closed curves, with its sample, its group and its repetition."""
    base = PureAccountant(stated_epsilon=float(10.0 ** rng.uniform(-8, 1.5)))
    rate, delta = float(10.0 ** rng.uniform(-8, -1e-3)), float(10.0 ** rng.uniform(-250, -0.5))
    sampled = SubsampledAccountant(base=base, scheme=PoissonSampling(rate=rate))
    times, size = int(rng.integers(1, 6)), int(rng.integers(2, 6))
    message = f"{base!r}, rate {rate!r}, delta {delta!r}, times {times}, size {size}"
    one, many = sampled.epsilon(delta), (times * sampled).epsilon(delta)
    assert one <= base.epsilon(delta), message
    assert one <= many * (1 + 1e-12), message
    assert many <= times * sampled.epsilon(delta / times) * (1 + 1e-12), message
    assert many <= times * sampled.pure_epsilon * (1 + 1e-15), message
    assert (times * base.group(size)).epsilon(delta) >= (times * base).epsilon(delta), message
    assert base.group(size).epsilon(delta) >= sampled.group(size).epsilon(delta) * (1 - 1e-9), message

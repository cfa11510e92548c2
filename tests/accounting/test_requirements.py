"""Properties of every account, for all classes."""

import copy
import json

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from privsample import (
    DP,
    Accountant,
    AddRemove,
    ApproximateAccountant,
    Assumption,
    Composed,
    GaussianAccountant,
    Group,
    LaplaceAccountant,
    Parallel,
    ReplaceOne,
    privacy_statement,
)
from privsample.accounting.engine.routes import affordable
from privsample.errors import RelationMismatch
from tests.accounting.strategies import RELATIONS, accounts, every, hardly_any, positive
from tests.properties import examples

ORDERS = np.array([1 + 1e-5, 1.01, 1.1, 1.5, 2.0, 2.5, 3.0, 5.0, 8.0, 16.0, 40.0, 300.0, 1e4, 1e6])
EPSILONS = np.array([-6.0, -2.0, -0.5, -1e-3, 0.0, 1e-3, 0.1, 0.5, 1.0, 2.0, 5.0, 20.0])
VIEWS = ("rdp", "delta", "epsilon")
DELTAS = [1e-300, 1e-12, 1e-3, 0.2, 0.9]


def close(x, y, relative=1e-9):
    """Equal up to a relative error, infinities included."""
    return bool(np.all(np.isclose(x, y, rtol=relative, atol=1e-15)))


def same_numbers(one, other):
    few = EPSILONS[[2, 8]]  # a composed account needs one grid for each
    return (
        close(one.rdp(ORDERS), other.rdp(ORDERS))
        and close(one.delta(few), other.delta(few))
        and close(one.epsilon(1e-3), other.epsilon(1e-3))
        and one.order_limit == pytest.approx(other.order_limit)
    )


def or_none(build):
    """The account, or None if the infinity mass of a group reaches 1, which is refused."""
    try:
        return build()
    except ValueError as error:
        if "there is no guarantee" not in str(error):
            raise
        return None


@examples(8)
@given(every())
def test_renyi_curve(account):
    values = account.rdp(ORDERS)
    assert values.shape == ORDERS.shape
    assert not np.isnan(values).any()
    assert (values >= 0).all()
    assert (np.isinf(values) == (account.order_limit <= ORDERS)).all()
    inside = np.isfinite(values)
    orders, values = ORDERS[inside], values[inside]
    if account.kind("rdp") == "exact":  # a bound may be looser at a lower order
        assert (np.diff(values) >= -1e-9 * values[1:]).all()
    assert (values <= account.zcdp * orders * (1 + 1e-9)).all()
    assert (values <= account.pure_epsilon * (1 + 1e-9)).all()
    if account.kind("rdp") == "exact" and len(orders) > 2:
        slopes = np.diff((orders - 1) * values) / np.diff(orders)
        assert (np.diff(slopes) >= -1e-8 * slopes[1:]).all()


@examples(8)
@given(every())
def test_privacy_curve(account):
    values = account.delta(EPSILONS)
    assert values.shape == EPSILONS.shape
    assert ((values >= 0) & (values <= 1)).all()
    assert (np.diff(values) <= 1e-9 * values[:-1]).all()
    # no two distributions are closer than identical ones
    assert (values >= -np.expm1(EPSILONS) * (1 - 1e-12)).all()
    # e^-eps delta(eps) falls too: D_{e^eps} is 1-Lipschitz in e^eps
    assert (np.diff(values) >= -np.diff(np.exp(EPSILONS)) * (1 + 1e-9) - 1e-12).all()
    assert account.delta(min(account.pure_epsilon * (1 + 1e-12), 1e9)) <= account.infinity_mass * (
        1 + 1e-9
    ) or np.isinf(account.pure_epsilon)
    logs = np.maximum(account.log_delta(EPSILONS), np.log(1e-300))
    assert np.allclose(np.log(np.maximum(values, 1e-300)), logs, rtol=1e-12, atol=1e-14)


@examples(8)
@given(every(), st.sampled_from(DELTAS))
def test_epsilon_and_delta_are_inverse_on_the_safe_side(account, delta):
    epsilon = float(account.epsilon(delta))
    assert epsilon >= 0
    if np.isfinite(epsilon):
        grid_error = 0.0 if account.bounds.inverts_exactly else 1e-6  # epsilon and delta may come from two grids
        assert account.log_delta(epsilon + grid_error) <= np.log(delta) + 1e-8  # minima over orders: to rounding
        if account.kind("epsilon") == "exact":
            assert DP(epsilon=max(epsilon, 1e-300), delta=delta).met_by(account)
        assert account.epsilon(min(delta * 2, 0.99)) <= epsilon * (1 + 1e-12)  # each is rounded up by itself
    if 0 < epsilon < account.pure_epsilon and np.isfinite(epsilon):
        assert account.delta(epsilon * (1 - 1e-6)) >= delta * (1 - 1e-9)


@examples(8)
@given(every(), st.sampled_from(DELTAS))
def test_routes(account, delta):
    routes = account.explain(delta)
    assert routes[0].epsilon == pytest.approx(account.epsilon(delta), rel=1e-9)  # further routes may win by rounding
    assert [r.epsilon for r in routes] == sorted(r.epsilon for r in routes)
    found = {route.name: route.epsilon for route in routes}
    if "privacy curve" in found and account.kind("epsilon") == "exact":
        assert found["privacy curve"] <= found["Rényi curve at its best order"] * (1 + 1e-9)
        assert found["privacy curve"] <= found["pure guarantee"] * (1 + 1e-9)


@examples(8)
@given(hardly_any())
def test_every_private_release_has_a_positive_cost(account):
    """For all parameters, although squares, halves and products of small losses underflow."""
    assert account.pure_epsilon > 0
    assert account.zcdp > 0
    orders = ORDERS[::4]
    values = account.rdp(orders)
    assert ((values > 0) & (values <= account.zcdp * orders * (1 + 1e-9))).all()
    assert account.delta(0.0) > 0
    assert account.epsilon(0.0) > 0


@examples(8)
@given(every(), st.integers(1, 4))
def test_times_is_repeated_entries(account, times):
    repeated = times * account
    assert repeated == account * times == Composed(entries=((account, 1),) * times)
    assert repeated == sum([account] * times)
    if account.infinity_mass == 0:
        assert close(repeated.rdp(ORDERS), times * account.rdp(ORDERS))
        assert repeated.pure_epsilon == pytest.approx(times * account.pure_epsilon)
    assert repeated.epsilon(1e-6) >= account.epsilon(1e-6) * (1 - 1e-9)
    assert repeated.infinity_mass == pytest.approx(1 - (1 - account.infinity_mass) ** times, rel=1e-9)
    assert repeated.zcdp == pytest.approx(times * account.zcdp)


@examples(8)
@given(st.sampled_from(RELATIONS).flatmap(lambda r: st.tuples(every(r), every(r))))
def test_sums_commute(pair):
    one, other = pair
    assume(one.relation == other.relation)
    left, right = one + other, other + one
    assert same_numbers(left, right)
    assert left.assumptions == right.assumptions >= one.assumptions | other.assumptions
    if one.infinity_mass == other.infinity_mass == 0:
        assert close(left.rdp(ORDERS), one.rdp(ORDERS) + other.rdp(ORDERS))
    assert left.epsilon(1e-6) <= one.epsilon(5e-7) + other.epsilon(5e-7) + 1e-9 or left.kind("epsilon") != "exact"
    assert left.epsilon(0.0) <= np.nextafter(
        one.epsilon(0.0) + other.epsilon(0.0), np.inf
    )  # rounded up, not to nearest


@examples(8)
@given(accounts(AddRemove()), accounts(ReplaceOne(n=5)))
def test_relations_do_not_mix(one, other):
    for refused in (lambda: one + other, lambda: Composed(entries=((one, 1), (other, 2))), lambda: one | other):
        with pytest.raises(RelationMismatch):
            refused()
    with pytest.raises(RelationMismatch):
        other.to(AddRemove())
    with pytest.raises(RelationMismatch):
        one.to(ReplaceOne(n=5, unit="household"))
    assert one.to(one.relation) is one


@examples(8)
@given(every())
def test_round_trip(account):
    text = json.dumps(account.to_dict(), allow_nan=False)
    copied = Accountant.from_dict(json.loads(text))
    assert copied == account
    assert hash(copied) == hash(account)
    assert copied is not account
    assert {copied, account} == {account}
    assert copied.epsilon(1e-6) == account.epsilon(1e-6)
    assert copy.deepcopy(account) == account
    assert account != account.assuming(Assumption.CONVERGED_CHAIN)
    assert account != "an account"


@examples(8)
@given(every())
def test_frozen(account):
    for name in account.__dataclass_fields__:
        with pytest.raises(AttributeError):
            setattr(account, name, 1)
    with pytest.raises((AttributeError, TypeError)):
        account.unheard_of = 1


@examples(8)
@given(every(), st.sampled_from([0.0, 1e-9, 0.1]))
def test_statement(account, delta):
    text = privacy_statement(account, delta)
    assert account.relation.description in text
    assert all(assumption.value in text for assumption in account.assumptions)
    assert ("there is no guarantee" in text) == np.isinf(account.epsilon(delta))


@examples(5)
@given(every(), st.integers(2, 3))
def test_groups(account, size):
    few = EPSILONS[[2, 8]]  # each value of a group of groups is a search
    alone = Group(base=account, size=1)
    assert close(alone.rdp(ORDERS), account.rdp(ORDERS))
    if affordable(alone.bounds).from_table:  # the search through an expensive composition reads a table
        assert (alone.delta(few) >= account.delta(few) * (1 - 1e-9)).all()
    else:
        assert close(alone.delta(few), account.delta(few))
        assert close(alone.epsilon(0.1), account.epsilon(0.1), 1e-6)
    assert [alone.kind(view) for view in VIEWS] == [account.kind(view) for view in VIEWS]
    group = or_none(lambda: account.group(size))
    if group is None:
        assert account.infinity_mass > 0
        return
    assert (group.rdp(ORDERS) >= account.rdp(ORDERS) * (1 - 1e-9)).all()
    assert (group.delta(few) >= account.delta(few) * (1 - 1e-9)).all()
    assert group.epsilon(1e-6) >= account.epsilon(1e-6) * (1 - 1e-9)
    assert group.relation == account.relation.group(size)
    assert group.relation != account.relation
    assert group.assumptions >= account.assumptions


@examples(8)
@given(
    st.one_of(
        st.builds(GaussianAccountant, sensitivity=positive(), noise_std=positive()),
        st.builds(LaplaceAccountant, sensitivity=positive(), scale=positive(0.5)),
    ),
    st.integers(1, 5),
)
def test_the_general_group_bound_is_never_below_the_mechanisms_own(account, size):
    general, known = Group(base=account, size=size), account.group(size)
    assert (general.rdp(ORDERS) >= known.rdp(ORDERS) * (1 - 1e-9)).all()
    assert (general.delta(EPSILONS) >= known.delta(EPSILONS) * (1 - 1e-9)).all()
    assert general.zcdp >= known.zcdp * (1 - 1e-12)
    for delta in DELTAS:
        assert general.epsilon(delta) >= known.epsilon(delta) * (1 - 1e-9)


@examples(8)
@given(every(AddRemove()))
def test_add_remove_to_replace_one(account):
    if account.relation == AddRemove():  # not a group's account
        moved = or_none(lambda: account.to(ReplaceOne(n=7)))
        if moved is None:
            assert account.infinity_mass > 0
            return
        assert moved.relation == ReplaceOne(n=7)
        assert (moved.rdp(ORDERS) >= account.rdp(ORDERS) * (1 - 1e-9)).all()
        assert (moved.delta(EPSILONS) >= account.delta(EPSILONS) * (1 - 1e-9)).all()


@examples(8)
@given(st.lists(accounts(AddRemove()), min_size=1, max_size=3))
def test_parallel_parts_cost_what_the_worst_costs(parts):
    account = Parallel(parts=tuple(parts))
    assert account.relation == AddRemove()
    assert close(account.delta(EPSILONS), np.max([p.delta(EPSILONS) for p in parts], axis=0))
    assert close(account.epsilon(1e-6), max(p.epsilon(1e-6) for p in parts))
    assert close(account.rdp(ORDERS), np.max([p.rdp(ORDERS) for p in parts], axis=0))
    assert Assumption.FIXED_PARTS not in account.assumptions


@examples(8)
@given(st.lists(accounts(ReplaceOne(n=5)), min_size=1, max_size=3))
def test_parallel_parts_under_replacement(parts):
    account = Parallel(parts=tuple(parts))
    assert account.relation == ReplaceOne(n=5 * len(parts))
    assert Assumption.FIXED_PARTS in account.assumptions
    assert close(account.epsilon(1e-6), max(p.epsilon(1e-6) for p in parts))
    if len(parts) > 1:
        nested = parts[0]
        for part in parts[1:]:
            nested = nested | part
        assert nested == account


@examples(6)  # no numbers are computed: every class would refuse them alike
@given(every())
def test_bad_arguments(account):
    for bad in (1.0, 0.5, np.nan, np.inf, -3.0, [2.0, np.nan]):
        with pytest.raises(ValueError, match="order"):
            account.rdp(bad)
    for bad in (1.0, -1e-300, np.nan, 2.0):
        with pytest.raises(ValueError, match="delta"):
            account.epsilon(bad)
        with pytest.raises(ValueError, match="delta"):
            account.explain(bad)
    with pytest.raises(ValueError, match="epsilon"):
        account.delta(np.nan)
    with pytest.raises(ValueError, match=r"delta must lie in \[0, 1\), got 2\.0"):
        account.epsilon([0.5, 2.0])
    with pytest.raises(
        TypeError, match=f"{type(account).__name__} takes keyword arguments only, got 1 positional argument"
    ):
        type(account)(1.0)
    with pytest.raises(TypeError):
        account.delta("one")
    with pytest.raises(ValueError, match="view"):
        account.kind("curve")
    for wrong in (0, -1):
        with pytest.raises(ValueError, match="at least 1"):
            wrong * account
        with pytest.raises(ValueError, match="at least 1"):
            account.group(wrong)
    for wrong in (True, "2"):
        with pytest.raises(TypeError):
            account * wrong
    with pytest.raises(ValueError, match="must be a whole number"):
        account * 1.5
    assert account * 1.0 == 1 * account
    with pytest.raises(TypeError):
        account + 3
    with pytest.raises(TypeError):
        account | 3
    with pytest.raises(TypeError):
        3 + account


def test_infinite_epsilons():
    account = ApproximateAccountant(stated_epsilon=1.0, stated_delta=0.1)
    assert account.delta(np.inf) == pytest.approx(0.1)
    assert account.delta(-np.inf) == 1.0

"""Filters: sound against every adaptive choice, by exhaustive search, where tight composition is not."""

import math
from functools import cache, partial
from itertools import product

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from privsample import (
    DP,
    RDP,
    ZCDP,
    ApproximateAccountant,
    BetaBernoulli,
    DiffusedPosterior,
    DirectPosterior,
    GaussianAccountant,
    GaussianMechanism,
    LaplaceMechanism,
    ZCDPAccountant,
)
from privsample.accounting.engine.bounds import PrivacyBounds
from privsample.accounting.ledger.filters import (
    CurveFilter,
    PrivacyCost,
    Share,
    SumFilter,
    decimal,
    filter_for,
    largest_count,
)
from privsample.errors import NumericalFailure, UnreachableTarget
from tests.accounting.ledger.shared import pure


def total(found, *accounts):
    return sum((found.charge(account) for account in accounts), start=found.zero)


def worst_adaptive(sizes, allowed, goal, start=((0.0, 1.0),)):
    """The true delta at epsilon = goal against the best adversary who picks randomized responses one after the other.

    sizes: their epsilons; allowed: whether so many of each may be drawn; start: distribution of the loss before the
    first.
    """
    odds = [1 / (1 + math.exp(-size)) for size in sizes]

    @cache
    def value(counts, signs, loss):
        here = loss + sum(size * sign for size, sign in zip(sizes, signs, strict=True))
        best = max(0.0, -math.expm1(goal - here))
        for i, odd in enumerate(odds):
            more = (*counts[:i], counts[i] + 1, *counts[i + 1 :])
            if allowed(more):
                up = (*signs[:i], signs[i] + 1, *signs[i + 1 :])
                down = (*signs[:i], signs[i] - 1, *signs[i + 1 :])
                best = max(best, odd * value(more, up, loss) + (1 - odd) * value(more, down, loss))
        return best

    nothing = (0,) * len(sizes)
    return sum(mass * (1.0 if math.isinf(loss) else value(nothing, nothing, loss)) for loss, mass in start)


def tight_delta(sizes, counts, goal):
    """The privacy curve of a composition fixed beforehand, by adding up its outcomes."""
    distribution = {0.0: 1.0}
    for size, count in zip(sizes, counts, strict=True):
        for _ in range(count):
            step = {}
            for loss, mass in distribution.items():
                for sign in (1, -1):
                    step[loss + sign * size] = step.get(loss + sign * size, 0.0) + mass / (1 + math.exp(-sign * size))
            distribution = step
    return sum(mass * max(0.0, -math.expm1(goal - loss)) for loss, mass in distribution.items())


def admitted(found, sizes, before=None):
    charges = [found.charge(pure(size)) for size in sizes]
    base = found.zero if before is None else before

    @cache
    def allowed(counts):
        extra = [n * charge for n, charge in zip(counts, charges, strict=True) if n]
        return found.fits(sum(extra, start=base))

    return allowed


def test_tight_composition_is_no_filter_and_ours_is():
    """Each step keeps the tight composition within the budget, and the whole beats it by half."""
    sizes, budget = (0.2, 0.7), DP(epsilon=2, delta=0.0073969)
    tight = cache(lambda counts: tight_delta(sizes, counts, 2.0) <= budget.delta)
    assert tight((4, 2))
    assert tight((18, 0))
    assert worst_adaptive(sizes, tight, 2.0) == pytest.approx(1.597 * budget.delta, rel=1e-3)
    ours = admitted(filter_for(budget), sizes)
    reached = worst_adaptive(sizes, ours, 2.0)
    assert 0 < reached <= budget.delta
    assert not ours((18, 0))  # where the adversary gains, ours has stopped


@given(
    st.floats(0.3, 3.0),
    st.floats(1e-4, 0.3),
    st.lists(st.floats(0.15, 1.5), min_size=2, max_size=2, unique=True),
)
def test_no_adversary_beats_the_filter(epsilon, delta, sizes):
    found = filter_for(DP(epsilon=epsilon, delta=delta))
    allowed = admitted(found, sizes)
    assume(all(not allowed(tuple(40 if j == i else 0 for j in range(2))) for i in range(2)))
    assert worst_adaptive(tuple(sizes), allowed, epsilon) <= delta * (1 + 1e-12)


@given(st.floats(0.5, 2.0), st.floats(1e-3, 0.2), st.floats(0.2, 0.9), st.floats(0.05, 0.9))
def test_no_adversary_beats_a_tight_plan_and_the_filter_together(epsilon, delta, share, size):
    """The plan is worth its (epsilon, delta) at once: all of it is seen before the adversary begins."""
    found = filter_for(DP(epsilon=epsilon, delta=delta), approximate_share=share)
    plan_size = epsilon / 5
    plan = [pure(plan_size)] * 6
    part = found.set_aside / 2
    charge = found.charge_composition(sum(plan[1:], start=plan[0] * 1), part)
    assume(found.fits(found.zero + charge))
    distribution = [(plan_size * sum(signs), math.prod(1 / (1 + math.exp(-s * plan_size)) for s in signs)) for signs in
           product((1, -1), repeat=6)]  # fmt: skip
    fail = found.set_aside / 2  # and another release that has an infinity mass of the rest of the part set aside
    charge = charge + found.charge(ApproximateAccountant(stated_epsilon=1e-9, stated_delta=fail * (1 - 1e-9)))
    distribution = [(loss, mass * (1 - fail)) for loss, mass in distribution] + [(math.inf, fail)]
    allowed = admitted(found, (size,), charge)
    assume(not allowed((60,)))
    assert worst_adaptive((size,), allowed, epsilon, start=distribution) <= delta * (1 + 1e-9)


def test_the_published_rule_is_admitted():
    """Whatever one order alone admits by log(w delta)/(a-1), the mixture admits, too."""
    budget = DP(epsilon=1.5, delta=1e-5)
    found = filter_for(budget)
    for order, weight in zip(found.at, found.weights, strict=True):
        limit = budget.epsilon + math.log(weight * budget.delta) / (order - 1)
        renyi = np.where(found.orders == order, limit, np.inf)
        if limit > 0:
            assert found.fits(PrivacyCost(loss=decimal(math.inf), renyi=renyi, infinity_mass=decimal(0.0)))


def test_the_mixture_is_close_to_the_best_single_order():
    """How many Gaussian releases fit, against a plan's best order: 0.91 of it; the published rule reaches 0.63."""
    budget, account = DP(epsilon=1, delta=1e-6), GaussianAccountant(sensitivity=1, noise_std=100)
    found = filter_for(budget)
    one = found.charge(account)
    fits = largest_count(lambda k: found.fits(k * one))
    planned = max(k for k in range(1, 700) if _renyi_epsilon(k * 5e-5, 1e-6) <= 1)
    by_rule = max((1 + math.log(w * 1e-6) / (a - 1)) / (a * 5e-5) for a, w in zip(found.at, found.weights, strict=True))
    assert 0.9 < fits / planned < 1
    assert by_rule / planned < 0.65


def test_the_bound_on_the_maximum_holds_after_any_number_of_rounds(monkeypatch):
    """It is the tangent at the left end of the last interval, which has no width in the end."""
    found = filter_for(DP(epsilon=1, delta=1e-6))
    sums = found.charge(GaussianAccountant(sensitivity=1, noise_std=5)).renyi
    bounds = []
    for rounds in (2, 5, 20, 64, 200):
        monkeypatch.setattr("privsample.accounting.ledger.filters._ROUNDS", rounds)
        bounds.append(found._curve_excess(sums, 1.0))
    assert bounds[0] > bounds[1] > bounds[2] >= bounds[3] == bounds[4]


def _renyi_epsilon(rho, delta):
    a = 1 + np.geomspace(1, 1000, 20_000)
    return (rho * a + np.log1p(-1 / a) - np.log(a * delta) / (a - 1)).min()


@pytest.mark.parametrize(
    ("budget", "account", "most"),
    [
        (DP(epsilon=1), pure(0.1), 10),
        (DP(epsilon=0.3), pure(0.1), 3),
        (ZCDP(rho=0.5), GaussianAccountant(sensitivity=1, noise_std=10), 100),
        (ZCDP(rho=0.3), ZCDPAccountant(rho=0.1), 3),
        (RDP(order=4, epsilon=2), GaussianAccountant(sensitivity=1, noise_std=10), 100),
        (DP(epsilon=1), GaussianAccountant(sensitivity=1, noise_std=10), 0),
        (ZCDP(rho=1), DirectPosterior(model=BetaBernoulli(alpha=6, beta=12), n=10).accountant, 0),
        (RDP(order=7, epsilon=1), DirectPosterior(model=BetaBernoulli(alpha=6, beta=12), n=10).accountant, 0),
        (DP(epsilon=1), ApproximateAccountant(stated_epsilon=0.1, stated_delta=1e-9), 0),
        (RDP(order=2, epsilon=1), ApproximateAccountant(stated_epsilon=0.1, stated_delta=1e-9), 0),
    ],
)
def test_one_number_adds_up(budget, account, most):
    found = filter_for(budget)
    charge = found.charge(account)
    if most:
        assert found.fits(most * charge)
        assert found.left(most * charge) == 0.0
    assert not found.fits((most + 1) * charge)
    assert found.spent(found.zero) == 0.0
    assert found.left(found.zero) == found.amount
    one_by_one = sum([charge] * max(most, 1), start=found.zero)
    assert one_by_one.loss == (max(most, 1) * charge).loss


def test_decimals_as_they_print_and_rounded_upwards():
    found = filter_for(DP(epsilon=0.3))
    assert found.fits(total(found, pure(0.1), pure(0.2)))  # although 0.1 + 0.2 > 0.3 in floats
    assert not found.fits(total(found, pure(0.1), pure(0.2), pure(1e-300)))
    assert found.spent(total(found, pure(0.3), pure(1e-300))) > 0.3
    assert found.left(total(found, pure(0.1))) == 0.2
    assert decimal(math.nan) == decimal(-1.0) == decimal(math.inf)


@pytest.mark.parametrize(
    "amount", [0.1 + 0.2, 1 / 3, 1e-3, *(pytest.param(amount, marks=pytest.mark.long) for amount in (2.0, 0.7, 13.7))]
)
@pytest.mark.parametrize("kind", ["pure", "zcdp", "(epsilon, delta)", "failures"])
def test_a_budget_is_spent_whole_in_equal_parts(amount, kind):
    """To 15 digits three times 2/3 is 2.000000000000001, so that the third of three equal parts was refused."""
    for parts in (1, 2, 3, 6, 7, 9, 11, 13, 19, 37, 49, 1000):
        match kind:
            case "pure":
                found, one = filter_for(DP(epsilon=amount)), pure(amount / parts)
            case "zcdp":
                found, one = filter_for(ZCDP(rho=amount)), ZCDPAccountant(rho=amount / parts)
            case "(epsilon, delta)":
                found, one = filter_for(DP(epsilon=amount, delta=1e-300)), pure(amount / parts)
            case _:
                found = filter_for(DP(epsilon=1, delta=min(amount, 1.0) / 10), approximate_share=0.7)
                one = ApproximateAccountant(stated_epsilon=1e-9, stated_delta=found.set_aside / parts)
        spent = found.zero
        for _ in range(parts):
            spent = spent + found.charge(one)
        assert found.fits(spent)
        if kind == "(epsilon, delta)":  # by their Rényi curve many small parts cost less
            continue
        assert not found.fits(spent + found.charge(one))
        if kind == "failures":
            assert found.set_aside_left(spent) == 0.0
        else:
            assert found.left(spent) == 0.0
            assert found.spent(spent) == pytest.approx(amount, rel=2e-15)


def test_what_is_nearly_an_equal_part_counts_as_it_is():
    found = filter_for(DP(epsilon=2))
    assert not found.fits(3 * found.charge(pure(2 / 3 * (1 + 2e-15))))
    assert not found.fits(3 * found.charge(pure(0.67)))
    for amount in (5e-324, 1e-300, math.inf):
        assert (
            found.charge(pure(amount) if amount < math.inf else GaussianAccountant(sensitivity=1, noise_std=1)).loss > 0
        )


@pytest.mark.parametrize("amount", [2.0, 0.3, 0.1 + 0.2, 1 / 3, 1e-3, 13.7])
def test_a_fresh_budget_is_all_there(amount):
    for budget in (DP(epsilon=amount), DP(epsilon=amount, delta=1e-6), ZCDP(rho=amount), RDP(order=3, epsilon=amount)):
        found = filter_for(budget)
        assert found.spent(found.zero) == 0.0
        assert amount * (1 - 5e-15) <= found.left(found.zero) <= amount


def test_what_remains_can_be_spent_by_a_pure_release():
    found = filter_for(DP(epsilon=1, delta=1e-6))
    so_far = 30 * found.charge(GaussianAccountant(sensitivity=1, noise_std=60))
    assert found.fits(so_far + found.charge(pure(found.left(so_far))))
    assert not found.fits(so_far + found.charge(pure(found.left(so_far) * 1.1)))
    assert found.spent(so_far) == pytest.approx(1 - found.left(so_far), abs=1e-15)


def test_pure_releases_need_no_delta():
    found = filter_for(DP(epsilon=1, delta=1e-300))
    assert found.fits(total(found, *[pure(0.1)] * 10))
    assert not found.fits(total(found, *[pure(0.1)] * 10, GaussianAccountant(sensitivity=1, noise_std=1e9)))


def test_failures_need_a_share_of_delta():
    account = ApproximateAccountant(stated_epsilon=0.01, stated_delta=1e-7)
    for share, most in [(0.0, 0), (0.1, 1), (0.35, 3)]:
        found = filter_for(DP(epsilon=1, delta=1e-6), approximate_share=share)
        assert not found.fits((most + 1) * found.charge(account))
        assert math.isinf(found.spent((most + 1) * found.charge(account)))
        assert found.left((most + 1) * found.charge(account)) == 0.0
        assert most == 0 or found.fits(most * found.charge(account))
        assert found.own_delta <= (1 - share) * 1e-6 * (1 + 1e-12)
    assert found.set_aside_left(found.zero) == found.set_aside
    assert found.set_aside_left(9 * found.charge(account)) == 0.0


def test_a_filter_with_all_of_delta_set_aside_takes_pure_releases():
    found = CurveFilter(budget=DP(epsilon=1, delta=1e-6), at=(9.0,), weights=(1.0,), set_aside=1e-6)
    assert found.own_delta == 0.0
    assert found.fits(total(found, pure(0.5), pure(0.5)))
    assert not found.fits(total(found, GaussianAccountant(sensitivity=1, noise_std=1e6)))
    assert math.isinf(found.spent(total(found, GaussianAccountant(sensitivity=1, noise_std=1e6))))


def test_orders_above_the_limit_of_a_posterior_count_as_infinite():
    found = filter_for(DP(epsilon=1, delta=1e-6))
    account = DiffusedPosterior(model=BetaBernoulli(alpha=6, beta=12), n=100, data_weight=0.2).accountant
    charge = found.charge(account)
    assert np.isinf(charge.renyi[found.orders >= account.order_limit]).all()
    assert found.fits(charge)
    direct = found.charge(DirectPosterior(model=BetaBernoulli(alpha=6, beta=12), n=100).accountant)
    assert np.isinf(direct.renyi).all()
    assert not found.fits(direct)


@pytest.mark.parametrize("budget", [DP(epsilon=1, delta=1e-6), DP(epsilon=1), ZCDP(rho=1), RDP(order=2, epsilon=1)])
@pytest.mark.parametrize("broken", [math.nan, -1.0, NumericalFailure("no")])
def test_what_cannot_be_computed_is_infinite(budget, broken, monkeypatch):
    def answer(self, *orders):
        if isinstance(broken, Exception):
            raise broken
        return np.full(np.shape(orders[0]), broken)[()] if orders else broken

    for name in ("pure_epsilon", "zcdp"):
        monkeypatch.setattr(GaussianAccountant, name, property(answer))
    for name in ("rdp", "epsilon"):
        monkeypatch.setattr(GaussianAccountant, name, answer)
    monkeypatch.setattr(GaussianAccountant, "_bounds", lambda self: PrivacyBounds.from_renyi(partial(answer, self)))
    found, account = filter_for(budget), GaussianAccountant(sensitivity=1, noise_std=1e9)
    assert not found.fits(found.charge(account))
    assert math.isinf(found.spent(found.charge(account)))
    if isinstance(found, CurveFilter):
        assert not found.fits(found.charge_composition(account, 1e-9))


@pytest.mark.parametrize("epsilon", [1e-300, 1e-6, 1.0, 30.0, 1e6, 1e300])
@pytest.mark.parametrize("delta", [1e-300, 1e-6, 0.5, 1 - 2.0**-53])
def test_any_budget_has_a_filter(epsilon, delta):
    found = filter_for(DP(epsilon=epsilon, delta=delta))
    assert found.fits(found.zero)
    assert found.left(found.zero) == epsilon
    assert epsilon > 1e9 or not found.fits(10**15 * found.charge(GaussianAccountant(sensitivity=1, noise_std=1e-3)))
    assert found.fits(found.charge(pure(epsilon)))


@pytest.mark.parametrize("budget", [DP(epsilon=1, delta=1e-6), DP(epsilon=0.7), ZCDP(rho=0.1), RDP(order=9, epsilon=1)])
@pytest.mark.parametrize("k", [1, 7, 50])
def test_k_releases_calibrated_to_a_share_fit_and_no_more(budget, k):
    found = filter_for(budget)
    kind = GaussianMechanism if not (isinstance(budget, DP) and budget.delta == 0) else LaplaceMechanism
    before = total(found, pure(0.1)) if kind is LaplaceMechanism else total(found, ZCDPAccountant(rho=1e-3))
    made = kind.calibrate(sensitivity=1, target=Share(filter=found, total=before, releases=k))
    one, so_far = found.charge(made.accountant), before
    for _ in range(k):
        so_far = so_far + one
    assert found.fits(so_far)
    assert not found.fits(so_far + one)
    spent = found.spent(so_far)
    assert spent <= found.amount
    assert spent == pytest.approx(found.amount, rel=1e-6)


def test_a_share_can_be_out_of_reach():
    found = filter_for(ZCDP(rho=1))
    share = Share(filter=found, total=found.zero, releases=3)
    assert share.description == "1/3 of the remainder of zCDP of rho 1"
    with pytest.raises(UnreachableTarget, match="of the remainder"):
        DirectPosterior.calibrate(model=BetaBernoulli(alpha=6, beta=12), n=10, target=share)
    with pytest.raises(ValueError, match="releases"):
        Share(filter=found, total=found.zero, releases=0)


def test_a_plan_calibrated_to_the_whole_budget_fits_tightly():
    budget = DP(epsilon=1, delta=1e-6)
    for draws in (2, 30, 1000):
        plan = GaussianMechanism.calibrate(sensitivity=1, draws=draws, target=budget).accountant
        found = CurveFilter(budget=budget, at=(9.0,), weights=(1.0,), set_aside=1e-6)
        assert found.fits(found.charge_composition(plan, 1e-6))


def test_the_last_digit_of_a_search_is_forgiven_only_where_the_budget_is_met(monkeypatch):
    plan = GaussianMechanism.calibrate(sensitivity=1, target=DP(epsilon=1, delta=1e-6)).accountant
    monkeypatch.setattr(GaussianAccountant, "epsilon", lambda self, delta: 1 + 1e-12)
    found = CurveFilter(budget=DP(epsilon=1, delta=1e-6), at=(9.0,), weights=(1.0,), set_aside=1e-6)
    assert found.fits(found.charge_composition(plan, 1e-6))
    looser = GaussianAccountant(sensitivity=1, noise_std=plan.noise_std * 0.99)
    assert not found.fits(found.charge_composition(looser, 1e-6))


def test_weights_of_ones_own():
    budget = DP(epsilon=1, delta=1e-6)
    found = filter_for(budget, weights={30: 1.0})
    limit = 1 + math.log(30e-6) / 29 - math.log1p(-1 / 30)  # one order: the usual conversion
    assert found.fits(found.charge(ZCDPAccountant(rho=limit / 30 * (1 - 1e-12))))
    assert not found.fits(found.charge(ZCDPAccountant(rho=limit / 30 * (1 + 1e-12))))
    for weights in ({}, {2: 0.5}, {2: -1.0, 3: 2.0}, {2: math.nan}, {1: 1.0}, {math.inf: 1.0}):
        with pytest.raises(ValueError, match=r"weights|orders"):
            filter_for(budget, weights=weights)
    for aside in (-1e-9, 1e-5, math.nan):
        with pytest.raises(ValueError, match="set_aside must lie"):
            CurveFilter(budget=budget, at=(2.0,), weights=(1.0,), set_aside=aside)


@pytest.mark.parametrize("share", [-0.1, 1.0, math.nan])
def test_shares_of_delta_are_checked(share):
    with pytest.raises(ValueError, match="approximate_share"):
        filter_for(DP(epsilon=1, delta=1e-6), approximate_share=share)


def test_budgets_without_delta_have_nothing_to_divide():
    for budget in (DP(epsilon=1), ZCDP(rho=1), RDP(order=2, epsilon=1)):
        assert isinstance(filter_for(budget), SumFilter)
        with pytest.raises(ValueError, match="delta > 0"):
            filter_for(budget, approximate_share=0.1)
        with pytest.raises(ValueError, match="delta > 0"):
            filter_for(budget, weights={2: 1.0})
    found = filter_for(ZCDP(rho=1))
    with pytest.raises(TypeError, match="budget must be"):
        filter_for(Share(filter=found, total=found.zero, releases=1))
    with pytest.raises(TypeError, match="budget must be"):
        SumFilter(budget=DP(epsilon=1, delta=0.1))

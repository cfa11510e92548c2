"""Reserved plans: what they cost, what they leave, and what is drawn from them."""

import math
from dataclasses import replace

import pytest

from privsample import (
    DP,
    ApproximateAccountant,
    GaussianAccountant,
    GaussianMechanism,
    LaplaceMechanism,
    ReplaceOne,
)
from privsample.accounting.ledger import Ledger, Reservation
from privsample.accounting.ledger.filters import CurveFilter
from privsample.errors import BudgetExceeded, RelationMismatch, SchemaError
from tests.accounting.ledger.shared import BUDGET, LAPLACE, ONE_NUMBER, TOY, Watching, posterior, pure, unchanged


def test_a_plan_that_fits_by_its_curve_leaves_the_rest(path, made):
    ledger = made()
    one, two = GaussianMechanism(sensitivity=1, noise_std=100), LaplaceMechanism(sensitivity=1, scale=100)
    plan = ledger.reserve([one, (two, 2), pure(0.01)], label="the study")
    assert ledger.history()[0].delta is None
    other = Ledger(path.with_name("other"), budget=BUDGET, **TOY)
    for account, times in [(one.accountant, 1), (two.accountant, 2), (pure(0.01), 1)]:
        other.spend(account, times=times)
    assert other.spent() == pytest.approx(ledger.spent(), rel=1e-14)  # the same entries one by one
    release = plan.release(0, 5.0)
    assert release.mechanism == one
    with pytest.raises(BudgetExceeded, match=r"item 0 of plan 1 .* no draw is left"):
        plan.release(0, 5.0)
    restarted = Ledger(path).reservation(plan.number)
    restarted.release(1, 5.0)
    assert [item.left for item in plan.items] == [0, 1, 1]
    assert plan.take(2) == pure(0.01)
    with pytest.raises(BudgetExceeded, match="no draw is left"):
        restarted.take(2)
    assert ledger.spent() == pytest.approx(other.spent(), rel=1e-14)  # draws cost nothing more
    assert "number=1" in repr(plan)
    ledger.spend(pure(0.01))
    with pytest.raises(ValueError, match="declared by its account"):
        restarted.release(2, 1.0)
    for position in (3, -1, True, 0.5, "0"):
        with pytest.raises(ValueError, match="position must be one of 0 to 2"):
            restarted.take(position)
    for number, error in [(2, ValueError), (3, ValueError), (0, ValueError), (True, TypeError)]:
        with pytest.raises(error, match=r"number|not a reserved plan"):
            ledger.reservation(number)


def tight_plan(draws=20):
    whole = GaussianMechanism.calibrate(sensitivity=1, draws=draws, target=BUDGET)
    return replace(whole, draws=1), whole


def test_a_first_plan_may_take_all_of_delta(path, made):
    one, whole = tight_plan()
    ledger = made()
    assert not ledger.fits(whole.accountant)  # adaptively chosen, so many are too many
    plan = ledger.reserve([(one, 20)])
    assert plan.number == 1
    assert ledger.history()[0].delta == BUDGET.delta
    assert ledger.spent() == 1.0
    again = Ledger(path)
    assert (again.spent(), again.remaining()) == (1.0, 0.0)
    assert again.export()["set_aside"] == {"delta": 1e-6, "left": 0.0}
    for step in (lambda: again.spend(pure(1e-3)), lambda: again.reserve([one])):
        with pytest.raises(BudgetExceeded):
            step()
    for _ in range(20):
        again.reservation(1).release(0, 0.0)
    with pytest.raises(BudgetExceeded):
        plan.release(0, 0.0)


def test_a_first_plan_may_take_a_part_of_delta_and_the_filter_keeps_the_rest(made):
    one, _ = tight_plan(draws=100)
    ledger = made()
    ledger.reserve([(one, 40)], delta=0.5e-6)
    assert ledger.history()[0].delta == 0.5e-6
    found = ledger.share(1).filter
    assert isinstance(found, CurveFilter)
    assert (found.set_aside, found.own_delta) == (0.5e-6, 0.5e-6)
    assert ledger.spent() == pytest.approx((40 * one.accountant).epsilon(0.5e-6), rel=1e-9)
    ledger.spend(GaussianAccountant(sensitivity=1, noise_std=300))
    with pytest.raises(BudgetExceeded, match="0 is set aside and unused"):
        ledger.reserve([one], delta=1e-8)


def test_later_plans_take_from_what_was_set_aside(made):
    one, _ = tight_plan(draws=100)
    ledger = made(approximate_share=0.6)
    ledger.spend(pure(0.2))
    first = ledger.reserve([(one, 30)], delta=0.2e-6)
    assert ledger.spent() == pytest.approx(0.2 + (30 * one.accountant).epsilon(0.2e-6), rel=1e-12, abs=0)
    assert ledger.export()["set_aside"] == {"delta": 6e-7, "left": 4e-7}
    ledger.spend(ApproximateAccountant(stated_epsilon=0.01, stated_delta=1e-7))
    left = ledger.remaining()
    half = GaussianMechanism.calibrate(sensitivity=1, draws=10, target=DP(epsilon=left * 0.99, delta=3e-7))
    assert not ledger.fits(half.accountant)
    last = ledger.reserve([half])  # does not fit by its curve: takes all that is set aside and left
    assert ledger.history()[last.number - 1].delta == 3e-7
    assert ledger.export()["set_aside"]["left"] == 0.0
    assert first.number == 2
    with pytest.raises(BudgetExceeded, match="does not fit"):
        ledger.reserve([half])


def test_a_failed_refusal_of_a_plan_changes_nothing(made):
    one, _ = tight_plan()
    ledger = made()
    ledger.spend(pure(0.01))
    before = ledger.history()
    with pytest.raises(BudgetExceeded, match=r"the plan does not fit.*approximate_share"):
        ledger.reserve([(one, 20)])
    with pytest.raises(BudgetExceeded, match="it needs 5e-07 of delta, and 1e-12 is set aside"):
        ledger.reserve([(one, 2)], delta=5e-7)
    assert unchanged(ledger, before)


@pytest.mark.parametrize("budget", ONE_NUMBER)
def test_plans_under_budgets_of_one_number_add_up(budget, made):
    ledger = made(budget)
    plan = ledger.reserve([(pure(0.1), 3)])
    (entry,) = before = ledger.history()
    assert entry.delta is None
    with pytest.raises(ValueError, match=r"a part of delta, and .* has none"):
        ledger.reserve([pure(0.1)], delta=1e-9)
    with pytest.raises(BudgetExceeded, match="the plan"):
        ledger.reserve([(pure(0.5), 50)])
    assert unchanged(ledger, before)
    assert isinstance(plan, Reservation)


def test_bad_plans_reserve_nothing(made):
    ledger = made()
    for plan, error, words in [
        ([], ValueError, "at least one"),
        ([3], TypeError, "mechanisms and accountants, got int"),
        ([(LAPLACE, 0)], ValueError, "times"),
        ([replace(LAPLACE, relation=ReplaceOne(n=2))], RelationMismatch, "relation of the ledger"),
        ([Watching(path="x", seen=[])], ValueError, "Watching is not registered"),
    ]:
        with pytest.raises(error, match=words):
            ledger.reserve(plan)
    for delta in (0.0, -1.0, 1.0, math.nan):
        with pytest.raises(ValueError, match="delta"):
            ledger.reserve([LAPLACE], delta=delta)
    assert unchanged(ledger, ())


def test_a_mechanism_that_would_come_back_different_is_not_reserved(made, monkeypatch):
    ledger = made()
    monkeypatch.setattr("privsample.accounting.ledger.plan.decode", lambda document: None)
    with pytest.raises(ValueError, match="declare its accountant"):
        ledger.reserve([LAPLACE])
    assert ledger.history() == ()


def test_a_plan_whose_mechanism_now_costs_otherwise_is_not_drawn(made, monkeypatch):
    ledger = made()
    plan = ledger.reserve([LAPLACE])
    monkeypatch.setattr(LaplaceMechanism, "accountant", property(lambda self: pure(0.2)))
    with pytest.raises(ValueError, match="another account"):
        plan.release(0, 1.0)
    assert plan.items[0].left == 1


def test_a_plans_data_are_checked_before_the_draw_is_marked(made):
    plan = made(relation=ReplaceOne(n=4)).reserve([posterior(4)])
    with pytest.raises(SchemaError):
        plan.release(0, [0, 1])
    assert plan.items[0].left == 1
    assert plan.release(0, [0, 1, 1, 0], validated=True)["theta"].shape == (1,)


def test_many_draws_of_one_item(made):
    ledger = made()
    plan = ledger.reserve([(pure(1e-6), 10**5)])
    assert plan.take(0) == pure(1e-6)
    assert plan.items[0].left == 10**5 - 1

"""The ledger: what it writes, what it refuses, and that a refusal or an error changes nothing."""

import json
import math
import pickle
import shutil
import sqlite3
from dataclasses import replace

import numpy as np
import pytest

from privsample import (
    DP,
    RDP,
    ZCDP,
    AddRemove,
    ApproximateAccountant,
    BetaBernoulli,
    DiffusedPosterior,
    GaussianAccountant,
    GaussianMechanism,
    LaplaceMechanism,
    PureAccountant,
    RandomizedResponse,
    Release,
    ReplaceOne,
)
from privsample._value import value
from privsample.accounting.base import Accountant
from privsample.accounting.ledger import Ledger, Reservation
from privsample.accounting.ledger.book import drawing
from privsample.accounting.ledger.filters import CurveFilter
from privsample.accounting.ledger.log import SCHEMA, Event, Log
from privsample.errors import BudgetExceeded, RelationMismatch, SchemaError

TOY = {"relation": AddRemove(), "dataset": "toy"}
BUDGET = DP(epsilon=1, delta=1e-6)
LAPLACE = LaplaceMechanism(sensitivity=1, scale=10)


def pure(epsilon):
    return PureAccountant(stated_epsilon=epsilon)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "toy.ledger"


@pytest.fixture
def made(path):
    return lambda budget=BUDGET, **more: Ledger(path, budget=budget, **{**TOY, **more})


def unchanged(ledger, before):
    """Nothing was written, and a fresh look agrees."""
    return Ledger(ledger.path).history() == ledger.history() == before


def edit(path, statement, *values):
    """What another program could do to the file."""
    connection = sqlite3.connect(path, isolation_level=None)
    for trigger in ("never_changed", "never_removed"):
        connection.execute(f"DROP TRIGGER IF EXISTS {trigger}")
    connection.execute(statement, values)
    connection.close()


@pytest.mark.parametrize("budget", [BUDGET, DP(epsilon=1), ZCDP(rho=0.5), RDP(order=4, epsilon=1)])
def test_a_ledger_comes_back_as_it_was(budget, path, made):
    ledger = made(budget)
    assert (ledger.budget, ledger.relation, ledger.dataset, ledger.path) == (budget, AddRemove(), "toy", path)
    assert (ledger.spent(), ledger.history()) == (0.0, ())
    assert ledger.remaining() == ledger.export()["remaining"]
    entry = ledger.spend(pure(0.1), times=2, label="two counts")
    assert ledger.history() == (entry,)
    assert entry.account == 2 * pure(0.1)
    assert (entry.number, entry.kind, entry.label, entry.items[0].times) == (1, "spend", "two counts", 2)
    assert 0 < ledger.spent() < ledger.remaining()
    again = Ledger(path)
    assert (again.budget, again.history(), again.spent()) == (budget, ledger.history(), ledger.spent())
    assert Ledger(path, budget=budget, relation=AddRemove(), dataset="toy").spent() == ledger.spent()
    again.spend(pure(0.05))
    assert ledger.spent() == again.spent()  # each sees what the other wrote
    assert pickle.loads(pickle.dumps(ledger)).history() == again.history()
    assert "toy" in repr(ledger)
    assert not list(path.parent.glob(".*"))  # one file, nothing beside it
    assert list(path.parent.iterdir()) == [path]


def test_release_spends_then_draws(made):
    ledger = made(DP(epsilon=0.3))
    release = ledger.release(LAPLACE, 3.0)
    assert isinstance(release, Release)
    assert release.account == LAPLACE.accountant
    assert ledger.spent() == 0.1
    assert ledger.history()[0].label == "LaplaceMechanism"
    assert ledger.fits(LAPLACE.accountant, times=2)
    assert not ledger.fits(LAPLACE.accountant, times=3)
    ledger.release(LAPLACE, 3.0, label="again")
    ledger.release(LAPLACE, 3.0)
    assert ledger.remaining() == 0.0
    before = ledger.history()
    assert [entry.kind for entry in before] == ["release"] * 3
    with pytest.raises(BudgetExceeded, match=r"LaplaceMechanism does not fit.*0\.3 to 0\.4, and 0 remains"):
        ledger.release(LAPLACE, 3.0)
    assert unchanged(ledger, before)


@value
class Watching:
    """A mechanism that looks at its ledger while it draws."""

    path: object
    seen: list[float]
    account: Accountant = LAPLACE.accountant

    @property
    def accountant(self):
        return self.account

    def release(self, data):
        self.seen.append(Ledger(self.path).spent())
        raise MemoryError


def test_the_spend_is_on_disk_before_the_draw_and_stays_when_the_draw_fails(path, made):
    ledger, seen = made(DP(epsilon=1)), []
    with pytest.raises(MemoryError):
        ledger.release(Watching(path=path, seen=seen), [1])
    assert seen == [0.1]
    assert ledger.spent() == 0.1
    with pytest.raises(BudgetExceeded):
        ledger.release(Watching(path=path, seen=seen, account=pure(2.0)), [1])
    assert len(seen) == 1
    with pytest.raises(TypeError):
        ledger.release(LAPLACE, 1.0, rng=np.random.default_rng(0))
    assert ledger.spent() == 0.1


def test_data_of_a_wrong_shape_cost_nothing_where_they_can_be_checked_first(path):
    ledger = Ledger(path, budget=BUDGET, relation=ReplaceOne(n=4), dataset="toy")
    mechanism = DiffusedPosterior(model=BetaBernoulli(alpha=6, beta=12), n=4, data_weight=0.1)
    with pytest.raises(SchemaError, match="n = 4"):
        ledger.release(mechanism, np.array([0, 1, 1]))
    assert ledger.history() == ()
    assert len(ledger.release(mechanism, np.array([0, 1, 1, 0]))["theta"]) == 1
    with pytest.raises(SchemaError, match="n = 4"):
        ledger.release(mechanism, np.array([0, 1, 1]), validated=True)
    assert len(ledger.history()) == 2  # the caller said so: spent, and wasted
    answers = RandomizedResponse(log_odds=0.01, relation=ReplaceOne(n=4))
    assert ledger.release(answers, [0, 1, 1, 0])["answers"].shape == (1, 4)


def test_opening_asks_for_what_is_missing_and_refuses_what_differs(path, made, tmp_path):
    with pytest.raises(FileNotFoundError, match="give its budget, relation, dataset"):
        Ledger(path)
    with pytest.raises(FileNotFoundError, match="give its relation, too"):
        Ledger(path, budget=BUDGET, dataset="toy")
    assert not path.exists()
    made(approximate_share=0.25)
    for other in (
        {"budget": DP(epsilon=2, delta=1e-6)},
        {"budget": ZCDP(rho=1)},
        {"relation": ReplaceOne(n=3)},
        {"relation": AddRemove(unit="patient")},
        {"dataset": "another"},
        {"approximate_share": 0.5},
        {"weights": {9.0: 1.0}},
    ):
        with pytest.raises(ValueError, match=f"was made with {next(iter(other))}"):
            Ledger(path, **other)
    assert Ledger(path, approximate_share=0.25, budget=BUDGET).remaining() == 1.0
    chosen = Ledger(tmp_path / "own.ledger", budget=BUDGET, weights={20: 0.5, 40: 0.5}, **TOY)
    assert chosen.export()["filter"] == {"orders": [20.0, 40.0], "weights": [0.5, 0.5]}


def test_the_filter_is_the_one_of_the_file_whatever_a_later_version_would_choose(path, made, monkeypatch):
    before = made().export()["filter"]
    monkeypatch.setattr("privsample.accounting.ledger.filters.default_weights", lambda budget: {9.0: 1.0})
    assert Ledger(path).export()["filter"] == before


@pytest.mark.parametrize(
    ("wrong", "error"),
    [
        ({"budget": 1.0}, TypeError),
        ({"relation": "AddRemove"}, TypeError),
        ({"dataset": 3}, TypeError),
        ({"dataset": " "}, ValueError),
        ({"dataset": "a\nb"}, ValueError),
        ({"approximate_share": 1.0}, ValueError),
        ({"approximate_share": True}, TypeError),
        ({"approximate_share": 0.5, "budget": ZCDP(rho=1)}, ValueError),
        ({"weights": [1.0]}, TypeError),
        ({"weights": {2.0: 0.3}}, ValueError),
        ({"timeout": 0.0}, ValueError),
        ({"timeout": math.nan}, ValueError),
    ],
)
def test_bad_settings_make_no_file(wrong, error, path):
    with pytest.raises(error, match=next(iter(wrong))):
        Ledger(path, **{"budget": BUDGET, **TOY, **wrong})
    assert list(path.parent.iterdir()) == []


@pytest.mark.parametrize(
    ("times", "error"),
    [(0, ValueError), (-1, ValueError), (True, TypeError), (1.0, TypeError), (math.nan, TypeError), ("2", TypeError),
     (10**16, ValueError)],
)  # fmt: skip
def test_bad_counts_spend_nothing(times, error, made):
    ledger = made()
    for step in (lambda: ledger.spend(pure(1e-9), times=times), lambda: ledger.reserve([(pure(1e-9), times)]),
                 lambda: ledger.fits(pure(1e-9), times)):  # fmt: skip
        with pytest.raises(error, match="times"):
            step()
    assert unchanged(ledger, ())


def test_bad_accounts_spend_nothing(made, path):
    ledger = made()
    for account in (ReplaceOne(n=3), AddRemove(unit="patient"), AddRemove().group(2)):
        with pytest.raises(RelationMismatch, match="the ledger counts under AddRemove"):
            ledger.spend(replace(pure(0.1), relation=account))
        with pytest.raises(RelationMismatch):
            ledger.release(replace(LAPLACE, relation=account), 1.0)
    for account in (LAPLACE, 0.1, None, {"type": "PureAccountant"}):
        with pytest.raises(TypeError, match="a ledger takes accountants"):
            ledger.spend(account)
    with pytest.raises(ValueError, match="no value of this version"):
        ledger.spend(Homemade())
    with pytest.raises(ValueError, match="cannot be stored"):
        ledger.spend(pure(0.1), label={1})
    assert unchanged(ledger, ())
    fixed = Ledger(path.with_name("fixed"), budget=BUDGET, relation=ReplaceOne(n=100), dataset="toy")
    with pytest.raises(RelationMismatch, match="n=100"):
        fixed.spend(DiffusedPosterior(model=BetaBernoulli(alpha=6, beta=12), n=99, data_weight=0.1).accountant)
    fixed.spend(pure(0.1).to(ReplaceOne(n=100)))
    assert fixed.spent() > 0.1


@value
class Homemade(Accountant):
    """An accountant that no file could give back."""

    relation: AddRemove = AddRemove()
    assumptions: frozenset = frozenset()
    source: str = "none"

    def _renyi(self, orders):
        return 0 * orders


def test_an_account_that_would_come_back_different_is_refused(made, monkeypatch):
    ledger = made()
    monkeypatch.setattr(PureAccountant, "to_dict", lambda self: {"type": "PureAccountant", "stated_epsilon": 0.01})
    with pytest.raises(ValueError, match="cannot be stored exactly"):
        ledger.spend(pure(0.1))
    assert ledger.history() == ()


@pytest.mark.parametrize(
    ("budget", "account", "words"),
    [
        (DP(epsilon=1), pure(1.1), r"from 0 to 1\.1, and 1 remains.*ledger.share"),
        (BUDGET, GaussianAccountant(sensitivity=1, noise_std=1), "and 1 remains"),
        (ZCDP(rho=0.1), GaussianAccountant(sensitivity=1, noise_std=1), r"the rho spent from 0 to 0\.5, and 0\.1 rem"),
        (DP(epsilon=1), GaussianAccountant(sensitivity=1, noise_std=9), "loss has no bound.*delta > 0"),
        (DP(epsilon=1), ApproximateAccountant(stated_epsilon=0.1, stated_delta=1e-9), "fail outright.*allows none"),
        (BUDGET, ApproximateAccountant(stated_epsilon=0.1, stated_delta=1e-9), "a part 1e-09.*0 is set aside.*larger"),
    ],
)
def test_a_refusal_says_what_was_asked_what_remains_and_what_to_do(budget, account, words, made):
    ledger = made(budget)
    with pytest.raises(BudgetExceeded, match=words) as refusal:
        ledger.spend(account, label="the count")
    assert "the count does not fit" in str(refusal.value)
    assert "nothing was spent or drawn" in str(refusal.value)
    assert unchanged(ledger, ())


@pytest.mark.parametrize(
    ("budget", "words"),
    [
        (ZCDP(rho=1), "no finite rho.*RDP or DP"),
        (RDP(order=8, epsilon=1), "not finite at order 8"),
        (BUDGET, "not finite at any order of the ledger, from 14.82 on.*higher order_limit"),
    ],
)
def test_a_posterior_beyond_its_order_limit_is_refused_with_the_reason(budget, words, path):
    ledger = Ledger(path, budget=budget, relation=ReplaceOne(n=10), dataset="toy")
    with pytest.raises(BudgetExceeded, match=words):
        ledger.spend(DiffusedPosterior(model=BetaBernoulli(alpha=1, beta=1), n=10, data_weight=1.0).accountant)


def test_a_failing_account_may_be_refused_for_its_epsilon(made):
    ledger = made(approximate_share=0.5)
    with pytest.raises(BudgetExceeded, match=r"from 0 to 2, and 1 remains"):
        ledger.spend(ApproximateAccountant(stated_epsilon=2, stated_delta=1e-9))


def test_a_share_is_a_target_and_all_its_releases_fit(made):
    ledger = made()
    ledger.spend(pure(0.2))
    mechanism = GaussianMechanism.calibrate(sensitivity=1, target=ledger.share(5))
    for _ in range(5):
        ledger.release(mechanism, 0.0)
    assert ledger.spent() == pytest.approx(1.0, rel=1e-6)
    with pytest.raises(BudgetExceeded):
        ledger.release(mechanism, 0.0)
    for k, error in [(0, ValueError), (-1, ValueError), (True, TypeError), (1.5, TypeError)]:
        with pytest.raises(error, match="k must"):
            ledger.share(k)


def test_totals_follow_a_corrected_formula(path, made, monkeypatch):
    ledger = made(ZCDP(rho=0.5))
    ledger.spend(GaussianAccountant(sensitivity=1, noise_std=2), times=3)
    plan = ledger.reserve([GaussianMechanism(sensitivity=1, noise_std=10)])
    assert Ledger(path).spent() == 0.38
    right = GaussianAccountant.zcdp
    monkeypatch.setattr(GaussianAccountant, "zcdp", property(lambda self: right.fget(self) / 2))
    assert Ledger(path).spent() == 0.19
    monkeypatch.setattr(GaussianAccountant, "zcdp", property(lambda self: right.fget(self) * 2))
    corrected = Ledger(path)
    assert corrected.spent() == 0.76  # over the budget: seen, and nothing more goes out
    assert corrected.remaining() == 0.0
    assert not corrected.export()["within_budget"]
    assert not corrected.fits(pure(1e-9))
    with pytest.raises(BudgetExceeded, match=r"cost 0\.76, more than its budget"):
        corrected.spend(pure(1e-9))
    with pytest.raises(BudgetExceeded, match="more than its budget"):
        corrected.reservation(plan.number).release(0, 1.0)
    assert corrected.reservation(plan.number).items[0].left == 1


def test_a_plan_that_fits_by_its_curve_leaves_the_rest(path, made):
    ledger = made()
    one = GaussianMechanism(sensitivity=1, noise_std=100)
    plan = ledger.reserve([one, (LaplaceMechanism(sensitivity=1, scale=100), 2), pure(0.01)], label="the study")
    assert ledger.history()[0].delta is None
    other = Ledger(path.with_name("other"), budget=BUDGET, **TOY)
    for account, times in [
        (one.accountant, 1),
        (LaplaceMechanism(sensitivity=1, scale=100).accountant, 2),
        (pure(0.01), 1),
    ]:
        other.spend(account, times=times)
    assert other.spent() == ledger.spent()  # the same entries one by one
    release = plan.release(0, 5.0)
    assert release.mechanism == one
    with pytest.raises(BudgetExceeded, match=r"item 0 of plan 1 .* is used up"):
        plan.release(0, 5.0)
    restarted = Ledger(path).reservation(plan.number)
    restarted.release(1, 5.0)
    assert [item.left for item in plan.items] == [0, 1, 1]
    assert plan.take(2) == pure(0.01)
    with pytest.raises(BudgetExceeded, match="used up"):
        restarted.take(2)
    assert ledger.spent() == other.spent()  # draws cost nothing more
    assert "number=1" in repr(plan)
    ledger.spend(pure(0.01))
    with pytest.raises(ValueError, match="declared by its account"):
        restarted.release(2, 1.0)
    for position in (3, -1, True, 0.5, "0"):
        with pytest.raises(ValueError, match="position must be one of 0 to 2"):
            restarted.take(position)
    for number, error in [(2, ValueError), (3, ValueError), (0, ValueError), (True, TypeError)]:
        with pytest.raises(error, match=r"number|no reserved plan"):
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
    with pytest.raises(BudgetExceeded, match="0 is set aside for that and left"):
        ledger.reserve([one], delta=1e-8)


def test_later_plans_take_from_what_was_set_aside(made):
    one, _ = tight_plan(draws=100)
    ledger = made(approximate_share=0.6)
    ledger.spend(pure(0.2))
    first = ledger.reserve([(one, 30)], delta=0.2e-6)
    assert ledger.spent() <= (0.2 + (30 * one.accountant).epsilon(0.2e-6)) * (1 + 1e-12)
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
    with pytest.raises(BudgetExceeded, match="a part 5e-07 of delta is asked for, and 0 is set aside"):
        ledger.reserve([(one, 2)], delta=5e-7)
    assert unchanged(ledger, before)


@pytest.mark.parametrize("budget", [DP(epsilon=1), ZCDP(rho=0.5), RDP(order=4, epsilon=1)])
def test_plans_under_budgets_of_one_number_add_up(budget, made):
    ledger = made(budget)
    plan = ledger.reserve([(pure(0.1), 3)])
    assert ledger.history()[0].delta is None
    with pytest.raises(ValueError, match=r"a part of delta, and .* has none"):
        ledger.reserve([pure(0.1)], delta=1e-9)
    with pytest.raises(BudgetExceeded, match="the plan"):
        ledger.reserve([(pure(0.5), 50)])
    assert ledger.history() == (ledger.history()[0],)
    assert isinstance(plan, Reservation)


def test_bad_plans_reserve_nothing(made):
    ledger = made()
    for plan, error, words in [
        ([], ValueError, "at least one"),
        ([3], TypeError, "mechanisms and accountants, got int"),
        ([(LAPLACE, 0)], ValueError, "times"),
        ([replace(LAPLACE, relation=ReplaceOne(n=2))], RelationMismatch, "the ledger counts"),
        ([Watching(path="x", seen=[])], ValueError, "no value of this version"),
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
    with pytest.raises(ValueError, match="another cost"):
        plan.release(0, 1.0)
    assert plan.items[0].left == 1


def test_a_plans_data_are_checked_before_the_draw_is_marked(path):
    ledger = Ledger(path, budget=BUDGET, relation=ReplaceOne(n=4), dataset="toy")
    plan = ledger.reserve([DiffusedPosterior(model=BetaBernoulli(alpha=6, beta=12), n=4, data_weight=0.1)])
    with pytest.raises(SchemaError):
        plan.release(0, [0, 1])
    assert plan.items[0].left == 1
    assert plan.release(0, [0, 1, 1, 0], validated=True)["theta"].shape == (1,)


def test_export(path, made):
    ledger = made(approximate_share=0.5)
    ledger.spend(pure(0.1), label="a")
    ledger.reserve([(LAPLACE, 2), pure(0.01)])
    ledger.reservation(2).release(0, 1.0)
    target = path.with_suffix(".json")
    document = ledger.export(target)
    assert json.loads(target.read_text()) == document
    assert document["spent"] == ledger.spent()
    assert document["remaining"] == ledger.remaining()
    assert [entry["kind"] for entry in document["entries"]] == ["spend", "plan"]
    assert [item["used"] for item in document["entries"][1]["items"]] == [1, 0]
    assert Accountant.from_dict(document["entries"][0]["items"][0]["account"]) == pure(0.1)
    assert document["entries"][1]["items"][0]["mechanism"]["type"] == "LaplaceMechanism"
    with pytest.raises(FileExistsError):
        ledger.export(target)
    with pytest.raises(FileNotFoundError):
        ledger.export(path.parent / "missing" / "x.json")


def test_a_half_written_export_is_removed(path, made, monkeypatch):
    ledger = made()

    def full(handle):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("privsample.accounting.ledger.export.os.fsync", full)
    with pytest.raises(OSError, match="No space"):
        ledger.export(path.with_suffix(".json"))
    assert not path.with_suffix(".json").exists()


# The file: what is refused, and left as it is.


def refused_as_it_is(path, words, error=ValueError):
    before = path.read_bytes()
    with pytest.raises(error, match=words):
        Ledger(path)
    with pytest.raises(error, match=words):
        Ledger(path, budget=BUDGET, **TOY)
    assert path.read_bytes() == before


@pytest.mark.parametrize("content", [b"", b"x", b"some notes\n" * 1000, b"SQLite format 3\0" + b"\xff" * 5000])
def test_what_is_no_ledger_is_refused(content, path):
    path.write_bytes(content)
    refused_as_it_is(path, "no privsample ledger|damaged")


def test_another_programs_file_is_refused(path):
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE events (id INTEGER PRIMARY KEY, document TEXT, digest TEXT)")
    connection.close()
    refused_as_it_is(path, "another program's")


def test_newer_and_impossible_formats_are_refused(path, made):
    made()
    edit(path, f"PRAGMA user_version = {SCHEMA + 1}")
    refused_as_it_is(path, "newer privsample.*upgrade")
    edit(path, "PRAGMA user_version = 0")
    refused_as_it_is(path, "damaged .its format number is 0")


def test_a_flipped_bit_in_a_number_is_found(path, made):
    made().spend(GaussianAccountant(sensitivity=1, noise_std=250))
    content = path.read_bytes()
    assert content.count(b'"noise_std": 250.0') == 1
    path.write_bytes(content.replace(b'"noise_std": 250.0', b'"noise_std": 750.0'))
    refused_as_it_is(path, "event 2 is not what was written.*restore")


def test_damaged_pages_are_found(path, made):
    ledger = made()
    for _ in range(40):
        ledger.spend(pure(1e-6), label="x" * 500)
    content = path.read_bytes()
    for where in range(4096, len(content), 4096):
        path.write_bytes(content[:where] + b"\xa5" * 64 + content[where + 64 :])
        refused_as_it_is(path, "damaged")
    path.write_bytes(content[: len(content) // 2])
    refused_as_it_is(path, "damaged")
    path.write_bytes(content)
    assert len(Ledger(path).history()) == 40


@pytest.mark.parametrize(
    ("statement", "words"),
    [
        ("DELETE FROM events WHERE id = 1", "event 2 is not"),
        ("DELETE FROM events WHERE id = 2", "event 3 is not"),
        ("UPDATE events SET document = replace(document, '0.25', '0.01')", "event 2 is not"),
        ("UPDATE events SET document = x'00' WHERE id = 2", "event 2 is not"),
        ("UPDATE events SET document = CAST(x'ff' AS TEXT) WHERE id = 2", "damaged"),
        ("UPDATE events SET id = 9 WHERE id = 3", "event 9 is not"),
        ("DROP TABLE events", "damaged"),
        ("DELETE FROM events", "cannot be read"),
    ],
)
def test_lost_and_altered_entries_are_found(statement, words, path, made):
    ledger = made()
    ledger.spend(pure(0.25))
    ledger.spend(pure(0.125))
    edit(path, statement)
    refused_as_it_is(path, words)


def test_entries_cannot_be_changed_by_accident(path, made):
    made().spend(pure(0.1))
    connection = sqlite3.connect(path)
    for statement in ("UPDATE events SET document = ''", "DELETE FROM events"):
        with pytest.raises(sqlite3.IntegrityError, match="only added to"):
            connection.execute(statement)
    connection.close()


@pytest.mark.parametrize(
    "change",
    [
        {"event": "refund"},
        {"items": []},
        {"items": [{"account": {"type": "FutureAccountant"}, "times": 1, "mechanism": None}]},
        {"items": [{"account": {"type": "AddRemove"}, "times": 1, "mechanism": None}]},
        {"items": [{"account": pure(0.1).to_dict(), "times": 0, "mechanism": None}]},
        {"items": [{"account": pure(math.pi).to_dict(), "mechanism": None}]},
        {"items": [{"account": replace(pure(0.1), relation=ReplaceOne(n=2)).to_dict(), "times": 1, "mechanism": None}]},
        {"event": "draw", "entry": 1, "item": 0},
        {"event": "draw", "entry": 0, "item": 0},
        {"event": "draw", "entry": 2, "item": 2},
        {"event": "draw", "entry": 2, "item": -1},
        {"event": "draw", "entry": 2, "item": 0},
        {"event": "draw"},
        {"delta": 0.1},
    ],
)
def test_events_that_this_version_does_not_understand_are_refused(change, path, made):
    """As if a newer version had written them: digests and all are in order."""
    ledger = made(DP(epsilon=1) if "delta" in change else BUDGET)
    ledger.spend(pure(0.1))
    ledger.reserve([pure(0.1)]).take(0)
    log = Log(path=path, timeout=1.0)
    events = log.after(None)
    document = json.loads(events[1].document) | change
    with log.writing() as writer:
        writer.add(events[-1], json.dumps(document))
    refused_as_it_is(path, r"event 5 of the ledger .* cannot be read by this version.*upgrade")


def test_a_first_event_of_another_kind_is_refused(path):
    Log(path=path, timeout=1.0).create(drawing(1, 0, {}))
    refused_as_it_is(path, "event 1 of the ledger .* cannot be read.*the first event is 'draw'")
    assert Event(number=1, document="", digest="").follows(None) is False


def test_a_ledger_that_is_replaced_or_removed_while_open_is_not_begun_anew(path, made):
    ledger = made()
    shutil.copy(path, path.with_name("old"))
    ledger.spend(pure(0.5))
    shutil.copy(path.with_name("old"), path)
    for step in (ledger.spent, lambda: ledger.spend(pure(0.1))):
        with pytest.raises(ValueError, match="replaced or cut short"):
            step()
    path.unlink()
    for step in (ledger.spent, lambda: ledger.spend(pure(0.1)), lambda: ledger.release(LAPLACE, 1.0)):
        with pytest.raises(FileNotFoundError, match="no ledger"):
            step()
    assert not path.exists()


def test_folders_and_places_that_cannot_be_written(path, made, tmp_path, monkeypatch):
    with pytest.raises(IsADirectoryError, match="is a folder"):
        Ledger(tmp_path, budget=BUDGET, **TOY)
    with pytest.raises(FileNotFoundError, match=r"folder .* does not exist"):
        Ledger(tmp_path / "missing" / "toy.ledger", budget=BUDGET, **TOY)
    connect = sqlite3.connect

    def closed(file, **settings):
        return connect(file.replace(tmp_path.as_uri(), (tmp_path / "missing").as_uri()), **settings)

    monkeypatch.setattr("privsample.accounting.ledger.log.sqlite3.connect", closed)
    with pytest.raises(FileNotFoundError, match="not writable"):
        made()
    path.touch()
    with pytest.raises(PermissionError, match="cannot be opened"):
        Ledger(path)
    path.unlink()
    assert list(tmp_path.iterdir()) == []


def hindered(monkeypatch, step):
    """Every connection from now on begins with `step`."""
    connect = Log._connect

    def altered(self, path, mode):
        connection = connect(self, path, mode)
        step(connection)
        return connection

    monkeypatch.setattr(Log, "_connect", altered)


def test_a_read_only_file_can_be_read_and_not_spent_from(path, made, monkeypatch):
    ledger = made()
    ledger.spend(pure(0.1))
    before = ledger.history()
    connect = sqlite3.connect
    monkeypatch.setattr(
        "privsample.accounting.ledger.log.sqlite3.connect",
        lambda file, **settings: connect(file.replace("mode=rw", "mode=ro"), **settings),
    )
    ledger = Ledger(path)
    seen = []
    with pytest.raises(PermissionError, match="read-only; nothing was spent"):
        ledger.release(Watching(path=path, seen=seen), [1])
    assert seen == []
    assert unchanged(ledger, before)


def test_a_full_disk_fails_the_spend_before_the_draw(path, made, monkeypatch):
    ledger = made()
    ledger.spend(pure(0.1))
    before, seen = ledger.history(), []
    with monkeypatch.context() as context:
        hindered(context, lambda connection: connection.execute("PRAGMA max_page_count = 1"))
        with pytest.raises(OSError, match=r"full.*nothing was spent.*free some space"):
            ledger.release(Watching(path=path, seen=seen), [1], label="x" * 20_000)
        with pytest.raises(OSError, match=r"full.*nothing was spent"):
            ledger.reserve([(pure(1e-6), 1)] * 500)
        with pytest.raises(OSError, match="full"):
            Ledger(path.with_name("other"), budget=BUDGET, **TOY)
    assert not path.with_name("other").exists()
    assert seen == []
    assert unchanged(ledger, before)
    ledger.spend(pure(0.1))


def test_a_commit_that_fails_is_rolled_back(path, made, monkeypatch):
    ledger = made()
    connect = sqlite3.connect

    class Failing(sqlite3.Connection):
        def execute(self, statement, *values):
            if statement == "COMMIT":
                error = sqlite3.OperationalError("disk I/O error")
                error.sqlite_errorcode = sqlite3.SQLITE_IOERR_FSYNC
                raise error
            return super().execute(statement, *values)

    with monkeypatch.context() as context:
        context.setattr(
            "privsample.accounting.ledger.log.sqlite3.connect",
            lambda file, **settings: connect(file, factory=Failing, **settings),
        )
        with pytest.raises(OSError, match=r"disk I/O error.*nothing was spent"):
            ledger.spend(pure(0.1))
    assert unchanged(ledger, ())


def test_an_error_after_the_transaction_has_ended_is_told(made):
    ledger = made()

    def writing():
        with ledger._log.writing() as writer:
            writer.connection.execute("ROLLBACK")
            raise ValueError("stopped")

    with pytest.raises(ValueError, match="stopped"):
        writing()


def test_a_busy_file_is_waited_for_and_then_told(path, made):
    made()
    ledger = Ledger(path, timeout=0.05)
    with ledger._log.writing(), pytest.raises(TimeoutError, match=r"busy; nothing was spent.*try again"):
        ledger.spend(pure(0.1))
    ledger.spend(pure(0.1))


def test_a_system_without_folder_handles(path, made, monkeypatch):
    monkeypatch.delattr("privsample.accounting.ledger.log.os.O_DIRECTORY")
    assert made().spent() == 0.0


def test_many_draws_of_one_item(made):
    ledger = made()
    plan = ledger.reserve([(pure(1e-6), 10**5)])
    assert plan.take(0) == pure(1e-6)
    assert plan.items[0].left == 10**5 - 1

"""Ledgers with a family: their files, messages, odometers and plots, several processes, and interruptions."""

import json
import math
import sqlite3
from contextlib import suppress
from functools import cache

import matplotlib as mpl
import numpy as np
import pytest

from privsample import (
    DP,
    GDP,
    RDP,
    ZCDP,
    GaussianAccountant,
    GaussianMechanism,
    LaplaceAccountant,
    LaplaceMechanism,
    PoissonSampling,
    ReplaceOne,
    SubsampledAccountant,
    ZCDPAccountant,
)
from privsample.accounting.ledger import Ledger
from privsample.accounting.ledger.log import SCHEMA
from privsample.accounting.ledger.odometer import odometer_rule
from privsample.errors import BudgetExceeded, RelationMismatch
from tests.accounting.ledger.shared import TOY, pure, unchanged
from tests.accounting.ledger.test_processes import PROCESSES

mpl.use("Agg")
BUDGET = DP(1, 1e-6)
NOISY, LAPLACE = GaussianAccountant(sensitivity=1, noise_std=20), LaplaceAccountant(sensitivity=1, scale=20)
LOUD = GaussianAccountant(sensitivity=1, noise_std=1)
SAMPLED = SubsampledAccountant(base=GaussianAccountant(sensitivity=1, noise_std=1), scheme=PoissonSampling(rate=0.01))
FAMILIES = [(GDP(0.25), None), (BUDGET, "gaussian"), (BUDGET, pure(0.05)), (DP(1), pure(0.1))]


def schema(path):
    with sqlite3.connect(path) as connection:
        return connection.execute("PRAGMA user_version").fetchone()[0]


@pytest.mark.parametrize(("budget", "family"), FAMILIES)
def test_a_ledger_comes_back_with_its_family(budget, family, path, made):
    ledger = made(budget, family=family)
    for account in (pure(0.02), pure(0.04)):
        ledger.spend(account)
    again = Ledger(path)
    assert (again.family, again.rule, again.budget) == (family, ledger.rule, budget)
    assert again.history() == ledger.history()
    assert (again.spent(), again.remaining()) == (ledger.spent(), ledger.remaining())
    assert again.remaining_releases(pure(0.05)) == ledger.remaining_releases(pure(0.05)) > 0
    assert again.export() == ledger.export()
    assert again.export()["rule"] == ledger.rule
    assert schema(path) == SCHEMA
    other = "gaussian" if family != "gaussian" else LAPLACE
    with pytest.raises(ValueError, match="was created with family"):
        Ledger(path, family=other)


def test_earlier_versions_refuse_the_file_because_they_would_not_check_its_place(path, made):
    made().spend(pure(0.1))
    assert schema(path) == SCHEMA
    assert "family" not in made().export()


def test_the_copies_of_a_file_of_another_version_are_counted_again(path, made, monkeypatch):
    ledger = made(BUDGET, family=LAPLACE)
    assert ledger.export()["family"]["copies"] == 26
    monkeypatch.setattr("privsample.accounting.ledger.rules.copies_in", lambda budget, family: 9)
    assert Ledger(path).export()["family"]["copies"] == 26
    monkeypatch.setattr("privsample._version.__version__", "later")
    assert Ledger(path).export()["family"]["copies"] == 9


@pytest.mark.parametrize(
    ("wrong", "error", "words"),
    [
        ({"family": "laplace"}, ValueError, "family must be 'gaussian'"),
        ({"family": 1}, TypeError, "family must be 'gaussian'"),
        ({"family": ZCDPAccountant(rho=1e-3)}, ValueError, "one dominating pair"),
        ({"family": pure(0.1).to(ReplaceOne(n=4))}, RelationMismatch, "relation"),
        ({"family": "gaussian", "budget": ZCDP(1)}, ValueError, "GDP"),
        ({"family": "gaussian", "weights": {9.0: 1.0}}, ValueError, "weights"),
        ({"budget": GDP(1), "approximate_share": 0.1}, ValueError, "approximate_share"),
    ],
)
def test_bad_families_make_no_file(wrong, error, words, path):
    with pytest.raises(error, match=words):
        Ledger(path, **{"budget": BUDGET, **TOY, **wrong})
    assert list(path.parent.iterdir()) == []


@pytest.mark.parametrize(
    ("budget", "family", "account", "words", "command"),
    [
        (GDP(0.5), None, LOUD, "a mu of 1, and 0.5 remains.*ledger.share", "ledger show"),
        (BUDGET, "gaussian", SAMPLED, "sampling records does not reduce.*family=mechanism.accountant", "--family JSON"),
        (BUDGET, LAPLACE, NOISY, "no number of copies of LaplaceAccountant", "without --family"),
        (BUDGET, LAPLACE, pure(1.0), r"needs \d+ copies of LaplaceAccountant, and 26 of 26 remain", "ledger show"),
        (BUDGET, None, pure(1.1), "from 0 to 1.1", "ledger show toy.ledger"),
        (BUDGET, "gaussian", ZCDPAccountant(rho=1.0), "a mu of 2.2.*without family", "without --family"),
    ],
)  # fmt: skip
def test_a_refusal_says_what_to_do_in_python_and_on_the_command_line(budget, family, account, words, command, made):
    ledger = made(budget, family=family)
    with pytest.raises(BudgetExceeded, match=words) as refusal:
        ledger.spend(account)
    assert command in refusal.value.command_line
    assert "ledger.share" not in refusal.value.command_line
    assert "mechanism.accountant" not in refusal.value.command_line
    assert unchanged(ledger, ())


def test_an_infinity_mass_needs_a_part_of_delta(made):
    from privsample import ApproximateAccountant

    failing = ApproximateAccountant(stated_epsilon=0.01, stated_delta=1e-9)
    with pytest.raises(BudgetExceeded, match="infinity mass is 1e-09, and this budget allows none"):
        made(GDP(1)).spend(failing)


def test_a_loss_without_a_gaussian_guarantee_is_refused(made, monkeypatch):
    monkeypatch.setattr(ZCDPAccountant, "mu", lambda self: math.inf)
    with pytest.raises(BudgetExceeded, match=r"heavier tail than any Gaussian guarantee.*family=mechanism.accountant"):
        made(GDP(1)).spend(ZCDPAccountant(rho=1e-3))


def test_plans_are_charged_whole(made):
    ledger = made(BUDGET, family="gaussian")
    mechanism = GaussianMechanism(sensitivity=1, noise_std=20)
    plan = ledger.reserve([(mechanism, 15), (LaplaceMechanism(sensitivity=1, scale=20), 2)])
    assert ledger.remaining_releases(NOISY) == 5
    plan.release(0, 1.0)
    assert ledger.remaining_releases(NOISY) == 5
    with pytest.raises(BudgetExceeded, match="the plan does not fit"):
        ledger.reserve([(mechanism, 6)])
    with pytest.raises(ValueError, match="none to divide by the rule"):
        ledger.reserve([mechanism], delta=1e-9)
    copies = Ledger(ledger.path.with_name("copies"), budget=BUDGET, family=LAPLACE, **TOY)
    copies.reserve([(LaplaceMechanism(sensitivity=1, scale=20), 20)])
    assert copies.remaining_releases(LAPLACE) == 6


def test_a_share_of_a_gaussian_ledger_is_a_closed_form(made):
    ledger = made(GDP(0.5))
    mechanism = GaussianMechanism.calibrate(sensitivity=1, target=ledger.share(5))
    assert mechanism.noise_std == pytest.approx(math.sqrt(5) / 0.5, rel=1e-8)
    for _ in range(5):
        ledger.release(mechanism, 0.0)
    with pytest.raises(BudgetExceeded):
        ledger.release(mechanism, 0.0)


@cache
def committed():
    """The epsilon of what the next test spends and reserves, which is the same for each budget."""
    return (2 * pure(0.02) + 3 * LaplaceAccountant(sensitivity=1, scale=50)).epsilon(1e-5)


@pytest.mark.parametrize(
    ("budget", "family"), [*FAMILIES, (BUDGET, None), (ZCDP(0.1), None), (RDP(8, 1.0), None), (DP(1), None)]
)
def test_the_odometer_covers_everything_that_is_committed(budget, family, made):
    """Never below the composition of the same accounts, which were fixed in advance here, reserved draws included."""
    ledger = made(budget, family=family)
    assert ledger.spent(1e-6) == ledger.spent(1e-3) == 0.0
    ledger.spend(pure(0.02), times=2)
    first = ledger.spent(1e-5)
    ledger.reserve([(LaplaceMechanism(sensitivity=1, scale=50), 3)])
    assert first < ledger.spent(1e-5)
    assert ledger.spent(1e-5) >= committed()
    assert ledger.spent(1e-6) >= ledger.spent(1e-4)
    assert odometer_rule(ledger._state.filter)
    for delta in (0.0, -1.0, 1.0, math.nan, "a", True, np.ones(2)):
        with pytest.raises((ValueError, TypeError), match="delta"):
            ledger.spent(delta)


def test_the_odometer_of_a_plan_that_took_all_of_delta(made):
    ledger = made()
    plan = 10 * NOISY
    ledger.reserve([(GaussianMechanism(sensitivity=1, noise_std=20), 10)], delta=1e-6)
    assert ledger.spent(1e-6) == pytest.approx(float(plan.epsilon(1e-6)), rel=1e-9)
    assert ledger.spent(1e-5) >= plan.epsilon(1e-5)
    assert math.isinf(ledger.spent(1e-7))


def test_the_odometer_of_an_overdrawn_ledger_is_infinite(made, monkeypatch):
    ledger = made(BUDGET, family="gaussian")
    ledger.spend(NOISY, times=22)
    assert 1.0 < ledger.spent(1e-6) < 1.04  # half of delta, for the whole budget
    assert math.isinf(ledger.spent(1e-13))
    monkeypatch.setattr("privsample.accounting.ledger.rules.largest_mu", lambda *given: 0.2)
    later = Ledger(ledger.path)
    assert math.isinf(later.spent(1e-6))
    assert later.remaining_releases(NOISY) == 0
    assert not later.export()["within_budget"]


@pytest.mark.parametrize(("budget", "family"), [*FAMILIES, (BUDGET, None), (ZCDP(0.1), None)])
def test_the_history_is_a_plot(budget, family, made):
    ledger = made(budget, family=family)
    axes = ledger.plot()
    assert axes.get_xlabel() == "entry"
    for size in (0.01, 0.02, 0.03):
        ledger.spend(pure(size), label="a $ label")
    axes = ledger.plot(ax=axes)
    heights = axes.lines[-2].get_ydata()
    assert (np.diff(heights[:-1]) > 0).all()
    assert heights[0] == 0.0
    assert heights[-1] <= axes.lines[-1].get_ydata()[0] * (1 + 1e-9)
    assert "spent" in axes.get_ylabel() or "used" in axes.get_ylabel()
    mpl.pyplot.close("all")


def test_a_long_history_is_a_plot_of_some_entries(made):
    ledger = made(GDP(1))
    for _ in range(15):
        ledger.spend(NOISY)
    assert len(ledger.plot().lines[0].get_ydata()) == 17
    mpl.pyplot.close("all")


def race(path, gate, won):
    """Spend Gaussian releases until none fits."""
    ledger, count = Ledger(path, budget=BUDGET, family="gaussian", **TOY), 0
    gate.wait()
    with suppress(BudgetExceeded):
        while True:
            ledger.spend(NOISY)
            count += 1
    won.put(count)


def test_two_processes_at_once_never_exceed_the_budget(path):
    gate, won = PROCESSES.Barrier(2), PROCESSES.Queue()
    workers = [PROCESSES.Process(target=race, args=(path, gate, won)) for _ in range(2)]
    for worker in workers:
        worker.start()
    total = sum(won.get(timeout=120) for _ in workers)
    for worker in workers:
        worker.join()
    ledger = Ledger(path)
    assert total == len(ledger.history()) == 22
    assert ledger.export()["within_budget"]


def test_a_release_is_charged_by_what_others_left(path, made):
    """The cost is computed again if another process spent since the ledger was read."""
    first, other = made(BUDGET, family="gaussian"), Ledger(path)
    other.spend(NOISY, times=20)
    assert other.remaining_releases(LAPLACE) == 1
    first.spend(LAPLACE)
    with pytest.raises(BudgetExceeded):
        other.spend(LAPLACE)
    assert len(Ledger(path).history()) == 2


def test_an_interrupted_write_leaves_the_state_before_it(path, made):
    ledger = made(BUDGET, family="gaussian")
    ledger.spend(LAPLACE)

    def interrupted():
        with ledger._log.writing() as writer:
            writer.add(ledger._state.last, json.dumps({"event": "spend"}))
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert unchanged(ledger, ledger.history())
    assert len(ledger.history()) == 1

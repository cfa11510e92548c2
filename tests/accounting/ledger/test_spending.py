"""Releases, shares and totals: the spend is on disk before the draw."""

import numpy as np
import pytest

from privsample import (
    DP,
    ZCDP,
    GaussianAccountant,
    GaussianMechanism,
    RandomizedResponse,
    Release,
    ReplaceOne,
)
from privsample.accounting.ledger import Ledger
from privsample.errors import BudgetExceeded, SchemaError
from tests.accounting.ledger.shared import LAPLACE, Watching, posterior, pure, unchanged


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


def test_data_of_a_wrong_shape_cost_nothing_where_they_can_be_checked_first(made):
    ledger, mechanism = made(relation=ReplaceOne(n=4)), posterior(4)
    with pytest.raises(SchemaError, match="n = 4"):
        ledger.release(mechanism, np.array([0, 1, 1]))
    assert ledger.history() == ()
    assert len(ledger.release(mechanism, np.array([0, 1, 1, 0]))["theta"]) == 1
    with pytest.raises(SchemaError, match="n = 4"):
        ledger.release(mechanism, np.array([0, 1, 1]), validated=True)
    assert len(ledger.history()) == 2  # the caller said so: spent, and wasted
    answers = RandomizedResponse(log_odds=0.01, relation=ReplaceOne(n=4))
    assert ledger.release(answers, [0, 1, 1, 0])["answers"].shape == (1, 4)


@pytest.mark.parametrize("data", [None, 5, np.nan, 1j, len, object()])
def test_what_is_no_data_at_all_costs_nothing(made, data):
    ledger = made(relation=ReplaceOne(n=4))
    with pytest.raises(SchemaError):
        ledger.release(posterior(4), data)
    assert ledger.history() == ()


@pytest.mark.parametrize("validated", [False, True])
def test_a_stream_is_read_before_it_is_paid_for(made, validated):
    """It could be read once only, so that a wrong one after the payment would be an expense that is wasted."""
    ledger = made(relation=ReplaceOne(n=4))
    with pytest.raises(SchemaError):
        ledger.release(posterior(4), iter([0, 1]), validated=validated)
    assert ledger.history() == ()


def test_a_share_is_a_target_and_all_its_releases_fit(made):
    ledger = made()
    ledger.spend(pure(0.2))
    mechanism = GaussianMechanism.calibrate(sensitivity=1, target=ledger.share(5))
    for _ in range(5):
        ledger.release(mechanism, 0.0)
    assert ledger.spent() == pytest.approx(1.0, rel=1e-6)
    with pytest.raises(BudgetExceeded):
        ledger.release(mechanism, 0.0)
    for k, error in [(0, ValueError), (-1, ValueError), (True, TypeError), (1.5, ValueError)]:
        with pytest.raises(error, match="k must"):
            ledger.share(k)


def test_totals_follow_a_corrected_formula(path, made, monkeypatch):
    ledger = made(ZCDP(rho=0.5))
    ledger.spend(GaussianAccountant(sensitivity=1, noise_std=2), times=3)
    plan = ledger.reserve([GaussianMechanism(sensitivity=1, noise_std=10)])
    assert Ledger(path).spent() == 0.38
    right = GaussianAccountant.conditional_zcdp
    monkeypatch.setattr(GaussianAccountant, "conditional_zcdp", property(lambda self: right.fget(self) / 2))
    assert Ledger(path).spent() == 0.19
    monkeypatch.setattr(GaussianAccountant, "conditional_zcdp", property(lambda self: right.fget(self) * 2))
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

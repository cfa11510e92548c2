"""What may not be spent: a refusal says why, and changes nothing."""

import math
from dataclasses import replace

import pytest

import privsample as ps
from privsample import (
    DP,
    RDP,
    ZCDP,
    AddRemove,
    ApproximateAccountant,
    BetaBernoulli,
    DiffusedPosterior,
    GaussianAccountant,
    PureAccountant,
    ReplaceOne,
)
from privsample._value import frozen_value
from privsample.accounting.base import Accountant
from privsample.accounting.engine.bounds import PrivacyBounds
from privsample.accounting.ledger import Ledger
from privsample.errors import BudgetExceeded, NotRegistered, RelationMismatch
from tests.accounting.ledger.shared import BUDGET, LAPLACE, Watching, posterior, pure, unchanged


@pytest.mark.parametrize(
    ("times", "error"),
    [(0, ValueError), (-1, ValueError), (True, TypeError), (1.5, ValueError), (math.nan, ValueError), ("2", TypeError),
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
    for relation in (ReplaceOne(n=3), AddRemove(unit="patient"), AddRemove().group(2)):
        with pytest.raises(RelationMismatch, match="relation of the ledger, AddRemove"):
            ledger.spend(replace(pure(0.1), relation=relation))
        with pytest.raises(RelationMismatch):
            ledger.release(replace(LAPLACE, relation=relation), 1.0)
    for account in (LAPLACE, 0.1, None, {"type": "PureAccountant"}):
        with pytest.raises(TypeError, match="account must be an accountant"):
            ledger.spend(account)
    for step in (
        lambda: ledger.spend(Homemade()),
        lambda: ledger.fits(Homemade()),
        lambda: ledger.reserve([Homemade()]),
        lambda: ledger.spend(2 * Homemade()),
        lambda: ledger.release(Watching(path=path, seen=[], account=Homemade()), 1.0),
    ):
        with pytest.raises(NotRegistered, match=r"Homemade is not registered.*nothing was.*spent.*privsample.register"):
            step()
    with pytest.raises(TypeError, match="label must be a string, got set"):
        ledger.spend(pure(0.1), label={1})
    assert unchanged(ledger, ())
    fixed = Ledger(path.with_name("fixed"), budget=BUDGET, relation=ReplaceOne(n=100), dataset="toy")
    with pytest.raises(RelationMismatch, match="n=100"):
        fixed.spend(posterior(99).accountant)
    fixed.spend(pure(0.1).to(ReplaceOne(n=100)))
    assert fixed.spent() > 0.1


@frozen_value
class Homemade(Accountant):
    """An accountant that no file could give back."""

    relation: AddRemove = AddRemove()
    assumptions: frozenset = frozenset()
    source: str = "none"

    def _bounds(self):
        return PrivacyBounds.from_renyi(lambda orders: 0 * orders)


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
        (DP(epsilon=1), GaussianAccountant(sensitivity=1, noise_std=9), "loss is unbounded.*delta > 0"),
        (
            DP(epsilon=1),
            ApproximateAccountant(stated_epsilon=0.1, stated_delta=1e-9),
            "infinity mass is 1e-09.*allows none",
        ),
        (
            BUDGET,
            ApproximateAccountant(stated_epsilon=0.1, stated_delta=1e-9),
            "needs 1e-09 of delta.*1e-12 is set aside.*larger approximate_share.*constant_time=False",
        ),
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
def test_a_posterior_beyond_its_order_limit_is_refused_with_the_reason(budget, words, made):
    ledger = made(budget, relation=ReplaceOne(n=10))
    with pytest.raises(BudgetExceeded, match=words):
        ledger.spend(DiffusedPosterior(model=BetaBernoulli(alpha=1, beta=1), n=10, data_weight=1.0).accountant)


def test_a_failing_account_may_be_refused_for_its_epsilon(made):
    ledger = made(approximate_share=0.5)
    with pytest.raises(BudgetExceeded, match=r"from 0 to 2, and 1 remains"):
        ledger.spend(ApproximateAccountant(stated_epsilon=2, stated_delta=1e-9))


def test_the_general_rule_names_what_would_admit_more(tmp_path):
    """Sixty samples cost 0.849 together, and the general rule refuses the first.

    As the family they fill a ledger: test_a_step_on_a_sample_fills_a_budget_as_its_own_family.
    """
    step = ps.SubsampledAccountant(
        base=ps.GaussianAccountant(sensitivity=1, noise_std=1), scheme=ps.PoissonSampling(rate=0.01)
    )
    names = {"budget": ps.DP(1, 1e-6), "relation": ps.AddRemove(), "dataset": "d"}
    with pytest.raises(BudgetExceeded) as caught:
        ps.Ledger(tmp_path / "general.db", **names).spend(step)
    for words in ("family=mechanism.accountant", "ledger.reserve", "approximate_share"):
        assert words in str(caught.value)
    assert "--family JSON" in caught.value.command_line
    assert "--approximate-share" in caught.value.command_line
    ps.Ledger(tmp_path / "plan.db", approximate_share=0.9999, **names).reserve([(step, 60)])

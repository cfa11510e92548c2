"""Accounts with an infinity mass: the Rényi curve given a finite loss, and targets and ledgers that take both."""

import math
from pathlib import Path

import mpmath
import numpy as np
import pytest

import privsample as ps
from privsample.errors import BudgetExceeded, UnreachableTarget
from tests.mechanisms.examples import EXAMPLES

ORDERS = np.array([1.01, 1.5, 2.0, 5.0, 40.0])
MASS = 1e-9
APPROXIMATE = ps.ApproximateAccountant(stated_epsilon=0.8, stated_delta=MASS)
LOGISTIC = ps.LogisticAccountant(n=50, features=2, norm=1, prior_std=1, data_weight=0.1, failure_probability=1e-15)
GAUSSIAN_KEYS = ps.ThresholdKeys(scale=4, threshold=30, keys_per_unit=3).accountant
FAILING = {
    "approximate": APPROXIMATE,
    "logistic": LOGISTIC,
    "keys": GAUSSIAN_KEYS,
    "laplace keys": ps.ThresholdKeys(noise="laplace", scale=2, threshold=40, keys_per_unit=2).accountant,
    "discrete keys": ps.ThresholdKeys(noise="discrete gaussian", scale=3, threshold=30).accountant,
    "composition": 3 * APPROXIMATE + ps.GaussianAccountant(sensitivity=1, noise_std=4),
    "selection": ps.SelectionAccountant(base=APPROXIMATE, repetitions=ps.TruncatedNegativeBinomial.logarithmic(mean=5)),
}


def _divergence(log_p: list[float], log_q: list[float], order: float) -> float:
    """The Rényi divergence of two finite distributions at 50 digits."""
    with mpmath.workdps(50):
        terms = [mpmath.exp(order * p + (1 - order) * q) for p, q in zip(log_p, log_q, strict=True)]
        return float(mpmath.log(mpmath.fsum(terms)) / (order - 1))


@pytest.mark.parametrize("name", FAILING)
def test_rdp_and_zcdp_stay_infinite_and_the_conditional_curves_are_finite(name: str) -> None:
    account = FAILING[name]
    assert account.infinity_mass > 0.0
    assert np.isinf(account.rdp(ORDERS)).all()
    assert account.zcdp == math.inf
    assert np.isfinite(account.conditional_rdp(ORDERS)).all()


@pytest.mark.parametrize("name", ["approximate", "logistic", "keys", "laplace keys", "discrete keys", "composition"])
def test_conditional_zcdp_lies_above_the_conditional_curve(name: str) -> None:
    account = FAILING[name]
    assert np.isfinite(account.conditional_zcdp)
    assert (account.conditional_rdp(ORDERS) <= account.conditional_zcdp * ORDERS * (1 + 1e-14)).all()


def test_the_conditional_curve_is_that_of_the_part_without_failure() -> None:
    with mpmath.workdps(50):
        up, down = (mpmath.log(1 / (1 + mpmath.exp(-e))) for e in (mpmath.mpf("0.8"), mpmath.mpf("-0.8")))
        truth = np.array([_divergence([up, down], [down, up], float(order)) for order in ORDERS])
    found = APPROXIMATE.conditional_rdp(ORDERS)
    assert (found >= truth).all()
    np.testing.assert_allclose(found, truth, rtol=1e-12)
    sure = ps.LogisticAccountant(n=50, features=2, norm=1, prior_std=1, data_weight=0.1)
    np.testing.assert_array_equal(LOGISTIC.conditional_rdp(ORDERS), sure.rdp(ORDERS))
    assert LOGISTIC.conditional_zcdp == sure.zcdp


def test_without_an_infinity_mass_the_conditional_curves_are_the_curves() -> None:
    differing = []
    for name, example in EXAMPLES.items():
        account = example.mechanism.accountant
        same = account.conditional_zcdp == account.zcdp and account.conditional_rdp(2.0) == account.rdp(2.0)
        if not same and account.infinity_mass == 0.0:
            differing.append(name)
    assert not differing


def test_the_conversion_from_the_conditional_curve_and_the_mass_holds() -> None:
    """Bun and Steinke 2016, Lemma 8.8: approximate Rényi privacy gives epsilon at its delta plus the converted one."""
    epsilons = np.linspace(0.1, 3.0, 8)
    for name in set(FAILING) - {"selection"}:  # the privacy curve of a selection has bounds of its own
        account = FAILING[name]
        orders = np.geomspace(1.05, 200.0, 60)
        curve = account.conditional_rdp(orders)
        log_delta = (orders - 1) * (curve - epsilons[:, None]) - np.log(orders) + (orders - 1) * np.log1p(-1 / orders)
        by_order = np.exp(log_delta.min(axis=1))
        assert (account.delta(epsilons) <= account.infinity_mass + by_order + 1e-15).all()


def test_groups_of_an_account_whose_failures_depend_on_the_neighbours_have_no_curve() -> None:
    grouped = GAUSSIAN_KEYS.group(2)
    assert np.isinf(grouped.rdp(ORDERS)).all()
    assert np.isinf(grouped.zcdp)


@pytest.mark.parametrize("target", [ps.RDP(2, 0.05, delta=1e-14), ps.ZCDP(0.02, delta=1e-14)], ids=["rdp", "zcdp"])
def test_a_target_with_delta_calibrates_what_may_fail(target: ps.RDP | ps.ZCDP) -> None:
    settings = {"n": 50, "features": 2, "norm": 1, "prior_std": 1}
    mechanism = ps.LogisticPosterior.calibrate(target=target, **settings)
    account = mechanism.accountant
    assert target.met_by(account)
    most = target.epsilon if isinstance(target, ps.RDP) else target.rho
    spent = account.conditional_rdp(2.0) if isinstance(target, ps.RDP) else account.conditional_zcdp
    assert most * (1 - 1e-8) <= float(spent) <= most
    without = ps.RDP(2, 0.05) if isinstance(target, ps.RDP) else ps.ZCDP(0.02)
    assert not without.met_by(account)
    with pytest.raises(UnreachableTarget, match=r"infinity mass of 1e-15 .*delta"):
        ps.LogisticPosterior.calibrate(target=without, **settings)


def test_the_delta_of_a_target_is_a_probability() -> None:
    with pytest.raises(ValueError, match="delta must lie in"):
        ps.ZCDP(0.1, delta=1.5)
    with pytest.raises(ValueError, match="delta must"):
        ps.RDP(2, 0.1, delta=math.nan)


@pytest.mark.parametrize("budget", [ps.ZCDP(0.05, delta=2.5e-15), ps.RDP(2, 0.1, delta=2.5e-15)], ids=["zcdp", "rdp"])
def test_a_ledger_adds_curves_and_masses(tmp_path: Path, budget: ps.RDP | ps.ZCDP) -> None:
    ledger = ps.Ledger(tmp_path / "ledger", budget=budget, dataset="d", relation=LOGISTIC.relation)
    assert ps.Ledger(tmp_path / "ledger").budget == budget
    one = LOGISTIC.conditional_zcdp * (1.0 if isinstance(budget, ps.ZCDP) else 2.0)
    for releases in (1, 2):
        ledger.spend(LOGISTIC, label="fit")
        assert ledger.spent() == pytest.approx(releases * one, rel=1e-12)
    with pytest.raises(BudgetExceeded, match="1e-15, and 5e-16 is left of the budget's delta"):
        ledger.spend(LOGISTIC, label="fit")
    assert ledger.spent() == pytest.approx(2 * one, rel=1e-12)


def test_a_ledger_without_delta_names_the_budget_that_would_admit_a_mass(tmp_path: Path) -> None:
    ledger = ps.Ledger(tmp_path / "ledger", budget=ps.ZCDP(0.05), dataset="d", relation=LOGISTIC.relation)
    with pytest.raises(BudgetExceeded, match=r"allows none; .*ZCDP with delta > 0"):
        ledger.spend(LOGISTIC, label="fit")


def test_an_adaptive_choice_of_failing_releases_meets_the_budget() -> None:
    """The distributions given survival and the draw of ledger.md, section 3, over a tree of adaptive choices."""
    epsilons, masses = {"a": 0.3, "b": 0.9, "c": 0.1}, {"a": 0.02, "b": 0.005, "c": 0.03}
    second, delta = {0: "b", 1: "c"}, 0.06
    log_p, log_q, survival = [], [], []
    for first in (0, 1):
        for last in (0, 1):
            signs = [(epsilons["a"], first), (epsilons[second[first]], last)]
            log_p.append(sum(-math.log1p(math.exp(-e if not bit else e)) for e, bit in signs))
            log_q.append(sum(-math.log1p(math.exp(e if not bit else -e)) for e, bit in signs))
            survival.append((1 - masses["a"]) * (1 - masses[second[first]]))
    draws = (1 - delta) / np.array(survival)
    assert (draws <= 1.0).all()
    for logs in (log_p, log_q):
        assert np.exp(logs) * survival * draws @ np.ones(4) == pytest.approx(1 - delta, rel=1e-14)
    costs = {name: ps.PureAccountant(stated_epsilon=e) for name, e in epsilons.items()}
    for order in ORDERS:
        worst = max(float((costs["a"] + costs[one]).rdp(order)) for one in second.values())
        assert _divergence(log_p, log_q, order) <= worst
    # without the draw the survival of a history stays in its density, and the sums of the curves are exceeded
    p, q = (np.exp(logs) * np.array(survival) for logs in (log_p, log_q))
    assert not np.allclose(p / p.sum(), np.exp(log_p), rtol=1e-3)
    assert p.sum() != pytest.approx(q.sum(), rel=1e-6)


def test_what_is_shown_names_the_mass_beside_the_curve() -> None:
    account = LOGISTIC
    card = account._repr_html_()
    assert "approximate, with delta = 1e-15 (the infinity mass)" in card
    axes = account.plot(view="renyi")
    assert "infinity mass 1e-15" in axes.get_title()
    x, y = axes.lines[0].get_data()
    assert (np.asarray(y) >= account.conditional_rdp(np.asarray(x)) * (1 - 1e-12)).all()

"""Least zCDP: closed forms at 40 digits, the Rényi curves that they bound, and what a budget admits."""

import mpmath as mp
import numpy as np
import pytest

import privsample as ps
from privsample.accounting.curves import zcdp
from privsample.errors import BudgetExceeded

PLACE = ps.ReplaceOne(n=50)


def exact(name, x):
    half = x / 2
    return {
        "pure": lambda: x * mp.tanh(half),
        "laplace": lambda: x - 1 + mp.exp(-x),
        "range": lambda: mp.log(mp.sinh(half) / half) + half * mp.coth(half) - 1,
        "response": lambda: x * mp.expm1(x) / (mp.exp(x) + 4),
    }[name]()


FORMS = {
    "pure": zcdp.of_pure,
    "laplace": zcdp.of_laplace,
    "range": zcdp.of_bounded_range,
    "response": lambda loss: zcdp.of_response(loss, 5),
}


@pytest.mark.parametrize("name", FORMS)
def test_closed_forms_are_rounded_up(name, rng):
    with mp.workdps(40):
        for loss in [0.1, np.nextafter(0.1, 0), *(10 ** rng.uniform(-12, 2.7, 300)).tolist()]:
            true = exact(name, mp.mpf(float(loss)))
            assert true <= FORMS[name](float(loss)) <= true * (1 + 1e-11)
    assert FORMS[name](0.0) == 0.0
    assert FORMS[name](1e-200) > 0.0


def test_values():
    """At a loss of 1, 2 and 5; and responses with so many answers that the largest ratio is not at order 1."""
    assert [zcdp.of_laplace(x) for x in (1, 2, 5)] == pytest.approx([0.36787944117, 1.13533528324, 4.00673794700])
    assert [zcdp.of_pure(x) for x in (1, 2, 5)] == pytest.approx([0.46211715726, 1.52318831191, 4.93307149076])
    assert [zcdp.of_bounded_range(x) for x in (1, 2, 5)] == pytest.approx(
        [0.12330156148, 0.474474647071, 2.41771961265]
    )
    assert zcdp.of_response(1, 3) == pytest.approx(0.364175327148744)
    assert zcdp.of_response(1, 100) == zcdp.of_pure(1) > 0.0611382122
    assert zcdp.of_pure(np.inf) == np.inf


ACCOUNTS = {
    "laplace": ps.LaplaceAccountant(sensitivity=1.5, scale=1),
    "small laplace": ps.LaplaceAccountant(sensitivity=1e-3, scale=1),
    "pure": ps.PureAccountant(stated_epsilon=1.2),
    "response": ps.RandomizedResponseAccountant(log_odds=1.3, categories=3, relation=PLACE),
    "range": ps.BoundedRangeAccountant(loss_range=0.7),
    "coordinates": ps.StatisticsAccountant(
        differences=ps.RecordSensitivity(differences=[[1, 1, 0], [0, 2, 0.5]]), n=50, noise=ps.LaplaceNoise(scale=1.1)
    ),
}


@pytest.mark.parametrize("name", ACCOUNTS)
def test_it_is_the_least_line_above_the_renyi_curve(name):
    account, orders = ACCOUNTS[name], 1 + np.append(1e-6, np.geomspace(1e-4, 1e4, 200))
    ratios = account.rdp(orders) / orders
    assert (ratios <= account.zcdp * (1 + 1e-9)).all()
    if name != "pure":  # its own curve is that of the pure guarantee in both orders
        assert ratios[0] == pytest.approx(account.zcdp, rel=1e-5)
    assert (ratios * 1.01 < account.zcdp).any()


def test_several_answers_exceed_the_divergence_at_order_one():
    """The trap: with 100 answers the ratio is largest at order 8.5, where only the pure guarantee covers it."""
    account = ps.RandomizedResponseAccountant(log_odds=1.0, categories=100, relation=PLACE)
    orders = np.geomspace(1 + 1e-6, 100, 400)
    ratios = account.rdp(orders) / orders
    assert 0.0611 < ratios.max() <= account.zcdp
    assert ratios[0] < 0.02


def test_a_zcdp_budget_takes_three_laplace_releases(tmp_path):
    ledger = ps.Ledger(tmp_path / "l.db", budget=ps.ZCDP(rho=1.2), relation=ps.AddRemove(), dataset="patients")
    mechanism = ps.LaplaceMechanism(sensitivity=1, scale=1)
    for _ in range(3):
        ledger.release(mechanism, 3.0)
    with pytest.raises(BudgetExceeded):
        ledger.release(mechanism, 3.0)

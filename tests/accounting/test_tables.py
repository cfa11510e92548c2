"""Chords and tables in limiting cases: no orders, one node, no loss; and wrong types in accounts and ledgers."""

import numpy as np
import pytest

import privsample as ps
from privsample.accounting.curves.chords import CurveChords, RenyiChords
from privsample.accounting.curves.discretize import discretize_curve
from privsample.accounting.engine import routes
from privsample.accounting.engine.bounds import PrivacyBounds
from privsample.accounting.engine.envelope import BoundsEnvelope
from privsample.accounting.engine.routes import affordable
from privsample.accounting.engine.tables import TabulatedPair, tabulated
from privsample.accounting.ledger import state
from privsample.accounting.loss.gaussian import GaussianPair
from privsample.accounting.loss.product import ProductPair
from privsample.accounting.selection.ranks import RenyiPair
from privsample.accounting.subsampling.pairs import PoissonPair


def rise(orders):
    return 0.5 * np.asarray(orders)


def test_chords_without_orders_are_infinite():
    for limit in (1.0, np.nextafter(1.0, 2.0)):
        found = RenyiChords.of(rise, limit, 50)
        assert np.isposinf(found(np.array([1.5, 2.0]))).all()


def test_one_node_bounds_the_orders_below_it():
    found = RenyiChords(np.array([1.0]), np.array([0.7]))(np.array([1.5, 2.0, 2.5]))
    np.testing.assert_array_equal(found, [0.7, 0.7, np.inf])


def test_the_convex_hull_is_never_above_the_nodes_and_never_below_a_convex_curve():
    excess = np.geomspace(0.01, 100, 40)
    uneven = rise(1 + excess) * (1 + 1e-3 * (np.arange(40) % 3))
    hull = RenyiChords(excess, uneven).convex
    at = 1 + np.geomspace(0.01, 100, 500)
    assert (hull(at) >= rise(at)).all()
    assert (hull(1 + excess) <= uneven * (1 + 1e-12)).all()
    slopes = np.diff(np.append(0.0, hull.excess * hull.divergence)) / np.diff(np.append(0.0, hull.excess))
    assert (np.diff(slopes) > 0).all()


def test_no_loss_has_no_privacy_curve():
    found = CurveChords.of(lambda e: -np.asarray(e), 0.0, 50)
    assert np.isneginf(found(np.array([0.0, 1.0]))).all()


def test_the_renyi_curve_of_a_tabulated_pair_is_above_the_pairs_own():
    pair = GaussianPair(mu=1.0)
    orders = np.array([1.5, 2.0, 10.0])
    found = TabulatedPair(pair=pair).renyi(orders)
    assert (found >= pair.renyi(orders)).all()
    assert (found <= pair.renyi(orders) * 1.1).all()


def test_a_table_of_tables_is_itself():
    once = tabulated(PrivacyBounds.from_pairs([GaussianPair(mu=1.0)]))
    assert tabulated(once) is once or tabulated(tabulated(once)) is tabulated(once)


def test_costs_of_a_pair_by_its_renyi_curve():
    bounds = PrivacyBounds.from_pairs([GaussianPair(mu=1.0)])
    pair = RenyiPair(bounds=bounds)
    assert pair.curve_cost > 0
    assert pair.renyi_cost == bounds.renyi_cost


def test_values_of_wrong_types_are_named(tmp_path):
    with pytest.raises(TypeError, match="directions must be a tuple of tuples"):
        PrivacyBounds(directions=[1], renyi=rise, order_limit=np.inf, pure_epsilon=np.inf, zcdp=np.inf)
    with pytest.raises(TypeError, match="account must be an accountant"):
        ps.privacy_statement(3)
    with pytest.raises(TypeError, match="path must be the name of a file"):
        ps.Ledger(3)
    with pytest.raises(TypeError, match="ledger must be a Ledger"):
        ps.Reservation(3, 1)
    with pytest.raises(ValueError, match="cannot be stored in a ledger"):
        state._text({"label": {1}})
    ledger = ps.Ledger(tmp_path / "a.ledger", budget=ps.DP(epsilon=1), relation=ps.AddRemove(), dataset="d")
    with pytest.raises(TypeError, match="mechanism must be a mechanism"):
        ledger.release(3, [1.0])


def test_the_renyi_curve_of_a_tabulated_sample_is_an_integral_over_its_chords():
    pair = PoissonPair(base=GaussianPair(mu=1.0), rate=0.1, removed=True)
    orders = np.array([2.0, 5.0])
    found = TabulatedPair(pair=pair).renyi(orders)
    assert (found >= pair.renyi(orders) * (1 - 1e-9)).all()
    assert np.isfinite(found).all()


def test_an_expensive_renyi_curve_of_an_account_with_a_cheap_privacy_curve_is_tabulated():
    bounds = PrivacyBounds.from_pairs([GaussianPair(mu=1.0)], own_renyi_cost=1e9)
    assert affordable(bounds) is not bounds
    assert affordable(PrivacyBounds.from_pairs([GaussianPair(mu=1.0)])).renyi_cost < 1e9


def test_an_expensive_privacy_curve_is_tabulated(monkeypatch):
    bounds = PrivacyBounds.from_pairs([GaussianPair(mu=1.0)])
    exact = bounds.pairs[0].log_delta(np.array([1.0]))
    monkeypatch.setattr(routes, "BUDGET", 0.0)
    assert (affordable(bounds).pairs[0].log_delta(np.array([1.0])) >= exact).all()


def test_a_composition_with_too_expensive_grids_is_tabulated_member_by_member():
    posterior = BoundsEnvelope(bounds=ps.PosteriorAccountant(model=ps.BetaBernoulli(alpha=6, beta=12), n=8).bounds)
    pair = ProductPair(members=((posterior, 2), (GaussianPair(mu=0.5), 1)))
    assert pair.is_on_grid
    table = TabulatedPair.of(pair)
    assert (pair.from_table, table.from_table) == (False, True)
    (member, times), (cheap, _) = table.pair.members
    assert (member, times, cheap) == (TabulatedPair(pair=posterior), 2, GaussianPair(mu=0.5))
    nodes = np.linspace(-7.0, 7.0, 1001)  # two posteriors on a fine grid, and Gaussian noise in closed form
    log_p, _ = discretize_curve(posterior.log_delta, posterior.log_delta, nodes)
    sums, masses = np.linspace(-14.0, 14.0, 2001), np.convolve(np.exp(log_p), np.exp(log_p))
    for epsilon in (0.5, 2.0):
        fine = np.log((masses * np.exp(GaussianPair(mu=0.5).log_delta(epsilon - sums))).sum())
        assert fine <= table.log_delta(np.array(epsilon)) <= fine + 2e-3


def test_the_table_of_an_account_has_its_renyi_curve():
    account = ps.PureAccountant(stated_epsilon=0.5) | ps.ZCDPAccountant(rho=0.1)
    (pair,) = tabulated(account.bounds).pairs
    orders = np.array([1.5, 4.0])
    assert (pair.pair.renyi(orders) >= account.rdp(orders)).all()
    assert pair.pair.renyi(orders) == pytest.approx(account.rdp(orders), rel=1e-2)


@pytest.mark.parametrize(("approximate", "limit"), [(0.0, np.inf), (1e-6, 1.0)])
def test_the_table_of_an_account_has_its_order_limit(approximate, limit):
    account = ps.ApproximateAccountant(stated_epsilon=0.5, stated_delta=approximate) | ps.ZCDPAccountant(rho=0.1)
    (pair,) = tabulated(account.bounds).pairs
    assert pair.order_limit == limit

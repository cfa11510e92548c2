"""Costs known in advance: which accounts use tables, that tables are upper bounds, and numbers of evaluations."""

import functools

import numpy as np
import pytest

import privsample as ps
from privsample._value import frozen_value
from privsample.accounting.base import Accountant
from privsample.accounting.curves.chords import CurveChords, RenyiChords
from privsample.accounting.engine import tables
from privsample.accounting.engine.routes import FROM_TABLE, affordable
from privsample.accounting.engine.tables import BUDGET, TabulatedPair, tabulated, within_budget
from privsample.accounting.loss import grid
from privsample.accounting.loss.gaussian import GaussianPair
from privsample.accounting.posterior import beta

PLACE = ps.ReplaceOne(n=50)
GAUSSIAN = ps.GaussianAccountant(sensitivity=1, noise_std=3, relation=PLACE)
LAPLACE = ps.LaplaceAccountant(sensitivity=1, scale=3, relation=PLACE)
POSTERIOR = ps.DirectPosterior(model=ps.BetaBernoulli(alpha=3, beta=5), n=50).accountant
ORDERS = np.array([1.001, 1.1, 2.0, 3.7, 8.0, 40.0])
EPSILONS = np.array([-3.0, -0.5, 0.0, 1e-3, 0.1, 0.7, 1.5, 3.0, 8.0])
MIXED = 2 * LAPLACE + GAUSSIAN
SMALL = (
    GAUSSIAN,
    LAPLACE,
    POSTERIOR,
    ps.PureAccountant(stated_epsilon=0.5, relation=PLACE),
    ps.ApproximateAccountant(stated_epsilon=0.5, stated_delta=1e-4, relation=PLACE),
    ps.ZCDPAccountant(rho=0.05, relation=PLACE),
    ps.RandomizedResponseAccountant(log_odds=1.0, categories=3, relation=PLACE),
    ps.GaussianAccountant(sensitivity=1, noise_std=1e6, relation=PLACE),
    ps.ConditionalAccountant(base=GAUSSIAN, event_probability=0.2),
    ps.SelectionAccountant(base=LAPLACE, repetitions=ps.Poisson(mean=5)),
    MIXED,
    LAPLACE.group(3),
    LAPLACE | GAUSSIAN,
)


@frozen_value
class Tabulated(Accountant):
    """An account whose bounds are the tables of another's."""

    base: Accountant
    assumptions: frozenset[ps.Assumption] = frozenset()

    @property
    def relation(self):
        return self.base.relation

    @property
    def source(self):
        return self.base.source

    def _bounds(self):
        return tabulated(self.base.bounds)


def conditional(base, floor=0.2):
    return ps.ConditionalAccountant(base=base, event_probability=floor)


@pytest.fixture(params=[pytest.param(64, id="short tables"), pytest.param(1, id="nested", marks=pytest.mark.long)])
def shorter(request, monkeypatch):
    """Divides the budget of one table: shorter tables are looser bounds, and what is claimed here holds for each size.

    The long lane builds the tables in full, for an account that took minutes without them.
    """
    monkeypatch.setattr(tables, "_TABLE_BUDGET", tables._TABLE_BUDGET / request.param)
    return request.param


def expensive(shorter):
    """Nested conditional selections over a posterior; in full also with Bernoulli draws, and doubled."""
    account = conditional(conditional(POSTERIOR))
    if shorter > 1:
        return account
    return 2 * (account + ps.BernoulliAccountant(base=POSTERIOR, margin=0.1, draws=1, dimension=1))


@functools.cache
def evaluated(shorter):
    """The account, its epsilon, and how many values of the posterior's curves that took."""
    account = expensive(shorter)
    with pytest.MonkeyPatch.context() as patched:
        values = _count_values(patched)
        return account, account.epsilon(1e-6), values


def test_chords_lie_above_convex_curves():
    pair, orders, epsilons = GaussianPair(mu=0.7), np.geomspace(1e-7, 1e7, 301) + 1.0, np.linspace(0.0, 12.0, 401)
    table = RenyiChords.of(pair.renyi, np.inf, 320)(orders)
    assert (table >= pair.renyi(orders)).all()
    inside = (orders > 1.01) & (orders < 1e6)
    assert table[inside] == pytest.approx(pair.renyi(orders[inside]), rel=0.01)
    curve = CurveChords.of(pair.log_delta, np.inf, 320)(epsilons)
    assert (curve >= pair.log_delta(epsilons)).all()
    near = epsilons < 6.0
    assert curve[near] == pytest.approx(pair.log_delta(epsilons)[near], rel=0.01)


def test_chords_of_few_nodes_are_still_upper_bounds():
    pair, orders, epsilons = GaussianPair(mu=0.7), np.geomspace(1e-4, 1e3, 101) + 1.0, np.linspace(0.0, 12.0, 101)
    assert (RenyiChords.of(pair.renyi, np.inf, 5)(orders) >= pair.renyi(orders)).all()
    assert (CurveChords.of(pair.log_delta, np.inf, 5)(epsilons) >= pair.log_delta(epsilons)).all()


@pytest.mark.parametrize("share", [4, pytest.param(1, marks=pytest.mark.long)])
@pytest.mark.parametrize(
    "account",
    [  # the composition, which takes seconds, in the long lane: the next test has two
        pytest.param(account, id=type(account).__name__, marks=pytest.mark.long if account is MIXED else ())
        for account in SMALL
    ],
)
def test_tables_are_above_and_close(account, share, monkeypatch):
    """Of a quarter of the usual length, too, which are looser bounds; in full in the long lane."""
    monkeypatch.setattr(tables, "_TABLE_BUDGET", tables._TABLE_BUDGET / share)
    bounds = tabulated(account.bounds)
    assert bounds.pairs
    above = EPSILONS[EPSILONS >= 0]  # below zero a table is the better: it follows from the other direction
    if (
        not account.bounds.curve_bounds
    ):  # these bounds are not convex: a chord may be below them, and not below the truth
        table = np.max([pair.log_delta(above) for pair in bounds.pairs], axis=0)
        assert (np.exp(table) >= np.exp(account.log_delta(above)) * (1 - 1e-9)).all()
    exact = np.asarray(account.bounds.renyi(ORDERS))
    found = bounds.renyi(ORDERS)
    assert (found >= exact * (1 - 1e-13)).all()
    inside = np.isfinite(exact) & (account.bounds.order_limit * 0.9 > ORDERS)
    assert found[inside] == pytest.approx(exact[inside], rel=0.05)
    worst = np.max([pair.log_delta(EPSILONS[2:7]) for pair in bounds.pairs], axis=0)
    expected = np.asarray(account.log_delta(EPSILONS[2:7]))
    known = expected > -40.0
    assert worst[known] == pytest.approx(expected[known], abs=0.3)


@pytest.mark.parametrize(
    "account",
    [
        pytest.param(10 * LAPLACE, id="pure"),
        # tests/accounting/test_tables.py compares a composition that is not pure with a fine grid
        pytest.param(LAPLACE + GAUSSIAN, id="not pure", marks=pytest.mark.long),
    ],
)
def test_tables_of_compositions_are_above_and_close(account):
    pair = account.bounds.pairs[0]
    table, top = TabulatedPair.of(pair), min(pair.max_divergence, 5.0)
    epsilons = top * np.array([0.0, 0.2, 0.8, 0.985, 0.992, 0.999])
    found, exact = table.log_delta(epsilons), pair.log_delta(epsilons)
    # grids are rounded up by up to 3e-7 in epsilon, each with another remainder
    assert (found >= exact - 1e-4).all()
    near = exact[:3] > -30.0
    assert found[:3][near] == pytest.approx(exact[:3][near], abs=1e-3)
    far = np.array([6.0])
    assert (table.log_delta(far) >= pair.log_delta(far) - 1e-4).all()


def test_a_kernel_over_a_composition_needs_few_grids(monkeypatch):
    """One grid serves many epsilons. A table of 50 of them was 5 percent above, and exact values needed 87 grids."""
    grids, own = [], grid._compose
    monkeypatch.setattr(grid, "_compose", lambda *given: grids.append(given) or own(*given))
    kernel = ps.KernelAccountant(base=10 * LAPLACE, matrix=[[0.7, 0.3], [0.4, 0.6]])
    exact = 0.26773360796468143  # by exact values at every epsilon
    assert exact * (1 - 1e-6) <= kernel.epsilon(1e-6) <= exact * (1 + 1e-4)
    assert 0 < len(grids) < 60
    assert kernel._base.renyi(ORDERS) == pytest.approx(kernel.base.bounds.renyi(ORDERS), rel=0)


def test_nested_selections_over_noise_are_not_tabulated():
    selection = ps.SelectionAccountant(base=GAUSSIAN, repetitions=ps.Poisson(mean=10))
    twice = ps.SelectionAccountant(base=selection, repetitions=ps.Poisson(mean=10))
    for account in (twice, selection.group(5), ps.KernelAccountant(base=selection, matrix=[[0.7, 0.3], [0.4, 0.6]])):
        assert not account.bounds.from_table


def test_affordable_accounts_are_not_tabulated():
    for account in (*SMALL, conditional(conditional(GAUSSIAN))):
        assert affordable(account.bounds) is account.bounds
        assert not account.bounds.from_table
        assert not any(FROM_TABLE in route.name for route in account.explain(1e-6))
    assert within_budget(POSTERIOR.bounds, curve=10.0) is POSTERIOR.bounds


def test_a_tabulated_route_is_named_and_is_an_upper_bound():
    # the same account through the exact curves of its base: affordable here, as the base is Gaussian
    tight = conditional(conditional(GAUSSIAN))
    loose = conditional(Tabulated(base=conditional(GAUSSIAN)))
    # The smallest of several upper bounds is not convex, and chords of a convex curve may lie slightly below it.
    for delta in (1e-9, 1e-3):
        assert tight.epsilon(delta) * (1 - 1e-3) <= loose.epsilon(delta) <= tight.epsilon(delta) * 1.02
    assert (np.asarray(loose.rdp(ORDERS)) >= np.asarray(tight.rdp(ORDERS)) * (1 - 1e-3)).all()
    assert any(FROM_TABLE in route.name for route in loose.explain(1e-6))


def test_expensive_accounts_name_their_tables(shorter):
    assert any(FROM_TABLE in route.name for route in evaluated(shorter)[0].explain(1e-6))


def test_results_do_not_depend_on_earlier_evaluations(shorter):
    second = expensive(shorter)
    second.rdp(ORDERS[[1, 4]])
    second.delta(EPSILONS[[1, 4, 7]])
    assert evaluated(shorter)[1] == second.epsilon(1e-6)


def test_nested_selections_evaluate_a_bounded_number_of_values(shorter, monkeypatch):
    """Counts values of the posterior's curves: without tables there were 25 million, with tables a few."""
    base, _, own = evaluated(shorter)
    values = _count_values(monkeypatch)
    conditional(base if shorter > 1 else conditional(conditional(POSTERIOR))).epsilon(1e-6)
    assert 0 < own["renyi"] + values["renyi"] < 2 * BUDGET / 20  # two accounts; a Rényi value counts as 20
    assert 0 < own["curve"] + values["curve"] < 2 * BUDGET / 50


def test_compositions_of_posteriors_and_noise_use_the_grid(monkeypatch):
    values = _count_values(monkeypatch)
    other = ps.DiffusedPosterior(model=ps.BetaBernoulli(alpha=6, beta=12), n=50, data_weight=0.4).accountant
    total = LAPLACE + GAUSSIAN + POSTERIOR + other
    assert total.epsilon(1e-6) < 12.0
    assert 0 < values["curve"] < BUDGET / 50
    assert not total.bounds.from_table


@pytest.mark.parametrize(
    "kind", ["group", "bernoulli", "kernel", pytest.param("selection", marks=pytest.mark.long), "poisson"]
)
def test_every_account_of_an_expensive_base_is_affordable(kind, shorter, monkeypatch):
    """The base keeps its tables: with short tables, all kinds read those of one base."""
    base, _, own = evaluated(shorter) if shorter > 1 else (conditional(conditional(POSTERIOR)), None, None)
    made = {
        "group": lambda: base.group(10),
        "bernoulli": lambda: ps.BernoulliAccountant(base=base, margin=0.1, draws=2, dimension=1),
        "kernel": lambda: ps.KernelAccountant(base=base, matrix=[[0.7, 0.3], [0.4, 0.6]]),
        "selection": lambda: ps.SelectionAccountant(base=base, repetitions=ps.Poisson(mean=5)),
        "poisson": lambda: ps.SubsampledAccountant(base=base, scheme=ps.WithoutReplacement(n=500, m=50)),
    }
    values = _count_values(monkeypatch)
    epsilon = made[kind]().epsilon(1e-6)
    assert 0.0 < epsilon < np.inf
    assert values["renyi"] + (own["renyi"] if own else 0) < BUDGET / 20
    assert values["curve"] + (own["curve"] if own else 0) < BUDGET / 50


def _count_values(monkeypatch):
    """Values of the curves of Beta posteriors that are computed from here on."""
    found = {"renyi": 0, "curve": 0}
    own_renyi, own_curve = beta._beta_renyi, beta._beta_log_delta

    def renyi(a, b, step, orders):
        found["renyi"] += len(a)
        return own_renyi(a, b, step, orders)

    def curve(a, b, step, epsilon):
        found["curve"] += len(a)
        return own_curve(a, b, step, epsilon)

    monkeypatch.setattr(beta, "_beta_renyi", renyi)
    monkeypatch.setattr(beta, "_beta_log_delta", curve)
    return found

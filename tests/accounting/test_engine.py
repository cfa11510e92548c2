"""Properties of the engine that the tests of the account families do not cover."""

import numpy as np
import pytest

import privsample as ps
from privsample.accounting.engine.bounds import PrivacyBounds
from privsample.accounting.loss.alternatives import OneOfPairs
from privsample.accounting.loss.gaussian import GaussianPair
from privsample.accounting.loss.laplace import LaplacePair
from privsample.accounting.loss.pair import DiscretePair, Envelope
from privsample.accounting.loss.product import ProductPair
from privsample.accounting.stated.finite import LargeTable
from tests.accounting.strategies import Finite

ORDERS = np.array([1.2, 2.0, 7.0])
TEN = ps.ReplaceOne(n=10)
GAUSSIAN = ps.GaussianAccountant(sensitivity=1, noise_std=2, relation=TEN)
COUNTS = ps.PosteriorAccountant(model=ps.GammaPoisson(shape=9, rate=1, upper=2), n=10, data_weight=0.5)
TABLE = DiscretePair(log_p=np.log([0.7, 0.2, 0.1]), log_q=np.log([0.5, 0.2, 0.3]))


def test_one_account_with_several_smooth_pairs_composes_with_each_of_them():
    """By contour integral, and never below the exact value of the worse order."""
    account = COUNTS + GAUSSIAN
    products = [ProductPair(members=((pair, 1), (GaussianPair(mu=0.5), 1))) for pair in COUNTS.pairs]
    assert account.pairs == tuple(products)
    worst = max(float(product.log_delta(np.float64(0.7))) for product in products)
    assert account.log_delta(0.7) == pytest.approx(worst, abs=1e-12)
    assert "contour" in {
        route.name.split(", ")[-1].split()[-2] for route in account.explain(1e-6) if "by " in route.name
    }


def test_one_account_with_several_tables_is_dominated_by_one_pair():
    account = Finite(listed=(TABLE, TABLE.reverse()), relation=TEN) + GAUSSIAN
    assert not account.bounds.inverts_exactly
    for pair in (TABLE, TABLE.reverse()):
        product = ProductPair(members=((pair, 1), (GaussianPair(mu=0.5), 1)))
        assert account.log_delta(0.4) >= float(product.log_delta(np.float64(0.4))) - 1e-6


def test_a_gaussian_pair_and_a_laplace_pair_dominate_smaller_shifts_of_their_kind_only():
    assert GaussianPair(mu=2.0).dominates(GaussianPair(mu=1.0))
    assert not GaussianPair(mu=1.0).dominates(GaussianPair(mu=2.0))
    assert LaplacePair(shift=2.0).dominates(LaplacePair(shift=1.0))
    assert not LaplacePair(shift=2.0).dominates(GaussianPair(mu=1e-3))
    assert TABLE.dominates(TABLE)
    assert not TABLE.dominates(TABLE.reverse())


@pytest.mark.parametrize("mus", [(1.0, 0.4, 0.9), (0.4, 0.9, 1.0)])
def test_dominated_pairs_are_left_out_of_parallel_parts(mus):
    parts = [ps.GaussianAccountant(sensitivity=mu, noise_std=1) for mu in mus]
    account = parts[0] | parts[1] | parts[2]
    assert account.pairs == (GaussianPair(mu=1.0),)
    worst = ps.GaussianAccountant(sensitivity=1, noise_std=1)
    assert account.epsilon(1e-6) == worst.epsilon(1e-6)
    assert (3 * account).epsilon(1e-6) == pytest.approx((3 * worst).epsilon(1e-6), rel=1e-12)
    assert (account.rdp(ORDERS) == worst.rdp(ORDERS)).all()


def test_an_envelope_without_known_members_names_no_pairs():
    account = ps.TemperedAccountant(model=ps.BetaBernoulli(alpha=2, beta=3), n=4, temperature=2, truncation=0.1)
    (envelope,) = account.bounds.pairs
    assert isinstance(envelope, Envelope)
    assert account.pairs == envelope.members == ()
    assert envelope.reverse() is envelope


def test_an_account_gains_only_new_assumptions():
    assert GAUSSIAN.assuming(ps.Assumption.IDEAL_REALS) is GAUSSIAN
    assert ps.Assumption.TIMING in GAUSSIAN.assuming(ps.Assumption.TIMING).assumptions


def test_bounds_are_computed_once_for_each_account():
    assert GAUSSIAN.bounds is GAUSSIAN.bounds


def test_bounds_of_pairs_and_of_a_curve_fill_in_what_follows():
    by_pairs = PrivacyBounds.from_pairs([LaplacePair(shift=0.5)])
    assert (by_pairs.pure_epsilon, by_pairs.zcdp, by_pairs.exact) == (
        0.5,
        pytest.approx(0.5 * np.tanh(0.25)),
        {"rdp", "delta", "epsilon"},
    )
    by_curve = PrivacyBounds.from_renyi(lambda orders: 0.1 * orders)
    assert (by_curve.pure_epsilon, by_curve.zcdp, by_curve.exact) == (np.inf, np.inf, {"rdp"})
    assert not by_curve.has_curve


def test_a_pair_of_alternatives_and_a_large_table_have_the_curves_of_their_tables():
    either = OneOfPairs(members=(TABLE, TABLE.reverse()))
    worst = np.maximum(TABLE.renyi(ORDERS), TABLE.reverse().renyi(ORDERS))
    assert (either.renyi(ORDERS) == worst).all()
    large, nodes = LargeTable(table=TABLE), np.linspace(-2.0, 2.0, 9)
    assert large.reverse() == LargeTable(table=TABLE.reverse())
    assert (large.discretize(nodes)[0] == TABLE.discretize(nodes)[0]).all()


def test_the_envelope_of_binary_draws_has_the_renyi_curve_of_their_account():
    base = ps.PureAccountant(stated_epsilon=1.0)
    account = ps.BernoulliAccountant(base=base, margin=0.1, draws=2, dimension=3)
    (envelope,) = account.bounds.pairs
    assert (envelope.renyi(ORDERS) == account.rdp(ORDERS)).all()
    assert envelope.max_divergence == account.pure_epsilon

"""What an adversary's odds become: beside enumeration, attaining pairs, and closed forms."""

from dataclasses import dataclass

import mpmath as mp
import numpy as np
import pytest

import privsample as ps
from privsample.accounting.curves import posterior_odds as odds

GAUSSIAN = ps.GaussianAccountant(sensitivity=1, noise_std=4)


def divergence(p, q, epsilon):
    """The hockey-stick divergence by enumeration."""
    return float(np.maximum(p - np.exp(epsilon) * q, 0.0).sum())


def exceeding(p, q, loss):
    """The probability of a privacy loss above `loss`, by enumeration."""
    return float(p[p > q * np.exp(loss)].sum())


@pytest.mark.parametrize("loss", [-0.5, 0.0, 0.1, 0.7, 1.5, 3.0])
def test_no_table_has_a_larger_tail_in_either_order(loss, rng):
    for _ in range(20):
        p, q = rng.dirichlet(np.full(4, 0.5), size=2)
        account = ps.PairAccountant(p=p, q=q)
        for one, other in ((p, q), (q, p)):
            assert exceeding(one, other, loss) <= account.loss_tail(loss) + 1e-15


@pytest.mark.parametrize("loss", [1.0, *(pytest.param(loss, marks=pytest.mark.long) for loss in (0.3, 2.0))])
@pytest.mark.parametrize("account", [GAUSSIAN, ps.ZCDPAccountant(rho=0.1)], ids=["gaussian", "zcdp"])
def test_two_outputs_attain_the_tail_and_have_at_most_the_privacy_curve(account, loss):
    tail = float(account.loss_tail(loss))
    p = np.array([tail, 1 - tail])
    q = np.array([tail * np.exp(-loss), 1 - tail * np.exp(-loss)])
    epsilons = np.linspace(-3, loss, 700)
    needed, allowed = np.array([divergence(p, q, epsilon) for epsilon in epsilons]), account.delta(epsilons)
    assert (needed <= allowed * (1 + 1e-6) + 1e-13).all()
    inside = epsilons > np.log1p(-tail) + 1e-9  # below it both are 1 - e^epsilon
    assert (needed[inside] / allowed[inside]).max() > 0.99


def test_a_tail_taken_for_delta_is_caught():
    """P(loss > epsilon) <= delta(epsilon) is false: the thesis calls it sufficient, and it is not necessary."""
    account = ps.ApproximateAccountant(stated_epsilon=1.0, stated_delta=1e-3)
    tail = float(account.loss_tail(1.1))
    assert tail == pytest.approx(1e-3 / -np.expm1(-0.1), rel=1e-9)
    p, q = np.array([tail, 1 - tail]), np.array([tail * np.exp(-1.1), 1 - tail * np.exp(-1.1)])
    assert divergence(p, q, 1.0) <= 1e-3 * (1 + 1e-12)
    assert exceeding(p, q, 1.0) > 10 * account.delta(1.0)


@pytest.mark.parametrize("order", [1.5, 3.0, 20.0])
def test_markov_s_inequality_at_one_order_is_no_better(order):
    account = ps.ZCDPAccountant(rho=0.2)
    for loss in (0.5, 1.0, 3.0):
        assert account.loss_tail(loss) <= np.exp((order - 1) * (float(account.rdp(order)) - loss)) * (1 + 1e-8)
    for tail in (1e-9, 1e-3, 0.3):
        markov = float(account.rdp(order)) - np.log(tail) / (order - 1)
        assert np.log(account.posterior_odds(tail_probability=tail)) <= markov * (1 + 1e-8)


def test_the_gaussian_tail_at_fifty_digits():
    with mp.workdps(50):
        mu, t = mp.mpf("0.25"), mp.mpf(1)

        def bound(e):
            delta = mp.ncdf(mu / 2 - e / mu) - mp.exp(e) * mp.ncdf(-mu / 2 - e / mu)
            return delta / (1 - mp.exp(e - t))

        slope = mp.findroot(lambda e: mp.diff(bound, e), (mp.mpf("0.6"), mp.mpf("0.95")), solver="anderson")
        exact, true_tail = float(bound(slope)), float(mp.ncdf(mu / 2 - t / mu))
    found = float(GAUSSIAN.loss_tail(1.0))
    assert exact * (1 - 1e-13) <= found <= exact * (1 + 1e-8)
    assert true_tail < found


@pytest.mark.parametrize("scale", [1e-6, 1e-3, 1.0, 30.0])
def test_tails_of_small_and_large_losses(scale):
    """Randomized response: its curve is linear in e^epsilon between the kinks at plus and minus its loss."""
    account = ps.PureAccountant(stated_epsilon=scale)
    tail = float(account.loss_tail(scale / 2))
    x, top = np.exp(np.linspace(-scale, scale, 4001)), np.exp(scale / 2)
    below = x < top * (1 - 1e-12)
    curve = np.maximum((np.exp(scale) - x) / (1 + np.exp(scale)), 1 - x)
    least = min((curve[below] / (1 - x[below] / top)).min(), 1.0)
    assert tail == pytest.approx(least, rel=1e-6)
    assert tail >= least * (1 - 1e-9)
    assert account.loss_tail(scale) == 0.0


def test_a_loss_beside_which_small_distances_vanish():
    assert 0.0 <= ps.ZCDPAccountant(rho=1.0).loss_tail(1e9) < 1e-300
    failing = ps.ApproximateAccountant(stated_epsilon=1.0, stated_delta=1e-5)
    assert 1e-5 <= failing.loss_tail(1e9) <= 1e-5 * (1 + 1e-9)


def test_the_odds_are_the_inverse_of_the_tail():
    for account in (GAUSSIAN, ps.ZCDPAccountant(rho=0.1), ps.PureAccountant(stated_epsilon=1.0)):
        for tail in (1e-8, 1e-3, 0.2):
            growth = float(np.log(account.posterior_odds(tail_probability=tail)))
            assert account.loss_tail(growth * (1 + 1e-12)) <= tail * (1 + 1e-6)


def test_pure_approximate_and_infinite_guarantees():
    pure = ps.PureAccountant(stated_epsilon=0.7)
    assert float(pure.posterior_odds(3.0)) == pytest.approx(3 * np.exp(0.7), rel=1e-14)
    assert float(pure.posterior_odds(3.0)) >= 3 * np.exp(0.7)
    assert pure.loss_tail([0.7, 0.71]).tolist() == [0.0, 0.0]
    approximate = ps.ApproximateAccountant(stated_epsilon=1.0, stated_delta=1e-5)
    assert approximate.posterior_odds(tail_probability=1e-4) == pytest.approx(np.e / 0.9, rel=1e-12)
    assert [float(approximate.posterior_odds(2.0, tail_probability=f)) for f in (0.0, 1e-6, 1e-5)] == [np.inf] * 3
    assert approximate.loss_tail(500.0) >= 1e-5
    assert GAUSSIAN.posterior_odds() == np.inf
    assert GAUSSIAN.posterior_probability(0.3) == 1.0
    huge = ps.PureAccountant(stated_epsilon=800.0)
    assert (huge.posterior_odds(), huge.posterior_probability()) == (np.inf, 1.0)


@dataclass(frozen=True, kw_only=True)
class Nothing(ps.SizeFreeAccountant):
    """An account that knows no finite divergence at any order."""

    relation: ps.Relation = ps.AddRemove()
    assumptions: frozenset[ps.Assumption] = frozenset()
    source = "none"

    def _bounds(self):
        return ps.PrivacyBounds.from_renyi(lambda orders: np.full(np.shape(orders), np.inf))


def test_an_account_that_knows_nothing_promises_nothing():
    account = Nothing()
    assert account.epsilon(0.1) == np.inf
    assert account.posterior_odds(2.0, tail_probability=0.2) == np.inf
    assert account.posterior_probability(0.2, tail_probability=0.2) == 1.0
    assert account.loss_tail(3.0) == 1.0


@pytest.mark.parametrize(
    "one",
    [
        ps.PureAccountant(stated_epsilon=0.5),
        pytest.param(ps.LaplaceAccountant(sensitivity=1, scale=2), marks=pytest.mark.long),  # composed on grids
    ],
    ids=["pure", "laplace"],
)
def test_compositions_and_groups_have_them_too(one):
    """Every account has the methods; more releases and larger groups never lower them."""
    several = [
        one,
        one.group(2),
        3 * one,
        one | one,
        ps.SubsampledAccountant(base=one, scheme=ps.PoissonSampling(rate=0.5)),
    ]
    odds = [float(account.posterior_odds(tail_probability=1e-4)) for account in several]
    assert odds[1] > 1.5 * odds[0]
    assert odds[2] > odds[1]
    assert odds[3] == pytest.approx(odds[0], rel=1e-9)
    assert 1.0 < odds[4] < odds[0]
    tails = [float(account.loss_tail(0.4)) for account in several]
    assert tails[1] > tails[0]
    assert tails[4] < tails[0]


def test_odds_never_fall_and_probabilities_agree_with_them():
    assert GAUSSIAN.posterior_odds(5.0, tail_probability=0.999) >= 5.0
    prior = np.array([[1e-9, 0.01], [0.5, 0.999]])
    found = GAUSSIAN.posterior_probability(prior, tail_probability=1e-3)
    expected = GAUSSIAN.posterior_odds(prior / (1 - prior), tail_probability=1e-3)
    assert found.shape == prior.shape
    assert found == pytest.approx(expected / (1 + expected), rel=1e-13)
    assert (found > prior).all()


@pytest.mark.parametrize("prior", [5e-324, 1e-310, 2.3e-308, 1e-300, 1 - 2.0**-53])
def test_the_smallest_and_largest_priors_are_not_rounded_below_the_truth(prior):
    growth = GAUSSIAN.posterior_odds(1.0, tail_probability=1e-3) * (1 - 1e-12)
    odds = mp.mpf(prior) / (1 - mp.mpf(prior)) * mp.mpf(float(growth))
    found = float(GAUSSIAN.posterior_probability(prior, tail_probability=1e-3))
    assert odds / (1 + odds) <= found <= 1.0
    assert found <= 1.000001 * float(odds / (1 + odds)) + 1e-323
    assert mp.mpf(float(GAUSSIAN.posterior_odds(prior, tail_probability=1e-3))) >= prior * mp.mpf(float(growth))


def test_hypotheses_that_join_several_values_of_a_record(rng):
    """Step 3: a table of outputs for four values of one record; every set of values, every prior."""
    tables = rng.dirichlet(np.full(5, 3.0), size=4)
    pairs = [(a, b) for a in range(4) for b in range(a)]
    account = ps.PairAccountant(p=[tables[a] for a, _ in pairs], q=[tables[b] for _, b in pairs])
    for _ in range(15):
        prior, members = rng.dirichlet(np.ones(4)), rng.random(4) < 0.5
        if not 0 < members.sum() < 4:
            continue
        weight = prior[members].sum()
        one = prior[members] @ tables[members] / weight
        other = prior[~members] @ tables[~members] / (1 - weight)
        after = weight * one / (weight * one + (1 - weight) * other)
        assert after.max() <= account.posterior_probability(weight)
        for tail in (0.05, 0.3):
            bound = account.posterior_probability(weight, tail_probability=tail)
            assert max(one[after > bound].sum(), other[after > bound].sum()) <= tail


def test_two_values_of_a_present_record_are_two_changes_apart():
    """Step 3: the bound under AddRemove is for presence; for values it would be too small."""
    scale = 1.0  # the sum of one record in {-1, 1}, with Laplace noise
    removal = ps.LaplaceAccountant(sensitivity=1, scale=scale)
    output = 10.0
    factor = np.exp((abs(output + 1) - abs(output - 1)) / scale)  # of the odds of 1 against -1
    presence = np.exp((abs(output) - abs(output - 1)) / scale)
    assert presence <= removal.posterior_odds() < factor
    assert factor <= removal.to(ps.ReplaceOne(n=5)).posterior_odds()


def test_rounding_is_upward_where_the_search_stops_at_once(monkeypatch):
    monkeypatch.setattr(odds, "_TOLERANCE", 0.9)
    assert GAUSSIAN.loss_tail(1.0) >= 1.3751943e-4
    assert GAUSSIAN.posterior_odds(tail_probability=1e-3) >= 2.389248


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda a: a.loss_tail([0.0, np.nan]), "losses"),
        (lambda a: a.loss_tail(np.inf), "losses must be finite"),
        (lambda a: a.posterior_odds(0.0), r"prior_odds must be finite and > 0, got 0\.0: "),
        (lambda a: a.posterior_odds(np.inf), "prior_odds must be finite and > 0, got inf: "),
        (lambda a: a.posterior_odds(tail_probability=1.0), "tail_probability must"),
        (lambda a: a.posterior_odds(tail_probability=-0.1), "tail_probability must"),
        (lambda a: a.posterior_probability([0.5, 1.5]), r"prior must lie in \(0, 1\), got 1\.5$"),
        (lambda a: a.posterior_probability(0.0), r"prior must lie in \(0, 1\)"),
    ],
)
def test_bad_arguments(call, message):
    with pytest.raises(ValueError, match=message):
        call(GAUSSIAN)

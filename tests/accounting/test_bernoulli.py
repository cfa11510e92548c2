"""Divergences of Bernoulli draws against brute force, 50-digit sums, and each other."""

import itertools
import json

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from privsample import (
    Accountant,
    ApproximateAccountant,
    BernoulliAccountant,
    GaussianAccountant,
    LaplaceAccountant,
    PureAccountant,
    ReplaceOne,
    ZCDPAccountant,
)
from privsample.accounting.postprocessing import bernoulli_search
from privsample.accounting.postprocessing.bernoulli_bounds import (
    binary_log_odds,
    binary_renyi,
    le_cam_contraction,
    log_hockey_stick,
    symmetric_renyi,
    total_variation_contraction,
)
from privsample.accounting.postprocessing.bernoulli_search import corner_renyi
from privsample.errors import RelationMismatch
from tests.counting import counted


def kernel(dimension, draws, margin):
    """Chances of all outcomes, (corners, outcomes), by enumeration of all draws."""
    found = []
    for corner in itertools.product((margin, 1 - margin), repeat=dimension):
        chances = corner * draws
        found.append(
            [
                np.prod([c if b else 1 - c for c, b in zip(chances, bits, strict=True)])
                for bits in itertools.product((0, 1), repeat=dimension * draws)
            ]
        )
    return np.array(found)


def renyi(p, q, order):
    return float(np.log((p**order * q ** (1 - order)).sum()) / (order - 1))


def exact(log_odds, order, trials, margin):
    """Theorem 4 at 50 digits."""
    with mp.workdps(50):
        c, a = mp.mpf(margin), mp.mpf(order)
        p = 1 / (1 + mp.exp(mp.mpf(log_odds)))
        total = mp.mpf(0)
        for j in range(trials + 1):
            one, other = c**j * (1 - c) ** (trials - j), c ** (trials - j) * (1 - c) ** j
            x, y = p * one + (1 - p) * other, (1 - p) * one + p * other
            total += mp.binomial(trials, j) * x**a * y ** (1 - a)
        return float(mp.log(total) / (a - 1))


@pytest.mark.parametrize("order", [1.001, 2.0, 50.0])
def test_the_sum_of_theorem_4_at_fifty_digits(order):
    cases = [
        *itertools.product((1, 2, 7), (0.01, 0.3, 0.49), (1e-6, 2.0)),
        (1, 0.3, 60.0),
        (2, 0.01, 0.3),
        (60, 0.49, 0.3),
    ]
    for trials, margin, log_odds in cases:
        assert symmetric_renyi(log_odds, order, trials, margin) == pytest.approx(
            exact(log_odds, order, trials, margin), rel=1e-9
        )


def test_large_sums_are_cut_short_and_leave_nothing_out():
    for margin in (0.01, 0.4999):
        with counted() as cost:
            found = symmetric_renyi(1.0, 50.0, 10_000_000, margin)
        assert cost.calls.total() < 1000
        assert cost.numbers < 5_000_000  # less than one for each draw
        assert 0.0 < found <= float(binary_renyi(1.0, 50.0)) * (1 + 1e-10)
    whole = bernoulli_search.binomial_masses(3000, 0.1, 1e9)
    with_all = np.logaddexp.reduce(whole[0])
    assert len(whole[0]) == 3001
    assert with_all == pytest.approx(0.0, abs=1e-9)
    assert np.logaddexp.reduce(bernoulli_search.binomial_masses(3000, 0.1)[0]) == pytest.approx(0.0, abs=1e-9)


@given(st.floats(1e-6, 100), st.floats(1.001, 1e4))
def test_log_odds_turn_a_divergence_back(epsilon, order):
    log_odds = binary_log_odds(epsilon, order)
    assert binary_renyi(log_odds, order) == pytest.approx(epsilon, rel=1e-9)


@pytest.mark.parametrize(("dimension", "draws"), [(1, 1), (1, 3), (2, 1), (2, 2), (3, 1)])
@pytest.mark.parametrize("margin", [0.05, 0.3])
def test_constants_by_enumeration(dimension, draws, margin):
    rows = kernel(dimension, draws, margin)
    pairs = list(itertools.combinations(rows, 2))
    trials = dimension * draws
    assert total_variation_contraction(trials, margin) == pytest.approx(
        max(np.abs(p - q).sum() / 2 for p, q in pairs), rel=1e-9
    )
    assert le_cam_contraction(trials, margin) == pytest.approx(
        max((((p - q) ** 2) / (p + q)).sum() / 2 for p, q in pairs), rel=1e-9
    )
    for epsilon in (0.0, 0.4, 1.0, 2.9, 8.0):
        worst = max(np.maximum(a - np.exp(epsilon) * b, 0).sum() for p, q in pairs for a, b in ((p, q), (q, p)))
        assert np.exp(log_hockey_stick(np.array([epsilon]), trials, margin))[0] == pytest.approx(
            worst, rel=1e-8, abs=1e-15
        )


def feasible(rng, count, epsilon, order):
    """Two random distributions, drawn together until both divergences are at most epsilon."""
    p, q = rng.dirichlet(np.full(count, 0.7), 2)
    low, high = 0.0, 1.0
    for _ in range(50):
        at = (low + high) / 2
        one, other = p * (1 + at) / 2 + q * (1 - at) / 2, q * (1 + at) / 2 + p * (1 - at) / 2
        inside = max(renyi(one, other, order), renyi(other, one, order)) <= epsilon
        low, high = (at, high) if inside else (low, at)
    return p * (1 + low) / 2 + q * (1 - low) / 2, q * (1 + low) / 2 + p * (1 - low) / 2


@pytest.mark.parametrize(
    ("dimension", "draws"),
    [(1, 1), (1, 2), (2, 1), *(pytest.param(*more, marks=pytest.mark.long) for more in ((1, 4), (2, 2), (3, 1)))],
)
def test_no_pair_of_distributions_violates_an_account(dimension, draws, rng):
    """Random distributions on corners and, for several draws, inside: no view of the account is violated."""
    for _ in range(6 if (dimension, draws) == (1, 1) else 12):
        margin, epsilon, order = rng.uniform(0.02, 0.45), np.exp(rng.uniform(-3, 1)), 1 + np.exp(rng.uniform(-2, 3))
        rows = kernel(dimension, draws, margin)
        if dimension == 1:  # chances inside too
            inner = rng.uniform(margin, 1 - margin, 3)
            binomial_masses = np.array([sum(bits) for bits in itertools.product((0, 1), repeat=draws)])
            rows = np.vstack([rows, *(x**binomial_masses * (1 - x) ** (draws - binomial_masses) for x in inner)])
        p, q = feasible(rng, len(rows), epsilon, order)
        account = BernoulliAccountant(
            base=ZCDPAccountant(rho=epsilon / order), margin=margin, draws=draws, dimension=dimension
        )
        assert renyi(p @ rows, q @ rows, order) <= account.rdp(order) * (1 + 1e-9) + 1e-12
        total = np.maximum(p - q, 0).sum()
        stated = BernoulliAccountant(
            base=ApproximateAccountant(stated_epsilon=0.0, stated_delta=min(total * (1 + 1e-12), 0.999999)),
            margin=margin,
            draws=draws,
            dimension=dimension,
        )
        after = [np.maximum(p @ rows - np.exp(e) * (q @ rows), 0).sum() for e in (0.0, 0.2, 1.0)]
        assert (after <= stated.delta([0.0, 0.2, 1.0]) * (1 + 1e-9) + 1e-12).all()


@pytest.mark.parametrize("order", [1.01, 5.0, 1e4])
@pytest.mark.parametrize("epsilon", [1e-3, 2.5, 30.0])
@pytest.mark.parametrize("margin", [0.1, 0.45])
def test_the_search_encloses_a_grid(order, epsilon, margin):
    found = corner_renyi(epsilon, order, 1, margin)
    assert found.low <= found.high <= found.low * (1 + 5e-9)
    conjectured = symmetric_renyi(float(binary_log_odds(epsilon, order)), order, 1, margin)
    assert conjectured <= found.high * (1 + 1e-9)
    assert found.high <= conjectured * (1 + 1e-8)  # as conjectured, for one draw, wherever we looked
    nodes = np.linspace(-epsilon - 8, epsilon + 8, 150)
    t, v = np.meshgrid(nodes, nodes)
    search = bernoulli_search._Search(s=order - 1, epsilon=epsilon, masses=bernoulli_search.binomial_masses(1, margin))
    allowed = np.max(search.divergences(t, v), axis=0) <= epsilon
    kept = search.divergence_after(bernoulli_search._masses(t), bernoulli_search._masses(v))
    assert kept[allowed].max() <= found.high * (1 + 1e-9)


def test_the_search_at_zero_and_for_several_draws():
    assert corner_renyi(0.0, 2.0, 1, 0.1).high == 0.0
    found = corner_renyi(0.5, 3.0, 4, 0.2)
    assert found.low <= symmetric_renyi(float(binary_log_odds(0.5, 3.0)), 3.0, 4, 0.2) * (1 + 1e-6)


def test_many_draws_keep_all():
    assert corner_renyi(0.5, 3.0, 200, 0.2).high == 0.5


def test_an_interrupted_search_returns_an_upper_bound(monkeypatch):
    whole = corner_renyi(0.5, 3.0, 1, 0.2)
    for name, few in (("_MOST", 0), ("_ROUNDS", 0)):
        with monkeypatch.context() as patched:
            patched.setattr(bernoulli_search, name, few)
            assert corner_renyi(0.5, 3.0, 1, 0.2).high > whole.high


def test_lemma_3_of_the_paper_fails_for_two_draws():
    """Two draws of probability 1/2 are no mixture of two draws of probability c and of 1 - c."""
    margin = 0.1
    mixed = (kernel(1, 2, margin)[0] + kernel(1, 2, margin)[1]) / 2  # the only mixture with the right mean
    assert mixed[0] == pytest.approx((0.01 + 0.81) / 2)
    assert mixed[0] != pytest.approx(0.25)


def test_a_pure_base_is_seen_exactly():
    """Randomized response onto the two farthest corners."""
    account = BernoulliAccountant(base=PureAccountant(stated_epsilon=1.3), margin=0.2, draws=2, dimension=2)
    rows = kernel(2, 2, 0.2)[[0, -1]]
    p = np.array([np.exp(1.3), 1.0]) / (1 + np.exp(1.3))
    one, other = p @ rows, p[::-1] @ rows
    for order in (1.2, 2.0, 9.0):
        assert account.rdp(order) == pytest.approx(renyi(one, other, order), rel=1e-9)
    assert account.pure_epsilon == pytest.approx(np.log(one / other).max(), rel=1e-9)
    after = [np.maximum(one - np.exp(e) * other, 0).sum() for e in (0.0, 0.5, 1.0)]
    assert (after <= account.delta([0.0, 0.5, 1.0]) * (1 + 1e-12)).all()


def test_a_figure_without_a_gap():
    epsilons = np.geomspace(1e-3, 60, 12)
    accounts = [
        BernoulliAccountant(base=ZCDPAccountant(rho=e / 50), margin=0.01, draws=4, dimension=15) for e in epsilons
    ]
    upper = np.array([account.rdp(50.0) for account in accounts])
    lower = np.array([account.rdp_lower_bound(50.0) for account in accounts])
    assert np.isfinite(lower).all()
    assert (lower <= upper * (1 + 1e-9)).all()
    assert (lower > 0.999 * upper).all()
    assert accounts[0].conjectured_rdp(50.0) == lower[0]


def test_a_margin_of_zero_gains_nothing_and_says_so():
    base = GaussianAccountant(sensitivity=1, noise_std=1)
    account = BernoulliAccountant(base=base, margin=0.0, draws=3, dimension=2)
    assert (account.rdp([1.5, 4.0]) == base.rdp([1.5, 4.0])).all()
    assert account.epsilon(1e-5) == base.epsilon(1e-5)
    assert account.pure_epsilon == np.inf
    assert account.zcdp == base.zcdp
    assert account.kind("rdp") == "exact"
    assert account.rdp_limit(2.0) == np.inf
    assert account.rdp_lower_bound(2.0) == pytest.approx(1.0)
    with pytest.raises(ValueError, match="0 does not clip them"):
        BernoulliAccountant(base=base, margin=0.6, draws=1, dimension=1)
    with pytest.raises(TypeError, match="base must be an account"):
        BernoulliAccountant(base=None, margin=0.1, draws=1, dimension=1)


def test_a_margin_heals_a_failure_and_an_infinite_order():
    base = ApproximateAccountant(stated_epsilon=0.5, stated_delta=1e-3)
    account = BernoulliAccountant(base=base, margin=0.2, draws=1, dimension=2)
    assert account.infinity_mass == 0.0
    assert account.pure_epsilon == pytest.approx(2 * np.log(4))
    rows, p = kernel(2, 1, 0.2)[[0, -1]], 1 / (1 + np.exp(-0.5))
    one = 1e-3 * rows[0] + 0.999 * (p * rows[0] + (1 - p) * rows[1])
    other = 1e-3 * rows[1] + 0.999 * ((1 - p) * rows[0] + p * rows[1])
    for order in (1.5, 3.0, 40.0):
        assert renyi(one, other, order) <= account.rdp(order) <= account.rdp_limit(order)
    assert account.rdp_lower_bound(3.0) == account.rdp_limit(3.0)
    assert account.zcdp == pytest.approx(account.pure_epsilon * np.tanh(account.pure_epsilon / 2), rel=1e-14)
    bare = BernoulliAccountant(base=base, margin=0.0, draws=1, dimension=1)
    assert (bare.infinity_mass, bare.zcdp) == (1e-3, np.inf)


def test_coins_lessen_every_view_and_draws_raise_it():
    base = LaplaceAccountant(sensitivity=1, scale=1)
    few, many = (BernoulliAccountant(base=base, margin=0.2, draws=k, dimension=1) for k in (1, 5))
    for order in (1.3, 7.0):
        assert few.rdp(order) < many.rdp(order) < base.rdp(order)
    least, more = few.explain(1e-3)[0].epsilon, many.epsilon(1e-3)  # each is a search over orders, of searches
    assert least < more < base.epsilon(1e-3)
    assert (few.delta([-1.0, 0.0, 0.3]) <= base.delta([-1.0, 0.0, 0.3])).all()
    assert few.group(2).rdp(2.0) > few.rdp(2.0)
    assert few.to(ReplaceOne(n=5)).relation == ReplaceOne(n=5)
    with pytest.raises(RelationMismatch):
        few + few.to(ReplaceOne(n=5))
    assert (2 * few).rdp(2.0) == pytest.approx(2 * few.rdp(2.0))
    assert more < (2 * many).epsilon(1e-3) < 2 * many.pure_epsilon
    assert (
        BernoulliAccountant(base=PureAccountant(stated_epsilon=0.0), margin=0.2, draws=1, dimension=1).rdp(2.0) == 0.0
    )
    assert "notes/bernoulli.md" in few.source


def test_the_contracted_curve_of_a_normal_base():
    """P and Q on two corners whose curve is the base's own: two tests of a normal shift."""
    base = GaussianAccountant(sensitivity=1, noise_std=1)
    account = BernoulliAccountant(base=base, margin=0.15, draws=1, dimension=1)
    rows = kernel(1, 1, 0.15)
    for cut in np.linspace(-2, 3, 11):
        p, q = (np.array([stats.norm.cdf(cut - mu), stats.norm.sf(cut - mu)]) for mu in (1.0, 0.0))
        for epsilon in (0.0, 0.3, 1.0):
            assert np.maximum(p @ rows - np.exp(epsilon) * (q @ rows), 0).sum() <= account.delta(epsilon) * (1 + 1e-9)
        assert renyi(p @ rows, q @ rows, 5.0) <= account.rdp(5.0)


@pytest.mark.parametrize(("dimension", "draws"), [(1, 1), (2, 2)])
def test_the_requirements_of_accounts(dimension, draws):
    """Properties of every account: see tests/accounting/test_requirements.py."""
    base = GaussianAccountant(sensitivity=1, noise_std=1)
    account = BernoulliAccountant(base=base, margin=0.2, draws=draws, dimension=dimension)
    orders = np.array([1 + 1e-5, 1.1, 2.0, 2.5, 40.0, 1e6])
    values = account.rdp(orders)
    assert values.shape == orders.shape
    assert ((values >= 0) & (values <= account.pure_epsilon)).all()
    assert (values <= account.zcdp * orders * (1 + 1e-9)).all()
    curve = account.delta(np.array([-3.0, 0.0, 0.2, 0.5, 1.0, 20.0]))
    assert (np.diff(curve) <= 0).all()
    assert account.delta(account.epsilon(1e-3)) <= 1e-3 * (1 + 1e-9)
    assert Accountant.from_dict(json.loads(json.dumps(account.to_dict()))) == account
    moved = BernoulliAccountant(
        base=GaussianAccountant(sensitivity=1, noise_std=1), margin=0.2, draws=draws, dimension=dimension
    )
    assert moved == account
    assert hash(moved) == hash(account)


def test_constants_at_the_ends():
    assert le_cam_contraction(5, 0.0) == total_variation_contraction(5, 0.0) == 1.0
    assert np.isneginf(log_hockey_stick(np.array([1e9]), 3, 0.2)).all()


@pytest.mark.parametrize("margin", [0.5 - 2.0**-50, 0.49999749197722004, 0.49, 0.3, 0.25, 1e-9, 1e-300])
def test_the_pure_guarantee_of_any_margin_at_50_digits(margin):
    """Close to 1/2 the logarithms of both chances cancel: their difference was too small by 8e-12 of it."""
    account = BernoulliAccountant(
        base=GaussianAccountant(sensitivity=1, noise_std=1), margin=margin, draws=3, dimension=2
    )
    with mp.workdps(50):
        loss = 6 * mp.log((1 - mp.mpf(margin)) / mp.mpf(margin))
        assert loss <= mp.mpf(account.pure_epsilon) <= loss * (1 + mp.mpf("1e-11"))


@pytest.mark.parametrize("margin", [0.49999999844868376, 0.4999999, 0.5 - 1e-12])
@pytest.mark.parametrize("pure", [True, False])
def test_one_coin_whose_chances_are_all_but_equal_at_50_digits(margin, pure):
    """The searched bound takes differences of logarithms, which are next to nothing there."""
    base, order = PureAccountant(stated_epsilon=0.05), 300.0
    stated = base if pure else ZCDPAccountant(rho=base.rdp(order) / order)  # then the search decides alone
    found = BernoulliAccountant(base=stated, margin=margin, draws=1, dimension=1).rdp(order)
    truth = exact(0.05, order, 1, margin)
    assert truth <= found <= truth * 1.1


def coarse_place(epsilon, order, margin):
    """Two log odds of q, close to each other, between which the most is kept: by a grid."""
    v = np.linspace(-epsilon - 4, epsilon + 4, 40_001)

    def cost(t, v):
        log_p, log_q = (np.stack([-np.logaddexp(0, -x), -np.logaddexp(0, x)]) for x in (t, v))
        return np.logaddexp(*(order * log_p + (1 - order) * log_q)) / (order - 1)

    low, high = v, epsilon + order / (order - 1) * np.logaddexp(0, v) + 1
    for _ in range(60):
        middle = (low + high) / 2
        inside = np.maximum(cost(middle, v), cost(v, middle)) <= epsilon
        low, high = np.where(inside, middle, low), np.where(inside, high, middle)
    p, q = (margin + (1 - 2 * margin) / (1 + np.exp(-x)) for x in (low, v))
    best = int(np.argmax(np.log(p**order * q ** (1 - order) + (1 - p) ** order * (1 - q) ** (1 - order))))
    return v[best - 2], v[best + 2]


def largest_kept(epsilon, order, margin):
    """Algorithm 2 at fifty digits, for distributions on two chances: p by bisection for each q, the best q by golden
    section.
    """
    with mp.workdps(50):
        a, c, most = mp.mpf(order), mp.mpf(margin), mp.mpf(epsilon)

        def cost(p, q):
            return mp.log(p**a * q ** (1 - a) + (1 - p) ** a * (1 - q) ** (1 - a)) / (a - 1)

        def share(v):
            return 1 / (1 + mp.exp(-v))

        def kept(v, steps):
            q, low, high = share(v), mp.mpf(v), most + a / (a - 1) * mp.log1p(mp.exp(v)) + 1
            for _ in range(steps):
                middle = (low + high) / 2
                p = share(middle)
                low, high = (middle, high) if max(cost(p, q), cost(q, p)) <= most else (low, middle)
            p = share(low)
            return cost(c + (1 - 2 * c) * p, c + (1 - 2 * c) * q)

        left, right = (mp.mpf(v) for v in coarse_place(epsilon, order, margin))
        golden = (mp.sqrt(5) - 1) / 2
        inner = [right - golden * (right - left), left + golden * (right - left)]
        found = [kept(v, 70) for v in inner]
        for _ in range(58):  # the two costs meet at a kink: its place to 1e-12 gives its value to as much
            if found[0] < found[1]:
                left, inner[0], found[0] = inner[0], inner[1], found[1]
                inner[1] = left + golden * (right - left)
                found[1] = kept(inner[1], 70)
            else:
                right, inner[1], found[1] = inner[1], inner[0], found[0]
                inner[0] = right - golden * (right - left)
                found[0] = kept(inner[0], 70)
        return max(found)


# What largest_kept(rho * order, order, margin) returns, for the order, rho and margin of each line.
KEPT = {
    (5.0, 0.2, 0.1): "0.738921750575784799604168218121",
    (1.01, 0.001, 1e-06): "0.00100999595933525414248802675399",
    (1.01, 10.0, 0.49): "0.000807972889275227570301568645623",
    (1.5, 0.3, 0.3): "0.0730260118636634365708966987427",
    (2.0, 0.01, 0.45): "0.000200988192665205016254697373842",
    (3.0, 1.0, 0.0001): "2.99790239847173523036092583361",
    (10.0, 0.05, 0.2): "0.264896243034648900324622810352",
    (40.0, 0.001, 0.01): "0.0388767362170661974634192989322",
    (200.0, 0.001, 0.49): "0.00148515032348405539859382220761",
    (200.0, 0.02, 0.05): "2.64646194929189544512637615181",
}
SEARCHED = list(KEPT)


@pytest.mark.long
@pytest.mark.parametrize("case", SEARCHED)
def test_the_values_at_fifty_digits_are_those_of_algorithm_2(case):
    order, rho, margin = case
    with mp.workdps(50):
        assert abs(largest_kept(rho * order, order, margin) / mp.mpf(KEPT[case]) - 1) < mp.mpf(10) ** -14


def kept(order, rho, margin):
    """The value of the table."""
    with mp.workdps(50):
        return mp.mpf(KEPT[order, rho, margin])


@pytest.mark.parametrize(("order", "rho", "margin"), SEARCHED)
def test_the_search_is_within_1e_8_above_fifty_digits(order, rho, margin):
    found, truth = corner_renyi(rho * order, order, 1, margin), kept(order, rho, margin)
    assert found.low * (1 - mp.mpf(10) ** -11) <= truth <= found.high <= truth * (1 + mp.mpf(10) ** -8)


def test_a_search_that_trusts_its_nodes_is_caught(monkeypatch):
    monkeypatch.setattr(bernoulli_search._Search, "bounds", lambda self, v, t, left, right: np.zeros(left.shape))
    wrong = [corner_renyi(rho * a, a, 1, margin).high < kept(a, rho, margin) for a, rho, margin in SEARCHED]
    assert sum(wrong) >= 3


def test_a_search_that_stops_early_is_caught(monkeypatch):
    monkeypatch.setattr(bernoulli_search, "_SLACK", 1e-6)
    assert corner_renyi(1.0, 5.0, 1, 0.1).high > kept(5.0, 0.2, 0.1) * (1 + mp.mpf(10) ** -8)


@pytest.mark.parametrize(
    "order", [1.01, 2.0, 200.0, *(pytest.param(a, marks=pytest.mark.long) for a in (1.3, 5.0, 20.0))]
)
@pytest.mark.parametrize("rho", [0.001, 0.2, 10.0, *(pytest.param(rho, marks=pytest.mark.long) for rho in (0.03, 1.0))])
def test_the_account_of_one_draw_is_within_1e_8_above_the_symmetric_distributions(order, rho):
    """These distributions cost as much as the base, so that less than what they keep would be
    wrong: at fifty digits.
    """
    for margin in (1e-6, 0.1, 0.49) if order in (1.01, 2.0, 20.0) else (1e-3, 0.4):
        account = BernoulliAccountant(base=ZCDPAccountant(rho=rho), margin=margin, draws=1, dimension=1)
        if rho * order > 300.0:  # beyond, only the largest divergence of the draws counts
            continue
        log_odds = float(binary_log_odds(rho * order, order))
        symmetric = exact(log_odds, order, 1, margin)
        assert symmetric * (1 - 1e-10) <= account.rdp(order) <= symmetric * (1 + 1e-8)

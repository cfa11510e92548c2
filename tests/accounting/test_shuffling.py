"""Shuffled local responses: exact for few persons, never below enumeration, and equal to 50-digit sums."""

import itertools
import math
from math import comb

import mpmath
import numpy as np
import pytest

import privsample as ps
from privsample.accounting.shuffling.blanket import BlanketPair, blanket_pair
from privsample.accounting.shuffling.lattice import Jumps, log_mean_positive_part
from privsample.accounting.shuffling.two_outcomes import TwoOutcomePair
from privsample.errors import NotCertified, RelationMismatch

EPSILONS = np.array([-0.7, -0.1, 0.0, 0.05, 0.2, 0.5, 0.9, 1.4, 2.5])
ORDERS = np.array([1.2, 2.0, 16.0])
ONE = ps.ReplaceOne(n=1)


def answers(log_odds, categories):
    return ps.RandomizedResponseAccountant(log_odds=log_odds, categories=categories, relation=ONE)


def skewed(log_odds=1.5):
    matrix = [[0.7, 0.2, 0.1], [0.1, 0.3, 0.6], [0.25, 0.5, 0.25]]
    return ps.KernelAccountant(base=answers(log_odds, 3), matrix=matrix)


def histogram(rows):
    """The distribution of the numbers of responses, by adding one response at a time."""
    found = {(0,) * len(rows[0]): 1.0}
    for row in rows:
        grown = {}
        for counts, p in found.items():
            for outcome, q in enumerate(row):
                key = (*counts[:outcome], counts[outcome] + 1, *counts[outcome + 1 :])
                grown[key] = grown.get(key, 0.0) + p * q
        found = grown
    return found


def all_neighbours(rows, n):
    """The two distributions of the histogram for all pairs of neighbouring datasets, each of shape (histograms,)."""
    for others in itertools.combinations_with_replacement(range(len(rows)), n - 1):
        shared = [rows[record] for record in others]
        made = [histogram([*shared, row]) for row in rows]
        for a, b in itertools.permutations(range(len(rows)), 2):
            yield others, np.array(list(made[a].values())), np.array([made[b][key] for key in made[a]])


def hockey(p, q, epsilons):
    return np.maximum(p - np.exp(epsilons)[:, None] * q, 0.0).sum(axis=1)


def renyi(p, q):
    return np.log((p ** ORDERS[:, None] * q ** (1 - ORDERS[:, None])).sum(axis=1)) / (ORDERS - 1)


@pytest.mark.parametrize(
    ("base", "n"),
    [(answers(1.0, 2), 1), (answers(1.0, 2), 6), (answers(3.0, 2), 5), (answers(1.5, 3), 6), (skewed(), 4)],
)
def test_all_datasets_of_few_persons(base, n):
    """The account is the worst of all datasets, and its decomposition is never below them."""
    account = ps.ShuffledAccountant(base=base, n=n)
    rows = base.code_distributions().distributions
    found = [(hockey(p, q, EPSILONS), renyi(p, q)) for _, p, q in all_neighbours(rows, n)]
    delta, divergence = (np.max([one[at] for one in found], axis=0) for at in (0, 1))
    assert account.kind("delta") == account.kind("rdp") == "exact"
    assert account.delta(EPSILONS) == pytest.approx(delta, rel=1e-9, abs=1e-14)
    assert account.rdp(ORDERS) == pytest.approx(divergence, rel=1e-9)
    for pair in account._decomposed:
        a_b = np.exp(pair.log_delta(EPSILONS))
        assert (a_b <= 1.0).all()
    worst = np.max(
        [np.exp(each.log_delta(EPSILONS)) for pair in account._decomposed for each in (pair, pair.reverse())], axis=0
    )
    assert (worst >= delta * (1 - 1e-12)).all()
    if n == 1:
        assert worst == pytest.approx(delta, rel=1e-9, abs=1e-12)
    stated = ps.PureAccountant(stated_epsilon=base.pure_epsilon, relation=ONE)
    claimed = ps.ShuffledAccountant(base=stated, n=n)
    assert (claimed.delta(EPSILONS) >= worst * (1 - 1e-9)).all()
    assert (claimed.rdp(ORDERS) >= divergence * (1 - 1e-9)).all()


def test_a_third_record_is_not_always_the_worst_for_the_others():
    """Next to the largest epsilon, others with one of the two exchanged records are worse by a factor e^3 (n = 4)."""
    rows = answers(1.0, 3).code_distributions().distributions

    def worst(record, epsilon):
        p, q = (histogram([rows[record]] * 3 + [rows[own]]) for own in (0, 1))
        p, q = np.array(list(p.values())), np.array([q[key] for key in p])
        return max(hockey(p, q, np.array([epsilon]))[0], hockey(q, p, np.array([epsilon]))[0])

    assert worst(0, 0.94) / worst(2, 0.94) == pytest.approx(np.exp(3), rel=1e-6)
    assert worst(0, 0.1) < worst(2, 0.1)


def revealed(log_odds, categories, n, epsilon):
    """delta of the decomposition in 50 digits, as a mean over the number of the others' blanket answers."""
    mpmath.mp.dps = 50
    odds, grown = mpmath.exp(log_odds), mpmath.exp(mpmath.mpf(epsilon))
    false = 1 / (odds + categories - 1)
    true, uniform = odds * false, mpmath.mpf(1) / categories
    rate, total = categories * false, mpmath.mpf(0)
    for m in range(n):
        weight = comb(n - 1, m) * rate**m * (1 - rate) ** (n - 1 - m)
        inner = mpmath.mpf(0)
        for a in range(m + 2):
            for b in range(m + 2 - a):
                rest = m + 1 - a - b
                if rest and categories == 2:
                    continue
                chance = comb(m + 1, a) * comb(m + 1 - a, b) * uniform ** (a + b) * (1 - 2 * uniform) ** rest
                p = (a * true + b * false + rest * false) / uniform
                q = (a * false + b * true + rest * false) / uniform
                inner += chance * max(p - grown * q, 0) / (m + 1)
        total += weight * inner
    return float(mpmath.log(total))


REVEALED = {  # what revealed(...) returns
    (1.0, 2, 90, 0.0): -2.9387679964027464,
    (1.0, 2, 120, 0.5): -15.06863428937706,
    (2.0, 2, 60, 1.9): -9.96784912362244,
    (6.0, 2, 90, 2.0): -0.24129710917966402,
    (1.5, 4, 24, 0.7): -5.129761919717575,
    (0.01, 3, 20, 0.002): -8.984356493267969,
}


@pytest.mark.long
@pytest.mark.parametrize("case", REVEALED)
def test_the_frozen_values_are_the_sums(case):
    assert revealed(*case) == pytest.approx(REVEALED[case], rel=1e-15)


@pytest.mark.parametrize(("log_odds", "categories", "n", "epsilon"), REVEALED)
def test_values_in_fifty_digits(log_odds, categories, n, epsilon):
    """The table and the lattice are at most slightly above the exact value, and never below it."""
    (table,) = ps.ShuffledAccountant(base=answers(log_odds, categories), n=n)._decomposed
    first = np.exp(np.array([-np.logaddexp(0.0, np.log(categories - 1.0) - log_odds)]))[0]
    second = first * np.exp(-log_odds)
    rest = [second * (categories - 2)] * (categories > 2)
    columns = [np.array([*one, *rest]) for one in ((first, second), (second, first), (second, second))]
    order = np.lexsort(columns)
    first, second, blanket = (column[order] for column in columns)
    lattice = BlanketPair(first=first, second=second, blanket=blanket, n=n, slack=2e-15)
    exact = REVEALED[log_odds, categories, n, epsilon]
    at = np.array([epsilon])
    assert exact <= table.log_delta(at)[0] <= exact + 1e-9
    assert exact <= lattice.log_delta(at)[0] <= exact + 2e-6 * (1 - exact)
    assert exact <= lattice.approx_log_delta(at)[0] <= exact + 2e-2 * (1 - exact)
    assert lattice.reverse() is lattice
    goal = float(table.log_delta(at)[0])
    if epsilon > 0:
        assert lattice.least_epsilon(goal) == pytest.approx(epsilon, rel=1e-5)
        assert lattice.least_epsilon(goal) >= epsilon * (1 - 1e-9)
    if log_odds == 2.0:
        assert (lattice.renyi(ORDERS) >= table.renyi(ORDERS) * (1 - 1e-12)).all()
        assert lattice.renyi(ORDERS) == pytest.approx(table.renyi(ORDERS), rel=1e-2)


def test_known_values_and_laws():
    account = ps.ShuffledAccountant(base=answers(2.0, 4), n=1000)
    claimed = ps.ShuffledAccountant(base=ps.PureAccountant(stated_epsilon=2.0, relation=ONE), n=1000)
    assert account.epsilon(1e-6) == pytest.approx(0.351502, abs=2e-6)
    assert claimed.epsilon(1e-6) == pytest.approx(0.397087, abs=2e-6)
    assert account.kind("delta") == "upper bound"
    assert account.pure_epsilon == account.epsilon(0.0) == 2.0
    assert "at most 7.39 (epsilon = 2)." in ps.privacy_statement(account, delta=1e-6)
    assert account.relation == ps.ReplaceOne(n=1000)
    assert "Lemma 5.3" in account.source
    assert account.epsilon(0.5) == 0.0
    at = np.array([0.1, 0.2])
    assert account.bounds.pairs[0].approx_log_delta(-at) == pytest.approx(account.log_delta(-at), rel=0.1)
    assert (account.delta(-at) <= 1 - np.exp(-at) + np.exp(-at) * account.delta(at) + 1e-12).all()
    more = ps.ShuffledAccountant(base=answers(2.0, 4), n=2000)
    assert more.epsilon(1e-6) < account.epsilon(1e-6) / 1.3
    assert account.for_sizes(2000, 3000).epsilon(1e-6) == more.epsilon(1e-6)
    assert account.with_relation(ps.AddRemove()).epsilon(1e-6) == pytest.approx(account.epsilon(1e-6), rel=1e-9)
    assert ps.Accountant.from_dict(account.to_dict()) == account
    twice = (2 * account).epsilon(1e-6)
    assert account.epsilon(1e-6) < twice < 2 * account.epsilon(1e-6)
    assert account.group(2).epsilon(1e-4) > account.epsilon(1e-4)
    assert account.rdp(2.0) <= account.zcdp * 2.0


@pytest.mark.parametrize(("high", "low"), [(0.7, 0.3), (0.9, 0.2), (0.3, 0.01), (0.999, 0.001)])
def test_two_outcomes_are_enumerated(high, low):
    """All datasets of a few persons, and three datasets of 120 in 50 digits, each in both orders."""
    for n in (1, 2, 5):
        rows = [[1 - high, high], [1 - low, low], [1 - (high + low) / 2, (high + low) / 2]]
        delta = np.max([hockey(p, q, EPSILONS) for _, p, q in all_neighbours(rows, n)], axis=0)
        found = TwoOutcomePair(high=high, low=low, n=n)
        assert np.exp(found.log_delta(EPSILONS)) == pytest.approx(delta, rel=1e-9, abs=1e-13)
    mpmath.mp.dps = 50
    pair, grown = TwoOutcomePair(high=high, low=low, n=120), mpmath.exp(mpmath.mpf("0.4"))
    for k in (0, 40, 119):
        others = [mpmath.mpf(1)]
        for own in [mpmath.mpf(high)] * k + [mpmath.mpf(low)] * (119 - k):
            others = [own * a + (1 - own) * b for a, b in zip([0, *others], [*others, 0], strict=True)]
        p, q = (
            [own * a + (1 - own) * b for a, b in zip([0, *others], [*others, 0], strict=True)]
            for own in (mpmath.mpf(high), mpmath.mpf(low))
        )
        for one, other in ((p, q), (q, p)):
            truth = mpmath.log(sum(max(a - grown * b, 0) for a, b in zip(one, other, strict=True)))
            assert truth <= pair.log_delta(np.array([0.4]))[0]
    assert (pair.renyi(ORDERS) <= pair.ceiling(ORDERS)).all()
    assert pair.reverse() is pair
    assert np.isposinf(pair.order_limit)
    assert pair.is_envelope


def test_the_cost_of_binary_answers_decreases_with_the_number_of_persons():
    numbers = [90, 91, 1000, 1200, 1700]
    accounts = [ps.ShuffledAccountant(base=answers(1.0, 2), n=n) for n in numbers]
    epsilons = [account.epsilon(1e-6) for account in accounts]
    assert (np.diff(epsilons) <= 0).all()
    assert [account.kind("delta") for account in accounts] == ["exact"] * 3 + ["upper bound"] * 2
    assert [account.kind("rdp") for account in accounts[:2]] == ["exact", "upper bound"]
    assert epsilons[2] == pytest.approx(0.126614, abs=2e-6)
    (revealing,) = accounts[1]._decomposed
    assert epsilons[1] < revealing.least_epsilon(np.log(1e-6)) / 1.05
    assert epsilons[1] < (2 * accounts[1]).epsilon(1e-6) < 2 * epsilons[1]
    merging = ps.KernelAccountant(base=answers(1.5, 3), matrix=[[0.9, 0.1], [0.5, 0.5], [0.2, 0.8]])
    assert ps.ShuffledAccountant(base=merging, n=150).kind("epsilon") != "unknown"
    equal = ps.KernelAccountant(base=answers(1.0, 2), matrix=[[0.5, 0.5], [0.5, 0.5]])
    assert ps.ShuffledAccountant(base=equal, n=150).epsilon(1e-6) == pytest.approx(0.0, abs=1e-9)
    with pytest.raises(NotCertified, match="TwoOutcomePair has no notation in certificates"):
        accounts[1].certificate(epsilon=1.0, delta=1e-6)


@pytest.mark.long  # grids of seconds
def test_ten_shuffled_answers_of_more_persons_cost_less():
    few, more = ((10 * ps.ShuffledAccountant(base=answers(1.0, 2), n=n)).epsilon(1e-3) for n in (90, 91))
    assert few * 0.95 < more <= few * 1.001


def test_very_many_persons():
    pairs = [blanket_pair(*_binary(1.0), n, 2e-15) for n in (10**6, 10**9, 10**12)]
    at = np.array([0.007231])
    assert pairs[0].approx_log_delta(at)[0] == pytest.approx(np.log(1e-12), rel=0.02)
    found = [pair.log_delta(0.033 * at)[0] for pair in pairs[1:]]
    assert found[1] == found[0] < np.log(1e-12)
    deep = pairs[0].log_delta(np.array([0.9, 0.999999]))
    assert (deep < -1e4).all()
    assert np.isneginf(pairs[0].log_delta(np.array([1.1]))).all()


def _binary(log_odds):
    true = 1 / (1 + np.exp(-log_odds))
    return np.array([true, 1 - true]), np.array([1 - true, true]), np.array([1 - true] * 2)


def test_a_kernel_for_many_persons_has_a_pair_for_each_two_records():
    account = ps.ShuffledAccountant(base=skewed(), n=100)
    pairs = account._decomposed
    assert len(pairs) == 6
    assert all(pair.reverse() != pair for pair in pairs)
    epsilon = account.epsilon(1e-6)
    both = [each.least_epsilon(np.log(1e-6)) for pair in pairs for each in (pair, pair.reverse())]
    assert epsilon >= max(both) * (1 - 1e-9)
    assert epsilon < skewed().pure_epsilon
    assert (account.delta([-0.2, 0.2]) > 0).all()
    many = ps.KernelAccountant(
        base=answers(1.0, 7), matrix=np.full((7, 2), 0.5) + np.outer(np.arange(7), [0.05, -0.05])
    )
    (pair,) = ps.ShuffledAccountant(base=many, n=100)._decomposed
    assert pair.max_divergence == pytest.approx(many.pure_epsilon)
    hidden = ps.KernelAccountant(base=answers(1.0, 2), matrix=[[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]])
    for n in (5, 2000):
        plain = ps.ShuffledAccountant(base=answers(1.0, 2), n=n).delta(0.02)
        assert ps.ShuffledAccountant(base=hidden, n=n).delta(0.02) == pytest.approx(plain, rel=1e-5)


@pytest.mark.parametrize("n", [3, 400])
def test_outcomes_without_a_blanket_are_revealed(n):
    """Two outcomes that another person never gives, of which one has infinite loss."""
    first, second = np.array([0.5, 0.2, 0.3, 0.0]), np.array([0.2, 0.5, 0.2, 0.1])
    pair = blanket_pair(first, second, np.array([0.2, 0.2, 0.0, 0.0]), n, 1e-15)
    inner = blanket_pair(first[:2] / 0.7, second[:2] / 0.7, np.array([0.2, 0.2]), n, 1e-15)
    e = np.array([0.1, 0.3])
    expected = 0.7 * np.exp(inner.log_delta(e)) + np.maximum(0.3 - np.exp(e) * 0.2, 0.0)
    if n == 400:
        assert np.exp(pair.log_delta(e)) == pytest.approx(expected, rel=1e-6)
    assert np.exp(pair.log_delta(np.array([3.0]))) == pytest.approx(0.0, abs=1e-12)
    back = pair.reverse()
    assert np.isposinf(back.max_divergence)
    assert np.exp(back.log_delta(np.array([3.0]))) == pytest.approx(0.1, rel=1e-6)
    assert np.isposinf(back.renyi(np.array([2.0]))).all()
    assert np.isposinf(back.least_epsilon(np.log(0.05)))
    bare = blanket_pair(first, second, np.zeros(4), n, 1e-15)
    assert np.exp(bare.log_delta(np.array([0.1]))) == pytest.approx(hockey(first, second, np.array([0.1])), rel=1e-9)


def test_the_lattice_bounds_the_mean_of_the_positive_part():
    """Against all sums of a few copies, for values that no lattice holds; -inf if no value is positive."""
    rng = np.random.default_rng(0)
    for n in (1, 3, 6):
        values, masses = rng.normal(size=3) * 10.0 ** rng.integers(-3, 3), rng.dirichlet(np.ones(4))[:3]
        values[0] = abs(values[0])
        all_values, all_masses = np.append(values, 0.0), np.append(masses, 1 - masses.sum())
        sums = sum(np.meshgrid(*[all_values] * n, indexing="ij"))
        weights = np.prod(np.meshgrid(*[all_masses] * n, indexing="ij"), axis=0)
        truth = np.log((weights * np.maximum(sums, 0.0)).sum())
        assert truth <= log_mean_positive_part(Jumps(values, masses), n, 1e-6, 1 << 16) <= truth + 1e-3
    assert np.isneginf(log_mean_positive_part(Jumps(-np.ones(1), np.ones(1) / 2), 3, 1e-6, 1 << 11))


@pytest.mark.parametrize("masses", [(0.3, 0.45), (0.01, 0.9)])
def test_values_that_a_lattice_holds_are_not_split(masses):
    """Against all counts of six copies of 1 and -1/2: nothing but rounding is added, whatever error is allowed."""
    jumps = Jumps(np.array([1.0, -0.5]), np.array(masses))
    chances = (*masses, 1.0 - sum(masses))
    truth = math.log(
        math.fsum(
            math.factorial(6)
            * math.prod(chance**count / math.factorial(count) for chance, count in zip(chances, counts, strict=True))
            * max(counts[0] - counts[1] / 2, 0.0)
            for counts in itertools.product(range(7), repeat=3)
            if sum(counts) == 6
        )
    )
    assert truth <= log_mean_positive_part(jumps, 6, 1e-2, 1 << 11) <= truth + 1e-9


@pytest.mark.parametrize(
    ("fields", "error", "message"),
    [
        ({"base": 1.0}, TypeError, "base must be an account, got float"),
        ({"base": ps.PureAccountant(stated_epsilon=1.0)}, RelationMismatch, "under ReplaceOne, got a base under"),
        ({"base": answers(1, 2).with_relation(ps.ReplaceOne(n=3).group(2))}, RelationMismatch, "one person's response"),
        ({"n": 0}, ValueError, "n must be"),
        ({"n": 2.5}, (TypeError, ValueError), "n must be"),
        ({"base": answers(1, 2).with_relation(ps.ReplaceOne(n=7)), "n": 5}, RelationMismatch, "ReplaceOne\\(5\\)"),
        (
            {"base": ps.GaussianAccountant(sensitivity=1, noise_std=1, relation=ONE)},
            ValueError,
            "base must have a pure guarantee",
        ),
    ],
)
def test_wrong_fields(fields, error, message):
    with pytest.raises(error, match=message):
        ps.ShuffledAccountant(**({"base": answers(1, 2), "n": 5} | fields))

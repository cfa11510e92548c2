"""Groups: every route is valid and the smallest is reported; a mechanism's own bound is at most the general one."""

import itertools

import numpy as np
import pytest
from scipy import special

from privsample import (
    AddRemove,
    ApproximateAccountant,
    BetaBernoulli,
    Composed,
    DirichletCategorical,
    GammaExponential,
    GammaPoisson,
    GaussianAccountant,
    Group,
    KernelAccountant,
    LaplaceAccountant,
    NormalKnownVariance,
    Parallel,
    PosteriorAccountant,
    PureAccountant,
    RandomizedResponseAccountant,
    ReplaceOne,
    ZCDPAccountant,
)
from privsample.accounting.engine.routes import affordable
from tests.accounting.test_brute_force import ORDERS, account, check, distribution, hockey_stick, joint, renyi

EPSILONS = np.array([-2.0, -0.3, 0.0, 0.2, 1.0, 3.0])


@pytest.mark.parametrize("size", [2, 5])
def test_a_chain_of_distributions_costs_at_most_its_group(size, rng):
    """Random chains P_0, ..., P_size: the account uses neighbours; the exact value is that of the two ends."""
    for spread in (0.05, 1.0):
        tilts = np.cumsum(spread * rng.standard_normal((size + 1, 4)), axis=0)
        chain = [np.exp(row - np.logaddexp.reduce(row)) for row in tilts]
        claim = account(list(itertools.pairwise(chain)), AddRemove())
        check(Group(base=claim, size=size), [(chain[0], chain[-1])])
        check(PureAccountant(stated_epsilon=claim.pure_epsilon).group(size), [(chain[0], chain[-1])])


@pytest.mark.parametrize("size", [2, 3])
def test_groups_in_sums_and_of_sums(size, rng):
    """Two releases, each from a chain of its own: both ends of both."""
    chains = [[distribution(rng) for _ in range(size + 1)] for _ in range(2)]
    one, other = (account(list(itertools.pairwise(chain)), AddRemove()) for chain in chains)
    p, q = (joint(chains[0][end], chains[1][end]) for end in (0, -1))
    delta = max(hockey_stick(p, q, 0.5), hockey_stick(q, p, 0.5))
    rdp = [max(renyi(p, q, order), renyi(q, p, order)) for order in ORDERS]
    for claim in (Group(base=one + other, size=size), Group(base=one, size=size) + other.group(size)):
        assert (claim.rdp(ORDERS) >= np.array(rdp) * (1 - 1e-12)).all()
    assert Group(base=one + other, size=size).delta(0.5) >= delta
    check((one | other).group(size), [(chain[0], chain[-1]) for chain in chains])


def test_the_smallest_route_is_reported():
    parts = ZCDPAccountant(rho=0.01) | ZCDPAccountant(rho=0.02)
    known = ZCDPAccountant(rho=0.02).group(10)
    group = parts.group(10)
    assert group.epsilon(1e-6) == pytest.approx(known.epsilon(1e-6), rel=1e-9)
    assert group.delta(5.0) == pytest.approx(known.delta(5.0), rel=1e-9)
    best, *others = group.explain(1e-6)
    assert best.name == "Rényi curve at its best order"
    assert {route.name: route.epsilon for route in others}["privacy curve"] == pytest.approx(13.3507, abs=1e-4)


def test_a_group_of_a_pure_mechanism_is_at_most_pure():
    base, stated = LaplaceAccountant(sensitivity=1, scale=4), PureAccountant(stated_epsilon=1.0)
    group = Group(base=base, size=4)
    assert (group.delta(EPSILONS) <= stated.delta(EPSILONS) * (1 + 1e-12)).all()
    assert (group.rdp(ORDERS) <= stated.rdp(ORDERS) * (1 + 1e-12)).all()
    assert group.epsilon(0.0) == group.pure_epsilon == 1.0
    assert Group(base=PureAccountant(stated_epsilon=0.0), size=3).epsilon([0.0, 1e-6]).tolist() == [0.0, 0.0]


@pytest.mark.parametrize(
    "base",
    [
        GaussianAccountant(sensitivity=1, noise_std=3),
        LaplaceAccountant(sensitivity=1, scale=4),
        ZCDPAccountant(rho=0.02),
        Composed(entries=((ZCDPAccountant(rho=0.02), 2), (LaplaceAccountant(sensitivity=1, scale=4), 1))),
        Parallel(parts=(ZCDPAccountant(rho=0.02), GaussianAccountant(sensitivity=1, noise_std=4))),
    ],
)
def test_groups_grow(base):
    """A larger group costs more by every view, and a group of one costs what the account does."""
    for made in (lambda size: Group(base=base, size=size), base.group):
        groups = [made(size) for size in (1, 2, 5)]
        assert groups[0].epsilon(1e-6) == pytest.approx(base.epsilon(1e-6), rel=1e-9)
        assert np.allclose(groups[0].rdp(ORDERS), base.rdp(ORDERS), rtol=1e-9)
        for small, large in itertools.pairwise(groups):
            assert (large.rdp(ORDERS) >= small.rdp(ORDERS)).all()
            assert (large.delta(EPSILONS) >= small.delta(EPSILONS) * (1 - 1e-9)).all()
            assert large.epsilon(1e-6) > small.epsilon(1e-6)


@pytest.mark.parametrize(
    ("wrong", "error"), [(0, ValueError), (-1, ValueError), (np.nan, ValueError), (True, TypeError)]
)
def test_wrong_sizes(wrong, error):
    base = ZCDPAccountant(rho=0.02)
    for made in (lambda: Group(base=base, size=wrong), lambda: base.group(wrong), lambda: (base + base).group(wrong)):
        with pytest.raises(error, match="size"):
            made()


def betas(model, data, r):
    """The posterior's parameters for the number of ones, or for the counts, of each dataset."""
    if isinstance(model, BetaBernoulli):
        return {s: np.array([model.alpha + r * s[0], model.beta + r * s[1]]) for s in data}
    return {s: np.array(model.alpha) + r * np.array(s) for s in data}


def log_normalizer(shapes):
    return special.gammaln(shapes).sum() - special.gammaln(shapes.sum())


def shapes_renyi(p, q, order):
    """Of two Dirichlet distributions, by their log normalizers."""
    blend = order * p + (1 - order) * q
    if (blend <= 0).any():
        return np.inf
    return (log_normalizer(blend) - order * log_normalizer(p)) / (order - 1) + log_normalizer(q)


def shapes_delta(p, q, epsilon):
    """Of two Dirichlet distributions with equal sums of shapes that differ in two coordinates, or in three of three."""
    moved = [i for i in np.argsort(q - p) if p[i] != q[i]]
    constant = log_normalizer(q) - log_normalizer(p)
    if len(moved) == 2:
        rises, falls = moved
        cut = special.expit((epsilon - constant) / (p - q)[rises])
        tails = [special.betaincc(distribution[rises], distribution[falls], cut) for distribution in (p, q)]
        return tails[0] - np.exp(epsilon) * tails[1]
    step = p - q
    alone = moved[0] if step[moved[1]] < 0 else moved[2]  # the one that moves against the other two
    i, j = (other for other in moved if other != alone)
    nodes, weights = np.polynomial.legendre.leggauss(200)
    z = 40.0 * nodes  # logit of the share of i in i and j; given it, the loss is monotone in the third share
    log_i, log_j = -np.log1p(np.exp(-z)), -np.log1p(np.exp(z))
    cut = special.expit((epsilon - constant - step[i] * log_i - step[j] * log_j) / step[alone])
    total = 0.0
    for sign, shapes in ((1.0, p), (-np.exp(epsilon), q)):
        tail = special.betaincc if step[alone] > 0 else special.betainc
        density = np.exp(shapes[i] * log_i + shapes[j] * log_j - special.betaln(shapes[i], shapes[j]))
        total += sign * 40.0 * (weights * density * tail(shapes[alone], shapes[i] + shapes[j], cut)).sum()
    return total


def worst_of(model, n, size, r):
    """The largest divergences over all datasets that differ in up to `size` of n records."""
    categories = 2 if isinstance(model, BetaBernoulli) else len(model.alpha)
    data = [c for c in itertools.product(range(n + 1), repeat=categories) if sum(c) == n]
    distributions = betas(model, data, r)
    near = [(c, d) for c, d in itertools.permutations(data, 2) if np.abs(np.subtract(c, d)).sum() <= 2 * size]
    delta = [max(shapes_delta(distributions[c], distributions[d], e) for c, d in near) for e in EPSILONS]
    rdp = [max(shapes_renyi(distributions[c], distributions[d], order) for c, d in near) for order in ORDERS]
    return np.array(delta), np.array(rdp)


@pytest.mark.parametrize(
    ("model", "n", "size", "r"),
    [
        (BetaBernoulli(alpha=0.7, beta=2.5), 6, 3, 1.0),
        (DirichletCategorical(alpha=(0.2, 0.4)), 5, 2, 0.1),
        (DirichletCategorical(alpha=(1.0, 1.0, 1.0)), 3, 2, 1.0),
        (DirichletCategorical(alpha=(4.0, 1.1, 2.0)), 2, 2, 0.4),
    ],
)
def test_groups_of_counts_against_every_data_set(model, n, size, r):
    """Exact for both views: neither below the worst datasets nor above them."""
    delta, rdp = worst_of(model, n, size, r)
    group = PosteriorAccountant(model=model, n=n, data_weight=r).group(size)
    assert isinstance(group, PosteriorAccountant)
    assert group.relation == ReplaceOne(n=n).group(size)
    assert np.allclose(group.delta(EPSILONS), delta, rtol=1e-8)
    assert np.allclose(group.rdp(ORDERS), rdp, rtol=1e-9)


def test_small_priors_of_three_categories_use_the_general_group_bound():
    """Two records that leave one category for two others cost more than two that go to one."""
    model = DirichletCategorical(alpha=(0.2, 0.2, 0.2))
    spread, together = (np.array(c) + 0.2 for c in ((1, 1, 0), (2, 0, 0)))
    other = np.array((0, 0, 2)) + 0.2
    assert shapes_delta(spread, other, 0.0) > shapes_delta(together, other, 0.0) * 1.002
    assert shapes_renyi(spread, other, 1.01) > shapes_renyi(together, other, 1.01) * 1.01
    account = PosteriorAccountant(model=model, n=2)
    group = account.group(2)
    assert group == Group(base=account, size=2)
    assert account.group(7).size == 2
    delta, rdp = worst_of(model, 2, 2, 1.0)
    assert (group.delta(EPSILONS) >= delta).all()
    assert (group.rdp(ORDERS) >= rdp).all()
    with pytest.raises(ValueError, match="group_size must be 1"):
        PosteriorAccountant(model=model, n=3, group_size=2)
    concentrated = PosteriorAccountant(model=model, n=3, prior_weight=5).group(2)
    assert isinstance(concentrated, PosteriorAccountant)


def worst_excess(tails, epsilon):
    """The largest of P - e^epsilon Q on the side of a cut where the loss is larger than epsilon."""
    return (tails[0] - np.exp(epsilon) * tails[1]).max()


@pytest.mark.parametrize(("n", "size"), [(1, 1), (3, 2), (4, 4)])
def test_groups_of_gammas_against_every_data_set(n, size):
    """Counts and waiting times in {0, 1, 2}: all sums that `size` records can move."""
    shape, rate, r, upper = 1.3, 0.8, 0.6, 2
    sums = range(upper * n + 1)
    near = [(s, t) for s, t in itertools.permutations(sums, 2) if abs(s - t) <= upper * size]
    poisson = PosteriorAccountant(model=GammaPoisson(shape=shape, rate=rate, upper=upper), n=n, data_weight=r)
    waiting = PosteriorAccountant(model=GammaExponential(shape=shape, rate=rate, upper=upper), n=n, data_weight=r)
    s, t = (np.array(side, dtype=float) for side in zip(*near, strict=True))
    k = shape + r * n
    shapes, rates = (shape + r * s, shape + r * t), (rate + r * s, rate + r * t)
    for epsilon in EPSILONS:
        a, b = shapes
        cut = np.exp((epsilon + special.gammaln(a) - special.gammaln(b)) / (a - b))
        tails = [np.where(a > b, special.gammaincc(x, cut), special.gammainc(x, cut)) for x in shapes]
        assert poisson.group(size).delta(epsilon) == pytest.approx(worst_excess(tails, epsilon), rel=1e-9)
        a, b = rates
        cut = np.maximum((k * np.log(a / b) - epsilon) / (a - b), 0.0)
        tails = [np.where(a < b, special.gammaincc(k, x * cut), special.gammainc(k, x * cut)) for x in rates]
        assert waiting.group(size).delta(epsilon) == pytest.approx(worst_excess(tails, epsilon), rel=1e-9)
    for order in ORDERS:
        (a, b), blend = shapes, order * shapes[0] + (1 - order) * shapes[1]
        known = (special.gammaln(np.abs(blend)) - order * special.gammaln(a)) / (order - 1) + special.gammaln(b)
        largest = np.where(blend > 0, known, np.inf).max()
        assert poisson.group(size).rdp(order) == pytest.approx(largest, rel=1e-9)
        (a, b), blend = rates, order * rates[0] + (1 - order) * rates[1]
        logs = order * np.log(a) + (1 - order) * np.log(b)
        largest = np.where(blend > 0, k * (logs - np.log(np.abs(blend))) / (order - 1), np.inf).max()
        assert waiting.group(size).rdp(order) == pytest.approx(largest, rel=1e-9)


POSTERIORS = [
    BetaBernoulli(alpha=8, beta=9),
    BetaBernoulli(alpha=8, beta=9, fractional=True),
    DirichletCategorical(alpha=(7.0, 8.0, 9.0)),
    GammaPoisson(shape=9, rate=2, upper=1),
    GammaExponential(shape=9, rate=9, upper=1),
    NormalKnownVariance(mean=0, variance=1, noise_variance=2, bounds=(0, 1)),
]


@pytest.mark.parametrize(("model", "draws"), [*((model, 1) for model in POSTERIORS), (POSTERIORS[2], 3)])
def test_groups_of_posteriors(model, draws):
    """One is the account, more cost more, more than n cost what n do; never above the account's curves alone."""
    account = PosteriorAccountant(model=model, n=4, data_weight=0.5, draws=draws)
    groups = [account.group(size) for size in (1, 2, 4, 9)]
    assert groups[0] == account
    for small, large in itertools.pairwise(groups[:3]):
        assert (large.rdp(ORDERS) >= small.rdp(ORDERS)).all()
        assert (large.delta(EPSILONS) >= small.delta(EPSILONS)).all()
    assert groups[3].group_size == 4
    assert groups[3].epsilon(1e-6) == groups[2].epsilon(1e-6)
    assert account.group(2).group(2).epsilon(1e-6) == groups[2].epsilon(1e-6)
    for size, known in ((2, groups[1]), (4, groups[2]))[: 2 if model is POSTERIORS[0] else 1]:
        general = Group(base=account, size=size)
        assert (known.rdp(ORDERS) <= general.rdp(ORDERS) * (1 + 1e-9)).all()
        assert (known.delta(EPSILONS[2::2]) <= general.delta(EPSILONS[2::2]) * (1 + 1e-8)).all()
        assert known.zcdp <= general.zcdp * (1 + 1e-12)
    assert Composed.from_dict((2 * groups[1]).to_dict()) == 2 * groups[1]


def test_documents_without_groups_still_load():
    account = PosteriorAccountant(model=POSTERIORS[0], n=4)
    document = account.to_dict()
    del document["group_size"]
    assert PosteriorAccountant.from_dict(document) == account


@pytest.mark.parametrize("categories", [2, 4])
def test_groups_of_randomized_responses_are_products(categories):
    """Three of four answers change: the product of three pairs, neither more nor less."""
    account = RandomizedResponseAccountant(log_odds=0.8, categories=categories, relation=ReplaceOne(n=4))
    true, other = np.exp(account.pairs[0].log_p[:2])
    answers = np.full((2, categories), other)
    answers[0, 0] = answers[1, 1] = true
    group = account.group(3)
    check(group, [(joint(*[answers[0]] * 3), joint(*[answers[1]] * 3))], tight=True)
    assert group.relation == account.relation.group(3)
    assert account.group(1) == account
    assert account.group(9).epsilon(1e-6) == account.group(4).epsilon(1e-6)
    assert group.epsilon(0.05) < Group(base=account, size=3).epsilon(0.05)


def test_groups_of_several_draws_keep_the_certified_search():
    account = PosteriorAccountant(model=POSTERIORS[0], n=4, data_weight=0.5, draws=2)
    one, two, four = (account.group(size).delta(1.0) for size in (1, 2, 4))
    assert one < two < four
    assert two <= Group(base=account, size=2).delta(1.0)


def test_the_group_curve_of_an_account_with_infinity_mass_is_non_increasing():
    group = Group(base=ApproximateAccountant(stated_epsilon=0.5, stated_delta=1e-9), size=3)
    values = group.log_delta([1.5, 2.0, 10.0, 1e3, 1e9])
    assert (np.diff(values) <= 0).all()
    assert np.exp(values[-1]) == pytest.approx(1e-9 * np.expm1(1.5) / np.expm1(0.5), rel=1e-9)


def test_the_rule_and_the_base_are_named():
    group = Group(base=ZCDPAccountant(rho=0.1), size=2)
    assert group.source.startswith("Mironov 2017, Proposition 11")
    assert group.source.endswith(group.base.source)


def test_the_worst_of_parallel_parts_limits_the_zcdp_rate():
    light, is_expensive = (GaussianAccountant(sensitivity=1, noise_std=noise) for noise in (4.0, 2.0))
    assert (light | is_expensive).zcdp == is_expensive.zcdp


def kernel(rows):
    return KernelAccountant(base=GaussianAccountant(sensitivity=4.7, noise_std=4.1), matrix=rows)


def test_a_group_of_one_reports_the_numbers_of_its_base():
    """Among them: an infinity mass that delta equals, a composition without pairs, and one whose curve is loose."""
    approximate = ApproximateAccountant(stated_epsilon=0.05, stated_delta=1e-9)
    composed = PureAccountant(stated_epsilon=3.9) + kernel([[0.9, 0.1], [0.2, 0.8]])
    parallel = approximate | GaussianAccountant(sensitivity=1.0, noise_std=2.0)
    for base in (approximate, composed, parallel):
        one = Group(base=base, size=1)
        assert one.delta(EPSILONS) == pytest.approx(base.delta(EPSILONS), rel=1e-12)
        assert one.epsilon([0.0, 1e-9, 0.1]) == pytest.approx(base.epsilon([0.0, 1e-9, 0.1]), rel=1e-12)
        assert (one.infinity_mass, one.pure_epsilon) == (base.infinity_mass, base.pure_epsilon)
    assert Group(base=approximate, size=1).epsilon(1e-9) == 0.05


def test_a_group_of_one_costs_no_less_where_its_curve_is_tabulated():
    posterior = PosteriorAccountant(
        model=BetaBernoulli(alpha=14.17, beta=0.125), n=5, data_weight=0.81, prior_weight=33
    )
    failing = ApproximateAccountant(stated_epsilon=3.65, stated_delta=0.06, relation=ReplaceOne(n=5))
    composed = Composed(entries=((failing, 2), (posterior, 2)))
    one = Group(base=composed, size=1)
    assert affordable(one.bounds).from_table
    assert (one.delta([0.0, 5.0]) >= composed.delta([0.0, 5.0])).all()


COMPOSED = (
    LaplaceAccountant(sensitivity=4.3, scale=2.2)
    + kernel([[0.7, 0.3], [0.05, 0.95], [0.2, 0.8]])
    + PureAccountant(stated_epsilon=2.6)
)


@pytest.mark.parametrize(
    "base",
    [
        COMPOSED,
        pytest.param(COMPOSED.group(2), marks=pytest.mark.long),  # several grids for each value
        GaussianAccountant(sensitivity=1.0, noise_std=2.0),
        LaplaceAccountant(sensitivity=1.0, scale=2.0).group(2),
    ],
    ids=["composed", "group of a composition", "gaussian", "group"],
)
def test_the_curve_below_zero_is_that_of_the_reversed_neighbours(base):
    """delta(-e) = 1 - e^-e (1 - delta(e)) over all ordered pairs, also where the curve is a composition's bound."""
    e = np.array([1e-3, 2.0])
    assert base.delta(-e) == pytest.approx(1.0 - np.exp(-e) * (1.0 - base.delta(e)), rel=1e-12)


def test_a_group_of_a_composition_costs_at_least_the_composition():
    few = EPSILONS[[4]]
    assert (COMPOSED.group(2).delta(few) >= COMPOSED.delta(few) * (1 - 1e-12)).all()

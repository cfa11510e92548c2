"""Accounts on subsamples: against enumeration of all samples, and against bounds in closed form."""

import itertools
from math import comb

import mpmath as mp
import numpy as np
import pytest

from privsample import (
    Accountant,
    GaussianAccountant,
    LaplaceAccountant,
    PoissonSampling,
    PureAccountant,
    ReplaceOne,
    SubsampledAccountant,
    WithoutReplacement,
    WithReplacement,
)
from privsample.distributions.count_blocks import log_binomial
from tests.accounting.sampled import ADD, EPSILONS, GAUSS, Member, Sizes, member


def hockey(p, q, epsilon):
    """D_{e^epsilon}(p || q) of finite distributions."""
    return np.maximum(p - np.exp(epsilon)[..., None] * q, 0.0).sum(-1)


def samples(scheme, x):
    """Every subsample of the tuple x with its probability."""
    match scheme:
        case PoissonSampling(rate=rate):
            for kept in itertools.product([False, True], repeat=len(x)):
                yield tuple(itertools.compress(x, kept)), np.prod([rate if k else 1 - rate for k in kept])
        case WithoutReplacement(m=m):
            for chosen in itertools.combinations(x, m):
                yield chosen, 1 / comb(len(x), m)
        case WithReplacement(m=m):
            for drawn in itertools.product(x, repeat=m):
                yield drawn, len(x) ** -float(m)


def distribution(mechanism, scheme, x):
    """The distribution of the mechanism on a subsample of x."""
    return sum(weight * mechanism(sample) for sample, weight in samples(scheme, x))


REPLACED = [("v", "a", "b", "c"), ("d", "a", "b", "c")]
REMOVED = [("v", "a", "b", "c"), ("a", "b", "c")]
TIGHT = [
    (PoissonSampling(rate=0.35), ADD, None, REMOVED),
    (WithoutReplacement(n=4, m=3), ReplaceOne(n=3), None, REPLACED),
    (WithReplacement(n=4, m=3), ReplaceOne(n=3), None, REPLACED),
    (WithReplacement(n=4, m=3), ReplaceOne(n=3), ADD, REMOVED),
]


@pytest.mark.parametrize(("scheme", "under", "asked", "neighbours"), TIGHT)
def test_randomized_membership_meets_the_bound(scheme, under, asked, neighbours):
    """Theorem 13: Theorems 8 to 11 are tight. With `asked` the seventh direction too, at any real epsilon."""
    account = SubsampledAccountant(base=Member(relation=under), scheme=scheme, relation=asked)
    p, q = (distribution(member, scheme, x) for x in neighbours)
    above = EPSILONS[EPSILONS >= 0]
    truth = np.maximum(hockey(p, q, above), hockey(q, p, above))
    assert np.allclose(account.delta(above), truth, rtol=1e-12, atol=1e-15)
    assert (account.delta(above) >= truth * (1 - 1e-14)).all()
    if account.relation == ADD:
        for (pair,), (one, other) in zip(account.bounds.directions, [(p, q), (q, p)], strict=True):
            assert np.allclose(np.exp(pair.log_delta(EPSILONS)), hockey(one, other, EPSILONS), rtol=1e-12, atol=1e-15)
            orders = np.array([1.001, 1.5, 2, 7, 40.0])
            renyi = np.log((one ** orders[:, None] * other ** (1 - orders[:, None])).sum(-1)) / (orders - 1)
            assert np.allclose(pair.renyi(orders), renyi, rtol=1e-9)


@pytest.mark.parametrize(("scheme", "under", "asked", "neighbours"), TIGHT)
def test_mutants_of_the_bound_are_caught(scheme, under, asked, neighbours):
    """A rate one percent too low, a base's curve at the same epsilon, and (under AddRemove) exchanged directions."""
    p, q = (distribution(member, scheme, x) for x in neighbours)
    rate = hockey(p, q, np.zeros(1))[0] / hockey(member("v"), member(""), np.zeros(1))[0]
    for wrong in (0.99 * rate, rate**2):
        inner = np.log1p(np.expm1(EPSILONS[4:9]) / wrong)
        assert (wrong * hockey(member("v"), member(""), inner) < hockey(p, q, EPSILONS[4:9]) * (1 - 1e-6)).any()
    if asked or isinstance(scheme, PoissonSampling):
        account = SubsampledAccountant(base=Member(relation=under), scheme=scheme, relation=asked)
        (removal,), (addition,) = account.bounds.directions
        assert (np.exp(addition.log_delta(EPSILONS)) < hockey(p, q, EPSILONS) * (1 - 1e-6)).any()
        assert (np.exp(removal.log_delta(EPSILONS)) < hockey(q, p, EPSILONS) * (1 - 1e-6)).any()


def random_distributions(seed, most):
    rng = np.random.default_rng(seed)
    return tuple(tuple(map(tuple, rng.dirichlet(np.full(3, 0.7), k + 1) * 0.98 + 0.02 / 3)) for k in range(most + 1))


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.long) for seed in (1, 2))])
@pytest.mark.parametrize(
    ("scheme", "size", "asked"),
    [
        (PoissonSampling(rate=0.3), None, None),
        (WithoutReplacement(n=4, m=2), 2, None),
        (WithReplacement(n=3, m=3), 3, None),
        (WithReplacement(n=3, m=3), 3, ADD),
        (PoissonSampling(rate=0.6), 4, ReplaceOne(n=4)),
    ],
)
def test_enumeration_never_exceeds_the_bound(scheme, size, asked, seed):
    distributions = random_distributions(seed, 5)
    under = ADD if size is None else ReplaceOne(n=size)
    base = Sizes(distributions=distributions, relation=under, sizes=(0, 4) if size is None else (size, size))
    account = SubsampledAccountant(base=base, scheme=scheme, relation=asked)
    n = getattr(scheme, "n", 4)

    def run(ones, length):
        x = (1,) * ones + (0,) * (length - ones)
        return distribution(lambda sample: np.array(distributions[len(sample)][sum(sample)]), scheme, x)

    worst, orders = [], np.array([1.1, 2.0, 9.0])
    delta, rdp = account.delta(EPSILONS), account.rdp(orders)
    curves = [np.exp(pair.log_delta(EPSILONS)) for (pair,) in account.bounds.directions]
    shorter, steps = (n - 1, (-1, 0)) if account.relation == ADD else (n, (-1, 1))
    for i, j in ((i, i + step) for i in range(n + 1) for step in steps if 0 <= i + step <= shorter):
        p, q = run(i, n), run(j, shorter)
        for side, (one, other) in enumerate([(p, q), (q, p)]):
            truth = hockey(one, other, EPSILONS)
            assert (truth <= delta + 1e-13).all()
            assert (truth <= curves[side % len(curves)] + 1e-13).all()
            renyi = np.log((one ** orders[:, None] * other ** (1 - orders[:, None])).sum(-1)) / (orders - 1)
            assert (renyi <= rdp * (1 + 1e-9) + 1e-13).all()
            worst.append(truth[3] / delta[3])
    assert max(worst) > 0.1


@pytest.mark.parametrize("base", [GAUSS, LaplaceAccountant(sensitivity=1, scale=0.5), Member()])
@pytest.mark.parametrize(("n", "rate"), [(1, 0.3), (2, 0.5), (7, 0.2), (40, 0.9), (7, 0.999)])
def test_size_by_size_is_never_above_theorem_14(base, n, rate):
    pair = base.pairs[0]
    under = Accountant.with_relation(base, ReplaceOne(n=n))
    ours = SubsampledAccountant(base=under, scheme=PoissonSampling(rate=rate), relation=ReplaceOne(n=n))
    for target in (0.0, 1e-3, 0.05, 0.4, 1.0):
        inner = np.log1p(np.expm1(target) / rate)
        delta = lambda e: float(np.exp(pair.log_delta(np.array(e))))  # noqa: E731
        beta, total = np.exp(target - inner), rate ** (n - 1)
        for k in range(1, n):
            weight = comb(n - 1, k - 1) * rate ** (k - 1) * (1 - rate) ** (n - k)
            total += weight * delta(inner + np.log(rate / (1 - rate) * (n / k - 1)))
        theorem_14 = rate * (beta * delta(inner) + (1 - beta) * total)
        assert ours.delta(target) <= theorem_14 * (1 + 1e-12) + 1e-300
        at_the_mean = rate * delta(inner)
        assert ours.delta(target) >= at_the_mean * (1 - 1e-12)


def moment(rate, mu, order):
    """E_Q (1 - rate + rate dP/dQ)^order of Gaussian noise at a whole order."""
    return mp.fsum(
        mp.binomial(order, k)
        * (1 - mp.mpf(rate)) ** (order - k)
        * mp.mpf(rate) ** k
        * mp.e ** (mu**2 * k * (k - 1) / 2)
        for k in range(order + 1)
    )


@pytest.mark.parametrize(("rate", "mu"), [(0.01, 1.0), (0.3, 0.4), (1e-6, 2.0), (0.999, 1.5)])
def test_renyi_of_the_sampled_gaussian(rate, mu):
    account = SubsampledAccountant(
        base=GaussianAccountant(sensitivity=mu, noise_std=1), scheme=PoissonSampling(rate=rate)
    )
    with mp.workdps(60):
        truth = [float(mp.log(moment(rate, mu, a)) / (a - 1)) for a in (2, 3, 8, 64)]
    assert np.allclose(account.rdp([2, 3, 8, 64]), truth, rtol=1e-10)
    assert account.kind("rdp") == "exact"
    assert account.order_limit == np.inf


def test_a_sample_of_all_is_no_sample():
    for base in (GAUSS, LaplaceAccountant(sensitivity=1, scale=1)):
        account = SubsampledAccountant(base=base, scheme=PoissonSampling(rate=1))
        assert account.pairs == base.pairs * 2
        there = Accountant.with_relation(base, ReplaceOne(n=5))
        for asked, scheme in ((None, WithoutReplacement(n=5, m=5)), (ReplaceOne(n=5), PoissonSampling(rate=1))):
            whole = SubsampledAccountant(base=there, scheme=scheme, relation=asked)
            assert np.allclose(whole.delta(EPSILONS), base.delta(EPSILONS), rtol=1e-13)
            assert whole.pure_epsilon == pytest.approx(base.pure_epsilon)


def test_a_sample_of_a_sample_is_a_sample():
    base = LaplaceAccountant(sensitivity=2, scale=1)
    once = SubsampledAccountant(base=base, scheme=PoissonSampling(rate=0.06))
    twice = SubsampledAccountant(
        base=SubsampledAccountant(base=base, scheme=PoissonSampling(rate=0.2)), scheme=PoissonSampling(rate=0.3)
    )
    assert np.allclose(twice.delta(EPSILONS), once.delta(EPSILONS), rtol=1e-12, atol=0)
    for one, other in zip(once.pairs, twice.pairs, strict=True):
        assert np.allclose(one.log_delta(EPSILONS), other.log_delta(EPSILONS), rtol=1e-12)
    assert np.allclose(once.rdp([1.5, 8, 100]), twice.rdp([1.5, 8, 100]), rtol=1e-9)


def test_the_with_replacement_sum():
    """Theorem 10 by its own formula at 50 digits, with the groups' own curves."""
    n, m, scale = 50, 40, 2.0
    base = LaplaceAccountant(sensitivity=1, scale=scale, relation=ReplaceOne(n=m))
    account = SubsampledAccountant(base=base, scheme=WithReplacement(n=n, m=m))
    with mp.workdps(50):
        share = 1 - (1 - mp.mpf(1) / n) ** m
        for target in (0.0, 0.1, 1.0, 4.0, 9.0):
            inner = mp.log1p(mp.expm1(target) / share)
            truth = mp.fsum(
                mp.binomial(m, k) * mp.mpf(n - 1) ** (m - k) / mp.mpf(n) ** m * (1 - mp.e ** ((inner - k / scale) / 2))
                for k in range(1, m + 1)
                if inner < k / scale
            )
            assert account.delta(target) == pytest.approx(float(truth), rel=1e-11)
            assert account.delta(target) >= float(truth) * (1 - 1e-14)


def test_many_draws_with_replacement():
    m = 100_000
    base = Accountant.with_relation(GAUSS, ReplaceOne(n=m))
    account = SubsampledAccountant(base=base, scheme=WithReplacement(n=10 * m, m=m))
    assert 0 < account.epsilon(1e-6) < 20
    alone = SubsampledAccountant(base=base, scheme=WithReplacement(n=1, m=m))
    assert alone.delta(1.0) == pytest.approx(float(GAUSS.group(m).delta(1.0)))


@pytest.mark.parametrize(
    ("k", "trials", "rate"), [(3, 1000, 0.01), (10_500, 10**6, 0.01), (50, 50, 0.3), (49, 50, 0.3), (1, 3, 1e-12)]
)
def test_binomial_weights(k, trials, rate):
    with mp.workdps(50):
        truth = mp.log(mp.binomial(trials, k)) + k * mp.log(rate) + (trials - k) * mp.log(1 - mp.mpf(rate))
        found = mp.mpf(float(log_binomial(np.array([k]), trials, rate)[0]))
        assert 0 <= found - truth < 1e-12


@pytest.mark.parametrize(
    ("k", "trials", "rate"),
    [(1860051239, 12020517618, 0.15473287856172763), (135084980313, 137553500209, 0.98204922884480)],
)
def test_binomial_weights_of_so_many_that_their_mean_is_rounded(k, trials, rate):
    with mp.workdps(60):
        ways = mp.loggamma(trials + 1) - mp.loggamma(k + 1) - mp.loggamma(trials - k + 1)
        truth = ways + k * mp.log(rate) + (trials - k) * mp.log(1 - mp.mpf(rate))
        found = mp.mpf(float(log_binomial(np.array([k]), trials, rate)[0]))
        assert 0 <= found - truth < 1e-7


@pytest.mark.parametrize("rate", [0.03, 0.1, 0.37, 0.9])
@pytest.mark.parametrize("log_odds", [0.1, 0.7, 2.3])
def test_the_pure_guarantee_of_a_sampled_table_is_rounded_up(rate, log_odds):
    base = PureAccountant(stated_epsilon=log_odds)
    account = SubsampledAccountant(base=base, scheme=PoissonSampling(rate=rate))
    with mp.workdps(50):
        truth = mp.log1p(mp.mpf(rate) * mp.expm1(mp.mpf(log_odds)))
        assert truth <= mp.mpf(float(account.epsilon(0.0))) <= truth * (1 + mp.mpf(2) ** -48)

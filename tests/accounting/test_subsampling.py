"""Subsampled accounts against enumeration of all subsamples, and against closed forms."""

import itertools
from math import comb

import mpmath as mp
import numpy as np
import pytest

from privsample import (
    Accountant,
    AddRemove,
    ApproximateAccountant,
    Assumption,
    BetaBernoulli,
    BoundedRangeAccountant,
    Composed,
    GammaExponential,
    GaussianAccountant,
    Group,
    LaplaceAccountant,
    Parallel,
    PoissonSampling,
    PosteriorAccountant,
    PureAccountant,
    RandomizedResponseAccountant,
    ReplaceOne,
    SubsampledAccountant,
    WithoutReplacement,
    WithReplacement,
    ZCDPAccountant,
)
from privsample._value import value
from privsample.accounting.loss import DiscretePair, binary_pair
from privsample.accounting.subsampling.subsampled import log_binomial, over_sizes
from privsample.errors import RelationMismatch
from tests.accounting.strategies import Finite

EPSILONS = np.array([-1.5, -0.3, -0.02, 0.0, 1e-9, 0.004, 0.05, 0.2, 0.5, 1.0, 1.7, 3.0])
ADD, ODDS = AddRemove(), 1.3
GAUSS = GaussianAccountant(sensitivity=1, noise_std=1)


def hockey(p, q, epsilon):
    """D_{e^epsilon}(p || q) of finite laws."""
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


def law(mechanism, scheme, x):
    """The law of the mechanism on a subsample of x."""
    return sum(weight * mechanism(sample) for sample, weight in samples(scheme, x))


@value
class Member(Accountant):
    """Randomized response to the question whether v is in the data: for a group it costs no more."""

    relation: AddRemove | ReplaceOne = ADD
    assumptions: frozenset[Assumption] = frozenset()

    @property
    def source(self):
        return "Balle, Barthe and Gaboardi 2018, section 5"

    @property
    def pairs(self):
        return (binary_pair(ODDS),)

    def group(self, size):
        return self


over_sizes.register(Member)(lambda account, low, high: account)


def member(sample):
    true = 1 / (1 + np.exp(-ODDS))
    return np.array([true, 1 - true] if "v" in sample else [1 - true, true])


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
    p, q = (law(member, scheme, x) for x in neighbours)
    above = EPSILONS[EPSILONS >= 0]
    truth = np.maximum(hockey(p, q, above), hockey(q, p, above))
    assert np.allclose(account.delta(above), truth, rtol=1e-12, atol=1e-15)
    assert (account.delta(above) >= truth * (1 - 1e-14)).all()
    if account.relation == ADD:
        for (pair,), (one, other) in zip(account.directions, [(p, q), (q, p)], strict=True):
            assert np.allclose(np.exp(pair.log_delta(EPSILONS)), hockey(one, other, EPSILONS), rtol=1e-12, atol=1e-15)
            orders = np.array([1.001, 1.5, 2, 7, 40.0])
            renyi = np.log((one ** orders[:, None] * other ** (1 - orders[:, None])).sum(-1)) / (orders - 1)
            assert np.allclose(pair.renyi(orders), renyi, rtol=1e-9)


@pytest.mark.parametrize(("scheme", "under", "asked", "neighbours"), TIGHT)
def test_mutants_of_the_bound_are_caught(scheme, under, asked, neighbours):
    """A rate one percent too low, a base's curve at the same epsilon, and (under AddRemove) exchanged directions."""
    p, q = (law(member, scheme, x) for x in neighbours)
    rate = hockey(p, q, np.zeros(1))[0] / hockey(member("v"), member(""), np.zeros(1))[0]
    for wrong in (0.99 * rate, rate**2):
        inner = np.log1p(np.expm1(EPSILONS[4:9]) / wrong)
        assert (wrong * hockey(member("v"), member(""), inner) < hockey(p, q, EPSILONS[4:9]) * (1 - 1e-6)).any()
    if asked or isinstance(scheme, PoissonSampling):
        account = SubsampledAccountant(base=Member(relation=under), scheme=scheme, relation=asked)
        (removal,), (addition,) = account.directions
        assert (np.exp(addition.log_delta(EPSILONS)) < hockey(p, q, EPSILONS) * (1 - 1e-6)).any()
        assert (np.exp(removal.log_delta(EPSILONS)) < hockey(q, p, EPSILONS) * (1 - 1e-6)).any()


@value
class Sizes(Accountant):
    """A mechanism on tuples of two values by its laws for each size: exact curves by enumeration."""

    laws: tuple[tuple[tuple[tuple[float, ...], ...], ...], ...]  # laws[k][ones] for k records of which `ones` are 1
    relation: AddRemove | ReplaceOne
    distance: int = 1
    sizes: tuple[int, int] = (0, 0)
    assumptions: frozenset[Assumption] = frozenset()

    @property
    def source(self):
        return "enumeration"

    @property
    def pairs(self):
        found = []
        low, high = self.sizes
        for k in range(low, high + 1):
            rows = np.array(self.laws[k])
            if isinstance(self.relation, ReplaceOne):
                near = [(i, j) for i in range(k + 1) for j in range(k + 1) if 0 < abs(i - j) <= self.distance]
                found += [(rows[i], rows[j]) for i, j in near]
            elif k > low:
                less = np.array(self.laws[k - 1])
                near = [(i, j) for i in range(k + 1) for j in (i - 1, i) if 0 <= j < k]
                found += [pair for i, j in near for pair in ((rows[i], less[j]), (less[j], rows[i]))]
        return tuple(DiscretePair(log_p=np.log(p), log_q=np.log(q)) for p, q in found)

    def group(self, size):
        return Sizes(laws=self.laws, relation=self.relation, distance=size, sizes=self.sizes)


@over_sizes.register
def _(account: Sizes, low: int, high: int):
    return Sizes(laws=account.laws, relation=account.relation, sizes=(low, high))


def random_laws(seed, most):
    rng = np.random.default_rng(seed)
    return tuple(tuple(map(tuple, rng.dirichlet(np.full(3, 0.7), k + 1) * 0.98 + 0.02 / 3)) for k in range(most + 1))


@pytest.mark.parametrize("seed", range(3))
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
    laws = random_laws(seed, 5)
    under = ADD if size is None else ReplaceOne(n=size)
    base = Sizes(laws=laws, relation=under, sizes=(0, 4) if size is None else (size, size))
    account = SubsampledAccountant(base=base, scheme=scheme, relation=asked)
    n = getattr(scheme, "n", 4)

    def run(ones, length):
        x = (1,) * ones + (0,) * (length - ones)
        return law(lambda sample: np.array(laws[len(sample)][sum(sample)]), scheme, x)

    worst, orders = [], np.array([1.1, 2.0, 9.0])
    delta, rdp = account.delta(EPSILONS), account.rdp(orders)
    curves = [np.exp(pair.log_delta(EPSILONS)) for (pair,) in account.directions]
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
    under = Accountant._under(base, ReplaceOne(n=n))
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
        there = Accountant._under(base, ReplaceOne(n=5))
        for asked, scheme in ((None, WithoutReplacement(n=5, m=5)), (ReplaceOne(n=5), PoissonSampling(rate=1))):
            whole = SubsampledAccountant(base=there, scheme=scheme, relation=asked)
            assert np.allclose(whole.delta(EPSILONS), base.delta(EPSILONS), rtol=1e-13)
            assert whole.max_loss == pytest.approx(base.max_loss)


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
    base = Accountant._under(GAUSS, ReplaceOne(n=m))
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
    ("scheme", "asked", "failure"),
    [
        (PoissonSampling(rate=0.1), None, 0.1),
        (WithoutReplacement(n=20, m=2), None, 0.1),
        (PoissonSampling(rate=0.1), ReplaceOne(n=20), 0.1),
    ],
)
def test_a_base_that_can_fail(scheme, asked, failure):
    size = {WithoutReplacement: 2, PoissonSampling: 20}[type(scheme)]
    under = ADD if asked is None and isinstance(scheme, PoissonSampling) else ReplaceOne(n=size)
    base = ApproximateAccountant(stated_epsilon=1, stated_delta=1e-5, relation=under)
    pure = SubsampledAccountant(base=PureAccountant(stated_epsilon=1, relation=under), scheme=scheme, relation=asked)
    account = SubsampledAccountant(base=base, scheme=scheme, relation=asked)
    assert account.failure == pytest.approx(failure * 1e-5, rel=1e-9)
    assert account.max_loss == pure.max_loss
    assert account.delta(account.max_loss) == pytest.approx(account.failure)
    assert account.order_limit == 1.0
    assert np.isinf(account.rdp(2.0))
    assert (2 * account).epsilon(1e-5) <= 2 * pure.max_loss * (1 + 1e-9)
    assert account.epsilon(1e-3) >= pure.epsilon(1e-3)


def test_a_failure_without_a_pure_guarantee_leaves_the_curve():
    base = GAUSS + ApproximateAccountant(stated_epsilon=1, stated_delta=1e-5)
    account = SubsampledAccountant(base=base, scheme=PoissonSampling(rate=0.1))
    assert account.failure == pytest.approx(1e-6)
    assert account.max_loss == np.inf
    assert account._renyi_limit == 1.0
    assert np.isinf(account._renyi(np.array([2.0]))).all()
    assert np.isfinite(account.epsilon(1e-3))


def test_groups_that_fail_for_sure():
    base = ApproximateAccountant(stated_epsilon=2, stated_delta=0.01, relation=ReplaceOne(n=30))
    account = SubsampledAccountant(base=base, scheme=WithReplacement(n=60, m=30))
    assert 0.005 < account.failure < 0.1
    assert account.delta(1.0) >= account.failure


def test_posteriors_size_by_size():
    """Sizes one by one, against the accounts of the sizes themselves."""
    n, rate = 6, 0.4
    for model in (BetaBernoulli(alpha=3, beta=4), GammaExponential(shape=4, rate=2, upper=1.0)):
        base = PosteriorAccountant(model=model, n=n)
        account = SubsampledAccountant(base=base, scheme=PoissonSampling(rate=rate), relation=ReplaceOne(n=n))
        for target in (0.0, 0.1, 0.5):
            truth = sum(
                comb(n, k) * rate**k * (1 - rate) ** (n - k) * k / n
                * PosteriorAccountant(model=model, n=k).delta(np.log1p(np.expm1(target) * n / k))
                for k in range(1, n + 1)
            )  # fmt: skip
            assert account.delta(target) == pytest.approx(truth, rel=1e-9)


@pytest.mark.parametrize("model", [BetaBernoulli(alpha=3, beta=4), GammaExponential(shape=4, rate=2, upper=1.0)])
def test_one_account_for_a_range_of_sizes(model):
    cover = over_sizes(PosteriorAccountant(model=model, n=9), 3, 7)
    for k in range(3, 8):
        own = PosteriorAccountant(model=model, n=k)
        assert (cover.rdp([1.1, 2, 3]) >= own.rdp([1.1, 2, 3])).all()
        assert (cover.delta(EPSILONS[3:]) >= own.delta(EPSILONS[3:]) * (1 - 1e-8)).all()


def test_sizes_of_accounts_put_together():
    small = Accountant._under(GAUSS, ReplaceOne(n=4))
    assert over_sizes(small, 2, 3) == small
    assert over_sizes(2 * small, 2, 3) == 2 * small
    mixed = over_sizes(small + PosteriorAccountant(model=BetaBernoulli(alpha=1, beta=1), n=4), 2, 3)
    assert [member.base for member, _ in mixed.entries] == [
        small,
        PosteriorAccountant(model=BetaBernoulli(alpha=1, beta=1), n=2),
    ]
    assert over_sizes(Group(base=small, size=2), 2, 3) == Group(base=small, size=2)
    with pytest.raises(TypeError, match="WithoutReplacement"):
        over_sizes(Parallel(parts=(small, small)), 2, 3)


BASES = [
    GAUSS,
    LaplaceAccountant(sensitivity=1, scale=1),
    PureAccountant(stated_epsilon=1),
    BoundedRangeAccountant(loss_range=1),
    RandomizedResponseAccountant(log_odds=1, categories=3, relation=ADD),
    2 * GAUSS,
]


@pytest.mark.parametrize("base", BASES, ids=lambda base: type(base).__name__)
def test_sampling_never_costs_more_than_none(base):
    there, n = base._under(ReplaceOne(n=20)), ReplaceOne(n=20)
    accounts = [
        SubsampledAccountant(base=base, scheme=PoissonSampling(rate=0.2)),
        SubsampledAccountant(base=there, scheme=PoissonSampling(rate=0.2), relation=n),
        SubsampledAccountant(base=there, scheme=WithoutReplacement(n=100, m=20)),
    ]
    above = EPSILONS[3:]
    for account in accounts:
        assert (account.delta(above) <= base.delta(above) * (1 + 1e-12) + 1e-25).all()
        assert account.max_loss <= base.max_loss * (1 + 1e-12)
        assert account.assumptions == base.assumptions
        assert base.source in account.source
        assert Accountant.from_dict(account.to_dict()) == account
        assert account.epsilon(1e-5) <= base.epsilon(1e-5)
    assert all(account.kind("delta") == "upper bound" for account in accounts[1:])
    assert (accounts[0].rdp([1.5, 4]) <= base.rdp([1.5, 4]) * (1 + 1e-9)).all()


def test_a_base_known_by_its_renyi_curve_only():
    base = ZCDPAccountant(rho=0.1)
    account = SubsampledAccountant(base=base, scheme=PoissonSampling(rate=0.2))
    assert account.kind("delta") == "upper bound"
    assert account.delta(0.3) == pytest.approx(0.2 * float(base.delta(np.log1p(np.expm1(0.3) / 0.2))))
    assert account.epsilon(1e-5) < base.epsilon(1e-5)


def test_composition_and_groups_of_samples():
    step = SubsampledAccountant(base=GAUSS, scheme=PoissonSampling(rate=0.01))
    many = 100 * step
    assert np.allclose(many.rdp([2, 8]), 100 * step.rdp([2, 8]))
    assert many.epsilon(1e-5) < 100 * step.epsilon(1e-7)
    assert step.group(2).epsilon(1e-5) >= step.epsilon(1e-5)
    there = step.to(ReplaceOne(n=50))
    assert there.relation == ReplaceOne(n=50)
    assert there.epsilon(1e-5) >= step.epsilon(1e-5)
    moved = Parallel(parts=(step, step)).to(ReplaceOne(n=50))
    assert moved.epsilon(1e-5) >= step.epsilon(1e-5)
    assert step.assuming(Assumption.RNG_FRESH).delta(0.1) == step.delta(0.1)


def test_a_larger_dataset_costs_less_in_the_hybrid():
    base = LaplaceAccountant(sensitivity=1, scale=1, relation=ReplaceOne(n=10))
    costs = [
        SubsampledAccountant(base=base, scheme=WithReplacement(n=n, m=10), relation=ADD).delta(EPSILONS[3:])
        for n in (2, 5, 40)
    ]
    assert (np.diff(costs, axis=0) <= 0).all()


@pytest.mark.parametrize(
    ("scheme", "base", "asked", "hint"),
    [
        (WithoutReplacement(n=9, m=3), GAUSS, None, r"ReplaceOne\(n=3\) to ReplaceOne\(n=9\)"),
        (WithoutReplacement(n=9, m=3), GAUSS._under(ReplaceOne(n=9)), None, r"ReplaceOne\(n=3\)"),
        (WithoutReplacement(n=9, m=3), GAUSS._under(ReplaceOne(n=3)), ADD, r"to ReplaceOne\(n=9\)"),
        (WithReplacement(n=9, m=3), GAUSS, None, r"ReplaceOne\(n=3\)"),
        (WithReplacement(n=9, m=3), GAUSS, ADD, r"ReplaceOne\(n=3\)"),
        (WithReplacement(n=1, m=3), GAUSS._under(ReplaceOne(n=3)), ADD, "n > 1"),
        (PoissonSampling(rate=0.1), GAUSS, ReplaceOne(n=9), "AddRemove to AddRemove"),
        (PoissonSampling(rate=0.1), GAUSS._under(ReplaceOne(n=9)), None, r"with relation=ReplaceOne\(n=n\)"),
        (PoissonSampling(rate=0.1), GAUSS._under(ReplaceOne(n=9)), ReplaceOne(n=8), r"ReplaceOne\(n\)"),
        (PoissonSampling(rate=0.1), PosteriorAccountant(model=BetaBernoulli(alpha=1, beta=1), n=9), None, "ReplaceOne"),
        (PoissonSampling(rate=0.1), GAUSS, AddRemove(unit="household"), "one unit"),
        (PoissonSampling(rate=0.1), GAUSS.group(2), None, "sample first"),
    ],
)
def test_wrong_pairings_name_the_right_one(scheme, base, asked, hint):
    with pytest.raises(RelationMismatch, match=hint):
        SubsampledAccountant(base=base, scheme=scheme, relation=asked)


def test_wrong_types():
    with pytest.raises(TypeError, match="base must be an account"):
        SubsampledAccountant(base=0.1, scheme=PoissonSampling(rate=0.1))
    with pytest.raises(TypeError, match="sampling schemes"):
        SubsampledAccountant(base=GAUSS, scheme=0.1)


def test_finite_accounts_with_several_pairs_are_dominated_first():
    pairs = (binary_pair(1.0), DiscretePair(log_p=np.log([0.3, 0.7]), log_q=np.log([0.5, 0.5])))
    account = SubsampledAccountant(base=Finite(listed=pairs), scheme=PoissonSampling(rate=0.3))
    assert account.kind("delta") == "upper bound"
    inner = np.log1p(np.expm1(0.1) / 0.3)
    assert account.delta(0.1) == pytest.approx(0.3 * float(Finite(listed=pairs).delta(inner)))
    assert isinstance(2 * account, Composed)

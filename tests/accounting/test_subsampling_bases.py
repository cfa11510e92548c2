"""Which bases can be sampled: what fails, groups, posteriors, compositions; and what is refused."""

from math import comb

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
    DiscreteLaplaceNoise,
    EmissionAccountant,
    GammaExponential,
    Group,
    LaplaceAccountant,
    LogisticAccountant,
    Parallel,
    Poisson,
    PoissonSampling,
    PosteriorAccountant,
    PureAccountant,
    RandomizedResponseAccountant,
    ReplaceOne,
    SelectionAccountant,
    StatisticsAccountant,
    SubsampledAccountant,
    TemperedAccountant,
    WithoutReplacement,
    WithReplacement,
    ZCDPAccountant,
)
from privsample.accounting.loss.pair import DiscretePair, binary_pair
from privsample.errors import RelationMismatch
from tests.accounting.sampled import ADD, EPSILONS, GAUSS
from tests.accounting.strategies import Finite


@pytest.mark.parametrize(
    ("scheme", "asked", "infinity_mass"),
    [
        (PoissonSampling(rate=0.1), None, 0.1),
        (WithoutReplacement(n=20, m=2), None, 0.1),
        (PoissonSampling(rate=0.1), ReplaceOne(n=20), 0.1),
    ],
)
def test_a_base_with_infinity_mass(scheme, asked, infinity_mass):
    size = {WithoutReplacement: 2, PoissonSampling: 20}[type(scheme)]
    under = ADD if asked is None and isinstance(scheme, PoissonSampling) else ReplaceOne(n=size)
    base = ApproximateAccountant(stated_epsilon=1, stated_delta=1e-5, relation=under)
    pure = SubsampledAccountant(base=PureAccountant(stated_epsilon=1, relation=under), scheme=scheme, relation=asked)
    account = SubsampledAccountant(base=base, scheme=scheme, relation=asked)
    assert account.infinity_mass == pytest.approx(infinity_mass * 1e-5, rel=1e-9)
    assert account.pure_epsilon == pure.pure_epsilon
    assert account.delta(account.pure_epsilon) == pytest.approx(account.infinity_mass)
    assert account.order_limit == 1.0
    assert np.isinf(account.rdp(2.0))
    assert (2 * account).epsilon(1e-5) <= 2 * pure.pure_epsilon * (1 + 1e-9)
    assert account.epsilon(1e-3) >= pure.epsilon(1e-3)


def test_an_infinity_mass_without_a_pure_guarantee_leaves_the_curve():
    base = GAUSS + ApproximateAccountant(stated_epsilon=1, stated_delta=1e-5)
    account = SubsampledAccountant(base=base, scheme=PoissonSampling(rate=0.1))
    assert account.infinity_mass == pytest.approx(1e-6)
    assert account.pure_epsilon == np.inf
    assert account.bounds.order_limit == 1.0
    assert np.isinf(account.bounds.renyi(np.array([2.0]))).all()
    assert np.isfinite(account.epsilon(1e-3))


def test_groups_that_fail_for_sure():
    base = ApproximateAccountant(stated_epsilon=2, stated_delta=0.01, relation=ReplaceOne(n=30))
    account = SubsampledAccountant(base=base, scheme=WithReplacement(n=60, m=30))
    assert 0.005 < account.infinity_mass < 0.1
    assert account.delta(1.0) >= account.infinity_mass


def test_groups_of_a_sample_fail_too():
    """A sample of a sample: the group's general account has no infinity mass, conditional on which it would be pure."""
    stated = ApproximateAccountant(stated_epsilon=1, stated_delta=0.01, relation=ReplaceOne(n=2))
    inner = SubsampledAccountant(base=stated, scheme=WithoutReplacement(n=3, m=2))
    account = SubsampledAccountant(base=inner, scheme=WithReplacement(n=4, m=3))
    once = 3 * (1 / 4) * (3 / 4) ** 2 * inner.infinity_mass  # a record drawn once gives away so much, at least
    assert account.infinity_mass > once
    assert account.delta(1e6) >= once
    assert account.epsilon(once * (1 - 1e-9)) == np.inf
    assert np.isinf(account.rdp(2.0))


def test_a_tiny_infinity_mass_is_not_rounded_to_zero():
    base = ApproximateAccountant(stated_epsilon=1, stated_delta=1e-250)
    account = SubsampledAccountant(base=base, scheme=PoissonSampling(rate=1e-100))
    assert account.infinity_mass > 0
    assert np.isinf([account.rdp(2.0), account.epsilon(0.0), account.zcdp]).all()


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
    cover = PosteriorAccountant(model=model, n=9).for_sizes(3, 7)
    for k in range(3, 8):
        own = PosteriorAccountant(model=model, n=k)
        assert (cover.rdp([1.1, 2, 3]) >= own.rdp([1.1, 2, 3])).all()
        assert (cover.delta(EPSILONS[3:]) >= own.delta(EPSILONS[3:]) * (1 - 1e-8)).all()


MODEL = BetaBernoulli(alpha=2, beta=3)
SIZED = {
    "tempered": lambda n: TemperedAccountant(model=MODEL, n=n, temperature=2.0, truncation=0.1),
    "statistics": lambda n: StatisticsAccountant(
        differences=MODEL.record_sensitivity, n=n, noise=DiscreteLaplaceNoise(scale=1.0)
    ),
    "logistic": lambda n: LogisticAccountant(n=n, features=1, norm=1, prior_std=1),
    "emission": lambda n: EmissionAccountant(
        n=n, min_records=n, categories=3, prior=1.0, temperature=5.0, truncation=0.05
    ),
    "selection": lambda n: SelectionAccountant(
        base=PosteriorAccountant(model=BetaBernoulli(alpha=6, beta=9), n=n), repetitions=Poisson(mean=2)
    ),
}


@pytest.mark.parametrize("name", SIZED)
def test_accounts_for_a_range_of_sizes_are_upper_bounds(name):
    cover, orders = SIZED[name](9).for_sizes(2, 5), np.array([1.5, 2, 6])
    for size in (2, 3, 5) if name != "selection" else (2,):  # the fewest records cost the most
        own = SIZED[name](size)
        assert (cover.rdp(orders) >= own.rdp(orders) * (1 - 1e-12)).all()
        assert (cover.delta(EPSILONS[5:]) >= own.delta(EPSILONS[5:]) * (1 - 1e-12)).all()


def test_one_size_of_a_tempered_posterior_keeps_the_exact_curve():
    tempered = SIZED["tempered"](9)
    assert tempered.for_sizes(5, 5) == SIZED["tempered"](5)
    cover = tempered.for_sizes(0, 7)
    assert cover.relation == ReplaceOne(n=7)
    assert cover.source == tempered.source
    assert cover.kind("delta") == "upper bound"


def test_sizes_of_accounts_put_together():
    small = Accountant.with_relation(GAUSS, ReplaceOne(n=4))
    assert small.for_sizes(2, 3) == small
    assert (2 * small).for_sizes(2, 3) == 2 * small
    mixed = (small + PosteriorAccountant(model=BetaBernoulli(alpha=1, beta=1), n=4)).for_sizes(2, 3)
    assert [member.base for member, _ in mixed.entries] == [
        small,
        PosteriorAccountant(model=BetaBernoulli(alpha=1, beta=1), n=2),
    ]
    assert Group(base=small, size=2).for_sizes(2, 3) == Group(base=small, size=2)
    with pytest.raises(TypeError, match="WithoutReplacement"):
        Parallel(parts=(small, small)).for_sizes(2, 3)


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
    there, n = base.with_relation(ReplaceOne(n=20)), ReplaceOne(n=20)
    accounts = [
        SubsampledAccountant(base=base, scheme=PoissonSampling(rate=0.2)),
        SubsampledAccountant(base=there, scheme=PoissonSampling(rate=0.2), relation=n),
        SubsampledAccountant(base=there, scheme=WithoutReplacement(n=100, m=20)),
    ]
    above = EPSILONS[3:]
    for account in accounts:
        assert (account.delta(above) <= base.delta(above) * (1 + 1e-12) + 1e-25).all()
        assert account.pure_epsilon <= base.pure_epsilon * (1 + 1e-12)
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
        (WithoutReplacement(n=9, m=3), GAUSS.with_relation(ReplaceOne(n=9)), None, r"ReplaceOne\(n=3\)"),
        (WithoutReplacement(n=9, m=3), GAUSS.with_relation(ReplaceOne(n=3)), ADD, r"to ReplaceOne\(n=9\)"),
        (WithReplacement(n=9, m=3), GAUSS, None, r"ReplaceOne\(n=3\)"),
        (WithReplacement(n=9, m=3), GAUSS, ADD, r"ReplaceOne\(n=3\)"),
        (WithReplacement(n=1, m=3), GAUSS.with_relation(ReplaceOne(n=3)), ADD, "n > 1"),
        (PoissonSampling(rate=0.1), GAUSS, ReplaceOne(n=9), "AddRemove to AddRemove"),
        (PoissonSampling(rate=0.1), GAUSS.with_relation(ReplaceOne(n=9)), None, r"with relation=ReplaceOne\(n=n\)"),
        (PoissonSampling(rate=0.1), GAUSS.with_relation(ReplaceOne(n=9)), ReplaceOne(n=8), r"ReplaceOne\(n\)"),
        (PoissonSampling(rate=0.1), PosteriorAccountant(model=BetaBernoulli(alpha=1, beta=1), n=9), None, "ReplaceOne"),
        (PoissonSampling(rate=0.1), GAUSS, AddRemove(unit="household"), "one unit"),
        (PoissonSampling(rate=0.1), GAUSS.group(2), None, "subsample the account of one record"),
    ],
)
def test_wrong_pairings_name_the_right_one(scheme, base, asked, hint):
    with pytest.raises(RelationMismatch, match=hint):
        SubsampledAccountant(base=base, scheme=scheme, relation=asked)


def test_wrong_types():
    with pytest.raises(TypeError, match="base must be an account"):
        SubsampledAccountant(base=0.1, scheme=PoissonSampling(rate=0.1))
    with pytest.raises(TypeError, match="scheme must be"):
        SubsampledAccountant(base=GAUSS, scheme=0.1)


def test_finite_accounts_with_several_pairs_are_dominated_first():
    pairs = (binary_pair(1.0), DiscretePair(log_p=np.log([0.3, 0.7]), log_q=np.log([0.5, 0.5])))
    account = SubsampledAccountant(base=Finite(listed=pairs), scheme=PoissonSampling(rate=0.3))
    assert account.kind("delta") == "upper bound"
    inner = np.log1p(np.expm1(0.1) / 0.3)
    assert account.delta(0.1) == pytest.approx(0.3 * float(Finite(listed=pairs).delta(inner)))
    assert isinstance(2 * account, Composed)

"""Accounts of every class, for property tests; and an exact account of finite mechanisms, for brute force."""

import numpy as np
from hypothesis import strategies as st

from privsample import (
    Accountant,
    AddRemove,
    ApproximateAccountant,
    Assumption,
    BernoulliAccountant,
    BetaBernoulli,
    BoundedRangeAccountant,
    Composed,
    ContractionAccountant,
    CurveAccountant,
    DirichletCategorical,
    DiscreteGaussianNoise,
    DiscreteLaplaceNoise,
    GammaExponential,
    GammaPoisson,
    GaussianAccountant,
    GaussianNoise,
    Group,
    HiddenStateAccountant,
    KernelAccountant,
    LangevinAccountant,
    LaplaceAccountant,
    LaplaceNoise,
    LogisticAccountant,
    LogisticLoss,
    NormalKnownVariance,
    PairAccountant,
    Parallel,
    PoissonSampling,
    PosteriorAccountant,
    PureAccountant,
    RandomizedResponseAccountant,
    RandomScanAccountant,
    RecordSensitivity,
    ReplaceOne,
    SGDAccountant,
    ShuffledAccountant,
    StatisticsAccountant,
    SubsampledAccountant,
    TemperedAccountant,
    TradeoffAccountant,
    ZCDPAccountant,
)
from privsample._value import frozen_value
from privsample.accounting.engine.bounds import PrivacyBounds
from privsample.accounting.loss.pair import LossPair

LOCAL = ReplaceOne(n=5)
RELATIONS = [AddRemove(), LOCAL]
LOSS = LogisticLoss(features=1, norm=1.0, radius=1.0)


def positive(low=0.05, high=5.0):
    return st.floats(low, high, allow_subnormal=False)


def posteriors():
    prior, weight = positive(0.1, 30.0), st.floats(0.01, 1.0)
    models = st.one_of(
        st.builds(BetaBernoulli, alpha=prior, beta=prior, fractional=st.booleans()),
        st.builds(DirichletCategorical, alpha=st.lists(prior, min_size=2, max_size=4).map(tuple)),
        st.builds(GammaPoisson, shape=prior, rate=prior, upper=st.integers(1, 5)),
        st.builds(GammaExponential, shape=prior, rate=prior, upper=positive()),
        st.builds(
            NormalKnownVariance,
            mean=st.floats(-1, 1),
            variance=positive(),
            noise_variance=positive(),
            bounds=positive().map(lambda high: (-0.5, high)),
        ),
    )
    return st.builds(
        PosteriorAccountant, model=models, n=st.just(5), data_weight=weight, prior_weight=st.floats(1.0, 100.0)
    )


def regressions():
    share = st.floats(0.01, 1.0)
    logistic = st.builds(
        LogisticAccountant,
        n=st.just(5),
        features=st.integers(1, 3),
        norm=positive(),
        prior_std=positive(),
        intercept_std=st.none() | positive(),
        data_weight=share,
        prior_weight=st.floats(1.0, 100.0),
        draws=st.integers(1, 3),
    )
    langevin = st.builds(
        LangevinAccountant,
        gradient_sensitivity=positive(),
        strong_convexity=st.floats(0.0, 1.0),
        smoothness=st.floats(1.0, 100.0),
        step_size=st.floats(1e-6, 0.02),
        steps=st.integers(1, 10**6),
        draws=st.integers(1, 3),
        relation=st.just(ReplaceOne(n=5)),
    )
    return logistic | langevin


def tempered():
    prior, upper = positive(0.1, 5.0), st.integers(1, 4)
    shares = st.one_of(
        st.builds(BetaBernoulli, alpha=prior, beta=prior, fractional=st.booleans()),
        st.builds(DirichletCategorical, alpha=st.lists(prior, min_size=2, max_size=4).map(tuple)),
    )
    rates = st.builds(GammaPoisson, shape=prior, rate=prior, upper=upper)
    rest = {"n": st.just(5), "temperature": st.floats(1.0, 6.0)}
    return st.one_of(
        st.builds(TemperedAccountant, model=shares, truncation=st.floats(0.01, 0.2), **rest),
        st.builds(TemperedAccountant, model=rates, truncation=st.just((0.5, 4.0)), **rest),
    )


def statistics():
    noises = [LaplaceNoise, GaussianNoise, DiscreteLaplaceNoise, DiscreteGaussianNoise]
    names = {LaplaceNoise: "scale", DiscreteLaplaceNoise: "scale"}
    noise = st.one_of([st.builds(kind, **{names.get(kind, "noise_std"): positive(1.0)}) for kind in noises])
    vectors = st.sampled_from([[[1]], [[3]], [[1, 1]], [[2, 2], [3, 1]]])
    differences = st.builds(RecordSensitivity, differences=vectors, integer_valued=st.just(True))
    return st.builds(StatisticsAccountant, differences=differences, n=st.just(5), noise=noise)


def processed(relation):
    """Noise, guarantees and descent seen through kernels, Bernoulli draws and contractions."""
    at = {"relation": st.just(relation)}
    noisy = st.one_of(
        st.builds(GaussianAccountant, sensitivity=positive(), noise_std=positive(), **at),
        st.builds(PureAccountant, stated_epsilon=positive(), **at),
    )
    steps = st.lists(st.tuples(positive(), positive(0.0, 2.0)), max_size=3)
    contracted = st.builds(
        lambda sensitivity, first, steps: ContractionAccountant(
            sensitivity=sensitivity,
            noise_stds=(first, *(noise for noise, _ in steps)),
            constants=tuple(constant for _, constant in steps),
            relation=relation,
        ),
        positive(),
        positive(),
        steps,
    )
    hidden = st.builds(
        lambda steps, diameter: HiddenStateAccountant(
            moves=tuple(move for move, _, _ in steps),
            noise_stds=tuple(noise for _, noise, _ in steps),
            constants=tuple(constant for _, _, constant in steps),
            diameter=diameter,
            relation=relation,
        ),
        st.lists(st.tuples(positive(0.0, 2.0), positive(), positive(0.0, 2.0)), min_size=1, max_size=4),
        st.just(np.inf) | positive(),
    )
    rows = st.lists(st.floats(0.0, 1.0), min_size=2, max_size=3).map(lambda shares: [[x, 1.0 - x] for x in shares])
    return st.one_of(
        contracted,
        hidden,
        st.builds(KernelAccountant, base=noisy, matrix=rows),
        st.builds(BernoulliAccountant, base=noisy, margin=st.floats(0.0, 0.49), draws=st.just(2), dimension=st.just(1)),
    )


def tables(*, failing):
    """Two distributions on two or three outcomes; zeros where an infinite loss is allowed."""
    mass = st.floats(0.05, 1.0) if not failing else st.one_of(st.just(0.0), st.floats(0.05, 1.0))
    rows = st.lists(st.tuples(mass, mass), min_size=2, max_size=3).filter(lambda r: any(p * q > 0 for p, q in r))
    return rows.map(lambda r: tuple([x / sum(column) for x in column] for column in zip(*r, strict=True)))


def stated(relation, *, failing):
    """Accounts that a user states."""
    at = {"relation": st.just(relation)}
    knot = st.floats(0.05, 0.4).flatmap(lambda x: st.tuples(st.just(x), st.floats(0.05, 0.95 - x)))
    points = st.lists(st.tuples(positive(0.1, 3.0), st.floats(1e-6, 0.2)), min_size=1, max_size=3)
    kinds = [
        tables(failing=failing).map(lambda pq: PairAccountant(p=pq[0], q=pq[1], relation=relation)),
        knot.map(lambda knot: TradeoffAccountant(knots=[(0, 1), knot, (1, 0)], relation=relation)),
    ]
    return st.one_of([*kinds, st.builds(CurveAccountant, points=points, **at)] if failing else kinds)


def descents():
    return st.builds(
        SGDAccountant,
        loss=st.just(LOSS),
        n=st.just(5),
        rate=st.floats(0.1, 2.0),
        noise_std=positive(0.3),
        batch=st.integers(1, 5),
        public_tail=st.integers(0, 3),
        epochs=st.integers(1, 4),
        order=st.sampled_from(["shuffle_once", "reshuffle", "given"]),
    )


def shuffled(relation):
    """Shuffled answers of a few persons, or of any answers with a pure guarantee."""
    at = {"relation": st.just(relation)}
    answers = st.builds(RandomizedResponseAccountant, log_odds=positive(), categories=st.integers(2, 3), **at)
    return st.builds(ShuffledAccountant, base=answers | st.builds(PureAccountant, stated_epsilon=positive(), **at))


def accounts(relation, *, failing=True):
    """Accounts of one mechanism under this relation."""
    at = {"relation": st.just(relation)}
    kinds = [
        st.builds(PureAccountant, stated_epsilon=positive(), **at),
        st.builds(ZCDPAccountant, rho=positive(0.01, 3.0), **at),
        st.builds(GaussianAccountant, sensitivity=positive(), noise_std=positive(), **at),
        st.builds(LaplaceAccountant, sensitivity=positive(), scale=positive(0.5), **at),
        st.builds(BoundedRangeAccountant, loss_range=positive(), **at),
        st.builds(RandomizedResponseAccountant, log_odds=positive(), categories=st.integers(2, 6), **at),
        processed(relation),
    ]
    if failing:
        kinds.append(
            st.builds(ApproximateAccountant, stated_epsilon=positive(), stated_delta=st.floats(1e-9, 0.2), **at)
        )
    if isinstance(relation, ReplaceOne):
        kinds += [posteriors(), regressions(), tempered(), descents(), shuffled(relation)]
    return st.one_of(kinds)


def put_together(relation, *, failing=True):
    """Compositions, parallel parts and groups of them."""
    one = accounts(relation, failing=failing)
    pairs = st.lists(st.tuples(one, st.integers(1, 3)), min_size=1, max_size=3)
    return st.one_of(
        pairs.map(lambda entries: Composed(entries=tuple(entries))),
        st.lists(one, min_size=1, max_size=3).map(lambda parts: Parallel(parts=tuple(parts))),
        st.builds(Group, base=one, size=st.integers(1, 3)),
        st.builds(RandomScanAccountant, base=one, updated=st.integers(1, 3), variables=st.integers(3, 9)),
        st.tuples(one, st.integers(1, 3)).map(grouped),
    )


def grouped(pair):
    """The account's own group; a failure probability may leave nothing to promise, then the account itself."""
    account, size = pair
    try:
        return account.group(size)
    except ValueError:
        return account


def every(relation=None, *, failing=True):
    """Accounts of every class."""
    if relation is None:
        return st.sampled_from(RELATIONS).flatmap(lambda r: every(r, failing=failing))
    return st.one_of(accounts(relation, failing=failing), put_together(relation, failing=failing))


def hardly_any():
    """Accounts of mechanisms that hardly tell anything: each loss a product of one or two powers of ten."""
    small = st.integers(1, 323).map(lambda k: max(10.0**-k, 5e-324))
    rate, wide = small.map(lambda x: max(x, 1e-300)), small.map(lambda x: min(1 / x, 1e300) if x > 1e-300 else 1e300)
    posterior = st.builds(
        PosteriorAccountant,
        model=st.sampled_from([BetaBernoulli(alpha=1, beta=2), GammaPoisson(shape=1, rate=1, upper=3)]),
        n=st.just(5),
        data_weight=rate,
    )
    at_once = st.one_of(
        st.builds(PureAccountant, stated_epsilon=small),
        st.builds(ZCDPAccountant, rho=small),
        st.builds(GaussianAccountant, sensitivity=small, noise_std=wide),
        st.builds(LaplaceAccountant, sensitivity=small, scale=wide),
        st.builds(BoundedRangeAccountant, loss_range=small),
        st.builds(RandomizedResponseAccountant, log_odds=small, categories=st.integers(2, 4), relation=st.just(LOCAL)),
        st.builds(ContractionAccountant, sensitivity=small, noise_stds=wide.map(lambda x: (x,))),
    )
    kernel = st.just([[0.7, 0.3], [0.4, 0.6]])
    pure = st.builds(PureAccountant, stated_epsilon=small)
    return st.one_of(
        at_once,
        posterior,
        st.builds(
            StatisticsAccountant,
            differences=st.just(RecordSensitivity(differences=[[1, 1]])),
            n=st.just(5),
            noise=st.builds(GaussianNoise, noise_std=wide) | st.builds(LaplaceNoise, scale=wide),
        ),
        st.builds(LogisticAccountant, n=st.just(5), features=st.just(2), norm=rate, prior_std=st.just(1.0)),
        st.builds(SGDAccountant, loss=st.just(LOSS), n=st.just(5), rate=st.just(0.5), noise_std=wide),
        st.builds(
            TemperedAccountant,
            model=st.just(NormalKnownVariance(mean=0, variance=1, noise_variance=1, bounds=(0, 1))),
            n=st.just(5),
            temperature=wide,
            truncation=st.just((0.5, 4.0)),
        ),
        st.builds(Group, base=at_once, size=st.integers(2, 3)),
        at_once.map(lambda account: 2 * account),
        st.builds(BernoulliAccountant, base=pure, margin=st.just(0.3), draws=st.just(1), dimension=st.just(1)),
        st.builds(KernelAccountant, base=at_once.filter(lambda a: not hasattr(a, "categories")), matrix=kernel),
        st.builds(
            SubsampledAccountant,
            base=pure | st.just(PureAccountant(stated_epsilon=1.0)),
            scheme=st.builds(PoissonSampling, rate=small),
        ),
    )


@frozen_value
class Finite(Accountant):
    """A mechanism on a finite set, by the loss pairs of all its neighbours: exact by enumeration."""

    listed: tuple[LossPair, ...]
    relation: AddRemove | ReplaceOne = AddRemove()
    assumptions: frozenset[Assumption] = frozenset()

    @property
    def source(self):
        return "enumeration"

    def _bounds(self):
        return PrivacyBounds.from_pairs(self.listed)

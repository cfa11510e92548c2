"""Composed accounts: the reported route is the smallest valid one, and directions are not mixed."""

import pickle
from dataclasses import replace

import mpmath as mp
import numpy as np
import pytest

from privsample import (
    DP,
    Accountant,
    AddRemove,
    ApproximateAccountant,
    Assumption,
    BetaBernoulli,
    BoundedRangeAccountant,
    Composed,
    ConditionalAccountant,
    GammaPoisson,
    GaussianAccountant,
    Group,
    KernelAccountant,
    LaplaceAccountant,
    OneBit,
    Parallel,
    Poisson,
    PosteriorAccountant,
    ProfileGraph,
    PureAccountant,
    RandomizedResponseAccountant,
    ReplaceOne,
    SelectionAccountant,
    TruncatedNegativeBinomial,
    ZCDPAccountant,
)
from privsample._value import frozen_value
from privsample.accounting.engine.bounds import PrivacyBounds
from privsample.accounting.engine.envelope import BoundsEnvelope
from privsample.accounting.loss.pair import DiscretePair
from privsample.accounting.loss.product import ProductPair
from privsample.accounting.posterior.beta import BetaPair
from privsample.errors import RelationMismatch
from tests.accounting.strategies import Finite
from tests.counting import counted

GAUSSIAN = GaussianAccountant(sensitivity=1, noise_std=2)
LAPLACE = LaplaceAccountant(sensitivity=1, scale=2)
PURE = PureAccountant(stated_epsilon=0.4)
APPROXIMATE = ApproximateAccountant(stated_epsilon=0.5, stated_delta=1e-3)
DRAWS = PosteriorAccountant(model=BetaBernoulli(alpha=6, beta=12), n=50, draws=2)
RANGE = BoundedRangeAccountant(loss_range=1.0)
ON_GRID, BY_CONTOUR = "composed loss, on a grid", "composed loss, by contour integral"
RENYI, PURE_ROUTE = "Rényi curve at its best order", "pure guarantee"


def routes(account, delta=0.01):
    return {route.name: route.epsilon for route in account.explain(delta)}


@pytest.mark.parametrize(
    ("account", "name"),
    [
        (1 * LAPLACE, "privacy curve"),
        (GAUSSIAN + GaussianAccountant(sensitivity=3, noise_std=2), "privacy curve"),
        (3 * LAPLACE, ON_GRID),
        (GAUSSIAN + PURE, ON_GRID),
        (GAUSSIAN + RANGE, ON_GRID),
        (2 * RANGE, ON_GRID),
        (2 * APPROXIMATE, "composed loss, by enumeration"),
        (DRAWS + GaussianAccountant(sensitivity=1, noise_std=2, relation=ReplaceOne(n=50)), BY_CONTOUR),
        (GAUSSIAN + ZCDPAccountant(rho=0.1), None),
    ],
    ids=range(9),
)
def test_each_composition_names_its_route(account, name):
    found = routes(account)
    assert set(found) == {RENYI, PURE_ROUTE} | ({name} if name else set())
    assert account.epsilon(0.01) == pytest.approx(min(found.values()), rel=1e-12)
    assert account.epsilon(0.01) <= found[RENYI] * (1 + 1e-9)


@pytest.mark.parametrize(
    "account",
    [LAPLACE + PURE, 4 * PURE + GAUSSIAN, 2 * APPROXIMATE + LAPLACE, GAUSSIAN + RANGE],
    ids=range(4),
)
def test_both_views_agree(account):
    for delta in (0.3, 1e-2):
        if delta > account.infinity_mass:
            epsilon = account.epsilon(delta)
            assert account.delta(epsilon) <= delta * (1 + 1e-6)
            assert epsilon <= 1e-12 or account.delta(epsilon - 1e-4) > delta * (1 - 1e-6)
    curve = account.delta(np.linspace(-1.0, 3.0, 25))
    assert (np.diff(curve) <= 1e-9).all()


def test_order_and_grouping_do_not_matter():
    one, other = LAPLACE + PURE, PURE + LAPLACE
    assert one.epsilon(1e-3) == pytest.approx(other.epsilon(1e-3), rel=1e-12)
    assert (3 * LAPLACE) == LAPLACE + LAPLACE + LAPLACE
    assert one.delta(0.3) == pytest.approx(other.delta(0.3), rel=1e-10)


def approximate_truth(epsilon, failure, times, at):
    """The worst (epsilon, failure)-private mechanism, composed `times` (Kairouz, Oh and Viswanath 2015)."""
    with mp.workdps(50):
        e, keep = mp.exp(mp.mpf(epsilon)), (1 - mp.mpf(failure)) ** times
        terms = [
            mp.binomial(times, j) * max(e ** (times - j) - mp.exp(at) * e**j, 0) / (1 + e) ** times
            for j in range(times + 1)
        ]
        return float(1 - keep + keep * mp.fsum(terms))


def _gaussians(count):
    return [GaussianAccountant(sensitivity=1.0, noise_std=float(std)) for std in np.linspace(30.0, 60.0, count)]


def test_a_sum_of_accounts_takes_linear_time():
    """Twice the accounts take twice the calls of functions; listing all entries at each addition takes four times."""
    calls = []
    sum(_gaussians(3)).entries  # noqa: B018 - imports what is imported at the first use
    for count in (200, 400):
        accounts = _gaussians(count)
        with counted() as cost:
            entries = sum(accounts).entries
        assert [account for account, _ in entries] == accounts
        calls.append(sum(cost.calls.values()))
    assert calls[1] < 2.2 * calls[0]


def test_a_sum_is_the_composition_of_its_accounts():
    a, b, c = _gaussians(3)
    listed = Composed(entries=((a, 2), (b, 1), (c, 1)))
    for make in (lambda: sum([a, b, c, a]), lambda: (a + b) + (c + a), lambda: a + (b + (c + a))):
        assert make().entries == ((a, 2), (b, 1), (c, 1))
        assert (make(), hash(make()), repr(make())) == (listed, hash(listed), repr(listed))
        assert pickle.loads(pickle.dumps(make())) == Accountant.from_dict(make().to_dict()) == listed
        assert make().relation == AddRemove()
    assert (a + b.assuming(Assumption.STATED)).assumptions == a.assumptions | {Assumption.STATED}
    with pytest.raises(AttributeError, match=r"Composed.*parts"):
        (a + b).parts  # noqa: B018


@pytest.mark.parametrize(("epsilon", "infinity_mass", "times"), [(0.5, 1e-3, 5), (0.1, 1e-9, 30), (2.0, 0.2, 3)])
def test_guarantees_with_infinity_mass_compose_optimally(epsilon, infinity_mass, times):
    account = times * ApproximateAccountant(stated_epsilon=epsilon, stated_delta=infinity_mass)
    for share in (0.0, 0.3, 0.77, 0.99):
        at = share * times * epsilon
        truth = approximate_truth(epsilon, infinity_mass, times, at)
        assert truth * (1 - 1e-12) <= account.delta(at) <= truth * (1 + 1e-8)
        assert account.epsilon(truth) == pytest.approx(at, abs=1e-6)
    assert account.epsilon(account.infinity_mass * (1 - 1e-9)) == np.inf


def two_draws(first, second, epsilon):
    """delta of two Beta draws by direct integration of the second's curve over the first's loss."""
    nodes, weights = np.polynomial.legendre.leggauss(800)
    y = 60.0 * nodes  # logit theta under Beta(a + 1, b)
    log_density = -(first.a + 1) * np.logaddexp(0, -y) - first.b * np.logaddexp(0, y)
    mass = np.exp(log_density - log_density.max()) * weights
    loss = y + np.log(first.b / first.a)
    return float(mass / mass.sum() @ np.exp(second.log_delta(epsilon - loss)))


LOW, HIGH = BetaPair(a=1.0, b=20.0, step=1.0), BetaPair(a=20.0, b=1.0, step=1.0)


def test_members_that_are_worst_for_opposite_neighbours():
    """Beta(1,21)||Beta(2,20) with Beta(21,1)||Beta(20,2): 0.1786; 0.1286 if both sums change in the same direction."""
    truth = max(two_draws(one, other, 2.0) for one in (LOW, HIGH) for other in (LOW, HIGH))
    assert truth == pytest.approx(0.1786, abs=1e-4)
    assert two_draws(LOW, HIGH, 2.0) == pytest.approx(0.1286, abs=1e-4)
    relation = ReplaceOne(n=20)
    one, other = (Finite(listed=(pair, pair.reverse()), relation=relation) for pair in (LOW, HIGH))
    posterior = PosteriorAccountant(model=BetaBernoulli(alpha=1, beta=1), n=20)
    for account in (one + other, 2 * one, 2 * posterior):
        assert truth <= account.delta(2.0) <= truth * 1.2
        assert account.epsilon(truth) >= 2.0
        assert all(isinstance(part, BoundsEnvelope) for pair in account.pairs for part, _ in pair.members)


@frozen_value
class TwoWays(Accountant):
    """Removal costs one pair, addition its reverse."""

    removal: DiscretePair
    relation: AddRemove = AddRemove()
    assumptions: frozenset = frozenset()

    @property
    def source(self):
        return "a test"

    def _bounds(self):
        return PrivacyBounds.from_pairs([self.removal], [self.removal.reverse()])


def test_the_directions_of_add_remove_are_composed_separately():
    pair = DiscretePair(log_p=np.log([0.7, 0.3]), log_q=np.log([0.5, 0.5]))
    account = 2 * TwoWays(removal=pair) + LAPLACE
    members = [ProductPair(members=((own, 2), (LAPLACE.pairs[0], 1))) for own in (pair, pair.reverse())]
    assert account.pairs == tuple(members)
    assert account.bounds.directions == ((members[0],), (members[1],))
    for at in (-0.5, 0.2, 0.8):
        worst = max(float(product.log_delta(np.float64(at))) for product in members)
        assert account.log_delta(at) == pytest.approx(worst, abs=1e-12)
    assert (1 * TwoWays(removal=pair)).bounds.directions == TwoWays(removal=pair).bounds.directions
    assert (2 * LAPLACE).bounds.directions == ((2 * LAPLACE).pairs,)
    assert (GAUSSIAN + ZCDPAccountant(rho=0.1)).bounds.directions == ()


def test_one_account_with_several_pairs_composes_with_noise_on_a_grid():
    relation = ReplaceOne(n=50)
    posterior = PosteriorAccountant(model=GammaPoisson(shape=9, rate=1, upper=2), n=50)
    noise = LaplaceAccountant(sensitivity=1, scale=3, relation=relation)
    account = posterior + noise
    assert routes(account)[ON_GRID] <= routes(account)[RENYI]
    product = account.pairs[0]
    assert product.is_expensive
    part = next(part for part, _ in product.members if isinstance(part, BoundsEnvelope))
    assert part.is_expensive
    assert part.max_divergence == posterior.pure_epsilon
    assert part.order_limit == posterior.order_limit
    assert part.reverse() is part
    orders, epsilon = np.array([1.5, 3.0]), np.array([-0.4, 0.0, 0.7])
    assert part.renyi(orders) == pytest.approx(posterior.rdp(orders))
    assert np.exp(part.log_delta(epsilon)) == pytest.approx(posterior.delta(epsilon), rel=1e-6)
    assert part.approx_log_delta(epsilon) == pytest.approx(part.log_delta(epsilon), abs=1e-6)
    with_infinity_mass = BoundsEnvelope(bounds=APPROXIMATE.bounds)
    assert with_infinity_mass.max_divergence == np.inf
    assert not with_infinity_mass.is_expensive
    assert BoundsEnvelope(bounds=ZCDPAccountant(rho=0.1).bounds).approx_log_delta(np.array([0.3]))[0] == pytest.approx(
        ZCDPAccountant(rho=0.1).log_delta(0.3)
    )


def test_randomized_response_in_many_categories():
    one = RandomizedResponseAccountant(log_odds=1.2, categories=5, relation=ReplaceOne(n=3))
    account, pair = 2 * one, one.pairs[0]
    for at in (0.0, 0.9, 1.7):
        joint_p, joint_q = (np.add.outer(m, m).ravel() for m in (pair.log_p, pair.log_q))
        truth = np.maximum(np.exp(joint_p) - np.exp(at + joint_q), 0.0).sum()
        assert truth * (1 - 1e-12) <= account.delta(at) <= truth * (1 + 1e-6)


def test_an_empty_composition_is_refused():
    with pytest.raises(ValueError, match="at least one account"):
        Composed(entries=())


def test_groups_do_not_compose_in_parallel():
    """Members of a group may lie in several parts; two at once cost more than the worse part's group of two."""
    answer = RandomizedResponseAccountant(log_odds=1.0, categories=2, relation=ReplaceOne(n=5))
    with pytest.raises(RelationMismatch, match="must not be accounts of groups"):
        answer.group(2) | answer.group(2)
    assert (answer | answer).group(2).delta(0.5) >= (2 * answer).delta(0.5)


def test_parallel_parts_under_another_relation_keep_their_curves():
    parts = GaussianAccountant(sensitivity=1, noise_std=4) | GaussianAccountant(sensitivity=1, noise_std=2)
    moved = parts.with_relation(ReplaceOne(n=5))
    assert moved.relation == ReplaceOne(n=5)
    assert Assumption.STATED in moved.assumptions
    assert moved.epsilon(1e-6) == parts.epsilon(1e-6)
    assert moved.rdp(2.0) == parts.rdp(2.0)


def test_parallel_parts_say_which_records_they_hold_for():
    """A record that moves between two parts costs the sum of both: only fixed positions cost the maximum."""
    pure = LaplaceAccountant(sensitivity=1, scale=1, relation=ReplaceOne(n=5))
    for shared, n in ((False, 10), (True, 5)):
        account = Parallel(parts=(pure, pure), shared=shared)
        assert account.relation == ReplaceOne(n=n)
        assert account.assumptions == pure.assumptions | {Assumption.FIXED_PARTS}
    moving = LaplaceAccountant(sensitivity=1, scale=1)
    account = (moving | moving).to(ReplaceOne(n=5))
    assert account == Parallel(parts=(moving, moving), replaced=ReplaceOne(n=5))
    assert account.relation == ReplaceOne(n=5)
    with pytest.raises(TypeError, match="relation must be a Relation or None, got str"):
        Group(base=moving, size=1, relation="replace-one")
    assert account.epsilon(0.0) == 2.0
    assert account.assumptions == moving.assumptions
    assert repr(account) == f"({moving!r} | {moving!r}).to({ReplaceOne(n=5)!r})"
    for wrong, message in (
        ({"parts": (moving,), "shared": True}, "parts under ReplaceOne"),
        ({"parts": (pure,), "replaced": ReplaceOne(n=5)}, "parts under AddRemove"),
        ({"parts": (moving,), "replaced": ReplaceOne(n=5, unit="user")}, "of the same unit"),
        ({"parts": (pure, replace(pure, relation=ReplaceOne(n=6))), "shared": True}, "under one relation"),
    ):
        with pytest.raises(ValueError, match=message):
            Parallel(**wrong)
    with pytest.raises(TypeError, match="ReplaceOne or None"):
        Parallel(parts=(moving,), replaced="all")


@pytest.mark.parametrize(
    ("size", "base", "relation", "known"),
    [
        (1, AddRemove(), AddRemove(), True),
        (1, AddRemove(), AddRemove(members=5), False),
        (5, AddRemove(), AddRemove(members=3), True),
        (1, AddRemove(), ReplaceOne(n=1000), False),
        (2, AddRemove(), ReplaceOne(n=1000), True),
        (3, AddRemove(), ReplaceOne(n=1000, members=2), False),
        (2, AddRemove(), ReplaceOne(n=1000, unit="user"), False),
        (2, AddRemove(), AddRemove(unit="user"), False),
        (3, ReplaceOne(n=9), ReplaceOne(n=9, members=2), True),
        (1, ReplaceOne(n=9), ReplaceOne(n=9, members=2), False),
        (1, ReplaceOne(n=9), ReplaceOne(n=10), False),
        (2, ReplaceOne(n=9), AddRemove(), False),
    ],
)
def test_a_relation_that_does_not_follow_from_a_group_is_stated(size, base, relation, known):
    account = Group(base=LaplaceAccountant(sensitivity=1, scale=1, relation=base), size=size, relation=relation)
    assert (Assumption.STATED not in account.assumptions) == known
    assert account.epsilon(0.0) == float(size)


def test_a_target_reads_the_renyi_curve():
    account = ZCDPAccountant(rho=0.1)
    assert DP(epsilon=float(account.epsilon(1e-6)), delta=1e-6)._excess(account) == pytest.approx(0.0, abs=1e-6)


@pytest.mark.parametrize(
    "chosen",
    [
        SelectionAccountant(base=ZCDPAccountant(rho=0.1), repetitions=TruncatedNegativeBinomial.geometric(mean=3)),
        ConditionalAccountant(base=ZCDPAccountant(rho=0.1), event_probability=0.1),
    ],
    ids=["best", "good enough"],
)
def test_selections_compose_by_their_renyi_curves(chosen):
    total = chosen + GaussianAccountant(sensitivity=1, noise_std=5)
    assert [route.name for route in total.explain(1e-6)] == ["Rényi curve at its best order", "pure guarantee"]


def test_one_observation_has_one_run():
    graph = ProfileGraph(profiles=[0.2, 0.6], edges=[(0, 1)])
    with pytest.raises(RelationMismatch, match="repeated runs use the same observation"):
        SelectionAccountant(base=OneBit(graph=graph, epsilon=1.0).accountant, repetitions=Poisson(mean=3.0))


@pytest.mark.filterwarnings("error")
def test_a_release_that_tells_nothing_adds_nothing():
    """A kernel whose rows are equal: its outcome does not depend on the data."""
    nothing = KernelAccountant(base=GAUSSIAN, matrix=[[0.0, 1.0], [0.0, 1.0]])
    assert (nothing.pure_epsilon, nothing.delta(0.0)) == (0.0, 0.0)
    composed = Composed(entries=((PURE, 1), (nothing, 3)))
    assert composed.delta([-1.0, 0.1]) == pytest.approx(PURE.delta([-1.0, 0.1]), rel=1e-15)
    assert composed.rdp([1.5, 8.0]) == pytest.approx(PURE.rdp([1.5, 8.0]), rel=1e-15)
    assert composed.group(2).epsilon(0.01) == PURE.group(2).epsilon(0.01)
    assert Composed(entries=((nothing, 5),)).epsilon(0.0) == 0.0

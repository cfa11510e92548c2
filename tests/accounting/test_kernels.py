"""Kernels after a private output: constants and bounds against enumeration, exact curves against exact sums."""

import itertools

import mpmath as mp
import numpy as np
import pytest
from scipy.spatial import distance

import privsample as ps
from privsample import KernelAccountant, PureAccountant, RandomizedResponseAccountant, ReplaceOne
from privsample.accounting.engine.routes import routes
from privsample.accounting.loss.pair import DiscretePair
from privsample.accounting.postprocessing.kernels import contracted_loss
from privsample.accounting.postprocessing.mixing import MixingConstants
from tests.accounting.strategies import Finite
from tests.counting import counted

RELATION = ReplaceOne(n=3)


def kernel(rng, states, outcomes=None):
    """A random kernel: dense, peaked, lazy, or with zeros."""
    outcomes = outcomes or states
    rows = rng.dirichlet(np.full(outcomes, rng.choice([0.1, 1.0, 10.0])), states)
    rows = np.where(rng.random(rows.shape) < rng.choice([0.0, 0.3]), 0.0, rows) + 1e-300 * (
        rows == rows.max(1)[:, None]
    )
    rows[np.arange(states), rng.integers(outcomes, size=states)] += 1e-3
    return rows / rows.sum(axis=1, keepdims=True)


def hockey_stick(p, q, epsilon):
    """In 40 digits."""
    t = mp.exp(mp.mpf(float(epsilon)))
    return sum((max(mp.mpf(float(x)) - t * mp.mpf(float(y)), mp.mpf(0)) for x, y in zip(p, q, strict=True)), mp.mpf(0))


def test_constants_are_what_they_are_defined_to_be(rng):
    for _ in range(40):
        rows = kernel(rng, int(rng.integers(2, 6)), int(rng.integers(2, 6)))
        found = MixingConstants(matrix=rows)
        with mp.workdps(40):
            exact = [[mp.mpf(float(x)) / sum(mp.mpf(float(y)) for y in row) for x in row] for row in rows]
            columns = list(zip(*exact, strict=True))
            pairs = list(itertools.permutations(exact, 2))
            apart = max(sum(abs(x - y) for x, y in zip(a, b, strict=True)) / 2 for a, b in pairs)
            doeblin = 1 - sum(min(column) for column in columns)
            ratio = max(max(c) / min(c) if min(c) > 0 else mp.inf for c in columns if max(c) > 0)
            assert 0 <= found.dobrushin - apart < 1e-13 or found.dobrushin == 1.0
            assert 0 <= found.doeblin - doeblin < 1e-13 or found.doeblin == 1.0
            assert (ratio == mp.inf) == np.isinf(found.log_range)
            if np.isfinite(found.log_range):
                assert 0 <= found.log_range - mp.log(ratio) < 1e-12
                assert found.ultra_mixing == pytest.approx(float(1 - 1 / ratio), rel=1e-9)
            for epsilon in (1e-6, 0.3, 2.0, 30.0):
                t = mp.exp(epsilon)
                most = max(sum(max(x - t * y, 0) for x, y in zip(a, b, strict=True)) for a, b in pairs)
                got = float(found.hockey_stick(epsilon))
                assert most <= got <= most * (1 + mp.mpf(10) ** -12) + (1e-13 if epsilon < 0.1 else 0)
                common = [min(column) / (1 - doeblin) for column in columns] if doeblin < 1 else None
                beyond = found.beyond_common(epsilon)
                if common is not None and doeblin < 1 - mp.mpf(10) ** -12:
                    truth = max(sum(max(x - t * w, 0) for x, w in zip(row, common, strict=True)) for row in exact)
                    assert truth <= beyond <= truth * (1 + mp.mpf(10) ** -10) + mp.mpf(10) ** -10


def test_edges_of_the_constants():
    same = MixingConstants(matrix=np.full((3, 4), 0.25))
    assert (same.dobrushin, same.doeblin, same.log_range, same.ultra_mixing) == (0.0, 0.0, 0.0, 0.0)
    assert same.hockey_stick([0.0, 1.0]).tolist() == [0.0, 0.0]
    assert same.beyond_common(0.0) == 0.0
    apart = MixingConstants(matrix=np.eye(3))
    assert (apart.dobrushin, apart.doeblin, apart.ultra_mixing) == (1.0, 1.0, 1.0)
    assert apart.hockey_stick([0.0, 5.0, np.inf]).tolist() == [1.0, 1.0, 1.0]
    assert apart.beyond_common(1.0) == 1.0
    assert MixingConstants(matrix=[[1.0, 1e-320], [1.0, 0.0]]).hockey_stick(1.0) <= 2e-320


def test_a_kernel_of_many_states(rng):
    """Two passes over the pairs of states, in C: no call for each pair, and no table of all differences."""
    rows = rng.dirichlet(np.full(400, 0.5), 400)
    found = MixingConstants(matrix=rows)
    with counted() as cost:
        values = found.dobrushin, found.doeblin, found.ultra_mixing, float(found.hockey_stick(0.5))
    assert cost.calls[distance.pdist.__name__] + cost.calls[distance.cdist.__name__] == 2
    assert cost.calls.total() < 10_000  # there are 79,800 pairs
    assert cost.numbers < 4_000_000  # there are 31,920,000 differences
    one, other = rng.integers(400, size=(2, 2000))
    assert np.abs(rows[one] - rows[other]).sum(axis=1).max() / 2 <= values[0]
    assert np.maximum(rows[one] - np.exp(0.5) * rows[other], 0.0).sum(axis=1).max() <= values[3]
    between = float(found.hockey_stick(0.55))
    assert found._largest(0.55) <= between <= values[3]


def bases(rng):
    """A random finite mechanism of one code, by all its neighbours, and distributions of its code."""
    inputs, codes = int(rng.integers(2, 4)), int(rng.integers(2, 6))
    distributions = rng.dirichlet(np.full(codes, rng.choice([0.5, 3.0])), inputs)
    if rng.random() < 0.3:
        distributions[rng.integers(inputs), rng.integers(codes)] = 0.0
        distributions /= distributions.sum(axis=1, keepdims=True)
    return distributions


def discrete(distributions):
    with np.errstate(divide="ignore"):
        logs = np.log(distributions / distributions.sum(axis=1, keepdims=True))
    return tuple(DiscretePair(log_p=p, log_q=q) for p, q in itertools.permutations(logs, 2))


EPSILONS = np.array([-1.0, 0.0, 0.01, 0.3, 1.0, 2.5])
ORDERS = np.array([1.01, 2.0, 10.0, 500.0])


def test_bounds_never_undercut_the_exact_curves(rng):
    """More than a hundred cases of kernel, base and epsilon or order; the benchmark counts ten thousand."""
    for case in range(12):
        distributions = bases(rng)
        rows = kernel(rng, distributions.shape[1], int(rng.integers(2, 6)))
        truth = Finite(listed=discrete(distributions @ rows))
        bound = KernelAccountant(base=Finite(listed=discrete(distributions)), matrix=rows)
        assert bound.pairs == ()
        assert bound.kind("delta") == "upper bound"
        delta, base = bound.delta(EPSILONS), bound.base.delta(EPSILONS)
        assert (delta >= truth.delta(EPSILONS) * (1 - 1e-12) - 1e-15).all()
        assert (delta <= base * (1 + 1e-12) + 1e-15).all()
        assert (bound.rdp(ORDERS) >= truth.rdp(ORDERS) * (1 - 1e-11)).all()
        assert bound.pure_epsilon >= truth.pure_epsilon * (1 - 1e-12) - 1e-15
        for log_delta in (-3.0, -20.0) if case % 6 == 0 and np.isfinite(truth.pure_epsilon) else ():
            epsilon = float(truth.epsilon(np.exp(log_delta)))
            assert all(route.epsilon >= epsilon * (1 - 1e-9) - 1e-12 for route in bound.explain(np.exp(log_delta)))


def test_exact_beside_the_bounds(rng):
    for categories in (2, 4):
        base = RandomizedResponseAccountant(log_odds=1.7, categories=categories, relation=RELATION)
        rows = kernel(rng, categories, 3)
        account = KernelAccountant(base=base, matrix=rows)
        odds = np.exp(1.7)
        distributions = (np.ones((categories, categories)) + (odds - 1) * np.eye(categories)) / (odds + categories - 1)
        truth = Finite(listed=discrete(distributions @ rows))
        assert account.kind("rdp") == account.kind("delta") == account.kind("epsilon") == "exact"
        assert account.delta(EPSILONS) == pytest.approx(truth.delta(EPSILONS), rel=1e-9, abs=1e-15)
        assert account.rdp(ORDERS) == pytest.approx(truth.rdp(ORDERS), rel=1e-9)
        exact, *bounds = account.explain(1e-2)
        assert exact.name in ("output distributions", "pure guarantee")
        assert len(bounds) >= 3
        assert all(route.epsilon >= float(account.epsilon(1e-2)) * (1 - 1e-9) for route in bounds)
        assert len(routes(account.bounds, 1e-2)) == 2


def test_two_kernels_are_one(rng):
    base = RandomizedResponseAccountant(log_odds=2.0, categories=3, relation=RELATION)
    rows = rng.dirichlet(np.ones(3), 3)
    twice = KernelAccountant(base=KernelAccountant(base=base, matrix=rows), matrix=rows)
    once = KernelAccountant(base=base, matrix=rows).after(2)
    assert once.epsilon(1e-3) == pytest.approx(float(twice.epsilon(1e-3)), rel=1e-9)
    assert once.after(1) == once
    with pytest.raises(ValueError, match="cannot be iterated"):
        KernelAccountant(base=base, matrix=rng.dirichlet(np.ones(2), 3)).after(2)


def test_groups_change_each_code_by_itself(rng):
    base = RandomizedResponseAccountant(log_odds=2.0, categories=3, relation=RELATION)
    rows = rng.dirichlet(np.ones(3), 3)
    account = KernelAccountant(base=base, matrix=rows)
    assert account.group(2).rdp(ORDERS) == pytest.approx(2 * account.rdp(ORDERS))
    assert account.group(2).relation == RELATION.group(2)
    stated = KernelAccountant(base=PureAccountant(stated_epsilon=30.0), matrix=rows)
    assert stated.group(1) == stated  # of unknown codes, two may change, each seen through the kernel by itself
    assert stated.group(2).pure_epsilon >= 2 * stated.constants.log_range * (1 - 1e-9)


def test_a_pure_guarantee_contracts_exactly(rng):
    for epsilon, log_range in [*(10.0 ** rng.uniform(-5, 1.6, (200, 2))).tolist(), (27.0, 28.0), (1.0, 1.0)]:
        got = contracted_loss(epsilon, log_range)
        with mp.workdps(60):
            p, r = 1 / (1 + mp.exp(-mp.mpf(epsilon))), mp.exp(mp.mpf(log_range))
            truth = mp.log((p * r + 1 - p) / ((1 - p) * r + p))
            assert 0 <= got / truth - 1 < 1e-14  # attained
    assert contracted_loss(np.inf, np.inf) == np.inf
    assert contracted_loss(0.0, np.inf) == 0.0
    assert contracted_loss(np.inf, 3.0) == 3.0
    assert contracted_loss(2.0, 700.0) == pytest.approx(2.0)
    assert contracted_loss(650.0, 650.0) == pytest.approx(650.0 - np.log(2))
    assert contracted_loss(1e-200, 1e-200) <= 1e-300
    tiny = KernelAccountant(base=PureAccountant(stated_epsilon=1e-6), matrix=[[0.6, 0.4], [0.4, 0.6]])
    assert tiny.pure_epsilon == pytest.approx(0.2e-6, rel=1e-6)


def test_what_stands_in_explain(rng):
    base = PureAccountant(stated_epsilon=2.0)
    account = KernelAccountant(base=base, matrix=rng.dirichlet(np.ones(3), 2) * 0.5 + 1 / 6)
    names = " ".join(route.name for route in account.explain(1e-3))
    assert all(word in names for word in ("(gamma, epsilon)-Dobrushin", "Doeblin", "ultra-mixing", "Rényi", "pure"))
    assert account.constants.dobrushin < 1
    assert "Theorem 1" in account.source
    assert base.source in account.source


def test_profiles_go_through_too():
    graph = ps.ProfileGraph(profiles={"a": 0.2, "b": 0.6}, edges=[("a", "b")])
    inner = ps.OneBit(graph=graph, epsilon=1.0).accountant
    account = KernelAccountant(base=inner, matrix=[[0.9, 0.1], [0.3, 0.7]])
    assert account.kind("delta") == "exact"
    assert account.pure_epsilon < inner.pure_epsilon
    alone = ps.ProfileGraph(profiles={"a": 0.2, "b": 0.6}, edges=[])
    none = KernelAccountant(base=ps.OneBit(graph=alone, epsilon=1.0).accountant, matrix=np.eye(2))
    assert none.epsilon(0.0) == 0.0


def test_what_forgets_costs_nothing():
    failing = ps.ApproximateAccountant(stated_epsilon=1.0, stated_delta=0.1)
    account = KernelAccountant(base=failing, matrix=np.full((3, 2), 0.5))
    assert account.infinity_mass == 0.0
    assert account.epsilon(0.0) == 0.0
    assert account.delta([0.0, 1.0]).tolist() == [0.0, 0.0]
    assert (account.rdp(ORDERS) == 0).all()
    mixed = KernelAccountant(base=failing, matrix=[[0.9, 0.1], [0.5, 0.5]])
    assert mixed.infinity_mass == 0.1
    assert mixed.zcdp == np.inf
    assert mixed.delta(2.0) < failing.delta(2.0)
    nothing = KernelAccountant(base=PureAccountant(stated_epsilon=1.0), matrix=np.eye(2))
    assert nothing.epsilon(1e-3) <= PureAccountant(stated_epsilon=1.0).epsilon(1e-3) * (1 + 1e-12)


def test_many_codes_have_bounds_only():
    base = RandomizedResponseAccountant(log_odds=1.0, categories=120, relation=RELATION)
    account = KernelAccountant(base=base, matrix=0.5 * np.eye(120) + 0.5 / 120)
    assert account.pairs == ()
    assert account.epsilon(1e-3) < base.epsilon(1e-3)


@pytest.mark.parametrize(
    ("matrix", "error", "match"),
    [
        ([[0.5, 0.5], [0.5, 0.4]], ValueError, "row 1 of matrix adds up to 0.9"),
        ([[1.5, -0.5], [0.5, 0.5]], ValueError, "row 0 of matrix holds -0.5"),
        ([[0.5, 0.5], [np.nan, 0.5]], ValueError, "row 1 of matrix holds nan"),
        ([[0.5, 0.5], [np.inf, 0.5]], ValueError, "row 1 of matrix adds up to inf"),
        ([[0.5, 0.5]], ValueError, "one row for each of the base's 2 codes"),
        ([0.5, 0.5], ValueError, "shape"),
        ([], ValueError, "shape"),
        ([["a"]], TypeError, "real numbers"),
        ([["1", "0"], ["0", "1"]], TypeError, "real numbers"),
        (np.eye(2) + 0j, TypeError, "real numbers"),
        ([[1.0], [0.5, 0.5]], TypeError, "real numbers"),
    ],
)
def test_bad_matrices(matrix, error, match):
    base = RandomizedResponseAccountant(log_odds=1.0, categories=2, relation=RELATION)
    with pytest.raises(error, match=match):
        KernelAccountant(base=base, matrix=matrix)


def test_bad_base():
    with pytest.raises(TypeError, match="must be an account"):
        KernelAccountant(base=ps.RandomizedResponse(log_odds=1.0, relation=RELATION), matrix=np.eye(2))


def test_groups_of_profiles_go_through_the_kernel_by_their_own_account():
    graph = ps.ProfileGraph(profiles={"a": 0.2, "b": 0.4, "c": 0.7}, edges=[("a", "b"), ("b", "c")])
    base = ps.OneBitCluster(graph=graph, epsilon=0.2).accountant
    account = KernelAccountant(base=base, matrix=((0.7, 0.3), (0.2, 0.8)))
    assert account.group(2) == KernelAccountant(base=base.group(2), matrix=account.matrix)
    assert account.group(2).delta(0.1) > account.delta(0.1)


def test_columns_that_hardly_hold_anything_promise_nothing_by_themselves():
    kernel = KernelAccountant(base=PureAccountant(stated_epsilon=1.0), matrix=[[0.5, 0.5], [1.0, 1e-310]])
    assert kernel.constants.log_range == np.inf
    assert 0.0 < kernel.delta(0.0) <= 0.5 * np.tanh(0.5) * (1 + 1e-9)

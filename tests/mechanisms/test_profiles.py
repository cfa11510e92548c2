"""Profile-based mechanisms: every edge kept on the stored doubles, optimal, drawn as written."""

import itertools
from fractions import Fraction

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import special
from scipy.optimize import linprog

import privsample as ps
from privsample.errors import NumericalFailure
from privsample.mechanisms.profiles import program as profile_program
from privsample.mechanisms.profiles.program import Program, SolverFailed, programs
from privsample.mechanisms.profiles.repair import protects_edges, repaired
from privsample.mechanisms.profiles.responses import edge_flips

CHAIN = ps.ProfileGraph(
    profiles={"a": [0.5, 0.3, 0.2, 0.0], "b": [0.2, 0.3, 0.5, 0.0], "c": [0.1, 0.2, 0.3, 0.4]},
    edges=[("a", "b"), ("b", "c")],
)
BITS = ps.ProfileGraph(profiles=[0.9, 0.6], edges=[(0, 1)])
CLASSES = (ps.SmoothCategorical, ps.SmoothOneBit, ps.OneBitCluster, ps.LocalResponse)


def broken_edges(mechanism):
    """Edges and symbols at which one end's distribution exceeds e^epsilon times the other's, in rational numbers."""
    distributions = []
    for (_, distribution), matrix in zip(mechanism.graph.profiles, mechanism.matrices, strict=True):
        p, columns = [Fraction(x) for x in distribution], range(len(distribution))
        distributions.append([sum(p[x] * Fraction(matrix[x, y]) for x in columns) / sum(p) for y in columns])
    with mp.workdps(60):
        factor = Fraction(int(mp.floor(mp.exp(mp.mpf(mechanism.epsilon)) * 10**40)), 10**40)
    both = [tuple(pair) for i, j in mechanism.graph.ends.tolist() for pair in ((i, j), (j, i))]
    symbols = range(mechanism.graph.symbols)
    return [(a, b, y) for a, b in both for y in symbols if distributions[a][y] > factor * distributions[b][y]]


def reference(graph, epsilon, weights=None):
    """The least largest weighted entry, and the least distortion beside it: all entries as unknowns, by another method.

    Program (7.7) as it is printed, every matrix entry and t as an unknown, dense, by HiGHS's dual simplex; the library
    solves cuts over output distributions and flows by its interior point method.
    """
    distributions, ends = graph.distributions, [*graph.ends.tolist(), *graph.ends[:, ::-1].tolist()]
    size, symbols = distributions.shape
    count = size * symbols * symbols
    entry = np.arange(count).reshape(size, symbols, symbols)
    rows, sums = [], []
    for i in range(size):
        for x in range(symbols):
            sums.append(np.isin(np.arange(count + 1), entry[i, x]).astype(float))
            for y in range(symbols):
                if x != y and distributions[i, x] > 0:
                    row = np.zeros(count + 1)
                    row[[entry[i, x, y], count]] = 1.0 if weights is None else weights[i], -1.0
                    rows.append(row)
    for a, b in ends:
        for y in range(symbols):
            row = np.zeros(count + 1)
            row[entry[a, :, y]] += np.exp(-epsilon) * distributions[a]
            row[entry[b, :, y]] -= distributions[b]
            rows.append(row)
    limits = {"A_ub": np.array(rows), "b_ub": np.zeros(len(rows)), "A_eq": np.array(sums), "b_eq": np.ones(len(sums))}
    options = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}
    cost = np.zeros(count + 1)
    cost[-1] = 1.0
    most = [(0, 1)] * count + [(0, None)]
    first = linprog(cost, bounds=most, method="highs-ds", options=options, **limits).fun
    kept_mass = np.zeros(count + 1)
    kept_mass[np.einsum("kxx->kx", entry)] = -distributions
    bounds = [(0, 1)] * count + [(0, first + 1e-9)]
    second = linprog(kept_mass, bounds=bounds, method="highs-ds", options=options, **limits)
    return first, size + second.fun


@st.composite
def graphs(draw, symbols=None, least=2):
    d = symbols or draw(st.integers(2, 4))
    m = draw(st.integers(least, 5))
    mass = st.sampled_from([0.0, 1e-7, 0.01, 0.3]) | st.floats(0.01, 1.0)
    distributions = []
    for _ in range(m):
        distribution = np.array(draw(st.lists(mass, min_size=d, max_size=d))) + 0.0
        distribution[draw(st.integers(0, d - 1))] += 0.25
        distributions.append(distribution / distribution.sum())
    if draw(st.booleans()):
        distributions[1] = distributions[0]
    pairs = [(i, j) for i in range(m) for j in range(i + 1, m)]
    edges = draw(st.lists(st.sampled_from(pairs), min_size=1, unique=True))
    return ps.ProfileGraph(profiles=np.array(distributions), edges=edges)


epsilons = st.sampled_from([1e-3, 0.03, 0.5, 2.0, 7.0, 20.0]) | st.floats(1e-3, 20.0)


@given(graphs(), epsilons)
def test_every_edge_is_kept_and_the_largest_change_is_least(graph, epsilon):
    made = ps.SmoothCategorical(graph=graph, epsilon=epsilon)
    assert broken_edges(made) == []
    least, distortion = reference(graph, epsilon)
    assert made.largest_change == pytest.approx(least, abs=1e-7)
    assert made.largest_change <= made.baseline + 1e-10  # the margin of the repair
    if graph.components.max() > 0:  # the reference lets all components change as much as the worst needs to
        return
    # 1e-9 more of the bound, as the reference has, can buy 1 / epsilon or e^epsilon times as much
    assert made.distortion.sum() <= distortion + 1e-7 + 1e-9 * (1 / epsilon + min(np.exp(epsilon), 1e4)) * len(graph)


@given(graphs(symbols=2), epsilons)
def test_bits(graph, epsilon):
    smooth = ps.SmoothOneBit(graph=graph, epsilon=epsilon)
    cluster = ps.OneBitCluster(graph=graph, epsilon=epsilon)
    free = ps.SmoothCategorical(graph=graph, epsilon=epsilon)
    local = ps.LocalResponse(graph=graph, epsilon=epsilon)
    made = [free, smooth, cluster, local]
    for mechanism in made:
        assert broken_edges(mechanism) == []
    for better, worse in itertools.pairwise(made):
        assert better.largest_change <= worse.largest_change + 1e-8
    assert local.largest_change == pytest.approx(1 / (1 + np.exp(epsilon)), abs=1e-10)
    for flips in (smooth, cluster):
        assert np.array_equal(flips.matrices[:, 0, 1], flips.matrices[:, 1, 0])
        assert flips.matrices[:, 0, 1].max() <= 0.5


@given(st.floats(0, 1), st.floats(0, 1), epsilons)
def test_one_bit_in_closed_form_against_bisection(p, q, epsilon):
    p, q = (x if x > 1e-12 else 0.0 for x in (p, q))
    graph = ps.ProfileGraph(profiles=[p, q], edges=[(0, 1)])

    def hidden(flip):
        distributions = [np.array([x + flip * (1 - 2 * x), 1 - x - flip * (1 - 2 * x)]) for x in (p, q)]
        return np.all(distributions[0] <= np.exp(epsilon) * distributions[1]) and np.all(
            distributions[1] <= np.exp(epsilon) * distributions[0]
        )

    low, high = 0.0, 0.5
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (low, middle) if hidden(middle) else (middle, high)
    made = ps.OneBit(graph=graph, epsilon=epsilon)
    assert made.largest_change == pytest.approx(0.0 if hidden(0.0) else high, abs=1e-9)
    assert broken_edges(made) == []


def test_flips_that_a_solver_gives_below_zero_are_none():
    distributions = [[0.9999999999864172, 1.3582862207898038e-11], [1.0, 4.100695492947186e-46]]
    made = ps.SmoothOneBit(graph=ps.ProfileGraph(profiles=distributions, edges=[(0, 1)]), epsilon=0.05)
    assert broken_edges(made) == []


def test_the_positive_parts_matter():
    assert ps.OneBit(graph=BITS, epsilon=1).largest_change == pytest.approx(0.0649094320, abs=1e-9)
    program = programs(BITS, 1.0)[0]
    assert edge_flips(program) == pytest.approx([0.0649094320])
    opposite = ps.ProfileGraph(profiles=[0.0, 1.0], edges=[(0, 1)])
    assert ps.OneBit(graph=opposite, epsilon=1).largest_change == pytest.approx(1 / (1 + np.e))


@pytest.mark.parametrize("epsilon", [1e-9, 1e-3, 1.0, 20.0, 60.0, 700.0, 5e3])
@pytest.mark.parametrize("made", CLASSES)
def test_identical_and_disjoint_profiles(made, epsilon):
    same = made(graph=ps.ProfileGraph(profiles=[[0.3, 0.7]] * 3, edges=[(0, 1), (1, 2)]), epsilon=epsilon)
    assert same.accountant.pure_epsilon < 1e-14
    if made is not ps.LocalResponse:
        assert np.array_equal(same.matrices, np.tile(np.eye(2), (3, 1, 1)))
    apart = made(graph=ps.ProfileGraph(profiles=np.eye(2), edges=[(0, 1)]), epsilon=epsilon)
    assert broken_edges(apart) == []
    assert apart.largest_change == pytest.approx(special.expit(-epsilon), abs=1e-7)


def test_disjoint_profiles_of_many_symbols_need_randomized_response():
    distributions = np.eye(6)
    edges = [(i, j) for i in range(6) for j in range(i + 1, 6)]
    made = ps.SmoothCategorical(graph=ps.ProfileGraph(profiles=distributions, edges=edges), epsilon=1.0)
    assert made.largest_change == pytest.approx(1 / (np.e + 5), abs=1e-11)
    assert broken_edges(made) == []


def test_any_local_mechanism_keeps_every_edge():
    rng = np.random.default_rng(3)
    for _ in range(20):
        graph = ps.ProfileGraph(profiles=rng.dirichlet(np.full(5, 0.3), 4), edges=[(0, 1), (1, 2), (0, 3)])
        local = ps.LocalResponse(graph=graph, epsilon=0.7)
        assert local.accountant.pure_epsilon < 0.7
        assert local.matrices[0, 0, 1] == pytest.approx(1 / (np.exp(0.7) + 4), abs=1e-12)


def test_components_are_apart():
    both = ps.ProfileGraph(profiles=[0.1, 0.9, 0.5, 0.6, 0.3], edges=[(0, 1), (2, 3)])
    for made in (ps.SmoothOneBit, ps.OneBitCluster, ps.SmoothCategorical):
        together = made(graph=both, epsilon=0.1)
        alone = made(graph=ps.ProfileGraph(profiles=[0.5, 0.6], edges=[(0, 1)]), epsilon=0.1)
        np.testing.assert_allclose(together.matrices[2:4], alone.matrices, atol=1e-9)
        np.testing.assert_array_equal(together.matrices[4], np.eye(2))


def test_complete_graphs_by_an_envelope():
    rng = np.random.default_rng(5)
    distributions = rng.dirichlet(np.ones(4), 6)
    groups = ps.ProfileGraph(profiles=distributions, edges={"all": range(6)})
    made = ps.SmoothCategorical(graph=groups, epsilon=0.3)
    assert broken_edges(made) == []
    assert made.largest_change == pytest.approx(reference(groups, 0.3)[0], abs=1e-7)


GRAPH = ps.ProfileGraph(profiles=np.array([[0.7, 0.2, 0.1], [0.2, 0.2, 0.6], [0.3, 0.4, 0.3]]), edges=[(0, 1), (1, 2)])


def largest(made):
    """The largest off-diagonal entry of each profile."""
    return (made.matrices * ~np.eye(made.graph.symbols, dtype=bool)).max(axis=(1, 2))


@pytest.mark.parametrize("weights", [[1, 1, 1], [0.6, 0.3, 0.1], [1, 9, 2], [0.01, 1, 1], [5, 0, 5], [0, 0, 7]])
@pytest.mark.parametrize("epsilon", [0.1, 0.5])
def test_the_largest_weighted_change_is_least(weights, epsilon):
    made = ps.SmoothCategorical(graph=GRAPH, epsilon=epsilon, weights=weights)
    least, _ = reference(GRAPH, epsilon, np.array(weights, dtype=float))
    assert broken_edges(made) == []
    assert (largest(made) * weights).max() == pytest.approx(least, abs=2e-8 * max(weights))
    scaled = ps.SmoothCategorical(graph=GRAPH, epsilon=epsilon, weights=1e-12 * np.array(weights))
    np.testing.assert_allclose(largest(scaled) * weights, largest(made) * weights, atol=1e-6)


def test_equal_weights_do_not_solve_the_weighted_problem():
    weights = np.array([0.6, 0.3, 0.1])
    equal = ps.SmoothCategorical(graph=GRAPH, epsilon=0.5)
    least, _ = reference(GRAPH, 0.5, weights)
    assert (largest(equal) * weights).max() > 1.2 * least
    weighted = ps.SmoothCategorical(graph=GRAPH, epsilon=0.5, weights=weights)
    assert weighted.largest_change > equal.largest_change + 0.01
    assert largest(weighted)[0] < largest(equal)[0] - 0.01


@pytest.mark.parametrize("weights", [(1.0, 1.0), (1.0, 3.0), (4.0, 1.0), (1.0, 0.0)])
def test_weighted_flips_by_a_grid(weights):
    graph, epsilon = ps.ProfileGraph(profiles=[0.9, 0.4], edges=[(0, 1)]), 0.3
    made = ps.SmoothOneBit(graph=graph, epsilon=epsilon, weights=weights)
    flips = np.linspace(0, 1, 1001)
    first, second = np.meshgrid(flips, flips, indexing="ij")
    p, q = 0.9 + first * (1 - 1.8), 0.4 + second * (1 - 0.8)
    allowed = np.ones(p.shape, dtype=bool)
    for one, other in ((p, q), (1 - p, 1 - q)):
        allowed &= (one <= np.exp(epsilon) * other) & (other <= np.exp(epsilon) * one)
    best = np.maximum(weights[0] * first, weights[1] * second)[allowed].min()
    mine = (largest(made) * weights).max()
    assert broken_edges(made) == []
    assert best - max(weights) * 2e-3 <= mine <= best + 1e-8


def test_weights_of_one_component_do_not_change_another():
    graph = ps.ProfileGraph(profiles=[0.1, 0.9, 0.5, 0.8, 0.3], edges=[(0, 1), (2, 3)])
    for made in (ps.SmoothOneBit, ps.SmoothCategorical):
        one = made(graph=graph, epsilon=0.1, weights=[1, 2, 0, 0, 1])
        other = made(graph=graph, epsilon=0.1, weights=[100, 200, 1, 1, 0])
        np.testing.assert_allclose(largest(one), largest(other), atol=1e-7)


@given(graphs(), epsilons, st.lists(st.sampled_from([0.0, 0.05, 0.5, 1.0, 3.0]), min_size=5, max_size=5))
def test_every_edge_is_kept_at_any_weights(graph, epsilon, weights):
    made = ps.SmoothCategorical(graph=graph, epsilon=epsilon, weights=weights[: len(graph)])
    assert broken_edges(made) == []
    equal = ps.SmoothCategorical(graph=graph, epsilon=epsilon)
    for part in range(graph.components.max() + 1):
        own = graph.components == part
        w = np.array(weights[: len(graph)])[own]
        if w.max() > 0:
            occurring = np.where((graph.distributions > 0)[:, :, None], made.matrices, 0)
            changes = (occurring * ~np.eye(graph.symbols, dtype=bool)).max(axis=(1, 2))[own] / w.max() * w
            assert changes.max() <= equal.largest_change + 1e-7


def test_weights_of_zero_everywhere_count_as_ones():
    made = ps.SmoothCategorical(graph=GRAPH, epsilon=0.5, weights=[0, 0, 0])
    assert made.largest_change == pytest.approx(ps.SmoothCategorical(graph=GRAPH, epsilon=0.5).largest_change, abs=1e-8)


def test_a_cost_of_ones_own_is_least():
    graph = ps.ProfileGraph(profiles=[[0.6, 0.3, 0.1], [0.1, 0.3, 0.6]], edges=[(0, 1)])
    steps = np.abs(np.subtract.outer(np.arange(3), np.arange(3))).astype(float)

    def expected(made):
        return np.einsum("kx,kxy,xy->", graph.distributions, made.matrices, steps)

    ordinal = ps.SmoothCategorical(graph=graph, epsilon=0.5, cost=steps)
    plain = ps.SmoothCategorical(graph=graph, epsilon=0.5)
    assert broken_edges(ordinal) == []
    assert expected(ordinal) < expected(plain) - 1e-3
    full = ps.SmoothCategorical(graph=graph, epsilon=0.5, cost=np.stack([steps, steps]))
    assert expected(full) == pytest.approx(expected(ordinal), abs=1e-8)
    for unit in (1e-12, 1e12, 1e300):
        scaled = ps.SmoothCategorical(graph=graph, epsilon=0.5, cost=unit * steps)
        assert expected(scaled) == pytest.approx(expected(ordinal), abs=1e-8)
    factor = np.exp(0.5)  # by hand: what 0 and 2 must give up, symbol by symbol, moved by one step each
    assert expected(ordinal) <= 2 * 2 * (0.6 - 0.1 * factor) / (1 + factor) + 1e-6
    useless = ps.SmoothCategorical(graph=graph, epsilon=5.0, cost=-steps)
    assert useless.distortion.min() > 0.5


@pytest.mark.parametrize(
    ("cost", "weights"),
    [(1.7e308, (1.0, 1.0)), (1e300, (1e300, 1e12)), (1.0, (1.7e308, 1.7e308)), (5e-324, (5e-324, 5e-324))],
)
def test_costs_and_weights_near_the_ends_of_doubles_act_by_their_ratios(cost, weights):
    graph = ps.ProfileGraph(profiles=[[0.6, 0.3, 0.1], [0.1, 0.3, 0.6]], edges=[(0, 1)])
    signs = np.where(np.eye(3) > 0, -1.0, 1.0)
    extreme = ps.SmoothCategorical(graph=graph, epsilon=0.5, cost=cost * signs, weights=weights)
    usual = ps.SmoothCategorical(graph=graph, epsilon=0.5, cost=signs, weights=np.array(weights) / max(weights))
    assert broken_edges(extreme) == []
    np.testing.assert_allclose(extreme.matrices, usual.matrices, atol=1e-8)


def test_costs_that_leave_symbols_unused_keep_every_edge():
    rng = np.random.default_rng(5)
    for _ in range(20):
        size, symbols = rng.integers(2, 5, 2)
        graph = ps.ProfileGraph(
            profiles=rng.dirichlet(np.full(symbols, 0.5), size), edges=[(k, k + 1) for k in range(size - 1)]
        )
        cost = rng.standard_normal((size, symbols, symbols))
        made = ps.SmoothCategorical(graph=graph, epsilon=float(rng.choice([0.01, 0.1, 1.0])), cost=cost)
        assert broken_edges(made) == []


def test_calibration_meets_the_target_from_the_safe_side():
    pure = ps.SmoothOneBit.calibrate(graph=BITS, target=ps.DP(epsilon=0.2))
    assert 0.2 * (1 - 1e-6) < pure.accountant.epsilon(0.0) <= 0.2
    loose = ps.OneBit.calibrate(graph=BITS, target=ps.DP(epsilon=0.2, delta=0.01), observations=3, missing=1)
    assert loose.accountant.epsilon(0.01) <= 0.2
    free = ps.OneBit.calibrate(graph=BITS, target=ps.DP(epsilon=5.0))
    assert np.array_equal(free.matrices[0], np.eye(2))


def test_accounts_of_several_observations():
    one = ps.OneBit(graph=BITS, epsilon=0.5)
    three = ps.OneBit(graph=BITS, epsilon=0.5, observations=3)
    assert one.accountant == ps.ProfileAccountant(
        relation=ps.ProfileEdge(graph=BITS), distributions=one.distributions, stated_epsilon=0.5
    )
    assert three.accountant == one.accountant.independent_observations(3)
    assert three.accountant.pure_epsilon == pytest.approx(1.5)
    with pytest.raises(ValueError, match="releases of one observation"):
        one.accountant + one.accountant


@pytest.mark.parametrize("made", [ps.SmoothCategorical, ps.SmoothOneBit])
@pytest.mark.parametrize("status", [2, 4])
def test_a_solver_that_fails_is_reported_with_the_edge_and_the_margin(made, status, monkeypatch):
    class Answer:
        message = "out of luck"

    Answer.status = status
    monkeypatch.setattr("scipy.optimize.linprog", lambda *_, **__: Answer)
    with pytest.raises(NumericalFailure, match=r"hardest edge is \(0, 1\).* is 1\.38629.*1\.28629 above epsilon"):
        made(graph=BITS, epsilon=0.1)


def test_an_answer_worse_than_randomized_response_gives_way_to_it(monkeypatch):
    monkeypatch.setattr(ps.SmoothOneBit, "_part", lambda self, program: np.full((2, 2, 2), 0.5))
    made = ps.SmoothOneBit(graph=BITS, epsilon=0.1)
    assert made.largest_change == pytest.approx(1 / (1 + np.exp(0.1)), abs=1e-12)


def test_a_solver_that_calls_a_feasible_program_infeasible_is_asked_again():
    distributions = [
        [0.017594058834939377, 9.006698330539584e-05, 0.9823158741817553],
        [0.0, 1.9489432809986273e-09, 0.9999999980510568],
        [1.0, 0.0, 0.0],
        [0.9999999222758021, 7.772419781126353e-08, 0.0],
        [2.1738532265868807e-15, 0.9999999999999978, 0.0],
    ]
    graph = ps.ProfileGraph(profiles=distributions, edges=[(0, 1), (0, 3), (1, 2), (2, 3), (2, 4), (3, 4)])
    made = ps.SmoothCategorical(graph=graph, epsilon=5.0)
    assert broken_edges(made) == []
    assert made.largest_change == pytest.approx(reference(graph, 5.0)[0], abs=1e-7)


def test_distributions_that_no_matrices_have_are_reported(monkeypatch):
    monkeypatch.setattr("privsample.mechanisms.profiles.solver._Entries.least", lambda *_, **__: None)
    with pytest.raises(NumericalFailure, match="second solve finds no matrices"):
        ps.SmoothCategorical(graph=CHAIN, epsilon=0.1)


def test_a_solver_that_fails_on_a_cost_is_reported(monkeypatch):
    monkeypatch.setattr(Program, "least", lambda *_: None)
    graph = ps.ProfileGraph(profiles=[0.5, 0.6])
    with pytest.raises(NumericalFailure, match="infeasible"):
        ps.SmoothCategorical(graph=graph, epsilon=1.0, cost=np.ones((2, 2)))


def test_repair_mends_what_a_solver_leaves_and_refuses_what_is_beyond():
    distributions, ends = CHAIN.distributions, CHAIN.ends
    solved = ps.SmoothCategorical(graph=CHAIN, epsilon=0.5).matrices
    rng = np.random.default_rng(2)
    for size in (1e-12, 1e-9, 1e-6):
        noisy = np.abs(solved + size * rng.standard_normal(solved.shape))
        noisy /= noisy.sum(-1, keepdims=True)
        assert not protects_edges(np.einsum("kx,kxy->ky", distributions, noisy), ends, 0.5)
        mended = repaired(programs(CHAIN, 0.5)[0], noisy, even=False)
        made = ps.SmoothCategorical(graph=CHAIN, epsilon=0.5, matrices=mended)
        assert broken_edges(made) == []
        assert np.abs(mended - solved).max() < 40 * size
    apart = programs(ps.ProfileGraph(profiles=np.eye(2), edges=[(0, 1)]), 1e-3)[0]
    with pytest.raises(SolverFailed, match="too far to be repaired"):
        repaired(apart, np.tile(np.eye(2), (2, 1, 1)), even=False)


def test_the_program_says_what_the_solver_says(monkeypatch):
    class Answer:
        status, message = 1, "iteration limit"

    monkeypatch.setattr("scipy.optimize.linprog", lambda *_, **__: Answer)
    program = programs(BITS, 1.0)[0]
    moves = profile_program.sparse([0], [0], [1.0], (4, 1))
    with pytest.raises(SolverFailed, match="iteration limit"):
        program.least(np.ones(1), np.ones(1), moves)

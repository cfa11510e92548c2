"""Moves of counts against their transition matrices, with wrong moves that must fail."""

import itertools
import math

import numpy as np
import pytest
from scipy import stats

from privsample.inference import count_moves as moves
from tests.inference.count_cases import ALPHA, SCALE, SEEN, SIZES, THETA, chi_square, stationary


def states(size):
    return [s for s in itertools.product(range(size + 1), repeat=3) if sum(s) == size]


def log_noise(state):
    return -np.abs(SEEN - np.array(state)).sum() / SCALE


def log_counts(state, collapsed):
    """Log probability of counts given their sum."""
    if collapsed:
        return stats.dirichlet_multinomial.logpmf(state, ALPHA, sum(state))
    return stats.multinomial.logpmf(state, sum(state), THETA)


def added(state, m, collapsed):
    """Probabilities of the states after m records are added."""
    found = {}
    for extra in states(m):
        share = ALPHA + np.array(state)
        chance = (
            stats.dirichlet_multinomial.pmf(extra, share, m) if collapsed else stats.multinomial.pmf(extra, m, THETA)
        )
        found[tuple(np.add(state, extra))] = float(chance)
    return found


def removed(state, m):
    """Probabilities of the states after m uniformly random records are removed."""
    return {
        tuple(np.subtract(state, less)): math.prod(math.comb(a, b) for a, b in zip(state, less, strict=True))
        / math.comb(sum(state), m)
        for less in states(m)
        if all(a >= b for a, b in zip(state, less, strict=True))
    }


def block_row(state, m, collapsed):
    """Row of the transition matrix of a block of m records; also the least acceptance probability."""
    row, least = {state: 0.0}, 1.0
    for rest, chance in removed(state, m).items():
        for end, more in added(rest, m, collapsed).items():
            accept = min(1.0, math.exp(log_noise(end) - log_noise(state)))
            least = min(least, accept)
            row[end] = row.get(end, 0.0) + chance * more * accept
            row[state] += chance * more * (1 - accept)
    return row, least


def pair_row(state, first, second, m, collapsed):
    """Row of a block of m records of two categories, with the other counts fixed."""
    row, both = {state: 0.0}, state[first] + state[second]
    m = min(m, both)
    if m == 0:
        return {state: 1.0}
    for out in range(m + 1):
        chance = stats.hypergeom.pmf(out, both, state[first], m)
        left = state[first] - out, state[second] - (m - out)
        for back in range(m + 1):
            a, b = ALPHA[first] + left[0], ALPHA[second] + left[1]
            p = THETA[first] / (THETA[first] + THETA[second])
            more = stats.betabinom.pmf(back, m, a, b) if collapsed else stats.binom.pmf(back, m, p)
            if not chance * more > 0:
                continue
            end = list(state)
            end[first], end[second] = left[0] + back, left[1] + m - back
            accept = min(1.0, math.exp(log_noise(end) - log_noise(state)))
            row[tuple(end)] = row.get(tuple(end), 0.0) + chance * more * accept
            row[state] += chance * more * (1 - accept)
    return row


def resize_row(state, m, collapsed):
    """Row of a birth or death of m records, each with probability one half, for N <= 6."""
    row, size = {state: 0.0}, sum(state)
    for sign, ends in ((1, added(state, m, collapsed)), (-1, removed(state, m) if m <= size else {})):
        if not 0 <= size + sign * m < len(SIZES):
            row[state] += 0.5
            continue
        for end, chance in ends.items():
            ratio = SIZES[size + sign * m] - SIZES[size] + log_noise(end) - log_noise(state)
            accept = min(1.0, math.exp(ratio))
            row[end] = row.get(end, 0.0) + 0.5 * chance * accept
            row[state] += 0.5 * chance * (1 - accept)
    return row


def walk_row(state, category, m, collapsed):
    """Row of a random walk on one count, for N <= 6: accepted by the whole target."""
    row = {state: 0.0}
    for sign in (1, -1):
        end = list(state)
        end[category] += sign * m
        if end[category] < 0 or sum(end) >= len(SIZES):
            row[state] += 0.5
            continue
        ratio = log_target(tuple(end), collapsed) - log_target(state, collapsed)
        accept = min(1.0, math.exp(ratio))
        row[tuple(end)] = row.get(tuple(end), 0.0) + 0.5 * accept
        row[state] += 0.5 * (1 - accept)
    return row


def log_target(state, collapsed):
    return SIZES[sum(state)] + log_counts(state, collapsed) + log_noise(state)


def matrix(rows, space):
    place = {state: i for i, state in enumerate(space)}
    whole = np.zeros((len(space), len(space)))
    for state, row in rows.items():
        for end, chance in row.items():
            whole[place[state], place[end]] += chance
    return whole


ALL = [state for size in range(7) for state in states(size)]


@pytest.mark.parametrize("collapsed", [False, True])
def test_the_posterior_is_stationary_for_every_move(collapsed):
    fixed = stationary([log_counts(s, collapsed) + log_noise(s) for s in states(5)])
    for m in (1, 2, 3, 5):
        kernel = matrix({s: block_row(s, m, collapsed)[0] for s in states(5)}, states(5))
        assert kernel.sum(axis=1) == pytest.approx(np.ones(21), abs=1e-14)
        assert np.abs(fixed @ kernel - fixed).max() < 1e-14
        kernel = matrix({s: pair_row(s, 2, 0, m, collapsed) for s in states(5)}, states(5))
        assert np.abs(fixed @ kernel - fixed).max() < 1e-14
    free = stationary([log_target(s, collapsed) for s in ALL])
    for m in (1, 2, 4):
        for rows in (
            {s: resize_row(s, m, collapsed) for s in ALL},
            {s: walk_row(s, 1, m, collapsed) for s in ALL},
        ):
            kernel = matrix(rows, ALL)
            assert kernel.sum(axis=1) == pytest.approx(np.ones(len(ALL)), abs=1e-14)
            assert np.abs(free @ kernel - free).max() < 1e-14


def test_a_single_record_moves_with_at_least_the_guaranteed_probability():
    least = min(block_row(s, 1, False)[1] for s in states(5))
    assert least == pytest.approx(0.16232061, abs=1e-8) == pytest.approx(math.exp(-2 / SCALE))
    weights = stationary([log_counts(s, False) + log_noise(s) for s in states(5)])
    mean = weights @ np.array(states(5))
    assert mean == pytest.approx([1.572620377, 3.053101612, 0.374278011], abs=1e-9)


def run(rng, move, state, *, size, first=0, second=1, collapsed, observed=SEEN[None, :], log_size=SIZES):
    """One move of the compiled code from a state."""
    share = ALPHA if collapsed else THETA
    plan = np.array([move]), np.array([first]), np.array([second]), np.array([size])
    counts = np.array(state)
    suffix = np.cumsum(share[::-1])[::-1].copy()
    guess = np.array([0.2, 0.5, 0.3])
    seen = np.ones(len(state), np.bool_)
    moves.run_moves(rng, *plan, counts, share, suffix, collapsed, guess, log_size, observed, seen, moves.LAPLACE, SCALE)
    return tuple(int(k) for k in counts)


STATE = (1, 3, 1)
# What the code does, and the row of its matrix. By the matrices of both kinds of proposals, the wrong kind would pass
# with a probability below 1e-13 (noncentral chi-square distribution): with 10,000 draws of all records of a pair.
DRAWS, PAIR_DRAWS = 2_000, 10_000
MOVES = {
    "one record": (moves.BLOCK, 0.1, 1, lambda c: block_row(STATE, 1, c)[0]),
    "three records": (moves.BLOCK, 5.0, 1, lambda c: block_row(STATE, 3, c)[0]),
    "all records": (moves.BLOCK, 1e9, 1, lambda c: block_row(STATE, 5, c)[0]),
    "one of a pair": (moves.PAIR, 0.1, 1, lambda c: pair_row(STATE, 0, 1, 1, c)),
    "all of a pair": (moves.PAIR, 1e9, 2, lambda c: pair_row(STATE, 0, 2, 2, c)),
}


more_draws = pytest.mark.parametrize("times", [1, pytest.param(10, marks=pytest.mark.long)])


@pytest.mark.statistical
@more_draws
@pytest.mark.parametrize("collapsed", [False, True])
@pytest.mark.parametrize("name", MOVES)
def test_the_code_moves_as_the_matrices_say(name, collapsed, times, rng, alpha):
    """The broken copy proposes the other kind of shares. Ten times as many draws show errors of a third the size."""
    move, size, second, row = MOVES[name]
    draws = times * (PAIR_DRAWS if name == "all of a pair" else DRAWS)
    ends = [run(rng, move, STATE, size=size, second=second, collapsed=collapsed) for _ in range(draws)]
    assert chi_square(row(collapsed), ends) > alpha
    wrong = [run(rng, move, STATE, size=size, second=second, collapsed=not collapsed) for _ in range(draws)]
    assert chi_square(row(collapsed), wrong) < 1e-9


@pytest.mark.statistical
@more_draws
@pytest.mark.parametrize("collapsed", [False, True])
@pytest.mark.parametrize("name", ["resize", "walk"])
def test_the_code_adds_and_removes_as_the_matrices_say(name, collapsed, times, rng, alpha):
    """The broken copy has another prior of the number of records, seen from at least one of the three states."""
    least = 1.0
    for state in ((1, 3, 1), (1, 1, 0), (0, 0, 1)):
        row = resize_row(state, 2, collapsed) if name == "resize" else walk_row(state, 1, 2, collapsed)
        move = moves.RESIZE if name == "resize" else moves.WALK
        signs = rng.choice([-1.5, 1.5], size=times * DRAWS)
        ends = [run(rng, move, state, size=sign, first=1, second=2, collapsed=collapsed) for sign in signs]
        assert chi_square(row, ends) > alpha / 3
        unequal = [
            run(rng, move, state, size=sign, first=1, second=2, collapsed=collapsed, log_size=-2 * SIZES)
            for sign in signs
        ]
        least = min(least, chi_square(row, unequal))
    assert least < 1e-9

"""Algorithms 1 to 3 of Imola and Chaudhuri: beside enumeration of pairs, and the paper's own numbers."""

import itertools

import mpmath as mp
import numpy as np
import pytest

import privsample as ps
from privsample.accounting.postprocessing import amplification
from privsample.accounting.postprocessing.bernoulli_bounds import binary_renyi, majority_renyi
from privsample.accounting.postprocessing.bernoulli_corners import Corners


def kernel(dimension, draws, margin):
    """Probabilities of all outcomes, (corners, outcomes), by enumeration of every draw."""
    found = []
    for corner in itertools.product((margin, 1 - margin), repeat=dimension):
        outcomes = itertools.product((0, 1), repeat=dimension * draws)
        each = np.array(corner * draws)
        found.append([np.where(bits, each, 1 - each).prod() for bits in np.array(list(outcomes))])
    return np.array(found)


def renyi(p, q, order):
    return float(np.log((p**order * q ** (1 - order)).sum()) / (order - 1))


def farther(p, q, order):
    return max(renyi(p, q, order), renyi(q, p, order))


def pairs(count, epsilon, order, rng, tries):
    """Random pairs of distributions on `count` points whose larger divergence is epsilon."""
    for _ in range(tries):
        one, other = rng.dirichlet(np.full(count, rng.choice([0.1, 0.5, 2.0])), size=2) + 1e-9
        one, other = one / one.sum(), other / other.sum()
        if farther(one, other, order) < epsilon:
            continue
        low, high = 0.0, 1.0
        for _ in range(40):
            at = (low + high) / 2
            mixed = (1 - at) * one + at * other
            low, high = (at, high) if farther(mixed, other, order) > epsilon else (low, at)
        yield (1 - high) * one + high * other, other


@pytest.mark.parametrize(
    ("dimension", "draws"), [(1, 1), (1, 2), (2, 1), (2, 2), pytest.param(3, 1, marks=pytest.mark.long)]
)
def test_no_pair_of_distributions_on_corners_is_above_the_upper_bound(dimension, draws, rng):
    epsilon, order, margin = 0.8, 4.0, 0.25
    bounds = ps.bernoulli_amplification(epsilon, order=order, margin=margin, dimension=dimension, draws=draws)
    matrix = kernel(dimension, draws, margin)
    found = [renyi(p @ matrix, q @ matrix, order) for p, q in pairs(2**dimension, epsilon, order, rng, 60)]
    assert len(found) > 20
    assert max(found) <= bounds.lower * (1 + 1e-6)
    assert bounds.lower <= bounds.upper
    assert max(found) > 0.3 * bounds.lower


@pytest.mark.parametrize(("dimension", "draws"), [(1, 1), (2, 2), (3, 1)])
def test_the_lower_bound_is_attained_by_the_symmetric_pair(dimension, draws):
    epsilon, order, margin = 0.8, 4.0, 0.25
    with mp.workdps(30):
        p = mp.findroot(
            lambda x: (
                mp.log(x**order * (1 - x) ** (1 - order) + (1 - x) ** order * x ** (1 - order)) / (order - 1) - epsilon
            ),
            (mp.mpf("0.1"), mp.mpf("0.45")),
            solver="anderson",
        )
    weights = np.zeros(2**dimension)
    weights[[0, -1]] = float(p), 1 - float(p)
    matrix = kernel(dimension, draws, margin)
    exact = renyi(weights @ matrix, weights[::-1] @ matrix, order)
    bounds = ps.bernoulli_amplification(epsilon, order=order, margin=margin, dimension=dimension, draws=draws, starts=0)
    assert float(bounds.symmetric) == pytest.approx(exact, rel=1e-11)
    assert bounds.symmetric <= bounds.lower * (1 + 1e-12)


def test_one_draw_is_bracketed_to_eight_digits():
    epsilons = np.array([[1e-3, 0.1], [2.0, 40.0]])
    bounds = ps.bernoulli_amplification(epsilons, order=50, margin=0.1)
    assert bounds.lower.shape == epsilons.shape
    assert (bounds.lower <= bounds.upper).all()
    assert bounds.upper == pytest.approx(bounds.lower, rel=2e-8)


def test_the_upper_bound_is_the_account_s():
    base = ps.ZCDPAccountant(rho=0.25)
    for dimension, draws in ((1, 1), (4, 1), (2, 3)):
        account = ps.BernoulliAccountant(base=base, margin=0.3, draws=draws, dimension=dimension)
        bounds = ps.bernoulli_amplification(
            float(base.rdp(3.0)), order=3, margin=0.3, dimension=dimension, draws=draws, starts=0
        )
        assert float(bounds.upper) == pytest.approx(float(account.rdp(3.0)), rel=1e-12)


def test_the_numbers_printed_below_theorem_2():
    assert np.exp(-20.0) < 1e-8
    ends = binary_renyi(np.log(1 / np.array([0.49, 0.01]) - 1), 50.0)
    assert ends == pytest.approx([0.026, 4.59], abs=0.02)  # the paper: epsilon in [0.026, 4.59] at order 50
    trials = int(np.ceil(20 / (2 * 0.4**2)))
    for epsilon in (0.05, 1.0, 4.5):
        bound = majority_renyi(epsilon, 50.0, trials, 0.1)
        assert epsilon * (1 - 1e-4) < bound <= epsilon


@pytest.mark.parametrize("dimension", [4, 5, 30])
@pytest.mark.parametrize("margin", [0.05, 0.2])
def test_theorem_2_is_below_the_sum_of_theorem_4_also_for_ties(dimension, margin):
    for epsilon in (0.05, 0.5, 3.0):
        for draws in (1, 2):
            bounds = ps.bernoulli_amplification(
                epsilon, order=5, margin=margin, dimension=dimension, draws=draws, starts=0
            )
            assert 0.0 <= bounds.closed_form <= bounds.symmetric * (1 + 1e-12)


def test_theorem_2_without_its_term_would_be_too_large():
    bounds = ps.bernoulli_amplification(0.5, order=5, margin=0.2, dimension=20, starts=0)
    assert 0.0 < bounds.closed_form < bounds.symmetric < 0.5  # at K = 0 the bound is epsilon itself


def test_no_margin_and_no_cost():
    bounds = ps.bernoulli_amplification([0.0, 0.3, 9.0], order=2, margin=0.0, dimension=3, draws=2)
    assert bounds.lower.tolist() == bounds.upper.tolist() == bounds.symmetric.tolist() == [0.0, 0.3, 9.0]
    assert (bounds.closed_form <= bounds.lower).all()
    nothing = ps.bernoulli_amplification(0.0, order=2, margin=0.3)
    assert (float(nothing.lower), float(nothing.upper)) == (0.0, 0.0)


def test_equal_arguments_give_equal_bounds():
    one, other = (ps.bernoulli_amplification(1.0, order=5, margin=0.3, dimension=2) for _ in range(2))
    assert one == other


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"epsilon": -1.0}, "epsilon must be finite and >= 0"),
        ({"epsilon": [1.0, np.nan]}, "epsilon"),
        ({"order": 1.0}, "orders must"),
        ({"margin": 0.5}, r"margin must lie in \[0, 1/2\)"),
        ({"dimension": 0}, "dimension must"),
        ({"draws": 0}, "draws must"),
        ({"starts": -1}, "starts must be >= 0"),
        ({"dimension": 9}, r"\(2 draws \+ 2\)\^dimension must be at most 4096 .* set starts=0"),
    ],
)
def test_bad_arguments(fields, message):
    good = {"epsilon": 1.0, "order": 5.0, "margin": 0.1}
    with pytest.raises(ValueError, match=message):
        ps.bernoulli_amplification(**(good | fields))


def test_random_starts_alone_find_lower_bounds():
    corners = Corners(order=4.0, epsilon=0.8, dimension=2, draws=1, margin=0.25)
    bounds = ps.bernoulli_amplification(0.8, order=4, margin=0.25, dimension=2, starts=0)
    assert 0.5 * bounds.symmetric < corners.best(np.random.default_rng(1), 1) <= bounds.upper


def test_bounds_are_read_only_and_of_one_shape():
    bounds = ps.bernoulli_amplification([0.5, 1.0], order=2, margin=0.3)
    with pytest.raises(ValueError, match="read-only"):
        bounds.lower[0] = 0.0
    with pytest.raises(ValueError, match="must have one shape"):
        ps.AmplificationBounds(lower=[1.0], upper=[1.0, 2.0], symmetric=[1.0], closed_form=[1.0])


def test_a_search_that_is_left_out_is_noticed(monkeypatch):
    monkeypatch.setattr(amplification, "renyi_bound", lambda *_: 0.0)
    bounds = ps.bernoulli_amplification(1.0, order=5, margin=0.3, starts=0)
    assert bounds.upper == bounds.symmetric  # an upper bound is never below a divergence that is attained

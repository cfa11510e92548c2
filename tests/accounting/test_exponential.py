"""Accounts of the exponential mechanism and of permute-and-flip against enumerated utilities, and against mpmath."""

from itertools import product

import mpmath as mp
import numpy as np
import pytest
from scipy import integrate, stats

import privsample as ps
from privsample.accounting.loss.bounded_range import BoundedRangeEnvelope
from tests.accounting.test_brute_force import hockey_stick, renyi

EPSILONS = (0.0, 0.3, 0.9)
ORDERS = np.array([1.01, 2.0, 7.0, 60.0])


def exponential(scores):
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return weights / weights.sum(axis=-1, keepdims=True)


def flip(scores):
    """Permute-and-flip by its definition: the mean over the order of visits, one order after the other."""
    a = np.exp(scores - scores.max(axis=-1, keepdims=True))
    count = a.shape[-1]
    found = np.zeros_like(a)
    for j in range(count):
        others = [i for i in range(count) if i != j]
        for before in product((False, True), repeat=count - 1):
            first = sum(before)
            chance = mp.beta(first + 1, count - first)  # of visiting exactly these others before j
            refused = np.prod([1 - a[..., i] for i, held in zip(others, before, strict=True) if held], axis=0)
            found[..., j] += float(chance) * refused
    return found * a


def flip_by_integral(scores):
    """The same for many candidates: the chance that the noisy utility of a candidate is the largest, by quadrature."""
    a = np.exp(scores - scores.max(axis=-1, keepdims=True))

    def density(s):
        factors = 1 - a * s
        return a * factors.prod(axis=-1, keepdims=True) / factors

    return integrate.quad_vec(density, 0.0, 1.0, epsrel=1e-13, epsabs=1e-300, norm="max")[0]


def grid_of(count, change):
    """Utilities of `count` candidates on a grid, and all changes of -1/2, 0 or 1/2 times `change`, scaled by 1."""
    utilities = np.array(list(product(np.arange(-2.0, 0.1, 0.5), repeat=count)))
    changes = np.array(list(product((-change / 2, 0.0, change / 2), repeat=count)))
    return np.repeat(utilities, len(changes), axis=0), np.tile(changes, (len(utilities), 1))


def two_groups(count, gaps):
    """Utilities with `size` candidates at one value and the others at another, as in the worst case of many."""
    return [np.where(np.arange(count) < size, gap, 0.0) for size in (1, 2, count // 2, count - 1) for gap in gaps]


def largest(p, q, reading):
    return float(np.max([reading(one, other) for one, other in zip(p, q, strict=True)]))


@pytest.mark.parametrize(("law", "make"), [(exponential, "bounded"), (flip, "flip")])
def test_no_utilities_of_three_candidates_cost_more(law, make):
    change = 1.0
    account = (
        ps.BoundedRangeAccountant(loss_range=change)
        if make == "bounded"
        else ps.PermuteAndFlipAccountant(loss_range=change)
    )
    utilities, changes = grid_of(3, change)
    p, q = law(utilities), law(utilities + changes)
    for epsilon in EPSILONS:
        true = max(largest(p, q, lambda a, b, e=epsilon: hockey_stick(a, b, e)), 0)
        assert true <= float(account.delta(epsilon)) * (1 + 1e-12)
        assert true > 0.7 * float(account.delta(epsilon))
    with np.errstate(all="ignore"):
        curves = np.log(np.einsum("ij,oij->oi", q, (p / q) ** ORDERS[:, None, None])) / (ORDERS - 1)[:, None]
    assert np.all(curves.max(axis=1) <= account.rdp(ORDERS) * (1 + 1e-12))
    halved = type(account)(loss_range=change / 2)  # the factor 2 forgotten: a claim that must fail
    assert curves.max(axis=1)[1] > halved.rdp(2.0)


@pytest.mark.parametrize("count", [3, 50, pytest.param(10, marks=pytest.mark.long)])
@pytest.mark.parametrize("change", [0.2, 3.0, pytest.param(1.0, marks=pytest.mark.long)])
def test_the_exponential_mechanism_is_exact_for_any_number_of_candidates(count, change):
    account = ps.BoundedRangeAccountant(loss_range=change)
    gaps = np.linspace(-8.0, 8.0, 161)
    for epsilon in np.array(EPSILONS) * change:
        exact = float(account.delta(epsilon))
        # the worst pair has the log-odds t - change + log(...) of one set: here one candidate against one other
        t = (epsilon + change) / 2
        upper = np.expm1(change - t) / np.expm1(change)  # q of exponential.md, step 1.2
        base = np.full(count, -200.0)
        base[:2] = np.log(upper) - np.log1p(-upper), 0.0
        moved = base + np.where(np.arange(count) == 0, change, 0.0)
        assert hockey_stick(exponential(moved), exponential(base), epsilon) == pytest.approx(exact, rel=1e-9, abs=1e-15)
        for utilities in two_groups(count, gaps):
            for size in (1, count // 2, count - 1):
                p, q = exponential(utilities + change * (np.arange(count) < size)), exponential(utilities)
                assert max(hockey_stick(p, q, epsilon), hockey_stick(q, p, epsilon)) <= exact * (1 + 1e-10) + 1e-15
    for order in ORDERS:
        found = max(
            renyi(exponential(u + change * (np.arange(count) < 1)), exponential(u), order)
            for u in two_groups(count, gaps)
        )
        assert found == pytest.approx(float(account.rdp(order)), rel=4e-3)
        assert found <= float(account.rdp(order)) * (1 + 1e-12)


@pytest.mark.parametrize("count", [3, 5, 50])
@pytest.mark.parametrize("change", [0.2, 1.0, 3.0])
def test_permute_and_flip_is_exact_for_the_privacy_curve(count, change):
    account = ps.PermuteAndFlipAccountant(loss_range=change)
    law = flip if count <= 5 else flip_by_integral
    utilities = np.array([each for each in two_groups(count, np.linspace(-4.0, 4.0, 41)) for _ in (1, 2)])
    changes = np.array([change * (np.arange(count) < 1 + at % 2) for at in range(len(utilities))])
    tables = (law(utilities + changes), law(utilities))
    for epsilon in np.array(EPSILONS) * change:
        exact = float(account.delta(epsilon))
        base = np.full(count, -200.0)
        base[:2] = -(change + epsilon) / 2, 0.0  # the threshold of the best test between Laplace distributions
        moved = base + np.where(np.arange(count) == 0, change, 0.0)
        found = max(hockey_stick(law(moved), law(base), epsilon), hockey_stick(law(base), law(moved), epsilon))
        assert found == pytest.approx(exact, rel=1e-9)
        worst = max(
            np.maximum(first - np.exp(epsilon) * second, 0).sum(axis=1).max()
            for first, second in (tables, tables[::-1])
        )
        assert worst <= exact * (1 + 1e-12)
    divergences = [max(renyi(p, q, order) for p, q in zip(*tables, strict=True)) for order in ORDERS]
    assert np.all(np.array(divergences) <= account.rdp(ORDERS))
    assert account.kind("rdp") == "upper bound"
    assert account.kind("delta") == "exact"


def test_permute_and_flip_is_not_bounded_range():
    """The losses of two candidates range over more than the pure epsilon, and bounded range would charge too little."""
    p, q = flip(np.array([0.0, 0.0])), flip(np.array([-1.0, 0.0]))
    assert np.ptp(np.log(p / q)) == pytest.approx(1 + np.log(2 - np.exp(-1.0)))
    assert hockey_stick(p, q, 0.5) > 1.5 * float(ps.BoundedRangeAccountant(loss_range=1.0).delta(0.5))


def exact_draws(loss_range, draws, epsilon):
    """The largest privacy curve of several draws, by a search over t with 50 digits."""
    with mp.workdps(50):
        r, x = mp.mpf(loss_range), mp.exp(mp.mpf(epsilon))

        def delta(t):
            p, q = (1 - mp.exp(t - r)) / (1 - mp.exp(-r)), (mp.exp(-t) - mp.exp(-r)) / (1 - mp.exp(-r))
            terms = (
                mp.binomial(draws, i) * (p ** (draws - i) * (1 - p) ** i - x * q ** (draws - i) * (1 - q) ** i)
                for i in range(draws + 1)
            )
            return mp.fsum(max(term, mp.mpf(0)) for term in terms)

        grid = [r * k / 100 for k in range(101)]
        best = max(grid, key=delta)
        low, high = max(best - r / 100, mp.mpf(0)), min(best + r / 100, r)
        for _ in range(40):  # between two kinks the function has one peak; the grid is finer than the kinks here
            third = (high - low) / 3
            low, high = (low + third, high) if delta(low + third) < delta(high - third) else (low, high - third)
        return delta((low + high) / 2)


DRAWN = [  # each range and each share with one of the numbers of draws; the long lane has the other number, too
    pytest.param(loss_range, draws, share, marks=[] if (i + j) % 2 == k else pytest.mark.long)
    for i, loss_range in enumerate((1e-6, 0.3, 2.0, 40.0))
    for j, share in enumerate((-0.4, 0.0, 0.3, 0.8))
    for k, draws in enumerate((2, 7))
]


@pytest.mark.parametrize(("loss_range", "draws", "share"), DRAWN)
def test_several_draws_against_fifty_digits(loss_range, draws, share):
    epsilon = share * loss_range * draws
    true = exact_draws(loss_range, draws, epsilon)
    found = float(np.exp(BoundedRangeEnvelope(loss_range=loss_range, draws=draws).log_delta(np.array([epsilon]))[0]))
    assert found >= float(true) * (1 - 1e-15)
    assert found == pytest.approx(float(true), rel=1e-11)


def test_several_draws_are_exact_and_cost_less_than_releases_with_other_worst_cases():
    together, apart = (
        ps.BoundedRangeAccountant(loss_range=1.0, draws=30),
        30 * ps.BoundedRangeAccountant(loss_range=1.0),
    )
    assert float(together.epsilon(1e-6)) == pytest.approx(15.5854618, abs=1e-6)
    assert float(apart.epsilon(1e-6)) > float(together.epsilon(1e-6)) + 0.6
    assert np.allclose(together.rdp(ORDERS), 30 * ps.BoundedRangeAccountant(loss_range=1.0).rdp(ORDERS), rtol=1e-14)
    assert together.pure_epsilon == 30.0
    assert together.delta(30.0) == 0.0
    for t in np.linspace(0.05, 0.95, 19):  # binary pairs, by SciPy's binomial distributions
        p, q = (1 - np.exp(t - 1)) / (1 - np.exp(-1.0)), (np.exp(-t) - np.exp(-1.0)) / (1 - np.exp(-1.0))
        for epsilon in (0.0, 2.0, 5.0):
            count = np.arange(31)
            true = np.maximum(stats.binom.pmf(count, 30, p) - np.exp(epsilon) * stats.binom.pmf(count, 30, q), 0).sum()
            assert true <= float(together.delta(epsilon)) * (1 + 1e-12)
    assert together.group(2) == ps.BoundedRangeAccountant(
        loss_range=2.0, draws=30, relation=ps.AddRemove(members=2), assumptions=together.assumptions
    )


def test_groups_and_bad_input():
    account = ps.PermuteAndFlipAccountant(loss_range=0.5)
    assert account.group(3) == ps.PermuteAndFlipAccountant(loss_range=1.5, relation=ps.AddRemove(members=3))
    assert "McKenna" in account.source
    for bad in (0.0, -1.0, np.inf, np.nan):
        with pytest.raises(ValueError, match="loss_range must be finite and > 0"):
            ps.PermuteAndFlipAccountant(loss_range=bad)
    for bad in (0, 129):
        with pytest.raises(ValueError, match="draws must be at"):
            ps.BoundedRangeAccountant(loss_range=1.0, draws=bad)

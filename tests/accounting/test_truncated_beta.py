"""The largest privacy curve over all sums of records and its block search, checked by independent quadrature."""

from dataclasses import replace
from functools import cache

import mpmath as mp
import numpy as np
import pytest
from scipy import special

from privsample import BetaBernoulli, DirichletCategorical, TemperedAccountant
from privsample.accounting.posterior import branch_and_bound, truncated_beta
from privsample.accounting.posterior.branch_and_bound import maximize_over_sums
from privsample.accounting.posterior.truncated_beta import TruncatedBetaFamily

CASES = {  # family, epsilon
    "even": (TruncatedBetaFamily(a=1.0, b=1.0, step=1 / 18, n=200, low=0.05, high=0.95), 0.1),
    "uneven": (TruncatedBetaFamily(a=1.2, b=3.5, step=0.4, n=60, low=0.1, high=0.9), 0.5),
    "zero": (TruncatedBetaFamily(a=0.8, b=2.0, step=1.0, n=120, low=0.2, high=0.8), 0.0),
    "group": (TruncatedBetaFamily(a=3.0, b=0.5, step=0.5, n=120, low=0.05, high=0.95, group_size=4), 0.7),
    "all": (TruncatedBetaFamily(a=3.0, b=0.5, step=0.5, n=70, low=0.05, high=0.95, group_size=70), 3.0),
    "prior": (TruncatedBetaFamily(a=400.0, b=20.0, step=0.1, n=250, low=0.3, high=0.7), 0.02),
    "deep": (TruncatedBetaFamily(a=1.0, b=2.0, step=0.05, n=250, low=0.3, high=0.7), 0.08),
}


@cache
def quadrature():
    """Points and weights by SciPy: NumPy solves a full matrix of that size, here it is tridiagonal."""
    return special.roots_legendre(4000)


def by_hand(family, epsilon, sums):
    """Log delta of the pairs with these sums by direct summation of both densities on a grid."""
    half = float(special.logit(family.high))
    points, masses = quadrature()
    y, weights = half * points, np.log(half * masses)
    total = family.a + family.b + family.step * family.n
    slope_q = (family.a + family.step * sums)[:, None]
    distributions = []
    for slope in (slope_q + family.step * family.group_size, slope_q):
        log_density = slope * y - total * np.logaddexp(0, y)
        distributions.append(log_density - special.logsumexp(log_density + weights, axis=1)[:, None])
    with np.errstate(divide="ignore"):
        log_gap = np.log(np.maximum(-np.expm1(epsilon - (distributions[0] - distributions[1])), 0.0))
        return special.logsumexp(distributions[0] + log_gap + weights, axis=1)


def orders(family):
    return family, replace(family, a=family.b, b=family.a)


@pytest.mark.parametrize("name", CASES)
def test_the_block_search_finds_the_maximum_over_all_sums(name):
    family, epsilon = CASES[name]
    sums = np.arange(family.n - family.group_size + 1.0)
    found = family.log_delta(np.array([epsilon]), certified=True)[0]
    listed = max(one._log_delta(epsilon, sums, sums).max() for one in orders(family))
    assert found == pytest.approx(listed, rel=1e-9, abs=1e-9)
    assert found >= listed - 1e-11
    assert found == pytest.approx(max(by_hand(one, epsilon, sums).max() for one in orders(family)), abs=2e-4)
    approx_log_delta = family.log_delta(np.array([epsilon]), certified=False)[0]
    assert approx_log_delta <= found
    assert approx_log_delta == pytest.approx(found, rel=1e-6)


def test_several_epsilons_at_once():
    family, _ = CASES["uneven"]
    epsilons = np.array([0.3, -0.3, 0.0, 2.0])
    together = family.log_delta(epsilons, certified=True)
    np.testing.assert_allclose(together, [family.log_delta(epsilons[[k]], certified=True)[0] for k in range(4)])
    assert np.exp(together[1]) == pytest.approx(1 - np.exp(-0.3) + np.exp(together[0] - 0.3))


def test_no_member_exceeds_the_bound_of_its_block(rng):
    for _ in range(8):
        a, b, step = [*rng.uniform(0.1, 30, 2).tolist(), rng.uniform(0.01, 1)]
        n, low = int(rng.integers(5, 400)), rng.uniform(0.002, 0.45)
        moved = int(rng.integers(1, 4))
        family = TruncatedBetaFamily(a=a, b=b, step=step, n=n, low=low, high=1 - low, group_size=moved)
        epsilon = rng.uniform(0, 0.8) * 2 * special.logit(1 - low) * step * moved
        ends = np.sort(rng.integers(0, n - moved + 1, (20, 2)), axis=1).astype(float)
        bound = family._log_delta(epsilon, ends[:, 0], ends[:, 1])
        for (first, last), above in zip(ends, bound, strict=True):
            members = np.linspace(first, last, 5).round()
            assert (by_hand(family, epsilon, members) <= above * (1 - 1e-5) + 1e-3).all()
            assert (family._log_delta(epsilon, members, members) <= above + 1e-9).all()


def exactly(family, epsilon, s):
    """Log delta of one pair at fifty digits."""
    with mp.workdps(50):
        a, b, step = map(mp.mpf, (family.a, family.b, family.step))
        half = mp.log(mp.mpf(family.high) / (1 - mp.mpf(family.high)))
        total, jump, q = a + b + step * family.n, step * family.group_size, a + step * int(s)

        def pieces(slope, start):
            """The integral of e^(density - its peak) and the peak, around which the density is narrow."""
            free = mp.log(slope / (total - slope)) if slope < total else half
            peak = min(max(free, start), half)
            share = 1 / (1 + mp.exp(-peak))
            width = 1 / (mp.sqrt(total * share * (1 - share)) + abs(slope - total * share))
            near = [peak + k * width for k in (-60, -30, -14, -6, -2, 0, 2, 6, 14, 30, 60)]
            return sorted({start, half, *(y for y in near if start < y < half)}), peak

        def density(slope, y):
            return slope * y - total * mp.log1p(mp.exp(y))

        def log_integral(slope, start, factor=lambda y: 1):
            cuts, peak = pieces(slope, start)
            top = density(slope, peak)
            return top + mp.log(
                mp.quad(lambda y: mp.exp(density(slope, y) - top) * factor(y), cuts, method="gauss-legendre")
            )

        mass_p, mass_q = log_integral(q + jump, -half), log_integral(q, -half)
        threshold = (mp.mpf(epsilon) + mass_p - mass_q) / jump
        start = max(threshold, -half)
        return float(log_integral(q + jump, start, lambda y: -mp.expm1(-jump * (y - threshold))) - mass_p)


LARGE = {
    "warm": (TruncatedBetaFamily(a=1.0, b=1.0, step=1 / 18, n=100_000, low=0.05, high=0.95), 0.02, 1e-6),
    "deep": (TruncatedBetaFamily(a=1.0, b=1.0, step=1 / 2.8, n=100_000, low=0.01, high=0.99), 0.3, 1e-6),
    "cold": (TruncatedBetaFamily(a=2.0, b=1.0, step=1.0, n=20_000, low=0.05, high=0.95), 0.05, 1e-6),
    "priors": (TruncatedBetaFamily(a=1e9, b=1e9, step=1.0, n=1000, low=0.1, high=0.9), 1e-4, 1e-4),
}


@pytest.mark.parametrize("name", LARGE)
def test_many_records_at_fifty_digits(name):
    family, epsilon, most = LARGE[name]
    found = family.log_delta(np.array([epsilon]), certified=True)[0]
    values, places = [], np.linspace(0, family.n - 1, 24)
    for bound in (family.low, family.high):  # the worst sum has its mode near a bound
        places = np.append(places, family.n * bound + np.sqrt(family.n) * np.linspace(-30, 30, 61))
    for one in orders(family):
        sums = np.unique(np.clip(places, 0, family.n - 1).round())
        for _ in range(6):
            best = int(one._log_delta(epsilon, sums, sums).argmax())
            sums = np.unique(np.linspace(sums[max(best - 1, 0)], sums[min(best + 1, len(sums) - 1)], 24).round())
        values.append(exactly(one, epsilon, sums[int(one._log_delta(epsilon, sums, sums).argmax())]))
    assert max(values) <= found <= max(values) + most


def test_rounding_only_raises_single_values(rng):
    """Random pairs with totals up to a million, at fifty digits."""
    for _ in range(3):
        n, step, low = int(rng.integers(1000, 10**6)), rng.uniform(0.01, 1), rng.uniform(0.001, 0.4)
        moved = int(rng.integers(1, 50))
        family = TruncatedBetaFamily(a=1.3, b=0.6, step=step, n=n, low=low, high=1 - low, group_size=moved)
        s = np.array([np.round(rng.uniform(low, 1 - low) * (n - moved))])
        deviation = step * moved / np.sqrt(step * n * s[0] / n * (1 - s[0] / n))
        epsilon = float(rng.uniform(0, 8) * deviation)
        claimed, true = family._log_delta(epsilon, s, s)[0], exactly(family, epsilon, s[0])
        assert true <= claimed <= true + 1e-5


@pytest.mark.parametrize("weight", [1e5, *(pytest.param(w, marks=pytest.mark.long) for w in (1e7, 3e7)), 1e9])
def test_rounding_only_raises_under_heavy_priors(weight, rng):
    for _ in range(2):
        a, b = (weight * rng.uniform(0.3, 1, 2)).tolist()
        family = TruncatedBetaFamily(a=a, b=b, step=1.0, n=100, low=0.1, high=0.9)
        s, epsilon = np.array([float(rng.integers(0, 100))]), float(rng.uniform(0, 6) * 2 / np.sqrt(weight))
        claimed, true = family._log_delta(epsilon, s, s)[0], exactly(family, epsilon, s[0])
        assert true <= claimed <= true + 1e-4


def test_a_search_at_its_iteration_limit_returns_an_upper_bound(monkeypatch):
    family, epsilon = CASES["even"]
    found = family.log_delta(np.array([epsilon]), certified=True)[0]
    for module, name, few in ((truncated_beta, "_BLOCKS", 0), (branch_and_bound, "_ROUNDS", 2)):
        with monkeypatch.context() as patch:
            patch.setattr(module, name, few)
            assert found <= family.log_delta(np.array([epsilon]), certified=True)[0] <= 0.0


@pytest.mark.parametrize("last", [0, 1, 2, 3, 10, 1000])
def test_the_largest_of_several_functions_of_a_sum(last, rng):
    """Compared with all values, with block bounds far above the values in the block."""
    values = np.cumsum(rng.normal(size=(3, last + 1)), axis=1)

    def bounds(low, high, at):
        slack = high - low
        return np.array(
            [values[k, int(i) : int(j) + 1].max() + s for k, i, j, s in zip(at, low, high, slack, strict=True)]
        )

    goal = np.maximum(values[:, 0], values[:, -1])
    np.testing.assert_array_equal(
        maximize_over_sums(bounds, goal, last, integer_valued=True, most=9999), values.max(axis=1)
    )


def test_the_curve_decreases_beyond_a_few_hundred_records():
    uniform = BetaBernoulli(alpha=1, beta=1)
    found = [
        TemperedAccountant(model=uniform, n=n, temperature=18, truncation=0.05) for n in (400, 600, 10_000, 100_000)
    ]
    deltas = [float(account.log_delta(0.1)) for account in found]
    assert deltas == sorted(deltas, reverse=True)
    assert deltas[1] < float(found[1]._closed_forms.log_delta(np.array([0.1]))[0]) - 7
    assert {account.kind("delta") for account in found} == {"exact"}
    shares = replace(found[1], model=DirichletCategorical(alpha=(1, 1)))
    assert shares.log_delta(0.1) == pytest.approx(deltas[1], abs=1e-12)
    more = replace(found[0], n=100_001)
    assert more.kind("delta") == "upper bound"
    assert deltas[-1] < more.log_delta(0.1)
    assert found[0].delta(found[0].epsilon(1e-6)) <= 1e-6 * (1 + 1e-9)

"""The bounds behind one-run audits: published numbers, exact sizes, enumeration of every law, and directed rounding."""

from itertools import pairwise, product

import numpy as np
import pytest
from mpmath import mp, mpf
from scipy import special, stats
from scipy.optimize import linprog

import privsample as ps
from privsample.simulations.audit.one_run_bounds import (
    binomial_bound,
    critical_count,
    largest_refuted,
    least_guesses,
    lower_epsilon,
    lower_mu,
    p_value,
    refutes,
)
from privsample.simulations.audit.one_run_claims import (
    OneRunClaim,
    approximate_claim,
    claim_of,
    gaussian_claim,
    pure_claim,
)


def by_recursion_alone(epsilon, delta=0.0):
    """A claim without the binomial bound."""
    return OneRunClaim(approximate_claim(epsilon, delta).wrong_mass)


@pytest.mark.parametrize(
    ("canaries", "right", "guesses", "epsilon", "mu", "binomial"),
    [
        (100, 95, 100, 2.15633071, 1.08332682, 2.17243404),
        (1000, 600, 1000, 0.29188712, 0.16384981, 0.29746792),
        (1000, 98, 100, 2.70908377, 0.97043903, 2.72318232),
    ],
)
def test_least_parameters_that_are_not_refuted(canaries, right, guesses, epsilon, mu, binomial):
    least = largest_refuted(50.0, lambda e: refutes(right, guesses, canaries, 0.05, by_recursion_alone(e)))
    assert least == pytest.approx(epsilon, abs=6e-9)
    assert lower_mu(right, guesses, canaries, 0.05) == pytest.approx(mu, abs=6e-9)
    assert lower_epsilon(right, guesses, canaries, 0.05, 0.0) == pytest.approx(binomial, abs=1.1e-8)
    verdict = ps.OneRunVerdict(claim=lambda e: 0.0, canaries=canaries, guesses=guesses, right=right)
    assert (verdict.mu, verdict.epsilon_at(0.0)) == pytest.approx((mu, binomial), abs=1.1e-8)
    assert verdict.epsilon_at(1e-9) < verdict.epsilon_at(0.0)
    assert verdict.epsilon_at(1e-9) == pytest.approx(binomial, abs=1e-6)
    assert verdict.epsilon_at(0.1) < epsilon - 0.01


@pytest.mark.parametrize(
    ("canaries", "guesses", "right", "epsilon", "largest"),
    [
        (20, 20, 17, 0.5, 0.02730864),
        (20, 20, 19, 1.0, 0.01631714),
        (30, 15, 13, 1.0, 0.21514565),
        (20, 20, 15, 0.5, 0.20661174),
    ],
)
def test_the_recursion_turns_at_the_largest_probability_of_a_linear_programme(
    canaries, guesses, right, epsilon, largest
):
    claim = by_recursion_alone(epsilon)
    assert p_value(right, guesses, canaries, 0.05, claim) == pytest.approx(largest, abs=6e-9)
    assert not refutes(right, guesses, canaries, largest * (1 - 1e-4), claim)
    assert refutes(right, guesses, canaries, largest * (1 + 1e-4), claim)


@pytest.mark.parametrize(("epsilon", "critical"), [(0.5, 71), (1.0, 82), (2.0, 94)])
def test_exact_size_on_products_of_randomized_response(epsilon, critical):
    assert critical_count(100, 100, 0.05, by_recursion_alone(epsilon)) == critical
    for many in (20, 100, 200) if epsilon < 2.0 else (100, 200):
        least = critical_count(many, many, 0.05, by_recursion_alone(epsilon))
        size = stats.binom.sf(least - 1, many, special.expit(epsilon))
        assert 0.015 < size <= 0.05
        stronger = critical_count(many, many, 0.05, pure_claim(epsilon))
        assert stronger <= least
        assert stats.binom.sf(stronger - 1, many, special.expit(epsilon)) <= 0.05


@pytest.mark.parametrize("epsilon", [0.0, 0.3, 1.0, 4.0])
@pytest.mark.parametrize("delta", [0.0, 1e-6, 0.01, 0.3])
def test_one_canary_attains_the_bound_with_delta(epsilon, delta):
    """Its coin is revealed with probability delta, and else randomized. Half of the failures are too few."""
    truth = special.expit(epsilon) + delta * special.expit(-epsilon)
    found = binomial_bound(1, 1, 1, approximate_claim(epsilon, delta))
    assert truth * (1 - 1e-15) <= found <= truth * (1 + 1e-8)
    if delta > 1e-3:
        assert binomial_bound(1, 1, 1, approximate_claim(epsilon, delta / 2)) < truth * (1 - 1e-5)


@pytest.mark.parametrize(("canaries", "guesses"), [(20, 20), (60, 20)])
def test_the_bound_with_delta_holds_for_products_and_is_the_value_of_its_linear_programme(canaries, guesses):
    for epsilon, delta in product((0.2, 1.0), (1e-4, 0.01, 0.1)):
        claim, chance = approximate_claim(epsilon, delta), special.expit(epsilon)
        revealed = delta + (1 - delta) * chance
        law = stats.binom.pmf(np.arange(guesses + 1), guesses, chance)
        for right in (12, 17, 20):
            found = binomial_bound(right, guesses, canaries, claim)
            assert stats.binom.sf(right - 1, guesses, revealed) <= found  # guesses about coins that may be revealed
            # the part of each count that failures raise to `right`, at a cost of what is missing
            costs = np.maximum(right - np.arange(guesses + 1), 0)
            budget = canaries * delta * special.expit(-epsilon)
            best = linprog(-law, A_ub=[law * costs], b_ub=[budget], bounds=(0, 1), method="highs")
            assert found == pytest.approx(-best.fun, rel=1e-6)


def test_p_values_do_not_jump_as_delta_leaves_zero():
    """Nine of ten right guesses at epsilon 1: 0.2240 by the recursion, and 0.2040 for the pure claim."""
    pure = p_value(9, 10, 10, 0.05, pure_claim(1.0))
    small = [p_value(9, 10, 10, 0.05, approximate_claim(1.0, delta)) for delta in (1e-12, 1e-9, 1e-6)]
    assert small == pytest.approx([pure] * 3, rel=2e-5)
    assert all(np.diff([pure, *small]) >= 0)
    verdict = ps.OneRunVerdict(
        claim=ps.ApproximateAccountant(stated_epsilon=1.0, stated_delta=1e-6), canaries=10, guesses=10, right=9
    )
    assert verdict.p_value == pytest.approx(0.2040147, abs=1e-7)
    assert p_value(9, 10, 10, 0.05, by_recursion_alone(1.0, 1e-6)) == pytest.approx(0.22404, abs=1e-5)


def test_gaussian_products_with_all_guessed_are_far_below_the_level():
    assert critical_count(100, 100, 0.05, gaussian_claim(0.5)) == 79
    assert stats.binom.sf(78, 100, special.ndtr(0.25)) == pytest.approx(3.9e-5, rel=0.02)


def exact_p_value(right, guesses, canaries, wrong_mass):
    """The level at which the recursion turns, at 50 digits and from the inequalities as the note states them."""
    with mp.workdps(50):
        low, high = mpf(0), mpf(1)
        for _ in range(80):
            level = (low + high) / 2
            tau = {right: level}
            for j in reversed(range(right)):
                mass = ((j + 1) * tau[j + 1] + sum(tau[k] for k in range(j + 2, right + 1))) / canaries
                least = sum(tau[k] for k in range(j + 1, right + 1)) + canaries * wrong_mass(min(mass, mpf(1)))
                tau[j] = max(tau[j + 1], least / (guesses - j))
            low, high = (low, level) if tau[0] > 1 else (level, high)
        return low


def exact_gaussian(mu):
    def wrong_mass(mass):
        if mass >= 1:
            return mpf(1)
        quantile = mp.findroot(lambda x: mp.ncdf(x) - mass, mpf(float(special.ndtri(float(mass)))))
        return mp.ncdf(quantile - mu)

    return wrong_mass


def exact_pure(epsilon):
    return lambda mass: max(mp.exp(-epsilon) * mass, 1 - mp.exp(epsilon) * (1 - mass), mpf(0))


def exact_approximate(epsilon, delta):
    return lambda mass: max(
        mp.exp(-epsilon) * (mass - mpf(delta)), 1 - mpf(delta) - mp.exp(epsilon) * (1 - mass), mpf(0)
    )


@pytest.mark.parametrize(
    ("claim", "exact"),
    [
        (gaussian_claim(1.0), exact_gaussian(1)),
        (
            OneRunClaim(claim_of(ps.GaussianAccountant(sensitivity=1, noise_std=1)).wrong_mass),
            exact_gaussian(1),
        ),
        (by_recursion_alone(1.5), exact_pure(mpf(1.5))),
        (by_recursion_alone(0.5, 0.01), exact_approximate(mpf(0.5), 0.01)),
    ],
    ids=["gaussian", "account", "pure", "approximate"],
)
def test_p_values_are_upper_bounds_and_sharp(claim, exact):
    for right, guesses, canaries in ((12, 12, 40), (17, 20, 20)):
        found, truth = p_value(right, guesses, canaries, 0.05, claim), exact_p_value(right, guesses, canaries, exact)
        assert truth <= found <= float(truth) * (1 + 2e-4)


@pytest.mark.parametrize("scale", [0.2, 1.0, 5.0])
def test_b_of_accounts_lies_below_the_closed_forms_and_close_to_them(scale):
    masses = np.concatenate([np.logspace(-12, -0.1, 60), 1 - np.logspace(-9, -1, 30)])
    gaussian = claim_of(ps.GaussianAccountant(sensitivity=scale, noise_std=1)).wrong_mass
    laplace = claim_of(ps.LaplaceAccountant(sensitivity=scale, scale=1)).wrong_mass
    for right in masses.tolist():
        true_gaussian = float(special.ndtr(special.ndtri(right) - scale))
        wrong, middle = 1 - right, np.exp(-scale) / 2  # f of Laplace noise: Dong, Roth and Su 2022, section 2
        if wrong < middle:
            true_laplace = 1 - np.exp(scale) * wrong
        elif wrong <= 0.5:
            true_laplace = np.exp(-scale) / (4 * wrong)
        else:
            true_laplace = np.exp(-scale) * right
        for found, truth in ((gaussian(right), true_gaussian), (laplace(right), true_laplace)):
            assert found <= truth * (1 + 1e-11)
            assert found >= truth * (1 - 1e-3) - 1e-14
    assert gaussian(0.0) == 0.0
    assert gaussian(1.0) <= 1.0


def noisy_count(canaries, keep, spread):
    """A discrete mechanism: the count of included canaries plus two-sided geometric noise, cut at +-spread."""
    steps = np.arange(-spread, spread + 1)
    noise = keep ** np.abs(steps)
    noise /= noise.sum()
    table = np.zeros((canaries + 1, canaries + 2 * spread + 1))
    for count in range(canaries + 1):
        table[count, count : count + 2 * spread + 1] = noise
    return table


@pytest.mark.parametrize("guesses", [5, 3])
def test_no_guesser_of_any_output_exceeds_the_bound(guesses):
    """Every way to guess from every output of a mechanism whose output mixes all coins, by enumeration."""
    canaries = 5
    table = noisy_count(canaries, 0.6, 4)
    coins = np.array(list(product((0, 1), repeat=canaries)))
    joint = table[coins.sum(axis=1)] / len(coins)  # probability of coins and output
    named = np.array([g for g in product((-1, 0, 1), repeat=canaries) if np.abs(g).sum() == guesses])
    right = ((named[:, None, :] == 1) & (coins == 1)) | ((named[:, None, :] == -1) & (coins == 0))
    counts = right.sum(axis=2)  # of each way to guess, under each outcome of the coins

    def curve(epsilon):
        """The exact privacy curve of adding or removing one canary."""
        neighbours = [pair for one in pairwise(table) for pair in (one, one[::-1])]
        return max(np.maximum(first - np.exp(epsilon) * second, 0).sum() for first, second in neighbours)

    for least in range(1, guesses + 1):
        largest = ((counts >= least).astype(float) @ joint).max(axis=0).sum()  # the best guess at each output
        assert largest <= p_value(least, guesses, canaries, 0.05, claim_of(curve)) + 1e-12


def test_counts_p_values_and_levels_agree():
    claim = claim_of(ps.GaussianAccountant(sensitivity=1, noise_std=1.5))
    values = [p_value(right, 60, 300, 0.05, claim) for right in range(61)]
    assert values[0] == 1.0
    assert all(np.diff(values) <= 0)
    critical = critical_count(60, 300, 0.05, claim)
    assert [value <= 0.05 for value in values] == [right >= critical for right in range(61)]
    least = least_guesses(300, 0.05, claim)
    assert critical_count(least, 300, 0.05, claim) == least
    assert critical_count(least - 1, 300, 0.05, claim) is None
    counts = [critical_count(guesses, 300, 0.05, claim) or np.inf for guesses in range(least, 301, 20)]
    assert all(np.diff(counts) > 0)


def test_the_curve_of_an_account_is_read_once(monkeypatch):
    account = ps.GaussianAccountant(sensitivity=1, noise_std=1)
    first = claim_of(account)
    monkeypatch.setattr(ps.Accountant, "delta", None)
    assert claim_of(account) is first
    assert ps.OneRunVerdict(claim=account, canaries=100, guesses=80, right=70).critical == 76


def test_extremes():
    assert p_value(5_000, 5_000, 5_000, 0.05, pure_claim(0.01)) == 1e-250
    assert claim_of(lambda e: 1.0).wrong_mass(0.5) == 0.0
    assert least_guesses(50, 0.05, claim_of(lambda e: 1.0)) is None
    assert claim_of(lambda e: 0.0).wrong_mass(0.25) == pytest.approx(0.25)
    assert critical_count(10, 10, 0.05, pure_claim(400.0)) is None
    assert claim_of(ps.PureAccountant(stated_epsilon=0.0)).wrong_mass(0.3) == pytest.approx(0.3)
    assert lower_mu(0, 10, 10, 0.05) == 0.0
    assert lower_epsilon(5, 10, 10, 0.05, 0.0) == 0.0
    leaks = claim_of(ps.ApproximateAccountant(stated_epsilon=1.0, stated_delta=0.1))
    assert (leaks.deltas >= 0.1).all()
    assert leaks.wrong_mass(0.1) == 0.0
    assert leaks.wrong_mass(0.3) == pytest.approx(0.2 * np.exp(-1))


def test_a_wrong_step_of_the_recursion_is_noticed():
    """The recursion with the mass of right guesses at j in place of j + 1 misses the published values."""

    def with_wrong_step(right, guesses, canaries, level, claim):
        tau, above = level, 0.0
        for j in range(right - 1, -1, -1):
            mass, above = (j * tau + above) / canaries, above + tau
            tau = max(tau, (above + canaries * claim.wrong_mass(mass)) / (guesses - j))
        return tau > 1.0

    claim = by_recursion_alone(2.15633)
    assert refutes(95, 100, 100, 0.05, claim)
    assert not with_wrong_step(95, 100, 100, 0.05, claim)

"""A fixed number of runs: the account of all runs together, against enumeration of the best run and Proposition 17."""

import itertools

import mpmath as mp
import numpy as np
import pytest

import privsample as ps
from privsample.distributions.repetitions import check_repetition_distribution

ORDERS, EPSILONS = np.array([1.1, 2.0, 8.0, 60.0]), np.array([0.0, 0.3, 1.1, 2.0])


def best_of(chances, number):
    """The distribution of the first output in the order of the list among this many runs, at 50 digits."""
    worse = [sum(chances[place:]) for place in range(len(chances))] + [mp.mpf(0)]
    return [before**number - after**number for before, after in itertools.pairwise(worse)]


def selected(number, base):
    return ps.SelectionAccountant(base=base, repetitions=ps.FixedRepetitions(number=number))


@pytest.mark.parametrize("number", [1, 2, 5, 40])
def test_proposition_17_attains_the_account_of_all_runs(number):
    base = ps.RandomizedResponse(log_odds=0.7, relation=ps.ReplaceOne(n=1)).accountant
    account = selected(number, base)
    with mp.workdps(50):
        high = 1 / (1 + mp.exp(-mp.mpf(0.7)))
        p, q = best_of([1 - high, high], number), best_of([high, 1 - high], number)
        loss = float(mp.log(p[1] / q[1]))
        tight = [float(mp.log(sum(x**a * y ** (1 - a) for x, y in zip(p, q, strict=True))) / (a - 1)) for a in ORDERS]
    assert account.bounds.pure_epsilon == pytest.approx(loss, rel=1e-12)  # no smaller guarantee exists
    assert account.bounds.pure_epsilon >= loss * (1 - 1e-15)
    assert (account.rdp(ORDERS) >= np.array(tight) * (1 - 1e-14)).all()
    # the bound that Proposition 17 prints
    assert (np.array(tight) >= number * 0.7 - number * np.log1p(np.exp(-0.7)) / (ORDERS - 1) - 1e-12).all()


@pytest.mark.parametrize("number", [2, 3])
def test_no_order_of_three_outputs_costs_more(number):
    base = ps.RandomizedResponse(log_odds=1.0, categories=3, relation=ps.ReplaceOne(n=1)).accountant
    account = selected(number, base)
    delta, most = account.delta(EPSILONS), np.zeros(len(EPSILONS))
    with mp.workdps(50):
        common = 1 / (2 + mp.e)
        p, q = [mp.e * common, common, common], [common, mp.e * common, common]
        for order in itertools.permutations(range(3)):
            one, two = (best_of([chances[k] for k in order], number) for chances in (p, q))
            for place, epsilon in enumerate(EPSILONS):
                gain = sum(max(x - mp.exp(epsilon) * y, 0) for x, y in zip(one, two, strict=True))
                most[place] = max(most[place], float(gain))
    assert (delta >= most * (1 - 1e-14)).all()
    # one run less is (number - 1)-DP, which the best run is not
    assert most[number] > ((number - 1) * base).delta(EPSILONS[number]) == 0.0


def test_two_runs_or_three_are_no_worse_than_three():
    """Without a single run the bounds by ranks do not exist; they raised an error."""
    base = ps.RandomizedResponse(log_odds=1.0, relation=ps.ReplaceOne(n=1)).accountant
    runs = ps.TabulatedRepetitions(probabilities=(0.1, 0.0, 0.4, 0.5))
    account = ps.SelectionAccountant(base=base, repetitions=runs)
    assert account.bounds.pure_epsilon == pytest.approx(3.0, rel=1e-12)
    with mp.workdps(50):
        high = 1 / (1 + mp.exp(-1))
        for chances in ([1 - high, high], [high, 1 - high]):
            pairs = [(best_of(chances, k), best_of(chances[::-1], k)) for k in (2, 3)]
            p, q = (
                [0.4 * two + 0.5 * three for two, three in zip(*each, strict=True)] for each in zip(*pairs, strict=True)
            )
            for epsilon in EPSILONS:
                exact = sum(max(x - mp.exp(epsilon) * y, 0) for x, y in zip(p, q, strict=True))
                assert account.delta(epsilon) >= float(exact)


def test_the_account_is_that_of_the_composition():
    base = ps.GaussianAccountant(sensitivity=1, noise_std=5)
    account = selected(10, base)
    assert account.rdp(ORDERS) == pytest.approx((10 * base).rdp(ORDERS), rel=0)
    assert account.delta(EPSILONS) == pytest.approx((10 * base).delta(EPSILONS), rel=0)
    assert account.bounds.kind("rdp") == account.bounds.kind("delta") == "upper bound"
    assert ps.Assumption.TIMING in account.assumptions
    failing = ps.ApproximateAccountant(stated_epsilon=0.5, stated_delta=1e-4)
    assert selected(10, failing).infinity_mass == pytest.approx(1 - (1 - 1e-4) ** 10)


def test_functions_against_their_definition():
    w = np.array([1e-300, 1e-12, 1e-3, 0.3, 0.9])
    for number in (1, 2, 7):
        runs = ps.FixedRepetitions(number=number)
        with mp.workdps(400):
            u = [1 - mp.mpf(float(x)) for x in w]
            rank, slope = [float(1 - x**number) for x in u], [float(number * x ** (number - 1)) for x in u]
        assert np.exp(runs.log_rank_probability(w)) == pytest.approx(rank, rel=1e-13)
        assert np.exp(runs.log_pgf_derivative(w)) == pytest.approx(slope, rel=1e-13)
        assert runs.pgf_curvature(w) == pytest.approx((number - 1) / (1 - w), rel=1e-13)
        assert runs.log_pgf(np.array([0.0, 0.5])) == pytest.approx([0.0, 0.5 * number])
        assert np.exp(runs.log_mass(np.arange(9.0))).tolist() == [float(k == number) for k in range(9)]
        assert runs.mean == runs.maximum == runs.fixed_number == runs.sample(np.random.default_rng(1)) == number
        assert runs.expected_quantile == pytest.approx(number / (number + 1), rel=1e-10)
        assert runs.log_zero_probability == -np.inf
        assert runs.tilted(0.5) is runs
    assert runs.log_rank_probability(np.ones(())) == 0.0
    assert ps.Poisson(mean=2).fixed_number is None


def test_truncation_keeps_the_number():
    runs = ps.TruncatedRepetitions(distribution=ps.FixedRepetitions(number=3), maximum=5)
    assert (runs.maximum, runs.fixed_number, runs.sample(np.random.default_rng(1))) == (3, 3, 3)
    base = ps.PureAccountant(stated_epsilon=0.1)
    assert ps.SelectionAccountant(base=base, repetitions=runs).bounds.pure_epsilon == pytest.approx(0.3)


def test_the_best_of_all_runs_is_released():
    base = ps.GaussianMechanism(sensitivity=1, noise_std=1)
    best = ps.RepeatedSelection(base=base, repetitions=ps.FixedRepetitions(number=40))
    assert best.accountant == selected(40, base.accountant)
    rng = np.random.default_rng(5)
    draws = np.array([best.release(0.0, rng=rng)["statistic"].item() for _ in range(10)])
    assert abs(draws.mean() - 2.161) < 0.7  # the mean of the largest of 40 normal numbers


@pytest.mark.parametrize(
    ("number", "error"), [(0, ValueError), (10**7, ValueError), ("3", TypeError), (True, TypeError)]
)
def test_bad_numbers_are_refused(number, error):
    with pytest.raises(error, match="number"):
        ps.FixedRepetitions(number=number)


def test_a_bare_number_stays_refused_and_names_the_class():
    with pytest.raises(TypeError, match=r"FixedRepetitions\(number=k\) states"):
        check_repetition_distribution(10)

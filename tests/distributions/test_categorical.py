"""Exact choices: whole dyadic trees against rational probabilities, undecided words, and bad luck at every boundary."""

from fractions import Fraction

import mpmath as mp
import numpy as np
import pytest
from scipy import stats

from privsample.distributions.exact.categorical import (
    Categorical,
    as_ball,
    bernoulli_draws,
    scaled_bounds,
    uniform_integers,
)
from privsample.distributions.exact.counts import ExactCount, MassTerms
from tests.given_words import GivenWords

HALF = 2**63


def boundary_words(chance, bits=63):
    """The first 63 bits of a boundary between two categories, and the next 64."""
    scaled = Fraction(chance) * 2 ** (bits + 64)
    whole = scaled.numerator // scaled.denominator
    return whole >> 64, whole & (2**64 - 1)


@pytest.mark.parametrize("weights", [(1, 2), (0.1, 0.2, 0.7), (0, 3, 0, 1, 0), (Fraction(1, 3), Fraction(1, 7)), (5,)])
def test_each_word_next_to_a_boundary_gets_its_category(weights):
    """A category is drawn for exactly the uniform numbers between its two cumulative probabilities."""
    made, total = Categorical.of_weights(weights), sum(map(Fraction, weights))
    below = [sum(map(Fraction, weights[: j + 1])) / total for j in range(len(weights) - 1)]
    for chance in {c for c in below if 0 < c < 1}:
        first, then = boundary_words(chance)
        exactly = chance * 2**63 == first
        for word, more in (
            (first - 1, ()),
            (first, () if exactly else (then - 1,)),
            (first, () if exactly else (then + 1,)),
        ):
            value = Fraction(word, 2**63) + (Fraction(more[0], 2**127) if more else Fraction(0))
            expected = sum(1 for c in below if c <= value)
            rng = GivenWords(word << 1, *more)
            assert made.draw(1, rng).tolist() == [expected]
            assert rng.left == []  # an undecided word, and only that, asks for another
    for word in (0, 2**64 - 1):
        drawn = int(made.draw(1, GivenWords(word))[0])
        assert weights[drawn] > 0


def test_a_word_on_the_boundary_asks_for_more_until_it_decides():
    first, then = boundary_words(Fraction(1, 3))
    _, after = boundary_words(Fraction(1, 3), bits=127)
    rng = GivenWords(first << 1, then, after + 1)
    assert Categorical.of_weights([1, 2]).draw(1, rng).tolist() == [1]
    assert rng.left == []
    assert Categorical.of_weights([1, 2]).draw(1, GivenWords(first << 1, then, after - 1)).tolist() == [0]


def test_masses_of_balls_are_those_at_fifty_digits():
    """Boundaries at 200 bits enclose e^-1/(e^-1 + e^-2 + 1e-30), and no ball is wider than its precision."""
    made = Categorical.of_balls(lambda _: [as_ball(-1).exp(), as_ball(-2).exp(), as_ball(Fraction(1, 10**30))])
    low, high = made._boundaries(200)
    with mp.workdps(90):
        masses = [mp.exp(-1), mp.exp(-2), mp.mpf(10) ** -30]
        for j, (a, b) in enumerate(zip(low, high, strict=True)):
            exact = sum(masses[: j + 1]) / sum(masses) * mp.mpf(2) ** 200
            assert a <= exact <= b <= a + 2


def test_balls_that_hold_no_number_decide_nothing_and_are_tightened():
    asked = []

    def masses(bits):
        asked.append(bits)
        wide = as_ball(1) / (as_ball(0) if bits < 200 else as_ball(1))
        return [wide, as_ball(1)]

    made = Categorical.of_balls(masses)
    assert made.draw(1, GivenWords(0, 0, 0)).tolist() == [0]
    assert made.draw(1, GivenWords(2**64 - 1, 0, 0)).tolist() == [1]
    assert max(asked) >= 200


@pytest.mark.parametrize("chance", [0.0, 1.0, 0.5, 0.3, 2.0**-63, 1e-30, 1 - 2.0**-53])
def test_bernoulli_draws_compare_with_all_bits_of_the_double(chance):
    first, then = boundary_words(chance)
    for word in {max(first - 1, 0), min(first, 2**63 - 1)}:
        for more in (0, 2**64 - 1):
            value = Fraction(word, 2**63) + Fraction(more, 2**127)
            undecided = word == first and Fraction(chance) * 2**63 != first
            if undecided and more == then:
                continue
            drawn = bernoulli_draws(np.array([chance]), GivenWords(word << 1, *([more] * undecided)))
            low = Fraction(word, 2**63) if not undecided else value
            assert bool(drawn[0]) == (low < Fraction(chance))


def test_tiny_probabilities_are_neither_rounded_to_zero_nor_to_a_multiple_of_two_to_the_minus_53():
    drawn = bernoulli_draws(np.full(3, 1e-30), GivenWords(0, 2, 2, 0))
    assert drawn.tolist() == [True, False, False]  # 1e-30 2^127 is about 1.7e8
    with pytest.raises(AssertionError, match="more words"):
        bernoulli_draws(np.full(1, 1e-40), GivenWords(0, 0))  # 1e-40 lies below 2^-127: two words do not decide


def test_uniform_integers_reject_the_incomplete_last_cycle():
    most = 2**64 - 2**64 % 3
    assert uniform_integers(3, 2, GivenWords(most, 4, 5)).tolist() == [2, 1]
    assert uniform_integers(4, 2, GivenWords(2**64 - 1, 6)).tolist() == [3, 2]
    assert uniform_integers(1, 2, GivenWords(7, 2**64 - 1)).tolist() == [0, 0]


def test_bounds_of_doubles_hold_them():
    low, high = scaled_bounds(np.array([0.0, 0.3, 1.0]), np.array(1e-9))
    assert low[0] == 0
    assert int(high[2]) == HALF
    for j, x in enumerate((0.0, 0.3, 1.0)):
        assert int(low[j]) <= x * 2**63 <= int(high[j])
    assert int(high[1]) - int(low[1]) <= 3e-9 * 2**63


@pytest.mark.statistical
@pytest.mark.parametrize(("chance", "accepted"), [(0.3, True), (0.31, False)])
def test_draws_have_the_stated_frequencies(chance, accepted, rng, alpha):
    made = Categorical.of_weights([0.3, 0.5, 0.2])
    seen = np.bincount(made.draw((400, 500), rng).ravel(), minlength=3)
    expected = 200_000 * np.array([chance, 0.8 - chance, 0.2])
    assert (stats.chisquare(seen, expected).pvalue > alpha) == accepted


def geometric(rate, maximum=np.inf):
    """P(K = k) = rate (1 - rate)^(k - 1), k >= 1."""
    return ExactCount(lambda: MassTerms(1, as_ball(rate), lambda k: 1 - as_ball(rate)), maximum)


def test_counts_beyond_the_first_table_continue_in_the_next():
    """With P(K > k) = 2^-k the word of a table of 1024 counts tells the count directly."""
    assert geometric(0.5).draw(GivenWords(0)) == 1
    assert geometric(0.5).draw(GivenWords(2**63 + 2**61)) == 2
    assert geometric(0.5).draw(GivenWords(2**64 - 2**32 + 2**30)) == 33
    # 1023 bits of one: beyond the first table, whose last boundary is 1 - 2^-1023
    assert geometric(0.5).draw(GivenWords(*[2**64 - 1] * 16, 0)) == 1024
    assert geometric(0.5, 3).draw(GivenWords(2**64 - 1)) == 3


@pytest.mark.statistical
@pytest.mark.parametrize(("rate", "accepted"), [(1e-3, True), (1.2e-3, False)])
def test_counts_that_need_several_tables(rate, accepted, rng, alpha):
    made = geometric(rate)
    drawn = np.array([made.draw(rng) for _ in range(4_000)])
    quantiles = stats.geom.cdf(drawn, 1e-3) - rng.random(4_000) * stats.geom.pmf(drawn, 1e-3)
    assert (stats.kstest(quantiles, "uniform").pvalue > alpha) == accepted

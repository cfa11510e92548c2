"""Exact choices by exponential weights: enclosures against 50 digits, and every undecided word."""

from fractions import Fraction

import mpmath as mp
import numpy as np
import pytest

from privsample.distributions.exact.categorical import Categorical, scaled_bounds
from privsample.distributions.exact.exponential_weights import ExponentialWeights, power_of_e
from tests.given_words import GivenWords

CASES = {
    "integers": (np.array([3, 0, 5, 5, -7]), Fraction(1, 3)),
    "far apart": (np.array([0, -(10**15), -1]), Fraction(0.7)),
    "doubles": (np.array([0.1, 0.2, -1e300, 0.3 - 1e-17]), Fraction(10)),
    "huge factor": (np.array([1.0, 1.0 + 2.0**-52, 0.0]), 1 / Fraction(5e-324)),
    "tiny factor": (np.array([1e3, -1e3, 0.0]), Fraction(5e-324)),
    "one": (np.array([2.5]), Fraction(1)),
}


def exact_weights(utilities, factor):
    best = max(Fraction(u.item()) for u in utilities)
    parts = [factor * (Fraction(u.item()) - best) for u in utilities]
    return [mp.exp(mp.mpf(part.numerator) / part.denominator) for part in parts]


def test_the_power_of_e_has_the_stated_error():
    x = np.concatenate([np.linspace(-700, 0, 3001), -np.geomspace(1e-300, 700, 500), [0.0, -np.log(2) / 2]])
    with mp.workdps(40):
        errors = [abs(mp.mpf(float(y)) / mp.exp(mp.mpf(float(at))) - 1) for at, y in zip(x, power_of_e(x), strict=True)]
    assert max(errors) < mp.mpf(2) ** -50  # 2^-45 is claimed
    assert power_of_e(np.zeros(1)).tolist() == [1.0]


@pytest.mark.parametrize("name", CASES)
def test_quick_and_exact_boundaries_enclose_the_law_at_fifty_digits(name, monkeypatch):
    utilities, factor = CASES[name]
    weights, seen = ExponentialWeights(utilities, factor), []

    def record(boundaries, first):
        seen.append((boundaries, first))
        return Categorical(boundaries, first)

    monkeypatch.setattr("privsample.distributions.exact.exponential_weights.Categorical", record)
    weights.choose(1, np.random.default_rng(1))
    ((boundaries, first),) = seen
    with mp.workdps(400):
        masses = exact_weights(utilities, factor)
        total = sum(masses)
        for bits, (low, high) in ((63, first), (200, boundaries(200))):
            for j in range(len(masses) - 1):
                boundary = sum(masses[: j + 1]) / total * mp.mpf(2) ** bits
                assert int(low[j]) <= boundary <= int(high[j])
                assert int(high[j]) - int(low[j]) <= (2 if bits == 200 else 2**63 * 1e-11)


@pytest.mark.parametrize("name", CASES)
def test_acceptances_enclose_the_weights_at_fifty_digits(name):
    utilities, factor = CASES[name]
    made = ExponentialWeights(utilities, factor)
    approximate = made._approximate_weights()
    with mp.workdps(400):
        for j, weight in enumerate(exact_weights(utilities, factor)):
            assert abs(approximate[j] - weight) <= weight * mp.mpf(2) ** -41 + mp.mpf(2) ** -1000
            (low,), (high,) = made._acceptance(j)(150)
            assert low <= weight * mp.mpf(2) ** 150 <= high <= low + 2


def test_every_word_gets_the_candidate_of_its_place():
    """Words on both sides of each boundary, and one that needs a second word."""
    utilities, factor = np.array([1, 0, 2]), Fraction(1, 2)
    with mp.workdps(60):
        masses = exact_weights(utilities, factor)
        below = [sum(masses[: j + 1]) / sum(masses) for j in range(2)]
        for j, boundary in enumerate(below):
            place = int(mp.floor(boundary * mp.mpf(2) ** 127))
            first, then = place >> 64, place & (2**64 - 1)
            for more, expected in ((then - 2, j), (then + 2, j + 1)):
                rng = GivenWords(first << 1, more)
                assert ExponentialWeights(utilities, factor).choose(1, rng).tolist() == [expected]
                assert rng.left == []
            for word, expected in ((first - 2**30, j), (first + 2**30, j + 1)):
                assert ExponentialWeights(utilities, factor).choose(1, GivenWords(word << 1)).tolist() == [expected]


def test_permute_and_flip_chooses_among_the_accepted():
    """Words decide who is accepted; the next one chooses among the accepted in order of their places."""
    utilities, factor = np.array([0, -1, 0]), Fraction(1)
    made = ExponentialWeights(utilities, factor)
    accepted, rejected = 2**62, 2**63  # e^-1 = 0.37 of 2^64 lies between them
    for middle, choice, expected in ((accepted, 0, 0), (accepted, 1, 1), (accepted, 2, 2), (rejected, 1, 2)):
        rng = GivenWords(2**64 - 2**40, middle, 0, choice)  # the best are accepted with any word
        assert made.permute_and_flip(1, rng).tolist() == [expected]
    sure = GivenWords(2**64 - 1, rejected, 2**64 - 1, 5, 7, 0)  # words that the doubles leave undecided
    assert made.permute_and_flip(1, sure).tolist() == [0]
    assert sure.left == []


def test_bounds_of_no_candidate_but_the_best_are_wide():
    low, high = scaled_bounds(np.array([1.0]), np.array([2.0**-40]))
    assert 2**63 - int(low[0]) == 2**23
    assert int(high[0]) == 2**63

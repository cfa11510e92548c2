"""Arithmetic that errs on one side."""

import math
import sys
from fractions import Fraction

import numpy as np
import pytest

from privsample._logspace import LEAST_LOSS, half_square, product_up, ratio_up, resolved, weighted_sum_up


def test_ratios_are_the_least_floats_that_are_not_below(rng):
    for a, b in np.exp(rng.uniform(-300, 300, (500, 2))):
        ratio = ratio_up(a, b)
        assert Fraction(ratio) * Fraction(b) >= Fraction(a) > Fraction(math.nextafter(ratio, 0.0)) * Fraction(b)


@pytest.mark.parametrize(
    ("a", "b", "ratio"), [(1e300, 1e-300, math.inf), (3.0, 2.0, 1.5), (1.0, 3.0, 0.33333333333333337)]
)
def test_ratios(a, b, ratio):
    assert ratio_up(a, b) == ratio


def test_what_is_small_is_never_nothing():
    assert ratio_up(5e-324, 1e300) == 5e-324
    assert resolved(0.0) == half_square(0.0) == 0.0
    for small in (5e-324, 1e-200, LEAST_LOSS):
        assert resolved(small) == LEAST_LOSS
        assert half_square(small) == LEAST_LOSS**2 / 2 > 0.0
    assert resolved(0.5) == 0.5
    assert half_square(3.0) == 4.5
    assert half_square(1e200) == half_square(math.inf) == math.inf


@pytest.mark.parametrize("exponent", [1, 149, 300])
def test_weighted_sums_are_the_least_floats_that_are_not_below(rng, exponent):
    """Also where products of floats underflow or overflow, and for multiplicities that are no doubles."""
    for most in (2, 1000, 2**60):
        values = np.exp(rng.uniform(-exponent, exponent, (50, 4)) * math.log(10)).tolist()
        for row in values:
            times = rng.integers(1, most, 4).tolist()
            exact = sum(Fraction(value) * count for value, count in zip(row, times, strict=True))
            found = weighted_sum_up(zip(row, times, strict=True))
            if exact > Fraction(sys.float_info.max):
                assert found == math.inf
            else:
                assert Fraction(found) >= exact > Fraction(math.nextafter(found, 0.0))


def test_weighted_sums_that_overflow_are_infinite():
    assert weighted_sum_up([(1e308, 1), (1e308, 1)]) == weighted_sum_up([(1.0, 1), (math.inf, 1)]) == math.inf
    assert weighted_sum_up([(1e308, 5)]) == math.inf
    assert weighted_sum_up([]) == 0.0


def test_half_squares_of_floats_are_those_of_arrays(rng):
    for loss in np.exp(rng.uniform(-340, 340, 500)).tolist():
        least = resolved(loss)
        assert half_square(loss) == float(product_up(least, least)) / 2

"""Arithmetic that errs on one side."""

import math
from fractions import Fraction

import numpy as np
import pytest

from privsample._logspace import LEAST_LOSS, half_square, ratio_up, resolved


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

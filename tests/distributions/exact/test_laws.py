"""The exact laws against SciPy's distribution functions; each test fails for a copy with a wrong parameter."""

from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from scipy import stats

from privsample.distributions.exact.balls import WorkingPrecision, enclose
from privsample.distributions.exact.grid import Grid
from privsample.distributions.exact.laws import (
    beta,
    dirichlet,
    exponential,
    gamma,
    laplace,
    normal,
)
from privsample.distributions.exact.lazy import affine, rounded
from privsample.distributions.exact.words import WordStream

# Draws with which a parameter that is wrong by a half moves the distribution function by more than four standard errors
# beyond what the test of Kolmogorov and Smirnov accepts at alpha = 1e-9.
DRAWS = {
    "normal": 3_000,
    "exponential": 1_500,
    "laplace": 5_000,
    "gamma(50)": 1_000,
    "gamma(1)": 1_000,
    "gamma(0.3)": 1_200,
    "beta(200, 370)": 1_000,
    "beta(0.5, 0.5)": 2_000,
}
FINE = Grid(pitch=2.0**-60)
UNIVARIATE = {
    "normal": (lambda f, words: affine(normal(words), f), stats.norm()),
    "exponential": (lambda f, words: affine(exponential(words), f), stats.expon()),
    "laplace": (lambda f, words: affine(laplace(words), f), stats.laplace()),
    "gamma(50)": (lambda f, words: gamma(50 * f, words), stats.gamma(50)),
    "gamma(1)": (gamma, stats.gamma(1)),
    "gamma(0.3)": (lambda f, words: gamma(Fraction(3, 10) * f, words), stats.gamma(0.3)),
    "beta(200, 370)": (lambda f, words: beta(200 * f, 370, words), stats.beta(200, 370)),
    "beta(0.5, 0.5)": (lambda f, words: beta(Fraction(1, 2) * f, Fraction(1, 2), words), stats.beta(0.5, 0.5)),
}


@pytest.mark.statistical
@pytest.mark.parametrize(("factor", "accepted"), [(Fraction(1), True), (Fraction(3, 2), False)])
@pytest.mark.parametrize("name", UNIVARIATE)
def test_numbers(name, factor, accepted, rng, alpha):
    draw, law = UNIVARIATE[name]
    words = WordStream(rng)
    draws = [FINE.point(rounded(draw(factor, words), FINE)) for _ in range(DRAWS[name])]
    assert (stats.kstest(draws, law.cdf).pvalue > alpha) == accepted


@pytest.mark.statistical
@pytest.mark.parametrize(("factor", "accepted"), [(1, True), (2, False)])
def test_shares(factor, accepted, rng, alpha):
    words = WordStream(rng)
    shapes = [3 * factor, Fraction(7, 2), 12]
    draws = np.array([[FINE.point(rounded(x, FINE)) for x in dirichlet(shapes, words)] for _ in range(1_000)])
    np.testing.assert_allclose(draws.sum(axis=1), 1.0, rtol=1e-15)
    marginals = zip(draws.T, [(3, 15.5), (3.5, 15), (12, 6.5)], strict=True)
    assert (min(3 * stats.kstest(x, stats.beta(*shape).cdf).pvalue for x, shape in marginals) > alpha) == accepted


@pytest.mark.parametrize("shape", [0, -1, 2**201])
def test_shapes_out_of_range(shape, rng):
    with pytest.raises(ValueError, match=r"shape must be > 0 and at most 2\^200"):
        gamma(shape, WordStream(rng))


@pytest.mark.parametrize("name", UNIVARIATE)
def test_enclosures_shrink_to_one_number(name, rng):
    number = UNIVARIATE[name][0](Fraction(1), WordStream(rng))
    balls = [number.ball(bits) for bits in (64, 128, 512, 2048)]
    for wide, narrow in pairwise(balls):
        assert wide.overlaps(narrow)
    assert [ball.rel_accuracy_bits() > bits - 40 for ball, bits in zip(balls, (64, 128, 512, 2048), strict=True)] == [
        True
    ] * 4


@pytest.mark.parametrize("shape", [Fraction(1, 10**6), Fraction(1, 100), 10**12, 2**100, 2**200])
def test_extreme_shapes(shape, rng):
    words, grid = WordStream(rng), Grid(pitch=2.0**-39, low=0.0, relative=True)
    draws = [gamma(shape, words) for _ in range(300)]
    assert all(grid.point(rounded(x, grid)) > 0 for x in draws)
    if shape > 1:
        with WorkingPrecision(600):
            away = [float(((x.ball(600) - shape) / enclose(shape).sqrt()).mid()) for x in draws]
        assert 0.8 < np.std(away) < 1.2
        assert abs(np.mean(away)) < 0.4
    else:  # shape times log X is nearly minus an exponential number
        with WorkingPrecision(200):
            logs = [-float((x.ball(200).log() * enclose(shape)).mid()) for x in draws]
        assert 0.7 < np.mean(logs) < 1.3


def test_beta_numbers_near_both_ends_are_inside(rng):
    words, grid = WordStream(rng), Grid(pitch=2.0**-39, low=0.0, high=1.0, relative=True)
    points = [grid.point(rounded(beta(Fraction(1, 100), Fraction(1, 100), words), grid)) for _ in range(200)]
    assert 0.0 < min(points) < 1e-20
    assert 1.0 > max(points) > 1 - 1e-12


@pytest.mark.parametrize("shape", [Fraction(1, 10**12), Fraction(5e-324)])
@pytest.mark.parametrize("relative", [True, False])
def test_the_smallest_shapes(shape, relative, rng):
    """Almost all mass is at the corners of the simplex, which no share reaches; none of the ratios is 0 / 0."""
    words = WordStream(rng)
    grid = Grid(pitch=2.0**-39, low=0.0, high=1.0, relative=relative)
    shares = [[grid.point(rounded(x, grid)) for x in dirichlet((shape, shape, shape), words)] for _ in range(20)]
    smallest = 2.0**-1022 if relative else 2.0**-41
    largest = 1 - 2.0**-53 if relative else 1 - 2.0**-41
    assert all(sorted(row) == [smallest, smallest, largest] for row in shares)

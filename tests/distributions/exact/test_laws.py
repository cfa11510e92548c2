"""The exact laws against SciPy's distribution functions; each test fails for a copy with a wrong parameter."""

from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from privsample.distributions.exact.grid import Grid
from privsample.distributions.exact.laws import (
    beta,
    dirichlet,
    exponential,
    gamma,
    inverse_gamma,
    laplace,
    normal,
)
from privsample.distributions.exact.lazy import affine, rounded
from privsample.distributions.exact.words import WordStream

DRAWS = 4_000
FINE = Grid(pitch=2.0**-60)
UNIVARIATE = {
    "normal": (lambda f, words: affine(normal(words), f), stats.norm()),
    "exponential": (lambda f, words: affine(exponential(words), f), stats.expon()),
    "laplace": (lambda f, words: affine(laplace(words), f), stats.laplace()),
    "gamma(50)": (lambda f, words: gamma(50 * f, words), stats.gamma(50)),
    "gamma(1)": (gamma, stats.gamma(1)),
    "gamma(0.3)": (lambda f, words: gamma(Fraction(3, 10) * f, words), stats.gamma(0.3)),
    "inverse_gamma(5)": (lambda f, words: inverse_gamma(5 * f, words), stats.invgamma(5)),
    "beta(200, 370)": (lambda f, words: beta(200 * f, 370, words), stats.beta(200, 370)),
    "beta(0.5, 0.5)": (lambda f, words: beta(Fraction(1, 2) * f, Fraction(1, 2), words), stats.beta(0.5, 0.5)),
}


@pytest.mark.statistical
@pytest.mark.parametrize(("factor", "accepted"), [(Fraction(1), True), (Fraction(3, 2), False)])
@pytest.mark.parametrize("name", UNIVARIATE)
def test_numbers(name, factor, accepted, rng, alpha):
    draw, law = UNIVARIATE[name]
    words = WordStream(rng)
    draws = [FINE.point(rounded(draw(factor, words), FINE)) for _ in range(DRAWS)]
    assert (stats.kstest(draws, law.cdf).pvalue > alpha) == accepted


@pytest.mark.statistical
@pytest.mark.parametrize(("factor", "accepted"), [(1, True), (2, False)])
def test_shares(factor, accepted, rng, alpha):
    words = WordStream(rng)
    shapes = [3 * factor, Fraction(7, 2), 12]
    draws = np.array([[FINE.point(rounded(x, FINE)) for x in dirichlet(shapes, words)] for _ in range(DRAWS)])
    np.testing.assert_allclose(draws.sum(axis=1), 1.0, rtol=1e-15)
    marginals = zip(draws.T, [(3, 15.5), (3.5, 15), (12, 6.5)], strict=True)
    assert (min(3 * stats.kstest(x, stats.beta(*shape).cdf).pvalue for x, shape in marginals) > alpha) == accepted


@pytest.mark.parametrize("shape", [0, -1, 2**201])
def test_shapes_out_of_range(shape, rng):
    with pytest.raises(ValueError, match=r"shape must be > 0 and at most 2\^200"):
        gamma(shape, WordStream(rng))

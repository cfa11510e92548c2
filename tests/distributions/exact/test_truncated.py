"""Exact truncated laws against integrals of their densities and plain rejection; extremes; refusals."""

from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from privsample.distributions.exact.grid import Grid
from privsample.distributions.exact.laws import dirichlet
from privsample.distributions.exact.lazy import rounded
from privsample.distributions.exact.truncated import (
    truncated_beta,
    truncated_beta_sampler,
    truncated_gamma,
    truncated_gamma_sampler,
    truncated_normal,
    truncated_normal_sampler,
)
from privsample.distributions.exact.truncated_dirichlet import truncated_dirichlet, truncated_dirichlet_sampler
from privsample.distributions.exact.words import WordStream

DRAWS = 4_000
# Draws with which a parameter that is wrong by 0.6 or 1.6 moves the distribution function by four standard errors more
# than the test of Kolmogorov and Smirnov accepts at alpha = 1e-9; the others move it by 0.09 and need 4,000.
DRAWS_OF = {
    **dict.fromkeys(("beta", "gamma from its mode on", "gamma in a far tail"), 1_000),
    **dict.fromkeys(("beta in a far tail", "normal in a far tail"), 1_000),
    **dict.fromkeys(("gamma", "bowl"), 2_000),
    "beta up to its mode": 6_000,
    "small gamma": 8_000,
}
FINE = Grid(pitch=2.0**-60)
SAMPLERS = {
    "beta": (truncated_beta_sampler, (2.5, 7.0, 0.2, 0.8)),
    "bowl": (truncated_beta_sampler, (0.5, 0.9, 0.02, 0.98)),
    "beta up to its mode": (truncated_beta_sampler, (3.0, 3.0, 0.1, 0.5)),
    "normal from its mode on": (truncated_normal_sampler, (0.25, 1.0, 0.25, 3.0)),
    "gamma from its mode on": (truncated_gamma_sampler, (3.0, 2.0, 1.5, 9.0)),
    "beta in a far tail": (truncated_beta_sampler, (3000.0, 1.0, 0.1, 0.3)),
    "gamma": (truncated_gamma_sampler, (3.0, 2.0, 0.5, 2.0)),
    "small gamma": (truncated_gamma_sampler, (0.3, 2.0, 0.01, 9.0)),
    "gamma in a far tail": (truncated_gamma_sampler, (100.0, 900.0, 0.5, 20.0)),
    "normal": (truncated_normal_sampler, (0.0, 1.0, -3.0, 0.5)),
    "normal in a far tail": (truncated_normal_sampler, (0.0, 0.01, 3.0, 5.0)),
}
DENSITIES = {
    truncated_beta_sampler: lambda x, a, b: (a - 1) * np.log(x) + (b - 1) * np.log1p(-x),
    truncated_gamma_sampler: lambda x, shape, rate: (shape - 1) * np.log(x) - rate * x,
    truncated_normal_sampler: lambda x, location, variance: -((x - location) ** 2) / (2 * variance),
}


def by_integral(sampler, first, second, low, high):
    """The distribution function from the density on a grid that is finer near both bounds."""
    share = np.linspace(0.0, 1.0, 20_001) ** 3
    x = low + (high - low) * np.concatenate([share / 2, 1 - share[::-1] / 2])
    density = DENSITIES[sampler](x, first, second)
    mass = np.exp(density - density.max())
    total = np.concatenate([[0.0], np.cumsum((mass[1:] + mass[:-1]) / 2 * np.diff(x))])
    return lambda at: np.interp(at, x, total / total[-1])


def draw(sampler, count, words, grid=FINE):
    return np.array([grid.point(rounded(sampler(words), grid)) for _ in range(count)])


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("factor", "accepted"), [(1.0, True), (0.6, False), pytest.param(1.6, False, marks=pytest.mark.long)]
)
@pytest.mark.parametrize("name", SAMPLERS)
def test_numbers(name, factor, accepted, rng, alpha):
    build, (first, second, low, high) = SAMPLERS[name]
    wrong = (first * factor, second) if name in {"beta in a far tail", "small gamma"} else (first, second * factor)
    count = DRAWS_OF.get(name, DRAWS)
    draws = draw(build(*map(Fraction, (*wrong, low, high))), count, WordStream(rng))
    assert (stats.kstest(draws, by_integral(build, first, second, low, high)).pvalue > alpha) == accepted


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("alphas", "low", "accepted"),
    [
        ((Fraction(3, 5), 2, 9), Fraction(1, 8), True),
        ((Fraction(1, 2), Fraction(1, 3), Fraction(2, 3)), Fraction(1, 8), True),
        ((2, 3), Fraction(1, 8), True),
        ((2, 3), Fraction(1, 20), False),
        # the broken copies of three shares, which take a second each
        pytest.param((Fraction(3, 5), 2, 9), Fraction(1, 20), False, marks=pytest.mark.long),
        pytest.param((Fraction(1, 2), Fraction(1, 3), Fraction(2, 3)), Fraction(1, 20), False, marks=pytest.mark.long),
    ],
)
def test_shares_against_plain_rejection(alphas, low, accepted, rng, alpha):
    sample, words = truncated_dirichlet_sampler(alphas, low), WordStream(rng)
    drawn = np.array([[FINE.point(rounded(x, FINE)) for x in sample(words)] for _ in range(3_000)])
    plain = rng.dirichlet([float(a) for a in alphas], 160_000)
    plain = plain[plain.min(axis=1) >= 0.125]
    worst = min(stats.ks_2samp(x, y).pvalue for x, y in zip(drawn.T, plain.T, strict=True))
    assert (len(alphas) * worst > alpha) == accepted
    np.testing.assert_allclose(drawn.sum(axis=1), 1.0, rtol=1e-15)
    assert drawn.min() >= float(low)


@pytest.mark.statistical
def test_the_mixture_over_the_omitted_share_matters(rng, alpha):
    """A broken copy that omits each share with other probabilities is found."""
    sample = truncated_dirichlet_sampler((Fraction(9, 10), Fraction(1, 100), Fraction(1, 2)), Fraction(1, 100))
    sample._weights = [1, 1, 9]
    words = WordStream(rng)
    drawn = np.array([[FINE.point(rounded(x, FINE)) for x in sample(words)] for _ in range(DRAWS)])
    plain = rng.dirichlet((0.9, 0.01, 0.5), 40 * DRAWS)
    plain = plain[plain.min(axis=1) >= 0.01]
    assert 3 * min(stats.ks_2samp(x, y).pvalue for x, y in zip(drawn.T, plain.T, strict=True)) < alpha


@pytest.mark.parametrize(
    ("sampler", "mean", "std"),
    [
        (truncated_beta_sampler(10**12, 10**12, Fraction(1, 10), Fraction(9, 10)), 0.5, 0.5 / (2e12) ** 0.5),
        (truncated_gamma_sampler(2**150, 2**149, 1, 4), 2.0, 2.0**-74),
        (truncated_gamma_sampler(1, 2**149, 1, 4), 1.0, 2.0**-149),
        (truncated_normal_sampler(0, Fraction(1, 2**200), -1, 1), 0.0, 2.0**-100),
        (truncated_normal_sampler(1, Fraction(1, 2**40), 5, 6), 5.0, 2.0**-42),
        (
            truncated_beta_sampler(3, 4, Fraction(1, 3), Fraction(1, 3) + Fraction(1, 2**100)),
            1 / 3,
            2.0**-100 / 12**0.5,
        ),
    ],
)
def test_extreme_parameters(sampler, mean, std, rng):
    grid = Grid(pitch=2.0 ** (np.floor(np.log2(std)) - 20))
    centre = Fraction(1, 3) if mean == 1 / 3 else Fraction(mean)
    indices = [rounded(sampler(WordStream(rng)), grid) for _ in range(200)]
    away = np.array([float((index * Fraction(grid.pitch) - centre) / Fraction(std)) for index in indices])
    assert 0.1 < np.std(away) < 5.0
    assert abs(np.mean(away)) < 5.0


@pytest.mark.parametrize(
    ("sampler", "low", "high"),
    [
        (truncated_normal_sampler(Fraction(1e300), Fraction(1, 2**800), -1, 1), 1 - 1e-9, 1),
        (truncated_normal_sampler(0, 2**800, -1, 1), -1, 1),
        (truncated_beta_sampler(Fraction(5e-324), Fraction(5e-324), Fraction(1e-300), Fraction(1, 2)), 0, 0.5),
        (truncated_gamma_sampler(Fraction(5e-324), 2**200, Fraction(1e-300), Fraction(1e300)), 0, 1e-50),
    ],
)
def test_slopes_beyond_the_doubles(sampler, low, high, rng):
    grid, words = Grid(pitch=2.0**-60), WordStream(rng)
    assert all(low <= grid.point(rounded(sampler(words), grid)) <= high for _ in range(20))


@pytest.mark.parametrize(
    ("build", "parameters", "message"),
    [
        (truncated_beta, (1, 1, Fraction(0), Fraction(1, 2)), r"low and high must lie inside \(0, 1\), got 0 and 0.5"),
        (truncated_beta, (1, 1, Fraction(3, 4), Fraction(1, 2)), "low must be below high, got 0.75 and 0.5"),
        (truncated_beta, (0, 1, Fraction(1, 4), Fraction(1, 2)), "a must be > 0 and at most"),
        (truncated_gamma, (1, 0, 1, 2), "rate must be > 0 and at most"),
        (truncated_gamma, (1, 1, 0, 2), "low must be > 0, got 0"),
        (truncated_gamma, (1, 2**190, Fraction(1e250), Fraction(1e260)), r"rate \* low must be at most 2\^800"),
        (truncated_normal, (0, 0, 0, 2), r"variance must be in \[2\^-800, 2\^800\] for exact draws, got 0"),
        (truncated_dirichlet, ((1, 2, 3), Fraction(1, 3)), r"low must be in \(0, 1/3\) for 3 shares"),
        (truncated_dirichlet, ((1,), Fraction(1, 3)), "alphas must hold at least 2 shapes, got 1"),
        (truncated_dirichlet, ((1, 2**97, 3), Fraction(1, 9)), r"alphas must be at most 2\^96"),
        (dirichlet, ((1,),), "alphas must hold at least 2 shapes, got 1"),
    ],
)
def test_refusals(build, parameters, message, rng):
    with pytest.raises(ValueError, match=message):
        build(*parameters, WordStream(rng))

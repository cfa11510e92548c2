"""Relative entropies of Lemma 1's figure: against the library, quadrature and their limits."""

import mpmath
import numpy as np
import pytest
from scipy import integrate, stats

import privsample as ps
from reproduction import posterior_convergence as convergence


def test_relative_entropies_of_dirichlets_are_those_of_the_library(rng):
    first, second = rng.gamma(2.0, 3.0, (2, 20, 4))
    theirs = [
        ps.Dirichlet(alpha=tuple(a)).relative_entropy(ps.Dirichlet(alpha=tuple(b)))
        for a, b in zip(first, second, strict=True)
    ]
    assert convergence.dirichlet_relative_entropy(first, second) == pytest.approx(theirs, rel=1e-9)


def test_relative_entropies_of_many_records_keep_four_digits():
    a, b = (30_003.0, 69_999.0), (30_001.0, 70_001.0)
    with mpmath.workdps(50):
        p, q = ([mpmath.mpf(x) for x in pair] for pair in (a, b))
        truth = mpmath.log(mpmath.beta(*q) / mpmath.beta(*p))
        truth += sum((x - y) * (mpmath.digamma(x) - mpmath.digamma(sum(p))) for x, y in zip(p, q, strict=True))
    assert convergence.dirichlet_relative_entropy(np.array(a), np.array(b)) == pytest.approx(float(truth), rel=1e-4)


def test_noise_costs_the_stated_epsilon():
    binary, five = (
        ps.NoisyStatistics(model=model, n=100, noise="laplace", scale=scale / convergence.EPSILON)
        for model, scale in ((ps.BetaBernoulli(1, 1), 1), (ps.DirichletCategorical((1,) * 5), 2))
    )
    cooled = ps.TemperedPosterior(
        model=ps.BetaBernoulli(1, 1), n=100, temperature=convergence.TEMPERATURE, truncation=convergence.HELD
    )
    for mechanism in (binary, five):
        assert mechanism.accountant.epsilon(0.0) == pytest.approx(convergence.EPSILON, rel=1e-9)
    # The exponential mechanism's bound; the account of the library is sharper.
    assert cooled.accountant.epsilon(0.0) <= convergence.EPSILON * (1 + 1e-9)


@pytest.mark.statistical
@pytest.mark.parametrize("k", range(4))
@pytest.mark.parametrize(("factor", "accepted"), [(1.0, True), (0.8, False), (1.25, False)])
def test_limits(k, factor, accepted, rng, alpha):
    """A million records: what is left of the difference to the limit is below 1e-3 of it; 100,000 repeats."""
    case = convergence.cases()[k]
    values = 300_000.0**case.power * case.sampler(300_000, 100_000, rng)
    error = values.std(ddof=1) / len(values) ** 0.5 + 2e-3 * case.limit
    assert (abs(values.mean() - factor * case.limit) / error < stats.norm.isf(alpha / 2)) == accepted


def test_tempered_relative_entropy_against_adaptive_quadrature():
    class Fixed:
        def binomial(self, n, share, repeats):
            return np.array([3])

    def mass(power, function=lambda x: 1.0):
        density = lambda x: np.exp(power * (3 * np.log(x) + 7 * np.log1p(-x)))  # noqa: E731
        return integrate.quad(lambda x: density(x) * function(x), 0.2, 0.8, epsabs=0, epsrel=1e-12)[0]

    cool = 1 / convergence.TEMPERATURE
    mean = mass(cool, lambda x: (cool - 1) * (3 * np.log(x) + 7 * np.log1p(-x))) / mass(cool)
    truth = mean - np.log(mass(cool)) + np.log(mass(1.0))
    assert convergence.tempered(10, 1, Fixed()) == pytest.approx([truth], rel=1e-9)


def test_boundary_limit_and_missing_posteriors(rng):
    with mpmath.workdps(30):
        truth = mpmath.quad(
            lambda g: mpmath.e**-g / 2 * (g * mpmath.digamma(1 + g) - mpmath.loggamma(1 + g)), [0, 1, 5, 60]
        )
    assert convergence.boundary_limit() == pytest.approx(float(truth), rel=1e-9)
    count = np.arange(11)
    share = stats.binom.pmf(count, 10, convergence.SHARE)
    lost = stats.laplace.cdf(-count - 1.0) + stats.laplace.sf(11.0 - count)
    assert convergence.unprojected(10) == pytest.approx(share @ lost, rel=1e-12)

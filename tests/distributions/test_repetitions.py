"""Distributions of the number of runs: against sums of their masses, samplers with mutants that must fail, and bad
input.
"""

import mpmath as mp
import numpy as np
import pytest
from scipy import stats

import privsample as ps
from privsample.distributions.finite_repetitions import TiltedRepetitions
from privsample.distributions.repetitions import RepetitionDistribution, _least_gamma, check_repetition_distribution

DISTRIBUTIONS = {
    "heavy": ps.TruncatedNegativeBinomial(eta=-0.5, gamma=0.05),
    "logarithmic": ps.TruncatedNegativeBinomial.logarithmic(mean=5),
    "geometric": ps.TruncatedNegativeBinomial.geometric(mean=4),
    "light": ps.TruncatedNegativeBinomial.from_mean(mean=6, eta=20),
    "Poisson": ps.Poisson(mean=3),
    "binomial": ps.Binomial(maximum=12, rate=0.4),
    "one chance": ps.Binomial(maximum=1, rate=0.4),
    "Beta-binomial": ps.BetaBinomial(maximum=12, alpha=0.7, beta=2),
    "truncated": ps.TruncatedRepetitions(distribution=ps.TruncatedNegativeBinomial.geometric(mean=4), maximum=6),
    "truncated Poisson": ps.TruncatedRepetitions(distribution=ps.Poisson(mean=0.5), maximum=1),
    "thinned": TiltedRepetitions(distribution=ps.BetaBinomial(maximum=12, alpha=0.7, beta=2), keep=0.8),
}
K = np.arange(0.0, 2000.0)
W = np.array([1e-300, 1e-12, 1e-3, 0.3, 0.9, 1.0])
each = pytest.mark.parametrize("name", DISTRIBUTIONS)


def sums(distribution):
    """(success, f', f'') at complements W by 30-digit sums over the masses."""
    with mp.workdps(30):
        mass = [mp.exp(mp.mpf(float(x))) for x in distribution.log_mass(K[:400])]
        rows = []
        for w in W:
            x = 1 - mp.mpf(float(w))
            hit = sum(p * (1 - x**k) for k, p in enumerate(mass))
            slope = sum(k * p * (x ** (k - 1) if k > 1 else 1) for k, p in enumerate(mass) if k)
            pgf_curvature = sum(k * (k - 1) * p * (x ** (k - 2) if k > 2 else 1) for k, p in enumerate(mass) if k > 1)
            rows.append((float(hit), float(slope), float(pgf_curvature)))
        return np.array(rows).T


@each
def test_functions_against_sums(name):
    distribution = DISTRIBUTIONS[name]
    success, slope, second = sums(distribution)
    assert np.exp(distribution.log_mass(K)).sum() == pytest.approx(1.0, rel=1e-11)
    assert distribution.mean == pytest.approx(float(K @ np.exp(distribution.log_mass(K))), rel=1e-10)
    tail = 1e-7 if name == "heavy" else 1e-10  # the masses beyond the 400th
    # 1 - (1 - w) loses digits of the smallest w in the sum, not in the distribution
    assert np.exp(distribution.log_rank_probability(W))[2:] == pytest.approx(success[2:], rel=tail)
    assert distribution.log_rank_probability(W)[:2] == pytest.approx(
        np.log(distribution.mean) + np.log(W[:2]), rel=1e-9
    )
    assert np.exp(distribution.log_pgf_derivative(W)) == pytest.approx(slope, rel=max(tail, 1e-10))
    assert distribution.pgf_curvature(W) * np.exp(distribution.log_pgf_derivative(W)) == pytest.approx(
        second, rel=max(tail, 1e-9), abs=1e-12
    )
    assert np.exp(distribution.log_zero_probability) == pytest.approx(
        np.exp(distribution.log_mass(np.zeros(()))), rel=1e-9, abs=1e-14
    )


@each
def test_utility(name):
    distribution = DISTRIBUTIONS[name]
    mass = np.exp(distribution.log_mass(K))
    assert distribution.expected_quantile == pytest.approx(float(mass @ (K / (K + 1))), rel=1e-10)
    assert distribution.success(0.01) == pytest.approx(float(mass @ -np.expm1(K * np.log1p(-0.01))), rel=1e-10)
    for k in (1, 2, 7):
        assert distribution.tail(k) == pytest.approx(float(mass[k:].sum()), abs=1e-11)
    assert distribution.tail(10**9) == pytest.approx(0.0, abs=1e-11)
    assert distribution.rounding < 1e-12


@each
def test_moments(name):
    distribution = DISTRIBUTIONS[name]
    log_x = np.array([0.0, 0.005, 0.03])
    by_sum = [np.logaddexp.reduce(distribution.log_mass(K) + K * x) for x in log_x]
    assert distribution.log_pgf(log_x) == pytest.approx(by_sum, rel=1e-8, abs=1e-11)


def test_the_series_ends_at_its_radius_of_convergence():
    distribution = DISTRIBUTIONS["geometric"]
    assert distribution.log_pgf(np.array([-np.log1p(-distribution.gamma), 5.0, 800.0])).tolist() == [np.inf] * 3
    assert ps.Poisson(mean=2).log_pgf(np.array(800.0)) == np.inf
    steep = ps.TruncatedNegativeBinomial(eta=300.0, gamma=0.3)
    assert np.isfinite(steep.log_pgf(np.array(0.3)))


def exact_masses(distribution, most):
    """P(K = 0), ..., P(K = most) at 60 digits, but for a factor, by the ratios of neighbours."""
    found = [mp.mpf(1)]
    for k in range(most):
        match distribution:
            case ps.BetaBinomial(maximum=n, alpha=a, beta=b):
                ratio = mp.mpf(n - k) / (k + 1) * (k + mp.mpf(a)) / (n - k - 1 + mp.mpf(b))
            case ps.Binomial(maximum=n, rate=rate):
                ratio = mp.mpf(n - k) / (k + 1) * mp.mpf(rate) / (1 - mp.mpf(rate))
            case ps.TruncatedNegativeBinomial(eta=eta, gamma=gamma):
                ratio = (1 - mp.mpf(gamma)) * (k + mp.mpf(eta)) / (k + 1) if k else mp.mpf(1)
        found.append(found[-1] * ratio)
    return found


@pytest.mark.parametrize(
    "distribution",
    [
        ps.BetaBinomial(maximum=23, alpha=2010.0, beta=147.0),
        ps.BetaBinomial(maximum=10, alpha=1e12, beta=1e12),
        ps.BetaBinomial(maximum=5, alpha=1e-200, beta=1e200),
        ps.BetaBinomial(maximum=4, alpha=1e300, beta=1.0),
        ps.Binomial(maximum=10**15, rate=3e-15),
        ps.TruncatedNegativeBinomial(eta=1e14, gamma=1 - 3e-14),
        ps.TruncatedNegativeBinomial(eta=-1 + 1e-9, gamma=0.3),
        ps.TruncatedNegativeBinomial(eta=1e3, gamma=0.3),
    ],
)
def test_masses_of_extreme_shape(distribution):
    """The logarithms of Gamma at large arguments would cancel: errors of e^-3 and more, and accounts below the truth.

    Neighbours' ratios tell: P(K = 1) stands for the scale of a distribution without P(K = 0).
    """
    first, most = int(np.isneginf(distribution.log_mass(np.zeros(())))), int(min(distribution.maximum, 20))
    k = np.arange(first, most + 1)
    with mp.workdps(60):
        exact = exact_masses(distribution, most)
        expected = np.array([float(mp.log(exact[i] / exact[first])) for i in k])
    found = distribution.log_mass(k.astype(float))
    assert found - found[0] == pytest.approx(expected, rel=1e-14, abs=1e-13 + 2e-14 * np.abs(found).max())
    kept = (
        ps.TruncatedRepetitions(distribution=distribution, maximum=20)
        if distribution.maximum > 20 and distribution.mean < 20
        else distribution
    )
    if isinstance(kept, ps.TruncatedRepetitions | ps.BetaBinomial):
        assert np.exp(kept.log_mass(np.arange(25.0))).sum() == pytest.approx(1.0, rel=1e-14)
        assert 0 < kept.rounding < 1e-11


@pytest.mark.statistical
@pytest.mark.parametrize("name", [name for name in DISTRIBUTIONS if name != "truncated Poisson"])
def test_sampler(name, rng, alpha):
    """The mutant loses one draw in ten to the next lower number."""
    distribution = DISTRIBUTIONS[name]
    # p-values of the mutant at these numbers: below 1e-17 on 4 of 4 seeds (with 40,000 draws of the last two 1e-7)
    few, many = ("heavy", "logarithmic", "geometric"), ("Beta-binomial", "thinned")
    count = 10_000 if name in few else 80_000 if name in many else 40_000
    drawn = np.array([distribution.sample(rng) for _ in range(count)])
    lowered = np.where(rng.random(drawn.size) < 0.1, np.maximum(drawn - 1, 0), drawn)
    assert follows(distribution, drawn, alpha)
    assert not follows(distribution, lowered, alpha)


def follows(distribution, drawn, alpha):
    """Return True if the test of Pearson does not reject the draws."""
    mass = np.exp(distribution.log_mass(np.arange(0.0, 13.0)))
    cells = np.append(mass, max(1.0 - mass.sum(), 0.0))
    seen = np.append(np.bincount(np.minimum(drawn, 13), minlength=14)[:13], (drawn >= 13).sum())
    possible = cells * drawn.size > 5
    rest = cells[~possible].sum()
    cells = np.append(cells[possible], rest) if rest * drawn.size > 5 else cells[possible] / cells[possible].sum()
    stray = seen[~possible].sum()
    seen = np.append(seen[possible], stray) if len(cells) > possible.sum() else seen[possible]
    if len(cells) == possible.sum() and stray > 60:
        return False
    return stats.chisquare(seen, cells / cells.sum() * seen.sum()).pvalue > alpha


@pytest.mark.parametrize("eta", [-0.9, -0.3, 0.0, 1e-9, 0.5, 1.0, 40.0])
def test_from_mean(eta):
    for mean in (1.001, 2.0, 5.0):
        assert ps.TruncatedNegativeBinomial.from_mean(mean=mean, eta=eta).mean == pytest.approx(mean, rel=1e-9)


def test_limits():
    """eta to 0 is the logarithmic distribution; the negative binomial distribution tends to the
    Poisson distribution.
    """
    w = np.linspace(0, 1, 11)
    near = ps.TruncatedNegativeBinomial(eta=1e-9, gamma=0.1)
    assert near.log_pgf_derivative(w) == pytest.approx(
        ps.TruncatedNegativeBinomial(eta=0, gamma=0.1).log_pgf_derivative(w), rel=1e-7
    )
    many = ps.TruncatedNegativeBinomial.from_mean(mean=30, eta=1e6)
    assert many.log_pgf_derivative(w) == pytest.approx(ps.Poisson(mean=30).log_pgf_derivative(w), abs=1e-3)


@each
def test_thinned(name):
    distribution = DISTRIBUTIONS[name]
    thin = distribution.tilted(0.7)
    expected = distribution.log_mass(K) + K * np.log(0.7)
    assert thin.log_mass(K[:13]) == pytest.approx((expected - np.logaddexp.reduce(expected))[:13], rel=1e-8, abs=1e-8)
    assert isinstance(thin, RepetitionDistribution)
    assert 0 <= thin.sample(np.random.default_rng(1)) <= thin.maximum


@pytest.mark.parametrize(("alpha", "beta", "keep"), [(50.0, 1.0, 0.5), (1e3, 1.0, 0.1), (20.0, 1.0, 0.8)])
def test_thinned_to_next_to_nothing(alpha, beta, keep):
    """The chance that no run fails may be far below one ulp of one."""
    distribution = ps.BetaBinomial(maximum=100, alpha=alpha, beta=beta)
    k = np.arange(101.0)
    expected = distribution.log_mass(k) + k * np.log(keep)
    assert distribution.tilted(keep).log_mass(k) == pytest.approx(expected - np.logaddexp.reduce(expected), abs=1e-11)


@pytest.mark.parametrize(
    ("build", "error", "words"),
    [
        (lambda: ps.TruncatedNegativeBinomial(eta=-1, gamma=0.5), ValueError, "eta must be > -1"),
        (lambda: ps.TruncatedNegativeBinomial(eta=np.nan, gamma=0.5), ValueError, "eta"),
        (lambda: ps.TruncatedNegativeBinomial(eta=True, gamma=0.5), TypeError, "eta"),
        (lambda: ps.TruncatedNegativeBinomial(eta=0, gamma=0), ValueError, "gamma must lie in"),
        (lambda: ps.TruncatedNegativeBinomial(eta=0, gamma=1), ValueError, "gamma must lie in"),
        (lambda: ps.TruncatedNegativeBinomial(eta=0, gamma=np.nan), ValueError, "gamma must lie in"),
        (lambda: ps.TruncatedNegativeBinomial(eta=0, gamma=False), TypeError, "gamma"),
        (lambda: ps.TruncatedNegativeBinomial.from_mean(mean=1), ValueError, "mean must be > 1"),
        (lambda: ps.TruncatedNegativeBinomial.from_mean(mean=np.nan), ValueError, "mean"),
        (lambda: ps.TruncatedNegativeBinomial.from_mean(mean=1000, eta=-0.99), ValueError, "raise an eta below"),
        (lambda: ps.TruncatedNegativeBinomial.from_mean(mean=1e16), ValueError, "no such distribution"),
        (lambda: ps.TruncatedNegativeBinomial(eta=1e5, gamma=1e-15), ValueError, "at least 1.15e-14 to draw from"),
        (lambda: ps.TruncatedNegativeBinomial(eta=1e300, gamma=0.5), ValueError, "would need more than 9e"),
        (lambda: ps.TruncatedNegativeBinomial.from_mean(mean=10, eta=1e300), ValueError, "lower an eta above"),
        (lambda: ps.Binomial(maximum=10**30, rate=0.5), ValueError, r"maximum must be at most 2\*\*53"),
        (lambda: ps.TruncatedNegativeBinomial.geometric(mean=0.5), ValueError, "mean must be > 1"),
        (lambda: ps.Poisson(mean=0), ValueError, "mean"),
        (lambda: ps.Poisson(mean=1e16), ValueError, "1e15"),
        (lambda: ps.Poisson(mean=True), TypeError, "mean"),
        (lambda: ps.Binomial(maximum=5, rate=1), ValueError, "fixed"),
        (lambda: ps.Binomial(maximum=5, rate=np.nan), ValueError, "rate"),
        (lambda: ps.Binomial(maximum=0, rate=0.5), ValueError, "maximum"),
        (lambda: ps.Binomial(maximum=True, rate=0.5), TypeError, "maximum"),
        (lambda: ps.BetaBinomial(maximum=5, alpha=0, beta=1), ValueError, "alpha"),
        (lambda: ps.BetaBinomial(maximum=10**6, alpha=1, beta=1), ValueError, "at most 100000"),
        (lambda: ps.TruncatedRepetitions(distribution=5, maximum=5), TypeError, "fixed number"),
        (lambda: ps.TruncatedRepetitions(distribution=ps.Poisson(mean=100), maximum=5), ValueError, "discard all but"),
        (lambda: ps.TruncatedRepetitions(distribution=ps.Poisson(mean=1), maximum=2.5), ValueError, "maximum"),
        (lambda: ps.Poisson(mean=3).success(0.0), ValueError, "share"),
        (lambda: ps.Poisson(mean=3).tail(0), ValueError, "k must be at least 1"),
        (lambda: check_repetition_distribution(np.int64(10)), TypeError, "Proposition 17"),
        (
            lambda: check_repetition_distribution((0.5, 0.5)),
            TypeError,
            r"^repetitions must be a distribution of the number of repetitions, got a tuple: pass Tabulated",
        ),
        (
            lambda: check_repetition_distribution(stats.poisson(5)),
            TypeError,
            r"got a rv_discrete_frozen: .*, or TabulatedRepetitions.from_mass\(distribution.pmf, maximum=...\)",
        ),
    ],
)
def test_bad_input(build, error, words):
    with pytest.raises(error, match=words):
        build()


def test_hardly_any_run_kept_is_still_a_distribution():
    assert ps.TruncatedNegativeBinomial.geometric(mean=3).tilted(2.0**-53).gamma < 1.0


@pytest.mark.parametrize(
    "distribution",
    [
        ps.TruncatedNegativeBinomial(eta=-0.99, gamma=_least_gamma(-0.99)),
        ps.TruncatedNegativeBinomial(eta=1e10, gamma=1 - 1e-9),
        ps.TruncatedNegativeBinomial(eta=1e-300, gamma=0.3),
        ps.Poisson(mean=3000),
        ps.Binomial(maximum=2**53, rate=1e-15),
        ps.BetaBinomial(maximum=100, alpha=1e300, beta=1e-200),
        ps.TruncatedRepetitions(distribution=ps.TruncatedNegativeBinomial(eta=-0.5, gamma=1e-15), maximum=5000),
    ],
)
def test_distributions_of_extreme_shape_can_be_drawn_from(distribution, rng):
    drawn = [distribution.sample(rng) for _ in range(20)]
    assert all(0 <= k <= min(distribution.maximum, 10**5) for k in drawn)
    assert abs(np.mean(drawn) - distribution.mean) < distribution.mean or distribution.mean > 1000

"""Chains of counts: posteriors against enumeration, subsets, and refused releases."""

import itertools
from types import SimpleNamespace

import mpmath as mp
import numpy as np
import pytest
from scipy import stats

from privsample import (
    BetaBernoulli,
    DirichletCategorical,
    DiscreteGaussianNoise,
    DiscreteLaplaceNoise,
    GammaPoisson,
    GaussianNoise,
    LaplaceNoise,
    NoisyStatistics,
    infer,
)
from privsample.inference import count_moves as moves
from privsample.inference.chains import Observation
from privsample.inference.counts import CountChain
from tests.inference.count_cases import ALPHA, SCALE, SEEN, SIZES, chi_square, stationary
from tests.inference.noises import OwnLogistic

NOISES = [
    LaplaceNoise(scale=2.0),
    GaussianNoise(noise_std=2.0),
    DiscreteLaplaceNoise(scale=2.0),
    DiscreteGaussianNoise(noise_std=2.0),
]
each_noise = pytest.mark.parametrize("noise", NOISES, ids=lambda noise: noise.name)


def observation(model, n, noise, observed, size_prior=None):
    return Observation(model=model, n=n, noise=noise, observed=np.asarray(observed, dtype=float), size_prior=size_prior)


def sampled(chain, rng, *, sweeps, tune=300):
    """Parameters and counts after each sweep."""
    chain.start(rng)
    for _ in range(tune):
        chain.sweep(rng, tuning=True)
    found = []
    for _ in range(sweeps):
        chain.sweep(rng, tuning=False)
        found.append((chain.parameters(), chain.counts.copy()))
    return found


def z_score(values, truth, batches=50):
    """Standardized difference of a mean of dependent draws from the truth, by means of batches."""
    means = np.array([batch.mean(axis=0) for batch in np.array_split(np.asarray(values, dtype=float), batches)])
    return np.abs(means.mean(axis=0) - truth) / np.maximum(means.std(axis=0, ddof=1) / batches**0.5, 1e-12)


def enumerated(alpha, noise, observed, sizes):
    """Posterior means of proportions, their squares and N, by enumeration of all counts; log weights of N in sizes."""
    logs, theta, square, total = [], [], [], []
    for n, log_size in sizes.items():
        for state in itertools.product(range(n + 1), repeat=len(alpha)):
            if sum(state) != n:
                continue
            counts = np.array(state)
            log_noise = sum(noise.log_mass(copy - counts).sum() for copy in observed)
            logs.append(log_size + stats.dirichlet_multinomial.logpmf(counts, alpha, n) + log_noise)
            a, total_alpha = alpha + counts, sum(alpha) + n
            theta.append(a / total_alpha)
            square.append(a * (a + 1) / (total_alpha * (total_alpha + 1)))
            total.append(n)
    weights = stationary(logs)
    return weights @ np.array(theta), weights @ np.array(square), weights @ np.array(total)


RARE = np.array([2.0, 1.0, 0.1])
COMPILED, OWN = LaplaceNoise(scale=SCALE), OwnLogistic(scale=0.8)


@pytest.mark.statistical
@each_noise
@pytest.mark.parametrize("collapsed", [True, False])
@pytest.mark.parametrize("sweeps", [1500, pytest.param(6000, marks=pytest.mark.long)])
def test_a_rare_category_against_enumeration(noise, collapsed, sweeps, rng, alpha):
    """The broken copy forgets a copy: after 1,500 sweeps its z-score is 30 to 45 with a spread of 6, the limit is 8.

    After 6,000 sweeps errors of half the size are seen.
    """
    model, observed = DirichletCategorical(alpha=tuple(RARE)), np.array([[17.0, 3.0, -2.0], [11.0, 7.0, 3.0]])
    mean, square, _ = enumerated(RARE, noise, observed, {20: 0.0})
    chain = CountChain(observation(model, 20, noise, observed), collapsed=collapsed)
    theta = np.array([found["theta"] for found, _ in sampled(chain, rng, sweeps=sweeps)])
    limit = stats.t.isf(alpha / 12, 49)
    assert (z_score(theta, mean) < limit).all()
    assert (z_score(theta**2, square) < limit).all()
    wrong = observation(model, 20, noise, observed[:1])  # a copy is forgotten
    chain = CountChain(wrong, collapsed=collapsed)
    theta = np.array([found["theta"] for found, _ in sampled(chain, rng, sweeps=sweeps)])
    assert z_score(theta**2, square).max() > limit


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("noise", "collapsed", "sweeps"),
    [
        pytest.param(COMPILED, True, 1500, id="compiled collapsed"),
        pytest.param(COMPILED, False, 1500, id="compiled"),
        pytest.param(OWN, True, 800, id="own collapsed"),
        *(
            pytest.param(noise, collapsed, 4000, id=f"{noise.name} {collapsed} long", marks=pytest.mark.long)
            for noise, collapsed in itertools.product((COMPILED, OWN), (True, False))
        ),
    ],
)
def test_an_unknown_number_of_records_against_enumeration(noise, collapsed, sweeps, rng, alpha):
    """The broken copy has a tilted prior of N: its mean is 1.2 larger, at least 25 standard errors, and the limit is 8.

    The long lane sees errors of half the size, and has all pairs of noise and proposals.
    """
    model, observed = DirichletCategorical(alpha=tuple(ALPHA)), np.array([SEEN])
    mean, square, size = enumerated(ALPHA, noise, observed, dict(enumerate(SIZES)))
    chain = CountChain(observation(model, 5, noise, observed, SIZES), collapsed=collapsed)
    draws = [found for found, _ in sampled(chain, rng, sweeps=sweeps, tune=100)]
    theta, n = np.array([found["theta"] for found in draws]), np.array([found["n"] for found in draws])
    limit = stats.t.isf(alpha / 14, 49)
    assert (z_score(theta, mean) < limit).all()
    assert (z_score(theta**2, square) < limit).all()
    assert z_score(n, size) < limit
    chain = CountChain(observation(model, 5, noise, observed, SIZES + np.arange(7)), collapsed=collapsed)
    n = np.array([found["n"] for found, _ in sampled(chain, rng, sweeps=sweeps, tune=100)])
    assert z_score(n, size) > limit


@pytest.mark.statistical
@pytest.mark.parametrize("n", [10, 10**6, 10**9])
def test_zeros_and_ones_have_the_exact_posterior(n, rng, alpha):
    """Draws that are shifted by half a standard deviation have z-scores of 15 with a spread of 1, the limit is 8."""
    model, noise = BetaBernoulli(2.0, 3.0), GaussianNoise(noise_std=max(2.0, n**0.5 / 3))
    observed = np.round(np.array([0.3, 0.31]) * n)
    exact = model.noise_aware(n, noise, observed).distribution
    draws = np.array(
        [found["theta"] for found, _ in sampled(CountChain(observation(model, n, noise, observed)), rng, sweeps=1200)]
    )
    limit = stats.t.isf(alpha / 4, 49)
    assert draws.shape == (1200,)
    assert z_score(draws, exact.mean) < limit
    assert z_score((draws - exact.mean) ** 2, exact.variance) < limit
    assert z_score(draws + 0.5 * exact.variance**0.5, exact.mean) > limit


@pytest.mark.statistical
def test_an_unknown_number_of_zeros(rng, alpha):
    """Only the ones were counted; the zeros are known by the prior of N alone.

    A mean that is wrong by a tenth has a z-score of 14 with a spread of 1.5, the limit is 8.
    """
    model, noise, sizes = BetaBernoulli(1.0, 2.0), LaplaceNoise(scale=3.0), stats.poisson(60).logpmf(np.arange(151))
    s, n = np.meshgrid(np.arange(151), np.arange(151))
    logs = np.where(
        s <= n, stats.betabinom.logpmf(s, np.maximum(n, 1), 1, 2) + sizes[n] + noise.log_mass(20.0 - s), -np.inf
    )
    logs[0] = np.where(s[0] == 0, sizes[0] + noise.log_mass(20.0), -np.inf)
    weights = np.exp(logs - logs.max()) / np.exp(logs - logs.max()).sum()
    chain = CountChain(observation(model, 60, noise, [20.0], sizes))
    draws = [found for found, _ in sampled(chain, rng, sweeps=2500)]
    limit = stats.t.isf(alpha / 6, 49)
    assert z_score(np.array([found["n"] for found in draws]), (weights * n).sum()) < limit
    truth = (weights * (1 + s) / (3 + n)).sum()
    theta = np.array([found["theta"] for found in draws])
    assert z_score(theta, truth) < limit
    assert z_score(theta, truth * 1.1) > limit


def test_log_rising_against_fifty_digits():
    with mp.workdps(50):
        for x in (1e-3, 0.7, 3.0, 15.9, 17.0, 1e6 + 0.25, 1e9, 1e15):
            for m in (0, 1, 7, 30, 1000, 10**6, 10**9):
                truth = mp.loggamma(mp.mpf(x) + m) - mp.loggamma(mp.mpf(x))
                assert moves.log_rising(x, m) == pytest.approx(float(truth), rel=1e-14, abs=1e-14)


@pytest.mark.statistical
def test_a_random_subset_is_hypergeometric(rng, alpha):
    pool, m, draws = np.array([3, 40, 0, 57]), 37, 20_000
    found = np.empty((draws, 4), np.int64)
    for i in range(draws):
        rest = pool.copy()
        moves.take(rng, m, rest, found[i])
        assert (rest + found[i] == pool).all()
        assert found[i].sum() == m
    for k in range(4):
        truth = stats.hypergeom(100, pool[k], m)
        row = {s: float(truth.pmf(s)) for s in range(pool[k] + 1)}
        if pool[k]:
            assert chi_square(row, found[:, k].tolist()) > alpha / 4
    wrong = {s: float(stats.binom(40, m / 100).pmf(s)) for s in range(41)}
    assert chi_square(wrong, found[:, 1].tolist()) < 1e-9


@pytest.mark.statistical
def test_a_subset_of_a_thousand_million(rng, alpha):
    pool, m = np.array([10**9, 2 * 10**8, 500]), 3 * 10**8
    taken = np.empty((4000, 3), np.int64)
    for each in taken:
        moves.take(rng, m, pool.copy(), each)
    assert (taken.sum(axis=1) == m).all()
    for k in range(3):
        truth = stats.hypergeom(int(pool.sum()), int(pool[k]), m)
        z = (taken[:, k] - truth.mean()) / truth.std()
        assert abs(z.mean()) * 4000**0.5 < stats.norm.isf(alpha / 12)
        assert abs((z**2).mean() - 1) * 2000**0.5 < 1.5 * stats.norm.isf(alpha / 12)


def test_many_categories_and_many_records(rng):
    width, n = 1000, 10**9
    truth = rng.multinomial(n, rng.dirichlet(np.full(width, 0.5)))
    noise = DiscreteGaussianNoise(noise_std=50.0)
    model = DirichletCategorical(alpha=(0.5,) * width)
    chain = CountChain(observation(model, n, noise, truth + noise.sample((2, width), rng)))
    found = sampled(chain, rng, sweeps=10, tune=20)
    theta, counts = np.array([x["theta"] for x, _ in found]), np.array([x for _, x in found])
    assert (counts.sum(axis=1) == n).all()
    assert (counts >= 0).all()
    assert theta.sum(axis=1) == pytest.approx(np.ones(10))
    assert np.abs(counts - truth).max() < 12 * 50


@each_noise
def test_chains_start_at_possible_counts(noise, rng):
    for seen in ([[-50.0, 3.0, 400.0]], [[0.0, 0.0, 0.0]], [[1e9, 5.0, 7.0]]):
        model = DirichletCategorical(alpha=(1, 1, 1))
        chain = CountChain(observation(model, 20, noise, seen))
        for _ in range(20):
            chain.start(rng)
            assert chain.counts.sum() == 20
            assert (chain.counts >= 0).all()
        assert 0 <= chain.sweep(rng, tuning=True) <= 1
        sizes = np.array([-np.inf, 0.0, -np.inf, 0.0])
        chain = CountChain(observation(model, 20, noise, seen, sizes))
        chain.start(rng)
        for _ in range(50):
            chain.sweep(rng, tuning=True)
            assert float(chain.parameters()["n"]) in {1.0, 3.0}


def test_infer_uses_the_chain(rng):
    model = DirichletCategorical(alpha=(1.0, 2.0, 0.5), names=("red", "green", "blue"))
    made = NoisyStatistics(model=model, n=20, scale=2.0).release(["red"] * 12 + ["green"] * 8, rng=rng)
    posterior = infer(made, draws=100, tune=100, chains=2, rng=rng)
    assert posterior["theta"].shape == (200, 3)
    assert posterior.account == made.account
    assert list(posterior.to_arviz().posterior["category"].values) == ["red", "green", "blue"]
    assert posterior.method.startswith("exact: Metropolis moves of blocks of records between categories")
    ones = NoisyStatistics(model=BetaBernoulli(1, 1), n=10**9, scale=100.0)
    release = SimpleNamespace(model=ones.model, n=10**9, noise=ones.distribution, observed=np.array([3e8]))
    posterior = infer(release, draws=100, tune=100, chains=2, rng=rng)
    assert posterior["theta"].mean() == pytest.approx(0.3, abs=1e-3)
    seen = np.array([[12.0, 8.0, 1.0]])
    unknown = SimpleNamespace(model=model, n=None, noise=LaplaceNoise(scale=2.0), observed=seen, account=made.account)
    posterior = infer(unknown, size_prior=np.zeros(41), draws=100, tune=100, chains=2, rng=rng)
    assert set(posterior.draws) == {"theta", "n"}
    assert 5 < posterior["n"].mean() < 36


def test_wrong_releases_are_refused(rng):
    noise = DiscreteLaplaceNoise(scale=2.0)
    with pytest.raises(TypeError, match="must be categories, or zeros and ones, got the model GammaPoisson"):
        CountChain(observation(GammaPoisson(shape=2, rate=1, upper=5), 20, noise, [3.0]))
    with pytest.raises(TypeError, match="fractional records have no likelihood"):
        CountChain(observation(BetaBernoulli(1, 1, fractional=True), 20, noise, [3.0]))
    chain = CountChain(observation(BetaBernoulli(1, 1), 20, noise, [3.5]))
    with pytest.raises(ValueError, match="no counts near the released ones are possible"):
        chain.start(rng)

"""Chains over records of one number: each move against the truth, and the posterior against the exact one."""

from functools import partial

import numpy as np
import pytest
from scipy import stats

import privsample as ps
from privsample.inference import records
from privsample.inference.chains import Observation, run_chains
from privsample.inference.records import (
    ExponentialRecords,
    NormalRecords,
    PoissonRecords,
    choose_start,
)
from privsample.interop.arviz import summary
from privsample.mechanisms.posterior.inference import PosteriorDraws
from tests.inference.calibration import noise_ranks, replicas, uniform_pvalue

LAPLACE, GAUSSIAN = ps.LaplaceNoise(scale=0.8), ps.GaussianNoise(noise_std=1.2)
CASES = {
    "exponential": (ExponentialRecords, ps.GammaExponential(4, 4, upper=0.7)),
    "poisson": (PoissonRecords, ps.GammaPoisson(6, 3, upper=2)),
    "normal": (NormalRecords, ps.NormalKnownVariance(0.3, 1, noise_variance=1, bounds=(-0.5, 1))),
}
each_case = pytest.mark.parametrize("case", CASES)


def from_prior(model):
    def put(chain, rng):
        chain.theta = float(model.prior.sample(1, rng)[0])
        chain.x = chain.simulate(chain.theta, rng)
        chain.contributions = chain._clipped(chain.x)

    return put


def prior_rank(model, theta):
    """Probability of a smaller parameter under the prior."""
    match model.prior:
        case ps.Gamma(shape=shape, rate=rate):
            return stats.gamma(shape, scale=1 / rate).cdf(theta)
        case ps.Normal(location=location, scale=scale):
            return stats.norm(location, scale).cdf(theta)


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("case", "noise", "sweeps"),
    [("exponential", LAPLACE, 4), ("poisson", GAUSSIAN, 3), ("normal", LAPLACE, 5)],
)
@pytest.mark.parametrize(("count", "factor"), [(1200, 0.7), pytest.param(6000, 0.8, marks=pytest.mark.long)])
def test_sweeps_keep_the_joint_distribution(case, noise, sweeps, count, factor, rng, alpha):
    """Parameters keep the prior, and release minus records stays noise.

    The mutant believes in `factor` times the noise. The dispersion of the ranks of its noise is wrong by 9 to 13
    standard deviations (1,200 data sets, factor 0.7; the limit is 6.3), and its own standard deviation is 0.9.
    """
    kind, model = CASES[case]
    narrow = type(noise)(**dict.fromkeys(noise.__dataclass_fields__, factor * noise.scale_parameter))
    for believed, accepted in ((noise, True), (narrow, False)):
        thetas, noises = [], []
        for chain, observed in replicas(
            kind, from_prior(model), count, rng, n=20, model=model, noise=noise, believed=believed, sweeps=sweeps
        ):
            thetas.append(chain.theta)
            noises.append((observed - chain.contributions.sum(axis=0))[0, 0])
            assert (chain.contributions == np.clip(chain.x, *chain.bounds)[:, None]).all()
        found = uniform_pvalue(noise_ranks(noise, np.array(noises)))
        if accepted:
            found = min(found, uniform_pvalue(prior_rank(model, np.array(thetas))))
        assert (found > alpha) == accepted


@pytest.mark.statistical
@each_case
@pytest.mark.parametrize("factor", [0.7, 1.4])
def test_moved_records_have_the_distribution_at_the_new_parameter(case, factor, rng, alpha):
    """The mutant is the distribution at the old parameter."""
    kind, model = CASES[case]
    n, old = 20_000, 0.5
    chain = kind(Observation(model=model, n=n, noise=LAPLACE, observed=np.zeros(1)))
    chain.theta = old
    chain.x = chain.simulate(old, rng)
    new = old * factor
    moved = chain.move(new, rng)
    for theta, accepted in ((new, True), (old, False)):
        match case:
            case "exponential":
                found = stats.kstest(moved, stats.expon(scale=1 / theta).cdf).pvalue
            case "normal":
                found = stats.kstest(moved, stats.norm(theta, 1).cdf).pvalue
            case _:
                counts = np.bincount(np.minimum(moved, 3).astype(int), minlength=4)
                due = stats.poisson(theta).pmf(np.arange(3))
                found = stats.chisquare(counts, n * np.append(due, 1 - due.sum())).pvalue
        assert (found > alpha) == accepted
    assert moved.shape == (n,)
    share = {"exponential": 0.0, "normal": 0.0}.get(case, 0.5)
    assert (moved == chain.x).mean() >= share  # the moved records stay close to the old ones


@each_case
def test_coordinates_are_inverse_to_each_other(case):
    kind, model = CASES[case]
    chain = kind(Observation(model=model, n=2, noise=LAPLACE, observed=np.zeros(1)))
    for theta in (0.01, 0.3, 0.9):
        z = float(chain.unconstrain(np.asarray(theta)))
        found, slope = chain.constrain(z)
        assert found == pytest.approx(theta, rel=1e-12)
        step = 1e-6
        numeric = (chain.constrain(z + step)[0] - chain.constrain(z - step)[0]) / (2 * step)
        assert slope == pytest.approx(np.log(numeric), abs=1e-6)


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("case", "noise", "observed", "draws"),
    [
        ("exponential", ps.LaplaceNoise(scale=3.0), [8.0], 3_500),
        ("exponential", ps.GaussianNoise(noise_std=3.0), [12.0, 13.5], 3_500),
        pytest.param("poisson", ps.DiscreteLaplaceNoise(scale=3.0), [33.0], 15_000, marks=pytest.mark.long),
        ("poisson", ps.DiscreteGaussianNoise(noise_std=3.0), [20.0], 12_000),
        ("normal", ps.LaplaceNoise(scale=3.0), [17.0, 16.0], 12_000),
    ],
)
def test_the_posterior_is_the_exact_one(case, noise, observed, draws, rng, alpha):
    """Where most records are clipped; the mutant is the posterior under 0.3 times the noise.

    Its distribution function differs by 0.21, 0.32, 0.10, 0.11 and 0.11: by at least 5.2 over the root of the number of
    independent draws, give or take 0.5, and the limit is 3.3. The long lane has the noise that makes least of it.
    """
    kind, model = CASES[case]
    copies, n = np.array(observed), 20
    observation = Observation(model=model, n=n, noise=noise, observed=copies)
    trace = run_chains(partial(kind, observation), draws=draws, tune=300, chains=1, rng=rng)
    drawn = trace.draws[model.parameter][::5]  # as good as independent
    narrow = type(noise)(**dict.fromkeys(noise.__dataclass_fields__, 0.3 * noise.scale_parameter))
    for believed, accepted in ((noise, True), (narrow, False)):
        exact = model.noise_aware(n, believed, copies).distribution
        assert (stats.kstest(drawn, exact.below).pvalue > alpha) == accepted


@pytest.mark.parametrize("variance", [1e6, 1e14])
def test_starts_are_near_the_release(variance, rng):
    """A state from a wide prior has all records clipped, where the density of the noise is flat; the chosen one not."""
    model = ps.NormalKnownVariance(0, variance, noise_variance=1, bounds=(-2, 2))
    observation = Observation(model=model, n=100, noise=LAPLACE, observed=np.array([30.0]))
    for _ in range(10):
        chain = NormalRecords(observation)
        chain.start(rng)
        assert abs(chain.contributions.sum() - 30.0) < 60
        assert chain.step.size < 1
    trace = run_chains(partial(NormalRecords, observation), draws=300, tune=100, chains=4, rng=rng)
    assert np.abs(trace.draws["mean"]).max() < 2


def test_a_start_is_chosen_also_where_no_density_is_a_number(rng):
    acceptance = NormalRecords(
        Observation(model=CASES["normal"][1], n=5, noise=ps.GaussianNoise(noise_std=1e-160), observed=np.array([1e300]))
    ).acceptance
    assert choose_start(acceptance, np.array([[1.0], [2.0]]), rng) in (0, 1)


def test_a_prior_at_zero_gives_no_infinite_records(rng):
    """Draws of Gamma(1e-4, 1) underflow to 0."""
    model = ps.GammaExponential(1e-4, 1.0, upper=2.0)
    observation = Observation(model=model, n=10, noise=LAPLACE, observed=np.array([19.0]))
    trace = run_chains(lambda: ExponentialRecords(observation), draws=50, tune=50, chains=2, rng=rng)
    assert np.isfinite(trace.draws["rate"]).all()
    assert (trace.draws["rate"] > 0).all()


def test_wide_priors_of_counts(rng):
    """Steps of the walk on the log scale reach means that NumPy cannot draw from; they are rejected."""
    model = ps.GammaPoisson(1e-3, 1e-3, upper=5)
    observation = Observation(model=model, n=3, noise=LAPLACE, observed=np.array([3.0]))
    trace = run_chains(partial(PoissonRecords, observation), draws=300, tune=100, chains=2, rng=rng)
    assert trace.draws["rate"].max() < 1e15
    far = observation._replace(model=ps.GammaPoisson(1.0, 1e-20, upper=5))
    with pytest.raises(ValueError, match=r"rate must be below 1e\+15 under the prior, got "):
        PoissonRecords(far).start(rng)


def test_interweaving_mixes_where_the_noise_is_large(monkeypatch):
    """Noise of twenty times the sampling error: the centred scheme alone makes a hundredth of the effective draws."""
    model, n = ps.NormalKnownVariance(0, 100, noise_variance=1, bounds=(-50, 50)), 100
    noise = ps.GaussianNoise(noise_std=20 * n**0.5)
    observation = Observation(model=model, n=n, noise=noise, observed=np.array([30.0]))
    sizes = {}
    for shifts in (0, 3):
        monkeypatch.setattr(records, "_SHIFTS", shifts)
        trace = run_chains(
            partial(NormalRecords, observation), draws=1000, tune=300, chains=4, rng=np.random.default_rng(1)
        )
        draws = PosteriorDraws(draws=trace.draws, account=ps.PureAccountant(stated_epsilon=1), method="x", chains=4)
        sizes[shifts] = float(summary(draws.to_arviz())["ess_bulk"].iloc[0])
    assert sizes[3] > 1000
    assert sizes[0] < 100

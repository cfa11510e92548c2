"""Acceptance of records by the noise: ratios, the compiled loop against enumeration, and the bound by epsilon."""

import itertools

import numpy as np
import pytest
from scipy import stats

import privsample as ps
from privsample._compiled import compiled
from privsample.inference import acceptance as module
from privsample.inference.acceptance import NoiseAcceptance
from tests.inference.noises import OwnLogistic

NOISES = [
    ps.LaplaceNoise(scale=1.7),
    ps.GaussianNoise(noise_std=1.7),
    ps.DiscreteLaplaceNoise(scale=1.7),
    ps.DiscreteGaussianNoise(noise_std=1.7),
    OwnLogistic(scale=1.7),
]
each_noise = pytest.mark.parametrize("noise", NOISES, ids=lambda noise: noise.name)


@each_noise
@pytest.mark.parametrize("copies", [1, 3])
def test_the_ratio_is_that_of_the_noise_masses(noise, copies, rng):
    observed = rng.integers(-9, 9, (copies, 2)).astype(float)
    acceptance = NoiseAcceptance(noise, observed)
    for _ in range(20):
        old, new = rng.integers(-9, 9, (2, 2)).astype(float)
        expected = noise.log_mass(observed - new).sum() - noise.log_mass(observed - old).sum()
        assert acceptance.log_ratio(old, new) == pytest.approx(expected, rel=1e-12, abs=1e-12)


def test_large_sums_lose_no_digits():
    """The difference of the squares of 1e9 would keep no digit of the ratio."""
    acceptance = NoiseAcceptance(ps.GaussianNoise(noise_std=1.0), np.array([1e9]))
    assert acceptance.log_ratio(np.array([1e9 + 3.0]), np.array([1e9 + 2.0])) == 2.5
    assert acceptance.log_ratio(np.array([0.0]), np.array([1e-6])) == pytest.approx(1e3, rel=1e-12)


@pytest.mark.parametrize("noise", NOISES[:2], ids=lambda noise: noise.name)
def test_all_releases_share_one_compiled_loop(noise):
    """The array of a release is read-only, for which Numba would compile the loop once more."""
    from numba import typeof

    observed = np.ones((2, 3))
    observed.setflags(write=False)
    assert typeof(NoiseAcceptance(noise, observed).observed) == typeof(np.ones((2, 3)))


@pytest.mark.statistical
@pytest.mark.parametrize("noise", [NOISES[0], NOISES[3], NOISES[4]], ids=lambda noise: noise.name)
def test_offers_keep_the_distribution_of_records_given_the_release(noise, rng, alpha):
    """Four records of three values, drawn from the enumerated posterior, then offered new ones.

    The mutant believes in noise of 0.8 times the scale.
    """
    values, chances, observed = np.array([0.0, 1.0, 3.0]), np.array([0.5, 0.3, 0.2]), np.array([[6.0]])
    states = np.array(list(itertools.product(range(3), repeat=4)))
    weights = np.prod(chances[states], axis=1) * np.exp(noise.log_mass(6.0 - values[states].sum(axis=1)))
    weights /= weights.sum()
    code = 3 ** np.arange(4)[::-1]
    narrow = type(noise)(**dict.fromkeys(noise.__dataclass_fields__, 0.8 * noise.scale_parameter))
    for believed, accepted in ((noise, True), (narrow, False)):
        acceptance, counts = NoiseAcceptance(believed, observed), np.zeros(81)
        for start in states[rng.choice(81, size=8_000, p=weights)]:
            current = values[start][:, None]
            for _ in range(3):
                acceptance.offer(current, values[rng.choice(3, size=4, p=chances)][:, None], rng)
            counts[np.searchsorted(values, current[:, 0]) @ code] += 1
        kept = weights > 1e-3
        seen, due = (np.append(each[kept], each[~kept].sum()) for each in (counts, weights * counts.sum()))
        seen, due = seen[due > 0], due[due > 0]
        assert (stats.chisquare(seen, due).pvalue > alpha) == accepted


@each_noise
def test_the_compiled_loop_is_the_loop_in_python(noise, rng):
    """One by one with the noise's own masses, and the compiled kernel, from the same random numbers."""
    observed = np.array([[11.0, -3.0], [14.0, 2.0]])
    start, proposed = rng.integers(0, 3, (2, 50, 2)).astype(float)
    fast, slow = NoiseAcceptance(noise, observed), NoiseAcceptance(noise, observed)
    slow.squared, slow.observed = None, observed
    one, other = start.copy(), start.copy()
    seed = int(rng.integers(1 << 62))
    first, second = (
        each.offer(state, proposed, np.random.default_rng(seed)) for each, state in ((fast, one), (slow, other))
    )
    assert (one == other).all()
    assert (first.accepted == second.accepted).all()
    assert first.least_log_probability == pytest.approx(second.least_log_probability, rel=1e-9)
    assert 0 < first.rate < 1
    assert (one[first.accepted] == proposed[first.accepted]).all()
    assert (one[~first.accepted] == start[~first.accepted]).all()


@pytest.mark.parametrize("noise", ["laplace", "discrete laplace"])
@pytest.mark.parametrize("draws", [1, 2])
def test_each_record_is_accepted_with_at_least_exp_minus_epsilon(noise, draws, rng):
    """The bound is the account's pure epsilon, and offers of extreme records attain it."""
    model = ps.GammaPoisson(2, 1, upper=4)
    mechanism = ps.NoisyStatistics(model=model, n=30, scale=3.0, noise=noise, draws=draws)
    epsilon = mechanism.accountant.pure_epsilon
    observed = mechanism.release(rng.poisson(2.0, 30), rng=rng)["statistic"]
    acceptance = NoiseAcceptance(mechanism.distribution, observed - 60.0)
    accepted = offered = 0
    for _ in range(200):
        current, proposed = rng.integers(0, 5, (2, 30, 1)).astype(float)
        moves = acceptance.offer(current, proposed, rng)
        assert moves.least_log_probability >= -epsilon * (1 + 1e-12)
        accepted, offered = accepted + moves.accepted.sum(), offered + 30
    assert accepted / offered >= np.exp(-epsilon)
    extreme = acceptance.offer(np.zeros((30, 1)), np.full((30, 1), 4.0), rng)
    assert extreme.least_log_probability == pytest.approx(-epsilon, rel=1e-12)


def test_without_a_folder_for_compiled_code(monkeypatch):
    import numba

    asked = []

    def njit(**options):
        asked.append(options)
        if options.get("cache"):
            raise RuntimeError("cannot cache function")
        return lambda function: function

    monkeypatch.setattr(numba, "njit", njit)
    assert compiled(module._offer) is module._offer
    assert [options.pop("cache", False) for options in asked] == [True, False]
    assert asked[0] == asked[1]

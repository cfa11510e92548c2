"""Discrete and rounded noise compared with NumPy's and OpenDP's draws; exact sums; noise-aware posteriors of counts."""

from collections.abc import Iterator

import numpy as np

import privsample as ps
from benchmarks.measure import Row, milliseconds, paired, seconds
from privsample._entropy import system_generator
from privsample.distributions.exact.grid import Grid

DRAWS = 1_000_000
FEW = 10_000


def rows() -> Iterator[Row]:
    """Times of draws, of posteriors, and of calibration."""
    rng, system = np.random.default_rng(1), system_generator()
    distributions = (
        (ps.DiscreteLaplaceNoise(scale=10), lambda: rng.laplace(0.0, 10.0, DRAWS), "numpy laplace"),
        (ps.DiscreteGaussianNoise(noise_std=10), lambda: rng.normal(0.0, 10.0, DRAWS), "numpy normal"),
    )
    for distribution, peer, name in distributions:
        library, theirs = paired(lambda distribution=distribution: distribution.sample((DRAWS,), rng), peer)
        yield _row(f"1e6 {distribution.name} draws", library, theirs, name, "no loop per draw")
        library, theirs = paired(
            lambda distribution=distribution: distribution.sample_indices(Grid(pitch=1.0), (FEW,), system),
            lambda distribution=distribution: _by_opendp(distribution, FEW),
            runs=3,
        )
        yield _row(f"1e4 exact {distribution.name} draws, system entropy", library, theirs, "opendp", "ratio <= 0.1")
    for continuous, draws in ((ps.LaplaceNoise(scale=10), "laplace"), (ps.GaussianNoise(noise_std=10), "normal")):
        library, theirs = paired(
            lambda noise=continuous: noise.sample_indices(Grid(pitch=2.0**-37), (DRAWS,), rng),
            lambda noise=continuous: noise.sample((DRAWS,), rng),
        )
        yield _row(f"1e6 exact rounded {draws} draws", library, theirs, f"numpy {draws}", "2e4 draws a second")
    column = rng.random(DRAWS)
    exact, floats = (ps.GaussianSum(bounds=(0, 1), noise_std=1, exact=flag) for flag in (True, False))
    library, theirs = paired(lambda: exact.release(column, rng=rng), lambda: floats.release(column, rng=rng))
    yield _row("noisy sum of 1e6 records, exact", library, theirs, "floating point", "none set")
    for n, scale in ((1000, 10.0), (1_000_000, 10.0), (1_000_000, 1000.0), (10**9, 100.0)):
        model, noise = ps.BetaBernoulli(alpha=1, beta=1), ps.DiscreteLaplaceNoise(scale=scale)
        seen = np.array([round(0.3 * n)])
        library = min(
            seconds(lambda m=model, k=n, e=noise, y=seen: m.noise_aware(k, e, y).distribution.mean) for _ in range(5)
        )
        yield _alone(f"exact posterior of a count, n = {n:.0e}, noise scale {scale:g}", library, "milliseconds")
    distribution = (
        ps.BetaBernoulli(alpha=1, beta=1)
        .noise_aware(10**6, ps.DiscreteLaplaceNoise(scale=10), np.array([3e5]))
        .distribution
    )
    yield _alone(
        "4000 draws from it", min(seconds(lambda: distribution.sample(4000, rng)) for _ in range(5)), "milliseconds"
    )
    survey = ps.DirichletCategorical(alpha=(1, 1, 1))
    for noise in ("discrete laplace", "laplace", "gaussian", "discrete gaussian"):
        target = ps.DP(epsilon=1, delta=1e-6)
        took = seconds(lambda e=noise, t=target: ps.NoisyStatistics.calibrate(model=survey, n=100, noise=e, target=t))
        yield _alone(f"calibrate {noise} noise on a survey to (1, 1e-6)", took, "none set")


def _by_opendp(noise: ps.DiscreteLaplaceNoise | ps.DiscreteGaussianNoise, size: int) -> object:
    """Exact draws by OpenDP."""
    import opendp.prelude as dp

    dp.enable_features("contrib")
    numbers = dp.vector_domain(dp.atom_domain(T="i64"))
    if isinstance(noise, ps.DiscreteLaplaceNoise):
        draw = dp.m.make_laplace(numbers, dp.l1_distance(T="i64"), scale=noise.scale)
    else:
        draw = dp.m.make_gaussian(numbers, dp.l2_distance(T=float), scale=noise.noise_std)
    return draw([0] * size)


def _row(name: str, library: float, theirs: float, peer: str, target: str) -> Row:
    return Row(
        name=name,
        library=milliseconds(library),
        peer=f"{milliseconds(theirs)} {peer}",
        ratio=library / theirs,
        target=target,
    )


def _alone(name: str, library: float, target: str) -> Row:
    return Row(name=name, library=milliseconds(library), peer="", ratio=None, target=target)

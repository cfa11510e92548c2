"""Hidden states over epochs: time of the account at 100,000 steps, and quadrature of one-dimensional descent."""

from collections.abc import Callable, Iterator

import numpy as np
from scipy import interpolate

import privsample as ps
from benchmarks.measure import Row, milliseconds, paired
from privsample.accounting import sgd
from privsample.accounting.postprocessing.hidden_states import least_shift

STEPS, CASES = 100_000, 200
POINTS = 50  # of the grid, for each deviation of the noise
Map = Callable[[np.ndarray], np.ndarray]


def rows() -> Iterator[Row]:
    """Times as multiples of a cumulative sum, then the largest ratio of a true divergence to the reported one."""
    ones = np.ones(STEPS)
    some = (np.arange(STEPS) % 10 == 9).astype(float)
    for name, account in (
        ("hull, every step moves", lambda: least_shift(ones, ones, 0.9999 * ones)),
        ("hull, every tenth step moves", lambda: least_shift(some, ones, ones)),
        ("hull, least over restarts", lambda: least_shift(some, ones, ones, 5.0)),
        ("SGDAccountant, 100 epochs, epsilon", _epochs),
    ):
        own, other = paired(account, lambda: np.cumsum(ones))
        yield Row(
            name=f"{STEPS:,} steps: {name}",
            library=milliseconds(own),
            peer=f"{milliseconds(other)} numpy.cumsum",
            ratio=own / other,
            target="none set",
        )
    yield _quadrature(np.random.default_rng(1))


def _epochs() -> float:
    loss = ps.LogisticLoss(features=10, norm=1.0, radius=2.0)
    sgd._unit_shifts.cache_clear()
    account = ps.SGDAccountant(loss=loss, n=STEPS, rate=1.0, noise_std=1.0, batch=100, epochs=100, order="given")
    return float(account.epsilon(1e-6))


def _quadrature(rng: np.random.Generator) -> Row:
    """Cyclic logistic descent on rows +1, 0 and -1 by the trapezoidal rule, both directions, at eight epsilons."""
    ratios = []
    while len(ratios) < CASES:
        batches, epochs = int(rng.integers(1, 5)), int(rng.integers(1, 4))
        rate, noise_std, penalty = rng.uniform(0.2, 6.0), rng.uniform(0.15, 2.0), float(rng.choice([0.0, 0.05, 0.2]))
        if rate > 2 / (0.25 + penalty):
            continue
        position, others = int(rng.integers(batches)), rng.choice([-1.0, 0.0, 1.0], batches)
        moves = np.zeros(batches * epochs)
        moves[position::batches] = rate
        ones, noise = np.ones(len(moves)), rate * noise_std
        constant = max(1 - rate * penalty, abs(1 - rate * (0.25 + penalty)))
        shift = least_shift(moves, noise * ones, constant * ones)
        reach = rate * len(moves) + 9 * noise * np.sqrt(len(moves))
        grid = np.linspace(-reach, reach, max(401, int(POINTS * reach / noise)))
        p, q = (
            _density(_chain(rate, penalty, np.where(np.arange(batches) == position, own, others)) * epochs, noise, grid)
            for own in (1.0, -1.0)
        )
        claim, worst = ps.GaussianAccountant(sensitivity=shift, noise_std=1.0), 0.0
        for epsilon in np.linspace(0.0, shift * shift, 8):
            allowed = float(claim.delta(epsilon))
            if allowed > 1e-7:
                worst = max(worst, *(_hockey_stick(a, b, epsilon, grid) / allowed for a, b in ((p, q), (q, p))))
        ratios.append(worst)
    return Row(
        name=f"quadrature of logistic descent, {CASES} cases",
        library=f"largest ratio {max(ratios):.6f}",
        peer="",
        ratio=None,
        target="at most 1, but for the grid",
    )


def _chain(rate: float, penalty: float, rows: np.ndarray) -> list[Map]:
    return [lambda x, z=z: x - rate * (penalty * x - z / (1 + np.exp(z * x))) for z in rows]


def _density(maps: list[Map], noise: float, grid: np.ndarray) -> np.ndarray:
    width, found = grid[1] - grid[0], None
    for each in maps:
        centres = each(np.zeros(1)) if found is None else each(grid)
        kernel = np.exp(-np.square((grid - centres[:, None]) / noise) / 2) / (noise * np.sqrt(2 * np.pi))
        found = kernel[0] if found is None else width * (found @ kernel)
    return found


def _hockey_stick(p: np.ndarray, q: np.ndarray, epsilon: float, grid: np.ndarray) -> float:
    curve = interpolate.CubicSpline(grid, p - np.exp(epsilon) * q)
    roots = curve.roots(extrapolate=False)
    ends = np.concatenate([grid[:1], roots[np.isfinite(roots)], grid[-1:]])
    return float(np.maximum(np.diff(curve.antiderivative()(ends)), 0.0).sum())

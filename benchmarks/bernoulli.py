"""Bernoulli draws from private probabilities: times, and ten thousand random cases of the account by brute force."""

import itertools
from collections.abc import Iterator

import numpy as np

import privsample as ps
from benchmarks.measure import Row, milliseconds, seconds
from privsample.accounting.postprocessing.bernoulli_bounds import symmetric_renyi
from privsample.accounting.postprocessing.bernoulli_search import corner_renyi

CASES, EACH, INNER, HALVINGS = 10_000, 100, 4, 50
SHAPES = ((1, 1), (1, 2), (1, 4), (2, 1), (2, 2), (3, 1))
EPSILONS = np.array([0.0, 0.2, 1.0])


def rows() -> Iterator[Row]:
    """Times (best of five), violations, and the mean excess over the exact value."""
    for margin in (0.01, 0.1, 0.4999):
        took = min(seconds(lambda c=margin: symmetric_renyi(1.0, 50.0, 1_000_000, c)) for _ in range(5))
        yield _timed(f"Theorem 4, a million draws, c = {margin:g}", took)
    for trials in (1, 4, 64):
        for epsilon in (0.1, 1.0, 5.0):
            took = min(seconds(lambda e=epsilon, k=trials: corner_renyi(e, 50.0, k, 0.1)) for _ in range(5))
            yield _timed(f"Algorithm 2, k = {trials}, epsilon = {epsilon:g}", took)
    yield from _cases(np.random.default_rng(1))


def _timed(name: str, took: float) -> Row:
    return Row(name=name, library=milliseconds(took), peer="50 ms allowed", ratio=took / 0.05, target="at most 1")


def _cases(rng: np.random.Generator) -> Iterator[Row]:
    """Random bases, each with EACH pairs of distributions: at the corners, inside, and with an infinity mass."""
    found: dict[str, list[np.ndarray]] = {"Rényi": [], "Rényi, infinity mass": [], "delta, infinity mass": []}
    for case in range(CASES // EACH):
        (d, k), margin = SHAPES[case % len(SHAPES)], rng.uniform(0.01, 0.45)
        order, epsilon = 1 + np.exp(rng.uniform(-2, 3)), np.exp(rng.uniform(-3, 1))
        rows = _kernel(np.vstack([_corners(d, margin), rng.uniform(margin, 1 - margin, (INNER, d))]), k)
        fields = {"margin": margin, "draws": k, "dimension": d}
        p, q = _apart(*rng.dirichlet(np.full(len(rows), rng.choice([0.2, 1.0])), (2, EACH)), epsilon, order)
        bound = ps.BernoulliAccountant(base=ps.ZCDPAccountant(rho=epsilon / order), **fields).rdp(order)
        truth = np.maximum(_renyi(p @ rows, q @ rows, order), _renyi(q @ rows, p @ rows, order))
        found["Rényi"].append(np.stack([np.full(EACH, bound), truth], axis=1))
        p, q, failure = _failing(rng, len(rows), epsilon)
        base = ps.ApproximateAccountant(stated_epsilon=epsilon, stated_delta=failure)
        account = ps.BernoulliAccountant(base=base, **fields)
        truth = np.maximum(_renyi(p @ rows, q @ rows, order), _renyi(q @ rows, p @ rows, order))
        found["Rényi, infinity mass"].append(np.stack([np.full(EACH, account.rdp(order)), truth], axis=1))
        beyond = p @ rows - np.exp(EPSILONS)[:, None, None] * (q @ rows)
        truth, bounds = np.maximum(beyond, 0.0).sum(axis=-1), account.delta(EPSILONS)
        found["delta, infinity mass"] += [
            np.stack([np.full(EACH, b), t], axis=1) for b, t in zip(bounds, truth, strict=True)
        ]
    for name, pairs in found.items():
        bound, exact = np.concatenate(pairs).T
        below, kept = int((bound < exact * (1 - 1e-9) - 1e-13).sum()), exact > 1e-12
        ratio = bound[kept] / exact[kept]
        words = f"{below} below, least ratio {ratio.min():.5f}, mean excess {(bound - exact).mean():.3g}"
        label = f"Bernoulli draws, {name}, {len(exact)} cases"
        yield Row(name=label, library=words, peer="", ratio=None, target="0 below")


def _corners(dimension: int, margin: float) -> np.ndarray:
    return np.array(list(itertools.product((margin, 1 - margin), repeat=dimension)))


def _kernel(chances: np.ndarray, draws: int) -> np.ndarray:
    """Output distributions, (points, outcomes), by enumeration of all draws."""
    found = np.ones((len(chances), 1))
    for chance in np.tile(chances, draws).T:
        found = (found[:, :, None] * np.stack([1 - chance, chance], axis=1)[:, None]).reshape(len(chances), -1)
    return found


def _renyi(p: np.ndarray, q: np.ndarray, order: float) -> np.ndarray:
    return np.log((p * (p / q) ** (order - 1)).sum(axis=-1)) / (order - 1)


def _apart(p: np.ndarray, q: np.ndarray, epsilon: float, order: float) -> tuple[np.ndarray, np.ndarray]:
    """Move the two distributions towards each other until the larger divergence is epsilon."""
    middle, half = (np.maximum(p, 1e-15) + np.maximum(q, 1e-15)) / 2, (p - q) / 2
    low, high = np.zeros((len(p), 1)), np.ones((len(p), 1)) * (1 - 1e-12)
    for _ in range(HALVINGS):
        at = (low + high) / 2
        one, other = middle + at * half, middle - at * half
        with np.errstate(over="ignore"):
            inside = np.maximum(_renyi(one, other, order), _renyi(other, one, order))[:, None] <= epsilon
        low, high = np.where(inside, at, low), np.where(inside, high, at)
    return middle + low * half, middle - low * half


def _failing(rng: np.random.Generator, count: int, epsilon: float) -> tuple[np.ndarray, np.ndarray, float]:
    """Randomized response mapped to random points, sometimes mixed with an arbitrary distribution."""
    answers = rng.dirichlet(np.full(count, 0.2), (2, EACH))
    worst = rng.random(EACH) < 0.2  # onto the two farthest corners, which are the first and the last of the corners
    ends = np.eye(count)[[0, count - INNER - 1]]
    answers = np.where(worst[:, None], ends[:, None], answers)
    failed = np.where(worst[:, None], ends[:, None], np.eye(count)[rng.integers(count, size=(2, EACH))])
    share, failure = 1 / (1 + np.exp(-epsilon)), float(np.exp(rng.uniform(-9, -1)))
    one = (1 - failure) * (share * answers[0] + (1 - share) * answers[1]) + failure * failed[0]
    other = (1 - failure) * ((1 - share) * answers[0] + share * answers[1]) + failure * failed[1]
    return one, other, failure

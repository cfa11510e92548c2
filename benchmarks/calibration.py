"""Calibration of the free parameter, compared with 500 bisections by the textbook formulas."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy.special import betainc, betaln, expit, gammaln

import privsample as ps
from benchmarks.measure import Row, milliseconds, paired

PRIOR = ps.BetaBernoulli(alpha=6, beta=12)


def rows() -> Iterator[Row]:
    """RDP and DP targets at a small and a huge n; the peer's result is reported by its distance from the library's."""
    targets = [(ps.RDP(order=2, epsilon=0.05), "20 ms"), (ps.RDP(order=15, epsilon=0.5), "20 ms")]
    targets += [(ps.DP(epsilon=1, delta=1e-6), "200 ms"), (ps.DP(epsilon=0.1, delta=1e-9), "200 ms")]
    for mechanism, field in ((ps.DiffusedPosterior, "data_weight"), (ps.ConcentratedPosterior, "prior_weight")):
        for n in (100, 10**12):
            for target, limit in targets:
                yield _case(mechanism, field, n, target, limit)


def _case(mechanism: Any, field: str, n: int, target: ps.RDP | ps.DP, limit: str) -> Row:
    def library() -> float:
        return getattr(mechanism.calibrate(model=PRIOR, n=n, target=target), field)

    def peer() -> float:
        return _bisect(target, n, field)

    own, theirs = paired(library, peer, runs=5)
    off = abs(peer() / library() - 1)
    name = f"{field} for {target.description}, n={n:.0e}"
    words = f"{milliseconds(theirs)}, {off:.0e} off"
    return Row(name=name, library=milliseconds(own), peer=words, ratio=own / theirs, target=f"under {limit}, 1e-9 off")


def _bisect(target: ps.RDP | ps.DP, n: int, field: str) -> float:
    """The search of the thesis: 500 bisections on the four extreme pairs, by the textbook formulas in doubles."""
    low, high = 0.0, 1.0  # the data weight, or the inverse of the prior weight
    for _ in range(500):
        middle = (low + high) / 2
        r, m = (middle, 1.0) if field == "data_weight" else (1.0, middle)
        low, high = (middle, high) if _met(target, n, r, m) else (low, middle)
    return low if field == "data_weight" else 1 / low


def _met(target: ps.RDP | ps.DP, n: int, r: float, m: float) -> bool:
    a, b, rest = PRIOR.alpha / m, PRIOR.beta / m, r * (n - 1)
    corners = ((a, b + rest), (a + rest, b), (b, a + rest), (b + rest, a))
    if isinstance(target, ps.RDP):
        return max(_renyi(target.order, x, y, r) for x, y in corners) <= target.epsilon
    return max(_delta(target.epsilon, x, y, r) for x, y in corners) <= target.delta


def _renyi(order: float, a: float, b: float, r: float) -> float:
    """Rényi divergence as a difference of log Gamma functions."""
    blend = b - (order - 1) * r
    if blend <= 0:
        return np.inf
    terms = betaln(a + order * r, blend) - order * betaln(a + r, b) + (order - 1) * betaln(a, b + r)
    return float(terms / (order - 1))


def _delta(epsilon: float, a: float, b: float, r: float) -> float:
    """Privacy curve as a difference of two survival functions."""
    y = (epsilon + gammaln(a + r) - gammaln(a) - gammaln(b + r) + gammaln(b)) / r
    tail = expit(-y)
    return float(betainc(b, a + r, tail) - np.exp(epsilon) * betainc(b + r, a, tail))

"""Numerical search for the distributions on corners that keep most of a Rényi divergence after Bernoulli draws.

It finds lower bounds. Source: Imola and Chaudhuri 2021, Algorithms 1 and 3; docs/notes/bernoulli.md, section 3.
"""

from itertools import product

import numpy as np
from scipy import optimize, special

from privsample._checks import FloatArray
from privsample._value import frozen_value
from privsample.accounting.postprocessing.bernoulli_bounds import finite_renyi

_HALVINGS = 30
_NOWHERE = 20.0  # less the log weight of corners that a distribution leaves out


@frozen_value
class Corners:
    """Distributions on {c, 1-c}^d with both divergences at most epsilon, observed through k vectors of d draws."""

    order: float
    epsilon: float
    dimension: int
    draws: int
    margin: float

    @property
    def kernel(self) -> FloatArray:
        """Log probability of each pattern of counts by corner, shape (2^d, (k + 1)^d): the counts are sufficient."""
        heads = np.arange(self.draws + 1)
        ways = (
            special.gammaln(self.draws + 1.0) - special.gammaln(heads + 1.0) - special.gammaln(self.draws - heads + 1.0)
        )
        c, rest = np.log(self.margin), np.log1p(-self.margin)
        one = np.stack([ways + heads * c + heads[::-1] * rest, ways + heads * rest + heads[::-1] * c])
        corners = product((0, 1), repeat=self.dimension)
        return np.array([[sum(part) for part in product(*(one[bit] for bit in corner))] for corner in corners])

    def best(self, rng: np.random.Generator, starts: int, steps: int = 100, *, conjectured: bool = False) -> float:
        """The largest divergence after the draws that a search from so many random starts finds: a lower bound.

        With `conjectured`, one more search starts at the two opposite corners, the pair of Theorem 4.
        """
        kernel, count = self.kernel, 2**self.dimension

        def loss(z: FloatArray) -> float:
            return -self._after(kernel, *self._feasible(z[:count], z[count:]))

        begin = [rng.normal(0.0, 1.0 + 2.0 * (k % 3), 2 * count) for k in range(starts)]
        if conjectured:
            weights = np.full(count, -_NOWHERE)
            weights[[0, -1]] = 0.0, -1.0  # which of the two is likelier; drawn apart until the divergence is epsilon
            begin.append(np.concatenate([weights, weights[::-1]]))
        found = 0.0
        for start in begin:
            result = optimize.minimize(loss, start, method="Powell", options={"maxfev": steps * count, "ftol": 1e-10})
            found = max(found, -float(result.fun))
        return found

    def _feasible(self, one: FloatArray, other: FloatArray) -> tuple[FloatArray, FloatArray]:
        """The two distributions with these log weights, drawn together or apart until the larger divergence is
        epsilon.
        """
        p, q = (np.maximum(special.softmax(z), 1e-200) for z in (one, other))
        middle, half = (p + q) / 2, (p - q) / 2
        low, high = 0.0, float(np.min(middle / np.maximum(np.abs(half), 1e-300))) * (1 - 1e-12)
        for _ in range(_HALVINGS):
            at = (low + high) / 2
            inside = self._farther(middle + at * half, middle - at * half) <= self.epsilon
            low, high = (at, high) if inside else (low, at)
        return middle + low * half, middle - low * half

    def _farther(self, p: FloatArray, q: FloatArray) -> float:
        """The larger of both divergences, by plain sums: quick, and precise enough to search by."""
        s = self.order - 1.0
        with np.errstate(divide="ignore", over="ignore"):
            log_p, log_q = np.log(p), np.log(q)
            loss = log_p - log_q
            return float(np.log(max(np.exp(log_p + s * loss).sum(), np.exp(log_q - s * loss).sum())) / s)

    def _after(self, kernel: FloatArray, p: FloatArray, q: FloatArray) -> float:
        with np.errstate(divide="ignore"):
            log_p, log_q = (special.logsumexp(np.log(m)[:, None] + kernel, axis=0) for m in (p, q))
        return float(finite_renyi(log_p, log_p - log_q, self.order - 1.0))

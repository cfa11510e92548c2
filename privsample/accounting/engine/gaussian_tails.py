"""The Gaussian privacy curve delta_mu: its inverse in mu, and where it exceeds a privacy curve for good.

Proofs: docs/notes/gaussian_dp.md, steps 1 and 4.
"""

from dataclasses import dataclass
from typing import Self

import numpy as np
from scipy import special

from privsample._checks import FloatArray
from privsample.accounting.engine.bounds import PrivacyBounds
from privsample.accounting.loss.gaussian import gaussian_log_delta
from privsample.accounting.loss.pair import largest_parts

_UP = 1.0 + 1e-12  # exceeds the relative rounding error of a closed form
_APART = 1.0 + 1e-10  # least ratio of two standard deviations whose tails are compared
_HALF_LOG_TWO_PI = 0.5 * np.log(2 * np.pi)
_STEPS, _CLOSE = 60, 1e-14


def log_delta_error(mu: float, epsilon: FloatArray) -> FloatArray:
    """Bound on the amount by which `gaussian_log_delta` exceeds the logarithm of delta_mu at epsilon >= 0."""
    low, high = np.abs(epsilon / mu - mu / 2), epsilon / mu + mu / 2
    return 1e-14 * (1 + high * (1 + low))


def mu_at(epsilon: FloatArray, log_delta: FloatArray) -> FloatArray:
    """The mu with delta_mu(epsilon) = delta, to about ten ulp; epsilon >= 0, broadcast. 0 for delta = 0, +inf for 1.

    log delta_mu is concave in log mu, so that Newton's method increases from the closed lower bound to the solution.
    """
    e, goal = np.broadcast_arrays(np.asarray(epsilon, dtype=np.float64), np.asarray(log_delta, dtype=np.float64))
    result = np.where(goal < 0.0, 0.0, np.inf)
    rows = np.flatnonzero(np.isfinite(goal.ravel()) & (goal.ravel() < 0.0))
    e, goal, flat = e.ravel()[rows], goal.ravel()[rows], result.ravel()
    z = -special.ndtri_exp(goal)  # delta_mu < Phi(mu/2 - e/mu), which equals delta at the root of a quadratic
    root = np.hypot(z, np.sqrt(2 * e))
    with np.errstate(divide="ignore", invalid="ignore"):
        crossing = np.where(z > 0.0, 2 * e / (root + np.maximum(z, 0.0)), root - z)
    # delta_mu(e) <= delta_mu(0) < mu/sqrt(2 pi)
    mu = np.maximum(np.fmax(crossing, 0.0), np.exp(np.maximum(goal + _HALF_LOG_TWO_PI, -700.0)))
    for _ in range(_STEPS):
        value = gaussian_log_delta(mu, e)
        low = e / mu - mu / 2
        with np.errstate(over="ignore", invalid="ignore"):
            slope = np.exp(np.log(mu) - 0.5 * low * low - _HALF_LOG_TWO_PI - value)  # d log delta / d log mu
            step = np.where(slope > 0.0, (goal - value) / slope, 0.0)
        mu = mu * np.exp(np.clip(np.nan_to_num(step), -1.0, 1.0))
        if (np.abs(step) < _CLOSE * (1 + np.abs(goal))).all():
            break
    flat[rows] = mu
    return flat.reshape(result.shape)


def gaussian_part(bounds: PrivacyBounds) -> tuple[float, float]:
    """The `LossPair.gaussian_part` of a pair that dominates an account; (0, +inf) if none is known."""
    if bounds.infinity_mass > 0.0:
        return 0.0, np.inf
    if bounds.pairs:
        shift, rest = largest_parts(bounds.pairs)
    else:
        parts = [gaussian_part(part) for part in bounds.parts]
        shift, rest = (max(each) for each in zip(*parts, strict=True)) if parts else (0.0, np.inf)
    return (shift, rest) if shift > 0.0 else (0.0, min(rest, bounds.pure_epsilon))


@dataclass(frozen=True, slots=True)
class LossTail:
    """What is known of a privacy loss beyond every finite epsilon.

    Parameters
    ----------
    shifted : tuple of (float, float), default ()
        Pairs (m, c) for which delta(epsilon) <= delta_m(epsilon - c) at every epsilon: the loss is that of a Gaussian
        of mean shift m plus a loss of at most c. m = 0 says that the loss is at most c.
    zcdp : float, default +inf
        rho of a zCDP guarantee.
    pure_epsilon : float, default +inf
        Bound on the loss in both orders of the neighbours, so that randomized response dominates.
    """

    shifted: tuple[tuple[float, float], ...] = ()
    zcdp: float = np.inf
    pure_epsilon: float = np.inf

    @classmethod
    def of(cls, bounds: PrivacyBounds) -> Self:
        """What the bounds of an account say of its loss."""
        own = max((pair.max_divergence for pair in bounds.pairs), default=np.inf)  # that of one direction
        if bounds.infinity_mass > 0.0:  # perhaps of the other direction only
            return cls(shifted=((0.0, own),) if own < np.inf else ())
        parts = {gaussian_part(bounds), (0.0, min(own, bounds.pure_epsilon))}
        shifted = tuple(sorted(part for part in parts if part[1] < np.inf))
        return cls(shifted=shifted, zcdp=bounds.zcdp, pure_epsilon=bounds.pure_epsilon)

    @property
    def least_mu(self) -> float:
        """Infimum of the mu for which `start` is finite; +inf if nothing is known."""
        return min([np.sqrt(2 * self.zcdp) * _UP, *(m for m, _ in self.shifted)])

    @property
    def dominating_mu(self) -> float:
        """The least known mu with delta <= delta_mu at every epsilon; +inf if none is known."""
        return min([_response_mu(self.pure_epsilon), *(m for m, rest in self.shifted if rest == 0.0 < m)])

    def start(self, mu: float) -> float:
        """An epsilon from which on delta <= delta_mu is known; +inf if none is (gaussian_dp.md, step 4)."""
        return min([_after_chernoff(self.zcdp, mu), *(_after_shift(m, c, mu) for m, c in self.shifted)])


def _response_mu(epsilon: float) -> float:
    """The least mu of every epsilon-DP mechanism, -2 Phi^-1(1/(1 + e^epsilon)), rounded up."""
    return float(-2 * special.ndtri_exp(-np.logaddexp(0.0, epsilon))) * _UP + 1e-14 * (epsilon > 0.0)


def _after_shift(m: float, c: float, mu: float) -> float:
    """The epsilon from which on delta_m(epsilon - c) <= delta_mu(epsilon), because each tail probability is."""
    if m == 0.0 or (c == 0.0 and mu >= m):
        return c
    if not mu > m * _APART:
        return np.inf
    return max(float((c / m - (mu - m) / 2) / (1 / m - 1 / mu)) * (1 + 1e-5) + 1e-300, 0.0)


def _after_chernoff(zcdp: float, mu: float) -> float:
    """The epsilon from which on Chernoff's bound exp(-(u - rho)^2/(4 rho)) is below the Gaussian tail probability."""
    m = float(np.sqrt(2 * zcdp)) * _UP
    if m == 0.0:
        return 0.0
    if not m * _APART < mu:
        return np.inf

    def holds(u: float) -> bool:
        own, other = u / m - m / 2, u / mu - mu / 2
        if not (other >= 1.0 and own / m - other / mu >= _UP / (mu * other)):
            return False
        gain = (own - other) * (own + other) / 2 - 4e-15 * (own * own + other * other)
        return gain >= _UP * (_HALF_LOG_TWO_PI + np.log(other + 1 / other))

    low, high = 0.0, mu * (1.0 + mu / 2) * _UP
    while not holds(high):
        low, high = high, 2 * high
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high

"""Contraction of Rényi divergences by k vectors of d Bernoulli draws with secret probabilities: closed-form bounds.

The probabilities lie in [c, 1-c]^d, and there are N = dk draws. Source: Imola and Chaudhuri 2021;
docs/notes/bernoulli.md.
"""

import numpy as np
from scipy import special

from privsample._checks import FloatArray, Real, number
from privsample._logspace import expm1_excess, log1mexp

_LOST = 60.0  # omitted terms of a sum are below e^-60
_HALVINGS = 64
_ROUNDING = 1e-12  # exceeds the rounding error of a fraction
_UP = 1e-12  # exceeds the relative rounding error of a divergence


def finite_renyi(log_p: FloatArray, loss: FloatArray, s: Real) -> FloatArray:
    """Rényi divergence of order 1 + s of distributions on the last axis, given log p and the loss log p/q.

    Small divergences are log1p of a sum of positive terms. The shape is that of log_p without its last axis; s
    broadcasts.
    """
    step = np.asarray(s, dtype=np.float64)[..., None]
    with np.errstate(over="ignore", invalid="ignore"):
        near = (np.exp(log_p) * (expm1_excess(step * loss) + step * expm1_excess(-loss))).sum(axis=-1)
        near = np.where(near < 1.0, near, 1.0)
    far = np.logaddexp.reduce(log_p + step * loss, axis=-1)
    return np.where(near < 1.0, np.log1p(near), far) / np.asarray(s)


def binary_renyi(log_odds: Real, orders: Real) -> FloatArray:
    """r_a(p), the divergence of (p, 1-p) from (1-p, p), by u = log((1-p)/p) >= 0; the arguments broadcast."""
    u, s = np.broadcast_arrays(np.asarray(log_odds, dtype=np.float64), np.asarray(orders, dtype=np.float64) - 1.0)
    log_p = np.stack([-np.logaddexp(0.0, u), -np.logaddexp(0.0, -u)], axis=-1)
    return finite_renyi(log_p, np.stack([-u, u], axis=-1), s)


def binary_log_odds(epsilon: Real, orders: Real) -> FloatArray:
    """u >= 0 with binary_renyi(u) = epsilon, rounded down; epsilon finite and >= 0, the arguments broadcast.

    The root lies between epsilon, since r <= u, and the root of u^2/(2+u) = epsilon, since r is at least the
    Kullback-Leibler divergence u tanh(u/2).
    """
    e, alpha = np.broadcast_arrays(np.asarray(epsilon, dtype=np.float64), np.asarray(orders, dtype=np.float64))
    low, high = e.copy(), (e + np.sqrt(e * (e + 8.0))) / 2 * (1 + _ROUNDING)
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        below = binary_renyi(middle, alpha) <= e
        low, high = np.where(below, middle, low), np.where(below, high, middle)
    return low


def binomial_masses(trials: int, margin: float, reach: float = 0.0) -> tuple[FloatArray, FloatArray]:
    """log mass under Bin(N, c) of each count that matters, and its log ratio to the mass under Bin(N, 1-c).

    Both have shape (counts,). The omitted counts have mass below e^-60, even multiplied by e^reach (Hoeffding 1963). c
    > 0.
    """
    half = np.sqrt(trials / 2 * (_LOST + reach))
    low, high = int(max(margin * trials - half, 0.0)), int(min((1 - margin) * trials + half, trials))
    inner = int(margin * trials + half) + 1
    if inner >= trials - inner:
        j = np.arange(low, high + 1)
    else:
        j = np.concatenate([np.arange(low, inner + 1), np.arange(trials - inner, high + 1)])
    ways = special.gammaln(trials + 1.0) - special.gammaln(j + 1.0) - special.gammaln(trials - j + 1.0)
    log_mass = ways + j * np.log(margin) + (trials - j) * np.log1p(-margin)
    return np.asarray(log_mass), np.asarray((trials - 2.0 * j) * log_odds_bound(margin))


def rounding(trials: int) -> float:
    """Bound on the relative rounding error of the masses of `binomial_masses`."""
    return _ROUNDING + 4e-15 * trials * float(np.log(trials))


def log_odds_bound(margin: float) -> float:
    """log((1-c)/c), c < 1/2: the largest privacy loss of one draw; +inf at c = 0.

    Above c = 1/4 it is log1p of an exact difference, which avoids cancellation.
    """
    if margin > 0.25:
        return float(np.log1p((1.0 - 2.0 * margin) / margin))
    with np.errstate(divide="ignore"):
        return float(np.log1p(-margin) - np.log(np.float64(margin)))


def symmetric_renyi(log_odds: float, order: float, trials: int, margin: float) -> float:
    """Divergence after N draws of (p, 1-p) from (1-p, p) on the corners {c}^d and {1-c}^d, u = log((1-p)/p).

    Kind: exact. Source: Imola and Chaudhuri 2021, Theorem 4.
    """
    if log_odds == 0.0 or margin == 0.0:
        return float(binary_renyi(log_odds, order))
    low, loss = binomial_masses(trials, margin, 2 * (order - 1.0) * log_odds)
    log_p = np.logaddexp(low - np.logaddexp(0.0, log_odds), low - loss - np.logaddexp(0.0, -log_odds))
    return float(finite_renyi(log_p, mixture_loss(log_odds, loss), order - 1.0))


def mixture_loss(u: float, loss: FloatArray) -> FloatArray:
    """log((e^x + e^u)/(e^(x+u) + 1)) = -2 artanh(tanh(x/2) tanh(u/2)); by logarithms where the product saturates."""
    product = np.tanh(loss / 2) * np.tanh(u / 2)
    far = np.logaddexp(loss, u) - np.logaddexp(loss + u, 0.0)
    return np.where(np.abs(product) < 0.9, -2.0 * np.arctanh(np.clip(product, -0.9, 0.9)), far)


def total_variation_contraction(trials: int, margin: float) -> float:
    """TV(Bin(N, c), Bin(N, 1-c)), rounded up: the contraction coefficient of the total variation distance."""
    return float(np.exp(log_hockey_stick(np.zeros(1), trials, margin))[0])


def le_cam_contraction(trials: int, margin: float) -> float:
    """E tanh^2(x/2), x the loss of N draws under c: contraction coefficient of the chi-squared divergence, rounded up.

    It is Le Cam's divergence of the two farthest corners. Source: Ordentlich and Polyanskiy 2022, Theorem 1.
    """
    if margin == 0.0:
        return 1.0
    low, loss = binomial_masses(trials, margin)
    return min(float((np.exp(low) * np.tanh(loss / 2) ** 2).sum()) + rounding(trials), 1.0)


def log_hockey_stick(epsilon: FloatArray, trials: int, margin: float) -> FloatArray:
    """log D_{e^epsilon}(Bin(N, c) || Bin(N, 1-c)) at epsilon >= 0, rounded up; shape of epsilon."""
    if margin == 0.0:
        return np.zeros(epsilon.shape)
    step = log_odds_bound(margin)
    most = np.clip(np.ceil((trials - epsilon / step) / 2) - 1, -1.0, trials)  # largest count with loss above epsilon
    kept = np.maximum(most, 0.0)
    log_p = np.log(np.maximum(special.betainc(trials - kept, kept + 1.0, 1.0 - margin), 1e-300))
    with np.errstate(divide="ignore"):
        log_q = np.log(special.betainc(trials - kept, kept + 1.0, margin))
    share = np.minimum(np.exp(log1mexp(np.minimum(np.minimum(epsilon, 1e300) + log_q - log_p, 0.0))) + _ROUNDING, 1.0)
    return np.where(most < 0.0, -np.inf, np.minimum(log_p + np.log(share), 0.0))


def farthest_renyi(orders: FloatArray, trials: int, margin: float) -> FloatArray:
    """N r_a(c), the divergence between the farthest corners, rounded up; +inf at margin 0.

    Source: Imola and Chaudhuri 2021, Theorem 5.
    """
    if margin == 0.0:
        return np.full(orders.shape, np.inf)
    return np.asarray(trials * binary_renyi(log_odds_bound(margin), orders) * (1 + _UP))


def contracted_renyi(epsilon: float, order: float, trials: int, margin: float) -> float:
    """log(1 + kappa (e^((a-1) epsilon) - 1))/(a-1), kappa the contraction coefficient (bernoulli.md, section 2)."""
    kept = (le_cam_contraction if order <= 2.0 else total_variation_contraction)(trials, margin)
    grown = (order - 1.0) * epsilon
    if grown < 1.0:
        return float(np.log1p(kept * np.expm1(grown))) / (order - 1.0) * (1 + _UP)
    with np.errstate(divide="ignore"):
        both = np.logaddexp(np.log(kept) + grown, np.log1p(-kept)) if np.isfinite(grown) else np.inf
    return float(both) / (order - 1.0) * (1 + _UP)


def majority_renyi(epsilon: float, order: float, trials: int, margin: float) -> float:
    """Closed-form lower bound r_a(p + K), K = e^(-2 N (1/2 - c)^2), where r_a(p) = epsilon; 0 if p + K > 1/2.

    It is the divergence of the majority of the draws for the pair of Theorem 4, bounded by Hoeffding's inequality.
    Source: Imola and Chaudhuri 2021, Theorem 2; docs/notes/bernoulli.md, section 4.
    """
    p = float(special.expit(-binary_log_odds(epsilon, order))) + float(np.exp(-2.0 * trials * (0.5 - margin) ** 2))
    return float(binary_renyi(np.log1p(-p) - np.log(p), order)) if p <= 0.5 else 0.0


def checked_margin(margin: float) -> float:
    """Check that the margin lies in [0, 1/2)."""
    found = number(margin=margin)
    if not 0.0 <= found < 0.5:
        raise ValueError(
            f"margin must lie in [0, 1/2), got {margin!r}: probabilities are clipped to [margin, 1 - margin]; 0 does "
            "not clip them, and the account is that of the base"
        )
    return found

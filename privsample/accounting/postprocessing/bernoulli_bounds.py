"""What k draws of d coins keep of a Rényi divergence between the distributions of their chances: bounds in closed form.

The chances lie in [c, 1-c]^d, and N = dk coins fall. Source: Imola and Chaudhuri 2021; docs/notes/bernoulli.md.
"""

import numpy as np
from scipy import special

from privsample._checks import FloatArray, Real
from privsample._logspace import expm1_excess, log1mexp

_LOST = 60.0  # of a sum at most e^-60 is left out
_HALVINGS = 64
_ROUNDING = 1e-12  # more than rounding takes away from a share


def finite_renyi(log_p: FloatArray, loss: FloatArray, s: Real) -> FloatArray:
    """Rényi divergence of order 1 + s of distributions on the last axis, given log p and log p/q; log1p of positive
    terms.

    Shape: that of log_p without its last axis; s broadcasts against it.
    """
    step = np.asarray(s, dtype=np.float64)[..., None]
    with np.errstate(over="ignore", invalid="ignore"):
        near = (np.exp(log_p) * (expm1_excess(step * loss) + step * expm1_excess(-loss))).sum(axis=-1)
        near = np.where(near < 1.0, near, 1.0)
    far = np.logaddexp.reduce(log_p + step * loss, axis=-1)
    return np.where(near < 1.0, np.log1p(near), far) / np.asarray(s)


def binary_renyi(log_odds: Real, orders: Real) -> FloatArray:
    """r_a(p), of (p, 1-p) against (1-p, p), by u = log((1-p)/p) >= 0; shapes that broadcast."""
    u, s = np.broadcast_arrays(np.asarray(log_odds, dtype=np.float64), np.asarray(orders, dtype=np.float64) - 1.0)
    log_p = np.stack([-np.logaddexp(0.0, u), -np.logaddexp(0.0, -u)], axis=-1)
    return finite_renyi(log_p, np.stack([-u, u], axis=-1), s)


def binary_log_odds(epsilon: Real, orders: Real) -> FloatArray:
    """u >= 0 with binary_renyi(u) = epsilon, from below; epsilon finite and >= 0, shapes that broadcast.

    It lies between epsilon, as r <= u, and the root of u^2/(2+u) = epsilon, as r is at least KL's u tanh(u/2).
    """
    e, alpha = np.broadcast_arrays(np.asarray(epsilon, dtype=np.float64), np.asarray(orders, dtype=np.float64))
    low, high = e.copy(), (e + np.sqrt(e * (e + 8.0))) / 2 * (1 + _ROUNDING)
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        below = binary_renyi(middle, alpha) <= e
        low, high = np.where(below, middle, low), np.where(below, high, middle)
    return low


def heads(coins: int, margin: float, reach: float = 0.0) -> tuple[FloatArray, FloatArray]:
    """log mass under Bin(N, c) of the numbers of heads that matter, and its excess over that under Bin(N, 1-c).

    Shape (kept,) each. What is left out adds up to less than e^-60, even times e^reach (Hoeffding 1963). c > 0.
    """
    half = np.sqrt(coins / 2 * (_LOST + reach))
    low, high = int(max(margin * coins - half, 0.0)), int(min((1 - margin) * coins + half, coins))
    inner = int(margin * coins + half) + 1
    if inner >= coins - inner:
        j = np.arange(low, high + 1)
    else:
        j = np.concatenate([np.arange(low, inner + 1), np.arange(coins - inner, high + 1)])
    ways = special.gammaln(coins + 1.0) - special.gammaln(j + 1.0) - special.gammaln(coins - j + 1.0)
    log_mass = ways + j * np.log(margin) + (coins - j) * np.log1p(-margin)
    return np.asarray(log_mass), np.asarray((coins - 2.0 * j) * evidence(margin))


def rounding(coins: int) -> float:
    """More than rounding takes away from the masses of `heads`, relative."""
    return _ROUNDING + 4e-15 * coins * float(np.log(coins))


def evidence(margin: float) -> float:
    """log((1-c)/c), c < 1/2: the most that one coin tells; +inf at c = 0. 1 - 2c is exact where logarithms cancel."""
    if margin > 0.25:
        return float(np.log1p((1.0 - 2.0 * margin) / margin))
    with np.errstate(divide="ignore"):
        return float(np.log1p(-margin) - np.log(np.float64(margin)))


def symmetric_renyi(log_odds: float, order: float, coins: int, margin: float) -> float:
    """What N coins keep of (p, 1-p) against (1-p, p) on the corners {c}^d and {1-c}^d, u = log((1-p)/p).

    Kind: exact. Source: Imola and Chaudhuri 2021, Theorem 4.
    """
    if log_odds == 0.0 or margin == 0.0:
        return float(binary_renyi(log_odds, order))
    low, told = heads(coins, margin, 2 * (order - 1.0) * log_odds)
    log_p = np.logaddexp(low - np.logaddexp(0.0, log_odds), low - told - np.logaddexp(0.0, -log_odds))
    return float(finite_renyi(log_p, mixed_loss(log_odds, told), order - 1.0))


def mixed_loss(u: float, told: FloatArray) -> FloatArray:
    """log((e^x + e^u)/(e^(x+u) + 1)) = -2 artanh(tanh(x/2) tanh(u/2)), by logarithms where that saturates."""
    product = np.tanh(told / 2) * np.tanh(u / 2)
    far = np.logaddexp(told, u) - np.logaddexp(told + u, 0.0)
    return np.where(np.abs(product) < 0.9, -2.0 * np.arctanh(np.clip(product, -0.9, 0.9)), far)


def dobrushin(coins: int, margin: float) -> float:
    """TV(Bin(N, c), Bin(N, 1-c)), rounded up: what N coins keep of any total variation."""
    return float(np.exp(log_hockey_stick(np.zeros(1), coins, margin))[0])


def squared(coins: int, margin: float) -> float:
    """E tanh^2(x/2), x the evidence of N coins under c, rounded up: what they keep of any chi-squared divergence.

    Le Cam's divergence of the two farthest corners. Source: Ordentlich and Polyanskiy 2022, Theorem 1.
    """
    if margin == 0.0:
        return 1.0
    low, told = heads(coins, margin)
    return min(float((np.exp(low) * np.tanh(told / 2) ** 2).sum()) + rounding(coins), 1.0)


def log_hockey_stick(epsilon: FloatArray, coins: int, margin: float) -> FloatArray:
    """log D_{e^epsilon}(Bin(N, c) || Bin(N, 1-c)) at epsilon >= 0, rounded up; shape of epsilon."""
    if margin == 0.0:
        return np.zeros(epsilon.shape)
    tells = evidence(margin)
    most = np.clip(np.ceil((coins - epsilon / tells) / 2) - 1, -1.0, coins)  # heads up to here tell more than epsilon
    kept = np.maximum(most, 0.0)
    log_p = np.log(np.maximum(special.betainc(coins - kept, kept + 1.0, 1.0 - margin), 1e-300))
    with np.errstate(divide="ignore"):
        log_q = np.log(special.betainc(coins - kept, kept + 1.0, margin))
    share = np.minimum(np.exp(log1mexp(np.minimum(np.minimum(epsilon, 1e300) + log_q - log_p, 0.0))) + _ROUNDING, 1.0)
    return np.where(most < 0.0, -np.inf, np.minimum(log_p + np.log(share), 0.0))

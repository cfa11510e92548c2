"""Exact rejection samplers for distributions truncated to bounds; the rejection rate stays bounded for any bounds."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy import special

from privsample._checks import FloatArray

Rows = NDArray[np.intp]
_BATCH = 64
_NEWTON = 3
_TINY = float(np.finfo(np.float64).tiny)
_LAGUERRE = np.polynomial.laguerre.laggauss(32)

_STEPS = 2.0 ** (-np.arange(4400) / 4)  # fractions of the distance to a bound, down to the smallest double


def sample_log_concave(
    fall: Callable[[FloatArray], FloatArray], left: float, right: float, size: int, rng: np.random.Generator
) -> FloatArray:
    """Draws on [left, right], left <= 0 <= right, from the log-concave density e^fall(z) with mode 0, fall(0) = 0.

    Proposals are uniform until the density has fallen by a factor e and exponential beyond; concavity makes them an
    envelope (Devroye 1986, section VII.2). More than a third are accepted. Returns an array of shape (size,).
    """
    ends, drops = np.transpose([_side(fall, sign, abs(end)) for sign, end in ((-1.0, left), (1.0, right))])
    tails = np.isfinite(drops)  # False: the bound is reached before the density has fallen by a factor e
    with np.errstate(over="ignore"):
        rates = np.minimum(np.divide(drops, ends, out=np.ones(2), where=tails), 1e300)
    beyond = np.where(tails, np.exp(-drops), 0.0) / rates
    masses = np.array([beyond[0], ends[0], ends[1], beyond[1]])
    if masses.sum() == 0.0:  # the bounds are equal up to rounding
        return np.zeros(size)
    kept = np.empty(0)
    while len(kept) < size:
        count = 3 * (size - len(kept)) + 16
        piece = rng.choice(4, size=count, p=masses / masses.sum())
        side, tail = (piece >= 2).astype(np.intp), (piece == 0) | (piece == 3)
        far = np.where(tail, ends[side] + rng.exponential(size=count) / rates[side], ends[side] * rng.random(count))
        top = np.where(tail, -rates[side] * far, 0.0)
        z = np.where(side == 1, far, -far)
        inside = (z >= left) & (z <= right)
        with np.errstate(over="ignore"):
            accepted = inside & (np.log1p(-rng.random(count)) <= fall(np.where(inside, z, 0.0)) - top)
        kept = np.append(kept, z[accepted])
    return kept[:size]


def _side(fall: Callable[[FloatArray], FloatArray], sign: float, end: float) -> tuple[float, float]:
    """Half-width of the uniform proposals on one side, and the fall of the log density there; +inf up to the bound."""
    with np.errstate(over="ignore"):
        drops = -fall(sign * end * _STEPS)
    if end == 0.0 or drops[0] <= 1.0:
        return end, np.inf
    at = int(np.nonzero(drops > 1.0)[0][-1])
    return float(end * _STEPS[at]), float(min(drops[at], 1e300))


def sample_truncated_dirichlet(alpha: FloatArray, low: FloatArray, rng: np.random.Generator) -> FloatArray:
    """One draw for each row of alpha, (rows, K), from its Dirichlet distribution with every share >= `low`, (rows,).

    A share whose alpha is 0 is 0. `low` is below one over the number of categories by more than rounding.

    The shares are independent Gamma variables truncated to [low, inf), of any common rate, conditioned on the sum 1.
    All shares but one are drawn; that one is the remainder, accepted in proportion to its own density. The omitted
    share is the one with the largest alpha. If no alpha exceeds 1, all densities are unbounded near 0; the omitted
    category j is then random with probabilities `_odds`, and its density is that of alpha_j + 1: these distributions
    are the target times the share of j, and add up to the target. The rate only affects the acceptance probability, of
    the order of 1/sqrt(K). Returns an array of shape (rows, K).
    """
    result, rates = np.empty_like(alpha), gamma_rates(alpha, low)
    left_out = alpha.argmax(axis=1)
    flat = alpha.max(axis=1) <= 1.0
    odds = np.cumsum(_odds(alpha[flat], low[flat], rates[flat]), axis=1)
    place = np.cumsum(flat) - 1
    waiting: Rows = np.arange(len(alpha))
    while waiting.size:
        tried = _tried(waiting)
        rate, least, shares, each = rates[tried], low[tried], alpha[tried], np.arange(len(tried))
        out, mixed = left_out[tried], flat[tried]
        ladder = odds[place[tried[mixed]]]
        out[mixed] = (ladder <= rng.random((len(ladder), 1)) * ladder[:, -1:]).sum(axis=1)
        power = shares[each, out] - np.where(mixed, 0.0, 1.0)
        shares[each, out] = 0.0
        at, category = np.nonzero(shares)
        drawn = sample_truncated_gamma(shares[at, category], (rate * least)[at], rng)
        shares[at, category] = np.maximum(drawn / rate[at], least[at])
        left, peak = 1.0 - shares.sum(axis=1), np.maximum(least, power / rate)
        with np.errstate(invalid="ignore", divide="ignore"):
            log_kept = power * np.log(left / peak) - rate * (left - peak)
            kept = (left >= least) & (np.log1p(-rng.random(len(tried))) <= log_kept)
        shares[each, out] = left
        result[tried[kept]] = shares[kept]
        waiting = _rest(waiting, kept)
    return result


def _odds(alpha: FloatArray, low: FloatArray, rates: FloatArray) -> FloatArray:
    """Unnormalised probabilities of each category to be omitted, (rows, K), for alpha of at most one.

    The maximum of x^alpha e^(-rate x) on [low, inf), divided by the mass of x^(alpha - 1) e^(-rate x) there.
    """
    rate, least, shapes = rates[:, None], low[:, None], np.where(alpha > 0.0, alpha, 1.0)
    start, peak = rate * least, np.maximum(least, shapes / rate)
    near, far = np.minimum(start, 20.0), np.maximum(start, 20.0)
    below = near + np.log(special.gammaincc(shapes, near)) + special.gammaln(shapes)
    beyond = np.log((far[..., None] + _LAGUERRE[0]) ** (shapes[..., None] - 1.0) @ _LAGUERRE[1])
    mass = np.where(start < 20.0, below, beyond)
    heights = shapes * np.log(rate * peak) - rate * (peak - least) - mass
    heights = np.where(alpha > 0.0, heights, -np.inf)
    return np.exp(heights - heights.max(axis=1, keepdims=True))


def sample_truncated_gamma(shape: FloatArray, low: FloatArray, rng: np.random.Generator) -> FloatArray:
    """Gamma(shape, 1) variables conditioned to be at least `low` > 0; the two arguments broadcast.

    Below the mean, plain rejection; above, an exponential proposal tangent at its optimal point, low + 1/beta (Dagpunar
    1978; Philippe 1997). For shapes up to 1, a power density below 1 and an exponential density above, with acceptance
    of about a third (Ahrens and Dieter 1974). Returns an array of the common shape.
    """
    full = np.broadcast_shapes(np.shape(shape), np.shape(low))
    shape, low = (part.ravel() for part in np.broadcast_arrays(shape, low))
    result, waiting = np.empty(len(shape)), np.arange(len(shape))
    while waiting.size:
        tried = _tried(waiting)
        a, t = shape[tried], low[tried]
        x, log_kept = np.empty(len(a)), np.empty(len(a))
        for rows, propose in ((a > 1.0, _tangent), (a <= 1.0, _power)):
            if rows.any():
                x[rows], log_kept[rows] = propose(a[rows], t[rows], rng)
        kept = np.log1p(-rng.random(len(a))) <= log_kept
        result[tried[kept]] = x[kept]
        waiting = _rest(waiting, kept)
    return result.reshape(full)


def _tried(waiting: Rows) -> Rows:
    """The waiting rows, repeated to a batch of efficient size; any accepted copy of a row may be used."""
    return np.repeat(waiting, max(1, _BATCH // len(waiting)))


def _rest(waiting: Rows, kept: NDArray[np.bool_]) -> Rows:
    """The rows of which no copy was accepted."""
    return waiting[~kept.reshape(len(waiting), -1).any(axis=1)]


def _tangent(a: FloatArray, t: FloatArray, rng: np.random.Generator) -> tuple[FloatArray, FloatArray]:
    """Proposals for shapes above one, and their log acceptance probabilities."""
    near, gap = t <= a, t - a
    root = np.sqrt(gap * gap + 4.0 * t)
    # Each branch is free of cancellation.
    beta = np.where(gap > 0.0, (gap + root) / (2.0 * t), 2.0 / (root - np.minimum(gap, 0.0)))
    x, best = np.where(near, rng.standard_gamma(a), t + rng.standard_exponential(len(a)) / beta), t + 1.0 / beta
    off = np.where(near, 0.0, (x - best) / best)
    return x, np.where(near & (x < t), -np.inf, (a - 1.0) * (np.log1p(off) - off))


def _power(a: FloatArray, t: FloatArray, rng: np.random.Generator) -> tuple[FloatArray, FloatArray]:
    """Proposals for shapes <= 1, x^(a-1) on [t, 1] and e^-x beyond, and their log acceptance probabilities."""
    start = np.maximum(t, 1.0)
    grown = -np.expm1(a * np.log(np.minimum(t, 1.0)))  # a times the mass of x^(a-1) on [t, 1]
    below = rng.random(len(a)) * (grown / a + np.exp(-1.0)) < grown / a
    x = np.exp(np.log1p(-rng.random(len(a)) * grown) / a)
    x = np.where(below, np.maximum(x, np.minimum(t, 1.0)), start + rng.standard_exponential(len(a)))
    return x, np.where(below, -x, (a - 1.0) * np.log(x / start))


def gamma_rates(alpha: FloatArray, low: FloatArray) -> FloatArray:
    """The rate at which the truncated Gamma means sum to one, by bisection and Newton steps; (rows,)."""
    total, present = alpha.sum(axis=1), alpha > 0.0
    spare = total + 4.0 * (present * (1.0 + np.sqrt(alpha))).sum(axis=1)
    least, most = np.log(total), np.log(spare / (1.0 - present.sum(axis=1) * low))
    shapes = np.where(present, alpha, 1.0)
    roots = np.sqrt(shapes)
    steps = (8.0 * np.sqrt(total + alpha.shape[1]) * (most - least)).max()
    for _ in range(int(np.log2(steps + 1.0)) + 1):  # up to a fraction of the shares' standard deviation
        middle = (least + most) / 2
        rate = np.exp(middle)
        above = (present * _means(shapes, roots, (rate * low)[:, None])).sum(axis=1) > rate
        least, most = np.where(above, middle, least), np.where(above, most, middle)
    rate = np.exp((least + most) / 2)
    for _ in range(_NEWTON):  # with many categories an error of 10 % would reject almost every draw
        start = np.maximum((rate * low)[:, None], _TINY)
        beyond = _beyond(shapes, start)
        excess = (present * (shapes + beyond)).sum(axis=1) - rate
        slope = 1.0 - (present * beyond * (shapes - start + beyond)).sum(axis=1) / rate
        rate = np.clip(rate + excess / np.where(slope > 0.0, slope, 1.0), rate / 2, rate * 2)
    return rate


def _beyond(shape: FloatArray, low: FloatArray) -> FloatArray:
    """Mean of the truncated Gamma variable minus mean of the untruncated one: low^a e^-low / Gamma(a, low).

    For shapes above a million a normal approximation is used, with relative error 1e-3: the logarithms would cancel.
    """
    root, small = np.sqrt(shape), np.minimum(shape, 1e6)
    depth = np.minimum((low - shape) / root, 10.0)
    normal = root * np.exp(-0.5 * depth * depth - special.log_ndtr(-depth)) / np.sqrt(2 * np.pi)
    near = np.minimum(low, small + 10.0 * np.sqrt(small) + 10.0)
    mass = special.gammaln(small) + np.log(special.gammaincc(small, near))
    exact = np.exp(small * np.log(near) - near - mass)
    far = _means(shape, root, low) - shape
    return np.where(shape > 1e6, np.where(depth < 10.0, normal, far), np.where(near < low, far, exact))


def _means(shape: FloatArray, root: FloatArray, low: FloatArray) -> FloatArray:
    """Approximate means of the truncated Gamma variables; `root` holds the square roots of the shapes."""
    gap = low - shape
    depth = np.minimum(gap, 0.0) / root
    near = shape + 0.8 * root / (1.0 + depth * depth) ** 2
    far = low + 2.0 * low / (np.maximum(gap, 0.0) + np.sqrt(gap * gap + 4.0 * low))
    return np.where(gap <= 0.0, near, far)

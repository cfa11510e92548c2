"""Privacy curves of many Beta pairs at many epsilons, from integrals over panels between the thresholds of the loss.

One integral for each epsilon would visit the tail of the density again and again. Here each panel is integrated once,
and the curves are sums of positive terms. Proof: subsampling.md, "Many sizes", step 4.
"""

import numpy as np
from numpy.typing import NDArray

from privsample._checks import FloatArray
from privsample._logspace import log1mexp, log_gamma_growth
from privsample.accounting.curves.quadrature import LogFunctions, Rows, log_integral
from privsample.accounting.posterior.beta import beta_log_delta, log_beta_density
from privsample.accounting.posterior.pairs import add_rounding_error

_FEW = 6  # epsilons from which a sweep costs less than one integral for each
_FINE, _COARSE = np.polynomial.legendre.leggauss(8), np.polynomial.legendre.leggauss(6)
_NODES = np.concatenate([_FINE[0], _COARSE[0]]) / 2 + 0.5
_SPLIT = len(_FINE[0])
_DECREASE, _WIDTH, _MOST_PANELS = 2.0, 0.7, 16  # of one panel: change of the log density, width; parts of a wide panel
_SETTLED, _RELATIVE_ERROR = 1e-9, 1e-10  # agreement of the two rules; rounding error of all sums
_LOWEST = -300.0  # log density below which a bound on the tail is used, which is tight there
_LEAST = -1e300  # smallest logarithm that is reported
_BLOCK = 1 << 21  # density values that are held at once


def beta_curves(a: FloatArray, b: FloatArray, step: float, epsilon: FloatArray) -> FloatArray:
    """Log delta of Beta(a + step, b) against Beta(a, b + step) for each row, rounded up.

    `a` and `b` have shape (rows,); `epsilon` >= 0, shape (rows, points), does not decrease along a row.
    """
    if epsilon.shape[1] < _FEW:
        return beta_log_delta(a[:, None], b[:, None], step, epsilon)
    size = max(_BLOCK // (epsilon.shape[1] * len(_NODES)), 1)
    blocks = [
        _sweep(a[at : at + size, None], b[at : at + size, None], step, epsilon[at : at + size])
        for at in range(0, len(a), size)
    ]
    return np.concatenate([np.empty((0, epsilon.shape[1])), *blocks])


def _sweep(a: FloatArray, b: FloatArray, step: float, epsilon: FloatArray) -> FloatArray:
    """`beta_curves` for one block; `a` and `b` are columns."""
    with np.errstate(over="ignore", invalid="ignore"):
        growth = log_gamma_growth(a, step) - log_gamma_growth(b, step)
        z = (epsilon + growth) / step - np.log1p(step / a)
        height = log_beta_density(a + step, b, z)
    near = np.isfinite(z) & (height > _LOWEST)
    last = np.where(near.any(axis=1), z.shape[1] - 1 - near[:, ::-1].argmax(axis=1), 0)
    inside = near & (near.sum(axis=1) >= _FEW)[:, None]
    swept = np.full(z.shape, np.inf)
    if inside.any():
        rows = inside.any(axis=1)
        swept[rows] = _swept_rows(a[rows], b[rows], step, z[rows], inside[rows], last[rows])
    settled = inside & (swept < np.inf)
    size = np.repeat((a + step) * (b / (a + b + step)), z.shape[1], axis=1)
    result = add_rounding_error(swept.ravel(), np.where(settled, z, 0.0).reshape(-1, 1), size.reshape(-1, 1))
    result = result.reshape(z.shape)
    deep, bound = _tail_bound(a, b, step, z, height)
    result[~settled] = bound[~settled]
    at, point = np.nonzero(~settled & ~deep)
    result[at, point] = beta_log_delta(a[at, 0], b[at, 0], step, epsilon[at, point])
    return result


def _tail_bound(
    a: FloatArray, b: FloatArray, step: float, z: FloatArray, height: FloatArray
) -> tuple[NDArray[np.bool_], FloatArray]:
    """Where thresholds lie deep in P's tail, and there log(p step / (slope (slope + step))), rounded up.

    The density beyond z is at most p e^(-slope (y - z)), because it is log-concave, and the loss exceeds epsilon by
    step (y - z). `height` is the log density at z and slope minus its derivative.
    """
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        p, q = (a + step) / (a + b + step), b / (a + b + step)
        slope = (a + step) * q * -np.expm1(-z) / (q * np.exp(-z) + p)
        bound = height * (1 - 1e-13) + np.log(step) - np.log(slope) - np.log(slope + step) + 1e-13
    deep = ~(height > _LOWEST) & ~(slope <= 0)
    return deep, np.where(np.isnan(bound), 0.0, np.clip(bound, _LEAST, 0.0))


def _swept_rows(
    a: FloatArray, b: FloatArray, step: float, z: FloatArray, inside: NDArray[np.bool_], last: NDArray[np.intp]
) -> FloatArray:
    """Log of the integrals of each row at its thresholds `inside`, +inf where a panel is not settled.

    Thresholds that are not inside are moved to the nearest one that is, so that their panels are empty.
    """
    every = np.arange(len(z))
    first = inside.argmax(axis=1)
    z = np.clip(z, z[every, first][:, None], z[every, last][:, None])

    def density(at: Rows, points: FloatArray) -> FloatArray:
        return log_beta_density((a + step)[at], b[at], points)

    def beyond(at: Rows, u: FloatArray) -> FloatArray:
        return density(at, z[at, last[at], None] + u)

    excess = log_integral(lambda at, u: beyond(at, u) + log1mexp(-step * u), len(z), noise=_SETTLED)
    kept = log_integral(lambda at, u: beyond(at, u) - step * u, len(z), noise=_SETTLED)
    total, _ = sums_of_panels(density, step, z, excess, kept)
    return np.where(inside, total, np.inf)


def sums_of_panels(
    log_density: LogFunctions, step: float, z: FloatArray, last_excess: FloatArray, last_kept: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Log of the integrals beyond each threshold of p (1 - e^(-step (y - z))) and of p e^(-step (y - z)), rounded up.

    `z`, shape (rows, points), does not decrease along a row. `last_excess` and `last_kept`, shape (rows,), are the two
    integrals at the last thresholds. +inf where two rules do not agree. Step 4 of the note.
    """
    left, right = z[:, :-1], z[:, 1:]
    plain, excess, settled = _panels(log_density, step, left, right)
    # in the form of integrals of p e^(-step y) the panels add up
    start = -step * z
    masses = np.concatenate([plain + start[:, :-1], (last_kept + start[:, -1])[:, None]], axis=1)
    above = np.logaddexp.accumulate(masses[:, ::-1], axis=1)[:, ::-1] - start + _RELATIVE_ERROR
    with np.errstate(divide="ignore"):
        carried = log1mexp(-step * (right - left)) + above[:, 1:]
    terms = np.concatenate([np.logaddexp(excess, carried), last_excess[:, None]], axis=1)
    total = np.logaddexp.accumulate(terms[:, ::-1], axis=1)[:, ::-1] + _RELATIVE_ERROR
    open_ = np.append(~settled, np.zeros((len(z), 1), dtype=bool), axis=1)
    tainted = np.logical_or.accumulate(open_[:, ::-1], axis=1)[:, ::-1]
    return np.where(tainted, np.inf, total), np.where(tainted, np.inf, above)


def _panels(
    log_density: LogFunctions, step: float, left: FloatArray, right: FloatArray
) -> tuple[FloatArray, FloatArray, NDArray[np.bool_]]:
    """Log of the integrals over [left, right] of p e^(-step (z - left)) and p (1 - e^(-step (z - left))), rounded up.

    The third array tells whether two rules agree. Panels are divided where the density changes much.
    """
    shape, width, every = left.shape, right - left, np.arange(len(left))
    ends = [log_density(every, edge) for edge in (left, right)]
    parts = np.ceil(np.maximum(np.abs(ends[1] - ends[0]) / _DECREASE, width / _WIDTH))
    parts = np.clip(parts, 1, _MOST_PANELS).astype(int)
    plain, excess, settled = np.full(shape, -np.inf), np.full(shape, -np.inf), np.ones(shape, dtype=bool)
    for count in np.unique(parts):
        at, point = np.nonzero((parts == count) & (width > 0.0))
        if not at.size:
            continue
        share = ((np.arange(count)[:, None] + _NODES) / count).ravel()
        u = width[at, point, None] * share
        log_p = log_density(at, left[at, point, None] + u)
        top = log_p.max(axis=1)
        p = np.exp(log_p - top[:, None])
        scale = np.log(width[at, point] / count / 2) + top
        for values, found in ((p * np.exp(-step * u), plain), (p * -np.expm1(-step * u), excess)):
            by_part = values.reshape(len(at), count, len(_NODES))
            fine, coarse = by_part[..., :_SPLIT] @ _FINE[1], by_part[..., _SPLIT:] @ _COARSE[1]
            total, gap = fine.sum(axis=1), np.abs(fine - coarse).sum(axis=1)
            found[at, point] = scale + np.log(total + gap)
            settled[at, point] &= gap <= _SETTLED * total
    return plain, excess, settled

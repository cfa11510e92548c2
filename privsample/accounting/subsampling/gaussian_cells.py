"""The loss of a Gaussian mechanism on a Poisson sample, discretized from the masses of cells (grid.md, section 10).

Second differences of the privacy curve lose the digits of small masses, and a small sampling rate makes all masses
small. Here the share of each node is an integral of positive terms, whose relative error is a few ulp at every rate.
"""

import numpy as np
from scipy import special

from privsample._checks import FloatArray

_POINTS, _WEIGHTS = np.polynomial.legendre.leggauss(6)
_LARGEST_PIECE = 0.1  # width of a piece times (|z| + mu + 1); its quadrature has a relative error below 1e-15
_END = 38.0  # below minus this value, masses are bounded and not integrated
_CHUNK = 1 << 16  # pieces that are integrated at once
_ULP = float(np.finfo(np.float64).eps)
_LOG_SQRT_2PI = 0.5 * float(np.log(2 * np.pi))


def discretize_sampled_gaussian(nodes: FloatArray, mu: float, rate: float, *, removed: bool) -> FloatArray:
    """Log P masses at increasing losses (nats), rounded up, shape of `nodes`.

    A cell between two nodes keeps its P mass and its Q mass. The P mass below the first node moves to it; of the P mass
    above the last node, e^loss times the Q mass is at the last node, and the caller counts the rest as infinite.
    """
    order, sign = (slice(None), 1.0) if removed else (slice(None, None, -1), -1.0)  # z rises or falls with the loss
    ordered = nodes[order]
    z, x = _edges(sign * ordered, mu, rate, upward=not removed)
    to_left, to_right = _shares(z, x, mu)
    masses = np.concatenate([to_left[:1], np.logaddexp(to_right[:-1], to_left[1:]), to_right[-1:]])
    # Beyond the ends, the standard normal mass and that of (1 - q) N(0, 1) + q N(mu, 1).
    above = _log_normal(-z[-1])
    below = np.logaddexp(np.log1p(-rate) + _log_normal(z[0]), np.log(rate) + _log_normal(z[0] - mu))
    if removed:  # the shares are Q masses
        masses = masses + ordered
        masses[-1] = np.logaddexp(masses[-1], ordered[-1] + above)
        masses[0] = np.logaddexp(masses[0], below)
    else:  # the shares are P masses
        masses[-1] = np.logaddexp(masses[-1], above)
        masses[0] = np.logaddexp(masses[0], ordered[0] + below)
    found: FloatArray = masses[order] + 4 * _ULP * (1.0 + np.abs(nodes))
    return found


def _log_normal(z: float) -> float:
    """Logarithm of the standard normal mass below z, rounded up."""
    log = float(special.log_ndtr(z))
    return log + 16 * _ULP * (1.0 + abs(log)) if np.isfinite(log) else -np.inf


def _edges(signed: FloatArray, mu: float, rate: float, *, upward: bool) -> tuple[FloatArray, FloatArray]:
    """The z with log w = `signed` at increasing values, rounded, and x = e^{mu z - mu^2/2} = 1 + (w - 1)/rate there.

    Where z is below -38 or does not exist, z is -38 and x is a lower bound.
    """
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        growth = np.expm1(signed) / rate
        x = 1.0 + growth - 4 * _ULP * (1.0 + np.abs(growth))
        log_x = np.where(signed < 600.0, np.log1p(growth), signed - np.log(rate))
        error = 8 * _ULP * (1.0 + np.abs(log_x) + 1.0 / np.maximum(x, 1e-300) + mu * mu)
        z = (log_x + mu * mu / 2 + (error if upward else -error)) / mu
    z = np.where((x > 0.0) & (z > -_END), z, -_END)
    return np.maximum.accumulate(z) if upward else np.minimum.accumulate(z[::-1])[::-1], x


def _shares(z: FloatArray, x: FloatArray, mu: float) -> tuple[FloatArray, FloatArray]:
    """Log shares of the standard normal mass of each cell at its left and right ends, so that the mean of x is kept."""
    width = np.diff(z)
    size = width * (np.maximum(np.abs(z[:-1]), np.abs(z[1:])) + mu + 1.0)
    to_left, to_right = np.full(len(width), -np.inf), np.full(len(width), -np.inf)
    single = np.flatnonzero((width > 0.0) & (size <= _LARGEST_PIECE))
    for some in np.array_split(single, 1 + len(single) // _CHUNK):
        to_left[some], to_right[some] = _integrals(z[some], width[some], np.zeros(len(some)), width[some], mu)
    for cell in np.flatnonzero(size > _LARGEST_PIECE):
        count = int(size[cell] / _LARGEST_PIECE) + 1
        start = width[cell] / count * np.arange(count)
        whole = np.full(count, width[cell])
        left, right = _integrals(np.full(count, z[cell]), whole, start, whole / count, mu)
        to_left[cell], to_right[cell] = np.logaddexp.reduce(left), np.logaddexp.reduce(right)
    first = int(np.argmax(width > 0.0))
    if z[first] == -_END and width[first] > 0.0:  # its left end has the smaller x of its node
        least, right_x = np.exp(-_END * mu - mu * mu / 2), np.exp(mu * z[first + 1] - mu * mu / 2)
        share = min((right_x - least) / (right_x - x[first]), 1.0)
        with np.errstate(divide="ignore"):
            moved = np.log1p(-share * (1 - 8 * _ULP)) + to_left[first]
            to_left[first] += np.log(share) + 8 * _ULP
        to_right[first] = np.logaddexp(np.logaddexp(to_right[first], moved), _log_normal(-_END))
    return to_left, to_right


def _integrals(
    z: FloatArray, width: FloatArray, start: FloatArray, piece: FloatArray, mu: float
) -> tuple[FloatArray, FloatArray]:
    """Logs of the integrals of phi times the weight of the left and of the right end over pieces of cells, (k,) each.

    At a distance u from the left end of its cell, the right end has the weight (e^{mu u} - 1)/(e^{mu width} - 1).
    """
    u = start[:, None] + piece[:, None] * (1.0 + _POINTS) / 2
    at = z[:, None] + u
    exponent = -0.5 * at * at
    top = exponent.max(axis=1)
    density = np.exp(exponent - top[:, None]) * _WEIGHTS
    rest, whole = width[:, None] - u, -np.expm1(-mu * width)
    scale = top + np.log(piece / 2) - _LOG_SQRT_2PI - np.log(whole) + 4 * _ULP * (8.0 - 2 * top)
    with np.errstate(divide="ignore"):
        left = np.log((density * -np.expm1(-mu * rest)).sum(axis=1))
        right = np.log((density * np.exp(-mu * rest) * -np.expm1(-mu * u)).sum(axis=1))
    return scale + left, scale + right

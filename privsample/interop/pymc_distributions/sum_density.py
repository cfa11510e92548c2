"""The density of a sum of clipped records plus noise, by Fourier inversion, in PyTensor.

docs/notes/clipping.md, step 7.
"""

from typing import Any

import numpy as np
import pytensor.tensor as pt
from pytensor.gradient import disconnected_grad

from privsample.interop.pymc_distributions.clipped_records import ClippedRecordTensor, batch_shape

DEPTH = 32.0  # what is omitted is below e^-32 of the peak
CUT = 8.5  # normal noise ends the integral at this many reciprocal standard deviations: e^-36
_GEOMETRIC = np.concatenate([-(2.0 ** np.arange(20, -3, -1)), [0.0], 2.0 ** np.arange(-2, 21)])
_LINEAR = np.arange(33) / 32
_SMALL = 1e-30  # squared modulus of a characteristic function that counts as 0
FLOOR = 1e-15  # relative to the integral of the modulus: rounding


def normal_frequencies(n: Any, span: Any, deviation: Any) -> Any:
    """Return the number of frequencies that suffice under normal noise, whatever the records (step 7b)."""
    reach = DEPTH / 3 * span + ((DEPTH / 3 * span) ** 2 + DEPTH / 2 * n * span**2) ** 0.5
    least = (n * span + reach - abs(n * span - reach)) / 2  # the minimum, for numbers and for tensors
    return CUT / (2 * np.pi) * (least / deviation + 2 * CUT) + 2


def normal_sum(y: Any, n: Any, record: ClippedRecordTensor, span: Any, deviation: Any, frequencies: Any) -> Any:
    """Return the log density at y of the sum of n records plus N(0, deviation^2)."""
    points = record.points
    low, high = n * points[..., 0], n * points[..., 1]
    fixed = disconnected_grad(record.weights)
    square = disconnected_grad(deviation**2)
    at = disconnected_grad(y)
    least, most = (at - high) / square, (at - low) / square  # y - square * tilt is a possible sum
    tilt = tilt_between(at, disconnected_grad(n), points, fixed, least, most, lambda t, to: square[to] * t)
    log_mgf, mean, variance = tilted(points, fixed, tilt)
    del log_mgf
    reach = DEPTH / 3 * span + pt.sqrt((DEPTH / 3 * span) ** 2 + 2 * DEPTH * n * variance)
    period = disconnected_grad(pt.minimum(n * span, reach) + 2 * CUT * deviation)
    log_mgf, (real, imaginary), t = characteristic(record, tilt, mean, period, frequencies)
    real, imaginary = power(real, imaginary, n[..., None])
    phase = t * (n * mean - y + deviation**2 * tilt)[..., None]
    values = (real * pt.cos(phase) - imaginary * pt.sin(phase)) * pt.exp(-0.5 * (deviation[..., None] * t) ** 2)
    total = rule(values) / period
    largest = disconnected_grad(rule(pt.exp(-0.5 * (deviation[..., None] * t) ** 2)) / period)
    exponent = n * log_mgf - tilt * y + 0.5 * (deviation * tilt) ** 2
    return exponent + pt.log(pt.maximum(total, FLOOR * largest))


def tilt_between(y: Any, n: Any, points: Any, weights: Any, least: Any, most: Any, noise: Any) -> Any:
    """Return a tilt near the saddle point, between `least` and `most`; `noise` gives the slope of its log transform.

    The slope of the exponent increases with the tilt: its sign is found on a geometric grid, then on a linear one.
    """
    zero = pt.zeros_like(least)
    _, _, variance = tilted(points, weights, zero)
    unit = 1 / pt.sqrt(n * variance + 1e-12 * (n * (points[..., 1] - points[..., 0])) ** 2)
    grid = pt.clip(unit[..., None] * _GEOMETRIC, least[..., None], most[..., None])
    for _ in range(2):
        _, mean, _ = tilted(points[..., None, :], weights[..., None, :], grid)
        slope = n[..., None] * mean + noise(grid, (..., None)) - y[..., None]
        negative = pt.lt(slope, 0.0)
        low = pt.maximum(pt.switch(negative, grid, -np.inf).max(-1), least)
        high = pt.minimum(pt.switch(negative, np.inf, grid).min(-1), most)
        grid = low[..., None] + (high - low)[..., None] * _LINEAR
    return disconnected_grad((low + high) / 2)


def tilted(points: Any, weights: Any, tilt: Any) -> tuple[Any, Any, Any]:
    """Return log moment generating function, mean and variance under the tilt."""
    exponent = tilt[..., None] * points
    largest = disconnected_grad(pt.switch(weights > 0, exponent, -np.inf).max(-1, keepdims=True))
    raised = weights * pt.exp(pt.minimum(exponent - largest, 0.0))
    total = raised.sum(-1)
    mean = (raised * points).sum(-1) / total
    variance = (raised * (points - mean[..., None]) ** 2).sum(-1) / total
    return pt.log(total) + largest[..., 0], mean, variance


def characteristic(record: Any, tilt: Any, mean: Any, period: Any, frequencies: Any) -> tuple[Any, Any, Any]:
    """Return the log moment generating function at the tilt, and the centred characteristic function at 2 pi m / period.

    Each of the frequencies m = a + width * b is a product of two rotations, so that few sines are needed.
    """
    log_mgf, _, _ = tilted(record.points, record.weights, tilt)
    weights = record.weights * pt.exp(pt.minimum(tilt[..., None] * record.points - log_mgf[..., None], 700.0))
    off = record.points - mean[..., None]
    real, imaginary, t = rotations(weights, off, period, frequencies)
    return log_mgf, (real, imaginary), t


def rotations(weights: Any, off: Any, period: Any, frequencies: Any) -> tuple[Any, Any, Any]:
    """Return the sums of weights * cos(t off) and weights * sin(t off), and t = 2 pi m / period, shape (..., m)."""
    width = pt.ceil(pt.sqrt(frequencies)).astype("int64")
    step = disconnected_grad(2 * np.pi / period)[..., None, None]
    angles = step * pt.arange(width)[:, None] * off[..., None, :]
    c, s = pt.cos(angles), pt.sin(angles)
    angles = angles * width
    left = pt.concatenate([pt.cos(angles), pt.sin(angles)], axis=-2) * weights[..., None, :]
    product = pt.matmul(left, pt.concatenate([c, s], axis=-2).swapaxes(-1, -2))
    cc, cs = product[..., :width, :width], product[..., :width, width:]
    sc, ss = product[..., width:, :width], product[..., width:, width:]
    m = pt.arange(width * width)
    t = step[..., 0] * m
    shape = (*batch_shape(product, 2), width * width)
    return (cc - ss).reshape(shape), (sc + cs).reshape(shape), t


def power(real: Any, imaginary: Any, n: Any) -> tuple[Any, Any]:
    """Return the n-th power of a complex number, 0 for a modulus below 1e-15."""
    square = real**2 + imaginary**2
    zero = square < _SMALL
    real, imaginary = pt.switch(zero, 1.0, real), pt.switch(zero, 0.0, imaginary)
    modulus = pt.exp(0.5 * n * pt.log(real**2 + imaginary**2))
    modulus = pt.switch(zero, pt.switch(n > 0, 0.0, 1.0), modulus)
    angle = n * pt.arctan2(imaginary, real)
    return modulus * pt.cos(angle), modulus * pt.sin(angle)


def rule(values: Any) -> Any:
    """The trapezoidal rule over both signs of the frequency: the value at 0, and twice all others."""
    return 2 * values.sum(-1) - values[..., 0]

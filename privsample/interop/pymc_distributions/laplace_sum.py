"""The density of a sum of clipped records plus Laplace noise, by Fourier inversion, in PyTensor.

docs/notes/clipping.md, step 7.
"""

from typing import Any

import numpy as np
import pytensor.tensor as pt
from pytensor.gradient import disconnected_grad

from privsample.interop.pymc_distributions.clipped_records import ClippedRecordTensor
from privsample.interop.pymc_distributions.sum_density import (
    FLOOR,
    characteristic,
    power,
    rotations,
    rule,
    tilt_between,
    tilted,
)

_WIDE = 100.0  # scale of the noise, in ranges of a record, from which jumps of the density need no separate term
_FREQUENCIES, _FEW = 1024, 26  # at most; for each record
RADIANS = 160.0  # largest phase of one record for few records


def laplace_frequencies(n: Any) -> Any:
    """Return the number of frequencies for n real records, of numbers or of a tensor (step 7c)."""
    ops = pt if hasattr(n, "type") else np
    return ops.clip(_FEW * n, 2 * _FEW, _FREQUENCIES)


def laplace_sum(y: Any, n: Any, record: ClippedRecordTensor, scale: Any, frequencies: Any) -> Any:
    """Return the log density at y of the sum of n records plus Laplace noise of this scale.

    For records of whole numbers, `frequencies` must be at least (n span + 3) / 2.
    """
    whole = record.rule is None
    points, fixed = record.points, disconnected_grad(record.weights)
    ends = points[..., 0], points[..., 1]
    low, high = n * ends[0], n * ends[1]
    inside = pt.clip(y, low, high)
    outside = abs(y - inside)  # beyond all sums the density is an exponential
    period = 2 * pt.ceil((high - low) / 2) + 1 if whole else pt.maximum(high - low, 1e-6 * scale)
    period = disconnected_grad(period)
    rate = 1 / disconnected_grad(scale)
    limit = pt.maximum(rate - 1 / period, 0.0)

    def noise(tilt: Any, to: Any) -> Any:
        return 2 * tilt / pt.maximum(rate[to] ** 2 - tilt**2, 1e-300)

    tilt = tilt_between(disconnected_grad(inside), disconnected_grad(n), points, fixed, -limit, limit, noise)
    mean = tilted(points, fixed, tilt)[1]
    log_mgf, (real, imaginary), t = characteristic(record, tilt, mean, period, frequencies)
    base = n * log_mgf - tilt * inside
    value = power(real, imaginary, n[..., None])
    taken, separate = (_Nothing, 0.0) if whole else _few_inner(inside, n, record, scale, period, frequencies, base)
    if not whole:
        removed = taken.at(tilt, log_mgf, mean, t, frequencies)
        value = value[0] - removed[0], value[1] - removed[1]
    place = pt.floor(inside) if whole else inside
    phase = t * (n * mean - place)[..., None]
    turned = _times(value, (pt.cos(phase), pt.sin(phase)))
    kernel = (_whole_kernel if whole else _kernel)(tilt[..., None], t, scale[..., None], (inside - place)[..., None])
    if whole:
        kept = pt.lt(pt.arange(t.shape[-1]), (period[..., None] + 1) / 2)
        kernel = pt.switch(kept, kernel[0], 0.0), pt.switch(kept, kernel[1], 0.0)
    total = rule(_times(turned, kernel)[0]) / period
    largest = disconnected_grad(rule(pt.sqrt(kernel[0] ** 2 + kernel[1] ** 2)) / period)
    beyond = 0.0
    for side in (1.0, -1.0):  # the copies of y at the distance of one or more periods lie beyond all sums
        at = side / scale
        own = tilted(points, record.weights, at)[0]
        gap = period * (1 / scale - side * tilt)
        share = 1.0 if whole else 1.0 - taken.share(at, own)
        copies = pt.exp(n * own - at * inside - gap - base) / -pt.expm1(-gap)
        total = total - share * copies / (2 * scale)
        beyond = beyond + pt.switch(side * (y - inside) > 0, n * own - at * y - pt.log(2 * scale), 0.0)
    total = base + pt.log(pt.maximum(total + separate, FLOOR * largest))
    return pt.switch(outside > 0, beyond, total)


class _FewInner:
    """The terms of the characteristic function with no record, or one, between the bounds.

    The density of the one record is replaced by a line with the same jumps at the ends, so that what remains falls
    like t^-4 with Laplace noise.
    """

    def __init__(self, n: Any, record: Any, share: Any) -> None:
        self.n, self.record, self.kept = n, record, share
        self.ends, self.values = record.ends, record.density
        self.slope = (self.values[1] - self.values[0]) / pt.maximum(self.ends[1] - self.ends[0], 1e-300)
        x = record.points[..., 2:]
        line = self.values[0][..., None] + self.slope[..., None] * (x - self.ends[0][..., None])
        line = line * record.rule * share[..., None]
        nothing = pt.zeros_like(line[..., 0])[..., None]
        self.line = pt.concatenate([nothing, nothing, line], axis=-1)

    def at(self, tilt: Any, log_mgf: Any, mean: Any, t: Any, frequencies: Any) -> tuple[Any, Any]:
        """Their part of the n-th power of the centred characteristic function."""
        off = self.record.points - mean[..., None]
        factor = pt.exp(pt.minimum(tilt[..., None] * self.record.points - log_mgf[..., None], 700.0))
        step = t[..., 1] - t[..., 0]
        line = rotations(self.line * factor, off, 2 * np.pi / step, frequencies)[:2]
        atoms = (self.record.weights * factor)[..., :2]
        angles = t[..., None, :] * off[..., :2, None]
        atoms = (atoms[..., None] * pt.cos(angles)).sum(-2), (atoms[..., None] * pt.sin(angles)).sum(-2)
        n = self.n[..., None]
        less = power(*atoms, n - 1)
        both = atoms[0] + n * line[0], atoms[1] + n * line[1]
        return _times(less, both)

    def share(self, tilt: Any, log_mgf: Any) -> Any:
        """Their share of the n-th power of the moment generating function at a real tilt."""
        factor = pt.exp(pt.minimum(tilt[..., None] * self.record.points - log_mgf[..., None], 700.0))
        atom, line = (self.record.weights * factor)[..., :2].sum(-1), (self.line * factor).sum(-1)
        return atom ** (self.n - 1) * (atom + self.n * line)


_Nothing: Any = None


def _few_inner(y: Any, n: Any, record: Any, scale: Any, period: Any, frequencies: Any, base: Any) -> tuple[Any, Any]:
    """The terms with at most one inner record, and their density at y, divided by e^base."""
    low, high = record.points[..., 0], record.points[..., 1]
    largest = pt.maximum(*record.density)
    resolved = 2 * np.pi * frequencies / period * pt.maximum(record.weights[..., 2:].sum(-1), 1e-300)
    share = pt.switch(scale > _WIDE * (high - low), 0.0, 1 / (1 + (largest / resolved) ** 2))
    found = _FewInner(n, record, disconnected_grad(share))
    j = pt.arange(n.max() + 1)
    n, y, low, high, base = n[..., None], y[..., None], low[..., None], high[..., None], base[..., None]
    logs = [pt.log(pt.maximum(record.weights[..., i][..., None], 1e-300)) for i in (0, 1)]

    def chances(size: Any) -> Any:
        """Log probability that `size` records are clipped, j of them to the upper bound, divided by e^base."""
        left = pt.maximum(size - j, 0)
        own = pt.gammaln(size + 1) - pt.gammaln(j + 1) - pt.gammaln(left + 1) + left * logs[0] + j * logs[1] - base
        return pt.switch(pt.le(j, size), own, -np.inf)

    scale = scale[..., None]
    gap = abs(y - (n - j) * low - j * high)
    none = pt.exp(chances(n) - gap / scale).sum(-1) / (2 * scale[..., 0])
    scale = pt.minimum(scale, _WIDE * (high - low))
    p, q = (end[..., None] for end in found.ends)
    at_p, at_q = (value[..., None] for value in found.values)
    lean = found.slope[..., None] * scale
    u = y - (n - 1 - j) * low - j * high
    inner, fall = pt.clip(u, p, q), pt.exp(-(q - p) / scale)
    from_p, from_q = pt.exp(-(inner - p) / scale), pt.exp(-(q - inner) / scale)
    middle = at_p + found.slope[..., None] * (inner - p) - from_q * (at_q + lean) / 2 - from_p * (at_p - lean) / 2
    above = pt.exp(-pt.maximum(u - q, 0.0) / scale) * (at_q - lean - fall * (at_p - lean)) / 2
    under = pt.exp(-pt.maximum(p - u, 0.0) / scale) * (at_p + lean - fall * (at_q + lean)) / 2
    heights = pt.switch(u > q, above, pt.switch(u < p, under, middle))
    one = n[..., 0] * found.kept * (pt.exp(chances(n - 1)) * heights).sum(-1)
    return found, none + one


def _kernel(tilt: Any, t: Any, scale: Any, _offset: Any) -> tuple[Any, Any]:
    """1 / (1 - scale^2 z^2) at z = tilt + it."""
    real = 1 - scale**2 * (tilt**2 - t**2)
    imaginary = -2 * scale**2 * tilt * t
    square = real**2 + imaginary**2
    return real / square, -imaginary / square


def _whole_kernel(tilt: Any, t: Any, scale: Any, offset: Any) -> tuple[Any, Any]:
    """The sum of the noise's density at offset + j times e^(z j) over all whole j, z = tilt + it."""
    found = []
    for side, height in ((1.0, pt.exp(-offset / scale)), (-1.0, pt.exp(-(1 - offset) / scale))):
        size = pt.exp(side * tilt - 1 / scale)
        real, imaginary = 1 - size * pt.cos(t), -size * side * pt.sin(t)
        square = real**2 + imaginary**2
        found.append((height * real / (2 * scale * square), -height * imaginary / (2 * scale * square)))
    factor = pt.exp(-tilt)
    second = _times(found[1], (factor * pt.cos(t), -factor * pt.sin(t)))
    return found[0][0] + second[0], found[0][1] + second[1]


def _times(a: tuple[Any, Any], b: tuple[Any, Any]) -> tuple[Any, Any]:
    return a[0] * b[0] - a[1] * b[1], a[0] * b[1] + a[1] * b[0]

"""E G(S) for a sum S of n independent records: Fourier inversion along a contour through the saddle point.

docs/notes/clipping.md, steps 2 to 5. The relative error is about 1e-12 + n 1e-15 at any distance from the mode; where
atoms slow the decay of the transform of Laplace noise, it is 1e-6.
"""

from typing import NamedTuple

import numpy as np
from scipy import special

from privsample._checks import FloatArray
from privsample.distributions.clipping.few_interior import log_share_few_interior
from privsample.distributions.clipping.kernels import NoiseKernel
from privsample.distributions.clipping.records import ClippedRecord, ComplexArray, Tilted

_DEPTH = 42.0  # e^-42 is below rounding
_SHIFTS = (1.5, 4.0, 8.0)  # in standard deviations: where Chernoff's bound of the period is tried
_NEAR = 2.0  # standard deviations between a contour and a pole
_TERMS = 1 << 20
_PLENTY = 300  # number of terms above which the truncation frequency is refined
_BLOCK = 1 << 12
_TOLERANCE = 1e-6  # relative truncation error if terms of at most one inner record are separate
_PROBES = 512
_NEWTON = 60
_ZERO = np.zeros(1)


class Contour(NamedTuple):
    """A line parallel to the imaginary axis, and the parameters of its quadrature.

    `side` is the sign of the pole that the line has passed, or 0. If `split`, the terms in which at most one record
    lies between the bounds are computed separately (step 5).
    """

    tilt: float
    tilted: Tilted
    side: float
    period: float
    terms: int
    split: bool


def saddle_tilt(record: ClippedRecord, n: int, kernel: NoiseKernel) -> tuple[float, Tilted]:
    """A real tilt near the saddle point of E e^(z S) times the kernel's transform, and the tilted record."""
    low, high = record.ends
    least, most = -kernel.strip, kernel.strip
    if np.isinf(kernel.strip):
        variance = kernel.slopes(0.0).second
        least, most = (kernel.centre - n * high) / variance, (kernel.centre - n * low) / variance
    tilt = min(max(0.0, least), most)
    tilted = record.tilted(tilt)
    for _ in range(_NEWTON):
        first, second = kernel.slopes(tilt)
        slope, curvature = n * tilted.mean + first, n * tilted.deviation**2 + second
        if slope * slope <= 1e-4 * curvature:
            break
        least, most = (tilt, most) if slope < 0 else (least, tilt)
        step = tilt - slope / curvature
        step = step if least < step < most else least / 2 + most / 2
        if not least < step < most:  # there is no double between the ends
            break
        tilt, tilted = step, record.tilted(step)
    return tilt, tilted


def saddle_log_likelihood(record: ClippedRecord, n: int, kernel: NoiseKernel) -> float:
    """The saddle-point approximation of log E G(S): fast, and accurate if the sum is approximately normal."""
    kernel, factor, direct = _reachable(record, n, kernel)
    if direct is not None:
        return direct
    tilt, tilted = saddle_tilt(record, n, kernel)
    variance = n * tilted.deviation**2 + kernel.slopes(tilt).second
    return factor + _log_peak(tilted, n, kernel, tilt) - 0.5 * float(np.log(2 * np.pi * variance))


def log_likelihood(record: ClippedRecord, n: int, kernel: NoiseKernel) -> float:
    """log E G(S) for the sum S of n records.

    Raises ValueError if the noise is so small, and so few records lie between the bounds, that the quadrature would
    need too many terms.
    """
    kernel, moved, direct = _reachable(record, n, kernel)
    if direct is not None:
        return direct
    line = _contour(record, n, kernel)
    tilt, tilted = line.tilt, line.tilted
    factor = kernel.transform(tilt, _ZERO)[1]
    total = _summed(line, record, n, kernel) / line.period
    parts = [n * tilted.log_mgf - tilt * kernel.centre + factor + np.log(max(abs(total), 1e-300))]
    signs = [np.sign(total)]
    if line.side:
        at_pole = record.tilted(line.side * kernel.strip)
        residue = kernel.residue(line.side) + n * at_pole.log_mgf
        share = _few_share(at_pole.atom_mass, n) if line.split else 0.0
        parts.append(residue + np.log1p(-min(share, 1 - 1e-16)))
        signs.append(1.0)
    if line.split:
        parts.append(log_share_few_interior(record, tilted, n, kernel))
        signs.append(1.0)
    return moved + float(special.logsumexp(parts, b=signs))


def _reachable(record: ClippedRecord, n: int, kernel: NoiseKernel) -> tuple[NoiseKernel, float, float | None]:
    """The kernel with copies beyond the reach of the sum moved to its end, and the log of a factor (step 3).

    If the sum reaches no copy, G is an exponential, and log E G(S) is the third value.

    G is log-Lipschitz with the slope `strip`, so what S beyond an end adds is, relative to E G(S), at most
    e^(strip deviation) E[e^(3 strip |S - mean|); S beyond it]: Chernoff's bound puts it below e^-42.
    """
    if np.isinf(kernel.strip):
        return kernel, 0.0, None
    free = record.tilted(0.0)
    mean, deviation = n * free.mean, float(np.sqrt(n)) * free.deviation
    ends = []
    for side, last in zip((-1.0, 1.0), record.ends, strict=True):
        far = side * (n * last - mean)
        for shift in _SHIFTS if deviation > 0 else ():
            more = shift / deviation
            tilt = side * (3 * kernel.strip + more)
            rise = n * record.tilted(tilt).log_mgf - tilt * mean
            if np.isfinite(rise):
                far = min(far, (_DEPTH + kernel.strip * deviation + max(rise, 0.0)) / more)
        ends.append(mean + side * max(far, 0.0))
    low, high = (np.floor(ends[0]), np.ceil(ends[1])) if kernel.integer_valued else ends
    found = kernel.exponential(float(low), float(high))
    if found is not None:
        slope, height = found
        return kernel, 0.0, height + n * record.tilted(slope).log_mgf
    return *kernel.within(float(low), float(high)), None


def _contour(record: ClippedRecord, n: int, kernel: NoiseKernel) -> Contour:
    """The contour and its quadrature parameters (docs/notes/clipping.md, steps 2 to 4)."""
    tilt, tilted = saddle_tilt(record, n, kernel)
    side = 0.0
    room = _NEAR / max(np.sqrt(n) * tilted.deviation, tilted.span, 1e-300)
    if kernel.strip - abs(tilt) < room:  # step 3: a pole is too near, so the contour passes it
        side = float(np.sign(tilt)) or 1.0
        beyond = side * (n * tilted.mean - kernel.far_end(side))  # over which the contour's exponential must not grow
        room = min(room, _NEAR / max(beyond, 1e-300))
        tilt = side * (kernel.strip + room)
        tilted = record.tilted(tilt)
    period = _period(record, n, kernel, tilt, tilted)
    plenty = _PLENTY * 2 * np.pi / period
    cut = _cut(record, tilted, n, tilt, np.pi if kernel.integer_valued else kernel.cut, plenty)
    split = False
    if cut > plenty and not kernel.integer_valued and np.isinf(kernel.cut):
        taken_out = _split_cut(tilted, n, kernel, tilt)
        split, cut = taken_out < cut, min(taken_out, cut)
    terms = cut * period / (2 * np.pi)
    if kernel.integer_valued:  # an odd number of points on the circle
        period = 2.0 * int(period / 2) + 1
        terms = min(terms, period // 2)
    if not terms <= _TERMS:
        raise ValueError(
            "the noise is too small relative to the bounds, and too few records lie between them: the quadrature of "
            "the likelihood would need too many terms; use .posterior(), which ignores the noise, or more noise"
        )
    line = Contour(tilt, tilted, side, period, int(terms), split)
    return line._replace(tilted=record.tilted(tilt, cut))


def _summed(line: Contour, record: ClippedRecord, n: int, kernel: NoiseKernel) -> float:
    """The trapezoidal rule: the real part at 0, plus twice the real part at all other points."""
    tilt, tilted, total = line.tilt, line.tilted, 0.0
    for start in range(0, line.terms + 1, _BLOCK):
        steps = np.arange(start, min(start + _BLOCK, line.terms + 1), dtype=np.float64)
        t: FloatArray = np.asarray(2 * np.pi / line.period * steps, dtype=np.float64)
        atoms, density = record.characteristic(tilted, tilt, t)
        powers = _power(atoms + density, n)
        if line.split:
            powers = powers - _power(atoms, n) - n * _power(atoms, n - 1) * density
        turned = np.exp(1j * t * (n * tilted.mean - kernel.centre)) * kernel.transform(tilt, t)[0]
        values = (powers * turned).real
        total += 2 * float(values.sum()) - (float(values[0]) if start == 0 else 0.0)
    return total


def _few_share(atom: float, n: int) -> float:
    """The probability that at most one of n records lies between the bounds."""
    return float(atom**n + n * atom ** (n - 1) * (1 - atom))


def _log_peak(tilted: Tilted, n: int, kernel: NoiseKernel, tilt: float) -> float:
    """log |E e^(tilt S) times the transform| at a real tilt."""
    values, factor = kernel.transform(tilt, _ZERO)
    return n * tilted.log_mgf - tilt * kernel.centre + factor + float(np.log(np.abs(values[0])))


def _period(record: ClippedRecord, n: int, kernel: NoiseKernel, tilt: float, tilted: Tilted) -> float:
    """A period for which the aliasing error is below e^-42 of the peak, by Chernoff bounds on both sides (step 2)."""
    start, strip = _log_peak(tilted, n, kernel, tilt), kernel.strip
    deviation = max(float(np.sqrt(n)) * tilted.deviation, tilted.span / 4, 1e-300)  # few records inside: their span
    if np.isinf(strip):
        deviation = float(np.hypot(deviation, np.sqrt(kernel.slopes(tilt).second)))
    found = []
    for side in (-1.0, 1.0):
        nearest = min((gap for gap in (side * (pole - tilt) for pole in (-strip, strip)) if gap > 0), default=np.inf)
        shifts = {min(k / deviation, 0.75 * nearest) for k in _SHIFTS} | ({0.75 * nearest} - {np.inf})
        rises = {s: _log_peak(record.tilted(tilt + side * s), n, kernel, tilt + side * s) - start for s in shifts}
        found.append(min((rise + _DEPTH) / s for s, rise in rises.items()))
    return max(found)


def _cut(record: ClippedRecord, tilted: Tilted, n: int, tilt: float, limit: float, plenty: float) -> float:
    """A frequency above which the n-th power of the characteristic function is below e^-42, or the limit (step 4).

    A result below `plenty` may be far above the smallest such frequency.
    """
    bound = float(np.exp(-_DEPTH / n))
    if not record.integer_valued and tilted.atom_mass < bound:  # a density with one peak: its part is <= 2 peak / t
        limit = min(limit, 2 * tilted.peak / (bound - tilted.atom_mass))
    if limit <= plenty or not tilted.deviation > 0:
        return limit
    # Up to pi / range, |f(t)|^2 <= 1 - (2 t deviation / pi)^2; beyond, values on a grid and a Lipschitz constant.
    start = np.pi * np.sqrt(_DEPTH / (2 * n)) / tilted.deviation
    first = np.pi / float(np.ptp(tilted.points))
    if start < first < limit < np.inf:
        grid = np.linspace(first, limit, _PROBES)
        moduli = np.abs(np.sum(record.characteristic(tilted, tilt, grid), axis=0))
        if float(moduli.max()) + tilted.deviation * float(grid[1] - grid[0]) / 2 < bound:
            return float(start)
    return limit


def _split_cut(tilted: Tilted, n: int, kernel: NoiseKernel, tilt: float) -> float:
    """The truncation frequency without the terms of at most one inner record; truncation error 1e-6 (step 5)."""
    atom, top = tilted.atom_mass, 2 * tilted.peak
    height = abs(kernel.transform(tilt, _ZERO)[0][0])
    deviation = float(np.sqrt(n)) * tilted.deviation + 1 / kernel.strip
    frequency = max(kernel.strip, 1 / max(tilted.span, 1e-300))
    while True:
        falls = abs(kernel.transform(tilt, np.array([frequency]))[0][0]) * frequency  # 1/t^2, integrated
        ratio = top / frequency
        rest = np.exp(min(max(n - 2, 0) * float(np.log(atom + ratio)), 600.0))
        powers = n * (n - 1) / 2 * ratio**2 * rest  # Taylor's remainder
        if falls * powers <= _TOLERANCE * height / deviation:
            return float(frequency)
        frequency *= 1.3


def _power(values: ComplexArray, n: int) -> ComplexArray:
    with np.errstate(divide="ignore", invalid="ignore"):
        found = np.exp(n * np.log(values))
    return np.where(values == 0, 0.0 if n else 1.0, found)

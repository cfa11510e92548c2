"""The density of a sum of clipped records plus noise, by Fourier inversion, compiled by Numba.

docs/notes/clipping.md, step 7.
"""

import numpy as np

from privsample._checks import FloatArray
from privsample._compiled import compiled

CUT = 8.6  # normal noise ends the integral at this many reciprocal standard deviations: e^-37
FEWEST_CELLS, MOST_CELLS, ALL_CELLS = 48, 256, 2048  # of the lattice, and n times the cells
_ROUNDS = 60  # bisections of the tilt
_PAD = 12.0  # e^-29 of the probability lies further beyond
_WIDEST = 600.0  # largest exponent of one record under a tilt


@compiled
def densities(
    y: FloatArray,
    n: FloatArray,
    points: FloatArray,
    weights: FloatArray,
    scale: FloatArray,
    normal: bool,
    whole: bool,
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return the log densities of groups, and their derivatives by the weights of a record and by the sums."""
    logs, slopes, by_y = np.empty(len(y)), np.empty(weights.shape), np.empty(len(y))
    for i in range(len(y)):
        width = int(points[i, 1] - points[i, 0])
        cells = width if whole else min(max(int(ALL_CELLS / n[i]), FEWEST_CELLS), MOST_CELLS)
        logs[i], by_y[i] = _density(y[i], n[i], points[i], weights[i], scale[i], cells, normal, whole, slopes[i])
    return logs, slopes, by_y


@compiled
def _density(
    y: float,
    n: float,
    points: FloatArray,
    weights: FloatArray,
    scale: float,
    cells: int,
    normal: bool,
    whole: bool,
    slope: FloatArray,
) -> tuple[float, float]:
    """Return the log density at y and its derivative by y; fill `slope` with the derivatives by the weights.

    `points` and `weights` are those of one clipped record; the first two are the lower and the upper bound. For Laplace
    noise on real records the probability between the bounds is moved to a lattice of `cells` cells; for whole records
    `cells` is the range.
    """
    low, width = points[0], (points[1] - points[0]) / cells
    split = not (normal or whole)
    pad = min(n, _PAD) if split else 0.0  # the sharpened record reaches one point beyond each bound
    place, b, last = (y - n * low) / width + pad, scale / width, n * cells + 2 * pad
    nodes, masses = _nodes((points - low) / width, weights, cells, split)
    tilt = _tilt(n, nodes, masses, pad, place, b, last, normal)
    peak = max(tilt * cells, 0.0)
    factors = np.exp(tilt * nodes - peak)
    raised = masses * factors
    total_mass = raised.sum()
    raised /= total_mass
    log_noise = _log_noise(tilt, place, b, last, normal)
    exponent = n * (np.log(total_mass) + peak) + log_noise + tilt * pad

    by_mass = np.zeros(len(nodes))
    total, by_y = _inverted(n, nodes, raised, tilt, log_noise, pad, place, b, last, normal, split, by_mass)
    total = max(total, 1e-300)
    by_mass *= n / total_mass / total * factors
    slope[0], slope[1] = by_mass[0], by_mass[1]
    for k in range(2, len(points)):
        if split:
            at = (points[k] - low) / width
            j = min(max(int(at), 0), cells - 1)
            slope[k] = by_mass[2 + j] * (1 + j - at) + by_mass[3 + j] * (at - j)
        else:
            slope[k] = by_mass[k]
    return exponent + np.log(total) - np.log(width), by_y / total / width


@compiled
def _inverted(
    n: float,
    nodes: FloatArray,
    raised: FloatArray,
    tilt: float,
    log_noise: float,
    pad: float,
    place: float,
    b: float,
    last: float,
    normal: bool,
    split: bool,
    by_mass: FloatArray,
) -> tuple[float, float]:
    """Return the trapezoidal rule, up to the cut or around the circle, and its derivative by the place.

    `by_mass` is filled with derivatives by the masses, without their factors.
    """
    if normal:
        size = last + 2 * CUT * b
        terms = int(size * CUT / (2 * np.pi * b)) + 2
    else:
        size = last + 1 + last % 2  # odd, so that no frequency is its own negative
        terms = int(size - 1) // 2 + 1
    total, by_y = 0.0, 0.0
    turns = np.ones(len(nodes), dtype=np.complex128)
    steps = np.exp(2j * np.pi / size * nodes)
    for m in range(terms):
        z = complex(tilt, 2 * np.pi * m / size)
        sharpened = (7.0 - np.cosh(z)) / 6.0 if split else 1.0 + 0.0j  # undoes the split between neighbours
        phi = raised[0] * turns[0] + raised[1] * turns[1]
        part = 0.0j
        for k in range(2, len(nodes)):
            part += raised[k] * turns[k]
        phi += part * sharpened
        noise, moved = _noise(z, place, b, last, normal, log_noise)
        shift = (1.0 if m == 0 else 2.0) * np.exp(1j * z.imag * pad)
        power = 1.0 + 0.0j
        if n > 1:
            power = np.exp((n - 1) * np.log(phi)) if abs(phi) > 1e-280 else 0.0j
        value = shift * power * noise
        total += (value * phi).real
        by_y += (shift * power * phi * moved).real
        by_mass[0] += (value * turns[0]).real
        by_mass[1] += (value * turns[1]).real
        value = value * sharpened
        for k in range(2, len(nodes)):
            by_mass[k] += (value * turns[k]).real
            turns[k] *= steps[k]
        turns[0] *= steps[0]
        turns[1] *= steps[1]
    by_mass /= size
    return total / size, by_y / size


@compiled
def _nodes(points: FloatArray, weights: FloatArray, cells: int, split: bool) -> tuple[FloatArray, FloatArray]:
    """Return places and masses of a record in units of a cell; with `split`, on the lattice between the bounds."""
    if not split:
        return points, weights
    nodes, masses = np.empty(cells + 3), np.zeros(cells + 3)
    nodes[0], nodes[1], masses[0], masses[1] = 0.0, cells, weights[0], weights[1]
    nodes[2:] = np.arange(cells + 1)
    for k in range(2, len(points)):
        j = min(max(int(points[k]), 0), cells - 1)
        masses[2 + j] += weights[k] * (1 + j - points[k])
        masses[3 + j] += weights[k] * (points[k] - j)
    return nodes, masses


@compiled
def _tilt(
    n: float, nodes: FloatArray, masses: FloatArray, pad: float, place: float, b: float, last: float, normal: bool
) -> float:
    """Return the tilt at which the exponent is least, by bisection: its derivative increases."""
    least, most = -_WIDEST / nodes[1], _WIDEST / nodes[1]
    for _ in range(_ROUNDS):
        tilt = (least + most) / 2
        largest = max(tilt * nodes[1], 0.0)
        total, mean = 1e-300, 0.0
        for k in range(len(nodes)):
            value = masses[k] * np.exp(tilt * nodes[k] - largest)
            total += value
            mean += value * nodes[k]
        if n * mean / total + pad + _noise_slope(tilt, place, b, last, normal) < 0:
            least = tilt
        else:
            most = tilt
    return (least + most) / 2


@compiled
def _sides(place: float, last: float) -> tuple[float, float]:
    """Return how many of the sums 0, ..., last lie at or below the place, and above it."""
    below = min(max(np.floor(place) + 1.0, 0.0), last + 1.0)
    return below, last + 1.0 - below


@compiled
def _log_geometric(rate: float, count: float) -> float:
    """Return log of the sum of e^(rate k) over k = 0, ..., count - 1."""
    if count <= 0:
        return -np.inf
    if abs(rate) * count < 1e-8:
        return np.log(count)
    if rate > 0:  # from the largest term
        return rate * (count - 1) + np.log(-np.expm1(-rate * count)) - np.log(-np.expm1(-rate))
    return np.log(-np.expm1(rate * count)) - np.log(-np.expm1(rate))


@compiled
def _log_parts(tilt: float, place: float, b: float, last: float) -> tuple[float, float]:
    """Return the logs of the two sides of the transform of Laplace noise on the sums 0, ..., last."""
    below, above = _sides(place, last)
    first = -np.inf if below <= 0 else -place / b + _log_geometric(1 / b - tilt, below)
    if above <= 0:
        return first, -np.inf
    return first, (place - below) / b - tilt * below + _log_geometric(-1 / b - tilt, above)


@compiled
def _log_noise(tilt: float, place: float, b: float, last: float, normal: bool) -> float:
    """Return the log transform of the noise at a real tilt."""
    if normal:
        return -tilt * place + 0.5 * (b * tilt) ** 2
    first, second = _log_parts(tilt, place, b, last)
    return np.logaddexp(first, second) - np.log(2 * b)


@compiled
def _noise_slope(tilt: float, place: float, b: float, last: float, normal: bool) -> float:
    """Return the derivative of the log transform of the noise, by a central difference for Laplace noise."""
    if normal:
        return b * b * tilt - place
    step = 1e-3 / (last + 1)
    more = _log_noise(tilt + step, place, b, last, normal)
    return (more - _log_noise(tilt - step, place, b, last, normal)) / (2 * step)


@compiled
def _geometric(rate: complex, count: float) -> complex:
    """Return the sum of e^(rate k) over k = 0, ..., count - 1; the real part of the rate is at most 0."""
    if count <= 0:
        return 0.0j
    if abs(rate) * count < 1e-8:
        return complex(count, 0.0)
    return (1 - np.exp(rate * count)) / (1 - np.exp(rate))


@compiled
def _noise(z: complex, place: float, b: float, last: float, normal: bool, log_scale: float) -> tuple[complex, complex]:
    """Return the transform of the noise, divided by e^log_scale, and its derivative by the place."""
    if normal:
        found = np.exp(-z * place + 0.5 * b * b * z * z - log_scale)
        return found, -z * found
    below, above = _sides(place, last)
    first = second = 0.0j
    constant = -np.log(2 * b) - log_scale
    if below > 0:
        rate = 1 / b - z
        if rate.real > 0:  # summed from the largest term
            start = constant - place / b + rate * (below - 1)
            first = np.exp(start) * _geometric(-rate, below)
        else:
            first = np.exp(constant - place / b + 0j) * _geometric(rate, below)
    if above > 0:
        rate = -1 / b - z
        start = constant + (place - below) / b - z * below
        if rate.real > 0:
            second = np.exp(start + rate * (above - 1)) * _geometric(-rate, above)
        else:
            second = np.exp(start) * _geometric(rate, above)
    return first + second, (second - first) / b

"""The mean of the positive part of a sum of many independent copies of a finite random variable, rounded up.

The values are split between the points of a lattice such that their means are preserved. That is a mean-preserving
spread, which raises the mean of every convex function of the sum (docs/notes/shuffling.md, step 4).
"""

from dataclasses import dataclass

import numpy as np

from privsample._checks import FloatArray

_ULP = float(np.finfo(np.float64).eps)
_FEWEST = 1 << 11  # smallest size of a lattice
_CANDIDATES, _STRETCH = 2048, 1.5  # pitches that are tried, and their largest ratio to the smallest one
_BISECTIONS, _WIDENINGS = 40, 60
_TINY = -2000.0  # exponent of a Chernoff bound that is not improved
_LOWEST = -1e15  # lower values, in units of the pitch, are raised to it
_NEGLIGIBLE = -45.0  # log of powers of the transform that are replaced by zero; their sum is added
_FAR = 34.0  # log of the factor by which folded mass and the tail are below the result
_SHIFTS = np.geomspace(0.05, 30.0, 24)  # arguments of Chernoff bounds, relative to 1/standard deviation


@dataclass(frozen=True, slots=True, eq=False)
class Jumps:
    """A random variable with finitely many values: `values` with probabilities `masses`, and 0 with the rest."""

    values: FloatArray
    masses: FloatArray

    def log_mgf(self, t: FloatArray) -> FloatArray:
        """log E e^(tX), shape of t; log1p of small terms, so that many copies keep their precision."""
        exponents = np.multiply.outer(t, self.values)
        with np.errstate(over="ignore"):
            small = (self.masses * np.expm1(np.minimum(exponents, 1.0))).sum(axis=-1)
        logs = np.log(np.maximum(np.append(self.masses, 1.0 - float(self.masses.sum())), 1e-300))
        padded = np.concatenate([exponents, np.zeros((*exponents.shape[:-1], 1))], axis=-1)
        large = np.logaddexp.reduce(logs + padded, axis=-1)
        return np.where(exponents.max(axis=-1) < 1.0, np.log1p(np.maximum(small, -0.75)), large)

    def tilted(self, t: float) -> FloatArray:
        """The probabilities of `values` under the distribution with density e^(tX) / E e^(tX)."""
        return np.asarray(self.masses * np.exp(t * self.values - float(self.log_mgf(np.array(t)))))

    def tail(self, copies: int, t: float, bounds: FloatArray, spread: float) -> FloatArray:
        """log of Chernoff's bound on the tilted probability that the sum is beyond each of `bounds`, shape (k,).

        The bound holds for sums above a positive and below a negative number.
        """
        steps = np.sign(bounds)[:, None] * _SHIFTS / spread
        grown = copies * (self.log_mgf(t + steps) - self.log_mgf(np.array(t)))
        return np.minimum((grown - steps * bounds[:, None]).min(axis=1), 0.0)


def log_mean_positive_part(jumps: Jumps, copies: int, tolerance: float, most: int) -> float:
    """log E[(X_1 + ... + X_n)_+] for n independent copies, rounded up; -inf if no value is positive.

    The pitch of the lattice is chosen such that it raises the logarithm by a relative `tolerance` at most, if a lattice
    of `most` cells has such a pitch. Every pitch gives an upper bound.
    """
    if not jumps.values.max() > 0.0:
        return -np.inf
    t = _tilt(jumps, copies)
    exponent = copies * float(jumps.log_mgf(np.array(t)))
    if exponent < _TINY:  # Chernoff's bound: x_+ <= e^(tx) / (e t)
        return exponent - np.log(t) - 1.0 + 32 * _ULP * (copies + 64.0 + abs(exponent))
    own = jumps.tilted(t)
    spread = float(np.sqrt(copies * max((own * jumps.values**2).sum() - (own * jumps.values).sum() ** 2, 0.0)))
    spread = max(spread, 1e-3 * float(jumps.values.max()))
    below, above = _window(jumps, copies, t, spread)
    pitch, cells = _grid(jumps.values, own, below + above, tolerance * (1.0 - exponent) / (0.5 * t**2 * copies), most)
    return _on_lattice(_split(jumps, pitch), copies, t, (pitch, cells, above, spread))


def _grid(values: FloatArray, weights: FloatArray, width: float, accepted: float, most: int) -> tuple[float, int]:
    """The pitch and the size of the smallest lattice of this width that adds at most an accepted variance."""
    cells = _FEWEST
    while True:
        pitch, added = _pitch(values, weights, width / (cells - 8))
        if added <= accepted or cells >= most:
            return pitch, cells
        cells *= 2


def _tilt(jumps: Jumps, copies: int) -> float:
    """The minimum t > 0 of n log E e^(tX) - log t, the exponent of a Chernoff bound; every t > 0 gives a bound."""
    low = high = 1.0 / (copies * float(jumps.values.max()))

    def rises(t: float) -> bool:
        return bool(copies * (jumps.tilted(t) * jumps.values).sum() * t > 1.0)

    while not rises(high) and high < 1e300:
        low, high = high, 4.0 * high
    for _ in range(_BISECTIONS):
        middle = float(np.sqrt(low * high))
        low, high = (low, middle) if rises(middle) else (middle, high)
    return high


def _window(jumps: Jumps, copies: int, t: float, spread: float) -> tuple[float, float]:
    """Ends of an interval (-below, above) outside of which the tilted sum has a negligible part of the mean."""
    least = -np.log(t * (1.0 + t * spread)) - _FAR
    below = above = 4.0 * spread + 2.0 / t
    for _ in range(_WIDENINGS):
        over, under = jumps.tail(copies, t, np.array([above, -below]), spread)
        wide = np.log(above) - t * above + over <= least, under - np.log(t) <= least
        if all(wide):
            break
        below, above = below * (1.0 if wide[1] else 1.2), above * (1.0 if wide[0] else 1.2)
    return below, above


def _pitch(values: FloatArray, weights: FloatArray, least: float) -> tuple[float, float]:
    """A pitch of at least `least` that adds the least variance, and the variance that splitting adds."""
    main = float(np.abs(values[np.argmax(weights * values**2)]))
    most = main / least
    counts = np.unique(np.floor(np.linspace(max(most / _STRETCH, 1.0), max(most, 1.0), _CANDIDATES)))
    pitches = np.maximum(main / counts, least)
    share = values / pitches[:, None] - np.floor(values / pitches[:, None])
    added = pitches**2 * (weights * share * (1.0 - share)).sum(axis=1)
    best = int(np.argmin(added))
    return float(pitches[best]), float(added[best])


def _split(jumps: Jumps, pitch: float) -> Jumps:
    """Values in units of `pitch`, split between the two whole numbers around them; means are rounded up."""
    scaled = np.maximum(jumps.values / pitch, _LOWEST)
    low = np.floor(scaled)
    share = np.minimum(scaled - low + 8 * _ULP * (1.0 + np.abs(scaled)), 1.0)
    points, where = np.unique(np.concatenate([low, low + 1.0]), return_inverse=True)
    masses = np.bincount(where, np.concatenate([jumps.masses * (1.0 - share), jumps.masses * share]))
    return Jumps(points, np.asarray(masses, dtype=np.float64))


def _on_lattice(whole: Jumps, copies: int, t: float, grid: tuple[float, int, float, float]) -> float:
    """The log of the mean for whole values in units of a pitch.

    The distribution of the sum, tilted by e^(tX), is the inverse Fourier transform of a power. The transform of the
    summand is a sum of few terms, evaluated with phases reduced as whole numbers. Mass outside the window folds onto
    it: mass from below is added to the result, and mass from above is bounded by Chernoff.
    """
    pitch, cells, above, spread = grid
    slope = t * pitch
    weights, steps = whole.tilted(slope), whole.values.astype(np.int64) % cells
    base = float(whole.log_mgf(np.array(slope)))
    frequencies = np.arange(cells // 2 + 1, dtype=np.int64)
    roots = np.exp(-2j * np.pi / cells * np.arange(cells))
    transform = np.full(len(frequencies), max(1.0 - float(weights.sum()), 0.0), dtype=np.complex128)
    for weight, step in zip(weights, steps, strict=True):
        transform += weight * roots[frequencies * step % cells]
    size = np.minimum(np.abs(transform), 1.0)
    least = float(np.exp(_NEGLIGIBLE / copies))  # smaller values have a negligible power
    kept = size >= least
    power = np.zeros(len(frequencies), dtype=np.complex128)
    power[kept] = np.exp(copies * np.log(transform[kept]))
    error = (len(weights) + 16) * _ULP  # of one value of the transform; that of its power is n |.|^(n - 1) as large
    grown = float(np.exp((copies - 1) * np.log(size[kept])).sum())
    lost = float(np.abs(power).sum()) * (4 * copies + 64) * _ULP
    slack = 2.0 * ((4 * copies * error * grown + lost) / cells + float(np.exp(_NEGLIGIBLE)))
    last = min(int(above / pitch) + 1, cells - 2)
    points = np.arange(1, last + 1, dtype=np.float64)
    masses = np.maximum(np.fft.irfft(power, cells)[1 : last + 1], 0.0) + slack
    inside = float((masses * np.exp(-slope * points) * points).sum())
    spare = float(whole.tail(copies, slope, np.array([last + 1.0]), spread / pitch)[0])
    end = max(last + 1.0, 1.0 / slope)  # x e^(-slope x) falls beyond 1/slope
    beyond = np.log(end) - slope * end + spare
    found = float(np.logaddexp(np.log(inside), beyond)) + copies * base + np.log(pitch)
    return found + 32 * _ULP * (copies + 64.0 + abs(found))

"""Certified upper bound on E(mean - a)_+, the mean of independent copies of a likelihood ratio, on a lattice.

Tilted masses, Fourier transform, power: allocation.md, steps 3 and 4.
"""

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from privsample._checks import FloatArray, check_memory
from privsample.accounting.loss.convolution import GridMasses, convolve
from privsample.accounting.subsampling.mean_plan import CoarseLaw
from privsample.accounting.subsampling.ratio_law import RatioLaw

_SPREAD = 2e-4  # spacing of far nodes, relative to their distance from 0
_MOST_POINTS = 2**22  # largest size of a transform
_TAIL = 38.0  # log of the tilted mass that may lie outside the window, and of the share of the result beyond it
# The error of the transform is about _NOISE for each step; at most _ROUNDED of the result. The mass above the threshold
# may be e^-headroom; several are compared, because the smallest window is not always that of the largest tilt.
_NOISE, _ROUNDED = 4e-14, 1e-6
_HEADROOMS = (0.3, 0.6, 1.0)
_FAR = 600.0  # largest exponent of a tilt that is removed
_ULP = float(np.finfo(np.float64).eps)


@dataclass(frozen=True, slots=True)
class _Window:
    """A tilt, the bounds of the sum, and a tilt for the bound on sums above."""

    tilt: float
    bottom: float
    top: float
    last: float


@dataclass(frozen=True, slots=True)
class MeanTail:
    """E(mean - a)_+ at the nodes of a lattice of means, linear between them.

    nodes: means, increasing, shape (k,). excess: e^-log_scale E(mean - node)_+ of the finite part in the window, shape
    (k,). beyond: bound on all the rest. log_first: bound on the log of the whole at the first node.
    """

    nodes: FloatArray
    excess: FloatArray
    log_scale: float
    log_beyond: float

    def log_excess(self, a: FloatArray) -> FloatArray:
        """log E(mean - a)_+ at each threshold, rounded up."""
        lowered = a - 8 * _ULP * (np.abs(a) + np.abs(self.nodes[0]) + np.abs(self.nodes[-1]))
        inside = np.interp(lowered, self.nodes, self.excess)
        with np.errstate(divide="ignore"):
            found = np.logaddexp(self.log_scale + np.log(inside), self.log_beyond)
            # Below the first node the slope is at least -1: the mass is at most 1.
            below = np.logaddexp(found, np.log(np.maximum(self.nodes[0] - lowered, 0.0)))
        return np.asarray(below + 8 * _ULP * (1.0 + abs(self.log_scale)))

    @classmethod
    def of(cls, coarse: CoarseLaw, low: float, high: float, ratios: tuple[float, float], tolerance: float) -> Self:
        """The tail for thresholds a in [low, high], where the mean of Y has the values `ratios`.

        `tolerance`: the error of epsilon, in nats, that the lattice may cause.
        """
        steep = [(coarse.saddle(a, coarse.cap(a)), ratio) for a, ratio in zip((low, high), ratios, strict=True)]
        width = min(np.sqrt(12 * tolerance * ratio / saddle) for saddle, ratio in steep)
        excesses = coarse.log_excess(low), coarse.log_excess(high)
        # The error of each mass is that of a sum which is at most as concentrated as one with this deviation.
        spread = max(width, 2 * coarse.scale * np.sqrt(coarse.times)) * max(steep[0][0], steep[1][0])
        most = float(np.clip(np.log(_ROUNDED * min(spread, 1.0) / (coarse.times * _NOISE)), 1.0, 15.0))
        tilts = _tilts(coarse, (low, high), excesses, (steep[0][0], steep[1][0]), most)
        window = min((_window(coarse, tilt, (low, high), excesses) for tilt in tilts), key=lambda w: w.top - w.bottom)
        finest = 0.5 / max(window.tilt, steep[0][0], steep[1][0])
        step = float(max(min(width, finest), (window.top - window.bottom) / _MOST_POINTS))
        # The largest D, which may be an atom, is a node: above, an atom beyond many steps would be far from any other.
        end = min(coarse.curves.largest, 1.0) if not coarse.curves.above else coarse.curves.largest
        step = end / np.ceil(end / step) if step < end < np.inf else step
        return cls._on_lattice(coarse, step, window, low, high)

    @classmethod
    def _on_lattice(cls, coarse: CoarseLaw, step: float, window: "_Window", low: float, high: float) -> Self:
        """Discretize one copy, raise its transform to the power, and sum up above each node."""
        from scipy.fft import next_fast_len

        t, tilt, last = coarse.times, window.tilt, window.last
        near = _indices(min(coarse.cap(high), float(coarse.distances[-1])) / step)
        if not coarse.curves.above:  # as fine next to Y = 0, where the sums are that matter, as next to Y = 1
            near = np.unique(np.append(near[2 * near < near[-1]], near[-1] - near[2 * near <= near[-1] + 1]))
        far = _indices(min(coarse.floor(low), -float(coarse.distances[0])) / step)
        law = RatioLaw.of(coarse.curves, near * np.float64(step), far * np.float64(step))
        indices = np.concatenate([-far[:0:-1], near])
        distances = indices * step
        first = int(np.floor(window.bottom / step))
        size = next_fast_len(int(np.ceil(window.top / step)) - first + 2, real=True)
        check_memory(size, lower="steps")
        (tilted, log_moment), (_, far_moment) = (law.tilted(distances, own) for own in (tilt, last))
        masses, lost = convolve([GridMasses(t, indices, tilted)], size, first)
        # The exponents are relative to the lattice point next to the largest threshold.
        points = first + np.arange(size)
        anchor = int(np.round(t * high / step))
        exponents = -tilt * step * (points - anchor)
        used = exponents < _FAR
        masses, exponents, points = masses[used], exponents[used], points[used]
        q = (masses + lost) * np.exp(exponents) * (1.0 + 4 * _ULP * (1.0 + np.abs(exponents)))
        tail = np.cumsum(q[::-1])[::-1]
        excess = np.append(np.cumsum(tail[:0:-1])[::-1], 0.0) * (step / t) * (1.0 + 4 * _ULP * len(q))
        log_scale = t * log_moment - tilt * step * anchor
        log_scale += 8 * _ULP * (t * (1.0 + abs(log_moment)) + tilt * step * abs(anchor))
        bound = (first + size) * step
        folded = _log_folded(t, far_moment, last, bound)
        with np.errstate(divide="ignore"):
            beyond = float(np.logaddexp(folded, np.log(law.infinite)))
        return cls(nodes=points * (step / t), excess=excess, log_scale=log_scale, log_beyond=beyond)


def _log_folded(times: int, log_moment: float, tilt: float, bound: float) -> float:
    """log of a bound on E(mean; sum >= bound): x <= bound e^(tilt (x - bound)) for x >= bound >= 1/tilt."""
    tilt_used = max(bound * tilt, 1.0)
    size = times * (1.0 + abs(log_moment)) + tilt_used
    return float(np.log(max(bound, 1.0 / tilt) / times) + times * log_moment - tilt * bound + 8 * _ULP * size)


def _tilts(
    coarse: CoarseLaw,
    thresholds: tuple[float, float],
    excesses: tuple[float, float],
    saddles: tuple[float, float],
    most: float,
) -> list[float]:
    """Tilts, at most the saddle point, under which at least e^-most of the mass is next to and above both thresholds.

    The masses are approximate; if no tilt does that, the best one.
    """
    t, cap, tilts = coarse.times, coarse.cap(thresholds[1]), saddles[1] * np.geomspace(1e-3, 1.0, 40)
    moments = np.array([t * coarse.log_moment(float(tilt), cap)[0] for tilt in tilts])
    shares = [
        min(excess + float(np.log(t * saddle)), 0.0) + t * a * tilts - moments
        for a, excess, saddle in zip(thresholds, excesses, saddles, strict=True)
        if a > 0.0
    ]
    log_mass = np.min(shares, axis=0)
    enough = [np.flatnonzero(log_mass >= -share * most) for share in _HEADROOMS]
    chosen = {int(found[0]) for found in enough if len(found)} | {int(np.argmax(log_mass))}
    return [float(tilts[at]) for at in sorted(chosen)]


def _window(
    coarse: CoarseLaw, tilt: float, thresholds: tuple[float, float], excesses: tuple[float, float]
) -> "_Window":
    """Bounds of the sum, outside of which little tilted mass lies, and which sums above raise the result little."""
    low, high = thresholds
    t, cap, floor = coarse.times, coarse.cap(high), coarse.floor(low)
    here, _, variance = coarse.log_moment(tilt, cap, floor)
    width = 1.0 / np.sqrt(max(variance * t, 1e-300))
    away = np.append(np.geomspace(0.05, 60.0, 40) * width, np.geomspace(0.3, 60.0, 20) / cap)
    below = np.array([t * (here - coarse.log_moment(tilt - x, cap, floor)[0]) - _TAIL for x in away])
    bottom = min(float(np.max(below / away)), t * low)
    above = np.array([t * coarse.log_moment(tilt + x, cap, floor)[0] for x in away]) + _TAIL / 2
    # Sums above a threshold by the length of the window are aliased next to it, where less tilt is removed.
    excess_above = above - np.log((tilt + away) * t) - 1.0  # x_+ <= e^(tilt x - 1)/tilt
    length = max(
        float(np.min((excess_above - excess - (tilt + away) * t * a) / away))
        for a, excess in zip(thresholds, excesses, strict=True)
    )
    tops = (above - excesses[1] + np.log(high + coarse.scale)) / (tilt + away)
    best = int(np.argmin(tops))
    last = float(tilt + away[best])
    top = max(float(tops[best]), 1.0 / last, bottom + length, t * high)
    return _Window(tilt=tilt, bottom=bottom, top=top, last=last)


def _indices(end: float) -> NDArray[np.int64]:
    """0, 1, ... with a spacing that grows with the distance, up to `end` rounded up."""
    uniform = int(1 / _SPREAD)
    if end <= uniform:
        return np.arange(max(int(np.ceil(end)), 1) + 1)
    count = int(np.ceil(np.log(end / uniform) / np.log1p(_SPREAD)))
    grown = uniform * np.exp(np.arange(count) * np.log1p(_SPREAD))
    whole = np.unique(np.append(np.arange(uniform), grown.astype(np.int64)))
    return np.append(whole[whole < np.ceil(end)], int(np.ceil(end)))

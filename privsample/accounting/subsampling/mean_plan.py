"""Approximate moments of a mean of likelihood ratios, which choose the lattice, and its bound far in the tail.

D is the variable of ratio_law.py and `a` a threshold of the mean of `times` independent copies of it. A variable may be
capped at a threshold `cap` of one copy: E(mean - a)_+ <= E(D - cap)_+ + E(mean of min(D, cap) - a)_+.
Values below `-floor` are raised to it.
"""

from dataclasses import dataclass
from typing import Self

import numpy as np

from privsample._checks import FloatArray
from privsample.accounting.subsampling.ratio_law import RatioCurves, RatioLaw

_NODES = 250  # nodes on each side
_LEAST, _MOST = 1e-4, 1e250  # smallest node relative to the mean distance; largest node
_NEGLIGIBLE = -250.0  # log of E(D - u)_+ up to which nodes are placed
_STEPS = 30  # halvings of a search
_CAPS = (0.5, 1.0)  # thresholds of one copy, relative to that of the sum
_LIKELY = 4.0  # log of the share of the excess from which on large copies matter
_ULP = float(np.finfo(np.float64).eps)


@dataclass(frozen=True, slots=True)
class CoarseLaw:
    """A dominating distribution of D on few nodes, whose spacing grows with the distance from 0.

    distances, log_masses: shape (k,). scale: E D_+, the natural unit of D. infinite: the part of
    E(D - u)_+ that does not fall with u, approximately; it is left out where a lattice is planned.
    """

    curves: RatioCurves
    times: int
    distances: FloatArray
    log_masses: FloatArray
    scale: float
    infinite: float

    @classmethod
    def of(cls, curves: RatioCurves, times: int) -> Self:
        """Place the nodes, and discretize."""
        whole, infinite = (float(curves.near(np.array([u]))[0]) for u in (0.0, _MOST if curves.above else 1.0))
        scale = max(whole - infinite, whole * 1e-12)
        high, least = _reach(curves, scale), 1.0
        near, far = (_nodes(scale, end) for end in ((high, least) if curves.above else (curves.largest, high)))
        law = RatioLaw.of(curves, near, far)
        distances = np.concatenate([-far[:0:-1], near])
        with np.errstate(divide="ignore"):
            return cls(curves, times, distances, np.log(law.masses), scale, infinite)

    @property
    def log_scale(self) -> float:
        """Log of the scale: the largest log E(mean - a)_+."""
        return float(np.log(self.scale))

    def log_moment(self, tilt: float, cap: float, floor: float = np.inf) -> tuple[float, float, float]:
        """Log E e^(tilt D), and mean and variance of D under the tilted distribution, with D in [-floor, cap]."""
        at = np.clip(self.distances, -floor, cap)
        logs = self.log_masses + tilt * at
        top = float(logs.max())
        masses = np.exp(logs - top)
        total = float(masses.sum())
        mean = float(masses @ at) / total
        return top + float(np.log(total)), mean, float(masses @ (at - mean) ** 2) / total

    def saddle(self, a: float, cap: float) -> float:
        """The tilt under which the capped D has the mean a >= 0; the largest tilt of the search if none has."""
        low, high = np.log(1e-9 / max(self.scale, cap)), np.log(1e9 / min(self.scale, cap))
        for _ in range(_STEPS):
            middle = (low + high) / 2
            below = self.log_moment(float(np.exp(middle)), cap)[1] < a
            low, high = (middle, high) if below else (low, middle)
        return float(np.exp(low))

    def log_saddle_point(self, a: float, cap: float) -> float:
        """Log of the saddle-point approximation to E(mean - a)_+, D capped."""
        tilt = self.saddle(a, cap)
        moment, _, variance = self.log_moment(tilt, cap)
        width = np.e + tilt * np.sqrt(2 * np.pi * self.times * variance)
        return float(self.times * (moment - tilt * a) - np.log(tilt * self.times * width))

    def log_excess(self, a: float) -> float:
        """Approximate log E(mean - a)_+: the smallest over a few caps."""
        caps = [share * self.cap(a) for share in _CAPS]
        found = [float(np.logaddexp(self.log_saddle_point(a, cap), self._log_jump(cap))) for cap in caps]
        return min(*found, self.log_scale)

    def log_bound(self, a: float) -> float:
        """Log of a certified bound on E(mean - a)_+, within a factor of about 100.

        It follows from x_+ <= e^(tilt x - 1)/tilt for the sum less its threshold (allocation.md, step 5).
        """
        found, t = 0.0, self.times
        far = -self.distances[self.distances <= 0.0][::-1]
        for cap in (share * self.cap(a) for share in _CAPS):
            tilt = self.saddle(a, cap)
            near = np.append(self.distances[(self.distances >= 0.0) & (self.distances < cap)], cap)
            law = RatioLaw.of(self.curves, near, far)
            moment = law.tilted(np.concatenate([-far[:0:-1], near]), tilt)[1]
            bound = t * (moment - tilt * a) - 1.0 - np.log(tilt * t) + 8 * _ULP * t * (1.0 + abs(moment) + tilt * a)
            found = min(found, float(np.logaddexp(bound, np.log(max(law.infinite, 1e-323)))))
        return float(found)

    def jumps(self, a: float) -> bool:
        """Whether one large copy is a likely reason for a mean above a."""
        return self._log_jump(self.times * a) > self.log_excess(a) - _LIKELY

    def _log_jump(self, cap: float) -> float:
        """Log E(D - cap)_+, less the part that does not fall."""
        return float(np.log(max(float(self.curves.near(np.array([cap]))[0]) - self.infinite, 1e-323)))

    def cap(self, a: float) -> float:
        """A threshold of one copy that alone raises the mean above a, beyond which the excess is almost linear."""
        if not self.curves.above:
            return min(self.times * (a + 1.0), 1.0)
        variance = self.log_moment(0.0, self.times * a + self.scale)[2]
        return self.times * a + min(float(self.times), 9.0 * float(np.sqrt(self.times * variance))) + self.scale

    def floor(self, a: float) -> float:
        """A distance such that the mean cannot exceed a if -D of one copy is larger."""
        return 1.0 if self.curves.above else max(self.times * (1.0 - a), self.scale)


def _reach(curves: RatioCurves, scale: float) -> float:
    """A distance beyond which E(Y - 1 - u)_+ is negligible, or constant: the largest likelihood ratio."""
    side = curves.near if curves.above else curves.far
    if curves.above and curves.largest < _MOST:
        return curves.largest
    low, high = np.log(scale), np.log(_MOST)
    floor = float(side(np.array([_MOST]))[0])
    for _ in range(_STEPS):
        middle = (low + high) / 2
        over = np.log(max(float(side(np.exp([middle]))[0]) - floor * (1 + 1e-9), 1e-323)) > _NEGLIGIBLE
        low, high = (middle, high) if over else (low, middle)
    return float(np.exp(high))


def _nodes(scale: float, end: float) -> FloatArray:
    """Distances from 0 to `end`: geometric, and near 1 also geometric towards a likelihood ratio of 0."""
    away = np.geomspace(min(_LEAST * scale, end / 2), end, _NODES)
    if end == 1.0:
        away = np.append(away, 1.0 - np.geomspace(1e-12, 0.5, _NODES // 2))
    return np.unique(np.append(0.0, away))

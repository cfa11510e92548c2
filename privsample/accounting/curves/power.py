"""The most powerful test between neighbours that a privacy curve allows, optimized over every epsilon.

Write x = e^epsilon for any real epsilon, and D(x) for the hockey-stick divergence of the alternative from the null
hypothesis. A test with false positive rate a has power at most D(x) + a x. D is convex, so that the least bound is
found between chords, with a certified gap. Any x gives a valid bound. Proofs: docs/notes/risk.md.
"""

from collections.abc import Callable

import numpy as np
from scipy.special import ndtri

from privsample._checks import FloatArray

_EPS = float(np.finfo(np.float64).eps)
_NEGLIGIBLE = 1e-30  # gap that is left in any case
_ROUNDS, _FARTHEST = 80, 700.0  # e^700 is finite
_WIDE, _MARGIN = 0.7, 0.15  # width of an interval that is wide, and the part at each end in which no epsilon is tried
_LEAST_MARGIN = 1e-3  # the same part of an interval that is not wide
_NARROW = 1e-10  # relative width of an interval that is not divided further
_SPREAD = 0.25  # distance of the first epsilons of a rate, in units of the scale
_LANES = 512  # rates that are optimized together


def least_errors(
    curve: Callable[[FloatArray], FloatArray],
    rates: FloatArray,
    *,
    kinks: tuple[float, float] = (-np.inf, np.inf),
    tolerance: float = 1e-12,
    points: int = 3,
) -> tuple[FloatArray, FloatArray]:
    """Upper bound on the power and lower bound on the type II error of any test, at each false positive rate.

    Parameters
    ----------
    curve : callable
        Maps real epsilons, shape (k,), to log(D(e^epsilon) - max(0, 1 - e^epsilon)), rounded up, same shape. It is
        the privacy curve at epsilon >= 0; below 0 it is epsilon plus the reversed privacy curve at -epsilon.
    rates : array of shape (m,)
        False positive rates, in (0, 1].
    kinks : (float, float), default (-inf, inf)
        Epsilons <= 0 and >= 0 beyond which the curve decreases no further; infinite if there are none.
    tolerance : float, default 1e-12
        Largest gap to the least bound that the curve gives, relative to the bound.
    points : int, default 3
        Epsilons that are tried at once around a guess, odd; more of them pay where one grid serves several.

    Returns
    -------
    powers : array of shape (m,)
        Bounds on the power, rounded up.
    misses : array of shape (m,)
        Bounds on the type II error, rounded down.
    """
    known: dict[float, float] = {}

    def excess(epsilon: FloatArray) -> FloatArray:
        """The excess of D, rounded up; each value is computed once."""
        missing = np.array(sorted({*epsilon.ravel().tolist()} - known.keys()))
        if missing.size:
            log = np.asarray(curve(missing))
            with np.errstate(invalid="ignore"):
                up = np.exp(log) * (1.0 + 4 * _EPS * (1.0 - log))
            known.update(zip(missing.tolist(), np.where(np.isneginf(log), 0.0, up).tolist(), strict=True))
        return np.array([known[e] for e in epsilon.ravel().tolist()]).reshape(epsilon.shape)

    # The Gaussian pair with the same total variation distance tells where the best epsilons may lie.
    scale = float(2 * ndtri(0.5 + np.clip(excess(np.zeros(1))[0], 1e-12, 1.0 - 1e-12) / 2))
    powers, misses = np.empty(len(rates)), np.empty(len(rates))
    for start in range(0, len(rates), _LANES):
        part = slice(start, start + _LANES)
        powers[part], misses[part] = _Lanes(excess, rates[part], kinks, tolerance, points, scale).bounds()
    return powers, misses


class _Lanes:
    """The searches for several rates: each has its own epsilons, so that no result depends on the other rates.

    `epsilon`, `x` and `excess` have the shape (lanes, nodes), in increasing order of x; missing nodes have x = inf. The
    first two nodes are on the line D = 1 - x, which is below D: their excess is 0.
    """

    def __init__(
        self,
        curve: Callable[[FloatArray], FloatArray],
        rates: FloatArray,
        kinks: tuple[float, float],
        tolerance: float,
        points: int,
        scale: float,
    ) -> None:
        self.curve, self.a, self.b = curve, rates[:, None], 1.0 - rates[:, None]
        self.lowest, self.highest = max(kinks[0], -_FARTHEST), min(kinks[1], _FARTHEST)
        self.tolerance, self.scale, self.around = tolerance, scale, np.linspace(-1.0, 1.0, points)
        centre = -scale * ndtri(self.a) - scale**2 / 2
        found = np.clip(centre + _SPREAD * scale * (points // 2) * self.around, self.lowest, self.highest)
        self.epsilon = np.full((len(rates), 2), -np.inf)
        self.x = np.tile([-1.0, 0.0], (len(rates), 1))
        self.excess = np.zeros((len(rates), 2))
        self._evaluate(np.concatenate([np.zeros((len(rates), 1)), found], axis=1))

    def bounds(self) -> tuple[FloatArray, FloatArray]:
        """Refine until the gap of every rate is small; then the bounds of all nodes, rounded outward."""
        for turn in range(_ROUNDS):
            found = self._candidates(smooth=turn % 3 != 2)
            if not np.isfinite(found).any():
                break
            self._evaluate(found)
        real = np.isfinite(self.epsilon)
        with np.errstate(invalid="ignore"):
            line = self.a * self.x * (1.0 + 2 * _EPS)
            gain = self.b * self.x
            powers = np.where(real & (self.epsilon >= 0.0), (self.excess + line) * (1.0 + 2 * _EPS), np.inf).min(axis=1)
            misses = np.where(real & (self.epsilon < 0.0), gain - self.excess - 4 * _EPS * gain, 0.0).max(axis=1)
        return (
            np.clip(np.minimum(powers, 1.0 - misses + 2 * _EPS), self.a[:, 0], 1.0),
            np.clip(np.maximum(misses, 1.0 - powers - 2 * _EPS), 0.0, self.b[:, 0]),
        )

    def _evaluate(self, epsilon: FloatArray) -> None:
        """Add nodes at these epsilons, infinite where there is none, and sort; equal nodes become missing ones."""
        wanted = np.isfinite(epsilon)
        excess = np.full(epsilon.shape, np.inf)
        excess[wanted] = self.curve(epsilon[wanted])
        nodes = np.concatenate([self.epsilon, epsilon], axis=1)
        order = np.argsort(nodes, axis=1, kind="stable")
        nodes = np.take_along_axis(nodes, order, axis=1)
        nodes[:, 3:][nodes[:, 3:] == nodes[:, 2:-1]] = np.inf
        again = np.argsort(nodes, axis=1, kind="stable")
        order = np.take_along_axis(order, again, axis=1)
        self.epsilon = np.take_along_axis(nodes, again, axis=1)
        self.excess = np.take_along_axis(np.concatenate([self.excess, excess], axis=1), order, axis=1)
        self.x = np.take_along_axis(np.concatenate([self.x, np.exp(epsilon)], axis=1), order, axis=1)
        self.x[np.isposinf(self.epsilon)] = np.inf

    def _candidates(self, *, smooth: bool) -> FloatArray:
        """The next epsilons of each rate, one row each; infinite where the gap is small.

        They are the intersections of chords on both sides of the best node, which finds corners; if `smooth`,
        epsilons around the vertex of a parabola instead, where that lies inside.
        """
        value = self._objective()
        best = value.argmin(axis=1)[:, None]
        # On the left of x = 1 the objective is minus the type II error, on the right the power: no side cancels.
        right = np.take_along_axis(self.epsilon, best, axis=1) >= 0.0
        value = np.where(right, self._objective(1.0), value)
        best = value.argmin(axis=1)[:, None]
        width = self.x.shape[1]

        def at(array: FloatArray, shift: int) -> FloatArray:
            found = np.take_along_axis(array, np.clip(best + shift, 0, width - 1), axis=1)
            return np.where(best + shift < width, found, np.inf)

        x, e, v = ({k: at(array, k) for k in range(-2, 3)} for array in (self.x, self.epsilon, value))
        allowed = v[0] - self.tolerance * np.abs(v[0]) - _NEGLIGIBLE
        found = [self._in_interval(x, e, v, left, allowed) for left in (-1, 0)]
        beyond = (v[0] - at(self.excess, 0) < allowed) & np.isposinf(x[1]) & (e[0] < self.highest)
        found[1] = np.where(beyond, np.minimum(2.0 * e[0] + self.scale, self.highest), found[1])
        if not smooth:
            return np.concatenate(found, axis=1)
        around = self._around_vertex(e, v)
        chosen = np.isfinite(around[:, :1]) & (np.isfinite(found[0]) | np.isfinite(found[1]))
        chords = np.full(around.shape, np.inf)
        chords[:, :2] = np.concatenate(found, axis=1)
        return np.where(chosen, around, chords)

    def _around_vertex(self, e: dict[int, FloatArray], v: dict[int, FloatArray]) -> FloatArray:
        """Epsilons around the vertex of the parabola through the best node and its neighbours."""
        with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
            to_left, to_right = e[-1] - e[0], e[1] - e[0]
            falls, rises = (v[-1] - v[0]) / to_left, (v[1] - v[0]) / to_right
            curvature = (rises - falls) / (to_right - to_left)  # half the second derivative
            vertex = e[0] - (falls - curvature * to_left) / (2.0 * curvature)
            length = to_right - to_left
            close = np.sqrt(self.tolerance * np.abs(v[0]) / curvature) / 2  # where the gap is small enough
            step = np.maximum(0.15 * length * np.minimum(length / self.scale, 1.0), close)
            step = np.maximum(step, 4 * _EPS * np.abs(vertex))
            inside = (curvature > 0.0) & (vertex - step > e[-1]) & (vertex + step < e[1]) & (length < 4.0 * self.scale)
        found: FloatArray = np.where(inside, vertex + step * self.around, np.inf)
        return found

    def _objective(self, offset: float = 0.0) -> FloatArray:
        """D(x) + a x - 1 + offset at every node; +inf at missing nodes."""
        with np.errstate(invalid="ignore"):
            low = self.excess - self.b * self.x + offset
            high = self.excess + self.a * self.x - (1.0 - offset)
        return np.where(np.isposinf(self.x), np.inf, np.where(self.x < 1.0, low, high))

    def _in_interval(
        self,
        x: dict[int, FloatArray],
        e: dict[int, FloatArray],
        v: dict[int, FloatArray],
        left: int,
        allowed: FloatArray,
    ) -> FloatArray:
        """The next epsilon between the nodes `left` and `left + 1`, counted from the best one; infinite if none is.

        The chords of the two intervals beside it, extended, are below the objective. Their intersection is the least
        value that the objective can have in the interval.
        """
        right = left + 1
        with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
            before = (v[left] - v[left - 1]) / (x[left] - x[left - 1])
            # Beyond the last node the excess is at least 0, and at least constant as far as the lower bound goes.
            after = np.where(np.isposinf(x[right + 1]), self.a, (v[right + 1] - v[right]) / (x[right + 1] - x[right]))
            to_right = (v[right] - v[left] - after * (x[right] - x[left])) / (before - after)
            least = v[left] + before * to_right
            crossed = (before < after) & (to_right > 0.0) & (to_right < x[right] - x[left]) & np.isfinite(x[right])
            inside = e[left] + np.log1p(to_right / x[left])
            width = e[right] - e[left]
            # A chord over two nearly equal epsilons would be lost in rounding errors, and with it the lower bounds.
            margin = np.where(width > _WIDE, _MARGIN, _LEAST_MARGIN) * width
            inside = np.clip(inside, e[left] + margin, e[right] - margin)
            # Between x = 0 and the first epsilon there is no end from which an interval could be measured.
            first = np.isneginf(e[left])
            outward = np.maximum(2.0 * e[right] - self.scale, self.lowest)
            candidate = np.where(first, outward, inside)
            useful = np.where(
                first, outward < e[right], width > _NARROW * np.maximum(np.abs(e[left]), np.abs(e[right]))
            )
        return np.where(crossed & (least < allowed) & useful & (x[left] >= 0.0), candidate, np.inf)

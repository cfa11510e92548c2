"""Projections of a confidence set to one coordinate: for each of its values, a search over all other coordinates.

Every point that decides is tested exactly, so accepted values are accepted. That no accepted point was missed is not
proved: the search descends from several starts (docs/notes/confidence.md, section 4).
"""

import numpy as np
from numpy.typing import NDArray
from scipy.stats import qmc

from privsample._checks import FloatArray
from privsample.inference.bisection import rejected_end
from privsample.inference.parameter_box import ParameterBox
from privsample.inference.rank_tests import Evidence, RankTest
from privsample.inference.simulated_statistics import Theta

_STARTS, _DESCENTS, _ITERATIONS = 32, 3, 8  # points for each coordinate, descents from the best ones, their steps
_HALVINGS = 16  # of the part of the box that is searched while nothing is accepted
_GRID = {1: 128}  # values of the coordinate that are tried outside of the accepted ones, by number of coordinates
_COARSE = 17
_CLOSE, _FINEST = 2.0, 0.01  # margins up to which a rejected point is searched around, and the finest steps of that
_ROUNDS = 10  # of bisections
_PRECISION = 1e-3  # of an end, relative to the length of the interval
_NEAREST = 3  # starts where an end is checked once more
_BEYOND, _NEXT_TO = 0.01, 0.15  # room beyond an end that is checked and added, and what is near it; of the length
_REACH = 0.05  # difference steps in units of the standard deviation of a coordinate


class ProjectionSearch:
    """Searches for values in a set: every point that was tested is remembered, with its evidence.

    `start` are parameters that may fit, or None.
    """

    __slots__ = ("_accepted", "_box", "_start", "_steps", "_test", "_visited")

    def __init__(self, test: RankTest, box: ParameterBox, start: Theta | None) -> None:
        self._test, self._box = test, box
        middle = (box.low + box.high) / 2
        guess = middle if start is None else np.concatenate([np.ravel(start[one.name]) for one in box.parameters])
        self._start = np.clip(guess, box.low, box.high)
        self._visited: dict[bytes, tuple[FloatArray, Evidence]] = {}
        self._accepted: list[FloatArray] = []
        self._steps = 1e-3 * (box.high - box.low)

    def evidence(self, point: FloatArray) -> Evidence:
        """The test of a point, given by all coordinates."""
        key = point.tobytes()
        if key not in self._visited:
            kept, found = point.copy(), self._test.evidence(self._box.theta(point))
            self._visited[key] = kept, found
            if found.rank > self._test.rejected:
                self._accepted.append(kept)
        return self._visited[key][1]

    def accepts(self, point: FloatArray) -> bool:
        """True if the point is in the set."""
        return self.evidence(point).rank > self._test.rejected

    def accepted(self) -> FloatArray:
        """All tested points that are in the set, shape (k, coordinates), in the order of their tests."""
        return np.array(self._accepted).reshape(len(self._accepted), len(self._box.low))

    def best(self) -> FloatArray:
        """The point with the smallest margin, by descents from the best of many points in the box.

        If none of them is accepted, points are tried in smaller and smaller boxes around the best one.
        """
        box = self._box
        if not self._visited:
            self.evidence(self._start)
            for halvings in range(_HALVINGS):
                self._scatter(2.0**-halvings)
                for point in self._nearest(_DESCENTS):
                    self._descend(point, box.free, stop=False)
                if len(self._accepted):
                    break
                for point in self._nearest(_DESCENTS):
                    self._lower_margin(point, box.free)
        return self._nearest(1)[0]

    def _scatter(self, size: float) -> None:
        """Test Sobol points in a part of the box of this relative size around the best point."""
        box, centre = self._box, self._nearest(1)[0]
        wide = size * (box.high - box.low)
        low = np.clip(centre - wide / 2, box.low, box.high - wide)
        for unit in qmc.Sobol(len(box.free), seed=0).random(_STARTS * 2 ** (len(box.free) - 1).bit_length()):
            point = low.copy()
            point[box.free] += unit * wide[box.free]
            self.evidence(np.clip(point, box.low, box.high))

    def _nearest(self, count: int) -> list[FloatArray]:
        """The visited points with the smallest margins; of those far from the set, with the smallest distances."""

        def order(item: tuple[FloatArray, Evidence]) -> tuple[bool, float]:
            found = item[1]
            far = found.margin > _CLOSE  # margins do not tell how far
            return far, found.distance if far else found.margin

        return [point for point, _ in sorted(self._visited.values(), key=order)[:count]]

    def interval(self, place: int) -> tuple[float, float] | None:
        """The ends of the accepted values of one coordinate, widened to rejected ones; None if none was found."""
        if not self.accepts(self.best()):
            return None
        low, high = float(self._box.low[place]), float(self._box.high[place])
        for value in self._values(place):
            own = self.accepted()[:, place]
            if not own.min() <= value <= own.max():
                self.profile(place, value)
        return self._end(place, low), self._end(place, high)

    def _end(self, place: int, limit: float) -> float:
        """The end of the accepted values towards `limit`, and room beyond it in which nothing accepted was found.

        The boundary is rough, because critical values are order statistics of R + 1 simulations: the room also holds
        parts of the set that are too small to be found.
        """
        upward = limit == self._box.high[place]
        while True:
            if self.profile(place, limit):
                return limit
            outside = limit
            for value in self._values(place)[:: 1 if upward else -1]:
                if (value > self._outermost(place, upward)) == upward and not self.profile(place, value):
                    outside = value
                    break
            end, length = self._bisected(place, outside, upward)
            room = min(_BEYOND * length, abs(limit - end)) * (1 if upward else -1)
            searched = any(self.profile(place, end + part * room, more=True) for part in (0.2, 1.0))
            if not (searched or self._accepts_near(place, end, room, length)):
                return end + room

    def _bisected(self, place: int, outside: float, upward: bool) -> tuple[float, float]:
        """A rejected value next to the accepted ones, up to a small part of their length, and this length."""
        end = outside
        for _ in range(_ROUNDS):  # the length of what was found grows with the bisection
            inside = self._outermost(place, upward)
            length = float(np.ptp(self.accepted()[:, place])) or abs(end - inside)
            if abs(end - inside) <= 2 * _PRECISION * length:
                break
            end = rejected_end(lambda x: self.profile(place, x), inside, end, tolerance=_PRECISION * length)
        return end, float(np.ptp(self.accepted()[:, place])) or abs(end - self._outermost(place, upward))

    def _accepts_near(self, place: int, end: float, room: float, length: float) -> bool:
        """True if one of many points in the room beyond an end, around accepted points next to it, is in the set."""
        others = self._box.free[self._box.free != place]
        own = self.accepted()
        near = own[np.abs(own[:, place] - end) <= max(_NEXT_TO * length, np.abs(own[:, place] - end).min())]
        low, high = near.min(axis=0), near.max(axis=0)
        low, high = (
            np.clip(x, self._box.low, self._box.high) for x in (low - (high - low) / 4, high + (high - low) / 4)
        )
        found = False
        for unit in qmc.Sobol(len(others) + 1, seed=0).random(_STARTS * 2 ** len(others).bit_length()):
            point = near[0].copy()
            point[others] = low[others] + unit[1:] * (high - low)[others]
            point[place] = end + (unit[0] + 1e-3) * room
            found |= self.accepts(np.clip(point, self._box.low, self._box.high))
        return found

    def _outermost(self, place: int, upward: bool) -> float:
        """The largest or the smallest accepted value of a coordinate."""
        own = self.accepted()[:, place]
        return float(own.max() if upward else own.min())

    def _values(self, place: int) -> list[float]:
        """Values of a coordinate over its whole range."""
        count = _GRID.get(len(self._box.free), _COARSE)
        return [float(x) for x in np.linspace(self._box.low[place], self._box.high[place], count)]

    def profile(self, place: int, value: float, *, more: bool = False) -> bool:
        """True if a point with this value of one coordinate was found in the set; `more` searches from more starts."""
        others = self._box.free[self._box.free != place]
        ends = []
        for start in self._starts(place, value, _NEAREST if more else 1):
            point = start.copy()
            point[place] = value
            if self.accepts(point):
                return True
            ends.append(self._descend(point, others, stop=True) if len(others) else point)
            if self.accepts(ends[-1]):
                return True
        if not len(others):
            return False
        middle = np.median(self.accepted(), axis=0)
        middle[place] = value
        ends = sorted([*ends, middle], key=lambda point: self.evidence(point).margin)
        return any(self._lower_margin(point, others) for point in ends[: 3 if more else 2])

    def _starts(self, place: int, value: float, nearest: int) -> list[FloatArray]:
        """Points that may fit the value: on the line through two accepted points, and the nearest accepted ones."""
        own = self.accepted()
        if len(self._box.free) == 1:
            return [self._box.low]
        order = np.argsort(np.abs(own[:, place] - value), kind="stable")
        near = own[order[0]]
        found = [own[i] for i in order[:nearest]]
        apart = [own[i] for i in order if abs(own[i, place] - near[place]) > 0.1 * np.ptp(own[:, place])]
        if apart:
            slope = (near - apart[0]) / (near[place] - apart[0][place])
            found.insert(0, np.clip(near + slope * (value - near[place]), self._box.low, self._box.high))
        return found

    def _descend(self, point: FloatArray, places: NDArray[np.intp], *, stop: bool) -> FloatArray:
        """The end of a descent of the distance by Gauss-Newton steps in these coordinates.

        The first accepted point that was found, if `stop` is set.
        """
        low, high = self._box.low, self._box.high
        own = whitened(self.evidence(point))
        for _ in range(_ITERATIONS):
            slopes = np.column_stack([self._slope(point, own, place) for place in places])
            sizes = np.sqrt((slopes**2).sum(axis=0))
            wide = (high - low)[places]
            steps = np.where(sizes > 0, _REACH / np.where(sizes > 0, sizes, 1.0), np.inf)
            self._steps[places] = np.clip(steps, 1e-7 * wide, 1e-3 * wide)
            move = _bounded_step(slopes, own, (low - point)[places], (high - point)[places])
            for _ in range(6):
                tried = point.copy()
                tried[places] = np.clip(point[places] + move, low[places], high[places])
                new = whitened(self.evidence(tried))
                if stop and self.accepts(tried):
                    return tried
                if new @ new < own @ own:
                    break
                move = move / 4
            else:
                break
            gained = 1 - float(new @ new) / max(float(own @ own), 1e-300)
            point, own = tried, new
            if gained < 1e-3:
                break
        return point

    def _slope(self, point: FloatArray, own: FloatArray, place: int) -> FloatArray:
        """The derivative of the whitened residual in one coordinate, by a difference inside the box."""
        step = self._steps[place] if point[place] + self._steps[place] <= self._box.high[place] else -self._steps[place]
        moved = point.copy()
        moved[place] += step
        return (whitened(self.evidence(moved)) - own) / step

    def _lower_margin(self, point: FloatArray, places: NDArray[np.intp]) -> bool:
        """Lower the margin itself by moves of single coordinates, with steps that are halved; True if accepted.

        The smallest distance is not always the smallest margin, because critical values depend on the parameters, too.
        """
        own = self.accepted()
        wide = self._box.high - self._box.low
        steps = np.maximum(np.ptp(own, axis=0), 1e-6 * wide) / 2 if len(own) else wide / 8
        margin, reach = self.evidence(point).margin, 1.0
        while 1.0 < margin < _CLOSE and reach > _FINEST:
            moved = [self._moved(point, place, sign * reach * steps[place]) for place in places for sign in (1.0, -1.0)]
            best = min(moved, key=lambda tried: self.evidence(tried).margin)
            if self.evidence(best).margin < margin:
                point, margin = best, self.evidence(best).margin
            else:
                reach /= 2
        return self.accepts(point)

    def _moved(self, point: FloatArray, place: int, step: float) -> FloatArray:
        """The point with one coordinate moved, inside the box."""
        found = point.copy()
        found[place] = np.clip(point[place] + step, self._box.low[place], self._box.high[place])
        return found


def whitened(found: Evidence) -> FloatArray:
    """The residual in units of the symmetric root of the covariance, whose squared length is the squared distance."""
    deviations = np.sqrt(np.maximum(np.diagonal(found.covariance), 0.0))
    units = np.where(deviations > 0, deviations, 1.0)
    values, vectors = np.linalg.eigh(found.covariance / np.outer(units, units))
    inverse = 1 / np.sqrt(np.maximum(values, 1e-12 * max(float(values[-1]), 1e-300)))
    return np.asarray(vectors @ (inverse * (vectors.T @ (found.residual / units))))


def _bounded_step(slopes: FloatArray, own: FloatArray, low: FloatArray, high: FloatArray) -> FloatArray:
    """The least-squares step within bounds: coordinates that would leave them stay at the bound."""
    move, free = np.zeros(slopes.shape[1]), np.ones(slopes.shape[1], dtype=bool)
    for _ in range(slopes.shape[1]):
        if not free.any():
            break
        rest = own + slopes[:, ~free] @ move[~free]
        move[free] = np.linalg.lstsq(slopes[:, free], -rest, rcond=1e-10)[0]
        out = free & ((move < low) | (move > high))
        move = np.clip(move, low, high)
        if not out.any():
            break
        free &= ~out
    return move

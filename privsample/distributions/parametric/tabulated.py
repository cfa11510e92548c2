"""A univariate distribution tabulated by its log density at Chebyshev points; for non-conjugate posteriors."""

import itertools
from collections.abc import Callable

import numpy as np
from numpy.polynomial import chebyshev
from numpy.typing import NDArray

from privsample._checks import FloatArray
from privsample._value import Memo, cached, frozen_value, set_fields
from privsample.distributions.parametric.conjugate import PosteriorDistribution

DEGREE = 12  # of the polynomial in each panel
_NODES = chebyshev.chebpts2(DEGREE + 1)
_TO_COEFFICIENTS = np.linalg.inv(chebyshev.chebvander(_NODES, DEGREE))
_FINE = 24  # degree of the density itself, the exponential of that polynomial
_FINE_NODES = chebyshev.chebpts2(_FINE + 1)
_FINE_VALUES = chebyshev.chebvander(_FINE_NODES, DEGREE) @ _TO_COEFFICIENTS
_FINE_COEFFICIENTS = np.linalg.inv(chebyshev.chebvander(_FINE_NODES, _FINE))
_INTEGRAL = chebyshev.chebint(np.eye(_FINE + 1), lbnd=-1.0)  # (_FINE + 2, _FINE + 1)
_DEPTH = 40.0  # densities below e^-40 of the maximum are omitted
_SPLITS = 12
_PANELS = 6
_ROUNDS, _GRID = 16, 17
_TOLERANCE = 1e-8
_STEPS = 60
_TABLE = 64  # points a panel, from which Newton's steps start
_CLOSE = 1e-8  # relative length of the last Newton step; the remaining error is about its square
_BLOCK = 1 << 17


@frozen_value
class TabulatedDistribution(Memo, PosteriorDistribution):
    """A density given by its log at the Chebyshev points of panels, up to a constant.

    Parameters
    ----------
    edges : array of shape (panels + 1,)
        Ascending ends of the panels: of the number itself or, with `positive`, of its logarithm.
    log_values : array of shape (panels, 13)
        Log density of the number or of its logarithm, as for `edges`, at the Chebyshev points of each panel, with ends.
    positive : bool
        Whether the edges are logarithms.
    """

    edges: FloatArray
    log_values: FloatArray
    positive: bool

    def __post_init__(self) -> None:
        edges, values = (np.array(each, dtype=np.float64) for each in (self.edges, self.log_values))
        fine = np.exp((values - values.max()) @ _FINE_VALUES.T) * np.diff(edges)[:, None] / 2
        values -= values.max() + np.log(float((fine @ (_INTEGRAL @ _FINE_COEFFICIENTS).sum(axis=0)).sum()))
        for array in (edges, values):
            array.flags.writeable = False
        set_fields(self, edges=edges, log_values=values, positive=bool(self.positive))

    @cached
    def _logs(self) -> FloatArray:
        """Chebyshev coefficients of the log density, (degree + 1, panels)."""
        return np.asarray(_TO_COEFFICIENTS @ self.log_values.T)

    @cached
    def _masses(self) -> FloatArray:
        """Chebyshev coefficients of each panel's own distribution function, (degree + 1, panels)."""
        density = np.exp(self.log_values @ _FINE_VALUES.T) * np.diff(self.edges)[:, None] / 2
        return np.asarray(_INTEGRAL @ _FINE_COEFFICIENTS @ density.T)

    @cached
    def _before(self) -> FloatArray:
        """Probability below each edge."""
        own = self._masses.sum(axis=0)  # every Chebyshev polynomial is 1 at the right end
        before = np.concatenate([[0.0], np.cumsum(own)])
        return np.asarray(before / before[-1])

    @property
    def mean(self) -> FloatArray:
        """The mean, by Chebyshev quadrature."""
        return np.asarray(self.expectation(lambda x: x))

    @property
    def variance(self) -> FloatArray:
        """The variance, by Chebyshev quadrature."""
        middle = float(self.mean)
        return np.asarray(self.expectation(lambda x: (x - middle) ** 2))

    def sample(self, size: int, rng: np.random.Generator) -> FloatArray:
        """Draws by inversion of the distribution function, shape (size,)."""
        return self.quantile(rng.random(size))

    def log_density(self, x: FloatArray) -> FloatArray:
        """Elementwise; -inf beyond the panels, where the density is below e^-40 of its largest value."""
        x = np.asarray(x, dtype=np.float64)
        with np.errstate(divide="ignore", invalid="ignore"):
            u = np.log(x) if self.positive else x
        inside = (u >= self.edges[0]) & (u <= self.edges[-1])
        panel, local = self._place(np.where(inside, u, self.edges[0]))
        logs = chebyshev.chebval(local, self._logs[:, panel], tensor=False)
        return np.where(inside, logs - (u if self.positive else 0.0), -np.inf)

    def below(self, x: FloatArray) -> FloatArray:
        """The distribution function, elementwise."""
        x = np.asarray(x, dtype=np.float64)
        with np.errstate(divide="ignore", invalid="ignore"):
            u = np.log(np.maximum(x, 0.0)) if self.positive else x
        return self._cumulative(np.clip(u, self.edges[0], self.edges[-1]))

    def quantile(self, q: FloatArray) -> FloatArray:
        """Quantiles, elementwise, by Newton steps, or bisection steps where Newton leaves the bracket."""
        shares = np.asarray(q, dtype=np.float64)
        flat = shares.ravel()
        found = np.concatenate(
            [self._inverse(flat[k : k + _BLOCK]) for k in range(0, max(flat.size, 1), _BLOCK)]
        ).reshape(shares.shape)
        ends = (0.0, np.inf) if self.positive else (-np.inf, np.inf)
        with np.errstate(over="ignore"):
            found = np.exp(found) if self.positive else found
        return np.where(shares <= 0, ends[0], np.where(shares >= 1, ends[1], found))

    def relative_entropy(self, other: PosteriorDistribution) -> float:
        """The divergence has no closed form; raises TypeError."""
        raise TypeError(f"the relative entropy of a tabulated distribution to a {type(other).__name__} is not known")

    def _inverse(self, goal: FloatArray) -> FloatArray:
        fine, reached = self._table
        cell = np.clip(np.searchsorted(reached, goal, side="right") - 1, 0, len(fine) - 2)
        low, high = fine[cell], fine[cell + 1]
        u = np.clip(np.interp(goal, reached, fine), low, high)
        for _ in range(_STEPS):
            panel, local = self._place(u)
            excess = self._before[panel] + chebyshev.chebval(local, self._masses[:, panel], tensor=False) - goal
            low, high = np.where(excess <= 0, u, low), np.where(excess >= 0, u, high)
            density = np.exp(chebyshev.chebval(local, self._logs[:, panel], tensor=False))
            with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
                step = u - excess / density
            new = np.where((step >= low) & (step <= high), step, low / 2 + high / 2)
            if np.all(np.abs(new - u) <= _CLOSE * (self.edges[-1] - self.edges[0])):
                return new
            u = new
        return u

    @cached
    def _table(self) -> tuple[FloatArray, FloatArray]:
        """Points evenly spread over each panel, and the distribution function there."""
        starts, widths = self.edges[:-1, None], np.diff(self.edges)[:, None]
        fine = np.append((starts + widths * np.arange(_TABLE) / _TABLE).ravel(), self.edges[-1])
        return fine, np.maximum.accumulate(self._cumulative(fine))

    def _place(self, u: FloatArray) -> tuple[NDArray[np.intp], FloatArray]:
        """The panel of each number, and its local coordinate in [-1, 1]."""
        panel = np.clip(np.searchsorted(self.edges, u, side="right") - 1, 0, len(self.edges) - 2)
        low, high = self.edges[panel], self.edges[panel + 1]
        return panel, (2 * u - low - high) / (high - low)

    def _cumulative(self, u: FloatArray) -> FloatArray:
        panel, local = self._place(u)
        own = chebyshev.chebval(local, self._masses[:, panel], tensor=False)
        return np.clip(self._before[panel] + own, 0.0, 1.0)

    def expectation(self, function: Callable[[FloatArray], FloatArray]) -> float:
        """The expectation of a smooth function of the number, by Chebyshev quadrature."""
        half, middle = np.diff(self.edges)[:, None] / 2, (self.edges[:-1, None] + self.edges[1:, None]) / 2
        u = middle + half * _FINE_NODES
        values = function(np.exp(u) if self.positive else u) * np.exp(self.log_values @ _FINE_VALUES.T) * half
        return float((values @ (_INTEGRAL @ _FINE_COEFFICIENTS).sum(axis=0)).sum())


def tabulate(
    approximation: Callable[[float], float],
    log_density: Callable[[float], float],
    bounds: tuple[float, float],
    *,
    positive: bool,
) -> TabulatedDistribution:
    """The distribution with this log density, of a number or (`positive`) of a logarithm, up to a constant.

    Parameters
    ----------
    approximation : callable
        A cheap log density, close enough to find where the other one is not negligible.
    log_density : callable
        The log density.
    bounds : pair of float
        Where to look for it.
    positive : bool
        Whether the argument of both is the logarithm of the number.

    Raises
    ------
    ValueError
        If the densities are negligible everywhere, or rough.
    """
    low, high = bounds
    for _ in range(_ROUNDS):
        grid = np.linspace(low, high, _GRID)
        heights = np.array([approximation(u) for u in grid])
        inside = np.flatnonzero(heights > heights.max() - _DEPTH)
        new = grid[max(inside[0] - 1, 0)], grid[min(inside[-1] + 1, _GRID - 1)]
        close = new[1] - new[0] > 0.8 * (high - low)
        low, high = new
        if close:
            break
    pieces = [(a, b, _values(log_density, a, b)) for a, b in _cut(low, high)]
    top = max(float(values.max()) for *_, values in pieces)
    done: list[tuple[float, float, FloatArray]] = []
    for _ in range(_SPLITS):
        rough = [piece for piece in pieces if not _smooth(piece[2], top)]
        done += [piece for piece in pieces if _smooth(piece[2], top)]
        halves = [half for a, b, _ in rough for half in ((a, a / 2 + b / 2), (a / 2 + b / 2, b))]
        pieces = [(a, b, _values(log_density, a, b)) for a, b in halves]
        if not pieces:
            break
    done = sorted(done + pieces, key=lambda piece: piece[0])
    edges = np.array([done[0][0], *(piece[1] for piece in done)])
    return TabulatedDistribution(edges=edges, log_values=np.array([piece[2] for piece in done]), positive=positive)


def _cut(low: float, high: float) -> list[tuple[float, float]]:
    edges = np.linspace(low, high, _PANELS + 1)
    return [(float(a), float(b)) for a, b in itertools.pairwise(edges)]


def _values(log_density: Callable[[float], float], low: float, high: float) -> FloatArray:
    middle, half = low / 2 + high / 2, high / 2 - low / 2
    return np.array([log_density(float(middle + half * x)) for x in _NODES])


def _smooth(values: FloatArray, top: float) -> bool:
    """True if the last coefficients of the polynomial are small, or the density of the panel is negligible."""
    short = top - float(values.max())
    if short > _DEPTH:
        return True
    last = np.abs((_TO_COEFFICIENTS @ values)[-2:]).max()
    return bool(last <= _TOLERANCE * np.exp(min(short, _DEPTH) / 2))

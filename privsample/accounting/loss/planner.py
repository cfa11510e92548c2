"""How the privacy curve of a composition is computed: the ways, when each applies, and which answer is taken.

Every way gives an upper bound, so the least answer of all ways that were tried is taken. The ways, in their order:

1. Enumeration of all outcomes, if all members are discrete with few outcomes. Relative error 1e-13. Nothing else is
   tried.
2. The contour integral (contour.py), if the moment generating function of every member is known. It has a certified
   lower side too; if the two sides are closer than `_SHARP`, the answer is final. A search for epsilon begins at the
   conversion of the Rényi curve at its best order, and if the contour has no tight bound there, it is over at once.
3. A grid (grid.py), for any members. About 3e-7 above the exact epsilon, except for losses of very different sizes.
   Shared grids answer many questions; where a contour should have answered and is not sharp, one more grid is made,
   and the contour is tried once more from there.
4. The conversion of the Rényi curve.
5. Basic composition: epsilons of the members at equal shares of delta add up.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from privsample._checks import FloatArray
from privsample._logspace import weighted_sum_up
from privsample.accounting.curves.conversion import epsilon_from_renyi, log_delta_from_renyi, safe_side
from privsample.accounting.loss import grid
from privsample.accounting.loss.contour import summed_log_delta_sides

if TYPE_CHECKING:
    from privsample.accounting.loss.product import ProductPair

Way = Literal["enumeration", "contour integral", "grid", "Rényi conversion", "basic composition"]

LEAST_CONTOUR_LOG_DELTA = -150.0  # below this log delta a contour integral may be looser than a Rényi conversion
_SHARP = 1e-7  # largest distance between the two sides of a log delta that ends the search for a tighter way
_EXACT = 1e-9  # largest distance between the two sides of a log delta that is called exact
_NEAR, _FAR = 1e-6, 0.05  # relative distances of the contour's epsilon from that of a grid, and from a conversion
_SECANTS = 60  # largest number of secants in a search
_FARTHEST = 1e9  # the largest epsilon around which a grid is built
_FEW = 64  # members up to which basic composition is tried
_ULP = float(np.finfo(np.float64).eps)


@dataclass(frozen=True, slots=True)
class Answer:
    """An upper bound on the least epsilon (nats) of a composition at some delta, and the way that gave it.

    `gap` is the distance of log delta at this epsilon from its certified lower side; +inf if no lower side is known.
    """

    epsilon: float
    way: Way
    gap: float = np.inf

    @property
    def is_exact(self) -> bool:
        """True if a certified lower side proves that no smaller epsilon is possible, up to rounding."""
        return self.gap <= _EXACT


def least_epsilon(product: "ProductPair", log_delta: float) -> Answer:
    """The least epsilon at a log delta that any way gives, at most the max divergence."""
    if product.table is not None:
        return _least([Answer(product.table.least_epsilon(log_delta), "enumeration", gap=0.0)], product)
    tried = []
    if product.smooth:
        tried.append(_by_conversion(product, log_delta))
        tried.append(_along_the_contour(product, log_delta, tried, _FAR))
        if tried[-1].gap <= _SHARP or log_delta <= LEAST_CONTOUR_LOG_DELTA:
            return _least(tried, product)
    tried.append(_by_grid(product, log_delta))
    if product.smooth:
        tried += [_by_own_grid(product, log_delta), _by_basic_composition(product, log_delta)]
        tried.append(_along_the_contour(product, log_delta, tried, _NEAR))
    elif np.isinf(tried[-1].epsilon):
        tried += [_by_conversion(product, log_delta), _by_basic_composition(product, log_delta)]
    return _least(tried, product)


def log_deltas(product: "ProductPair", epsilon: FloatArray) -> FloatArray:
    """The least log delta that any way gives at each epsilon >= 0, shape (epsilons,)."""

    def lower(
        found: FloatArray, some: NDArray[np.bool_], way: Callable[["ProductPair", FloatArray], FloatArray]
    ) -> None:
        """Replace some log deltas by those of a way where they are smaller."""
        if some.any():
            found[some] = np.fmin(found[some], way(product, epsilon[some]))

    if product.table is not None:
        found = product.table.log_delta(epsilon)
    elif product.smooth:
        found, below = _contour_sides(product, epsilon)
        unsure = ~np.isneginf(found) & ~((found - below <= _SHARP) & (found > LEAST_CONTOUR_LOG_DELTA))
        lower(found, unsure, _converted)
        # Of deeper tails, the conversion is a close bound.
        lower(found, unsure & (found > LEAST_CONTOUR_LOG_DELTA), _on_grid)
    else:
        found = _on_grid(product, epsilon)
        unsure = ~np.isneginf(found) & ~((found > LEAST_CONTOUR_LOG_DELTA) & (found < np.inf))
        lower(found, unsure, _converted)
    return np.where(epsilon >= _top(product), -np.inf, np.minimum(found, 0.0))


def _top(product: "ProductPair") -> float:
    """An upper bound on the max divergence: losses of finite tables are rounded to nearest, and an enumeration's up."""
    if product.table is not None and product.max_divergence > 0.0:
        return product.table.max_divergence
    return product.max_divergence * (1.0 + 8 * _ULP)


def _converted(product: "ProductPair", epsilon: FloatArray) -> FloatArray:
    """Log delta at each epsilon by the conversion of the Rényi curve at its best order."""
    return np.array([log_delta_from_renyi(product.renyi, product.order_limit, float(e)) for e in epsilon])


def _by_conversion(product: "ProductPair", log_delta: float) -> Answer:
    """The conversion of the Rényi curve at its best order."""
    return Answer(epsilon_from_renyi(product.renyi, product.order_limit, log_delta), "Rényi conversion")


def _least(tried: Sequence[Answer], product: "ProductPair") -> Answer:
    """The least answer, at most the max divergence; of equal ones that with the closest lower side."""
    least = min(tried, key=lambda answer: (answer.epsilon, answer.gap))
    return replace(least, epsilon=min(least.epsilon, _top(product)))


def _contour_sides(product: "ProductPair", epsilon: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Upper and lower sides of log delta along the contour at each epsilon >= 0."""
    return summed_log_delta_sides(product.rows, np.full(len(epsilon), product.order_limit), epsilon)


def _by_grid(product: "ProductPair", log_delta: float) -> Answer:
    """The epsilon of a grid that is shared by many questions."""
    return Answer(product.grids.epsilon(log_delta), "grid")


def _by_own_grid(product: "ProductPair", log_delta: float) -> Answer:
    """The epsilon of a grid for this question."""
    return Answer(grid.compose_at_log_delta(product.members, log_delta).epsilon(log_delta), "grid")


def _along_the_contour(product: "ProductPair", log_delta: float, tried: Sequence[Answer], near: float) -> Answer:
    """The least epsilon of the contour integral below those tried; +inf if it has no tight bound at the least.

    The search begins at the relative distance `near` from the least answer.
    """
    start, top, sides = _least(tried, product).epsilon, _top(product), {}

    def excess(epsilon: float) -> float:
        if epsilon >= top:
            return -np.inf
        if epsilon not in sides:
            sides[epsilon] = [float(side[0]) for side in _contour_sides(product, np.array([epsilon]))]
        return sides[epsilon][0] - log_delta

    if not np.isfinite(start) or excess(start) > 0.0:
        return Answer(np.inf, "contour integral")
    found = safe_side(lambda epsilon: excess(epsilon) <= 0.0, _root_below(excess, start, near), upward=True)
    gap = 0.0 if found == 0.0 else np.inf
    if log_delta > LEAST_CONTOUR_LOG_DELTA and 0.0 < found < top:
        gap = log_delta - sides[found][1]
    return Answer(found, "contour integral", gap=gap)


def _root_below(excess: Callable[[float], float], start: float, near: float) -> float:
    """The zero of a decreasing function below `start`, where it is not positive.

    Secants find it, from the first step at a relative distance of `near`. Log delta is nearly concave in epsilon, so
    that they approach it from above. If one crosses it, bisections and interpolations go on (Brent 1973).
    """
    from scipy.optimize import brentq

    def clipped(epsilon: float) -> float:
        return float(np.clip(excess(epsilon), -1e4, 1e4))

    right, x = start, start * (1.0 - near)
    for _ in range(_SECANTS):
        if right - x <= 1e-13 * right:
            break
        if (value := clipped(x)) > 0.0:
            return float(brentq(clipped, x, right, xtol=1e-300, rtol=1e-13, maxiter=500))
        slope = (clipped(right) - value) / (right - x)
        right, x = x, max(x - value / slope, 0.0) if slope < 0.0 else x / 2
    return right


def _on_grid(product: "ProductPair", epsilon: FloatArray) -> FloatArray:
    """Log delta at each epsilon >= 0 on grids that are shared, or are made for these epsilons if the contour fails."""
    result, epsilon = np.full(len(epsilon), -np.inf), np.minimum(epsilon, _FARTHEST)
    below = epsilon < _top(product)
    result[below] = product.grids.log_deltas(epsilon[below])
    while product.smooth and below.any():
        centre = float(epsilon[below].min())
        made = grid.compose_at_epsilon(product.members, centre)
        near = below & (epsilon <= centre + made.valid_radius)
        result[near] = np.fmin(result[near], [made.log_delta(float(x)) for x in epsilon[near]])
        below &= ~near
    return result


def _by_basic_composition(product: "ProductPair", log_delta: float) -> Answer:
    """Epsilons of single releases at equal shares of delta, added up (Dwork et al. 2006); +inf for many members."""
    found = np.inf
    if len(product.members) <= _FEW:
        share = log_delta - float(np.log(sum(times for _, times in product.members))) - 1e-12
        found = weighted_sum_up((pair.least_epsilon(share), times) for pair, times in product.members)
    return Answer(found, "basic composition")

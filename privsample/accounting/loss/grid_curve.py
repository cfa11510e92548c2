"""The privacy curve of a composition from the masses of its loss on a grid (grid.md, sections 6 and 8)."""

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from privsample._checks import FloatArray
from privsample._logspace import log1mexp
from privsample.accounting.loss.grid_plan import FAR, log_complement

_EPS = float(np.finfo(np.float64).eps)
_STEEPER = 1.1  # quotient of a saddle point and the largest tilt that is accepted
_ROUNDING = 1e-9  # nats; next to nothing beside the discretization error


@dataclass(frozen=True, slots=True)
class Composition:
    """Privacy curve of the summed loss at grid nodes, (nodes,), rounded up; linear in e^epsilon between the nodes.

    The curve at the nodes is e^scale delta + e^log_beyond + e^{log_missing - tilt (epsilon - centre)}. The slope of the
    first part below a node with respect to e^{epsilon - centre} is -e^scale tail. The last part bounds the effect of
    mass that the nodes lack (grid.md, section 8). `valid_radius` is the distance above `centre` up to which the curve
    is tight; `loss_rounding` bounds the rounding error of the summed grid losses in nats. The part of delta that bounds
    rounding errors and missing mass is about e^{log_rounding - tilt (epsilon - centre)}. The step is fine enough for
    saddle points up to `largest_tilt`; +inf if it suits all questions that the grid is for.
    """

    nodes: FloatArray
    delta: FloatArray
    tail: FloatArray
    step: float
    centre: float
    scale: float
    log_beyond: float
    valid_radius: float
    loss_rounding: float
    tilt: float = 0.0
    log_missing: float = -np.inf
    log_rounding: float = -np.inf
    largest_tilt: float = np.inf

    def log_delta(self, epsilon: float) -> float:
        """Log delta at epsilon, rounded up; 0 more than a step below the first node, +inf if there are no nodes."""
        if not len(self.nodes):  # the step exceeds the representable range
            return np.inf
        # Losses are reduced by their rounding error before the lookup, which increases delta.
        at = int(np.searchsorted(self.nodes, epsilon - self.loss_rounding))
        if epsilon - self.loss_rounding < self.nodes[0] - self.step:
            return 0.0
        rest = self.delta[-1]
        if at < len(self.nodes):
            below = -np.expm1(epsilon - self.loss_rounding - self.nodes[at]) * np.exp(self.nodes[at] - self.centre)
            rest = self.delta[at] + self.tail[at] * below
        with np.errstate(divide="ignore"):
            near = self.scale + np.log(rest) + 8 * _EPS * (1 + abs(self.scale))
            found = float(np.logaddexp(near, self.log_beyond)) + 8 * _EPS
        if self.log_missing == -np.inf:
            return found
        return float(np.logaddexp(found, self._missing(epsilon - self.loss_rounding))) + 8 * _EPS

    def _missing(self, epsilon: float) -> float:
        """Logarithm of the bound on the effect of missing mass at epsilon, rounded up."""
        exponent = self.tilt * (epsilon - self.centre)
        return self.log_missing - exponent + 8 * _EPS * (abs(exponent) + abs(self.log_missing))

    def resolves(self, epsilon: float) -> bool:
        """True if epsilon lies among the nodes, and the step is fine enough there."""
        if not (len(self.nodes) and self.nodes[0] <= epsilon < self.nodes[-1]):
            return False
        if self.largest_tilt == np.inf:
            return True
        at = int(np.searchsorted(self.nodes, epsilon))
        # The negative logarithmic slope of the curve is about the saddle point.
        slope = self.tail[at] * np.exp(self.nodes[at] - self.centre)
        return bool(slope <= (1.0 + _STEEPER * self.largest_tilt) * self.delta[at])

    def is_sharp(self, epsilon: float, log_delta: float) -> bool:
        """True if bounds on rounding errors and missing mass raise epsilon by less than `_ROUNDING` nats.

        It is also true if they raise delta by at most twice the share by which they raise it at the centre.
        """
        share = self.log_rounding - self.tilt * (epsilon - self.centre) - log_delta
        if share <= np.log(_ROUNDING * (1.0 + self.tilt)):
            return True
        return bool(share <= self.log_rounding - self.log_delta(self.centre) + np.log(2.0))

    def epsilon(self, log_delta: float) -> float:
        """Smallest epsilon >= 0 with at most this log delta, rounded up; +inf if the truncated mass alone exceeds it.

        The interpolation is solved for e^epsilon (grid.md, section 6).
        """
        found = self._epsilon(log_delta)
        if self.log_missing == -np.inf or found == np.inf:
            return found
        # The effect of missing mass decreases in epsilon, and the result is not below the first value.
        missing = self._missing(found - 2 * self.loss_rounding)
        return self._epsilon(log_delta + float(log1mexp(missing - log_delta))) if missing < log_delta else np.inf

    def _epsilon(self, log_delta: float) -> float:
        """As `epsilon`, without the effect of missing mass."""
        if not log_delta > self.log_beyond:
            return np.inf
        goal = np.exp(min(log_delta - self.scale, 2 * FAR)) * -np.expm1(self.log_beyond - log_delta)
        at = len(self.delta) - int(np.searchsorted(self.delta[::-1], goal, "right"))  # NaN counts as too large
        if at >= len(self.nodes):
            return np.inf
        with np.errstate(over="ignore"):  # any share above 1 means that epsilon lies below this node
            share = (goal - self.delta[at]) / max(self.tail[at] * np.exp(self.nodes[at] - self.centre), 1e-300)
        epsilon = self.nodes[at] + (np.log1p(-share) if share < 1.0 else -np.inf)
        epsilon = max(float(epsilon), float(self.nodes[at]) - self.step, 0.0) + self.loss_rounding
        return epsilon * (1 + 4 * _EPS) + 8 * _EPS * (1 + abs(self.scale))


def composition_of_masses(
    masses: FloatArray,
    nodes: FloatArray,
    step: float,
    *,
    tilt: float,
    centre: float,
    log_moment: float,
    **fields: float,
) -> Composition:
    """The curve of a sum with tilted masses at the nodes ..., nodes - step, nodes (grid.md, section 6).

    `log_moment` is the logarithm of the moment by which the tilted masses were divided, rounded up.
    """
    # Section 5: the rounding error of the exponents c * node.
    masses = masses * (1.0 + 2 * _EPS * (2.0 + tilt * (np.abs(nodes) + abs(centre))))
    # Remove the tilt. The exponent is clipped from below, which rounds masses far above the centre up.
    p = masses * np.exp(np.clip(-tilt * (nodes - centre), -FAR, 2 * FAR))
    used = (nodes >= max(centre - FAR / (tilt + 1.0), -step)) & (nodes <= centre + FAR)
    far = float(p[nodes > centre + FAR].sum())  # counts in full at every epsilon, as an infinite loss would
    p, nodes = p[used], nodes[used]
    # Section 6: Q masses above each node, and delta as a sum of positive differences.
    tail = np.cumsum((p * np.exp(centre - nodes))[::-1])[::-1]
    falls = tail * np.exp(nodes - centre) * -np.expm1(-step)
    delta = np.append(np.cumsum(falls[:0:-1])[::-1], 0.0) + far
    slack = 1.0 + 4 * _EPS * len(nodes)  # rounding error of the cumulative sums
    return Composition(
        nodes=nodes,
        delta=delta * slack,
        tail=tail * slack,
        step=step,
        centre=centre,
        scale=log_moment - tilt * centre + 8 * _EPS * abs(tilt * centre),
        tilt=tilt,
        **fields,
    )


def log_infinite_mass(members: Iterable[tuple[int, float, float]]) -> float:
    """Logarithm of the mass of infinite sums, for members (times, log P mass of finite losses, log infinity mass).

    Masses that were rounded up to a total above 1 raise the result.
    """
    excess, finite = [], []
    for times, log_mass, log_infinite in members:
        total = float(np.logaddexp(log_mass, log_infinite))
        excess.append(times * max(total, 0.0))
        finite.append(times * log_complement(log_infinite - total))
    return math.fsum(excess) + float(log1mexp(math.fsum(finite))) + 8 * _EPS

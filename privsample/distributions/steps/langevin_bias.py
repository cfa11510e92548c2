"""How far the last state of a Langevin chain is from the posterior, and the public choice of steps (langevin.md)."""

import math

import numpy as np

from privsample._checks import FloatArray, count_noun, nonnegative, positive, positive_integer
from privsample._value import frozen_value, set_fields

FORGOTTEN = 0.01  # default numbers of steps reduce the influence of the start to this fraction
SHORT = 0.1  # chains that may keep more of their start are said to be short
_STEPS_PER_CONDITION = 10.0
_MOST_STEPS, _FEWEST_STEPS = 100_000, 100
_MOST_VISITS = 2e10  # numbers read in all steps of a default choice, about 60 s


@frozen_value
class LangevinBias:
    """The distance of the last state of a Langevin chain from the posterior, in units of the prior.

    It concerns utility only: the privacy account holds for every number of steps and does not use it. All quantities
    are computed from public parameters, and hold for every dataset. `statement()` says the most important ones:
    `largest_start`, the fraction of the distance between the start and the posterior mean that may be left, and
    `largest_widening`, the largest factor by which draws are too wide. `wasserstein` bounds the whole distance;
    `centring(curvature)` and `widening(curvature)` hold for one direction. Where `largest_start` is near 1, the chain
    has not moved, and its draws say nothing about the posterior: give more steps.

    Parameters
    ----------
    strong_convexity : float
        Strong convexity m of the negative log posterior, finite and >= 0; 1 in units of a proper prior.
    smoothness : float
        Lipschitz constant M of its gradient, finite and >= m, > 0.
    step_size : float
        Step size, finite and > 0.
    steps : int
        Number of steps, >= 1.
    dimension : int
        Number of coefficients, >= 1.
    start_distance : float
        Upper bound on the Wasserstein-2 distance of the initial state from the posterior, >= 0.

    Raises
    ------
    TypeError, ValueError
        If a field has the wrong type or is out of range.

    Notes
    -----
    Dalalyan and Karagulyan 2019, Theorem 1; docs/notes/langevin.md, section 6. Kind: upper bound for `wasserstein`;
    for Gaussian posteriors `centring` is exact, and `widening` is the exact limit of many steps.

    Examples
    --------
    >>> import privsample as ps
    >>> bias = ps.LangevinBias(
    ...     strong_convexity=0.25, smoothness=1, step_size=0.01, steps=10_000, dimension=2, start_distance=1
    ... )
    >>> round(bias.wasserstein, 2), round(bias.widening(1.0), 4)
    (0.56, 1.0025)
    >>> round(bias.largest_start, 4), round(bias.largest_widening, 4)
    (0.0, 1.0025)
    """

    strong_convexity: float
    smoothness: float
    step_size: float
    steps: int
    dimension: int
    start_distance: float

    def __post_init__(self) -> None:
        set_fields(
            self,
            strong_convexity=nonnegative(strong_convexity=self.strong_convexity),
            smoothness=positive(smoothness=self.smoothness),
            step_size=positive(step_size=self.step_size),
            steps=positive_integer(steps=self.steps),
            dimension=positive_integer(dimension=self.dimension),
            start_distance=nonnegative(start_distance=self.start_distance),
        )
        if not self.strong_convexity <= self.smoothness:
            raise ValueError(
                f"strong_convexity must be at most smoothness = {self.smoothness:g}, got {self.strong_convexity:g}"
            )

    @property
    def wasserstein(self) -> float:
        """Upper bound on the Wasserstein-2 distance from the posterior; +inf if no bound is known.

        No bound is known for a flat prior (m = 0) and for step sizes above 2/(m + M).
        """
        return float(self._bounds(np.array([self.step_size]))[0])

    @property
    def largest_widening(self) -> float:
        """The widening of the direction with the largest curvature that public parameters allow."""
        return self.widening(self.smoothness)

    @property
    def largest_start(self) -> float:
        """The largest fraction of the start's distance that is left in a direction, for a Gaussian posterior.

        `centring` is convex in the curvature, so that its maximum is at m or, for large steps, at M.
        """
        return max(self.centring(self.strong_convexity), self.centring(self.smoothness))

    @property
    def sufficient_steps(self) -> float:
        """The number 10 (m + M)/m of steps, enough for every direction with a step size near 1/M; +inf for m = 0."""
        return _steps_for_all(self.strong_convexity, self.smoothness)

    def caution(self) -> str:
        """What may be wrong if more than a tenth of the start is left in some direction, and what to do.

        Returns
        -------
        str
            A sentence without a full stop; empty if `largest_start` is at most 0.1.
        """
        if not self.largest_start > SHORT:
            return ""
        steps = f"{count_noun(self.steps, 'Langevin step')} of size {self.step_size:.3g}"
        if self.centring(self.smoothness) > SHORT:
            return (
                f"The chains may not settle: {steps} overshoot where the curvature is the largest; take smaller steps"
            )
        if self.strong_convexity == 0.0:
            return f"The chains may be too short: the prior is flat, and {steps} need not suffice for every coefficient"
        curvature = -math.expm1(math.log(SHORT) / self.steps) / self.step_size  # of the direction that keeps SHORT
        return (
            f"The chains may be too short: after {steps}, more than {SHORT:.0%} of the distance between the start and "
            "the mean of a Gaussian posterior remains for coefficients whose posterior standard deviation is above "
            f"{curvature**-0.5:.2g} times that of the prior. These are then too close to the start, and their "
            f"intervals too narrow; give more steps: about {float(f'{self.sufficient_steps:.2g}'):,.0f} would suffice "
            "for every coefficient"
        )

    def statement(self) -> str:
        """How far the draws would be from a Gaussian posterior, in words, or `caution` if that is far.

        Returns
        -------
        str
            One or two sentences.
        """
        return (
            f"{self.caution()}."
            if self.caution()
            else (
                f"After {count_noun(self.steps, 'Langevin step')} of size {self.step_size:.3g}, if the posterior were "
                f"Gaussian, at most {100.0 * self.largest_start:.2g} % of the distance between the start and its mean "
                "would remain, and the draws would have standard deviations at most "
                f"{100.0 * (self.largest_widening - 1.0):.1f} % too large, each in the worst direction."
            )
        )

    def widening(self, curvature: float) -> float:
        """Ratio of the standard deviation after many steps to that of the posterior, in a direction of this curvature.

        Parameters
        ----------
        curvature : float
            Second derivative of the negative log posterior, > 0, in units of the prior.

        Returns
        -------
        float
            (1 - step_size curvature/2)^(-1/2), the limit for a Gaussian posterior; +inf if the chain diverges.
        """
        left = 1.0 - self.step_size * positive(curvature=curvature) / 2.0
        return left**-0.5 if left > 0.0 else math.inf

    def centring(self, curvature: float) -> float:
        """The fraction of the distance between the start and the posterior mean that is left after all steps.

        Parameters
        ----------
        curvature : float
            Second derivative of the negative log posterior, >= 0, in units of the prior.

        Returns
        -------
        float
            |1 - step_size curvature|^steps, exact for a Gaussian posterior.
        """
        factor = abs(1.0 - self.step_size * nonnegative(curvature=curvature))
        return float(min(factor, 1.0) ** self.steps) if factor <= 1.0 else math.inf

    def _bounds(self, step_sizes: FloatArray) -> FloatArray:
        """The Wasserstein bound for other step sizes, shape (k,)."""
        m, top = self.strong_convexity, self.smoothness
        if m == 0.0:
            return np.full(len(step_sizes), np.inf)
        start = np.exp(self.steps * np.log1p(-np.minimum(step_sizes * m, 1.0 - 1e-16))) * self.start_distance
        bracket = np.sqrt(top * step_sizes) / 2.0 + 2.0 * math.sqrt(2.0) / 3.0
        found = start + top / m * np.sqrt(step_sizes * self.dimension) * bracket
        return np.asarray(np.where(step_sizes * (m + top) <= 2.0, found, np.inf))


def _steps_for_all(strong_convexity: float, smoothness: float) -> float:
    """10 (m + M)/m, after which no direction keeps its start at a step size near 1/M; +inf for m = 0."""
    if strong_convexity == 0.0:
        return math.inf
    return _STEPS_PER_CONDITION * (strong_convexity + smoothness) / strong_convexity


def best_step_size(
    strong_convexity: float, smoothness: float, *, steps: int, dimension: int, start_distance: float
) -> float:
    """The step size in [low, 1/(m + M)] with the least Wasserstein bound; 1/M for a flat prior, where none is known.

    The bound holds up to 2/(m + M), where the direction of the largest curvature would be far too wide; up to
    1/(m + M) no direction is widened by more than sqrt(2). The bound is loose, so that it would at times prefer a chain
    that hardly leaves its start: with `low` the chain forgets the start to `FORGOTTEN`, if the upper limit does.
    """
    if strong_convexity == 0.0:
        return 1.0 / smoothness
    top = 1.0 / (strong_convexity + smoothness)
    low = min(-math.expm1(math.log(FORGOTTEN) / steps) / strong_convexity, top)
    model = LangevinBias(
        strong_convexity=strong_convexity,
        smoothness=smoothness,
        step_size=top,
        steps=steps,
        dimension=dimension,
        start_distance=start_distance,
    )
    grid = np.geomspace(low, top, 200)
    place = int(np.argmin(model._bounds(grid)))
    near = np.geomspace(grid[max(place - 1, 0)], grid[min(place + 1, len(grid) - 1)], 101)
    return float(min(max(near[int(np.argmin(model._bounds(near)))], low), top))


def default_steps(strong_convexity: float, smoothness: float, step_size: float | None, *, visits: int) -> int:
    """A public number of steps after which the chain has forgotten its start, unless that takes too long.

    Given a step size, so many that the fraction `FORGOTTEN` of the start is left; otherwise 10 (m + M)/m. At most
    100,000; fewer, but at least 100, if more than 2e10 numbers would be read, `visits` in each step. Raises ValueError
    for a flat prior.
    """
    if strong_convexity == 0.0:
        raise ValueError(
            "steps must be given with a flat prior: the posterior may be improper, so that no number of steps lets the "
            "chain forget its start; the account holds for any number"
        )
    if step_size is None:
        wanted = _steps_for_all(strong_convexity, smoothness)
    else:
        rate = step_size * strong_convexity
        wanted = math.log(FORGOTTEN) / math.log1p(-rate) if 0.0 < rate < 1.0 else (1.0 if rate >= 1.0 else math.inf)
    most = min(max(_MOST_VISITS / visits, _FEWEST_STEPS), _MOST_STEPS)
    return max(1, math.ceil(min(wanted, most)))

"""Accounts of the last state of a Langevin chain (langevin.md).

The theorem extends the shifted chain of notes/contraction.md to gradients that differ in every step; it needs no
convergence of the chain.
"""

import math
from dataclasses import replace
from fractions import Fraction
from typing import Self

from privsample._checks import nonnegative, nonnegative_integer, positive, positive_integer
from privsample._logspace import half_square, product_up
from privsample._value import cached, frozen_value, set_fields
from privsample.accounting.assumptions import Assumption
from privsample.accounting.base import Accountant
from privsample.accounting.engine.bounds import PrivacyBounds
from privsample.accounting.loss.gaussian import GaussianPair
from privsample.relations import AddRemove, ReplaceOne

_UP = 1.0 + 2.0**-48  # bounds the relative rounding error of some ten operations
_SHORT = 1e-13  # T times the contraction gap; below it T itself is the bound, larger by no more than this


@frozen_value
class LangevinAccountant(Accountant):
    """The last states of independent Langevin chains x -> x - step_size gradient(x) + sqrt(2 step_size) N(0, I).

    The chains start at a state or distribution that depends on no record. The account is an upper bound for the steps
    that are made, whatever their number; it does not assume that the chains have converged.

    Parameters
    ----------
    gradient_sensitivity : float
        Largest L2 distance G between the gradients of the potentials (negative log densities) of two neighbouring
        datasets at any state, finite and > 0.
    strong_convexity : float
        Strong convexity m of the potential of every dataset, finite and >= 0.
    smoothness : float
        Lipschitz constant M of the gradient of every dataset, finite and >= `strong_convexity`, > 0.
    step_size : float
        Step size, > 0 and at most 2/`smoothness`.
    steps : int
        Number of steps of each chain, >= 1.
    draws : int, default 1
        Number of independent chains, whose last states are released, >= 1.
    relation : ReplaceOne or AddRemove, default AddRemove()
        The neighbouring relation for which `gradient_sensitivity` holds.
    assumptions : frozenset of Assumption, default {FLOAT_CHAIN}
        Conditions that the account does not prove.

    Raises
    ------
    TypeError
        If a parameter has the wrong type.
    ValueError
        If a parameter is out of its range; a larger step size would expand distances between chains.

    Notes
    -----
    docs/notes/langevin.md, sections 1 and 2, with the shifted chains of Balle, Barthe, Gaboardi and Geumlek 2019.
    Kind: upper bound, attained by gradients that are linear with slope m and differ by a constant.

    Examples
    --------
    >>> import privsample as ps
    >>> account = ps.LangevinAccountant(
    ...     gradient_sensitivity=2, strong_convexity=1, smoothness=5, step_size=0.1, steps=50
    ... )
    >>> round(account.shift, 6), round(float(account.epsilon(1e-6)), 3)
    (1.939338, 10.596)
    """

    gradient_sensitivity: float
    strong_convexity: float
    smoothness: float
    step_size: float
    steps: int
    draws: int = 1
    relation: AddRemove | ReplaceOne = AddRemove()
    assumptions: frozenset[Assumption] = frozenset({Assumption.FLOAT_CHAIN})

    def __post_init__(self) -> None:
        set_fields(
            self,
            gradient_sensitivity=positive(gradient_sensitivity=self.gradient_sensitivity),
            strong_convexity=nonnegative(strong_convexity=self.strong_convexity),
            smoothness=positive(smoothness=self.smoothness),
            step_size=positive(step_size=self.step_size),
            steps=positive_integer(steps=self.steps),
            draws=positive_integer(draws=self.draws),
        )
        if not isinstance(self.relation, (ReplaceOne, AddRemove)):
            raise TypeError(f"relation must be ReplaceOne(...) or AddRemove(...), got {type(self.relation).__name__}")
        if not self.strong_convexity <= self.smoothness:
            raise ValueError(
                f"strong_convexity must be at most smoothness = {self.smoothness:g}, got {self.strong_convexity:g}"
            )
        check_step_size(self.step_size, self.smoothness)
        positive(**{"gradient_sensitivity * sqrt(step_size * steps * draws)": self.shift})

    @property
    def source(self) -> str:
        """Theorem and note that prove the account."""
        return "privsample notes, langevin.md (last state of a Langevin chain)"

    @property
    def contraction_gap(self) -> float:
        """1 - c, rounded down, with the Lipschitz constant c = max(|1 - step_size m|, |1 - step_size M|) of a step."""
        return rounded_down(contraction_gap(self.strong_convexity, self.smoothness, self.step_size))

    @cached
    def shift(self) -> float:
        """mu of Gaussian differential privacy of all draws together (Dong, Roth and Su 2022), rounded up."""
        half = effective_steps(self.contraction_gap, self.steps) * self.draws / 2.0
        # The root of a subnormal step size has full precision, a product with it has not; the last product may be one.
        found = self.gradient_sensitivity * (math.sqrt(self.step_size) * math.sqrt(half)) * _UP
        return math.nextafter(found, math.inf)

    def _bounds(self) -> PrivacyBounds:
        """Bounds by one Gaussian pair, which no pair of records need attain."""
        pair = GaussianPair(mu=self.shift)
        return PrivacyBounds.from_pairs([pair], zcdp=half_square(self.shift), exact=frozenset())

    def for_sizes(self, low: int, high: int) -> Accountant:
        """The account itself for at most the stated n records: fewer records have no larger smoothness.

        Raises TypeError for more records than n.
        """
        high = nonnegative_integer(high=high)
        if isinstance(self.relation, ReplaceOne) and high > self.relation.n:
            return Accountant.for_sizes(self, low, high)
        return self

    def group(self, size: int) -> Self:
        """The account of groups of `size` records, with `size` times the gradient sensitivity; at most n under
        ReplaceOne.
        """
        relation = self.relation.group(positive_integer(size=size))
        times = -(-relation.members // self.relation.members)  # rounded up
        return replace(
            self, relation=relation, gradient_sensitivity=float(product_up(self.gradient_sensitivity, times))
        )


def contraction_gap(strong_convexity: float, smoothness: float, step_size: float) -> Fraction:
    """min(step_size m, 2 - step_size M), exactly; negative if steps expand."""
    step = Fraction(step_size)
    return min(step * Fraction(strong_convexity), 2 - step * Fraction(smoothness))


def check_step_size(step_size: float, smoothness: float) -> None:
    """Raise ValueError if the step size is above 2/smoothness."""
    if not Fraction(step_size) * Fraction(smoothness) <= 2:
        most = rounded_down(2 / Fraction(smoothness))
        raise ValueError(
            f"step_size must be at most 2/smoothness = {most!r} here, got {step_size!r}: larger steps expand the "
            "distance between chains, and no account is known; lower step_size"
        )


def effective_steps(gap: float, steps: int) -> float:
    """(1+c)/(1-c) (1-c^T)/(1+c^T) with c = 1 - gap: how many steps' information the last state holds, at most T.

    Computed as tanh(T l/2)/tanh(l/2) with l = -log(c) and tanh(l/2) = gap/(2 - gap), without cancellation
    (langevin.md, section 2).
    """
    if gap >= 1.0:
        return 1.0
    if not gap * steps > _SHORT:
        return float(steps)
    return min(float(steps), math.tanh(-steps * math.log1p(-gap) / 2.0) * (2.0 - gap) / gap)


def rounded_down(value: Fraction) -> float:
    """The largest float that is at most `value`."""
    found = float(value)
    return found if Fraction(found) <= value else math.nextafter(found, -math.inf)

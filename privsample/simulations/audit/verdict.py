"""What an audit found, in numbers and in words."""

from typing import Literal

import numpy as np

from privsample._checks import FloatArray, finite, positive_integer, probability, real_array
from privsample._value import frozen_value, set_fields
from privsample.accounting.loss.gaussian import GaussianPair
from privsample.simulations.report.statements import small

Outcome = Literal["VIOLATED", "CONSISTENT"]

_MANY = 1e9  # draws that nobody makes


@frozen_value
class Verdict:
    """What an audit found: VIOLATED or CONSISTENT, never more.

    One event was tested: with `samples` draws from each dataset that were used for nothing else, `p_value` bounds the
    chance of such evidence under a true claim of `claim` at `epsilon`. The other limits hold together, with
    probability 1 - `level` over the audit's own draws: the true privacy curve at `epsilons` is at least `lowers`
    (`uppers` limit the worth of the same events, not the curve), and the Rényi curve at `orders` at least `renyi`.
    Epsilon is at least `empirical_epsilon` at `empirical_delta`, a limit that holds with those; `claimed_epsilon` is
    the least of `epsilons` that is claimed at this delta.
    With fewer than `needed` draws from each dataset no outcome at all could refute the claim. An audit takes `overhead`
    times as many draws as it keeps for evidence.
    """

    pair: str
    epsilon: float
    claim: float
    p_value: float
    lower: float
    samples: int
    needed: float
    level: float
    epsilons: FloatArray
    claims: FloatArray
    lowers: FloatArray
    uppers: FloatArray
    orders: FloatArray
    renyi: FloatArray
    overhead: float = 1.0
    empirical_epsilon: float = 0.0
    empirical_delta: float = 0.0
    claimed_epsilon: float = 0.0

    def __post_init__(self) -> None:
        set_fields(self, epsilon=finite(epsilon=self.epsilon), samples=positive_integer(samples=self.samples))
        for name in ("epsilons", "claims", "lowers", "uppers", "orders", "renyi"):
            array = np.array(real_array(**{name: getattr(self, name)}))
            array.flags.writeable = False
            set_fields(self, **{name: array})
        set_fields(
            self,
            empirical_epsilon=finite(empirical_epsilon=self.empirical_epsilon),
            claimed_epsilon=finite(claimed_epsilon=self.claimed_epsilon),
        )
        for name in ("claim", "p_value", "lower", "claims", "lowers", "uppers", "empirical_delta"):
            if not np.all((getattr(self, name) >= 0.0) & (getattr(self, name) <= 1.0)):
                raise ValueError(f"{name} must lie in [0, 1], got {getattr(self, name)!r}")

    def __str__(self) -> str:
        return self.statement

    @property
    def violated(self) -> bool:
        """Whether the evidence refutes the claim at the level."""
        return self.p_value <= self.level

    @property
    def outcome(self) -> Outcome:
        """VIOLATED or CONSISTENT."""
        return "VIOLATED" if self.violated else "CONSISTENT"

    @property
    def mu(self) -> float:
        """A lower limit of every mu for which the mechanism can be mu-Gaussian differentially private."""
        return max(map(_least_mu, self.epsilons, self.lowers), default=0.0)

    def epsilon_at(self, delta: float) -> float:
        """A lower limit of epsilon at delta: no smaller one can be claimed."""
        beaten = self.epsilons[self.lowers > probability(delta=delta)]
        return float(beaten.max(initial=0.0))

    @property
    def statement(self) -> str:
        """The verdict in plain words, with what it rests on."""
        basis = (
            f"{self.samples:,} draw{'' if self.samples == 1 else 's'} from each of two neighbouring datasets "
            f"({self.pair})"
        )
        at = f"{basis} at epsilon = {self.epsilon:.4g}"
        if self.violated:
            return (
                f"VIOLATED: {at} show a delta of at least {self.lower:.4g}, above the claimed {self.claim:.4g} "
                f"(p = {self.p_value:.2g}). A true claim is called violated with probability at most "
                f"{small(self.level)}.{self._certified}"
            )
        # A claim of 0 and a limit of 0 say nothing of the point that they belong to: it is left out.
        says = f"{at} do not refute the claimed delta of {self.claim:.4g}"
        tells = self.claim > 0.0 or self.lower > 0.0
        return (
            f"CONSISTENT: {says if tells else f'{basis} do not refute the claim'}{self._reach}. This is no proof."
            f"{self._certified}"
        )

    @property
    def _certified(self) -> str:
        """The epsilon that the draws certify, beside the claimed one."""
        if not self.empirical_epsilon > 0.0:
            return ""
        return (
            f" Certified by the draws: epsilon is at least {self.empirical_epsilon:.4g} at delta = "
            f"{self.empirical_delta:.4g}, where {self.claimed_epsilon:.4g} is claimed."
        )

    @property
    def _reach(self) -> str:
        """What the draws could have said."""
        if self.needed == np.inf:
            return "; no draws could"
        if self.samples < self.needed:
            few, asked = "; they are too few to say anything: at least", np.ceil(self.needed * self.overhead)
            if asked > _MANY:
                return f"{few} {self.needed:.2g} such draws are needed"
            return f"{few} {self.needed:,.0f} such draws are needed, which {asked:.0f} samples leave"
        if self.lower > 0.0:
            return f"; they would have refuted a claim below {self.lower:.4g}"
        return ", nor one of 0" if self.claim > 0.0 else ""


def _least_mu(epsilon: float, delta: float) -> float:
    """The mu whose Gaussian curve passes through (epsilon, delta), rounded down; 0 for delta = 0."""
    low, high = 0.0, 1.0
    while delta > 0.0 and high < 1e6 and _reaches(high, epsilon) < delta:
        low, high = high, 2 * high
    for _ in range(40 if delta > 0.0 else 0):
        middle = (low + high) / 2
        low, high = (middle, high) if _reaches(middle, epsilon) < delta else (low, middle)
    return low


def _reaches(mu: float, epsilon: float) -> float:
    return float(np.exp(GaussianPair(mu=mu).log_delta(np.array([epsilon]))[0]))

"""What an audit found, in numbers and in words."""

from typing import Literal

import numpy as np

from privsample._checks import FloatArray, finite, positive_integer, probability, real_array
from privsample._value import put, value
from privsample.accounting.loss.gaussian import GaussianPair
from privsample.simulations.report.words import small

Outcome = Literal["VIOLATED", "CONSISTENT"]

_MANY = 1e9  # draws that nobody makes


@value
class Verdict:
    """What an audit found: VIOLATED or CONSISTENT, never more.

    One event was tested: with `samples` draws from each dataset that were used for nothing else, `p_value` bounds the
    chance of such evidence under a true claim of `claim` at `epsilon`. The other limits hold together, with
    probability 1 - `level` over the audit's own draws: the true privacy curve at `epsilons` is at least `lowers`
    (`uppers` limit the worth of the same events, not the curve), and the Renyi curve at `orders` at least `renyi`.
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

    def __post_init__(self) -> None:
        put(self, epsilon=finite(epsilon=self.epsilon), samples=positive_integer(samples=self.samples))
        for name in ("epsilons", "claims", "lowers", "uppers", "orders", "renyi"):
            array = np.array(real_array(**{name: getattr(self, name)}))
            array.flags.writeable = False
            put(self, **{name: array})
        for name in ("claim", "p_value", "lower", "claims", "lowers", "uppers"):
            if not np.all((getattr(self, name) >= 0.0) & (getattr(self, name) <= 1.0)):
                raise ValueError(f"{name} must lie in [0, 1], got {getattr(self, name)!r}")

    def __str__(self) -> str:
        return self.words

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
    def words(self) -> str:
        """The verdict in plain words, with what it rests on."""
        basis = (
            f"{self.samples:,} draw{'' if self.samples == 1 else 's'} from each of two neighbouring datasets "
            f"({self.pair}) at epsilon = {self.epsilon:.4g}"
        )
        if self.violated:
            return (
                f"VIOLATED: {basis} show a delta of at least {self.lower:.4g}, above the claimed {self.claim:.4g} "
                f"(p = {self.p_value:.2g}). A true claim is called violated with probability at most "
                f"{small(self.level)}."
            )
        return (
            f"CONSISTENT: {basis} do not refute the claimed delta of {self.claim:.4g}{self._reach}. This is no proof."
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

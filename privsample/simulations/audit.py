"""Monte-Carlo audits: draw from two neighbouring datasets and try to refute the claimed privacy curve.

The event {log p/q > epsilon} is fixed beforehand from the two known densities, so the certified bound is valid
whatever the sampler really draws from. An audit can refute a claim; it cannot prove one.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy import special

from privsample._checks import FloatArray, finite, generator, number, positive, positive_integer
from privsample._value import put, value
from privsample.mechanisms.base import Mechanism
from privsample.simulations.neighbours import Dataset, Neighbours, neighbours
from privsample.simulations.words import small

Outcome = Literal["VIOLATED", "CONSISTENT"]
_BLOCK = 4_000_000  # numbers drawn at a time


@value
class Verdict:
    """What an audit of one draw found: VIOLATED or CONSISTENT, never more.

    With probability 1 - level over the audit's own draws, for all pairs and events it looked at at once: the true
    privacy curve at `epsilon` is at least `lower`, and the event that gave `lower` is worth at most `upper` (other
    events, and other neighbours, may be worth more).
    """

    pair: str
    epsilon: float
    claim: float
    lower: float
    upper: float
    samples: int
    level: float

    def __post_init__(self) -> None:
        put(self, epsilon=finite(epsilon=self.epsilon), samples=positive_integer(samples=self.samples))
        for name in ("claim", "lower", "upper"):
            if not (0.0 <= getattr(self, name) <= 1.0):
                raise ValueError(f"{name} must lie in [0, 1], got {getattr(self, name)!r}")

    @property
    def violated(self) -> bool:
        """Whether the certified lower bound lies above the claim."""
        return self.lower > self.claim

    @property
    def outcome(self) -> Outcome:
        """VIOLATED or CONSISTENT."""
        return "VIOLATED" if self.violated else "CONSISTENT"

    @property
    def words(self) -> str:
        """The verdict in plain words, with what it rests on."""
        basis = (
            f"{self.samples:,} draws from each of two neighbouring datasets ({self.pair}) "
            f"at epsilon = {self.epsilon:.4g}"
        )
        if self.violated:
            return (
                f"VIOLATED: {basis} show a delta of at least {self.lower:.4g}, above the claimed {self.claim:.4g}. "
                f"A true claim is called violated with probability at most {small(self.level)}."
            )
        reach = "they are too few to refute any claim at all"
        if self.lower > 0.0:
            reach = f"they would have refuted a claim below {self.lower:.4g}"
        return f"CONSISTENT: {basis} do not refute the claimed delta of {self.claim:.4g}; {reach}. This is no proof."


def audit(
    mechanism: Mechanism,
    *,
    epsilon: float,
    samples: int = 200_000,
    level: float = 1e-6,
    rng: np.random.Generator | None = None,
    claimed_delta: float | None = None,
) -> Verdict:
    """Try to refute the account of one draw at `epsilon`, by the mechanism's own `release` on its worst neighbours.

    Parameters: samples, draws from each dataset; level, the probability of calling a true claim violated;
    claimed_delta, the claim to test in place of the accountant's. Choose epsilon where delta is 0.01 to 0.2.
    Raises: TypeError, a mechanism whose worst neighbours are not known here; ValueError, too large to simulate.
    """
    claims = None if claimed_delta is None else [claimed_delta]
    (verdict,) = audit_curve(mechanism, epsilons=[epsilon], samples=samples, level=level, rng=rng, claims=claims)
    return verdict


def audit_curve(
    mechanism: Mechanism,
    *,
    epsilons: Sequence[float],
    samples: int = 200_000,
    level: float = 1e-6,
    rng: np.random.Generator | None = None,
    claims: Sequence[float] | None = None,
) -> tuple[Verdict, ...]:
    """`audit` at several epsilons on the same draws; `level` is shared by all of them together."""
    source = np.random.default_rng() if rng is None else generator(rng)
    count, points = positive_integer(samples=samples), [finite(epsilon=e) for e in epsilons]
    if not 0.0 < positive(level=level) < 1.0:
        raise ValueError(f"level must lie in (0, 1), got {level!r}")
    if not points:
        raise ValueError("epsilons must name at least one epsilon")
    cases = neighbours(mechanism)
    claimed = _claims(claims, points, cases)
    shared = per_limit(level, len(cases), len(points))
    evidence = [found for case in cases for found in _weigh(case, points, count, shared, source)]
    verdicts = []
    for at, (epsilon, claim) in enumerate(zip(points, claimed, strict=True)):
        words, lower, upper = max((row[at] for row in evidence), key=lambda found: (found[1], found[2]))
        verdicts.append(
            Verdict(pair=words, epsilon=epsilon, claim=claim, lower=lower, upper=upper, samples=count, level=level)
        )
    return tuple(verdicts)


def per_limit(level: float, cases: int, points: int) -> float:
    """The level of one limit: each case at each point has two directions, two probabilities, two limits each."""
    return level / (cases * points * 8)


def _claims(claims: Sequence[float] | None, points: list[float], cases: tuple[Neighbours, ...]) -> list[float]:
    """What is claimed of one draw at each epsilon."""
    if claims is None:
        return [float(cases[0].mechanism.accountant.delta(epsilon)) for epsilon in points]
    stated = [_delta(claim) for claim in claims]
    if len(stated) != len(points):
        raise ValueError(f"claims must be as many as epsilons, got {len(stated)} and {len(points)}")
    return stated


def _delta(claim: float) -> float:
    if not 0.0 <= number(claimed_delta=claim) <= 1.0:
        raise ValueError(f"claimed_delta must lie in [0, 1], got {claim!r}")
    return float(claim)


_Found = tuple[str, float, float]


def _weigh(
    case: Neighbours, points: list[float], samples: int, level: float, rng: np.random.Generator
) -> list[list[_Found]]:
    """For both directions: at each epsilon the words, the certified lower bound and the upper limit of the event."""
    at_p, at_q = (_losses(case, data, samples, rng) for data in case.datasets)
    here, there = case.words
    return [
        [_bounds(f"{here}, against {there}", e, at_p > e, at_q > e, level) for e in points],
        [_bounds(f"{there}, against {here}", e, -at_q > e, -at_p > e, level) for e in points],
    ]


def _losses(case: Neighbours, data: Dataset, samples: int, rng: np.random.Generator) -> FloatArray:
    """log density of the first over the second dataset's law at draws from `data`, shape (samples,).

    Where both densities overflow alike the loss is NaN, which belongs to no event: still valid, only weaker.
    """
    records, block = data(), max(1, _BLOCK // case.width)
    parts: list[FloatArray] = []
    for done in range(0, samples, block):
        drawn = case.draw(records, min(block, samples - done), rng)
        if not np.isfinite(drawn).all():
            raise ValueError("the mechanism's draws must be finite numbers, got NaN or infinity")
        with np.errstate(invalid="ignore", divide="ignore"):
            parts.append(case.loss(drawn))
    return np.concatenate(parts)


def _bounds(words: str, epsilon: float, of_p: NDArray[np.bool_], of_q: NDArray[np.bool_], level: float) -> _Found:
    """P(E) - e^epsilon Q(E) from below and from above, by Clopper-Pearson limits of both probabilities."""
    (p_low, p_high), (q_low, q_high) = (_clopper_pearson(int(hits.sum()), hits.size, level) for hits in (of_p, of_q))
    factor = np.exp(min(epsilon, 700.0))
    lower, upper = p_low - factor * q_high, p_high - factor * q_low
    return words, float(np.clip(lower, 0.0, 1.0)), float(np.clip(upper, 0.0, 1.0))


def _clopper_pearson(hits: int, samples: int, level: float) -> tuple[float, float]:
    """Limits of a probability, each wrong with probability at most `level`. Source: Clopper and Pearson 1934."""
    low = float(special.betaincinv(hits, samples - hits + 1, level)) if hits > 0 else 0.0
    high = float(special.betainccinv(hits + 1, samples - hits, level)) if hits < samples else 1.0
    return low, high


def one_draw(mechanism: Mechanism) -> Mechanism:
    """The same mechanism with a single draw."""
    return replace(mechanism, draws=1) if getattr(mechanism, "draws", 1) != 1 else mechanism  # type: ignore[type-var]


def telling_epsilons(mechanism: Mechanism, count: int = 4) -> tuple[float, ...]:
    """Epsilons from zero on at which one draw's delta is large enough for an audit to have power."""
    account = one_draw(mechanism).accountant
    top = float(account.delta(0.0))
    return tuple(float(account.epsilon(top * share)) for share in np.linspace(1.0, 0.3, positive_integer(count=count)))

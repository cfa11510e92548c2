"""Accounts of mechanisms that run on a random subsample of the records."""

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privsample._checks import FloatArray
from privsample._logspace import log1p_excess, resolved, stirling_remainder
from privsample._value import cached, frozen_value, set_fields
from privsample.accounting.assumptions import Assumption
from privsample.accounting.base import Accountant, Group
from privsample.accounting.engine.bounds import Directions, PrivacyBounds, View
from privsample.accounting.engine.envelope import BoundsEnvelope
from privsample.accounting.engine.tables import within_budget
from privsample.accounting.guarantees import ApproximateAccountant, PureAccountant
from privsample.accounting.loss.pair import LossPair
from privsample.accounting.subsampling.pairs import mixture_pair, poisson_pair, replaced_record_pair
from privsample.distributions.schemes import PoissonSampling, Scheme, WithoutReplacement, WithReplacement
from privsample.errors import RelationMismatch
from privsample.relations import AddRemove, Relation, ReplaceOne, related

_MOST_BLOCKS, _GROWTH = 1024, 1.25
_VALUES = 60  # approximate number of curve values in a search for epsilon
_BALLE = "Balle, Barthe and Gaboardi 2018"

Member = tuple[Accountant, float, float]  # account on the subsample, log weight, rate


@frozen_value
class SubsampledAccountant(Accountant):
    """A mechanism that runs on a random subsample of the records (privacy amplification by subsampling).

    The scheme determines the relation of the base and that of the result:

    - PoissonSampling, base under AddRemove: AddRemove (Theorem 8), exact if the base is exact and attained with no
      other records.
    - WithoutReplacement(n, m), base under ReplaceOne(m): ReplaceOne(n) (Theorem 9).
    - WithReplacement(n, m), base under ReplaceOne(m): ReplaceOne(n) (Theorem 10), or AddRemove if `relation` says so
      (Theorem 11); n is then a public lower bound on the size of the larger dataset.
    - PoissonSampling, base under ReplaceOne(n), with `relation`: ReplaceOne(n), as a mixture over sample sizes. Given
      the size, Theorem 9 applies; the bound is never above Theorem 14. The base must hold for samples of every size,
      which is not true of the sensitivity of a mean.

    Parameters
    ----------
    base : Accountant
        The account of the mechanism on a sample, for one record.
    scheme : Scheme
        `PoissonSampling(...)`, `WithoutReplacement(...)` or `WithReplacement(...)`.
    relation : Relation, optional
        Relation of the result where the scheme allows several; otherwise it is determined.
    assumptions : frozenset of Assumption, default frozenset()
        Assumptions of the guarantee. Those of the base are added.

    Raises
    ------
    TypeError
        If `base` is not an account, if `scheme` is not a sampling scheme, or if the base does not hold for other sizes.
    RelationMismatch
        If the relations do not match the scheme; the message names those that do.

    Notes
    -----
    Source: Balle, Barthe and Gaboardi 2018, Theorems 8 to 11 and 14; docs/notes/subsampling.md.

    Kind: exact for PoissonSampling under AddRemove if the base is exact and attained with no other records; otherwise
    upper bound.

    Examples
    --------
    >>> import privsample as ps
    >>> step = ps.SubsampledAccountant(
    ...     base=ps.GaussianAccountant(sensitivity=1, noise_std=1), scheme=ps.PoissonSampling(rate=0.01)
    ... )
    >>> round(float((1000 * step).epsilon(1e-6)), 3)
    2.125
    """

    base: Accountant
    scheme: Scheme
    relation: Relation | None = None  # type: ignore[assignment]
    assumptions: frozenset[Assumption] = frozenset()

    def __post_init__(self) -> None:
        if not isinstance(self.base, Accountant):
            raise TypeError(f"base must be an account, got {type(self.base).__name__}")
        relation = subsampled_relation(self.scheme, self.base.relation, self.relation)
        set_fields(self, relation=relation, assumptions=self.assumptions | self.base.assumptions)
        self.bounds  # noqa: B018 - raises an error if the base does not hold for other sizes

    @property
    def source(self) -> str:
        """The theorem, and the source of the base."""
        theorem = {
            "PoissonSampling under AddRemove": "Theorem 8",
            "WithoutReplacement under ReplaceOne": "Theorem 9",
            "WithReplacement under ReplaceOne": "Theorem 10",
            "WithReplacement under AddRemove": "Theorem 11",
            "PoissonSampling under ReplaceOne": "Theorem 9 for each size (it sharpens their Theorem 14)",
        }[f"{type(self.scheme).__name__} under {type(self.relation).__name__}"]
        return f"{_BALLE}, {theorem}; {self.base.source}"

    def _bounds(self) -> PrivacyBounds:
        """One pair for removal and one for addition; under ReplaceOne one pair that is its own reverse.

        If the base has an infinity mass, the Rényi curve and the pure epsilon are those of the subsampled pure
        guarantee of the base, conditional on a finite loss (subsampling.md, "Infinity mass").
        """
        exact = self._exact
        if self.base.infinity_mass == 0.0:
            largest = max(pair.max_divergence for group in self._directions for pair in group)
            # the largest loss of a table is rounded to nearest, so the pure epsilon is rounded up
            pure_epsilon = largest * (1.0 + 4 * float(np.finfo(np.float64).eps))
            return PrivacyBounds.from_pairs(*self._directions, pure_epsilon=pure_epsilon, exact=exact)
        known: dict[str, Any] = {"infinity_mass": self._infinity_mass, "exact": exact}
        if np.isfinite(self.base.pure_epsilon):
            pure = PureAccountant(stated_epsilon=self.base.pure_epsilon, relation=self.base.relation)
            given_finite = replace(self, base=pure).bounds
            known |= {"renyi": given_finite.renyi, "order_limit": np.inf, "pure_epsilon": given_finite.pure_epsilon}
        else:
            known |= {"renyi": lambda a: np.full(a.shape, np.inf), "order_limit": 1.0, "pure_epsilon": np.inf}
        return PrivacyBounds.from_pairs(*self._directions, **known)

    def _members(self, base: Accountant) -> list[Member]:
        """Members (account, log weight, rate) of the subsampled curve.

        At e >= 0 the curve is sum_i weight_i rate_i delta_i(e_i), exp(e) = 1 + rate_i (exp(e_i) - 1).
        """
        match self.scheme, self.relation:
            case WithReplacement(n=n, m=m), _:
                share = float(-np.expm1(m * np.log1p(-1.0 / n))) if n > 1 else 1.0
                return [(*_group(base, high, w - np.log(share)), share) for _, high, w in _count_blocks(m, 1.0 / n)]
            case WithoutReplacement(n=n, m=m), _:
                return [(base, 0.0, m / n)]
            case PoissonSampling(rate=rate), ReplaceOne(n=n):
                return [(base.for_sizes(low, high), w, high / n) for low, high, w in _count_blocks(n, rate)]
            case _:
                return [(base, 0.0, resolved(self.scheme.rate))]  # type: ignore[attr-defined]

    @cached
    def _directions(self) -> Directions:
        """The dominating pairs of each direction of the relation."""
        grouped: dict[tuple[LossPair, LossPair], list[tuple[float, float]]] = {}
        members = self._members(self.base)
        for account, weight, rate in members:
            grouped.setdefault(_direction_pairs(account, len(members)), []).append((rate, weight))
        if isinstance(self.relation, AddRemove):
            each = [(pairs, rate, weight) for pairs, found in grouped.items() for rate, weight in found]
            removal = mixture_pair([(poisson_pair(pairs[0], rate, removed=True), w) for pairs, rate, w in each])
            addition = mixture_pair([(poisson_pair(pairs[1], rate, removed=False), w) for pairs, rate, w in each])
            return ((removal,), (addition,))
        mixture = []
        for (pair, _), found in grouped.items():
            rates, weights = (np.array(column) for column in zip(*found, strict=True))
            total = float(np.logaddexp.reduce(weights))
            mixture.append((replaced_record_pair(pair, rates, weights - total), total))
        return ((mixture_pair(mixture),),)

    @property
    def _infinity_mass(self) -> float:
        """The infinity mass of the base times the probability that the record is sampled."""
        base = self.base
        if np.isfinite(
            base.pure_epsilon
        ):  # groups of such a base have a larger delta and remain pure conditional on a finite loss
            base = ApproximateAccountant(
                stated_epsilon=base.pure_epsilon, stated_delta=base.infinity_mass, relation=base.relation
            )
        lost = sum(np.exp(weight) * rate * account.infinity_mass for account, weight, rate in self._members(base))
        return float(np.clip(lost, np.finfo(np.float64).smallest_subnormal, 1 - 2.0**-53))

    @property
    def _exact(self) -> frozenset[View]:
        """The views that are exact: those of the base for Poisson sampling under AddRemove."""
        known = self.base.bounds.single_pairs is not None
        theorem_8 = isinstance(self.scheme, PoissonSampling) and isinstance(self.relation, AddRemove)
        return self.base.bounds.exact if theorem_8 and known else frozenset()

    def with_relation(self, relation: Relation) -> Group:
        """The same curves under another relation, which is not validated; the scheme is unchanged."""
        return Group(base=self, size=1, relation=relation)


def subsampled_relation(scheme: Scheme, base: Relation, asked: Relation | None) -> Relation:
    """The relation of a mechanism under `base` on the subsamples of a scheme; `asked` chooses among several.

    Raises RelationMismatch; the message names the relations that match.
    """
    if asked is not None:
        related(asked)
    unit = base.unit if isinstance(base, (AddRemove, ReplaceOne)) else "record"
    if isinstance(base, (AddRemove, ReplaceOne)) and base.members > 1:
        raise RelationMismatch(
            f"base must be about one record, got a base under {base}; subsample the account of one record, then use "
            f".group"
        )
    match scheme:
        case PoissonSampling():
            size = base.n if isinstance(base, ReplaceOne) else 1
            ways = [(AddRemove(unit=unit), AddRemove(unit=unit)), (ReplaceOne(n=size, unit=unit),) * 2]
            rule = "AddRemove to AddRemove, or ReplaceOne(n) to ReplaceOne(n) with relation=ReplaceOne(n=n)"
            natural: Relation = AddRemove(unit=unit)
        case WithoutReplacement(n=n, m=m):
            natural = ReplaceOne(n=n, unit=unit)
            ways = [(ReplaceOne(n=m, unit=unit), natural)]
            rule = f"ReplaceOne(n={m}) to ReplaceOne(n={n})"
        case WithReplacement(n=n, m=m):
            natural = ReplaceOne(n=n, unit=unit)
            ways = [(ReplaceOne(n=m, unit=unit), natural), (ReplaceOne(n=m, unit=unit), AddRemove(unit=unit))]
            ways = ways if n > 1 else ways[:1]
            rule = f"ReplaceOne(n={m}) to ReplaceOne(n={n}), or to AddRemove with relation=AddRemove() and n > 1"
        case _:
            raise TypeError(
                f"scheme must be PoissonSampling, WithoutReplacement or WithReplacement, got {type(scheme).__name__}"
            )
    result = natural if asked is None else asked
    if (base, result) not in ways:
        raise RelationMismatch(
            f"{type(scheme).__name__} converts {rule}, with one unit; got a base under {base} and relation {result}"
        )
    return result


def _direction_pairs(account: Accountant, members: int) -> tuple[LossPair, LossPair]:
    """One pair for removal, or for both orders, and one for addition; an envelope if there is no single pair.

    The bounds are tabulated if a search would need too many values of this account and of as many other members.
    """
    bounds = within_budget(account.bounds, curve=_VALUES * members)
    match bounds.single_pairs:
        case (one,):
            return one, one
        case (removal, addition):
            return removal, addition
    pair = BoundsEnvelope(bounds=bounds)
    return pair, pair


def _group(base: Accountant, size: int, log_weight: float) -> tuple[Accountant, float]:
    """The base for a group, and its log weight; an account without a guarantee if the group's delta would reach 1."""
    try:
        return base.group(size), log_weight
    except ValueError:
        no_guarantee = ApproximateAccountant(stated_epsilon=0.0, stated_delta=1 - 2.0**-53, relation=base.relation)
        return no_guarantee, log_weight + 2.0**-52


def _count_blocks(trials: int, rate: float) -> list[tuple[int, int, float]]:
    """Blocks (low, high, log probability) of the counts k >= 1 of a binomial distribution.

    Likely counts have blocks of their own. The probability of each block is rounded up.
    """
    if rate == 1.0:
        return [(trials, trials, 0.0)]
    mean, spread = trials * rate, np.sqrt(trials * rate * (1.0 - rate))
    low, high = max(1, int(mean - 14 * spread - 50)), min(trials, int(mean + 14 * spread + 150))
    starts = np.arange(low, high + 1, -(-(high + 1 - low) // _MOST_BLOCKS))
    weights = np.logaddexp.reduceat(log_binomial(np.arange(low, high + 1), trials, rate), starts - low)
    blocks = [
        (int(k), int(end), float(w)) for k, end, w in zip(starts, [*(starts[1:] - 1), high], weights, strict=True)
    ]
    if low > 1:
        blocks.insert(0, (1, low - 1, float(log_binomial(np.array([low - 1]), trials, rate)[0] + np.log(low - 1))))
    while high < trials:  # above the mean the probabilities decrease, so the first count of a block bounds the others
        first, high = high + 1, min(trials, int(_GROWTH * high) + 1)
        weight = log_binomial(np.array([first]), trials, rate)[0] + np.log(high - first + 1)
        blocks.append((first, high, float(weight)))
    return blocks


def log_binomial(k: NDArray[np.int64], trials: int, rate: float) -> FloatArray:
    """log probability of k successes, 1 <= k <= trials, rounded up. Source: Loader 2000."""
    n, successes = float(trials), np.maximum(np.minimum(k, trials - 1), 1).astype(np.float64)
    failures, away = np.maximum(n - successes, 1.0), successes - n * rate
    deviance = _deviance(successes, n * rate, -away) + _deviance(failures, n * (1.0 - rate), away)
    remainders = stirling_remainder(n) - stirling_remainder(successes) - stirling_remainder(failures)
    inside = remainders - deviance - 0.5 * np.log(2 * np.pi * successes * (failures / n))
    slope = np.abs(away) * (1.0 / successes + 1.0 / failures)  # derivative in the mean, which is rounded
    rounding = np.finfo(np.float64).eps * (16.0 + 16.0 * np.abs(deviance) + 2.0 * n * rate * slope)
    return np.where(k < trials, inside + rounding, n * np.log(rate) * (1 - 2 * np.finfo(np.float64).eps))


def _deviance(count: FloatArray, mean: float, away: FloatArray) -> FloatArray:
    """count log(count/mean) + mean - count with away = mean - count; by a series where the two nearly cancel."""
    y = away / count
    return count * np.where(np.abs(y) < 0.1, log1p_excess(np.clip(y, -0.1, 0.1)), y - np.log(mean / count))

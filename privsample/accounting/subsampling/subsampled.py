"""Accounts of mechanisms that run on a subsample of the records."""

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
from privsample.accounting.subsampling.pairs import mixed, poisson_pair, thinned_pair
from privsample.distributions.schemes import PoissonSampling, Scheme, WithoutReplacement, WithReplacement
from privsample.errors import RelationMismatch
from privsample.relations import AddRemove, Relation, ReplaceOne, related

_MOST_BLOCKS, _GROWTH = 1024, 1.25
_VALUES = 60  # that a search for an epsilon asks for, about
_BALLE = "Balle, Barthe and Gaboardi 2018"

Member = tuple[Accountant, float, float]  # account on the subsample, log weight, rate


@frozen_value
class SubsampledAccountant(Accountant):
    """`base` run on a subsample that `scheme` draws.

    Which relations go together, and the theorem:

    - PoissonSampling, base under AddRemove: AddRemove (Theorem 8). Exact where the base is.
    - WithoutReplacement(n, m), base under ReplaceOne(m): ReplaceOne(n) (Theorem 9).
    - WithReplacement(n, m), base under ReplaceOne(m): ReplaceOne(n) (Theorem 10), or AddRemove where `relation` asks
      for it (Theorem 11): n is then a public lower bound on the larger dataset's size; larger ones cost less.
    - PoissonSampling, base under ReplaceOne(n), asked for by `relation`: ReplaceOne(n), size by size: Theorem 9 given
      the size, which is never above Theorem 14 (docs/notes/subsampling.md). A guarantee that was stated, and a stated
      sensitivity, must then hold for samples of every size: that of a mean does not.

    Raises: RelationMismatch, for any other pairing. Kind: upper bound, unless said otherwise.
    """

    base: Accountant
    scheme: Scheme
    relation: Relation | None = None  # type: ignore[assignment]
    assumptions: frozenset[Assumption] = frozenset()

    def __post_init__(self) -> None:
        if not isinstance(self.base, Accountant):
            raise TypeError(f"base must be an account, got {type(self.base).__name__}")
        relation = paired(self.scheme, self.base.relation, self.relation)
        set_fields(self, relation=relation, assumptions=self.assumptions | self.base.assumptions)
        self.bounds  # noqa: B018 - building them refuses a base that has no account for other sizes

    @property
    def source(self) -> str:
        """The theorem and the base's source."""
        theorem = {
            "PoissonSampling under AddRemove": "Theorem 8",
            "WithoutReplacement under ReplaceOne": "Theorem 9",
            "WithReplacement under ReplaceOne": "Theorem 10",
            "WithReplacement under AddRemove": "Theorem 11",
            "PoissonSampling under ReplaceOne": "Theorem 9 for each size (it sharpens their Theorem 14)",
        }[f"{type(self.scheme).__name__} under {type(self.relation).__name__}"]
        return f"{_BALLE}, {theorem}; {self.base.source}"

    def _bounds(self) -> PrivacyBounds:
        """Under AddRemove removal and addition apart; under ReplaceOne one pair, its own reverse.

        Where the base has an infinity mass, the rest holds conditional on no failure: then the base counts as its pure
        guarantee beside its own infinity mass (docs/notes/subsampling.md).
        """
        exact = self._exact
        if self.base.infinity_mass == 0.0:
            largest = max(pair.max_divergence for group in self._directions for pair in group)
            # of a table the largest loss is a logarithm rounded to nearest: the pure guarantee is rounded up
            pure_epsilon = largest * (1.0 + 4 * float(np.finfo(np.float64).eps))
            return PrivacyBounds.from_pairs(*self._directions, pure_epsilon=pure_epsilon, exact=exact)
        known: dict[str, Any] = {"infinity_mass": self._infinity_mass, "exact": exact}
        if np.isfinite(self.base.pure_epsilon):
            pure = PureAccountant(stated_epsilon=self.base.pure_epsilon, relation=self.base.relation)
            beside = replace(self, base=pure).bounds
            known |= {"renyi": beside.renyi, "order_limit": np.inf, "pure_epsilon": beside.pure_epsilon}
        else:
            known |= {"renyi": lambda a: np.full(a.shape, np.inf), "order_limit": 1.0, "pure_epsilon": np.inf}
        return PrivacyBounds.from_pairs(*self._directions, **known)

    def _members(self, base: Accountant) -> list[Member]:
        """The subsampled curve is sum_i weight_i rate_i delta_i(e_i), e^e = 1 + rate_i (e^(e_i) - 1), at e >= 0."""
        match self.scheme, self.relation:
            case WithReplacement(n=n, m=m), _:
                share = float(-np.expm1(m * np.log1p(-1.0 / n))) if n > 1 else 1.0
                return [(*_group(base, high, w - np.log(share)), share) for _, high, w in _counts(m, 1.0 / n)]
            case WithoutReplacement(n=n, m=m), _:
                return [(base, 0.0, m / n)]
            case PoissonSampling(rate=rate), ReplaceOne(n=n):
                return [(base.for_sizes(low, high), w, high / n) for low, high, w in _counts(n, rate)]
            case _:
                return [(base, 0.0, resolved(self.scheme.rate))]  # type: ignore[attr-defined]

    @cached
    def _directions(self) -> Directions:
        grouped: dict[tuple[LossPair, LossPair], list[tuple[float, float]]] = {}
        members = self._members(self.base)
        for account, weight, rate in members:
            grouped.setdefault(_both(account, len(members)), []).append((rate, weight))
        if isinstance(self.relation, AddRemove):
            each = [(pairs, rate, weight) for pairs, found in grouped.items() for rate, weight in found]
            removal = mixed([(poisson_pair(pairs[0], rate, removed=True), w) for pairs, rate, w in each])
            addition = mixed([(poisson_pair(pairs[1], rate, removed=False), w) for pairs, rate, w in each])
            return ((removal,), (addition,))
        mixture = []
        for (pair, _), found in grouped.items():
            rates, weights = (np.array(column) for column in zip(*found, strict=True))
            total = float(np.logaddexp.reduce(weights))
            mixture.append((thinned_pair(pair, rates, weights - total), total))
        return ((mixed(mixture),),)

    @property
    def _infinity_mass(self) -> float:
        """The base's, times the probability that the record is in the sample; above zero where the base's is."""
        base = self.base
        if np.isfinite(base.pure_epsilon):  # groups of such a base fail more often, and beside that stay pure
            base = ApproximateAccountant(
                stated_epsilon=base.pure_epsilon, stated_delta=base.infinity_mass, relation=base.relation
            )
        lost = sum(np.exp(weight) * rate * account.infinity_mass for account, weight, rate in self._members(base))
        return float(np.clip(lost, np.finfo(np.float64).smallest_subnormal, 1 - 2.0**-53))

    @property
    def _exact(self) -> frozenset[View]:
        known = self.base.bounds.single_pairs is not None
        theorem_8 = isinstance(self.scheme, PoissonSampling) and isinstance(self.relation, AddRemove)
        return self.base.bounds.exact if theorem_8 and known else frozenset()

    def with_relation(self, relation: Relation) -> Group:
        """The same numbers under another relation; the scheme stays as it is."""
        return Group(base=self, size=1, relation=relation)


def paired(scheme: Scheme, base: Relation, asked: Relation | None) -> Relation:
    """The relation of a mechanism under `base` run on the scheme's subsamples; `asked` chooses where there is a choice.

    Raises: RelationMismatch, which names the pairing that works.
    """
    if asked is not None:
        related(asked)
    unit = base.unit if isinstance(base, (AddRemove, ReplaceOne)) else "record"
    if isinstance(base, (AddRemove, ReplaceOne)) and base.members > 1:
        raise RelationMismatch(f"records are sampled one by one, got a base under {base}; sample first, then .group")
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
            raise TypeError(f"scheme must be one of privsample's sampling schemes, got {type(scheme).__name__}")
    result = natural if asked is None else asked
    if (base, result) not in ways:
        raise RelationMismatch(
            f"{type(scheme).__name__} goes from {rule}, of one unit; got a base under {base}, asked for {result}"
        )
    return result


def _both(account: Accountant, members: int) -> tuple[LossPair, LossPair]:
    """One pair for removal (or either order) and one for addition; where there is no single one, a dominating pair.

    By table where a search asks too much of the account, which stands beside as many other members.
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
    """The base for a group, and its log weight; nothing is promised where its failure probability would reach one."""
    try:
        return base.group(size), log_weight
    except ValueError:
        nothing = ApproximateAccountant(stated_epsilon=0.0, stated_delta=1 - 2.0**-53, relation=base.relation)
        return nothing, log_weight + 2.0**-52


def _counts(trials: int, rate: float) -> list[tuple[int, int, float]]:
    """Blocks (low, high, log probability) of the counts k >= 1 of a binomial distribution; of one count where that
    matters.

    No block's probability is below the truth.
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
    while high < trials:  # far above the mean each further count is less likely
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
    slope = np.abs(away) * (1.0 / successes + 1.0 / failures)  # in the mean, which is rounded
    rounding = np.finfo(np.float64).eps * (16.0 + 16.0 * np.abs(deviance) + 2.0 * n * rate * slope)
    return np.where(k < trials, inside + rounding, n * np.log(rate) * (1 - 2 * np.finfo(np.float64).eps))


def _deviance(count: FloatArray, mean: float, away: FloatArray) -> FloatArray:
    """count log(count/mean) + mean - count, away = mean - count."""
    y = away / count
    return count * np.where(np.abs(y) < 0.1, log1p_excess(np.clip(y, -0.1, 0.1)), y - np.log(mean / count))

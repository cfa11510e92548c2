"""Accounts of one draw from a diffused or concentrated conjugate posterior.

Source: Geumlek, Song and Chaudhuri 2017 (thesis of Geumlek, chapter 5): Algorithms 1-3, Theorem 10.
Proofs beyond the source are in docs/notes/posterior.md.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import TypeVar, cast

from privsample._checks import open_unit_interval, positive_integer, prior_factor
from privsample._logspace import half_square
from privsample._value import cached, frozen_value, set_fields
from privsample.accounting.assumptions import Assumption
from privsample.accounting.base import Accountant
from privsample.accounting.engine.bounds import PrivacyBounds
from privsample.accounting.loss.gaussian import GaussianPair
from privsample.accounting.loss.pair import LossPair, worst_renyi
from privsample.accounting.loss.product import ProductPair
from privsample.accounting.posterior.beta import BetaPair
from privsample.accounting.posterior.family import BetaEnvelope, BetaFamily
from privsample.accounting.posterior.gamma import GammaRatePair, GammaShapePair
from privsample.accounting.posterior.pairs import (
    lower_product,
    lower_sum,
    upper_product,
    upper_sum,
)
from privsample.distributions.models.base import Model
from privsample.distributions.shifts import (
    BetaShift,
    BetaShifts,
    GammaRateShift,
    GammaShapeShift,
    NormalShift,
    Shift,
)
from privsample.relations import ReplaceOne

_LEAST_WEIGHT = 1e-300  # below, a record's step is no more a number with all its digits
_UP = 1.0 + 2.0**-49  # more than rounding takes away from the Normal's shift: at most 9 units of 2^-53
_PRIORS = 1e-150, 1e16  # below, curvatures overflow; beyond, a record is lost beside the prior
P = TypeVar("P", bound=LossPair)


@frozen_value
class PosteriorAccountant(Accountant):
    """`draws` draws from one posterior of n records with data weight r and prior weight w, under ReplaceOne(n).

    The model says which posteriors lie farthest apart, by its `neighbouring_posteriors`; what it says is not checked.
    rdp is exact. The privacy curve is exact for Dirichlet with three or more categories, both Gammas and the Normal;
    for Beta-Bernoulli (and two categories) it is certified to lie within a relative 1e-9 above the worst pair.
    With `group_size` k, k records are replaced at once: as exact, for Dirichlet with three or more categories where
    no prior is below one.
    """

    model: Model
    n: int
    data_weight: float = 1.0
    prior_weight: float = 1.0
    draws: int = 1
    unit: str = "record"
    assumptions: frozenset[Assumption] = frozenset({Assumption.IDEAL_REALS})
    group_size: int = 1

    def __post_init__(self) -> None:
        if not isinstance(self.model, Model):
            raise TypeError(f"model must be one of privsample's models, got {type(self.model).__name__}")
        set_fields(self, n=positive_integer(n=self.n), draws=positive_integer(draws=self.draws))
        set_fields(
            self,
            data_weight=open_unit_interval(data_weight=self.data_weight),
            prior_weight=prior_factor(prior_weight=self.prior_weight),
        )
        if not self.data_weight >= _LEAST_WEIGHT:
            raise ValueError(f"data_weight must lie in [{_LEAST_WEIGHT:g}, 1], got {self.data_weight:g}")
        self._shifts  # noqa: B018 - refuses a model that states none
        for prior in self.model.prior_counts:
            if not _PRIORS[0] <= prior <= _PRIORS[1]:
                raise ValueError(f"the prior's parameters must lie in [{_PRIORS[0]:g}, {_PRIORS[1]:g}], got {prior:g}")
        set_fields(self, group_size=min(positive_integer(group_size=self.group_size), self.n))
        if self.group_size > 1 and not self._groups_known:
            raise ValueError(
                "group_size must be 1 if prior_weight times a prior of three or more categories is below 1, and for a "
                f"model that does not know groups, got {self.group_size}; .group({self.group_size}) bounds the group "
                "from the account of one"
            )
        self._single  # noqa: B018 - building them checks the sizes

    @property
    def relation(self) -> ReplaceOne:  # type: ignore[override]
        """n is public; one record may be any other."""
        return ReplaceOne(n=self.n, unit=self.unit, members=self.group_size)

    @property
    def source(self) -> str:
        """The theorem and the proof note."""
        return "Geumlek, Song and Chaudhuri 2017, Theorem 10; privsample notes, posterior.md (privacy curves)"

    def _bounds(self) -> PrivacyBounds:
        """By neighbouring posteriors that are worst at every order; all draws share one pair of neighbours."""
        single, draws = self._single, self.draws
        if draws == 1:
            return self._of_draws(1)
        return replace(
            self._of_draws(draws),
            renyi=lambda orders: draws * worst_renyi(single, orders),
            per_release=(self._of_draws(1), draws),
        )

    def _of_draws(self, draws: int) -> PrivacyBounds:
        """By a family's envelope in the place of its ends, which are not proven to be its worst at every epsilon."""
        others = self._others if draws == 1 else [ProductPair.of(pair, draws).simplified for pair in self._others]
        match [*self._envelopes, *others]:
            case [GaussianPair(mu=mu) as only]:
                return PrivacyBounds.from_pairs([only], zcdp=half_square(mu))
        return PrivacyBounds.from_pairs([*[replace(own, draws=draws) for own in self._envelopes], *others])

    @cached
    def _shifts(self) -> tuple[Shift, ...]:
        shifts = self.model.neighbouring_posteriors
        strange = [type(shift).__name__ for shift in cast("tuple[object, ...]", shifts) if not isinstance(shift, Shift)]
        if strange or not shifts:
            raise TypeError(
                f"neighbouring_posteriors of {type(self.model).__name__} must return shifts of "
                f"privsample.distributions.shifts, at least one, got {', '.join(strange) or 'none'}"
            )
        return shifts

    @cached
    def _single(self) -> tuple[LossPair, ...]:
        """The pairs of one draw: the ends of families, then all others."""
        return (*[pair for envelope in self._envelopes for pair in envelope.ends], *self._others)

    @cached
    def _others(self) -> tuple[LossPair, ...]:
        """The pairs that are in no family: in the order of the shifts, then the other way round."""
        alone = [self._pair(shift) for shift in self._shifts if not isinstance(shift, BetaShifts)]
        ends = {pair for envelope in self._envelopes for pair in envelope.ends} if alone else ()
        return tuple(pair for pair in _both_orders(alone) if pair not in ends)

    @cached
    def _envelopes(self) -> tuple[BetaEnvelope, ...]:
        """The families of one draw, each with its ends."""
        return tuple(
            BetaEnvelope(family=self._family(shift), ends=_both_orders(self._ends(shift)))
            for shift in self._shifts
            if isinstance(shift, BetaShifts)
        )

    def _pair(self, shift: BetaShift | GammaShapeShift | GammaRateShift | NormalShift) -> LossPair:
        """The dominating pair of a shift of the model, in one of the two orders."""
        n, r, w, size = self.n, self.data_weight, self.prior_weight, self.group_size
        match shift:
            case BetaShift(a=a, b=b):
                return BetaPair(a=lower_product(a, w), b=lower_product(b, w), step=upper_product(size, r))
            case GammaShapeShift(shape=shape, reach=reach):
                step = upper_product(upper_product(size, r), reach)
                return GammaShapePair(shape=lower_product(shape, w), step=step, rising=True)
            case GammaRateShift(shape=shape, rate=rate, reach=reach, each=each):
                shape = upper_sum(upper_product(shape, w), upper_product(each, upper_product(n, r)))
                step = upper_product(upper_product(size, r), reach)
                return GammaRatePair(shape=shape, rate=lower_product(rate, w), step=step, rising=True)
            case normal:
                noise = normal.noise_variance
                precision = w / normal.variance + r * n / noise
                return GaussianPair(mu=size * r * normal.reach / noise / precision**0.5 * _UP)

    def _ends(self, shift: BetaShifts) -> tuple[BetaPair, ...]:
        """The other n - size records all failures, or all successes.

        The divergences fall as a and b grow, and grow with the step: all three are rounded to the safe side.
        """
        r, w, size = self.data_weight, self.prior_weight, self.group_size
        a, b = lower_product(shift.a, w), lower_product(shift.b, w)
        rest, step = lower_product(self.n - size, r), upper_product(size, r)
        return BetaPair(a=a, b=lower_sum(b, rest), step=step), BetaPair(a=lower_sum(a, rest), b=b, step=step)

    def _family(self, shift: BetaShifts) -> BetaFamily:
        w = self.prior_weight
        return BetaFamily(
            a=w * shift.a, b=w * shift.b, step=self.data_weight, n=self.n, whole=shift.whole, moved=self.group_size
        )

    def for_sizes(self, low: int, high: int) -> Accountant:
        """More records cost more where they raise a Gamma's shape, else the same or less (notes, subsampling.md).

        Raises: TypeError, for a model some of whose farthest posteriors have Gamma rates, and some have not.
        """
        rising = {isinstance(shift, GammaRateShift) for shift in self._shifts}
        if len(rising) > 1:
            raise TypeError(
                f"it is not known for how many records the posterior of {type(self.model).__name__} costs most"
            )
        return replace(self, n=high if rising == {True} else low)

    @property
    def _groups_known(self) -> bool:
        return self.model.supports_groups(self.prior_weight)

    def group(self, size: int) -> Accountant:
        """`size` records replaced at once: their steps add up, the others stay.

        From the account's curves alone where the model does not know the farthest posteriors of groups.
        """
        size = positive_integer(size=size)
        if not self._groups_known:
            return Accountant.group(self, size)
        return replace(self, group_size=size * self.group_size)


def _both_orders(pairs: Sequence[P]) -> tuple[P, ...]:
    """The pairs, then the other way round, none of them twice."""
    return tuple(dict.fromkeys([*pairs, *(cast("P", pair.reverse()) for pair in pairs)]))

"""Accounts of draws from a conjugate power posterior with a weighted prior.

Geumlek, Song and Chaudhuri 2017 (thesis of Geumlek, chapter 5): Algorithms 1-3, Theorem 10. The privacy curves, groups
and rounding are proved in posterior.md.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, TypeVar, cast

import numpy as np

from privsample._checks import open_unit_interval, positive_integer, prior_factor
from privsample._logspace import half_square
from privsample._value import cached, frozen_value, set_fields
from privsample.accounting.assumptions import Assumption
from privsample.accounting.base import Accountant
from privsample.accounting.engine.bounds import PrivacyBounds
from privsample.accounting.engine.envelope import BoundsEnvelope
from privsample.accounting.loss.gaussian import GaussianPair
from privsample.accounting.loss.pair import LossPair, worst_renyi
from privsample.accounting.loss.product import ProductPair
from privsample.accounting.loss.rows import CurveRows, GaussianRows, SharedRows
from privsample.accounting.posterior.beta import BetaPair
from privsample.accounting.posterior.family import BetaEnvelope, BetaFamily
from privsample.accounting.posterior.family_sizes import BetaCurveRows
from privsample.accounting.posterior.gamma import GammaRatePair, GammaShapePair
from privsample.accounting.posterior.natural import NaturalNeighbours
from privsample.accounting.posterior.pairs import (
    lower_product,
    lower_sum,
    upper_product,
    upper_sum,
)
from privsample.distributions.models.base import Model
from privsample.distributions.posterior_shifts import (
    BetaShift,
    BetaShifts,
    GammaRateShift,
    GammaShapeShift,
    NaturalShifts,
    NormalShift,
    Shift,
)
from privsample.relations import ReplaceOne

_LEAST_WEIGHT = 1e-300  # below it, the step of a record would be subnormal and lose digits
_UP = 1.0 + 2.0**-49  # bounds the rounding error of the Normal's shift, which is at most 9 units of 2^-53
_PRIORS = 1e-150, 1e16  # below, second derivatives overflow; above, a record is rounded away against the prior
_NATURAL_COST = 100.0  # of one Rényi divergence of a user's family, an integral over a function of the user's
P = TypeVar("P", bound=LossPair)


@frozen_value
class PosteriorAccountant(Accountant):
    """Draws from the power posterior (tempered likelihood) of a conjugate model, under ReplaceOne(n).

    The posterior's density is proportional to prior^w * likelihood^r for prior weight w and data weight r. All draws
    are from one posterior. The model states which neighbouring posteriors lie farthest apart, by its
    `neighbouring_posteriors`; this statement is not validated.

    Parameters
    ----------
    model : Model
        Conjugate model with its prior and, for records with real values, the public bounds of a record.
    n : int
        Number of records, >= 1; public.
    data_weight : float, default 1.0
        Exponent r of the likelihood, in (0, 1]; smaller values cost less.
    prior_weight : float, default 1.0
        Factor w >= 1 of the prior's parameters; larger values cost less.
    draws : int, default 1
        Number of independent draws from the posterior, >= 1.
    unit : str, default "record"
        What one record represents.
    assumptions : frozenset of Assumption, default {IDEAL_REALS}
        Conditions that the account does not prove.
    group_size : int, default 1
        Number of records that are replaced together, >= 1; at most n is used.

    Raises
    ------
    ValueError
        If a parameter is out of its range, or if the worst posteriors of groups are not known for the model and prior.
    TypeError
        If `model` is not a model, or states no neighbouring posteriors.

    Notes
    -----
    Geumlek, Song and Chaudhuri 2017, Theorem 10 (worst pairs); posterior.md (privacy curves, groups, rounding);
    families.md (a family of the user's own; without `log_tails` its privacy curve is converted). Kind of the Rényi
    curve: exact. Kind of the privacy curve: exact for Dirichlet models with three or more categories, both
    Gamma models and the Normal model; for Beta-Bernoulli (and two categories) it is certified to exceed the worst
    pair's curve by at most a relative 1e-9.

    Examples
    --------
    >>> import privsample as ps
    >>> account = ps.PosteriorAccountant(model=ps.BetaBernoulli(alpha=5, beta=5), n=100, data_weight=0.5)
    >>> round(float(account.rdp(2.0)), 4), round(float(account.epsilon(1e-6)), 4)
    (0.06, 1.447)
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
        if self._natural is None:
            self._single  # noqa: B018 - building them checks the sizes
        else:
            self._check_natural(self._natural)

    def _check_natural(self, natural: NaturalNeighbours) -> None:
        """Check a user's family, and add the assumptions under which its account holds."""
        stated = {Assumption.STATED_FAMILY}
        if natural.shifts.hessian_bound is None:
            if natural.shifts.convexity_stated:
                stated.add(Assumption.STATED_CONVEXITY)
            elif natural.needs_convexity:
                natural.check_convexity()
                stated.add(Assumption.CHECKED_CONVEXITY)
        else:
            natural.check_hessian_bound()
        if natural.pairs and not natural.known_for_each_epsilon:
            stated.add(Assumption.STATED_NEIGHBOURS)
        set_fields(self, assumptions=self.assumptions | stated)

    @property
    def relation(self) -> ReplaceOne:  # type: ignore[override]
        """Replacement of `group_size` of the n records; n is public."""
        return ReplaceOne(n=self.n, unit=self.unit, members=self.group_size)

    @property
    def source(self) -> str:
        """Theorem and note that prove the account."""
        if self._natural is None:
            return "Geumlek, Song and Chaudhuri 2017, Theorem 10; privsample notes, posterior.md (privacy curves)"
        proved = "Theorem 10" if self._natural.shifts.hessian_bound is None else "Lemma 17"
        return f"Geumlek 2020, {proved}; privsample notes, families.md (a stated exponential family)"

    def _bounds(self) -> PrivacyBounds:
        """Bounds by the neighbouring posteriors that are the worst at every order.

        All draws are from the same two posteriors, so the Rényi curve of several draws is exact (posterior.md, section
        4).
        """
        if self._natural is not None:
            return self._natural_bounds(self._natural)
        single, draws = self._single, self.draws
        if draws == 1:
            return self._of_draws(1)
        return replace(
            self._of_draws(draws),
            renyi=lambda orders: draws * worst_renyi(single, orders),
            per_release=(self._of_draws(1), draws),
        )

    def _natural_bounds(self, natural: NaturalNeighbours) -> PrivacyBounds:
        """Rényi curve of all draws of a user's family, and its privacy curve where the user gives the loss's tails."""
        known: dict[str, Any] = {
            "renyi": lambda orders: self.draws * natural.renyi(orders),
            "order_limit": natural.order_limit,
            "own_renyi_cost": _NATURAL_COST * len(natural.first),
        }
        if not natural.pairs:
            return PrivacyBounds.from_renyi(**known, exact=frozenset({"rdp"}) if natural.exact else frozenset())
        pairs = [pair if self.draws == 1 else ProductPair.of(pair, self.draws) for pair in natural.pairs]
        return PrivacyBounds.from_pairs(pairs, **known, **({} if natural.exact else {"exact": frozenset()}))

    def _of_draws(self, draws: int) -> PrivacyBounds:
        """Bounds of several draws; a family's envelope replaces its ends, not proven worst at every epsilon."""
        others = self._others if draws == 1 else [ProductPair.of(pair, draws).simplified for pair in self._others]
        match [*self._envelopes, *others]:
            case [GaussianPair(mu=mu) as only]:
                return PrivacyBounds.from_pairs([only], zcdp=half_square(mu))
        return PrivacyBounds.from_pairs([*[replace(own, draws=draws) for own in self._envelopes], *others])

    @cached
    def _shifts(self) -> tuple[Shift, ...]:
        """The model's neighbouring posteriors. Raises TypeError unless they are shifts of this package."""
        shifts = self.model.neighbouring_posteriors
        strange = [type(shift).__name__ for shift in cast("tuple[object, ...]", shifts) if not isinstance(shift, Shift)]
        if strange or not shifts:
            raise TypeError(
                f"neighbouring_posteriors of {type(self.model).__name__} must return shifts of "
                f"privsample.distributions.posterior_shifts, at least one, got {', '.join(strange) or 'none'}"
            )
        if len(shifts) > 1 and any(isinstance(shift, NaturalShifts) for shift in shifts):
            raise TypeError(
                f"neighbouring_posteriors of {type(self.model).__name__} must return NaturalShifts alone, without "
                "other shifts"
            )
        return shifts

    @cached
    def _natural(self) -> NaturalNeighbours | None:
        """The neighbouring posteriors of a user's family; None for the families of this package."""
        (first, *_) = self._shifts
        if not isinstance(first, NaturalShifts):
            return None
        return NaturalNeighbours(
            shifts=first,
            n=self.n,
            data_weight=self.data_weight,
            prior_weight=self.prior_weight,
            group_size=self.group_size,
        )

    @cached
    def _single(self) -> tuple[LossPair, ...]:
        """The pairs of one draw: the ends of the families, then all other pairs."""
        return (*[pair for envelope in self._envelopes for pair in envelope.ends], *self._others)

    @cached
    def _others(self) -> tuple[LossPair, ...]:
        """The pairs that belong to no family, followed by their reverses."""
        alone = [self._pair(shift) for shift in self._shifts if not isinstance(shift, BetaShifts | NaturalShifts)]
        ends = {pair for envelope in self._envelopes for pair in envelope.ends} if alone else ()
        return tuple(pair for pair in _both_orders(alone) if pair not in ends)

    @cached
    def _envelopes(self) -> tuple[BetaEnvelope, ...]:
        """The families of one draw, each with the pairs at its ends."""
        return tuple(
            BetaEnvelope(family=self._family(shift), ends=_both_orders(self._ends(shift)))
            for shift in self._shifts
            if isinstance(shift, BetaShifts)
        )

    def _pair(self, shift: BetaShift | GammaShapeShift | GammaRateShift | NormalShift) -> LossPair:
        """The dominating pair of one of the model's shifts, in one direction.

        Every operation is rounded in the direction that increases the divergence (posterior.md, section 1, "Rounding").
        """
        n, r, w, size = self.n, self.data_weight, self.prior_weight, self.group_size
        match shift:
            case BetaShift(a=a, b=b):
                return BetaPair(a=lower_product(a, w), b=lower_product(b, w), step=upper_product(size, r))
            case GammaShapeShift(shape=shape, max_shift=max_shift):
                step = upper_product(upper_product(size, r), max_shift)
                return GammaShapePair(shape=lower_product(shape, w), step=step, rising=True)
            case GammaRateShift(shape=shape, rate=rate, max_shift=max_shift, shape_per_record=per_record):
                shape = upper_sum(upper_product(shape, w), upper_product(per_record, upper_product(n, r)))
                step = upper_product(upper_product(size, r), max_shift)
                return GammaRatePair(shape=shape, rate=lower_product(rate, w), step=step, rising=True)
            case normal:
                noise = normal.noise_variance
                precision = w / normal.variance + r * n / noise
                return GaussianPair(mu=size * r * normal.record_range / noise / precision**0.5 * _UP)

    def _ends(self, shift: BetaShifts) -> tuple[BetaPair, ...]:
        """The pairs in which the other n - size records are all failures, or all successes.

        The divergences decrease in a and b and increase in the step, so a and b are rounded down and the step up.
        """
        r, w, size = self.data_weight, self.prior_weight, self.group_size
        a, b = lower_product(shift.a, w), lower_product(shift.b, w)
        rest, step = lower_product(self.n - size, r), upper_product(size, r)
        return BetaPair(a=a, b=lower_sum(b, rest), step=step), BetaPair(a=lower_sum(a, rest), b=b, step=step)

    def _family(self, shift: BetaShifts) -> BetaFamily:
        """The family of all sums of the other records."""
        w = self.prior_weight
        return BetaFamily(
            a=w * shift.a,
            b=w * shift.b,
            step=self.data_weight,
            n=self.n,
            integer_valued=shift.integer_valued,
            group_size=self.group_size,
        )

    def for_sizes(self, low: int, high: int) -> Accountant:
        """The account that holds for every number of records from `low` to `high` (subsampling.md).

        More records cost more if they raise the shape of a Gamma whose rates differ; otherwise they cost the same or
        less. Raises TypeError for a model with both kinds of neighbouring posteriors.
        """
        rising = {isinstance(shift, GammaRateShift) for shift in self._shifts}
        if len(rising) > 1 or (self._natural is not None and not low == high == self.n):
            raise TypeError(
                f"it is not known for how many records the posterior of {type(self.model).__name__} costs most"
            )
        return replace(self, n=high if rising == {True} else low)

    def _curves_for_sizes(self, sizes: tuple[tuple[int, int], ...]) -> CurveRows | None:
        """The curves of one draw for each range of sizes, for the models whose curves depend on the size."""
        if all(isinstance(shift, BetaShift | GammaShapeShift) for shift in self._shifts):
            return SharedRows(pair=BoundsEnvelope(bounds=self.bounds))  # the curve does not depend on the size
        if self.draws > 1:
            return None
        r, w = self.data_weight, self.prior_weight
        match self._shifts:
            case (BetaShifts(a=a, b=b, integer_valued=whole),):
                others = np.array([max(low, 1) - 1.0 for low, _ in sizes])
                a, b = lower_product(a, w), lower_product(b, w)
                return BetaCurveRows(a=a, b=b, step=r, others=others, integer_valued=whole)
            case (NormalShift() as shift,):
                pairs = [replace(self, n=max(low, 1))._pair(shift) for low, _ in sizes]
                return GaussianRows(mu=np.array([pair.mu for pair in pairs if isinstance(pair, GaussianPair)]))
        return None

    @property
    def _groups_known(self) -> bool:
        """True if the worst posteriors of groups are known for this model and prior (posterior.md, section 5)."""
        return self.model.supports_groups(self.prior_weight)

    def group(self, size: int) -> Accountant:
        """The account of groups of `size` records, whose steps add up.

        If the worst posteriors of groups are not known for this model, the general bound on groups is used.
        """
        size = positive_integer(size=size)
        if not self._groups_known:
            return Accountant.group(self, size)
        return replace(self, group_size=size * self.group_size)


def _both_orders(pairs: Sequence[P]) -> tuple[P, ...]:
    """The pairs followed by their reverses, without duplicates."""
    return tuple(dict.fromkeys([*pairs, *(cast("P", pair.reverse()) for pair in pairs)]))

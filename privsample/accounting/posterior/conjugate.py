"""Accounts of one draw from a diffused or concentrated conjugate posterior.

Source: Geumlek, Song and Chaudhuri 2017 (thesis of Geumlek, chapter 5): Algorithms 1-3, Theorem 10.
Proofs beyond the source are in docs/notes/posterior.md.
"""

from dataclasses import replace
from functools import singledispatch

from privsample._checks import positive_integer, share
from privsample._logspace import half_square
from privsample._value import cached, put, value
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
    lower_ratio,
    lower_sum,
    upper_product,
    upper_ratio,
    upper_sum,
)
from privsample.distributions.models.families import (
    BetaBernoulli,
    DirichletCategorical,
    GammaExponential,
    GammaPoisson,
    Model,
    NormalKnownVariance,
)
from privsample.relations import ReplaceOne

_LEAST_WEIGHT = 1e-300  # below, a record's step is no more a number with all its digits
_UP = 1.0 + 2.0**-49  # more than rounding takes away from the Normal's shift: at most 9 units of 2^-53
_PRIORS = 1e-150, 1e16  # below, curvatures overflow; beyond, a record is lost beside the prior


@value
class PosteriorAccountant(Accountant):
    """`draws` draws from one posterior of n records with data weight r and prior divisor m, under ReplaceOne(n).

    rdp is exact. The privacy curve is exact for Dirichlet with three or more categories, both Gammas and the Normal;
    for Beta-Bernoulli (and two categories) it is certified to lie within a relative 1e-9 above the worst pair.
    With `group_size` k, k records are replaced at once: as exact, for Dirichlet with three or more categories where
    no prior is below one.
    """

    model: Model
    n: int
    data_weight: float = 1.0
    prior_divisor: float = 1.0
    draws: int = 1
    unit: str = "record"
    assumptions: frozenset[Assumption] = frozenset({Assumption.IDEAL_REALS})
    group_size: int = 1

    def __post_init__(self) -> None:
        if not isinstance(self.model, Model):
            raise TypeError(f"model must be one of privsample's models, got {type(self.model).__name__}")
        put(self, n=positive_integer(n=self.n), draws=positive_integer(draws=self.draws))
        put(
            self, data_weight=share(data_weight=self.data_weight), prior_divisor=share(prior_divisor=self.prior_divisor)
        )
        if not self.data_weight >= _LEAST_WEIGHT:
            raise ValueError(f"data_weight must lie in [{_LEAST_WEIGHT:g}, 1], got {self.data_weight:g}")
        for prior in _priors(self.model):
            if not _PRIORS[0] <= prior <= _PRIORS[1]:
                raise ValueError(f"the prior's parameters must lie in [{_PRIORS[0]:g}, {_PRIORS[1]:g}], got {prior:g}")
        put(self, group_size=min(positive_integer(group_size=self.group_size), self.n))
        if self.group_size > 1 and not self._groups_known:
            raise ValueError(
                f"group_size must be 1 where a prior of three or more categories is below prior_divisor, got "
                f"{self.group_size}; .group({self.group_size}) bounds the group from the account of one"
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
        pairs = self._single if draws == 1 else tuple(ProductPair.of(p, draws).simplified for p in self._single)
        family = interior(self.model, self.n, self.data_weight, self.prior_divisor, self.group_size)
        match pairs:
            case (GaussianPair(mu=mu),):
                return PrivacyBounds.from_pairs(pairs, zcdp=half_square(mu))
            case _ if family is None:
                return PrivacyBounds.from_pairs(pairs)
            case _:  # the extreme pairs are not proven to be the worst at every epsilon: they are ends of a family
                ends = tuple(pair for pair in self._single if isinstance(pair, BetaPair))
                return PrivacyBounds.from_pairs([BetaEnvelope(family=family, ends=ends, draws=draws)])

    @cached
    def _single(self) -> tuple[LossPair, ...]:
        """The pairs of one draw."""
        return extreme_pairs(self.model, self.n, self.data_weight, self.prior_divisor, self.group_size)

    def for_sizes(self, low: int, high: int) -> Accountant:
        """More records cost more where they raise a Gamma's shape, else the same or less (notes, subsampling.md)."""
        return replace(self, n=high if isinstance(self.model, GammaExponential) else low)

    @property
    def _groups_known(self) -> bool:
        """Whether k records are worst when all go from one extreme to the other (docs/notes/posterior.md, Lemma 3)."""
        match self.model:
            case DirichletCategorical(alpha=alpha):
                return len(alpha) == 2 or min(alpha) >= self.prior_divisor
            case _:
                return True

    def group(self, size: int) -> Accountant:
        """`size` records replaced at once: their steps add up, the others stay.

        From the account's curves alone where three or more categories have a prior below one.
        """
        size = positive_integer(size=size)
        if not self._groups_known:
            return Accountant.group(self, size)
        return replace(self, group_size=size * self.group_size)


@singledispatch
def extreme_pairs(model: Model, n: int, r: float, m: float, size: int = 1) -> tuple[LossPair, ...]:
    """Posteriors `size` of n records apart that are worst at every order, both directions.

    A new model registers its own. Raises: TypeError, for a model without one.
    """
    del n, r, m, size
    raise TypeError(f"no account is known for the posterior of {type(model).__name__}")


def _priors(model: Model) -> tuple[float, ...]:
    """The parameters that records are added to one by one."""
    match model:
        case BetaBernoulli(alpha=alpha, beta=beta):
            return alpha, beta
        case DirichletCategorical(alpha=shares):
            return shares
        case GammaPoisson(shape=shape):
            return (shape,)
        case _:
            return ()


@singledispatch
def interior(model: Model, n: int, r: float, m: float, size: int) -> BetaFamily | None:
    """The family that the privacy curve has to range over, where the extreme pairs are not proven to be its worst."""
    del model, n, r, m, size
    return None


def _beta_ends(a: float, b: float, n: int, r: float, size: int) -> tuple[LossPair, ...]:
    """The other n - size records all failures, or all successes; both directions are mirror images.

    The divergences fall as a and b grow, and grow with the step: all three are rounded to the safe side.
    """
    rest, step = lower_product(n - size, r), upper_product(size, r)
    low, high = lower_sum(a, rest), lower_sum(b, rest)
    corners = ((a, high), (low, b), (b, low), (high, a))
    return tuple(dict.fromkeys(BetaPair(a=first, b=second, step=step) for first, second in corners))


@extreme_pairs.register
def _(model: BetaBernoulli, n: int, r: float, m: float, size: int) -> tuple[LossPair, ...]:
    return _beta_ends(lower_ratio(model.alpha, m), lower_ratio(model.beta, m), n, r, size)


@interior.register
def _(model: BetaBernoulli, n: int, r: float, m: float, size: int) -> BetaFamily | None:
    whole = not model.fractional
    return BetaFamily(a=model.alpha / m, b=model.beta / m, step=r, n=n, whole=whole, moved=size)


@extreme_pairs.register
def _(model: DirichletCategorical, n: int, r: float, m: float, size: int) -> tuple[LossPair, ...]:
    first, second = (lower_ratio(prior, m) for prior in sorted(model.alpha)[:2])
    if len(model.alpha) == 2:
        return _beta_ends(first, second, n, r, size)
    step = upper_product(size, r)
    return tuple(dict.fromkeys(BetaPair(a=a, b=b, step=step) for a, b in ((first, second), (second, first))))


@interior.register
def _(model: DirichletCategorical, n: int, r: float, m: float, size: int) -> BetaFamily | None:
    if len(model.alpha) > 2:
        return None
    first, second = sorted(model.alpha)
    return BetaFamily(a=first / m, b=second / m, step=r, n=n, whole=True, moved=size)


@extreme_pairs.register
def _(model: GammaPoisson, n: int, r: float, m: float, size: int) -> tuple[LossPair, ...]:
    del n  # other records only raise the shape, which is post-processing
    shape, step = lower_ratio(model.shape, m), upper_product(upper_product(size, r), model.upper)
    return tuple(GammaShapePair(shape=shape, step=step, rising=up) for up in (True, False))


@extreme_pairs.register
def _(model: GammaExponential, n: int, r: float, m: float, size: int) -> tuple[LossPair, ...]:
    shape, rate = upper_sum(upper_ratio(model.shape, m), upper_product(n, r)), lower_ratio(model.rate, m)
    step = upper_product(upper_product(size, r), model.upper)
    return tuple(GammaRatePair(shape=shape, rate=rate, step=step, rising=up) for up in (True, False))


@extreme_pairs.register
def _(model: NormalKnownVariance, n: int, r: float, m: float, size: int) -> tuple[LossPair, ...]:
    low, high = model.bounds
    precision = 1 / m / model.variance + r * n / model.noise_variance
    return (GaussianPair(mu=size * r * (high - low) / model.noise_variance / precision**0.5 * _UP),)

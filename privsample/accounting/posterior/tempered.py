"""Accounts of one draw from a posterior at a temperature, its parameter held inside bounds.

Sources: Wang, Fienberg and Smola 2015; Foulds, Geumlek, Welling and Chaudhuri 2016 (the mechanism); Dong, Durfee and
Rogers 2020, Theorem 2 (bounded range); Gopi, Lee and Liu 2022 (strongly log-concave laws); docs/notes/tempered.md.
"""

from dataclasses import replace
from typing import Any, Self

import numpy as np

from privsample._checks import FloatArray, interval, number, positive, positive_integer
from privsample._logspace import half_square, resolved
from privsample._value import put, value
from privsample.accounting.assumptions import Assumption
from privsample.accounting.base import Accountant
from privsample.accounting.engine.bounds import VIEWS, PrivacyBounds, View
from privsample.accounting.guarantees import BoundedRangeEnvelope
from privsample.accounting.loss.gaussian import GaussianPair
from privsample.accounting.loss.pair import Envelope
from privsample.accounting.posterior.held_beta import HeldBetaFamily
from privsample.distributions.laws.conjugate import Beta, Dirichlet, Gamma, Normal
from privsample.distributions.laws.truncated import heated
from privsample.distributions.models.families import (
    BetaBernoulli,
    DirichletCategorical,
    GammaExponential,
    GammaPoisson,
    Model,
    NormalKnownVariance,
)
from privsample.relations import ReplaceOne

Truncation = float | tuple[float, float]
LISTED = 100_000  # records up to which the privacy curve ranges over every data set
_NARROWEST = 1e-9  # what is left beside a share must be known to more digits than rounding takes
_UP = 1.0 + 2.0**-46  # more than rounding takes away from a bound


@value
class TemperedAccountant(Accountant):
    """One draw from the posterior of n records at `temperature`, its parameter inside `truncation`; ReplaceOne(n).

    Three bounds, each valid for all data, and every view takes the least: the loss has a bounded range; the law is
    strongly log-concave and its neighbour's log density differs by a Lipschitz function; for whole Bernoulli records,
    at most 100,000 of them, the privacy curve ranges over every data set: it is exact.
    `truncation`: the least share, in (0, 1/2), for proportions; (low, high) for a rate or a mean.
    """

    model: Model
    n: int
    temperature: float
    truncation: Truncation
    unit: str = "record"
    assumptions: frozenset[Assumption] = frozenset({Assumption.IDEAL_REALS})
    group_size: int = 1

    def __post_init__(self) -> None:
        if not isinstance(self.model, Model):
            raise TypeError(f"model must be one of privsample's models, got {type(self.model).__name__}")
        temperature = number(temperature=self.temperature)
        if not 1.0 <= temperature < np.inf:
            raise ValueError(
                f"temperature must be finite and >= 1, got {self.temperature!r}: below 1 the draw would tell more than "
                "the posterior does"
            )
        put(self, n=positive_integer(n=self.n), temperature=temperature)
        put(self, truncation=truncated(self.model, self.truncation))
        put(self, group_size=min(positive_integer(group_size=self.group_size), self.n))
        positive(loss_range=self.loss_range)
        positive(mu=self.shift)

    @property
    def relation(self) -> ReplaceOne:  # type: ignore[override]
        """n is public; one record may be any other."""
        return ReplaceOne(n=self.n, unit=self.unit, members=self.group_size)

    @property
    def source(self) -> str:
        """The theorems."""
        return (
            "Foulds, Geumlek, Welling and Chaudhuri 2016; Dong, Durfee and Rogers 2020, Theorem 2; Gopi, Lee and Liu "
            "2022; privsample notes, tempered.md"
        )

    @property
    def parameter_bounds(self) -> tuple[float, float]:
        """Where the parameter is held; shares: the least and the largest, which leaves no less to the others."""
        if isinstance(self.truncation, tuple):
            return self.truncation
        categories = len(self.model.alpha) if isinstance(self.model, DirichletCategorical) else 2
        rest = (categories - 1) * self.truncation
        high = 1.0 - rest
        return self.truncation, high if 1.0 - high >= rest else float(np.nextafter(high, 0.0))

    @property
    def loss_range(self) -> float:
        """The length of the interval that the loss stays in: how far log Pr(x'|theta)/Pr(x|theta) ranges, over T."""
        return self._geometry[0] * self.group_size / self.temperature * _UP

    @property
    def shift(self) -> float:
        """mu of the Gaussian pair that the draw costs at most: slope of the loss / sqrt(strong convexity)."""
        _, slope, curvature = self._geometry
        with np.errstate(divide="ignore"):
            return float(slope * self.group_size / self.temperature / np.sqrt(curvature) * _UP)

    @property
    def _geometry(self) -> tuple[float, float, float]:
        return geometry(self.model, self.n, self.temperature, self.parameter_bounds)

    def _bounds(self) -> PrivacyBounds:
        """By the least of the bounds at each order and epsilon.

        In compositions by the closed forms, which hold for real records too: a curve over all datasets is expensive.
        """
        envelope = self._envelope(self._listed)
        per_release = None
        if self._two_priors is not None:
            a, b = self._two_priors
            real = replace(self, model=BetaBernoulli(alpha=a, beta=b, fractional=True))
            per_release = (real._from(real._envelope(None)), 1)
        return self._from(envelope, per_release=per_release)

    def _from(self, envelope: "TemperedEnvelope", **known: Any) -> PrivacyBounds:
        zcdp = min(half_square(envelope.bounded.loss_range) / 4, half_square(self.shift))
        exact: frozenset[View] = frozenset() if envelope.listed is None else VIEWS - {"rdp"}
        return PrivacyBounds.from_pairs([envelope], pure_epsilon=self.loss_range, zcdp=zcdp, exact=exact, **known)

    def _envelope(self, listed: HeldBetaFamily | None) -> "TemperedEnvelope":
        return TemperedEnvelope(
            bounded=BoundedRangeEnvelope(loss_range=resolved(self.loss_range)),
            gaussian=GaussianPair(mu=self.shift),
            listed=listed,
        )

    @property
    def _two_priors(self) -> tuple[float, float] | None:
        """Of a model of two categories."""
        match self.model:
            case BetaBernoulli(alpha=a, beta=b) | DirichletCategorical(alpha=(a, b)):
                return a, b
            case _:
                return None

    @property
    def _listed(self) -> HeldBetaFamily | None:
        """All neighbouring data sets, where they are few and known."""
        if self._two_priors is None or self.n > LISTED or getattr(self.model, "fractional", False):
            return None
        (alpha, beta), (low, high) = self._two_priors, self.parameter_bounds
        law = heated(Beta(a=alpha, b=beta), self.temperature)
        assert isinstance(law, Beta)
        return HeldBetaFamily(
            a=law.a, b=law.b, step=1.0 / self.temperature, n=self.n, low=low, high=high, moved=self.group_size
        )

    def group(self, size: int) -> Self:
        """`size` records replaced at once: the step between neighbours is `size` times as long."""
        return replace(self, group_size=self.group_size * positive_integer(size=size))


@value
class TemperedEnvelope(Envelope):
    """All pairs of neighbouring tempered posteriors: the least of three bounds at each order and epsilon.

    bounded: the loss stays in an interval; gaussian: strong log-concavity; listed: every dataset, where they are few.
    """

    bounded: BoundedRangeEnvelope
    gaussian: GaussianPair
    listed: HeldBetaFamily | None = None

    @property
    def max_loss(self) -> float:
        """The range of the loss."""
        return self.bounded.loss_range

    def renyi(self, orders: FloatArray) -> FloatArray:
        """The lesser of the two closed forms."""
        return np.minimum(self.bounded.renyi(orders), self.gaussian.renyi(orders))

    def log_delta(self, epsilon: FloatArray) -> FloatArray:
        """The least of the three, certified over all datasets."""
        return self._curve(epsilon, certified=True)

    def draft(self, epsilon: FloatArray) -> FloatArray:
        """The same over some datasets only, ever closer to the worst of them."""
        return self._curve(epsilon, certified=False)

    def _curve(self, epsilon: FloatArray, *, certified: bool) -> FloatArray:
        e = np.asarray(epsilon, dtype=np.float64)
        least = np.minimum(self.bounded.log_delta(e), self.gaussian.log_delta(e))
        if self.listed is None:
            return least
        return np.minimum(least, self.listed.log_delta(e.ravel(), certified=certified).reshape(e.shape))


def truncated(model: Model, truncation: object) -> Truncation:
    """The truncation after its checks. Raises: ValueError, TypeError."""
    match model:
        case BetaBernoulli() | DirichletCategorical():
            share = number(truncation=truncation)
            categories = len(model.alpha) if isinstance(model, DirichletCategorical) else 2
            if not _NARROWEST <= share <= (1.0 - _NARROWEST) / categories:
                raise ValueError(
                    f"truncation must lie in (0, 1/{categories}), and {_NARROWEST:g} or more from its ends, got "
                    f"{truncation!r}"
                )
            return share
        case _:
            low, high = interval(truncation=truncation)
            if isinstance(model, (GammaPoisson, GammaExponential)) and not low > 0.0:
                raise ValueError(f"truncation must lie inside (0, inf) for a rate, got ({low}, {high})")
            return low, high


def geometry(model: Model, n: int, temperature: float, bounds: tuple[float, float]) -> tuple[float, float, float]:
    """Of the log likelihood ratio of two records: its range over the bounds, and its slope in the coordinate y.

    Third: the least curvature, over the bounds and all data, of the negative log density of y.
    y: logit or log of shares, log of a Poisson mean, the rate of an exponential law, the mean of a Normal.
    """
    low, high = bounds
    weight, ratio = n / temperature, _log_ratio(low, high) if low > 0.0 else np.inf
    match model, heated(model.prior, temperature):
        case BetaBernoulli(), Beta(a=a, b=b):
            return 2.0 * ratio, 1.0, (a + b + weight) * low * high
        case DirichletCategorical(), Dirichlet(alpha=alpha):
            return 2.0 * ratio, 1.0, (sum(alpha) + weight) * (low * high if len(alpha) == 2 else low / 2.0)
        case GammaPoisson(upper=most), Gamma(rate=rate):
            return most * ratio, float(most), (rate + weight) * low
        case GammaExponential(shape=shape, upper=longest), _:  # each waiting time adds one to the shape
            return longest * (high - low), longest, (shape + (n - 1)) / temperature / high / high
        case NormalKnownVariance(noise_variance=variance, bounds=(least, most)), Normal(scale=scale):
            slope = (most - least) / variance
            return slope * (high - low), slope, scale**-2.0 + weight / variance
    raise TypeError(f"no account is known for a tempered draw of {type(model).__name__}")


def _log_ratio(low: float, high: float) -> float:
    """log(high/low), to a few units in the last place however close they are."""
    return float(np.log1p((high - low) / low) if high < 2.0 * low else np.log(high) - np.log(low))

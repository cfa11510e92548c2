"""Accounts of one draw from a truncated posterior at a temperature (tempered.md).

Wang, Fienberg and Smola 2015 and Foulds, Geumlek, Welling and Chaudhuri 2016 (the mechanism); Dong, Durfee and Rogers
2020, Theorem 2 (bounded range); Gopi, Lee and Liu 2022 (strongly log-concave distributions); Bubeck and Eldan 2014,
Lemma 2 (variances along an exponential family).
"""

from dataclasses import replace
from typing import Any, Self

import numpy as np
from scipy import special

from privsample._checks import FloatArray, nonnegative_integer, number, positive, positive_integer
from privsample._logspace import half_square, resolved
from privsample._value import cached, frozen_value, set_fields
from privsample.accounting.assumptions import Assumption
from privsample.accounting.base import Accountant
from privsample.accounting.curves import zcdp
from privsample.accounting.curves.chords import RenyiChords
from privsample.accounting.engine.bounds import VIEWS, PrivacyBounds, View
from privsample.accounting.loss.bounded_range import BoundedRangeEnvelope
from privsample.accounting.loss.exact import CertifiedCase, CertifiedPair, CertifiedRenyi, Claims
from privsample.accounting.loss.gaussian import GaussianPair
from privsample.accounting.loss.pair import Envelope
from privsample.accounting.loss.rows import CurveRows, GaussianRows, Rows
from privsample.accounting.posterior.neighbouring import NeighbouringFamily
from privsample.accounting.posterior.tempered_families import neighbouring_family
from privsample.accounting.posterior.truncated_beta import TruncatedBetaFamily
from privsample.accounting.posterior.truncated_sizes import TruncatedBetaCurveRows
from privsample.distributions.models.base import Model
from privsample.distributions.models.truncation import LogRatio, Truncation
from privsample.distributions.parametric.truncated import tempered_shape
from privsample.relations import ReplaceOne

LARGEST_EXACT_N = 100_000  # largest number of records for which the privacy curve is maximized over all datasets
# Values of order - 1 at the nodes of the Rényi curve: chords of (a - 1) R_a = c (a - 1)^2 are at most 0.6 percent too
# high up to order 1000. At higher orders, rounding of order times divergence would dominate a privacy curve's error.
_NODES = np.concatenate(
    [np.geomspace(1e-4, 0.1, 7)[:-1], np.geomspace(0.1, 1e3, 64)[:-1], np.geomspace(1e3, 1e5, 13), [1e9]]
)
_UP = 1.0 + 2.0**-46  # bounds the relative rounding error of a closed form


@frozen_value
class TemperedAccountant(Accountant):
    """One draw from the truncated posterior at a temperature, under ReplaceOne(n).

    The density is proportional to (prior * likelihood)^(1/T) within the truncation bounds. Four bounds hold for all
    data, and every view is their minimum: the loss has a bounded range; the posterior is strongly log-concave and the
    loss is Lipschitz; for one parameter, the Rényi divergence is maximized over all sums of the records; for at most
    100,000 whole Bernoulli records, the privacy curve is maximized over all datasets.

    Parameters
    ----------
    model : Model
        Conjugate model with its prior and, for records with real values, the public bounds of a record.
    n : int
        Number of records, >= 1; public.
    temperature : float
        T, finite and >= 1; larger values cost less.
    truncation : float or (float, float)
        For proportions, the smallest allowed proportion, > 0 and below 1/categories. For a rate or a mean, the bounds
        (low, high).
    unit : str, default "record"
        What one record represents.
    assumptions : frozenset of Assumption, default {IDEAL_REALS}
        Conditions that the account does not prove.
    group_size : int, default 1
        Number of records that are replaced together, >= 1; at most n is used.

    Raises
    ------
    ValueError
        If a parameter is out of its range.
    TypeError
        If `model` is not a model.

    Notes
    -----
    Foulds, Geumlek, Welling and Chaudhuri 2016 (mechanism); Dong, Durfee and Rogers 2020, Theorem 2; Gopi, Lee and Liu
    2022; Bubeck and Eldan 2014, Lemma 2; tempered.md. Kind: the privacy curve is exact for at most 100,000 whole
    Bernoulli records; otherwise upper bound.

    Examples
    --------
    >>> import privsample as ps
    >>> account = ps.TemperedAccountant(
    ...     model=ps.GammaPoisson(shape=2, rate=1, upper=5), n=100, temperature=2.0, truncation=(0.5, 5.0)
    ... )
    >>> round(float(account.pure_epsilon), 4), round(float(account.epsilon(1e-6)), 4)
    (5.7565, 1.7486)
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
                f"temperature must be finite and >= 1, got {self.temperature!r}: a temperature below 1 would cost more "
                "privacy than a draw from the posterior"
            )
        set_fields(self, n=positive_integer(n=self.n), temperature=temperature)
        set_fields(self, truncation=self.model.check_truncation(self.truncation))
        set_fields(self, group_size=min(positive_integer(group_size=self.group_size), self.n))
        if self._log_ratio.stated:
            set_fields(self, assumptions=self.assumptions | {Assumption.STATED})
        positive(loss_range=self.loss_range)
        positive(mu=self.shift)

    @property
    def relation(self) -> ReplaceOne:  # type: ignore[override]
        """Replacement of `group_size` of the n records; n is public."""
        return ReplaceOne(n=self.n, unit=self.unit, members=self.group_size)

    @property
    def source(self) -> str:
        """Theorems and note that prove the account."""
        return (
            "Foulds, Geumlek, Welling and Chaudhuri 2016; Dong, Durfee and Rogers 2020, Theorem 2; Gopi, Lee and Liu "
            "2022; Bubeck and Eldan 2014, Lemma 2; privsample notes, tempered.md"
        )

    @property
    def parameter_bounds(self) -> tuple[float, float]:
        """Truncation bounds of the parameter; for proportions the smallest and the largest possible one."""
        return self.model.parameter_bounds(self.truncation)

    @property
    def loss_range(self) -> float:
        """Length in nats of an interval that contains the loss: the range of log Pr(x'|theta)/Pr(x|theta), over T."""
        return self._log_ratio.range * self.group_size / self.temperature * _UP

    @property
    def shift(self) -> float:
        """mu of the Gaussian pair that dominates the draw: Lipschitz constant of the loss / sqrt(strong convexity)."""
        slope, curvature = self._log_ratio.slope, self._log_ratio.curvature
        with np.errstate(divide="ignore"):
            return float(slope * self.group_size / self.temperature / np.sqrt(curvature) * _UP)

    @cached
    def _log_ratio(self) -> LogRatio:
        """Range, slope and convexity of the log likelihood ratio of two records, from the model."""
        return self.model.log_ratio(self.n, self.temperature, self.parameter_bounds)

    def _bounds(self) -> PrivacyBounds:
        """Bounds by the envelope of all bounds; compositions use the privacy curve of the closed forms only.

        The maximum over all datasets is too expensive for a grid, and the closed forms also hold for more records.
        Rényi curves are added without such a restriction.
        """
        closed = replace(self, model=self.model.as_bernoulli)
        envelope = TemperedEnvelope(
            bounded=self._closed_forms.bounded,
            gaussian=self._closed_forms.gaussian,
            exact_family=self._exact_family,
            family=self._family,
        )
        return self._bounds_from(envelope, per_release=(closed._bounds_from(closed._closed_forms), 1))

    def _bounds_from(self, envelope: "TemperedEnvelope", **known: Any) -> PrivacyBounds:
        """Bounds from an envelope; its bounded range and its shift each give a zCDP."""
        rho = min(zcdp.of_bounded_range(envelope.bounded.loss_range), half_square(self.shift))
        exact: frozenset[View] = frozenset() if envelope.exact_family is None else VIEWS - {"rdp"}
        least = envelope.exact_family is not None or envelope.family is None
        return PrivacyBounds.from_pairs(
            [envelope], pure_epsilon=self.loss_range, zcdp=rho, exact=exact, curve_is_least=least, **known
        )

    @cached
    def _closed_forms(self) -> "TemperedEnvelope":
        """The envelope of the two closed forms, which hold for n or more records."""
        return TemperedEnvelope(
            bounded=BoundedRangeEnvelope(loss_range=resolved(self.loss_range)), gaussian=GaussianPair(mu=self.shift)
        )

    @cached
    def _family(self) -> NeighbouringFamily | None:
        """The exponential family of the posteriors if it has one parameter, otherwise None."""
        return neighbouring_family(self.model, self.n, self.temperature, self.parameter_bounds, self.group_size)

    @cached
    def _exact_family(self) -> TruncatedBetaFamily | None:
        """All neighbouring datasets of whole Bernoulli records, for at most 100,000 records; otherwise None."""
        shifts = self.model.exact_neighbours
        if shifts is None or self.n > LARGEST_EXACT_N:
            return None
        (low, high), temperature = self.parameter_bounds, self.temperature
        a, b = tempered_shape(shifts.a, temperature), tempered_shape(shifts.b, temperature)
        return TruncatedBetaFamily(
            a=a, b=b, step=1.0 / temperature, n=self.n, low=low, high=high, group_size=self.group_size
        )

    def for_sizes(self, low: int, high: int) -> Accountant:
        """The account for one number of records; for several, the closed forms for the smallest, which hold for more.

        The strong convexity of the posterior increases with the number of records, and the range of the loss does not
        depend on it (tempered.md, sections 1 and 2). The maxima over all datasets hold for one number only.
        """
        low, high = nonnegative_integer(low=low), positive_integer(high=high)
        least = replace(self, n=max(low, 1))
        if low == high:
            return least
        return AnyMoreRecords(least=least, relation=ReplaceOne(n=high, unit=self.unit), assumptions=self.assumptions)

    def _curves_for_sizes(self, sizes: tuple[tuple[int, int], ...]) -> CurveRows | None:
        """The closed forms for the smallest size of each range, and for Bernoulli records the maxima over all sums."""
        closed = TemperedCurveRows(accounts=tuple(replace(self, n=max(low, 1)) for low, _ in sizes))
        if (family := self._exact_family) is None:
            return closed
        return TruncatedBetaCurveRows(
            a=family.a,
            b=family.b,
            step=family.step,
            half=float(special.logit(family.high)),
            others=np.array([max(low, 1) - 1.0 for low, _ in sizes]),
            last=np.array([high - 1.0 for _, high in sizes]),
            closed=closed,
        )

    def group(self, size: int) -> Self:
        """The account of groups of `size` records: neighbouring posteriors lie `size` times as far apart."""
        return replace(self, group_size=self.group_size * positive_integer(size=size))


@frozen_value
class AnyMoreRecords(Accountant):
    """One draw from the truncated posterior at a temperature, for any number of records from that of `least` on.

    Kind: upper bound (tempered.md, sections 1 and 2).
    """

    least: TemperedAccountant
    relation: ReplaceOne
    assumptions: frozenset[Assumption] = frozenset({Assumption.IDEAL_REALS})

    @property
    def source(self) -> str:
        """That of the account for the smallest number."""
        return self.least.source

    def _bounds(self) -> PrivacyBounds:
        """The closed forms for the smallest number of records, which hold for more."""
        closed_forms, _ = self.least.bounds.per_release or (self.least.bounds, 1)
        return replace(closed_forms, exact=frozenset())


@frozen_value
class TemperedCurveRows(CurveRows):
    """The closed forms of the accounts of increasing numbers of records, one in each row."""

    accounts: tuple[TemperedAccountant, ...]

    @cached
    def _closed_forms(self) -> GaussianRows:
        """The closed forms of all rows."""
        shifts = np.array([resolved(account.shift) for account in self.accounts])
        return GaussianRows(mu=shifts, loss_range=resolved(self.accounts[0].loss_range))

    @property
    def max_divergence(self) -> float:
        """The range of the loss in nats, which does not depend on the number of records."""
        return self._closed_forms.max_divergence

    @property
    def value_cost(self) -> float:
        """That of a closed form."""
        return 1.0

    def ceiling(self, orders: FloatArray) -> FloatArray:
        """The closed forms of the smallest number of records, which hold for more."""
        return self._closed_forms.ceiling(orders)

    def limit_renyi(self, orders: FloatArray, divergence: FloatArray) -> FloatArray:
        """The divergence, or the largest Rényi divergence of all rows over all sums of the records, if that is smaller.

        The closed forms decrease with the number of records, so the search ends where they are below the largest value.
        """
        largest, shift = np.zeros(orders.shape), self._closed_forms.mu
        for account, mu in zip(self.accounts, shift, strict=True):
            closed = GaussianRows(mu=np.array([mu]), loss_range=self.max_divergence).ceiling(orders)
            if ((closed <= largest) | (divergence <= largest)).all():
                break
            largest = np.maximum(largest, account.bounds.renyi(orders))
        return np.minimum(divergence, largest)

    def log_delta(self, rows: Rows, epsilon: FloatArray) -> FloatArray:
        """The closed forms."""
        return self._closed_forms.log_delta(rows, epsilon)


@frozen_value
class TemperedEnvelope(Envelope):
    """Envelope of all pairs of neighbouring tempered posteriors: the minimum of several bounds.

    `bounded` is the bound from the range of the loss, `gaussian` that from strong log-concavity. `family`, for one
    parameter, gives the largest Rényi divergence over all sums. `exact_family`, for at most 100,000 whole Bernoulli
    records, gives the largest privacy curve over all datasets.
    """

    bounded: BoundedRangeEnvelope
    gaussian: GaussianPair
    exact_family: TruncatedBetaFamily | None = None
    family: NeighbouringFamily | None = None

    @property
    def max_divergence(self) -> float:
        """Range of the loss, in nats."""
        return self.bounded.loss_range

    @property
    def curve_cost(self) -> float:
        """Low for closed forms, high if the curve is maximized over all datasets."""
        return 4.0 if self.exact_family is None else 4e3

    def certified_pair(self) -> CertifiedPair:
        """The bound from the range of the loss, which holds in compositions too."""
        return self.bounded.certified_pair()

    def certified_cases(self, claims: Claims) -> tuple[CertifiedCase, ...]:
        """The better of the two closed forms at the first claim."""
        epsilon = np.array([claims[0][0]])
        better = min((self.bounded, self.gaussian), key=lambda pair: float(pair.log_delta(epsilon)[0]))
        return better.certified_cases(claims)

    def certified_renyi(self) -> CertifiedRenyi:
        """That of the range of the loss."""
        return self.bounded.certified_renyi()

    def renyi(self, orders: FloatArray) -> FloatArray:
        """The minimum of the closed forms and of the chords of the largest divergence over all sums."""
        closed, chords = self._closed_forms(orders), self._chords
        if chords is None:
            return closed
        return np.minimum(chords(orders), closed)

    def _closed_forms(self, orders: FloatArray) -> FloatArray:
        """The smaller of the two closed forms at each order."""
        return np.minimum(self.bounded.renyi(orders), self.gaussian.renyi(orders))

    @cached
    def _chords(self) -> RenyiChords | None:
        """Chords of the largest divergence over all sums at fixed nodes; None if no node is below the closed forms.

        The nodes are fixed, so that a value does not depend on which orders are requested. Each search ends within a
        relative 1e-3 above the largest value. The convex hull removes these unequal errors, so that a conversion has
        one best order.
        """
        if self.family is None:
            return None
        orders = 1.0 + _NODES
        closed = self._closed_forms(orders)
        # The last node has the closed forms' value, so that the curve continues without a jump above it.
        found = np.append(self.family.renyi(orders[:-1], closed[:-1]), closed[-1])
        return RenyiChords(orders - 1.0, found).convex if (found < closed).any() else None

    def log_delta(self, epsilon: FloatArray) -> FloatArray:
        """Smallest bound on log delta, certified over all datasets."""
        return self._curve(epsilon, certified=True)

    def approx_log_delta(self, epsilon: FloatArray) -> FloatArray:
        """The same with a local search over the datasets in place of the certified one."""
        return self._curve(epsilon, certified=False)

    def _curve(self, epsilon: FloatArray, *, certified: bool) -> FloatArray:
        """Smallest bound on log delta, with or without the certified search."""
        e = np.asarray(epsilon, dtype=np.float64)
        least = np.minimum(self.bounded.log_delta(e), self.gaussian.log_delta(e))
        if self.exact_family is None:
            return least
        return np.minimum(least, self.exact_family.log_delta(e.ravel(), certified=certified).reshape(e.shape))

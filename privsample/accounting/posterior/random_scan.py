"""The account of a random scan: an update of which every variable is part with a known probability (gibbs.md, 3)."""

from dataclasses import replace

import numpy as np

from privsample._checks import FloatArray, positive_integer
from privsample._value import cached, frozen_value, set_fields
from privsample.accounting.assumptions import Assumption
from privsample.accounting.base import Accountant, checked_account
from privsample.accounting.curves.conversion import Curve
from privsample.accounting.engine.bounds import PrivacyBounds
from privsample.accounting.engine.envelope import BoundsEnvelope
from privsample.accounting.guarantees import PureAccountant
from privsample.accounting.loss.exact import CertifiedPair, weights_text
from privsample.accounting.loss.pair import DiscretePair, Envelope, LossPair, delta_below_zero
from privsample.accounting.subsampling.pairs import RescaledPair, amplified, mixture_pair
from privsample.relations import Relation

_ULP = float(np.finfo(np.float64).eps)


@frozen_value
class RandomScanAccountant(Accountant):
    """A random scan of a Gibbs sampler: `updated` of `variables` variables, chosen uniformly, are drawn and released.

    Each record is read by the update of one variable only. The release shows which variables were updated, so that the
    pure epsilon of one update remains; only the probability of a loss decreases, by the factor q = updated / variables:
    delta(epsilon) becomes q delta(epsilon). For updates of a variable that is chosen anew each time, compose scans of
    one variable: `k * RandomScanAccountant(base=base, updated=1, variables=variables)`.

    Parameters
    ----------
    base : Accountant
        The account of one update of the variable whose update reads the record.
    updated : int
        Number of variables that one scan updates, from 1 to `variables`.
    variables : int
        Number of variables, >= 1; public. The choice must not depend on the records.
    assumptions : frozenset of Assumption, default frozenset()
        Assumptions of the guarantee. Those of the base are added.

    Raises
    ------
    TypeError
        If `base` is not an account.
    ValueError
        If `updated` exceeds `variables`.

    Notes
    -----
    docs/notes/gibbs.md, section 3. Geumlek 2020, section 4.4.1, states the pure guarantee 2 q epsilon for this scan;
    it does not hold for q < 1/2. Kind: that of the base.

    Examples
    --------
    >>> import privsample as ps
    >>> update = ps.BoundedRangeAccountant(loss_range=0.5)
    >>> scan = ps.RandomScanAccountant(base=update, updated=5, variables=50)
    >>> scan.pure_epsilon, round(float(scan.delta(0.2) / update.delta(0.2)), 6)
    (0.5, 0.1)
    """

    base: Accountant
    updated: int
    variables: int
    assumptions: frozenset[Assumption] = frozenset()

    def __post_init__(self) -> None:
        checked_account(base=self.base)
        set_fields(self, updated=positive_integer(updated=self.updated))
        set_fields(self, variables=positive_integer(variables=self.variables))
        if not self.updated <= self.variables:
            raise ValueError(f"updated must be at most variables = {self.variables}, got {self.updated}")
        set_fields(self, assumptions=self.assumptions | self.base.assumptions)

    @property
    def relation(self) -> Relation:  # type: ignore[override]
        """The relation of the base."""
        return self.base.relation

    @property
    def source(self) -> str:
        """The note with the proof, and the source of the base."""
        return f"privsample notes, gibbs.md (random scan); {self.base.source}"

    @property
    def rate(self) -> float:
        """Probability that the scan updates the variable whose update reads the record, in (0, 1]."""
        return self.updated / self.variables

    @cached
    def _log_rate(self) -> float:
        """log of the probability, rounded up."""
        return float(np.log(self.rate)) * (1.0 - 4 * _ULP)

    def _bounds(self) -> PrivacyBounds:
        """The pairs of the base with the remaining probability at a loss of zero (gibbs.md, section 3)."""
        base = self.base.bounds
        if self.updated == self.variables:
            return base
        if base.infinity_mass > 0.0:
            return self._with_infinity_mass(base)
        directions = base.directions if base.single_pairs else ((BoundsEnvelope(bounds=base),),)
        groups = [[self._scanned(pair) for pair in group] for group in directions]
        return PrivacyBounds.from_pairs(
            *groups,
            renyi=lambda orders: mixed_renyi(base.renyi, self.rate, orders),
            order_limit=base.order_limit,
            pure_epsilon=base.pure_epsilon,
            zcdp=base.zcdp,
            exact=base.exact,
            curve_is_least=base.has_curve and base.curve_is_least,
        )

    def _with_infinity_mass(self, base: PrivacyBounds) -> PrivacyBounds:
        """Given a finite loss, the scan of the pure guarantee of the base; the infinity mass times the rate."""
        pure = PureAccountant(stated_epsilon=base.pure_epsilon) if np.isfinite(base.pure_epsilon) else None
        given_finite = replace(self, base=pure).bounds if pure else None
        return PrivacyBounds.from_pairs(
            [self._scanned(BoundsEnvelope(bounds=base))],
            renyi=given_finite.renyi if given_finite else lambda orders: np.full(np.shape(orders), np.inf),
            order_limit=np.inf if given_finite else 1.0,
            infinity_mass=min(base.infinity_mass * self.rate * (1.0 + 4 * _ULP), 1.0),
            pure_epsilon=base.pure_epsilon,
            exact=base.exact - {"rdp"},
        )

    def _scanned(self, pair: LossPair) -> LossPair:
        """The pair with probability `rate`, and a loss of zero otherwise."""
        if isinstance(pair, DiscretePair):
            return mixture_pair([(pair, self._log_rate)])
        if isinstance(pair, Envelope):
            return RandomScanEnvelope(base=pair, log_rate=self._log_rate)
        return RandomScanPair(base=pair, log_rate=self._log_rate)

    def with_relation(self, relation: Relation) -> "RandomScanAccountant":
        """The scan of the base under another relation."""
        return replace(self, base=self.base.with_relation(relation))


@frozen_value
class RandomScanPair(RescaledPair):
    """The pair `base` with probability e^log_rate, and a loss of zero otherwise; which of the two is revealed."""

    base: LossPair
    log_rate: float

    @property
    def max_divergence(self) -> float:
        """That of the base: the release shows that the record was read."""
        return self.base.max_divergence

    @property
    def order_limit(self) -> float:
        """That of the base."""
        return self.base.order_limit

    @property
    def renyi_cost(self) -> float:
        """The cost of one value of the base, and of the closed form."""
        return 0.5 + self.base.renyi_cost

    def certified_pair(self) -> CertifiedPair:
        """The base with the probability of its being read."""
        weight = weights_text(np.array([self.log_rate]))
        return {"kind": "mixture", "weights": weight, "pairs": [self.base.certified_pair()]}

    def renyi(self, orders: FloatArray) -> FloatArray:
        """The closed form from the Rényi curve of the base."""
        return mixed_renyi(self.base.renyi, float(np.exp(self.log_rate)), orders)

    def _from_base(self, curve: Curve, epsilon: FloatArray) -> FloatArray:
        """The curve of the base times the rate at epsilon >= 0; below, from that of the reversed pair."""
        return scaled_log_delta(curve, self.base.reverse().log_delta, self.log_rate, epsilon)

    def reverse(self) -> "RandomScanPair":
        """The reverse of the base, with the same probability."""
        return replace(self, base=self.base.reverse())


@frozen_value
class RandomScanEnvelope(Envelope):
    """The envelope `base` with probability e^log_rate, and a loss of zero otherwise; which of the two is revealed."""

    base: Envelope
    log_rate: float

    @property
    def max_divergence(self) -> float:
        """That of the base: the release shows that the record was read."""
        return self.base.max_divergence

    @property
    def order_limit(self) -> float:
        """That of the base."""
        return self.base.order_limit

    @property
    def is_expensive(self) -> bool:
        """True if the base is expensive."""
        return self.base.is_expensive

    @property
    def curve_cost(self) -> float:
        """The cost of one value of the base's privacy curve, and of the product."""
        return 0.1 + self.base.curve_cost

    @property
    def renyi_cost(self) -> float:
        """The cost of one value of the base, and of the closed form."""
        return 0.5 + self.base.renyi_cost

    @property
    def from_table(self) -> bool:
        """True if the base is tabulated."""
        return self.base.from_table

    def certified_pair(self) -> CertifiedPair:
        """The base with the probability of its being read."""
        weight = weights_text(np.array([self.log_rate]))
        return {"kind": "mixture", "weights": weight, "pairs": [self.base.certified_pair()]}

    def renyi(self, orders: FloatArray) -> FloatArray:
        """The closed form from the Rényi curve of the base."""
        return mixed_renyi(self.base.renyi, float(np.exp(self.log_rate)), orders)

    def log_delta(self, epsilon: FloatArray) -> FloatArray:
        """The curve of the base times the rate."""
        return scaled_log_delta(self.base.log_delta, self.base.log_delta, self.log_rate, epsilon)

    def approx_log_delta(self, epsilon: FloatArray) -> FloatArray:
        """The approximate curve of the base times the rate."""
        curve = self.base.approx_log_delta
        return scaled_log_delta(curve, curve, self.log_rate, epsilon)


def scaled_log_delta(curve: Curve, reverse: Curve, log_rate: float, epsilon: FloatArray) -> FloatArray:
    """The curve plus log_rate at epsilon >= 0; below, from that of the reversed pair. Rounded up."""
    e = np.asarray(epsilon, dtype=np.float64)
    above = np.minimum(log_rate + curve(np.abs(e)) * (1.0 - 4 * _ULP), 0.0)
    if not (e < 0).any():
        return above
    other = np.minimum(log_rate + reverse(np.abs(e)) * (1.0 - 4 * _ULP), 0.0)
    return np.where(e >= 0, above, delta_below_zero(e, other))


def mixed_renyi(curve: Curve, rate: float, orders: FloatArray) -> FloatArray:
    """log(1 - rate + rate e^((a - 1) R_a)) / (a - 1) of a Rényi curve R, rounded up and at most R."""
    a = np.asarray(orders, dtype=np.float64)
    base = curve(a)
    with np.errstate(over="ignore", invalid="ignore"):
        mixed = amplified((a - 1.0) * base, rate) / (a - 1.0) * (1.0 + 2.0**-46)
    return np.where(np.isfinite(base), np.minimum(mixed, base), np.inf)

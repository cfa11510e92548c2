"""Guarantees that come from elsewhere, each with the tightest curves that it implies."""

from dataclasses import replace

import numpy as np

from privsample._checks import FloatArray, Real, nonnegative, positive, positive_integer, probability
from privsample._logspace import half_square, log1mexp, product_up, resolved
from privsample._value import frozen_value, set_fields
from privsample.accounting.assumptions import Assumption
from privsample.accounting.base import SizeFreeAccountant
from privsample.accounting.engine.bounds import PrivacyBounds
from privsample.accounting.loss.pair import DiscretePair, Envelope, binary_pair, checked_divergence
from privsample.relations import AddRemove, Relation, related

_STATED = frozenset({Assumption.STATED})
_UP = 1.0 + 2.0**-43  # more than rounding takes away from a difference of logarithms, the least of which is S(2)
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(16)


@frozen_value
class PureAccountant(SizeFreeAccountant):
    """Any mechanism that is `stated_epsilon`-DP, by its dominating pair. Kind: exact for the worst such mechanism."""

    stated_epsilon: float
    relation: Relation = AddRemove()
    assumptions: frozenset[Assumption] = _STATED

    def __post_init__(self) -> None:
        set_fields(self, relation=related(self.relation))
        set_fields(self, stated_epsilon=nonnegative(stated_epsilon=self.stated_epsilon))

    @property
    def source(self) -> str:
        """The theorem."""
        return "Kairouz, Oh and Viswanath 2015, Theorem 2"

    def _bounds(self) -> PrivacyBounds:
        """By randomized response, its own reverse."""
        return PrivacyBounds.from_pairs([binary_pair(self.stated_epsilon)], pure_epsilon=self.stated_epsilon)

    def group(self, size: int) -> "PureAccountant":
        """`size` times epsilon."""
        size = positive_integer(size=size)
        return replace(self, stated_epsilon=size * self.stated_epsilon, relation=self.relation.group(size))


@frozen_value
class ApproximateAccountant(SizeFreeAccountant):
    """Any mechanism that is (`stated_epsilon`, `stated_delta`)-DP. Kind: exact for the worst such mechanism.

    With probability `stated_delta` nothing is promised; beside that it is randomized response.
    """

    stated_epsilon: float
    stated_delta: float
    relation: Relation = AddRemove()
    assumptions: frozenset[Assumption] = _STATED

    def __post_init__(self) -> None:
        set_fields(self, relation=related(self.relation))
        set_fields(self, stated_epsilon=nonnegative(stated_epsilon=self.stated_epsilon))
        set_fields(self, stated_delta=probability(stated_delta=self.stated_delta))

    @property
    def source(self) -> str:
        """The theorem."""
        return "Kairouz, Oh and Viswanath 2015, Theorem 2"

    def _bounds(self) -> PrivacyBounds:
        """By randomized response beside two outcomes that give everything away."""
        rest = binary_pair(self.stated_epsilon)
        return PrivacyBounds.from_pairs(
            [self._with_failure(rest) if self.stated_delta else rest],
            renyi=rest.renyi,
            order_limit=np.inf,
            infinity_mass=self.stated_delta,
            pure_epsilon=self.stated_epsilon,
        )

    def _with_failure(self, rest: DiscretePair) -> DiscretePair:
        fail, keep = np.log(self.stated_delta), np.log1p(-self.stated_delta)
        log_p = np.concatenate([[fail, -np.inf], keep + rest.log_p])
        log_q = np.concatenate([[-np.inf, fail], keep + rest.log_q])
        loss = np.concatenate([[np.inf, -np.inf], rest.loss])
        return DiscretePair(log_p=log_p, log_q=log_q, loss=loss)

    def group(self, size: int) -> "ApproximateAccountant":
        """size * epsilon and delta (e^(size epsilon) - 1)/(e^epsilon - 1), an upper bound (Vadhan 2017, Lemma 2.2)."""
        size, epsilon = positive_integer(size=size), self.stated_epsilon
        with np.errstate(over="ignore"):
            sums = np.exp((size - 1) * epsilon) * np.expm1(-size * epsilon)
            ratio = float(size) if epsilon == 0 else float(sums / np.expm1(-epsilon))
        delta = min(self.stated_delta * ratio, 1 - 2.0**-53) if self.stated_delta else 0.0
        relation = self.relation.group(size)
        if delta >= 1 - 2.0**-53:
            raise ValueError(f"a group of {size} has delta = 1: nothing is promised to it")
        return replace(self, stated_epsilon=size * epsilon, stated_delta=delta, relation=relation)


@frozen_value
class ZCDPAccountant(SizeFreeAccountant):
    """Any rho-zCDP mechanism: rdp(a) = rho a. Kind: exact for rdp, upper bound for the rest."""

    rho: float
    relation: Relation = AddRemove()
    assumptions: frozenset[Assumption] = _STATED

    def __post_init__(self) -> None:
        set_fields(self, relation=related(self.relation))
        set_fields(self, rho=nonnegative(rho=self.rho))

    @property
    def source(self) -> str:
        """The theorem."""
        return "Bun and Steinke 2016, Definition 1.1 and Proposition 1.9"

    def _bounds(self) -> PrivacyBounds:
        """By the line rho a. There is no pure guarantee, unless nothing is released."""
        pure = np.inf if self.rho else 0.0
        return PrivacyBounds.from_renyi(lambda orders: product_up(self.rho, orders), zcdp=self.rho, pure_epsilon=pure)

    def group(self, size: int) -> "ZCDPAccountant":
        """size^2 rho (Bun and Steinke 2016, Proposition 1.9)."""
        size = positive_integer(size=size)
        return replace(self, rho=size * size * self.rho, relation=self.relation.group(size))


@frozen_value
class BoundedRangeEnvelope(Envelope):
    """All pairs whose privacy loss stays in an interval of length `loss_range`: the worst at each order and epsilon.

    Source: Dong, Durfee and Rogers 2020, Theorem 2; Cesar and Rogers 2021.
    """

    loss_range: float

    @property
    def max_divergence(self) -> float:
        """loss_range."""
        return self.loss_range

    def renyi(self, orders: FloatArray) -> FloatArray:
        """S(a e) - S((a-1) e) + [S(a e) - S(e)]/(a-1), S(x) = log(sinh(x/2)/(x/2)), as integrals of S' > 0.

        Rounded up.
        """
        a, e = np.asarray(orders, dtype=np.float64), self.loss_range
        s = a - 1.0
        total = _sinhc_growth(s * e, a * e, e) + _sinhc_growth(e + 0 * a, a * e, s * e) / s
        return checked_divergence(np.minimum(total * _UP, e))

    def log_delta(self, epsilon: FloatArray) -> FloatArray:
        """[1 - e^((x - e)/2)]_+^2 / (1 - e^-e) at x; 1 - e^x below -e."""
        x = np.asarray(epsilon, dtype=np.float64)
        inside = 2 * log1mexp(np.minimum((x - self.loss_range) / 2, 0.0)) - log1mexp(np.float64(-self.loss_range))
        return np.where(x < -self.loss_range, log1mexp(np.minimum(x, 0.0)), np.minimum(inside, 0.0))


@frozen_value
class BoundedRangeAccountant(SizeFreeAccountant):
    """Any mechanism whose loss stays in an interval of length `loss_range`, as every exponential mechanism's does.

    An exponential mechanism that draws candidate c with probability proportional to e^(rate u(c)) has the range rate
    times the difference between the largest and the least change of a u(c) by one neighbour, at most 2 rate times the
    sensitivity of u.

    Kind: exact for the worst such mechanism. Source: Dong, Durfee and Rogers 2020, Theorem 2; Cesar and Rogers 2021.

    Parameters
    ----------
    loss_range : float
        Length of the interval, in nats, > 0: the pure epsilon of one release.
    relation : Relation, default AddRemove()
        Which datasets are neighbours.
    assumptions : frozenset of Assumption, default {STATED}
        What the account takes for granted. With a proof of your own, state {IDEAL_REALS} in place of STATED.

    Examples
    --------
    >>> import privsample as ps
    >>> account = ps.BoundedRangeAccountant(loss_range=0.5)
    >>> account.max_divergence, round(float((10 * account).epsilon(1e-6)), 3)
    (0.5, 3.632)
    """

    loss_range: float
    relation: Relation = AddRemove()
    assumptions: frozenset[Assumption] = _STATED

    def __post_init__(self) -> None:
        set_fields(self, relation=related(self.relation))
        set_fields(self, loss_range=resolved(positive(loss_range=self.loss_range)))

    @property
    def source(self) -> str:
        """The theorems."""
        return "Dong, Durfee and Rogers 2020, Theorem 2"

    def _bounds(self) -> PrivacyBounds:
        """By the envelope of all such mechanisms; zCDP: Cesar and Rogers 2021, Lemma 3.2."""
        envelope = BoundedRangeEnvelope(loss_range=self.loss_range)
        return PrivacyBounds.from_pairs([envelope], zcdp=half_square(self.loss_range) / 4)

    def group(self, size: int) -> "BoundedRangeAccountant":
        """`size` times the range."""
        size = positive_integer(size=size)
        return replace(self, loss_range=size * self.loss_range, relation=self.relation.group(size))


def _sinhc_growth(low: FloatArray, high: FloatArray, width: Real) -> FloatArray:
    """S(high) - S(low), high - low = width, S(x) = log(sinh(x/2)/(x/2)); by quadrature of S' where they are close."""
    middle, half = (low + high)[..., None] / 2, np.asarray(width)[..., None] / 2
    near = (_sinhc_slope(np.maximum(middle + half * _NODES, 0.0)) * half) @ _WEIGHTS
    from_zero = np.maximum(low, 1e-9)  # S is flat there: S(1e-9) is below 1e-19
    far = width / 2 + log1mexp(-high) - log1mexp(-from_zero) - np.log(high / from_zero)
    return np.where(np.asarray(width) < 2.0, near, far)


def _sinhc_slope(x: FloatArray) -> FloatArray:
    """coth(x/2)/2 - 1/x, by its series near zero."""
    small, safe, square = np.minimum(x, 0.5), np.maximum(x, 0.5), np.minimum(x, 0.5) ** 2
    series = 1 / 12 - square * (1 / 720 - square * (1 / 30240 - square * (1 / 1209600 - square / 47900160)))
    return np.where(x < 0.5, small * series, 0.5 / np.tanh(safe / 2) - 1 / safe)

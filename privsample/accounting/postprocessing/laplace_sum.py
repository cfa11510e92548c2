"""Account of the sum of two independent Laplace variables that is added to a statistic."""

from dataclasses import replace

import numpy as np

from privsample._checks import FloatArray, positive, positive_integer, renyi_orders
from privsample._logspace import LEAST_LOSS, scaled_up
from privsample._value import frozen_value, set_fields
from privsample.accounting.assumptions import Assumption
from privsample.accounting.base import Accountant
from privsample.accounting.curves.renyi_integral import renyi_from_curves
from privsample.accounting.engine.bounds import PrivacyBounds
from privsample.accounting.engine.envelope import BoundsEnvelope
from privsample.accounting.loss.laplace import LaplacePair, laplace_renyi
from privsample.accounting.loss.pair import LossPair, delta_below_zero
from privsample.distributions.parametric.laplace_sum import LaplaceSum
from privsample.relations import AddRemove, Relation, related

_ULP = float(np.finfo(np.float64).eps)
_HALVINGS, _SECTIONS = 64, 40
_NEGLIGIBLE_NOISE = 2.0**-1000  # relative to the larger scale; smaller noise is omitted from the account
_GOLDEN = (np.sqrt(5.0) - 1.0) / 2


@frozen_value
class LaplaceSumPair(LossPair):
    """Dominating pair of the sum of two independent Laplace noises: Q is its distribution, and P is Q moved by `shift`.

    The pair is its own reverse. Q has a log-concave density, so the privacy loss L(x) is non-decreasing in x, and the
    privacy curve at epsilon is determined by the threshold x with L(x) = epsilon. A threshold above the shift has a
    closed form; one below it is found by bisection. The threshold is rounded in the direction that increases the curve
    (docs/notes/postprocessing.md).

    Kind: exact, rounded up.
    """

    shift: float
    noise: LaplaceSum

    def __post_init__(self) -> None:
        set_fields(self, shift=positive(shift=self.shift))

    @property
    def max_divergence(self) -> float:
        """The shift divided by the larger scale, a supremum that is not attained (Balle et al. 2019, Lemma 3)."""
        return self.shift / self.noise.wide * (1 + 2 * _ULP)

    def log_delta(self, epsilon: FloatArray) -> FloatArray:
        """log delta from the threshold x with L(x) = |epsilon| (docs/notes/postprocessing.md)."""
        e = np.asarray(epsilon, dtype=np.float64)
        size = np.abs(e)
        # rounding errors of the terms are added to the difference; a larger difference gives a larger delta
        rest = np.maximum(self.max_divergence - size, 0.0) + 8 * _ULP * (
            self.max_divergence + np.minimum(size, self.max_divergence)
        )
        with np.errstate(over="ignore"):
            far = np.expm1(rest) <= self.noise.weight(self.shift)
        near = ~far & (size < self.max_divergence)
        above = np.full(e.shape, -np.inf)
        far &= size < self.max_divergence
        above[far], above[near] = self._beyond_shift(rest[far]), self._below_shift(size[near])
        above = np.minimum(above, 0.0)
        return np.where(e >= 0, above, delta_below_zero(e, above))

    def _beyond_shift(self, rest: FloatArray) -> FloatArray:
        """log delta at the threshold x = shift + y, where the loss is `rest` below its supremum."""
        a, b, u = self.noise.wide, self.noise.narrow, self.noise.rate
        c, grown = float(self.noise.weight(self.shift)), np.expm1(rest)
        k = np.maximum(c - grown, 0.0) / (grown * (1.0 + a * u))
        z = a * u * k
        y = a * k * np.where(z > 0.0, np.log1p(z) / np.where(z > 0.0, z, 1.0), 1.0) * (1 - 64 * _ULP)
        log_delta = np.log(a * c / (2 * (a + b))) - y / b - np.log1p(self.noise.weight(y + self.shift))
        return log_delta + 16 * _ULP * (2.0 + y / b + np.abs(np.log(c)))

    def _below_shift(self, epsilon: FloatArray) -> FloatArray:
        """log delta at the threshold x = shift - r, r = (shift - d)/2, 0 <= d <= shift; the loss increases with d."""
        a, b, u = self.noise.wide, self.noise.narrow, self.noise.rate
        low, high = np.zeros(epsilon.shape), np.full(epsilon.shape, self.shift)
        for _ in range(_HALVINGS):
            d = low / 2 + high / 2
            r = (self.shift - d) / 2
            loss = d / a - np.log1p(np.exp(-r * u) * self.noise.weight(d) / (1.0 + self.noise.weight(r)))
            # the loss is rounded up; the threshold then moves down, which increases the curve
            less = loss + 8 * _ULP * (d / a + epsilon) <= epsilon
            low, high = np.where(less, d, low), np.where(less, high, d)
        d, r = low, (self.shift - low) / 2
        centre = -np.expm1(-r / a) - np.exp(-r / a) * b * self.noise.weight(r) / (a + b)
        share = np.exp(-r / a - r * u) * a * self.noise.weight(d) / (2 * (a + b))
        return np.log(centre + share / (1.0 + self.noise.weight(self.shift - r))) + 64 * _ULP

    def renyi(self, orders: FloatArray) -> FloatArray:
        """Rényi divergence as an integral of the privacy curve; the quadrature gives an upper bound."""
        ceiling = LaplacePair(shift=self.shift / self.noise.wide)
        curves = (self.log_delta, self.log_delta)
        return renyi_from_curves(
            curves, ceiling.renyi, self.max_divergence, np.inf, np.asarray(orders, dtype=np.float64)
        )

    @property
    def renyi_cost(self) -> float:
        """The cost of a quadrature of the privacy curve."""
        return 4e3

    @property
    def is_expensive(self) -> bool:
        """True: some values of the privacy curve need a bisection."""
        return True

    def reverse(self) -> "LaplaceSumPair":
        """The pair itself."""
        return self


@frozen_value
class LaplaceSumAccountant(Accountant):
    """Two independent Laplace noises added to the same statistic.

    For one coordinate the account is exact. For several coordinates, the Rényi bound splits the shift between the two
    noises optimally at each order, and the privacy curve is that of the larger noise alone.

    Parameters
    ----------
    sensitivity : float
        L1 sensitivity of the statistic, finite and > 0, in units of the statistic.
    scale, further_scale : float
        Scales of the two noises, finite and > 0, in units of the statistic.
    coordinates : int, default 1
        Number of coordinates of the statistic, >= 1.
    relation : Relation, default AddRemove()
        Neighbouring relation of the guarantee.
    assumptions : frozenset of Assumption, default {IDEAL_REALS, TRUSTED_SENSITIVITY}
        Assumptions of the guarantee.

    Raises
    ------
    ValueError
        If a number is outside its range.

    Notes
    -----
    Source: Geumlek 2020, equation (6.3); Balle, Barthe, Gaboardi and Geumlek 2019, Example 2 and Lemma 3;
    docs/notes/postprocessing.md.

    Kind: exact for one coordinate; otherwise upper bound.

    Examples
    --------
    >>> import privsample as ps
    >>> account = ps.LaplaceSumAccountant(sensitivity=1, scale=2, further_scale=2)
    >>> round(float(account.delta(0.25)), 4), round(float(ps.LaplaceAccountant(sensitivity=1, scale=2).delta(0.25)), 4)
    (0.0259, 0.1175)
    """

    sensitivity: float
    scale: float
    further_scale: float
    coordinates: int = 1
    relation: Relation = AddRemove()
    assumptions: frozenset[Assumption] = frozenset({Assumption.IDEAL_REALS, Assumption.TRUSTED_SENSITIVITY})

    def __post_init__(self) -> None:
        set_fields(self, relation=related(self.relation), coordinates=positive_integer(coordinates=self.coordinates))
        set_fields(self, sensitivity=positive(sensitivity=self.sensitivity))
        noise = self._noise
        set_fields(self, scale=noise.scale, further_scale=noise.further_scale)
        positive(**{"sensitivity / scale": self._shift / noise.wide})

    @property
    def _noise(self) -> LaplaceSum:
        """The distribution of the sum of both noises."""
        return LaplaceSum(scale=self.scale, further_scale=self.further_scale)

    @property
    def source(self) -> str:
        """The sources of the density and of the bound for several coordinates."""
        return "Geumlek 2020, equation (6.3) (docs/notes/postprocessing.md); Balle et al. 2019, Example 2 and Lemma 3"

    def _bounds(self) -> PrivacyBounds:
        """One coordinate: one symmetric pair. Several: the curve of the larger noise alone and the Rényi bound."""
        pure = self._wide.max_divergence * (1 + 2 * _ULP)
        if self.coordinates == 1:
            return PrivacyBounds.from_pairs([self._pair], pure_epsilon=pure, curve_name="density of the sum")
        wide = PrivacyBounds.from_pairs([self._wide], renyi=self.split_shift_rdp, pure_epsilon=pure)
        return PrivacyBounds.from_pairs(
            [BoundsEnvelope(bounds=wide)],
            renyi=self.split_shift_rdp,
            pure_epsilon=pure,
            exact=frozenset(),
            curve_is_least=False,
            curve_name="curve of the larger noise",
        )

    @property
    def _pair(self) -> LossPair:
        """The pair of one coordinate, rescaled so that the larger scale is near 1 and no sum overflows."""
        unit = -int(np.frexp(self._noise.wide)[1])
        shift, first, second = (float(np.ldexp(x, unit)) for x in (self._shift, self.scale, self.further_scale))
        if min(first, second) < _NEGLIGIBLE_NOISE:
            return self._wide
        return LaplaceSumPair(shift=shift, noise=LaplaceSum(scale=first, further_scale=second))

    @property
    def _shift(self) -> float:
        """The sensitivity, at least a negligible multiple of the larger scale, so that no square underflows."""
        return max(self.sensitivity, LEAST_LOSS * self._noise.wide)

    @property
    def _wide(self) -> LaplacePair:
        """The Laplace pair of the larger noise alone."""
        return LaplacePair(shift=self._shift / self._noise.wide)

    def split_shift_rdp(self, orders: FloatArray) -> FloatArray:
        """Rényi bound that splits the shift between the two noises. Kind: upper bound.

        The divergences are convex in their shifts, so the best split is found by golden-section search at each order.

        Parameters
        ----------
        orders : array of float, any shape
            Orders, finite and > 1.

        Returns
        -------
        array of float
            Divergences in nats, of the shape of `orders`.

        Notes
        -----
        Source: Balle, Barthe, Gaboardi and Geumlek 2019, Example 2.
        """
        a, shift = renyi_orders(orders), self._shift

        def cost(part: FloatArray) -> FloatArray:
            with np.errstate(over="ignore"):
                return laplace_renyi(part / self.scale, a) + laplace_renyi((shift - part) / self.further_scale, a)

        low, high = np.zeros(a.shape), np.full(a.shape, shift)
        best = np.minimum(cost(low), cost(high))
        for _ in range(_SECTIONS):
            left, right = high - _GOLDEN * (high - low), low + _GOLDEN * (high - low)
            at_left, at_right = cost(left), cost(right)
            best = np.minimum(best, np.minimum(at_left, at_right))
            low, high = np.where(at_left < at_right, low, left), np.where(at_left < at_right, right, high)
        return best * (1 + 8 * _ULP)

    def group(self, size: int) -> "LaplaceSumAccountant":
        """The account of `size` times the sensitivity; exact for one coordinate."""
        size = positive_integer(size=size)
        return replace(self, sensitivity=scaled_up(size, self.sensitivity), relation=self.relation.group(size))

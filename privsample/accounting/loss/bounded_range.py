"""The envelope of all pairs of bounded range, for one draw or for several draws of one pair."""

from fractions import Fraction

import numpy as np
from scipy import special

from privsample._checks import FloatArray, Real
from privsample._logspace import log1mexp, product_up
from privsample._value import frozen_value
from privsample.accounting.loss.exact import CertifiedPair, CertifiedRenyi, exact
from privsample.accounting.loss.pair import Envelope, checked_divergence

_UP = 1.0 + 2.0**-43  # exceeds the relative rounding error of a difference of logarithms, the smallest being S(2)
_ULP = float(np.finfo(np.float64).eps)
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(16)
_BLOCK = 1 << 20  # terms that are held at once
MOST_DRAWS = 128  # largest number of draws whose privacy curve is computed exactly; its cost grows with the square


@frozen_value
class BoundedRangeEnvelope(Envelope):
    """Envelope of all pairs whose privacy loss lies in an interval of length `loss_range`: the maximum of their curves.

    With `draws` above 1, the pairs are those of several independent draws from the same two distributions.

    Source: Dong, Durfee and Rogers 2020, Theorem 2 and section 4; Cesar and Rogers 2021; exponential.md, sections 1 and
    2.
    """

    loss_range: float
    draws: int = 1

    @property
    def max_divergence(self) -> float:
        """The length of the interval times the number of draws, which is the largest possible privacy loss."""
        return float(product_up(self.loss_range, float(self.draws)))

    @property
    def curve_cost(self) -> float:
        """Grows with the number of terms, the square of the number of draws."""
        return 50.0 if self.draws == 1 else 50.0 + self.draws**2 / 2

    def certified_pair(self) -> CertifiedPair:
        """The length of the interval and the number of draws."""
        return {"kind": "bounded_range", "epsilon": exact(self.loss_range), "times": self.draws}

    def certified_renyi(self) -> CertifiedRenyi:
        """One interval for each draw."""
        return Fraction(0), (Fraction(self.loss_range),) * self.draws

    def renyi(self, orders: FloatArray) -> FloatArray:
        """The largest Rényi divergence: S(a e) - S((a-1) e) + [S(a e) - S(e)]/(a-1), S(x) = log(sinh(x/2)/(x/2)), e the
        range, times the number of draws.

        Differences of S are computed as integrals of S' > 0, so nothing cancels; rounded up.
        """
        a, e = np.asarray(orders, dtype=np.float64), self.loss_range
        s = a - 1.0
        total = _sinhc_growth(s * e, a * e, e) + _sinhc_growth(e + 0 * a, a * e, s * e) / s
        one = checked_divergence(np.minimum(total * _UP, e))
        return product_up(one, float(self.draws))

    def log_delta(self, epsilon: FloatArray) -> FloatArray:
        """log of [1 - e^((x - e)/2)]_+^2 / (1 - e^-e) at x, with e the range; log(1 - e^x) below -e.

        Several draws: the largest sum of [p - e^x q]_+ over the candidates t of exponential.md, section 2.
        """
        x = np.asarray(epsilon, dtype=np.float64)
        if self.draws > 1:
            parts = np.array_split(x.ravel(), max(x.size * self.draws * (self.draws + 1) // _BLOCK, 1))
            return np.concatenate([self._several(part) for part in parts]).reshape(x.shape)
        inside = 2 * log1mexp(np.minimum((x - self.loss_range) / 2, 0.0)) - log1mexp(np.float64(-self.loss_range))
        return np.where(x < -self.loss_range, log1mexp(np.minimum(x, 0.0)), np.minimum(inside, 0.0))

    def _several(self, x: FloatArray) -> FloatArray:
        """The logarithm of the privacy curve of several draws at epsilons of shape (count,), rounded up."""
        k, r = self.draws, self.loss_range
        count, place = np.arange(k + 1.0), np.arange(k + 0.0)
        log_choose = special.gammaln(k + 1.0) - special.gammaln(count + 1.0) - special.gammaln(k - count + 1.0)
        # exponential.md, step 2.3: the largest value over t is attained at one of these k values
        t = np.clip((x[:, None] + (place + 1.0) * r) / (k + 1.0), 0.0, r)
        whole = log1mexp(np.float64(-r))
        log_upper, log_lower = log1mexp(t - r) - whole, t - r + log1mexp(-t) - whole
        with np.errstate(invalid="ignore"):
            upper = np.where(count < k, (k - count) * log_upper[..., None], 0.0)
            lower = np.where(count > 0, count * log_lower[..., None], 0.0)
        loss = k * t[..., None] - count * r
        error = 4 * _ULP * (np.abs(x)[:, None, None] + k * r)  # of the loss and of its distance from epsilon
        terms = log_choose + upper + lower + log1mexp(np.minimum(x[:, None, None] - loss, 0.0) - error)
        terms = np.where(loss > x[:, None, None] - error, terms, -np.inf)
        with np.errstate(invalid="ignore"):
            found = np.logaddexp.reduce(terms, axis=2).max(axis=1)
        slack = 64 * _ULP * (k + np.abs(np.maximum(found, -1e300)))  # of logarithms that are multiplied by up to k
        raised = np.minimum(found + slack, 0.0)
        return np.where(x < -k * r, log1mexp(np.minimum(x, 0.0)), np.where(x > k * r, -np.inf, raised))


def _sinhc_growth(low: FloatArray, high: FloatArray, width: Real) -> FloatArray:
    """S(high) - S(low) for high - low = width, S(x) = log(sinh(x/2)/(x/2)).

    For close arguments the difference is the integral of S' by Gauss-Legendre quadrature, which avoids cancellation.
    """
    middle, half = (low + high)[..., None] / 2, np.asarray(width)[..., None] / 2
    near = (_sinhc_slope(np.maximum(middle + half * _NODES, 0.0)) * half) @ _WEIGHTS
    from_zero = np.maximum(low, 1e-9)  # S is below 1e-19 up to 1e-9, and log(0) is avoided
    far = width / 2 + log1mexp(-high) - log1mexp(-from_zero) - np.log(high / from_zero)
    return np.where(np.asarray(width) < 2.0, near, far)


def _sinhc_slope(x: FloatArray) -> FloatArray:
    """S'(x) = coth(x/2)/2 - 1/x, by its Taylor series near zero, where the two terms cancel."""
    small, safe, square = np.minimum(x, 0.5), np.maximum(x, 0.5), np.minimum(x, 0.5) ** 2
    series = 1 / 12 - square * (1 / 720 - square * (1 / 30240 - square * (1 / 1209600 - square / 47900160)))
    return np.where(x < 0.5, small * series, 0.5 / np.tanh(safe / 2) - 1 / safe)

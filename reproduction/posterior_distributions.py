"""Output distributions of mechanisms that release the proportion of ones, as mixtures of Beta distributions.

They are computed for every number of ones in n records, without Monte Carlo: a posterior of a noisy count is a mixture
over the noise, computed as a sum for discrete noise and by quadrature for continuous noise. Source: Geumlek 2020,
section 5.4.1.
"""

from collections.abc import Callable

import numpy as np
from scipy import special, stats

from privsample._checks import FloatArray
from privsample._value import frozen_value
from privsample.accounting.targets import RDP
from privsample.distributions.models.beta_bernoulli import BetaBernoulli
from privsample.distributions.models.mixtures import ConjugateMixture
from privsample.distributions.noise import DiscreteGaussianNoise
from privsample.distributions.parametric.conjugate import Beta
from privsample.mechanisms.posterior.conjugate import ConcentratedPosterior, DiffusedPosterior, DirectPosterior

_PANELS = 64  # of the quadrature over noisy counts, each with 20 nodes: enough for a noise_std of 0.2 at n = 100
_NODES, _MASSES = np.polynomial.legendre.leggauss(100)  # of the quadrature over the parameter
_LOST = -45.0  # log probability of the omitted tail of integer-valued noise


@frozen_value
class Setting:
    """A Beta(alpha, beta) prior, n records, and the Rényi order of the privacy target."""

    alpha: float
    beta: float
    n: int
    order: float

    @property
    def model(self) -> BetaBernoulli:
        """The model with this prior."""
        return BetaBernoulli(alpha=self.alpha, beta=self.beta)

    @property
    def direct(self) -> float:
        """Rényi divergence of one draw from the posterior at the order; +inf at and above the order limit."""
        return float(DirectPosterior(model=self.model, n=self.n).accountant.rdp(self.order))


@frozen_value
class Mixture:
    """Mixtures of Beta(a, b), shape (k,), with weights of shape (n + 1, k), one row for each number of ones.

    `amount` is the calibrated parameter of the mechanism.
    """

    amount: float
    a: FloatArray
    b: FloatArray
    weights: FloatArray

    def relative_entropy(self, distribution: Beta, count: int) -> float:
        """KL divergence of `distribution` from the output distribution for `count` ones, by Gauss-Legendre."""
        low, above = (
            float(side.quantile(np.array(1e-25))) for side in (distribution, Beta(a=distribution.b, b=distribution.a))
        )
        width = 1 - above - low
        theta = low + width * (_NODES + 1) / 2
        density = distribution.log_density(theta)
        with np.errstate(divide="ignore"):
            weights = np.log(self.weights[count])
        released = ConjugateMixture(family="Beta", first=self.a, second=self.b, log_weights=weights)
        return float(width / 2 * _MASSES @ (np.exp(density) * (density - released.log_density(theta))))

    def held_out(self, rho: float) -> tuple[float, float]:
        """Mean and standard deviation of -log Pr(new records | theta).

        The n records and the n new records are Bernoulli(rho), and theta is one draw of the output given the n records.
        The values are exact, from the moments of log theta and log(1 - theta).
        """
        n = len(self.weights) - 1
        share = stats.binom.pmf(np.arange(n + 1), n, rho) @ self.weights
        total = self.a + self.b
        means = np.array([special.digamma(side) - special.digamma(total) for side in (self.a, self.b)])
        spare = special.polygamma(1, total)
        ones, zeros, both = (
            share @ second
            for second in (
                special.polygamma(1, self.a) - spare + means[0] ** 2,
                special.polygamma(1, self.b) - spare + means[1] ** 2,
                means[0] * means[1] - spare,
            )
        )
        spread = n * rho * (1 - rho)
        squares = (
            (spread + (n * rho) ** 2) * ones
            + (spread + (n * (1 - rho)) ** 2) * zeros
            + 2 * (n * n * rho * (1 - rho) - spread) * both
        )
        mean = -n * (rho * share @ means[0] + (1 - rho) * share @ means[1])
        return float(mean), float(np.sqrt(squares - mean**2))


MixtureBuilder = Callable[[Setting, float], Mixture]


def _weighted(setting: Setting, r: float, w: float, amount: float) -> Mixture:
    counts = np.arange(setting.n + 1.0)
    return Mixture(
        amount=amount,
        a=w * setting.alpha + r * counts,
        b=w * setting.beta + r * (setting.n - counts),
        weights=np.eye(setting.n + 1),
    )


def true(setting: Setting, epsilon: float) -> Mixture:  # noqa: ARG001 - has no parameter to calibrate
    """The posterior itself, whose cost is not calibrated to epsilon."""
    return _weighted(setting, 1.0, 1.0, 1.0)


def diffused(setting: Setting, epsilon: float) -> Mixture:
    """Geumlek 2020, Algorithm 2, with the largest data weight r that meets the cost."""
    target = RDP(order=setting.order, epsilon=epsilon)
    r = DiffusedPosterior.calibrate(model=setting.model, n=setting.n, target=target).data_weight
    return _weighted(setting, r, 1.0, r)


def concentrated(setting: Setting, epsilon: float) -> Mixture:
    """Geumlek 2020, Algorithm 3, with the smallest prior weight 1/m that meets the cost."""
    target = RDP(order=setting.order, epsilon=epsilon)
    w = ConcentratedPosterior.calibrate(model=setting.model, n=setting.n, target=target).prior_weight
    return _weighted(setting, 1.0, w, w)


def gaussian(setting: Setting, epsilon: float) -> Mixture:
    """The Gaussian baseline of the thesis with its exact cost, order / (2 noise_std^2); the sensitivity is 1."""
    return _plug_in(setting, (setting.order / (2 * epsilon)) ** 0.5)


def gaussian_as_published(setting: Setting, epsilon: float) -> Mixture:
    """The Gaussian baseline with the Rényi divergence of the thesis, order / noise_std^2, twice the exact value."""
    return _plug_in(setting, (setting.order / epsilon) ** 0.5)


def _plug_in(setting: Setting, noise_std: float) -> Mixture:
    """The posterior of the noisy count, clipped to [0, n]."""
    n = setting.n
    x, mass = np.polynomial.legendre.leggauss(20)
    width = n / _PANELS
    inner = ((np.arange(_PANELS)[:, None] + (x + 1) / 2) * width).ravel()
    masses = np.tile(mass * width / 2, _PANELS)
    counts = np.arange(n + 1.0)[:, None]
    weights = np.hstack(
        [
            special.ndtr(-counts / noise_std),
            stats.norm.pdf(inner, counts, noise_std) * masses,
            special.ndtr((counts - n) / noise_std),
        ]
    )
    noisy = np.concatenate([[0.0], inner, [n]])
    return Mixture(amount=noise_std, a=setting.alpha + noisy, b=setting.beta + n - noisy, weights=weights)


def noise_aware(setting: Setting, epsilon: float) -> Mixture:
    """Noise-aware posterior of a count with discrete Gaussian noise of the same cost (equal at integer orders).

    With a weak prior the variance of its draws contains the variance of the noise about twice: once as the noise in the
    released count, once as the posterior uncertainty of this noise. The variance of plug-in draws contains it once.
    """
    noise = DiscreteGaussianNoise(noise_std=(setting.order / (2 * epsilon)) ** 0.5)
    reach = np.ceil(noise.quantile_bound(_LOST))
    counts = np.arange(setting.n + 1.0)
    noisy = np.arange(-reach, setting.n + reach + 1)
    likelihood = noise.log_mass(noisy - counts[:, None])
    prior = stats.betabinom.logpmf(counts, setting.n, setting.alpha, setting.beta)
    log_joint = prior[:, None] + likelihood
    posterior = np.exp(log_joint - special.logsumexp(log_joint, axis=0))
    return Mixture(
        amount=noise.noise_std,
        a=setting.alpha + counts,
        b=setting.beta + setting.n - counts,
        weights=np.exp(likelihood) @ posterior.T,
    )

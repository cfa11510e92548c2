"""The distribution of a share that is given by the tabulated distribution of its odds."""

import numpy as np
from scipy import special

from privsample._checks import FloatArray
from privsample._value import frozen_value
from privsample.distributions.parametric.conjugate import PosteriorDistribution
from privsample.distributions.parametric.tabulated import TabulatedDistribution


@frozen_value
class ShareOfOdds(PosteriorDistribution):
    """The distribution of theta in (0, 1), where theta / (1 - theta) has the distribution `odds`."""

    odds: TabulatedDistribution

    @property
    def mean(self) -> FloatArray:
        """The mean, by Chebyshev quadrature."""
        return np.asarray(self.odds.expectation(lambda x: x / (1 + x)))

    @property
    def variance(self) -> FloatArray:
        """The variance, by Chebyshev quadrature."""
        middle = float(self.mean)
        return np.asarray(self.odds.expectation(lambda x: (x / (1 + x) - middle) ** 2))

    def sample(self, size: int, rng: np.random.Generator) -> FloatArray:
        """Draws by inversion of the distribution function, shape (size,)."""
        return self.quantile(rng.random(size))

    def log_density(self, x: FloatArray) -> FloatArray:
        """Elementwise; -inf where the density is below e^-40 of its largest value."""
        x = np.asarray(x, dtype=np.float64)
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.asarray(self.odds.log_density(np.exp(special.logit(x))) - 2 * np.log1p(-x))

    def below(self, x: FloatArray) -> FloatArray:
        """The distribution function, elementwise."""
        return self.odds.below(np.exp(special.logit(np.asarray(x, dtype=np.float64))))

    def quantile(self, q: FloatArray) -> FloatArray:
        """Quantiles, elementwise."""
        with np.errstate(divide="ignore"):
            return np.asarray(special.expit(np.log(self.odds.quantile(q))))

    def relative_entropy(self, other: PosteriorDistribution) -> float:
        """The divergence has no closed form; raises TypeError."""
        return self.odds.relative_entropy(other)

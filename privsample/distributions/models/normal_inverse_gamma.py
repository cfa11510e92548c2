"""The normal-inverse-gamma distribution of regression coefficients and their variance."""

import numpy as np
from scipy import special

from privsample._checks import FloatArray, finite, positive
from privsample._value import frozen_value, set_fields
from privsample.distributions.parametric.conjugate import PosteriorDistribution


@frozen_value
class NormalInverseGamma(PosteriorDistribution):
    """Coefficients N(location, v precision^-1) given a variance v, and v ~ InverseGamma(shape, scale).

    location of shape (k,), precision (k, k), symmetric and positive definite. A draw is a row (coefficients, v) of
    k + 1 numbers.
    """

    location: tuple[float, ...]
    precision: FloatArray
    shape: float
    scale: float

    def __post_init__(self) -> None:
        set_fields(self, location=tuple(finite(**{f"location[{i}]": at}) for i, at in enumerate(self.location)))
        set_fields(self, shape=positive(shape=self.shape), scale=positive(scale=self.scale))
        precision = np.array(self.precision, dtype=np.float64)
        size = len(self.location)
        if not (precision.shape == (size, size) and (np.linalg.eigvalsh(precision) > 0).all()):
            raise ValueError(f"precision must be positive definite, of shape ({size}, {size}), got {self.precision!r}")
        precision.flags.writeable = False
        set_fields(self, precision=precision)

    @property
    def mean(self) -> FloatArray:
        """location, scale / (shape - 1); +inf for shape <= 1."""
        variance = self.scale / (self.shape - 1) if self.shape > 1 else np.inf
        return np.array([*self.location, variance])

    @property
    def variance(self) -> FloatArray:
        """+inf for the coefficients where shape <= 1, for v where shape <= 2."""
        spread = self.mean[-1]
        own = (spread**2) / (self.shape - 2) if self.shape > 2 else np.inf
        return np.array([*(spread * np.diagonal(np.linalg.inv(self.precision))), own])

    def sample(self, size: int, rng: np.random.Generator) -> FloatArray:
        """Shape (size, k + 1)."""
        variance = self.scale / rng.gamma(self.shape, 1.0, size)
        noise = np.linalg.solve(self._root.T, rng.standard_normal((len(self.location), size)))
        return np.column_stack([self.location + np.sqrt(variance)[:, None] * noise.T, variance])

    def log_density(self, x: FloatArray) -> FloatArray:
        """x of shape (..., k + 1)."""
        off, v, size = x[..., :-1] - np.array(self.location), x[..., -1], len(self.location)
        square = ((off @ self._root) ** 2).sum(axis=-1)
        constant = self.shape * np.log(self.scale) - special.gammaln(self.shape) - size / 2 * np.log(2 * np.pi)
        return (
            constant
            + np.log(np.diagonal(self._root)).sum()
            - (self.shape + 1 + size / 2) * np.log(v)
            - (self.scale + square / 2) / v
        )

    def quantile(self, q: FloatArray) -> FloatArray:
        """Of the first coefficient, a Student t of 2 shape degrees of freedom."""
        width = np.sqrt(self.scale / self.shape * np.linalg.inv(self.precision)[0, 0])
        return self.location[0] + width * special.stdtrit(2 * self.shape, q)

    def relative_entropy(self, other: PosteriorDistribution) -> float:
        """Of the variances, and of the coefficients given them."""
        assert isinstance(other, NormalInverseGamma)
        p, q = self, other
        variances = (
            (p.shape - q.shape) * special.digamma(p.shape)
            - special.gammaln(p.shape)
            + special.gammaln(q.shape)
            + q.shape * np.log(p.scale / q.scale)
            + p.shape * (q.scale - p.scale) / p.scale
        )
        off = np.array(p.location) - np.array(q.location)
        volumes = 2 * np.log(np.diagonal(p._root)).sum() - 2 * np.log(np.diagonal(q._root)).sum()
        trace = np.trace(np.linalg.solve(p.precision, q.precision)) - len(off)
        return max(0.0, float(variances + (trace + volumes + p.shape / p.scale * (off @ q.precision @ off)) / 2))

    @property
    def _root(self) -> FloatArray:
        """Cholesky factor of the precision, shape (k, k)."""
        return np.asarray(np.linalg.cholesky(self.precision))

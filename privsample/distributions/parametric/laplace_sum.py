"""The sum of two independent Laplace variables with equal or different scales, computed without cancellation."""

import numpy as np

from privsample._checks import FloatArray, Real, positive
from privsample._value import frozen_value, set_fields


@frozen_value
class LaplaceSum:
    """Lap(scale) + Lap(further_scale).

    With a the larger and b the smaller scale, u = 1/b - 1/a and w(y) = (1 - e^(-uy))/(au), the density at |x| = y is
    e^(-y/a) (1 + w(y))/(2(a+b)) and the tail beyond y is e^(-y/a) (1 + b w(y)/(a+b))/2: sums of positive terms, whose
    limit for a = b is that of w, y/a (Geumlek 2020, equation (6.3) is the case a = b).
    """

    scale: float
    further_scale: float

    def __post_init__(self) -> None:
        set_fields(self, scale=positive(scale=self.scale), further_scale=positive(further_scale=self.further_scale))

    @property
    def wide(self) -> float:
        """The larger scale, a."""
        return max(self.scale, self.further_scale)

    @property
    def narrow(self) -> float:
        """The smaller scale, b."""
        return min(self.scale, self.further_scale)

    @property
    def rate(self) -> float:
        """u = 1/b - 1/a."""
        return (self.wide - self.narrow) / self.wide / self.narrow

    def weight(self, y: Real) -> FloatArray:
        """w(y), for y >= 0; grows, and w(y + d) - w(y) = e^(-uy) w(d)."""
        at = np.asarray(y, dtype=np.float64)
        z = self.rate * at
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.where(z > 0.0, -np.expm1(-z) / z, 1.0) * at / self.wide

    def log_density(self, x: Real) -> FloatArray:
        """log of the density at any real x."""
        y = np.abs(np.asarray(x, dtype=np.float64))
        return -y / self.wide + np.log1p(self.weight(y)) - np.log(2 * (self.wide + self.narrow))

    def sample(self, shape: tuple[int, ...], rng: np.random.Generator) -> FloatArray:
        """Independent draws of the given shape."""
        return rng.laplace(0.0, self.scale, shape) + rng.laplace(0.0, self.further_scale, shape)

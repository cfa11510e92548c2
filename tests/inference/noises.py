"""A noise distribution that the library does not know."""

from dataclasses import dataclass

import numpy as np

from privsample.distributions.noise import Noise


@dataclass(frozen=True, kw_only=True)
class OwnLogistic(Noise):
    """Logistic noise, with a density that is none of the library's."""

    scale: float

    @property
    def name(self):
        return "logistic"

    @property
    def integer_valued(self):
        return False

    @property
    def scale_parameter(self):
        return self.scale

    @property
    def variance(self):
        return (np.pi * self.scale) ** 2 / 3

    def log_mass(self, x):
        z = np.abs(np.asarray(x)) / self.scale
        return -z - 2 * np.log1p(np.exp(-z)) - np.log(self.scale)

    def log_tail(self, t):
        return np.log(2) - np.asarray(t) / self.scale

    def quantile_bound(self, log_probability):
        return self.scale * (np.log(2) - log_probability)

    def sample(self, shape, rng):
        return rng.logistic(0.0, self.scale, shape)

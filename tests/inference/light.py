"""A normal distribution and a prior without the cost of frozen distributions of SciPy."""

import numpy as np


class Light:
    """A normal distribution without the cost of a frozen distribution of SciPy; `hidden` methods are left out."""

    def __init__(self, mean, std=1.0, hidden=()):
        self.mean, self.std, self.hidden = mean, std, hidden

    def __getattr__(self, name):
        if name in ("rvs", "logpdf", "cdf", "ppf", "sf", "isf") and name not in self.hidden:
            return getattr(self, f"_{name}")
        raise AttributeError(name)

    def _rvs(self, size, random_state):
        return self.mean + self.std * random_state.standard_normal(size)

    def _logpdf(self, x):
        return -0.5 * ((x - self.mean) / self.std) ** 2 - np.log(self.std)

    def _cdf(self, x):
        from scipy.special import ndtr

        return ndtr((x - self.mean) / self.std)

    def _ppf(self, q):
        from scipy.special import ndtri

        return self.mean + self.std * ndtri(q)

    def _sf(self, x):
        return self._cdf(2 * self.mean - x)

    def _isf(self, q):
        return 2 * self.mean - self._ppf(q)


class LightPrior(Light):
    """A prior that is quick to evaluate."""

    def __init__(self, hidden=()):
        super().__init__(0.0, 1.0, ("cdf", "ppf", "sf", "isf", *hidden))

    def support(self):
        return -np.inf, np.inf

    def _rvs(self, random_state):
        return random_state.standard_normal()

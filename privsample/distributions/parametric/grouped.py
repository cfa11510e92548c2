"""Conjugate posteriors of many groups: arrays of parameters, and draws for all groups at once."""

from typing import NamedTuple

import numpy as np

from privsample._checks import FloatArray
from privsample.distributions.parametric.conjugate import Beta, Dirichlet, Gamma, Normal, PosteriorDistribution


class GroupedPosterior(NamedTuple):
    """One posterior of a family for each group: the parameters of `family`, in its order, each of shape (groups, ...).

    Examples
    --------
    >>> import numpy as np
    >>> from privsample.distributions.parametric.conjugate import Gamma
    >>> from privsample.distributions.parametric.grouped import GroupedPosterior
    >>> rates = GroupedPosterior(Gamma, (np.array([2.0, 500.0]), np.array([1.0, 100.0])))
    >>> rates.sample(3, np.random.default_rng(0)).shape
    (3, 2)
    """

    family: type[PosteriorDistribution]
    parameters: tuple[FloatArray, ...]

    def sample(self, size: int, rng: np.random.Generator) -> FloatArray:
        """Independent draws for each group by NumPy, shape (size, groups) or (size, groups, K).

        The shares of a Dirichlet distribution are Beta-distributed parts of what the shares before them leave: gamma
        variates of small shapes could all be 0.
        """
        first, *others = self.parameters
        if self.family is Dirichlet:
            after = np.cumsum(first[:, ::-1], axis=1)[:, ::-1][:, 1:]
            parts = rng.beta(first[:, :-1], after, (size, *after.shape))
            left = np.concatenate([np.ones((size, len(first), 1)), np.cumprod(1 - parts, axis=2)], axis=2)
            return left * np.concatenate([parts, np.ones((size, len(first), 1))], axis=2)
        (second,) = others
        shape = (size, len(first))
        if self.family is Beta:
            return rng.beta(first, second, shape)
        if self.family is Gamma:
            return rng.gamma(first, 1 / second, shape)
        assert self.family is Normal
        return rng.normal(first, second, shape)

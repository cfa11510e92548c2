"""Posteriors of many groups at once: independent distributions, each distinct one computed once."""

from abc import abstractmethod
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from privsample._checks import FloatArray
from privsample._value import frozen_value
from privsample.distributions.parametric.conjugate import PosteriorDistribution

Sizes = NDArray[np.int64]


class GroupPosteriors(PosteriorDistribution):
    """The independent distributions of one parameter in many groups, in the order of the public list of groups.

    `mean` and `variance` have shape (groups,) or (groups, K), `interval` (2, groups), and `sample` (size, groups, ...).
    The distribution of one group is `posterior[place]`.
    """

    __slots__ = ()
    group_axes = 1

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def __getitem__(self, place: int) -> PosteriorDistribution: ...

    def log_density(self, x: FloatArray) -> FloatArray:
        """Log density of each group, shape (..., groups), at x of shape (..., groups) or (..., groups, K)."""
        x, axis = np.asarray(x, dtype=np.float64), -self.mean.ndim
        groups = np.moveaxis(np.broadcast_to(x, np.broadcast_shapes(x.shape, self.mean.shape)), axis, 0)
        return np.stack([self[place].log_density(at) for place, at in enumerate(groups)], axis=-1)

    def relative_entropy(self, other: PosteriorDistribution) -> float:
        """Kullback-Leibler divergence of all groups together in nats, the sum over the groups."""
        assert isinstance(other, GroupPosteriors)
        return sum(self[place].relative_entropy(other[place]) for place in range(len(self)))


@frozen_value
class SharedPosteriors(GroupPosteriors):
    """Groups whose distributions are among `parts`; `places`, shape (groups,), says which part is whose."""

    parts: tuple[PosteriorDistribution, ...]
    places: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.places)

    def __getitem__(self, place: int) -> PosteriorDistribution:
        return self.parts[self.places[place]]

    @property
    def mean(self) -> FloatArray:
        """The mean of each group, shape (groups, ...)."""
        return np.stack([part.mean for part in self.parts])[self.places]

    @property
    def variance(self) -> FloatArray:
        """The variance of each group, shape (groups, ...)."""
        return np.stack([part.variance for part in self.parts])[self.places]

    def quantile(self, q: FloatArray) -> FloatArray:
        """Quantiles of each group, shape (..., groups); of the first coordinate if the parameter is a vector."""
        return np.stack([part.quantile(np.asarray(q)) for part in self.parts], axis=-1)[..., self.places]

    def sample(self, size: int, rng: np.random.Generator) -> FloatArray:
        """Independent draws, also of groups with one distribution; shape (size, groups, ...)."""
        drawn = np.empty((size, *self.mean.shape))
        for part, members in zip(self.parts, members_of(self.places, len(self.parts)), strict=True):
            own = part.sample(size * len(members), rng)
            drawn[:, members] = own.reshape(size, len(members), *own.shape[1:])
        return drawn


def members_of(places: NDArray[np.int64], count: int) -> list[NDArray[np.int64]]:
    """The groups of each of `count` parts."""
    return np.split(np.argsort(places, kind="stable"), np.cumsum(np.bincount(places, minlength=count))[:-1])


def distinct_groups(sizes: Sizes, observed: FloatArray) -> tuple[Sizes, FloatArray, NDArray[np.int64]]:
    """The distinct pairs of a size and its noisy copies: sizes (k,), copies (copies, k, ...), and whose is which.

    `observed` has shape (copies, groups, ...). Statistics of equal size that are equal are common for whole numbers.
    """
    flat = np.moveaxis(observed, 1, 0).reshape(len(sizes), -1)
    table = np.column_stack([sizes.astype(np.float64), flat])
    _, first, places = np.unique(table, axis=0, return_index=True, return_inverse=True)
    return sizes[first], observed[:, first], places.reshape(-1)


def shared_posteriors(
    find: Callable[[int, FloatArray], PosteriorDistribution], sizes: Sizes, observed: FloatArray
) -> SharedPosteriors:
    """The posteriors of all groups; `find` takes a size and noisy copies, and is called once for each distinct pair.

    Parameters
    ----------
    find : function
        The posterior of one group, given its number of records and its noisy copies, shape (copies, ...).
    sizes : array of int, shape (groups,)
        Numbers of records.
    observed : array of shape (copies, groups, ...)
        Noisy copies of the statistics.

    Returns
    -------
    SharedPosteriors
        The distributions.
    """
    own, seen, places = distinct_groups(sizes, observed)
    return SharedPosteriors(parts=tuple(find(int(n), seen[:, k]) for k, n in enumerate(own)), places=places)

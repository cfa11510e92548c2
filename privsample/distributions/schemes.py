"""Subsampling schemes: which records are sampled, and in which order."""

from abc import ABC, abstractmethod

import numpy as np
from numpy.typing import NDArray

from privsample._checks import open_unit_interval, positive_integer
from privsample._value import frozen_value, set_fields

Indices = NDArray[np.int64]


class Scheme(ABC):
    """A distribution of subsamples.

    Sampled records are in uniformly random order, so positions carry no information.
    """

    __slots__ = ()

    @abstractmethod
    def draw(self, size: int, rng: np.random.Generator) -> Indices:
        """Draw one subsample of the records 0, ..., size-1.

        Parameters
        ----------
        size : int
            Number of records in the dataset.
        rng : numpy.random.Generator
            Source of randomness.

        Returns
        -------
        array of shape (k,)
            Indices of the sampled records, in uniformly random order.
        """


@frozen_value
class PoissonSampling(Scheme):
    """Poisson subsampling: each record is included independently with probability `rate`.

    The size of the subsample is random and may be 0.

    Parameters
    ----------
    rate : float
        Inclusion probability, in (0, 1].

    Raises
    ------
    ValueError
        If `rate` is not in (0, 1].

    Examples
    --------
    >>> import numpy as np
    >>> import privsample as ps
    >>> ps.PoissonSampling(rate=0.5).draw(6, np.random.default_rng(1)).size <= 6
    True
    """

    rate: float

    def __post_init__(self) -> None:
        set_fields(self, rate=open_unit_interval(rate=self.rate))

    def draw(self, size: int, rng: np.random.Generator) -> Indices:
        """Draw the number of records first, then which ones.

        One uniform double per record would resolve the rate only to multiples of 2^-53, which is coarse at small rates.
        """
        return np.asarray(rng.choice(size, rng.binomial(size, self.rate), replace=False), dtype=np.int64)


@frozen_value
class WithoutReplacement(Scheme):
    """Subsampling without replacement: a uniformly random set of `m` of the `n` records.

    Parameters
    ----------
    n : int
        Number of records in the dataset, >= 1.
    m : int
        Number of records in the subsample, 1 <= m <= n.

    Raises
    ------
    ValueError
        If `n` or `m` is not a whole number >= 1, or if `m` exceeds `n`.

    Examples
    --------
    >>> import numpy as np
    >>> import privsample as ps
    >>> len(set(ps.WithoutReplacement(n=6, m=3).draw(6, np.random.default_rng(1)).tolist()))
    3
    """

    n: int
    m: int

    def __post_init__(self) -> None:
        set_fields(self, n=positive_integer(n=self.n), m=positive_integer(m=self.m))
        if not self.m <= self.n:
            raise ValueError(f"m must be at most n = {self.n}, got {self.m}: a record is drawn once at most")

    def draw(self, size: int, rng: np.random.Generator) -> Indices:
        """Draw `m` distinct indices."""
        return np.asarray(rng.choice(size, self.m, replace=False), dtype=np.int64)


@frozen_value
class WithReplacement(Scheme):
    """Subsampling with replacement: `m` independent uniform draws from the `n` records.

    A record may be drawn several times.

    Parameters
    ----------
    n : int
        Number of records in the dataset, >= 1.
    m : int
        Number of draws, >= 1.

    Raises
    ------
    ValueError
        If `n` or `m` is not a whole number >= 1.

    Examples
    --------
    >>> import numpy as np
    >>> import privsample as ps
    >>> ps.WithReplacement(n=3, m=5).draw(3, np.random.default_rng(1)).size
    5
    """

    n: int
    m: int

    def __post_init__(self) -> None:
        set_fields(self, n=positive_integer(n=self.n), m=positive_integer(m=self.m))

    def draw(self, size: int, rng: np.random.Generator) -> Indices:
        """Draw `m` independent uniform indices."""
        return np.asarray(rng.integers(0, size, self.m), dtype=np.int64)

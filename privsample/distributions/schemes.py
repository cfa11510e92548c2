"""Subsampling schemes: which records are drawn, and in which order."""

from abc import ABC, abstractmethod

import numpy as np
from numpy.typing import NDArray

from privsample._checks import open_unit_interval, positive_integer
from privsample._value import frozen_value, set_fields

Indices = NDArray[np.int64]


class Scheme(ABC):
    """A distribution of subsamples. They come in an order that is uniform given which records are in: place tells
    nothing.
    """

    __slots__ = ()

    @abstractmethod
    def draw(self, size: int, rng: np.random.Generator) -> Indices:
        """Places, in 0 ... size-1, of the records of one subsample; shape (k,)."""


@frozen_value
class PoissonSampling(Scheme):
    """Each record by itself with probability `rate`, in (0, 1]; any number of records may be drawn, also none."""

    rate: float

    def __post_init__(self) -> None:
        set_fields(self, rate=open_unit_interval(rate=self.rate))

    def draw(self, size: int, rng: np.random.Generator) -> Indices:
        """First how many, then which: a coin of 53 bits for each record would be coarse at small rates."""
        return np.asarray(rng.choice(size, rng.binomial(size, self.rate), replace=False), dtype=np.int64)


@frozen_value
class WithoutReplacement(Scheme):
    """`m` different records of `n`, every such set equally likely."""

    n: int
    m: int

    def __post_init__(self) -> None:
        set_fields(self, n=positive_integer(n=self.n), m=positive_integer(m=self.m))
        if not self.m <= self.n:
            raise ValueError(f"m must be at most n = {self.n}, got {self.m}: a record is drawn once at most")

    def draw(self, size: int, rng: np.random.Generator) -> Indices:
        """`m` of the places."""
        return np.asarray(rng.choice(size, self.m, replace=False), dtype=np.int64)


@frozen_value
class WithReplacement(Scheme):
    """`m` draws from `n` records, each draw from all of them: a record may be drawn several times."""

    n: int
    m: int

    def __post_init__(self) -> None:
        set_fields(self, n=positive_integer(n=self.n), m=positive_integer(m=self.m))

    def draw(self, size: int, rng: np.random.Generator) -> Indices:
        """`m` independent places."""
        return np.asarray(rng.integers(0, size, self.m), dtype=np.int64)

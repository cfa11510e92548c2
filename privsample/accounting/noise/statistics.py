"""The account of a statistic released with noise: from the geometry of record differences, not from a norm alone.

Proofs are in docs/notes/statistics.md.
"""

from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np

from privsample._checks import FloatArray, positive, positive_integer
from privsample._logspace import LEAST_LOSS, ratio_up
from privsample._value import frozen_value, set_fields
from privsample.accounting.assumptions import Assumption
from privsample.accounting.base import Accountant
from privsample.accounting.engine.bounds import VIEWS, PrivacyBounds, View
from privsample.accounting.loss.gaussian import GaussianPair
from privsample.accounting.loss.laplace import LaplacePair
from privsample.accounting.loss.pair import LossPair
from privsample.accounting.loss.product import ProductPair
from privsample.accounting.noise.discrete import DiscreteGaussianPair, DiscreteLaplacePair
from privsample.accounting.noise.sums_of_losses import together
from privsample.distributions.noise import (
    DiscreteGaussianNoise,
    DiscreteLaplaceNoise,
    GaussianNoise,
    LaplaceNoise,
    Noise,
)
from privsample.distributions.record_sensitivity import RecordSensitivity
from privsample.relations import ReplaceOne


@frozen_value
class StatisticsAccountant(Accountant):
    """`draws` noisy copies of the statistic of n records, each coordinate with its own `noise`, under ReplaceOne(n).

    A single extreme difference costs, exactly, one shifted pair for each of its coordinates: one binary count one, a
    one-hot record two. Where there are several the Rényi curve is their maximum, and the privacy curve is bounded by
    the largest L1 norm (Laplace distributions), the Rényi curve alone (discrete Gaussian), or given by the largest L2
    norm (Gaussian, exactly). With `group_size` k, k records are replaced at once.
    """

    differences: RecordSensitivity
    n: int
    noise: Noise
    draws: int = 1
    unit: str = "record"
    group_size: int = 1
    assumptions: frozenset[Assumption] = frozenset({Assumption.IDEAL_REALS})

    def __post_init__(self) -> None:
        fitting(self.noise, self.differences)
        set_fields(self, n=positive_integer(n=self.n), draws=positive_integer(draws=self.draws))
        set_fields(self, group_size=min(positive_integer(group_size=self.group_size), self.n))
        positive(**{"half the squared ratio of difference and noise": self._rho})
        if self.group_size > 1 and not self._groups_known:
            raise ValueError(
                f"group_size must be 1 for discrete Gaussian noise on several coordinates, got {self.group_size}; "
                f".group({self.group_size}) bounds the group from the account of one"
            )

    @property
    def relation(self) -> ReplaceOne:  # type: ignore[override]
        """n is public; one record may be any other."""
        return ReplaceOne(n=self.n, unit=self.unit, members=self.group_size)

    @property
    def source(self) -> str:
        """The theorems and the proof note."""
        own: dict[type[Noise], str] = {
            LaplaceNoise: "Balle, Barthe and Gaboardi 2018, Theorem 3; Mironov 2017, Proposition 6",
            GaussianNoise: "Balle and Wang 2018, Theorem 8; Mironov 2017, Corollary 3",
            DiscreteLaplaceNoise: "Ghosh, Roughgarden and Sundararajan 2009 (two-sided geometric distribution)",
            DiscreteGaussianNoise: "Canonne, Kamath and Steinke 2020, Theorem 7",
        }
        return f"{own[type(self.noise)]}; privsample notes, statistics.md (differences of records)"

    @property
    def _vectors(self) -> FloatArray:
        return self.group_size * self.differences.differences

    @property
    def _bounded_by_renyi(self) -> bool:
        """Whether no pair is known to be worst, only a Rényi curve."""
        return len(self._vectors) > 1 and isinstance(self.noise, DiscreteGaussianNoise)

    def _bounds(self) -> PrivacyBounds:
        """By one pair, its own reverse: all coordinates and draws share their neighbours."""
        known: dict[str, Any] = {"zcdp": self._rho, "pure_epsilon": self._largest_loss}
        attained: frozenset[View] = VIEWS if self.differences.tight else frozenset()
        if self._bounded_by_renyi:
            return PrivacyBounds.from_renyi(self._renyi, **known | {"exact": frozenset()})
        pair = self._pair
        numerical = isinstance(pair, ProductPair)
        # one pair that bounds several differences: their Rényi curves may be below its own
        single = len(self._vectors) == 1 or isinstance(self.noise, GaussianNoise)
        return PrivacyBounds.from_pairs(
            [pair],
            renyi=self._renyi,
            exact=attained if single and not numerical else attained & {"rdp"},
            inverts_exactly=not numerical,
            curve_is_least=single,
            curve_name="composed loss, on a grid" if numerical else "privacy curve",
            **known,
        )

    @property
    def _pair(self) -> LossPair:
        vectors = self._vectors
        if isinstance(self.noise, GaussianNoise):
            return GaussianPair(mu=float(np.sqrt(2 * self._rho)))
        if len(vectors) > 1:
            return together(((_shifted(self.noise, self._reach), self.draws),))
        return together(self._members(vectors[0]))

    def _members(self, vector: FloatArray) -> tuple[tuple[LossPair, int], ...]:
        sizes = Counter(vector[vector > 0].tolist())
        return tuple((_shifted(self.noise, size), count * self.draws) for size, count in sizes.items())

    @property
    def _reach(self) -> float:
        """The largest L1 norm."""
        return float(self._vectors.sum(axis=1).max())

    def _renyi(self, orders: FloatArray) -> FloatArray:
        """The largest over the extreme differences; of each, the sum over coordinates."""
        if isinstance(self.noise, GaussianNoise) or self._bounded_by_renyi:
            return orders * self._rho
        rows = [ProductPair(members=self._members(row)) for row in self._vectors]
        return np.minimum(ProductPair.worst_renyi(rows, orders), orders * self._rho)

    @property
    def _rho(self) -> float:
        """Half the largest squared L2 norm, in noise_std or in scales: a pure guarantee of e costs e^2 / 2."""
        with np.errstate(over="ignore", under="ignore"):
            square = float(((self._vectors / self.noise.spread) ** 2).sum(axis=1).max())
        longest = self.group_size * self.differences.l2 / self.noise.spread
        return max(min(square, longest * longest), LEAST_LOSS * LEAST_LOSS) / 2 * self.draws

    @property
    def _largest_loss(self) -> float:
        """Of Laplace noise the largest L1 norm, in scales."""
        if isinstance(self.noise, (GaussianNoise, DiscreteGaussianNoise)):
            return np.inf
        return ratio_up(self._reach * self.draws, self.noise.spread)

    @property
    def _groups_known(self) -> bool:
        """Whether k records are worst when all make the same step; not proven for discrete Gaussian vectors."""
        return not isinstance(self.noise, DiscreteGaussianNoise) or self.differences.differences.shape[1] == 1

    def group(self, size: int) -> Accountant:
        """`size` records replaced at once: so many times the differences. Discrete Gaussian vectors: the curves'."""
        size = positive_integer(size=size)
        if not self._groups_known:
            return Accountant.group(self, size)
        return replace(self, group_size=size * self.group_size)


def fitting(noise: Noise, differences: RecordSensitivity) -> None:
    """Check that the noise can hide the differences. Raises: TypeError, ValueError."""
    if not isinstance(noise, Noise):
        raise TypeError(f"noise must be one of privsample's distributions of noise, got {type(noise).__name__}")
    if not isinstance(differences, RecordSensitivity):
        raise TypeError(f"differences must be RecordSensitivity(differences=...), got {type(differences).__name__}")
    if noise.whole and not differences.whole:
        raise ValueError(
            f"{noise.name} is a noise distribution that does not fit the statistic: it is whole, the statistic is not, "
            "and its "
            "fraction would show through; use 'laplace' or 'gaussian'"
        )


def _shifted(noise: Noise, size: float) -> LossPair:
    """The pair of one coordinate."""
    match noise:
        case LaplaceNoise(scale=scale):
            return LaplacePair(shift=ratio_up(size, scale))
        case DiscreteLaplaceNoise(scale=scale):
            return DiscreteLaplacePair(shift=round(size), scale=scale)
        case _:
            return DiscreteGaussianPair(shift=round(size), noise_std=noise.spread)

"""Account of a noisy statistic, computed from the set of all changes of the statistic that one record can cause.

The set gives tighter bounds than a norm of the changes alone. Proofs are in docs/notes/statistics.md.
"""

from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np

from privsample._checks import FloatArray, positive, positive_integer
from privsample._logspace import LEAST_LOSS, half_square, product_up, ratio_up, scaled_up, weighted_sum_up
from privsample._value import frozen_value, set_fields
from privsample.accounting.assumptions import Assumption
from privsample.accounting.base import Accountant, Group
from privsample.accounting.curves import zcdp
from privsample.accounting.engine.bounds import VIEWS, PrivacyBounds, View
from privsample.accounting.loss.gaussian import GaussianPair
from privsample.accounting.loss.laplace import LaplacePair
from privsample.accounting.loss.pair import LossPair
from privsample.accounting.loss.product import ProductPair
from privsample.accounting.noise.discrete import DiscreteGaussianPair, DiscreteLaplacePair
from privsample.accounting.noise.known import check_known
from privsample.accounting.noise.sums_of_losses import independent_coordinates
from privsample.distributions.noise import (
    DiscreteGaussianNoise,
    DiscreteLaplaceNoise,
    GaussianNoise,
    LaplaceNoise,
    Noise,
)
from privsample.distributions.record_sensitivity import RecordSensitivity
from privsample.relations import AddRemove, Relation, ReplaceOne


@frozen_value
class StatisticsAccountant(Accountant):
    """Noisy copies of a statistic of n records, each coordinate with independent noise.

    The relation is ReplaceOne(n) or, with n=None, AddRemove. A difference is the change of the statistic when one
    record is replaced, or is added or removed; `differences` lists the extreme ones. If
    there is a single extreme difference, the account is exact. It is the product of one dominating pair for each
    nonzero coordinate: two shifted copies of the noise distribution. A binary count has one such pair, a one-hot record
    two. If there are several extreme differences, the Rényi curve is the maximum over them. The privacy curve is then
    that of the largest L1 norm (Laplace distributions) or of the largest L2 norm (Gaussian, exact), or is converted
    from the Rényi curve (discrete Gaussian).

    Parameters
    ----------
    differences : RecordSensitivity
        The extreme differences between the statistics of neighbours: under AddRemove, what one record adds to the
        statistic, which then includes the number of records or determines it.
    n : int or None
        Number of records, >= 1, if it is public. None for AddRemove, where it is private.
    noise : Noise
        Distribution of the noise: `LaplaceNoise`, `GaussianNoise`, `DiscreteLaplaceNoise` or `DiscreteGaussianNoise`.
    draws : int, default 1
        Number of independent noisy copies, >= 1.
    unit : str, default "record"
        What one record is, for example "patient". The privacy statement uses this word.
    group_size : int, default 1
        Number of records in which neighbours differ, >= 1. Values above a public `n` become `n`.
    assumptions : frozenset of Assumption, default {IDEAL_REALS}
        Assumptions of the guarantee.

    Raises
    ------
    TypeError
        If `noise` or `differences` has the wrong type.
    ValueError
        If a number is outside its range, or if discrete noise is added to a statistic that is not an integer.

    Notes
    -----
    Source: Balle, Barthe and Gaboardi 2018, Theorem 3; Balle and Wang 2018, Theorem 8; Ghosh, Roughgarden and
    Sundararajan 2009; Canonne, Kamath and Steinke 2020, Theorem 7; docs/notes/statistics.md.

    Kind: exact for a single extreme difference that some record attains and for Gaussian noise; otherwise exact for the
    Rényi curve and an upper bound for the privacy curve. For several coordinates of discrete Gaussian noise it is an
    upper bound.

    Examples
    --------
    Counts of three categories, of which a replaced record changes two by 1:

    >>> import privsample as ps
    >>> counts = ps.RecordSensitivity(differences=[[1, 1, 0]])
    >>> account = ps.StatisticsAccountant(differences=counts, n=100, noise=ps.LaplaceNoise(scale=4))
    >>> account.pure_epsilon, round(float(account.delta(0.25)), 4)
    (0.5, 0.0623)

    If the number of records is private, an added record changes one count by 1:

    >>> one = ps.RecordSensitivity(differences=[[1]])
    >>> account = ps.StatisticsAccountant(differences=one, n=None, noise=ps.LaplaceNoise(scale=4))
    >>> account.relation, account.pure_epsilon
    (AddRemove(unit='record', members=1), 0.25)
    """

    differences: RecordSensitivity
    n: int | None
    noise: Noise
    draws: int = 1
    unit: str = "record"
    group_size: int = 1
    assumptions: frozenset[Assumption] = frozenset({Assumption.IDEAL_REALS})

    def __post_init__(self) -> None:
        check_noise(self.noise, self.differences)
        set_fields(
            self, draws=positive_integer(draws=self.draws), group_size=positive_integer(group_size=self.group_size)
        )
        if self.n is not None:
            set_fields(self, n=positive_integer(n=self.n))
            set_fields(self, group_size=min(self.group_size, self.n))
        positive(**{"half the squared ratio of difference and noise": self._half_square})
        if self.group_size > 1 and not self._groups_known:
            raise ValueError(
                f"group_size must be 1 for discrete Gaussian noise on several coordinates, got {self.group_size}; use "
                f".group({self.group_size}) of the account of one record"
            )

    @property
    def relation(self) -> Relation:  # type: ignore[override]
        """ReplaceOne of a public number of records, otherwise AddRemove; `group_size` records can differ."""
        if self.n is None:
            return AddRemove(unit=self.unit, members=self.group_size)
        return ReplaceOne(n=self.n, unit=self.unit, members=self.group_size)

    @property
    def source(self) -> str:
        """Author, year and theorem for the noise distribution, and the note with the proofs."""
        own: dict[type[Noise], str] = {
            LaplaceNoise: "Balle, Barthe and Gaboardi 2018, Theorem 3; Mironov 2017, Proposition 6",
            GaussianNoise: "Balle and Wang 2018, Theorem 8; Mironov 2017, Corollary 3",
            DiscreteLaplaceNoise: "Ghosh, Roughgarden and Sundararajan 2009 (two-sided geometric distribution)",
            DiscreteGaussianNoise: "Canonne, Kamath and Steinke 2020, Theorem 7",
        }
        return f"{own[type(self.noise)]}; docs/notes/statistics.md"

    @property
    def _vectors(self) -> FloatArray:
        """The extreme differences of a group, shape (differences, coordinates)."""
        return product_up(float(self.group_size), self.differences.differences)

    @property
    def _bounded_by_renyi(self) -> bool:
        """True if no dominating pair is known, and the Rényi curve is the only bound.

        Under AddRemove, the records of a group can change different coordinates, so that the group has several
        differences where one record has one.
        """
        several = len(self._vectors) > 1 or (self.n is None and self.group_size > 1)
        return several and isinstance(self.noise, DiscreteGaussianNoise)

    def _bounds(self) -> PrivacyBounds:
        """One pair for all coordinates and copies, which is its own reverse."""
        known: dict[str, Any] = {"zcdp": self._rho, "pure_epsilon": self._largest_loss}
        attained: frozenset[View] = VIEWS if self.differences.tight else frozenset()
        if self._bounded_by_renyi:
            return PrivacyBounds.from_renyi(self._renyi, **known | {"exact": frozenset()})
        pair = self._pair
        numerical = isinstance(pair, ProductPair)
        # A pair that dominates several differences: the maximum of their Rényi curves may be below its own, unless the
        # whole L1 norm in one coordinate is itself a difference.
        single = len(self._vectors) == 1 or isinstance(self.noise, GaussianNoise)
        single = single or bool(self._vectors.max() == self._vectors.sum(axis=1).max())
        return PrivacyBounds.from_pairs(
            [pair],
            renyi=self._renyi,
            exact=attained if single and not numerical else attained & {"rdp"},
            inverts_exactly=not numerical,
            curve_is_least=single,
            curve_name="numerically composed loss" if numerical else "privacy curve",
            **known,
        )

    @property
    def _pair(self) -> LossPair:
        """A pair that dominates all differences."""
        vectors = self._vectors
        if isinstance(self.noise, GaussianNoise):
            return GaussianPair(mu=float(np.sqrt(2 * self._rho)))
        if len(vectors) > 1:
            return independent_coordinates(((_shifted(self.noise, self._largest_l1_norm), self.draws),))
        return independent_coordinates(self._members(vectors[0]))

    def _members(self, vector: FloatArray) -> tuple[tuple[LossPair, int], ...]:
        """One pair for each distinct nonzero shift of a coordinate, with its number of occurrences."""
        sizes = Counter(vector[vector > 0].tolist())
        return tuple((_shifted(self.noise, size), count * self.draws) for size, count in sizes.items())

    @property
    def _largest_l1_norm(self) -> float:
        """The largest L1 norm of a difference, rounded up."""
        norm, coordinates = float(self._vectors.sum(axis=1).max()), self._vectors.shape[1]
        if coordinates == 1 or (norm < 2.0**53 and bool((self._vectors % 1.0 == 0.0).all())):  # the sum is exact
            return norm
        return norm * (1.0 + coordinates * float(np.finfo(np.float64).eps))

    def _renyi(self, orders: FloatArray) -> FloatArray:
        """The maximum over the extreme differences of the sum over coordinates."""
        if isinstance(self.noise, GaussianNoise) or self._bounded_by_renyi:
            return product_up(orders, self._rho)
        rows = [ProductPair(members=self._members(row)) for row in self._vectors]
        return np.minimum(ProductPair.worst_renyi(rows, orders), product_up(orders, self._rho))

    @property
    def _rho(self) -> float:
        """zCDP: half the largest squared L2 norm in units of the noise, or for Laplace noise the sum over coordinates.

        That sum is convex in the difference, so that an extreme difference has the largest (docs/notes/zcdp.md).
        """
        if not isinstance(self.noise, LaplaceNoise):
            return self._half_square
        return min(self._half_square, max(weighted_sum_up(self._laplace_members(row)) for row in self._vectors))

    @property
    def _half_square(self) -> float:
        """Half the largest squared L2 norm in units of the noise, for all draws, rounded up."""
        vectors, scale = self._vectors, self.noise.scale_parameter
        longest = ratio_up(float(product_up(float(self.group_size), self.differences.l2)), scale)
        if vectors.shape[1] == 1:
            half = half_square(min(ratio_up(float(vectors.max()), scale), longest))
        else:
            with np.errstate(over="ignore", under="ignore"):
                square = float(((vectors / scale) ** 2).sum(axis=1).max())
            up = 1.0 + (vectors.shape[1] + 6) * float(np.finfo(np.float64).eps)  # quotients, squares, sums, a root
            half = min(square / 2, half_square(longest)) * up
        return scaled_up(self.draws, max(half, LEAST_LOSS * LEAST_LOSS / 2))

    def _laplace_members(self, vector: FloatArray) -> list[tuple[float, int]]:
        """The zCDP of each distinct nonzero shift of a coordinate, with its number of occurrences."""
        sizes = Counter(vector[vector > 0].tolist())
        scale = self.noise.scale_parameter
        return [(zcdp.of_laplace(ratio_up(size, scale)), count * self.draws) for size, count in sizes.items()]

    @property
    def _largest_loss(self) -> float:
        """Pure epsilon: the largest L1 norm over the scale for Laplace distributions, otherwise infinite."""
        if isinstance(self.noise, (GaussianNoise, DiscreteGaussianNoise)):
            return np.inf
        return ratio_up(scaled_up(self.draws, self._largest_l1_norm), self.noise.scale_parameter)

    @property
    def _groups_known(self) -> bool:
        """True if a group is worst when all its records cause the same difference, or only a bound on it is used.

        The first is not proved for discrete Gaussian noise on several coordinates. Under AddRemove, its bound is used.
        """
        one = self.n is None or self.differences.differences.shape[1] == 1
        return one or not isinstance(self.noise, DiscreteGaussianNoise)

    def with_relation(self, relation: Relation) -> Accountant:
        """The same curves under another relation, as an upper bound: no neighbours need attain them."""
        bound = replace(self, differences=replace(self.differences, tight=False))
        return Group(base=bound, size=1, relation=relation)

    def for_sizes(self, low: int, high: int) -> Accountant:
        """The account itself: the noise does not depend on the number of records."""
        del low, high
        return self

    def group(self, size: int) -> Accountant:
        """`size` records differ: `size` times the differences.

        For discrete Gaussian noise on several coordinates, the general bound for groups is used.
        """
        size = positive_integer(size=size)
        if not self._groups_known:
            return Accountant.group(self, size)
        return replace(self, group_size=size * self.group_size)


def check_noise(noise: Noise, differences: RecordSensitivity) -> None:
    """Check that the noise can be added to a statistic with these differences. Raises TypeError or ValueError."""
    check_known(noise)
    if not isinstance(differences, RecordSensitivity):
        raise TypeError(f"differences must be RecordSensitivity(differences=...), got {type(differences).__name__}")
    if noise.integer_valued and not differences.integer_valued:
        raise ValueError(
            f"noise must be continuous for a statistic that is not an integer, got {noise.name}: integer values would "
            "reveal the fractional part of the statistic; use 'laplace' or 'gaussian'"
        )


def _shifted(noise: Noise, size: float) -> LossPair:
    """The dominating pair of one coordinate that moves by `size`."""
    match noise:
        case LaplaceNoise(scale=scale):
            return LaplacePair(shift=ratio_up(size, scale))
        case DiscreteLaplaceNoise(scale=scale):
            return DiscreteLaplacePair(shift=round(size), scale=scale)
        case _:  # check_known allows no fifth class, and the loss of Gaussian noise needs no single coordinates
            return DiscreteGaussianPair(shift=round(size), noise_std=noise.scale_parameter)

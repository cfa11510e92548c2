"""Accounts of Gaussian and Laplace noise. Everything is exact for the worst shift within the sensitivity."""

from dataclasses import replace

from privsample._checks import positive, positive_integer
from privsample._logspace import half_square, ratio_up
from privsample._value import frozen_value, set_fields
from privsample.accounting.assumptions import Assumption
from privsample.accounting.base import SizeFreeAccountant
from privsample.accounting.engine.bounds import PrivacyBounds
from privsample.accounting.loss.gaussian import GaussianPair
from privsample.accounting.loss.laplace import LaplacePair
from privsample.relations import AddRemove, Relation, related

_TRUSTED = frozenset({Assumption.IDEAL_REALS, Assumption.TRUSTED_SENSITIVITY})


@frozen_value
class GaussianAccountant(SizeFreeAccountant):
    """Gaussian noise of standard deviation `noise_std` on a statistic of L2 sensitivity `sensitivity`. Kind: exact."""

    sensitivity: float
    noise_std: float
    relation: Relation = AddRemove()
    assumptions: frozenset[Assumption] = _TRUSTED

    def __post_init__(self) -> None:
        set_fields(self, relation=related(self.relation))
        set_fields(
            self, sensitivity=positive(sensitivity=self.sensitivity), noise_std=positive(noise_std=self.noise_std)
        )
        positive(**{"sensitivity / noise_std": ratio_up(self.sensitivity, self.noise_std)})

    @property
    def source(self) -> str:
        """The theorems."""
        return "Balle and Wang 2018, Theorem 8; Mironov 2017, Corollary 3"

    def _bounds(self) -> PrivacyBounds:
        """By one pair, its own reverse."""
        ratio = ratio_up(self.sensitivity, self.noise_std)
        return PrivacyBounds.from_pairs([GaussianPair(mu=ratio)], zcdp=half_square(ratio))

    def group(self, size: int) -> "GaussianAccountant":
        """`size` times the sensitivity: exact."""
        size = positive_integer(size=size)
        return replace(self, sensitivity=size * self.sensitivity, relation=self.relation.group(size))


@frozen_value
class LaplaceAccountant(SizeFreeAccountant):
    """Laplace noise of scale `scale` on a statistic of L1 sensitivity `sensitivity`. Kind: exact.

    A vector of total shift s in L1 costs at most what one coordinate costs that moves by s (docs/notes/additive.md).
    """

    sensitivity: float
    scale: float
    relation: Relation = AddRemove()
    assumptions: frozenset[Assumption] = _TRUSTED

    def __post_init__(self) -> None:
        set_fields(self, relation=related(self.relation))
        set_fields(self, sensitivity=positive(sensitivity=self.sensitivity), scale=positive(scale=self.scale))
        positive(**{"sensitivity / scale": ratio_up(self.sensitivity, self.scale)})

    @property
    def source(self) -> str:
        """The theorems."""
        return "Balle, Barthe and Gaboardi 2018, Theorem 3; Mironov 2017, Proposition 6"

    def _bounds(self) -> PrivacyBounds:
        """By one pair, its own reverse."""
        return PrivacyBounds.from_pairs([LaplacePair(shift=ratio_up(self.sensitivity, self.scale))])

    def group(self, size: int) -> "LaplaceAccountant":
        """`size` times the sensitivity: exact."""
        size = positive_integer(size=size)
        return replace(self, sensitivity=size * self.sensitivity, relation=self.relation.group(size))

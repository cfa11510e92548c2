"""Accounts of Gaussian and Laplace noise, exact for the worst shift within the sensitivity."""

from dataclasses import replace

from privsample._checks import positive, positive_integer
from privsample._logspace import half_square, ratio_up, scaled_up
from privsample._value import frozen_value, set_fields
from privsample.accounting.assumptions import Assumption
from privsample.accounting.base import SizeFreeAccountant
from privsample.accounting.curves import zcdp
from privsample.accounting.engine.bounds import PrivacyBounds
from privsample.accounting.loss.gaussian import GaussianPair
from privsample.accounting.loss.laplace import LaplacePair
from privsample.relations import AddRemove, Relation, related

_TRUSTED = frozenset({Assumption.IDEAL_REALS, Assumption.TRUSTED_SENSITIVITY})


@frozen_value
class GaussianAccountant(SizeFreeAccountant):
    """Gaussian noise on a statistic of known L2 sensitivity.

    The largest privacy loss over all shifts within the sensitivity is that of the Gaussian pair with mean shift
    sensitivity / noise_std, in both directions of the relation.

    Parameters
    ----------
    sensitivity : float
        Largest L2 distance between the statistics of two neighbouring datasets, finite and > 0, in units of the
        statistic.
    noise_std : float
        Standard deviation of the noise in each coordinate, finite and > 0, in units of the statistic.
    relation : Relation, default AddRemove()
        Neighbouring relation of the guarantee.
    assumptions : frozenset of Assumption, default {IDEAL_REALS, TRUSTED_SENSITIVITY}
        Assumptions of the guarantee.

    Raises
    ------
    ValueError
        If a number is outside its range.

    Notes
    -----
    Source: Balle and Wang 2018, Theorem 8; Mironov 2017, Corollary 3.

    Kind: exact.

    Examples
    --------
    >>> import privsample as ps
    >>> account = ps.GaussianAccountant(sensitivity=1, noise_std=4)
    >>> round(float(account.epsilon(1e-6)), 3), f"{float(account.delta(1.0)):.2e}", round(float(account.rdp(8)), 3)
    (1.061, '2.92e-06', 0.25)
    """

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
        """The theorems on the privacy curve and on the Rényi curve."""
        return "Balle and Wang 2018, Theorem 8; Mironov 2017, Corollary 3"

    def _bounds(self) -> PrivacyBounds:
        """One Gaussian pair, which is its own reverse."""
        ratio = ratio_up(self.sensitivity, self.noise_std)
        return PrivacyBounds.from_pairs([GaussianPair(mu=ratio)], zcdp=half_square(ratio))

    def group(self, size: int) -> "GaussianAccountant":
        """Groups have `size` times the sensitivity; exact."""
        size = positive_integer(size=size)
        return replace(self, sensitivity=scaled_up(size, self.sensitivity), relation=self.relation.group(size))


@frozen_value
class LaplaceAccountant(SizeFreeAccountant):
    """Laplace noise on a statistic of known L1 sensitivity.

    A vector that moves by s in L1 norm has at most the privacy loss of one coordinate that moves by s
    (docs/notes/additive.md).

    Parameters
    ----------
    sensitivity : float
        Largest L1 distance between the statistics of two neighbouring datasets, finite and > 0, in units of the
        statistic.
    scale : float
        Scale b of the noise in each coordinate, finite and > 0, in units of the statistic. The density is proportional
        to e^(-|x|/b).
    relation : Relation, default AddRemove()
        Neighbouring relation of the guarantee.
    assumptions : frozenset of Assumption, default {IDEAL_REALS, TRUSTED_SENSITIVITY}
        Assumptions of the guarantee.

    Raises
    ------
    ValueError
        If a number is outside its range.

    Notes
    -----
    Source: Balle, Barthe and Gaboardi 2018, Theorem 3; Mironov 2017, Proposition 6.

    Kind: exact.

    Examples
    --------
    >>> import privsample as ps
    >>> account = ps.LaplaceAccountant(sensitivity=1, scale=2)
    >>> account.pure_epsilon, round(float(account.delta(0.25)), 4), round(float((10 * account).epsilon(1e-3)), 3)
    (0.5, 0.1175, 4.521)
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
        """The theorems on the privacy curve and on the Rényi curve."""
        return "Balle, Barthe and Gaboardi 2018, Theorem 3; Mironov 2017, Proposition 6"

    def _bounds(self) -> PrivacyBounds:
        """One Laplace pair, which is its own reverse."""
        shift = ratio_up(self.sensitivity, self.scale)
        return PrivacyBounds.from_pairs([LaplacePair(shift=shift)], zcdp=zcdp.of_laplace(shift))

    def group(self, size: int) -> "LaplaceAccountant":
        """Groups have `size` times the sensitivity; exact."""
        size = positive_integer(size=size)
        return replace(self, sensitivity=scaled_up(size, self.sensitivity), relation=self.relation.group(size))

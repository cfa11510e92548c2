"""Account of noisy numbers of units that are released, with their keys, where they exceed a threshold."""

import numpy as np

from privsample._checks import FloatArray, finite
from privsample._logspace import half_square, ratio_up
from privsample._value import cached, frozen_value, set_fields
from privsample.accounting.assumptions import Assumption
from privsample.accounting.curves import zcdp
from privsample.accounting.engine.bounds import PrivacyBounds, View
from privsample.accounting.keys.base import KeysAccountant
from privsample.accounting.loss.alternatives import one_of_pairs
from privsample.accounting.loss.gaussian import GaussianPair
from privsample.accounting.loss.laplace import LaplacePair
from privsample.accounting.loss.one_sided_failure import OneSidedFailurePair, one_sided_table
from privsample.accounting.loss.pair import LossPair
from privsample.accounting.noise.discrete import DiscreteGaussianPair, DiscreteLaplacePair
from privsample.accounting.noise.discrete_gaussian_sum import discrete_gaussian_sum
from privsample.accounting.noise.known import check_known
from privsample.accounting.noise.sums_of_losses import independent_coordinates
from privsample.distributions.noise import (
    DiscreteGaussianNoise,
    DiscreteLaplaceNoise,
    GaussianNoise,
    LaplaceNoise,
    Noise,
)
from privsample.relations import AddRemove, Relation

_CASES = 16  # largest number of cases that are kept separate
_ULP = float(np.finfo(np.float64).eps)
_TINY = float(np.finfo(np.float64).tiny)


@frozen_value
class ThresholdKeysAccountant(KeysAccountant):
    """Noisy numbers of units that are released, with their keys, where they exceed a threshold; other keys are not.

    Of the keys of the unit that is added or removed, some belong to no other unit: such a key is released with a small
    probability, and then reveals the unit. The number of units of every other key moves by one. The account is the
    largest over how many keys are of the first kind.

    Parameters
    ----------
    noise : Noise
        Distribution of the noise on each number of units.
    threshold : float
        A key is released only if its noisy number of units exceeds this number, finite and >= 1.
    keys_per_unit : int, default 1
        Largest number of keys of one unit, >= 1.
    relation : Relation, default AddRemove()
        Neighbouring relation of the guarantee: one unit is added or removed.
    assumptions : frozenset of Assumption, default {IDEAL_REALS}
        Assumptions of the guarantee.

    Raises
    ------
    TypeError
        If `noise` is not a noise distribution.
    ValueError
        If a number is outside its range.

    Notes
    -----
    Source: Wilkins, Kifer, Zhang and Karrer 2024 (Gaussian noise); docs/notes/keys.md, section 3.

    Kind: exact for Gaussian noise and up to 16 keys per unit, and for Laplace or discrete Laplace noise and one key per
    unit; otherwise an upper bound.

    Examples
    --------
    >>> import privsample as ps
    >>> account = ps.ThresholdKeysAccountant(noise=ps.GaussianNoise(noise_std=4.3), threshold=21.5)
    >>> f"{float(account.delta(1.0)):.2e}", f"{account.infinity_mass:.2e}"
    ('9.33e-07', '9.33e-07')
    """

    noise: Noise
    threshold: float
    keys_per_unit: int = 1
    relation: Relation = AddRemove()
    assumptions: frozenset[Assumption] = frozenset({Assumption.IDEAL_REALS})

    def __post_init__(self) -> None:
        check_known(self.noise)
        set_fields(self, threshold=finite(threshold=self.threshold))
        if not self.threshold >= 1.0:
            raise ValueError(f"threshold must be at least 1, got {self.threshold!r}: a key of no unit is not released")
        self._check_keys()

    @property
    def source(self) -> str:
        """The theorem for Gaussian noise, and the note with the proof for all noise."""
        return "Wilkins, Kifer, Zhang and Karrer 2024; docs/notes/keys.md, section 3"

    @property
    def failure_probability(self) -> float:
        """Probability that a key of one unit is released, rounded up."""
        # half of the two-sided tail, since the noise is symmetric
        log_tail = float(self.noise.log_tail(np.asarray(self.threshold - 1.0))) - np.log(2)
        return max(float(np.exp(log_tail)) * (1.0 + 8 * _ULP * (1.0 - log_tail)), _TINY)

    @cached
    def _cases(self) -> tuple[tuple[int, float, float, LossPair], ...]:
        """Moved counts, log chance that no other key appears, infinity mass of these, pair (keys.md, section 3).

        Cases are merged where they are more than 16: as many counts move as in the first of them, and the infinity mass
        is that of the last.
        """
        count = self.keys_per_unit
        last = np.unique(np.linspace(0, count, min(count, _CASES) + 1).round().astype(int)).tolist()
        first = [0, *(new + 1 for new in last[:-1])]
        log_none = float(np.log1p(-self.failure_probability)) * (1.0 + 4 * _ULP)
        masses = [min(-float(np.expm1(new * log_none)) * (1.0 + 8 * _ULP), 1.0) for new in last]
        return tuple(
            (count - new, most * log_none, mass, _pair(self.noise, count - new, mass))
            for new, most, mass in zip(first, last, masses, strict=True)
        )

    def _bounds(self) -> PrivacyBounds:
        """One pair for each case, in both directions."""
        pairs = [pair for *_, pair in self._cases]
        closed = isinstance(self.noise, GaussianNoise) or self.keys_per_unit == 1
        # the tail of discrete Gaussian noise is an upper bound
        attained = closed and self.keys_per_unit <= _CASES and not isinstance(self.noise, DiscreteGaussianNoise)
        exact: frozenset[View] = frozenset({"delta", "epsilon"})
        return PrivacyBounds.from_pairs(
            [one_of_pairs(pairs)],
            [one_of_pairs(pair.reverse() for pair in pairs)],
            renyi=self._renyi,
            order_limit=np.inf,
            infinity_mass=self._cases[-1][2],
            pure_epsilon=self._largest_loss,
            zcdp=self._rho,
            exact=exact if attained else frozenset(),
            inverts_exactly=closed,
            curve_name="privacy curve" if closed else "numerically composed loss",
        )

    def _renyi(self, orders: FloatArray) -> FloatArray:
        """The largest over the cases, conditional on no key of a single unit being released (section 3, step 5)."""
        one = _one_key(self.noise).renyi(orders)
        found = [times * one - log_rest for times, log_rest, *_ in self._cases]
        return np.asarray(np.max(found, axis=0) * (1.0 + 4 * _ULP))

    @property
    def _rho(self) -> float:
        """The least known rho with `_renyi(a)` <= rho a: the constant of a case is at most a times itself."""
        one = _one_rho(self.noise)
        found = [(times * one if times else 0.0) - log_rest for times, log_rest, *_ in self._cases]
        return min(max(found) * (1.0 + 4 * _ULP), zcdp.of_pure(self._largest_loss))

    @property
    def _largest_loss(self) -> float:
        """The largest finite loss of all cases, rounded up."""
        one = _one_key(self.noise).max_divergence
        found = [(times * one if times else 0.0) - log_rest for times, log_rest, *_ in self._cases]
        return max(found) * (1.0 + 4 * _ULP)


def _pair(noise: Noise, times: int, mass: float) -> LossPair:
    """The pair of a unit that is removed: `times` counts move, and its other keys appear with probability `mass`."""
    if times == 0 or mass == 1.0:  # a failure that rounds to a certain one counts as one
        return one_sided_table(mass)
    moved = moved_counts(noise, times)
    return OneSidedFailurePair(base=moved, mass=mass) if mass else moved


def moved_counts(noise: Noise, times: int) -> LossPair:
    """The pair of so many noisy counts that move by one."""
    match noise:
        case GaussianNoise(noise_std=noise_std):
            return GaussianPair(
                mu=ratio_up(float(np.nextafter(np.sqrt(times), np.inf)) if times > 1 else 1.0, noise_std)
            )
        case LaplaceNoise(scale=scale) if times > 2:
            return LaplacePair(shift=ratio_up(times, scale))  # one number that moves as far in L1 dominates them
        case DiscreteGaussianNoise(noise_std=noise_std):
            return discrete_gaussian_sum(noise_std, times)
        case _:
            return independent_coordinates(((_one_key(noise), times),))


def _one_rho(noise: Noise) -> float:
    """rho of zCDP of one noisy count that moves by one."""
    match noise:
        case GaussianNoise() | DiscreteGaussianNoise():  # Canonne, Kamath and Steinke 2020, Theorem 4, for integers
            return half_square(ratio_up(1.0, noise.scale_parameter))
        case LaplaceNoise(scale=scale):
            return zcdp.of_laplace(ratio_up(1.0, scale))
        case _:
            return zcdp.of_pure(_one_key(noise).max_divergence)


def _one_key(noise: Noise) -> LossPair:
    """The dominating pair of one noisy count that moves by one."""
    match noise:
        case GaussianNoise(noise_std=noise_std):
            return GaussianPair(mu=ratio_up(1.0, noise_std))
        case LaplaceNoise(scale=scale):
            return LaplacePair(shift=ratio_up(1.0, scale))
        case DiscreteLaplaceNoise(scale=scale):
            return DiscreteLaplacePair(shift=1, scale=scale)
        case _:  # check_known allows no fifth class
            return DiscreteGaussianPair(shift=1, noise_std=noise.scale_parameter)

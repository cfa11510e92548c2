"""Account of noise that is added between Lipschitz maps: amplification by iteration, exact by the optimal path.

A start that neighbours displace by at most `sensitivity` has noise of standard deviation s_0. Each step j = 1, ..., r
applies a map with Lipschitz constant L_j, noise of standard deviation s_j and, optionally, a projection onto a convex
set. The release has the privacy loss of one Gaussian mechanism with this sensitivity and the variance

    s^2 = sum_j s_j^2 prod_(i <= j) L_i^-2.

For linear maps this is exact. Source: Balle, Barthe, Gaboardi and Geumlek 2019, equation (2), optimised over paths by
the Cauchy-Schwarz inequality; Bok, Su and Altschuler 2024 (privacy curve); docs/notes/contraction.md.
"""

from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import logsumexp

from privsample._checks import FloatArray, count_noun, nonnegative, nonnegative_numbers, positive, positive_integer
from privsample._logspace import LEAST_LOSS, half_square, scaled_up
from privsample._value import frozen_value, set_fields
from privsample.accounting.assumptions import Assumption
from privsample.accounting.base import Accountant, Composed
from privsample.accounting.engine.bounds import PrivacyBounds
from privsample.accounting.loss.gaussian import GaussianPair
from privsample.accounting.loss.pair import LossPair, binary_pair
from privsample.accounting.noise.additive import GaussianAccountant
from privsample.relations import AddRemove, Relation, related

_DOWN = 8 * float(np.finfo(np.float64).eps)


@frozen_value
class ContractionAccountant(Accountant):
    """Noisy Lipschitz maps and projections after a Gaussian release (privacy amplification by iteration).

    A statistic of L2 sensitivity `sensitivity` gets Gaussian noise; then each step applies a Lipschitz map and adds
    Gaussian noise. Only the last state is released. Its privacy loss is that of one Gaussian mechanism with standard
    deviation `noise_std`.

    Parameters
    ----------
    sensitivity : float
        L2 sensitivity of the start, finite and > 0, in units of the statistic.
    noise_stds : tuple of float, length steps + 1
        Standard deviations of the noise of the start and of each step, finite and >= 0, at least one of them > 0.
    constants : tuple of float, length steps, default ()
        Lipschitz constants of the maps, finite and >= 0. A constant above 1 does not contract, but the noise after it
        counts; a constant of 0 removes all dependence on the start.
    relation : Relation, default AddRemove()
        Neighbouring relation of the guarantee.
    assumptions : frozenset of Assumption, default {FLOAT_CHAIN, TRUSTED_SENSITIVITY}
        Assumptions of the guarantee.

    Raises
    ------
    ValueError
        If a number is outside its range or the lengths do not match.

    Notes
    -----
    Source: Balle, Barthe, Gaboardi and Geumlek 2019, equation (2), at its optimal path; Bok, Su and Altschuler 2024
    (privacy curve); docs/notes/contraction.md.

    Kind: exact for the worst maps with these constants, which are linear.

    Examples
    --------
    >>> import privsample as ps
    >>> account = ps.ContractionAccountant(sensitivity=1, noise_stds=(1, 1, 1), constants=(0.5, 0.5))
    >>> round(account.noise_std, 3), round(float(account.epsilon(1e-6)), 3)
    (4.583, 0.916)
    """

    sensitivity: float
    noise_stds: tuple[float, ...]
    constants: tuple[float, ...] = ()
    relation: Relation = AddRemove()
    assumptions: frozenset[Assumption] = frozenset({Assumption.FLOAT_CHAIN, Assumption.TRUSTED_SENSITIVITY})

    def __post_init__(self) -> None:
        set_fields(self, relation=related(self.relation), sensitivity=positive(sensitivity=self.sensitivity))
        noise_stds, constants = (
            nonnegative_numbers(noise_stds=self.noise_stds),
            nonnegative_numbers(constants=self.constants),
        )
        if len(noise_stds) != len(constants) + 1:
            raise ValueError(
                f"noise_stds must have one standard deviation for the start and one for each of {len(constants)} "
                f"constants, "
                f"got {len(noise_stds)}"
            )
        set_fields(self, noise_stds=noise_stds, constants=constants)
        if not self.noise_std > 0.0:
            raise ValueError("noise_stds must contain a standard deviation > 0: without noise there is no guarantee")
        nonnegative(**{"sensitivity / noise": self._shift})

    @property
    def source(self) -> str:
        """The theorems."""
        return (
            "Balle, Barthe, Gaboardi and Geumlek 2019, equation (2), best path (docs/notes/contraction.md); "
            "Bok, Su and Altschuler 2024 (privacy curve)"
        )

    @property
    def noise_std(self) -> float:
        """Standard deviation of the equivalent Gaussian mechanism, in units of the statistic, or +inf."""
        return float(noise_at_start(self.noise_stds, self.constants))

    def _bounds(self) -> PrivacyBounds:
        """One Gaussian pair, which is its own reverse."""
        pair: LossPair = GaussianPair(mu=self._shift) if self._shift else binary_pair(0.0)
        expanding = sum(constant > 1.0 for constant in self.constants)
        remark = f", {expanding} of them without contraction" if expanding else ""
        path = f"optimal path through {count_noun(len(self.constants), 'step')}{remark}"
        return PrivacyBounds.from_pairs([pair], zcdp=half_square(self._shift), curve_name=path)

    @property
    def _shift(self) -> float:
        """Mean shift of the Gaussian pair in standard deviations; 0 if a step does not depend on the start."""
        return 0.0 if 0.0 in self.constants else max(self.sensitivity / self.noise_std, LEAST_LOSS)

    def group(self, size: int) -> "ContractionAccountant":
        """Groups have `size` times the sensitivity; exact."""
        size = positive_integer(size=size)
        return replace(self, sensitivity=scaled_up(size, self.sensitivity), relation=self.relation.group(size))


def contracted(account: Accountant, noise_stds: tuple[float, ...], constants: tuple[float, ...]) -> Accountant:
    """The account of further noisy steps after Gaussian noise or after such steps. Raises TypeError otherwise."""
    match account:
        case GaussianAccountant(sensitivity=sensitivity, noise_std=first):
            # The steps are computed with floats, also after noise that is drawn exactly.
            start = ContractionAccountant(
                sensitivity=sensitivity,
                noise_stds=(first,),
                relation=account.relation,
                assumptions=account.assumptions - {Assumption.IDEAL_REALS} | {Assumption.FLOAT_CHAIN},
            )
            return contracted(start, noise_stds, constants)
        case ContractionAccountant():
            longer = (*account.noise_stds, *noise_stds), (*account.constants, *constants)
            return replace(account, noise_stds=longer[0], constants=longer[1])
        case Composed(entries=entries):
            further = tuple((contracted(a, noise_stds, constants), k) for a, k in entries)
            return replace(account, entries=further, assumptions=account.assumptions - {Assumption.IDEAL_REALS})
    raise TypeError(
        f"base must be Gaussian noise or noisy contractions after Gaussian noise, got {type(account).__name__}"
    )


def noise_at_start(noise_stds: ArrayLike, constants: ArrayLike) -> FloatArray:
    """sqrt(sum_j s_j^2 prod_(i <= j) L_i^-2), rounded down: the equivalent standard deviation at the start.

    `noise_stds` has shape (..., r + 1) and `constants` (..., r), both >= 0. The result has shape (...); it is +inf
    where a constant is zero. A displacement d has zCDP (d / result)^2 / 2.
    """
    noises, factors = np.asarray(noise_stds, dtype=np.float64), np.asarray(constants, dtype=np.float64)
    with np.errstate(divide="ignore"):
        log_noise, log_factor = np.log(noises), np.log(factors)
    start = np.zeros((*factors.shape[:-1], 1))
    grown, moved = (np.concatenate([start, np.cumsum(x, axis=-1)], axis=-1) for x in (-log_factor, np.abs(log_factor)))
    with np.errstate(invalid="ignore", over="ignore"):
        terms = np.where(np.isposinf(moved), np.inf, log_noise + grown)
        lost = (
            _DOWN * (1.0 + moved + np.abs(log_noise)) * (1.0 + np.arange(noises.shape[-1]) / 8)
        )  # rounding error of a sum of logarithms
        kept = np.where(np.isfinite(terms), terms - lost, terms)
        return np.exp(logsumexp(2.0 * kept, axis=-1) / 2)


def noise_of_equal_steps(noise_std: ArrayLike, constant: ArrayLike, steps: ArrayLike) -> FloatArray:
    """`noise_at_start` for `steps` equal steps after a start with the same noise, in closed form, rounded down.

    The arguments broadcast: noise_std > 0, constant >= 0, steps >= 0 integers.
    """
    noise, factor, count = np.broadcast_arrays(*(np.asarray(x, dtype=np.float64) for x in (noise_std, constant, steps)))
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        rate = -2.0 * np.log(factor)
        many = (count + 1.0) * rate
        # sum_j e^(j rate), j = 0, ..., steps, in the form that does not overflow
        falling = np.log(np.expm1(-np.abs(many)) / np.expm1(-np.abs(rate)))
        log_sum = np.where(rate > 0, falling + count * rate, falling)
        log_sum = np.where(rate == 0, np.log(count + 1.0), log_sum)
        log_sum = np.where(np.isposinf(rate), np.where(count > 0, np.inf, 0.0), log_sum)
        lost = _DOWN * (4.0 + np.abs(np.where(np.isfinite(log_sum), log_sum, 0.0)))
        return noise * np.exp(log_sum / 2 - lost)

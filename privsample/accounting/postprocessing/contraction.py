"""What noise costs that is added between Lipschitz maps: amplification by iteration, at its best path. Kind: exact.

A start that neighbours displace by at most `sensitivity`, noise of deviation s_0, then for each step j = 1, ..., r a
map of Lipschitz constant L_j, noise of deviation s_j and, if wanted, a projection onto a convex set. The whole costs
what one Gaussian release of that sensitivity and this deviation costs:

    s^2 = sum_j s_j^2 prod_(i <= j) L_i^-2.

For linear maps it is the last state's own cost. Source: Balle, Barthe, Gaboardi and Geumlek 2019, equation (2), at its
best path by Cauchy and Schwarz; Bok, Su and Altschuler 2024 (the privacy curve); docs/notes/contraction.md.
"""

from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import logsumexp

from privsample._checks import FloatArray, count_noun, nonnegative, positive, positive_integer, real_array
from privsample._logspace import LEAST_LOSS, half_square
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
    """A start of L2 sensitivity `sensitivity` seen through noise, Lipschitz maps and projections. Kind: exact.

    noise_stds: s_0, ..., s_r, at least one of them above zero; constants: L_1, ..., L_r, each >= 0. A constant above
    one contracts nothing, though the noise after it still counts; a constant of zero forgets the start: no cost.
    Exact for the worst maps of these constants, which are linear. Source: the module's.
    """

    sensitivity: float
    noise_stds: tuple[float, ...]
    constants: tuple[float, ...] = ()
    relation: Relation = AddRemove()
    assumptions: frozenset[Assumption] = frozenset({Assumption.IDEAL_REALS, Assumption.TRUSTED_SENSITIVITY})

    def __post_init__(self) -> None:
        set_fields(self, relation=related(self.relation), sensitivity=positive(sensitivity=self.sensitivity))
        noise_stds, constants = _nonnegatives(noise_stds=self.noise_stds), _nonnegatives(constants=self.constants)
        if len(noise_stds) != len(constants) + 1:
            raise ValueError(
                f"noise_stds must name one deviation for the start and one for each of {len(constants)} constants, "
                f"got {len(noise_stds)}"
            )
        set_fields(self, noise_stds=noise_stds, constants=constants)
        if not self.noise_std > 0.0:
            raise ValueError("noise_stds must hold a deviation above zero: without noise the end tells the start apart")
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
        """The deviation of the one Gaussian release, on the statistic itself, that costs as much; +inf: no cost."""
        return float(noise_at_start(self.noise_stds, self.constants))

    def _bounds(self) -> PrivacyBounds:
        """By one Gaussian pair, its own reverse."""
        pair: LossPair = GaussianPair(mu=self._shift) if self._shift else binary_pair(0.0)
        expanding = sum(constant > 1.0 for constant in self.constants)
        remark = f"; no contraction in {expanding} of them" if expanding else ""
        path = f"best path through {count_noun(len(self.constants), 'step')}{remark}"
        return PrivacyBounds.from_pairs([pair], zcdp=half_square(self._shift), curve_name=path)

    @property
    def _shift(self) -> float:
        """Of the one Gaussian pair; zero where a step forgets the start."""
        return 0.0 if 0.0 in self.constants else max(self.sensitivity / self.noise_std, LEAST_LOSS)

    def group(self, size: int) -> "ContractionAccountant":
        """`size` times the sensitivity: exact."""
        size = positive_integer(size=size)
        return replace(self, sensitivity=size * self.sensitivity, relation=self.relation.group(size))


def contracted(account: Accountant, noise_stds: tuple[float, ...], constants: tuple[float, ...]) -> Accountant:
    """Gaussian noise, or a chain that began with it, seen through further steps: their deviations and constants.

    Raises: TypeError, for an account of anything else.
    """
    match account:
        case GaussianAccountant(sensitivity=sensitivity, noise_std=first):
            start = ContractionAccountant(
                sensitivity=sensitivity, noise_stds=(first,), relation=account.relation, assumptions=account.assumptions
            )
            return contracted(start, noise_stds, constants)
        case ContractionAccountant():
            longer = (*account.noise_stds, *noise_stds), (*account.constants, *constants)
            return replace(account, noise_stds=longer[0], constants=longer[1])
        case Composed(entries=entries):
            return replace(account, entries=tuple((contracted(a, noise_stds, constants), k) for a, k in entries))
    raise TypeError(f"noisy contractions are known after Gaussian noise, got {type(account).__name__}")


def noise_at_start(noise_stds: ArrayLike, constants: ArrayLike) -> FloatArray:
    """sqrt(sum_j s_j^2 prod_(i <= j) L_i^-2), rounded down: the deviation that all noises have where they began.

    Parameters: noise_stds, (..., r + 1); constants, (..., r); both >= 0. Returns: (...), +inf where a constant is zero.
    The zCDP rate of a displacement d is (d / this)^2 / 2.
    """
    noises, factors = np.asarray(noise_stds, dtype=np.float64), np.asarray(constants, dtype=np.float64)
    with np.errstate(divide="ignore"):
        log_noise, log_factor = np.log(noises), np.log(factors)
    start = np.zeros((*factors.shape[:-1], 1))
    grown, moved = (np.concatenate([start, np.cumsum(x, axis=-1)], axis=-1) for x in (-log_factor, np.abs(log_factor)))
    with np.errstate(invalid="ignore", over="ignore"):
        terms = np.where(np.isposinf(moved), np.inf, log_noise + grown)
        lost = _DOWN * (1.0 + moved + np.abs(log_noise)) * (1.0 + np.arange(noises.shape[-1]) / 8)  # sums of many logs
        kept = np.where(np.isfinite(terms), terms - lost, terms)
        return np.exp(logsumexp(2.0 * kept, axis=-1) / 2)


def noise_of_equal_steps(noise_std: ArrayLike, constant: ArrayLike, steps: ArrayLike) -> FloatArray:
    """`noise_at_start` of `steps` equal steps after a start with the same noise, in closed form, rounded down.

    Parameters broadcast: noise_std > 0, constant >= 0, steps >= 0 whole numbers. Returns: their common shape.
    """
    noise, factor, count = np.broadcast_arrays(*(np.asarray(x, dtype=np.float64) for x in (noise_std, constant, steps)))
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        rate = -2.0 * np.log(factor)
        many = (count + 1.0) * rate
        # sum_j e^(j rate), j = 0, ..., steps, by whichever side does not overflow
        falling = np.log(np.expm1(-np.abs(many)) / np.expm1(-np.abs(rate)))
        log_sum = np.where(rate > 0, falling + count * rate, falling)
        log_sum = np.where(rate == 0, np.log(count + 1.0), log_sum)
        log_sum = np.where(np.isposinf(rate), np.where(count > 0, np.inf, 0.0), log_sum)
        lost = _DOWN * (4.0 + np.abs(np.where(np.isfinite(log_sum), log_sum, 0.0)))
        return noise * np.exp(log_sum / 2 - lost)


def _nonnegatives(**named: ArrayLike) -> tuple[float, ...]:
    ((name, _),) = named.items()
    values = real_array(**named)
    if values.ndim != 1 or not np.all((values >= 0.0) & (values < np.inf)):
        raise ValueError(f"{name} must be a list of finite numbers >= 0, got {values.tolist()}")
    return tuple(values.tolist())

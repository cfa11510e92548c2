"""Account of noise to which further noise of the same kind is added."""

from dataclasses import replace
from functools import singledispatch

import numpy as np

from privsample.accounting.assumptions import Assumption
from privsample.accounting.base import Accountant, Composed
from privsample.accounting.noise.additive import GaussianAccountant, LaplaceAccountant
from privsample.accounting.postprocessing.laplace_sum import LaplaceSumAccountant

# The first noise was rounded before the second one was added: the sum is not the rounded sum of real numbers.
_IDEAL = frozenset({Assumption.IDEAL_REALS})


@singledispatch
def noise_after(account: Accountant, noise: float, *, coordinates: int = 1) -> Accountant:
    """The account of a release after noise of standard deviation or scale `noise` is added to each of its coordinates.

    Gaussian after Gaussian noise: variances add, exact. Laplace after Laplace noise: `LaplaceSumAccountant`. Raises
    TypeError for noise of another kind.
    """
    del noise, coordinates
    raise TypeError(
        f"base must be Gaussian noise, or Laplace noise without further noise, got {type(account).__name__}"
    )


@noise_after.register
def _(account: GaussianAccountant, noise: float, *, coordinates: int = 1) -> GaussianAccountant:
    del coordinates
    return replace(
        account, noise_std=float(np.hypot(account.noise_std, noise)), assumptions=account.assumptions | _IDEAL
    )


@noise_after.register
def _(account: LaplaceAccountant, noise: float, *, coordinates: int = 1) -> LaplaceSumAccountant:
    return LaplaceSumAccountant(
        sensitivity=account.sensitivity,
        scale=account.scale,
        further_scale=noise,
        coordinates=coordinates,
        relation=account.relation,
        assumptions=account.assumptions | _IDEAL,
    )


@noise_after.register
def _(account: Composed, noise: float, *, coordinates: int = 1) -> Composed:
    entries = tuple((noise_after(each, noise, coordinates=coordinates), times) for each, times in account.entries)
    return replace(account, entries=entries, assumptions=account.assumptions | _IDEAL)

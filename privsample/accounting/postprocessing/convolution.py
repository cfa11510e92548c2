"""The account of noise that more noise of its kind is added to."""

from dataclasses import replace
from functools import singledispatch

import numpy as np

from privsample.accounting.base import Accountant, Composed
from privsample.accounting.noise.additive import GaussianAccountant, LaplaceAccountant
from privsample.accounting.postprocessing.laplace_sum import LaplaceSumAccountant


@singledispatch
def noise_after(account: Accountant, noise: float, *, coordinates: int = 1) -> Accountant:
    """`account` with noise of deviation or scale `noise` on each of its numbers, `coordinates` in one release.

    Gaussian after Gaussian noise: variances add, exact. Laplace after Laplace noise: `LaplaceSumAccountant`.
    Raises: TypeError, for noise of another kind.
    """
    del noise, coordinates
    raise TypeError(
        f"further noise is known after Gaussian noise, and once after Laplace noise, got {type(account).__name__}"
    )


@noise_after.register
def _(account: GaussianAccountant, noise: float, *, coordinates: int = 1) -> GaussianAccountant:
    del coordinates
    return replace(account, noise_std=float(np.hypot(account.noise_std, noise)))


@noise_after.register
def _(account: LaplaceAccountant, noise: float, *, coordinates: int = 1) -> LaplaceSumAccountant:
    return LaplaceSumAccountant(
        sensitivity=account.sensitivity,
        scale=account.scale,
        further_scale=noise,
        coordinates=coordinates,
        relation=account.relation,
        assumptions=account.assumptions,
    )


@noise_after.register
def _(account: Composed, noise: float, *, coordinates: int = 1) -> Composed:
    entries = tuple((noise_after(each, noise, coordinates=coordinates), times) for each, times in account.entries)
    return replace(account, entries=entries)

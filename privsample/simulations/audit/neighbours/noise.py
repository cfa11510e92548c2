"""Losses of additive noise around two known centres."""

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike

from privsample._checks import FloatArray
from privsample.distributions.noise import Noise


def shifted(law: Noise, first: ArrayLike, second: ArrayLike) -> Callable[[FloatArray], FloatArray]:
    """The log density ratio of noise around `first` over noise around `second`, each of shape () or (width,).

    Returns: a function from outputs (draws, width) to (draws,).
    """
    here, there = np.asarray(first), np.asarray(second)
    return lambda noisy: (law.log_mass(noisy - here) - law.log_mass(noisy - there)).sum(axis=1)

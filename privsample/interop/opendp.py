"""Discrete noise from OpenDP, drawn in exact arithmetic from OpenDP's own source of randomness."""

import math
from typing import Any

import numpy as np

from privsample._checks import FloatArray
from privsample.distributions.noise import DiscreteGaussianNoise, DiscreteLaplaceNoise, Noise


def opendp() -> Any:
    """Return OpenDP's prelude. Raises ImportError if OpenDP is not installed."""
    try:
        import opendp.prelude as dp
    except ImportError:
        raise ImportError("exact sampling needs OpenDP: pip install 'privsample[exact]'") from None
    return dp


def exact_noise(noise: Noise, shape: tuple[int, ...]) -> FloatArray:
    """Draw independent discrete noise. Raises ImportError without OpenDP and TypeError for continuous noise."""
    dp = opendp()
    dp.enable_features("contrib")
    numbers = dp.vector_domain(dp.atom_domain(T="i64"))
    match noise:
        case DiscreteLaplaceNoise(scale=scale):
            draw = dp.m.make_laplace(numbers, dp.l1_distance(T="i64"), scale=scale)
        case DiscreteGaussianNoise(noise_std=noise_std):
            draw = dp.m.make_gaussian(numbers, dp.l2_distance(T=float), scale=noise_std)
        case _:
            raise TypeError(
                f"noise must be DiscreteLaplaceNoise or DiscreteGaussianNoise for OpenDP, got {type(noise).__name__}"
            )
    return np.array(draw([0] * math.prod(shape)), dtype=np.float64).reshape(shape)

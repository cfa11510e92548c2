"""The noise distributions whose privacy accounts are known."""

from typing import Any

from privsample.distributions.noise import (
    DiscreteGaussianNoise,
    DiscreteLaplaceNoise,
    GaussianNoise,
    LaplaceNoise,
    Noise,
)

_KNOWN = (LaplaceNoise, GaussianNoise, DiscreteLaplaceNoise, DiscreteGaussianNoise)


def check_known(noise: Any) -> None:
    """Raise TypeError unless the noise is of one of the four classes themselves: subclasses can draw anything."""
    if not isinstance(noise, Noise):
        raise TypeError(
            f"noise must be a noise distribution such as LaplaceNoise(scale=...), got {type(noise).__name__}"
        )
    if type(noise) not in _KNOWN:
        names = ", ".join(kind.__name__ for kind in _KNOWN)
        raise TypeError(
            f"noise must be one of {names}, whose accounts are known, got {type(noise).__name__}; for other noise, "
            "state the account, for instance by CurveAccountant"
        )

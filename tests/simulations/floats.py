"""Mechanisms with floating-point draws, for audits of many draws."""

from dataclasses import replace

from privsample.mechanisms.base import Mechanism
from privsample.mechanisms.posterior.conjugate import PosteriorMechanism
from privsample.mechanisms.posterior.tempered import TemperedPosterior
from privsample.mechanisms.subsampling import Subsampled


def in_floats(mechanism: Mechanism) -> Mechanism:
    """Return a posterior, or subsampling of any base, with floating-point draws; other mechanisms as they are.

    Posteriors draw a hundred times as fast, and subsampling, where each draw is a release, three times. Others draw as
    fast exactly. tests/mechanisms/test_exact.py shows that exact and floating-point draws of posteriors have the same
    distribution. tests/mechanisms/test_exact_noise.py compares exact noise with its distribution, and
    tests/distributions/test_noise.py that of floats.
    """
    if isinstance(mechanism, PosteriorMechanism | TemperedPosterior):
        return replace(mechanism, exact=False)  # type: ignore[type-var]
    if isinstance(mechanism, Subsampled) and getattr(mechanism.base, "exact", False):
        return replace(mechanism, base=replace(mechanism.base, exact=False))  # type: ignore[type-var]
    return mechanism

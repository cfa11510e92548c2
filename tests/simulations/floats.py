"""Posteriors with floating-point draws, for audits of many draws."""

from dataclasses import replace

from privsample.mechanisms.base import Mechanism
from privsample.mechanisms.posterior.conjugate import PosteriorMechanism
from privsample.mechanisms.posterior.tempered import TemperedPosterior


def in_floats(mechanism: Mechanism) -> Mechanism:
    """Return a posterior with floating-point draws, a hundred times as fast; other mechanisms as they are.

    tests/mechanisms/test_exact.py shows that exact and floating-point draws of posteriors have the same distribution.
    """
    if isinstance(mechanism, PosteriorMechanism | TemperedPosterior):
        return replace(mechanism, exact=False)  # type: ignore[type-var]
    return mechanism

"""The neighbouring datasets on which each mechanism's account is nearly attained; importing this registers them all."""

from privsample.simulations.audit.base import neighbours
from privsample.simulations.audit.neighbours import (  # noqa: F401 - each registers its own
    additive,
    codes,
    descent,
    gibbs,
    logistic,
    posterior,
    postprocessing,
    selection,
    subsampling,
    sums,
    tempered,
)

__all__ = ["neighbours"]

"""The neighbouring datasets on which each mechanism's account is nearly attained; importing this registers them all."""

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
from privsample.simulations.audit.neighbours.base import Neighbours, neighbours, pairs_of
from privsample.simulations.audit.pairs import MOST_RECORDS

__all__ = ["MOST_RECORDS", "Neighbours", "neighbours", "pairs_of"]

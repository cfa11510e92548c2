"""The neighbouring datasets on which each mechanism's account is nearly attained; importing this registers them all."""

from privsample.simulations.neighbours import additive, posterior
from privsample.simulations.neighbours.base import MOST_RECORDS, Neighbours, neighbours, pair_of

__all__ = ["MOST_RECORDS", "Neighbours", "additive", "neighbours", "pair_of", "posterior"]

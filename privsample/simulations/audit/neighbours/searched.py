"""Pairs made of candidate records, where no pair is known to be the worst: the audit searches among them."""

from functools import singledispatch
from typing import Any

import numpy as np

from privsample._checks import FloatArray
from privsample.mechanisms.base import Mechanism
from privsample.mechanisms.noise.sums import NoisySum
from privsample.mechanisms.posterior.conjugate import ConjugateMechanism
from privsample.mechanisms.randomized import RandomizedResponse
from privsample.relations import Relation
from privsample.simulations.audit.base import Dataset, Draw, Neighbours
from privsample.simulations.audit.neighbours.posterior import in_the_column
from privsample.simulations.audit.neighbours.sums import extremes, least
from privsample.simulations.audit.neighbours.sums import records as in_words
from privsample.simulations.audit.pairs import MOST_PAIRS, Recipe, counted, recipes


@singledispatch
def candidate_records(mechanism: Mechanism) -> FloatArray:
    """Records from the public domain that may tell most, shape (records,). Raises: TypeError."""
    raise TypeError(
        f"records that may tell most of {type(mechanism).__name__} are not known to the audit: pass datasets"
    )


@candidate_records.register
def _(mechanism: RandomizedResponse) -> FloatArray:
    """Categories are alike: two that are exchanged, and one more for the others."""
    return np.arange(min(mechanism.categories, 3.0))


@candidate_records.register
def _(mechanism: ConjugateMechanism) -> FloatArray:
    return np.unique([in_the_column(mechanism, records) for records in mechanism.model.extreme_records])


@candidate_records.register
def _(mechanism: NoisySum) -> FloatArray:
    return np.unique(np.stack([*extremes(mechanism), least(mechanism)]), axis=0)


def searched(
    mechanism: Mechanism, records: FloatArray, group: int, *, size: int | None, draw: Draw, width: int
) -> tuple[Neighbours, ...]:
    """A case for each pair that can be made of the records under the mechanism's relation, as `neighbouring_pairs`."""
    relation: Relation = mechanism.accountant.relation
    made = recipes(len(records), relation, size=size, group=group, most=MOST_PAIRS)
    counted(made[0].shared + group)
    return tuple(
        Neighbours(
            account=mechanism.accountant,
            words=(_words(recipe, records, 0), _words(recipe, records, 1)),
            datasets=(_dataset(recipe, records, 0), _dataset(recipe, records, 1)),
            draw=draw,
            width=width,
        )
        for recipe in made
    )


def _dataset(recipe: Recipe, records: FloatArray, side: int) -> Dataset:
    return lambda: records[recipe.places(side, len(records))]


def _words(recipe: Recipe, records: FloatArray, side: int) -> str:
    place: Any = (recipe.first, recipe.second)[side]
    own = "none" if place is None else in_words(recipe.group, records[place])
    if recipe.shared == 0:
        return own
    if recipe.common is None:
        return f"{recipe.shared:,} records of each kind in turn and {own}"
    return f"{in_words(recipe.shared, records[recipe.common])} and {own}"

"""Checks of what the methods of a sampling scheme return, which a user may have written."""

from typing import Any

import numpy as np

from privsample.distributions.schemes import Alternatives, Conversions, Indices, SamplingPart, SamplingRule, Scheme
from privsample.relations import Relation


def checked_positions(scheme: Scheme, size: int, rng: np.random.Generator) -> Indices:
    """The positions that the scheme draws, whole numbers from 0 to size - 1, shape (k,)."""
    rule = f"{type(scheme).__name__}.draw must return an array of positions, whole numbers from 0 to size - 1"
    drawn: Any = scheme.draw(size, rng)
    try:
        found = np.asarray(drawn)
    except (TypeError, ValueError):
        raise TypeError(f"{rule}, got {type(drawn).__name__}") from None
    if found.ndim != 1:
        raise TypeError(f"{rule}, shape (k,), got {type(drawn).__name__} of shape {found.shape}")
    if not found.size:
        return np.empty(0, dtype=np.int64)
    if found.dtype.kind not in "iuf":
        raise TypeError(f"{rule}, got {'text' if found.dtype.kind in 'SU' else found.dtype}")
    valid = (found >= 0) & (found < size) & (found == np.floor(found))
    if not valid.all():
        raise ValueError(f"{rule}, got {found[~valid][0].item()!r} for size {size}")
    return found.astype(np.int64)


def checked_parts(scheme: Scheme, base: Relation, relation: Relation) -> Alternatives:
    """The parts of the scheme, a tuple of at least one tuple of SamplingPart."""
    rule = f"{type(scheme).__name__}.parts must return a tuple of tuples of SamplingPart, one for each worst case"
    found: Any = scheme.parts(base, relation)
    if not isinstance(found, (tuple, list)):
        raise TypeError(f"{rule}, got {type(found).__name__}")
    if not found:
        raise ValueError(f"{rule}, got an empty one")
    for case in found:
        if not isinstance(case, (tuple, list)):
            raise TypeError(f"{rule}, got a {type(found).__name__} with {type(case).__name__}")
        for part in case:
            if not isinstance(part, SamplingPart):
                raise TypeError(f"{rule}, got a part of type {type(part).__name__}")
    return tuple(map(tuple, found))


def checked_conversions(scheme: SamplingRule, base: Relation) -> Conversions:
    """The conversions of the scheme, a tuple of at least one pair of relations."""
    rule = (
        f"{type(scheme).__name__}.conversions must return a tuple of pairs of relations, (of the base, of the result)"
    )
    found: Any = scheme.conversions(base)
    if not isinstance(found, (tuple, list)):
        raise TypeError(f"{rule}, got {type(found).__name__}")
    if not found:
        raise ValueError(f"{rule}, got an empty one")
    for pair in found:
        if not isinstance(pair, (tuple, list)):
            raise TypeError(f"{rule}, got a {type(found).__name__} with {type(pair).__name__}")
        if len(pair) != 2 or not all(isinstance(one, Relation) for one in pair):
            raise TypeError(f"{rule}, got a pair of {', '.join(type(one).__name__ for one in pair) or 'nothing'}")
    return tuple((one, other) for one, other in found)

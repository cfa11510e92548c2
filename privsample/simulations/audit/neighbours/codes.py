"""Mechanisms that release codes: answers, observations of profiles, and kernels after either.

Records answer independently, so one release of many records gives as many draws; what comes out has a known law.
"""

from dataclasses import replace
from functools import singledispatch
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privsample._checks import FloatArray
from privsample.mechanisms.base import Mechanism
from privsample.mechanisms.postprocessing.kernels import MarkovKernel
from privsample.mechanisms.profiles.base import ProfileMechanism
from privsample.mechanisms.randomized import RandomizedResponse
from privsample.relations import ReplaceOne
from privsample.simulations.audit.base import Neighbours, neighbours
from privsample.simulations.audit.neighbours.sums import records

_BLOCK = 1_000  # pairs of laws compared at once


@singledispatch
def output_laws(mechanism: Mechanism) -> FloatArray:
    """What comes out for each input, shape (inputs, codes). Raises: TypeError."""
    raise TypeError(f"the law of the codes that {type(mechanism).__name__} releases is not known to the audit")


@output_laws.register
def _(mechanism: RandomizedResponse) -> FloatArray:
    return _answers_of(mechanism, mechanism.categories)


@output_laws.register
def _(mechanism: ProfileMechanism) -> FloatArray:
    return mechanism.laws


@output_laws.register
def _(mechanism: MarkovKernel) -> FloatArray:
    return np.asarray(output_laws(mechanism.base) @ mechanism.matrix)


@neighbours.register
def _(mechanism: RandomizedResponse, group: int = 1) -> tuple[Neighbours, ...]:
    return _answers(mechanism, mechanism, group)


@neighbours.register
def _(mechanism: ProfileMechanism, group: int = 1) -> tuple[Neighbours, ...]:
    return _profiles(mechanism, mechanism, group)


@neighbours.register
def _(mechanism: MarkovKernel, group: int = 1) -> tuple[Neighbours, ...]:
    inner = mechanism.base
    while isinstance(inner, MarkovKernel):
        inner = inner.base
    if isinstance(inner, RandomizedResponse):
        return _answers(mechanism, inner, group)
    if isinstance(inner, ProfileMechanism):
        return _profiles(mechanism, inner, group)
    raise TypeError(f"the worst neighbours of a kernel after {type(inner).__name__} are not known to the audit")


def _answers(mechanism: Mechanism, inner: RandomizedResponse, group: int) -> tuple[Neighbours, ...]:
    """The answers of a group, all of one category or all of another; without a kernel any two are alike.

    Under AddRemove the record in the only slot is left out, and the next one takes its place.
    """
    assert inner.slots is not None
    if not isinstance(inner.relation, ReplaceOne) and (inner.slots, group) != (1, 1):
        raise ValueError("answers in random order are not audited here; audit one record with slots = 1")
    if group > inner.slots:
        raise ValueError(f"a group must be no larger than n = {inner.slots}, got {group}")

    def draw(data: FloatArray, count: int, rng: np.random.Generator) -> FloatArray:
        many = _around(mechanism, replace(inner, relation=ReplaceOne(n=count * group), slots=None))
        return many.release(np.broadcast_to(data[:1], (count * group,)), rng=rng)["answers"].reshape(count, group)

    def pair(a: int, b: int) -> Neighbours:
        one, other = (records(group, np.array(code)) for code in (a, b))
        replaced = isinstance(inner.relation, ReplaceOne)
        return Neighbours(
            account=mechanism.accountant,
            words=(one if replaced else f"{one} and {other}", other),
            datasets=(lambda: np.full(group, a) if replaced else np.array([a, b]), lambda: np.full(group, b)),
            draw=draw,
            loss=_loss(laws[a], laws[b]),
            width=group,
        )

    if mechanism is inner:
        laws, ends = _answers_of(inner, 2), np.array([[0, 1]])
    else:
        laws, ends = output_laws(mechanism), np.transpose(np.triu_indices(inner.categories, 1))
    return tuple(pair(*found) for found in _worst(laws, ends))


def _answers_of(mechanism: RandomizedResponse, records: int) -> FloatArray:
    """The laws of the answers to the first so many categories."""
    truth = np.eye(records, mechanism.categories)
    weights = np.exp(mechanism.log_odds * (truth - 1.0))
    return np.asarray(weights / weights.sum(axis=1, keepdims=True))


def _around(mechanism: Mechanism, inner: Mechanism) -> Mechanism:
    """The kernels of `mechanism`, if there are any, around another innermost mechanism."""
    if isinstance(mechanism, MarkovKernel):
        return replace(mechanism, base=_around(mechanism.base, inner))
    return inner


def _loss(p: FloatArray, q: FloatArray) -> Any:
    """The log ratio of two laws of independent codes, of outputs (draws, codes released)."""
    ratios = _log_ratios(p, q)
    return lambda codes: ratios[codes.astype(np.int64)].sum(axis=1)


def _profiles(mechanism: Mechanism, inner: ProfileMechanism, group: int) -> tuple[Neighbours, ...]:
    """The ends of the edges, or for a group of that many edges, that differ most.

    A dataset is a profile, whose observations are drawn afresh each time.
    """
    graph, laws = inner.graph.within(group), output_laws(mechanism)
    if not len(graph.ends):
        raise ValueError("the graph must have an edge: without one nothing is promised")

    def draw(profile: int, count: int, rng: np.random.Generator) -> FloatArray:
        observed = rng.choice(graph.symbols, size=count * inner.observations, p=graph.laws[profile])
        released = mechanism.release({"profile": graph.names[profile], "symbol": observed}, rng=rng)
        return released["symbols"][0].reshape(count, -1)

    def pair(a: int, b: int) -> Neighbours:
        return Neighbours(
            account=mechanism.accountant,
            words=(f"profile {graph.names[a]}", f"profile {graph.names[b]}"),
            datasets=(lambda: a, lambda: b),
            draw=draw,
            loss=_loss(laws[a], laws[b]),
            width=inner.observations,
        )

    return tuple(pair(*found) for found in _worst(laws, graph.ends))


def _worst(laws: FloatArray, ends: NDArray[np.int64]) -> list[tuple[int, int]]:
    """Of pairs of rows the one with the largest log ratio, and the one farthest in total variation."""
    ratio, variation = (np.empty(len(ends)) for _ in range(2))
    for block in np.array_split(np.arange(len(ends)), -(-len(ends) // _BLOCK)):
        first, second = laws[ends[block, 0]], laws[ends[block, 1]]
        ratio[block] = np.abs(_log_ratios(first, second)).max(axis=1)
        variation[block] = np.abs(first - second).sum(axis=1)
    worst = dict.fromkeys([int(np.argmax(ratio)), int(np.argmax(variation))])
    return [(int(ends[at, 0]), int(ends[at, 1])) for at in worst]


def _log_ratios(p: FloatArray, q: FloatArray) -> FloatArray:
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.nan_to_num(np.log(p) - np.log(q), nan=0.0, posinf=np.inf, neginf=-np.inf)

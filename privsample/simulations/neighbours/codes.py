"""Mechanisms that release codes: answers, observations of profiles, and kernels after either.

Records answer independently, so one release of many records gives as many draws; what comes out has a known law.
"""

from dataclasses import replace
from functools import singledispatch
from typing import Any

import numpy as np

from privsample._checks import FloatArray
from privsample.mechanisms.base import Mechanism
from privsample.mechanisms.kernels import MarkovKernel
from privsample.mechanisms.profile_base import ProfileMechanism
from privsample.mechanisms.randomized import RandomizedResponse
from privsample.relations import ReplaceOne
from privsample.simulations.neighbours.base import Neighbours, neighbours


@singledispatch
def output_laws(mechanism: Mechanism) -> FloatArray:
    """What comes out for each input, shape (inputs, codes). Raises: TypeError."""
    raise TypeError(f"the law of the codes that {type(mechanism).__name__} releases is not known to the audit")


@output_laws.register
def _(mechanism: RandomizedResponse) -> FloatArray:
    truth = np.eye(2, mechanism.categories)
    weights = np.exp(mechanism.log_odds * (truth - 1.0))
    return np.asarray(weights / weights.sum(axis=1, keepdims=True))


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
    """One answer."""
    if group != 1:
        raise ValueError(f"one answer is audited, whatever the group: group must be 1, got {group}")
    if not isinstance(inner.relation, ReplaceOne) and inner.slots != 1:
        raise ValueError("answers in random order are not audited here; audit the same mechanism with slots = 1")

    def draw(data: FloatArray, count: int, rng: np.random.Generator) -> FloatArray:
        many = _around(mechanism, replace(inner, relation=ReplaceOne(n=count), slots=None))
        return many.release(np.broadcast_to(data, (count,)), rng=rng)["answers"][0]

    return (
        Neighbours(
            account=mechanism.accountant,
            words=("a record of 0", "a record of 1"),
            datasets=(lambda: np.zeros(1), lambda: np.ones(1)),
            draw=draw,
            loss=_loss(*output_laws(mechanism)),
        ),
    )


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
    """The ends of the edges that differ most; a dataset is a profile, whose observations are drawn afresh each time."""
    if group != 1:
        raise ValueError(f"the two ends of one edge are audited: group must be 1, got {group}")
    graph, laws = inner.graph, output_laws(mechanism)
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

    first, second = laws[graph.ends[:, 0]], laws[graph.ends[:, 1]]
    apart = np.abs(_log_ratios(first, second)).max(axis=1)
    worst = [int(np.argmax(apart)), int(np.argmax(np.abs(first - second).sum(axis=1)))]
    return tuple(pair(*map(int, graph.ends[at])) for at in dict.fromkeys(worst))


def _log_ratios(p: FloatArray, q: FloatArray) -> FloatArray:
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.nan_to_num(np.log(p) - np.log(q), nan=0.0, posinf=np.inf, neginf=-np.inf)

"""Mechanisms that run on a sample of the records."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from scipy import special, stats

from privsample._checks import FloatArray
from privsample.distributions.noise import Noise
from privsample.distributions.schemes import PoissonSampling, Scheme, WithReplacement
from privsample.mechanisms.base import Mechanism
from privsample.mechanisms.draws import one_draw
from privsample.mechanisms.noise.sums import NoisySum
from privsample.mechanisms.randomized import RandomizedResponse
from privsample.mechanisms.subsampling import Subsampled
from privsample.simulations.audit.base import Neighbours, neighbours
from privsample.simulations.audit.draws import released
from privsample.simulations.audit.neighbours.searched import candidate_records, searched
from privsample.simulations.audit.neighbours.sums import extremes, law_of, least, many, records, size_of
from privsample.simulations.audit.pairs import counted, sized


@neighbours.register
def _(mechanism: Subsampled, group: int = 1) -> tuple[Neighbours, ...]:
    """The records of the base's worst pair; whether the one that differs is in the sample is what the audit sees."""
    one: Any = replace(mechanism, base=_alone(mechanism.base))
    if isinstance(one.base, NoisySum):
        return (_sampled_sum(one, one.base, group),)
    inner, size = one.base, size_of(one.relation)
    while isinstance(inner, Subsampled):
        inner = inner.base
    if size is None or isinstance(inner, RandomizedResponse):
        return _searched(one, inner, group)
    return tuple(
        Neighbours(
            account=one.accountant, words=case.words, datasets=case.datasets, draw=released(one), width=case.width + 1
        )
        for case in neighbours(inner.for_size(size), group)
    )


def _searched(one: Subsampled, inner: Any, group: int) -> tuple[Neighbours, ...]:
    """Pairs to search; of answers, which come in random order, only how often each came."""
    draw = released(one)
    if isinstance(inner, RandomizedResponse):
        draw, width = partial(_tallied, one, inner.categories), inner.categories
    else:
        width = 1 + int(np.size(extremes(inner)[0] if isinstance(inner, NoisySum) else inner.model.empty))
    size = None if size_of(one.relation) else max(getattr(one.scheme, "n", group), group)
    return searched(one, candidate_records(inner), group, size=size, draw=draw, width=width)


def _tallied(one: Subsampled, categories: int, data: Any, count: int, rng: np.random.Generator) -> FloatArray:
    each = (one.release(data, rng=rng)["answers"].ravel() for _ in range(count))
    return np.array([np.bincount(answers, minlength=categories) for answers in each], dtype=np.float64)


def _alone(base: Mechanism) -> Mechanism:
    return replace(base, base=_alone(base.base)) if isinstance(base, Subsampled) else one_draw(base)


def _sampled_sum(one: Subsampled, base: NoisySum, group: int) -> Neighbours:
    assert one.relation is not None
    poisson = isinstance(one.scheme, PoissonSampling)
    size = size_of(one.relation)
    common, first, second = extremes(base)
    if poisson:
        common = least(base)  # so that the size of the sample tells nothing, where that is 0
    if size is not None:
        rest, last = sized(size, group), group
    else:  # beside the group there are none, or as many as the scheme wants
        rest, last = max(0 if poisson else one.scheme.n - group, 0), 0  # type: ignore[attr-defined]
        counted(rest)
    others = f"{records(rest, common)} and " if rest else ""
    loss = None
    if group == 1 and (rest == 0 or not poisson or not np.any(common)):
        loss = _mixture_loss(one.scheme, law_of(base), common, first, second)
    return Neighbours(
        account=one.accountant,
        words=(others + records(group, first), others + (records(last, second) if last else "none")),
        datasets=(
            lambda: np.concatenate([many(common, rest), many(first, group)]),
            lambda: np.concatenate([many(common, rest), many(second, last)]),
        ),
        draw=released(one),
        loss=loss,
        width=int(np.size(first)) + 1,
    )


def _mixture_loss(
    scheme: Scheme, law: Noise, common: FloatArray, first: FloatArray, second: FloatArray
) -> Callable[[FloatArray], FloatArray]:
    """The log ratio of two mixtures over how often the record that differs is in the sample."""
    copies, logs = _copies(scheme)
    taken = 0 if isinstance(scheme, PoissonSampling) else scheme.m  # type: ignore[attr-defined]

    def log_density(noisy: FloatArray, record: FloatArray) -> FloatArray:
        parts = [
            log + law.log_mass(noisy - ((taken - k) * common if taken else 0.0) - k * record).sum(axis=1)
            for k, log in zip(copies, logs, strict=True)
        ]
        return np.asarray(special.logsumexp(parts, axis=0))

    return lambda drawn: log_density(drawn[:, :-1], first) - log_density(drawn[:, :-1], second)


def _copies(scheme: Scheme) -> tuple[FloatArray, FloatArray]:
    """How often one record may be in a sample, and the logs of the probabilities."""
    if isinstance(scheme, WithReplacement):
        copies = np.arange(scheme.m + 1.0)
        return copies, np.asarray(stats.binom.logpmf(copies, scheme.m, 1 / scheme.n))
    rate = scheme.rate if isinstance(scheme, PoissonSampling) else scheme.m / scheme.n  # type: ignore[attr-defined]
    with np.errstate(divide="ignore"):
        return np.arange(2.0), np.log([1 - rate, rate])

"""Noise after noise, chains of noisy steps, diffusions, and coins."""

from dataclasses import replace
from typing import Any

import numpy as np

from privsample._checks import FloatArray
from privsample.accounting.noise.additive import GaussianAccountant
from privsample.distributions.noise import GaussianNoise
from privsample.mechanisms.base import Mechanism
from privsample.mechanisms.noise.additive import AdditiveNoise
from privsample.mechanisms.postprocessing.bernoulli import BernoulliSampling
from privsample.mechanisms.postprocessing.contraction import NoisyContraction
from privsample.mechanisms.postprocessing.convolution import NoiseAfter
from privsample.mechanisms.postprocessing.diffusion import DiffusionMechanism, Hierarchy
from privsample.simulations.audit.base import Neighbours, neighbours
from privsample.simulations.audit.draws import released
from privsample.simulations.audit.neighbours.additive import statistics, words
from privsample.simulations.audit.neighbours.noise import shifted


@neighbours.register
def _(mechanism: NoiseAfter | NoisyContraction, group: int = 1) -> tuple[Neighbours, ...]:
    """The pairs of the noise that all began with; after Gaussian noise alone the density is known."""
    one = _many(mechanism, 1)
    width = int(np.prod(one.shape if isinstance(one, NoisyContraction) else one._additive.shape))
    first: Any = _first(one)
    account, shift, found = one.accountant, group * first.sensitivity, []
    for case in neighbours(first, group):
        loss = None
        if isinstance(one, NoiseAfter) and isinstance(account, GaussianAccountant):
            around = shifted(GaussianNoise(noise_std=account.noise_std), 0.0, shift)
            loss = lambda noisy, around=around: around(noisy[:, :1])  # noqa: E731
        found.append(
            Neighbours(
                account=account,
                words=case.words,
                datasets=case.datasets,
                draw=lambda data, count, rng: _many(one, count).release(data, rng=rng)["statistic"],
                loss=loss,
                width=width,
            )
        )
    return tuple(found)


def _first(mechanism: Mechanism) -> Mechanism:
    return mechanism if isinstance(mechanism, AdditiveNoise) else _first(mechanism.base)  # type: ignore[attr-defined]


def _many(mechanism: Any, draws: int) -> Any:
    """The same after `draws` copies of the first noise."""
    if isinstance(mechanism, AdditiveNoise):
        return replace(mechanism, draws=draws)  # type: ignore[type-var]
    return replace(mechanism, base=_many(mechanism.base, draws))


@neighbours.register
def _(mechanism: DiffusionMechanism, group: int = 1) -> tuple[Neighbours, ...]:
    return (_diffused(mechanism, mechanism, group),)


@neighbours.register
def _(mechanism: Hierarchy, group: int = 1) -> tuple[Neighbours, ...]:
    """All tiers; the first says all that the others do."""
    return (_diffused(mechanism, mechanism.base, group),)


def _diffused(mechanism: Any, first: Any, group: int) -> Neighbours:
    """Coordinates diffuse independently, so one release of many equal statistics gives as many draws."""
    shift, tiers = group * first.sensitivity, 1 + len(getattr(mechanism, "times", ()))
    shrunk, size = first.law.shrink(first.time), int(np.prod(first.shape))
    loss = shifted(GaussianNoise(noise_std=float(np.sqrt(first.law.variance(first.time)))), 0.0, shrunk * shift)

    def draw(data: FloatArray, count: int, rng: np.random.Generator) -> FloatArray:
        shape = (count, *first.shape)
        base = replace(first, shape=shape)
        many = replace(mechanism, base=base) if isinstance(mechanism, Hierarchy) else base
        path = many.release(np.broadcast_to(data, shape), rng=rng)["statistic"]
        return np.asarray(np.moveaxis(path, 0, 1))

    return Neighbours(
        account=mechanism.accountant,
        words=words(shift),
        datasets=statistics(first.shape, shift),
        draw=draw,
        loss=lambda path: loss(path[:, :1]),
        width=tiers * size,
    )


@neighbours.register
def _(mechanism: BernoulliSampling, group: int = 1) -> tuple[Neighbours, ...]:
    """The base's pairs, seen through the coins."""
    assert mechanism.dimension is not None
    return tuple(
        Neighbours(
            account=mechanism.accountant,
            words=case.words,
            datasets=case.datasets,
            draw=released(mechanism),
            width=mechanism.draws * mechanism.dimension + 1,
        )
        for case in neighbours(mechanism.base, group)
    )

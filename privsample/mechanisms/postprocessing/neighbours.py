"""Worst neighbours of post-processed noise: further noise, chains of noisy steps, and diffusions."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from privsample.accounting.base import Accountant
from privsample.mechanisms.base import Mechanism
from privsample.mechanisms.neighbours import Loss, Neighbours
from privsample.mechanisms.noise.additive import AdditiveNoise


def neighbours_after_noise(
    mechanism: Mechanism, group: int, *, width: int, loss: Callable[[Accountant, float], Loss | None]
) -> tuple[Neighbours, ...]:
    """The worst neighbours of the innermost noise mechanism, with outputs and account of the whole chain of wrappers.

    loss: the loss of outputs, from the account of one draw and the shift of the statistic's first coordinate.
    """
    one = _with_draws(mechanism, 1)
    first = _first_noise(one)
    return tuple(
        Neighbours(
            account=one.accountant,
            descriptions=case.descriptions,
            datasets=case.datasets,
            draw=lambda data, count, rng: _with_draws(one, count).release(data, rng=rng)["statistic"],
            loss=loss(one.accountant, group * first.sensitivity),
            width=width,
        )
        for case in first.worst_neighbours(group)
    )


def _first_noise(mechanism: Any) -> AdditiveNoise:
    return mechanism if isinstance(mechanism, AdditiveNoise) else _first_noise(mechanism.base)


def _with_draws(mechanism: Any, draws: int) -> Mechanism:
    """The same chain of wrappers with `draws` draws of the innermost noise mechanism."""
    if isinstance(mechanism, AdditiveNoise):
        return replace(mechanism, draws=draws)  # type: ignore[type-var]
    return replace(mechanism, base=_with_draws(mechanism.base, draws))

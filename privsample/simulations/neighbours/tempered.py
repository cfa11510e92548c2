"""The neighbours that draws from a posterior held inside bounds tell apart best, whatever the other records hold.

Bounds cut off the tails that make one-sided data the worst for a whole posterior: the worst others lead it near a
bound, or to where it is widest. They are found by quadrature.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import integrate

from privsample._checks import FloatArray
from privsample.distributions.families import BetaBernoulli, DirichletCategorical
from privsample.distributions.truncated import HeldNumber
from privsample.mechanisms.tempered import TemperedPosterior
from privsample.simulations.neighbours.base import Neighbours, neighbours, sized
from privsample.simulations.neighbours.posterior import Density, Records, extreme_records, pair

_CELLS, _PLACES = 4_000, 33
_FRACTION = 0.2  # of the total variation: where the curve is looked at a second time


@neighbours.register
def _(mechanism: TemperedPosterior, group: int = 1) -> tuple[Neighbours, ...]:
    """The density is known for one number; for several a score is learned."""
    sized(mechanism.n, group)
    if isinstance(mechanism.model, DirichletCategorical):
        return _shares(mechanism, mechanism.model, group)

    def density(statistic: FloatArray) -> Density:
        law: Any = mechanism._law(statistic)
        total = _log_total(law)
        return lambda drawn: law.log_density(drawn[:, 0]) - total

    records = _ends(mechanism)
    return tuple(pair(mechanism, records, group, density, raised=k) for k in _worst_others(mechanism, records, group))


def _ends(mechanism: TemperedPosterior) -> Records:
    _, *ends = extreme_records(mechanism.model)[0]
    return min(ends), min(ends), max(ends)


def _shares(mechanism: TemperedPosterior, model: DirichletCategorical, group: int) -> tuple[Neighbours, ...]:
    """Two shares among others that stay at the bound are nearly the chances of a coin; and all others elsewhere."""
    i, j, *others = np.argsort(model.alpha, kind="stable")
    coin = TemperedPosterior(
        model=BetaBernoulli(alpha=model.alpha[j], beta=model.alpha[i]),
        n=mechanism.n,
        temperature=mechanism.temperature,
        truncation=mechanism.truncation,
    )
    elsewhere = [pair(mechanism, (float(other), float(i), float(j)), group, None) for other in others[-1:]]
    places = _worst_others(coin, (0.0, 0.0, 1.0), group)
    return *elsewhere, *(pair(mechanism, (float(i), float(i), float(j)), group, None, raised=k) for k in places)


def _worst_others(mechanism: TemperedPosterior, records: Records, group: int) -> list[int]:
    """How many of the others hold the higher record, at worst: in total variation, and farther out on the curve."""
    model, rest = mechanism.model, mechanism.n - group
    low, high = (model.statistic(np.array([record])) for record in records[1:])

    def laws(raised: int) -> tuple[FloatArray, FloatArray]:
        others = (rest - raised) * low + raised * high
        return _cells(mechanism, others + group * low), _cells(mechanism, others + group * high)

    def excess(raised: int, factor: float) -> float:
        p, q = laws(raised)
        return float(max(np.maximum(p - factor * q, 0.0).sum(), np.maximum(q - factor * p, 0.0).sum()))

    first = _largest(lambda k: excess(k, 1.0), rest)
    farther, goal = 1.0, _FRACTION * excess(first, 1.0)
    while excess(first, farther * 1.1) > goal > 0.0 and farther < 1e100:
        farther *= 1.1
    return list(dict.fromkeys([first, _largest(lambda k: excess(k, farther), rest)]))


def _cells(mechanism: TemperedPosterior, statistic: FloatArray) -> FloatArray:
    """The law's probabilities of the cells of an even grid, nearly."""
    law: Any = mechanism._law(statistic)
    width = (law.high - law.low) / _CELLS
    logs = law.log_density(law.low + width * (np.arange(_CELLS) + 0.5))
    weights = np.exp(logs - logs.max())
    return np.asarray(weights / weights.sum())


def _largest(value: Callable[[int], float], most: int) -> int:
    """A whole number up to `most` where `value` is largest, if it rises to its largest value and falls from there."""
    low, high = 0, most
    while True:
        places = np.unique(np.rint(np.linspace(low, high, _PLACES)).astype(int))
        best = int(places[np.argmax([value(int(place)) for place in places])])
        if high - low < _PLACES:
            return best
        step = -(-(high - low) // (_PLACES - 1))
        low, high = max(low, best - step), min(high, best + step)


def _log_total(law: HeldNumber) -> float:
    """The logarithm of what a density that is known up to a constant adds up to, by quadrature."""
    at = np.linspace(law.low, law.high, 2_001)
    logs = law.log_density(at)
    top, peak = float(logs.max()), float(at[np.argmax(logs)])
    found = integrate.quad(
        lambda x: np.exp(law.log_density(np.asarray(x)) - top),
        law.low,
        law.high,
        points=[peak],
        limit=500,
        epsabs=0,
        epsrel=1e-10,
    )
    return float(np.log(found[0])) + top

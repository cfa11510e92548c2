"""Worst neighbours of mechanisms that run on a sample of the records.

The worst pair of records is known for a noisy sum. For other mechanisms the base's worst pair is used, or pairs made
of its extreme records, among which an audit searches.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import special

from privsample._checks import FloatArray
from privsample.accounting.base import Accountant
from privsample.distributions.noise import Noise
from privsample.distributions.schemes import PoissonSampling, Scheme, WithReplacement
from privsample.mechanisms.neighbours import (
    MOST_PAIRS,
    Dataset,
    Draw,
    Loss,
    Neighbours,
    PairRecipe,
    check_simulated,
    copies,
    describe_records,
    pair_recipes,
    records_outside_group,
)


def searched_neighbours(
    records: NDArray[Any], *, account: Accountant, size: int | None, group: int, draw: Draw, width: int
) -> tuple[Neighbours, ...]:
    """A candidate for each pair of datasets that `neighbouring_pairs` makes of the records."""
    made = pair_recipes(len(records), account.relation, size=size, group=group, most=MOST_PAIRS)
    check_simulated(made[0].shared + group)
    return tuple(
        Neighbours(
            account=account,
            descriptions=(_describe(recipe, records, 0), _describe(recipe, records, 1)),
            datasets=(_dataset(recipe, records, 0), _dataset(recipe, records, 1)),
            draw=draw,
            width=width,
        )
        for recipe in made
    )


def _dataset(recipe: PairRecipe, records: NDArray[Any], side: int) -> Dataset:
    return lambda: records[recipe.places(side, len(records))]


def _describe(recipe: PairRecipe, records: NDArray[Any], side: int) -> str:
    place: Any = (recipe.first, recipe.second)[side]
    own = "none" if place is None else describe_records(recipe.group, records[place])
    if recipe.shared == 0:
        return own
    if recipe.common is None:
        return f"{recipe.shared:,} records of each kind in turn and {own}"
    return f"{describe_records(recipe.shared, records[recipe.common])} and {own}"


def sum_neighbours(
    *,
    extremes: tuple[FloatArray, FloatArray, FloatArray],
    least: FloatArray,
    noise: Noise,
    scheme: Scheme,
    size: int | None,
    group: int,
    account: Accountant,
    draw: Draw,
) -> Neighbours:
    """Worst neighbours of a noisy sum on a sample.

    The loss is known if one record differs and the sample size does not depend on the data in any other way. extremes:
    the common record and the two records that change the sum most. least: the record with the smallest contribution.
    """
    poisson = isinstance(scheme, PoissonSampling)
    common, first, second = extremes
    if poisson:
        common = least  # if it adds 0, the sample size does not affect the sum
    if size is not None:
        rest, last = records_outside_group(group, size), group
    else:  # common records: none, or as many as the scheme requires
        rest, last = max(0 if poisson else scheme.n - group, 0), 0  # type: ignore[attr-defined]
        check_simulated(rest)
    others = f"{describe_records(rest, common)} and " if rest else ""
    loss = None
    if group == 1 and (rest == 0 or not poisson or not np.any(common)):
        loss = _mixture_loss(scheme, noise, common, first, second)
    return Neighbours(
        account=account,
        descriptions=(
            others + describe_records(group, first),
            others + (describe_records(last, second) if last else "none"),
        ),
        datasets=(
            lambda: np.concatenate([copies(common, rest), copies(first, group)]),
            lambda: np.concatenate([copies(common, rest), copies(second, last)]),
        ),
        draw=draw,
        loss=loss,
        width=int(np.size(first)) + 1,
    )


def _mixture_loss(scheme: Scheme, noise: Noise, common: FloatArray, first: FloatArray, second: FloatArray) -> Loss:
    """The log ratio, in nats, of two mixtures over the number of times that the differing record is in the sample."""
    numbers, logs = _log_occurrence_probabilities(scheme)
    taken = 0 if isinstance(scheme, PoissonSampling) else scheme.m  # type: ignore[attr-defined]

    def log_density(noisy: FloatArray, record: FloatArray) -> FloatArray:
        parts = [
            log + noise.log_mass(noisy - ((taken - k) * common if taken else 0.0) - k * record).sum(axis=1)
            for k, log in zip(numbers, logs, strict=True)
        ]
        return np.asarray(special.logsumexp(parts, axis=0))

    return lambda drawn: log_density(drawn[:, :-1], first) - log_density(drawn[:, :-1], second)


def _log_occurrence_probabilities(scheme: Scheme) -> tuple[FloatArray, FloatArray]:
    """The possible numbers of occurrences of one record in a sample, and the logs of their probabilities."""
    if isinstance(scheme, WithReplacement):
        from scipy import stats

        numbers = np.arange(scheme.m + 1.0)
        return numbers, np.asarray(stats.binom.logpmf(numbers, scheme.m, 1 / scheme.n))
    rate = scheme.rate if isinstance(scheme, PoissonSampling) else scheme.m / scheme.n  # type: ignore[attr-defined]
    with np.errstate(divide="ignore"):
        return np.arange(2.0), np.log([1 - rate, rate])


def count_codes(mechanism: Any, name: str, codes: int) -> Draw:
    """Outputs of shuffled codes, reduced to the number of times that each code occurs."""

    def draw(data: Any, count: int, rng: np.random.Generator) -> FloatArray:
        each = (mechanism.release(data, rng=rng)[name].ravel() for _ in range(count))
        return np.array([np.bincount(answers, minlength=codes) for answers in each], dtype=np.float64)

    return draw

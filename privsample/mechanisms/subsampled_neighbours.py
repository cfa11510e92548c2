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
from privsample.distributions.allocation import RandomAllocation
from privsample.distributions.noise import Noise
from privsample.distributions.record_format import RecordFormat
from privsample.distributions.schemes import PoissonSampling, RecordCopies, Scheme
from privsample.mechanisms.neighbours import (
    MOST_PAIRS,
    Dataset,
    Draw,
    Loss,
    Neighbours,
    PairRecipe,
    SumRecords,
    check_simulated,
    copies,
    describe_records,
    pair_recipes,
    records_outside_group,
)


def searched_neighbours(
    records: NDArray[Any],
    form: RecordFormat,
    *,
    account: Accountant,
    size: int | None,
    group: int,
    draw: Draw,
    width: int,
) -> tuple[Neighbours, ...]:
    """A candidate for each pair of datasets that `neighbouring_pairs` makes of the records."""
    made = pair_recipes(len(records), account.relation, size=size, group=group, most=MOST_PAIRS)
    check_simulated(made[0].shared + group)
    return tuple(
        Neighbours(
            account=account,
            descriptions=(_describe(recipe, records, 0), _describe(recipe, records, 1)),
            datasets=(_dataset(recipe, records, form, 0), _dataset(recipe, records, form, 1)),
            draw=draw,
            width=width,
        )
        for recipe in made
    )


def _dataset(recipe: PairRecipe, records: NDArray[Any], form: RecordFormat, side: int) -> Dataset:
    return lambda: form.to_data(records[recipe.places(side, len(records))])


def _describe(recipe: PairRecipe, records: NDArray[Any], side: int) -> str:
    place: Any = (recipe.first, recipe.second)[side]
    own = "none" if place is None else describe_records(recipe.group, records[place])
    if recipe.shared == 0:
        return own
    if recipe.common is None:
        return f"{recipe.shared:,} records of each kind in turn and {own}"
    return f"{describe_records(recipe.shared, records[recipe.common])} and {own}"


def sum_neighbours(
    worst: SumRecords,
    form: RecordFormat,
    *,
    noise: Noise,
    scheme: Scheme,
    size: int | None,
    group: int,
    account: Accountant,
    draw: Draw,
) -> Neighbours:
    """Worst neighbours of a noisy sum on a sample.

    The loss is known if one record differs and the sample size does not depend on the data in any other way.
    """
    poisson = isinstance(scheme, PoissonSampling)
    common, first, second = worst.records
    if size is not None:
        rest, last = records_outside_group(group, size), group
    else:  # common records: none, or as many as the scheme requires
        rest, last = max(0 if poisson else scheme.n - group, 0), 0  # type: ignore[attr-defined]
        check_simulated(rest)
    others = f"{describe_records(rest, common)} and " if rest else ""
    loss, copied = None, scheme.copies_of_one_record()
    if group == 1 and copied is not None and (rest == 0 or copied.sample_size or not np.any(worst.contributions[0])):
        loss = _mixture_loss(copied, noise, worst.contributions)
    place = min(copied.position, rest) if copied is not None and copied.position is not None else rest

    def dataset(own: FloatArray, count: int) -> Dataset:
        return lambda: form.to_data(np.insert(copies(common, rest), [place] * count, own, axis=0))

    return Neighbours(
        account=account,
        descriptions=(
            others + describe_records(group, first),
            others + (describe_records(last, second) if last else "none"),
        ),
        datasets=(dataset(first, group), dataset(second, last)),
        draw=draw,
        loss=loss,
        width=int(np.size(worst.contributions[1])) + 1,
    )


def allocated_neighbours(
    worst: SumRecords,
    form: RecordFormat,
    *,
    noise: Noise,
    scheme: RandomAllocation,
    group: int,
    account: Accountant,
    draw: Draw,
) -> Neighbours:
    """Worst neighbours of the noisy sums of an epoch: some records, and none. The loss is known for one record."""
    _, first, _ = worst.records
    contribution, width = worst.contributions[1], int(np.size(worst.contributions[1]))

    def loss(drawn: FloatArray) -> FloatArray:
        noisy = drawn[:, :-1].reshape(len(drawn) * scheme.steps, width)
        ratio = (noise.log_mass(noisy - contribution) - noise.log_mass(noisy)).sum(axis=1)
        steps = ratio.reshape(len(drawn), scheme.steps)
        return np.asarray(special.logsumexp(steps, axis=1) - np.log(scheme.steps))

    return Neighbours(
        account=account,
        descriptions=(describe_records(group, first), "none"),
        datasets=(lambda: form.to_data(copies(first, group)), lambda: form.to_data(copies(first, 0))),
        draw=draw,
        loss=loss if group == 1 == scheme.times else None,
        width=width * scheme.steps + 1,
    )


def _mixture_loss(copied: RecordCopies, noise: Noise, contributions: tuple[FloatArray, FloatArray, FloatArray]) -> Loss:
    """The log ratio, in nats, of two mixtures over the number of times that the differing record is in the sample."""
    common, first, second = contributions
    taken = copied.sample_size or 0  # if it is random, the common record adds nothing

    def log_density(noisy: FloatArray, record: FloatArray) -> FloatArray:
        parts = [
            log + noise.log_mass(noisy - ((taken - k) * common if taken else 0.0) - k * record).sum(axis=1)
            for k, log in zip(copied.numbers, copied.log_masses, strict=True)
        ]
        return np.asarray(special.logsumexp(parts, axis=0))

    return lambda drawn: log_density(drawn[:, :-1], first) - log_density(drawn[:, :-1], second)


def count_codes(mechanism: Any, name: str, codes: int) -> Draw:
    """Outputs of shuffled codes, reduced to the number of times that each code occurs."""

    def draw(data: Any, count: int, rng: np.random.Generator) -> FloatArray:
        each = (mechanism.release(data, rng=rng)[name].ravel() for _ in range(count))
        return np.array([np.bincount(answers, minlength=codes) for answers in each], dtype=np.float64)

    return draw

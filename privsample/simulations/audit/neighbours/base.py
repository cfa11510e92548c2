"""Neighbouring datasets for an audit, with a way to draw and, where it is known, a density ratio."""

from collections.abc import Callable, Sequence
from functools import partial, singledispatch
from typing import Any

from privsample._checks import FloatArray
from privsample._value import value
from privsample.accounting.base import Accountant
from privsample.mechanisms.base import Mechanism
from privsample.simulations.audit.distance import check_inputs, check_neighbours, check_statistics, of_statistics
from privsample.simulations.audit.draws import Draw, Sampler, sampler
from privsample.simulations.audit.pairs import MOST_RECORDS

Dataset = Callable[[], Any]


@value
class Neighbours:
    """Two neighbouring datasets in words and built on demand, and `draw(data, count, rng)` from either.

    `account` is that of one draw, None where only the caller knows a claim; `width` how many numbers an output has;
    `loss` the log density ratio of the first over the second dataset's law, None where it has to be learned.
    """

    account: Accountant | None
    words: tuple[str, str]
    datasets: tuple[Dataset, Dataset]
    draw: Draw
    loss: Callable[[FloatArray], FloatArray] | None = None
    width: int = 1


@singledispatch
def neighbours(mechanism: Mechanism, group: int = 1) -> tuple[Neighbours, ...]:
    """Pairs that nearly attain the account of one draw for groups of `group`; each is audited in both directions.

    A new mechanism registers its own. Raises: TypeError, for one that has none; ValueError, too many records.
    """
    del group
    raise TypeError(
        f"the worst neighbours of {type(mechanism).__name__} are not known to the audit: pass datasets=(first, second) "
        "or a list of such pairs, as neighbouring_pairs makes them"
    )


def pairs_of(
    subject: Mechanism | Sampler, pairs: Sequence[tuple[Any, Any]], claim: Any, loss: Any, group: int
) -> tuple[Neighbours, ...]:
    """The caller's own pairs of datasets. Raises: ValueError, they are not neighbours, as far as that can be told."""
    draw, account = sampler(subject)
    innermost = of_statistics(subject) if isinstance(subject, Mechanism) else None
    found = []
    for place, (first, second) in enumerate(pairs, start=1):
        which = f" of pair {place} of {len(pairs)}" if len(pairs) > 1 else ""
        if innermost is not None:
            check_statistics(innermost, first, second, group)
        elif account is not None:
            check_neighbours(account.relation, first, second, group)
        else:
            check_inputs(claim.relation if isinstance(claim, Accountant) else None, first, second, group)
        found.append(
            Neighbours(
                account=account,
                words=(f"the first dataset{which}", "the second"),
                datasets=(partial(_same, first), partial(_same, second)),
                draw=draw,
                loss=loss,
            )
        )
    return tuple(found)


def _same(data: Any) -> Any:
    return data


def sized(n: int, group: int) -> int:
    """How many of n records are left beside a group. Raises: ValueError, none are, or too many to simulate."""
    counted(n)
    if group > n:
        raise ValueError(f"a group must be no larger than n = {n}, got {group}")
    return n - group


def counted(size: int) -> None:
    """Refuse to build datasets of too many records. Raises: ValueError."""
    if size > MOST_RECORDS:
        raise ValueError(f"n = {size} records are too many to simulate; audit with n = {MOST_RECORDS} or fewer")

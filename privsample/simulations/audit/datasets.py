"""Pairs of datasets given by the caller of an audit."""

from collections.abc import Sequence
from functools import partial
from typing import Any

from privsample.accounting.base import Accountant
from privsample.mechanisms.base import Mechanism
from privsample.mechanisms.neighbours import Neighbours
from privsample.simulations.audit.distance import (
    check_inputs,
    check_neighbours,
    check_statistics,
    innermost_statistical,
)
from privsample.simulations.audit.draws import Sampler, sampler


def pairs_of(
    subject: Mechanism | Sampler, pairs: Sequence[tuple[Any, Any]], claim: Any, loss: Any, group: int
) -> tuple[Neighbours, ...]:
    """Check the given pairs and return them as audit cases. Raises: ValueError, if a pair is not neighbouring."""
    draw, account = sampler(subject)
    innermost = innermost_statistical(subject) if isinstance(subject, Mechanism) else None
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
                descriptions=(f"the first dataset{which}", "the second"),
                datasets=(partial(_same, first), partial(_same, second)),
                draw=draw,
                loss=loss,
            )
        )
    return tuple(found)


def _same(data: Any) -> Any:
    return data

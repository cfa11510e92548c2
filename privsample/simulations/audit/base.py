"""What an audit needs to know: two neighbouring datasets, how to draw and, where it is known, a density ratio.

It imports no mechanism. `audit/neighbours` registers the worst neighbours of each.
"""

from collections.abc import Callable
from functools import singledispatch
from typing import Any

import numpy as np

from privsample._checks import FloatArray
from privsample._value import value
from privsample.accounting.base import Accountant
from privsample.mechanisms.base import Mechanism

Sampler = Callable[[Any, np.random.Generator], Any]
Draw = Callable[[Any, int, np.random.Generator], FloatArray]
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

"""Privacy bounds of an epoch of randomly allocated records, from those of one step (allocation.md, steps 1 and 2)."""

from dataclasses import replace
from typing import Any

import numpy as np

from privsample.accounting.curves import zcdp
from privsample.accounting.engine.bounds import PrivacyBounds
from privsample.accounting.engine.compose import compose
from privsample.accounting.engine.envelope import direction_pairs
from privsample.accounting.loss.pair import DiscretePair, binary_pair
from privsample.accounting.subsampling.allocation import allocation_pairs

MOST_STEPS = 10_000_000  # more steps cost less; those of this many are reported, beyond which the lattices fail
_VALUES = 3e5  # values of the base's privacy curve that the lattices of one account need


def allocation_bounds(base: PrivacyBounds, steps: int, times: int) -> PrivacyBounds:
    """Bounds of an epoch of `steps` steps in which each record takes part in `times`.

    Several times are bounded by blocks: a record takes part once in each of `times` blocks of steps whose sizes differ
    by one at most. Raises ValueError if the base has no privacy curve.
    """
    if not base.has_curve:
        raise ValueError(
            "base must have a privacy curve to be allocated at random, got an account with a Rényi curve only: state a "
            "dominating pair or a privacy curve of one step"
        )
    length, longer = divmod(steps, times)
    blocks = [(length, times - longer), (length + 1, longer)]
    return compose([(_block(base, size), count) for size, count in blocks if count])


def _block(base: PrivacyBounds, steps: int) -> PrivacyBounds:
    """Bounds of one of `steps` steps, or of `MOST_STEPS` if there are more (allocation.md, section 1)."""
    if steps > MOST_STEPS:
        return replace(_block(base, MOST_STEPS), exact=frozenset())
    if steps == 1:
        return base
    removal, addition = direction_pairs(base, _VALUES, both_orders=False)
    pairs = allocation_pairs(removal, addition, steps)
    known: dict[str, Any] = {"infinity_mass": base.infinity_mass, "pure_epsilon": base.pure_epsilon, "zcdp": base.zcdp}
    if base.infinity_mass > 0.0:  # the Rényi curve given a finite loss is that of the pure guarantee, or infinite
        finite = bool(np.isfinite(base.pure_epsilon))
        pure = binary_pair(base.pure_epsilon if finite else 0.0)
        known |= {"renyi": pure.renyi if finite else lambda orders: np.full(np.shape(orders), np.inf)}
        known |= {"order_limit": np.inf if finite else 1.0, "zcdp": zcdp.of_pure(base.pure_epsilon)}
    exact = base.exact if all(isinstance(pair, DiscretePair) for pair in pairs) and base.single_pairs else frozenset()
    return PrivacyBounds.from_pairs((pairs[0],), (pairs[1],), exact=exact, **known)

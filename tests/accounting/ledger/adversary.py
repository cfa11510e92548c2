"""The best adversary against privacy filters, by enumeration of all its strategies."""

import math
from functools import cache

from tests.accounting.ledger.shared import pure


def best_attack(filters, sizes, goal):
    """The true delta at epsilon = goal of the best adversary, who picks randomized responses of the given epsilons.

    A response is allowed if any of the filters admits it after all earlier ones, each filter with its own total.
    """
    odds, accounts = [1 / (1 + math.exp(-size)) for size in sizes], [pure(size) for size in sizes]

    @cache
    def after(totals, i):
        found = tuple(one.cost(total, accounts[i], 1) + total for one, total in zip(filters, totals, strict=True))
        return found if any(one.fits(total) for one, total in zip(filters, found, strict=True)) else None

    @cache
    def value(totals, signs):
        best = max(0.0, -math.expm1(goal - sum(map(float.__mul__, sizes, map(float, signs)))))
        for i, odd in enumerate(odds):
            if (more := after(totals, i)) is not None:
                up, down = ((*signs[:i], signs[i] + step, *signs[i + 1 :]) for step in (1, -1))
                best = max(best, odd * value(more, up) + (1 - odd) * value(more, down))
        return best

    return value(tuple(one.zero for one in filters), (0,) * len(sizes))

"""Costs in few decimal digits, rounded to the safe side: what is spent upwards, what is left downwards."""

import math
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal

_KEPT = 15  # decimal digits of a float that all survive: what prints alike to so many counts as equal, 0.1 + 0.2 as 0.3


def round_up(cost: float, digits: int) -> str:
    """A cost in so many digits, not below it; "none" where there is no finite one."""
    return _rounded(cost, digits, ROUND_CEILING)


def round_down(left: float, digits: int) -> str:
    """What remains of a budget in so many digits, not above it."""
    return _rounded(left, digits, ROUND_FLOOR)


def _rounded(amount: float, digits: int, rounding: str) -> str:
    if not math.isfinite(amount):
        return "none" if amount > 0 else str(amount)
    printed = Decimal(f"{float(amount):.{_KEPT}g}")
    return f"{float(Context(prec=digits, rounding=rounding).plus(printed)) + 0.0:.{digits}g}"

"""Privacy costs in few decimal digits, by directed rounding: costs up, remaining budgets down."""

import math
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal

_KEPT = 15  # decimal digits that every float keeps: 0.1 + 0.2 and 0.3 are the same cost


def round_up(cost: float, digits: int) -> str:
    """A cost with `digits` significant digits, rounded up; "none" if it is infinite."""
    return _rounded(cost, digits, ROUND_CEILING)


def round_down(left: float, digits: int) -> str:
    """A remaining budget with `digits` significant digits, rounded down."""
    return _rounded(left, digits, ROUND_FLOOR)


def _rounded(amount: float, digits: int, rounding: str) -> str:
    """A number with `digits` significant digits, rounded in the given direction."""
    if not math.isfinite(amount):
        return "none" if amount > 0 else str(amount)
    printed = Decimal(f"{float(amount):.{_KEPT}g}")
    return f"{float(Context(prec=digits, rounding=rounding).plus(printed)) + 0.0:.{digits}g}"

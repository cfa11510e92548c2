"""Format privacy costs with few significant digits, with directed rounding: costs up, remaining budgets down."""

import math
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal

_DIGITS = 15  # a float represents 15 significant digits: 0.1 + 0.2 and 0.3 are equal costs


def round_up(cost: float, digits: int) -> str:
    """A cost with `digits` significant digits, rounded up; "none" if it is infinite."""
    return _rounded(cost, digits, ROUND_CEILING)


def round_down(remaining: float, digits: int) -> str:
    """A remaining budget with `digits` significant digits, rounded down."""
    return _rounded(remaining, digits, ROUND_FLOOR)


def _rounded(amount: float, digits: int, rounding: str) -> str:
    """A number with `digits` significant digits, rounded in the given direction."""
    if not math.isfinite(amount):
        return "none" if amount > 0 else str(amount)
    decimal = Decimal(f"{float(amount):.{_DIGITS}g}")
    return f"{float(Context(prec=digits, rounding=rounding).plus(decimal)) + 0.0:.{digits}g}"

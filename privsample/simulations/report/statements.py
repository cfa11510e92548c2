"""What a release costs, in words for someone who has never heard of it; what it is, its mechanism says itself."""

import math
import re

from privsample.accounting.base import Accountant
from privsample.accounting.statement import rounded_up as _up
from privsample.accounting.statement import shown_epsilon

_EVEN = "50\N{NO-BREAK SPACE}:\N{NO-BREAK SPACE}50"  # never broken across lines


def rounded_up(x: float, digits: int = 4) -> str:
    """A nonnegative number to this many significant digits, never below it."""
    if x == 0.0 or not math.isfinite(x):
        return "0" if x == 0.0 else "infinite"
    return f"{_up(x, digits):.{digits}g}"


def price(account: Accountant, delta: float) -> str:
    """epsilon(delta) as it is shown everywhere: by the rule of the privacy statement."""
    return rounded_up(shown_epsilon(account, delta))


def small(x: float) -> str:
    """A small number without padding: 1e-6."""
    return re.sub(r"e-0+", "e-", f"{x:g}")


def chance(delta: float) -> str:
    """A small probability as one in so many, never one in more."""
    return f"{small(delta)}, one in {math.floor(1 / delta * (1 + 1e-12)):,}" if 0.0 < delta <= 0.1 else small(delta)


def cost(account: Accountant, delta: float) -> tuple[str, ...]:
    """What epsilon means: how far the odds of a guess about one record can move."""
    epsilon, unit = float(account.epsilon(delta)), str(getattr(account.relation, "unit", "record"))
    if math.isinf(epsilon):
        return (f"With a failure probability of {chance(delta)}, nothing is promised: the cost is infinite.",)
    if epsilon > 30:
        return (f"Epsilon is {price(account, delta)}: so large that it protects next to nothing.",)
    shown = shown_epsilon(account, delta)
    odds, sure = math.exp(shown), 100 / (1 + math.exp(-shown))
    promise = (
        f"Epsilon is {rounded_up(shown)}. Seeing this release can shift the odds of any guess about one {unit} by a "
        f"factor of at most {rounded_up(odds, 3)} (e to the power epsilon)."
    )
    example = (
        f"Someone to whom two versions of a {unit} seemed equally likely ({_EVEN}) can be at most "
        f"{rounded_up(sure, 3)} % sure of one of them afterwards."
    )
    if delta > 0:
        example += f" This may fail with probability delta, here {chance(delta)}."
    return promise, example

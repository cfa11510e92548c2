"""The privacy cost of a release, explained for a reader who does not know differential privacy."""

import math
import re

from privsample.accounting.base import Accountant
from privsample.accounting.statement import rounded_up as _up
from privsample.accounting.statement import shown_epsilon

_EVEN = "50\N{NO-BREAK SPACE}:\N{NO-BREAK SPACE}50"  # no line break inside


def rounded_up(x: float, digits: int = 4) -> str:
    """Format a nonnegative number with this many significant digits, rounded up."""
    if x == 0.0 or not math.isfinite(x):
        return "0" if x == 0.0 else "infinite"
    return f"{_up(x, digits):.{digits}g}"


def price(account: Accountant, delta: float) -> str:
    """Format epsilon at this delta, rounded as in the privacy statement."""
    return rounded_up(shown_epsilon(account, delta))


def small(x: float) -> str:
    """Format a small number without padding: 1e-6."""
    return re.sub(r"e-0+", "e-", f"{x:g}")


def chance(delta: float) -> str:
    """Format a small probability with its reciprocal, rounded down: 1e-6, one in 1,000,000."""
    return f"{small(delta)}, one in {math.floor(1 / delta * (1 + 1e-12)):,}" if 0.0 < delta <= 0.1 else small(delta)


def cost(account: Accountant, delta: float) -> tuple[str, ...]:
    """Explain epsilon by what an observer learns about one record.

    At delta = 0 the odds of every hypothesis change by at most e^epsilon. At delta > 0 a test between two versions of
    the record, equally likely before, is right with probability at most (e^epsilon + delta)/(1 + e^epsilon).
    """
    epsilon, unit = float(account.epsilon(delta)), str(getattr(account.relation, "unit", "record"))
    if math.isinf(epsilon):
        return (f"At delta = {chance(delta)}, epsilon is infinite: there is no guarantee.",)
    if epsilon > 30:
        return (f"Epsilon is {price(account, delta)}. A value this large gives almost no protection.",)
    shown = shown_epsilon(account, delta)
    odds, right = math.exp(shown), 100 * (1 - (1 - delta) / (1 + math.exp(shown)))
    if delta > 0:  # the odds can change by more with a probability above delta, so no factor is stated
        guess = (
            f"An observer who considers two versions of a {unit} equally likely ({_EVEN}) and guesses one after seeing "
            f"the release is right with a probability of at most {rounded_up(right, 3)} %."
        )
        return f"Epsilon is {rounded_up(shown)} at delta = {chance(delta)}.", guess
    promise = (
        f"Epsilon is {rounded_up(shown)}. This release can change the odds of any hypothesis about one {unit} by a "
        f"factor of at most {rounded_up(odds, 3)} (e to the power epsilon)."
    )
    example = (
        f"An observer who considers two versions of a {unit} equally likely ({_EVEN}) can be at most "
        f"{rounded_up(right, 3)} % sure of one of them after seeing the release."
    )
    return promise, example

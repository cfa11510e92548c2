"""The privacy cost of a release, explained for a reader who does not know differential privacy."""

import math
import re

from privsample.accounting.base import Accountant
from privsample.accounting.statement import rounded_up as _up
from privsample.accounting.statement import shown_epsilon
from privsample.relations import AddRemove, ProfileEdge

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
    """Explain epsilon by what an observer can conclude about one record; docs/notes/odds.md, steps 2 and 3."""
    epsilon, unit = float(account.epsilon(delta)), str(getattr(account.relation, "unit", "record"))
    if math.isinf(epsilon):
        return (f"At delta = {chance(delta)}, epsilon is infinite: there is no guarantee.",)
    if epsilon > 30:
        return (f"Epsilon is {price(account, delta)}. A value this large gives almost no protection.",)
    stated = f"Epsilon is {price(account, delta)}."
    if delta == 0:
        shown = shown_epsilon(account, delta)
        factor, sure, rarely = math.exp(shown), 1 / (1 + math.exp(-shown)), ""
    else:
        # The probability of a loss above epsilon may exceed delta, so e^epsilon is not the bound at this probability.
        factor = float(account.posterior_odds(tail_probability=delta))
        sure = float(account.posterior_probability(0.5, tail_probability=delta))
        rarely = f" The bounds on the odds can fail with probability at most delta, here {chance(delta)}."
    if math.isinf(factor):
        return (f"{stated} With probability delta, here {chance(delta)}, the release may reveal a {unit}.",)
    subject, alternatives = f"any hypothesis about one {unit}", f"two versions of a {unit}"
    if isinstance(account.relation, AddRemove):  # two versions of a present record are two changes apart
        subject, alternatives = f"the presence of one {unit}", f"the presence and the absence of a {unit}"
    elif isinstance(account.relation, ProfileEdge):
        subject, alternatives = "two profiles that an edge joins", "two such profiles"
    promise = (
        f"{stated} This release can change the odds of {subject} by a factor of at most "
        f"{rounded_up(factor, 3)}{' (e to the power epsilon)' if delta == 0 else ''}."
    )
    example = (
        f"An observer who considers {alternatives} equally likely ({_EVEN}) can be at most "
        f"{rounded_up(100 * sure, 3)} % sure of one of them after seeing the release.{rarely}"
    )
    return promise, example

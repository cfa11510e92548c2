"""What a guarantee means, in words that can be published beside a release."""

import numpy as np

from privsample._checks import probability
from privsample.accounting.base import Accountant
from privsample.accounting.display import rounded_up, shown_epsilon

__all__ = ["privacy_statement", "rounded_up", "shown_delta", "shown_epsilon"]


def privacy_statement(account: Accountant, delta: float = 1e-6) -> str:
    """The account at this delta in plain words: whom it protects, from what, and what it takes for granted."""
    if not isinstance(account, Accountant):
        raise TypeError(f"account must be an accountant (mechanism.accountant), got {type(account).__name__}")
    delta = probability(delta=delta)
    if np.isinf(account.epsilon(delta)):
        promise = f"At delta = {shown_delta(delta)} nothing is promised."
    else:
        shown = shown_epsilon(account, delta)
        factor = f"{rounded_up(np.exp(shown), 3):g}" if shown < 50 else "e to the power epsilon"
        more = f", plus at most {shown_delta(delta)} (delta)" if delta else ""
        promise = (
            f"Whatever was released here: when {account.relation.change}, the probability of any conclusion drawn from "
            f"it grows by a factor of at most {factor} (epsilon = {shown:.4g}){more}."
        )
    limits = "; ".join(sorted(assumption.value for assumption in account.assumptions)) or "nothing"
    return (
        f"{promise} Two datasets count as neighbours when {account.relation.words}. "
        f"Taken for granted: {limits}. Source of the bound: {account.source}."
    )


def shown_delta(delta: float) -> str:
    """A failure probability with three digits, rounded up."""
    return f"{rounded_up(delta, 3):g}".replace("e-0", "e-") if delta else "0"

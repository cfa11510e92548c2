"""The guarantee of one fit: a target, or epsilon and delta."""

from typing import Any

from privsample.accounting.targets import DP, Target, check_target

DEFAULT_EPSILON, DEFAULT_DELTA = 1.0, 1e-6


def fit_target(epsilon: float | None, delta: float | None, target: Any) -> Target:
    """Return the target, or DP(epsilon, delta) with 1.0 and 1e-6 in place of None. Raises TypeError or ValueError."""
    if target is None:
        return DP(
            epsilon=DEFAULT_EPSILON if epsilon is None else epsilon, delta=DEFAULT_DELTA if delta is None else delta
        )
    if epsilon is not None or delta is not None:
        given = " and ".join(
            f"{name}={number!r}" for name, number in (("epsilon", epsilon), ("delta", delta)) if number is not None
        )
        raise ValueError(
            f"target must be given without epsilon and delta, got target={target!r} and {given}: leave one of them out"
        )
    return check_target(target)


def stated_delta(target: Target) -> float:
    """Return the delta at which statements about a fit report epsilon: that of a DP target, otherwise 1e-6."""
    return target.delta if isinstance(target, DP) else DEFAULT_DELTA

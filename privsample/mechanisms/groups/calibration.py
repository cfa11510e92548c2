"""Calibration of releases for groups: the free parameter of the base is chosen for the account of all groups."""

from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any

from privsample.mechanisms.base import Mechanism
from privsample.mechanisms.calibration import FreeParameter

_ADVICE = "ask for a weaker guarantee, or lower the contribution bounds"


def _with_amount(amount: float, given: Mapping[str, Any]) -> Any:
    """The base whose cost decreases with the amount, which replaces its own first free parameter."""
    base = given["base"]
    if not isinstance(base, Mechanism):
        return base  # the class raises the error
    if not base.free_parameters or not is_dataclass(base) or base.free_parameters[0].direction == "fewest":
        raise TypeError(
            f"base must have a noise scale or a weight that calibrate can choose, got {type(base).__name__}: choose "
            "its parameters by hand, and compare mechanism.accountant with the target"
        )
    free = base.free_parameters[0]
    known = dict(free.options) | {item.name: getattr(base, item.name) for item in fields(base) if item.init}
    if free.direction == "largest":
        most = free.upper if free.allowed is None else min(free.upper, free.allowed(known))
        amount = min(1.0 / amount, most)
    return replace(base, **{free.decides: free.value(amount, known)})


NOISE_OF_BASE = FreeParameter(
    name="noise", direction="smallest", decides="base", from_field=True, value=_with_amount, advice=_ADVICE
)

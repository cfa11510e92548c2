"""The number of draws that a mechanism makes."""

from dataclasses import replace

from privsample.mechanisms.base import Mechanism


def one_draw(mechanism: Mechanism) -> Mechanism:
    """The same mechanism with a single draw."""
    return replace(mechanism, draws=1) if getattr(mechanism, "draws", 1) != 1 else mechanism  # type: ignore[type-var]

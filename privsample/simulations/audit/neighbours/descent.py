"""Gradient descent: rows of zeros, and the longest row with either extreme target."""

import numpy as np

from privsample._checks import FloatArray
from privsample.distributions.steps.losses import SquaredLoss
from privsample.mechanisms.sgd import NoisyProjectedSGD
from privsample.simulations.audit.base import Dataset, Neighbours, neighbours
from privsample.simulations.audit.draws import released
from privsample.simulations.audit.pairs import sized


@neighbours.register
def _(mechanism: NoisyProjectedSGD, group: int = 1) -> tuple[Neighbours, ...]:
    """The last records, and the first, unless their order is hidden."""
    loss, places = mechanism.loss, {"": False} if mechanism.hidden_order else {", the last": True, ", the first": False}
    ends = (loss.target, -loss.target) if isinstance(loss, SquaredLoss) else (1.0, 0.0)
    among = f"{group:,} of {mechanism.n:,}: a row of norm {loss.norm:g} and target"
    return tuple(
        Neighbours(
            account=mechanism.accountant,
            words=(f"{among} {ends[0]:g}{place}", f"{among} {ends[1]:g}{place}"),
            datasets=(_dataset(mechanism, group, ends[0], last=last), _dataset(mechanism, group, ends[1], last=last)),
            draw=released(mechanism),
            width=loss.width,
        )
        for place, last in places.items()
    )


def _dataset(mechanism: NoisyProjectedSGD, group: int, target: float, *, last: bool) -> Dataset:
    """The group is as long as may be in the first coordinate."""
    n, loss = mechanism.n, mechanism.loss
    changed = slice(sized(n, group), n) if last else slice(0, group)

    def build() -> tuple[FloatArray, FloatArray]:
        rows, targets = np.zeros((n, loss.features)), np.zeros(n)
        rows[changed, 0], targets[changed] = loss.norm, target
        return rows, targets

    return build

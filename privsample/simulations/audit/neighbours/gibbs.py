"""Hidden Markov chains and gradient descent: small datasets that differ in one extreme row."""

import numpy as np

from privsample._checks import FloatArray
from privsample.distributions.steps.losses import SquaredLoss
from privsample.mechanisms.posterior.gibbs import PrivateGibbsHMM
from privsample.mechanisms.sgd import NoisyProjectedSGD
from privsample.simulations.audit.draws import released
from privsample.simulations.audit.neighbours.base import Dataset, Neighbours, neighbours, sized


@neighbours.register
def _(mechanism: NoisyProjectedSGD, group: int = 1) -> tuple[Neighbours, ...]:
    """The longest row with either extreme target; the last record, and the first, unless their order is hidden."""
    loss = mechanism.loss
    ends = (loss.target, -loss.target) if isinstance(loss, SquaredLoss) else (1.0, 0.0)
    what = f"a row of norm {loss.norm:g} and target {ends[0]:g}", f"target {ends[1]:g}"
    places = {"": False} if mechanism.hidden_order else {", the last": True, ", the first": False}
    return tuple(
        Neighbours(
            account=mechanism.accountant,
            words=_words(mechanism.n, group, what[0] + place, what[1] + place),
            datasets=_rows(mechanism.n, loss.features, loss.norm, group, ends, last=last),
            draw=released(mechanism),
            width=loss.width + 1,
        )
        for place, last in places.items()
    )


def _rows(
    n: int, features: int, norm: float, group: int, targets: tuple[float, float], *, last: bool = False
) -> tuple[Dataset, Dataset]:
    """Rows of zeros, and `group` at one end that are `norm` long in the first coordinate, with either target."""
    sized(n, group)

    def dataset(target: float) -> Dataset:
        def build() -> tuple[FloatArray, FloatArray]:
            rows, column = np.zeros((n, features)), np.zeros(n)
            changed = slice(n - group, n) if last else slice(0, group)
            rows[changed, 0], column[changed] = norm, target
            return rows, column

        return build

    return dataset(targets[0]), dataset(targets[1])


@neighbours.register
def _(mechanism: PrivateGibbsHMM, group: int = 1) -> tuple[Neighbours, ...]:
    """Records of zeros only, and the first of them replaced by one of the last categories."""
    sized(mechanism.n, group)
    cells = mechanism.states * (sum(mechanism.categories) + mechanism.states) + len(mechanism.entries)

    def dataset(changed: int) -> Dataset:
        def build() -> FloatArray:
            rows = np.zeros((mechanism.n, len(mechanism.categories)))
            rows[:changed] = np.array(mechanism.categories) - 1.0
            return rows

        return build

    return (
        Neighbours(
            account=mechanism.accountant,
            words=_words(mechanism.n, group, "records of zeros", "of the last categories"),
            datasets=(dataset(0), dataset(group)),
            draw=released(mechanism),
            width=mechanism.kept * cells + 1,
        ),
    )


def _words(n: int, group: int, first: str, second: str) -> tuple[str, str]:
    among = f"{group:,} of {n:,}: "
    return among + first, among + second

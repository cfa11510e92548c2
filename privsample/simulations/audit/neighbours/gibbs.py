"""Hidden Markov chains: a record of the last categories among records of the first."""

import numpy as np

from privsample._checks import FloatArray
from privsample.mechanisms.posterior.gibbs import PrivateGibbsHMM
from privsample.simulations.audit.base import Dataset, Neighbours, neighbours
from privsample.simulations.audit.draws import released
from privsample.simulations.audit.pairs import sized


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

    among = f"{group:,} of {mechanism.n:,} records"
    return (
        Neighbours(
            account=mechanism.accountant,
            words=(f"{among} of zeros", f"{among} of the last categories"),
            datasets=(dataset(0), dataset(group)),
            draw=released(mechanism),
            width=mechanism.kept * cells + 1,
        ),
    )

"""Simulation-based calibration of every likelihood and of `infer`: ranks of true parameters, which must be uniform.

Cook, Gelman and Rubin 2006; Talts et al. 2018; docs/notes/calibration.md. Parameters come from the prior, records from
the parameters, releases from the records. Each cell of the figure is one test.
"""

from collections.abc import Iterator
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from privsample.simulations.report.findings import Columns, Statement, compared, join_names
from privsample.simulations.report.results import Result, stacked
from reproduction.base import Experiment
from reproduction.calibration_figure import plot
from reproduction.calibration_models import MODELS, UNCLIPPED, CalibratedModel, simulate
from reproduction.calibration_outcomes import (
    AWARE,
    CONTROLS,
    INFER,
    LEVEL,
    NARROW,
    PLUG_IN,
    PYMC,
    TESTED,
    UNBOUNDED,
    outcomes,
)
from reproduction.calibration_ranks import (
    Ranks,
    infer_ranks,
    likelihood_ranks,
    noise_aware_ranks,
    plug_in_ranks,
    worst_column,
)
from reproduction.calibration_uniformity import POINTS

SIMULATIONS = 1000
SIZES, EPSILONS = (10, 100, 10_000), (0.2, 1.0, 5.0)
SETTINGS = (  # n, epsilon, and share of clipped records
    (10, 1.0, 0.05),
    (10, 5.0, 0.25),
    (100, 0.2, 0.05),
    (100, 1.0, 0.25),
    (10_000, 0.2, 0.25),
    (10_000, 5.0, 0.0),
)
CHOSEN = {  # n and epsilon of slow methods, and of controls that need further compilations
    INFER: ((100, 1.0),),
    UNBOUNDED: ((100, 1.0), (10_000, 0.2)),
    NARROW: ((100, 0.2), (100, 1.0)),
}


class Cell(NamedTuple):
    """One setting of one model under one method of inference."""

    method: str
    case: CalibratedModel
    n: int
    epsilon: float
    clipped: float

    def ranks(self) -> Ranks:
        """The function that ranks true parameters under this method."""
        if self.method == UNBOUNDED:  # the likelihood of the same records with bounds that clip none
            return partial(likelihood_ranks, assumed=self.case.model(UNCLIPPED))
        ranks: dict[str, Ranks] = {
            PYMC: likelihood_ranks,
            AWARE: noise_aware_ranks,
            INFER: infer_ranks,
            PLUG_IN: plug_in_ranks,
            NARROW: partial(likelihood_ranks, noise_factor=0.8),
        }
        return ranks[self.method]

    def run(self, simulations: int, seed: int) -> dict[str, Any]:
        """Simulate, rank and count; every method sees the same simulations of a setting."""
        place = (MODELS.index(self.case), self.n, round(1000 * self.epsilon), round(1000 * self.clipped))
        mechanism = self.case.mechanism(self.clipped, self.n, self.epsilon)
        simulated = simulate(self.case, mechanism, simulations, np.random.default_rng((seed, *place)))
        own = np.random.default_rng((seed, *place, 1 + (*TESTED, *CONTROLS).index(self.method)))
        counts, columns = worst_column(
            self.case, self.ranks()(self.case, mechanism, simulated, own), simulated.released
        )
        return {
            "method": self.method,
            "model": self.case.name,
            "records": self.n,
            "epsilon": self.epsilon,
            "clipped": self.clipped,
            "columns": columns,
            "place": np.arange(POINTS + 1) / POINTS,
            "count": counts.astype(int),
        }


def cells(method: str, *, whole: bool = False) -> Iterator[Cell]:
    """The settings of a method: those of SETTINGS or, if `whole`, all sizes, epsilons and shares of clipped records."""
    for case in MODELS:
        every = [(n, epsilon, clipped) for n in SIZES for epsilon in EPSILONS for clipped in case.shares()]
        for n, epsilon, clipped in every if whole else SETTINGS:
            cell = Cell(method, case, n, epsilon, clipped if case.bounded else UNCLIPPED)
            slow = (n, epsilon) not in CHOSEN.get(method, ((n, epsilon),)) or (method == AWARE and case.bounded)
            if is_defined(cell) and (whole or not slow):
                yield cell


def is_defined(cell: Cell) -> bool:
    """Whether the method exists for the model, and differs from that of another cell."""
    if cell.method == UNBOUNDED:
        return cell.clipped > UNCLIPPED and cell.case.width == 1  # moments are scaled by the bounds
    if cell.method == AWARE:
        return cell.case.width == 1 and not cell.case.total
    return not (cell.case.total and cell.method in {INFER, PLUG_IN})


def run(seed: int = 7) -> Result:
    """Simulate all cells."""
    parts = [cell.run(SIMULATIONS, seed) for method in (*TESTED, *CONTROLS) for cell in cells(method)]
    columns = stacked(parts)
    return Result(columns=columns, describe=_describe, plot=lambda figure: plot(figure, outcomes(columns)))


def _describe(columns: Columns) -> Statement:
    found = outcomes(columns)
    simulations = int(max(cell.counts[-1] for cell in found))
    words, findings = [], []
    for method in (*TESTED, *CONTROLS):
        own = [cell for cell in found if cell.method == method]
        if not own:
            continue
        rejected = sum(cell.rejected for cell in own)
        words.append(f"{method}, {rejected} of {len(own)}")
        if method in TESTED:
            findings += [compared(f"{method}, rejected - 0.5", rejected - 0.5)]
        else:  # a cell near the level may be rejected with one seed and not with another
            findings += [compared(f"{method}, rejected", rejected, 1.0 + rejected**0.5)]
    failed = [cell for cell in found if cell.method in TESTED and cell.rejected]
    which = (
        f" Rejected: {'; '.join(f'{cell.description} (p = {cell.p_value:.1g})' for cell in failed)}." if failed else ""
    )
    least = min((cell for cell in found if cell.method in TESTED and not cell.rejected), key=lambda cell: cell.p_value)
    return Statement(
        f"{simulations:,} simulations in each cell: parameters from the prior, records from the parameters, clipped to "
        "public bounds, and released with noise: discrete Laplace noise for binary records, two categories and Poisson "
        "counts, Laplace noise for times, (discrete) Gaussian noise for the other models. If a posterior is "
        "calibrated, the ranks of the true parameters are uniform, also given the release. An exact test of their "
        f"empirical distribution function at the level {LEVEL:g} for each cell rejects: {'; '.join(words)}."
        f"{which} The smallest p-value of the {join_names(TESTED)} cells that are not rejected is {least.p_value:.2g}. "
        f"{join_names(CONTROLS)} are controls, wrong on purpose: they ignore noise and clipping, the clipping alone, "
        f"or a fifth of the noise. They pass where {simulations:,} simulations cannot show it.",
        tuple(findings),
    )


EXPERIMENT = Experiment(
    name="calibration",
    title="Calibration by simulation of every likelihood and of infer",
    run=run,
    size=(11.0, 9.0),
    second=lambda: run(seed=107),
)

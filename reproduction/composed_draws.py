"""Privacy cost of k draws of one diffused posterior: from the composed privacy loss, and from the Rényi curve."""

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np

from privsample.accounting.posterior.conjugate import PosteriorAccountant
from privsample.distributions.models.beta_bernoulli import BetaBernoulli
from privsample.plots.style import BLUE, ORANGE
from privsample.simulations.report.findings import Columns, Finding, Statement, compared
from privsample.simulations.report.results import Result
from reproduction.base import Experiment

DELTA = 1e-6
DRAWS = np.unique(np.round(np.geomspace(1, 1000, 13)).astype(int)).tolist()


def costs(draws: int) -> tuple[float, float]:
    """Return epsilon at DELTA of this number of draws, from the composed privacy loss and from the Rényi curve.

    Beta(6, 12) prior, n = 569, data weight 0.1.
    """
    account = PosteriorAccountant(model=BetaBernoulli(alpha=6, beta=12), n=569, data_weight=0.1, draws=draws)
    routes = {route.name: route.epsilon for route in account.explain(DELTA)}
    return float(account.epsilon(DELTA)), float(routes["Rényi curve at its best order"])


def run(points: Sequence[int] | None = None) -> Result:
    """Compute both at these numbers of draws, and at those between them with the smallest and largest saving."""
    known = cache(costs)

    def saving(draws: int) -> float:
        composed, renyi = known(draws)
        return 1 - composed / renyi

    grid = [int(k) for k in (DRAWS if points is None else points)]
    shown = sorted({*grid, _best(saving, grid), _best(lambda k: -saving(k), grid)})
    composed, renyi = np.transpose([known(k) for k in shown])
    columns = {
        "draws": shown,
        "composed_loss": composed.tolist(),
        "renyi_curve": renyi.tolist(),
        "saving": (1 - composed / renyi).tolist(),
    }
    return Result(columns=columns, describe=_describe, plot=lambda figure: _plot(figure, columns))


def _best(function: Callable[[int], float], grid: Sequence[int]) -> int:
    """The integer that maximizes a function, by ternary search around the best integer of an increasing grid."""
    found = max(range(len(grid)), key=lambda k: function(grid[k]))
    low, high = grid[max(found - 1, 0)], grid[min(found + 1, len(grid) - 1)]
    while high - low > 2:
        third = max((high - low) // 3, 1)
        if function(low + third) < function(high - third):
            low += third
        else:
            high -= third
    return max([grid[found], *range(low, high + 1)], key=function)


def _describe(columns: Columns) -> Statement:
    draws, saving = np.asarray(columns["draws"]), np.asarray(columns["saving"], dtype=float)
    least, most = int(draws[saving.argmin()]), int(draws[saving.argmax()])
    return Statement(
        f"k draws of one diffused Beta-Bernoulli posterior at δ = {DELTA:g}. The ε from the composed privacy loss "
        f"distribution is smaller than the ε from the Rényi curve at its best order, by {saving.min():.1%} (k = "
        f"{least}) to {saving.max():.1%} (k = {most}) for k = {draws[0]:g} to {draws[-1]:g} draws.",
        (
            Finding("least saving", float(saving.min())),
            Finding("largest saving", float(saving.max())),
            compared("least saving above zero", float(saving.min())),
        ),
    )


def _plot(figure: Any, columns: Columns) -> None:
    draws, saving = columns["draws"], 100 * np.asarray(columns["saving"])
    above, below = figure.subplots(2, 1, sharex=True, height_ratios=(2, 1))
    above.loglog(draws, columns["renyi_curve"], color=ORANGE, linestyle="--", label="Rényi curve, best order")
    above.loglog(draws, columns["composed_loss"], color=BLUE, label="composed privacy loss")
    above.set_yticks([0.2, 0.5, 1, 2, 5], ["0.2", "0.5", "1", "2", "5"])
    above.minorticks_off()
    above.set(ylabel="ε at δ = 10⁻⁶ (nats)", title="Beta(6, 12) prior, n = 569, data weight 0.1")
    above.legend()
    below.plot(draws, saving, color=BLUE)
    below.set_xticks([1, 10, 100, 1000], ["1", "10", "100", "1000"])
    below.minorticks_off()
    below.set(xlabel="number of draws k", ylabel="saving in ε, %", ylim=(0, 1.15 * saving.max()))


EXPERIMENT = Experiment(
    name="composed-draws",
    title="Draws of one diffused posterior: composed loss against Rényi curve",
    seconds=2.1,
    run=run,
    second=lambda: run([1, 3, 10, 31, 100, 316, 1000]),
)

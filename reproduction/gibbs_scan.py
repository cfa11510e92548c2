"""What a random scan of Gibbs updates costs, beside the constant of thesis section 4.4.1 and the true largest loss."""

from typing import Any

import numpy as np

from privsample.accounting.posterior.random_scan import RandomScanAccountant
from privsample.accounting.stated.tables import PairAccountant
from privsample.plots.style import BLUE, GREY, ORANGE
from privsample.simulations.report.findings import Columns, Statement, compared
from privsample.simulations.report.results import Result
from reproduction.base import Experiment
from reproduction.tables import Table

VARIABLES, EPSILON, DELTA, SCANS = 100, 0.5, 1e-6, 20  # EPSILON of one update: 2 Delta in the thesis
_UPDATE = np.array([1.0 / (1.0 + np.exp(-EPSILON)), 1.0 / (1.0 + np.exp(EPSILON))])
_FIRST, _SECOND = (1, 2, 5, 10, 20, 50, 75, 100), (1, 3, 7, 10, 30, 50, 60, 100)


def _run(grid: tuple[int, ...] = _FIRST) -> Result:
    update = PairAccountant(p=_UPDATE, q=_UPDATE[::-1])
    names = ("updated", "share", "thesis", "largest_loss", "one", "many")
    columns: dict[str, list[float]] = {name: [] for name in names}
    for updated in grid:
        scan = RandomScanAccountant(base=update, updated=updated, variables=VARIABLES)
        columns["updated"].append(updated)
        columns["share"].append(updated / VARIABLES)
        columns["thesis"].append(2 * EPSILON * updated / VARIABLES)
        columns["largest_loss"].append(_largest_loss(updated))
        columns["one"].append(float(scan.epsilon(DELTA)))
        columns["many"].append(float((SCANS * scan).epsilon(DELTA)))
    return Result(columns=columns, describe=_describe, plot=lambda figure: _plot(figure, columns))


def _largest_loss(updated: int) -> float:
    """The largest privacy loss of a scan of binary variables, whose previous states are public and whose J is hidden.

    The state of the variable changes with probability q p given one record and q (1 - p) given the other.
    """
    share = updated / VARIABLES
    first, second = (share * chance for chance in _UPDATE)
    return float(max(abs(np.log(first / second)), abs(np.log1p(-first) - np.log1p(-second))))


def _plot(figure: Any, columns: Columns) -> None:
    axes, right = figure.subplots(1, 2)
    share = columns["share"]
    axes.plot(share, columns["largest_loss"], "-", color=GREY, linewidth=3, label="largest loss of a scan")
    axes.plot(share, columns["thesis"], "--", color=ORANGE, label="4ΔQ/N, as stated in the thesis")
    axes.plot(share, columns["one"], "o-", color=BLUE, markersize=4, label=f"account of one scan, δ = {DELTA:g}")
    axes.set(xscale="log", xlabel="share Q/N of the variables that a scan updates", ylabel="ε (nats)", ylim=(0, None))
    axes.legend(loc="upper left", fontsize=8)
    right.plot(share, columns["many"], "o-", color=BLUE, markersize=4)
    right.axhline(SCANS * EPSILON, color=GREY, linewidth=1)
    right.set(xscale="log", xlabel="share Q/N", ylabel=f"ε of {SCANS} scans at δ = {DELTA:g} (nats)", ylim=(0, None))
    right.set_title(f"grey: {SCANS} times ε of one update", fontsize=9)


def _describe(columns: Columns) -> Statement:
    table = Table(columns=columns)
    tenth = {name: table.at("updated", 10, name) for name in ("thesis", "largest_loss", "one", "many")}
    whole = table.at("updated", VARIABLES, "many")
    below = compared("largest loss - thesis at a tenth", tenth["largest_loss"] - tenth["thesis"])
    saved = compared("scans of all - scans of a tenth", whole - tenth["many"])
    return Statement(
        f"A random scan updates Q of N = {VARIABLES} binary variables by exponential mechanisms with ε = 2Δ = "
        f"{EPSILON:g}. At Q/N = 0.1 the thesis states ε = {tenth['thesis']:.3f}; the largest loss is "
        f"{tenth['largest_loss']:.3f}, "
        + ("above it" if below.compared else "not above it")
        + f", because the release shows which variables moved. At δ = {DELTA:g} the account states {tenth['one']:.3f} "
        f"for one scan, and {tenth['many']:.2f} for {SCANS} scans, against {whole:.2f} if every scan updates all "
        "variables.",
        tuple(each for each in (below, saved) if each.compared),
    )


SCAN = Experiment(
    name="geumlek-4.4-scan",
    title="Thesis section 4.4.1: what a random scan costs",
    seconds=0.51,
    run=_run,
    size=(8.2, 3.6),
    second=lambda: _run(_SECOND),
)

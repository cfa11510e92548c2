"""Privacy cost of runs until one is accepted: a random stop before a run, after a run, or a stated probability."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from privsample.accounting.noise.additive import GaussianAccountant
from privsample.accounting.selection.conditional import ConditionalAccountant
from privsample.plots.style import BLUE, ORANGE
from privsample.simulations.report.findings import Columns, Finding, Statement, compared
from privsample.simulations.report.results import Result
from reproduction.base import Experiment

DELTA, MU = 1e-6, 0.25
PROBABILITIES = np.geomspace(0.001, 0.95, 16).tolist()


def run(probabilities: Sequence[float] | None = None) -> Result:
    """Compute epsilon at DELTA of the three ways for Gaussian runs, at these stop probabilities."""
    grid = [float(p) for p in (PROBABILITIES if probabilities is None else probabilities)]
    base = GaussianAccountant(sensitivity=MU, noise_std=1.0)

    def cost(probability: float, **fields: Any) -> float:
        account = ConditionalAccountant(base=base, event_probability=probability, **fields)
        return float(account.epsilon(DELTA))

    columns = {
        "stop_probability": grid,
        "before": [cost(p, geometric_stopping=True) for p in grid],
        "after": [cost(p, geometric_stopping=True, stop="after") for p in grid],
        "stated": [cost(p) for p in grid],
        "one_run": [float(base.epsilon(DELTA))] * len(grid),
    }
    return Result(columns=columns, describe=_describe, plot=lambda figure: _plot(figure, columns))


def _describe(columns: Columns) -> Statement:
    p, before, after, stated, one = (np.asarray(column, dtype=float) for column in columns.values())
    more, saved = after / before - 1, 1 - after / stated
    dearer = compared("a stated probability costs more than a stop after runs", float(saved.min()))
    higher = " more:" if dearer.compared else ""
    return Statement(
        f"Gaussian runs (μ = {MU:g}) until one is accepted, at δ = {DELTA:g}. One run costs ε = {one[0]:.2f}. With "
        f"probabilities γ from {p[0]:g} to {p[-1]:g}, a random stop before each run costs ε = {before.max():.2f} to "
        f"{before.min():.2f}. A stop after each run that is not accepted costs {more.min():.2%} to {more.max():.1%} "
        f"more, the most at γ = {p[more.argmax()]:.3g}. Runs without a stop, for which acceptance must have at least "
        f"the probability γ on every dataset, cost{higher} ε = {stated[0]:.2f} at γ = {p[0]:g} and {stated[-1]:.2f} at "
        f"γ = {p[-1]:g}.",
        (
            Finding("most that a stop after runs costs more", float(more.max())),
            Finding("least cost of a stop before runs", float(before.min())),
            compared("a stop after runs costs no less than one before", float(more.min()) + 1e-12),
            dearer,
        ),
    )


def _plot(figure: Any, columns: Columns) -> None:
    axes = figure.subplots()
    p = columns["stop_probability"]
    axes.semilogx(p, columns["stated"], color="0.5", linestyle=":", label="stated probability of acceptance")
    axes.semilogx(p, columns["after"], color=ORANGE, linestyle="--", label="stop after a run")
    axes.semilogx(p, columns["before"], color=BLUE, label="stop before a run")
    axes.axhline(columns["one_run"][0], color="0.7", linewidth=0.8)
    axes.annotate("one run", (p[0], columns["one_run"][0]), xytext=(0, 3), textcoords="offset points", color="0.4")
    axes.set(
        xlabel="probability γ", ylabel="ε at δ = 10⁻⁶ (nats)", title="Gaussian runs until one is accepted, μ = 0.25"
    )
    axes.set_ylim(bottom=0)
    axes.legend()


EXPERIMENT = Experiment(
    name="papernot-stopping",
    title="Runs until one is accepted: a stop before a run, after a run, or a stated probability",
    seconds=0.59,
    run=run,
    second=lambda: run([0.001, 0.02, 0.2, 0.6, 0.95]),
)

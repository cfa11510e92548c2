"""What a Langevin chain costs against its number of steps, beside an exact draw and the release of all states."""

from dataclasses import replace
from typing import Any

import numpy as np

from privsample.accounting.noise.additive import GaussianAccountant
from privsample.distributions.likelihoods.logistic import LogisticLikelihood
from privsample.mechanisms.posterior.glm import LogisticPosterior
from privsample.mechanisms.posterior.langevin import LangevinPosterior
from privsample.plots.style import BLUE, GREY, ORANGE
from privsample.relations import ReplaceOne
from privsample.simulations.report.findings import Columns, Statement, compared
from privsample.simulations.report.results import Result
from reproduction.base import Experiment
from reproduction.tables import Table

RECORDS, FEATURES, WEIGHT, DELTA = 10_000, 20, 0.12, 1e-6
_FIRST = (1, 3, 10, 30, 100, 300, 1000, 3000, 10_000, 100_000)
_SECOND = (1, 5, 20, 50, 200, 500, 1000, 5000, 100_000)


def _run(grid: tuple[int, ...] = _FIRST) -> Result:
    exact = LogisticPosterior(
        n=RECORDS, features=FEATURES, norm=1.0, prior_std=1.0, data_weight=WEIGHT, sampler="nuts"
    ).accountant
    chain = LangevinPosterior(
        likelihood=LogisticLikelihood(),
        features=FEATURES,
        norm=1.0,
        relation=ReplaceOne(RECORDS),
        data_weight=WEIGHT,
    )
    step_size = chain.bias.step_size
    columns: dict[str, list[float]] = {name: [] for name in ("steps", "account", "exact_draw", "all_states", "start")}
    for steps in grid:
        own = replace(chain, steps=steps, step_size=step_size)
        all_states = GaussianAccountant(
            sensitivity=own.accountant.gradient_sensitivity * float(np.sqrt(step_size * steps / 2.0)), noise_std=1.0
        )
        columns["steps"].append(steps)
        columns["account"].append(float(own.accountant.epsilon(DELTA)))
        columns["exact_draw"].append(float(exact.epsilon(DELTA)))
        columns["all_states"].append(float(all_states.epsilon(DELTA)))
        columns["start"].append(own.bias.largest_start)
    return Result(columns=columns, describe=_describe, plot=lambda figure: _plot(figure, columns))


def _describe(columns: Columns) -> Statement:
    table = Table(columns=columns)
    last = {name: table.at("steps", 100_000, name) for name in ("account", "exact_draw", "all_states")}
    below = compared("exact draw - chain of 100,000 steps", last["exact_draw"] - last["account"])
    saved = compared(
        "all states - last state after 1,000 steps",
        table.at("steps", 1000, "all_states") - table.at("steps", 1000, "account"),
    )
    return Statement(
        f"Privacy cost at δ = {DELTA:g} of the last state of a Langevin chain: logistic regression, n = {RECORDS:,}, "
        f"{FEATURES} features, data weight {WEIGHT:g}. After 100,000 steps it is ε = {last['account']:.4f}, "
        + ("below" if below.compared else "not below")
        + f" the {last['exact_draw']:.4f} of an exact draw from the posterior; the release of all states would cost "
        f"{last['all_states']:.1f}. After 1,000 steps it is {table.at('steps', 1000, 'account'):.3f}.",
        tuple(each for each in (below, saved) if each.compared),
    )


def _plot(figure: Any, columns: Columns) -> None:
    axes, right = figure.subplots(1, 2)
    steps = columns["steps"]
    axes.plot(steps, columns["all_states"], "--", color=ORANGE, label="all states")
    axes.plot(steps, columns["exact_draw"], "-", color=GREY, linewidth=3, label="exact draw from the posterior")
    axes.plot(steps, columns["account"], "o-", color=BLUE, markersize=4, label="last state of a chain")
    axes.set(xscale="log", xlabel="steps T", ylabel=f"ε at δ = {DELTA:g} (nats)")
    axes.set_ylim(0.0, 2.5 * max(columns["exact_draw"]))
    axes.legend(fontsize=8)
    right.plot(steps, columns["start"], "o-", color=BLUE, markersize=4)
    right.set(xscale="log", xlabel="steps T", ylabel="largest influence of the start", ylim=(0, None))


STEPS = Experiment(
    name="langevin-steps",
    title="Langevin chains: privacy cost against the number of steps",
    seconds=1.5,
    run=_run,
    size=(8.2, 3.6),
    second=lambda: _run(_SECOND),
)

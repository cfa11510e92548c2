"""Thesis Figures 5.5 to 5.8: log loss of a released draw on new records, against ε.

Source: Geumlek 2020, sections 5.4.1 and 5.6: n records and n new ones, mean and standard deviation of the new ones'
negative log likelihood. The thesis runs 10,000 repeats; here both are exact, as if over infinitely many.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from privsample._checks import FloatArray
from privsample._value import frozen_value
from privsample.simulations.report.findings import Columns, Finding, Statement, compared, join_names
from privsample.simulations.report.results import Result, stacked
from reproduction import posterior_distributions as distributions
from reproduction.base import Experiment
from reproduction.posterior_distributions import Setting
from reproduction.posterior_plots import EPSILONS, MADE, TRUE, lines, mark
from reproduction.tables import Table, value_at

SHOWN = ("diffused", "concentrated", "Gaussian noise", "noise-aware")
_AT = 0.1  # the cost at which the sentence compares


@frozen_value
class Column:
    """One prior and one population: means and standard deviations by mechanism, each of the shape of the epsilons."""

    setting: Setting
    rho: float
    means: Mapping[str, FloatArray]
    deviations: Mapping[str, FloatArray]


def columns(setting: Setting, rhos: Sequence[float], epsilons: FloatArray) -> tuple[Column, ...]:
    """Return one column for each share of ones in the population."""
    made = {TRUE: distributions.true} | MADE
    scores = {
        name: np.array(
            [[distribution(setting, epsilon).held_out(rho) for rho in rhos] for epsilon in epsilons.tolist()]
        )
        for name, distribution in made.items()
    }
    return tuple(
        Column(
            setting=setting,
            rho=rho,
            means={name: found[:, at, 0] for name, found in scores.items()},
            deviations={name: found[:, at, 1] for name, found in scores.items()},
        )
        for at, rho in enumerate(rhos)
    )


def _run(setting: Setting, rhos: Sequence[float], epsilons: FloatArray | None = None) -> Result:
    points = EPSILONS if epsilons is None else epsilons
    found = columns(setting, rhos, points)
    parts = [
        {
            "mechanism": name,
            "order": setting.order,
            "rho": column.rho,
            "epsilon": points,
            "mean": column.means[name],
            "standard_deviation": column.deviations[name],
        }
        for column in found
        for name in column.means
    ]
    return Result(
        columns=stacked(parts),
        describe=lambda table: _describe(setting, table),
        plot=lambda figure: _plot(figure, points, found),
    )


def _describe(setting: Setting, table: Columns) -> Statement:
    rhos = list(dict.fromkeys(table["rho"]))
    theta = setting.alpha / (setting.alpha + setting.beta)
    words, limits = [], []
    findings: list[Finding] = []
    at, least = _AT, min(table["epsilon"])
    for rho in rhos:
        parts = {name: Table(columns=table).select(rho=rho, mechanism=name) for name in (TRUE, *SHOWN)}
        at = value_at(parts[TRUE]["epsilon"], parts[TRUE]["epsilon"], _AT)
        means = {name: value_at(part["epsilon"], part["mean"], at) for name, part in parts.items()}
        excess = {name: means[name] - means[TRUE] for name in SHOWN}
        first, then = sorted(SHOWN, key=excess.__getitem__)[:2]
        ahead = compared(f"{then} - {first} at rho = {rho:.2g}", excess[then] - excess[first])
        start, limit = float(parts["concentrated"]["mean"][0]), _score(setting, rho, theta)
        shown = ", ".join(f"{name} {nats:+.2g}" for name, nats in excess.items())
        words.append(f"with ρ = {rho:.2g}, {shown}" + (f" (best: {first})" if ahead.compared else ""))
        limits.append(f"{start:.1f} and {limit:.1f} nats for ρ = {rho:.2g}")
        findings += [Finding(f"{name} at rho = {rho:.2g}", nats) for name, nats in excess.items()]
        findings += [ahead, Finding(f"start, rho = {rho:.2g}", start), Finding(f"limit, rho = {rho:.2g}", limit)]
    negative = any(found.value < 0 for found in findings)
    return Statement(
        f"{setting.n} records and {setting.n} new records have the share ρ of ones. One draw θ is released with Rényi "
        f"divergence ε = {at:.2g} at order {setting.order:g}. The mean of its loss −log Pr(new records | θ), minus "
        f"that of a draw from the true posterior, in nats: {'; '.join(words)}. "
        + (
            "If the difference is negative, the draw predicts better than one from the true posterior. "
            if negative
            else ""
        )
        + f"As ε decreases, the concentrated posterior tends to the mean of the prior, {theta:.2g}, as the thesis "
        f"says: its loss at ε = {least:g} and the loss of that point are {join_names(limits)}.",
        tuple(findings),
    )


def _score(setting: Setting, rho: float, theta: float) -> float:
    """Return the mean loss of a fixed parameter."""
    return float(-setting.n * (rho * np.log(theta) + (1 - rho) * np.log1p(-theta)))


def _plot(figure: Any, epsilons: FloatArray, found: Sequence[Column]) -> None:
    grid = figure.subplots(2, len(found), squeeze=False, sharex=True, sharey="row")
    for (above, below), column in zip(grid.T, found, strict=True):
        lines(above, epsilons, column.means)
        lines(below, epsilons, column.deviations)
        for axes in (above, below):
            mark(
                axes,
                column.setting.direct,
                "from here on a draw from\nthe true posterior has at most this ε" if axes is above else "",
            )
        above.set_title(_title(column))
        below.set_xlabel(f"ε at order {column.setting.order:g} (nats)")
    grid[0, 0].set_ylabel("mean loss on n new records\n−log Pr(new | θ) (nats)")
    grid[1, 0].set_ylabel("standard deviation\nof the loss (nats)")
    handles = grid[0, 0].get_legend_handles_labels()
    figure.get_layout_engine().set(wspace=0.09)
    if len(found) == 1:
        grid[1, 0].legend(*handles, loc="upper right", fontsize=8.5)
    else:
        figure.legend(*handles, loc="outside upper center", ncols=3)


def _title(column: Column) -> str:
    setting = column.setting
    return f"true share of ones {column.rho:.2g}, n = {setting.n}\nprior Beta({setting.alpha:g}, {setting.beta:g})"


def _figure(number: int, what: str, setting: Setting, rhos: Sequence[float], seconds: float) -> Experiment:
    return Experiment(
        name=f"geumlek-5.{number}",
        title=f"Thesis Figure 5.{number}: held-out log likelihood against cost, {what}",
        seconds=seconds,
        run=lambda: _run(setting, rhos),
        size=(5.6, 6.4) if len(rhos) == 1 else (10.4, 5.6),
        second=lambda: _run(setting, rhos, np.geomspace(1e-3, 10.0, 9)),
    )


def _informed(order: float) -> Setting:
    return Setting(alpha=6, beta=12, n=100, order=order)


FIGURE_5 = _figure(5, "order 2", _informed(2), (0.5,), seconds=1.4)
FIGURE_6 = _figure(6, "order 15", _informed(15), (0.5,), seconds=3.1)
FIGURE_7 = _figure(7, "by population", _informed(15), (1 / 3, 1 / 2, 2 / 3), seconds=5.8)
FIGURE_8 = _figure(8, "uniform prior", Setting(alpha=1, beta=1, n=100, order=15), (0.2,), seconds=2.3)

"""Thesis Figures 5.5 to 5.8 redrawn: how well a released draw predicts new records, against its cost.

Source: Geumlek 2020, sections 5.4.1 and 5.6: n records and n new ones, mean and standard deviation of the new ones'
negative log likelihood. The thesis runs 10,000 repeats; here both are exact, as if over infinitely many.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from privsample._checks import FloatArray
from privsample._value import value
from privsample.simulations.experiments import posterior_laws as laws
from privsample.simulations.experiments.base import Experiment, Result, stacked
from privsample.simulations.experiments.posterior_laws import Setting
from privsample.simulations.experiments.posterior_plots import EPSILONS, MADE, TRUE, lines, mark

SHOWN = ("diffused", "concentrated", "Gaussian noise", "noise-aware")
_AT = 0.1  # the cost at which the sentence compares


@value
class Column:
    """One prior and one population: for each mechanism the means and deviations, each of the shape of the epsilons."""

    setting: Setting
    rho: float
    means: Mapping[str, FloatArray]
    deviations: Mapping[str, FloatArray]


def columns(setting: Setting, rhos: Sequence[float], epsilons: FloatArray) -> tuple[Column, ...]:
    """One column for each share of ones in the population; a mechanism's law is made once for all."""
    made = {TRUE: laws.true} | MADE
    scores = {
        name: np.array([[law(setting, epsilon).held_out(rho) for rho in rhos] for epsilon in epsilons.tolist()])
        for name, law in made.items()
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


def _run(setting: Setting, rhos: Sequence[float]) -> Result:
    found = columns(setting, rhos, EPSILONS)
    parts = [
        {
            "mechanism": name,
            "order": setting.order,
            "rho": column.rho,
            "epsilon": EPSILONS,
            "mean": column.means[name],
            "standard_deviation": column.deviations[name],
        }
        for column in found
        for name in column.means
    ]
    return Result(columns=stacked(parts), sentence=_sentence(found), plot=lambda figure: _plot(figure, found))


def _sentence(found: Sequence[Column]) -> str:
    at = int(np.abs(np.log(EPSILONS / _AT)).argmin())
    words = []
    for column in found:
        excess = {name: float(column.means[name][at] - column.means[TRUE][at]) for name in SHOWN}
        shown = ", ".join(f"{nats:.2g} ({name})" for name, nats in excess.items())
        theta = column.setting.alpha / (column.setting.alpha + column.setting.beta)
        words.append(
            f"{shown} for ρ = {column.rho:.2g}, where the concentrated posterior scores "
            f"{column.means['concentrated'][0]:.1f} at ε = {EPSILONS[0]:g} and its limit, θ = {theta:.2g}, "
            f"{_score(column, theta):.1f}"
        )
    return (
        f"At order {found[0].setting.order:g} and ε = {EPSILONS[at]:.2g} a released draw scores this many nats worse "
        f"on new records than a draw of the true posterior: {'; '.join(words)}. The thesis says that the concentrated "
        "posterior degrades only to the prior's mode, which is its limit."
    )


def _score(column: Column, theta: float) -> float:
    """What one fixed parameter scores on average."""
    return float(-column.setting.n * (column.rho * np.log(theta) + (1 - column.rho) * np.log1p(-theta)))


def _plot(figure: Any, found: Sequence[Column]) -> None:
    grid = figure.subplots(2, len(found), squeeze=False, sharex=True, sharey="row")
    for (above, below), column in zip(grid.T, found, strict=True):
        lines(above, EPSILONS, column.means)
        lines(below, EPSILONS, column.deviations)
        for axes in (above, below):
            mark(axes, column.setting.direct)
        above.set_title(_title(column))
        below.set_xlabel(f"ε at order {column.setting.order:g}, nats")
    grid[0, 0].set_ylabel("mean of\n−log Pr(new | θ), nats")
    grid[1, 0].set_ylabel("standard deviation,\nnats")
    handles = grid[0, 0].get_legend_handles_labels()
    figure.get_layout_engine().set(wspace=0.09)
    figure.legend(*handles, loc="outside lower center", ncols=2 if len(found) == 1 else 3)


def _title(column: Column) -> str:
    return f"ρ = {column.rho:.2g}, prior Beta({column.setting.alpha:g}, {column.setting.beta:g})"


def _figure(number: int, what: str, setting: Setting, rhos: Sequence[float]) -> Experiment:
    return Experiment(
        name=f"t-5.{number}",
        title=f"Thesis Figure 5.{number}: held-out log likelihood against cost, {what}",
        run=lambda: _run(setting, rhos),
        size=(5.2, 5.4) if len(rhos) == 1 else (9.0, 5.2),
    )


def _informed(order: float) -> Setting:
    return Setting(alpha=6, beta=12, n=100, order=order)


FIGURE_5 = _figure(5, "order 2", _informed(2), (0.5,))
FIGURE_6 = _figure(6, "order 15", _informed(15), (0.5,))
FIGURE_7 = _figure(7, "by population", _informed(15), (1 / 3, 1 / 2, 2 / 3))
FIGURE_8 = _figure(8, "uniform prior", Setting(alpha=1, beta=1, n=100, order=15), (0.2,))

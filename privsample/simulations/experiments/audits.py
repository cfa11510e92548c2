"""The picture and the table of audits that were run: `privsample audit --out FOLDER` writes them."""

import math
from collections.abc import Sequence
from typing import Any

from privsample.simulations.audit.audited import Audited
from privsample.simulations.experiments.base import Experiment, Result, stacked
from privsample.simulations.experiments.findings import Columns, Finding, Statement
from privsample.simulations.report.figures import BLUE, ORANGE

_MOST_ACROSS = 6


def audits_experiment(done: Sequence[Audited]) -> Experiment:
    """The picture and the table: for each audit the claimed curve and the certified lower limits of the true one."""
    rows, across = _grid(len(done))
    size = (max(2.5 * across, 4.6), max(2.2 * rows, 3.0) + 0.6)
    return Experiment(name="audits", title="Audits", run=lambda: _result(done), size=size)


def _grid(panels: int) -> tuple[int, int]:
    """Rows and columns, as near to a square as there is room for."""
    across = min(math.isqrt(panels - 1) + 1, _MOST_ACROSS)
    return -(-panels // across), across


def _result(done: Sequence[Audited]) -> Result:
    columns = stacked(
        [
            {
                "name": one.name,
                "outcome": one.verdict.outcome,
                "p_value": one.verdict.p_value,
                "draws": one.verdict.samples,
                "epsilon": one.verdict.epsilons,
                "claimed_delta": one.verdict.claims,
                "delta_at_least": one.verdict.lowers,
            }
            for one in done
        ]
    )
    return Result(columns=columns, describe=_describe, plot=lambda figure: _plot(figure, done))


def _describe(columns: Columns) -> Statement:
    outcomes = dict(zip(columns["name"], columns["outcome"], strict=True))
    violated = sum(str(outcome) == "violated" for outcome in outcomes.values())
    return Statement(
        f"{violated} of {len(outcomes)} claims were refuted; the others were not, which does not prove them.",
        (Finding("refuted", violated),),
    )


def _plot(figure: Any, done: Sequence[Audited]) -> None:
    panels = figure.subplots(*_grid(len(done)), squeeze=False).ravel()
    for axes, one in zip(panels, done, strict=False):
        verdict = one.verdict
        axes.plot(verdict.epsilons, verdict.claims, color=BLUE, marker=".", label="claimed δ(ε)")
        style = {"color": ORANGE, "linestyle": "none", "marker": "^", "markersize": 5}
        axes.plot(verdict.epsilons, verdict.lowers, **style, label="the true δ(ε) is at least this, by the draws")
        axes.set_title(
            one.name + ("\nVIOLATED" if verdict.violated else ""), color=ORANGE if verdict.violated else "black"
        )
        axes.set(ylim=(0.0, None))
    for axes in panels[len(done) :]:
        axes.set_visible(False)
    figure.supxlabel("ε, nats")
    figure.supylabel("δ")
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside upper left", ncols=2 if len(done) > 1 else 1)

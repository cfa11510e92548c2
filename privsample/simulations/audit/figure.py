"""Figure and table of audit results, which `privsample audit --out DIR` writes."""

import math
from collections.abc import Sequence
from typing import Any

from privsample.plots.style import BLUE, ORANGE
from privsample.simulations.audit.batch import AuditResult
from privsample.simulations.report.findings import Columns, Finding, Statement
from privsample.simulations.report.results import Made, Result, stacked

_MAX_COLUMNS = 6  # largest number of panels in a row


def audits_figure(results: Sequence[AuditResult]) -> Made:
    """Figure and table with the claimed privacy curve of each audit and lower confidence bounds on the true one."""
    rows, columns = _panel_grid(len(results))
    size = (max(2.5 * columns, 4.6), max(2.2 * rows, 3.0) + 0.6)
    return _result(results).make("audits", size)


def _panel_grid(panels: int) -> tuple[int, int]:
    """Numbers of rows and columns of panels: nearly equal, with at most `_MAX_COLUMNS` columns."""
    columns = min(math.isqrt(panels - 1) + 1, _MAX_COLUMNS)
    return -(-panels // columns), columns


def _result(results: Sequence[AuditResult]) -> Result:
    columns = stacked(
        [
            {
                "name": result.name,
                "outcome": result.verdict.outcome,
                "p_value": result.verdict.p_value,
                "draws": result.verdict.samples,
                "epsilon": result.verdict.epsilons,
                "claimed_delta": result.verdict.claims,
                "delta_at_least": result.verdict.lowers,
            }
            for result in results
        ]
    )
    return Result(columns=columns, describe=_describe, plot=lambda figure: _plot(figure, results))


def _describe(columns: Columns) -> Statement:
    outcomes = dict(zip(columns["name"], columns["outcome"], strict=True))
    violated = sum(outcome == "VIOLATED" for outcome in outcomes.values())
    return Statement(
        f"{violated} of {len(outcomes)} claims were refuted. That a claim was not refuted does not prove it.",
        (Finding("refuted", violated),),
    )


def _plot(figure: Any, results: Sequence[AuditResult]) -> None:
    panels = figure.subplots(*_panel_grid(len(results)), squeeze=False).ravel()
    for axes, result in zip(panels, results, strict=False):
        verdict = result.verdict
        axes.plot(verdict.epsilons, verdict.claims, color=BLUE, marker=".", label="claimed δ(ε)")
        style = {"color": ORANGE, "linestyle": "none", "marker": "^", "markersize": 5}
        axes.plot(verdict.epsilons, verdict.lowers, **style, label="lower confidence bound on the true δ(ε)")
        axes.set_title(
            result.name + ("\nVIOLATED" if verdict.violated else ""), color=ORANGE if verdict.violated else "black"
        )
        axes.set(ylim=(0.0, None))
    for axes in panels[len(results) :]:
        axes.set_visible(False)
    figure.supxlabel("ε (nats)")
    figure.supylabel("δ")
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside upper left", ncols=2 if len(results) > 1 else 1)

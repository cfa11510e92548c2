"""Plots of the privacy cost of repeated selection: dashed lines are the bounds of the paper, solid lines accounts."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from privsample.plots.style import BLUE, GREEN, GREY, ORANGE
from privsample.simulations.report.findings import Columns, Statement
from privsample.simulations.report.results import Result, stacked
from reproduction.selection_data import Curve

SIZE = (4.8, 4.8)
# Together with BLUE, ORANGE and GREEN: any two differ by at least 17 CIELAB units under every type of colour vision.
_AMBER, _PLUM, _BLACK = "#E69F00", "#5B1A4F", "#222222"
_COLOURS = (BLUE, ORANGE, _AMBER, GREEN, _PLUM)
_LINES: dict[str, dict[str, Any]] = {
    "library": {"linestyle": "-", "linewidth": 2.0},
    "published": {"linestyle": (0, (4, 2)), "linewidth": 1.4},
    "naive": {"linestyle": ":", "linewidth": 1.8, "color": GREY},
    "base": {"linestyle": "-", "linewidth": 1.0, "color": GREY},
    "floor": {"linestyle": "-.", "linewidth": 1.8, "color": _BLACK},
}


def result(
    curves: Sequence[Curve], describe: Callable[[Columns], Statement], *, names: tuple[str, str], **axes: Any
) -> Result:
    """Table and plot of the curves, and the statement that `describe` derives from the table.

    `names` are the names of the columns of x and y; `axes` are settings of the Matplotlib axes.
    """
    parts: list[dict[str, Any]] = []
    for curve in curves:
        part = {"curve": curve.label, "bound": curve.bound, names[0]: curve.x, names[1]: curve.y}
        parts.append(part | dict(curve.more or {}))
    return Result(columns=stacked(parts), describe=describe, plot=lambda figure: plot_panels(figure, [curves], [axes]))


def plot_panels(figure: Any, panels: Sequence[Sequence[Curve]], settings: Sequence[Mapping[str, Any]]) -> None:
    """Plot panels side by side, each with its own curves and axis settings.

    Several panels have a legend inside each; one panel has its legend above it.
    """
    row = figure.subplots(1, len(panels), squeeze=False)[0]
    for axes, curves, setting in zip(row, panels, settings, strict=True):
        labels = dict.fromkeys(curve.label for curve in curves if curve.bound in ("library", "published"))
        colours = dict(zip(labels, _COLOURS, strict=False))
        for curve in curves:
            style = {"color": colours.get(curve.label, GREY)} | _LINES[curve.bound]
            axes.plot(curve.x, curve.y, **style)
            error = (curve.more or {}).get("standard_error")
            if error is not None:
                low, high = curve.y - 2 * error, curve.y + 2 * error
                axes.fill_between(curve.x, low, high, color=style["color"], alpha=0.15, linewidth=0)
        axes.set(**setting)
        handles = _handles(curves, colours)
        if len(panels) > 1:
            axes.legend(handles=handles, loc="upper center")
        else:
            figure.legend(handles=handles, loc="outside upper left", ncols=2)


def _handles(curves: Sequence[Curve], colours: Mapping[str, str]) -> list[Any]:
    """Legend entries: the colour of each label, then the meaning of solid and dashed lines, then all other curves."""
    from matplotlib.lines import Line2D

    shared = len({curve.bound for curve in curves if curve.label in colours}) > 1 and len(colours) > 2
    entries = [Line2D([], [], color=colour, linewidth=2.0, label=label) for label, colour in colours.items()]
    if shared:
        entries += [
            Line2D([], [], color=_BLACK, label="account of privsample, runs with Gaussian noise", **_LINES["library"]),
            Line2D([], [], color=_BLACK, label="bound of the paper, any 0.1-zCDP runs", **_LINES["published"]),
        ]
    else:
        bound = {curve.label: curve.bound for curve in curves}
        for entry, label in zip(entries, colours, strict=True):
            entry.set(**_LINES[bound[label]])
    return entries + [Line2D([], [], label=c.label, **_LINES[c.bound]) for c in curves if c.label not in colours]

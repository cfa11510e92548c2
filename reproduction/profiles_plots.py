"""Plots of the profile figures: at most two panels in a row, with common axes."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from privsample._checks import FloatArray
from privsample._value import frozen_value
from privsample.plots.style import BLUE, GREEN, GREY, ORANGE

_THREE = [(GREY, (0, (5, 2))), (ORANGE, "-"), (BLUE, "-")]  # the baseline first
_SYMBOLS = [(BLUE, "-"), (ORANGE, (0, (6, 2))), (GREEN, (0, (3, 1.5))), (GREY, (0, (1, 1.2)))]


@frozen_value
class Curves:
    """One panel: `values`, shape (points, curves), at `x`, shape (points,); `names` are the columns of the table."""

    title: str
    names: tuple[str, str]
    x_label: str
    y_label: str
    x: FloatArray
    labels: tuple[str, ...]
    values: FloatArray


def lines(figure: Any, panels: Sequence[Curves]) -> None:
    """Plot three curves in each panel with a legend; the first is the baseline."""
    grid = _panels(figure, panels)
    for axes, panel in zip(grid.flat, panels, strict=True):
        for (colour, dashes), label, values in zip(_THREE, panel.labels, panel.values.T, strict=True):
            axes.plot(panel.x, values, color=colour, linestyle=dashes, label=label)
        axes.legend()
    grid[0, 0].set_ylim(bottom=0.0)  # after all curves, because it fixes the range of the common axis


def symbol_changes(figure: Any, smooth: Curves, baseline: Curves) -> None:
    """Plot the change of each symbol and the baseline's largest change (left), and their differences (right)."""
    left, right = figure.subplots(1, 2)
    one = baseline.values.max(axis=1)
    left.plot(smooth.x, one, color="black", linewidth=1.3, label=f"{baseline.title}, all four symbols")
    right.axhline(0.0, color="black", linewidth=1.3)
    for (colour, dashes), label, values in zip(_SYMBOLS, smooth.labels, smooth.values.T, strict=True):
        left.plot(smooth.x, values, color=colour, linestyle=dashes, label=f"{smooth.title}, {label}")
        right.plot(smooth.x, one - values, color=colour, linestyle=dashes)
    left.set(ylabel=smooth.y_label, title="largest change by each mechanism", ylim=(0.0, None))
    right.set(
        ylabel="change by K-ary response −\nchange by Smooth Categorical",
        title="below 0: Smooth Categorical is worse",
    )
    for axes in (left, right):
        axes.set(xlabel=smooth.x_label)
        axes.set_xlim(smooth.x[0], smooth.x[-1])
        _logarithmic(axes)
    figure.legend(*left.get_legend_handles_labels(), loc="outside upper center", ncols=2)


def chain_curves(figure: Any, panels: Sequence[Curves], mark: float) -> None:
    """Plot one line for each profile, from dark to light, some with a label at its right end; mark one epsilon."""
    from matplotlib import colormaps

    for axes, panel in zip(_panels(figure, panels).flat, panels, strict=True):
        count = len(panel.labels)
        named = range(count) if count < 10 else (0, count // 4, count // 2, 3 * count // 4, count - 1)
        colours = colormaps["viridis"](np.linspace(0, 0.9, count))
        for k, (colour, values) in enumerate(zip(colours, panel.values.T, strict=True)):
            axes.plot(panel.x, values, color=colour, linewidth=1.7 if count < 10 else 1.1)
            if k in named:
                _note(axes, panel.labels[k], (panel.x[-1], values[-1]), colour, va="center", annotation_clip=False)
        axes.axvline(mark, color=GREY, linewidth=1.0, linestyle=(0, (4, 2)))
        _note(axes, f"ε = {mark:g}", (mark, 1.0), GREY, va="top")
        axes.set_ylim(-0.02, 1.02)
        _logarithmic(axes)


def _panels(figure: Any, panels: Sequence[Curves]) -> Any:
    """The axes, (rows, columns), with their titles and labels."""
    wide = min(len(panels), 2)
    grid = figure.subplots(len(panels) // wide, wide, squeeze=False, sharex=True, sharey=True)
    figure.get_layout_engine().set(wspace=0.04)  # leaves room for the outer tick labels of adjacent panels
    for axes, panel in zip(grid.flat, panels, strict=True):
        axes.set_title(panel.title)
        axes.set_xlim(panel.x[0], panel.x[-1])
    for axes in grid[:, 0]:
        axes.set_ylabel(panels[0].y_label)
    for axes in grid[-1]:
        axes.set_xlabel(panels[0].x_label)
    return grid


def _note(axes: Any, words: str, place: tuple[float, float], colour: Any, **settings: Any) -> None:
    axes.annotate(words, place, (4, 0), textcoords="offset points", fontsize=8, color=colour, **settings)


def _logarithmic(axes: Any) -> None:
    axes.set_xscale("log")
    marks = [0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5]
    axes.set_xticks(marks, [f"{mark:g}" for mark in marks])
    axes.minorticks_off()

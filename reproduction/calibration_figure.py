"""The figure of the calibration experiment: a matrix of p-values, and selected empirical distribution functions."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from privsample.plots.style import BLUE, GREEN, GREY, ORANGE, SKY
from reproduction.calibration_outcomes import (
    AWARE,
    CONTROLS,
    INFER,
    LEVEL,
    NARROW,
    PLUG_IN,
    PYMC,
    TESTED,
    UNBOUNDED,
    Outcome,
)
from reproduction.calibration_uniformity import POINTS, ecdf_difference, envelope

COLOURS: Mapping[str, str] = {PYMC: BLUE, AWARE: GREEN, INFER: SKY, PLUG_IN: ORANGE, UNBOUNDED: "#CC79A7", NARROW: GREY}
SHOWN = (  # model, n and epsilon of the empirical distribution functions
    ("binary", 100, 0.2),
    ("Poisson counts", 100, 1.0),
    ("exponential times", 100, 1.0),
    ("normal, unknown variance", 100, 1.0),
)
_STEEPEST = 0.2  # largest difference of distribution functions that is shown


def plot(figure: Any, found: Sequence[Outcome]) -> None:
    """Plot the outcomes on an empty figure."""
    top, bottom = figure.subfigures(2, 1, height_ratios=(2.4, 1))
    left, right = top.subplots(1, 2)
    image = _matrix(left, [cell for cell in found if cell.method in TESTED], TESTED)
    _matrix(right, [cell for cell in found if cell.method in CONTROLS], CONTROLS)
    left.set_title("inference of the library (in cells: share of clipped records)", loc="left", fontsize=9)
    right.set_title("controls, wrong on purpose", loc="left", fontsize=9)
    bar = top.colorbar(image, ax=(left, right), shrink=0.6, extend="max", ticks=(0, 2, 4, 6))
    bar.set_label(f"−log₁₀ p of uniform ranks; orange: rejected at {LEVEL:g}")
    for axes, place in zip(bottom.subplots(1, len(SHOWN), sharey=True), SHOWN, strict=True):
        _differences(axes, [cell for cell in found if (cell.model, cell.records, cell.epsilon) == place])
    bottom.axes[0].set_ylabel("ECDF of ranks − uniform")
    handles: dict[Any, Any] = {}
    for axes in bottom.axes:
        handles |= dict(zip(*reversed(axes.get_legend_handles_labels()), strict=True))
    bottom.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=len(handles), fontsize=8)


def _matrix(axes: Any, found: Sequence[Outcome], methods: Sequence[str]) -> Any:
    """One row for each method and model, one column for each n and epsilon; rejected cells are orange."""
    from matplotlib.colors import LinearSegmentedColormap

    rows = [key for name in methods for key in dict.fromkeys((c.method, c.model) for c in found) if key[0] == name]
    places = sorted({(cell.records, cell.epsilon) for cell in found})
    values = np.full((len(rows), len(places)), np.nan)
    for cell in found:
        row, column = rows.index((cell.method, cell.model)), places.index((cell.records, cell.epsilon))
        values[row, column] = -np.log10(max(cell.p_value, 1e-300))
        if cell.clipped:
            axes.text(
                column,
                row,
                f"{cell.clipped:.0%}",
                ha="center",
                va="center",
                fontsize=6.5,
                color="white" if cell.rejected else "#333333",
            )
    pale = LinearSegmentedColormap.from_list("p", ["#F4F8FB", "#7FB4D8"])
    colours = pale.with_extremes(over=ORANGE, bad="white")
    image = axes.imshow(values, cmap=colours, vmin=0.0, vmax=-np.log10(LEVEL), aspect="auto")
    axes.set_yticks(range(len(rows)), [model for _, model in rows], fontsize=7)
    axes.set_xticks(range(len(places)), [f"{epsilon:g}" for _, epsilon in places], fontsize=7)
    axes.tick_params(length=0)
    axes.grid(visible=False)
    sizes = [n for n, _ in places]
    below = {"textcoords": "offset points", "annotation_clip": False}
    for n in dict.fromkeys(sizes):
        middle = float(np.mean([k for k, size in enumerate(sizes) if size == n]))
        words = f"n = {n:,}"
        axes.annotate(words, (middle, len(rows) - 0.5), (0, -18), fontsize=8, ha="center", va="top", **below)
    axes.set_xlabel("ε", loc="left", labelpad=-8)
    for k in range(1, len(places)):
        axes.axvline(k - 0.5, color="white", linewidth=2.5 if sizes[k] != sizes[k - 1] else 0.8)
    for k in range(1, len(rows)):
        axes.axhline(k - 0.5, color="black" if rows[k][0] != rows[k - 1][0] else "white", linewidth=0.8)
    for name in dict.fromkeys(method for method, _ in rows):
        own = [k for k, (method, _) in enumerate(rows) if method == name]
        axes.text(len(places) - 0.4, float(np.mean(own)), name, rotation=-90, va="center", ha="left", fontsize=8)
    for side in axes.spines.values():
        side.set_visible(False)
    return image


def _differences(axes: Any, found: Sequence[Outcome]) -> None:
    if not found:  # in a smaller run
        axes.set_axis_off()
        return
    places = np.arange(POINTS + 1) / POINTS
    for cell in found:
        axes.plot(places, ecdf_difference(cell.counts), color=COLOURS[cell.method], label=cell.method, linewidth=1.2)
    low, high = envelope(int(found[0].counts[-1]), LEVEL / found[0].columns)
    axes.fill_between(places, low, high, color=GREY, alpha=0.2, linewidth=0, label=f"envelope of level {LEVEL:g}")
    clipped = f", {found[0].clipped:.0%} clipped" if found[0].clipped else ""
    axes.set_title(f"{found[0].model}\nn = {found[0].records}, ε = {found[0].epsilon:g}{clipped}", fontsize=8)
    axes.set(xlim=(0, 1), xticks=(0, 0.5, 1), ylim=(-_STEEPEST, _STEEPEST), xlabel="rank of the true parameter")

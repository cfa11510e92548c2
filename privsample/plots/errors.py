"""The plot of a comparison: the error of each mechanism with its standard error."""

import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from privsample._checks import FloatArray
from privsample.plots.style import BLUE, GREY, axes_or_new, plain

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_LINE = 54  # characters of a line of the axis' label


def plot_errors(
    ax: "Axes | None",
    *,
    names: Sequence[str],
    errors: FloatArray,
    deviations: FloatArray,
    marked: Sequence[bool],
    label: str,
    title: str,
) -> "Axes":
    """Plot a row for each name, the first at the top: its error with a bar of one standard error to either side.

    The names that are `marked`, those within chance of the smallest error, are filled and blue. A standard error that
    is not finite, as that of one simulation, has no bar.
    """
    ax = axes_or_new(ax, rows=len(names))
    bars = np.where(np.isfinite(deviations), deviations, 0.0)
    for row, (error, bar, near) in enumerate(zip(errors, bars, marked, strict=True)):
        colour = BLUE if near else GREY
        face = colour if near else "white"
        ax.errorbar([error], [row], xerr=[bar], fmt="o", color=colour, markerfacecolor=face, markersize=6, capsize=3)
    ax.set_yticks(range(len(names)), [plain(name) for name in names])
    ax.set_ylim(len(names) - 0.4, -0.6)
    if (errors > 0.0).all() and errors.max() > 30.0 * errors.min():
        ax.set_xscale("log")
    ax.set_xlabel(plain(textwrap.fill(f"error: {label}, ± standard error", _LINE)))
    ax.set_title(plain(textwrap.fill(title, _LINE)), fontsize="medium")
    return ax

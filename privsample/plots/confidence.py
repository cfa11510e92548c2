"""Plots of confidence sets: the p-value curve of one parameter, the region of two, and intervals of several."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from privsample._checks import FloatArray
from privsample.plots.style import BLUE, GREY, ORANGE, axes_or_new, plain

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def plot_p_values(
    ax: "Axes | None",
    values: FloatArray,
    p_values: FloatArray,
    *,
    ends: tuple[float, float] | None,
    level: float,
    label: str,
) -> "Axes":
    """Plot p-values over the values of one parameter, and the interval of values above 1 - level."""
    ax = axes_or_new(ax)
    ax.plot(values, p_values, color=BLUE, linewidth=1.6)
    ax.axhline(1 - level, color=GREY, linewidth=1, linestyle=(0, (4, 3)), label=f"1 − level = {1 - level:.3g}")
    if ends is not None:
        inside = (values >= ends[0]) & (values <= ends[1])
        ax.fill_between(values, 0, p_values, where=inside, color=BLUE, alpha=0.2, linewidth=0)
        ax.plot(ends, [1 - level] * 2, color=ORANGE, linewidth=4, solid_capstyle="butt", label=f"{level:.0%} interval")
    ax.set(xlabel=plain(label), ylabel="p-value", ylim=(0, 1.05), xlim=(values[0], values[-1]))
    ax.legend(frameon=False)
    return ax


def plot_region(
    ax: "Axes | None",
    values: tuple[FloatArray, FloatArray],
    p_values: FloatArray,
    *,
    level: float,
    labels: tuple[str, str],
) -> "Axes":
    """Plot the region of two parameters whose p-values, shape (second, first), are above 1 - level."""
    ax = axes_or_new(ax)
    first, second = values
    ax.contourf(first, second, p_values, levels=[1 - level, 1.01], colors=[BLUE], alpha=0.25)
    inner = [at for at in (0.25, 0.5, 0.75) if at > 1 - level]
    lines = ax.contour(first, second, p_values, levels=inner, colors=[BLUE], linewidths=0.8, alpha=0.6)
    ax.clabel(lines, fmt=lambda at: f"p = {at:.2g}", fontsize=8)
    ax.contour(first, second, p_values, levels=[1 - level], colors=[ORANGE], linewidths=1.8)
    ax.plot([], [], color=ORANGE, linewidth=1.8, label=f"{level:.0%} confidence set")
    ax.set(xlabel=plain(labels[0]), ylabel=plain(labels[1]))
    ax.legend(frameon=False)
    return ax


def plot_intervals(ax: "Axes | None", ends: FloatArray, *, labels: Sequence[str], level: float) -> "Axes":
    """Plot one row for each coordinate: its interval, ends of shape (coordinates, 2)."""
    ax = axes_or_new(ax, rows=len(labels))
    for row, (low, high) in enumerate(ends):
        ax.plot([low, high], [row, row], "|-", color=BLUE, linewidth=2, markersize=12, markeredgewidth=2)
    ax.set_yticks(range(len(labels)), [plain(label) for label in labels])
    ax.set_ylim(len(labels) - 0.4, -0.6)
    ax.set_xlabel(f"{level:.0%} confidence interval")
    return ax


def window(ends: tuple[float, float], limits: tuple[float, float], points: int) -> FloatArray:
    """Values around an interval, by a third of its length on either side, within limits."""
    room = (ends[1] - ends[0]) / 3
    return np.linspace(max(limits[0], ends[0] - room), min(limits[1], ends[1] + room), points)

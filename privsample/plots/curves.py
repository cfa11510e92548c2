"""Privacy curves, trade-off curves and Rényi curves of accounts, and the plot of an audit."""

from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from privsample._checks import FloatArray
from privsample.plots.style import (
    BLUE,
    DELTA,
    DIVERGENCE,
    EPSILON,
    GREY,
    ORANGE,
    axes_or_new,
    legend_of_several,
    line_style,
    plain,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

CurveView = Literal["delta", "tradeoff", "renyi"]
CURVE_VIEWS: tuple[CurveView, ...] = ("delta", "tradeoff", "renyi")


def plot_curve(
    ax: "Axes | None", x: FloatArray, y: FloatArray, *, view: CurveView, label: str | None, style: dict[str, Any]
) -> "Axes":
    """Plot one curve of an account on axes whose scales and labels suit the view; curves on the same axes overlay."""
    ax = axes_or_new(ax)
    if view == "delta":
        # A logarithmic axis has no place for 0: the curve ends where the bound reaches 0.
        y = np.where(y > 0.0, y, np.nan)
        ax.set(yscale="log", xlabel=EPSILON, ylabel=DELTA)
    elif view == "tradeoff":
        ax.set(xlabel="type I error", ylabel="type II error, lower bound", xlim=(0.0, 1.0), ylim=(0.0, 1.0))
        if not any(line.get_gid() == "no information" for line in ax.lines):
            ax.plot([0.0, 1.0], [1.0, 0.0], color=GREY, linewidth=0.9, linestyle=":", gid="no information")
    else:
        ax.set(xscale="log", xlabel="order α", ylabel=DIVERGENCE)
    ax.plot(x, y, **line_style(style, label=None if label is None else plain(label)))
    legend_of_several(ax)
    return ax


def plot_audit_bounds(
    ax: "Axes | None",
    *,
    epsilons: FloatArray,
    lowers: FloatArray,
    uppers: FloatArray,
    curve: tuple[FloatArray, FloatArray],
    title: str,
    half: bool = False,
) -> "Axes":
    """Plot a claimed privacy curve with the confidence bounds of an audit at each of `epsilons`.

    `curve` holds epsilons and claimed deltas; with `half`, half of each claimed delta is drawn for comparison.
    """
    ax = axes_or_new(ax)
    grid, claim = curve
    ax.plot(grid, claim, color=BLUE, label="claimed δ(ε)")
    if half:
        style: dict[str, Any] = {"color": GREY, "linestyle": (0, (2, 2)), "linewidth": 1.3}
        ax.plot(grid, claim / 2, label="half of the claim, for comparison", **style)
    ax.errorbar(
        epsilons,
        (lowers + uppers) / 2,
        yerr=(uppers - lowers) / 2,
        fmt="none",
        ecolor=ORANGE,
        elinewidth=2,
        capsize=4,
        capthick=2,
        label="confidence intervals of the audit",
    )
    ax.set(xlabel=EPSILON, ylabel=DELTA)
    ax.set_ylim(bottom=0.0)
    if title:
        ax.set_title(plain(title))
    return ax

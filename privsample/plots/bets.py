"""Plots of sequential audits: the wealth of bets against a claim, and the confidence interval, over the draws."""

from typing import TYPE_CHECKING

import numpy as np

from privsample._checks import FloatArray
from privsample.plots.style import BLUE, GREY, ORANGE, axes_or_new, plain

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_DRAWS = "draws from each dataset"


def plot_bets(ax: "Axes | None", *, times: FloatArray, log_wealths: FloatArray, level: float, title: str) -> "Axes":
    """Plot the wealth at each time in powers of ten, and the wealth at which the claim is refuted."""
    ax = axes_or_new(ax)
    refuted = -np.log10(level)
    ax.axhline(0.0, color=GREY, linewidth=0.9, linestyle=":")
    ax.axhline(refuted, color=ORANGE, linestyle=(0, (4, 2)), label=f"1/level = {1.0 / level:.3g}: refuted")
    ax.plot(np.append(0.0, times), np.append(0.0, log_wealths / np.log(10.0)), color=BLUE, label="wealth of all bets")
    ax.set(xlabel=_DRAWS, ylabel="log₁₀ wealth", title=plain(title))
    ax.set_xlim(left=0.0)
    ax.set_ylim(top=1.4 * max(refuted, float(log_wealths.max(initial=0.0)) / np.log(10.0)))  # room for the legend
    ax.legend(frameon=False, loc="upper left")
    return ax


def plot_scales(ax: "Axes | None", *, times: FloatArray, scales: FloatArray, title: str) -> "Axes":
    """Plot the interval of the scale of the claimed epsilons at each time, and the claim, whose scale is 1."""
    ax = axes_or_new(ax)
    top = max(1.25 * float(scales.max()), 1.5)
    ax.fill_between(times, scales, top, color=BLUE, alpha=0.25, linewidth=0.0, step="post", label="confidence interval")
    ax.step(times, scales, color=BLUE, where="post")
    ax.axhline(1.0, color=ORANGE, linestyle=(0, (4, 2)), label="the claim")
    ax.set(xlabel=_DRAWS, ylabel="true ε / claimed ε", title=plain(title))
    ax.set(xlim=(0.0, None), ylim=(0.0, top))
    ax.legend(frameon=False)
    return ax

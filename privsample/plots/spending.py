"""A plot of the spending of a ledger: what its entries used of the budget, one after the other."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from privsample._checks import FloatArray
from privsample.plots.style import BLUE, GREY, ORANGE, axes_or_new, plain

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_MOST_NAMED = 12  # entries whose labels fit below the axis


def plot_spending(
    ax: "Axes | None", numbers: FloatArray, used: FloatArray, *, budget: float, names: Sequence[str], measure: str
) -> "Axes":
    """Plot the used part of a budget after each of the entries `numbers`, shape (entries,), and the budget."""
    ax = axes_or_new(ax)
    end = float(numbers[-1]) * 1.03 + 0.5 if len(numbers) else 1.0
    x, y = np.concatenate([[0.0], numbers, [end]]), np.concatenate([[0.0], used, used[-1:] if len(used) else [0.0]])
    ax.fill_between(x, 0, y, step="post", color=BLUE, alpha=0.2, linewidth=0)
    ax.step(x, y, where="post", color=BLUE, linewidth=1.8, label="spent")
    ax.axhline(budget, color=ORANGE, linewidth=1.4, linestyle=(0, (4, 3)), label=f"budget: {budget:.4g}")
    ax.set(xlabel="entry", ylabel=measure, xlim=(0, end), ylim=(0, 1.08 * max(budget, float(y.max()))))
    ax.spines[["top", "right"]].set_visible(False)
    if 0 < len(names) <= _MOST_NAMED:
        ax.set_xticks(
            numbers, [f"{number:.0f} {plain(name)}"[:24] for number, name in zip(numbers, names, strict=True)]
        )
        ax.tick_params(axis="x", rotation=30, labelsize=8)
        for text in ax.get_xticklabels():
            text.set_horizontalalignment("right")
    ax.grid(axis="y", color=GREY, alpha=0.25, linewidth=0.6)
    ax.legend(frameon=False, loc="lower left", bbox_to_anchor=(0.0, 1.0), ncols=2)
    return ax

"""The plot of a one-run audit: right guesses, and how many a claim allows."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from privsample.plots.style import BLUE, GREY, ORANGE, axes_or_new

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def plot_right_guesses(
    ax: "Axes | None", guesses: Sequence[int], allowed: Sequence[int], found: tuple[int, int], *, violated: bool
) -> "Axes":
    """Plot the largest number of right guesses that a claim allows at each number of guesses, and the one audit.

    Only the audit's own number of guesses is marked, because only this one was fixed beforehand and is tested.
    """
    ax = axes_or_new(ax)
    last = guesses[-1]
    ax.plot([0, last], [0, last], color=GREY, linewidth=0.9, linestyle=":", label="all guesses right")
    ax.plot([0, last], [0, last / 2], color=GREY, linewidth=0.9, linestyle=(0, (4, 3)), label="half right, by chance")
    ax.fill_between(guesses, allowed, color=BLUE, alpha=0.12, linewidth=0)
    ax.plot(guesses, allowed, color=BLUE, label="most that the whole claimed curve allows")
    word = "above the line: VIOLATED" if violated else "not above the line: CONSISTENT"
    colour, marker = (ORANGE, "D") if violated else (BLUE, "o")
    ax.plot(*found, linestyle="none", marker=marker, markersize=8, color=colour, label=f"this audit, {word}")
    ax.set(xlabel="guesses, their number fixed before scoring", ylabel="right guesses", xlim=(0, None), ylim=(0, None))
    ax.legend(frameon=False, loc="upper left")
    return ax

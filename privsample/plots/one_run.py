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

    Right guesses are shown in percent of the guesses. Only the audit's own number of guesses is marked, because only
    this one was fixed beforehand and is tested.
    """
    own = ax is None  # a new figure has room for the legend outside its axes
    ax = axes_or_new(ax)
    shares = [100 * right / many for many, right in zip(guesses, allowed, strict=True)]
    word = "above the line: VIOLATED" if violated else "not above the line: CONSISTENT"
    colour, marker = (ORANGE, "D") if violated else (BLUE, "o")
    ax.fill_between(guesses, shares, color=BLUE, alpha=0.12, linewidth=0)
    ax.plot(guesses, shares, color=BLUE, label="most that the whole claimed curve allows")
    ax.axhline(50, color=GREY, linewidth=0.9, linestyle=":", label="by chance")
    right = 100 * found[1] / found[0]
    ax.plot([found[0]], [right], linestyle="none", marker=marker, color=colour, label=f"this audit, {word}")
    low = max(min(45.0, right - 5.0), 0.0)
    ax.set(xlabel="number of guesses, fixed before scoring", ylabel="right guesses (%)", ylim=(low, 102))
    ax.set_xlim(0, guesses[-1])
    if own:
        ax.figure.legend(frameon=False, loc="outside upper left")
    else:
        ax.legend(frameon=False)
    return ax

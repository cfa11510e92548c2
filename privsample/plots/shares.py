"""The plot of a budget that is divided among parts: a bar for each share."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from privsample.plots.style import BLUE, axes_or_new, plain

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def plot_shares(
    ax: "Axes | None", *, shares: Mapping[str, float], details: Mapping[str, str], title: str, label: str
) -> "Axes":
    """Plot a row for each share, the first at the top, with its percentage and what it is spent on."""
    ax = axes_or_new(ax, rows=len(shares))
    for row, (name, share) in enumerate(shares.items()):
        ax.barh([row], [100.0 * share], color=BLUE, height=0.4)
        ax.text(0.5, row - 0.24, plain(f"{100.0 * share:.1f} %: {details[name]}"), va="bottom")
    ax.set_yticks(range(len(shares)), [plain(name) for name in shares])
    ax.set_ylim(len(shares) - 0.5, -0.8)
    ax.set(xlabel=label, xlim=(0.0, 100.0))
    ax.set_title(plain(title), fontsize="medium")
    return ax

"""Plots of released numbers and of posterior draws: histograms, rows of draws, intervals, and counts of codes."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from privsample._checks import FloatArray
from privsample.plots.style import BLUE, ORANGE, axes_or_new, legend_of_several, plain

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MANY_DRAWS = 60  # draws beyond which single ticks cannot be told apart
_OVERLAID = 4  # histograms on one pair of axes that can be told apart
SHOWN = 40  # coordinates that are plotted
_LARGEST, _LEAST_RANGE = 1e307, 1e-12  # of the ends of a histogram; its relative width
_BARS = 20  # noisy copies whose intervals can be told apart
_MOST_NAMED = 40  # bars whose names can be read, with room for those of codes that were never released


@dataclass(frozen=True, slots=True)
class Coordinate:
    """The draws of one number: its label and its values, shape (draws,)."""

    label: str
    values: FloatArray


def plot_draws(
    ax: "Axes | None", shown: Sequence[Coordinate], *, count: int, xlabel: str, probability: float
) -> "Axes":
    """Plot the draws of the first of `count` coordinates: histograms of a few coordinates, one row for each of many.

    A row shows the median, the middle half and the equal-tailed interval, or every draw if there are few.
    """
    many = len(shown[0].values) > MANY_DRAWS
    if many and len(shown) <= _OVERLAID:
        return _histograms(axes_or_new(ax), shown, xlabel, probability)
    ax = axes_or_new(ax, rows=len(shown))
    for row, one in enumerate(shown):
        if many:
            tail = (1.0 - probability) / 2
            with np.errstate(invalid="ignore", over="ignore"):  # between infinite draws
                low, first, median, third, high = np.quantile(one.values, [tail, 0.25, 0.5, 0.75, 1.0 - tail])
            ax.plot([low, high], [row, row], color=ORANGE, linewidth=1.2)
            ax.plot([first, third], [row, row], color=ORANGE, linewidth=5, solid_capstyle="butt")
            ax.plot([median], [row], "o", color="white", markeredgecolor=ORANGE, markersize=6)
        else:
            ax.plot(one.values, np.full(len(one.values), row), "|", color=ORANGE, markersize=18, markeredgewidth=2)
    _rows(ax, shown, count)
    ax.set_xlabel(plain(xlabel if not many else f"{xlabel}: median, middle half and {probability:.0%} interval"))
    return ax


def plot_noisy(
    ax: "Axes | None", shown: Sequence[Coordinate], *, count: int, reach: float, probability: float, xlabel: str
) -> "Axes":
    """Plot each noisy copy of a statistic with the interval that covers the true value with the given probability.

    `shown` are the first of `count` coordinates.
    """
    ax = axes_or_new(ax, rows=len(shown))
    for row, one in enumerate(shown):
        copies = one.values[:_BARS]
        heights = row + (np.linspace(-0.25, 0.25, len(copies)) if len(copies) > 1 else np.zeros(1))
        label = f"released value, and the {probability:.0%} interval of the noise" if row == 0 else None
        ax.errorbar(copies, heights, xerr=reach, fmt="o", color=BLUE, markersize=4, capsize=3, label=label)
    _rows(ax, shown, count)
    ax.set_xlabel(plain(xlabel))
    ax.set_ylim(len(shown) - 0.4, -1.1)  # room for the legend above the first row
    ax.legend(frameon=False, loc="upper left")
    return ax


def plot_codes(ax: "Axes | None", codes: NDArray[np.integer], names: Sequence[str], *, xlabel: str) -> "Axes":
    """Plot how often each code was released; `names` label the codes 0, 1, ..., and may be empty."""
    labels, counts = code_counts(codes, names)
    ax = axes_or_new(ax)
    ax.bar([plain(label) for label in labels], counts, color=ORANGE, width=0.6)
    ax.set(xlabel=plain(xlabel), ylabel="number released")
    return ax


def code_counts(codes: NDArray[np.integer], names: Sequence[str]) -> tuple[list[str], NDArray[np.integer]]:
    """The label and the count of each code; of few codes that have a name, also those that were never released."""
    if 0 < len(names) <= _MOST_NAMED:
        return list(names), np.bincount(codes.astype(np.int64).ravel(), minlength=len(names))
    found, counts = np.unique(codes, return_counts=True)
    return [names[code] if code < len(names) else str(code) for code in found], counts


def histogram_edges(values: FloatArray, bins: int) -> FloatArray:
    """Edges of bins of equal width for the finite values. Raises ValueError if there are none.

    A few far draws of heavy tails would squeeze all others: a thousandth at either end lies beyond the edges.
    """
    finite = values[np.isfinite(values)].astype(np.float64)
    if not finite.size:
        raise ValueError("no draw is finite, so there is nothing to plot")
    finite = np.clip(finite, -_LARGEST, _LARGEST)  # the width of the whole range must not overflow
    for low, high in (np.quantile(finite, [0.001, 0.999]), (finite.min(), finite.max())):
        if high - low > _LEAST_RANGE * max(abs(low), abs(high)) and high - low > np.finfo(np.float64).tiny * bins:
            return np.linspace(low, high, bins + 1)
    middle, half = finite[0], max(0.5, abs(finite[0]) * _LEAST_RANGE)
    return np.linspace(middle - half, middle + half, bins + 1)


def _histograms(ax: "Axes", shown: Sequence[Coordinate], xlabel: str, probability: float) -> "Axes":
    """Overlaid densities on common bins, each with a bar below for its equal-tailed interval."""
    edges = histogram_edges(np.concatenate([one.values for one in shown]), 40)
    tails = [(1.0 - probability) / 2, (1.0 + probability) / 2]
    for row, one in enumerate(shown):
        density, _ = np.histogram(one.values, bins=edges)
        height = density / (len(one.values) * np.diff(edges))  # a share of all draws, also of those beyond the bins
        drawn = ax.stairs(height, edges, fill=len(shown) == 1, alpha=0.45 if len(shown) == 1 else 1.0, linewidth=1.6)
        drawn.set_label(plain(one.label))
        if len(shown) == 1:
            drawn.set_color(BLUE)
        else:
            drawn.set_edgecolor(f"C{row}")
        with np.errstate(invalid="ignore", over="ignore"):  # between infinite draws
            ends = np.quantile(one.values, tails)
        colour = BLUE if len(shown) == 1 else f"C{row}"
        place: dict[str, Any] = {"transform": ax.get_xaxis_transform(), "clip_on": False}
        label = f"{probability:.0%} interval" if len(shown) == 1 else None
        ax.plot(ends, [0.02 + 0.025 * row] * 2, color=colour, linewidth=4, label=label, solid_capstyle="butt", **place)
    ax.set(xlabel=plain(shown[0].label if len(shown) == 1 else xlabel), ylabel="density")
    legend_of_several(ax)
    return ax


def _rows(ax: "Axes", shown: Sequence[Coordinate], count: int) -> None:
    """One labelled row for each coordinate, the first at the top."""
    labels = [plain(one.label) for one in shown]
    ax.set_yticks(range(len(shown)), labels)
    ax.set_ylim(len(shown) - 0.4, -0.6)
    if count > len(shown):
        ax.set_title(f"the first {len(shown)} of {count} coordinates", fontsize="medium")

"""Plots of private hidden Markov chains."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privsample.plots.style import BLUE, GREY, ORANGE, SKY

_MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]
_LENGTHS = (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
_LEAST_LOSS = 1e-5  # nats a flight: the lower edge of the picture
_STATES = ("#d9e6f2", "#74a9d6", "#08306b")  # light to dark: distinguishable in print too


def calendars(
    figure: Any, panels: Sequence[tuple[str, NDArray[np.int64]]], shares: Sequence[float], words: str
) -> None:
    """Plot a calendar, one row for each month, coloured by state; `words` is the title of the legend with `shares`."""
    from matplotlib.colors import ListedColormap
    from matplotlib.patches import Patch

    grid = figure.subplots(len(panels), 1, squeeze=False)[:, 0]
    states = len(shares)
    for axes, (title, found) in zip(grid, panels, strict=True):
        table, start = np.full((12, 31), np.nan), 0
        for month, length in enumerate(_LENGTHS):
            table[month, :length] = found[start : start + length]
            start += length
        axes.pcolormesh(
            np.arange(32) + 0.5,
            np.arange(13) - 0.5,
            table,
            cmap=ListedColormap(_STATES[:states]),
            vmin=-0.5,
            vmax=states - 0.5,
            edgecolors="white",
            linewidth=0.6,
        )
        axes.set(title=title, xlabel="day of the month" if axes is grid[-1] else "")
        axes.set_yticks(range(12), _MONTHS, fontsize=8)
        axes.set_xticks([1, 5, 10, 15, 20, 25, 30])
        axes.invert_yaxis()
        axes.grid(visible=False)
        axes.tick_params(length=0)
        for spine in axes.spines.values():
            spine.set_visible(False)
    keys = [
        Patch(color=colour, label=f"state {k + 1}: {share:.1%} late")
        for k, (colour, share) in enumerate(zip(_STATES, shares, strict=False))
    ]
    figure.legend(handles=keys, loc="outside upper center", ncols=states, title=words, title_fontsize=9)


def bars(
    figure: Any, columns: Mapping[str, Sequence[Any]], apart: Mapping[str, tuple[float, float, str]], state: int
) -> None:
    """Plot shares of delays in a state and on all days, and the largest difference of a share by feature."""
    left, right = figure.subplots(1, 2)
    at = np.nonzero(np.array(columns["feature"]) == "delay")[0].tolist()
    places = np.arange(len(at))
    left.barh(places - 0.2, [columns["state"][k] for k in at], height=0.4, color=BLUE, label=f"state {state + 1}")
    left.barh(places + 0.2, [columns["all_days"][k] for k in at], height=0.4, color=GREY, label="all days")
    left.set_yticks(places, [columns["category"][k] for k in at])
    left.set(title=f"delay of departure on days in state {state + 1}", xlabel="share of flights")
    left.legend(loc="lower right")
    values = [value for value, _, _ in apart.values()]
    shown = right.barh(np.arange(len(apart)), values, height=0.6, color=BLUE)
    right.bar_label(shown, [f"{value:.3f}" for value in values], padding=4, fontsize=9)
    right.set_yticks(np.arange(len(apart)), [f"{name}: {category}" for name, (_, _, category) in apart.items()])
    right.set(title="largest difference, by feature", xlabel="difference from the share of all days")
    right.set_xlim(0, 1.2 * max(values))
    for axes in (left, right):
        axes.invert_yaxis()
        axes.grid(visible=False, axis="y")


def weeks(
    figure: Any, names: Sequence[str], states: NDArray[np.int64], shares: Sequence[float], epsilon: float
) -> None:
    """Plot the state of each week, one row for each region, (regions, weeks); `shares` are the legend's numbers."""
    from matplotlib.colors import ListedColormap
    from matplotlib.patches import Patch

    axes, count = figure.subplots(), len(shares)
    colours = ListedColormap(_STATES[:count])
    axes.pcolormesh(
        np.arange(states.shape[1] + 1) + 0.5,
        np.arange(len(names) + 1) - 0.5,
        states,
        cmap=colours,
        vmin=-0.5,
        vmax=count - 0.5,
        edgecolors="white",
        linewidth=0.4,
    )
    axes.set(xlabel="week of 2013", ylabel="carrier")
    axes.set_yticks(range(len(names)), names, fontsize=8)
    axes.invert_yaxis()
    axes.grid(visible=False)
    axes.tick_params(length=0)
    keys = [
        Patch(color=colour, label=f"state {k + 1}: {share:.1%} late")
        for k, (colour, share) in enumerate(zip(_STATES, shares, strict=False))
    ]
    words = f"state by the private release (ε = {epsilon:g}), and its mean share of flights an hour late or cancelled"
    figure.legend(handles=keys, loc="outside upper center", ncols=count, title=words, title_fontsize=9)


def ties(figure: Any, epsilons: Sequence[float], gaps: NDArray[Any], errors: NDArray[Any]) -> None:
    """Plot what common probabilities gain in held-out log likelihood, against epsilon."""
    axes = figure.subplots()
    axes.axhline(0.0, color=GREY, linewidth=1)
    axes.errorbar(epsilons, gaps, yerr=2 * errors, fmt="o-", color=BLUE, capsize=3, markersize=4)
    axes.set(xscale="log", xlabel="ε (nats)", ylabel="difference in held-out\nlog likelihood per flight (nats)")
    axes.set_xticks(epsilons, [f"{e:g}" for e in epsilons])
    axes.minorticks_off()
    low, high = float((gaps - 2 * errors).min()), float((gaps + 2 * errors).max())
    room = 0.3 * max(high, -low, high - low)  # for the two lines of text beside zero
    axes.set_ylim(min(low, -room) - room / 4, max(high, room) + room / 4)
    for side, words, align in (
        (1, "common probabilities of all carriers", "bottom"),
        (-1, "own probabilities of each carrier", "top"),
    ):
        axes.annotate(
            f"{words} predict better",
            (1.0, 0.0),
            xycoords=("axes fraction", "data"),
            xytext=(-4, 4 * side),
            textcoords="offset points",
            ha="right",
            va=align,
            fontsize=9,
        )
    axes.set_title("common less own probabilities; bars: ± 2 standard errors over splits", fontsize=9)


def likelihoods(figure: Any, epsilons: Sequence[float], panels: Mapping[str, Mapping[str, NDArray[Any]]]) -> None:
    """What privacy costs in held-out log likelihood, against epsilon: noisy histograms and tempered sweeps."""
    styles = {
        "noisy": (ORANGE, "o-", "noisy histograms"),
        "tempered": (BLUE, "s--", "tempered sweeps, probabilities truncated at 1/(10 K)"),
        "tempered_100": (SKY, "^:", "tempered sweeps, truncated at 1/(100 K)"),
    }
    for axes, (title, curves) in zip(figure.subplots(1, len(panels), sharey=True), panels.items(), strict=True):
        for name, (colour, style, label) in styles.items():
            loss, reach = curves["plain"] - curves[name], 2 * curves[f"{name}_standard_error"]
            shown = np.maximum(loss, _LEAST_LOSS)
            bars = np.array([shown - np.maximum(loss - reach, _LEAST_LOSS), np.maximum(loss + reach - shown, 0.0)])
            axes.errorbar(epsilons, shown, yerr=bars, fmt=style, color=colour, markersize=4, capsize=3, label=label)
        axes.set(xscale="log", yscale="log", title=title, xlabel="ε (nats)", ylim=(_LEAST_LOSS, 2.0))
        axes.set_xticks(epsilons, [f"{e:g}" for e in epsilons])
        axes.minorticks_off()
    figure.axes[0].set_ylabel("loss of held-out log likelihood\nper flight (nats)")
    words = "K: number of categories of a feature. Bars: ± 2 standard errors. Lower edge: no loss was measured."
    figure.legend(
        *figure.axes[0].get_legend_handles_labels(),
        loc="outside upper center",
        ncols=3,
        title=words,
        title_fontsize=8,
        fontsize=8,
    )

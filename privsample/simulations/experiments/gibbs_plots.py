"""Plots of private hidden Markov chains."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privsample.simulations.report.figures import BLUE, GREEN, GREY, ORANGE

_MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]
_LENGTHS = (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
SKY = "#56B4E9"  # with the others of `figures`
_STATES = ("#d9e6f2", "#74a9d6", "#08306b")  # light to dark: told apart in print too


def calendars(figure: Any, panels: Sequence[tuple[str, NDArray[np.int64]]], states: int) -> None:
    """One month a row, one day a square, coloured by its state, from 0."""
    from matplotlib.colors import ListedColormap
    from matplotlib.patches import Patch

    grid = figure.subplots(len(panels), 1, squeeze=False)[:, 0]
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
    keys = [Patch(color=colour, label=f"state {k + 1}") for k, colour in enumerate(_STATES[:states])]
    figure.legend(handles=keys, loc="outside right upper")


def bars(figure: Any, columns: Mapping[str, Sequence[Any]], shown: Sequence[str], state: int) -> None:
    """Shares in a state beside those of all days, one panel for each feature shown."""
    features = np.array(columns["feature"])
    for axes, feature in zip(figure.subplots(1, len(shown)), shown, strict=True):
        at = np.nonzero(features == feature)[0].tolist()
        names = [columns["category"][k] for k in at]
        places = np.arange(len(at))
        axes.barh(places - 0.2, [columns["state"][k] for k in at], height=0.4, color=BLUE, label=f"state {state + 1}")
        axes.barh(places + 0.2, [columns["all_days"][k] for k in at], height=0.4, color=GREY, label="all days")
        axes.set(title=feature, xlabel="share of flights")
        axes.set_yticks(places, names)
        axes.set_ylim(4.6, -0.6)  # bars of one width in all panels, the first on top
        axes.grid(visible=False, axis="y")
    figure.legend(*figure.axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=2)


def likelihoods(figure: Any, epsilons: Sequence[float], panels: Mapping[str, Mapping[str, Sequence[float]]]) -> None:
    """Held-out log likelihood of a record against epsilon: noisy histograms, tempered sweeps, and neither."""
    styles = {
        "noisy": (ORANGE, "o-", "noisy histograms"),
        "tempered": (BLUE, "s--", "tempered, M = 10"),
        "tempered_100": (SKY, "^:", "tempered, M = 100"),
    }
    for axes, (title, curves) in zip(figure.subplots(1, len(panels), sharey=True), panels.items(), strict=True):
        axes.axhline(curves["plain"][0], color=GREEN, linewidth=1.4, linestyle=":", label="not private")
        for name, (colour, style, label) in styles.items():
            reach = 2 * np.array(curves[f"{name}_standard_error"])
            axes.errorbar(
                epsilons, curves[name], yerr=reach, fmt=style, color=colour, markersize=4, capsize=3, label=label
            )
        axes.set(xscale="log", title=title, xlabel="ε, nats")
        axes.set_xticks(epsilons, [f"{e:g}" for e in epsilons])
        axes.minorticks_off()
    figure.axes[0].set_ylabel("log likelihood of a flight\non days left out, nats")
    figure.legend(*figure.axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=4)

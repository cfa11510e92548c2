"""Figures as SVG of public parameters and releases. Equal input gives equal bytes."""

import io
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from privsample._checks import FloatArray
from privsample._optional import require
from privsample._value import frozen_value
from privsample.accounting.base import Accountant
from privsample.accounting.curves.conversion import epsilon_from_renyi
from privsample.accounting.display import is_quick
from privsample.accounting.statement import rounded_up, shown_epsilon
from privsample.distributions.models.beta_bernoulli import BetaBernoulli
from privsample.distributions.parametric.conjugate import PosteriorDistribution
from privsample.mechanisms.posterior.conjugate import (
    BetaQuery,
    ConcentratedPosterior,
    DiffusedPosterior,
    PosteriorMechanism,
)
from privsample.mechanisms.release import Release
from privsample.plots.style import BLUE, DIVERGENCE, EPSILON, GREEN, GREY, ORANGE

MOST = 12  # coordinates of a draw that are shown
_MANY = 60  # draws above which single ticks overlap
_RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
_STYLE = {
    "font.size": 10,
    "axes.titlesize": 10,
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#e3e3e3",
    "grid.linewidth": 0.6,
    "axes.axisbelow": True,
    "lines.linewidth": 1.8,
    "legend.frameon": False,
    "legend.fontsize": 9,
    "svg.hashsalt": "privsample",
    "svg.fonttype": "path",
}


@contextmanager
def styled(*, maths: bool = False) -> Iterator[Any]:
    """Yield Matplotlib's Figure class with the style of the reports; the user's settings do not apply.

    `maths`: dollar signs in labels delimit formulas.

    Raises: ImportError.
    """
    require("matplotlib", "report", "a figure")
    import matplotlib as mpl
    from matplotlib.figure import Figure

    with mpl.rc_context():
        mpl.rcdefaults()
        settings: Any = mpl.rcParams
        settings.update(_STYLE | {"text.parse_math": maths})  # without, a dollar sign in a name is a dollar sign
        yield Figure


@contextmanager
def figure(panels: int = 1, height: float = 3.1) -> Iterator[tuple[list[Any], io.BytesIO]]:
    """Yield axes, one below the other, and the file to which the figure is written at the end."""
    file = io.BytesIO()
    with styled() as figure_class:
        empty = figure_class(figsize=(4.3, height), layout="constrained")
        axes = empty.subplots(panels, 1, squeeze=False)[:, 0]
        yield list(axes), file
        empty.savefig(file, format="svg", metadata={"Date": None})


def renyi_curves(kind: Literal["diffused", "concentrated"]) -> bytes:
    """Figures 5.1 and 5.2 of the thesis: Beta(6, 12) prior, n = 100, six data weights r or prior weights 1/m."""
    with figure(height=3.5) as ((axes,), file):
        plot_renyi(axes, renyi_data(kind))
    return file.getvalue()


def plot_renyi(axes: Any, curves: Sequence[tuple[str, FloatArray, FloatArray, float]]) -> None:
    """Plot the curves of `renyi_data`, each with its asymptote; the legend is above the axes."""
    from matplotlib import colormaps

    for curve, colour in zip(curves, colormaps["viridis"](np.linspace(0.0, 0.75, len(curves))), strict=True):
        label, orders, values, limit = curve
        # The end of the curve cannot be distinguished from the asymptote and is drawn as a line.
        axes.plot(np.append(orders, limit), np.append(values, 10.0), color=colour, label=label)
        axes.axvline(limit, color=colour, linewidth=1, linestyle=(0, (3, 3)))
    axes.set(xscale="log", xlim=(1.0, 75), ylim=(0, 1.6), xlabel="order α", ylabel=DIVERGENCE)
    axes.set_xticks([1, 2, 5, 10, 20, 50], ["1", "2", "5", "10", "20", "50"])
    axes.minorticks_off()
    axes.figure.legend(loc="outside upper left", ncols=3, columnspacing=1.2, handlelength=1.4)


def renyi_data(kind: Literal["diffused", "concentrated"]) -> list[tuple[str, FloatArray, FloatArray, float]]:
    """Return label, orders, divergences and order limit of each curve; from the order limit on it is infinite."""
    model, curves = BetaBernoulli(alpha=6, beta=12), []
    for share in (0.1, 0.3, 0.5, 0.7, 0.9, 1.0):
        made: PosteriorMechanism
        if kind == "diffused":
            made, label = DiffusedPosterior(model=model, n=100, data_weight=share), f"r = {share:g}"
        else:
            made, label = ConcentratedPosterior(model=model, n=100, prior_weight=1 / share), f"1/m = {1 / share:.3g}"
        limit = made.accountant.order_limit
        orders = 1 + (limit - 1) * np.append(np.geomspace(1e-3, 0.85, 70), -np.expm1(-np.linspace(2, 14, 50)))
        curves.append((label, orders, made.accountant.rdp(orders), limit))
    return curves


def privacy_curves(accounts: Sequence[tuple[str, Accountant]], *, delta: float, last: float | None = None) -> bytes:
    """The privacy curves: the exact curve if it is known, and the upper bound from the Rényi curve.

    `last` is the end of the epsilon axis, for pictures that share it; by default the axis ends behind the curves.
    """
    least = _least_delta(delta)
    marked = []
    with figure(height=3.3) as ((axes,), file):
        for (label, account), colour in zip(accounts, (BLUE, ORANGE, GREEN, GREY), strict=False):
            top = account.epsilon(least)
            if not np.isfinite(top):
                continue
            if account.kind("delta") == "exact":
                axes.plot(*cost_curve(account, float(top), least), color=colour, label=f"{label}, exact")
            if account.infinity_mass == 0.0:
                name = f"{label}, upper bound from the Rényi curve"
                axes.plot(*by_renyi(account, least), color=colour, linestyle=(0, (4, 2)), label=name)
            if delta >= least:
                marked.append((account, colour))
        if delta >= least:
            axes.axhline(delta, color=GREY, linewidth=0.9, linestyle=":")
        axes.set(yscale="log", ylim=(least, 1.0), xlabel=EPSILON, ylabel="δ")
        powers = range(0, int(np.floor(np.log10(least))) - 1, -2)
        axes.set_yticks([10.0**k for k in powers], ["1", *(f"10{str(k).translate(_RAISED)}" for k in powers[1:])])
        axes.minorticks_off()
        axes.set_xlim(0.0, last or axes.get_xlim()[1] * 1.08)
        for account, colour in marked:  # the place of a label depends on the limits
            _mark(axes, account, delta, colour)
        if axes.get_legend_handles_labels()[0]:
            axes.figure.legend(loc="outside upper left", ncols=1)
    return file.getvalue()


def risk_curve(account: Accountant) -> bytes:
    """The largest success of an attack on one record against its success without the release, both in percent."""
    baselines = np.geomspace(1e-3, 0.5, 25 if is_quick(account) else 9)
    success = account.risk(baselines)
    with figure(height=2.9) as ((axes,), file):
        axes.plot([0.1, 100.0], [0.1, 100.0], color=GREY, linewidth=0.9, linestyle=":")
        axes.plot(100 * baselines, 100 * success, color=BLUE)
        axes.set(xscale="log", yscale="log", xlim=(0.1, 50.0), ylim=(0.1, 115.0))
        axes.set(xlabel="success without the release (%)", ylabel="success with it, at most (%)")
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_major_formatter("{x:g}")
        axes.minorticks_off()
        at, most = 1.0, 100 * float(account.risk(0.01))
        axes.plot([at, at], [at, most], color=ORANGE, linewidth=1.2)
        axes.plot([at], [most], "o", color=ORANGE, markersize=6)
        text = f"1 % becomes at most {rounded_up(most, 3):g} %"
        axes.annotate(text, (at, most), (10, -20), textcoords="offset points")
    return file.getvalue()


def _least_delta(delta: float) -> float:
    """Return the smallest delta that is drawn: four powers of ten below the stated one, at most 1e-10."""
    return max(min(1e-10, delta / 1e4), 1e-20) if delta > 0 else 1e-10


def last_epsilon(account: Accountant, delta: float) -> float:
    """Return an epsilon behind which the curves of the account need not be drawn; inf if a curve has no end."""
    least = _least_delta(delta)
    exact = float(account.epsilon(least))
    if account.infinity_mass > 0.0 or not np.isfinite(exact):
        return exact
    return 1.08 * max(exact, float(by_renyi(account, least)[0].max()))


def cost_curve(account: Accountant, top: float, least: float) -> tuple[FloatArray, FloatArray]:
    """Return points (epsilon, delta) of the privacy curve up to `top`, delta bounded below for the log axis."""
    grid = np.linspace(0.0, top, 30)
    return grid, np.maximum(account.delta(grid), least / 10)


def mark(account: Accountant, delta: float) -> tuple[float, str]:
    """Return the position of the dot of an account, and its label: the epsilon of the privacy statement."""
    return float(account.epsilon(delta)), f"ε = {shown_epsilon(account, delta):.4g}"


def _mark(axes: Any, account: Accountant, delta: float, colour: str) -> None:
    """Plot a dot with its epsilon; the label of the leftmost curve is below it, those of the others above.

    The label is to the left of the leftmost curve, or to its right where it would lie on the axis.
    """
    epsilon, label = mark(account, delta)
    low = colour == BLUE
    axes.plot([epsilon], [delta], "o", color=colour, markersize=6, clip_on=False)
    beside_axis = low and epsilon < 0.3 * axes.get_xlim()[1]
    place: dict[str, Any] = {"ha": "right", "va": "top"} if low else {"ha": "left", "va": "bottom"}
    shift = (-6, -6) if low else (7, 5)
    if beside_axis:
        place["ha"], shift = "left", (20, -6)
    axes.annotate(label, (epsilon, delta), shift, textcoords="offset points", color=colour, **place)


def by_renyi(account: Accountant, least: float) -> tuple[FloatArray, FloatArray]:
    """Return points (epsilon, delta) converted from a table of the Rényi curve that is fine enough for a picture."""
    top = 12.0 if np.isinf(account.order_limit) else np.log(account.order_limit - 1)
    x = np.append(np.linspace(-8.0, top, 400, endpoint=False), top - np.logspace(-2, -9, 30))
    x.sort()
    table = account.rdp(1 + np.exp(x))
    logs = np.linspace(np.log(least), np.log(0.5), 24)
    limit = 1 + np.exp(x[-1])
    found = [epsilon_from_renyi(lambda a: np.interp(np.log(a - 1), x, table), limit, float(log)) for log in logs]
    return np.array(found), np.exp(logs)


@frozen_value
class Panel:
    """Densities of distributions on one axis, with draws as ticks below.

    `ends` are the values on the axis of 0 and 1 of the distributions: the bounds of a column that a query has scaled.
    """

    axis: str
    distributions: tuple[tuple[str, PosteriorDistribution], ...]
    draws: FloatArray
    ends: tuple[float, float] = (0.0, 1.0)
    title: str = ""


def densities(panels: Sequence[Panel]) -> bytes:
    """Distributions, one panel below the other with one range of the axis; the first distribution is filled."""
    ranges = np.array(
        [
            distribution.quantile(np.array([1e-4, 1 - 1e-4]))
            for panel in panels
            for _, distribution in panel.distributions
        ]
    )
    grid = np.linspace(ranges.min(), ranges.max(), 400)
    with figure(len(panels), 1.6 + (1.55 if panels[0].title else 1.3) * len(panels)) as (all_axes, file):
        for axes, panel in zip(all_axes, panels, strict=True):
            low, high = panel.ends
            for at, (label, distribution) in enumerate(panel.distributions):
                density = np.exp(distribution.log_density(grid)) / (high - low)
                scaled = low + (high - low) * grid
                if at == 0:
                    axes.fill_between(scaled, density, color=GREY, alpha=0.35, linewidth=0, label=label)
                else:
                    axes.plot(scaled, density, color=(BLUE, GREEN)[at % 2 - 1], label=label)
            _ticks(axes, low + (high - low) * panel.draws, label="released draws")
            axes.set(xlabel=panel.axis, yticks=[], title=panel.title)
            axes.set_ylim(bottom=0)
            axes.spines["left"].set_visible(False)
        handles = all_axes[0].get_legend_handles_labels()
        all_axes[0].figure.legend(*handles, loc="outside upper left", ncols=2)
    return file.getvalue()


def _ticks(axes: Any, draws: FloatArray, label: str) -> None:
    """Plot draws as short vertical lines at the bottom of the axes."""
    axes.plot(
        draws,
        np.full(len(draws), 0.06),
        "|",
        color=ORANGE,
        markersize=18,
        markeredgewidth=2 if len(draws) <= _MANY else 0.5,
        transform=axes.get_xaxis_transform(),
        label=label,
        zorder=4,
    )


def drawn(release: Release) -> NDArray[Any]:
    """Return the array of draws; if a release has several, the real-valued ones as (draws, coordinates)."""
    arrays = list(release.draws.values())
    if len(arrays) == 1:
        return arrays[0]
    return np.column_stack([array.reshape(len(array), -1) for array in arrays if array.dtype.kind == "f"])


def common_limits(releases: Sequence[Release]) -> tuple[float, float]:
    """Return limits of an axis that holds the draws of all these releases, with a margin of 12 %."""
    ends = []
    for release in releases:
        low, high = scale(release)
        draws = low + (high - low) * drawn(release)
        ends += [draws.min(), draws.max()]
    margin = 0.12 * (max(ends) - min(ends)) or 0.5
    return float(min(ends) - margin), float(max(ends) + margin)


def released(release: Release, limits: tuple[float, float] | None = None) -> bytes:
    """The released draws: one tick each, or for many draws the median, the central 50 % and the central 90 %."""
    draws = drawn(release)
    if draws.dtype.kind == "i":
        return _counts(draws.ravel())
    low, high = scale(release)
    rows = low + (high - low) * draws.reshape(len(draws), -1)
    shown, name = min(rows.shape[1], MOST), release.mechanism.quantity
    with figure(height=max(1.1 + 0.36 * shown, 2.2)) as ((axes,), file):
        for row in range(shown):
            if many(release):
                ends = np.quantile(rows[:, row], [0.05, 0.25, 0.5, 0.75, 0.95])
                axes.plot(ends[[0, 4]], [row, row], color=ORANGE, linewidth=1.2)
                axes.plot(ends[[1, 3]], [row, row], color=ORANGE, linewidth=5)
                axes.plot(ends[2], row, "o", color="white", markeredgecolor=ORANGE, markersize=6)
            else:
                style = {"color": ORANGE, "markersize": 20, "markeredgewidth": 2, "clip_on": False}
                axes.plot(rows[:, row], np.full(len(rows), row), "|", **style)
        names = next((names for names in release._names.values() if len(names) == rows.shape[1]), range(shown))
        axes.set_yticks(range(shown), [name] if rows.shape[1] == 1 else [f"{name} {k}" for k in names[:shown]])
        axes.set(ylim=(shown - 0.4, -0.6), xlabel="value of each draw")
        axes.spines["left"].set_visible(False)
        axes.tick_params(axis="y", length=0)
        axes.margins(x=0.12)
        if limits is not None:
            axes.set_xlim(*limits)
    return file.getvalue()


def scale(release: Release) -> tuple[float, float]:
    """Return the values that 0 and 1 of a draw represent: the bounds of a column that a query has scaled."""
    return release.mechanism.bounds if isinstance(release.mechanism, BetaQuery) else (0.0, 1.0)


def many(release: Release) -> bool:
    """True if there are too many draws for single ticks."""
    return max(len(draws) for draws in release.draws.values()) > _MANY


def _counts(answers: FloatArray) -> bytes:
    found, counts = np.unique(answers, return_counts=True)
    with figure(height=2.3) as ((axes,), file):
        axes.bar([str(code) for code in found], counts, color=ORANGE, width=0.6)
        axes.set(xlabel="answer", ylabel="number of answers")
        axes.grid(visible=False, axis="x")
    return file.getvalue()

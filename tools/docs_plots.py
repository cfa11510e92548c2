"""Pictures of the documentation site: vector graphics without a background, so that they follow dark mode."""

import io
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from privsample._checks import FloatArray
from privsample.accounting.assumptions import Assumption
from privsample.accounting.base import Accountant
from privsample.accounting.engine.bounds import Kind, View
from privsample.accounting.statement import shown_delta, shown_epsilon
from privsample.plots.style import BLUE, COLOURS, DELTA, EPSILON, ORANGE
from privsample.simulations.report import figures

VIEWS: dict[View, str] = {"rdp": "Rényi curve", "delta": "privacy curve", "epsilon": "ε(δ)"}
_HALVED_STEPS = 10  # of the curve of an account, at most
_STYLE = {
    "figure.figsize": (4.8, 3.1),
    "figure.constrained_layout.use": True,
    "font.size": 10,
    "axes.titlesize": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "legend.frameon": False,
    "legend.fontsize": 9,
    "svg.hashsalt": "privsample",  # equal figures give equal files
    "svg.fonttype": "path",
}


@contextmanager
def style() -> Iterator[None]:
    """Set Matplotlib's style for the figures of a page, without a window, and restore the style before it."""
    import matplotlib as mpl
    from cycler import cycler
    from matplotlib import pyplot as plt

    mpl.use("Agg")
    with mpl.rc_context():
        mpl.rcdefaults()
        settings: Any = mpl.rcParams
        settings.update(_STYLE)
        settings["axes.prop_cycle"] = cycler(color=COLOURS)
        yield
    plt.close("all")


def to_svg(value: Any) -> bytes:
    """Return SVG for a figure, axes, an array of axes, a collection of plots of ArviZ 1, or SVG text in bytes."""
    if isinstance(value, bytes):
        return value.replace(b"fill: #ffffff", b"fill: none")
    file = io.BytesIO()
    figure_of(value).savefig(file, format="svg", transparent=True, metadata={"Date": None})
    return file.getvalue()


def figure_of(value: Any) -> Any:
    """Return the Matplotlib figure that holds the value. Raises TypeError if there is none."""
    if hasattr(value, "savefig"):
        return value
    if hasattr(value, "viz"):  # a PlotCollection of ArviZ 1
        return value.viz["figure"].item()
    first = np.asarray(value, dtype=object).ravel()[0]
    if not hasattr(first, "figure"):
        raise TypeError(f"a figure or axes are needed, got {type(value).__name__}")
    return first.figure


def account_card(
    account: Accountant, expression: str, delta: float
) -> tuple[str, tuple[tuple[str, tuple[str, ...]], ...], Any]:
    """Return what an account says of itself: the text of its picture, titles with facts, and the figure."""
    point = f"ε = {shown_epsilon(account, delta):.4g} at δ = {shown_delta(delta)}"
    facts = {
        "Neighbours": [account.relation.description],
        "In the example": [point],
        "Kind": [f"{words}: {', '.join(views)}" for words, views in by_kind(account).items()],
        "Source": account.source.split("; "),
        "Assumptions": [f"`{one.name}`: {one.value}" for one in Assumption if one in account.assumptions] or ["none"],
    }
    shown = tuple((title, tuple(lines)) for title, lines in facts.items())
    return f"the privacy curve of {expression}: {point}", shown, cost_picture(account, delta)


def by_kind(account: Accountant) -> dict[Kind, list[str]]:
    """The account's views, by their kind."""
    found: dict[Kind, list[str]] = {}
    for view, words in VIEWS.items():
        found.setdefault(account.kind(view), []).append(words)
    return found


def cost_picture(account: Accountant, delta: float) -> Any:
    """Return a figure of delta against epsilon: the account, and the bound that follows from its Rényi curve alone."""
    least = min(1e-10, delta / 1e4)
    with figures.styled(maths=True) as figure_class:
        figure = figure_class(figsize=(4.8, 3.1), layout="constrained")
        axes = figure.subplots()
        label = {"exact": "privacy curve", "upper bound": "privacy curve, upper bound"}[account.kind("delta")]
        axes.plot(*curve(account, least), color=BLUE, label=label)
        if account.infinity_mass == 0.0:
            epsilons, at = figures.by_renyi(account, least)
            kept = (epsilons > 0) & np.isfinite(epsilons)
            style = {"color": ORANGE, "linestyle": (0, (4, 2)), "label": "from the Rényi curve alone"}
            axes.plot(epsilons[kept], at[kept], **style)
        epsilon, words = figures.mark(account, delta)
        axes.plot([epsilon], [delta], "o", color=BLUE, clip_on=False)
        place = {"textcoords": "offset points", "ha": "right", "va": "top", "color": BLUE}
        axes.annotate(words, (epsilon, delta), (-7, -5), **place)
        axes.set(yscale="log", ylim=(least, 1.0), xlim=(0.0, None), xlabel=EPSILON, ylabel=DELTA)
        axes.minorticks_off()
        figure.legend(loc="outside upper left", ncols=2)
    return figure


def curve(account: Accountant, least: float) -> tuple[FloatArray, FloatArray]:
    """Points (epsilon, delta) of the privacy curve: at even steps of epsilon, and more of them where it is steep.

    The steps in which the curve falls most are halved. An epsilon is infinite where delta is smaller than the infinity
    mass, at which the curve goes on to the right.
    """
    end, room = float(account.epsilon(least)), 1.0
    if not np.isfinite(end):
        wider = (float(account.epsilon(delta)) for delta in np.geomspace(least, 0.1, 12)[1:])
        end, room = next(filter(np.isfinite, wider)), 1.25
    epsilons, deltas = figures.cost_curve(account, end * room, least)
    for _ in range(_HALVED_STEPS):
        falls = -np.diff(np.log(deltas))
        if falls.max() < falls.sum() / 15:
            break
        steepest = int(np.argmax(falls))
        middle = (epsilons[steepest] + epsilons[steepest + 1]) / 2
        epsilons = np.insert(epsilons, steepest + 1, middle)
        deltas = np.insert(deltas, steepest + 1, max(float(account.delta(middle)), least / 10))
    return epsilons, deltas

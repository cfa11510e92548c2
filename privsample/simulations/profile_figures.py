"""The figures of thesis chapter 7 redrawn: what hiding profiles costs beside hiding every observation.

`python -m privsample.simulations.profile_figures FOLDER` writes each as PNG, with its numbers as CSV beside it.
Source: Geumlek 2020, section 7.6, Figures 7.2-7.8. The table of profiles behind Figures 7.3
and 7.4 is lost in our copy: three profiles of our own stand in for it.
"""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from privsample._checks import FloatArray
from privsample._value import value
from privsample.distributions.profile_graph import ProfileGraph
from privsample.mechanisms.profile_base import ProfileMechanism
from privsample.mechanisms.profiles import LocalResponse, OneBit, SmoothCategorical, SmoothOneBit
from privsample.simulations.figures import BLUE, GREEN, GREY, ORANGE

# Symbols 0 and 1 tell the profiles apart, 2 and 3 hardly: a stand-in for thesis Table 7.1. Each symbol lies 0.15 from
# one quarter in some profile, so that the four curves of the baseline fall together as in Figure 7.3.
STAND_IN = {"P1": (0.40, 0.12, 0.10, 0.38), "P2": (0.27, 0.23, 0.10, 0.40), "P3": (0.11, 0.40, 0.12, 0.37)}
EPSILONS = np.geomspace(0.02, 5.0, 40)
_MARK = 0.2  # the privacy level that the thesis marks
_STYLE = {
    "font.size": 9.5,
    "axes.titlesize": 10,
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#e6e6e6",
    "grid.linewidth": 0.6,
    "axes.axisbelow": True,
    "lines.linewidth": 1.7,
    "legend.frameon": False,
    "legend.fontsize": 9,
}


@value
class Curves:
    """Values of several curves, (points, curves), at `x` (points,): one panel of a figure."""

    title: str
    across: str
    along: str
    x: FloatArray
    labels: tuple[str, ...]
    values: FloatArray


def couplet(epsilon: float = 1.0, first: float = 0.05) -> Curves:
    """Figure 7.2: the flip that two Bernoulli profiles need against how far apart they are, beside Warner's."""
    gaps = np.linspace(0.0, 1.0 - first, 96)[1:]
    graphs = [ProfileGraph(profiles={"a": first, "b": first + gap}, edges=[("a", "b")]) for gap in gaps.tolist()]
    columns = [
        [float(made(graph=graph, epsilon=epsilon).largest_change) for graph in graphs]
        for made in (LocalResponse, OneBit, SmoothOneBit)
    ]
    return Curves(
        title=f"Bernoulli-Couplet, ε = {epsilon:g}, first profile p = {first:g}",
        across="difference between the two profiles' parameters",
        along="largest flipping probability",
        x=gaps,
        labels=("local privacy (Warner)", "One Bit: one flip for both", "Smooth One Bit: a flip for each"),
        values=np.column_stack(columns),
    )


def categorical(made: Callable[..., ProfileMechanism], title: str, epsilons: FloatArray = EPSILONS) -> Curves:
    """Figures 7.3 and 7.4: for each symbol the largest change of its probability over the profiles of a chain of three.

    cost_j = max_i |P_i(j) - (P_i A_i)(j)|, thesis (7.9).
    """
    graph = ProfileGraph(profiles=STAND_IN, edges=[("P1", "P2"), ("P2", "P3")])
    costs = [np.abs(made(graph=graph, epsilon=e).laws - graph.laws).max(axis=0) for e in epsilons.tolist()]
    return Curves(
        title=title,
        across="ε, nats",
        along="largest change of a symbol's probability",
        x=epsilons,
        labels=tuple(f"symbol {j}" for j in range(graph.symbols)),
        values=np.array(costs),
    )


def chain(made: Callable[..., ProfileMechanism], count: int, title: str, epsilons: FloatArray = EPSILONS) -> Curves:
    """Figures 7.5-7.8: the probability of releasing 1 for each of `count` Bernoulli profiles in a chain on [0, 1]."""
    p = np.linspace(0.0, 1.0, count)
    graph = ProfileGraph(profiles=p, edges=[(k, k + 1) for k in range(count - 1)])
    ones = [made(graph=graph, epsilon=e).laws[:, 1] for e in epsilons.tolist()]
    return Curves(
        title=title,
        across="ε, nats",
        along="P(output = 1)",
        x=epsilons,
        labels=tuple(f"p = {share:.3g}" for share in p.tolist()),
        values=np.array(ones),
    )


def figures(epsilons: FloatArray = EPSILONS) -> dict[str, tuple[Curves, ...]]:
    """All panels by the name of their file."""
    local, ours = "local privacy", "profile-based"
    return {
        "figure-7.2": (couplet(),),
        "figure-7.3-and-7.4": (
            categorical(LocalResponse, f"{local}: K-ary response (stand-in profiles)", epsilons),
            categorical(SmoothCategorical, f"{ours}: Smooth Categorical (stand-in profiles)", epsilons),
        ),
        "figure-7.5-to-7.8": (
            chain(LocalResponse, 6, f"{local}, Bernoulli-Chain-6", epsilons),
            chain(LocalResponse, 21, f"{local}, Bernoulli-Chain-21", epsilons),
            chain(SmoothOneBit, 6, f"{ours}, Bernoulli-Chain-6", epsilons),
            chain(SmoothOneBit, 21, f"{ours}, Bernoulli-Chain-21", epsilons),
        ),
    }


def draw(panels: tuple[Curves, ...], path: Path) -> None:
    """The panels, at most two in a row, as a PNG file; panels of one figure share their axes."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    wide = min(len(panels), 2)
    high = len(panels) // wide
    with mpl.rc_context():
        mpl.rcdefaults()
        settings: Any = mpl.rcParams
        settings.update(_STYLE)
        figure = Figure(figsize=(4.4 * wide + 0.8 * (wide == 1), 3.3 * high), layout="constrained", dpi=160)
        axes = figure.subplots(high, wide, squeeze=False, sharex=True, sharey=True)
        for place, panel in zip(axes.flat, panels, strict=True):
            _panel(place, panel)
        if not panels[0].labels[0].startswith("p ="):
            axes[0, 0].set_ylim(bottom=0.0)
        for row in axes:
            row[0].set_ylabel(panels[0].along)
        for place in axes[-1]:
            place.set_xlabel(panels[0].across)
        figure.savefig(path)


def _panel(axes: Any, panel: Curves) -> None:
    axes.set_title(panel.title)
    if panel.labels[0].startswith("p ="):
        _spread(axes, panel)
        return
    styles = [(GREY, (0, (5, 2))), (ORANGE, "-"), (BLUE, "-")] if len(panel.labels) == 3 else _SYMBOLS
    for (colour, dashes), label, values in zip(styles, panel.labels, panel.values.T, strict=True):
        axes.plot(panel.x, values, color=colour, linestyle=dashes, label=label)
    axes.set_xlim(panel.x[0], panel.x[-1])
    if len(panel.labels) == 4:
        _logarithmic(axes)
    axes.legend()


_SYMBOLS = [(BLUE, "-"), (ORANGE, (0, (6, 2))), (GREEN, (0, (3, 1.5))), (GREY, (0, (1, 1.2)))]


def _spread(axes: Any, panel: Curves) -> None:
    """One line a profile, from dark to light; the ends and the middle named where they leave the panel."""
    from matplotlib import colormaps

    count = len(panel.labels)
    named = range(count) if count < 10 else (0, count // 4, count // 2, 3 * count // 4, count - 1)
    for k, (colour, values) in enumerate(
        zip(colormaps["viridis"](np.linspace(0, 0.9, count)), panel.values.T, strict=True)
    ):
        axes.plot(panel.x, values, color=colour, linewidth=1.7 if count < 10 else 1.1)
        if k in named:
            axes.annotate(
                panel.labels[k],
                (panel.x[-1], values[-1]),
                (4, 0),
                textcoords="offset points",
                va="center",
                fontsize=8,
                color=colour,
                annotation_clip=False,
            )
    axes.axvline(_MARK, color=GREY, linewidth=1.0, linestyle=(0, (4, 2)))
    axes.annotate(f"ε = {_MARK:g}", (_MARK, 1.0), (4, -1), textcoords="offset points", va="top", fontsize=8, color=GREY)
    axes.set_ylim(-0.02, 1.02)
    axes.set_xlim(panel.x[0], panel.x[-1])
    _logarithmic(axes)


def _logarithmic(axes: Any) -> None:
    axes.set_xscale("log")
    marks = [0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5]
    axes.set_xticks(marks, [f"{mark:g}" for mark in marks])
    axes.minorticks_off()


def table(panels: tuple[Curves, ...]) -> str:
    """The numbers as CSV, one line a point: panel, curve, x, y."""
    lines = [f'panel,curve,"{panels[0].across}","{panels[0].along}"']
    for panel in panels:
        for label, values in zip(panel.labels, panel.values.T, strict=True):
            lines += [f'"{panel.title}","{label}",{x:.9g},{y:.9g}' for x, y in zip(panel.x, values, strict=True)]
    return "\n".join(lines) + "\n"


def main(arguments: list[str] | None = None) -> int:
    """Write all figures into a folder, which is made if need be."""
    given = sys.argv[1:] if arguments is None else arguments
    if len(given) != 1:
        print("usage: python -m privsample.simulations.profile_figures FOLDER", file=sys.stderr)
        return 2
    folder = Path(given[0])
    folder.mkdir(parents=True, exist_ok=True)
    for name, panels in figures().items():
        draw(panels, folder / f"{name}.png")
        (folder / f"{name}.csv").write_text(table(panels), encoding="utf-8")
        print(folder / f"{name}.png")
    return 0


if __name__ == "__main__":
    sys.exit(main())

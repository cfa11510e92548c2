"""Papernot and Steinke's Figures 2-8 redrawn, their bounds dashed and ours solid: PNG and CSV in one folder.

Run `python -m privsample.simulations.selection_figures FOLDER`.
"""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from privsample._checks import FloatArray
from privsample._value import value
from privsample.simulations import selection_data as data
from privsample.simulations.figures import BLUE, GREEN, GREY, ORANGE
from privsample.simulations.selection_data import Curve

PURPLE, BLACK = "#8E4585", "#222222"
_LINES: dict[str, dict[str, Any]] = {
    "ours": {"linestyle": "-", "linewidth": 2.0},
    "printed": {"linestyle": (0, (4, 2)), "linewidth": 1.4},
    "naive": {"linestyle": ":", "linewidth": 1.8, "color": GREY},
    "base": {"linestyle": "-", "linewidth": 1.0, "color": GREY},
    "floor": {"linestyle": "-.", "linewidth": 1.8, "color": BLACK},
}


@value
class Figure:
    """A figure: its curves, and what is written around them."""

    name: str
    title: str
    x: str
    y: str
    curves: tuple[Curve, ...]
    axes: dict[str, Any]


def figures() -> list[Figure]:
    """All of them, computed: about a minute."""
    known = data.costs(data.MEANS)
    at = "ε at δ = 10⁻⁶"
    renyi = {"x": "order α", "y": "Rényi divergence ε(α), nats"}
    return [
        Figure(
            name="fig2",
            title="Best of a logarithmic number of runs, by its mean",
            curves=tuple(data.figure_2()),
            axes={"ylim": (0, 7), "xlim": (1, 20), "xticks": (1, 5, 10, 15, 20)},
            **renyi,
        ),
        Figure(
            name="fig3",
            title="Best of ten runs on average, by law",
            curves=tuple(data.figure_3()),
            axes={"ylim": (0, 7), "xlim": (1, 20), "xticks": (1, 5, 10, 15, 20)},
            **renyi,
        ),
        Figure(
            name="fig4",
            title="What a number of runs costs",
            x=at,
            y="expected number of runs",
            curves=tuple(data.figure_4(known)),
            axes={"yscale": "log", "xlim": (1.5, 8), "ylim": (1, 1000)},
        ),
        Figure(
            name="fig5",
            title="Expected quantile of the released run\n(1.5 to 1000 runs on average)",
            x=at,
            y="expected quantile",
            curves=tuple(data.figure_5(known)),
            axes={"xlim": (1.5, 8), "ylim": (0.5, 1)},
        ),
        Figure(
            name="fig6",
            title="Chance of a good run, one in a hundred being good\n(1.5 to 1000 runs on average)",
            x=at,
            y="probability",
            curves=tuple(data.figure_6(known)),
            axes={"xlim": (1.5, 8), "ylim": (0, 1)},
        ),
        Figure(
            name="fig7",
            title="Accuracy of the winner on handwritten digits\n(stand-in for the paper's network on MNIST)",
            x=at,
            y="mean accuracy on public test digits",
            curves=tuple(data.figure_7(known, digits())),
            axes={"xlim": (1.5, 8)},
        ),
        Figure(
            name="fig8",
            title="Runs until one is good enough (the three points\ncost 0.1 α at this order only, the noise at all)",
            curves=tuple(data.figure_8()),
            axes={"ylim": (0, 7), "xlim": (2, 30)},
            **renyi,
        ),
    ]


def digits(runs: int = 200, steps: int = 20) -> FloatArray:
    """Test accuracies of 0.1-zCDP runs on scikit-learn's digits, each with its own random learning rate; (runs,).

    Softmax regression by full-batch gradient descent, each record's gradient clipped to norm one, Gaussian noise of
    deviation sqrt(steps/(2 rho)) on their sum. Half the digits train, the other half are taken for public. Seeded:
    this is a simulation, not a release.
    """
    from sklearn.datasets import load_digits

    rng = np.random.default_rng(20220407)
    images, labels = load_digits(return_X_y=True)
    shuffled = rng.permutation(len(labels))
    x = np.append(images / 16.0, np.ones((len(labels), 1)), axis=1)[shuffled]
    targets = np.eye(10)[labels[shuffled]]
    half = len(x) // 2
    noise = (steps / (2 * data.RHO)) ** 0.5
    length = np.sqrt((x[:half] ** 2).sum(axis=1, keepdims=True))
    found = []
    for rate in 10.0 ** rng.uniform(-4.0, 0.0, runs):
        weights = np.zeros((x.shape[1], 10))
        for _ in range(steps):
            scores = np.exp(x[:half] @ weights - (x[:half] @ weights).max(axis=1, keepdims=True))
            residual = scores / scores.sum(axis=1, keepdims=True) - targets[:half]
            norm = length * np.sqrt((residual**2).sum(axis=1, keepdims=True))
            total = x[:half].T @ (residual / np.maximum(norm, 1.0))
            weights -= rate * (total + noise * rng.standard_normal(total.shape))
        hits = (x[half:] @ weights).argmax(axis=1) == targets[half:].argmax(axis=1)
        found.append(float(hits.mean()))
    return np.array(found)


def draw(figure: Figure, folder: Path) -> None:
    """Write name.png and name.csv."""
    try:
        import matplotlib as mpl
        from matplotlib.figure import Figure as Canvas
    except ImportError:
        raise ImportError("figures need matplotlib: pip install 'privsample[report]'") from None
    with mpl.rc_context():
        mpl.rcdefaults()
        canvas = Canvas(figsize=(6.4, 4.4), layout="constrained", dpi=160)
        axes = canvas.subplots()
        colours = _colours(figure.curves)
        for curve in figure.curves:
            style = {"color": colours.get(curve.label, GREY)} | _LINES[curve.whose]
            axes.plot(curve.x, curve.y, **style)
        axes.set(xlabel=figure.x, ylabel=figure.y, **figure.axes)
        axes.set_title(figure.title, loc="left", fontsize=11)
        axes.grid(color="#e6e6e6", linewidth=0.6)
        axes.set_axisbelow(True)
        axes.spines[["top", "right"]].set_visible(False)
        _legend(axes, figure.curves, colours)
        canvas.savefig(folder / f"{figure.name}.png")
    rows = ["curve,bound,x,y"]
    rows += [f'"{c.label}",{c.whose},{x:.10g},{y:.10g}' for c in figure.curves for x, y in zip(c.x, c.y, strict=True)]
    (folder / f"{figure.name}.csv").write_text("\n".join(rows) + "\n", encoding="utf-8")


def _colours(curves: Sequence[Curve]) -> dict[str, str]:
    """One colour for each label that has bounds of both."""
    labels = dict.fromkeys(curve.label for curve in curves if curve.whose in ("ours", "printed"))
    return dict(zip(labels, (BLUE, ORANGE, GREEN, PURPLE), strict=False))


def _legend(axes: Any, curves: Sequence[Curve], colours: dict[str, str]) -> None:
    """Colours for labels, then what solid and dashed mean, then the rest, beside the axes."""
    from matplotlib.lines import Line2D

    shared = len({curve.whose for curve in curves if curve.label in colours}) > 1 and len(colours) > 2
    entries = [Line2D([], [], color=colour, linewidth=2.0, label=label) for label, colour in colours.items()]
    if shared:
        entries += [
            Line2D([], [], color=BLACK, label="ours", **_LINES["ours"]),
            Line2D([], [], color=BLACK, label="as printed", **_LINES["printed"]),
        ]
    else:
        whose = {curve.label: curve.whose for curve in curves}
        for entry, label in zip(entries, colours, strict=True):
            entry.set(**_LINES[whose[label]])
    entries += [Line2D([], [], label=c.label, **_LINES[c.whose]) for c in curves if c.label not in colours]
    axes.figure.legend(handles=entries, loc="outside right upper", frameon=False, fontsize=9)


def main(arguments: Sequence[str]) -> int:
    """Write all figures to the folder named."""
    folder = Path(arguments[0] if arguments else "figures")
    folder.mkdir(parents=True, exist_ok=True)
    for figure in figures():
        draw(figure, folder)
    print(f"wrote {folder}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

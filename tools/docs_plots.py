"""Pictures of the documentation site: vector graphics without a background, so that they follow dark mode."""

import io
from typing import Any

import numpy as np

from privsample.plots.style import COLOURS

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


def configure() -> None:
    """Set Matplotlib's style for the figures of a page, without a window."""
    import matplotlib as mpl
    from cycler import cycler
    from matplotlib import pyplot as plt

    mpl.use("Agg")
    plt.close("all")
    mpl.rcdefaults()
    settings: Any = mpl.rcParams
    settings.update(_STYLE)
    settings["axes.prop_cycle"] = cycler(color=COLOURS)


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

"""Styles of the mechanisms of section 5.4 of the thesis, and the axes that its figures share."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from privsample._checks import FloatArray
from privsample.plots.style import BLUE, GREEN, GREY, ORANGE
from reproduction import posterior_distributions as distributions

EPSILONS = np.geomspace(1e-3, 10.0, 33)
TRUE = "true posterior"
MADE: dict[str, distributions.MixtureBuilder] = {
    "diffused": distributions.diffused,
    "concentrated": distributions.concentrated,
    "Gaussian noise": distributions.gaussian,
    "Gaussian, cost as published": distributions.gaussian_as_published,
    "noise-aware": distributions.noise_aware,
}
_LABELS = {
    TRUE: "true posterior, not private",
    "diffused": "diffused posterior (Algorithm 2)",
    "concentrated": "concentrated posterior (Algorithm 3)",
    "Gaussian noise": "posterior of a count with Gaussian noise",
    "Gaussian, cost as published": "the same, with ε as stated in the thesis",
    "noise-aware": "noise-aware posterior, discrete Gaussian",
}
_LINES: dict[str, dict[str, Any]] = {
    TRUE: {"color": GREY, "linewidth": 1.2},
    "diffused": {"color": BLUE},
    "concentrated": {"color": ORANGE},
    "Gaussian noise": {"color": GREEN},
    "Gaussian, cost as published": {"color": GREEN, "linewidth": 1.3, "linestyle": (0, (3, 2))},
    "noise-aware": {"color": "#8E4585", "linestyle": (0, (6, 1.5))},
}


def lines(axes: Any, x: FloatArray, values: Mapping[str, FloatArray]) -> None:
    """Plot one line for each mechanism against epsilon, on a logarithmic axis."""
    for name, y in values.items():
        axes.plot(x, y, label=_LABELS[name], **_LINES[name])
    axes.set_xscale("log")
    axes.set_xlim(x[0], x[-1])
    axes.set_xticks([1e-3, 1e-2, 0.1, 1, 10], ["0.001", "0.01", "0.1", "1", "10"])
    axes.minorticks_off()


def mark(axes: Any, direct: float, label: str = "") -> None:
    """Mark the epsilon of a draw from the true posterior, if it is finite."""
    if np.isfinite(direct):
        axes.axvline(direct, color=GREY, linewidth=0.9, linestyle=":")
        axes.annotate(
            label, (direct, 0.97), (4, 0), xycoords=("data", "axes fraction"), textcoords="offset points", va="top",
            fontsize=8, color=GREY,
        )  # fmt: skip

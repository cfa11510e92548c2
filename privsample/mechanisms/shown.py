"""How releases show themselves."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from privsample._checks import number
from privsample.distributions.noise import Noise
from privsample.mechanisms.intervals import Names, coordinates
from privsample.plots.draws import plot_codes, plot_draws, plot_noisy

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def plot_release(
    mechanism: Any, draws: Mapping[str, NDArray[Any]], names: Names, ax: "Axes | None", probability: float
) -> "Axes":
    """Plot a release of `mechanism`; see `Release.plot`."""
    if not 0.0 < number(probability=probability) < 1.0:
        raise ValueError(f"probability must lie in (0, 1), got {probability!r}")
    found, noise = coordinates(draws, names), mechanism._noise_distribution
    if found and noise is not None:
        reach = noise_reach(noise, probability)
        return plot_noisy(ax, found, reach=reach, probability=probability, xlabel=mechanism.quantity)
    if found:
        return plot_draws(ax, found, xlabel=mechanism.quantity, probability=probability)
    codes = {name: array for name, array in draws.items() if array.size}
    if not codes:
        raise ValueError("the release holds no draws, so there is nothing to plot")
    name, array = next(iter(codes.items()))
    return plot_codes(ax, array, names.get(name, ()), xlabel=mechanism.quantity)


def noise_reach(noise: Noise, probability: float) -> float:
    """The least distance that the absolute noise exceeds with at most the remaining probability, rounded up."""
    goal = float(np.log1p(-probability))
    low, high = -1.0, noise.reach(goal)  # `reach` is an upper bound with a closed form, far from tight
    for _ in range(60):
        middle = (low + high) / 2
        within = bool(noise.log_tail(np.array(middle)) <= goal)
        low, high = (low, middle) if within else (middle, high)
    return float(np.floor(high)) if noise.whole else high

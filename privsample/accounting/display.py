"""How an account shows itself: the points of its curves."""

from typing import TYPE_CHECKING, Any

import numpy as np

from privsample._checks import FloatArray, one_of
from privsample._repr import short_repr
from privsample.accounting.curves.tradeoff import tradeoff_bound
from privsample.plots.curves import CURVE_VIEWS, CurveView, plot_curve

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from privsample.accounting.base import Accountant

LEAST_DELTA = 1e-10  # smallest delta that a plot shows
_POINTS, _LABEL = 80, 60
_LARGEST_ORDER = 100.0


def plot_account(
    account: "Accountant", view: CurveView, ax: "Axes | None", label: str | None, style: dict[str, Any]
) -> "Axes":
    """Plot one curve of an account; see `Accountant.plot`."""
    if not one_of(view, CURVE_VIEWS):
        raise ValueError(f"view must be 'delta', 'tradeoff' or 'renyi', got {view!r}")
    x, y = curve_points(account, view)
    name = short_repr(account, _LABEL).replace("Accountant(", "(") if label is None else label
    return plot_curve(ax, x, y, view=view, label=name, style=style)


def curve_points(account: "Accountant", view: CurveView, points: int = _POINTS) -> tuple[FloatArray, FloatArray]:
    """Points of a curve: (epsilon, delta), (type I error, type II error) or (order, Rényi divergence).

    Raises ValueError if the account promises nothing that this view could show.
    """
    if view == "renyi":
        return _renyi_points(account, points)
    epsilons = np.linspace(0.0, last_epsilon(account), points)
    deltas = np.asarray(account.delta(epsilons))
    if view == "delta":
        return epsilons, deltas
    if account.pure_epsilon < np.inf:  # beyond it the privacy curve no longer falls
        epsilons = np.append(epsilons, account.pure_epsilon)
        deltas = np.append(deltas, account.delta(account.pure_epsilon))
    # The curve is steep at both ends: half of the points lie near 0, where the bound falls fastest.
    type_1 = np.unique(np.concatenate([np.linspace(0.0, 1.0, points), np.geomspace(1e-6, 0.1, points)]))
    return type_1, tradeoff_bound(epsilons, deltas, type_1)


def last_epsilon(account: "Accountant") -> float:
    """The epsilon at which a plot of the privacy curve ends: where delta is negligible, or where it stops falling."""
    least = LEAST_DELTA + 1.5 * account.infinity_mass
    last = float(account.epsilon(least)) if least < 1.0 else np.inf
    if not np.isfinite(last):
        raise ValueError(
            f"the account has no finite epsilon at delta = {least:.3g}, so there is no curve to plot: "
            f"its infinity mass is {account.infinity_mass:.3g}"
        )
    return max(last, 1e-3)


def _renyi_points(account: "Accountant", points: int) -> tuple[FloatArray, FloatArray]:
    limit = min(account.order_limit, _LARGEST_ORDER)
    if not limit > 1.0:
        raise ValueError(
            "the account has no finite Rényi divergence at any order: its infinity mass is "
            f"{account.infinity_mass:.3g}; use view='delta' or view='tradeoff'"
        )
    # Orders are spaced evenly in log(order), and end just below the limit, where the divergence is still finite.
    orders = np.geomspace(1.0, limit, points + 1)[1:]
    if limit == account.order_limit:
        orders[-1] = limit - 1e-3 * (limit - orders[-2])
    return orders, np.asarray(account.rdp(orders))

"""How an account shows itself: plots of its curves, its epsilon in one line, and its card in a notebook."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from privsample._checks import FloatArray, one_of
from privsample._repr import WIDTH, short_repr
from privsample.accounting.curves.tradeoff import tradeoff_bound, tradeoff_corners
from privsample.plots.curves import CURVE_VIEWS, CurveView, plot_curve
from privsample.plots.html import card, lines_picture, text_or_empty
from privsample.plots.style import DELTA, EPSILON

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from privsample.accounting.base import Accountant

LEAST_DELTA = 1e-10  # smallest delta that a plot shows
_POINTS, _LABEL = 80, 60
_LARGEST_ORDER = 100.0
_SMALL_EPSILON = 1e-3  # end of the plot of an account whose delta is negligible at epsilon = 0
_LARGEST_EPSILON = 700.0  # e^epsilon is finite below it
_QUICK = 1000.0  # cost of a curve, in values of a closed form, up to which a repr computes epsilon
_FEW_POINTS = 30
_CARD_DELTA = 1e-6  # delta of the epsilon in a card
_MEMBERS = 3  # accounts of a composition that a repr shows


def plot_account(
    account: "Accountant", view: CurveView, ax: "Axes | None", label: str | None, style: dict[str, Any]
) -> "Axes":
    """Plot one curve of an account; see `Accountant.plot`."""
    if not one_of(view, CURVE_VIEWS):
        raise ValueError(f"view must be 'delta', 'tradeoff' or 'renyi', got {view!r}")
    x, y = curve_points(account, view)
    name = short_repr(account, _LABEL).replace("Accountant(", "(") if label is None else label
    is_conditional = view == "renyi" and account.infinity_mass > 0.0
    if is_conditional:
        name = f"{name}, given a finite loss"
    ax = plot_curve(ax, x, y, view=view, label=name, style=style)
    if is_conditional:
        ax.set_title(f"conditional on a finite loss; infinity mass {rounded_up(account.infinity_mass, 3):g}")
    return ax


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
    finite = epsilons < _LARGEST_EPSILON
    epsilons, deltas = epsilons[finite], deltas[finite]
    type_1 = tradeoff_corners(epsilons, deltas)
    return type_1, tradeoff_bound(epsilons, deltas, type_1)


def last_epsilon(account: "Accountant") -> float:
    """The epsilon > 0 at which a plot of the privacy curve ends: where delta is negligible, or where it stops falling.

    Far beyond it, delta is not only too small to be shown: a quadrature of it may also take minutes.
    """
    mass = account.infinity_mass  # the limit of delta: the curve is shown down to somewhat more than that
    least = LEAST_DELTA + mass + min(mass, 1.0 - mass) / 2
    last = float(account.epsilon(least)) if least < 1.0 else np.inf
    if not np.isfinite(last):
        raise ValueError(
            f"the account has no finite epsilon at delta = {least:.3g}, so there is no curve to plot: "
            f"its infinity mass is {account.infinity_mass:.3g}"
        )
    return last if last > 0.0 else _SMALL_EPSILON


def _renyi_points(account: "Accountant", points: int) -> tuple[FloatArray, FloatArray]:
    order_limit = account.bounds.order_limit
    limit = min(order_limit, _LARGEST_ORDER)
    if not limit > 1.0:
        raise ValueError(
            "the account has no finite Rényi divergence at any order: its infinity mass is "
            f"{account.infinity_mass:.3g}; use view='delta' or view='tradeoff'"
        )
    # Orders are spaced evenly in log(order), and end just below the limit, where the divergence is still finite.
    orders = np.geomspace(1.0, limit, points + 1)[1:]
    if limit == order_limit:
        orders[-1] = limit - 1e-3 * (limit - orders[-2])
    return orders, np.asarray(account.conditional_rdp(orders))


def is_quick(account: "Accountant", limit: float = _QUICK) -> bool:
    """Whether the curves cost at most `limit`, by default some hundredths of a second; False for a broken account."""
    try:
        return _has_quick_bounds(account) and max(account.bounds.curve_cost, account.bounds.renyi_cost) <= limit
    except Exception:  # noqa: BLE001 - a repr must not raise
        return False


def has_quick_curve(account: "Accountant", limit: float = _QUICK) -> bool:
    """Whether the privacy curve costs at most `limit`, whatever the Rényi curve costs."""
    # A likelihood among the fields may have `bounds` of its own kind; `_bounds` is the method of accounts.
    inner = [one for one in _accounts_in(account) if hasattr(type(one), "_bounds")]
    return all(map(has_quick_curve, inner)) and account.bounds.curve_cost <= limit


def _has_quick_bounds(account: "Accountant") -> bool:
    """Whether the bounds are quick to make: those of a selection tabulate the curve of its base, which may be slow."""
    return all(is_quick(inner) for inner in _accounts_in(account))


def _accounts_in(account: "Accountant") -> "list[Accountant]":
    """The accounts among the fields of an account, also those in tuples."""
    found: list[Accountant] = []
    left: list[Any] = [getattr(account, name) for name in getattr(account, "__dataclass_fields__", ())]
    while left:
        one = left.pop()
        if isinstance(one, tuple):
            left.extend(one)
        elif hasattr(type(one), "bounds"):  # the class, because the value of an account may be expensive
            found.append(one)
    return found


def epsilon_text(account: "Accountant", delta: float, limit: float = _QUICK) -> str:
    """The epsilon at delta in words, such as "epsilon = 1.51 at delta = 1e-06"; empty if it is expensive or unknown."""

    def found() -> str:
        return f"epsilon = {shown_epsilon(account, delta):.4g} at delta = {delta:g}"

    return text_or_empty(found) if is_quick(account, limit) else ""


def account_rows(account: "Accountant", delta: float, limit: float = _QUICK) -> list[tuple[str, str]]:
    """The rows of a card that tell what the account guarantees; what is expensive or broken is left out."""

    def epsilon() -> str:
        return f"{shown_epsilon(account, delta):.4g}" if is_quick(account, limit) else ""

    makers = [
        ("neighbours", lambda: account.relation.change),
        (f"epsilon at delta = {delta:g}", epsilon),
        ("pure epsilon", lambda: f"{rounded_up(account.pure_epsilon, 4):.4g}" if account.pure_epsilon < np.inf else ""),
        ("infinity mass", lambda: f"{account.infinity_mass:.3g}" if account.infinity_mass else ""),
        ("zCDP", lambda: zcdp_text(account)),
        ("Rényi order limit", lambda: f"{account.order_limit:.4g}" if account.order_limit < np.inf else ""),
        ("assumptions", lambda: "; ".join(sorted(one.value for one in account.assumptions))),
        ("source", lambda: account.source),
    ]
    if text_or_empty(lambda: "" if _has_quick_bounds(account) else "slow"):
        makers = [maker for maker in makers if maker[0] in ("neighbours", "assumptions", "source")]
    return [(name, text) for name, make in makers if (text := text_or_empty(make))]


def zcdp_text(account: "Accountant") -> str:
    """The rho of zCDP, with the infinity mass of which it is conditional; empty if there is none."""
    if not account.conditional_zcdp < np.inf:
        return ""
    return f"rho = {rounded_up(account.conditional_zcdp, 4):.4g}{given_mass(account)}"


def given_mass(account: "Accountant") -> str:
    """The condition of a conditional Rényi curve, as the end of a phrase; empty without an infinity mass."""
    mass = account.infinity_mass
    return f", approximate, with delta = {rounded_up(mass, 3):g} (the infinity mass)" if mass else ""


def account_html(account: "Accountant") -> str:
    """The card of an account: its guarantees, and its privacy curve where that is quick to compute."""
    rows = [("parameters", short_repr(account)), *account_rows(account, _CARD_DELTA)]
    return card(type(account).__name__, rows, text_or_empty(lambda: curve_picture(account)))


def curve_picture(account: "Accountant", limit: float = _QUICK) -> str:
    """The privacy curve of an account as a small picture; empty where it is expensive or has no content."""
    # An account without a cost at this delta has a picture without content, of quadratures that may take minutes.
    if not is_quick(account, limit) or not account.epsilon(_CARD_DELTA) > 0.0:
        return ""
    return lines_picture(*curve_points(account, "delta", _FEW_POINTS), labels=(EPSILON, DELTA), log_y=True)


def composed_repr(entries: Iterable[tuple["Accountant", int]], sign: str) -> str:
    """A composition in one line, such as "100 * GaussianAccountant(sensitivity=1.0, noise_std=5.0)"."""
    members = list(entries)
    if not members:  # an account whose fields were refused, in a traceback
        return "Composed(...)"
    more, text = len(members) - _MEMBERS, ""
    for room in (WIDTH, WIDTH // 2, WIDTH // _MEMBERS - 12, 24):  # without the signs and the number of members
        shown = [(f"{times} * " if times > 1 else "") + short_repr(one, room) for one, times in members[:_MEMBERS]]
        text = sign.join([*shown, f"({more} more)"] if more > 0 else shown)
        if len(text) <= WIDTH:
            break
    return text


def shown_epsilon(account: "Accountant", delta: float) -> float:
    """epsilon(delta) with four digits: the nearest such number if the account certifies it, else the next above."""
    epsilon = float(account.epsilon(delta))
    nearest = float(f"{epsilon:.4g}")
    if nearest >= epsilon or (delta > 0 and account.log_delta(nearest) <= np.log(delta)):
        return nearest
    return rounded_up(epsilon, 4)


def rounded_up(x: float, digits: int) -> float:
    """A positive number rounded up to some significant digits."""
    if float(f"{x:.{digits}g}") >= x:
        return float(f"{x:.{digits}g}")
    unit = 10.0 ** (np.floor(np.log10(x)) + 1 - digits)
    return float(f"{np.ceil(x / unit) * unit:.{digits}g}")

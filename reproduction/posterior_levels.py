"""Thesis Figures 5.1 and 5.2: Rényi curves of diffused and concentrated posteriors.

Source: Geumlek 2020, section 5.4.1: Beta(6, 12) prior (natural parameter (6, 18)), n = 100, six data weights r or prior
weights 1/m. The thesis takes the largest divergence by its Corollary 16. As published, that corollary has n where a
diffused posterior has r n, and it includes pairs in which a record is removed from a posterior that holds none.
"""

from typing import Any, Literal

import numpy as np

from privsample._checks import FloatArray
from privsample.accounting.loss.pair import worst_renyi
from privsample.accounting.posterior.beta import BetaPair
from privsample.distributions.models.beta_bernoulli import BetaBernoulli
from privsample.mechanisms.posterior.conjugate import ConcentratedPosterior, DiffusedPosterior, PosteriorMechanism
from privsample.simulations.report.findings import Columns, Finding, Statement, compared
from privsample.simulations.report.results import Result, stacked
from reproduction.base import Experiment
from reproduction.tables import Table, largest_at, value_at

ALPHA, BETA, N = 6.0, 12.0, 100
SHARES = (0.1, 0.3, 0.5, 0.7, 0.9, 1.0)
POINTS, SECOND_POINTS = 70, 47  # of the orders, and of a second grid
_NOTE: dict[str, Any] = {"ha": "right", "va": "bottom", "fontsize": 9}
_NEAREST = 1e-5  # to order 1, as a share of the way to the order limit
Kind = Literal["diffused", "concentrated"]


def published_bound(kind: Kind, share: float, orders: FloatArray) -> FloatArray:
    """Corollary 16 to the letter: eta_P in eta_0 + {(0, n), (n, n)}, eta_Q = eta_P +- (r, 0), at any r or m."""
    r, m = (share, 1.0) if kind == "diffused" else (1.0, share)
    pairs = []
    for a, b in ((ALPHA / m, BETA / m + N), (ALPHA / m + N, BETA / m)):
        pairs += [BetaPair(a=a - r, b=b, step=r), BetaPair(a=b - r, b=a, step=r)]
    return worst_renyi(tuple(pairs), orders)


def _levels(kind: Kind, points: int) -> Result:
    parts = [_curve(kind, share, points) for share in SHARES]
    return Result(
        columns=stacked(parts),
        describe=lambda columns: _describe(kind, columns),
        plot=lambda figure: _plot(figure, kind, parts),
    )


def _curve(kind: Kind, share: float, points: int) -> dict[str, Any]:
    """Both divergences at increasing orders, those of extreme ratio included, for one data or prior weight."""
    model = BetaBernoulli(alpha=ALPHA, beta=BETA)
    made: PosteriorMechanism
    if kind == "diffused":
        made, label = DiffusedPosterior(model=model, n=N, data_weight=share), f"r = {share:g}"
    else:
        made, label = ConcentratedPosterior(model=model, n=N, prior_weight=1 / share), f"1/m = {1 / share:.3g}"
    account = made.accountant
    width = account.order_limit - 1

    def ratio(u: float) -> float:
        order = np.array([1 + width * u])
        return float((published_bound(kind, share, order) / account.rdp(order))[0])

    near, middle = np.geomspace(_NEAREST, 0.85, points), np.linspace(0.1, 0.85, points // 2)
    u = np.unique(np.concatenate([near, middle, -np.expm1(-np.linspace(2, 14, points))]))
    ends = [largest_at(ratio, u[1:-1]), largest_at(lambda x: -ratio(x), u[1:-1])]
    orders = np.unique(np.append(1 + width * np.append(u, ends), 2.0))
    return {
        "curve": label,
        "share": share,
        "order": orders,
        "library": account.rdp(orders),
        "corollary_16": published_bound(kind, share, orders),
        "order_limit": account.order_limit,
    }


def _describe(kind: Kind, columns: Columns) -> Statement:
    words, symbol = ("data weight", "r") if kind == "diffused" else ("prior weight", "1/m")
    parts = [Table(columns=columns).select(share=share) for share in SHARES]
    least, most = parts[0], parts[-1]
    start, end = (value_at(part["order"], part["library"], 2.0) for part in (most, least))
    near, far = (float(part["order_limit"][0]) for part in (most, least))
    ratios = [part["corollary_16"] / part["library"] for part in parts]
    low, high = min(float(each.min()) for each in ratios), max(float(each.max()) for each in ratios)
    lowest = SHARES[int(np.argmin([each.min() for each in ratios]))]
    farthest = SHARES[0]
    if kind == "concentrated":
        lowest, farthest = 1 / lowest, 1 / farthest
    short = compared("1 - least ratio", 1 - low)
    verdict = (
        f"as little as {low:.2f} times the largest divergence ({symbol} = {lowest:.3g}), so that it is no upper bound, "
        "and "
        if short.compared
        else "never less than the largest divergence and "
    )
    return Statement(
        f"Beta({ALPHA:g}, {BETA:g}) prior, {N} records. From {words} {symbol} = 1 to {farthest:g} the largest Rényi "
        f"divergence at order 2 falls from {start:.3g} to {end:.2g} nats, and the order limit, from which on the "
        f"divergence is infinite, rises from {near:g} to {far:g}. The vertical asymptote is the main observation of "
        f"the thesis. Its Corollary 16, as published, gives {verdict}up to {high:.2f} times near order 1.",
        (
            Finding("at order 2, most", start),
            Finding("at order 2, least", end),
            Finding("first limit", near),
            Finding("last limit", far),
            Finding("least ratio", low),
            Finding("largest ratio", high),
            short,
            compared("largest ratio - 1", high - 1),
        ),
    )


def _plot(figure: Any, kind: Kind, parts: list[dict[str, Any]]) -> None:
    from matplotlib import colormaps

    left, right = figure.subplots(1, 2)
    for part, colour in zip(parts, colormaps["viridis"](np.linspace(0.0, 0.88, len(parts))), strict=True):
        orders, limit = part["order"], part["order_limit"]
        # The end of the curve cannot be distinguished from the asymptote and is drawn as a line.
        left.plot(np.append(orders, limit), np.append(part["library"], 10.0), color=colour, label=part["curve"])
        left.axvline(limit, color=colour, linewidth=1, linestyle=(0, (3, 3)))
        ratio = part["corollary_16"] / part["library"]
        right.plot(orders, ratio, color=colour)
        right.plot(orders[-1], ratio[-1], "o", color=colour, markersize=4, zorder=3)
    right.axhline(1.0, color="black", linewidth=1.0, zorder=1)
    after = np.concatenate([(part["corollary_16"] / part["library"])[part["order"] >= 2] for part in parts])
    if np.allclose(after, 1.0, rtol=1e-6):
        right.text(
            0.98, 0.12, "all curves: 1 from order 2\nto the order limit (dot)", transform=right.transAxes, **_NOTE
        )
    else:
        right.text(0.98, 0.97, "dots: order limits", transform=right.transAxes, **(_NOTE | {"va": "top"}))
    left.set(
        ylim=(0, 1.6),
        ylabel="largest Rényi divergence (nats)",
        title=f"Beta({ALPHA:g}, {BETA:g}) prior, n = {N}; dashed: order limit",
    )
    right.set(ylabel="ratio to the largest divergence", title="Corollary 16 as published: below 1 it is no bound")
    for axes in (left, right):
        axes.set(xscale="log", xlim=(1.0, 75), xlabel="order α")
        axes.set_xticks([1, 2, 5, 10, 20, 50], ["1", "2", "5", "10", "20", "50"])
        axes.minorticks_off()
    name = "data weight r" if kind == "diffused" else "prior weight 1/m"
    figure.legend(loc="outside upper center", ncols=len(parts), title=name, columnspacing=1.2, handlelength=1.4)


def _figure(number: int, kind: Kind, seconds: float) -> Experiment:
    return Experiment(
        name=f"geumlek-5.{number}",
        title=f"Thesis Figure 5.{number}: Rényi levels of the {kind} posterior",
        seconds=seconds,
        run=lambda: _levels(kind, POINTS),
        size=(8.6, 3.9),
        second=lambda: _levels(kind, SECOND_POINTS),
    )


DIFFUSED = _figure(1, "diffused", seconds=2.9)
CONCENTRATED = _figure(2, "concentrated", seconds=3.3)

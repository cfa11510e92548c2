"""Thesis Figures 5.1 and 5.2 redrawn: the Renyi levels that diffused and concentrated posteriors reach.

Source: Geumlek 2020, section 5.4.1: Beta(6, 12) prior (natural parameter (6, 18)), n = 100, six data weights or prior
divisors. The thesis takes the largest divergence by its Corollary 16; as printed, that corollary has n where a diffused
posterior has r n, and counts pairs in which a record is taken from a posterior that holds none.
"""

from typing import Any, Literal

import numpy as np

from privsample._checks import FloatArray
from privsample.accounting.loss.pair import worst_renyi
from privsample.accounting.posterior.beta import BetaPair
from privsample.simulations.experiments.base import Experiment, Result, stacked
from privsample.simulations.report.figures import plot_renyi, renyi_data

ALPHA, BETA, N = 6.0, 12.0, 100
Kind = Literal["diffused", "concentrated"]


def printed(kind: Kind, share: float, orders: FloatArray) -> FloatArray:
    """Corollary 16 to the letter: eta_P in eta_0 + {(0, n), (n, n)}, eta_Q = eta_P +- (r, 0), at any r or m."""
    r, m = (share, 1.0) if kind == "diffused" else (1.0, share)
    pairs = []
    for a, b in ((ALPHA / m, BETA / m + N), (ALPHA / m + N, BETA / m)):
        pairs += [BetaPair(a=a - r, b=b, step=r), BetaPair(a=b - r, b=a, step=r)]
    return worst_renyi(tuple(pairs), orders)


def _levels(kind: Kind) -> Result:
    curves = renyi_data(kind)
    shares = [float(label.split()[-1]) for label, *_ in curves]
    prints = [printed(kind, share, orders) for share, (_, orders, _, _) in zip(shares, curves, strict=True)]
    parts = [
        {"curve": label, "order": orders, "ours": ours, "corollary_16": letter, "order_limit": limit}
        for (label, orders, ours, limit), letter in zip(curves, prints, strict=True)
    ]
    return Result(
        columns=stacked(parts), sentence=_sentence(kind, curves, prints), plot=lambda figure: _plot(figure, parts)
    )


def _sentence(kind: Kind, curves: list[tuple[str, FloatArray, FloatArray, float]], prints: list[FloatArray]) -> str:
    words = "data weight" if kind == "diffused" else "prior divisor"
    (least, orders, low, far), (most, last, high, near) = curves[0], curves[-1]
    start, end = (float(np.interp(2.0, x, y)) for x, y in ((last, high), (orders, low)))
    ratios = np.concatenate([letter / ours for (_, _, ours, _), letter in zip(curves, prints, strict=True)])
    short = ", and where that is below 1 it is no bound" if ratios.min() < 1 else ""
    return (
        f"With a Beta({ALPHA:g}, {BETA:g}) prior and {N} records, from {words} {most} to {least} the cost at order 2 "
        f"falls from {start:.3g} to {end:.2g} nats and the vertical "
        f"asymptote, which the thesis calls its primary observation, moves from order {near:g} to {far:g} but stays; "
        f"Corollary 16 as printed gives {ratios.min():.2f} to {ratios.max():.2f} times the largest divergence{short}."
    )


def _plot(figure: Any, parts: list[dict[str, Any]]) -> None:
    axes = figure.subplots()
    letter: dict[str, Any] = {"color": "black", "linewidth": 1.0, "linestyle": ":", "zorder": 3}
    for part in parts:
        axes.plot(part["order"], part["corollary_16"], **letter)
    axes.lines[0].set_label("Corollary 16")
    plot_renyi(axes, [(part["curve"], part["order"], part["ours"], part["order_limit"]) for part in parts])


DIFFUSED = Experiment(
    name="t-5.1",
    title="Thesis Figure 5.1: Rényi levels of the diffused posterior",
    run=lambda: _levels("diffused"),
)
CONCENTRATED = Experiment(
    name="t-5.2",
    title="Thesis Figure 5.2: Rényi levels of the concentrated posterior",
    run=lambda: _levels("concentrated"),
)

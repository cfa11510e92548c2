"""Diffusion mechanisms: Theorem 8's error against the Gaussian mechanism's, and a hierarchy of tiers as one path.

Source: Balle, Barthe, Gaboardi and Geumlek 2019, section 5.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from privsample._checks import FloatArray
from privsample._value import value
from privsample.mechanisms.postprocessing.diffusion import BrownianMotion, Hierarchy, OrnsteinUhlenbeck
from privsample.simulations.experiments.base import Experiment, Result, stacked
from privsample.simulations.report.figures import BLUE, GREEN, GREY, ORANGE

DIMENSIONS = np.unique(np.round(np.geomspace(1.0, 1000.0, 25)))
RATES = np.geomspace(1e-3, 10, 25)
TIMES = np.geomspace(1e-3, 3, 60)
EXCESSES = (0.5, 1.0, 2.0)  # of theta R^2 over the 4 d rho^2 that Theorem 8 allows
SHOWN_RATES, SHOWN_DIMENSIONS = (0.01, 0.1, 1.0), (1, 30, 1000)
DRAWN = (1, 10, 100, 1000)  # dimensions and, over 100, rates at which releases are drawn
RUNS = 4000  # releases for one dot, over the dimension; no fewer than a tenth of it
COLOURS = (BLUE, ORANGE, GREEN)
TIERS = (0.25, 1.0, 4.0, 16.0)
VALUES = (3.0, 0.0, -2.0)
DELTA = 1e-6


@value
class Errors:
    """Mean squared errors of the optimal Ornstein-Uhlenbeck mechanism as shares of the Gaussian mechanism's, at `x`.

    drawn: from releases of a statistic on the sphere of radius one, at `at`.
    """

    label: str
    x: FloatArray
    ratio: FloatArray
    at: FloatArray
    drawn: FloatArray


def _ratio(dimension: int, rate: float) -> float:
    made = OrnsteinUhlenbeck.optimal(sensitivity=1.0, radius=1.0, zcdp=rate, shape=(dimension,))
    return made.mean_squared_error(1.0) / (dimension / (2 * rate))


def printed(dimension: int, rate: float) -> float:
    """Theorem 8's error of its mechanism as a share of Gaussian noise's, with sensitivity = R = 1."""
    return 1 / (1 + dimension / (2 * rate))


def error_by_time(excess: float) -> FloatArray:
    """E_OU / E_GM at TIMES with theta = excess * 4 d rho^2 / R^2, d = R = rho = 1: at most 1 where excess <= 1."""
    found = []
    for time in TIMES.tolist():
        made = OrnsteinUhlenbeck(sensitivity=1.0, theta=4 * excess, rho=1.0, time=time)
        found.append(made.mean_squared_error(1.0) / made.accountant.noise_std**2)
    return np.array(found)


def _drawn(dimension: int, rate: float, rng: np.random.Generator) -> float:
    made = OrnsteinUhlenbeck.optimal(sensitivity=1.0, radius=1.0, zcdp=rate, shape=(dimension,))
    truth = np.full(dimension, dimension**-0.5)
    errors = [
        ((made.release(truth, rng=rng)["statistic"] - truth) ** 2).sum()
        for _ in range(max(RUNS // dimension, RUNS // 10))
    ]
    return float(np.mean(errors)) / (dimension / (2 * rate))


def errors_by_dimension(rate: float, rng: np.random.Generator) -> Errors:
    """At one zCDP rate."""
    return Errors(
        label=f"zCDP rate {rate:g}",
        x=DIMENSIONS,
        ratio=np.array([_ratio(round(d), rate) for d in DIMENSIONS.tolist()]),
        at=np.array(DRAWN, dtype=float),
        drawn=np.array([_drawn(d, rate, rng) for d in DRAWN]),
    )


def errors_by_rate(dimension: int, rng: np.random.Generator) -> Errors:
    """In one dimension of the statistic."""
    at = np.array(DRAWN) / 100
    return Errors(
        label=f"d = {dimension}",
        x=RATES,
        ratio=np.array([_ratio(dimension, rate) for rate in RATES.tolist()]),
        at=at,
        drawn=np.array([_drawn(dimension, rate, rng) for rate in at.tolist()]),
    )


def _theorem_8() -> Result:
    rng = np.random.default_rng(8)
    left = [errors_by_dimension(rate, rng) for rate in SHOWN_RATES]
    right = [errors_by_rate(dimension, rng) for dimension in SHOWN_DIMENSIONS]
    times = {excess: error_by_time(excess) for excess in EXCESSES}
    parts = [{"curve": c.label, "kind": kind, "x": x, "ratio": y} for c in left + right for kind, x, y in _series(c)]
    parts += [{"curve": f"by time, {e:g}", "kind": "exact", "x": TIMES, "ratio": y} for e, y in times.items()]
    letter = [printed(round(d), rate) for rate in SHOWN_RATES for d in DIMENSIONS.tolist()]
    letter += [printed(d, rate) for d in SHOWN_DIMENSIONS for rate in RATES.tolist()]
    gap = np.abs(np.concatenate([c.ratio for c in left + right]) / letter - 1).max()
    excesses, most = (", ".join(f"{x:.3g}" for x in column) for column in (times, (y.max() for y in times.values())))
    claimed = np.concatenate([np.interp(np.log(c.at), np.log(c.x), np.log(c.ratio)) for c in left + right])
    worst = np.abs(np.concatenate([c.drawn for c in left + right]) / np.exp(claimed) - 1).max()
    return Result(
        columns=stacked(parts),
        sentence=f"Against Gaussian noise of the same zCDP rate the optimal Ornstein-Uhlenbeck mechanism's worst-case "
        f"squared error falls to {left[1].ratio[-1]:.3g} of it in {DIMENSIONS[-1]:g} dimensions at rate "
        f"{SHOWN_RATES[1]:g}; every point is Theorem 8's 1/(1 + dΔ²/(2ϵR²)) to {gap:.0e}, which Gaussian noise "
        f"attains too by optimal postprocessing, and the mean of {RUNS // 10} to {RUNS} releases at each dot is "
        f"within {worst:.0%} of its curve. At {excesses} times the θ that Theorem 8 allows the share over time is at "
        f"most {most}, and at once that θ it ends at {times[1.0][-1]:.1g}: the theorem says at most 1 up to there, and "
        "0 in the limit.",
        plot=lambda figure: _plot_errors(figure, left, right, times),
    )


def _series(curve: Errors) -> tuple[tuple[str, FloatArray, FloatArray], ...]:
    return ("exact", curve.x, curve.ratio), ("drawn", curve.at, curve.drawn)


def _plot_errors(figure: Any, left: Sequence[Errors], right: Sequence[Errors], times: dict[float, FloatArray]) -> None:
    by_dimension, by_rate, by_time = figure.subplots(1, 3)
    panels = ((by_dimension, left, "dimension d of the statistic"), (by_rate, right, "zCDP rate ϵ"))
    for axes, curves, label in panels:
        for curve, colour in zip(curves, COLOURS, strict=True):
            axes.loglog(curve.x, curve.ratio, color=colour, label=curve.label)
            axes.loglog(curve.at, curve.drawn, "o", color=colour, markersize=4)
        axes.axhline(1.0, color=GREY, linewidth=1.0)
        axes.set(xlabel=label, ylim=(5e-7, 2))
        axes.legend(loc="lower left" if axes is by_dimension else "lower right")
    by_time.axhline(1.0, color=GREY, linewidth=1.0)
    for (excess, share), colour, dashes in zip(times.items(), COLOURS, ("-", "--", ":"), strict=True):
        by_time.semilogx(TIMES, share, color=colour, linestyle=dashes, label=f"θR² = {4 * excess:g} dρ²")
    by_time.set(xlabel="time t", ylim=(0, None), title="fixed θ and ρ over time, d = 1")
    by_time.legend(loc="lower left")
    by_dimension.set(ylabel="squared error, share of Gaussian noise's", title="Theorem 8: Δ = R = 1; dots: releases")


def path(rng: np.random.Generator) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Times (points,), one path of a hierarchy there (points, coordinates), and epsilon at DELTA for each time."""
    times = np.unique(np.append(np.geomspace(TIERS[0], TIERS[-1], 160), TIERS))
    start = BrownianMotion(sensitivity=1.0, time=TIERS[0], shape=(len(VALUES),))
    drawn = Hierarchy(base=start, times=tuple(times[1:].tolist())).release(VALUES, rng=rng)["statistic"]
    return times, drawn, np.array([float(start.at(t).accountant.epsilon(DELTA)) for t in times.tolist()])


def _path() -> Result:
    times, drawn, costs = path(np.random.default_rng(5))
    tier = np.isin(times, TIERS)
    listed = ", ".join(f"{cost:.2g}" for cost in costs[tier])
    columns = {"time": times.tolist(), "tier": tier.tolist(), "epsilon": costs.tolist()}
    columns |= {f"coordinate_{k}": column.tolist() for k, column in enumerate(drawn.T)}
    return Result(
        columns=columns,
        sentence=f"Released at times {', '.join(f'{t:g}' for t in TIERS)} of one Brownian path, a statistic costs ε = "
        f"{listed} at δ = {DELTA:g} tier by tier, and {costs[0]:.2g} for all of them together.",
        plot=lambda figure: _plot_path(figure, times, drawn, costs, tier),
    )


def _plot_path(figure: Any, times: FloatArray, drawn: FloatArray, costs: FloatArray, tier: Any) -> None:
    above, below = figure.subplots(2, 1, sharex=True, height_ratios=(2, 1))
    for truth, column, colour in zip(VALUES, drawn.T, COLOURS, strict=True):
        above.axhline(truth, color=colour, linewidth=0.8, linestyle=":")
        above.semilogx(times, column, color=colour, linewidth=0.9)
        above.semilogx(times[tier], column[tier], "o", color=colour, markersize=6)
    above.set(ylabel="statistic", title="One path, released at four times (dots); dotted: the private values")
    below.semilogx(times, costs, color=GREY)
    below.semilogx(times[tier], costs[tier], "o", color=GREY, markersize=6)
    for time, cost in zip(times[tier], costs[tier], strict=True):
        below.annotate(f"{cost:.2g}", (time, cost), (6, 4), textcoords="offset points")
    below.set_xticks(TIERS, [f"{time:g}" for time in TIERS])
    below.minorticks_off()
    below.set(xlabel="time", ylabel="ε at δ = 10⁻⁶", xlim=(0.22, 22), ylim=(0, 1.25 * costs[0]))


THEOREM_8 = Experiment(
    name="d-8",
    title="Balle, Barthe, Gaboardi and Geumlek, Theorem 8: Ornstein-Uhlenbeck error beside Gaussian noise's",
    run=_theorem_8,
    size=(11.0, 3.8),
)
PATH = Experiment(name="d-path", title="A hierarchy of releases as one path", run=_path, size=(6.4, 4.6))

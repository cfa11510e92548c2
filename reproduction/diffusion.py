"""Diffusion mechanisms: the error of Theorem 8 relative to Gaussian noise, and several noise levels on one path.

Source: Balle, Barthe, Gaboardi and Geumlek 2019, section 5.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from privsample._checks import FloatArray
from privsample._value import frozen_value
from privsample.mechanisms.postprocessing.diffusion import BrownianMotion, MultilevelRelease, OrnsteinUhlenbeck
from privsample.plots.style import BLUE, GREEN, GREY, ORANGE
from privsample.simulations.report.findings import Columns, Finding, Statement, compared, join_names
from privsample.simulations.report.results import Result, stacked
from reproduction.base import Experiment
from reproduction.labels import label_lines
from reproduction.tables import Table, largest_at

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
MOST_ERRORS = 5  # standard errors that the most distant of the dots may lie off


@frozen_value
class Errors:
    """Mean squared errors of the optimal Ornstein-Uhlenbeck mechanism as shares of the Gaussian mechanism's, at `x`.

    drawn: from releases of a statistic on the sphere of radius one, at `at`; with standard errors, and what is exact.
    """

    label: str
    x: FloatArray
    ratio: FloatArray
    at: FloatArray
    drawn: FloatArray
    standard_error: FloatArray
    exact: FloatArray
    published: FloatArray


def _ratio(dimension: int, rate: float) -> float:
    made = OrnsteinUhlenbeck.optimal(sensitivity=1.0, radius=1.0, zcdp=rate, shape=(dimension,))
    return made.mean_squared_error(1.0) / (dimension / (2 * rate))


def published_bound(dimension: int, rate: float) -> float:
    """Theorem 8's error of its mechanism as a share of Gaussian noise's, with sensitivity = R = 1."""
    return 1 / (1 + dimension / (2 * rate))


def error_by_time(excess: float, times: FloatArray = TIMES) -> FloatArray:
    """E_OU / E_GM at times with theta = excess * 4 d rho^2 / R^2, d = R = rho = 1: at most 1 where excess <= 1."""
    found = []
    for time in times.tolist():
        made = OrnsteinUhlenbeck(sensitivity=1.0, theta=4 * excess, rho=1.0, time=time)
        found.append(made.mean_squared_error(1.0) / made.accountant.noise_std**2)
    return np.array(found)


def _drawn(dimension: int, rate: float, rng: np.random.Generator) -> tuple[float, float]:
    """The mean of releases, and its standard error."""
    made = OrnsteinUhlenbeck.optimal(sensitivity=1.0, radius=1.0, zcdp=rate, shape=(dimension,))
    truth = np.full(dimension, dimension**-0.5)
    errors = [
        ((made.release(truth, rng=rng)["statistic"] - truth) ** 2).sum()
        for _ in range(max(RUNS // dimension, RUNS // 10))
    ]
    scale = dimension / (2 * rate)
    return float(np.mean(errors)) / scale, float(np.std(errors, ddof=1) / len(errors) ** 0.5) / scale


def _errors(label: str, x: FloatArray, pairs: Any, at: Any, discretize: Any, rng: np.random.Generator) -> Errors:
    drawn, standard_errors = np.transpose([_drawn(d, rate, rng) for d, rate in discretize])
    return Errors(
        label=label,
        x=x,
        ratio=np.array([_ratio(d, rate) for d, rate in pairs]),
        at=np.asarray(at, dtype=float),
        drawn=drawn,
        standard_error=standard_errors,
        exact=np.array([_ratio(d, rate) for d, rate in discretize]),
        published=np.array([published_bound(d, rate) for d, rate in pairs]),
    )


def errors_by_dimension(rate: float, rng: np.random.Generator, dimensions: FloatArray = DIMENSIONS) -> Errors:
    """At one zCDP rate."""
    pairs = [(round(d), rate) for d in dimensions.tolist()]
    return _errors(f"zCDP rate ϵ = {rate:g}", dimensions, pairs, DRAWN, [(d, rate) for d in DRAWN], rng)


def errors_by_rate(dimension: int, rng: np.random.Generator, rates: FloatArray = RATES) -> Errors:
    """In one dimension of the statistic."""
    at = [place / 100 for place in DRAWN]
    pairs = [(dimension, rate) for rate in rates.tolist()]
    return _errors(f"d = {dimension}", rates, pairs, at, [(dimension, rate) for rate in at], rng)


def _times(excess: float, times: FloatArray) -> FloatArray:
    """These times, and where between them the error's share is largest."""
    best = largest_at(lambda x: float(error_by_time(excess, np.exp([x]))[0]), np.log(times))
    return np.unique(np.append(times, np.exp(best)))


def _theorem_8(seed: int = 8, every: int = 1) -> Result:
    rng = np.random.default_rng(seed)
    left = [
        errors_by_dimension(rate, rng, np.unique(np.append(DIMENSIONS[::every], DIMENSIONS[-1])))
        for rate in SHOWN_RATES
    ]
    right = [errors_by_rate(dimension, rng, RATES[::every]) for dimension in SHOWN_DIMENSIONS]
    shown_times = np.union1d(TIMES[::every], TIMES[-1:])
    grids = {excess: _times(excess, shown_times) for excess in EXCESSES}
    times = {excess: (grid, error_by_time(excess, grid)) for excess, grid in grids.items()}
    parts: list[dict[str, Any]] = []
    for curve in left + right:
        exact = {"x": curve.x, "ratio": curve.ratio, "reference": curve.published, "standard_error": 0.0}
        drawn = {"x": curve.at, "ratio": curve.drawn, "reference": curve.exact, "standard_error": curve.standard_error}
        parts += [{"curve": curve.label, "kind": "exact"} | exact, {"curve": curve.label, "kind": "drawn"} | drawn]
    for excess, (grid, share) in times.items():
        by_time = {"x": grid, "ratio": share, "reference": 1.0, "standard_error": 0.0}
        parts.append({"curve": f"by time, {excess:g}", "kind": "by time"} | by_time)
    return Result(
        columns=stacked(parts),
        describe=_describe_theorem_8,
        plot=lambda figure: _plot_errors(figure, left, right, times),
    )


def _describe_theorem_8(columns: Columns) -> Statement:
    exact, drawn = (Table(columns=columns).select(kind=kind) for kind in ("exact", "drawn"))
    gap = float(np.abs(exact["ratio"] / exact["reference"] - 1).max())
    off = drawn["ratio"] - drawn["reference"]
    worst = float(np.abs(off / drawn["reference"]).max())
    errors = float(np.abs(off / drawn["standard_error"]).max())
    shown = Table(columns=columns).select(curve=f"zCDP rate ϵ = {SHOWN_RATES[1]:g}", kind="exact")
    end = float(shown["ratio"][-1])
    shares = {excess: Table(columns=columns).select(curve=f"by time, {excess:g}")["ratio"] for excess in EXCESSES}
    most = {excess: float(share.max()) for excess, share in shares.items()}
    held = [excess for excess in EXCESSES if most[excess] <= 1 + 1e-9]
    broken = [excess for excess in EXCESSES if excess not in held]
    words = f"it is never above 1 for θR² = {join_names([f'{4 * excess:g}dρ²' for excess in held])}" if held else ""
    words += "".join(f" and reaches {most[excess]:.3g} for {4 * excess:g}dρ²" for excess in broken)
    last = float(shares[1.0][-1])
    equal = "equals Theorem 8's 1/(1 + dΔ²/(2ϵR²))" if gap < 1e-9 else f"differs from Theorem 8's by up to {gap:.1g}"
    return Statement(
        "Worst-case squared error of the optimal Ornstein-Uhlenbeck mechanism, divided by that of Gaussian noise at "
        f"the same zCDP rate ϵ: {end:.3g} in {shown['x'][-1]:g} dimensions at ϵ = {SHOWN_RATES[1]:g}. At every point "
        f"it {equal}, which Gaussian noise with optimal postprocessing also attains. The means of {RUNS // 10} to "
        f"{RUNS} releases (dots) are within {worst:.0%} and {errors:.1f} standard errors of the lines. Right: if θR² "
        f"is at most 4dρ², the ratio is at most 1 at any time by Theorem 8; {words}. With θR² = 4dρ² it falls to "
        f"{last:.1g}; its limit is 0.",
        (
            Finding("share at the end", end),
            Finding("log share at the last time", float(np.log(last))),
            Finding("most distant mean, in standard errors", errors, 1.0),
            compared("rounding - gap", 1e-7 - gap),
            compared(f"{MOST_ERRORS} standard errors - deviation", MOST_ERRORS - errors),
            *(compared(f"1 - largest share, {excess:g}", 1 + 1e-7 - most[excess]) for excess in held),
            *(compared(f"largest share - 1, {excess:g}", most[excess] - 1) for excess in broken),
            *(Finding(f"largest share, {excess:g}", most[excess]) for excess in broken),
        ),
    )


def _plot_errors(figure: Any, left: Sequence[Errors], right: Sequence[Errors], times: dict[float, Any]) -> None:
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
    names = {0.5: "θR² = 2dρ²", 1.0: "θR² = 4dρ²", 2.0: "θR² = 8dρ²"}
    for (excess, (grid, share)), colour, dashes in zip(times.items(), COLOURS, ("-", "--", ":"), strict=True):
        label = names[excess]
        by_time.semilogx(grid, share, color=colour, linestyle=dashes, label=label)
    by_time.set(xlabel="time t", ylim=(0, None), title="fixed θ and ρ; Theorem 8 needs θR² ≤ 4dρ²")
    by_time.legend(loc="lower left")
    by_dimension.set(ylabel="squared error / that of Gaussian noise", title="sensitivity Δ = 1, radius R = 1")
    by_rate.set(title="lines: exact; dots: means of simulations")


def path(rng: np.random.Generator) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Times (points,), one path of a hierarchy there (points, coordinates), and epsilon at DELTA for each time."""
    times = np.unique(np.append(np.geomspace(TIERS[0], TIERS[-1], 160), TIERS))
    start = BrownianMotion(sensitivity=1.0, time=TIERS[0], shape=(len(VALUES),))
    drawn = MultilevelRelease(base=start, times=tuple(times[1:].tolist())).release(VALUES, rng=rng)["statistic"]
    return times, drawn, np.array([float(start.at(t).accountant.epsilon(DELTA)) for t in times.tolist()])


def _path(seed: int = 5) -> Result:
    times, drawn, costs = path(np.random.default_rng(seed))
    level = np.isin(times, TIERS)
    start = BrownianMotion(sensitivity=1.0, time=TIERS[0], shape=(len(VALUES),))
    together = float(MultilevelRelease(base=start, times=TIERS[1:]).accountant.epsilon(DELTA))
    first, *others = (start.at(time).accountant for time in TIERS)
    apart = float(sum(others, start=first).epsilon(DELTA))
    columns = {"time": times.tolist(), "released": level.astype(int).tolist(), "epsilon": costs.tolist()}
    columns |= {f"coordinate_{k}": column.tolist() for k, column in enumerate(drawn.T)}
    columns |= {"epsilon_of_all": [together] * len(times), "epsilon_of_independent_noise": [apart] * len(times)}
    return Result(
        columns=columns, describe=_describe_path, plot=lambda figure: _plot_path(figure, times, drawn, costs, level)
    )


def _describe_path(columns: Columns) -> Statement:
    levels = Table(columns=columns).select(released=1)
    listed = [f"{cost:.2g}" for cost in levels["epsilon"]]
    together, apart = (float(levels[f"epsilon_of_{name}"][0]) for name in ("all", "independent_noise"))
    saved = compared("independent - one path", apart - together)
    words = "less than" if saved.compared else "no less than"
    return Statement(
        f"A statistic of {len(VALUES)} coordinates is released at four noise levels, as a Brownian path at the times "
        f"(noise variances) {join_names([f'{time:g}' for time in levels['time']])}. Each alone costs "
        f"ε = {join_names(listed)} at δ = {DELTA:g}. All four together cost {together:.2g}, as much as the first and "
        f"{words} the {apart:.2g} of four releases with independent noise.",
        (
            *(Finding(f"cost at {time:g}", cost) for time, cost in zip(levels["time"], levels["epsilon"], strict=True)),
            Finding("together", together),
            Finding("first - together", float(levels["epsilon"][0]) - together),
            Finding("independent", apart),
            saved,
        ),
    )


def _plot_path(figure: Any, times: FloatArray, drawn: FloatArray, costs: FloatArray, level: Any) -> None:
    above, below = figure.subplots(2, 1, sharex=True, height_ratios=(2, 1))
    for k, (truth, column, colour) in enumerate(zip(VALUES, drawn.T, COLOURS, strict=True)):
        above.axhline(truth, color=colour, linewidth=0.8, linestyle=":")
        above.semilogx(times, column, color=colour, linewidth=0.9, label=f"coordinate {k + 1}")
        above.semilogx(times[level], column[level], "o", color=colour, markersize=6)
    above.set(ylabel="value with noise", title="dots: released values; dotted lines: private values")
    above.set_xlim(0.22, 22)
    label_lines(above, gap=0.09)
    below.semilogx(times, costs, color=GREY)
    below.semilogx(times[level], costs[level], "o", color=GREY, markersize=6)
    for time, cost in zip(times[level], costs[level], strict=True):
        below.annotate(f"{cost:.2g}", (time, cost), (6, 4), textcoords="offset points")
    below.set_xticks(TIERS, [f"{time:g}" for time in TIERS])
    below.minorticks_off()
    below.set(xlabel="time of the Brownian path: variance of the noise", ylabel="ε at δ = 10⁻⁶ (nats)")
    below.set(xlim=(0.22, 22), ylim=(0, 1.25 * costs[0]))


THEOREM_8 = Experiment(
    name="balle-diffusion-8",
    title="Balle, Barthe, Gaboardi and Geumlek, Theorem 8: Ornstein-Uhlenbeck error beside Gaussian noise's",
    seconds=12,
    run=_theorem_8,
    size=(11.0, 3.8),
    second=lambda: _theorem_8(seed=108, every=4),
)
PATH = Experiment(
    name="balle-diffusion-path",
    title="A statistic at four noise levels, released as one Brownian path",
    seconds=0.64,
    run=_path,
    size=(6.4, 4.8),
    second=lambda: _path(seed=105),
)

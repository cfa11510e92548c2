"""Calibration by simulation: parameters from the prior, data from the parameters, their ranks among posterior draws.

Ranks of a calibrated posterior are uniform (Cook, Gelman and Rubin 2006; Talts et al. 2018). A normal model with
unknown mean and variance, from noisy bounded moments; the noise-aware posterior by NUTS against the plug-in one.
"""

from typing import Any

import numpy as np
from scipy import stats

from privsample._checks import FloatArray
from privsample.accounting.targets import DP
from privsample.distributions.models.moments import NormalUnknownVariance
from privsample.mechanisms.noise.statistics import NoisyStatistics, PrivateStatistics
from privsample.plots.style import BLUE, GREY, ORANGE
from privsample.simulations.experiments.base import Experiment, Result, stacked
from privsample.simulations.experiments.findings import Columns, Statement, Table, compared

MODEL = NormalUnknownVariance(mean=0.0, observations=1.0, shape=4.0, scale=2.0, bounds=(-3.0, 3.0))
SETTINGS = tuple((n, epsilon) for n in (20, 1000) for epsilon in (0.3, 1.0))
DELTA, REPEATS, DRAWS, KEPT, BINS = 1e-5, 200, 198, 99, 10
FALSE_ALARM = 0.01  # of all bars of a method together, and of all its tests together
METHODS = {"noise-aware": BLUE, "plug-in": ORANGE}
PARAMETERS = ("mean", "variance")
AWARE, FIRST, ANEW = "noise-aware", "first", "anew"


def ranks(n: int, epsilon: float, repeats: int, rng: np.random.Generator) -> FloatArray:
    """Of true mean and variance among KEPT draws each, shape (methods, repeats, parameters)."""
    target = DP(epsilon=epsilon, delta=DELTA)
    mechanism = NoisyStatistics.calibrate(model=MODEL, n=n, noise="gaussian", target=target)
    prior = MODEL.posterior(MODEL.empty, 0)
    found = np.empty((len(METHODS), repeats, len(PARAMETERS)))
    for i, theta in enumerate(prior.sample(repeats, rng)):
        private = PrivateStatistics(release=mechanism.release(MODEL.simulate(theta, n, rng), rng=rng))
        aware = private.mcmc(draws=DRAWS, tune=400, chains=1, rng=rng)
        plug_in = private.draw(KEPT, plug_in=True, rng=rng)[MODEL.parameter]
        drawn = np.column_stack([aware[name] for name in PARAMETERS])[:: DRAWS // KEPT]
        found[0, i], found[1, i] = (drawn < theta).sum(axis=0), (plug_in < theta).sum(axis=0)
    return found


def uniformity(found: FloatArray) -> float:
    """p-value of the chi-square test of ranks in {0, ..., KEPT}."""
    return float(stats.chisquare(np.histogram(found, bins=BINS, range=(0, KEPT + 1))[0]).pvalue)


def run(seed: int = 7) -> Result:
    """Simulate all settings; a setting with rejected noise-aware ranks is repeated with new seeds; both are stated."""
    parts: list[dict[str, Any]] = []
    for at, (n, epsilon) in enumerate(SETTINGS):  # each with its own seed: it can be repeated alone
        made = _parts(n, epsilon, FIRST, np.random.default_rng([seed, at]))
        if any(part["p_value"] < level() for part in made if part["method"] == AWARE):
            made += _parts(n, epsilon, ANEW, np.random.default_rng([seed, at, 1]))
        parts += made
    return Result(columns=stacked(parts), describe=_describe, plot=lambda figure: _plot(figure, parts))


def level() -> float:
    """Of one test: those of all panels of a method then have FALSE_ALARM together."""
    return FALSE_ALARM / (len(SETTINGS) * len(PARAMETERS))


def _parts(n: int, epsilon: float, stage: str, rng: np.random.Generator) -> list[dict[str, Any]]:
    found = ranks(n, epsilon, REPEATS, rng)
    place = {"stage": stage, "records": n, "epsilon": epsilon}
    return [
        {**place, "parameter": name, "method": method, "rank": own[:, j], "p_value": uniformity(own[:, j])}
        for j, name in enumerate(PARAMETERS)
        for method, own in zip(METHODS, found, strict=True)
    ]


def band(repeats: int) -> tuple[float, float]:
    """Bar heights between which all bars of a calibrated method lie with probability at least 1 - FALSE_ALARM."""
    each = FALSE_ALARM / (BINS * len(SETTINGS) * len(PARAMETERS))
    low, high = stats.binom.ppf([each / 2, 1 - each / 2], repeats, 1 / BINS)
    return float(low), float(high)


def _describe(columns: Columns) -> Statement:
    words, findings, repeats = [], [], 0
    for method in METHODS:
        panels = [
            Table(columns=columns).select(stage=FIRST, method=method, records=n, epsilon=epsilon, parameter=name)[
                "rank"
            ]
            for n, epsilon in SETTINGS
            for name in PARAMETERS
        ]
        repeats = len(panels[0])
        values = [uniformity(panel) for panel in panels]
        rejected = sum(p < level() for p in values)
        words.append(f"{method}, {rejected} of {len(values)} (p-values from {min(values):.2g} to {max(values):.2g})")
        # Share of ranks in the two outermost bars, for a calibrated method 2 / BINS.
        outer = [
            float(((panel < (KEPT + 1) / BINS) | (panel >= KEPT + 1 - (KEPT + 1) / BINS)).mean()) for panel in panels
        ]
        error = (2 / BINS * (1 - 2 / BINS) / repeats) ** 0.5
        for k, share in enumerate(outer):
            findings.append(compared(f"{method}, outer bars in excess, panel {k + 1}", share - 2 / BINS, error))
        findings += [compared(f"{method}, rejected - 0.5", rejected - 0.5)]
    anew = [Table(columns=columns).select(stage=ANEW, method=AWARE, parameter=name) for name in PARAMETERS]
    again = [
        (n, epsilon, name, uniformity(part["rank"][(part["records"] == n) & (part["epsilon"] == epsilon)]))
        for name, part in zip(PARAMETERS, anew, strict=True)
        for n, epsilon in SETTINGS
        if ((part["records"] == n) & (part["epsilon"] == epsilon)).any()
    ]
    repeated = "".join(
        f" Fresh simulations of the noise-aware {name} at n = {n} and ε = {epsilon:g} have the p-value {p:.2g}."
        for n, epsilon, name, p in again
    )
    findings.append(compared("noise-aware, rejected again - 0.5", sum(p < level() for *_, p in again) - 0.5))
    return Statement(
        f"{repeats} simulations for each n and ε: normal records with mean and variance from the prior, released "
        f"with Gaussian noise at δ = {DELTA:g}. If a posterior is calibrated, the ranks of the true parameters among "
        f"its draws are uniform. Chi-square tests at the level {level():.3g} each, {FALSE_ALARM:.0%} for the "
        f"{len(SETTINGS) * 2} tests of a method together, reject uniform ranks: {'; '.join(words)}.{repeated} The "
        "plug-in posterior treats the noisy moments as exact. It is too narrow, which shows as too many ranks in the "
        "outermost bars.",
        tuple(findings),
    )


def _plot(figure: Any, parts: list[dict[str, Any]]) -> None:
    low, high = band(REPEATS)
    grid = figure.subplots(len(PARAMETERS), len(SETTINGS), sharex=True, sharey=True, squeeze=False)
    bars = BINS * len(SETTINGS) * len(PARAMETERS)
    for row, name in zip(grid, PARAMETERS, strict=True):
        for axes, (n, epsilon) in zip(row, SETTINGS, strict=True):
            words = f"contains all {bars} bars of a calibrated method with probability {1 - FALSE_ALARM:.0%}"
            axes.axhspan(low, high, color=GREY, alpha=0.2, linewidth=0, label=words)
            for part in parts:
                if (part["stage"], part["records"], part["epsilon"], part["parameter"]) == (FIRST, n, epsilon, name):
                    heights, edges = np.histogram(part["rank"], bins=BINS, range=(0, KEPT + 1))
                    colour = METHODS[part["method"]]
                    axes.stairs(heights, edges, color=colour, linewidth=1.5, label=part["method"])
            axes.axhline(REPEATS / BINS, color="black", linewidth=0.8, linestyle=(0, (4, 3)), label="uniform ranks")
            axes.set_title(f"{name}, n = {n}, ε = {epsilon:g}")
    figure.supxlabel(f"rank of the true parameter among {KEPT} draws", fontsize=10)
    figure.supylabel(f"number of simulations (of {REPEATS})", fontsize=10)
    figure.legend(*grid[0, 0].get_legend_handles_labels(), loc="outside upper center", ncols=4)


EXPERIMENT = Experiment(
    name="calibration",
    title="Calibration of the noise-aware posterior by simulation",
    run=run,
    size=(10.0, 4.8),
    second=lambda: run(seed=107),
)

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
from privsample.simulations.experiments.base import Experiment, Result, stacked
from privsample.simulations.report.figures import BLUE, GREY, ORANGE

MODEL = NormalUnknownVariance(mean=0.0, observations=1.0, shape=4.0, scale=2.0, bounds=(-3.0, 3.0))
SETTINGS = tuple((n, epsilon) for n in (20, 1000) for epsilon in (0.3, 1.0))
DELTA, REPEATS, DRAWS, KEPT, BINS = 1e-5, 60, 198, 99, 10
METHODS = {"noise-aware": BLUE, "plug-in": ORANGE}
PARAMETERS = ("mean", "variance")


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


def run() -> Result:
    """All settings, with one seed."""
    rng = np.random.default_rng(7)
    parts: list[dict[str, Any]] = []
    for n, epsilon in SETTINGS:
        found = ranks(n, epsilon, REPEATS, rng)
        for j, name in enumerate(PARAMETERS):
            for method, own in zip(METHODS, found, strict=True):
                told = {"records": n, "epsilon": epsilon, "parameter": name, "method": method}
                parts.append({**told, "rank": own[:, j], "p_value": uniformity(own[:, j])})
    least = {each: [part["p_value"] for part in parts if part["method"] == each] for each in METHODS}
    words = "; ".join(
        f"{method}, {min(values):.2g} to {max(values):.2g}, below 0.01 in {sum(p < 0.01 for p in values)} of "
        f"{len(values)}"
        for method, values in least.items()
    )
    return Result(
        columns=stacked(parts),
        sentence=f"Chi-square tests that the ranks of mean and variance are uniform have the p-values: {words}. Normal "
        f"records, {REPEATS} simulations for each n and ε, δ = {DELTA:g}, Gaussian noise.",
        plot=lambda figure: _plot(figure, parts),
    )


def _plot(figure: Any, parts: list[dict[str, Any]]) -> None:
    low, high = stats.binom.ppf([0.005, 0.995], REPEATS, 1 / BINS)
    grid = figure.subplots(len(PARAMETERS), len(SETTINGS), sharex=True, sharey=True)
    for row, name in zip(grid, PARAMETERS, strict=True):
        for axes, (n, epsilon) in zip(row, SETTINGS, strict=True):
            axes.axhspan(low, high, color=GREY, alpha=0.2, linewidth=0, label="99 % of even ranks, each bar")
            for part in parts:
                if (part["records"], part["epsilon"], part["parameter"]) == (n, epsilon, name):
                    heights, edges = np.histogram(part["rank"], bins=BINS, range=(0, KEPT + 1))
                    colour = METHODS[part["method"]]
                    axes.stairs(heights, edges, color=colour, linewidth=1.5, label=part["method"])
            axes.axhline(REPEATS / BINS, color="black", linewidth=0.8, linestyle=(0, (4, 3)))
            axes.set_title(f"{name}, n = {n}, ε = {epsilon:g}")
    figure.supxlabel(f"rank of the truth among {KEPT} draws", fontsize=10)
    figure.supylabel(f"number of {REPEATS} simulations", fontsize=10)
    figure.legend(*grid[0, 0].get_legend_handles_labels(), loc="outside upper center", ncols=3)


EXPERIMENT = Experiment(
    name="calibration", title="Calibration of the noise-aware posterior by simulation", run=run, size=(10.0, 4.8)
)

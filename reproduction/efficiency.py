"""Mean squared error of private estimators of a share, relative to the least variance, against the number of records.

Source: Geumlek 2020, Theorems 4 and 5 and Remark 1: 2 for a draw from the posterior of a noisy count and 1 for that
posterior's mean, 1 + T for a draw at temperature T. Both mechanisms as in the thesis's Figure 4.1: epsilon = 1, the
tempered posterior truncated to [0.2, 0.8], hence T = 2 log 4.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from privsample._checks import FloatArray
from privsample.distributions.noise import LaplaceNoise
from privsample.plots.style import BLUE, GREEN, ORANGE
from privsample.simulations.report.findings import Columns, Finding, Statement, join_names
from privsample.simulations.report.results import Result, stacked
from reproduction.base import Experiment
from reproduction.tables import Table

SHARE, EPSILON, HELD = 0.3, 1.0, 0.2
TEMPERATURE = 2 * np.log((1 - HELD) / HELD) / EPSILON
SIZES = (10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000, 30_000, 100_000, 1_000_000)
REPEATS = 20_000
Estimator = Callable[[int, int, np.random.Generator], FloatArray]


def draw(n: int, repeats: int, rng: np.random.Generator) -> FloatArray:
    """One draw each from the posteriors of noisy counts, prior Beta(1, 1)."""
    a, b = _noisy(n, repeats, rng)
    return rng.beta(a, b)


def mean(n: int, repeats: int, rng: np.random.Generator) -> FloatArray:
    """The means of the posteriors of noisy counts."""
    a, b = _noisy(n, repeats, rng)
    return a / (a + b)


def _noisy(n: int, repeats: int, rng: np.random.Generator) -> tuple[FloatArray, FloatArray]:
    """Return posteriors of counts with Laplace noise, clipped to [0, n]; one record changes the count by one."""
    noisy = rng.binomial(n, SHARE, repeats) + LaplaceNoise(scale=1 / EPSILON).sample((repeats,), rng)
    held = np.clip(noisy, 0, n)
    return 1 + held, 1 + n - held


def tempered(n: int, repeats: int, rng: np.random.Generator) -> FloatArray:
    """Return one draw each from tempered posteriors, truncated by rejection."""
    ones = rng.binomial(n, SHARE, repeats)
    theta = np.full(repeats, np.nan)
    while (left := np.flatnonzero(np.isnan(theta))).size:
        some = rng.beta(1 + ones[left] / TEMPERATURE, 1 + (n - ones[left]) / TEMPERATURE)
        theta[left] = np.where((some >= HELD) & (some <= 1 - HELD), some, np.nan)
    return theta


ESTIMATORS: dict[str, tuple[Estimator, float, str]] = {
    "tempered draw": (tempered, 1 + TEMPERATURE, GREEN),
    "posterior draw, noisy count": (draw, 2.0, BLUE),
    "posterior mean, noisy count": (mean, 1.0, ORANGE),
}


def ratio(estimates: FloatArray, n: int) -> tuple[float, float]:
    """Return the mean squared error divided by SHARE (1 - SHARE) / n, and its Monte Carlo standard error."""
    squares = (estimates - SHARE) ** 2 / (SHARE * (1 - SHARE) / n)
    return float(squares.mean()), float(squares.std(ddof=1) / len(squares) ** 0.5)


def run(seed: int = 4) -> Result:
    """All estimators at all sizes, with one seed."""
    rng = np.random.default_rng(seed)
    parts: list[dict[str, Any]] = []
    for name, (estimator, limit, _) in ESTIMATORS.items():
        found = np.array([ratio(estimator(n, REPEATS, rng), n) for n in SIZES])
        parts.append(
            {"estimator": name, "records": SIZES, "ratio": found[:, 0], "standard_error": found[:, 1], "limit": limit}
        )
    return Result(columns=stacked(parts), describe=_describe, plot=lambda figure: _plot(figure, parts))


def _describe(columns: Columns) -> Statement:
    large, small, off = [], [], 0
    findings: list[Finding] = []
    for (name,), part in Table(columns=columns).groups("estimator"):
        found, error, limit = (float(part[column][-1]) for column in ("ratio", "standard_error", "limit"))
        off += abs(found - limit) > 2 * error
        findings += [
            Finding(f"{name}, {n:g} records", ratio, error)
            for n, ratio, error in zip(part["records"], part["ratio"], part["standard_error"], strict=True)
            if n in (SIZES[0], SIZES[-1])
        ]
        large.append(f"{found:.2f} ± {2 * error:.2f} (limit {limit:.4g}) for {name}")
        small.append(f"{part['ratio'][0]:.2f} ± {2 * part['standard_error'][0]:.2f}")
    sentence = (
        f"With {SIZES[-1]:,} records the mean squared error, divided by the least variance of an unbiased estimator "
        f"without privacy, is {join_names(large)}; ± two standard errors of the simulation. The limits for n → ∞ are "
        f"those of Theorems 4 and 5 of the thesis (temperature T = {TEMPERATURE:.4g}); {len(large) - off} of "
        f"{len(large)} ratios agree with them within two standard errors. With {SIZES[0]} records the ratios are "
        f"{join_names(small)}."
    )
    return Statement(sentence, tuple(findings))


def _plot(figure: Any, parts: list[dict[str, Any]]) -> None:
    axes = figure.subplots()
    for part in parts:
        colour = ESTIMATORS[part["estimator"]][2]
        axes.axhline(part["limit"], color=colour, linewidth=1.0, linestyle=(0, (4, 3)))
        style = {"fmt": "o-", "markersize": 3.5, "capsize": 2.5, "linewidth": 1.2, "color": colour}
        axes.errorbar(SIZES, part["ratio"], yerr=2 * part["standard_error"], label=part["estimator"], **style)
    axes.set(
        xscale="log",
        ylim=(0, None),
        xlabel="number of records n",
        ylabel="mean squared error /\nleast variance without privacy",
    )
    axes.set_title(f"Share of ones {SHARE:g}, uniform prior, ε = {EPSILON:g}")
    axes.minorticks_off()
    for part in parts:
        label = f"{part['estimator']}\n(dashed: limit {part['limit']:.3g})"
        style = {"fontsize": 9, "va": "bottom", "ha": "right", "color": ESTIMATORS[part["estimator"]][2]}
        axes.annotate(label, (SIZES[-1], part["limit"]), (0, 7), textcoords="offset points", **style)
    axes.set_ylim(top=1.2 * max(part["limit"] for part in parts))


EXPERIMENT = Experiment(
    name="efficiency",
    title="Thesis Theorems 4 and 5: relative efficiency of draws and means",
    seconds=0.5,
    run=run,
    size=(5.2, 4.2),
    second=lambda: run(seed=5),
)

"""Thesis Table 4.1 in numbers: Laplace noise on statistics and the exponential mechanism, column by column.

Source: Geumlek 2020, Table 4.1, with the beta-Bernoulli model of section 4.3. One update of the thesis's Gibbs sampler
is one sweep of `PrivateGibbsHMM` over all emissions.
"""

from itertools import product
from typing import Any

import numpy as np

from privsample._checks import FloatArray
from privsample.accounting.targets import DP
from privsample.distributions.models.beta_bernoulli import BetaBernoulli
from privsample.distributions.noise import LaplaceNoise
from privsample.mechanisms.noise.statistics import NoisyStatistics
from privsample.mechanisms.posterior.gibbs import PrivateGibbsHMM
from privsample.mechanisms.posterior.tempered import TemperedPosterior
from privsample.plots.style import BLUE, ORANGE
from privsample.simulations.report.findings import Columns, Finding, Statement, compared
from privsample.simulations.report.results import Result, stacked
from reproduction import efficiency
from reproduction.base import Experiment
from reproduction.efficiency import EPSILON, HELD, SHARE, TEMPERATURE
from reproduction.tables import Table

LAPLACE, EXPONENTIAL = "Laplace", "exponential"
COLOURS = {LAPLACE: BLUE, EXPONENTIAL: ORANGE}
TRUNCATIONS = (1e-6, 1e-4, 0.01, 0.05, HELD, 0.4)
SIZES = (10, 100, 1000, 10_000, 100_000)
COUNTS = (1, 2, 5, 10, 20, 50, 100)  # of draws, and of Gibbs sweeps
LARGE, REPEATS = 1_000_000, 20_000  # records and simulations of the relative efficiency
N, STATES, STEPS = 1000, 2, 10
SENSITIVITY, SPREAD, DRAWS, ARE, GIBBS = "sensitivity", "posterior variance", "draws", "relative efficiency", "sweeps"


def sensitivities(truncation: float) -> tuple[float, float]:
    """Return both sensitivities, over all pairs of records and both ends and the middle of the parameter's range.

    Records are 0 and 1, the statistic is (x, 1 - x), its parameter (log p, log(1 - p)).
    """
    ends = np.log(truncation), np.log1p(-truncation)
    natural = np.array([ends, (np.log(0.5), np.log(0.5)), ends[::-1]])
    changes = [np.subtract((x, 1 - x), (y, 1 - y)) for x, y in product((0, 1), repeat=2)]
    return max(float(np.abs(c).sum()) for c in changes), max(float(np.abs(natural @ c).max()) for c in changes)


def variance_ratios(n: int, rng: np.random.Generator) -> dict[str, FloatArray]:
    """Variances of the private posteriors divided by that of the true one, (REPEATS,): uniform prior, no truncation."""
    ones = rng.binomial(n, SHARE, REPEATS).astype(float)
    noisy = np.clip(ones + LaplaceNoise(scale=1 / EPSILON).sample((REPEATS,), rng), 0.0, n)

    def variance(count: FloatArray, divisor: float = 1.0) -> FloatArray:
        a, b = 1 + count / divisor, 1 + (n - count) / divisor
        return np.asarray(a * b / ((a + b) ** 2 * (a + b + 1)))

    return {name: found / variance(ones) for name, found in (
        (LAPLACE, variance(noisy)), (EXPONENTIAL, variance(ones, TEMPERATURE)))}  # fmt: skip


def draw_costs(draws: int) -> dict[str, float]:
    """Pure epsilon of posterior draws by the accounts; those from a noisy statistic are free once it is released."""
    model = BetaBernoulli(alpha=1, beta=1)
    statistic = NoisyStatistics(model=model, n=N, noise="laplace", scale=1 / EPSILON)
    drawn = TemperedPosterior(model=model, n=N, temperature=TEMPERATURE, truncation=HELD, draws=draws)
    return {
        LAPLACE: float(statistic.accountant.epsilon(0.0)),
        EXPONENTIAL: float(drawn.accountant.epsilon(0.0)),
    }


def gibbs_costs(sweeps: int, scale: float, temperature: float) -> dict[str, float]:
    """Pure epsilon of a Gibbs sampler for a hidden Markov chain of binary records, by the accounts."""
    chain: dict[str, Any] = {"states": STATES, "categories": (2,), "entries": (N // STEPS,) * STEPS, "sweeps": sweeps}
    noisy, tempered = PrivateGibbsHMM(**chain, scale=scale), PrivateGibbsHMM(**chain, temperature=temperature)
    return {LAPLACE: float(noisy.accountant.epsilon(0.0)), EXPONENTIAL: float(tempered.accountant.epsilon(0.0))}


def one_sweep() -> tuple[float, float]:
    """Return the scale and the temperature at which one sweep costs EPSILON."""
    target, entries = DP(epsilon=EPSILON), (N // STEPS,) * STEPS
    made = [
        PrivateGibbsHMM.calibrate(states=STATES, categories=(2,), entries=entries, sweeps=1, by=by, target=target)
        for by in ("scale", "temperature")
    ]
    assert made[0].scale is not None
    assert made[1].temperature is not None
    return made[0].scale, made[1].temperature


def _run(seed: int = 61) -> Result:
    rng = np.random.default_rng(seed)
    parts: list[dict[str, Any]] = []

    def add(column: str, mechanism: str, x: float, value: float, error: float = 0.0) -> None:
        parts.append({"column": column, "mechanism": mechanism, "x": x, "value": value, "standard_error": error})

    for truncation in TRUNCATIONS:
        for name, value in zip(COLOURS, sensitivities(truncation), strict=True):
            add(SENSITIVITY, name, truncation, value)
    for n in SIZES:
        for name, ratios in variance_ratios(n, rng).items():
            add(SPREAD, name, n, float(ratios.mean()), float(ratios.std(ddof=1) / REPEATS**0.5))
    scale, temperature = one_sweep()
    for count in COUNTS:
        for name, cost in draw_costs(count).items():
            add(DRAWS, name, count, cost)
        for name, cost in gibbs_costs(count, scale, temperature).items():
            add(GIBBS, name, count, cost)
    for estimator, name in (("posterior mean, noisy count", LAPLACE), ("tempered draw", EXPONENTIAL)):
        sample, limit, _ = efficiency.ESTIMATORS[estimator]
        add(ARE, name, limit, *efficiency.ratio(sample(LARGE, REPEATS, rng), LARGE))
    columns = stacked(parts)
    return Result(columns=columns, describe=_describe, plot=lambda figure: _plot(figure, columns))


def _describe(columns: Columns) -> Statement:
    table = Table(columns=columns)
    findings: list[Finding] = []

    def number(column: str, mechanism: str, x: float) -> float:
        part = table.select(column=column, mechanism=mechanism)
        found = Finding(f"{column}, {mechanism}, {x:g}", part.at("x", x, "value"), part.at("x", x, "standard_error"))
        findings.append(found)
        return found.value

    def pair(column: str, x: float, form: str = ".3g") -> str:
        return " and ".join(format(number(column, name, x), form) for name in COLOURS)

    sensitivity = "; ".join(f"{pair(SENSITIVITY, a)} at a = {a:g}" for a in (TRUNCATIONS[0], HELD))
    own = float(BetaBernoulli(alpha=1, beta=1).record_sensitivity.differences.max())
    spread = "; ".join(f"{pair(SPREAD, n, '.3f')} at N = {n:,}" for n in (SIZES[0], SIZES[-1]))
    first, last = COUNTS[0], COUNTS[-1]
    draws = "; ".join(f"{pair(DRAWS, k)} for {k:g}" for k in (first, last))
    sweeps = "; ".join(f"{pair(GIBBS, k)} for {k:g}" for k in (first, last))
    efficiencies = []
    for name in COLOURS:
        row = table.select(column=ARE, mechanism=name)
        value, error, limit = (float(row[key][0]) for key in ("value", "standard_error", "x"))
        findings.append(Finding(f"{ARE}, {name}", value, error))
        efficiencies.append(f"{value:.3f} ± {2 * error:.3f} (table: {limit:.4g})")
    findings += [
        compared(f"{column}, exponential - Laplace", number_of[1] - number_of[0])
        for column in (DRAWS, GIBBS)
        if (number_of := [table.select(column=column, mechanism=name).at("x", last, "value") for name in COLOURS])
    ]
    return Statement(
        "The thesis's Table 4.1 in numbers, Laplace noise on statistics first, the exponential mechanism second. "
        f"Sensitivity of the beta-Bernoulli model with its parameter held to [a, 1 - a]: {sensitivity}. With N "
        f"public, noise on the count of ones alone is enough, with sensitivity {own:g}, as below. S(X) is noised "
        f"or rescaled, so that the variance of the private posterior, divided by that of the true one, is {spread} "
        f"(T = {TEMPERATURE:.4g}). Release of the statistic or of one sample: posterior draws cost ε = {draws}. "
        f"Asymptotic relative efficiency: {' and '.join(efficiencies)}, with {LARGE:,} records. "
        f"Gibbs sampling pays once or per update: sweeps over a hidden Markov chain cost ε = {sweeps}. The chain of "
        "the exponential mechanism is charged for every sweep. The table's exception, that a converged chain pays for "
        "one sample only, is not drawn: it holds in the stationary distribution, which no number of sweeps is proved "
        "to reach.",
        tuple(findings),
    )


def _plot(figure: Any, columns: Columns) -> None:
    table = Table(columns=columns)
    panels = figure.subplots(2, 3).ravel()
    settings = {
        SENSITIVITY: ("Sensitivity", "truncation a of the parameter", "L1 norm of S, or\nlog likelihood (nats)"),
        SPREAD: ("S(X) is noised or rescaled", "number of records N", "posterior variance,\nprivate / true"),
        DRAWS: ("Release: statistics or one sample", "number of posterior draws", "ε (nats)"),
        GIBBS: ("Pay Gibbs cost: once or per update", "number of Gibbs sweeps", "ε (nats)"),
    }
    for axes, (column, (title, x, y)) in zip(panels[[0, 1, 2, 4]], settings.items(), strict=True):
        for name, colour in COLOURS.items():
            part = table.select(column=column, mechanism=name)
            style = {"fmt": "o-", "markersize": 4, "capsize": 3, "linewidth": 1.4, "color": colour}
            axes.errorbar(part["x"], part["value"], yerr=2 * part["standard_error"], label=name, **style)
        axes.set(xscale="log", title=title, xlabel=x, ylabel=y)
        if column in (DRAWS, GIBBS):
            axes.set_yscale("log")
        else:
            axes.set_ylim(0, None)
        axes.minorticks_off()
    bars = panels[3]
    for k, name in enumerate(COLOURS):
        row = table.select(column=ARE, mechanism=name)
        bars.errorbar(
            [k], row["value"], yerr=2 * row["standard_error"], fmt="o", markersize=4, capsize=4, color=COLOURS[name]
        )
        bars.plot([k - 0.25, k + 0.25], np.repeat(row["x"], 2), color=COLOURS[name], linestyle="--", linewidth=1.2)
    bars.set(xlim=(-0.6, 1.6), title="ARE (dashed: 1 and 1 + T)", ylabel="mean squared error /\nleast variance")
    bars.set_ylim(0, 1.15 * float(table.select(column=ARE)["value"].max()))
    bars.set_xticks([0, 1], ["Laplace,\nposterior mean", "exponential,\none draw"])
    panels[5].axis("off")
    handles, labels = panels[0].get_legend_handles_labels()
    words = {LAPLACE: "Laplace noise on statistics", EXPONENTIAL: "exponential mechanism\n(tempered posterior)"}
    panels[5].legend(handles, [words[label] for label in labels], loc="center", fontsize=10)


TABLE = Experiment(
    name="geumlek-table-4.1",
    title="Thesis Table 4.1: Laplace noise on statistics and the exponential mechanism",
    seconds=2.2,
    run=_run,
    size=(10.4, 5.8),
    second=lambda: _run(seed=62),
)

"""Private Langevin draws of a logistic regression in PyMC against its posterior, and a noisy sum for comparison.

Step sizes, clipping and data weight follow public rules of the number of records and features; nothing is tuned. All
chains start at 0.
"""

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
from scipy import special

from privsample._checks import FloatArray
from privsample.accounting.noise.additive import GaussianAccountant
from privsample.accounting.targets import DP, smallest
from privsample.interop.record_models import LogisticModel
from privsample.mechanisms.posterior.langevin_model import LangevinModel
from privsample.plots.style import BLUE, GREEN, ORANGE
from privsample.relations import ReplaceOne
from privsample.simulations.report.findings import Columns, Finding, Statement
from privsample.simulations.report.results import Result, stacked
from reproduction.base import Experiment
from reproduction.tables import Table

DIMENSIONS, SIZES, EPSILONS = (2, 10), (1000, 10_000, 30_000), (1.0, 4.0)
DRAWS = (1, 20)
CHAIN, SUM = "Langevin, {} draw{}", "noisy sum"  # methods
DELTA, STEPS, STEP = 1e-6, 60, 0.2
DATASETS, NUMBERS, MOST_PAIRS = 2, 2_000_000, 30  # data sets, entries of the gradients of a step, pairs of chains
INFORMATION = 0.2  # public guess: curvature of a record's log likelihood along a feature of unit variance


def mechanism(features: int, n: int, epsilon: float, draws: int) -> LangevinModel:
    """The mechanism for this target: each step is a fixed part of the public curvature at its data weight."""
    build, relation = LogisticModel(features=features), ReplaceOne(n=n)
    fixed: dict[str, Any] = {"build": build, "relation": relation, "start": "initial point"}
    fixed |= {"clip": features**0.5 + 1.0, "steps": STEPS, "draws": draws}
    made = LangevinModel(**fixed, step_size=STEP / (1.0 + INFORMATION * n))
    for _ in range(4):  # the step depends on the weight, and the weight on the step
        step_size = STEP / (1.0 + made.data_weight * INFORMATION * n)
        made = LangevinModel.calibrate(**fixed, step_size=step_size, target=DP(epsilon=epsilon, delta=DELTA))
    return made


def posterior(rows: FloatArray, labels: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Means and standard deviations of the posterior, by weighted pairs of mirrored draws around its mode.

    The pairs cancel the error of the mean to first order. For many records the posterior is normal, and few pairs do.
    """
    mode, curvature = np.zeros(rows.shape[1]), np.eye(rows.shape[1])
    for _ in range(30):
        p = special.expit(rows @ mode)
        curvature = np.eye(len(mode)) + (rows * (p * (1 - p))[:, None]).T @ rows
        mode += np.linalg.solve(curvature, rows.T @ (labels - p) - mode)
    root = np.linalg.cholesky(np.linalg.inv(curvature))
    half = np.random.default_rng(0).standard_normal((max(50, min(2000, 20_000_000 // len(rows))), len(mode)))
    away = np.concatenate([half, -half]) @ root.T
    margins = (mode + away) @ rows.T * (2 * labels - 1)
    log_weight = special.log_expit(margins).sum(axis=1) - ((mode + away) ** 2).sum(axis=1) / 2
    log_weight += np.einsum("ij,jk,ik->i", away, curvature, away) / 2
    weight = special.softmax(log_weight)[:, None]
    shift = (weight * away).sum(axis=0)
    spread = np.sqrt((weight * (away - shift) ** 2).sum(axis=0) / (away**2).mean(axis=0))
    return mode + shift, spread * np.sqrt(np.diag(root @ root.T))


def data_set(features: int, n: int, seed: int) -> tuple[FloatArray, FloatArray]:
    """Normal features of unit variance, and labels of a logistic regression with slopes of alternating sign."""
    rng = np.random.default_rng([features, n, seed])
    rows = rng.standard_normal((n, features))
    slope = 1.5 * (-1.0) ** np.arange(features) / features**0.5
    return rows, (rng.random(n) < special.expit(rows @ slope)).astype(np.float64)


class MirroredGenerator(np.random.Generator):
    """A generator whose normal numbers for the second half of the chains are the negative ones of the first.

    The mean of two mirrored chains has hardly any simulation error. Each chain by itself is a draw as any other.
    """

    def standard_normal(self, size: Any = None, *rest: Any, **more: Any) -> Any:
        """Standard normal numbers of an even length, mirrored."""
        half = super().standard_normal((size[0] // 2, *size[1:]), *rest, **more)
        return np.concatenate([half, -half])


@cache
def measured(made: LangevinModel, features: int, n: int, seed: int, numbers: int) -> tuple[FloatArray, FloatArray]:
    """Squared shifts and width ratios of single draws, each (DATASETS, features), in posterior standard deviations."""
    squares, widths = np.empty((2, DATASETS, features))
    pairs = max(2, min(MOST_PAIRS, numbers // (2 * n * features)))
    for k in range(DATASETS):
        rows, labels = data_set(features, n, seed + k)
        mean, deviation = posterior(rows, labels)
        rng = MirroredGenerator(np.random.PCG64([n, features, seed + k]))
        drawn = replace(made, draws=2 * pairs).release({"rows": rows, "label": labels}, rng=rng)["slope"]
        first, second = np.split((drawn - mean) / deviation, 2)
        centres = (first + second) / 2
        squares[k] = centres.mean(axis=0) ** 2 - centres.var(axis=0, ddof=1) / pairs
        widths[k] = np.sqrt(((first - second) ** 2).mean(axis=0) / 4 + centres.var(axis=0, ddof=1))
    return squares, widths


def noisy_sum_width(features: int, n: int, epsilon: float) -> float:
    """Width ratio for the mean of normal rows of unit variance, from a noisy sum of rows clipped to sqrt(features) + 2.

    The noise is known, so the variance of the mean is that of the records plus that of the noise.
    """
    norm = features**0.5 + 2.0
    relation, target = ReplaceOne(n=n), DP(epsilon=epsilon, delta=DELTA)
    noise = smallest(
        lambda amount: amount,
        lambda amount: GaussianAccountant(sensitivity=2 * norm, noise_std=amount, relation=relation),
        target,
        advice="raise epsilon",
    )
    return float(np.sqrt(1.0 + noise**2 / n))


def _run(seed: int = 0) -> Result:
    parts: list[dict[str, Any]] = []
    for features in DIMENSIONS:
        for n in SIZES:
            for epsilon in EPSILONS:
                known = {"features": features, "records": n, "epsilon": epsilon}
                for draws in DRAWS:
                    made = mechanism(features, n, epsilon, draws)
                    squares, widths = measured(replace(made, draws=1), features, n, seed, NUMBERS)
                    parts.append(known | _row(_method(draws), made.data_weight, squares, widths))
                width = np.full((1, 1), noisy_sum_width(features, n, epsilon))
                parts.append(known | _row(SUM, np.nan, np.zeros((1, 1)), width))
    columns = stacked(parts)
    return Result(columns=columns, describe=_describe, plot=lambda figure: _plot(figure, columns))


def _method(draws: int) -> str:
    return CHAIN.format(draws, "" if draws == 1 else "s")


def _row(method: str, weight: float, squares: FloatArray, widths: FloatArray) -> dict[str, Any]:
    """A row of the table: mean square shift and mean width ratio, each with its standard error."""
    (square, error), (width, width_error) = _mean(squares), _mean(widths)
    return {
        "method": method,
        "data_weight": weight,
        "square_shift": square,
        # The squares of few normal numbers vary by more than their own spread often shows.
        "square_shift_error": float(np.hypot(error, np.sqrt(2.0 / squares.size) * square)),
        "width": width,
        "width_error": width_error,
    }


def _mean(values: FloatArray) -> tuple[float, float]:
    """Mean and its standard error; 0 for one value, which is computed exactly."""
    return float(values.mean()), float(values.std(ddof=1) / values.size**0.5) if values.size > 1 else 0.0


def _describe(columns: Columns) -> Statement:
    findings: list[Finding] = []
    sentences = []
    for (features, n), rows in Table(columns=columns).groups("features", "records"):
        words = []
        for (epsilon,), at in rows.groups("epsilon"):
            figures = []
            for (method,), row in at.groups("method"):
                name = f"{features:g} features, {n:g} records, {epsilon:g}, {method}"
                width, error = float(row["width"][0]), float(row["width_error"][0])
                findings.append(Finding(f"{name}, width", width, error))
                text = f"{method} {width:.2f}"
                if method != SUM:
                    square, square_error = float(row["square_shift"][0]), float(row["square_shift_error"][0])
                    findings.append(Finding(f"{name}, square shift", square, square_error))
                    text += f" (shift {max(square, 0.0) ** 0.5:.2f})"
                figures.append(text)
            words.append(f"{', '.join(figures)} at ε = {epsilon:g}")
        sentences.append(f"{features:g} features and {n:,.0f} records: {'; '.join(words)}")
    return Statement(
        "Standard deviation of a private draw of the slopes of a logistic regression, divided by that of the "
        "posterior, and in brackets the root mean square distance of the means in posterior standard deviations, at "
        f"δ = {DELTA:g} for all draws of a release together. {'. '.join(sentences)}. The noisy sum is that of as many "
        "records with the same number of normal features, whose mean is then inferred with the noise in the model: one "
        "release allows any number of draws.",
        tuple(findings),
    )


def _plot(figure: Any, columns: Columns) -> None:
    table = Table(columns=columns)
    panels = figure.subplots(len(EPSILONS), len(DIMENSIONS), squeeze=False, sharex=True, sharey=True)
    methods = [*(_method(draws) for draws in DRAWS), SUM]
    for i, epsilon in enumerate(EPSILONS):
        for j, features in enumerate(DIMENSIONS):
            axes = panels[i][j]
            for method, colour in zip(methods, (BLUE, ORANGE, GREEN), strict=True):
                rows = table.select(epsilon=epsilon, features=features, method=method)
                axes.plot(rows["records"], rows["width"], "o-", color=colour, label=method, markersize=4)
            axes.axhline(1.0, color="0.6", linewidth=0.8)
            axes.set(xscale="log", yscale="log", title=f"{features} features, ε = {epsilon:g}")
            axes.set_yticks([1, 2, 5, 10], ["1", "2", "5", "10"])
            axes.minorticks_off()
    for axes in panels[-1]:
        axes.set_xlabel("records")
    for row in panels:
        row[0].set_ylabel("width / posterior width")
    figure.legend(*panels[0][0].get_legend_handles_labels(), loc="outside upper center", ncols=3)


EXPERIMENT = Experiment(
    name="langevin-model",
    title="Private Langevin draws of a PyMC model: width and shift against the posterior",
    run=_run,
    size=(7.0, 5.4),
    second=lambda: _run(seed=100),
)

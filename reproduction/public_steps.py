"""Public steps at the end of a noisy projected descent from a random start: their number against the dimension.

Source: Balle, Barthe, Gaboardi and Geumlek 2019, Algorithm 1, Theorem 5 and the remark after it (section 4.1).
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import optimize, special

from privsample._checks import FloatArray
from privsample._value import frozen_value
from privsample.accounting.postprocessing.contraction import noise_of_equal_steps
from privsample.accounting.targets import DP
from privsample.distributions.steps.losses import LogisticLoss
from privsample.distributions.steps.starts import UniformInBall
from privsample.mechanisms.noise.additive import GaussianMechanism
from privsample.mechanisms.sgd import NoisyProjectedSGD, PublicRecords
from privsample.plots.style import BLUE, GREEN, GREY, ORANGE
from privsample.simulations.report.findings import Columns, Finding, Statement, compared
from privsample.simulations.report.results import Result
from reproduction.base import Experiment

DIMENSIONS = 2 ** np.arange(1, 11)
TARGET = DP(epsilon=1.0, delta=1e-5)
RATE, PENALTY, RADIUS = 2.0, 0.1, 3.0
NOISE = 0.1  # length of the noise of a step, in units of the largest gradient; each coordinate has its share
RECORDS, RUNS, TESTED = 200, 40, 2000
SIGNAL, HONEST = 0.8, 0.9  # coordinate of a row along its class, and probability that a label is that of the class
_MOST_STEPS = 1 << 40


def loss(dimension: int, penalty: float = PENALTY) -> LogisticLoss:
    """The penalized logistic loss of rows of length one."""
    return LogisticLoss(features=dimension, norm=1.0, radius=RADIUS, penalty=penalty, intercept=False)


def fewest(meets: Callable[[int], bool]) -> int:
    """The fewest steps that meet a condition which more steps meet, too."""
    high = 1
    while not meets(high) and high < _MOST_STEPS:
        high *= 2
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if meets(middle) else (middle, high)
    return high


def steps_needed(dimension: int, penalty: float = PENALTY) -> int:
    """The fewest public steps after which the bound of privsample on the last private record meets the target."""
    one, noise_std = loss(dimension, penalty), NOISE / dimension**0.5
    needed, contraction = one.gradient_sensitivity / noise_std / allowed_shift(), one.contraction(RATE)
    return fewest(lambda steps: bool(noise_of_equal_steps(1.0, contraction, steps) >= needed))


def steps_by_theorem_5(dimension: int) -> int:
    """The same by the paper's Theorem 5, at the Rényi curve of the same Gaussian release; C = 1."""
    one, noise_std = loss(dimension), NOISE / dimension**0.5
    smooth, convex = one.smoothness, one.convexity
    factor, allowed = 1 - 2 * RATE * smooth * convex / (smooth + convex), allowed_shift() ** 2 / 2
    return fewest(lambda k: 2 / (k * noise_std**2) * factor ** ((k + 1) / 2) <= allowed)


def allowed_shift() -> float:
    """The largest shift of a Gaussian release, in standard deviations, that meets the target."""
    return 1.0 / GaussianMechanism.calibrate(sensitivity=1.0, target=TARGET).noise_std


def sample(dimension: int, count: int, rng: np.random.Generator) -> tuple[FloatArray, FloatArray]:
    """Rows of length one, which are SIGNAL or -SIGNAL along the first coordinate, and labels of that class."""
    side = np.where(rng.random(count) < 0.5, 1.0, -1.0)
    rest = rng.standard_normal((count, dimension - 1))
    rest *= (1 - SIGNAL**2) ** 0.5 / np.linalg.norm(rest, axis=1, keepdims=True)
    labels = np.where(rng.random(count) < HONEST, side, -side)
    return np.column_stack([SIGNAL * side, rest]), (labels > 0).astype(np.float64)


def objective(w: FloatArray, rows: FloatArray, labels: FloatArray) -> float:
    """The mean penalized loss."""
    scores = (2 * labels - 1) * (rows @ w)
    return float(-special.log_expit(scores).mean() + PENALTY * (w @ w) / 2)


@frozen_value
class Errors:
    """By dimension: mean excess of the objective over its minimum, with standard errors, private and without noise."""

    private: FloatArray
    private_error: FloatArray
    without_noise: FloatArray
    without_noise_error: FloatArray


def errors(dimensions: FloatArray, steps: FloatArray, rng: np.random.Generator, runs: int) -> Errors:
    """Descents from a uniform start, with the noise that the target needs and with none."""
    rows = []
    for dimension, public_steps in zip(dimensions.tolist(), steps.tolist(), strict=True):
        tested = sample(dimension, TESTED, rng)
        first = np.eye(dimension)[0]
        least = optimize.minimize_scalar(lambda a, e=first, t=tested: objective(a * e, *t), bounds=(0, RADIUS)).fun
        row = []
        for noise_std in (NOISE / dimension**0.5, 1e-9):
            found = [_excess(dimension, public_steps, noise_std, rng, tested) - least for _ in range(runs)]
            row += [np.mean(found), np.std(found, ddof=1) / runs**0.5]
        rows.append(row)
    private, private_error, without_noise, without_noise_error = np.array(rows).T
    return Errors(
        private=private,
        private_error=private_error,
        without_noise=without_noise,
        without_noise_error=without_noise_error,
    )


def _excess(dimension: int, steps: int, noise_std: float, rng: np.random.Generator, tested: Any) -> float:
    """The objective at the release of one descent with these public steps."""
    rows, targets = sample(dimension, steps, rng)
    made = NoisyProjectedSGD(
        loss=loss(dimension),
        n=RECORDS,
        rate=RATE,
        noise_std=noise_std,
        order="given",
        public_tail=steps,
        public=PublicRecords(rows=rows, targets=targets),
        initial=UniformInBall(radius=RADIUS),
    )
    released = made.release(sample(dimension, RECORDS, rng), rng=rng)
    return objective(released["coefficients"][0], *tested)


def _run(seed: int = 11, dimensions: Any = None, runs: int | None = None) -> Result:
    sizes = np.asarray(DIMENSIONS if dimensions is None else dimensions)
    strong, published, convex = (
        np.array([count(int(d)) for d in sizes])
        for count in (steps_needed, steps_by_theorem_5, lambda d: steps_needed(d, 0.0))
    )
    found = errors(sizes, strong, np.random.default_rng(seed), RUNS if runs is None else runs)
    columns = {
        "dimension": sizes.tolist(),
        "steps": strong.tolist(),
        "steps_theorem_5": published.tolist(),
        "steps_convex": convex.tolist(),
        "excess": found.private.tolist(),
        "excess_error": found.private_error.tolist(),
        "excess_without_noise": found.without_noise.tolist(),
        "excess_without_noise_error": found.without_noise_error.tolist(),
    }
    return Result(columns=columns, describe=_describe, plot=lambda figure: _plot(figure, columns))


def _describe(columns: Columns) -> Statement:
    table = {name: np.asarray(column, dtype=float) for name, column in columns.items()}
    first, last = table["dimension"][0], table["dimension"][-1]
    doublings = np.log2(last / first)
    more = {name: (table[name][-1] - table[name][0]) / doublings for name in ("steps", "steps_theorem_5")}
    contraction = loss(2).contraction(RATE)
    expected = np.log(2) / (2 * np.log(1 / contraction))
    growth = (table["steps_convex"][-1] / table["steps_convex"][0]) ** (1 / doublings)
    means = [table[name].mean() for name in ("excess", "excess_without_noise")]
    names = "excess", "excess_without_noise"
    own, other = (np.linalg.norm(table[f"{name}_error"]) / table[name].sum() for name in names)
    ratio = means[0] / means[1]
    error = ratio * float(np.hypot(own, other))
    return Statement(
        f"Public steps at the end of a noisy projected descent that bring the last private record to ε = "
        f"{TARGET.epsilon:g} at δ = {TARGET.delta:g}, if the length of a step's noise does not depend on the dimension "
        f"d. For a {PENALTY:g}-strongly convex loss, d = {first:g} needs {table['steps'][0]:g} steps and d = {last:g} "
        f"needs {table['steps'][-1]:g} by the bound of privsample: {more['steps']:.2f} more for each doubling of d, "
        f"where log 2/(2 log(1/L)) = {expected:.2f} for steps of a fixed size that contract by L = {contraction:.2f}. "
        "By Theorem 5 as "
        f"published the numbers are {table['steps_theorem_5'][0]:g} and {table['steps_theorem_5'][-1]:g}. "
        f"Without strong convexity each doubling of d multiplies the number by {growth:.2f}, from "
        f"{table['steps_convex'][0]:,.0f} to {table['steps_convex'][-1]:,.0f}. Descents from a "
        f"uniform start were drawn: the excess of the objective over "
        f"its minimum, averaged over the dimensions, is {ratio:.2f} ± {2 * error:.2f} (two standard errors) times that "
        "of the same descents without noise.",
        (
            Finding("steps, first", float(table["steps"][0])),
            Finding("steps, last", float(table["steps"][-1])),
            Finding("more per doubling", float(more["steps"])),
            Finding("expected per doubling", float(expected)),
            Finding("Theorem 5, first", float(table["steps_theorem_5"][0])),
            Finding("Theorem 5, last", float(table["steps_theorem_5"][-1])),
            Finding("convex, per doubling", float(growth)),
            Finding("excess / excess without noise", float(ratio), float(error)),
            compared("Theorem 5 - library", float((table["steps_theorem_5"] - table["steps"]).min())),
        ),
    )


def _plot(figure: Any, columns: Columns) -> None:
    left, right = figure.subplots(1, 2)
    sizes = columns["dimension"]
    left.loglog(sizes, columns["steps_convex"], color=GREY, label="convex loss, bound of privsample")
    left.loglog(sizes, columns["steps_theorem_5"], color=ORANGE, linestyle="--", label="strongly convex, Theorem 5")
    left.loglog(sizes, columns["steps"], color=BLUE, label="strongly convex, bound of privsample")
    left.set(xlabel="dimension", ylabel="public steps", title="steps until the last record has ε = 1")
    left.legend()
    for name, colour, label in (
        ("excess", BLUE, "private, with public steps"),
        ("excess_without_noise", GREEN, "the same without noise"),
    ):
        bars = 2 * np.asarray(columns[f"{name}_error"], dtype=float)
        right.errorbar(sizes, columns[name], bars, color=colour, marker="o", capsize=2, label=label)
    right.set(
        xlabel="dimension",
        ylabel="excess of the objective",
        title="from a uniform start, ± 2 standard errors",
        ylim=(0, None),
    )
    right.set_xscale("log")
    right.legend()


PUBLIC = Experiment(
    name="balle-diffusion-public",
    title="Public steps at the end of a descent: their number against the dimension",
    seconds=5.6,
    run=_run,
    size=(8.8, 3.6),
    second=lambda: _run(seed=12, dimensions=2 ** np.arange(1, 11, 3)),
)
